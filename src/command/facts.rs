//! What BF.INFO and BF.STATS show of a filter beside what can be read off every filter.

use super::words::{GUAVA_ORDER, Word};
use crate::bloom::policy::{BitOrder, Imported, ValkeyBloom, redisbloom, valkeybloom};
use crate::bloom::{Filter, Hash, Layer, Layout, Policy};

/// valkey-bloom's own default limit of a filter, whatever ours is: its `Max scaled capacity` is compared
/// with what that module replies.
const LIMIT_DEFAULT_BYTES: u64 = 128 << 20;

/// Returns what the module whose format the filter has would show as its size, in bytes. O(layers).
pub(super) fn size_bytes(filter: &Filter) -> u64 {
    match filter.policy() {
        Policy::RedisBloom(_) => redisbloom::reported_size_bytes(filter.layers()),
        Policy::ValkeyBloom(_) => {
            valkeybloom::size_bytes(filter.layers().iter().map(|layer| layer.cells().size_bytes()))
        }
        _ => filter.size_bytes(),
    }
}

/// Returns the error rate that was asked for, where it is known: RedisBloom does not write it, and nobody promised one of a
/// client's filter.
pub(super) fn error_rate(filter: &Filter) -> Option<f64> {
    match filter.policy() {
        Policy::ValkeyBloom(policy) => Some(decimal_of(policy.error_rate)),
        policy => policy.promise().map(|promise| promise.error_rate),
    }
}

/// Returns how much smaller the error rate of each layer is than that of the one before, where that is part of the filter.
pub(super) fn tightening_ratio(filter: &Filter) -> Option<f64> {
    scaling(filter).map(|policy| policy.tightening_ratio)
}

/// Returns the items that the filter could grow to in valkey-bloom under [`LIMIT_DEFAULT_BYTES`]: for a filter of its kind
/// that can grow. O(layers there may be).
pub(super) fn max_scaled_capacity_items(filter: &Filter) -> Option<u64> {
    scaling(filter).map(|policy| valkeybloom::max_scaled_capacity(policy, LIMIT_DEFAULT_BYTES))
}

/// Returns the parameters of a filter of valkey-bloom that can grow.
fn scaling(filter: &Filter) -> Option<&ValkeyBloom> {
    match filter.policy() {
        Policy::ValkeyBloom(policy) if !policy.growth.is_fixed_size() => Some(policy),
        _ => None,
    }
}

/// Returns how many of the items of an imported filter nobody counted.
pub(super) fn estimated_items(filter: &Filter) -> Option<u64> {
    imported(filter).map(|policy| policy.estimated_items)
}

/// Returns the policy of an imported filter.
pub(super) fn imported(filter: &Filter) -> Option<&Imported> {
    if let Policy::Imported(policy) = filter.policy() { Some(policy) } else { None }
}

/// Returns how long items stay in the filter, in milliseconds, where they expire.
pub(super) fn window_ms(filter: &Filter) -> Option<u64> {
    filter.window().map(|window| window.span.ms())
}

/// Returns whether nobody outside can choose items that the filter takes for others: whether every layer is keyed.
pub(super) fn is_keyed(filter: &Filter) -> bool {
    filter.layers().iter().all(|layer| layer.hash().is_secret())
}

/// How a client's filter was imported, in the words of BF.IMPORT.
#[derive(Clone, Copy, Debug)]
pub(super) struct Import {
    pub(super) scheme: &'static str,
    pub(super) encoding: &'static str,
    pub(super) order: &'static str,
}

/// Returns how the filter was imported, if it was.
pub(super) fn import(filter: &Filter) -> Option<Import> {
    let form = imported(filter)?.form;
    let (layout, _) = filter.clients_layer()?;
    let (scheme, encoding) = (layout.parameters().scheme.word(), layout.parameters().encoding.word());
    Some(Import { scheme, encoding, order: order_word(form.order) })
}

/// Returns the word of an order; that of Guava's strings no option has.
pub(super) fn order_word(order: BitOrder) -> &'static str {
    match order {
        BitOrder::Msb | BitOrder::Lsb => order.word(),
        BitOrder::BigEndianWords => GUAVA_ORDER,
    }
}

/// Returns the word for the layout of a layer; of a filter of several kinds the one for the hash.
pub(super) fn placement(filter: &Filter, layer: &Layer) -> &'static str {
    if let Policy::United(_) = filter.policy() {
        return owner(layer);
    }
    match layer.layout() {
        Layout::Scattered(_) => "scattered",
        Layout::Paged(_) => "paged",
        Layout::Modulo(_) | Layout::Prime(_) => "double hashing",
        Layout::Scheme(layout) => layout.parameters().scheme.word(),
    }
}

/// Returns whose layer of a filter of several kinds it is.
pub(super) fn owner(layer: &Layer) -> &'static str {
    match layer.hash() {
        Hash::Murmur3 => "everbloom",
        Hash::Keyed(_) => "everbloom-keyed",
        Hash::RedisBloom(_) => "redisbloom",
        Hash::ValkeyBloom(_) => "valkey-bloom",
        Hash::Client(scheme, _) => scheme.word(),
    }
}

/// Returns the error rate that a layer was sized for, 0 being the oldest, where it is known: of layers that came by a merge it is
/// not written.
pub(super) fn sized_rate(filter: &Filter, index: usize) -> Option<f64> {
    match filter.policy() {
        Policy::United(_) => None,
        policy @ Policy::Promise(promise) => {
            let is_known = !policy.are_layers_united(filter.layers());
            is_known.then(|| promise.growth.layer_error_rate(promise.error_rate, index))
        }
        Policy::Window(window) => Some(window.promise.error_rate),
        Policy::RedisBloom(_) => match filter.layers().get(index)?.layout() {
            Layout::Modulo(layout) => Some(layout.error_rate()),
            _ => None,
        },
        Policy::ValkeyBloom(policy) => {
            valkeybloom::layer_error_rate(policy.error_rate, policy.tightening_ratio, index)
        }
        Policy::Imported(policy) => {
            index.checked_sub(1).map(|index| policy.growth.layer_error_rate(policy.error_rate, index))
        }
    }
}

/// Returns a rate as it was asked for. valkey-bloom 0.1.0 kept it in single precision, of which a double holds every bit and
/// so more digits than anybody typed: such a number is shown as the decimal that single precision stood for.
#[expect(clippy::cast_possible_truncation, reason = "it is compared with what it was before")]
pub(super) fn decimal_of(rate: f64) -> f64 {
    let single = rate as f32;
    if f64::from(single) != rate {
        return rate;
    }
    single.to_string().parse().unwrap_or(rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_of_single_precision_are_shown_as_they_were_typed() {
        for rate in [0.001, 0.01, 0.02, 0.03, 0.05, 0.1, 0.000_001, 0.5, 0.25] {
            assert_eq!(decimal_of(rate), rate);
        }
        for (single, rate) in [(0.001f32, 0.001), (0.01, 0.01), (0.000_001, 0.000_001), (0.5, 0.5)] {
            assert_eq!(decimal_of(single.into()), rate);
        }
    }
}
