//! BF.CLEAR.

use super::arguments::Arguments;
use super::effects::{Effects, Replication};
use super::error::CommandError;
use super::keyspace::{Keyspace, OpenKey};
use super::reply::Reply;
use super::table::KeyAccess;
use crate::bloom::{OutOfMemory, ReserveError};

/// BF.CLEAR: `key`. Empties a filter, which keeps its parameters and its time to live. O(1); what it held
/// is freed in the background where that takes long.
///
/// Nothing is replicated or notified unless the filter held anything.
///
/// # Errors
/// [`CommandError::WrongType`], [`CommandError::NotFound`], or that there is no memory for an empty first
/// layer; the filter is then as it was.
pub(super) fn run<'a>(
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
    let emptied = filter.try_emptied();
    key.replace(emptied.map_err(|OutOfMemory| CommandError::Reserve(ReserveError::OutOfMemory))?);
    reply.simple("OK");
    Ok(Effects { replication: Replication::Verbatim, cleared: true, ..Effects::default() })
}
