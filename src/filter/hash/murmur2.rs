//! RedisBloom's two hashes of an item: MurmurHash2 in its 64-bit or 32-bit form, where the second hash has the first
//! as its seed.
//!
//! They are implemented here because the crates that have them bring dependencies or had a single release; one of
//! them is the oracle of the tests. The functions are Austin Appleby's, in the public domain (smhasher,
//! MurmurHash2.cpp).

use super::ItemHash;

/// The variants of RedisBloom's hash, by release. Position `i` of an item is `h1 + i * h2`, modulo the bits of the
/// layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Murmur2 {
    /// 32 bits: RedisBloom 1.0.
    Narrow,
    /// 64 bits from seeds that are cut to 32 bits: RedisBloom 1.1, whose function took shorter seeds. Its saved
    /// filters cannot be distinguished from those of 2.0.
    WideCutSeeds,
    /// 64 bits: RedisBloom 2.0 and later.
    Wide,
}

impl Murmur2 {
    /// Returns both hashes of an item. O(length).
    #[must_use]
    pub fn pair(self, item: &[u8]) -> ItemHash {
        match self {
            Self::Narrow => {
                let h1 = murmur2(item, NARROW_SEED);
                ItemHash { h1: h1.into(), h2: murmur2(item, h1).into() }
            }
            Self::WideCutSeeds => {
                let h1 = murmur64a(item, cut(WIDE_SEED));
                ItemHash { h1, h2: murmur64a(item, cut(h1)) }
            }
            Self::Wide => {
                let h1 = murmur64a(item, WIDE_SEED);
                ItemHash { h1, h2: murmur64a(item, h1) }
            }
        }
    }
}

/// Returns the low 32 bits.
const fn cut(seed: u64) -> u64 {
    seed & 0xffff_ffff
}

/// First seed of the 64-bit hash, RedisBloom's own choice.
const WIDE_SEED: u64 = 0xc6a4_a793_5bd1_e995;
/// First seed of the 32-bit hash, RedisBloom's own choice.
const NARROW_SEED: u32 = 0x9747_b28c;

const WIDE_MULTIPLIER: u64 = 0xc6a4_a793_5bd1_e995;
const WIDE_SHIFT: u32 = 47;
const NARROW_MULTIPLIER: u32 = 0x5bd1_e995;
const NARROW_SHIFT: u32 = 24;

/// Returns MurmurHash64A, with little-endian words. O(length).
#[must_use]
pub fn murmur64a(item: &[u8], seed: u64) -> u64 {
    let (blocks, tail) = item.as_chunks::<8>();
    let mut hash = seed ^ (item.len() as u64).wrapping_mul(WIDE_MULTIPLIER);
    for block in blocks {
        let mut word = u64::from_le_bytes(*block).wrapping_mul(WIDE_MULTIPLIER);
        word ^= word >> WIDE_SHIFT;
        hash = (hash ^ word.wrapping_mul(WIDE_MULTIPLIER)).wrapping_mul(WIDE_MULTIPLIER);
    }
    if !tail.is_empty() {
        let word = tail.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        hash = (hash ^ word).wrapping_mul(WIDE_MULTIPLIER);
    }
    hash = (hash ^ hash >> WIDE_SHIFT).wrapping_mul(WIDE_MULTIPLIER);
    hash ^ hash >> WIDE_SHIFT
}

/// Returns MurmurHash2, with little-endian words. O(length).
#[must_use]
pub fn murmur2(item: &[u8], seed: u32) -> u32 {
    let (blocks, tail) = item.as_chunks::<4>();
    // The length counts modulo 2^32; no item is that long.
    let mut hash = seed ^ u32::try_from(item.len()).unwrap_or(u32::MAX);
    for block in blocks {
        let mut word = u32::from_le_bytes(*block).wrapping_mul(NARROW_MULTIPLIER);
        word ^= word >> NARROW_SHIFT;
        hash = hash.wrapping_mul(NARROW_MULTIPLIER) ^ word.wrapping_mul(NARROW_MULTIPLIER);
    }
    if !tail.is_empty() {
        let word = tail.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte));
        hash = (hash ^ word).wrapping_mul(NARROW_MULTIPLIER);
    }
    hash = (hash ^ hash >> 13).wrapping_mul(NARROW_MULTIPLIER);
    hash ^ hash >> 15
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers_of_redisbloom() {
        // Each entry is an item, then a and b of the wide and of the narrow pair.
        let answers: [(&str, u64, u64, u64, u64); 8] = [
            ("", 0x1ab1_1ea5_a7b2_c56e, 0xbbdd_cb5a_b56d_d547, 0x106e_08d9, 0x456d_9087),
            ("a", 0x4292_cee2_27b9_150a, 0x7e9b_5270_31f5_0c11, 0xa2d0_b27c, 0x2e36_e8b4),
            ("foo", 0x822b_4f99_b121_f10d, 0x9d63_d52a_557f_61c2, 0x23a2_56d0, 0x9fbc_0655),
            ("bar", 0x6a83_86c4_3972_96e3, 0x7d8d_2247_5d9c_cdf0, 0x3af2_4dc1, 0x913b_cbb9),
            ("hello", 0x5ba5_b8a5_9803_e699, 0xa7d4_51d5_88a0_c2a4, 0x7f1d_dbbd, 0xed99_9d2d),
            ("12345678", 0x700b_ea34_3394_41c4, 0x94cc_ce09_94c5_c064, 0x1430_ce0e, 0x72bf_120f),
            ("123456789", 0xb791_da69_f9d3_95e3, 0xabf3_563d_45e8_173b, 0x9362_de66, 0x752d_dcb1),
            (
                "The quick brown fox jumps over the lazy dog",
                0xc7a6_16a2_8f4a_74d6,
                0xfab0_7743_84f7_4e2a,
                0x1d84_d036,
                0x4070_3714,
            ),
        ];
        for (item, wide_a, wide_b, narrow_a, narrow_b) in answers {
            let bytes = item.as_bytes();
            assert_eq!(Murmur2::Wide.pair(bytes), ItemHash { h1: wide_a, h2: wide_b }, "{item}");
            let h1 = murmur2::murmur64a(bytes, 0x5bd1_e995);
            let h2 = murmur2::murmur64a(bytes, h1 % (1 << 32));
            assert_eq!(Murmur2::WideCutSeeds.pair(bytes), ItemHash { h1, h2 }, "{item}");
            assert_eq!(Murmur2::Narrow.pair(bytes), ItemHash { h1: narrow_a, h2: narrow_b }, "{item}");
        }
    }

    #[test]
    fn every_length_hashes_as_in_an_independent_implementation() {
        let bytes: Vec<u8> = (0..200u32).map(|i| (i * 167 % 251).to_le_bytes()[0]).collect();
        for length in 0..bytes.len() {
            let item = &bytes[..length];
            for seed in [0, 1, NARROW_SEED, u32::MAX] {
                assert_eq!(murmur2(item, seed), murmur2::murmur2(item, seed), "{length}");
            }
            for seed in [0, 1, WIDE_SEED, u64::MAX] {
                assert_eq!(murmur64a(item, seed), murmur2::murmur64a(item, seed), "{length}");
            }
        }
    }
}
