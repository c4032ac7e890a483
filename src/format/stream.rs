//! Reads and writes the fields of a snapshot, through [`Source`] and [`Sink`], and records of fixed size. Also has the
//! errors of decoding.

use std::ops::Deref;

use bincode::Options;
use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

use everbloom_filter::limits::LAYERS_MAX;
use everbloom_filter::table::LoadError;
use everbloom_filter::{Limit, OutOfMemory, ReserveError};

/// Writes the fields of an encoding, in order.
pub trait Sink {
    /// Writes an unsigned integer.
    fn unsigned(&mut self, value: u64);
    /// Writes a double.
    fn double(&mut self, value: f64);
    /// Writes a string of bytes.
    fn bytes(&mut self, bytes: &[u8]);
}

/// Returns the fields of an encoding, in order.
pub trait Source {
    /// An owned string of bytes.
    type Bytes: Deref<Target = [u8]>;

    /// Returns the next field, an unsigned integer.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] if there is no field or it has another type.
    fn unsigned(&mut self) -> Result<u64, DecodeError>;

    /// Returns the next field, a double.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] if there is no field or it has another type.
    fn double(&mut self) -> Result<f64, DecodeError>;

    /// Returns the next field, a string of bytes.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] if there is no field or it has another type.
    fn bytes(&mut self) -> Result<Self::Bytes, DecodeError>;

    /// Checks that there is memory for a string, before it is read.
    ///
    /// # Errors
    /// [`DecodeError::OutOfMemory`].
    fn expect_bytes(&self, _size_bytes: u64) -> Result<(), DecodeError> {
        Ok(())
    }

    /// Returns the next field, a float of single precision. Only valkey-bloom 0.1.0 wrote any.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] if there is no field or it has another type.
    fn float(&mut self) -> Result<f32, DecodeError>;

    /// Returns the next field, an unsigned integer or a string of bytes. A source that does not know the type of a
    /// field before it reads it returns the integer.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] if there is no field or it has a type that the source cannot read.
    fn unsigned_or_bytes(&mut self) -> Result<UnsignedOrBytes<Self::Bytes>, DecodeError> {
        self.unsigned().map(UnsignedOrBytes::Unsigned)
    }
}

/// A field of one of two types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnsignedOrBytes<B> {
    /// An unsigned integer.
    Unsigned(u64),
    /// A string of bytes.
    Bytes(B),
}

/// Why bytes are not a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// The data is truncated, or a field has another type.
    #[error("the filter's data is truncated")]
    Truncated,
    /// The data is truncated, or a build of valkey-bloom from before release 1.0 wrote it. Such a build wrote fields in
    /// another order under the version number of release 1.0. A source that does not know the type of a field cannot
    /// distinguish the two orders.
    #[error(
        "a layer does not begin with its capacity: the data is truncated, or a valkey-bloom before release 1.0 \
                 wrote it, and everbloom cannot read that"
    )]
    PrereleaseOrder,
    /// A version or number that this release does not know.
    #[error("unsupported {what} {got}: a newer release may have written it: upgrade everbloom")]
    Unsupported {
        /// The field.
        what: &'static str,
        /// Its value.
        got: u64,
    },
    /// A field that is out of range or contradicts another.
    #[error("{0} is out of range or contradicts other fields")]
    Invalid(&'static str),
    /// The filter would take more memory than is available or allowed.
    #[error("the filter takes {needed_bytes} bytes, more than {limit}")]
    TooLarge {
        /// Bytes of the filter.
        needed_bytes: u64,
        /// The limit that it exceeds.
        limit: Limit,
    },
    /// The filter is being loaded by BF.LOADCHUNK. Only a server can hold it.
    #[error("the filter is being loaded: its last chunks are missing")]
    Loading,
    /// An allocation failed.
    #[error("out of memory")]
    OutOfMemory,
}

impl DecodeError {
    /// Returns the error for a version or number that this release does not know.
    pub(super) fn unsupported(what: &'static str, got: impl Into<u64>) -> Self {
        Self::Unsupported { what, got: got.into() }
    }
}

impl From<OutOfMemory> for DecodeError {
    fn from(OutOfMemory: OutOfMemory) -> Self {
        Self::OutOfMemory
    }
}

impl From<ReserveError> for DecodeError {
    /// Converts the error of a filter whose number of layers was checked before.
    fn from(error: ReserveError) -> Self {
        match error {
            ReserveError::TooLarge { needed_bytes, limit } => Self::TooLarge { needed_bytes, limit },
            ReserveError::TooLong | ReserveError::ErrorRateVanishes => Self::Invalid("probes of all layers"),
            ReserveError::OutOfMemory => Self::OutOfMemory,
        }
    }
}

impl From<LoadError> for DecodeError {
    fn from(error: LoadError) -> Self {
        match error {
            LoadError::Invalid(rule) => Self::Invalid(rule),
            LoadError::Overlapping => Self::Invalid("segments"),
            LoadError::Ahead => Self::Invalid("the time of the newest item"),
            LoadError::NoRoom(error) => error.into(),
        }
    }
}

/// More bytes than any record of fixed size.
const RECORD_MAX_BYTES: u64 = 256;

/// Returns the encoding of records: fields one after another, of fixed size, little-endian. docs/formats.md has the
/// bytes of each.
fn options() -> impl Options {
    bincode::DefaultOptions::new()
        .with_fixint_encoding()
        .with_little_endian()
        .with_limit(RECORD_MAX_BYTES)
        .allow_trailing_bytes()
}

/// Appends a record.
pub(super) fn append(bytes: &mut Vec<u8>, record: &impl Serialize) {
    // Writing a record within the limit to memory cannot fail.
    let written = options().serialize_into(bytes, record);
    debug_assert!(written.is_ok());
}

/// Returns the record at the start of `rest`, and removes it from there.
pub(super) fn read<T: DeserializeOwned>(rest: &mut &[u8]) -> Result<T, DecodeError> {
    options().deserialize_from(rest).map_err(|_| DecodeError::Truncated)
}

/// Returns the number of layers, if it is at least `least` and at most [`LAYERS_MAX`].
pub(super) fn checked_layers(layers: u64, least: usize) -> Result<usize, DecodeError> {
    let layers = usize::try_from(layers).ok().filter(|layers| (least..=LAYERS_MAX).contains(layers));
    layers.ok_or(DecodeError::Invalid("layer count"))
}
