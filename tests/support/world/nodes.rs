//! Servers of a deployment: what they save, and how they restart, synchronise and become the primary.

use std::collections::BTreeMap;

use everbloom_filter::Format;
use everbloom_filter::cuckoo::filter::CuckooFilter;
use everbloom_filter::filter::loading::FilterValue;
use everbloom_format::redisbloom::cuckoo;

use super::ways::restore;
use super::{Call, Event, Key, Known, World};
use crate::saved::{loaded_value, rewritten_value, saved_value};
use crate::server::Server;
use crate::{Record, slices};

/// The keys of a server, as bytes of a snapshot.
#[derive(Clone, Default)]
pub struct Snapshot {
    filters: BTreeMap<Key, (Format, Record)>,
    cuckoos: BTreeMap<Key, Record>,
    /// How much of the history it has.
    pub offset: usize,
}

impl Snapshot {
    fn of(node: &Node) -> Self {
        let server = &node.server;
        let filter =
            |(key, value): (&Key, &FilterValue)| (key.clone(), (value.filter().format(), saved_value(value)));
        let cuckoo = |(key, filter): (&Key, &CuckooFilter)| {
            let mut record = Record::default();
            cuckoo::save(filter, &mut record);
            (key.clone(), record)
        };
        let filters = server.keys.iter().map(filter).collect();
        Self { filters, cuckoos: server.cuckoos.iter().map(cuckoo).collect(), offset: node.offset }
    }
}

/// A server of a deployment.
pub struct Node {
    pub server: Server,
    /// How much of the history it has. Larger than the history if the rest was lost in a failover.
    pub offset: usize,
    pub snapshot: Snapshot,
}

impl Node {
    pub fn new(server: Server) -> Self {
        Self { server, offset: 0, snapshot: Snapshot::default() }
    }

    /// Loads a snapshot as a restart or a full synchronisation does.
    fn load(&mut self, snapshot: &Snapshot) {
        let filter =
            |(key, (format, record)): (&Key, &(Format, Record))| (key.clone(), loaded_value(*format, record));
        let cuckoo = |record: &Record| {
            cuckoo::load(cuckoo::ENCODING_VERSION, &mut record.reader(), &u64::MAX).unwrap()
        };
        self.server.keys = snapshot.filters.iter().map(filter).collect();
        self.server.cuckoos =
            snapshot.cuckoos.iter().map(|(key, record)| (key.clone(), cuckoo(record))).collect();
        self.offset = snapshot.offset;
    }

    /// Runs up to `most` commands of the history that the node does not have yet.
    fn follow(&mut self, history: &[Call], most: usize) {
        for call in history.iter().skip(self.offset).take(most) {
            self.offset += 1;
            let name = call[0].as_slice();
            match name {
                b"DEL" => self.server.forget(&call[1]),
                b"RESTORE" => assert!(restore(&mut self.server, &call[1], &call[2], &u64::MAX)),
                _ if name[1..].starts_with(b"F.") || name[1..].starts_with(b"f.") => {
                    self.server.is_replicated = true;
                    let reply = self.server.call(&slices(call));
                    assert!(!reply.starts_with('-') && !reply.contains(" -ERR"), "{reply} to {call:?}");
                    // The node's own append-only file has what it was sent, and not more.
                    for written in self.server.take_replicated() {
                        assert_eq!(&written, call, "a replica writes another command than it was sent");
                    }
                }
                // The time to live of a key.
                _ => {}
            }
        }
    }
}

impl World {
    /// Adds a command of the server to the history, and runs it on the primary.
    pub fn publish(&mut self, call: Call) {
        self.seen.remove(&call[1]);
        self.history.push(call);
        self.nodes[self.primary].follow(&self.history, usize::MAX);
        self.follow_promptly(true);
    }

    /// Lets every replica run what it lacks, if the world is prompt.
    pub fn follow_promptly(&mut self, is_thorough: bool) {
        if !self.is_prompt {
            return;
        }
        for node in &mut self.nodes {
            node.server.is_thorough = is_thorough;
            node.follow(&self.history, usize::MAX);
        }
    }

    /// Lets a replica run a part of the commands that it lacks.
    pub fn replicate(&mut self, replica: usize, most: usize) {
        if replica != self.primary {
            if self.nodes[replica].offset > self.history.len() {
                self.synchronise(replica);
            }
            self.nodes[replica].follow(&self.history, most);
        }
    }

    /// A full synchronisation.
    pub fn synchronise(&mut self, replica: usize) {
        if replica != self.primary {
            let snapshot = Snapshot::of(&self.nodes[self.primary]);
            self.nodes[replica].load(&snapshot);
        }
    }

    /// Saves a snapshot of a server.
    pub fn save(&mut self, node: usize) {
        self.nodes[node].snapshot = Snapshot::of(&self.nodes[node]);
    }

    /// Begins a new append-only file.
    pub fn rewrite(&mut self) {
        self.base = Snapshot::of(&self.nodes[self.primary]);
    }

    /// Returns whether the snapshot of a server has nothing that was lost in a failover.
    fn has_snapshot(&self, node: usize) -> bool {
        self.nodes[node].snapshot.offset <= self.history.len()
    }

    /// Ends a replica and starts it again from its snapshot.
    pub fn restart_replica(&mut self, replica: usize) {
        if replica != self.primary && self.has_snapshot(replica) {
            let snapshot = self.nodes[replica].snapshot.clone();
            self.nodes[replica].load(&snapshot);
        }
    }

    /// Ends the primary and starts it again: from its append-only file with a snapshot in front (0), from one with commands
    /// only (1), or from its snapshot (2). Nothing that was acknowledged is lost in the first two cases.
    pub fn restart(&mut self, way: usize) {
        if way == 2 && !self.has_snapshot(self.primary) {
            return;
        }
        let node = &mut self.nodes[self.primary];
        let had = node.server.state();
        if way == 2 {
            let snapshot = node.snapshot.clone();
            node.load(&snapshot);
        } else {
            node.load(&self.base);
            if way == 1 {
                node.server.keys.values_mut().for_each(|value| *value = rewritten_value(value));
            }
            node.follow(&self.history, usize::MAX);
            assert!(node.server.state() == had, "the append-only file has other filters");
        }
        let offset = node.offset;
        self.lose_after(offset);
    }

    /// Makes a replica the primary. What it does not have is lost.
    pub fn fail_over(&mut self, to: usize) {
        if self.nodes[to].offset <= self.history.len() {
            (self.primary, self.has_waited) = (to, true);
            self.lose_after(self.nodes[to].offset);
        }
    }

    fn lose_after(&mut self, offset: usize) {
        if offset < self.history.len() {
            self.history.truncate(offset);
            self.journal.retain(|(at, _)| *at <= offset);
            self.known.clear();
            self.journal.iter().for_each(|(_, event)| Known::apply(&mut self.known, event));
        }
        self.seen.clear();
        // A dump belongs to the server that began it.
        self.dump = None;
        // A node that has more needs a full synchronisation, also to start from its snapshot.
        let lost = usize::MAX;
        for node in &mut self.nodes {
            node.offset = if node.offset > offset { lost } else { node.offset };
            if node.snapshot.offset > offset {
                node.snapshot = Snapshot { offset: lost, ..Snapshot::default() };
            }
        }
        self.rewrite();
    }

    /// Copies a key of the primary to all others, as a full synchronisation does.
    pub fn synchronise_all(&mut self) {
        (0..self.nodes.len()).for_each(|node| self.synchronise(node));
    }

    /// Notes that a key has a copy of another one.
    pub fn note_copy(&mut self, key: &[u8], known: Known) {
        self.note(Event::Copied { key: key.to_vec(), known: Box::new(known) });
    }
}
