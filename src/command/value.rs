//! A fact about a filter as a reply.

use std::borrow::Cow;

use super::reply::Reply;
use super::text::six_digits;

/// A fact about a filter.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Integer(u64),
    Double(f64),
    Boolean(bool),
    Text(Cow<'static, str>),
    Null,
}

impl Value {
    /// A number that is an estimate, or that nobody asked for to the last digit: six significant digits.
    pub(super) fn rounded(number: f64) -> Self {
        Self::Double(six_digits(number).parse().unwrap_or(number))
    }

    /// A whole number of things that were not counted one by one.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rounded quantity, not negative; a cast from a double saturates"
    )]
    pub(super) fn about(quantity: f64) -> Self {
        Self::Integer(quantity.round() as u64)
    }

    /// A text that never changes.
    pub(super) fn name(text: &'static str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }

    pub(super) fn write(&self, reply: &mut impl Reply) {
        match self {
            Self::Integer(value) => reply.integer(*value),
            // The sum with 0 is never negative zero, which servers reply as `-0`.
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
