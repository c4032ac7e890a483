//! Advice for filters that have grown often.

use super::error::quotable;
use super::facts::{decimal_of, is_keyed};
use crate::bloom::policy::redisbloom::{self, Options};
use crate::bloom::policy::{RedisBloom, ValkeyBloom};
use crate::bloom::window::WindowLayers;
use crate::bloom::{Filter, Layer, Policy, Promise, Window};

/// Number of growths after which a filter is logged for the first time, and then again.
const GROWTHS: usize = 4;

/// Returns whether a growth from `layers_before` to `layers` layers is logged.
fn is_due(layers_before: usize, layers: usize) -> bool {
    layers.saturating_sub(1) / GROWTHS > layers_before.saturating_sub(1) / GROWTHS
}

/// Returns the BF.RESERVE with which the filter would have one layer, with the bytes of that layer and the bytes that
/// it saves. `None` for a filter with few layers, for one that is not larger than that layer, or if no BF.RESERVE
/// creates it. O(layers).
pub(super) fn advice(key: &[u8], filter: &Filter) -> Option<String> {
    let capacity_items = match filter.window_layers() {
        Some(layers) if !has_larger_base(filter) => return burst_advice(filter, &layers),
        Some(layers) => layers.base_capacity_items,
        None if filter.layer_count() <= GROWTHS => return None,
        None => round_capacity(filter.distinct_items()),
    };
    let (words, size_bytes) = reservation(filter, capacity_items)?;
    let saved_bytes = filter.size_bytes().checked_sub(size_bytes).filter(|saved_bytes| *saved_bytes > 0)?;
    let name = quotable(key);
    Some(format!(
        "BF.RESERVE {name} {words} would have taken {size_bytes} bytes in one layer and saved {saved_bytes} bytes"
    ))
}

/// Returns how much memory the bursts of a sliding-window filter take; `None` if there are none.
fn burst_advice(filter: &Filter, layers: &WindowLayers) -> Option<String> {
    let WindowLayers { generation_items, burst_bytes, .. } = *layers;
    let generation_ms = filter.window()?.span.generation_ms();
    (burst_bytes > 0).then(|| {
        format!(
            "bursts of more than {generation_items} items in {generation_ms} ms take {burst_bytes} bytes until \
             their items expire"
        )
    })
}

/// Returns whether a sliding-window filter takes more items per window than it was reserved for.
fn has_larger_base(filter: &Filter) -> bool {
    let (layers, window) = (filter.window_layers(), filter.window());
    layers
        .zip(window)
        .is_some_and(|(layers, window)| layers.base_capacity_items > window.promise.capacity_items)
}

/// Returns the arguments of the BF.RESERVE that creates a filter like this one with another capacity, and the bytes
/// of its layer. `None` if no BF.RESERVE creates such a filter. O(1).
fn reservation(filter: &Filter, capacity_items: u64) -> Option<(String, u64)> {
    let options = window_words(filter).or_else(|| filter.kind().row().words.map(str::to_owned))?;
    let (policy, error_rate, capacity_items) = match filter.policy() {
        Policy::Promise(_) | Policy::Merged(_) => {
            let promise = filter.promise();
            let promise = Promise { capacity_items, growth: promise.growth.reserved(), ..promise };
            (Policy::Promise(promise), promise.error_rate, capacity_items)
        }
        // The error rate of a filter that a command created is that of its BF.RESERVE.
        Policy::RedisBloom(policy) => {
            let (error_rate, _) = policy.reserve_parameters()?;
            let capacity_items = capacity_items.min(redisbloom::COMMAND_CAPACITY_MAX_ITEMS);
            let growth = redisbloom::RESERVED_GROWTH;
            let policy = RedisBloom::new(error_rate, capacity_items, Options::SCALING, growth);
            (Policy::RedisBloom(Box::new(policy)), error_rate, capacity_items)
        }
        Policy::ValkeyBloom(policy) => {
            let policy = ValkeyBloom { capacity_items, ..**policy };
            (Policy::ValkeyBloom(Box::new(policy)), decimal_of(policy.error_rate), capacity_items)
        }
        Policy::Window(window) => {
            let promise = Promise { capacity_items, ..window.promise };
            let window = Window::new(promise, window.span, window.no_refresh);
            (Policy::Window(Box::new(window)), promise.error_rate, capacity_items)
        }
        Policy::United(_) | Policy::Imported(_) => return None,
    };
    let hash = *filter.layers().first().map(Layer::hash)?;
    let layer = policy.next_layer(&[], hash, filter.cell_type()).ok()?;
    Some((format!("{error_rate} {capacity_items}{options}"), layer.size_bits.div_ceil(8)))
}

/// Returns the options of the BF.RESERVE that creates a sliding-window filter like this one; `None` for other
/// filters.
fn window_words(filter: &Filter) -> Option<String> {
    let window = filter.window()?;
    let keyed = if is_keyed(filter) { " KEYED" } else { "" };
    let no_refresh = if window.no_refresh { " NOREFRESH" } else { "" };
    Some(match window.span.ms() {
        ms if ms.is_multiple_of(1000) => format!("{keyed} WINDOW {}{no_refresh}", ms / 1000),
        ms => format!("{keyed} PWINDOW {ms}{no_refresh}"),
    })
}

/// Returns a line for the log about the filter under `key`, which has just grown by `layers_added` layers; `None` if
/// it has not grown often enough. This is not for replicas or while a file is loaded, because the primary logs it.
/// O(layers); up to a hundred microseconds for a line.
#[must_use]
pub fn growth_line(key: &[u8], filter: &Filter, layers_added: u32) -> Option<String> {
    let layers = filter.layer_count();
    let layers_before = layers.saturating_sub(usize::try_from(layers_added).unwrap_or(usize::MAX));
    // Bursts are temporary, so a window is logged only if it gets a larger base layer.
    let is_due = match (filter.window(), filter.layers().last()) {
        (Some(_), Some(last)) => layers_added > 0 && !last.is_burst() && has_larger_base(filter),
        _ => is_due(layers_before, layers),
    };
    if !is_due {
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
