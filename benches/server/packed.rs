//! Compares packed batches with the same items as separate arguments, in items per second of the server's main
//! thread.

use std::fs;

use super::big::Fact;
use super::client::{Requests, encode, packed_pipeline, pipeline};
use super::failure::Failure;
use super::filters;
use super::items::{self, ABSENT, mix};
use super::plan::{Plan, Programs};
use super::process::{Launch, Server};
use super::progress::Progress;
use super::sample::Samples;
use super::series::{SMALL, Scope, Series, Size};
use super::text::two_digits;

/// Items per command.
const BATCH: usize = 1000;
/// Bytes of an item. FIXED needs items of the same length, so the other packings get such items too.
const ITEM_BYTES: usize = 24;

/// What is done with the items.
#[derive(Clone, Copy, PartialEq)]
enum Work {
    Absent,
    Present,
    Add,
}

impl Work {
    /// Returns the command for separate arguments and the command for packed batches.
    const fn commands(self) -> [&'static str; 2] {
        if matches!(self, Self::Add) { ["BF.MADD", "BF.BULKADD"] } else { ["BF.MEXISTS", "BF.BULKEXISTS"] }
    }
}

/// A way to pass items.
#[derive(Clone, Copy, PartialEq)]
enum Packing {
    Arguments,
    Lines,
    Fixed,
    Prefixed,
}

use Packing::{Arguments, Fixed, Lines, Prefixed};
use Work::{Absent, Add, Present};

const FACTS: [(&str, Work, Packing); 9] = [
    ("BF.BULKEXISTS LINES, absent", Absent, Lines),
    ("BF.BULKEXISTS FIXED, absent", Absent, Fixed),
    ("BF.BULKEXISTS PREFIXED, absent", Absent, Prefixed),
    ("BF.BULKEXISTS LINES, present", Present, Lines),
    ("BF.BULKEXISTS FIXED, present", Present, Fixed),
    ("BF.BULKEXISTS PREFIXED, present", Present, Prefixed),
    ("BF.BULKADD LINES, new", Add, Lines),
    ("BF.BULKADD FIXED, new", Add, Fixed),
    ("BF.BULKADD PREFIXED, new", Add, Prefixed),
];

/// Steps of [`measure`].
pub(crate) fn steps(plan: &Plan) -> usize {
    plan.rounds + 1
}

/// Measures a small and a large filter, each in its own server.
pub(crate) fn measure(
    plan: &Plan,
    programs: &Programs,
    progress: &mut Progress,
) -> Result<Vec<Fact>, Failure> {
    let sizes = [SMALL, plan.big];
    let series = Series::new("everbloom", 0, &[], Scope::All);
    let server = Launch::new(&programs.server, &[&programs.module])?.pinned().start()?;
    progress.step("packed batches: fill");
    for size in &sizes {
        filters::make(&server, &series, size)?;
        let mut client = server.client()?;
        let known: Vec<Vec<u8>> = (0..plan.items(BATCH)).map(item).collect();
        for batch in known.chunks(BATCH) {
            let packed = pack(Lines, batch);
            client.call(&[b"BF.BULKADD".as_slice(), size.key(&series).as_bytes(), b"LINES", &packed])?;
        }
    }
    let mut bench = Bench { server, key: String::new(), used: 0, items: plan.items(BATCH) };
    let mut samples: Vec<[Samples; 2]> = vec![Default::default(); FACTS.len() * sizes.len()];
    for round in 0..plan.rounds {
        progress.step(&format!("packed batches: round {}", round + 1));
        for (at, size) in sizes.iter().enumerate() {
            bench.key = size.key(&series);
            for work in [Absent, Present, Add] {
                let base = bench.ns_per_item(size, work, Arguments)?;
                for (index, (_, _, packing)) in FACTS.iter().enumerate().filter(|(_, fact)| fact.1 == work) {
                    let packed = bench.ns_per_item(size, work, *packing)?;
                    let Some([rate, ratio]) = samples.get_mut(index * sizes.len() + at) else { continue };
                    rate.push(1e3 / packed);
                    ratio.push(base / packed);
                }
            }
        }
    }
    let facts = FACTS.iter().zip(samples.chunks(sizes.len())).map(|((what, work, _), samples)| {
        let [other, _] = work.commands();
        let shown = sizes.iter().zip(samples).map(|(size, [rate, ratio])| {
            let (rate, ratio) = (rate.median(), ratio.median());
            format!("{}: {} M items/s, {} times {other}", size.name, two_digits(rate), two_digits(ratio))
        });
        Fact { what, value: shown.collect::<Vec<_>>().join("; "), limit: None }
    });
    Ok(facts.collect())
}

struct Bench {
    server: Server,
    key: String,
    /// Number of items that were used so far.
    used: u64,
    /// Items per measurement.
    items: u64,
}

impl Bench {
    /// Returns the time of the server's main thread per item, in nanoseconds.
    fn ns_per_item(&mut self, size: &Size, work: Work, packing: Packing) -> Result<f64, Failure> {
        let mut key = self.key.clone();
        let mut client = self.server.client()?;
        if work == Add && size.capacity_items() < self.items * 100 {
            key.push_str(":copy");
            client.call(&["COPY", &self.key, &key, "REPLACE"])?;
        }
        let start = self.used;
        self.used += self.items;
        let items: Vec<Vec<u8>> = (start..self.used)
            .map(|number| match work {
                Absent => ABSENT + mix(number) % ABSENT,
                Present => mix(number) % self.items,
                Add => 2 * ABSENT + number,
            })
            .map(item)
            .collect();
        let requests = requests(&key, work, packing, &items);
        let exchange = if packing == Arguments { pipeline } else { packed_pipeline };
        let before = self.main_thread_ns()?;
        let replies = exchange(self.server.socket(), &requests)?;
        let spent = self.main_thread_ns()?.saturating_sub(before);
        let (sum, count) = (u64::try_from(replies.sum)?, self.items);
        let is_right = match work {
            Absent => sum <= count / 10,
            Present => sum == count,
            Add => sum >= count / 10 * 9,
        };
        if !is_right {
            return Err(format!("{sum} of {count} replies of {} are 1", work.commands()[1]).into());
        }
        Ok(spent as f64 / count as f64)
    }

    /// Returns the processor time of the server's main thread, from the kernel.
    fn main_thread_ns(&self) -> Result<u64, Failure> {
        let id = self.server.process();
        let text = fs::read_to_string(format!("/proc/{id}/task/{id}/schedstat"))?;
        Ok(text.split_whitespace().next().ok_or("no schedstat")?.parse()?)
    }
}

fn item(number: u64) -> Vec<u8> {
    let mut item = Vec::new();
    items::write(&mut item, number);
    item.resize(ITEM_BYTES, b'.');
    item
}

fn requests(key: &str, work: Work, packing: Packing, items: &[Vec<u8>]) -> Requests {
    let mut requests = Requests { bytes: Vec::new(), replies: items.len() as u64 };
    let [one_by_one, packed] = work.commands();
    let length = ITEM_BYTES.to_string();
    for batch in items.chunks(BATCH) {
        let mut arguments: Vec<&[u8]> = vec![packed.as_bytes(), key.as_bytes()];
        let data = pack(packing, batch);
        match packing {
            Arguments => {
                arguments = vec![one_by_one.as_bytes(), key.as_bytes()];
                arguments.extend(batch.iter().map(Vec::as_slice));
            }
            Lines => arguments.extend([b"LINES", data.as_slice()]),
            Fixed => arguments.extend([b"FIXED", length.as_bytes(), &data]),
            Prefixed => arguments.extend([b"PREFIXED", data.as_slice()]),
        }
        encode(&mut requests.bytes, &arguments);
    }
    requests
}

fn pack(packing: Packing, items: &[Vec<u8>]) -> Vec<u8> {
    let mut data = Vec::new();
    for item in items {
        if packing == Prefixed {
            data.extend(u32::try_from(item.len()).unwrap_or(u32::MAX).to_le_bytes());
        }
        data.extend_from_slice(item);
        if packing == Lines {
            data.push(b'\n');
        }
    }
    data
}

#[cfg(test)]
mod tests {
    #[test]
    fn items_are_packed_as_the_server_reads_them() {
        use super::*;
        let items = [b"ab".to_vec(), b"c".to_vec()];
        assert_eq!(pack(Lines, &items), b"ab\nc\n");
        assert_eq!(pack(Fixed, &items), b"abc");
        assert_eq!(pack(Prefixed, &items), b"\x02\0\0\0ab\x01\0\0\0c");
        assert!((0..1000).map(item).all(|item| item.len() == ITEM_BYTES));
        let sent = requests("k", Work::Add, Fixed, &[item(1)]);
        assert!(
            sent.bytes
                .starts_with(b"*5\r\n$10\r\nBF.BULKADD\r\n$1\r\nk\r\n$5\r\nFIXED\r\n$2\r\n24\r\n$24\r\n")
        );
        assert_eq!(requests("k", Work::Absent, Arguments, &[item(1), item(2)]).replies, 2);
    }
}
