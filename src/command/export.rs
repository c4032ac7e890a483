//! BF.EXPORT: giving back the bitmap that BF.IMPORT imported.

use std::hint::black_box;

use super::arguments::Arguments;
use super::effects::Effects;
use super::error::CommandError;
use super::facts::imported;
use super::import::ImportError;
use super::keyspace::{Keyspace, OpenKey};
use super::reply::Reply;
use super::table::KeyAccess;
use crate::bloom::Filter;
use crate::bloom::policy::BitOrder;
use crate::format::client::{ExportError, GuavaHeader};

/// BF.EXPORT: `key`. Replies the string that the client would have now, items added since the import
/// included. O(bytes).
///
/// # Errors
/// [`ImportError`] when the filter is not a client's any more, or never was, or its string is too long.
pub(super) fn run<'a>(
    mut arguments: Arguments<'a>,
    keyspace: &impl Keyspace,
    reply: &mut impl Reply,
) -> Result<Effects<'a>, CommandError> {
    let mut key = keyspace.open(arguments.key()?, KeyAccess::ReadOnly);
    reply.bulk(&export(key.slot().required()?)?);
    Ok(Effects::default())
}

fn export(filter: &Filter) -> Result<Vec<u8>, CommandError> {
    let form = imported(filter).ok_or(ImportError::NotImported)?.form;
    let (layout, layer) = filter.clients_layer().ok_or(ImportError::NotImported)?;
    let layers = filter.layer_count();
    if layers > 1 {
        return Err(ImportError::Grown { layers }.into());
    }
    // Only Guava's own bytes have this order, and they come back in its frame.
    let guava = (form.order == BitOrder::BigEndianWords).then(|| GuavaHeader::of(&layout.parameters()));
    let bytes = match guava.flatten() {
        Some(header) => header.write(layer.cells()),
        None => form.write(layer.cells()),
    };
    let bytes = bytes.and_then(|bytes| check_room_for_copy(&bytes).map(|()| bytes));
    Ok(bytes.map_err(ImportError::Export)?)
}

/// Bytes that a server takes beside those of a reply, generously.
const COPY_OVERHEAD_BYTES: usize = 64 << 10;

/// Refuses a reply that the server has no room for. It copies what it replies, by an allocation that ends it
/// when it fails: so that goes ahead only where one of the same size has just succeeded.
fn check_room_for_copy(bytes: &[u8]) -> Result<(), ExportError> {
    let mut copy = Vec::<u8>::new();
    let has_room = copy.try_reserve_exact(bytes.len().saturating_add(COPY_OVERHEAD_BYTES));
    // Nothing is ever written there, so the compiler would leave the allocation out.
    black_box(&mut copy);
    has_room.map_err(|_| ExportError::OutOfMemory)
}
