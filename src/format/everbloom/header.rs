//! The header of everbloom's own encoding: what is written about a filter beside its bits. docs/formats.md has the
//! byte table; bincode with these options writes the fields one after another, fixed size, little-endian.

use serde::{Deserialize, Serialize};

use crate::bloom::limits::LAYERS_MAX;
use crate::bloom::{
    ByteLimit, Chain, Everbloom, Extent, Growth, Layer, LayerCounts, LayerShape, Layout, OutOfMemory,
};
use crate::format::fields::{append, read};
use crate::format::record::DecodeError;

/// First bytes of every header.
pub(crate) const MAGIC: [u8; 4] = *b"evbl";
/// Version of the encoding.
pub(crate) const VERSION: u16 = 1;
/// Kind of filter: a chain of layers of our own.
pub const KIND_CHAIN: u16 = 1;
/// Kind of filter: valkey-bloom's, in the pieces of BF.SCANDUMP.
pub const KIND_VALKEYBLOOM: u16 = 2;
/// Kind of filter: a client's that was taken over.
pub const KIND_CLIENT: u16 = 3;
/// Hash of a layer's items: MurmurHash3 x64_128, seed 0.
const HASH_MURMUR3_X64_128: u8 = 1;
/// Layout of a layer: scattered.
const LAYOUT_SCATTERED: u8 = 1;
/// Layout of a layer: paged.
const LAYOUT_PAGED: u8 = 2;

/// Bytes of the part that every header has.
pub const CHAIN_HEADER_BYTES: usize = 32;
/// Bytes of the part that a header has once per layer.
pub const LAYER_HEADER_BYTES: usize = 40;

/// The kind of filter that a header is of, or nothing when it is none of ours.
#[must_use]
pub fn kind_of(bytes: &[u8]) -> Option<u16> {
    let [magic @ .., version_low, version_high, kind_low, kind_high] = bytes.first_chunk::<8>()?;
    let version = u16::from_le_bytes([*version_low, *version_high]);
    (*magic == MAGIC && version == VERSION).then_some(u16::from_le_bytes([*kind_low, *kind_high]))
}

#[derive(Serialize, Deserialize)]
struct ChainHeader {
    magic: [u8; 4],
    version: u16,
    kind: u16,
    layer_count: u32,
    expansion: u32,
    error_rate: f64,
    capacity_items: u64,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct LayerHeader {
    layout: u8,
    lines: u8,
    probes: u8,
    hash: u8,
    reserved: u32,
    size_bits: u64,
    capacity_items: u64,
    items: u64,
    set_bits: u64,
}

/// Writes the header of a filter. O(layers).
#[must_use]
pub fn encode(chain: &Chain) -> Vec<u8> {
    let parameters = chain.parameters();
    let mut bytes = Vec::with_capacity(CHAIN_HEADER_BYTES + LAYER_HEADER_BYTES * chain.layers().len());
    let header = ChainHeader {
        magic: MAGIC,
        version: VERSION,
        kind: KIND_CHAIN,
        layer_count: u32::try_from(chain.layers().len()).unwrap_or(u32::MAX),
        expansion: parameters.growth.expansion(),
        error_rate: parameters.error_rate,
        capacity_items: parameters.capacity_items,
    };
    append(&mut bytes, &header);
    for layer in chain.layers() {
        append(&mut bytes, &LayerHeader::of(layer.shape(), layer.counts()));
    }
    bytes
}

/// A header that has been read and found possible; no memory has been taken for it yet.
#[derive(Debug)]
pub struct Header {
    parameters: Everbloom,
    layers: Vec<(LayerShape, LayerCounts)>,
}

impl Header {
    /// Reads a header and checks every field. O(layers).
    ///
    /// # Errors
    /// The first field that is wrong, or [`DecodeError::TooLarge`] when the filter breaks the limit.
    pub fn decode(bytes: &[u8], limit: &dyn ByteLimit) -> Result<Self, DecodeError> {
        let (chain_bytes, layer_bytes) =
            bytes.split_at_checked(CHAIN_HEADER_BYTES).ok_or(DecodeError::Truncated)?;
        let header: ChainHeader = read(chain_bytes)?;
        let (layers, rest) = layer_bytes.as_chunks::<LAYER_HEADER_BYTES>();
        header.validate(layers.len())?;
        if !rest.is_empty() {
            return Err(DecodeError::Invalid("header length"));
        }
        let layers = layers.iter().map(|bytes| LayerHeader::decode(bytes)?.validate());
        let header = Self { parameters: header.parameters(), layers: layers.collect::<Result<_, _>>()? };
        header.check_limit(limit)?;
        Ok(header)
    }

    /// What the filter was reserved with.
    #[must_use]
    pub fn parameters(&self) -> Everbloom {
        self.parameters
    }

    /// Bits set, over all layers.
    #[must_use]
    pub fn set_bits(&self) -> u64 {
        self.layers.iter().fold(0, |sum, (_, counts)| sum.saturating_add(counts.set_bits))
    }

    /// Makes the layers, all bits clear, one at a time, and hands each to `fill` with the counts that its header gave.
    ///
    /// # Errors
    /// [`DecodeError::OutOfMemory`], or what `fill` says.
    pub fn build(
        self,
        mut fill: impl FnMut(&mut Layer, LayerCounts) -> Result<(), DecodeError>,
    ) -> Result<Chain, DecodeError> {
        let mut layers = Vec::with_capacity(self.layers.len());
        for (shape, counts) in self.layers {
            let mut layer = Layer::try_new(shape.into()).map_err(|OutOfMemory| DecodeError::OutOfMemory)?;
            layer.set_items(counts.items);
            fill(&mut layer, counts)?;
            layers.push(layer);
        }
        Chain::from_layers(self.parameters, layers).ok_or(DecodeError::Invalid("filter"))
    }

    fn check_limit(&self, limit: &dyn ByteLimit) -> Result<(), DecodeError> {
        let layers = self.layers.iter();
        let extent = layers
            .fold(Extent::default(), |extent, (shape, _)| extent.and_layer(shape.size_bytes(), shape.probes));
        Ok(extent.check::<Everbloom>(limit)?)
    }
}

impl ChainHeader {
    fn validate(&self, layers: usize) -> Result<(), DecodeError> {
        if self.magic != MAGIC {
            return Err(DecodeError::Invalid("magic"));
        }
        if self.version != VERSION {
            return Err(DecodeError::Unsupported { what: "version", got: self.version.into() });
        }
        if self.kind != KIND_CHAIN {
            return Err(DecodeError::Unsupported { what: "kind", got: self.kind.into() });
        }
        if usize::try_from(self.layer_count) != Ok(layers) || !(1..=LAYERS_MAX).contains(&layers) {
            return Err(DecodeError::Invalid("layer count"));
        }
        self.parameters().validate().map_err(DecodeError::Invalid)
    }

    fn parameters(&self) -> Everbloom {
        Everbloom {
            error_rate: self.error_rate,
            capacity_items: self.capacity_items,
            growth: Growth::from_expansion(self.expansion),
        }
    }
}

impl LayerHeader {
    pub(crate) fn of(shape: LayerShape, counts: LayerCounts) -> Self {
        let LayerShape { layout, probes, size_bits, capacity_items } = shape;
        let LayerCounts { items, set_bits } = counts;
        let (layout, lines) = match layout {
            Layout::Scattered => (LAYOUT_SCATTERED, 0),
            Layout::Paged { lines } => (LAYOUT_PAGED, lines),
        };
        let probes = u8::try_from(probes).unwrap_or(u8::MAX);
        let hash = HASH_MURMUR3_X64_128;
        Self { layout, lines, probes, hash, reserved: 0, size_bits, capacity_items, items, set_bits }
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        read(bytes)
    }

    pub(crate) fn validate(self) -> Result<(LayerShape, LayerCounts), DecodeError> {
        let layout = match (self.layout, self.lines) {
            (LAYOUT_SCATTERED, 0) => Layout::Scattered,
            (LAYOUT_PAGED, lines) => Layout::Paged { lines },
            (LAYOUT_SCATTERED, _) => return Err(DecodeError::Invalid("lines")),
            (other, _) => return Err(DecodeError::Unsupported { what: "layout", got: other.into() }),
        };
        if self.hash != HASH_MURMUR3_X64_128 {
            return Err(DecodeError::Unsupported { what: "hash", got: self.hash.into() });
        }
        if self.reserved != 0 {
            return Err(DecodeError::Unsupported { what: "reserved field", got: self.reserved.into() });
        }
        let (size_bits, capacity_items) = (self.size_bits, self.capacity_items);
        let shape = LayerShape { layout, probes: self.probes.into(), size_bits, capacity_items };
        shape.validate().map_err(DecodeError::Invalid)?;
        if self.items > capacity_items {
            return Err(DecodeError::Invalid("items"));
        }
        if self.set_bits > size_bits {
            return Err(DecodeError::Invalid("set bits"));
        }
        Ok((shape, LayerCounts { items: self.items, set_bits: self.set_bits }))
    }
}
