//! Adds batches to filters on servers, with BF.BULKADD, or with BF.INSERT if a server does not have it. At each node,
//! several commands are outstanding. If a node of a cluster refuses a command because the slot is moving, the command
//! was not executed. It is sent again to the right node, so no item is added twice.

use std::collections::{HashMap, VecDeque};
use std::mem;

use redis::Value;

use super::failure::{Failure, check_interruption};
use super::output::shown;
use super::packing::{Batch, Packing};
use super::server::{CallError, Place, RoutedError, Router};

/// Largest number of outstanding commands at a node. Their replies fit into the buffers of a connection, so neither
/// side waits for the other one to read.
const PACKED_AHEAD: usize = 3;
const WORDS_AHEAD: usize = 16;
/// Items of one BF.INSERT.
const WORDS_ITEMS: usize = 1000;

/// The results of adding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) items: u64,
    pub(crate) new: u64,
    pub(crate) present: u64,
    pub(crate) refused: u64,
    /// Items that had expired. The other counts do not include them.
    pub(crate) expired: u64,
}

/// The error for items that expired before they were added.
const EXPIRED: &str = "AT is older than the window";

/// Adds batches to existing filters.
pub(crate) struct Sender<'r> {
    router: &'r mut Router,
    keys: Vec<Vec<u8>>,
    is_packed: bool,
    /// The batches to which each node has not replied yet.
    outstanding: HashMap<Place, VecDeque<Sent>>,
    /// The batches that a node refused because the slot is moving or has moved.
    refused: Vec<Sent>,
    pub(crate) counts: Counts,
}

/// A batch for one of the filters.
struct Sent {
    number: usize,
    batch: Batch,
    /// The time of its items, as BF.INSERT takes it.
    at_ms: Option<String>,
}

impl Sent {
    fn new(number: usize, batch: Batch) -> Self {
        let at_ms = batch.moment.map(|moment| moment.at_ms.to_string());
        Self { number, batch, at_ms }
    }
}

impl<'r> Sender<'r> {
    /// Returns a sender for filters that exist. Checks whether their servers have BF.BULKADD.
    pub(crate) fn new(router: &'r mut Router, keys: Vec<Vec<u8>>) -> Result<Self, Failure> {
        // Sends a batch without items, which changes nothing.
        let word = Packing::Prefixed.word().as_bytes();
        let mut is_packed = true;
        for key in &keys {
            match router.call(key, &[b"BF.BULKADD", key, b"NOCREATE", word, b""]) {
                Ok(_) => {}
                Err(RoutedError::Call(error)) if error.lacks_command() => is_packed = false,
                Err(error) => return Err(Failure::from(error).about(shown(key))),
            }
        }
        let (outstanding, refused) = (HashMap::new(), Vec::new());
        Ok(Self { router, keys, is_packed, outstanding, refused, counts: Counts::default() })
    }

    /// Returns whether items are sent packed.
    pub(crate) const fn is_packed(&self) -> bool {
        self.is_packed
    }

    /// Sends a batch to the filter of a number. Its results are counted when the reply is received.
    pub(crate) fn add(&mut self, number: usize, batch: Batch) -> Result<(), Failure> {
        // BF.BULKADD has no times.
        if self.is_packed && batch.moment.is_none() {
            return self.send(Sent::new(number, batch), PACKED_AHEAD);
        }
        let mut items = batch.iter().peekable();
        while items.peek().is_some() {
            let mut part = Batch::prefixed(0).at(batch.moment);
            for item in items.by_ref().take(WORDS_ITEMS) {
                if !part.push(item) {
                    return Err(too_long());
                }
            }
            self.send(Sent::new(number, part), WORDS_AHEAD)?;
        }
        Ok(())
    }

    /// Receives all outstanding replies, and sends refused batches again.
    pub(crate) fn settle(&mut self) -> Result<&mut Router, Failure> {
        let places: Vec<Place> = self.outstanding.keys().cloned().collect();
        for place in &places {
            self.receive_beyond(place, 0)?;
        }
        for sent in mem::take(&mut self.refused) {
            let (key, is_packed) = (self.key(&sent)?.to_owned(), self.is_packed);
            let outcome = match self.router.call(&key, &command(is_packed, &key, &sent)) {
                Ok(reply) => Ok(reply),
                Err(RoutedError::Call(error)) => Err(error),
                Err(RoutedError::Failure(failure)) => return Err(failure),
            };
            self.note(&sent, outcome)?;
        }
        Ok(self.router)
    }

    fn send(&mut self, sent: Sent, ahead: usize) -> Result<(), Failure> {
        check_interruption()?;
        let key = self.key(&sent)?.to_owned();
        let place = self.router.place_of(&key)?;
        self.router.at(&place)?.send(&command(self.is_packed, &key, &sent))?;
        self.outstanding.entry(place.clone()).or_default().push_back(sent);
        self.receive_beyond(&place, ahead)?;
        if self.refused.is_empty() { Ok(()) } else { self.settle().map(drop) }
    }

    fn key(&self, sent: &Sent) -> Result<&[u8], Failure> {
        self.keys
            .get(sent.number)
            .map(Vec::as_slice)
            .ok_or_else(|| Failure::new("internal error: a batch for an unknown filter"))
    }

    fn receive_beyond(&mut self, place: &Place, ahead: usize) -> Result<(), Failure> {
        loop {
            let Some(outstanding) = self.outstanding.get_mut(place) else { return Ok(()) };
            if outstanding.len() <= ahead {
                return Ok(());
            }
            let Some(sent) = outstanding.pop_front() else { return Ok(()) };
            match self.router.at(place)?.receive() {
                Err(CallError::Refused(text)) if self.router.is_to_follow(&text) => self.refused.push(sent),
                outcome => self.note(&sent, outcome)?,
            }
        }
    }

    /// Counts the results of a batch.
    fn note(&mut self, sent: &Sent, outcome: Result<Value, CallError>) -> Result<(), Failure> {
        let items = sent.batch.items;
        let reply = match outcome {
            Err(CallError::Refused(text)) if sent.at_ms.is_some() && text.contains(EXPIRED) => {
                self.counts.expired += items;
                return Ok(());
            }
            outcome => outcome?,
        };
        let results = count(&reply, &mut self.counts)?;
        self.counts.items += items;
        // If a filter of fixed size is full, the reply ends at the first refused item.
        match items.checked_sub(results) {
            Some(missing) => self.counts.refused += missing,
            None => {
                return Err(Failure::new(format!("the server returned {results} results for {items} items")));
            }
        }
        Ok(())
    }
}

/// Returns the error about an item that no batch can hold.
pub(crate) fn too_long() -> Failure {
    Failure::new("an item is longer than 4 GiB, which no server accepts")
}

/// Returns the command that adds a batch to the filter of a key.
fn command<'c>(is_packed: bool, key: &'c [u8], sent: &'c Sent) -> Vec<&'c [u8]> {
    let Sent { batch, at_ms, .. } = sent;
    let mut command: Vec<&[u8]> = vec![b"BF.INSERT", key, b"NOCREATE"];
    match at_ms {
        None if is_packed => {
            return vec![b"BF.BULKADD", key, b"NOCREATE", batch.packing.word().as_bytes(), &batch.data];
        }
        None => {}
        Some(at_ms) => command.extend([b"AT", at_ms.as_bytes()]),
    }
    command.push(b"ITEMS");
    command.extend(batch);
    command
}

/// Counts the results of one reply: one character each, or a number, a boolean or an error each. Returns how many there
/// are.
fn count(reply: &Value, counts: &mut Counts) -> Result<u64, CallError> {
    let mut add = |result: u8| match result {
        b'1' => counts.new += 1,
        b'0' => counts.present += 1,
        _ => counts.refused += 1,
    };
    match reply {
        Value::BulkString(results) => {
            results.iter().for_each(|result| add(*result));
            Ok(results.len() as u64)
        }
        Value::Array(results) => {
            results.iter().for_each(|result| match result {
                Value::Int(0) | Value::Boolean(false) => add(b'0'),
                Value::Int(_) | Value::Boolean(true) => add(b'1'),
                _ => add(b'!'),
            });
            Ok(results.len() as u64)
        }
        _ => Err(CallError::unexpected_reply("BF.BULKADD or BF.INSERT")),
    }
}
