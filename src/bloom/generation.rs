//! Generations: the time in a sliding window. Each is a fourteenth of the window.
//!
//! Part of the format; docs/formats.md specifies it.

/// Full generations that are live besides the current one.
pub const WINDOW_GENERATIONS: u64 = 14;
/// Live generations, including the current one.
pub const LIVE_GENERATIONS: u64 = WINDOW_GENERATIONS + 1;
/// Generations that an entry can distinguish: one more than the live ones.
pub const CODES: u64 = 16;
const _: () = assert!(LIVE_GENERATIONS < CODES);

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

/// The length of a window in milliseconds, at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowLength(u64);

impl WindowLength {
    /// Returns a window of `window_ms` milliseconds; 0 becomes 1.
    #[must_use]
    pub const fn new(window_ms: u64) -> Self {
        Self(if window_ms == 0 { 1 } else { window_ms })
    }

    /// Returns the length of the window in milliseconds.
    #[must_use]
    pub const fn ms(self) -> u64 {
        self.0
    }

    /// Returns the generation of a time in milliseconds of UNIX time: `1 + floor(moment * 14 / window)`. Two times
    /// that are one window apart are exactly 14 generations apart. O(1).
    #[must_use]
    pub const fn generation_at(self, moment_ms: u64) -> Generation {
        moment_ms.saturating_mul(WINDOW_GENERATIONS) / self.0 + 1
    }

    /// Returns the start of a generation, in milliseconds of UNIX time. O(1).
    #[must_use]
    pub fn start_of(self, generation: Generation) -> u64 {
        let product = u128::from(generation.saturating_sub(1)) * u128::from(self.0);
        u64::try_from(product.div_ceil(WINDOW_GENERATIONS.into())).unwrap_or(u64::MAX)
    }

    /// Returns the generation of items that are live up to and including `end_ms`, in milliseconds of UNIX time, and at
    /// most a generation longer. O(1).
    #[must_use]
    pub fn generation_until(self, end_ms: u64) -> Generation {
        self.generation_at(end_ms).saturating_sub(WINDOW_GENERATIONS).max(1)
    }

    /// Returns the first millisecond of UNIX time at which the items of a generation have expired. O(1).
    #[must_use]
    pub fn end_of(self, generation: Generation) -> u64 {
        self.start_of(generation.saturating_add(LIVE_GENERATIONS))
    }

    /// Returns the length of a generation in milliseconds, rounded up.
    #[must_use]
    pub const fn generation_ms(self) -> u64 {
        self.0.div_ceil(WINDOW_GENERATIONS)
    }
}

/// Returns whether items that were added in a generation are live at `now`. O(1).
#[must_use]
#[inline(always)]
pub const fn is_live(generation: Generation, now: Generation) -> bool {
    now.saturating_sub(generation) < LIVE_GENERATIONS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_is_live_for_the_window_and_at_most_a_fourteenth_longer() {
        for window_ms in [100, 101, 999, 1000, 86_400_000, 3653 * 86_400_000] {
            let span = WindowLength::new(window_ms);
            for moment in (0..500).map(|step| 1_700_000_000_123 + step * (window_ms / 37 + 1)) {
                let added = span.generation_at(moment);
                let at = |later: u64| is_live(added, span.generation_at(moment + later));
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
