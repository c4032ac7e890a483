//! The digest of each client's scheme: an item is hashed once, and each probe follows from the digest.

use highway::{HighwayHash, HighwayHasher, Key};

use super::ItemHash;
use super::murmur3::{Murmur3, low_half};
use super::php::PhpHashes;
use super::scheme::Scheme;
use crate::encoding::ItemEncoding;

/// The digest of an item by a client's scheme. Each probe follows from it in O(1), for any length of the item.
#[derive(Clone, Copy, Debug)]
pub struct SchemeHash(SchemeState);

#[derive(Clone, Copy, Debug)]
enum SchemeState {
    /// MurmurHash3 x64_128 of the item, to be continued with the index of the probe.
    Salted(Murmur3),
    /// FNV-1a in 32 bits of the item, to be continued with the index of the probe.
    Fnv1a32(u32),
    /// The low and the high half of 64 bits of hash. Each probe adds the high half to the low one.
    Mitz32(u32, u32),
    /// The first probe, and the two numbers that are added alternately for the next ones.
    Sums(u64, [u64; 2]),
    /// One hash per probe.
    Php([u32; 3]),
}

/// A placeholder for the digest of an item that cannot be hashed.
impl Default for SchemeHash {
    fn default() -> Self {
        Self(SchemeState::Fnv1a32(0))
    }
}

impl SchemeHash {
    /// Hashes an item; `None` if the encoding cannot express it. O(length).
    #[inline]
    pub fn of_item(scheme: Scheme, encoding: ItemEncoding, item: &[u8]) -> Option<Self> {
        let murmur3_x64 = || match encoding {
            ItemEncoding::Raw => Some(Murmur3::of(item)),
            _ => murmur3_x64(encoding, item),
        };
        Some(Self(match scheme {
            Scheme::Murmur3Salted | Scheme::GoZero => SchemeState::Salted(murmur3_x64()?),
            Scheme::Fnv32aSalted => {
                let mut hash = FNV_OFFSET_BASIS;
                encoding.encode(item, |chunk| hash = fnv1a32(hash, chunk))?;
                SchemeState::Fnv1a32(hash)
            }
            Scheme::GuavaMitz32 => {
                let ItemHash { h1, .. } = murmur3_x64()?.finish();
                SchemeState::Mitz32((h1 & 0xFFFF_FFFF) as u32, (h1 >> 32) as u32)
            }
            Scheme::GuavaMitz64 | Scheme::CsharpNetfxMitz64 => mitz64(murmur3_x64()?.finish()),
            Scheme::Murmur3X86Mitz64 => {
                let digest = murmur3::murmur3_x86_128(&mut encoding.reader(item)?, 0).ok()?;
                mitz64(ItemHash { h1: low_half(digest), h2: low_half(digest >> 64) })
            }
            Scheme::PhpBkdrJsSdbm => {
                let mut hashes = PhpHashes::EMPTY;
                encoding.encode(item, |chunk| hashes = hashes.update(chunk))?;
                SchemeState::Php(hashes.finish())
            }
            Scheme::Redisson => {
                let mut hasher = HighwayHasher::new(Key(REDISSON_KEY));
                encoding.encode(item, |chunk| hasher.append(chunk))?;
                let [h1, h2] = hasher.finalize128();
                // As in `RedissonBloomFilter.hash`.
                SchemeState::Sums(h1, [h2, h1])
            }
        }))
    }

    /// Returns the probes of the item before the reduction to the size of the filter, in the client's order.
    #[inline(always)]
    pub(crate) const fn numbers(self) -> SchemeNumbers {
        SchemeNumbers { state: self.0, index: 0 }
    }
}

/// The probes of an item as numbers, each in O(1).
#[derive(Clone, Copy, Debug)]
pub(crate) struct SchemeNumbers {
    state: SchemeState,
    index: u32,
}

impl SchemeNumbers {
    #[inline(always)]
    pub(crate) fn next(&mut self) -> u64 {
        let index = self.index;
        self.index = index.wrapping_add(1);
        // A client's `byte(i)` wraps at 256.
        let [salt, ..] = index.to_le_bytes();
        match &mut self.state {
            SchemeState::Salted(hash) => hash.finish_with(salt).h1,
            SchemeState::Fnv1a32(hash) => fnv1a32(*hash, &[salt]).into(),
            SchemeState::Mitz32(sum, high) => {
                *sum = sum.wrapping_add(*high);
                let is_negative = *sum >> 31 == 1;
                if is_negative { !*sum } else { *sum }.into()
            }
            SchemeState::Sums(sum, [next, after]) => {
                let hash = *sum & NOT_NEGATIVE;
                *sum = sum.wrapping_add(*next);
                std::mem::swap(next, after);
                hash
            }
            SchemeState::Php(hashes) => hashes.get(index as usize).copied().unwrap_or(0).into(),
        }
    }
}

/// Returns MurmurHash3 x64_128, seed 0, of an encoded item.
fn murmur3_x64(encoding: ItemEncoding, item: &[u8]) -> Option<Murmur3> {
    let mut hash = Murmur3::default();
    encoding.encode(item, |chunk| hash.update(chunk))?;
    Some(hash)
}

/// Returns the state of Guava's `BloomFilterStrategies.MURMUR128_MITZ_64`.
fn mitz64(ItemHash { h1, h2 }: ItemHash) -> SchemeState {
    SchemeState::Sums(h1, [h2, h2])
}

/// Returns FNV-1a in 32 bits, continued from `state` (Fowler, Noll and Vo; draft-eastlake-fnv).
fn fnv1a32(state: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(state, |state, byte| (state ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

/// Java's `Long.MAX_VALUE`.
const NOT_NEGATIVE: u64 = u64::MAX >> 1;
/// Start of FNV-1a in 32 bits.
const FNV_OFFSET_BASIS: u32 = 0x811c_9dc5;
/// The key in `org.redisson.misc.Hash`.
const REDISSON_KEY: [u64; 4] =
    [0x9e37_79b9_7f4a_7c15, 0xf39c_c060_5ced_c834, 0x1082_276b_f3a2_7251, 0xf86c_6a11_d0c1_8e95];
