//! Commands that read.

use super::Slot;
use super::dump;
use super::error::CommandError;
use super::export::export;
use super::info;
use super::reply::Reply;
use super::settings::Host;
use crate::bloom::{Filter, Prefetch};

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
    /// BF.EXPORT.
    Export,
}

impl Query<'_> {
    /// Answers the query; nothing of the filter changes but what is kept in memory of its dumps.
    /// O(items * layers * probes), for a dump O(bytes of the chunk).
    ///
    /// # Errors
    /// What the command is refused for; nothing has been replied then.
    #[inline(always)]
    pub fn run(
        self,
        slot: Slot<&mut Filter>,
        host: &dyn Host,
        prefetch: impl Prefetch,
        reply: &mut impl Reply,
    ) -> Result<Checks, CommandError> {
        match self {
            Self::Exists { item } => {
                exists(present(slot)?, item, prefetch, reply);
                return Ok(Checks(1));
            }
            Self::ExistsMany { items } => {
                exists_many(present(slot)?, items, prefetch, reply);
                return Ok(Checks(items.len() as u64));
            }
            Self::Card => reply.integer(present(slot)?.map_or(0, |filter| filter.items())),
            Self::Info { field } => info::info(required(slot)?, field, reply)?,
            Self::Debug => info::debug(required(slot)?, reply),
            Self::Export => reply.bulk(&export(required(slot)?)?),
            Self::ScanDump { iterator } => dump::scan(required(slot)?, iterator, host, reply)?,
        }
        Ok(Checks(0))
    }
}

/// Items that a query checked, for the statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checks(pub u64);

fn exists(filter: Option<&mut Filter>, item: &[u8], prefetch: impl Prefetch, reply: &mut impl Reply) {
    reply.boolean(filter.is_some_and(|filter| filter.contains(item, prefetch)));
}

fn exists_many(
    filter: Option<&mut Filter>,
    items: &[&[u8]],
    prefetch: impl Prefetch,
    reply: &mut impl Reply,
) {
    reply.array(items.len());
    match filter {
        Some(filter) => filter.contains_many(items, prefetch, |found| reply.boolean(found)),
        None => items.iter().for_each(|_| reply.boolean(false)),
    }
}

/// The filter, if there is one.
fn present(slot: Slot<&mut Filter>) -> Result<Option<&mut Filter>, CommandError> {
    match slot {
        Slot::Vacant => Ok(None),
        Slot::Filter(filter) => Ok(Some(filter)),
        Slot::WrongType => Err(CommandError::WrongType),
    }
}

/// The filter, which must be there.
fn required(slot: Slot<&mut Filter>) -> Result<&mut Filter, CommandError> {
    present(slot)?.ok_or(CommandError::NotFound)
}
