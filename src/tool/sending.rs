//! Adding batches to a filter on a server: by BF.BULKADD, or by BF.INSERT where a server does not know it; several
//! commands on their way at once.

use redis::Value;

use super::failure::Failure;
use super::packing::{Batch, Packing};
use super::server::{Connection, Trouble};

/// Commands that are sent before the reply to the first is waited for. Their replies together are far smaller than
/// what the system keeps for a connection, so that neither side ever waits for the other to read.
const PACKED_AHEAD: usize = 3;
const WORDS_AHEAD: usize = 16;
/// Items of one BF.INSERT.
const WORDS_ITEMS: usize = 1000;

/// What came of adding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) items: u64,
    pub(crate) new: u64,
    pub(crate) present: u64,
    pub(crate) refused: u64,
}

/// Adds batches to one filter, which must be there.
pub(crate) struct Sender<'c> {
    connection: &'c mut Connection,
    key: Vec<u8>,
    is_packed: bool,
    /// Items of each command whose reply is outstanding.
    outstanding: std::collections::VecDeque<u64>,
    pub(crate) counts: Counts,
}

impl<'c> Sender<'c> {
    /// Finds out what the server knows.
    pub(crate) fn new(connection: &'c mut Connection, key: &[u8]) -> Result<Self, Failure> {
        // No items in a packing that has no end of its own: changes nothing.
        let word = Packing::Prefixed.word().as_bytes();
        let is_packed = match connection.call(&[b"BF.BULKADD", key, b"NOCREATE", word, b""]) {
            Ok(_) => true,
            Err(trouble) if trouble.lacks_command() => false,
            Err(trouble) => return Err(trouble.into()),
        };
        let outstanding = std::collections::VecDeque::new();
        Ok(Self { connection, key: key.to_owned(), is_packed, outstanding, counts: Counts::default() })
    }

    /// Whether items go packed.
    pub(crate) const fn is_packed(&self) -> bool {
        self.is_packed
    }

    /// Sends a batch; what came of it is counted by and by.
    pub(crate) fn add(&mut self, batch: &Batch) -> Result<(), Failure> {
        if self.is_packed {
            let word = batch.packing.word().as_bytes();
            let command: [&[u8]; 5] = [b"BF.BULKADD", &self.key, b"NOCREATE", word, &batch.data];
            self.connection.send(&command)?;
            self.outstanding.push_back(batch.items);
            return self.receive_beyond(PACKED_AHEAD);
        }
        let (key, mut items) = (self.key.clone(), batch.iter().peekable());
        while items.peek().is_some() {
            let mut command: Vec<&[u8]> = vec![b"BF.INSERT", &key, b"NOCREATE", b"ITEMS"];
            let words = command.len();
            command.extend(items.by_ref().take(WORDS_ITEMS));
            self.connection.send(&command)?;
            self.outstanding.push_back(command.len().saturating_sub(words) as u64);
            self.receive_beyond(WORDS_AHEAD)?;
        }
        Ok(())
    }

    /// Receives what is outstanding.
    pub(crate) fn settle(&mut self) -> Result<&mut Connection, Failure> {
        self.receive_beyond(0)?;
        Ok(self.connection)
    }

    fn receive_beyond(&mut self, ahead: usize) -> Result<(), Failure> {
        while self.outstanding.len() > ahead {
            let items = self.outstanding.pop_front().unwrap_or_default();
            let reply = self.connection.receive()?;
            let answers = count(&reply, &mut self.counts)?;
            self.counts.items += items;
            // A filter of fixed size that is full ends the reply at the first item that it refuses.
            match items.checked_sub(answers) {
                Some(missing) => self.counts.refused += missing,
                None => return Err(Failure::new(format!("{answers} answers for {items} items"))),
            }
        }
        Ok(())
    }
}

/// Counts the answers of one reply: a character each, or a number, a truth value or an error each. Answers how many
/// there are.
fn count(reply: &Value, counts: &mut Counts) -> Result<u64, Trouble> {
    let mut add = |answer: u8| match answer {
        b'1' => counts.new += 1,
        b'0' => counts.present += 1,
        _ => counts.refused += 1,
    };
    match reply {
        Value::BulkString(answers) => {
            answers.iter().for_each(|answer| add(*answer));
            Ok(answers.len() as u64)
        }
        Value::Array(answers) => {
            for answer in answers {
                match answer {
                    Value::Int(0) | Value::Boolean(false) => add(b'0'),
                    Value::Int(_) | Value::Boolean(true) => add(b'1'),
                    _ => add(b'!'),
                }
            }
            Ok(answers.len() as u64)
        }
        _ => Err(Trouble::Broken("an answer per item was expected".to_owned())),
    }
}
