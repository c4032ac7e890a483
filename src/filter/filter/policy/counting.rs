//! What a counting filter keeps for CF.INFO.

use std::num::{NonZeroU8, NonZeroU16};

/// What CF.INFO shows of a counting filter besides its table. Lookups and adds do not use it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counting {
    /// BUCKETSIZE of the command that created the filter, if it was given.
    pub bucket_size: Option<NonZeroU8>,
    /// MAXITERATIONS of the command that created the filter, if it was given.
    pub max_iterations: Option<NonZeroU16>,
    /// The occurrences that were deleted, at most `u64::MAX`.
    pub deletions: u64,
}

impl Counting {
    /// Counts further deletions.
    pub(in crate::filter) fn add_deletions(&mut self, deletions: u64) {
        // A crafted header can have any number.
        self.deletions = self.deletions.saturating_add(deletions);
    }

    /// Returns the parameters of the same filter without items.
    pub(super) fn emptied(self) -> Self {
        Self { deletions: 0, ..self }
    }
}
