//! BF.EXISTS and BF.MEXISTS.

use super::arguments::Arguments;
use super::effects::Effects;
use super::error::CommandError;
use super::keyspace::{Host, Keyspace, OpenKey};
use super::reply::Reply;
use super::table::KeyAccess;

/// BF.EXISTS: `key item`. O(layers * probes).
///
/// # Errors
/// The command is refused. Nothing was replied.
#[inline(always)]
pub(super) fn exists<'a>(
    mut arguments: Arguments<'a>,
    keyspace: &impl Keyspace,
    reply: &mut impl Reply,
) -> Result<Effects<'a>, CommandError> {
    let (key, item) = (arguments.key()?, arguments.required()?);
    let mut key = keyspace.open(key, KeyAccess::ReadOnly);
    let found = match key.slot().present()? {
        Some(filter) => filter.contains(item, keyspace.prefetch()),
        None => missing(keyspace)?,
    };
    reply.boolean(found);
    Ok(Effects::of_checks(1, u32::from(found)))
}

/// BF.MEXISTS: `key item [item ...]`. O(items * layers * probes).
///
/// # Errors
/// The command is refused. Nothing was replied.
#[inline(always)]
pub(super) fn mexists<'a>(
    mut arguments: Arguments<'a>,
    keyspace: &impl Keyspace,
    reply: &mut impl Reply,
) -> Result<Effects<'a>, CommandError> {
    let (key, items) = (arguments.key()?, arguments.items()?);
    let mut key = keyspace.open(key, KeyAccess::ReadOnly);
    let mut items_found = 0;
    match key.slot().present()? {
        Some(filter) => {
            reply.array(items.len());
            items_found = filter.contains_many(items, keyspace.prefetch(), |found| reply.boolean(found));
        }
        None => {
            let found = missing(keyspace)?;
            reply.array(items.len());
            items.iter().for_each(|_| reply.boolean(found));
        }
    }
    Ok(Effects::of_checks(items.len(), items_found))
}

/// Returns the result for an item if the filter does not exist.
///
/// # Errors
/// [`CommandError::NotFound`] with `bf.missing-filter error`.
#[cold]
pub(super) fn missing(host: &dyn Host) -> Result<bool, CommandError> {
    if host.settings().missing_filter_is_error { Err(CommandError::NotFound) } else { Ok(false) }
}
