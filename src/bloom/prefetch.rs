//! Asking for memory ahead of its use.
//!
//! A probe of a large array costs a page walk and a cache miss. Those of many items overlap when all are
//! asked for before the first is looked at. The instruction that asks is the processor's own, so it comes
//! from the host.

use std::ops::Range;

/// Asks the processor for memory that will be read soon. Has no effect but on time.
pub trait Prefetch: Copy {
    /// Asks for the line that holds `word`.
    fn prefetch(self, word: &u64);

    /// Returns whether asking does anything.
    #[inline(always)]
    fn is_needed(self) -> bool {
        true
    }
}

/// Asks for nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoPrefetch;

impl Prefetch for NoPrefetch {
    fn prefetch(self, _: &u64) {}

    #[inline(always)]
    fn is_needed(self) -> bool {
        false
    }
}

/// Which of an item's probes or lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The first two.
    First,
    /// The two behind the first two.
    Next,
    /// All but the first two.
    Rest,
    /// All.
    All,
}

impl Part {
    /// Probes or lines that an absent item is most often found out by.
    pub(super) const FIRST: u32 = 2;
    /// Probes or lines up to the end of [`Part::Next`].
    pub(super) const NEXT: u32 = 4;

    /// The indices of this part of so many.
    pub(super) fn of(self, count: u32) -> Range<u32> {
        let (first, next) = (count.min(Self::FIRST), count.min(Self::NEXT));
        match self {
            Self::First => 0..first,
            Self::Next => first..next,
            Self::Rest => first..count,
            Self::All => 0..count,
        }
    }
}
