//! The values that BF.INFO, BF.STATS and BF.DEBUG show, and how they are replied.

use std::borrow::Cow;

use super::keyspace::Reply;
use super::number::six_digits;
use super::words::{GUAVA_ORDER, Word};
use everbloom_filter::filter::policy::BitOrder;
use everbloom_filter::{Filter, Growth, Layer};

/// A value in a reply.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum FieldValue {
    Integer(u64),
    Double(f64),
    Boolean(bool),
    Text(Cow<'static, str>),
    Null,
}

impl FieldValue {
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

impl<T> From<Option<T>> for FieldValue
where
    Self: From<T>,
{
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl From<u64> for FieldValue {
    fn from(number: u64) -> Self {
        Self::Integer(number)
    }
}

impl From<f64> for FieldValue {
    fn from(number: f64) -> Self {
        Self::Double(number)
    }
}

impl From<&'static str> for FieldValue {
    fn from(text: &'static str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}

impl From<String> for FieldValue {
    fn from(text: String) -> Self {
        Self::Text(Cow::Owned(text))
    }
}

/// Returns the promised error rate; `None` for RedisBloom's filters, which do not store it, and for imported ones.
pub(super) fn error_rate(filter: &Filter) -> Option<f64> {
    let policy = filter.policy();
    let of_valkeybloom = policy.valkeybloom().map(|policy| decimal_of(policy.error_rate));
    of_valkeybloom.or(policy.promise().map(|promise| promise.error_rate))
}

/// Returns the expansion of a scaling filter; `None` for other filters.
pub(super) fn expansion(filter: &Filter) -> Option<u64> {
    match filter.growth() {
        Growth::Fixed | Growth::Saturating => None,
        Growth::Scaling { expansion } | Growth::Unreserved { expansion } => Some(expansion.into()),
    }
}

/// Returns the word for an order. ORDER of BF.IMPORT does not accept [`GUAVA_ORDER`].
pub(super) fn order_word(order: BitOrder) -> &'static str {
    match order {
        BitOrder::Msb | BitOrder::Lsb => order.word(),
        BitOrder::BigEndianWords => GUAVA_ORDER,
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
