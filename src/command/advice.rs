//! Advice for filters that have grown often.

use super::error::quotable;
use super::facts::decimal_of;
use crate::bloom::{Filter, PartSpec};

/// Number of growths after which a chain of layers is logged for the first time, and then again.
const GROWTHS: usize = 4;
/// How many times the reserved capacity a filter has before it has advice.
const OUTGROWN: u64 = 4;

/// Returns whether a growth from `layers_before` to `layers` layers is logged.
fn is_due(layers_before: usize, layers: usize) -> bool {
    layers.saturating_sub(1) / GROWTHS > layers_before.saturating_sub(1) / GROWTHS
}

/// Returns the BF.RESERVE with which the filter would be one layer of bits, with the bytes of that layer and the bytes
/// that it saves. `None` for a filter that has not outgrown its capacity by far, for one that is not larger than that
/// layer, or if no BF.RESERVE creates it: a filter that is a table alone gains nothing from a reserved capacity. O(1).
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

/// Returns a line for the log about the filter under `key`, which has just grown by `parts_added` parts; `None` if it
/// has not grown often enough. Only chains of layers grow often. This is not for replicas or while a file is loaded,
/// because the primary logs it. O(layers); up to a hundred microseconds for a line.
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

/// Returns `items` rounded up to one significant digit: a number that a person would choose, with some margin.
fn round_capacity(items: u64) -> u64 {
    let unit = 10u64.checked_pow(items.max(1).ilog10()).unwrap_or(1);
    items.max(1).div_ceil(unit).saturating_mul(unit)
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
}
