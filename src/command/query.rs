//! Commands that read.

use smallvec::SmallVec;

use super::Slot;
use super::dump;
use super::error::CommandError;
use super::info;
use super::reply::Reply;
use crate::bloom::{Chain, hash128};

/// A command that reads a filter.
#[derive(Debug)]
pub enum Query<'a> {
    /// BF.EXISTS.
    Exists {
        /// The item asked for.
        item: &'a [u8],
    },
    /// BF.MEXISTS.
    ExistsMany {
        /// The items asked for, at least one.
        items: &'a [&'a [u8]],
    },
    /// BF.CARD.
    Card,
    /// BF.INFO.
    Info {
        /// The one field asked for, as typed; none for all.
        field: Option<&'a [u8]>,
    },
    /// BF.DEBUG.
    Debug,
    /// BF.SCANDUMP.
    ScanDump {
        /// The iterator, as typed.
        iterator: &'a [u8],
    },
}

impl Query<'_> {
    /// Answers the query. O(items * layers * probes), for a dump O(bytes of the chunk).
    ///
    /// # Errors
    /// What the command is refused for; nothing has been replied then.
    pub fn run(self, slot: Slot<&Chain>, reply: &mut impl Reply) -> Result<Checks, CommandError> {
        match self {
            Self::Exists { item } => {
                reply.boolean(present(slot)?.is_some_and(|chain| chain.contains(hash128(item))));
                return Ok(Checks(1));
            }
            Self::ExistsMany { items } => {
                exists_many(present(slot)?, items, reply);
                return Ok(Checks(items.len() as u64));
            }
            Self::Card => reply.integer(present(slot)?.map_or(0, Chain::items)),
            Self::Info { field } => info::info(required(slot)?, field, reply)?,
            Self::Debug => info::debug(required(slot)?, reply),
            Self::ScanDump { iterator } => dump::scan(required(slot)?, iterator, reply)?,
        }
        Ok(Checks(0))
    }
}

/// Items that a query checked, for the statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checks(pub u64);

fn exists_many(chain: Option<&Chain>, items: &[&[u8]], reply: &mut impl Reply) {
    let answers: SmallVec<[bool; 64]> =
        items.iter().map(|item| chain.is_some_and(|chain| chain.contains(hash128(item)))).collect();
    reply.array(answers.len());
    answers.iter().for_each(|answer| reply.boolean(*answer));
}

/// The filter, if there is one.
fn present(slot: Slot<&Chain>) -> Result<Option<&Chain>, CommandError> {
    match slot {
        Slot::Vacant => Ok(None),
        Slot::Filter(chain) => Ok(Some(chain)),
        Slot::WrongType => Err(CommandError::WrongType),
    }
}

/// The filter, which must be there.
fn required(slot: Slot<&Chain>) -> Result<&Chain, CommandError> {
    present(slot)?.ok_or(CommandError::NotFound)
}
