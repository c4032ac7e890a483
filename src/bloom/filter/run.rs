//! The outcome of adding a few items one after another.

use crate::bloom::group::{self, ItemSet};
use crate::bloom::outcome::{AddError, Added};

/// The outcomes of consecutive items of a group. A run ends at the first item that is refused for a new reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddOutcomes {
    /// How many items there are.
    pub items: usize,
    /// Items that were not in the filter before.
    pub new: ItemSet,
    /// Items that were in the filter and were counted or refreshed.
    pub again: ItemSet,
    /// Items that were refused.
    pub refused: ItemSet,
    /// Why they were refused.
    pub error: Option<AddError>,
}

impl AddOutcomes {
    /// Sets the outcome of the item with this index.
    pub(super) fn set(&mut self, index: usize, outcome: Result<Added, AddError>) {
        let item = ItemSet::from(true) << index;
        match outcome {
            Ok(Added::New) => self.new |= item,
            Ok(Added::Again) => self.again |= item,
            Ok(Added::Present) => {}
            Err(error) => {
                self.refused |= item;
                self.error = Some(error);
            }
        }
    }

    /// Returns the outcomes up to the first refused item.
    #[must_use]
    pub fn up_to_refused(self) -> Self {
        let items = self.items.min((self.refused.trailing_zeros() as usize).saturating_add(1));
        let all = group::all(items);
        Self { items, new: self.new & all, again: self.again & all, refused: self.refused & all, ..self }
    }

    /// Returns the number of accepted items that were new, or were counted again.
    #[must_use]
    pub const fn items_added(&self) -> u64 {
        (self.new | self.again).count_ones() as u64
    }

    /// Returns the outcome of each item, in order.
    pub fn outcomes(self) -> impl Iterator<Item = Result<Added, AddError>> {
        (0..self.items).map(move |index| {
            let is_in = |set: ItemSet| set >> index & 1 == 1;
            match self.error {
                Some(error) if is_in(self.refused) => Err(error),
                _ if is_in(self.new) => Ok(Added::New),
                _ if is_in(self.again) => Ok(Added::Again),
                _ => Ok(Added::Present),
            }
        })
    }
}
