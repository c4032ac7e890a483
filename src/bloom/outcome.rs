//! The results of reserving a filter and of adding to it, and the byte limit of both.

use std::fmt;

use thiserror::Error;

use super::hash::scheme::{ItemEncoding, NotEncodable};
use super::limits::LAYER_MAX_BYTES;
use super::memory::OutOfMemory;

/// The most bytes of a filter, structs, bits and table: `Footprint::needed_bytes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Number of bytes.
    pub bytes: u64,
    /// What sets this number.
    pub source: LimitSource,
}

/// What limits the bytes of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitSource {
    /// The caller; in a server, `bf.max-filter-bytes`.
    Setting,
    /// `maxmemory` of the server.
    MaxMemory,
    /// The memory of the machine.
    Machine,
    /// The format: no layer is larger.
    Layer,
}

impl Limit {
    /// The largest size of a layer, whatever the settings are.
    pub const LAYER: Self = Self { bytes: LAYER_MAX_BYTES, source: LimitSource::Layer };

    /// Returns the smaller of two limits; the first one if they are equal.
    #[must_use]
    pub const fn min(self, other: Self) -> Self {
        if other.bytes < self.bytes { other } else { self }
    }
}

impl LimitSource {
    /// Returns the setting of a server that raises the limit, if there is one.
    #[must_use]
    pub const fn setting(self) -> Option<&'static str> {
        match self {
            Self::Setting => Some("bf.max-filter-bytes"),
            Self::MaxMemory => Some("maxmemory"),
            Self::Machine | Self::Layer => None,
        }
    }
}

impl fmt::Display for Limit {
    /// Writes what limits the size, and its bytes.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match (self.source, self.source.setting()) {
            (_, Some(setting)) => setting,
            (LimitSource::Layer, None) => "a layer can have",
            (_, None) => "the machine has",
        };
        write!(formatter, "{name} ({})", self.bytes)
    }
}

impl From<u64> for Limit {
    fn from(bytes: u64) -> Self {
        Self { bytes, source: LimitSource::Setting }
    }
}

/// A limit on the bytes of a filter. It is asked only before a layer is created, so it may be slow.
pub trait ByteLimit {
    /// Returns the limit.
    fn limit(&self) -> Limit;

    /// Checks that a filter may take `needed_bytes`.
    ///
    /// # Errors
    /// The limit, if it is exceeded.
    fn permits(&self, needed_bytes: u64) -> Result<(), Limit> {
        let limit = self.limit();
        if needed_bytes > limit.bytes { Err(limit) } else { Ok(()) }
    }
}

impl ByteLimit for u64 {
    fn limit(&self) -> Limit {
        (*self).into()
    }
}

/// Why a layer could not be created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ReserveError {
    /// The filter would take `needed_bytes`, more than `limit`.
    #[error("the filter would take {needed_bytes} bytes, more than {}", limit.bytes)]
    TooLarge {
        /// Bytes of the filter with the new layer.
        needed_bytes: u64,
        /// The limit that it would exceed.
        limit: Limit,
    },
    /// The filter would have more layers than [`LAYERS_MAX`](super::limits::LAYERS_MAX), more probes than
    /// [`PROBES_TOTAL_MAX`](super::limits::PROBES_TOTAL_MAX), or too many items in one layer.
    #[error("the filter would have too many layers, probes, or items in one layer")]
    TooLong,
    /// The error rate of the next layer would be too small: it would round to 0.
    #[error("the error rate of the next layer would be too small: it would round to 0")]
    ErrorRateVanishes,
    /// An allocation failed.
    #[error("out of memory")]
    OutOfMemory,
}

impl From<OutOfMemory> for ReserveError {
    fn from(_: OutOfMemory) -> Self {
        Self::OutOfMemory
    }
}

/// The result of adding an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// The item was not in the filter.
    New,
    /// The item was in the filter, or is a false positive. It was counted or refreshed.
    Again,
    /// The item was in the filter, or is a false positive. Nothing changed.
    Present,
}

/// Why an item could not be added; nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum AddError {
    /// The filter is fixed and has as many items as its capacity.
    #[error("the filter is fixed and full")]
    Full,
    /// The filter is full and cannot grow.
    #[error("the filter is full and cannot grow")]
    CannotGrow(#[source] ReserveError),
    /// The item was added as often as can be counted, or its bucket is full of counts.
    #[error("the item was added too often to be counted")]
    TooOften,
    /// The encoding of an imported filter cannot express the item.
    #[error("{}", NotEncodable(*.0))]
    NotEncodable(ItemEncoding),
}
