//! Adds batches to filters on servers, with BF.BULKADD, or with BF.INSERT if a server does not have BF.BULKADD.
//!
//! Several commands are sent to each node before the reply to the first is read. If a node of a cluster refuses a
//! command because the slot is moving, it has not executed the command. The command is then sent to the right node, so
//! no item is added twice.

use std::collections::{HashMap, VecDeque};
use std::mem;

use memchr::memchr_iter;
use redis::Value;

use super::failure::{Failure, check_interruption};
use super::output::{counted, shown};
use super::packing::{BatchPacking, ItemBatch};
use super::server::{CallError, NodeAddress, Router};

/// The largest number of BF.BULKADD commands that were sent to a node and have no reply yet. The replies fit into the
/// buffers of a connection, so the node never waits for the tool to read.
const PACKED_AHEAD: usize = 3;
/// The largest number of BF.INSERT commands that were sent to a node and have no reply yet. Their batches are smaller.
const WORDS_AHEAD: usize = 16;
/// Items of one BF.INSERT.
const WORDS_ITEMS: usize = 1000;

/// The results of adding.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LoadCounts {
    pub(crate) items: u64,
    pub(crate) new: u64,
    pub(crate) present: u64,
    pub(crate) refused: u64,
    /// Items that had expired. The other counts do not include them.
    pub(crate) expired: u64,
    pub(crate) seconds: f64,
}

/// A part of the server's error for items that expired before they were added.
const EXPIRED: [&str; 2] = ["AT is older than the window", "the end of PLIFE is in the past"];

/// Adds batches to existing filters.
pub(crate) struct Sender<'r> {
    router: &'r mut Router,
    /// Whether all servers have BF.BULKADD.
    pub(crate) is_packed: bool,
    /// For each node, the batches that were sent to it and have no reply yet.
    outstanding: HashMap<NodeAddress, VecDeque<SentBatch>>,
    /// The batches that a node refused because their slot is moving or has moved.
    refused: Vec<SentBatch>,
    pub(crate) counts: LoadCounts,
    /// Whether the server may have added items that are not counted: a batch has failed.
    has_uncounted: bool,
}

/// A batch for the filter of a key.
struct SentBatch {
    key: Vec<u8>,
    batch: ItemBatch,
    /// The time of the items in milliseconds of UNIX time, as a decimal number for AT of BF.INSERT.
    at_ms: Option<String>,
    /// The life of the items, as an argument.
    life_ms: Option<String>,
}

impl SentBatch {
    fn new(key: &[u8], batch: ItemBatch) -> Self {
        let at_ms = batch.time.map(|time| time.at_ms.to_string());
        let life_ms = batch.time.and_then(|time| time.life_ms).map(|life_ms| life_ms.to_string());
        Self { key: key.to_owned(), batch, at_ms, life_ms }
    }

    /// Returns the command that adds the batch.
    fn command(&self, is_packed: bool) -> Vec<&[u8]> {
        let Self { key, batch, at_ms, life_ms } = self;
        if is_packed && at_ms.is_none() {
            return vec![b"BF.BULKADD", key, b"NOCREATE", batch.packing.word().as_bytes(), &batch.data];
        }
        let mut command: Vec<&[u8]> = vec![b"BF.INSERT", key, b"NOCREATE"];
        if let Some(at_ms) = at_ms {
            command.extend([b"AT", at_ms.as_bytes()]);
        }
        if let Some(life_ms) = life_ms {
            command.extend([&b"PLIFE"[..], life_ms.as_bytes()]);
        }
        command.push(b"ITEMS");
        command.extend(batch.iter());
        command
    }
}

impl<'r> Sender<'r> {
    /// Returns a sender for filters that exist. Checks whether their servers have BF.BULKADD.
    pub(crate) fn new(router: &'r mut Router, keys: &[Vec<u8>]) -> Result<Self, Failure> {
        // Sends a batch without items, which changes nothing.
        let word = BatchPacking::Prefixed.word().as_bytes();
        let mut is_packed = true;
        for key in keys {
            match router.call(key, &[b"BF.BULKADD", key, b"NOCREATE", word, b""]) {
                Ok(_) => {}
                Err(error) if error.lacks_command() => is_packed = false,
                Err(error) => return Err(Failure::from(error).about(shown(key))),
            }
        }
        let (outstanding, refused) = (HashMap::new(), Vec::new());
        let counts = LoadCounts::default();
        Ok(Self { router, is_packed, outstanding, refused, counts, has_uncounted: false })
    }

    /// Sends a batch to the filter of a key. Its results are counted when the reply is received.
    pub(crate) fn add(&mut self, key: &[u8], batch: ItemBatch) -> Result<(), Failure> {
        // BF.BULKADD has no option for the time of items.
        if self.is_packed && batch.time.is_none() {
            return self.send(SentBatch::new(key, batch), PACKED_AHEAD);
        }
        for items in batch.iter().collect::<Vec<_>>().chunks(WORDS_ITEMS) {
            let mut part = ItemBatch::prefixed(0, batch.time);
            items.iter().try_for_each(|item| part.push(item))?;
            self.send(SentBatch::new(key, part), WORDS_AHEAD)?;
        }
        Ok(())
    }

    /// Receives all outstanding replies, and sends refused batches again.
    pub(crate) fn settle(&mut self) -> Result<&mut Router, Failure> {
        let addresses: Vec<NodeAddress> = self.outstanding.keys().cloned().collect();
        addresses.iter().try_for_each(|address| self.receive_beyond(address, 0))?;
        for sent in mem::take(&mut self.refused) {
            let outcome = self.router.call(&sent.key, &sent.command(self.is_packed));
            self.note(&sent, outcome)?;
        }
        Ok(self.router)
    }

    fn send(&mut self, sent: SentBatch, ahead: usize) -> Result<(), Failure> {
        check_interruption()?;
        let address = self.router.address_of(&sent.key)?;
        self.router.at(&address)?.send(&sent.command(self.is_packed))?;
        self.outstanding.entry(address.clone()).or_default().push_back(sent);
        self.receive_beyond(&address, ahead)?;
        if self.refused.is_empty() { Ok(()) } else { self.settle().map(drop) }
    }

    /// Receives replies of a node until at most `ahead` are outstanding.
    fn receive_beyond(&mut self, address: &NodeAddress, ahead: usize) -> Result<(), Failure> {
        while let Some(outstanding) = self.outstanding.get_mut(address).filter(|sent| sent.len() > ahead)
            && let Some(sent) = outstanding.pop_front()
        {
            match self.router.at(address)?.receive() {
                Err(CallError::Refused(text)) if self.router.is_to_follow(&text) => self.refused.push(sent),
                outcome => self.note(&sent, outcome)?,
            }
        }
        Ok(())
    }

    /// Returns the failure of a load into existing filters, with the number of items that were added before.
    pub(crate) fn with_count(&mut self, failure: Failure) -> Failure {
        let is_exact = self.settle().is_ok() && !self.has_uncounted;
        let at_least = if is_exact { "" } else { "at least " };
        let items = counted(self.counts.new + self.counts.present, "item");
        failure.with(format!("the filter has {at_least}{items} of the input"))
    }

    /// Counts the results of a batch.
    fn note(&mut self, sent: &SentBatch, outcome: Result<Value, CallError>) -> Result<(), Failure> {
        let noted = self.note_results(sent, outcome);
        self.has_uncounted |= noted.is_err();
        noted
    }

    fn note_results(&mut self, sent: &SentBatch, outcome: Result<Value, CallError>) -> Result<(), Failure> {
        let items = sent.batch.items;
        let reply = match outcome {
            Err(CallError::Refused(text))
                if sent.at_ms.is_some() && EXPIRED.iter().any(|error| text.contains(error)) =>
            {
                self.counts.expired += items;
                return Ok(());
            }
            outcome => outcome?,
        };
        let results = count(reply, &mut self.counts)?;
        self.counts.items += items;
        // The reply of a full filter ends at the first refused item, so the items after it have no result.
        let missing = items.checked_sub(results);
        let wrong = || Failure::new(format!("the server returned {results} results for {items} items"));
        self.counts.refused += missing.ok_or_else(wrong)?;
        Ok(())
    }
}

/// Counts the results in a reply: the characters of BF.BULKADD, or the numbers, booleans and errors of BF.INSERT.
/// Returns the number of results.
fn count(reply: Value, counts: &mut LoadCounts) -> Result<u64, CallError> {
    let character = |result: &Value| match result {
        Value::Int(0) | Value::Boolean(false) => b'0',
        Value::Int(_) | Value::Boolean(true) => b'1',
        _ => b'!',
    };
    let results = match reply {
        Value::BulkString(results) => results,
        Value::Array(results) => results.iter().map(character).collect(),
        _ => return Err(CallError::unexpected_reply("BF.BULKADD or BF.INSERT")),
    };
    let number = |character| memchr_iter(character, &results).count() as u64;
    let (all, new, present) = (results.len() as u64, number(b'1'), number(b'0'));
    counts.new += new;
    counts.present += present;
    counts.refused += all - new - present;
    Ok(all)
}
