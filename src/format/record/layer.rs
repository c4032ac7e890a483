//! The part of the record for one layer: a part of fixed size, then fields that only some hashes and layouts have.

use serde::{Deserialize, Serialize};

use crate::stream::{DecodeError, append, read};
use everbloom_filter::bits::layout::{LayerParameters, Prime, SchemeLayout};
use everbloom_filter::bits::sizing::LayerShape;
use everbloom_filter::encoding::ItemEncoding;
use everbloom_filter::hash::murmur2::Murmur2;
use everbloom_filter::hash::scheme::{Scheme, SchemeParameters};
use everbloom_filter::hash::siphash::{HashKey, Seed};
use everbloom_filter::{Hash, Layer, LayerSpec, Layout, Placement};

/// The spec of a layer, with its items and set bits.
#[derive(Debug)]
pub(super) struct PlannedLayer {
    pub(super) spec: LayerSpec,
    pub(super) items: u64,
    pub(super) set_bits: u64,
}

/// Bytes of the part of fixed size.
pub const LAYER_BYTES: usize = 40;

/// The hashes by number. Numbers are only added; they never change their meaning.
const MURMUR3_X64_128: u8 = 1;
const SIPHASH_1_3_128: u8 = 2;
const REDISBLOOM_NARROW: u8 = 3;
const REDISBLOOM_WIDE: u8 = 4;
const REDISBLOOM_WIDE_CUT_SEEDS: u8 = 5;
const VALKEY_BLOOM_FIXED_SEED: u8 = 6;
const VALKEY_BLOOM_RANDOM_SEED: u8 = 7;
/// The number of a client's scheme is this bit plus its id.
const CLIENT_SCHEME: u8 = 128;

/// The layouts by number. Numbers are only added; they never change their meaning.
const SCATTERED: u8 = 1;
const PAGED: u8 = 2;
const MODULO: u8 = 3;
const PRIME: u8 = 4;
const SCHEME: u8 = 5;

/// The part of fixed size. Unused fields are 0.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct LayerFields {
    hash: u8,
    layout: u8,
    /// Paged layout: the lines of an item. RedisBloom's: the binary logarithm of the modulus, or 0. A client's: the
    /// shift.
    detail: u8,
    probes: u16,
    /// A client's layout: the encoding of items.
    encoding: u8,
    reserved: [u8; 2],
    size_bits: u64,
    capacity_items: u64,
    items: u64,
    set_bits: u64,
}

/// The fields of a layer with RedisBloom's layout, which follow the key of the hash, if it has one: the value that
/// RedisBloom saves as the bits of the layer, and the bits of two doubles, the error rate and the bits per item. So a
/// negative zero stays one. See docs/formats.md.
type ModuloFields = (u64, u64, u64);

impl LayerFields {
    /// Appends the part for a layer with `set_bits` set bits.
    pub(super) fn append(layer: &Layer, set_bits: u64, bytes: &mut Vec<u8>) {
        let (bits, layout, capacity_items) = (layer.bits(), layer.layout(), layer.capacity_items());
        let (hash, encoding) = numbers_of(layer.hash());
        let (number, detail) = match &layout {
            Layout::Scattered(_) => (SCATTERED, 0),
            Layout::Paged(paged) => (PAGED, paged.lines()),
            Layout::Modulo(modulo) => (MODULO, modulo.exponent()),
            Layout::Prime(_) => (PRIME, 0),
            Layout::Scheme(scheme) => (SCHEME, scheme.parameters().shift),
        };
        let part = Self {
            hash,
            layout: number,
            detail,
            // No layout has more than `u16::MAX` probes.
            probes: u16::try_from(layout.probes()).unwrap_or(u16::MAX),
            encoding,
            size_bits: bits.size_bits(),
            capacity_items,
            items: layer.counts().items,
            set_bits,
            ..Self::default()
        };
        append(bytes, &part);
        bytes.extend_from_slice(key_of(layer.hash()));
        match &layout {
            Layout::Modulo(modulo) => {
                let written = LayerParameters::of(modulo, bits.size_bits(), capacity_items);
                let LayerParameters { size_bits, error_rate, bits_per_item, .. } = written;
                let fields: ModuloFields = (size_bits, error_rate.to_bits(), bits_per_item.to_bits());
                append(bytes, &fields);
            }
            Layout::Scheme(scheme) => append(bytes, &scheme.parameters().size_bits),
            Layout::Scattered(_) | Layout::Paged(_) | Layout::Prime(_) => {}
        }
    }

    /// Reads the part for a layer from the start of `rest`.
    pub(super) fn read(rest: &mut &[u8], has_head: bool) -> Result<PlannedLayer, DecodeError> {
        let part: Self = read(rest)?;
        let hash = read_hash(part.hash, part.encoding, rest)?;
        let layout = match part.layout {
            SCATTERED | PAGED => part.own()?,
            MODULO => part.modulo(rest)?,
            PRIME => {
                let layout = Prime::new(part.probes.into(), part.size_bits);
                Layout::Prime(layout.ok_or(DecodeError::Invalid("probes"))?)
            }
            SCHEME => part.scheme(&hash, rest)?,
            got => return Err(DecodeError::unsupported("layout", got)),
        };
        let Self { size_bits, capacity_items, items, set_bits, .. } = part;
        if set_bits > size_bits {
            return Err(DecodeError::Invalid("set bits"));
        }
        let placement = Placement::new(hash, layout);
        let spec = LayerSpec { placement, size_bits, capacity_items, has_head };
        Ok(PlannedLayer { spec, items, set_bits })
    }

    /// Returns one of everbloom's own layouts.
    fn own(&self) -> Result<Layout, DecodeError> {
        let lines = if self.layout == PAGED { self.detail.max(1) } else { 0 };
        let (positions, probes, capacity_items) = (self.size_bits, self.probes.into(), self.capacity_items);
        let shape = LayerShape { lines, probes, positions, capacity_items };
        shape.validate().map_err(DecodeError::Invalid)?;
        Ok(shape.layout())
    }

    fn modulo(&self, rest: &mut &[u8]) -> Result<Layout, DecodeError> {
        let (written_bits, error_rate, bits_per_item): ModuloFields = read(rest)?;
        let parameters = LayerParameters {
            capacity_items: self.capacity_items,
            error_rate: f64::from_bits(error_rate),
            probes: self.probes.into(),
            bits_per_item: f64::from_bits(bits_per_item),
            size_bits: written_bits,
            exponent: self.detail.into(),
        };
        if !self.size_bits.is_multiple_of(8) {
            return Err(DecodeError::Invalid("size in bits"));
        }
        parameters.layout(self.size_bits / 8).map(Layout::Modulo).map_err(DecodeError::Invalid)
    }

    fn scheme(&self, hash: &Hash, rest: &mut &[u8]) -> Result<Layout, DecodeError> {
        let size_bits = read(rest)?;
        let Hash::Client(scheme, encoding) = *hash else { return Err(DecodeError::Invalid("hash")) };
        let parameters =
            SchemeParameters { scheme, encoding, shift: self.detail, probes: self.probes.into(), size_bits };
        SchemeLayout::new(parameters).map(Layout::Scheme).map_err(|_| DecodeError::Invalid("scheme"))
    }
}

/// Returns the number of a hash, and the number of its encoding of items; 0 if it has none.
pub(super) fn numbers_of(hash: &Hash) -> (u8, u8) {
    let number = match hash {
        Hash::Murmur3 => MURMUR3_X64_128,
        Hash::Keyed(_) => SIPHASH_1_3_128,
        Hash::RedisBloom(Murmur2::Narrow) => REDISBLOOM_NARROW,
        Hash::RedisBloom(Murmur2::Wide) => REDISBLOOM_WIDE,
        Hash::RedisBloom(Murmur2::WideCutSeeds) => REDISBLOOM_WIDE_CUT_SEEDS,
        Hash::ValkeyBloom(seed) if seed.is_random() => VALKEY_BLOOM_RANDOM_SEED,
        Hash::ValkeyBloom(_) => VALKEY_BLOOM_FIXED_SEED,
        Hash::Client(scheme, encoding) => return (CLIENT_SCHEME | scheme.id(), encoding.id()),
    };
    (number, 0)
}

/// Returns the key or seed of a hash, which follows the part of fixed size.
pub(super) fn key_of(hash: &Hash) -> &[u8] {
    match hash {
        Hash::Keyed(key) => key.bytes(),
        Hash::ValkeyBloom(seed) => seed.bytes(),
        Hash::Murmur3 | Hash::RedisBloom(_) | Hash::Client(..) => &[],
    }
}

/// Returns the hash with these numbers. Reads its key from `rest`, if it has one.
pub(super) fn read_hash(number: u8, encoding: u8, rest: &mut &[u8]) -> Result<Hash, DecodeError> {
    Ok(match number {
        MURMUR3_X64_128 => Hash::Murmur3,
        SIPHASH_1_3_128 => Hash::Keyed(HashKey::new(read(rest)?)),
        REDISBLOOM_NARROW => Hash::RedisBloom(Murmur2::Narrow),
        REDISBLOOM_WIDE => Hash::RedisBloom(Murmur2::Wide),
        REDISBLOOM_WIDE_CUT_SEEDS => Hash::RedisBloom(Murmur2::WideCutSeeds),
        VALKEY_BLOOM_FIXED_SEED | VALKEY_BLOOM_RANDOM_SEED => {
            let seed = Seed::marked(read(rest)?, number == VALKEY_BLOOM_RANDOM_SEED);
            Hash::ValkeyBloom(seed.ok_or(DecodeError::Invalid("seed"))?)
        }
        CLIENT_SCHEME.. => {
            let id = number & !CLIENT_SCHEME;
            let scheme = Scheme::from_id(id).ok_or(DecodeError::unsupported("scheme", id))?;
            let unsupported = DecodeError::unsupported("encoding", encoding);
            Hash::Client(scheme, ItemEncoding::from_id(encoding).ok_or(unsupported)?)
        }
        _ => return Err(DecodeError::unsupported("hash", number)),
    })
}
