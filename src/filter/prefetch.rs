//! What the caller's processor can do for a filter: prefetch memory, and run code with instructions of its own.
//!
//! A probe of a large array costs a page walk and a cache miss. The misses of many probes overlap if all probes are
//! prefetched before the first is read. The instruction depends on the processor, so the caller provides it.

use std::ops::Range;

use super::words::{PortableSelect, Select};

/// Work whose code is compiled once for each implementation of [`Select`].
pub trait SelectTask {
    /// The result.
    type Output;

    /// Does the work.
    fn run(self, select: impl Select) -> Self::Output;
}

/// Tells the processor to load memory that will be read soon. Affects only the time, not the results.
pub trait Prefetch: Copy {
    /// Runs a task with the fastest [`Select`] of the processor.
    #[inline(always)]
    fn with_fast_select<T: SelectTask>(self, task: T) -> T::Output {
        task.run(PortableSelect)
    }

    /// Prefetches the line that contains the start of `word`.
    fn prefetch<T>(self, word: &T);

    /// Returns whether a prefetch has any effect.
    #[inline(always)]
    fn is_needed(self) -> bool {
        true
    }
}

/// Does not prefetch.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoPrefetch;

impl Prefetch for NoPrefetch {
    fn prefetch<T>(self, _: &T) {}

    #[inline(always)]
    fn is_needed(self) -> bool {
        false
    }
}

/// A range of an item's probes or lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeRange {
    /// The first two probes or lines.
    First,
    /// The third and the fourth.
    Next,
    /// All but the first two.
    Rest,
    /// All probes or lines.
    All,
}

impl ProbeRange {
    /// The number of probes or lines in [`ProbeRange::First`]. They rule out most absent items.
    pub(super) const FIRST: u32 = 2;
    /// The number of probes or lines in [`ProbeRange::First`] and [`ProbeRange::Next`].
    pub(super) const NEXT: u32 = 4;

    /// Returns the indices of this range of `count` probes or lines.
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
