//! The measured filters, their items and the commands on them.

use redis::Pipeline;

use super::Failure;
use super::server::Server;

/// The error rate of all filters: the default of all modules.
pub(crate) const ERROR_RATE: f64 = 0.01;
/// The number of the first item that is looked up as an absent one.
pub(crate) const ABSENT: u64 = 1 << 40;
/// The format of our own filters, a value of the setting `bf.format`.
const OWN_FORMAT: &str = "everbloom";
/// Items per pipeline, so that its replies fit into the buffers of the socket.
const PIPELINE_ITEMS: u64 = 10_000;

/// The commands on a kind of filter.
#[derive(PartialEq, Eq)]
pub(crate) struct Commands {
    pub(crate) reserve: &'static str,
    pub(crate) add: &'static str,
    pub(crate) add_many: &'static str,
    pub(crate) exists: &'static str,
    pub(crate) exists_many: &'static str,
}

const BLOOM: Commands = Commands {
    reserve: "BF.RESERVE",
    add: "BF.ADD",
    add_many: "BF.MADD",
    exists: "BF.EXISTS",
    exists_many: "BF.MEXISTS",
};
const CUCKOO: Commands = Commands {
    reserve: "CF.RESERVE",
    add: "CF.ADD",
    add_many: "CF.INSERT",
    exists: "CF.EXISTS",
    exists_many: "CF.MEXISTS",
};

/// A kind of filter in one of the servers.
#[derive(Clone)]
pub(crate) struct Filter {
    /// The index of the server.
    pub(crate) server: usize,
    /// The name in the results.
    pub(crate) name: &'static str,
    /// The setting `bf.format` for it, if the module has this setting.
    format: Option<&'static str>,
    /// The options of BF.RESERVE or CF.RESERVE; `None` if the filter is not reserved.
    options: Option<&'static str>,
    pub(crate) commands: &'static Commands,
}

impl Filter {
    /// Returns the kinds of filter that a server can make.
    pub(crate) fn all(server: usize, module: &mut Server) -> Vec<Self> {
        let own = OWN_FORMAT;
        let wanted = [
            ("unreserved", Some(own), None, &BLOOM),
            ("reserved", Some(own), Some(""), &BLOOM),
            ("counting", Some(own), Some("COUNTING"), &BLOOM),
            ("window", Some(own), Some("WINDOW 3600"), &BLOOM),
            ("window of 120 steps", Some(own), Some("WINDOW 3600 STEPS 120"), &BLOOM),
            ("CF.RESERVE", Some(own), Some(""), &CUCKOO),
            ("redisbloom unreserved", Some("redisbloom"), None, &BLOOM),
            ("redisbloom reserved", Some("redisbloom"), Some(""), &BLOOM),
            ("redisbloom CF.RESERVE", Some("redisbloom"), Some(""), &CUCKOO),
            ("valkey-bloom unreserved", Some("valkey-bloom"), None, &BLOOM),
            ("valkey-bloom reserved", Some("valkey-bloom"), Some(""), &BLOOM),
            // The filters of other modules.
            ("unreserved", None, None, &BLOOM),
            ("reserved", None, Some(""), &BLOOM),
            ("CF.RESERVE", None, Some(""), &CUCKOO),
        ];
        let has_formats = module.say(&format!("CONFIG SET bf.format {own}")).is_ok();
        let filters = wanted.into_iter().filter(|(_, format, ..)| format.is_some() == has_formats);
        filters
            .map(|(name, format, options, commands)| Self { server, name, format, options, commands })
            .filter(|filter| {
                // An earlier version of our module may lack a kind.
                let is_made = filter.make(module, "probe", 100).is_ok();
                is_made && module.say("FLUSHALL").is_ok()
            })
            .collect()
    }

    /// Returns whether `BF.*` works on the filter in every module.
    pub(crate) fn is_bloom(&self) -> bool {
        *self.commands == BLOOM
    }

    /// Returns whether BF.DEL or CF.DEL deletes items of the filter.
    pub(crate) fn can_delete(&self) -> bool {
        self.name == "counting" || !self.is_bloom()
    }

    /// Returns whether the filter is made with BF.RESERVE or CF.RESERVE.
    pub(crate) fn is_reserved(&self) -> bool {
        self.options.is_some()
    }

    /// Returns whether an empty filter takes as many bytes as a full one. The memory of other filters grows with their
    /// items.
    pub(crate) fn has_all_bytes_at_once(&self) -> bool {
        self.options == Some("") && self.is_bloom()
    }

    /// Returns whether it is a Bloom filter of our module, which has commands that other modules lack.
    pub(crate) fn is_own(&self) -> bool {
        self.format.is_some() && self.is_bloom()
    }

    /// Returns whether two such filters can be merged when both are full.
    pub(crate) fn can_merge(&self) -> bool {
        self.format == Some(OWN_FORMAT) && self.is_bloom()
    }

    /// Creates an empty filter for that number of items, if it is reserved. Others are created by their first add.
    pub(crate) fn make(&self, server: &mut Server, key: &str, items: u64) -> Result<(), Failure> {
        if let Some(format) = self.format {
            server.say(&format!("CONFIG SET bf.format {format}"))?;
        }
        let Some(options) = self.options else { return Ok(()) };
        let rate = if self.is_bloom() { format!("{ERROR_RATE} ") } else { String::new() };
        server.say(&format!("{} {key} {rate}{items} {options}", self.commands.reserve))
    }
}

/// Returns the item with this number: `user:`, twelve digits, and up to 15 more letters, 17 to 32 bytes together.
pub(crate) fn item(number: u64) -> String {
    let letters = usize::try_from(mix(number) % 16).unwrap_or(0);
    let mut item = format!("user:{number:012}{}", "abcdefghijklmno".split_at(letters).0);
    item.truncate(32);
    item
}

/// Returns a pseudo-random number that depends only on `number` (SplitMix64, Steele, Lea and Flood, 2014).
pub(crate) fn mix(number: u64) -> u64 {
    let mut word = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}

/// Returns pipelines of commands with `per_command` items each. The last command may have fewer items. BF.BULK commands
/// get their items in one packed argument. `key` returns the key of the command at a place.
pub(crate) fn pipelines(
    command: &str,
    key: impl Fn(u64) -> String,
    per_command: u64,
    numbers: impl Iterator<Item = u64>,
) -> impl Iterator<Item = Pipeline> {
    let (mut numbers, mut place) = (numbers.peekable(), 0);
    std::iter::from_fn(move || {
        numbers.peek()?;
        let mut pipeline = Pipeline::new();
        for _ in 0..(PIPELINE_ITEMS / per_command).max(1) {
            let items: Vec<String> = (0..per_command).map_while(|_| numbers.next()).map(item).collect();
            if items.is_empty() {
                break;
            }
            let one = pipeline.cmd(command).arg(key(place));
            if command == CUCKOO.add_many {
                one.arg("ITEMS");
            }
            if command.starts_with("BF.BULK") {
                one.arg("LINES").arg(items.join("\n"))
            } else {
                one.arg(items)
            };
            place += 1;
        }
        Some(pipeline)
    })
}
