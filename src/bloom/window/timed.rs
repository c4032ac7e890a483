//! Filters that forget among those of any kind.

use super::parameters::Window;
use crate::bloom::family::Family;
use crate::bloom::filter::Filter;
use crate::bloom::prefetch::Prefetch;

impl Filter {
    /// Whether it forgets, and so is to be told the time before it is asked or added to.
    #[must_use]
    #[inline(always)]
    pub const fn keeps_time(&self) -> bool {
        matches!(self, Self::Window(_))
    }

    /// What a filter that forgets was reserved with, and its time.
    #[must_use]
    pub fn window(&self) -> Option<&Window> {
        if let Self::Window(chain) = self { Some(chain.family()) } else { None }
    }

    /// Whether one item may be in the filter at a time, in milliseconds of UNIX time, which only filters that forget go by;
    /// whatever the filter was told. O(layers * probes).
    #[must_use]
    pub fn contains_at(&self, item: &[u8], now_ms: u64, prefetch: impl Prefetch) -> bool {
        let Self::Window(chain) = self else { return self.contains(item, prefetch) };
        let mut family = *chain.family();
        family.tell_time(now_ms);
        chain.contains_prefetched(family.digest(item), prefetch)
    }

    /// A filter that forgets, to be told the time.
    pub fn window_mut(&mut self) -> Option<&mut Window> {
        if let Self::Window(chain) = self { Some(chain.family_mut()) } else { None }
    }

    /// Tells a filter that forgets the time, in milliseconds of UNIX time; see [`Window::tell_time`].
    pub fn tell_time(&mut self, now_ms: u64) {
        self.window_mut().into_iter().for_each(|window| window.tell_time(now_ms));
    }

    /// Tells a filter that forgets, if it is one, what it must know before a command comes to it: the time, in
    /// milliseconds of UNIX time, or, of items that are told again, that they are of the newest generation; see
    /// [`Window::tell_newest`].
    #[inline(always)]
    pub fn tell(&mut self, now_ms: impl FnOnce() -> u64, is_told_again: impl FnOnce() -> bool) {
        if self.keeps_time() {
            let Some(window) = self.window_mut() else { return };
            window.tell_time(now_ms());
            // Within the newest generation both are the same, and asking takes longer than an add.
            if window.is_newer() && is_told_again() {
                window.tell_newest(0);
            }
        }
    }

    /// Takes what is dead out of a filter that forgets; see [`crate::bloom::Chain::take_dead`]. O(layers).
    #[must_use]
    #[inline(always)]
    pub fn take_dead(&mut self) -> Option<Self> {
        let Self::Window(chain) = self else { return None };
        chain.take_dead().map(Box::new).map(Self::Window)
    }
}
