//! BF.CLEAR.

use super::arguments::Arguments;
use super::effects::{Effects, Replication};
use super::error::CommandError;
use super::keyspace::{Keyspace, OpenKey};
use super::reply::Reply;
use super::table::KeyAccess;
use crate::bloom::ByteLimit;

/// BF.CLEAR: `key`. Empties a filter, which keeps its parameters and its time to live. O(1); what it held
/// is freed in the background where that takes long.
///
/// Nothing is replicated or notified unless the filter held anything.
///
/// # Errors
/// [`CommandError::WrongType`], [`CommandError::NotFound`], or that the empty filter would be larger than
/// this one and than the limit, or there is no memory for it; the filter is then as it was.
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
    let limit = LimitOrOwnSize { limit: keyspace, own_bytes: filter.size_bytes() };
    let emptied = filter.try_emptied(&limit).map_err(CommandError::Reserve)?;
    key.replace(emptied);
    reply.simple("OK");
    Ok(Effects { replication: Replication::Verbatim, cleared: true, ..Effects::default() })
}

/// A limit that lets a filter take what it takes already, though that may be more than a setting of today allows. A header
/// that was made up may ask for any size as soon as the filter is emptied.
struct LimitOrOwnSize<'h, H> {
    limit: &'h H,
    own_bytes: u64,
}

impl<H: ByteLimit> ByteLimit for LimitOrOwnSize<'_, H> {
    fn max_filter_bytes(&self) -> u64 {
        self.limit.max_filter_bytes().max(self.own_bytes)
    }

    fn permits(&self, needed_bytes: u64) -> Result<(), u64> {
        if needed_bytes <= self.own_bytes { Ok(()) } else { self.limit.permits(needed_bytes) }
    }
}
