//! Texts for the operator of a server: advice about filters that have outgrown their capacity, and lines for the log
//! about filters that have grown or have no room for new items.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::error::quotable;
use super::fields::decimal_of;
use everbloom_filter::hash::murmur3::hash128;
use everbloom_filter::{AddError, Filter, PartSpec, ReserveError};

/// One in this many growths of a chain of layers is logged.
const GROWTHS: usize = 4;
/// A filter gets advice when its items exceed this multiple of its reserved capacity.
const OUTGROWN: u64 = 4;

/// Returns whether a growth from `layers_before` to `layers` layers is logged.
fn is_due(layers_before: usize, layers: usize) -> bool {
    layers.saturating_sub(1) / GROWTHS > layers_before.saturating_sub(1) / GROWTHS
}

/// Returns advice for a filter that has far outgrown its capacity: the BF.RESERVE that would have created it with one
/// layer of bits, the bytes of that layer, and the bytes that it would save. `None` if the filter has not outgrown its
/// capacity by far, if the layer would save nothing, or if no BF.RESERVE creates such a layer. O(1).
pub(super) fn advice(key: &[u8], filter: &Filter) -> Option<String> {
    let items = filter.distinct_items();
    if items <= filter.promise().capacity_items.saturating_mul(OUTGROWN) {
        return None;
    }
    let (words, size_bytes) = reservation(filter, round_capacity(items))?;
    let saved_bytes = filter.size_bytes().checked_sub(size_bytes).filter(|saved_bytes| *saved_bytes > 0)?;
    let name = quotable(key);
    Some(format!(
        "BF.RESERVE {name} {words} would have taken {size_bytes} bytes in one layer and saved {saved_bytes} bytes"
    ))
}

/// Returns the arguments of the BF.RESERVE that creates a filter like this one with another capacity, and the bytes
/// of its layer. `None` if no BF.RESERVE creates such a filter. O(1).
fn reservation(filter: &Filter, capacity_items: u64) -> Option<(String, u64)> {
    let options = filter.kind().row().words?;
    let (error_rate, capacity_items, policy) = filter.policy().reservation(capacity_items)?;
    let PartSpec::Layer(layer) = policy.first_part(filter.hash()).ok()? else { return None };
    let is_valkeybloom = policy.valkeybloom().is_some();
    let error_rate = if is_valkeybloom { decimal_of(error_rate) } else { error_rate };
    Some((format!("{error_rate} {capacity_items}{options}"), layer.size_bits.div_ceil(8)))
}

/// Returns a line for the log about the filter under `key`, which has just gained `parts_added` layers or tables;
/// `None` if the filter has a table, or if no growth to be logged is among these: one in four is. Only chains of layers
/// grow often. Replicas do not call this, because the primary logs the line. O(layers). A line takes up to a hundred
/// microseconds.
#[must_use]
pub fn growth_line(key: &[u8], filter: &Filter, parts_added: u32) -> Option<String> {
    let layers = filter.layer_count();
    let added = usize::try_from(parts_added).unwrap_or(usize::MAX);
    if filter.table().is_some() || !is_due(layers.saturating_sub(added), layers) {
        return None;
    }
    let (name, bytes, items) = (quotable(key), filter.size_bytes(), filter.distinct_items());
    let grown = format!("'{name}' has {layers} layers and {bytes} bytes for {items} items");
    Some(match advice(key, filter) {
        Some(advice) => format!("{grown}; reserve it for all items that you expect: so far, {advice}"),
        None => grown,
    })
}

/// Returns a line for the log about the filter under `key`, which BF.IMPORT has just created, if its next new item goes
/// to a table, which BF.EXPORT cannot write to a client's string. Strings that have as many items as their client
/// planned are like this. `None` for other filters. Replicas do not call this, because the primary logs the line. O(1).
#[must_use]
pub fn import_line(key: &[u8], filter: &Filter) -> Option<String> {
    let (_, layer) = filter.clients_layer()?;
    if layer.room_items() > 0 || filter.policy().growth().is_fixed_size() {
        return None;
    }
    let (name, items, capacity) = (quotable(key), filter.items(), layer.capacity_items());
    Some(format!(
        "'{name}' has {items} items and a capacity of {capacity}: after the first new item BF.EXPORT refuses it; to keep \
         the way back, import it with a CAPACITY above {items}"
    ))
}

/// Returns `items` rounded up to one significant digit, as a person would choose a capacity.
fn round_capacity(items: u64) -> u64 {
    let unit = 10u64.checked_pow(items.max(1).ilog10()).unwrap_or(1);
    items.max(1).div_ceil(unit).saturating_mul(unit)
}

/// The time between two lines about the same filter, in milliseconds.
const INTERVAL_MS: u64 = 60_000;
/// The largest number of filters whose last line is remembered.
const FILTERS_MAX: usize = 1024;

/// The filters that have refused items lately. Each gets one line per minute.
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

    /// Returns a line about the filter under `key` of a database, which has refused items with `error`. Returns `None`
    /// if there was a line about the filter in the last minute, or if the filter has room and refuses only some items.
    /// If more than 1024 filters refuse items, some get more lines. O(log filters).
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

/// Returns why a filter has no room for new items; `None` if it has room and refuses only some items.
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

    #[test]
    fn capacities_are_rounded_up_to_one_significant_digit() {
        let pairs = [
            (0, 1),
            (1, 1),
            (9, 9),
            (10, 10),
            (11, 20),
            (1501, 2000),
            (1_000_000, 1_000_000),
            (9_000_001, 10_000_000),
        ];
        for (items, capacity) in pairs {
            assert_eq!(round_capacity(items), capacity, "{items}");
        }
        assert_eq!(round_capacity(u64::MAX), u64::MAX);
    }

    #[test]
    fn every_fourth_growth_is_logged() {
        let logged: Vec<usize> = (2..=14).filter(|layers| is_due(layers - 1, *layers)).collect();
        assert_eq!(logged, [5, 9, 13]);
        assert!(is_due(1, 14) && !is_due(6, 8) && !is_due(4, 4));
    }

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
