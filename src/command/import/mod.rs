//! BF.IMPORT: taking over the bitmap that a client keeps in a string.

mod error;
mod parse;
mod run;

pub use error::ImportError;

use crate::bloom::client::{BitOrder, ItemEncoding, Scheme};

/// What the host found at the source key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StringSlot<'s> {
    /// No such key.
    Vacant,
    /// A string.
    Bytes(&'s [u8]),
    /// A value of another type.
    WrongType,
}

/// What BF.IMPORT reads beside its own key.
pub trait Sources {
    /// What is at the source key of [`Import::source`].
    fn string(&self) -> StringSlot<'_>;
    /// A field of the hash at `key`, if there is one and the client may read it.
    fn field(&self, key: &[u8], field: &str) -> Option<Vec<u8>>;
}

/// Where a client's bits come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin<'a> {
    /// The string at this key.
    Source(&'a [u8]),
    /// What Guava's `writeTo` wrote, in the command itself.
    Guava(&'a [u8]),
    /// Nowhere: all bits are clear.
    Empty,
}

/// BF.IMPORT with its arguments understood.
#[derive(Debug)]
pub struct Import<'a> {
    key: &'a [u8],
    origin: Origin<'a>,
    /// The scheme; none where Guava's bytes tell it.
    scheme: Option<Scheme>,
    size_bits: Option<u64>,
    probes: Option<u32>,
    shift: Option<u8>,
    order: Option<BitOrder>,
    encoding: Option<ItemEncoding>,
    capacity_items: Option<u64>,
    error_rate: Option<f64>,
    expansion: Option<u32>,
    is_fixed: bool,
    is_replacing: bool,
}

impl<'a> Import<'a> {
    /// Whether Redisson's settings may tell what the options do not.
    fn has_settings(&self) -> bool {
        self.scheme == Some(Scheme::Redisson) && matches!(self.origin, Origin::Source(_))
    }

    /// The key of the string, if one is to be read.
    #[must_use]
    pub fn source(&self) -> Option<&'a [u8]> {
        match self.origin {
            Origin::Source(key) => Some(key),
            Origin::Guava(_) | Origin::Empty => None,
        }
    }
}
