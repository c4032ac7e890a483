//! The bytes that Guava's `BloomFilter.writeTo` writes: strategy, probes, number of longs, the longs.
//!
//! | bytes | field |
//! |---|---|
//! | 0 | strategy: 0 is `MURMUR128_MITZ_32`, 1 is `MURMUR128_MITZ_64` |
//! | 1 | probes, 1 to 255 |
//! | 2..6 | number of longs L, signed 32 bits, high byte first, at least 1 |
//! | 6.. | L longs of 64 bits, high byte first; bit i is bit i % 64 of long i / 64 |
//!
//! The bytes do not name a funnel: ENCODING of BF.IMPORT determines how items become bytes.

use thiserror::Error;

use super::bitmap::{self, ExportError, StringError, zeroed};
use everbloom_filter::BitArray;
use everbloom_filter::bits::layout::SchemeLayout;
use everbloom_filter::encoding::ItemEncoding;
use everbloom_filter::filter::policy::{BitOrder, StringForm};
use everbloom_filter::hash::scheme::{Scheme, SchemeParameters};

/// Bytes before the longs.
pub const GUAVA_HEADER_BYTES: usize = 6;

/// The header before the longs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuavaHeader {
    /// [`Scheme::GuavaMitz32`] or [`Scheme::GuavaMitz64`].
    scheme: Scheme,
    /// Probes per item, not 0.
    probes: u8,
    /// Number of longs, 1 to `i32::MAX`.
    longs: u32,
}

/// Why bytes are not a Guava filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum GuavaError {
    /// Fewer bytes than a header has.
    #[error("a Guava filter has at least {} bytes", GUAVA_HEADER_BYTES)]
    Truncated,
    /// A strategy that Guava does not have.
    #[error("a Guava filter has strategy 0 or 1, got {0}")]
    Strategy(
        /// The byte found.
        u8,
    ),
    /// No probes.
    #[error("a Guava filter has 1 to 255 hash functions, got 0")]
    Probes,
    /// The number of longs is not positive.
    #[error("a Guava filter has 1 to 2147483647 longs")]
    Longs,
    /// The number of bytes after the header is not that of the longs.
    #[error("a Guava filter with this header has {expected_bytes} bytes, got {got_bytes}")]
    Length {
        /// Bytes that the header specifies, including its own.
        expected_bytes: u64,
        /// Actual bytes.
        got_bytes: u64,
    },
    /// An allocation failed.
    #[error("out of memory")]
    OutOfMemory,
}

impl GuavaHeader {
    /// Reads the header and compares the total length with it. Allocates nothing. O(1).
    ///
    /// # Errors
    /// The first wrong field.
    #[expect(clippy::big_endian_bytes, reason = "Java's DataOutputStream writes the high byte first")]
    pub fn decode(blob: &[u8]) -> Result<Self, GuavaError> {
        let ([strategy, probes, longs @ ..], _) =
            blob.split_first_chunk::<GUAVA_HEADER_BYTES>().ok_or(GuavaError::Truncated)?;
        let scheme = match strategy {
            0 => Scheme::GuavaMitz32,
            1 => Scheme::GuavaMitz64,
            other => return Err(GuavaError::Strategy(*other)),
        };
        if *probes == 0 {
            return Err(GuavaError::Probes);
        }
        let longs = u32::try_from(i32::from_be_bytes(*longs)).map_err(|_| GuavaError::Longs)?;
        if longs == 0 {
            return Err(GuavaError::Longs);
        }
        let header = Self { scheme, probes: *probes, longs };
        let (expected_bytes, got_bytes) = (header.blob_bytes(), blob.len() as u64);
        if expected_bytes != got_bytes {
            return Err(GuavaError::Length { expected_bytes, got_bytes });
        }
        Ok(header)
    }

    /// Reads a whole filter whose items have `encoding`. The array has [`SchemeLayout::array_bits`] bits. O(bytes).
    ///
    /// # Errors
    /// The first wrong field, or [`GuavaError::OutOfMemory`].
    pub fn read(
        blob: &[u8],
        encoding: ItemEncoding,
    ) -> Result<(SchemeParameters, StringForm, BitArray), GuavaError> {
        let header = Self::decode(blob)?;
        let longs = blob.get(GUAVA_HEADER_BYTES..).unwrap_or(&[]);
        let parameters = header.parameters(encoding);
        let layout = SchemeLayout::new(parameters).map_err(|_| GuavaError::Longs)?;
        match bitmap::read(longs, BitOrder::BigEndianWords, layout.array_bits()) {
            Ok((form, bits)) => Ok((parameters, form, bits)),
            Err(StringError::OutOfMemory) => Err(GuavaError::OutOfMemory),
            Err(StringError::BeyondEnd { .. } | StringError::TooLong { .. }) => Err(GuavaError::Longs),
        }
    }

    /// Returns the header for these parameters; `None` if Guava cannot represent them. They must be one of its
    /// strategies, without a shift, with 1 to 255 probes and a whole number of longs.
    #[must_use]
    pub fn of(parameters: &SchemeParameters) -> Option<Self> {
        let SchemeParameters { scheme, shift, probes, size_bits, .. } = *parameters;
        let is_guava = matches!(scheme, Scheme::GuavaMitz32 | Scheme::GuavaMitz64);
        if !is_guava || shift != 0 || size_bits == 0 || !size_bits.is_multiple_of(64) {
            return None;
        }
        let longs = u32::try_from(i32::try_from(size_bits / 64).ok()?).ok()?;
        Some(Self { scheme, probes: u8::try_from(probes).ok().filter(|probes| *probes != 0)?, longs })
    }

    /// Returns the parameters of the filter, with 64 bits per long.
    #[must_use]
    pub fn parameters(&self, encoding: ItemEncoding) -> SchemeParameters {
        let size_bits = u64::from(self.longs).saturating_mul(64);
        SchemeParameters { scheme: self.scheme, encoding, shift: 0, probes: self.probes.into(), size_bits }
    }

    /// Returns the bytes that `writeTo` would write. O(bytes).
    ///
    /// # Errors
    /// [`ExportError`]; the length is checked before anything is allocated.
    #[expect(clippy::big_endian_bytes, reason = "Java's DataInputStream reads the high byte first")]
    pub fn write(&self, bits: &BitArray) -> Result<Vec<u8>, ExportError> {
        ExportError::check(self.blob_bytes())?;
        let mut blob = zeroed(self.blob_bytes())?;
        if let Some((header, longs)) = blob.split_first_chunk_mut::<GUAVA_HEADER_BYTES>() {
            let [strategy, probes, rest @ ..] = header;
            (*strategy, *probes) = (u8::from(self.scheme == Scheme::GuavaMitz64), self.probes);
            *rest = self.longs.to_be_bytes();
            let length_bytes = u64::from(self.longs).saturating_mul(8);
            bitmap::fill(StringForm { order: BitOrder::BigEndianWords, length_bytes }, bits, longs);
        }
        Ok(blob)
    }

    /// Returns the number of bytes of header and longs.
    #[must_use]
    pub fn blob_bytes(&self) -> u64 {
        u64::from(self.longs).saturating_mul(8).saturating_add(GUAVA_HEADER_BYTES as u64)
    }
}
