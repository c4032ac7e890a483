//! The keyed hash of an item.

use std::fmt;

use siphasher::sip128::SipHasher13;

use crate::bloom::everbloom::ItemHash;

/// Bytes of a key.
pub const KEY_BYTES: usize = 16;

/// What the hash of a filter is keyed with. A secret: it is saved and replicated, and shown to nobody else.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct HashKey([u8; KEY_BYTES]);

impl HashKey {
    /// The key of these bytes.
    #[must_use]
    pub const fn new(bytes: [u8; KEY_BYTES]) -> Self {
        Self(bytes)
    }

    /// The bytes.
    #[must_use]
    pub const fn bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }

    /// Hashes an item with SipHash-1-3 of 128 bits (Aumasson and Bernstein, "SipHash: a fast short-input
    /// PRF", 2012). Part of the format: it never changes. O(length).
    #[must_use]
    #[inline]
    pub fn hash128(&self, item: &[u8]) -> ItemHash {
        let digest = SipHasher13::new_with_key(&self.0).hash(item);
        ItemHash { h1: digest.h1, h2: digest.h2 }
    }
}

impl fmt::Debug for HashKey {
    /// Not the bytes: what is printed may be logged.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HashKey(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By the words of the paper, with the constants of the 128-bit variant of its reference implementation.
    fn by_the_paper(key: &[u8; 16], item: &[u8]) -> ItemHash {
        let (k0, k1) = (
            u64::from_le_bytes(key[..8].try_into().unwrap()),
            u64::from_le_bytes(key[8..].try_into().unwrap()),
        );
        let mut v = [
            k0 ^ 0x736f_6d65_7073_6575,
            k1 ^ 0x646f_7261_6e64_6f6d ^ 0xee,
            k0 ^ 0x6c79_6765_6e65_7261,
            k1 ^ 0x7465_6462_7974_6573,
        ];
        let round = |v: &mut [u64; 4]| {
            v[0] = v[0].wrapping_add(v[1]);
            v[1] = v[1].rotate_left(13) ^ v[0];
            v[0] = v[0].rotate_left(32);
            v[2] = v[2].wrapping_add(v[3]);
            v[3] = v[3].rotate_left(16) ^ v[2];
            v[0] = v[0].wrapping_add(v[3]);
            v[3] = v[3].rotate_left(21) ^ v[0];
            v[2] = v[2].wrapping_add(v[1]);
            v[1] = v[1].rotate_left(17) ^ v[2];
            v[2] = v[2].rotate_left(32);
        };
        let mut padded = item.to_vec();
        padded.resize(item.len() / 8 * 8 + 7, 0);
        padded.truncate(item.len() / 8 * 8 + 7);
        padded.push(u8::try_from(item.len() % 256).unwrap());
        for word in padded.chunks(8) {
            let word = u64::from_le_bytes(word.try_into().unwrap());
            v[3] ^= word;
            round(&mut v);
            v[0] ^= word;
        }
        v[2] ^= 0xee;
        (0..3).for_each(|_| round(&mut v));
        let h1 = v[0] ^ v[1] ^ v[2] ^ v[3];
        v[1] ^= 0xdd;
        (0..3).for_each(|_| round(&mut v));
        ItemHash { h1, h2: v[0] ^ v[1] ^ v[2] ^ v[3] }
    }

    #[test]
    fn the_hash_is_siphash_1_3_of_128_bits() {
        let bytes: Vec<u8> = (0..=255).map(|byte: u8| byte.wrapping_mul(181).wrapping_add(7)).collect();
        for key in [[0; 16], [0xff; 16], *b"0123456789abcdef"] {
            for length in 0..bytes.len() {
                let item = &bytes[..length];
                assert_eq!(HashKey::new(key).hash128(item), by_the_paper(&key, item), "{length} bytes");
            }
        }
    }

    #[test]
    fn a_key_is_not_printed() {
        assert_eq!(format!("{:?}", HashKey::new([0x41; 16])), "HashKey(..)");
    }
}
