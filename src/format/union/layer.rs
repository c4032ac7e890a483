//! What is written of one layer of a union: enough to find the items of the filter that it came from.

use serde::{Deserialize, Serialize};

use crate::bloom::client::{ItemEncoding, Scheme, SchemeParameters, SchemePlacement};
use crate::bloom::keyed::{HashKey, KEY_BYTES};
use crate::bloom::redisbloom::{Hashing, LayerParameters};
use crate::bloom::union::{UnionPlacement, View};
use crate::bloom::valkeybloom::{SEED_BYTES, Seed, SipProbing};
use crate::bloom::{LayerCounts, LayerPlan, LayerShape, Layout, Probes, Probing};
use crate::format::everbloom::header::{HASH_MURMUR3_X64_128, HASH_SIPHASH_1_3_128};
use crate::format::plan::PlannedLayer;
use crate::format::record::DecodeError;

/// Whose layer it is.
const OWN: u8 = 1;
const REDISBLOOM: u8 = 2;
const VALKEY_BLOOM: u8 = 3;
const CLIENT: u8 = 4;
const KEYED: u8 = 5;

/// Layout of our own layers: scattered.
const LAYOUT_SCATTERED: u8 = 1;
/// Layout of our own layers: paged.
const LAYOUT_PAGED: u8 = 2;

/// The hashes of RedisBloom by number: numbers are added and never change their meaning.
const REDISBLOOM_HASHES: [(u8, Hashing); 3] =
    [(1, Hashing::Narrow), (2, Hashing::Wide), (3, Hashing::WideCutSeeds)];

/// The record of a layer. What a kind has no use for is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LayerRecord {
    owner: u8,
    /// Ours and RedisBloom's: the number of the hash; valkey-bloom's: whether the seed is marked as random; a
    /// client's: the scheme.
    hash: u8,
    /// Ours: the layout; a client's: the encoding of items.
    form: u8,
    /// Ours: lines; RedisBloom's: the binary logarithm of the modulus, or 0; a client's: the shift.
    detail: u8,
    probes: u32,
    /// What positions are reduced by as it is written down: RedisBloom's and a client's.
    written_bits: u64,
    size_bits: u64,
    capacity_items: u64,
    items: u64,
    set_bits: u64,
    /// RedisBloom's, as the bits of the float: a negative zero is another one.
    error_rate: u64,
    /// RedisBloom's, likewise.
    bits_per_item: u64,
    /// valkey-bloom's; of a keyed filter the key, with zeros behind it.
    seed: [u8; SEED_BYTES],
}

impl LayerRecord {
    pub(super) fn of(view: &View<'_>) -> Self {
        let plan = (view.placement, view.bits.len(), view.capacity_items);
        let set_bits = view.bits.set_bits();
        Self::of_plan(plan, LayerCounts { items: view.items, set_bits })
    }

    fn of_plan(
        (placement, size_bits, capacity_items): (UnionPlacement, u64, u64),
        counts: LayerCounts,
    ) -> Self {
        let LayerCounts { items, set_bits } = counts;
        let probes = placement.probes();
        let common = Self { probes, size_bits, capacity_items, items, set_bits, ..Self::default() };
        match placement {
            UnionPlacement::Own(probing) => {
                let (form, detail) = layout_of(probing, size_bits, capacity_items);
                Self { owner: OWN, hash: HASH_MURMUR3_X64_128, form, detail, ..common }
            }
            UnionPlacement::Keyed(probing, key) => {
                let (form, detail) = layout_of(probing, size_bits, capacity_items);
                let mut seed = [0; SEED_BYTES];
                seed.iter_mut().zip(key.bytes()).for_each(|(byte, of_key)| *byte = *of_key);
                Self { owner: KEYED, hash: HASH_SIPHASH_1_3_128, form, detail, seed, ..common }
            }
            UnionPlacement::RedisBloom(probing, hashing) => {
                let written = LayerParameters::of_probing(&probing, size_bits, capacity_items);
                let hash = REDISBLOOM_HASHES.iter().find(|(_, known)| *known == hashing);
                Self {
                    owner: REDISBLOOM,
                    hash: hash.map_or(0, |(number, _)| *number),
                    detail: probing.exponent(),
                    written_bits: written.size_bits,
                    error_rate: written.error_rate.to_bits(),
                    bits_per_item: written.bits_per_item.to_bits(),
                    ..common
                }
            }
            UnionPlacement::ValkeyBloom(_, seed) => {
                Self { owner: VALKEY_BLOOM, hash: seed.is_random().into(), seed: *seed.bytes(), ..common }
            }
            UnionPlacement::Client(placement) => {
                let SchemeParameters { scheme, encoding, shift, size_bits, .. } = placement.parameters();
                Self {
                    owner: CLIENT,
                    hash: scheme.id(),
                    form: encoding.id(),
                    detail: shift,
                    written_bits: size_bits,
                    ..common
                }
            }
        }
    }

    /// The layer that the record describes, if there can be one.
    pub(super) fn unpack(self) -> Result<PlannedLayer<UnionPlacement>, DecodeError> {
        let placement = match self.owner {
            OWN => UnionPlacement::Own(self.own(HASH_MURMUR3_X64_128)?),
            KEYED => {
                let probing = self.own(HASH_SIPHASH_1_3_128)?;
                let key = self.seed.first_chunk::<KEY_BYTES>().ok_or(DecodeError::Invalid("key"))?;
                UnionPlacement::Keyed(probing, HashKey::new(*key))
            }
            REDISBLOOM => self.redisbloom()?,
            VALKEY_BLOOM => self.valkeybloom()?,
            CLIENT => self.client()?,
            other => return Err(DecodeError::Unsupported { what: "layer's owner", got: other.into() }),
        };
        let counts = LayerCounts { items: self.items, set_bits: self.set_bits };
        let (size_bits, capacity_items) = (self.size_bits, self.capacity_items);
        if Self::of_plan((placement, size_bits, capacity_items), counts) != self {
            return Err(DecodeError::Invalid("unused field"));
        }
        Ok((LayerPlan { placement, size_bits, capacity_items, has_head: false }, counts))
    }

    /// The placement of a layer of ours with that hash.
    fn own(&self, hash: u8) -> Result<Probing, DecodeError> {
        let layout = match self.form {
            LAYOUT_SCATTERED => Layout::Scattered,
            LAYOUT_PAGED => Layout::Paged { lines: self.detail },
            other => return Err(DecodeError::Unsupported { what: "layout", got: other.into() }),
        };
        if self.hash != hash {
            return Err(DecodeError::Unsupported { what: "hash", got: self.hash.into() });
        }
        let Self { probes, size_bits, capacity_items, .. } = *self;
        let shape = LayerShape { layout, probes, size_bits, capacity_items };
        shape.validate().map_err(DecodeError::Invalid)?;
        let plan: LayerPlan<_> = shape.into();
        Ok(plan.placement)
    }

    fn redisbloom(&self) -> Result<UnionPlacement, DecodeError> {
        let hashing = REDISBLOOM_HASHES.iter().find(|(number, _)| *number == self.hash);
        let unsupported = DecodeError::Unsupported { what: "hash", got: self.hash.into() };
        let (_, hashing) = hashing.ok_or(unsupported)?;
        let parameters = LayerParameters {
            capacity_items: self.capacity_items,
            error_rate: f64::from_bits(self.error_rate),
            probes: self.probes.into(),
            bits_per_item: f64::from_bits(self.bits_per_item),
            size_bits: self.written_bits,
            exponent: self.detail.into(),
        };
        if !self.size_bits.is_multiple_of(8) {
            return Err(DecodeError::Invalid("size in bits"));
        }
        let plan = parameters.plan(self.size_bits / 8).map_err(DecodeError::Invalid)?;
        Ok(UnionPlacement::RedisBloom(plan.placement, *hashing))
    }

    fn valkeybloom(&self) -> Result<UnionPlacement, DecodeError> {
        let seed = Seed::marked(self.seed, self.hash == 1).ok_or(DecodeError::Invalid("seed"))?;
        let probing = SipProbing::new(self.probes, self.size_bits);
        let probing = probing.ok_or(DecodeError::Invalid("size in bits"))?;
        Ok(UnionPlacement::ValkeyBloom(probing.with_equal_hashes(seed.has_equal_halves()), seed))
    }

    fn client(&self) -> Result<UnionPlacement, DecodeError> {
        let unsupported = |what, got: u8| DecodeError::Unsupported { what, got: got.into() };
        let scheme = Scheme::from_id(self.hash).ok_or(unsupported("scheme", self.hash))?;
        let encoding = ItemEncoding::from_id(self.form).ok_or(unsupported("encoding", self.form))?;
        let Self { probes, written_bits, detail, .. } = *self;
        let parameters =
            SchemeParameters { scheme, encoding, shift: detail, probes, size_bits: written_bits };
        let placement = SchemePlacement::new(parameters).map_err(|_| DecodeError::Invalid("scheme"))?;
        Ok(UnionPlacement::Client(placement))
    }
}

/// Number of the layout, and lines.
fn layout_of(probing: Probing, size_bits: u64, capacity_items: u64) -> (u8, u8) {
    match probing.shape(size_bits, capacity_items).layout {
        Layout::Scattered => (LAYOUT_SCATTERED, 0),
        Layout::Paged { lines } => (LAYOUT_PAGED, lines),
    }
}
