//! Finds the n-th set bit of a word, which a table does once per lookup.

/// Returns the positions of set bits. A processor may have an instruction for it.
pub trait Select: Copy {
    /// Returns the position of the set bit that has `rank` set bits below it. The word must have more than `rank` set
    /// bits. O(1).
    fn select(self, word: u64, rank: u32) -> u32;
}

/// Selects in portable code.
#[derive(Clone, Copy, Debug, Default)]
pub struct PortableSelect;

/// Work whose code is compiled for each way to select.
pub trait Task {
    /// The result.
    type Output;

    /// Does the work.
    fn run(self, select: impl Select) -> Self::Output;
}

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;

impl Select for PortableSelect {
    /// The counts of all bytes are summed up by a multiplication; the byte whose sum exceeds the rank has the bit
    /// (Vigna, "Broadword implementation of rank/select queries", 2008).
    #[inline(always)]
    fn select(self, word: u64, rank: u32) -> u32 {
        let pairs = word.wrapping_sub(word >> 1 & 0x5555_5555_5555_5555);
        let nibbles = (pairs & 0x3333_3333_3333_3333).wrapping_add(pairs >> 2 & 0x3333_3333_3333_3333);
        let bytes = nibbles.wrapping_add(nibbles >> 4) & 0x0f0f_0f0f_0f0f_0f0f;
        // Byte i of `sums` is the number of set bits in the bytes up to i.
        let sums = bytes.wrapping_mul(ONES);
        let ranks = u64::from(rank).wrapping_mul(ONES);
        let below = (ranks | HIGHS).wrapping_sub(sums) & HIGHS;
        let shift = below.count_ones().wrapping_mul(8);
        let before = sums.wrapping_shl(8).wrapping_shr(shift) & 0xff;
        let byte = word.wrapping_shr(shift) & 0xff;
        let in_byte = u64::from(rank).wrapping_sub(before) & 7;
        let position = IN_BYTE.get((byte << 3 | in_byte) as usize).copied().unwrap_or(0);
        shift.wrapping_add(position.into())
    }
}

/// The position of set bit `rank` of `byte`, at index `byte * 8 + rank`.
const IN_BYTE: [u8; 256 * 8] = {
    let mut table = [0; 256 * 8];
    let mut byte = 0usize;
    while byte < 256 {
        let (mut bit, mut rank) = (0u8, 0);
        while bit < 8 {
            if byte >> bit & 1 == 1 {
                #[expect(clippy::indexing_slicing, reason = "evaluated at compile time")]
                {
                    table[byte * 8 + rank] = bit;
                }
                rank += 1;
            }
            bit += 1;
        }
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn select_finds_every_bit() {
        let mut word = 0x9e37_79b9_7f4a_7c15u64;
        for round in 0..2_000u32 {
            word = word.wrapping_mul(0xd134_2543_de82_ef95).wrapping_add(1);
            let word = match round % 4 {
                0 => word,
                1 => word & word.rotate_left(17),
                2 => word | word.rotate_left(29),
                _ => u64::MAX >> (round % 64) << (round / 64 % 64),
            };
            let bits = (0..64).filter(|bit| word >> bit & 1 == 1);
            for (rank, bit) in (0..).zip(bits) {
                assert_eq!(PortableSelect.select(word, rank), bit, "{word:x} {rank}");
            }
        }
    }
}
