//! The header of everbloom's own encoding: what is written about a filter beside its bits. docs/formats.md
//! has the byte table; bincode with these options writes the fields one after another, fixed size,
//! little-endian.

use serde::{Deserialize, Serialize};

use crate::bloom::{ByteLimit, Chain, Everbloom, Growth, Layer, LayerCounts, LayerShape, Layout, Probing};
use crate::format::envelope::{Kind, Opening};
use crate::format::fields::{append, read};
use crate::format::plan::{FilterPlan, PlannedLayer};
use crate::format::record::DecodeError;

/// Hash of a layer's items: MurmurHash3 x64_128, seed 0.
pub(in crate::format) const HASH_MURMUR3_X64_128: u8 = 1;
/// Hash of a layer's items: SipHash-1-3 of 128 bits, keyed.
pub(in crate::format) const HASH_SIPHASH_1_3_128: u8 = 2;
/// Layout of a layer: scattered.
pub(in crate::format) const LAYOUT_SCATTERED: u8 = 1;
/// Layout of a layer: paged.
pub(in crate::format) const LAYOUT_PAGED: u8 = 2;
/// Flag of the layer of a filter that goes on accepting items when it is full.
const SATURATES: u32 = 1;

/// Bytes of the part that every header has.
pub const CHAIN_HEADER_BYTES: usize = 32;
/// Bytes of the part that a header has once per layer.
pub const LAYER_HEADER_BYTES: usize = 40;

#[derive(Serialize, Deserialize)]
pub(in crate::format) struct ChainHeader {
    opening: Opening,
    expansion: u32,
    error_rate: f64,
    capacity_items: u64,
}

#[derive(Serialize, Deserialize)]
pub(in crate::format) struct LayerHeader {
    layout: u8,
    lines: u8,
    probes: u8,
    hash: u8,
    flags: u32,
    size_bits: u64,
    capacity_items: u64,
    items: u64,
    set_bits: u64,
}

/// Writes the header of a filter. O(layers).
#[must_use]
pub fn encode(chain: &Chain) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(CHAIN_HEADER_BYTES + LAYER_HEADER_BYTES * chain.layers().len());
    append(&mut bytes, &ChainHeader::of(Kind::Everbloom, chain.layers().len(), &chain.parameters()));
    append_layers(&mut bytes, chain.layers(), HASH_MURMUR3_X64_128, chain.parameters().growth);
    bytes
}

/// Reads a header and checks every field. O(layers).
///
/// # Errors
/// The first field that is wrong, or [`DecodeError::TooLarge`] when the filter breaks the limit.
pub fn decode(bytes: &[u8], limit: &dyn ByteLimit) -> Result<FilterPlan<Everbloom>, DecodeError> {
    let (family, layers) = ChainHeader::open(bytes, Kind::Everbloom)?;
    FilterPlan::new(family, read_layers(layers, HASH_MURMUR3_X64_128, family.growth)?, limit)
}

/// Writes the part that a header has once per layer, of a filter that hashes and grows so.
pub(in crate::format) fn append_layers(bytes: &mut Vec<u8>, layers: &[Layer], hash: u8, growth: Growth) {
    for layer in layers {
        append(bytes, &LayerHeader::of(layer.shape(), layer.counts(), hash, growth));
    }
}

/// Reads what [`append_layers`] writes.
pub(in crate::format) fn read_layers(
    layers: &[[u8; LAYER_HEADER_BYTES]],
    hash: u8,
    growth: Growth,
) -> Result<Vec<PlannedLayer<Probing>>, DecodeError> {
    let layers = layers.iter().map(|bytes| {
        let (shape, counts) = LayerHeader::decode(bytes)?.unpack(hash, growth)?;
        Ok((shape.into(), counts))
    });
    layers.collect()
}

impl ChainHeader {
    /// Of a filter of a kind that has the parameters of our own.
    pub(in crate::format) fn of(kind: Kind, layers: usize, parameters: &Everbloom) -> Self {
        Self {
            opening: Opening::new(kind, layers),
            expansion: parameters.growth.expansion(),
            error_rate: parameters.error_rate,
            capacity_items: parameters.capacity_items,
        }
    }

    /// Returns the parameters of such a filter and the bytes of its layers.
    pub(in crate::format) fn open(
        bytes: &[u8],
        kind: Kind,
    ) -> Result<(Everbloom, &[[u8; LAYER_HEADER_BYTES]]), DecodeError> {
        let (chain_bytes, layer_bytes) =
            bytes.split_at_checked(CHAIN_HEADER_BYTES).ok_or(DecodeError::Truncated)?;
        Self::open_parts(chain_bytes, layer_bytes, kind)
    }

    /// As [`open`](Self::open), of a header that has more between the two parts.
    pub(in crate::format) fn open_parts<'b>(
        chain_bytes: &[u8],
        layer_bytes: &'b [u8],
        kind: Kind,
    ) -> Result<(Everbloom, &'b [[u8; LAYER_HEADER_BYTES]]), DecodeError> {
        let header: Self = read(chain_bytes)?;
        let (layers, rest) = layer_bytes.as_chunks::<LAYER_HEADER_BYTES>();
        header.opening.check(kind, layers.len())?;
        let family = header.parameters(layers)?;
        if rest.is_empty() { Ok((family, layers)) } else { Err(DecodeError::Invalid("header length")) }
    }

    /// Returns the parameters of a filter of so many layers that does not saturate, of the part that every header has.
    pub(in crate::format) fn open_chain(
        bytes: &[u8],
        kind: Kind,
        layers: usize,
    ) -> Result<Everbloom, DecodeError> {
        let header: Self = read(bytes)?;
        header.opening.check(kind, layers)?;
        header.parameters(&[])
    }

    /// The parameters of a filter with these layers.
    fn parameters(&self, layers: &[[u8; LAYER_HEADER_BYTES]]) -> Result<Everbloom, DecodeError> {
        let saturates = match layers.first() {
            Some(first) => LayerHeader::decode(first)?.flags == SATURATES,
            None => false,
        };
        let growth = match Growth::from_expansion(self.expansion) {
            Growth::Fixed if saturates => Growth::Saturating,
            growth => growth,
        };
        Ok(Everbloom { error_rate: self.error_rate, capacity_items: self.capacity_items, growth })
    }
}

impl LayerHeader {
    pub(in crate::format) fn of(shape: LayerShape, counts: LayerCounts, hash: u8, growth: Growth) -> Self {
        let LayerShape { layout, probes, size_bits, capacity_items } = shape;
        let LayerCounts { items, set_bits } = counts;
        let (layout, lines) = match layout {
            Layout::Scattered => (LAYOUT_SCATTERED, 0),
            Layout::Paged { lines } => (LAYOUT_PAGED, lines),
        };
        let probes = u8::try_from(probes).unwrap_or(u8::MAX);
        let flags = flags_of(growth);
        Self { layout, lines, probes, hash, flags, size_bits, capacity_items, items, set_bits }
    }

    pub(in crate::format) fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        read(bytes)
    }

    /// Returns what the header of a layer says, of a filter that hashes and grows so. The shape is a possible one.
    pub(in crate::format) fn unpack(
        self,
        hash: u8,
        growth: Growth,
    ) -> Result<(LayerShape, LayerCounts), DecodeError> {
        let layout = match (self.layout, self.lines) {
            (LAYOUT_SCATTERED, 0) => Layout::Scattered,
            (LAYOUT_PAGED, lines) => Layout::Paged { lines },
            (LAYOUT_SCATTERED, _) => return Err(DecodeError::Invalid("lines")),
            (other, _) => return Err(DecodeError::Unsupported { what: "layout", got: other.into() }),
        };
        if self.hash != hash {
            return Err(DecodeError::Unsupported { what: "hash", got: self.hash.into() });
        }
        if self.flags != flags_of(growth) {
            return Err(DecodeError::Unsupported { what: "reserved field", got: self.flags.into() });
        }
        let (size_bits, capacity_items) = (self.size_bits, self.capacity_items);
        let shape = LayerShape { layout, probes: self.probes.into(), size_bits, capacity_items };
        shape.validate().map_err(DecodeError::Invalid)?;
        Ok((shape, LayerCounts { items: self.items, set_bits: self.set_bits }))
    }
}

/// The flags of the layers of a filter that grows so.
fn flags_of(growth: Growth) -> u32 {
    if growth == Growth::Saturating { SATURATES } else { 0 }
}
