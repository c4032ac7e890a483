//! Generations: the time in a sliding window. Each is a step: a fourteenth or a 120th of the window.
//!
//! Part of the format; docs/formats.md specifies it.

/// How many steps a window has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Steps {
    /// 14 steps: an entry has four bits for its generation.
    #[default]
    Fourteen,
    /// 120 steps: an entry has eight bits for its generation.
    Fine,
}

impl Steps {
    /// Both numbers of steps.
    pub const ALL: [Self; 2] = [Self::Fourteen, Self::Fine];

    /// Returns the number of steps: the full generations that are live besides the current one.
    #[must_use]
    #[inline(always)]
    pub const fn count(self) -> u64 {
        match self {
            Self::Fourteen => 14,
            Self::Fine => 120,
        }
    }

    /// Returns the choice with this number of steps.
    #[must_use]
    pub fn of_count(count: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|steps| steps.count() == count)
    }

    /// Returns the number of live generations, including the current one.
    #[must_use]
    #[inline(always)]
    pub const fn live(self) -> u64 {
        self.count() + 1
    }

    /// Returns the number of generations that an entry can distinguish, a power of two.
    #[must_use]
    #[inline(always)]
    pub const fn codes(self) -> u64 {
        match self {
            Self::Fourteen => 16,
            Self::Fine => 256,
        }
    }

    /// Returns by how many generations the entries of a segment may be newer than its last compaction.
    #[must_use]
    #[inline(always)]
    pub const fn ahead(self) -> u64 {
        self.codes() - self.live()
    }

    /// Returns after how many generations a segment is compacted again by an add. It is at most [`ahead`](Self::ahead).
    #[must_use]
    #[inline(always)]
    pub const fn rest(self) -> u64 {
        match self {
            Self::Fourteen => 1,
            Self::Fine => 10,
        }
    }

    /// Returns whether items that were added in a generation are live at `now`. O(1).
    #[must_use]
    #[inline(always)]
    pub const fn is_live(self, generation: Generation, now: Generation) -> bool {
        now.saturating_sub(generation) < self.live()
    }
}

/// The number of a generation: 1 is the first of UNIX time, 0 means none.
pub type Generation = u64;

/// The time of a command, in generations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddTime {
    /// The generation in which items are added.
    pub added: Generation,
    /// The generation at which items are looked up.
    pub now: Generation,
}

/// The length of a window in milliseconds, at least 1, and its steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowLength {
    ms: u64,
    steps: Steps,
}

impl WindowLength {
    /// Returns a window of `window_ms` milliseconds with 14 steps; 0 becomes 1.
    #[must_use]
    pub const fn new(window_ms: u64) -> Self {
        Self { ms: if window_ms == 0 { 1 } else { window_ms }, steps: Steps::Fourteen }
    }

    /// Returns a window of the same length with these steps.
    #[must_use]
    pub const fn with_steps(self, steps: Steps) -> Self {
        Self { steps, ..self }
    }

    /// Returns the steps of the window.
    #[must_use]
    #[inline(always)]
    pub const fn steps(self) -> Steps {
        self.steps
    }

    /// Returns the length of the window in milliseconds.
    #[must_use]
    pub const fn ms(self) -> u64 {
        self.ms
    }

    /// Returns the generation of a time in milliseconds of UNIX time: `1 + floor(moment * steps / window)`. Two
    /// times that are one window apart are exactly as many generations apart as the window has steps. O(1).
    #[must_use]
    pub const fn generation_at(self, moment_ms: u64) -> Generation {
        moment_ms.saturating_mul(self.steps.count()) / self.ms + 1
    }

    /// Returns the start of a generation, in milliseconds of UNIX time. O(1).
    #[must_use]
    pub fn start_of(self, generation: Generation) -> u64 {
        let product = u128::from(generation.saturating_sub(1)) * u128::from(self.ms);
        u64::try_from(product.div_ceil(self.steps.count().into())).unwrap_or(u64::MAX)
    }

    /// Returns the generation of items that are live up to and including `end_ms`, in milliseconds of UNIX time, and at
    /// most a generation longer. O(1).
    #[must_use]
    pub fn generation_until(self, end_ms: u64) -> Generation {
        self.generation_at(end_ms).saturating_sub(self.steps.count()).max(1)
    }

    /// Returns the first millisecond of UNIX time at which the items of a generation have expired. O(1).
    #[must_use]
    pub fn end_of(self, generation: Generation) -> u64 {
        self.start_of(generation.saturating_add(self.steps.live()))
    }

    /// Returns the length of a generation in milliseconds, rounded up.
    #[must_use]
    pub const fn generation_ms(self) -> u64 {
        self.ms.div_ceil(self.steps.count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_is_live_for_the_window_and_at_most_a_step_longer() {
        let windows = [100, 101, 999, 1000, 86_400_000, 3653 * 86_400_000];
        for (window_ms, steps) in windows.into_iter().flat_map(|ms| Steps::ALL.map(|steps| (ms, steps))) {
            let span = WindowLength::new(window_ms).with_steps(steps);
            for moment in (0..500).map(|step| 1_700_000_000_123 + step * (window_ms / 37 + 1)) {
                let added = span.generation_at(moment);
                let at = |later: u64| steps.is_live(added, span.generation_at(moment + later));
                assert!(at(0) && at(window_ms), "{window_ms} ms, {moment}");
                assert!(!at(window_ms + span.generation_ms() + 1), "{window_ms} ms, {moment}");
                assert_eq!(span.generation_at(span.start_of(added)), added);
                assert!(span.start_of(added) <= moment);
            }
        }
        assert!(WindowLength::new(100).generation_at(u64::MAX) > 1 && WindowLength::new(0).ms() == 1);
        assert_eq!(WindowLength::new(u64::MAX).start_of(u64::MAX), u64::MAX);
    }
}
