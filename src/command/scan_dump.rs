//! BF.SCANDUMP.

use super::arguments::Arguments;
use super::effects::Effects;
use super::error::CommandError;
use super::keyspace::{Keyspace, OpenKey};
use super::number::parse_integer;
use super::reply::Reply;
use super::table::KeyAccess;
use crate::bloom::OutOfMemory;
use crate::format::filter::chunk;

/// BF.SCANDUMP: `key iterator`. Replies the piece of the filter that the iterator stands for, and the
/// iterator after it. Nothing of the filter changes but what is kept in memory of its dumps. O(bytes of the
/// piece).
///
/// # Errors
/// [`CommandError::ScanDumpIterator`] when the iterator is not an integer; [`CommandError::OutOfMemory`].
pub(super) fn run<'a>(
    mut arguments: Arguments<'a>,
    keyspace: &impl Keyspace,
    reply: &mut impl Reply,
) -> Result<Effects<'a>, CommandError> {
    let (key, iterator) = (arguments.key()?, arguments.required()?);
    let mut key = keyspace.open(key, KeyAccess::ReadOnly);
    let filter = key.slot().required()?;
    let iterator = parse_integer(iterator).ok_or(CommandError::ScanDumpIterator)?;
    if iterator == 0 {
        filter.mark_state(keyspace.random_number());
    }
    let piece = match u64::try_from(iterator) {
        Ok(iterator) => chunk(filter, iterator).map_err(|OutOfMemory| CommandError::OutOfMemory)?,
        Err(_) => None,
    };
    reply.array(2);
    match piece {
        Some(piece) => {
            reply.integer(piece.next_iterator);
            reply.bulk(&piece.data);
        }
        None => {
            reply.integer(0);
            reply.bulk(b"");
        }
    }
    Ok(Effects::default())
}
