//! A simulated deployment: servers with clocks and settings of their own, a primary and its replicas, what they save and
//! load, and the items that must be found. Drivers choose operations: random ones, every short sequence, or those of
//! fuzzed bytes. [`World::check`] holds after each.

mod check;
mod commands;
mod items;
mod nodes;
mod ways;

use std::collections::BTreeMap;

use everbloom_command::{CuckooSettings, Protocol, Settings};
use everbloom_filter::filter::loading::FilterValue;
use everbloom_filter::{Filter, Format, ItemHash, UnknownMemory};

use self::items::{Event, Known};
use self::nodes::{Node, Snapshot};
#[allow(unused_imports, reason = "every program uses a part of them")]
pub use self::{
    commands::{Adding, Form, Outcome},
    ways::{WAYS, Way},
};
use super::saved::{cuckoo_fingerprint, fingerprint};
use super::server::Server;
use super::slices;

/// The memory of a test program, which its allocator may refuse.
#[derive(Clone, Copy)]
pub struct Refusing {
    /// Refuses the large allocation with this number, from 0.
    pub refuse: fn(i64),
    /// Refuses no more. Returns how many were refused.
    pub relent: fn() -> u64,
    /// Starts and ends the code whose allocations may be refused.
    pub watch: fn(bool),
}

impl Refusing {
    /// Memory that is never refused.
    pub const NEVER: Self = Self { refuse: |_| {}, relent: || 0, watch: |_| {} };
}

pub type Key = Vec<u8>;
/// A replicated command.
pub type Call = Vec<Vec<u8>>;

/// A dump in progress: its chunks are loaded into another key, while both change.
#[derive(Clone)]
struct Dump {
    from: Key,
    to: Key,
    iterator: u64,
    /// What the filter has had since the dump began.
    known: Known,
}

/// Servers, and what is known about their filters.
pub struct World {
    pub nodes: Vec<Node>,
    pub primary: usize,
    /// Whether every replica runs a command at once. Otherwise [`World::replicate`] does.
    pub is_prompt: bool,
    /// The bytes of filters that are compared and validated after each command and check. Larger filters are after as many
    /// commands as this amount is smaller.
    pub effort_bytes: u64,
    memory: Refusing,
    /// The number of the allocation that the next command lacks.
    pub refused: Option<i64>,
    effort: u64,
    rate_effort: u64,
    checks: u64,
    /// Whether a clock of the primary has run.
    has_waited: bool,
    /// How many allocations were refused.
    pub refusals: u64,
    /// The replicated commands since the start.
    pub history: Vec<Call>,
    /// What was acknowledged, each with the length of the history at that time.
    pub journal: Vec<(usize, Event)>,
    pub known: BTreeMap<Key, Known>,
    /// The last fingerprint of each filter of the primary that has not changed since.
    seen: BTreeMap<Key, ItemHash>,
    dump: Option<Dump>,
    /// The dumps that were loaded to their end.
    pub dumps: u64,
    /// What a rewritten append-only file begins with.
    base: Snapshot,
}

/// Returns a hash of the value under a key; `None` if there is none.
fn print_of(server: &Server, key: &[u8]) -> Option<ItemHash> {
    let filter = server.keys.get(key).map(fingerprint);
    filter.or_else(|| server.cuckoos.get(key).map(cuckoo_fingerprint))
}

/// Returns the memory of the value under a key; 0 if there is none.
fn bytes_of(server: &Server, key: &[u8]) -> u64 {
    let filter = server.keys.get(key).map(FilterValue::size_bytes);
    filter.or_else(|| server.cuckoos.get(key).map(|filter| filter.slots_bytes())).unwrap_or(0)
}

/// Returns settings that no test sets: those of a replica must not matter.
fn other_settings(settings: &Settings) -> Settings {
    Settings {
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
    }
}

impl World {
    /// Returns a primary with these settings, and a replica with other ones, which runs each replicated command at once.
    pub fn pair(settings: Settings, now_ms: u64) -> Self {
        let mut servers = [settings, other_settings(&settings)].map(|settings| {
            let mut server = Server::at(now_ms);
            server.settings = settings;
            server
        });
        servers[1].protocol = Protocol::Resp3;
        Self { is_prompt: true, ..Self::of(servers.into(), Refusing::NEVER) }
    }

    /// Returns a world of these servers. The first one is the primary.
    pub fn of(servers: Vec<Server>, memory: Refusing) -> Self {
        Self {
            nodes: servers.into_iter().map(Node::new).collect(),
            primary: 0,
            is_prompt: false,
            effort_bytes: u64::MAX,
            memory,
            refused: None,
            effort: 0,
            rate_effort: 0,
            checks: 0,
            has_waited: false,
            refusals: 0,
            history: Vec::new(),
            journal: Vec::new(),
            known: BTreeMap::new(),
            seen: BTreeMap::new(),
            dump: None,
            dumps: 0,
            base: Snapshot::default(),
        }
    }

    /// Returns a copy of this world, whose replicas must have all commands. It has no dumps and no files.
    pub fn fork(&self) -> Self {
        let servers = self.nodes.iter().map(|node| {
            let mut fork = Server::at(node.server.now_ms);
            (fork.settings, fork.protocol) = (node.server.settings, node.server.protocol);
            for (key, filter) in &node.server.keys {
                fork.keys.insert(key.clone(), filter.try_clone(UnknownMemory).unwrap());
            }
            for (key, filter) in &node.server.cuckoos {
                fork.cuckoos.insert(key.clone(), filter.try_clone().unwrap());
            }
            fork
        });
        let mut fork = Self::of(servers.collect(), self.memory);
        (fork.primary, fork.is_prompt, fork.effort_bytes) = (self.primary, self.is_prompt, self.effort_bytes);
        (fork.known, fork.seen, fork.has_waited) = (self.known.clone(), self.seen.clone(), self.has_waited);
        fork
    }

    pub fn server(&self) -> &Server {
        &self.nodes[self.primary].server
    }

    /// Returns the primary's server. Its keys must not be changed.
    pub fn server_mut(&mut self) -> &mut Server {
        &mut self.nodes[self.primary].server
    }

    pub fn now_ms(&self) -> u64 {
        self.server().now_ms
    }

    /// Returns the filter under a key of the primary; `None` if there is none, or if it is being loaded or of cuckoos.
    pub fn filter(&self, key: &[u8]) -> Option<&Filter> {
        match self.server().keys.get(key)? {
            FilterValue::Complete(filter) => Some(filter),
            FilterValue::Loading(_) => None,
        }
    }

    pub fn size_bytes(&self, key: &[u8]) -> u64 {
        bytes_of(self.server(), key)
    }

    /// Returns whether the primary has a value under a key.
    pub fn has(&self, key: &[u8]) -> bool {
        self.server().keys.contains_key(key) || self.server().cuckoos.contains_key(key)
    }

    /// Refuses a large allocation of the next command: the one with this number, from 0.
    pub fn refuse(&mut self, number: i64) {
        self.refused = Some(number);
    }

    /// Sets the limit of the primary, which may be below the size of its filters.
    pub fn limit(&mut self, max_bytes: u64) {
        self.server_mut().settings.max_filter_bytes = max_bytes;
    }

    /// Lets time pass on all servers.
    pub fn wait(&mut self, ms: u64) {
        self.has_waited = true;
        self.nodes.iter_mut().for_each(|node| node.server.now_ms += ms);
    }

    /// Sets the clocks of the primary, and of all others.
    pub fn set_clocks(&mut self, primary_ms: u64, others_ms: u64) {
        self.has_waited |= primary_ms != self.now_ms();
        self.nodes.iter_mut().for_each(|node| node.server.now_ms = others_ms);
        self.server_mut().now_ms = primary_ms;
    }

    /// Notes that a key may have another filter, with an unknown number of items, or further ones.
    pub fn recount(&mut self, key: &[u8], is_new: bool) {
        let items = self.filter(key).map(Filter::items);
        if is_new && self.has(key) {
            self.note(Event::Started { key: key.to_vec() });
        }
        self.note(Event::Counted { key: key.to_vec(), cardinality: items });
    }

    /// Stores a value under a key of all servers, as if they had loaded it. Its items are unknown.
    pub fn put(&mut self, key: &[u8], put: impl Fn(&mut Server)) {
        self.nodes.iter_mut().for_each(|node| put(&mut node.server));
        self.seen.remove(key);
        self.note(Event::Vague { key: key.to_vec() });
    }

    /// Notes what was acknowledged.
    fn note(&mut self, event: Event) {
        // A dump ends with the filter into which it is loaded.
        self.dump.take_if(|dump| dump.to == *event.key() && event.is_replaced());
        if let Some(dump) = &mut self.dump {
            dump.known.keep(&dump.from, &dump.to, &event);
        }
        Known::apply(&mut self.known, &event);
        // A world whose replicas are prompt loses nothing.
        if !self.is_prompt {
            self.journal.push((self.history.len(), event));
        }
    }

    /// Runs a command line on the primary. Returns its reply.
    pub fn run(&mut self, line: &str) -> String {
        self.call(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>())
    }

    /// Runs a command with these items as its last arguments.
    pub fn call_with<W: AsRef<[u8]>>(&mut self, front: &[&[u8]], items: &[W]) -> String {
        self.call(&[front, &slices(items)].concat())
    }

    /// Runs a client's command on the primary. If it is not replicated, nothing may have changed.
    pub fn call(&mut self, words: &[&[u8]]) -> String {
        let shown = || {
            words.iter().map(|word| word[..word.len().min(60)].escape_ascii().to_string()).collect::<Vec<_>>()
        };
        let bytes = words.iter().skip(1).map(|key| self.size_bytes(key)).sum();
        let is_thorough = self.affords(bytes);
        let (refused, memory) = (self.refused.take(), self.memory);
        let server = self.server_mut();
        (server.is_replicated, server.is_thorough) = (false, is_thorough);
        if let Some(number) = refused {
            server.watch = memory.watch;
            (memory.refuse)(number);
        }
        let reply = server.call(words);
        let refusals = (memory.relent)();
        server.watch = |_| {};
        let calls = server.take_replicated();
        let (asked, gained) = (server.limit_asked, server.layers_gained);
        // An add asks for the limit at most once more than the filter gains layers, even if many items are refused. Every
        // item that a full cuckoo filter refuses asks.
        let is_add = ["ADD", "ADDNX", "INSERT", "INSERTNX", "BULKADD"]
            .iter()
            .any(|name| words[0].get(3..).is_some_and(|word| word.ends_with(name.as_bytes())));
        let is_cuckoo = words.get(1).is_some_and(|key| server.cuckoos.contains_key(*key));
        assert!(
            !is_add || asked <= gained + 1 || is_cuckoo,
            "asked {asked} times for {gained}: {:?}",
            shown()
        );
        assert!(calls.is_empty() || !reply.starts_with('-'), "{reply} to {:?}", shown());
        let has_changed = !calls.is_empty();
        self.refusals += refusals;
        let node = &mut self.nodes[self.primary];
        node.offset += calls.len();
        self.history.extend(calls);
        assert_eq!(self.nodes[self.primary].offset, self.history.len());
        self.follow_promptly(is_thorough);
        for (place, key) in words.iter().enumerate().skip(1) {
            if has_changed && place == 1 {
                self.seen.remove(*key);
            }
            if is_thorough && (place == 1 || self.seen.contains_key(*key)) {
                let print = print_of(self.server(), key);
                let before = self.seen.get(*key).copied();
                assert!(before.is_none() || before == print, "changed and not replicated: {:?}", shown());
                if let Some(print) = print {
                    self.seen.insert(key.to_vec(), print);
                }
                if place == 1 && self.is_prompt && has_changed {
                    let servers = self.nodes.iter().map(|node| &node.server);
                    servers
                        .for_each(|server| assert!(print_of(server, key) == print, "replica: {:?}", shown()));
                }
            }
        }
        reply
    }

    /// Returns whether work on this many bytes is due.
    fn affords(&mut self, bytes: u64) -> bool {
        self.effort = self.effort.saturating_add(self.effort_bytes);
        let is_due = self.effort >= bytes;
        if is_due {
            self.effort = 0;
        }
        is_due
    }
}
