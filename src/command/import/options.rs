//! What BF.IMPORT can be told.

use crate::bloom::hash::scheme::{ItemEncoding, Scheme};
use crate::bloom::policy::BitOrder;
use crate::command::keyspace::Name;

/// Where a client's bits come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin<'a> {
    /// The string at this key.
    Source(Name<'a>),
    /// What Guava's `writeTo` wrote, in the command itself.
    Guava(&'a [u8]),
    /// Nowhere: all bits are clear.
    Empty,
}

/// BF.IMPORT with its arguments understood.
#[derive(Debug)]
pub(super) struct Import<'a> {
    pub(super) key: Name<'a>,
    pub(super) origin: Origin<'a>,
    /// The scheme; none where Guava's bytes tell it.
    pub(super) scheme: Option<Scheme>,
    pub(super) size_bits: Option<u64>,
    pub(super) probes: Option<u32>,
    pub(super) shift: Option<u8>,
    pub(super) order: Option<BitOrder>,
    pub(super) encoding: Option<ItemEncoding>,
    pub(super) capacity_items: Option<u64>,
    pub(super) error_rate: Option<f64>,
    pub(super) expansion: Option<u32>,
    pub(super) expires_at_ms: Option<u64>,
    pub(super) is_fixed: bool,
    pub(super) is_replacing: bool,
}

impl<'a> Import<'a> {
    /// Whether Redisson's settings may tell what the options do not.
    pub(super) fn has_settings(&self) -> bool {
        self.scheme == Some(Scheme::Redisson) && matches!(self.origin, Origin::Source(_))
    }
}
