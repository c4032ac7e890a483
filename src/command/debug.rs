//! BF.DEBUG.

use super::arguments::Arguments;
use super::effects::Effects;
use super::error::CommandError;
use super::keyspace::{Keyspace, OpenKey};
use super::kinds::debug_lines;
use super::reply::Reply;
use super::table::KeyAccess;

/// BF.DEBUG: `key`. Replies the number of items, then a line per layer. O(layers).
///
/// # Errors
/// [`CommandError::WrongType`] and [`CommandError::NotFound`].
pub(super) fn run<'a>(
    mut arguments: Arguments<'a>,
    keyspace: &impl Keyspace,
    reply: &mut impl Reply,
) -> Result<Effects<'a>, CommandError> {
    let mut key = keyspace.open(arguments.key()?, KeyAccess::ReadOnly);
    let filter = key.slot().required()?;
    let lines = debug_lines(filter);
    reply.array(lines.len().saturating_add(1));
    reply.bulk(format!("size:{}", filter.items()).as_bytes());
    lines.iter().for_each(|line| reply.bulk(line.as_bytes()));
    Ok(Effects::default())
}
