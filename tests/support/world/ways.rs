//! Every way to save a value and to load it again, and dumps in progress.

use everbloom_filter::cuckoo::filter::CuckooFilter;
use everbloom_filter::filter::loading::FilterValue;
use everbloom_filter::{ByteLimit, Format, Limit, UnknownMemory};
use everbloom_format::chunks::Rewritten;
use everbloom_format::payload::EncodedFields;
use everbloom_format::redisbloom::cuckoo;
use everbloom_format::{DataType, DecodeError, value};

use super::{Dump, Event, World, print_of};
use crate::Record;
use crate::rdb::Payload;
use crate::saved::{from_chunks, loaded_value, rewritten_value, saved_value};
use crate::server::Server;
use crate::work::callback;

/// A way to copy the value of a key to another key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// COPY.
    Copy,
    /// A snapshot.
    Snapshot,
    /// The commands of an append-only file.
    Commands,
    /// The chunks of a dump.
    Chunks,
    /// DUMP and RESTORE, which clients send to the primary.
    Payload,
}

pub const WAYS: [Way; 5] = [Way::Copy, Way::Snapshot, Way::Commands, Way::Chunks, Way::Payload];

/// The limit of what a client sends.
struct ClientLimit(u64);

impl ByteLimit for ClientLimit {
    fn limit(&self) -> Limit {
        self.0.into()
    }

    fn is_from_client(&self) -> bool {
        true
    }
}

/// Stores the value of a payload, as RESTORE does. Returns whether the limit permits it.
pub fn restore(server: &mut Server, key: &[u8], payload: &[u8], limit: &dyn ByteLimit) -> bool {
    let payload = Payload::read(payload);
    let mut reader = payload.record.reader();
    let version = payload.encoding_version;
    let refused = if payload.type_name == cuckoo::TYPE_NAME {
        let loaded = cuckoo::load(version, &mut reader, limit);
        loaded.map(|filter| _ = server.cuckoos.insert(key.to_vec(), filter)).err()
    } else {
        let format = Format::ALL.into_iter().find(|format| DataType::of(*format).name == payload.type_name);
        let loaded = value::load(format.unwrap(), version, &mut reader, limit);
        loaded.map(|value| _ = server.keys.insert(key.to_vec(), value)).err()
    };
    assert!(matches!(refused, None | Some(DecodeError::TooLarge { .. })), "{refused:?}");
    refused.is_none()
}

/// Returns the payload of a value; `None` if there is none.
fn payload(server: &Server, key: &[u8]) -> Option<Vec<u8>> {
    let mut fields = EncodedFields::default();
    if let Some(value) = server.keys.get(key) {
        value::save(value, &mut fields, UnknownMemory);
        let DataType { name, encoding_version } = DataType::of(value.filter().format());
        return Some(fields.payload(name, encoding_version).unwrap());
    }
    cuckoo::save(server.cuckoos.get(key)?, &mut fields);
    Some(fields.payload(cuckoo::TYPE_NAME, cuckoo::ENCODING_VERSION).unwrap())
}

/// Returns a filter that was saved and loaded in a way; `None` if this way refuses it.
fn remade(value: &FilterValue, way: Way) -> Option<FilterValue> {
    let bytes = value.size_bytes();
    let copy = || value.try_clone(UnknownMemory).unwrap();
    Some(match (way, value) {
        (Way::Copy, _) => callback(bytes, "copy", copy, FilterValue::size_bytes),
        (Way::Snapshot, _) => loaded_value(value.filter().format(), &saved_value(value)),
        (Way::Commands, _) => rewritten_value(value),
        (Way::Chunks, FilterValue::Complete(filter)) if filter.format() != Format::ValkeyBloom => {
            FilterValue::Complete(from_chunks(filter, 5))
        }
        (Way::Chunks | Way::Payload, _) => return None,
    })
}

/// Returns a cuckoo filter that was saved and loaded in a way; `None` if this way refuses it.
fn remade_cuckoo(filter: &CuckooFilter, way: Way) -> Option<CuckooFilter> {
    let mut record = Record::default();
    let mut made = None;
    match way {
        Way::Copy => made = Some(filter.try_clone().unwrap()),
        Way::Snapshot => {
            cuckoo::save(filter, &mut record);
            made = Some(cuckoo::load(cuckoo::ENCODING_VERSION, &mut record.reader(), &u64::MAX).unwrap());
        }
        Way::Commands => {
            let mut load = |command: Rewritten<'_>| match (command, &mut made) {
                (Rewritten::CuckooChunk { data, .. }, None) => {
                    made = Some(cuckoo::from_header(data, &u64::MAX).unwrap());
                }
                (Rewritten::CuckooChunk { iterator, data }, Some(made)) => {
                    cuckoo::load_chunk(made, iterator, data).unwrap();
                }
                (Rewritten::Payload(data), made) => {
                    let mut server = Server::new();
                    assert!(restore(&mut server, b"k", data, &u64::MAX));
                    *made = server.cuckoos.remove(&b"k"[..]);
                }
                _ => panic!("not of a cuckoo filter"),
            };
            cuckoo::rewrite(filter, &mut load).unwrap();
        }
        Way::Chunks | Way::Payload => {}
    }
    made
}

/// Saves the value of a key in a way, and loads it into another key. Returns whether this way takes it.
fn remake(server: &mut Server, from: &[u8], to: &[u8], way: Way) -> bool {
    let value = server.keys.get(from).and_then(|value| remade(value, way));
    let cuckoo = server.cuckoos.get(from).and_then(|filter| remade_cuckoo(filter, way));
    if value.is_none() && cuckoo.is_none() {
        return false;
    }
    server.forget(to);
    server.keys.extend(value.map(|value| (to.to_vec(), value)));
    server.cuckoos.extend(cuckoo.map(|filter| (to.to_vec(), filter)));
    true
}

impl World {
    /// Copies the value of a key in a way, on all servers. Returns whether this way takes it.
    pub fn remake(&mut self, from: &[u8], to: &[u8], way: Way) -> bool {
        let Some(known) = self.known.get(from).cloned() else { return false };
        let before = print_of(self.server(), from);
        if way == Way::Payload {
            if !self.restore(from, to) {
                return false;
            }
        } else if from == to {
            let (end, mut is_made) = (self.history.len(), false);
            for node in self.nodes.iter_mut().filter(|node| node.offset == end) {
                is_made = remake(&mut node.server, from, to, way);
            }
            if !is_made {
                return false;
            }
            self.seen.remove(to);
        } else {
            let Some(payload) = payload(self.server(), from) else { return false };
            if !remake(self.server_mut(), from, to, way) {
                return false;
            }
            let server = self.server_mut();
            let (value, cuckoo) = (server.keys.remove(to), server.cuckoos.remove(to));
            // The replicas load another copy.
            self.delete(to);
            self.publish(vec![b"RESTORE".to_vec(), to.to_vec(), payload]);
            let server = self.server_mut();
            server.keys.extend(value.map(|value| (to.to_vec(), value)));
            server.cuckoos.extend(cuckoo.map(|filter| (to.to_vec(), filter)));
        }
        assert!(print_of(self.server(), to) == before, "{way:?} gives another value");
        if from != to || way == Way::Payload {
            self.note_copy(to, known);
        }
        true
    }

    /// Sends DUMP, DEL and RESTORE. Returns whether the primary takes the payload.
    fn restore(&mut self, from: &[u8], to: &[u8]) -> bool {
        let Some(payload) = payload(self.server(), from) else { return false };
        let (limit, now_ms) = (self.server().settings.max_filter_bytes, self.now_ms());
        // The primary asks whether the client may send it. What it then replicates has no limit.
        let mut trial = Server::new();
        let is_ahead = self.server().keys.get(from).is_some_and(|value| value.is_ahead_of(now_ms));
        if is_ahead || !restore(&mut trial, to, &payload, &ClientLimit(limit)) {
            return false;
        }
        assert!(print_of(&trial, to) == print_of(self.server(), from), "RESTORE gives another value");
        self.delete(to);
        self.publish(vec![b"RESTORE".to_vec(), to.to_vec(), payload]);
        let server = self.server_mut();
        server.keys.extend(std::mem::take(&mut trial.keys));
        server.cuckoos.extend(std::mem::take(&mut trial.cuckoos));
        true
    }

    /// Loads the next chunk of a dump of `from` into `to`, or begins a dump. Returns whether there is a filter to dump.
    pub fn dump(&mut self, from: &[u8], to: &[u8]) -> bool {
        let family = if self.server().cuckoos.contains_key(from) { "CF" } else { "BF" };
        let mut dump = match self.dump.take().filter(|dump| dump.from == from && dump.to == to) {
            Some(dump) => dump,
            None => {
                let Some(known) = self.known.get(from).cloned() else { return false };
                self.delete(to);
                Dump { from: from.to_vec(), to: to.to_vec(), iterator: 0, known }
            }
        };
        let iterator = dump.iterator.to_string();
        let scan = format!("{family}.SCANDUMP");
        let refused = self.refused.take();
        let reply = self.call(&[scan.as_bytes(), from, iterator.as_bytes()]);
        let next = reply.split(' ').nth(1).and_then(|word| word.strip_prefix(':'));
        let Some(next) = next.and_then(|next| next.parse::<u64>().ok()) else {
            // Another format, or the filter was replaced.
            return !reply.contains("not found");
        };
        if next == 0 {
            self.end_dump(dump, family);
            return true;
        }
        let chunk = std::mem::take(&mut self.server_mut().bulk);
        let is_ahead = self.server().keys.get(from).is_some_and(|value| value.is_ahead_of(self.now_ms()));
        self.refused = refused;
        let load = format!("{family}.LOADCHUNK");
        let reply = self.call(&[load.as_bytes(), to, next.to_string().as_bytes(), &chunk]);
        assert!(!reply.starts_with("-ERR the items are more than a window ahead") || is_ahead, "{reply}");
        if reply == "+OK" {
            dump.iterator = next;
            self.dump = Some(dump);
        } else if reply.contains("memory") {
            // The chunk is loaded later.
            self.dump = Some(dump).filter(|dump| dump.iterator > 0);
        } else {
            let is_said = reply.starts_with("-ERR filter would take ")
                || reply.contains("window ahead")
                || family == "CF";
            assert!(is_said, "{reply}");
            self.delete(to);
        }
        true
    }

    /// Returns whether a dump of this key is in progress.
    pub fn is_dumping(&self, from: &[u8]) -> bool {
        self.dump.as_ref().is_some_and(|dump| dump.from == from)
    }

    /// Notes the copy after its last chunk.
    fn end_dump(&mut self, dump: Dump, family: &str) {
        if dump.iterator == 0 || !self.has(&dump.to) {
            return;
        }
        self.dumps += 1;
        if family == "CF" {
            // RedisBloom's chunks describe one moment only.
            return self.note(Event::Vague { key: dump.to });
        }
        let mut known = dump.known;
        known.cardinality = None;
        known.items.values_mut().for_each(|item| item.count = 1);
        self.note_copy(&dump.to, known);
    }
}
