//! What to do about a filter that was reserved too small.

use super::error::quotable;
use super::kinds::reservation;
use crate::bloom::Filter;

/// A filter that has grown so many times is told of, and again each time it has grown as often.
const GROWTHS: usize = 4;

/// Whether a filter that has grown from so many layers to so many is to be told of.
fn is_due(layers_before: usize, layers: usize) -> bool {
    layers.saturating_sub(1) / GROWTHS > layers_before.saturating_sub(1) / GROWTHS
}

/// The BF.RESERVE that would have spared a filter its layers, and what it would have taken. Nothing for a
/// filter with few of them, and for one that no BF.RESERVE makes. O(layers).
pub(super) fn advice(key: &[u8], filter: &Filter) -> Option<String> {
    if filter.layer_count() <= GROWTHS {
        return None;
    }
    let reservation = reservation(filter, round_capacity(filter.distinct_items()))?;
    Some(format!(
        "BF.RESERVE {} {} would have taken {} bytes in one layer",
        quotable(key),
        reservation.words,
        reservation.size_bytes
    ))
}

/// A line for the log about the filter under `key`, which has just grown by so many layers; nothing unless
/// it has grown once too often. Only for who wrote the items: not on a replica, nor where a log is loaded.
/// O(layers), where there is a line up to a hundred microseconds.
#[must_use]
pub fn growth_line(key: &[u8], filter: &Filter, layers_added: u32) -> Option<String> {
    let layers = filter.layer_count();
    let layers_before = layers.saturating_sub(usize::try_from(layers_added).unwrap_or(usize::MAX));
    if !is_due(layers_before, layers) {
        return None;
    }
    let (name, bytes, items) = (quotable(key), filter.size_bytes(), filter.distinct_items());
    let grown = format!("'{name}' has grown to {layers} layers and {bytes} bytes for {items} items");
    Some(match advice(key, filter) {
        Some(advice) => format!("{grown}; {advice}"),
        None => grown,
    })
}

/// The next number of one significant digit: what somebody would type, and room for up to as many items
/// again.
fn round_capacity(items: u64) -> u64 {
    let unit = 10u64.checked_pow(items.max(1).ilog10()).unwrap_or(1);
    items.max(1).div_ceil(unit).saturating_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capacities_are_rounded_up_to_what_somebody_would_type() {
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
    fn every_fourth_growth_is_told() {
        let told: Vec<usize> = (2..=14).filter(|layers| is_due(layers - 1, *layers)).collect();
        assert_eq!(told, [5, 9, 13]);
        assert!(is_due(1, 14) && !is_due(6, 8) && !is_due(4, 4));
    }
}
