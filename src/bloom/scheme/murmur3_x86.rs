//! MurmurHash3 x86_128, seed 0: the 128 bits of a design for processors of 32 bits (Austin Appleby,
//! MurmurHash3.cpp).
//!
//! The murmur3 crate is the oracle of the tests; it wants to read all of its bytes itself.

use crate::bloom::hash::{ItemHash, halves, tail_halves};

/// The hash on its way through an item that comes in chunks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Murmur3X86 {
    lanes: [u32; 4],
    /// The bytes since the last whole block of 16, zeros behind them.
    tail: [u32; 4],
    length_bytes: u64,
}

impl Murmur3X86 {
    /// Takes the next bytes. What comes before the last chunk must be whole blocks of 16. O(bytes).
    pub(super) fn update(&mut self, chunk: &[u8]) {
        debug_assert!(self.length_bytes.is_multiple_of(16), "a chunk after the last");
        let (blocks, tail) = chunk.as_chunks::<16>();
        blocks.iter().for_each(|block| self.block(quarters(halves(block))));
        self.tail = quarters(tail_halves(chunk, tail));
        self.length_bytes = self.length_bytes.wrapping_add(chunk.len() as u64);
    }

    fn block(&mut self, block: [u32; 4]) {
        let [k1, k2, k3, k4] = scrambled(block);
        let [h1, h2, h3, h4] = self.lanes;
        let mixed = |lane: u32, rotation, next: u32, constant| {
            lane.rotate_left(rotation).wrapping_add(next).wrapping_mul(5).wrapping_add(constant)
        };
        let h1 = mixed(h1 ^ k1, 19, h2, 0x561c_cd1b);
        let h2 = mixed(h2 ^ k2, 17, h3, 0x0bca_a747);
        let h3 = mixed(h3 ^ k3, 15, h4, 0x96cd_1c35);
        let h4 = mixed(h4 ^ k4, 13, h1, 0x32ac_3b17);
        self.lanes = [h1, h2, h3, h4];
    }

    /// The hash of all bytes so far, as two little-endian halves.
    pub(super) fn finish(self) -> ItemHash {
        let [k1, k2, k3, k4] = scrambled(self.tail);
        let [h1, h2, h3, h4] = self.lanes;
        let [length, _] = words(self.length_bytes);
        let lanes = [h1 ^ k1, h2 ^ k2, h3 ^ k3, h4 ^ k4].map(|lane| lane ^ length);
        let [h1, h2, h3, h4] = summed(summed(lanes).map(avalanche));
        let half = |low: u32, high: u32| u64::from(high) << 32 | u64::from(low);
        ItemHash { h1: half(h1, h2), h2: half(h3, h4) }
    }
}

const C: [u32; 4] = [0x239b_961b, 0xab0e_9789, 0x38b3_4ae5, 0xa1e3_8b93];

/// A word of zero stays zero.
fn scrambled([k1, k2, k3, k4]: [u32; 4]) -> [u32; 4] {
    let [c1, c2, c3, c4] = C;
    let scrambled = |word: u32, first, rotation, second| {
        word.wrapping_mul(first).rotate_left(rotation).wrapping_mul(second)
    };
    [
        scrambled(k1, c1, 15, c2),
        scrambled(k2, c2, 16, c3),
        scrambled(k3, c3, 17, c4),
        scrambled(k4, c4, 18, c1),
    ]
}

/// The first lane gets all others, and they get it.
fn summed([h1, h2, h3, h4]: [u32; 4]) -> [u32; 4] {
    let h1 = h1.wrapping_add(h2).wrapping_add(h3).wrapping_add(h4);
    [h1, h2.wrapping_add(h1), h3.wrapping_add(h1), h4.wrapping_add(h1)]
}

fn avalanche(mut word: u32) -> u32 {
    word = (word ^ (word >> 16)).wrapping_mul(0x85eb_ca6b);
    word = (word ^ (word >> 13)).wrapping_mul(0xc2b2_ae35);
    word ^ (word >> 16)
}

fn quarters((first, second): (u64, u64)) -> [u32; 4] {
    let ([a, b], [c, d]) = (words(first), words(second));
    [a, b, c, d]
}

/// The low half, and the high one.
fn words(word: u64) -> [u32; 2] {
    [(word & 0xFFFF_FFFF) as u32, (word >> 32) as u32]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bloom::hash::low_half;

    #[test]
    fn items_are_hashed_as_by_the_murmur3_crate_whole_and_in_chunks() {
        let bytes: Vec<u8> = (0..=255).map(|byte: u8| byte.wrapping_mul(181).wrapping_add(7)).collect();
        for length in 0..bytes.len() {
            let item = &bytes[..length];
            let digest = murmur3::murmur3_x86_128(&mut &item[..], 0).unwrap();
            for cut in [0, length / 16 * 16, length / 32 * 16] {
                let mut hash = Murmur3X86::default();
                hash.update(&item[..cut]);
                hash.update(&item[cut..]);
                let expected = ItemHash { h1: low_half(digest), h2: low_half(digest >> 64) };
                assert_eq!(hash.finish(), expected, "{length} bytes cut at {cut}");
            }
        }
    }
}
