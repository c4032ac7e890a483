//! A simulated server for tests. It runs commands with the same function as the module and records their effects.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;

use everbloom_command::rings::Rings;
use everbloom_command::totals::{CountedFilter, FilterTotals};
use everbloom_command::{
    COMMANDS, Command, Effects, Protocol, Refusals, ReplicatedCommand, Replication, Settings,
    end_after_panic, execute, growth_line, import_line,
};
use everbloom_filter::cuckoo::array::BucketArray;
use everbloom_filter::cuckoo::filter::CuckooFilter;
use everbloom_filter::filter::dumps::Remembered;
use everbloom_filter::filter::loading::FilterValue;
use everbloom_filter::prefetch::NoPrefetch;
use everbloom_filter::work::{self, Work};
use everbloom_filter::{Filter, ItemHash, UnknownMemory, Validation};

use super::keyspace::{CALLS_LEFT, Collected, Database, TestRing};
use super::saved::{complete, cuckoo_fingerprint, digested_value, fingerprint};
use super::slices;
use super::work::{SLOTS_PER_BYTE, assert_work};

/// The initial time of the clock.
pub const NOW_MS: u64 = 1_000_000;

/// Filters up to this size are fully validated after every command, larger ones without their contents.
const VALIDATED_MAX_BYTES: u64 = 4 << 20;

/// A server with one database. It has filters only, and a value of another type under the key `string`.
pub struct Server {
    pub settings: Settings,
    pub is_replicated: bool,
    /// The time of the clock.
    pub now_ms: u64,
    pub protocol: Protocol,
    drawn: u64,
    /// How often the last command asked for the limit of bytes.
    pub limit_asked: usize,
    /// The work of the last command.
    pub work: Work,
    /// The number of layers and tables that the last command added to its filter, or that its new filter has.
    pub layers_gained: usize,
    pub keys: BTreeMap<Vec<u8>, FilterValue>,
    /// The cuckoo filters of RedisBloom, by their keys.
    pub cuckoos: BTreeMap<Vec<u8>, CuckooFilter>,
    /// What reading commands remember about filters, by their keys.
    remembered: BTreeMap<Vec<u8>, Remembered>,
    /// The keys whose values this server is saving, as one that saves without a fork.
    pub in_use: BTreeSet<Vec<u8>>,
    /// The changes of the filters that somebody follows.
    pub rings: Rc<RefCell<Rings>>,
    /// The rings of these filters, by their keys.
    followed: BTreeMap<Vec<u8>, TestRing>,
    /// The string values that BF.IMPORT can read, by key.
    pub strings: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The replicated commands, one line each.
    pub replicated: Vec<String>,
    /// The same commands, argument by argument, for arguments that are not text.
    pub replicated_calls: Vec<Vec<Vec<u8>>>,
    /// The last reply, value by value.
    pub reply: Vec<String>,
    /// The last bulk reply, byte for byte. `reply` has only its text or its length.
    pub bulk: Vec<u8>,
    /// The expiry times of keys, in milliseconds of UNIX time.
    pub expiries: Vec<(String, u64)>,
    /// Keyspace events.
    pub events: Vec<&'static str>,
    /// Called with `true` when code of a command begins to run, and with `false` when code of this server does. So a
    /// test can fail allocations of the command alone.
    pub watch: fn(bool),
    /// Whether the contents of filters are validated after the next commands, and not only their parts.
    pub is_thorough: bool,
    /// Lines for the log.
    pub log: Vec<String>,
    refusals: Refusals,
    /// Whether the last command panicked as a test has requested.
    pub has_panicked: bool,
    /// Whether the server has ended: it has aborted or exited.
    pub has_ended: bool,
}

/// Returns the totals over filters, and the part of each.
fn counted(filters: &BTreeMap<Vec<u8>, FilterValue>) -> (FilterTotals, BTreeMap<Vec<u8>, CountedFilter>) {
    let totals = FilterTotals::new();
    let count =
        |(key, filter): (&Vec<u8>, &FilterValue)| (key.clone(), CountedFilter::count(&totals, filter));
    let counted = filters.iter().map(count).collect();
    (totals, counted)
}

impl Server {
    pub fn new() -> Self {
        Self {
            settings: Settings::DEFAULT,
            is_replicated: false,
            now_ms: NOW_MS,
            protocol: Protocol::Resp2,
            drawn: 0,
            limit_asked: 0,
            work: Work::default(),
            layers_gained: 0,
            keys: BTreeMap::new(),
            cuckoos: BTreeMap::new(),
            remembered: BTreeMap::new(),
            in_use: BTreeSet::new(),
            rings: Rc::default(),
            followed: BTreeMap::new(),
            strings: BTreeMap::new(),
            replicated: Vec::new(),
            replicated_calls: Vec::new(),
            reply: Vec::new(),
            bulk: Vec::new(),
            expiries: Vec::new(),
            events: Vec::new(),
            watch: |_| {},
            is_thorough: true,
            log: Vec::new(),
            refusals: Refusals::new(),
            has_panicked: false,
            has_ended: false,
        }
    }

    /// Returns a server whose clock shows this time.
    pub fn at(now_ms: u64) -> Self {
        Self { now_ms, ..Self::new() }
    }

    /// Returns the filter under a key, which must be there.
    pub fn filter(&self, key: &str) -> &Filter {
        match &self.keys[key.as_bytes()] {
            FilterValue::Complete(filter) => filter,
            FilterValue::Loading(_) => panic!("{key} is being loaded"),
        }
    }

    /// Returns the filter under a key, which must be there, to change it.
    pub fn filter_mut(&mut self, key: &str) -> &mut Filter {
        self.keys.get_mut(key.as_bytes()).unwrap().filter_mut()
    }

    /// Returns which of these numbers the filter under a key has.
    pub fn held(&self, key: &str, numbers: Range<u64>) -> Vec<u64> {
        let filter = self.filter(key);
        numbers.filter(|number| filter.contains(number.to_string().as_bytes(), NoPrefetch)).collect()
    }

    /// Gives a filter another key, in place of the filter there.
    pub fn rename(&mut self, from: &str, to: &str) {
        let value = self.keys.remove(from.as_bytes()).unwrap();
        self.keys.insert(to.as_bytes().to_vec(), value);
        self.followed.remove(to.as_bytes());
        let ring = self.followed.remove(from.as_bytes()).map(|ring| (to.as_bytes().to_vec(), ring));
        self.followed.extend(ring);
    }

    /// Stores a filter under a key.
    pub fn set(&mut self, key: &str, filter: Filter) {
        self.remembered.remove(key.as_bytes());
        self.followed.remove(key.as_bytes());
        self.keys.insert(key.as_bytes().to_vec(), FilterValue::Complete(filter));
    }

    /// Removes the filter under a key, which must be there.
    pub fn take(&mut self, key: &str) -> Filter {
        self.followed.remove(key.as_bytes());
        complete(self.keys.remove(key.as_bytes()).unwrap())
    }

    /// Returns all filters that are complete.
    pub fn filters(&self) -> impl Iterator<Item = &Filter> {
        self.keys.values().filter_map(|value| match value {
            FilterValue::Complete(filter) => Some(filter),
            FilterValue::Loading(_) => None,
        })
    }

    /// Stores a copy of a value under another key, without its dumps.
    pub fn copy(&mut self, from: &str, to: &str) {
        let copy = self.keys[from.as_bytes()].try_clone(UnknownMemory).unwrap();
        self.remembered.remove(to.as_bytes());
        self.followed.remove(to.as_bytes());
        self.keys.insert(to.as_bytes().to_vec(), copy);
    }

    /// Removes the value under a key, if there is one.
    pub fn forget(&mut self, key: &[u8]) {
        self.keys.remove(key);
        self.cuckoos.remove(key);
        self.remembered.remove(key);
        self.followed.remove(key);
    }

    /// Returns the commands that were replicated since the last call, and forgets the effects of commands.
    pub fn take_replicated(&mut self) -> Vec<Vec<Vec<u8>>> {
        self.replicated.clear();
        self.events.clear();
        self.log.clear();
        self.expiries.clear();
        std::mem::take(&mut self.replicated_calls)
    }

    /// Returns the bytes of everything in which the filter under a key can differ from another filter.
    pub fn digested(&self, key: &str) -> Vec<u8> {
        digested_value(&self.keys[key.as_bytes()])
    }

    /// Returns for each key a hash of everything in which its filter can differ from another filter.
    pub fn state(&self) -> BTreeMap<Vec<u8>, ItemHash> {
        let filters = self.keys.iter().map(|(key, filter)| (key.clone(), fingerprint(filter)));
        let cuckoos = self.cuckoos.iter().map(|(key, filter)| (key.clone(), cuckoo_fingerprint(filter)));
        filters.chain(cuckoos).collect()
    }

    /// Runs the replicated commands on a replica with these settings, and checks that it has the same filters.
    pub fn assert_replicated(&self, settings: Settings) {
        let mut replica = Self { settings, ..Self::at(self.now_ms) };
        replica.replay(&self.replicated_calls);
        assert_eq!(replica.state(), self.state());
    }

    /// Runs the replicated commands on a replica years later, and checks that it has the same filters.
    pub fn assert_replayed_later(&self) {
        let mut replica = Self::at(self.now_ms + 100_000_000_000);
        replica.replay(&self.replicated_calls);
        replica.now_ms = self.now_ms;
        assert_eq!(replica.state(), self.state());
    }

    /// Runs replicated commands as a replica does, except those of the server itself. Its own append-only file has what it
    /// was sent, and not more.
    pub fn replay(&mut self, calls: &[Vec<Vec<u8>>]) {
        self.is_replicated = true;
        for call in calls.iter().filter(|call| call[0] != b"PEXPIREAT") {
            let before = self.replicated_calls.len();
            let reply = self.call(&slices(call));
            let line = call.join(&b' ');
            assert!(!reply.contains("-ERR"), "{reply} to {}", line.escape_ascii());
            for written in self.replicated_calls.iter().skip(before) {
                let written = written.join(&b' ');
                assert!(written == line, "{} for {}", written.escape_ascii(), line.escape_ascii());
            }
        }
    }

    /// Runs a command line, which must have no error. Returns its reply.
    pub fn must(&mut self, line: &str) -> String {
        let reply = self.run(line);
        assert!(!reply.starts_with('-') && !reply.contains(" -"), "{line}: {reply}");
        reply
    }

    /// Runs a command on the items of this name with these numbers, in batches of 1000 items. Returns all replies.
    pub fn batches(&mut self, command: &str, name: &str, numbers: Range<u64>) -> String {
        let mut replies = String::new();
        for first in numbers.clone().step_by(1000) {
            let items = (first..numbers.end.min(first + 1000)).map(|number| format!(" {name}{number}"));
            replies += &self.run(&format!("{command}{}", items.collect::<String>()));
        }
        replies
    }

    /// Adds items of this name with these numbers, which must be accepted.
    pub fn add(&mut self, key: &str, name: &str, numbers: Range<u64>) {
        let replies = self.batches(&format!("BF.MADD {key}"), name, numbers);
        assert!(!replies.contains("-ERR"), "{key}: {replies}");
    }

    /// Returns how many items of this name with these numbers are found.
    pub fn found(&mut self, key: &str, name: &str, numbers: Range<u64>) -> u64 {
        self.batches(&format!("BF.MEXISTS {key}"), name, numbers).matches("#t").count() as u64
    }

    /// Returns the number in a field of BF.INFO.
    pub fn number(&mut self, key: &str, field: &str) -> f64 {
        let reply = self.run(&format!("BF.INFO {key} {field}"));
        let text = reply.trim_start_matches("*1 ").trim_start_matches([':', ',']);
        text.parse().unwrap_or_else(|_| panic!("{field} of {key}: {reply}"))
    }

    /// Runs a command line as the module does. Returns its reply.
    pub fn run(&mut self, line: &str) -> String {
        self.call(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>())
    }

    /// Runs a command like [`Self::run`]. Its arguments may be empty, binary or contain spaces.
    pub fn call(&mut self, argv: &[&[u8]]) -> String {
        let line = line_of(argv);
        let (totals, parts) = counted(&self.keys);
        self.remembered.retain(|key, _| self.keys.contains_key(key));
        let mut keyspace = Database {
            totals: &totals,
            counted: RefCell::new(parts),
            remembered: RefCell::new(std::mem::take(&mut self.remembered)),
            in_use: &self.in_use,
            expiries: RefCell::default(),
            settings: self.settings,
            is_replicated: self.is_replicated,
            now_ms: self.now_ms,
            drawn: Cell::new(self.drawn),
            limit_asked: Cell::new(0),
            filters: RefCell::new(std::mem::take(&mut self.keys)),
            cuckoos: RefCell::new(std::mem::take(&mut self.cuckoos)),
            rings: Rc::clone(&self.rings),
            followed: RefCell::new(std::mem::take(&mut self.followed)),
            strings: &self.strings,
            may_have_changed: Cell::new(false),
            has_ended: Cell::new(false),
            has_looked_up: Cell::new(false),
        };
        let mut reply = Collected {
            protocol: self.protocol,
            words: Vec::new(),
            bulk: Vec::new(),
            outstanding: 1,
            watch: self.watch,
        };
        let command = named(argv[0]);
        let bound = LawOfCost::begin(argv, &keyspace);
        (self.watch)(true);
        let is_requested = CALLS_LEFT.get().is_some();
        let run = || execute(command, &argv[1..], &mut keyspace, &mut reply);
        let outcome = catch_unwind(AssertUnwindSafe(run));
        (self.watch)(false);
        self.work = bound.end(argv, &keyspace, &line);
        self.has_panicked = is_requested && CALLS_LEFT.take().is_none();
        let effects = match outcome {
            Ok(effects) => effects,
            Err(_) if self.has_panicked => {
                end_after_panic(command, &keyspace, &mut reply);
                Effects::default()
            }
            Err(panic) => resume_unwind(panic),
        };
        self.has_ended |= keyspace.has_ended.get();
        assert_eq!(reply.outstanding, 0, "one whole reply to {line}");
        self.drawn = keyspace.drawn.get();
        self.limit_asked = keyspace.limit_asked.get();
        self.keys = keyspace.filters.into_inner();
        self.cuckoos = keyspace.cuckoos.into_inner();
        self.remembered = keyspace.remembered.into_inner();
        self.followed = keyspace.followed.into_inner();
        if !self.has_ended {
            let line = line.get(..200).unwrap_or(&line);
            assert_eq!(totals.numbers(), counted(&self.keys).0.numbers(), "totals after {line}");
        }
        for (key, filter) in argv.iter().filter_map(|key| Some((key, self.cuckoos.get(*key)?))) {
            if self.is_thorough && filter.slots_bytes() <= VALIDATED_MAX_BYTES {
                assert_eq!(filter.internal_validate(), Ok(()), "{} after {line}", key.escape_ascii());
            }
        }
        for (key, filter) in argv.iter().filter_map(|key| Some((key, self.keys.get(*key)?))) {
            let is_small = self.is_thorough && filter.size_bytes() <= VALIDATED_MAX_BYTES;
            let depth = if is_small { Validation::Contents } else { Validation::Parts };
            assert_eq!(filter.internal_validate(depth), Ok(()), "{} after {line}", key.escape_ascii());
        }
        self.expiries.extend(keyspace.expiries.into_inner());
        self.carry_out(effects, argv);
        self.reply = reply.words;
        self.bulk = reply.bulk;
        self.reply.join(" ")
    }

    fn replicate(&mut self, call: Vec<Vec<u8>>) {
        self.replicated.push(line_of(&call));
        self.replicated_calls.push(call);
    }

    fn carry_out(&mut self, effects: Effects<'_>, argv: &[&[u8]]) {
        let Effects {
            replication,
            created,
            cleared,
            expires,
            merged,
            items_added,
            items_deleted,
            layers_added,
            refused,
            ..
        } = effects;
        self.layers_gained = layers_added as usize + usize::from(created);
        if let Some(error) = refused {
            self.log.extend(self.refusals.line(0, argv[1], error, self.now_ms));
        }
        match replication {
            Replication::None => {
                assert_eq!((created, cleared, items_added, items_deleted), (false, false, 0, 0));
            }
            Replication::Verbatim => self.replicate(argv.iter().map(|word| word.to_vec()).collect()),
            Replication::Rewritten(lines) => {
                for ReplicatedCommand { command, arguments } in lines {
                    let words = arguments.iter().map(|word| word.to_vec());
                    self.replicate(std::iter::once(command.as_bytes().to_vec()).chain(words).collect());
                }
            }
        }
        self.events.extend(created.then_some("bloom.reserve"));
        self.events.extend(merged.then_some("bloom.merge"));
        self.events.extend(expires.then_some("expire"));
        self.events.extend(cleared.then_some("bloom.clear"));
        self.events.extend((items_added > 0).then_some("bloom.add"));
        self.events.extend((items_deleted > 0).then_some("bloom.del"));
        if layers_added > 0 {
            self.events.push("bloom.grow");
            let key = argv[1];
            let grown = self.keys.get(key).map(FilterValue::filter);
            self.log.extend(grown.and_then(|filter| growth_line(key, filter, layers_added)));
        }
        if created && named(argv[0]) == Command::Import {
            self.log.extend(import_line(argv[1], self.keys[argv[1]].filter()));
        }
    }
}

/// The law of cost: the work of a command is bounded by the bytes that it gets and by the filters that it names, before
/// and after it. Each of its items costs as much as the filter has layers, or arrays of buckets.
struct LawOfCost {
    bytes: u64,
}

impl LawOfCost {
    fn begin(argv: &[&[u8]], keyspace: &Database<'_>) -> Self {
        let sent_bytes = argv.iter().map(|word| word.len() as u64).sum::<u64>();
        let named_bytes = Self::named_bytes(argv, keyspace);
        _ = work::take();
        Self { bytes: sent_bytes + named_bytes }
    }

    fn end(&self, argv: &[&[u8]], keyspace: &Database<'_>, line: &str) -> Work {
        let work = work::take();
        assert_work(work, self.bytes + Self::named_bytes(argv, keyspace), line);
        work
    }

    fn named_bytes(argv: &[&[u8]], keyspace: &Database<'_>) -> u64 {
        let (filters, cuckoos) = (keyspace.filters.borrow(), keyspace.cuckoos.borrow());
        // A packed batch has at most one item per byte.
        let items = argv.len() as u64 + argv.iter().map(|word| word.len() as u64).sum::<u64>() / 2;
        let filters = argv.iter().filter_map(|key| filters.get(*key)).map(|value| {
            value.size_bytes() + items * value.filter().layer_count() as u64 * 4 / SLOTS_PER_BYTE
        });
        let is_compacting = matches!(named(argv[0]), Command::CfDel | Command::CfCompact);
        let cuckoos = argv.iter().filter_map(|key| cuckoos.get(*key)).map(|filter| {
            // Each item is looked for in two buckets of each array, and an add may move fingerprints.
            let (arrays, parameters) = (filter.arrays().len() as u64, filter.parameters());
            let bucket_size = u64::from(parameters.bucket_size);
            let buckets = argv.len() as u64 * (2 * arrays + 2 * u64::from(parameters.max_iterations));
            let slots = buckets * (bucket_size + 1);
            // A compaction looks for a free slot for each fingerprint in two buckets of at most 64 arrays, and reads at
            // most eight slots of a bucket that is full.
            let fingerprints: u64 = filter.arrays().iter().map(BucketArray::fingerprints).sum();
            let of_each = 2 * arrays.min(64) * (bucket_size.min(8) + 1) + 2 * (bucket_size + 1);
            let compacted = if is_compacting { fingerprints * of_each } else { 0 };
            filter.stored_bytes() + (slots + compacted) / SLOTS_PER_BYTE
        });
        filters.chain(cuckoos).sum()
    }
}

/// Returns the words of a command as a line of text.
fn line_of<W: AsRef<[u8]>>(words: &[W]) -> String {
    words.iter().map(|word| String::from_utf8_lossy(word.as_ref())).collect::<Vec<_>>().join(" ")
}

fn named(name: &[u8]) -> Command {
    let matches = |command: &Command| command.spec().name.as_bytes().eq_ignore_ascii_case(name);
    COMMANDS.into_iter().find(matches).expect("a known command")
}

/// Runs each line on one server and compares its reply.
pub fn assert_dialogue(server: &mut Server, dialogue: &[(&str, &str)]) {
    for (line, expected) in dialogue {
        assert_eq!(server.run(line), *expected, "{line}");
    }
}
