//! The hash of an item: computed once per command, whatever the number of layers.

/// The 128 bits from which every layer derives an item's probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ItemHash {
    /// First 64 bits of the digest.
    pub h1: u64,
    /// Second 64 bits of the digest.
    pub h2: u64,
}

/// Hashes an item with MurmurHash3 x64_128, seed 0. Part of the format: it never changes. O(length).
#[must_use]
pub fn hash128(item: &[u8]) -> ItemHash {
    let mut reader = item;
    // Reading from a slice cannot fail; the digest of nothing stands in for the error that cannot happen.
    let digest = murmur3::murmur3_x64_128(&mut reader, 0).unwrap_or(0);
    ItemHash { h1: low_half(digest), h2: low_half(digest >> 64) }
}

/// The low 64 bits of a 128-bit word.
#[expect(clippy::cast_possible_truncation, reason = "cutting off the high half is the purpose")]
const fn low_half(word: u128) -> u64 {
    word as u64
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
