//! The positions of an item, in the order in which the client's code computes them.

use highway::{HighwayHash, HighwayHasher, Key};
use smallvec::SmallVec;

use super::php;
use super::{Scheme, SchemeParameters};
use crate::bloom::hash::{ItemHash, hash128, low_half};

/// Shows `visit` the positions of an item, already encoded, until it answers false; answers whether it never did.
///
/// The parameters must be valid: `size_bits` 0 would have no positions, and is answered like no probes.
pub(super) fn all(parameters: &SchemeParameters, item: &[u8], mut visit: impl FnMut(u64) -> bool) -> bool {
    let SchemeParameters { scheme, probes, size_bits, shift, .. } = *parameters;
    let mut visit = |hash: u64| hash.checked_rem(size_bits).is_none_or(|position| visit(position >> shift));
    match scheme {
        Scheme::Murmur3Salted | Scheme::GoZero => salted(item, probes, visit),
        Scheme::Fnv32aSalted => {
            let state = fnv1a32(FNV_OFFSET_BASIS, item);
            (0..probes).all(|probe| visit(fnv1a32(state, &[salt(probe)]).into()))
        }
        Scheme::GuavaMitz32 => mitz32(hash128(item), probes, visit),
        Scheme::GuavaMitz64 | Scheme::CsharpNetfxMitz64 => mitz64(hash128(item), probes, visit),
        Scheme::Murmur3X86Mitz64 => mitz64(murmur3_x86_128(item), probes, visit),
        Scheme::PhpBkdrJsSdbm => {
            visit(php::bkdr(item).into()) && visit(php::js(item).into()) && visit(php::sdbm(item).into())
        }
        Scheme::Redisson => redisson(item, probes, visit),
    }
}

/// MurmurHash3 x64_128 of the item and one more byte: the probe's number.
fn salted(item: &[u8], probes: u32, mut visit: impl FnMut(u64) -> bool) -> bool {
    let mut salted = SmallVec::<[u8; SALTED_INLINE_BYTES]>::with_capacity(item.len().saturating_add(1));
    salted.extend_from_slice(item);
    (0..probes).all(|probe| {
        salted.truncate(item.len());
        salted.push(salt(probe));
        visit(hash128(&salted).h1)
    })
}

/// The byte that tells the probes of an item apart; a client's `byte(i)` wraps at 256.
fn salt(probe: u32) -> u8 {
    let [low, ..] = probe.to_le_bytes();
    low
}

/// FNV-1a in 32 bits, continued from `state` (Fowler, Noll and Vo; draft-eastlake-fnv).
fn fnv1a32(state: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(state, |state, byte| (state ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

/// Guava's `BloomFilterStrategies.MURMUR128_MITZ_32`, in 32 bits that wrap.
fn mitz32(ItemHash { h1, .. }: ItemHash, probes: u32, mut visit: impl FnMut(u64) -> bool) -> bool {
    let (low, high) = ((h1 & 0xFFFF_FFFF) as u32, (h1 >> 32) as u32);
    (1..=probes).all(|probe| {
        let combined = low.wrapping_add(probe.wrapping_mul(high));
        let is_negative = combined >> 31 == 1;
        visit(if is_negative { !combined } else { combined }.into())
    })
}

/// Guava's `BloomFilterStrategies.MURMUR128_MITZ_64`.
fn mitz64(ItemHash { h1, h2 }: ItemHash, probes: u32, mut visit: impl FnMut(u64) -> bool) -> bool {
    let mut combined = h1;
    (0..probes).all(|_| {
        let hash = combined & NOT_NEGATIVE;
        combined = combined.wrapping_add(h2);
        visit(hash)
    })
}

/// MurmurHash3 x86_128, seed 0, as two little-endian halves.
fn murmur3_x86_128(item: &[u8]) -> ItemHash {
    let mut reader = item;
    // Reading from a slice cannot fail; the digest of nothing stands in for the error that cannot happen.
    let digest = murmur3::murmur3_x86_128(&mut reader, 0).unwrap_or(0);
    ItemHash { h1: low_half(digest), h2: low_half(digest >> 64) }
}

/// `RedissonBloomFilter.hash`: the halves of HighwayHash-128 in turn.
fn redisson(item: &[u8], probes: u32, mut visit: impl FnMut(u64) -> bool) -> bool {
    let [h1, h2] = HighwayHasher::new(Key(REDISSON_KEY)).hash128(item);
    let mut hash = h1;
    (0..probes).all(|probe| {
        let position = hash & NOT_NEGATIVE;
        hash = hash.wrapping_add(if probe.is_multiple_of(2) { h2 } else { h1 });
        visit(position)
    })
}

/// Java's `Long.MAX_VALUE`.
const NOT_NEGATIVE: u64 = u64::MAX >> 1;
/// Start of FNV-1a in 32 bits.
const FNV_OFFSET_BASIS: u32 = 0x811c_9dc5;
/// The key of `org.redisson.misc.Hash`.
const REDISSON_KEY: [u64; 4] =
    [0x9e37_79b9_7f4a_7c15, 0xf39c_c060_5ced_c834, 0x1082_276b_f3a2_7251, 0xf86c_6a11_d0c1_8e95];
/// Items shorter than this are salted without an allocation.
const SALTED_INLINE_BYTES: usize = 256;
