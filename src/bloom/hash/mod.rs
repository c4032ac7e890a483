//! The hash axis: the digest of an item, computed once per command for any number of layers.

pub mod murmur2;
pub mod murmur3;
pub mod scheme;
pub mod siphash;

use murmur2::Murmur2;
use scheme::{ItemEncoding, NotEncodable, Scheme, SchemeHash};
use siphash::{HashKey, Seed};

/// Two words of 64 bits, from which every layer with the same hash derives an item's probes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ItemHash {
    /// First word.
    pub h1: u64,
    /// Second word.
    pub h2: u64,
}

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
    /// Checks that an item can be hashed. Only the encoding of a client's scheme may not be able to express an item.
    /// O(length).
    ///
    /// # Errors
    /// [`NotEncodable`].
    pub fn check(&self, item: &[u8]) -> Result<(), NotEncodable> {
        match self {
            Self::Client(_, encoding) if !encoding.can_express(item) => Err(NotEncodable(*encoding)),
            _ => Ok(()),
        }
    }

    /// Returns whether the hash is one of everbloom's own, for its own layouts.
    #[must_use]
    pub const fn is_own(&self) -> bool {
        matches!(self, Self::Murmur3 | Self::Keyed(_))
    }

    /// Returns whether every item can be hashed.
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

/// A digest of an item, from which a layout computes positions.
pub trait Digest: Copy {
    /// Returns the digest of an item; `None` if the hash has another digest or the item cannot be hashed. O(length).
    fn of(hash: &Hash, item: &[u8]) -> Option<Self>;

    /// Returns the digest as two words, if it has them.
    fn pair(self) -> Option<ItemHash>;
}

impl Digest for ItemHash {
    #[inline(always)]
    fn of(hash: &Hash, item: &[u8]) -> Option<Self> {
        Some(match hash {
            Hash::Murmur3 => murmur3::hash128(item),
            Hash::Keyed(key) => key.hash128(item),
            Hash::RedisBloom(murmur2) => murmur2.pair(item),
            Hash::ValkeyBloom(seed) => seed.pair(item),
            Hash::Client(..) => return None,
        })
    }

    #[inline(always)]
    fn pair(self) -> Option<ItemHash> {
        Some(self)
    }
}

impl Digest for SchemeHash {
    #[inline(always)]
    fn of(hash: &Hash, item: &[u8]) -> Option<Self> {
        match hash {
            Hash::Client(scheme, encoding) => Self::of_item(*scheme, *encoding, item),
            _ => None,
        }
    }

    fn pair(self) -> Option<ItemHash> {
        None
    }
}
