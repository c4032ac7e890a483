//! BF.DEL.

use std::borrow::Cow;

use super::adding::room_for_arguments;
use super::arguments::Arguments;
use super::effects::{Effects, Line, Replication};
use super::error::CommandError;
use super::keyspace::{Keyspace, OpenKey};
use super::reply::Reply;
use super::table::KeyAccess;
use crate::bloom::{CellType, Filter, Prefetch};

/// BF.DEL: `key item [item ...]`. Deletes one occurrence of each item from a filter that counts; replies
/// whether there was one. O(items * layers * probes).
///
/// # Errors
/// That there is no filter, or one that does not count; nothing has been replied then.
pub(super) fn run<'a>(
    mut arguments: Arguments<'a>,
    keyspace: &impl Keyspace,
    reply: &mut impl Reply,
) -> Result<Effects<'a>, CommandError> {
    let (key, items) = (arguments.key()?, arguments.items()?);
    let mut open = keyspace.open(key, KeyAccess::ReadWrite);
    // Had before anything is changed: afterwards nobody could refuse.
    let room = room_for_arguments(items.len())?;
    let filter = open.slot().required()?;
    let (items_before, capacity_before_items) = (filter.items(), filter.capacity_items());
    let answers = delete(filter, items, keyspace.prefetch())?;
    reply.array(answers.len());
    answers.iter().for_each(|is_deleted| reply.boolean(*is_deleted));
    let items_deleted = answers.iter().map(|is_deleted| u64::from(*is_deleted)).sum();
    if items_deleted == 0 {
        return Ok(Effects::default());
    }
    open.altered(items_before, capacity_before_items);
    let replication = if items_deleted == items.len() as u64 {
        Replication::Verbatim
    } else {
        let deleted = items.iter().zip(&answers).filter(|(_, is_deleted)| **is_deleted);
        let deleted = deleted.map(|(item, _)| Cow::Borrowed(*item));
        Replication::Rewritten(vec![Line::delete(key.bytes, deleted, room)])
    };
    Ok(Effects { replication, items_deleted, ..Effects::default() })
}

/// Deletes the items in turn; one answer each.
fn delete(filter: &mut Filter, items: &[&[u8]], prefetch: impl Prefetch) -> Result<Vec<bool>, CommandError> {
    if filter.cell_type() != CellType::Counters {
        return Err(CommandError::NotCounting);
    }
    let mut answers = Vec::new();
    answers.try_reserve_exact(items.len()).map_err(|_| CommandError::OutOfMemory)?;
    filter.remove_many(items, prefetch, |is_deleted| answers.push(is_deleted));
    Ok(answers)
}
