//! The room of a command: how large it may make a filter.

use std::cell::Cell;

use super::outcome::{ByteLimit, Limit, ReserveError};

/// How often a command tries in vain to make room by freeing expired entries before it gives up.
const VAIN_MAX: u32 = 16;

/// The room of one command. Every growth of a filter during the command is checked here.
///
/// The limit is queried once, and again before a refusal. After one refusal nothing grows any more, because the limit and the time of the filter
/// stay the same during a command. So each further refused item costs no more than a lookup, except for a few tries to
/// free expired entries.
pub struct GrowthBudget<'l> {
    limit: &'l dyn ByteLimit,
    asked: Cell<Option<Limit>>,
    /// Bytes of the filter besides the part that grows.
    other_bytes: Cell<u64>,
    refused: Cell<Option<ReserveError>>,
    /// Refusals after the first one.
    vain: Cell<u32>,
}

impl<'l> GrowthBudget<'l> {
    /// Returns the room of a command that has added no item yet.
    #[must_use]
    #[inline(always)]
    pub fn new(limit: &'l dyn ByteLimit) -> Self {
        let (asked, other_bytes) = (Cell::new(None), Cell::new(0));
        Self { limit, asked, other_bytes, refused: Cell::new(None), vain: Cell::new(0) }
    }

    /// Sets the bytes of the filter besides the part that grows.
    #[inline(always)]
    pub fn set_other_bytes(&self, other_bytes: u64) {
        self.other_bytes.set(other_bytes);
    }

    /// Returns why room was refused before; `None` if it was not.
    #[inline(always)]
    pub fn refused(&self) -> Option<ReserveError> {
        self.refused.get()
    }

    /// Returns whether the command may still try to make room by freeing expired entries.
    pub(super) fn may_free(&self) -> bool {
        self.vain.get() < VAIN_MAX
    }

    /// Records a refusal and its reason.
    pub(super) fn refuse(&self, error: ReserveError) {
        if self.refused.replace(Some(error)).is_some() {
            self.vain.set(self.vain.get().saturating_add(1));
        }
    }

    /// Checks that the part that grows may take `bytes`.
    ///
    /// # Errors
    /// [`ReserveError::TooLarge`].
    pub fn check(&self, bytes: u64) -> Result<(), ReserveError> {
        let needed_bytes = bytes.saturating_add(self.other_bytes.get());
        self.permits(needed_bytes).map_err(|limit| ReserveError::TooLarge { needed_bytes, limit })
    }
}

impl ByteLimit for GrowthBudget<'_> {
    fn limit(&self) -> Limit {
        let limit = self.asked.get().unwrap_or_else(|| self.limit.limit());
        self.asked.set(Some(limit));
        limit
    }

    fn limit_again(&self, limit: Limit) -> Limit {
        let limit = self.limit.limit_again(limit);
        self.asked.set(Some(limit));
        limit
    }
}
