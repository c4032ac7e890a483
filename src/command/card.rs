//! BF.CARD.

use super::arguments::Arguments;
use super::effects::Effects;
use super::error::CommandError;
use super::keyspace::{Keyspace, OpenKey};
use super::reply::Reply;
use super::table::KeyAccess;

/// BF.CARD: `key`; 0 where there is none. O(layers).
///
/// # Errors
/// [`CommandError::WrongType`].
pub(super) fn run<'a>(
    mut arguments: Arguments<'a>,
    keyspace: &impl Keyspace,
    reply: &mut impl Reply,
) -> Result<Effects<'a>, CommandError> {
    let mut key = keyspace.open(arguments.key()?, KeyAccess::ReadOnly);
    reply.integer(key.slot().present()?.map_or(0, |filter| filter.items()));
    Ok(Effects::default())
}
