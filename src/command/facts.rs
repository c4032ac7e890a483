//! Values of a filter for BF.INFO, BF.STATS and BF.DEBUG, and how they are replied.

use std::borrow::Cow;

use super::number::six_digits;
use super::reply::Reply;
use super::words::{GUAVA_ORDER, Word};
use crate::bloom::filter::policy::{BitOrder, ValkeyBloom, valkeybloom};
use crate::bloom::{Filter, Growth, Kind, Layer, Layout};

/// A value in a reply.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Integer(u64),
    Double(f64),
    Boolean(bool),
    Text(Cow<'static, str>),
    Null,
}

impl Value {
    /// Returns an estimate or another imprecise number, with six significant digits.
    pub(super) fn rounded(number: f64) -> Self {
        Self::Double(six_digits(number).parse().unwrap_or(number))
    }

    /// Returns an estimated count as an integer.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rounded quantity, not negative; a cast from a double saturates"
    )]
    pub(super) fn about(quantity: f64) -> Self {
        Self::Integer(quantity.round() as u64)
    }

    /// Returns a constant text.
    pub(super) fn name(text: &'static str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }

    /// Replies the value.
    pub(super) fn write(&self, reply: &mut impl Reply) {
        match self {
            Self::Integer(value) => reply.integer(*value),
            // Adding 0 turns a negative zero, which servers reply as `-0`, into 0.
            Self::Double(value) => reply.double(*value + 0.0),
            Self::Boolean(value) => reply.boolean(*value),
            Self::Text(text) => reply.bulk(text.as_bytes()),
            Self::Null => reply.null(),
        }
    }
}

impl<T> From<Option<T>> for Value
where
    Self: From<T>,
{
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Double(number)
    }
}

impl From<&'static str> for Value {
    fn from(text: &'static str) -> Self {
        Self::name(text)
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(Cow::Owned(text))
    }
}

/// valkey-bloom's default limit of a filter. `Max scaled capacity` must be the reply of that module, so it does not
/// depend on everbloom's limit.
const LIMIT_DEFAULT_BYTES: u64 = 128 << 20;

/// Returns the size in bytes that the module of the filter's format would show. O(layers).
pub(super) fn size_bytes(filter: &Filter) -> u64 {
    filter.policy().reported_size_bytes(filter.layers()).unwrap_or_else(|| filter.size_bytes())
}

/// Returns the promised error rate. It is unknown for RedisBloom's filters, which do not store it, and imported ones.
pub(super) fn error_rate(filter: &Filter) -> Option<f64> {
    let policy = filter.policy();
    let of_valkeybloom = policy.valkeybloom().map(|policy| decimal_of(policy.error_rate));
    of_valkeybloom.or(policy.promise().map(|promise| promise.error_rate))
}

/// Returns the ratio of the error rates of a layer and the one before it, for filters that store it.
pub(super) fn tightening_ratio(filter: &Filter) -> Option<f64> {
    scaling(filter).map(|policy| policy.tightening_ratio)
}

/// Returns the capacity that a scaling filter of valkey-bloom could grow to under [`LIMIT_DEFAULT_BYTES`].
/// O(possible layers).
pub(super) fn max_scaled_capacity_items(filter: &Filter) -> Option<u64> {
    scaling(filter).map(|policy| valkeybloom::max_scaled_capacity(policy, LIMIT_DEFAULT_BYTES))
}

/// Returns the parameters of a scaling filter of valkey-bloom.
fn scaling(filter: &Filter) -> Option<&ValkeyBloom> {
    filter.policy().valkeybloom().filter(|policy| !policy.growth.is_fixed_size())
}

/// Returns how many items of an imported filter were estimated at the import.
pub(super) fn estimated_items(filter: &Filter) -> Option<u64> {
    filter.policy().imported().map(|policy| policy.estimated_items)
}

/// Returns the expansion of a scaling filter.
pub(super) fn expansion(filter: &Filter) -> Value {
    match filter.growth() {
        Growth::Fixed | Growth::Saturating => Value::Null,
        Growth::Scaling { expansion } | Growth::Unreserved { expansion } => Value::Integer(expansion.into()),
    }
}

/// Returns the window of a sliding-window filter, in milliseconds.
pub(super) fn window_ms(filter: &Filter) -> Option<u64> {
    filter.window().map(|window| window.span.ms())
}

/// The scheme of an imported filter, as the words of BF.IMPORT.
#[derive(Clone, Copy, Debug)]
pub(super) struct Import {
    pub(super) scheme: &'static str,
    pub(super) encoding: &'static str,
    pub(super) order: &'static str,
}

/// Returns how the filter was imported, if it was.
pub(super) fn import(filter: &Filter) -> Option<Import> {
    let form = filter.policy().imported()?.form;
    let (layout, _) = filter.clients_layer()?;
    let (scheme, encoding) = (layout.parameters().scheme.word(), layout.parameters().encoding.word());
    Some(Import { scheme, encoding, order: order_word(form.order) })
}

/// Returns the word for an order. No option has the order of Guava's strings.
pub(super) fn order_word(order: BitOrder) -> &'static str {
    match order {
        BitOrder::Msb | BitOrder::Lsb => order.word(),
        BitOrder::BigEndianWords => GUAVA_ORDER,
    }
}

/// Returns the word for the layout of a layer; in a union, the word for its hash.
pub(super) fn placement(filter: &Filter, layer: &Layer) -> &'static str {
    if filter.kind() == Kind::Union {
        return owner(layer);
    }
    match layer.layout() {
        Layout::Scattered(_) => "scattered",
        Layout::Paged(_) => "paged",
        Layout::Modulo(_) | Layout::Prime(_) => "double hashing",
        Layout::Scheme(layout) => layout.parameters().scheme.word(),
    }
}

/// Returns the module or client from which a layer of a union came.
pub(super) fn owner(layer: &Layer) -> &'static str {
    layer.hash().owner(Word::word)
}

/// Returns a rate as it was entered. valkey-bloom 0.1.0 stored rates in single precision. As a double, such a rate
/// has more digits than were entered, so the shortest decimal with the same single precision is shown.
#[expect(clippy::cast_possible_truncation, reason = "the result is compared with the rate")]
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
    fn rates_of_single_precision_are_shown_as_they_were_entered() {
        for rate in [0.001, 0.01, 0.02, 0.03, 0.05, 0.1, 0.000_001, 0.5, 0.25] {
            assert_eq!(decimal_of(rate), rate);
        }
        for (single, rate) in [(0.001f32, 0.001), (0.01, 0.01), (0.000_001, 0.000_001), (0.5, 0.5)] {
            assert_eq!(decimal_of(single.into()), rate);
        }
    }
}
