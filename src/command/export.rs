//! BF.EXPORT: giving back the bitmap that BF.IMPORT took over.

use super::error::CommandError;
use super::import::TransferError;
use crate::bloom::scheme::BitOrder;
use crate::bloom::{Filter, OutOfMemory};
use crate::format::client::GuavaHeader;

/// BF.EXPORT: the string that the client would have now, items added since the import included. O(bytes).
///
/// # Errors
/// [`TransferError`] when the filter is not a client's any more, or never was.
pub fn export(filter: &Filter) -> Result<Vec<u8>, CommandError> {
    let Filter::Imported(chain) = filter else { return Err(TransferError::NotImported.into()) };
    let (placement, layer) = chain.client_layer().ok_or(TransferError::NotImported)?;
    let layers = chain.layers().len();
    if layers > 1 {
        return Err(TransferError::Grown { layers }.into());
    }
    let form = chain.family().form;
    // Only Guava's own bytes have this order, and they come back in its frame.
    let guava = (form.order == BitOrder::BigEndianWords).then(|| GuavaHeader::of(&placement.parameters()));
    let bytes = match guava.flatten() {
        Some(header) => header.write(layer.bits()),
        None => form.write(layer.bits()),
    };
    Ok(bytes.map_err(|OutOfMemory| TransferError::OutOfMemory)?)
}
