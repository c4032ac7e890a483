//! The commands that remove items from a filter: BF.DEL and BF.CLEAR.

use std::borrow::Cow;

use super::adding::argument_buffer;
use super::arguments::Arguments;
use super::effects::{Effects, Replication};
use super::error::CommandError;
use super::keyspace::{Keyspace, OpenKey};
use super::replicated::ReplicatedCommand;
use super::reply::Reply;
use super::table::KeyAccess;
use crate::bloom::{ByteLimit, Filter, Kind, Limit, Prefetch};

/// BF.DEL: `key item [item ...]`. Deletes one occurrence of each item from a counting filter, and replies whether
/// there was one. O(items).
///
/// Deleting can need memory. If there is none, the item and those after it stay, and each has an error as its reply.
///
/// # Errors
/// The filter does not exist or does not count. Nothing was replied.
pub(super) fn del<'a>(
    mut arguments: Arguments<'a>,
    keyspace: &impl Keyspace,
    reply: &mut impl Reply,
) -> Result<Effects<'a>, CommandError> {
    let (key, items) = (arguments.key()?, arguments.items()?);
    let mut open = keyspace.open(key, KeyAccess::ReadWrite);
    // Allocated before the filter changes, because the command cannot be refused afterwards.
    let buffer = argument_buffer(items.len())?;
    let filter = open.slot().required()?;
    let results = delete(filter, items, keyspace.prefetch())?;
    let items_kept = items.len().saturating_sub(results.len());
    if items_kept > 0 && keyspace.must_succeed() {
        return Err(CommandError::OutOfMemory);
    }
    reply.array(items.len());
    results.iter().for_each(|is_deleted| reply.boolean(*is_deleted));
    if items_kept > 0 {
        let no_memory = CommandError::OutOfMemory.to_string();
        (0..items_kept).for_each(|_| reply.error(&no_memory));
    }
    let items_deleted = results.iter().map(|is_deleted| u64::from(*is_deleted)).sum();
    if items_deleted == 0 {
        return Ok(Effects::default());
    }
    open.changed(0);
    let replication = if items_deleted == items.len() as u64 {
        Replication::Verbatim
    } else {
        let deleted = items.iter().zip(&results).filter(|(_, is_deleted)| **is_deleted);
        let deleted = deleted.map(|(item, _)| Cow::Borrowed(*item));
        Replication::Rewritten(vec![ReplicatedCommand::delete(key.bytes, deleted, buffer)])
    };
    Ok(Effects { replication, items_deleted, ..Effects::default() })
}

/// Deletes the items in order, until there is no memory. Returns for each whether it was present.
fn delete(filter: &mut Filter, items: &[&[u8]], prefetch: impl Prefetch) -> Result<Vec<bool>, CommandError> {
    if filter.kind() != Kind::Counting {
        return Err(CommandError::NotCounting);
    }
    let mut results = Vec::new();
    results.try_reserve_exact(items.len()).map_err(|_| CommandError::OutOfMemory)?;
    filter.remove_many(items, prefetch, |result| {
        results.extend(result);
        result.is_ok()
    });
    Ok(results)
}

/// BF.CLEAR: `key`. Empties a filter, which keeps its parameters and its time to live. O(1): large memory is freed in
/// the background.
///
/// Nothing is replicated or notified if the filter was empty.
///
/// # Errors
/// [`CommandError::WrongType`], [`CommandError::NotFound`]; the empty filter would be larger than the filter and the
/// limit; there is no memory for it. The filter is unchanged.
pub(super) fn clear<'a>(
    mut arguments: Arguments<'a>,
    keyspace: &impl Keyspace,
    reply: &mut impl Reply,
) -> Result<Effects<'a>, CommandError> {
    let mut key = keyspace.open(arguments.key()?, KeyAccess::ReadWrite);
    let filter = key.slot().required()?;
    if filter.is_empty() {
        reply.simple("OK");
        return Ok(Effects::default());
    }
    let limit = LimitOrOwnSize { limit: keyspace, own_bytes: filter.size_bytes() };
    let emptied = filter.try_emptied(&limit).map_err(CommandError::Reserve)?;
    key.replace(emptied);
    reply.simple("OK");
    Ok(Effects { replication: Replication::Verbatim, cleared: true, ..Effects::default() })
}

/// A limit that also allows the current size of the filter, which may exceed a setting that was changed later. The
/// size of the emptied filter is checked because a crafted header can give it any first layer.
struct LimitOrOwnSize<'h, H> {
    limit: &'h H,
    own_bytes: u64,
}

impl<H: ByteLimit> ByteLimit for LimitOrOwnSize<'_, H> {
    fn limit(&self) -> Limit {
        let limit = self.limit.limit();
        Limit { bytes: limit.bytes.max(self.own_bytes), ..limit }
    }

    fn permits(&self, needed_bytes: u64) -> Result<(), Limit> {
        if needed_bytes <= self.own_bytes { Ok(()) } else { self.limit.permits(needed_bytes) }
    }
}
