//! What came of a few items that were added in turn.

use super::group::ItemSet;
use super::outcome::{AddError, Added};

/// Items of one group that were taken one behind the other, and perhaps one behind them that was refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Run {
    /// How many were taken.
    pub items: usize,
    /// Those of them that were not there before.
    pub new: ItemSet,
    /// Those that were there, and were counted once more.
    pub again: ItemSet,
    /// Why the next one was refused.
    pub refused: Option<AddError>,
}

impl Run {
    /// Appends an item with what came of it. A refusal ends the run: `reply` takes it, and returns whether to go on.
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

    /// Returns the number of items that were added, whether or not they were there.
    #[must_use]
    pub const fn items_added(&self) -> u64 {
        (self.new | self.again).count_ones() as u64
    }

    /// Returns what came of each, in their order.
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
