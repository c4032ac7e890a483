//! The hashes of items, computed once per command for any number of layers.

mod item;
pub mod murmur2;
pub mod murmur3;
mod php;
pub mod scheme;
pub mod scheme_hash;
pub mod siphash;

pub use item::ItemHash;

use super::encoding::ItemEncoding;
use murmur2::Murmur2;
use scheme::Scheme;
use scheme_hash::SchemeHash;
use siphash::{HashKey, Seed};

/// The hash of an item by which a layer is probed: two words, or the digest of a client's scheme.
#[derive(Clone, Copy, Debug)]
pub enum Digest<P = ItemHash, S = SchemeHash> {
    /// The two words of any `Hash` but a client's.
    Pair(P),
    /// The digest of a client's scheme.
    Scheme(S),
}

/// The digests of several items.
pub type Digests<'d> = Digest<&'d [ItemHash], &'d [SchemeHash]>;

/// How the items of a layer are hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hash {
    /// MurmurHash3 x64_128 with seed 0: everbloom's own filters.
    Murmur3,
    /// SipHash-1-3 of 128 bits with the filter's own key: everbloom's own filters with KEYED.
    Keyed(HashKey),
    /// RedisBloom's pair of MurmurHash2.
    RedisBloom(Murmur2),
    /// valkey-bloom's pair of SipHash-1-3.
    ValkeyBloom(Seed),
    /// A client's scheme, over the bytes of an item in the encoding of its library.
    Client(Scheme, ItemEncoding),
}

impl Hash {
    /// Returns whether the hash is one of everbloom's own, for its own layouts.
    #[must_use]
    pub const fn is_own(&self) -> bool {
        matches!(self, Self::Murmur3 | Self::Keyed(_))
    }

    /// Returns whether the hash can hash every item. A client's encoding may be unable to express some items.
    #[must_use]
    pub const fn takes_all_items(&self) -> bool {
        !matches!(self, Self::Client(..))
    }

    /// Returns whether the hash has a secret key, so that clients cannot craft items that collide.
    #[must_use]
    pub fn is_secret(&self) -> bool {
        match self {
            Self::Keyed(_) => true,
            Self::ValkeyBloom(seed) => *seed != Seed::FIXED,
            Self::Murmur3 | Self::RedisBloom(_) | Self::Client(..) => false,
        }
    }

    /// Returns the two words of an item; `None` for a client's hash. O(length).
    #[must_use]
    #[inline(always)]
    pub fn pair(&self, item: &[u8]) -> Option<ItemHash> {
        Some(match self {
            Self::Murmur3 => murmur3::hash128(item),
            Self::Keyed(key) => key.hash128(item),
            Self::RedisBloom(murmur2) => murmur2.pair(item),
            Self::ValkeyBloom(seed) => seed.pair(item),
            Self::Client(..) => return None,
        })
    }

    /// Passes the two words of each item to `take`; does nothing for a client's hash. O(bytes).
    #[inline(always)]
    pub(super) fn pair_each(&self, items: &[&[u8]], take: impl FnMut(ItemHash)) {
        // Each hash has its own loop, which is short enough that the compiler inlines the step.
        match self {
            Self::Murmur3 => each(items, murmur3::hash128, take),
            Self::Keyed(key) => each(items, |item| key.hash128(item), take),
            Self::RedisBloom(murmur2) => each(items, |item| murmur2.pair(item), take),
            Self::ValkeyBloom(seed) => each(items, |item| seed.pair(item), take),
            Self::Client(..) => {}
        }
    }

    /// Returns the name of the module that uses this hash, or of a client's scheme.
    #[must_use]
    pub fn owner(&self, scheme_name: impl FnOnce(Scheme) -> &'static str) -> &'static str {
        match self {
            Self::Murmur3 => "everbloom",
            Self::Keyed(_) => "everbloom-keyed",
            Self::RedisBloom(_) => "redisbloom",
            Self::ValkeyBloom(_) => "valkey-bloom",
            Self::Client(scheme, _) => scheme_name(*scheme),
        }
    }
}

/// Passes the hash of each item to `take`.
#[inline(always)]
fn each(items: &[&[u8]], hash: impl Fn(&[u8]) -> ItemHash, mut take: impl FnMut(ItemHash)) {
    // A `for_each` of an iterator would be a call per item.
    for item in items {
        take(hash(item));
    }
}
