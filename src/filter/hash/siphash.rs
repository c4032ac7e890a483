//! The keyed hashes: SipHash-1-3 with the key of an everbloom filter, and with the seed of a valkey-bloom filter.

use std::fmt;
use std::hash::Hasher;

use siphasher::sip::SipHasher13 as SipHasher64;
use siphasher::sip128::SipHasher13;

use super::ItemHash;

/// Bytes of a key.
pub const KEY_BYTES: usize = 16;

/// The key of a filter's hash. It is secret: saved and replicated, but never shown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct HashKey([u8; KEY_BYTES]);

impl HashKey {
    /// Returns the key of these bytes.
    #[must_use]
    pub const fn new(bytes: [u8; KEY_BYTES]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes.
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
    /// Prints no bytes, because debug output may be logged.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HashKey(..)")
    }
}

/// Bytes of a seed.
pub const SEED_BYTES: usize = 32;

/// The seed of every filter of valkey-bloom 0.1.0, and of 1.0 with `bloom-use-random-seed no`.
pub const FIXED_SEED: [u8; SEED_BYTES] = [
    89, 15, 245, 34, 234, 120, 17, 218, 167, 20, 216, 9, 59, 62, 123, 217, 29, 137, 138, 115, 62, 152, 136,
    135, 48, 127, 151, 205, 40, 7, 51, 131,
];

/// The seed of a valkey-bloom filter: the keys of the two hashes of an item. Every layer of the filter has the same
/// seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed {
    bytes: [u8; SEED_BYTES],
    is_random: bool,
}

impl Seed {
    /// [`FIXED_SEED`], marked as fixed.
    pub const FIXED: Self = Self { bytes: FIXED_SEED, is_random: false };

    /// Returns a chosen seed. It is marked as random unless it is [`FIXED_SEED`], as in valkey-bloom.
    #[must_use]
    pub fn new(bytes: [u8; SEED_BYTES]) -> Self {
        Self { bytes, is_random: bytes != FIXED_SEED }
    }

    /// Returns a saved seed with its saved mark. `None` if a seed other than [`FIXED_SEED`] is marked as not random.
    #[must_use]
    pub fn marked(bytes: [u8; SEED_BYTES], is_random: bool) -> Option<Self> {
        (is_random || bytes == FIXED_SEED).then_some(Self { bytes, is_random })
    }

    /// Returns the bytes.
    #[must_use]
    pub const fn bytes(&self) -> &[u8; SEED_BYTES] {
        &self.bytes
    }

    /// Returns whether the seed is marked as random.
    #[must_use]
    pub const fn is_random(&self) -> bool {
        self.is_random
    }

    /// Returns whether both hashes have the same key. All positions of an item then follow from multiples of one hash,
    /// and the error rate is several times the promised one.
    #[must_use]
    pub fn has_equal_halves(&self) -> bool {
        let (halves, _) = self.bytes.as_chunks::<16>();
        halves.first() == halves.last()
    }

    /// Returns both hashes of an item. O(length).
    ///
    /// Each is SipHash-1-3 over the item's length as a 64-bit word followed by its bytes, as Rust hashes a byte
    /// slice.
    #[must_use]
    pub fn pair(&self, item: &[u8]) -> ItemHash {
        let (halves, _) = self.bytes.as_chunks::<16>();
        let mut hashes = halves.iter().map(|key| {
            let mut hasher = SipHasher64::new_with_key(key);
            hasher.write_u64(item.len() as u64);
            hasher.hash(item)
        });
        // The seed has two halves, so both hashes exist.
        ItemHash { h1: hashes.next().unwrap_or(0), h2: hashes.next().unwrap_or(0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the hash as the paper defines it, with the constants of the 128-bit variant of its reference
    /// implementation.
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

    #[test]
    fn known_answers_of_siphash_1_3() {
        // With a key of zeros this is the default hasher of the standard library.
        let seed = Seed::new([0; SEED_BYTES]);
        for item in [&b""[..], b"a", b"1234567", b"12345678", b"123456789", &[0xAB; 100]] {
            let mut hasher = std::hash::DefaultHasher::new();
            std::hash::Hash::hash(item, &mut hasher);
            assert_eq!(seed.pair(item), ItemHash { h1: hasher.finish(), h2: hasher.finish() });
        }
        let ItemHash { h1, h2 } = Seed::FIXED.pair(b"a");
        assert_ne!(h1, h2);
    }

    #[test]
    fn only_the_fixed_seed_may_be_marked_as_fixed() {
        assert!(!Seed::new(FIXED_SEED).is_random() && Seed::new([7; 32]).is_random());
        assert_eq!(Seed::marked(FIXED_SEED, false), Some(Seed::FIXED));
        assert_eq!(Seed::marked([7; 32], false), None);
        assert!(Seed::marked(FIXED_SEED, true).unwrap().is_random());
        assert!(Seed::new([7; 32]).has_equal_halves() && !Seed::FIXED.has_equal_halves());
    }
}
