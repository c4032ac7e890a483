//! Clocks that say how old a copy is. They stand still while the machine sleeps: Linux has no clock of ticks that
//! does not.

use std::time::{Duration, Instant};

/// The most milliseconds by which [`Stopwatch::about_ms`] and [`Stopwatch::elapsed_ms`] differ: the longest tick of Linux,
/// and one for rounding.
pub(crate) const TICK_MS: u64 = 11;

/// The time since it was made.
pub(crate) struct Stopwatch {
    start: Instant,
    /// The time of the clock of ticks at the start.
    start_ticks: Duration,
}

impl Stopwatch {
    pub(crate) fn new() -> Self {
        Self { start: Instant::now(), start_ticks: ticks() }
    }

    /// Returns the elapsed time in milliseconds.
    pub(crate) fn elapsed_ms(&self) -> u64 {
        whole_ms(self.start.elapsed())
    }

    /// Returns the elapsed time in milliseconds, up to [`TICK_MS`] more or less, in less time: see [`ticks`].
    #[inline]
    pub(crate) fn about_ms(&self) -> u64 {
        whole_ms(ticks().saturating_sub(self.start_ticks))
    }
}

/// Returns the time of a clock that never goes back.
///
/// Linux updates this one at each tick of 1 to 10 ms. Reading it takes 7 ns, and that of `Instant::now` 36 ns (virtual
/// machine, clock source `tsc`).
#[cfg(target_os = "linux")]
#[inline]
fn ticks() -> Duration {
    use rustix::time::{ClockId, clock_gettime};
    let now = clock_gettime(ClockId::MonotonicCoarse);
    // The clock begins near 0 when the machine starts.
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}

/// Returns the time of a clock that never goes back.
#[cfg(not(target_os = "linux"))]
fn ticks() -> Duration {
    static START: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);
    START.elapsed()
}

fn whole_ms(time: Duration) -> u64 {
    time.as_secs().saturating_mul(1000).saturating_add(time.subsec_millis().into())
}

#[cfg(test)]
mod tests {
    use super::{Stopwatch, TICK_MS};

    #[test]
    fn both_clocks_go_alike() {
        let watch = Stopwatch::new();
        loop {
            // The exact time is between two that are read around it.
            let (before, about, after) = (watch.elapsed_ms(), watch.about_ms(), watch.elapsed_ms());
            assert!(about + TICK_MS >= before && about <= after + TICK_MS, "{before} {about} {after}");
            if before > 60 {
                return;
            }
        }
    }
}
