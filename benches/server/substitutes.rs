//! Measures ways to remember items without a module: bits of a string that are set by a script or one by one, a set,
//! and a key per item.

use everbloom::bloom::hash::murmur3::hash128;

use super::client::{Requests, Value, encode, encode_argument, encode_head, pipeline};
use super::failure::Failure;
use super::items::{self, ABSENT, mix};
use super::plan::Plan;
use super::process::Server;
use super::progress::Progress;
use super::sample::Samples;

/// Bits of the bitmaps: 1 MB.
const BITMAP_BITS: u64 = 1 << 23;
/// Sets the bits whose positions are the arguments.
const SET_SCRIPT: &str = "for i = 1, #ARGV do redis.call('SETBIT', KEYS[1], ARGV[i], 1) end";
/// Returns 1 if all bits whose positions are the arguments are set, otherwise 0. Ends at the first clear bit.
const GET_SCRIPT: &str =
    "for i = 1, #ARGV do if redis.call('GETBIT', KEYS[1], ARGV[i]) == 0 then return 0 end end return 1";

/// A way to remember items.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Bits of a string, all bits of an item in one script.
    Script { probes: u8 },
    /// Bits of a string, one command for each bit, all in one pipeline.
    Bits { probes: u8 },
    /// Members of a set.
    Set,
    /// A key per item.
    Keys,
}

/// Name, way, items per command, and number of items.
const WAYS: [(&str, Way, usize, u64); 7] = [
    // go-zero's documentation recommends 20 bits per item, its code has 14 probes.
    ("go-zero: 14 bits, by script", Way::Script { probes: 14 }, 1, BITMAP_BITS / 20),
    ("PHP: 3 bits, one by one", Way::Bits { probes: 3 }, 1, BITMAP_BITS / 8),
    ("PHP: 3 bits, by script", Way::Script { probes: 3 }, 1, BITMAP_BITS / 8),
    ("SADD, SISMEMBER", Way::Set, 1, 1_000_000),
    ("SADD, SMISMEMBER", Way::Set, 100, 1_000_000),
    ("SET, GET", Way::Keys, 1, 1_000_000),
    ("MSET, MGET", Way::Keys, 100, 1_000_000),
];

/// The cost of one way.
pub(crate) struct Substitute {
    /// Its name in the table.
    pub(crate) name: &'static str,
    /// Items per command.
    pub(crate) per_command: usize,
    /// Server time to add a new item, in nanoseconds.
    pub(crate) add_ns: Samples,
    /// Server time to check an item, in nanoseconds; half of the items were added.
    pub(crate) check_ns: Samples,
    /// Memory per item, in bits.
    pub(crate) item_bits: f64,
    /// Share of absent items that were found.
    pub(crate) measured_rate: f64,
}

/// Measures every way.
pub(crate) fn measure(
    plan: &Plan,
    server: &Server,
    progress: &mut Progress,
) -> Result<Vec<Substitute>, Failure> {
    let mut substitutes = Vec::new();
    for (name, way, per_command, held) in WAYS {
        progress.step(name);
        let one = One { way, per_command, held: held.min(plan.substitute_items_max), server };
        let (item_bits, measured_rate) = one.fill(plan)?;
        let (mut add_ns, mut check_ns) = (Samples::default(), Samples::default());
        for round in 0..plan.rounds as u64 {
            let count = plan.items(per_command) / 3;
            add_ns.push(one.time(true, (0..count).map(|index| 2 * ABSENT + round * count + index))?);
            let halves = (0..count).map(|index| {
                let chance = mix(round * count + index);
                if chance & 1 == 1 { mix(chance) % one.held } else { ABSENT + chance % ABSENT }
            });
            check_ns.push(one.time(false, halves)?);
        }
        substitutes.push(Substitute { name, per_command, add_ns, check_ns, item_bits, measured_rate });
        server.client()?.say("FLUSHDB")?;
    }
    Ok(substitutes)
}

struct One<'a> {
    way: Way,
    per_command: usize,
    held: u64,
    server: &'a Server,
}

/// Key of the bitmap or the set.
const KEY: &[u8] = b"substitute";

impl One<'_> {
    /// Adds the items. Returns the bits per item and the share of absent items that are found.
    fn fill(&self, plan: &Plan) -> Result<(f64, f64), Failure> {
        let mut client = self.server.client()?;
        client.say("FLUSHDB")?;
        let before = client.info("memory")?.number("used_memory")?;
        match self.way {
            Way::Script { probes } | Way::Bits { probes } => {
                // Computes the bitmap here, since setting the bits one by one would take longer than all measurements.
                let mut bitmap = vec![0u8; usize::try_from(BITMAP_BITS / 8)?];
                let mut item = Vec::new();
                for number in 0..self.held {
                    for position in positions(&mut item, number, probes) {
                        let byte = bitmap.get_mut(usize::try_from(position / 8)?).ok_or("outside")?;
                        *byte |= 0x80 >> (position % 8);
                    }
                }
                client.call(&[b"SET", KEY, &bitmap])?;
            }
            Way::Set | Way::Keys => {
                let many = Self { per_command: 1000, ..*self };
                pipeline(self.server.socket(), &many.requests(true, 0..self.held, &mut client)?)?;
            }
        }
        let bytes = match self.way {
            // The items are in many keys, so their memory is the difference of the server's memory.
            Way::Keys => client.info("memory")?.number("used_memory")? - before,
            _ => client.number(&format!("MEMORY USAGE {} SAMPLES 0", String::from_utf8_lossy(KEY)))?,
        };
        let measured_rate = match self.way {
            Way::Script { probes } | Way::Bits { probes } => {
                let script = Self { way: Way::Script { probes }, ..*self };
                let probes = plan.substitute_probes;
                let requests = script.requests(false, ABSENT..ABSENT + probes, &mut client)?;
                pipeline(self.server.socket(), &requests)?.sum as f64 / probes as f64
            }
            Way::Set | Way::Keys => 0.0,
        };
        Ok((bytes as f64 * 8.0 / self.held as f64, measured_rate))
    }

    /// Returns the server's nanoseconds per item.
    fn time(&self, adds: bool, numbers: impl Iterator<Item = u64>) -> Result<f64, Failure> {
        let mut client = self.server.client()?;
        let numbers: Vec<u64> = numbers.collect();
        let count = numbers.len() as f64;
        let requests = self.requests(adds, numbers.into_iter(), &mut client)?;
        client.say("CONFIG RESETSTAT")?;
        pipeline(self.server.socket(), &requests)?;
        let command = self.command(adds).to_ascii_lowercase();
        Ok(client.info("commandstats")?.part(&format!("cmdstat_{command}"), "usec")? * 1000.0 / count)
    }

    fn command(&self, adds: bool) -> &'static str {
        match (self.way, adds, self.per_command) {
            (Way::Script { .. }, _, _) => "EVALSHA",
            (Way::Bits { .. }, true, _) => "SETBIT",
            (Way::Bits { .. }, false, _) => "GETBIT",
            (Way::Set, true, _) => "SADD",
            (Way::Set, false, 1) => "SISMEMBER",
            (Way::Set, false, _) => "SMISMEMBER",
            (Way::Keys, true, 1) => "SET",
            (Way::Keys, true, _) => "MSET",
            (Way::Keys, false, 1) => "GET",
            (Way::Keys, false, _) => "MGET",
        }
    }

    fn requests(
        &self,
        adds: bool,
        numbers: impl Iterator<Item = u64>,
        client: &mut super::client::Client,
    ) -> Result<Requests, Failure> {
        let numbers: Vec<u64> = numbers.collect();
        let command = self.command(adds);
        let mut requests = Requests::default();
        let mut item = Vec::new();
        match self.way {
            Way::Script { probes } => {
                let script = if adds { SET_SCRIPT } else { GET_SCRIPT };
                let Value::Bytes(digest) = client.call(&["SCRIPT", "LOAD", script])? else {
                    return Err("SCRIPT LOAD returned no digest".into());
                };
                requests.replies = numbers.len() as u64;
                for number in numbers {
                    encode_head(&mut requests.bytes, usize::from(probes) + 4);
                    for argument in [command.as_bytes(), &digest, b"1", KEY] {
                        encode_argument(&mut requests.bytes, argument);
                    }
                    for position in positions(&mut item, number, probes) {
                        encode_argument(&mut requests.bytes, position.to_string().as_bytes());
                    }
                }
            }
            Way::Bits { probes } => {
                requests.replies = numbers.len() as u64 * u64::from(probes);
                for number in numbers {
                    for position in positions(&mut item, number, probes) {
                        let position = position.to_string();
                        let value: &[&[u8]] = if adds { &[b"1"] } else { &[] };
                        let arguments = [&[command.as_bytes(), KEY, position.as_bytes()], value].concat();
                        encode(&mut requests.bytes, &arguments);
                    }
                }
            }
            Way::Set | Way::Keys => {
                let has_key = self.way == Way::Set;
                let has_values = self.way == Way::Keys && adds;
                for group in numbers.chunks(self.per_command) {
                    // A command that adds many items returns one reply.
                    requests.replies += if adds { 1 } else { group.len() as u64 };
                    let words = 1 + usize::from(has_key) + group.len() * (1 + usize::from(has_values));
                    encode_head(&mut requests.bytes, words);
                    encode_argument(&mut requests.bytes, command.as_bytes());
                    if has_key {
                        encode_argument(&mut requests.bytes, KEY);
                    }
                    for number in group {
                        items::write(&mut item, *number);
                        encode_argument(&mut requests.bytes, &item);
                        if has_values {
                            encode_argument(&mut requests.bytes, b"1");
                        }
                    }
                }
            }
        }
        Ok(requests)
    }
}

/// Returns the bits that go-zero sets for an item. Each is the first half of the murmur3 x64_128 hash of the item and
/// one more byte, 0 to `probes` - 1, modulo the number of bits. The article for PHP uses three other hashes, which take
/// the server the same time.
fn positions(item: &mut Vec<u8>, number: u64, probes: u8) -> Vec<u64> {
    items::write(item, number);
    let length = item.len();
    (0..probes)
        .map(|salt| {
            item.truncate(length);
            item.push(salt);
            hash128(item).h1 % BITMAP_BITS
        })
        .collect()
}
