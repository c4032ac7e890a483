//! Time in a sliding window: generations, each a fourteenth of the window.
//!
//! Part of the format; docs/formats.md specifies it.

/// Full generations that are live besides the current one.
pub const WINDOW_GENERATIONS: u64 = 14;
/// Live generations, including the current one.
pub const LIVE_GENERATIONS: u64 = WINDOW_GENERATIONS + 1;
/// Columns per position. One more than the live generations, so that an add may be one generation ahead of a lookup.
pub const COLUMNS: u64 = 16;
/// [`COLUMNS`] as a length of arrays.
pub const COLUMNS_LEN: usize = 16;
const _: () = assert!(COLUMNS_LEN as u64 == COLUMNS);

/// The number of a generation: 1 is the first of UNIX time, 0 means none.
pub type Generation = u64;

/// The time of a command, in generations. Only columns use it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// The generation in which items are added.
    pub added: Generation,
    /// The generation at which items are looked up.
    pub now: Generation,
}

/// The length of a window in milliseconds, at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span(u64);

impl Span {
    /// Returns a window of `window_ms` milliseconds; 0 becomes 1.
    #[must_use]
    pub const fn new(window_ms: u64) -> Self {
        Self(if window_ms == 0 { 1 } else { window_ms })
    }

    /// Returns its length in milliseconds.
    #[must_use]
    pub const fn ms(self) -> u64 {
        self.0
    }

    /// Returns the generation of a time in milliseconds of UNIX time: `1 + floor(moment * 14 / window)`. Two times
    /// that are one window apart are 14 generations apart, or 15 because of rounding to milliseconds. O(1).
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

    /// Returns the length of a generation in milliseconds, rounded up.
    #[must_use]
    pub const fn generation_ms(self) -> u64 {
        self.0.div_ceil(WINDOW_GENERATIONS)
    }
}

/// Returns the columns of `count` generations, from `newest` backwards.
const fn columns_down_from(newest: Generation, count: u64) -> u16 {
    if count >= COLUMNS {
        return u16::MAX;
    }
    let columns = (1u16 << count) - 1;
    columns.rotate_left((newest.wrapping_sub(count).wrapping_add(1) % COLUMNS) as u32)
}

/// Returns the columns that are live at `now` in a region with the stamp `newest`. O(1).
#[inline(always)]
pub const fn live_columns(newest: Generation, now: Generation) -> u16 {
    columns_down_from(newest, LIVE_GENERATIONS.saturating_sub(now.saturating_sub(newest)))
}

/// Returns the columns of generations up to `newest` in a region with the stamp `stamp`, which is not older. There is
/// no generation 0. O(1).
pub const fn columns_up_to(newest: Generation, stamp: Generation) -> u16 {
    let kept = COLUMNS.saturating_sub(stamp.saturating_sub(newest));
    columns_down_from(newest, if kept < newest { kept } else { newest })
}

/// Returns the columns of the generations after `newest` up to `next`, which must be cleared. O(1).
pub const fn columns_between(newest: Generation, next: Generation) -> u16 {
    columns_down_from(next, next.saturating_sub(newest))
}

/// Returns the index of a generation's column, below 16.
#[inline(always)]
pub const fn column_of(generation: Generation) -> usize {
    (generation % COLUMNS) as usize
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
            let span = Span::new(window_ms);
            for moment in (0..500).map(|step| 1_700_000_000_123 + step * (window_ms / 37 + 1)) {
                let added = span.generation_at(moment);
                let at = |later: u64| is_live(added, span.generation_at(moment + later));
                assert!(at(0) && at(window_ms), "{window_ms} ms, {moment}");
                assert!(!at(window_ms + span.generation_ms() + 1), "{window_ms} ms, {moment}");
                assert_eq!(span.generation_at(span.start_of(added)), added);
                assert!(span.start_of(added) <= moment);
            }
        }
        assert!(Span::new(100).generation_at(u64::MAX) > 1 && Span::new(0).ms() == 1);
        assert_eq!(Span::new(u64::MAX).start_of(u64::MAX), u64::MAX);
    }

    #[test]
    fn columns_are_those_of_the_generations() {
        let by_the_book = |newest: u64, now: u64| {
            let live = (newest.saturating_sub(15)..=newest).filter(|generation| now - generation <= 14);
            live.fold(0u16, |columns, generation| columns | 1 << (generation % 16))
        };
        for newest in 20..60 {
            for now in newest..newest + 40 {
                assert_eq!(live_columns(newest, now), by_the_book(newest, now), "{newest}, {now}");
                let cleared = (newest + 1..=now).fold(0u16, |columns, next| columns | 1 << (next % 16));
                assert_eq!(columns_between(newest, now), cleared, "{newest}, {now}");
            }
        }
        for stamp in 0..60u64 {
            for newest in 0..=stamp {
                let kept = (stamp.saturating_sub(15)..=newest).filter(|generation| *generation > 0);
                let columns = kept.fold(0u16, |columns, generation| columns | 1 << (generation % 16));
                assert_eq!(columns_up_to(newest, stamp), columns, "{newest} of {stamp}");
            }
        }
        // Generations later than now count as now, without overflow.
        assert_eq!(live_columns(40, 39), live_columns(40, 40));
        assert_eq!((live_columns(0, u64::MAX), live_columns(u64::MAX, 0).count_ones()), (0, 15));
    }
}
