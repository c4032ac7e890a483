//! The outcome of adding a few items one after another.

use super::group::ItemSet;
use super::outcome::{AddError, Added};

/// Consecutive items of a group that were accepted, optionally followed by one that was refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Run {
    /// How many items were accepted.
    pub items: usize,
    /// Items that were not in the filter before.
    pub new: ItemSet,
    /// Items that were in the filter and were counted again.
    pub again: ItemSet,
    /// Why the next item was refused.
    pub refused: Option<AddError>,
}

impl Run {
    /// Appends the outcome of an item. A refusal ends the run: `reply` receives it and returns whether to continue.
    pub(super) fn push(
        &mut self,
        outcome: Result<Added, AddError>,
        reply: &mut dyn FnMut(Self) -> bool,
    ) -> bool {
        match outcome {
            Ok(added) => {
                self.new |= ItemSet::from(added == Added::New) << self.items;
                self.again |= ItemSet::from(added == Added::Again) << self.items;
                self.items = self.items.wrapping_add(1);
                true
            }
            Err(refused) => {
                let run = std::mem::take(self);
                reply(Self { refused: Some(refused), ..run })
            }
        }
    }

    /// Returns the number of accepted items that were new, or were counted again.
    #[must_use]
    pub const fn items_added(&self) -> u64 {
        (self.new | self.again).count_ones() as u64
    }

    /// Returns the outcome of each item, in order.
    pub fn outcomes(self) -> impl Iterator<Item = Result<Added, AddError>> {
        let taken = (0..self.items).map(move |index| {
            Ok(if self.new >> index & 1 == 1 {
                Added::New
            } else if self.again >> index & 1 == 1 {
                Added::Again
            } else {
                Added::Present
            })
        });
        taken.chain(self.refused.map(Err))
    }
}
