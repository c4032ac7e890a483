//! How a layer of a union places probes: as the filter that it came from.

use crate::bloom::bits::Bits;
use crate::bloom::client::{SchemeHash, SchemePlacement};
use crate::bloom::everbloom::hash::{ItemHash, Murmur3};
use crate::bloom::everbloom::probing::Probing;
use crate::bloom::group::{ItemSet, subset};
use crate::bloom::keyed::HashKey;
use crate::bloom::placement::{Placement, Probes};
use crate::bloom::prefetch::{Part, Prefetch};
use crate::bloom::redisbloom::{HashPair, Hashing, LayerParameters, ModuloProbing};
use crate::bloom::valkeybloom::{Seed, SipProbing};

/// An item, once per command: the hashes of other kinds than our own are computed for each layer that has
/// them.
#[derive(Clone, Copy, Debug)]
pub struct UnionDigest<'i> {
    item: &'i [u8],
    raw: Murmur3,
    own: ItemHash,
}

impl<'i> UnionDigest<'i> {
    /// Of an item. O(length).
    #[must_use]
    pub fn of(item: &'i [u8]) -> Self {
        let raw = Murmur3::of(item);
        Self { item, raw, own: raw.finish() }
    }
}

/// How a layer places probes, with all that its hash needs: two layers whose placements are equal set the
/// same bits for the same item.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum UnionPlacement {
    /// As a filter of our own.
    Own(Probing),
    /// As a filter of our own whose hash is keyed.
    Keyed(Probing, HashKey),
    /// As one of RedisBloom's.
    RedisBloom(ModuloProbing, Hashing),
    /// As one of valkey-bloom's.
    ValkeyBloom(SipProbing, Seed),
    /// As a client does.
    Client(SchemePlacement),
}

/// The same expression for whichever placement it is and the hash that goes with it; `$none` where the item
/// has none, which no client can have added.
macro_rules! each_placement {
    ($union:expr, $item:expr, $placement:ident, $hash:ident => $body:expr, $none:expr) => {{
        let item: UnionDigest<'_> = $item;
        match $union {
            UnionPlacement::Own($placement) => {
                let $hash = item.own;
                $body
            }
            UnionPlacement::Keyed($placement, key) => {
                let $hash = key.hash128(item.item);
                $body
            }
            UnionPlacement::RedisBloom($placement, hashing) => {
                let $hash = HashPair::of(item.item, *hashing);
                $body
            }
            UnionPlacement::ValkeyBloom($placement, seed) => {
                let $hash = seed.digest(item.item);
                $body
            }
            UnionPlacement::Client($placement) => {
                let parameters = $placement.parameters();
                match SchemeHash::of(parameters.scheme, parameters.encoding, item.item, item.raw) {
                    Some($hash) => $body,
                    None => $none,
                }
            }
        }
    }};
}

impl UnionPlacement {
    /// Checks that a layer with that placement can have that array, capacity and number of items. Whatever kind it is, it may
    /// count beyond its capacity where it is the last of a filter that saturates. O(1).
    ///
    /// # Errors
    /// What breaks a rule.
    pub fn check(&self, array_bits: u64, capacity_items: u64, items: u64) -> Result<(), &'static str> {
        match self {
            Self::Own(probing) | Self::Keyed(probing, _) => {
                probing.shape(array_bits, capacity_items).validate()?;
            }
            Self::RedisBloom(probing, _) => LayerParameters::check(probing, array_bits, capacity_items)?,
            Self::ValkeyBloom(probing, _) => probing.check(array_bits, capacity_items)?,
            Self::Client(placement) => return placement.check(array_bits, capacity_items, items),
        }
        // Each item has set a bit that was clear.
        if items > array_bits { Err("items") } else { Ok(()) }
    }

    /// Whether every item can be added to such a layer.
    #[must_use]
    pub const fn takes_all_items(&self) -> bool {
        !matches!(self, Self::Client(_))
    }
}

impl Probes for UnionPlacement {
    type Storage = Bits;

    fn probes(&self) -> u32 {
        match self {
            Self::Own(placement) | Self::Keyed(placement, _) => placement.probes(),
            Self::RedisBloom(placement, _) => placement.probes(),
            Self::ValkeyBloom(placement, _) => placement.probes(),
            Self::Client(placement) => placement.probes(),
        }
    }

    fn touched_lines(&self) -> u32 {
        match self {
            Self::Own(placement) | Self::Keyed(placement, _) => placement.touched_lines(),
            _ => self.probes(),
        }
    }

    fn most_items(&self, bits: &Bits) -> u64 {
        match self {
            Self::Own(placement) | Self::Keyed(placement, _) => placement.most_items(bits),
            Self::RedisBloom(placement, _) => placement.most_items(bits),
            Self::ValkeyBloom(placement, _) => placement.most_items(bits),
            Self::Client(placement) => placement.most_items(bits),
        }
    }

    fn cells(&self, bits: &Bits) -> u64 {
        match self {
            Self::Own(placement) | Self::Keyed(placement, _) => placement.cells(bits),
            Self::RedisBloom(placement, _) => placement.cells(bits),
            Self::ValkeyBloom(placement, _) => placement.cells(bits),
            Self::Client(placement) => placement.cells(bits),
        }
    }

    fn estimated_items(&self, bits: &Bits) -> f64 {
        match self {
            Self::Own(placement) | Self::Keyed(placement, _) => placement.estimated_items(bits),
            Self::RedisBloom(placement, _) => placement.estimated_items(bits),
            Self::ValkeyBloom(placement, _) => placement.estimated_items(bits),
            Self::Client(placement) => placement.estimated_items(bits),
        }
    }

    fn error_rate_of(&self, set_cells: u64, cells: u64) -> f64 {
        match self {
            Self::Own(placement) | Self::Keyed(placement, _) => placement.error_rate_of(set_cells, cells),
            Self::RedisBloom(placement, _) => placement.error_rate_of(set_cells, cells),
            Self::ValkeyBloom(placement, _) => placement.error_rate_of(set_cells, cells),
            Self::Client(placement) => placement.error_rate_of(set_cells, cells),
        }
    }
}

impl Placement<UnionDigest<'_>> for UnionPlacement {
    fn contains(&self, bits: &Bits, item: UnionDigest<'_>) -> bool {
        each_placement!(self, item, placement, hash => placement.contains(bits, hash), false)
    }

    #[inline(never)]
    fn contains_each(&self, bits: &Bits, items: &[UnionDigest<'_>], wanted: ItemSet) -> ItemSet {
        subset(
            items,
            wanted,
            |item| each_placement!(self, item, placement, hash => placement.contains_each(bits, &[hash], 1) == 1, false),
        )
    }

    #[inline(never)]
    fn first_probes_set(&self, bits: &Bits, items: &[UnionDigest<'_>], wanted: ItemSet) -> ItemSet {
        subset(items, wanted, |item| {
            let is_set = |set: ItemSet| set == 1;
            each_placement!(
                self, item, placement, hash => is_set(placement.first_probes_set(bits, &[hash], 1)), false
            )
        })
    }

    fn insert(&self, bits: &mut Bits, item: UnionDigest<'_>) -> u32 {
        // The layer that takes new items takes all: `takes_all_items`.
        each_placement!(self, item, placement, hash => placement.insert(bits, hash), 0)
    }

    #[inline(never)]
    fn prefetch(&self, bits: &Bits, item: UnionDigest<'_>, part: Part, prefetch: impl Prefetch) {
        each_placement!(self, item, placement, hash => placement.prefetch(bits, hash, part, prefetch), ());
    }
}
