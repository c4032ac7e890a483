//! BF.LOAD.

use super::arguments::Arguments;
use super::change::{Change, publish};
use super::effects::Effects;
use super::error::CommandError;
use super::keyspace::{Keyspace, OpenKey};
use super::load_chunk::header_error;
use super::reply::Reply;
use super::table::KeyAccess;
use crate::format::DecodeError;
use crate::format::filter::from_blob;

/// BF.LOAD: `key blob`, a filter as valkey-bloom writes it to an append-only file. O(bytes).
///
/// # Errors
/// When the key is taken or the blob is not a filter.
pub(super) fn run<'a>(
    mut arguments: Arguments<'a>,
    keyspace: &impl Keyspace,
    reply: &mut impl Reply,
) -> Result<Effects<'a>, CommandError> {
    let (key, blob) = (arguments.key()?, arguments.required()?);
    let mut open = keyspace.open(key, KeyAccess::ReadWrite);
    open.slot().vacant(CommandError::KeyExists)?;
    let filter = from_blob(blob, keyspace).map_err(|error| match error {
        DecodeError::Unsupported { .. } => CommandError::BadBlobVersion,
        DecodeError::TooLarge { .. } | DecodeError::OutOfMemory => header_error(error),
        DecodeError::Truncated
        | DecodeError::PrereleaseOrder
        | DecodeError::BeforeFirstRelease
        | DecodeError::Invalid(_) => CommandError::BadBlob,
    })?;
    let ((), effects) = publish(&mut open, key, Change::received(Some(Box::new(filter))))?;
    reply.simple("OK");
    Ok(effects)
}
