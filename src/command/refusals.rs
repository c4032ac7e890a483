//! Lines for the log about filters that have no room for new items.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::error::quotable;
use crate::bloom::hash::murmur3::hash128;
use crate::bloom::{AddError, ReserveError};

/// The time between two lines about the same filter, in milliseconds.
const INTERVAL_MS: u64 = 60_000;
/// Most filters whose last line is remembered.
const FILTERS_MAX: usize = 1024;

/// The filters that have refused items lately: each gets one line per minute.
#[derive(Debug, Default)]
pub struct Refusals {
    /// The time of the last line, in milliseconds of UNIX time, by a hash of the database and the key.
    last_ms: BTreeMap<u64, u64>,
}

impl Refusals {
    /// Returns an empty list.
    #[must_use]
    pub const fn new() -> Self {
        Self { last_ms: BTreeMap::new() }
    }

    /// Returns a line about the filter under `key` of a database, which has refused items because of `error`. `None`
    /// if there was a line in the last minute, or if the filter has room and refuses only this item. If very many
    /// filters refuse items, some get more lines. O(log filters).
    #[must_use]
    pub fn line(&mut self, database: u64, key: &[u8], error: AddError, now_ms: u64) -> Option<String> {
        let cause = cause(error)?;
        let filter = hash128(key).h1 ^ database.rotate_right(16);
        let is_recent = |last_ms: &u64| last_ms.abs_diff(now_ms) < INTERVAL_MS;
        if self.last_ms.get(&filter).is_some_and(is_recent) {
            return None;
        }
        if self.last_ms.len() >= FILTERS_MAX {
            self.last_ms.retain(|_, last_ms| is_recent(last_ms));
        }
        if self.last_ms.len() < FILTERS_MAX {
            self.last_ms.insert(filter, now_ms);
        }
        Some(format!("'{}' has no room for new items: {cause}", quotable(key)))
    }
}

/// Returns why a filter has no room for an item, with the limit or the setting.
fn cause(error: AddError) -> Option<Cow<'static, str>> {
    Some(match error {
        AddError::NotEncodable(_) | AddError::TooOften => return None,
        AddError::Full => {
            "it is fixed and has as many items as its capacity; without NONSCALING it would accept more"
                .into()
        }
        AddError::CannotGrow(ReserveError::TooLarge { needed_bytes, limit }) => {
            Cow::Owned(format!("with more items it would take {needed_bytes} bytes, more than {limit}"))
        }
        AddError::CannotGrow(ReserveError::OutOfMemory) => "there is no memory for more items".into(),
        AddError::CannotGrow(ReserveError::TooLong) => {
            "it has as many layers, probes or items in a layer as a filter can have".into()
        }
        AddError::CannotGrow(ReserveError::ErrorRateVanishes) => {
            "the error rate of the next layer would round to 0".into()
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: AddError = AddError::Full;

    #[test]
    fn each_filter_has_a_line_per_minute() {
        let mut refusals = Refusals::new();
        let mut is_logged =
            |database, key: &str, now_ms| refusals.line(database, key.as_bytes(), FULL, now_ms).is_some();
        assert!(is_logged(0, "a", 1_000_000));
        assert!(!is_logged(0, "a", 1_000_000) && !is_logged(0, "a", 1_059_999));
        assert!(
            is_logged(0, "b", 1_000_001) && is_logged(1, "a", 1_000_002) && !is_logged(1, "a", 1_000_003)
        );
        assert!(is_logged(0, "a", 1_060_000) && !is_logged(0, "a", 1_060_001));
        // The clock was set back.
        assert!(is_logged(0, "a", 500_000) && !is_logged(0, "a", 500_001));
    }

    #[test]
    fn the_memory_for_filters_is_bounded() {
        let mut refusals = Refusals::new();
        for filter in 0..3 * FILTERS_MAX as u64 {
            assert!(refusals.line(0, &filter.to_le_bytes(), FULL, 1_000_000).is_some());
        }
        assert_eq!(refusals.last_ms.len(), FILTERS_MAX);
        assert!(refusals.line(0, b"new", FULL, 1_060_000).is_some());
        assert_eq!(refusals.last_ms.len(), 1);
    }
}
