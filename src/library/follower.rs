//! A copy of a server's filter that follows it by BF.FOLLOW, without I/O: the follower says which command comes next,
//! and takes its reply.

use thiserror::Error;

use crate::{BloomFilter, Loader};
use everbloom_filter::{EntryKind, Filter, RepeatError};
use everbloom_format::DecodeError;
use everbloom_format::changes::{BadRecord, RECORD_BYTES, Records};
use everbloom_format::chunks::ChunkError;
use everbloom_processor::Processor;

/// A reply of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandReply {
    /// Null.
    Nil,
    /// A number.
    Integer(u64),
    /// A string.
    Bytes(Vec<u8>),
    /// A list.
    Array(Vec<CommandReply>),
    /// An error, with its code.
    Error(String),
}

/// What a reply has brought.
#[derive(Debug)]
pub enum FollowProgress {
    /// A part of a load. The next command can be sent at once.
    Part,
    /// A copy, in place of the one before.
    Loaded(FilterCopy),
    /// Records for [`FilterCopy::apply`]. If `more`, the next command can be sent at once.
    Changes {
        /// The records.
        records: Vec<u8>,
        /// Whether the server has further records.
        more: bool,
    },
    /// Nothing: the copy is up to date.
    Current,
    /// The server does not know any more what has changed. The next command begins a load. The copy is that of an earlier
    /// time until then.
    Lost,
    /// There is no filter. The next command asks again.
    Missing,
}

/// Why a copy cannot follow.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum FollowError {
    /// The server has refused the command.
    #[error("{0}")]
    Refused(String),
    /// The user may not run the command.
    #[error(
        "{0}; the user of a copy needs the rule `+bf.follow +bf.scandump`, and `+time` for a sliding window"
    )]
    NotPermitted(String),
    /// The reply has another form than those of the command.
    #[error("the server's reply to {0} is not one of this command")]
    Reply(&'static str),
    /// The filter cannot be read.
    #[error("the filter cannot be read: {0}")]
    Header(#[from] DecodeError),
    /// A chunk of the filter cannot be read.
    #[error("a chunk of the filter cannot be read: {0}")]
    Chunk(#[from] ChunkError),
    /// A record cannot be read.
    #[error(transparent)]
    Record(#[from] BadRecord),
    /// A record does not fit the copy.
    #[error("a record does not fit the copy: {0}")]
    Repeat(#[from] RepeatError),
    /// More was added during a load than a follower keeps.
    #[error("more than {KEPT_MAX_BYTES} bytes of records came during the load")]
    TooManyRecords,
}

/// The most records that a follower keeps while it loads, in bytes.
const KEPT_MAX_BYTES: usize = 256 << 20;
/// The most records of a reply: the default of BF.FOLLOW.
const REPLY_RECORDS: usize = 65_536;

/// A copy of a filter, and what the next records are about.
#[derive(Debug)]
pub struct FilterCopy {
    filter: BloomFilter,
    records: Records,
}

impl FilterCopy {
    /// Returns the filter.
    #[must_use]
    pub const fn filter(&self) -> &BloomFilter {
        &self.filter
    }

    /// Returns whether the server keeps what is added to the filter. Otherwise any change is lost, and a copy can only be
    /// loaded again: of counting filters, and of imported ones that have their client's bits alone.
    #[must_use]
    pub fn has_log(&self) -> bool {
        has_log(&self.filter.0)
    }

    /// Repeats what the records say. They may also be passed in parts of several whole records. O(records).
    ///
    /// # Errors
    /// [`FollowError`]. The copy must not follow any more then.
    pub fn apply(&mut self, records: &[u8]) -> Result<(), FollowError> {
        let (records, rest) = records.as_chunks::<RECORD_BYTES>();
        for record in records {
            if let Some((place, hash)) = self.records.read(record)? {
                self.filter.0.repeat(&place, hash, Processor)?;
            }
        }
        if rest.is_empty() { Ok(()) } else { Err(BadRecord.into()) }
    }

    /// Adds an item that was added on the server, before its record comes. `now_ms` is the time in milliseconds of UNIX
    /// time, for sliding windows. `is_new` is the server's reply: a window with `NOREFRESH` does not keep an item that was
    /// not new, and neither does its copy, unless that lacks the item. Returns whether the copy has the item now: it lacks
    /// one that a full filter refuses. O(layers * probes).
    pub fn add(&mut self, item: &[u8], now_ms: u64, is_new: bool) -> bool {
        let filter = &mut self.filter.0;
        filter.set_now(now_ms);
        let keeps_first = filter.window().is_some_and(|window| window.no_refresh);
        if keeps_first && !is_new && filter.contains(item, Processor) {
            return true;
        }
        let place = filter.add_place();
        match filter.add_hash().pair(item) {
            Some(pair) if has_log(filter) => filter.repeat(&place, pair, Processor).is_ok(),
            _ => self.filter.add(item).is_ok(),
        }
    }
}

/// Returns whether the server keeps what is added to the filter now. Copies of other filters are loaded after each
/// change.
fn has_log(filter: &Filter) -> bool {
    match filter.table() {
        Some(table) => table.kind() != EntryKind::Counted,
        None => filter.layers().last().is_some_and(|layer| layer.hash().takes_all_items()),
    }
}

#[derive(Debug)]
enum Stage {
    /// Asks for a position.
    Position,
    /// Asks for the header of the filter.
    Header,
    /// Asks for the chunk at an iterator, or first for the changes.
    Load { loader: Loader, iterator: u64, changes_first: bool },
    /// Asks for the changes.
    Follow,
}

/// Loads a copy of a filter, and follows its changes. It knows no copy and does no I/O:
///
/// ```
/// use everbloom::{Follower, FollowProgress, CommandReply};
///
/// let mut follower = Follower::new("seen");
/// assert_eq!(follower.command(), [b"BF.FOLLOW".to_vec(), b"seen".to_vec()]);
/// let progress = follower.take(CommandReply::Array(vec![CommandReply::Integer(17), CommandReply::Integer(0)]))?;
/// assert!(matches!(progress, FollowProgress::Part));
/// assert_eq!(follower.command()[0], b"BF.SCANDUMP");
/// # Ok::<(), everbloom::FollowError>(())
/// ```
#[derive(Debug)]
pub struct Follower {
    key: Vec<u8>,
    stage: Stage,
    /// Id and offset of the last reply of BF.FOLLOW.
    position: (u64, u64),
    /// The records that came during a load.
    kept: Vec<u8>,
}

impl Follower {
    /// Returns a follower of the filter under `key`, which begins with a load.
    #[must_use]
    pub fn new(key: impl Into<Vec<u8>>) -> Self {
        Self { key: key.into(), stage: Stage::Position, position: (0, 0), kept: Vec::new() }
    }

    /// Returns the next command for the server: its name and its arguments.
    #[must_use]
    pub fn command(&self) -> Vec<Vec<u8>> {
        let (id, offset) = self.position;
        let (name, numbers) = match self.stage {
            Stage::Position => (FOLLOW, vec![]),
            Stage::Load { changes_first: true, .. } | Stage::Follow => (FOLLOW, vec![id, offset]),
            Stage::Header => (SCANDUMP, vec![0]),
            Stage::Load { iterator, .. } => (SCANDUMP, vec![iterator]),
        };
        let words = [name.as_bytes().to_vec(), self.key.clone()];
        words.into_iter().chain(numbers.iter().map(|number| number.to_string().into_bytes())).collect()
    }

    /// Returns whether a load is under way, or comes next.
    #[must_use]
    pub const fn is_loading(&self) -> bool {
        !matches!(self.stage, Stage::Follow)
    }

    /// Begins a load with the next command.
    pub fn restart(&mut self) {
        self.stage = Stage::Position;
        self.kept = Vec::new();
    }

    /// Takes the reply to the last [`command`](Self::command). O(bytes).
    ///
    /// # Errors
    /// [`FollowError`]. A load that has begun begins anew with the next command; otherwise the command is the same.
    pub fn take(&mut self, reply: CommandReply) -> Result<FollowProgress, FollowError> {
        let result = self.progress(reply);
        if result.is_err() && self.is_loading() {
            self.restart();
        }
        result
    }

    fn progress(&mut self, reply: CommandReply) -> Result<FollowProgress, FollowError> {
        if let CommandReply::Error(text) = reply {
            if text == "ERR not found" {
                self.restart();
                return Ok(FollowProgress::Missing);
            }
            let is_denied = text.starts_with("NOPERM");
            return Err(if is_denied { FollowError::NotPermitted(text) } else { FollowError::Refused(text) });
        }
        match &mut self.stage {
            Stage::Position => {
                let [id, offset] = numbers(&reply).ok_or(FollowError::Reply(FOLLOW))?;
                (self.position, self.stage) = ((id, offset), Stage::Header);
                Ok(FollowProgress::Part)
            }
            Stage::Header => {
                let (iterator, header) = chunk(reply)?;
                let loader = Loader::new(&header)?;
                let changes_first = has_log(loader.0.filter());
                self.stage = Stage::Load { loader, iterator, changes_first };
                Ok(FollowProgress::Part)
            }
            Stage::Load { changes_first: true, .. } | Stage::Follow => self.take_changes(&reply),
            Stage::Load { loader, iterator, changes_first } => {
                let (next, chunk) = chunk(reply)?;
                if next == 0 {
                    return self.finish();
                }
                match loader.load(next, &chunk) {
                    // In the format redisbloom, a layer that is newer than the header may follow. The records make it.
                    Err(ChunkError::BeyondEnd) => return self.finish(),
                    outcome => outcome?,
                }
                (*iterator, *changes_first) = (next, has_log(loader.0.filter()));
                Ok(FollowProgress::Part)
            }
        }
    }

    /// Returns the copy of a load whose last chunk has come.
    fn finish(&mut self) -> Result<FollowProgress, FollowError> {
        let Stage::Load { loader, .. } = std::mem::replace(&mut self.stage, Stage::Follow) else {
            return Err(FollowError::Reply(SCANDUMP));
        };
        let loaded = loader.finish().map_err(FollowError::from).and_then(|filter| {
            let mut copy = FilterCopy { filter, records: Records::default() };
            copy.apply(&std::mem::take(&mut self.kept))?;
            Ok(copy)
        });
        if loaded.is_err() {
            self.restart();
        }
        loaded.map(FollowProgress::Loaded)
    }

    /// Takes a reply of BF.FOLLOW to a position.
    fn take_changes(&mut self, reply: &CommandReply) -> Result<FollowProgress, FollowError> {
        let bad = FollowError::Reply(FOLLOW);
        let [id, offset] = numbers(reply).ok_or(bad.clone())?;
        let CommandReply::Array(parts) = reply else { return Err(bad) };
        let records = match parts.get(2) {
            Some(CommandReply::Bytes(records)) => records,
            Some(CommandReply::Nil) => {
                // The position is that of now, so a load can go on from it.
                self.restart();
                (self.position, self.stage) = ((id, offset), Stage::Header);
                return Ok(FollowProgress::Lost);
            }
            _ => return Err(bad),
        };
        self.position = (id, offset);
        let more = records.len() >= REPLY_RECORDS * RECORD_BYTES;
        if let Stage::Load { changes_first, .. } = &mut self.stage {
            if self.kept.len().saturating_add(records.len()) > KEPT_MAX_BYTES {
                return Err(FollowError::TooManyRecords);
            }
            self.kept.extend_from_slice(records);
            *changes_first = more;
            return Ok(FollowProgress::Part);
        }
        if records.is_empty() {
            return Ok(FollowProgress::Current);
        }
        Ok(FollowProgress::Changes { records: records.clone(), more })
    }
}

const FOLLOW: &str = "BF.FOLLOW";
const SCANDUMP: &str = "BF.SCANDUMP";

/// Returns the two numbers with which a reply begins.
fn numbers(reply: &CommandReply) -> Option<[u64; 2]> {
    match reply {
        CommandReply::Array(parts) => match parts.as_slice() {
            [CommandReply::Integer(first), CommandReply::Integer(second), ..] => Some([*first, *second]),
            _ => None,
        },
        _ => None,
    }
}

/// Returns the iterator and the chunk of a reply of BF.SCANDUMP.
fn chunk(reply: CommandReply) -> Result<(u64, Vec<u8>), FollowError> {
    if let CommandReply::Array(parts) = reply
        && let Ok([CommandReply::Integer(iterator), CommandReply::Bytes(bytes)]) = <[_; 2]>::try_from(parts)
    {
        return Ok((iterator, bytes));
    }
    Err(FollowError::Reply(SCANDUMP))
}
