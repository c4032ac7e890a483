//! The results of reserving a filter and of adding to it, and the byte limit of both.

use std::fmt;

use thiserror::Error;

use super::encoding::{ItemEncoding, NotEncodable};
use super::group::{self, ItemSet};
use super::limits::{CUCKOO_ARRAY_MAX_BYTES, LAYER_MAX_BYTES, LAYERS_MAX, PROBES_TOTAL_MAX};
use super::memory::OutOfMemory;

/// The most bytes that a filter may take. Its structs, bits and table count: `Footprint::needed_bytes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Number of bytes.
    pub bytes: u64,
    /// What sets the limit.
    pub source: LimitSource,
}

/// What limits the bytes of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitSource {
    /// The caller; in a server, `bf.max-filter-bytes`.
    Setting,
    /// `maxmemory` of the server.
    MaxMemory,
    /// The memory limit of the server's control group, which its container or service has.
    Cgroup,
    /// The memory of the machine.
    Machine,
    /// The format: no layer is larger.
    Layer,
    /// RedisBloom's cuckoo filters: no array that grows is larger.
    Array,
}

impl Limit {
    /// The largest size of a layer, whatever the settings are.
    pub const LAYER: Self = Self { bytes: LAYER_MAX_BYTES, source: LimitSource::Layer };
    /// The largest array to which a cuckoo filter grows, whatever the settings are.
    pub(super) const ARRAY: Self = Self { bytes: CUCKOO_ARRAY_MAX_BYTES, source: LimitSource::Array };

    /// Returns the smaller of two limits; `self` if they are equal.
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
            Self::Cgroup => Some("the memory limit of the cgroup"),
            Self::Machine | Self::Layer | Self::Array => None,
        }
    }
}

impl fmt::Display for Limit {
    /// Writes what sets the limit, and its bytes.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match (self.source, self.source.setting()) {
            (_, Some(setting)) => setting,
            (LimitSource::Layer, None) => "a layer can have",
            (LimitSource::Array, None) => "an array of a cuckoo filter can have",
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

/// A limit on the bytes of a filter. It is queried only before a filter is created or grows, so it may be slow.
pub trait ByteLimit {
    /// Returns the limit.
    fn limit(&self) -> Limit;

    /// Returns the limit again, before a filter is refused because of `limit`. If the system sets it, it may have been
    /// raised meanwhile.
    fn limit_again(&self, limit: Limit) -> Limit {
        limit
    }

    /// Returns whether a client sends the filter, and not a primary, a snapshot or an append-only file.
    fn is_from_client(&self) -> bool {
        false
    }

    /// Checks that a filter may take `needed_bytes`.
    ///
    /// # Errors
    /// The limit, if it is exceeded.
    fn permits(&self, needed_bytes: u64) -> Result<(), Limit> {
        let limit = self.limit();
        if needed_bytes <= limit.bytes {
            return Ok(());
        }
        let limit = self.limit_again(limit);
        if needed_bytes > limit.bytes { Err(limit) } else { Ok(()) }
    }
}

impl ByteLimit for Limit {
    fn limit(&self) -> Limit {
        *self
    }
}

impl ByteLimit for u64 {
    fn limit(&self) -> Limit {
        (*self).into()
    }
}

/// Why a filter could not be created, or could not grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ReserveError {
    /// The filter would take `needed_bytes`, more than `limit`.
    #[error("the filter would take {needed_bytes} bytes, more than {}", limit.bytes)]
    TooLarge {
        /// Bytes of the filter after the creation or growth.
        needed_bytes: u64,
        /// The limit that it would exceed.
        limit: Limit,
    },
    /// The filter would have more layers than [`LAYERS_MAX`], more probes than [`PROBES_TOTAL_MAX`], or too many items in
    /// one layer.
    #[error(
        "the filter would have more than {LAYERS_MAX} layers or {PROBES_TOTAL_MAX} probes, or too many items in one layer"
    )]
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
    /// The item was added as often as can be counted, or its bucket has no slots left for the count.
    #[error("the item was added too often to be counted")]
    TooOften,
    /// The encoding of an imported filter cannot express the item.
    #[error("{}", NotEncodable(*.0))]
    NotEncodable(ItemEncoding),
}

/// The outcomes of adding consecutive items of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddOutcomes {
    /// The index of the first item.
    pub start: usize,
    /// The index after the last item.
    pub end: usize,
    /// Items that were not in the filter before.
    pub new: ItemSet,
    /// Items that were in the filter and were counted or refreshed.
    pub again: ItemSet,
    /// Items that were refused.
    pub refused: ItemSet,
    /// Why these items were refused.
    pub error: Option<AddError>,
}

impl AddOutcomes {
    /// Returns the outcome of the first item.
    #[inline(always)]
    pub(super) fn first(self) -> Result<Added, AddError> {
        self.of(self.start)
    }

    /// Returns the outcome of each item, in order.
    pub fn each(self) -> impl Iterator<Item = Result<Added, AddError>> {
        (self.start..self.end).map(move |index| self.of(index))
    }

    #[inline(always)]
    fn of(self, index: usize) -> Result<Added, AddError> {
        let is_in = |set: ItemSet| set >> index & 1 == 1;
        match self.error {
            Some(error) if is_in(self.refused) => Err(error),
            _ if is_in(self.new) => Ok(Added::New),
            _ if is_in(self.again) => Ok(Added::Again),
            _ => Ok(Added::Present),
        }
    }

    /// Returns the outcomes up to and including the first refused item, and the outcomes after it.
    #[cold]
    pub(super) fn split_after_refused(self) -> (Self, Self) {
        let after = group::first_of(self.refused).saturating_add(1);
        let (first, rest) = (group::all(after), group::from(after));
        let part =
            |set| Self { new: self.new & set, again: self.again & set, refused: self.refused & set, ..self };
        (Self { end: after, ..part(first) }, Self { start: after, ..part(rest) })
    }
}
