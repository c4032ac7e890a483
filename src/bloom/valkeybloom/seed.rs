//! What the hash of a filter is keyed with.

use std::hash::Hasher;

use siphasher::sip::SipHasher13;

use super::placement::SipPair;

/// Bytes of a seed.
pub const SEED_BYTES: usize = 32;

/// The seed of every filter of valkey-bloom 0.1.0, and of 1.0 with `bloom-use-random-seed no`.
pub const FIXED_SEED: [u8; SEED_BYTES] = [
    89, 15, 245, 34, 234, 120, 17, 218, 167, 20, 216, 9, 59, 62, 123, 217, 29, 137, 138, 115, 62, 152, 136,
    135, 48, 127, 151, 205, 40, 7, 51, 131,
];

/// The keys of the two hashes of an item, the same in every layer of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed {
    bytes: [u8; SEED_BYTES],
    is_random: bool,
}

impl Seed {
    /// [`FIXED_SEED`], marked as such.
    pub const FIXED: Self = Self { bytes: FIXED_SEED, is_random: false };

    /// A seed that somebody chose; marked as random unless it is [`FIXED_SEED`], as valkey-bloom does.
    #[must_use]
    pub fn new(bytes: [u8; SEED_BYTES]) -> Self {
        Self { bytes, is_random: bytes != FIXED_SEED }
    }

    /// A seed that was written down with its mark. `None` for another seed than [`FIXED_SEED`] marked as not
    /// random.
    #[must_use]
    pub fn marked(bytes: [u8; SEED_BYTES], is_random: bool) -> Option<Self> {
        (is_random || bytes == FIXED_SEED).then_some(Self { bytes, is_random })
    }

    /// The bytes.
    #[must_use]
    pub const fn bytes(&self) -> &[u8; SEED_BYTES] {
        &self.bytes
    }

    /// Whether the seed is marked as random.
    #[must_use]
    pub const fn is_random(&self) -> bool {
        self.is_random
    }

    /// Returns whether both hashes have the same key. All hashes of an item are then multiples of one, and a filter takes
    /// several times as many absent items for present as it promises.
    #[must_use]
    pub fn has_equal_halves(&self) -> bool {
        let (halves, _) = self.bytes.as_chunks::<16>();
        halves.first() == halves.last()
    }

    /// The two hashes of an item. O(length).
    ///
    /// Each is SipHash-1-3 over the item's length as a 64-bit word and then its bytes: how Rust hashes a byte
    /// slice.
    #[must_use]
    pub fn digest(&self, item: &[u8]) -> SipPair {
        let (halves, _) = self.bytes.as_chunks::<16>();
        let mut hashes = halves.iter().map(|key| {
            let mut hasher = SipHasher13::new_with_key(key);
            hasher.write_u64(item.len() as u64);
            hasher.hash(item)
        });
        // The seed has two halves, so both are there.
        SipPair { h0: hashes.next().unwrap_or(0), h1: hashes.next().unwrap_or(0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers_of_siphash_1_3() {
        // The standard library's default hasher is SipHash-1-3 with a key of zeros.
        let seed = Seed::new([0; SEED_BYTES]);
        for item in [&b""[..], b"a", b"1234567", b"12345678", b"123456789", &[0xAB; 100]] {
            let mut hasher = std::hash::DefaultHasher::new();
            std::hash::Hash::hash(item, &mut hasher);
            assert_eq!(seed.digest(item), SipPair { h0: hasher.finish(), h1: hasher.finish() });
        }
        let SipPair { h0, h1 } = Seed::FIXED.digest(b"a");
        assert_ne!(h0, h1);
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
