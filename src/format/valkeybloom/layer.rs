//! A layer of valkey-bloom on disk, in snapshots (RDB, DUMP) and in blobs of BF.LOAD alike: as the library
//! under it writes one, a header and then the bits. All numbers are little-endian.
//!
//! | bytes | field |
//! |---|---|
//! | 0 | version: 1 |
//! | 1..9 | length of the bits, in bytes |
//! | 9..13 | probes per item |
//! | 13..45 | what the hashes of the whole filter are keyed with |
//! | 45.. | the bits; bit i is bit i % 8, least significant first, of byte i / 8 |
//!
//! Capacity and items are not here: [`rdb`](super::rdb) and [`blob`](super::blob) have them beside it.
//! Version 0 of the data type (valkey-bloom 0.1.0) had no such header; `rdb` reads that too.

use super::builder::LayerFields;
use crate::bloom::hash::siphash::{SEED_BYTES, Seed};
use crate::bloom::{Hash, Layer, OutOfMemory};
use crate::format::stream::DecodeError;

/// Bytes before the bits.
pub(super) const HEADER_BYTES: usize = 1 + 8 + 4 + SEED_BYTES;
/// Version of the header.
const VERSION: u8 = 1;

/// What a slice says, its bits not yet copied.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slice<'a> {
    /// Probes per item; not checked yet.
    pub(super) probes: u32,
    /// What the filter's hashes are keyed with.
    pub(super) seed: [u8; SEED_BYTES],
    /// The bits, least significant first.
    pub(super) bits: &'a [u8],
}

impl<'a> Slice<'a> {
    /// Reads a slice; the bits must be as long as its header says. Allocates nothing.
    pub(super) fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let (version, rest) = bytes.split_first_chunk::<1>().ok_or(DecodeError::Truncated)?;
        if *version != [VERSION] {
            return Err(DecodeError::Unsupported {
                what: "version of a layer",
                got: u8::from_le_bytes(*version).into(),
            });
        }
        let (size_bytes, rest) = rest.split_first_chunk().ok_or(DecodeError::Truncated)?;
        let (probes, rest) = rest.split_first_chunk().ok_or(DecodeError::Truncated)?;
        let (seed, bits) = rest.split_first_chunk().ok_or(DecodeError::Truncated)?;
        if u64::from_le_bytes(*size_bytes) != bits.len() as u64 {
            return Err(DecodeError::Invalid("length of a layer"));
        }
        Ok(Self { probes: u32::from_le_bytes(*probes), seed: *seed, bits })
    }

    /// Returns the fields that a layer is made of.
    pub(super) fn fields(&self, capacity_items: u64, items: u64) -> LayerFields {
        let size_bytes = self.bits.len() as u64;
        LayerFields { size_bytes, probes: self.probes, capacity_items, items }
    }
}

/// Returns the seed of a filter, which all of its layers have.
pub(super) fn seed_of(layers: &[Layer]) -> Seed {
    match layers.first().map(Layer::hash) {
        Some(Hash::ValkeyBloom(seed)) => *seed,
        _ => Seed::FIXED,
    }
}

/// Returns what comes before the bits of a layer.
pub(super) fn header(layer: &Layer, seed: &[u8; SEED_BYTES]) -> [u8; HEADER_BYTES] {
    let size_bytes = layer.cells().size_bytes().to_le_bytes();
    let probes = layer.layout().probes().to_le_bytes();
    let mut header = [VERSION; HEADER_BYTES];
    let fields = size_bytes.iter().chain(&probes).chain(seed);
    header.iter_mut().skip(1).zip(fields).for_each(|(to, from)| *to = *from);
    header
}

/// Returns the bytes of the slice of a layer.
pub(super) fn encoded_bytes(layer: &Layer) -> usize {
    HEADER_BYTES.saturating_add(layer.cells().bytes().len())
}

/// Appends the slice of a layer.
///
/// # Errors
/// When `out` cannot be made long enough; it is then as it was.
pub(super) fn append(out: &mut Vec<u8>, layer: &Layer, seed: &[u8; SEED_BYTES]) -> Result<(), OutOfMemory> {
    out.try_reserve(encoded_bytes(layer)).map_err(|_| OutOfMemory)?;
    out.extend_from_slice(&header(layer, seed));
    out.extend_from_slice(layer.cells().bytes());
    Ok(())
}
