//! A primary and its replica, and the items that the filters under their keys must contain.

use std::collections::HashMap;

use everbloom_filter::prefetch::NoPrefetch;

use everbloom_command::{CuckooSettings, Protocol, Settings};
use everbloom_filter::cuckoo::filter::CuckooFilter;
use everbloom_filter::filter::loading::FilterValue;
use everbloom_filter::{Filter, Format, ItemHash, UnknownMemory};

use crate::support::saved::{
    assert_cuckoo_survives, assert_same, assert_survives, assert_value_survives, cuckoo_fingerprint,
    fingerprint,
};
use crate::support::server::Server;
use crate::support::slices;

/// A primary, and a replica with another configuration that receives every replicated command.
pub(crate) struct Pair {
    pub(crate) primary: Server,
    replica: Server,
    /// The last fingerprint of the filter under each key.
    seen: HashMap<Vec<u8>, ItemHash>,
}

impl Pair {
    pub(crate) fn new(settings: Settings) -> Self {
        let mut pair = Self { primary: Server::new(), replica: Server::new(), seen: HashMap::new() };
        pair.primary.settings = settings;
        pair.replica.settings = Settings {
            error_rate: 0.2,
            initial_size_items: 5,
            expansion_factor: 0,
            max_filter_bytes: 1,
            format: Format::RedisBloom,
            keyed: !settings.keyed,
            fixed_filters_saturate: !settings.fixed_filters_saturate,
            cuckoo: CuckooSettings {
                bucket_size_slots: 7,
                initial_size_items: 40,
                max_iterations: 3,
                expansion_factor: 2,
                max_expansions: 1,
            },
            ..Settings::DEFAULT
        };
        pair.replica.is_replicated = true;
        pair.replica.protocol = Protocol::Resp3;
        pair
    }

    /// Stores a filter under a key on the primary and on the replica.
    pub(crate) fn put(&mut self, key: &[u8], filter: &Filter) {
        for server in [&mut self.primary, &mut self.replica] {
            let copy = FilterValue::Complete(filter.try_clone(UnknownMemory).unwrap());
            server.keys.insert(key.to_vec(), copy);
        }
        self.note(key);
    }

    /// Stores a cuckoo filter under a key on the primary and on the replica.
    pub(crate) fn put_cuckoo(&mut self, key: &[u8], filter: &CuckooFilter) {
        for server in [&mut self.primary, &mut self.replica] {
            server.cuckoos.insert(key.to_vec(), filter.try_clone().unwrap());
        }
        self.note(key);
    }

    pub(crate) fn put_string(&mut self, key: &[u8], string: &[u8]) {
        for server in [&mut self.primary, &mut self.replica] {
            server.strings.insert(key.to_vec(), string.to_vec());
        }
    }

    pub(crate) fn remove(&mut self, key: &[u8]) {
        for server in [&mut self.primary, &mut self.replica] {
            server.keys.remove(key);
            server.cuckoos.remove(key);
        }
        self.seen.remove(key);
    }

    /// Sets the clocks of the primary and the replica.
    pub(crate) fn set_clocks(&mut self, primary_ms: u64, replica_ms: u64) {
        (self.primary.now_ms, self.replica.now_ms) = (primary_ms, replica_ms);
    }

    /// Copies a key to the replica as a full synchronisation does, which omits dump ids.
    pub(crate) fn synchronise(&mut self, key: &[u8]) {
        if let Some(filter) = self.primary.keys.get(key) {
            self.replica.keys.insert(key.to_vec(), filter.try_clone(UnknownMemory).unwrap());
        }
    }

    pub(crate) fn filter(&self, key: &[u8]) -> Option<&Filter> {
        match self.primary.keys.get(key)? {
            FilterValue::Complete(filter) => Some(filter),
            FilterValue::Loading(_) => None,
        }
    }

    pub(crate) fn run(&mut self, line: &str) -> String {
        self.call(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>())
    }

    /// Runs a command with these items as its last arguments.
    pub(crate) fn call_with(&mut self, front: &[&[u8]], items: &[Vec<u8>]) -> String {
        self.call(&[front, &slices(items)].concat())
    }

    /// Runs a command on the primary and the replicated commands on the replica. If something was replicated, the
    /// filter of its key must then be the same on both. Otherwise the filter must be unchanged.
    pub(crate) fn call(&mut self, argv: &[&[u8]]) -> String {
        let shown = || {
            argv.iter().map(|word| word[..word.len().min(60)].escape_ascii().to_string()).collect::<Vec<_>>()
        };
        self.primary.replicated_calls.clear();
        let reply = self.primary.call(argv);
        // An add asks for the limit at most once more than the filter gains layers, even if many items are refused.
        let adds: [&[u8]; 8] = [
            b"BF.ADD",
            b"BF.MADD",
            b"BF.INSERT",
            b"BF.BULKADD",
            b"CF.ADD",
            b"CF.ADDNX",
            b"CF.INSERT",
            b"CF.INSERTNX",
        ];
        let is_add = adds.contains(&argv[0]);
        let (asked, gained) = (self.primary.limit_asked, self.primary.layers_gained);
        // Every item that a full cuckoo filter refuses asks.
        let is_cuckoo = argv.get(1).is_some_and(|key| self.primary.cuckoos.contains_key(*key));
        let is_asking = !is_add || asked <= gained + 1 || is_cuckoo;
        assert!(is_asking, "asked for {asked} layers, got {gained}: {:?}", shown());
        let sent = std::mem::take(&mut self.primary.replicated_calls);
        for line in
            sent.iter().filter(|line| line[0].get(1..3).is_some_and(|word| word.eq_ignore_ascii_case(b"F.")))
        {
            let reply = self.replica.call(&slices(line));
            assert!(!reply.starts_with('-'), "the replica: {reply} to {line:?}, sent for {:?}", shown());
        }
        let Some(key) = argv.get(1) else { return reply };
        if sent.is_empty() {
            let before = self.seen.get(*key).copied();
            assert_eq!(self.note(key), before, "changed, and nothing was replicated: {:?}", shown());
            self.assert_as_many();
        } else {
            assert!(!reply.starts_with('-'), "{reply} to {:?}", shown());
            let print = self.note(key);
            match self.primary.keys.get(*key) {
                Some(value) => assert_same_value(value, &self.replica.keys[*key], "replica"),
                None => assert_eq!(print, print_of(&self.replica, key), "replica: {:?}", shown()),
            }
        }
        reply
    }

    /// Returns the replies to the items of the last command; none if it was refused.
    pub(crate) fn item_replies(&self) -> Vec<String> {
        let replies = &self.primary.reply;
        match replies[0].as_bytes()[0] {
            b'*' => replies[1..].to_vec(),
            b'-' => Vec::new(),
            _ => replies.clone(),
        }
    }

    fn note(&mut self, key: &[u8]) -> Option<ItemHash> {
        let print = print_of(&self.primary, key)?;
        self.seen.insert(key.to_vec(), print);
        Some(print)
    }

    fn assert_as_many(&self) {
        let count = |server: &Server| (server.keys.len(), server.cuckoos.len());
        assert_eq!(count(&self.primary), count(&self.replica));
    }

    /// Asserts that every filter is the same on both servers, that it has not changed since the last command on its
    /// key, and that its saved bytes can be loaded.
    pub(crate) fn assert_in_step(&self) {
        self.assert_as_many();
        for (key, filter) in &self.primary.cuckoos {
            let (name, print) = (key.escape_ascii().to_string(), print_of(&self.primary, key));
            assert_eq!((print, print), (print_of(&self.replica, key), self.seen.get(key).copied()), "{name}");
            assert_cuckoo_survives(filter, &name);
        }
        for (key, value) in &self.primary.keys {
            let name = key.escape_ascii().to_string();
            assert_same_value(value, &self.replica.keys[key], &name);
            assert_eq!(Some(&fingerprint(value)), self.seen.get(key), "{name}");
            match value {
                FilterValue::Complete(filter) => assert_survives(filter, &name),
                FilterValue::Loading(_) => assert_value_survives(value, &name),
            }
        }
    }
}

/// Asserts that two values are the same, and that the second one keeps all rules.
fn assert_same_value(one: &FilterValue, other: &FilterValue, context: &str) {
    match (one, other) {
        (FilterValue::Complete(one), FilterValue::Complete(other)) => assert_same(one, other, context),
        _ => assert_eq!(fingerprint(one), fingerprint(other), "{context}"),
    }
}

/// Returns a hash of the filter under a key, of any type; `None` if there is none.
fn print_of(server: &Server, key: &[u8]) -> Option<ItemHash> {
    let filter = server.keys.get(key).map(fingerprint);
    filter.or_else(|| server.cuckoos.get(key).map(cuckoo_fingerprint))
}

/// The expected state of the filter under a key.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    /// Items that the filter must find, with the number of times that each was added.
    pub(crate) items: HashMap<Vec<u8>, u64>,
    /// The number that BF.CARD must return, if it is known.
    pub(crate) cardinality: Option<u64>,
}

impl Known {
    /// Asserts that the filter contains the expected items and reports the expected cardinality.
    pub(crate) fn check(&self, filter: &Filter) {
        for item in self.items.keys() {
            assert!(filter.contains(item, NoPrefetch), "lost {}", item.escape_ascii());
        }
        if let Some(cardinality) = self.cardinality {
            assert_eq!(filter.items(), cardinality);
        }
    }
}
