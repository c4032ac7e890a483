//! Makes room in a full filter for the new items of a command.

use super::cells::CellType;
use super::filter::Filter;
use super::hash::Hash;
use super::outcome::{AddError, ByteLimit};

/// Makes room for the new items of one command. No other code adds layers for items.
///
/// After one refusal nothing is sized and no limit is asked any more: during a command, the layers stay full, and the
/// limit and the time of the filter stay the same. So each further refused item costs only its lookup.
pub(super) struct Room<'l> {
    limit: &'l dyn ByteLimit,
    /// Why there is no room.
    refused: Option<AddError>,
}

impl<'l> Room<'l> {
    /// Returns the room of a command that has added no item yet.
    #[inline(always)]
    pub(super) fn new(limit: &'l dyn ByteLimit) -> Self {
        Self { limit, refused: None }
    }

    /// Returns why there is no room, if it was refused before.
    #[inline(always)]
    pub(super) fn refused(&self) -> Option<AddError> {
        self.refused
    }

    /// Appends the next layer to a filter whose layers are all full.
    ///
    /// # Errors
    /// [`AddError`] if the filter cannot grow; the same one for the rest of the command.
    #[cold]
    #[inline(never)]
    pub(super) fn make(&mut self, filter: &mut Filter) -> Result<(), AddError> {
        if let Some(error) = self.refused {
            return Err(error);
        }
        let grown = self.grow(filter);
        self.refused = grown.err();
        grown
    }

    fn grow(&self, filter: &mut Filter) -> Result<(), AddError> {
        let (hash, cells) = filter
            .layers
            .last()
            .map_or((Hash::Murmur3, CellType::Bits), |last| (*last.hash(), last.cells().state().cell_type()));
        let layer = filter.policy.next_layer(&filter.layers, hash, cells)?;
        filter.push_layer(layer, self.limit).map_err(AddError::CannotGrow)
    }
}
