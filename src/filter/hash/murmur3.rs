//! MurmurHash3 x64_128, the hash of everbloom's own filters.

use super::ItemHash;

/// Hashes an item with MurmurHash3 x64_128, seed 0. Part of the format: it never changes. O(length).
///
/// The murmur3 crate is the oracle of the tests. It reads byte by byte through `Read`, which takes two to three times
/// as long on short items.
#[must_use]
#[inline(always)]
pub fn hash128(item: &[u8]) -> ItemHash {
    Murmur3::of(item).finish()
}

/// The state of [`hash128`] for an item that comes in chunks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Murmur3 {
    h1: u64,
    h2: u64,
    /// The bytes after the last whole block of 16, as two little-endian words padded with zeros.
    tail: (u64, u64),
    length_bytes: u64,
}

impl Murmur3 {
    /// Returns the state after a whole item. O(length).
    #[inline(always)]
    pub(crate) fn of(item: &[u8]) -> Self {
        let mut hash = Self::default();
        hash.update(item);
        hash
    }

    /// Adds the next bytes. All chunks but the last must be whole blocks of 16. O(bytes).
    #[inline(always)]
    pub(crate) fn update(&mut self, chunk: &[u8]) {
        debug_assert!(self.length_bytes.is_multiple_of(16), "a chunk after the last");
        let (blocks, tail) = chunk.as_chunks::<16>();
        blocks.iter().for_each(|block| self.block(halves(block)));
        self.tail = tail_halves(chunk, tail);
        self.length_bytes = self.length_bytes.wrapping_add(chunk.len() as u64);
    }

    #[inline(always)]
    fn block(&mut self, (k1, k2): (u64, u64)) {
        let Self { h1, h2, .. } = *self;
        let h1 =
            (h1 ^ scramble1(k1)).rotate_left(27).wrapping_add(h2).wrapping_mul(5).wrapping_add(0x52dc_e729);
        let h2 =
            (h2 ^ scramble2(k2)).rotate_left(31).wrapping_add(h1).wrapping_mul(5).wrapping_add(0x3849_5ab5);
        (self.h1, self.h2) = (h1, h2);
    }

    /// Returns the hash of all bytes so far.
    #[inline(always)]
    pub(crate) fn finish(self) -> ItemHash {
        let Self { mut h1, mut h2, tail: (k1, k2), length_bytes } = self;
        h1 ^= scramble1(k1) ^ length_bytes;
        h2 ^= scramble2(k2) ^ length_bytes;
        h1 = h1.wrapping_add(h2);
        h2 = h2.wrapping_add(h1);
        h1 = avalanche(h1);
        h2 = avalanche(h2);
        h1 = h1.wrapping_add(h2);
        ItemHash { h1, h2: h2.wrapping_add(h1) }
    }

    /// Returns the hash of all bytes so far followed by one more byte. O(1).
    #[inline(always)]
    pub(crate) fn finish_with(mut self, byte: u8) -> ItemHash {
        let (offset, byte) = (self.length_bytes % 16, u64::from(byte));
        match offset {
            0..8 => self.tail.0 |= byte << (offset * 8),
            _ => self.tail.1 |= byte << (offset % 8 * 8),
        }
        if offset == 15 {
            self.block(self.tail);
            self.tail = (0, 0);
        }
        self.length_bytes = self.length_bytes.wrapping_add(1);
        self.finish()
    }
}

const C1: u64 = 0x87c3_7b91_1142_53d5;
const C2: u64 = 0x4cf5_ad43_2745_937f;

const fn scramble1(k1: u64) -> u64 {
    k1.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2)
}

const fn scramble2(k2: u64) -> u64 {
    k2.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1)
}

const fn avalanche(mut word: u64) -> u64 {
    word = (word ^ (word >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    word = (word ^ (word >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    word ^ (word >> 33)
}

/// Returns the two little-endian words of a block.
#[inline(always)]
pub(crate) fn halves(block: &[u8; 16]) -> (u64, u64) {
    let whole = u128::from_le_bytes(*block);
    (low_half(whole), low_half(whole >> 64))
}

#[expect(clippy::cast_possible_truncation, reason = "cutting off the high half is the purpose")]
pub(crate) const fn low_half(word: u128) -> u64 {
    word as u64
}

/// An odd multiplier that mixes a word: 2^64 divided by the golden ratio (Knuth, TAOCP vol. 3, 6.4).
pub(crate) const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Returns the high 64 bits of the 128-bit product. It maps a uniform `word` to a uniform number below `range`
/// (Lemire, "Fast Random Integer Generation in an Interval", 2019).
pub(crate) const fn multiply_high(word: u64, range: u64) -> u64 {
    ((word as u128 * range as u128) >> 64) as u64
}

/// Returns the two words of the last, incomplete block, padded with zeros. Uses whole loads that overlap the bytes
/// before: a copy byte by byte would take longer than the rest of the hash.
#[inline(always)]
pub(crate) fn tail_halves(item: &[u8], tail: &[u8]) -> (u64, u64) {
    // There are at most 15 bytes, so the shifts are smaller than the words.
    let tail_bits = tail.len() % 16 * 8;
    if tail.is_empty() {
        return (0, 0);
    }
    if let Some(last) = item.last_chunk::<16>() {
        let whole = u128::from_le_bytes(*last) >> (128 - tail_bits);
        return (low_half(whole), low_half(whole >> 64));
    }
    if let (Some(first), Some(last)) = (tail.first_chunk::<8>(), tail.last_chunk::<8>()) {
        let rest = if tail.len() == 8 { 0 } else { u64::from_le_bytes(*last) >> (128 - tail_bits) };
        return (u64::from_le_bytes(*first), rest);
    }
    if let (Some(first), Some(last)) = (tail.first_chunk::<4>(), tail.last_chunk::<4>()) {
        let last = u64::from(u32::from_le_bytes(*last)) << (tail_bits - 32);
        return (u64::from(u32::from_le_bytes(*first)) | last, 0);
    }
    (tail.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)), 0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn by_the_crate(item: &[u8]) -> ItemHash {
        let digest = murmur3::murmur3_x64_128(&mut &item[..], 0).unwrap();
        ItemHash { h1: low_half(digest), h2: low_half(digest >> 64) }
    }

    #[test]
    fn known_answers_of_murmur3_x64_128() {
        // Reference values: Austin Appleby's MurmurHash3.cpp, seed 0.
        assert_eq!(hash128(b""), ItemHash { h1: 0, h2: 0 });
        assert_eq!(hash128(b"hello"), ItemHash { h1: 0xcbd8_a7b3_41bd_9b02, h2: 0x5b1e_906a_48ae_1d19 });
        assert_eq!(
            hash128(b"The quick brown fox jumps over the lazy dog"),
            ItemHash { h1: 0xe34b_bc7b_bc07_1b6c, h2: 0x7a43_3ca9_c49a_9347 }
        );
    }

    #[test]
    fn every_short_length_is_hashed_as_by_the_murmur3_crate() {
        let bytes: Vec<u8> = (0..=255).map(|byte: u8| byte.wrapping_mul(181).wrapping_add(7)).collect();
        for length in 0..bytes.len() {
            assert_eq!(hash128(&bytes[..length]), by_the_crate(&bytes[..length]), "{length} bytes");
        }
    }

    #[test]
    fn chunks_and_one_more_byte_have_the_hash_of_the_whole() {
        let bytes: Vec<u8> = (0..=255).map(|byte: u8| byte.wrapping_mul(91).wrapping_add(3)).collect();
        for length in 0..100 {
            let (item, last) = (&bytes[..length], bytes[length]);
            for cut in (0..=length).step_by(16) {
                let mut hash = Murmur3::default();
                hash.update(&item[..cut]);
                hash.update(&item[cut..]);
                assert_eq!(hash.finish(), by_the_crate(item), "{length} bytes cut at {cut}");
                assert_eq!(hash.finish_with(last), by_the_crate(&bytes[..=length]), "{length} bytes and one");
            }
        }
    }

    proptest! {
        #[test]
        fn any_item_is_hashed_as_by_the_murmur3_crate(item in prop::collection::vec(any::<u8>(), 0..2000)) {
            prop_assert_eq!(hash128(&item), by_the_crate(&item));
        }
    }
}
