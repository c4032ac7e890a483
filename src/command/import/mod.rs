//! BF.IMPORT: taking over the bitmap that a client keeps in a string.

mod error;
mod parse;
mod run;

pub use error::ImportError;
pub(super) use run::run;

use super::keyspace::Name;
use crate::bloom::client::{BitOrder, ItemEncoding, Scheme};

/// Where a client's bits come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin<'a> {
    /// The string at this key.
    Source(Name<'a>),
    /// What Guava's `writeTo` wrote, in the command itself.
    Guava(&'a [u8]),
    /// Nowhere: all bits are clear.
    Empty,
}

/// BF.IMPORT with its arguments understood.
#[derive(Debug)]
struct Import<'a> {
    key: Name<'a>,
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
    expires_at_ms: Option<u64>,
    is_fixed: bool,
    is_replacing: bool,
}

impl<'a> Import<'a> {
    /// Whether Redisson's settings may tell what the options do not.
    fn has_settings(&self) -> bool {
        self.scheme == Some(Scheme::Redisson) && matches!(self.origin, Origin::Source(_))
    }
}
