//! Makes the items from numbers, so that they are the same in every run.

use std::io::Write as _;

/// First number of items that are never added.
pub(crate) const ABSENT: u64 = 1 << 40;

/// Writes the item with this number: `user:`, twelve digits, and up to 15 more letters, 17 to 32 bytes together.
pub(crate) fn write(item: &mut Vec<u8>, number: u64) {
    item.clear();
    // Writing to a vector cannot fail.
    let _ = write!(item, "user:{number:012}");
    let mixed = mix(number);
    let letters = (mixed % 16).min(u64::from(32u32.saturating_sub(u32::try_from(item.len()).unwrap_or(32))));
    item.extend((0..letters).map(|place| b'a' + u8::try_from(mixed >> (4 * place) & 15).unwrap_or(0)));
}

/// Returns a pseudo-random number that depends only on `number` (SplitMix64, Steele, Lea and Flood, 2014).
pub(crate) fn mix(number: u64) -> u64 {
    let mut word = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}

/// Returns bytes in which every bit is set with a probability of `share_256` in 256.
pub(crate) fn noise(bytes: usize, share_256: u8) -> Vec<u8> {
    let mut words = (0u64..).map(mix);
    let mut noise = Vec::with_capacity(bytes + 8);
    while noise.len() < bytes {
        // Goes from the lowest binary digit of the share to the highest. OR with random bits (digit 1) halves the
        // distance of the probability to 1; AND (digit 0) halves its distance to 0.
        let word = (0..8).fold(0u64, |word, digit| {
            let chance = words.next().unwrap_or(0);
            if share_256 >> digit & 1 == 1 { word | chance } else { word & chance }
        });
        noise.extend_from_slice(&word.to_le_bytes());
    }
    noise.truncate(bytes);
    noise
}

#[cfg(test)]
mod tests {
    #[test]
    fn items_have_17_to_32_bytes_and_differ() {
        use super::*;
        let mut item = Vec::new();
        let mut seen = std::collections::HashSet::new();
        for number in (0..1000).chain(ABSENT..ABSENT + 1000) {
            write(&mut item, number);
            assert!((17..=32).contains(&item.len()) && seen.insert(item.clone()), "{number}");
        }
    }

    #[test]
    fn noise_has_the_requested_share_of_set_bits() {
        use super::*;
        for share in [0u8, 1, 75, 128, 255] {
            let noise = noise(100_000, share);
            let set: u32 = noise.iter().map(|byte| byte.count_ones()).sum();
            let expected = 800_000.0 * f64::from(share) / 256.0;
            assert!((f64::from(set) - expected).abs() < 3000.0, "{share}: {set} of {expected}");
        }
    }
}
