//! Bits of words: the position of a set bit, and ranges of bits that are read, written, moved or copied.
//!
//! A range may cross words of a slice. Bits outside of the slice are read as 0 and not written.
#![expect(clippy::cast_possible_truncation, reason = "indices of bits and bytes in a word, and its low half")]

/// Finds the positions of set bits. A processor may have an instruction for it.
pub trait Select: Copy {
    /// Returns the position of the set bit that has `rank` set bits below it. The word must have more than `rank` set
    /// bits. O(1).
    fn select(self, word: u64, rank: u32) -> u32;
}

/// Selects in portable code.
#[derive(Clone, Copy, Debug, Default)]
pub struct PortableSelect;

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;

impl Select for PortableSelect {
    /// Counts the set bits of each byte, and sums the counts up with one multiplication. The first byte whose sum
    /// exceeds the rank has the bit (Vigna, "Broadword implementation of rank/select queries", 2008).
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

/// Returns a word whose lowest `count` bits are set. `count` is at most 128.
#[inline(always)]
pub(super) const fn low_bits_128(count: u32) -> u128 {
    match 1u128.checked_shl(count) {
        Some(bit) => bit.wrapping_sub(1),
        None => u128::MAX,
    }
}

/// Returns a word whose lowest `count` bits are set. `count` is below 64.
#[inline(always)]
pub(super) const fn low_bits(count: u32) -> u64 {
    1u64.wrapping_shl(count).wrapping_sub(1)
}

/// Returns `width` bits of `words` from `bit` on. `width` is 1 to 64.
#[inline(always)]
pub(super) fn bits_at(words: &[u64], bit: u32, width: u32) -> u64 {
    let (index, shift) = ((bit / 64) as usize, bit % 64);
    let low = words.get(index).copied().unwrap_or(0);
    let high = words.get(index.wrapping_add(1)).copied().unwrap_or(0);
    (low >> shift | high << 1 << (63 ^ shift)) & (u64::MAX >> (64u32.wrapping_sub(width) & 63))
}

/// Sets `width` bits of `words` from `bit` on to `value`, which must fit them.
#[inline(always)]
pub(super) fn set_bits(words: &mut [u64], bit: u32, width: u32, value: u64) {
    let (index, shift) = ((bit / 64) as usize, bit % 64);
    let mask = u64::MAX >> (64u32.wrapping_sub(width) & 63);
    if let Some(word) = words.get_mut(index) {
        *word = *word & !(mask << shift) | value << shift;
    }
    if shift.wrapping_add(width) > 64
        && let Some(word) = words.get_mut(index.wrapping_add(1))
    {
        *word = *word & !(mask >> 64u32.wrapping_sub(shift)) | value >> 64u32.wrapping_sub(shift);
    }
}

/// Returns a word with a bit for each four words that have a word beside them. A block has fewer than 256 words. A loop over
/// its bits moves four words at a time, as one vector. The compiler would make a loop with a count take sixteen words at a
/// time, which is more than most blocks have: adds to a table would take 2 % more instructions.
#[inline(always)]
fn fours_of(words: &[u64]) -> u64 {
    let [_, beside @ ..] = words else { return 0 };
    low_bits((beside.len() / 4) as u32)
}

/// Returns four words, each made of two neighbors of five words.
#[inline(always)]
fn of_neighbors(words: [u64; 5], make: impl Fn(u64, u64) -> u64) -> [u64; 4] {
    let [a, b, c, d, e] = words;
    let mut made = [a, b, c, d];
    made.iter_mut().zip([b, c, d, e]).for_each(|(low, high)| *low = make(*low, high));
    made
}

/// Moves the bits from `begin` to before `end` up by `width`, which is 1 to 63, and puts `value` at `begin`, which must fit
/// that many bits. The bits that would pass `end` are lost. All bits from `end` on must be clear, and stay clear.
#[inline(always)]
pub(super) fn insert_bits(words: &mut [u64], begin: u32, end: u32, width: u32, value: u64) {
    let last = (end.wrapping_sub(1) / 64) as usize;
    let Some(mut range) = words.get_mut((begin / 64) as usize..=last) else { return };
    let (at, width, rise) = (begin % 64, width & 63, 64u32.wrapping_sub(width) & 63);
    // From the highest word down, so that each still finds the word below it.
    let mut fours = fours_of(range);
    while fours != 0
        && let Some(window) = range.last_chunk()
    {
        fours &= fours - 1;
        let moved = of_neighbors(*window, |below, word| word << width | below >> rise);
        let rest = range.len() - 4;
        let (below, above) = range.split_at_mut(rest);
        above.copy_from_slice(&moved);
        range = below;
    }
    if let [.., below, a, b] = range {
        (*a, *b) = (*a << width | *below >> rise, *b << width | *a >> rise);
        let rest = range.len() - 2;
        range = range.split_at_mut(rest).0;
    }
    if let [.., below, word] = range {
        *word = *word << width | *below >> rise;
        let rest = range.len() - 1;
        range = range.split_at_mut(rest).0;
    }
    if let [first] = range {
        *first = *first & low_bits(at) | (*first >> at) << at << width | value << at;
    }
    let beyond = at + width;
    if beyond > 64
        && let Some(second) = words.get_mut((begin / 64) as usize + 1)
    {
        *second = *second & !low_bits(beyond % 64) | value >> 1 >> (63 - at);
    }
    if !end.is_multiple_of(64)
        && let Some(word) = words.get_mut(last)
    {
        *word &= low_bits(end % 64);
    }
}

/// Moves the bits from `begin + width` to before `end` down by `width`, which is 1 to 63. All bits from `end` on must be
/// clear.
#[inline(always)]
pub(super) fn shift_down(words: &mut [u64], begin: u32, end: u32, width: u32) {
    let last = (end.wrapping_sub(1) / 64) as usize;
    let Some(mut range) = words.get_mut((begin / 64) as usize..=last) else { return };
    let (stay, width, fall) = (low_bits(begin % 64), width & 63, 64u32.wrapping_sub(width) & 63);
    let below = range.first().map_or(0, |first| first & stay);
    // From the lowest word up, as in `insert_bits`.
    let mut fours = fours_of(range);
    while fours != 0
        && let Some(window) = range.first_chunk()
    {
        fours &= fours - 1;
        let moved = of_neighbors(*window, |word, above| word >> width | above << fall);
        let (here, above) = range.split_at_mut(4);
        here.copy_from_slice(&moved);
        range = above;
    }
    if let [a, b, above, ..] = range {
        (*a, *b) = (*a >> width | *b << fall, *b >> width | *above << fall);
        range = range.split_at_mut(2).1;
    }
    if let [word, above, ..] = range {
        *word = *word >> width | *above << fall;
        range = range.split_at_mut(1).1;
    }
    if let [last] = range {
        *last >>= width;
    }
    if let Some(first) = words.get_mut((begin / 64) as usize) {
        *first = *first & !stay | below;
    }
}

/// Copies `count` bits of `source` from `from` on into the clear bits of `target` from `to` on.
#[inline(always)]
pub(super) fn copy_bits(source: &[u64], from: u32, target: &mut [u64], to: u32, count: u32) {
    if count == 0 {
        return;
    }
    let (shift, end) = (to % 64, (to % 64).wrapping_add(count));
    let words = target.get_mut((to / 64) as usize..=(to.wrapping_add(count).wrapping_sub(1) / 64) as usize);
    // The bit of the source that goes to the lowest bit of the first word; 64 is added so that it is not negative.
    let mut bit = from.wrapping_add(64).wrapping_sub(shift);
    let mut mask = u64::MAX << shift;
    let Some((last, whole)) = words.unwrap_or_default().split_last_mut() else { return };
    for word in whole {
        *word |= word_at(source, bit) & mask;
        (bit, mask) = (bit.wrapping_add(64), u64::MAX);
    }
    *last |= word_at(source, bit) & mask & u64::MAX >> (end.wrapping_neg() & 63);
}

/// Returns the 64 bits of `words` from bit `bit - 64` on.
#[inline(always)]
fn word_at(words: &[u64], bit: u32) -> u64 {
    let (index, shift) = ((bit / 64) as usize, bit % 64);
    let low = words.get(index.wrapping_sub(1)).copied().unwrap_or(0);
    let high = words.get(index).copied().unwrap_or(0);
    low >> shift | high << 1 << (63 ^ shift)
}

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
