//! Commands that may change a filter.

use super::Slot;
use super::add::{Adds, Answers, add_one};
use super::creation::CreationOptions;
use super::dump::{Load, LoadChunk};
use super::effects::Effects;
use super::error::CommandError;
use super::reply::Reply;
use super::reserve::{Insert, Reserve};
use super::settings::Host;
use crate::bloom::{Filter, Prefetch};

/// A command that may change a filter.
#[derive(Debug)]
pub enum Change<'a> {
    /// BF.RESERVE.
    Reserve(Box<Reserve<'a>>),
    /// BF.ADD.
    Add {
        /// The key.
        key: &'a [u8],
        /// The item to add.
        item: &'a [u8],
    },
    /// BF.MADD.
    AddMany {
        /// The key.
        key: &'a [u8],
        /// The items to add, at least one.
        items: &'a [&'a [u8]],
    },
    /// BF.INSERT.
    Insert(Box<Insert<'a>>),
    /// BF.LOADCHUNK.
    LoadChunk(LoadChunk<'a>),
    /// BF.LOAD.
    Load(Load<'a>),
}

impl<'a> Change<'a> {
    /// Carries the change out on the filter that is there, or makes the filter that is to be there, and replies.
    /// O(items * layers * probes), for a chunk O(bytes).
    ///
    /// # Errors
    /// What the command is refused for; nothing has been changed or replied then.
    #[inline(always)]
    pub fn run(
        self,
        slot: Slot<&mut Filter>,
        host: &dyn Host,
        prefetch: impl Prefetch,
        reply: &mut impl Reply,
    ) -> Result<Effects<'a>, CommandError> {
        match (self, slot) {
            (Self::Add { item, .. }, Slot::Filter(filter)) => add_one(filter, item, host, prefetch, reply),
            (change, slot) => change.run_any(slot, host, prefetch, reply),
        }
    }

    /// Every change but the most frequent one, which is kept out of the way of the others.
    #[inline(never)]
    fn run_any(
        self,
        slot: Slot<&mut Filter>,
        host: &dyn Host,
        prefetch: impl Prefetch,
        reply: &mut impl Reply,
    ) -> Result<Effects<'a>, CommandError> {
        let options = CreationOptions::default();
        match self {
            Self::Reserve(reserve) => reply_ok(reserve.run(&slot, host)?, reply),
            Self::LoadChunk(load) => reply_ok(load.run(slot, host)?, reply),
            Self::Load(load) => reply_ok(load.run(&slot, host)?, reply),
            Self::Add { key, item } => {
                let (answers, effects) = Adds { key, items: &[item], options }.run(slot, host, prefetch)?;
                answers.write(reply);
                Ok(effects)
            }
            Self::AddMany { key, items } => {
                reply_array(Adds { key, items, options }.run(slot, host, prefetch)?, reply)
            }
            Self::Insert(insert) if insert.no_create && matches!(slot, Slot::Vacant) => {
                Err(CommandError::NotFound)
            }
            Self::Insert(insert) => {
                let Insert { key, items, options, .. } = *insert;
                reply_array(Adds { key, items, options }.run(slot, host, prefetch)?, reply)
            }
        }
    }
}

fn reply_ok<'a>(effects: Effects<'a>, reply: &mut impl Reply) -> Result<Effects<'a>, CommandError> {
    reply.simple("OK");
    Ok(effects)
}

fn reply_array<'a>(
    (answers, effects): (Answers, Effects<'a>),
    reply: &mut impl Reply,
) -> Result<Effects<'a>, CommandError> {
    reply.array(answers.len());
    answers.write(reply);
    Ok(effects)
}
