//! The memory of an array of bits: one block of the allocator, or two.
//!
//! The allocators of the servers have four sizes of large blocks from one power of two to the next. So a block of any
//! size takes up to a quarter more memory than its words, and an eighth on average. An array of whole pages may have its
//! first words in a block of the largest size that they fill, and the rest in a second block: this takes one to two
//! percent more than the words. docs/decisions/0036 has the measurements.

use std::borrow::Cow;
use std::ops::Range;

use crate::memory::{BlockMover, BlockVisitor, OutOfMemory};

/// The arrangement of an array in blocks of the allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrayForm {
    /// One block.
    Block,
    /// One block, with space for a head before the bits.
    Headed,
    /// One block or two, each of whole pages.
    Pages,
}

/// The sizes of large blocks: multiples of a quarter of the power of two below.
const BLOCKS_PER_DOUBLING: u64 = 4;
/// The first block of two has a multiple of these bytes: 1 MiB, the length of the strings of a snapshot. So each string is
/// in one block, and is saved without a copy.
const FIRST_UNIT_BYTES: u64 = 1 << 20;

impl ArrayForm {
    /// Returns how many of `size_bytes` bytes are in the first block.
    pub(super) fn first_bytes(self, size_bytes: u64) -> u64 {
        if self != Self::Pages || size_bytes < FIRST_UNIT_BYTES {
            return size_bytes;
        }
        let step_bytes = (1 << size_bytes.ilog2()) / BLOCKS_PER_DOUBLING;
        size_bytes - size_bytes % step_bytes.max(FIRST_UNIT_BYTES)
    }
}

/// The blocks of an array.
#[derive(Debug)]
pub(super) enum BitBlocks {
    /// One block.
    One(Box<[u64]>),
    /// Two blocks. They are behind one pointer, because more would make every layer larger.
    Two(Box<[Box<[u64]>; 2]>),
}

const _: () = assert!(size_of::<BitBlocks>() == 16);

impl BitBlocks {
    /// Returns clear words, whose memory is zeroed lazily.
    pub(super) fn try_new(words: usize, form: ArrayForm) -> Result<Self, OutOfMemory> {
        let first_bytes = form.first_bytes((words as u64).saturating_mul(8));
        let first = usize::try_from(first_bytes / 8).map_err(|_| OutOfMemory)?;
        let (first, rest) = (try_zeroed(first)?, try_zeroed(words.saturating_sub(first))?);
        Ok(if rest.is_empty() { Self::One(first) } else { Self::Two(Box::new([first, rest])) })
    }

    /// Returns clear words in equal blocks.
    pub(super) fn try_cleared(&self) -> Result<Self, OutOfMemory> {
        Ok(match self {
            Self::One(words) => Self::One(try_zeroed(words.len())?),
            Self::Two(pieces) => {
                let [first, rest] = &**pieces;
                Self::Two(Box::new([try_zeroed(first.len())?, try_zeroed(rest.len())?]))
            }
        })
    }

    /// Returns the words of the blocks, a head included. The second slice is empty if there is one block.
    #[inline(always)]
    pub(super) fn words(&self) -> [&[u64]; 2] {
        match self {
            Self::One(words) => [words, &[]],
            Self::Two(pieces) => {
                let [first, rest] = &**pieces;
                [first, rest]
            }
        }
    }

    /// Returns the mutable words of the blocks, a head included.
    #[inline(always)]
    pub(super) fn words_mut(&mut self) -> [&mut [u64]; 2] {
        match self {
            Self::One(words) => [words, &mut []],
            Self::Two(pieces) => {
                let [first, rest] = &mut **pieces;
                [first, rest]
            }
        }
    }

    /// Visits the blocks of the allocator.
    pub(super) fn visit_blocks(&self, visitor: &mut impl BlockVisitor) {
        if let Self::Two(pieces) = self {
            visitor.visit(std::slice::from_ref(&**pieces));
        }
        self.words().into_iter().for_each(|words| visitor.visit(words));
    }

    /// Moves the block that the pointers to two blocks are in.
    pub(super) fn move_struct(&mut self, mover: &impl BlockMover) {
        if let Self::Two(pieces) = self {
            mover.move_box(pieces);
        }
    }

    /// Moves the blocks of words.
    pub(super) fn move_words(&mut self, mover: &impl BlockMover) {
        let relocate = |block: &mut Box<[u64]>| {
            // A boxed slice is a vector without spare capacity: the conversion moves nothing.
            let mut words = std::mem::take(block).into_vec();
            mover.move_vec(&mut words);
            *block = words.into_boxed_slice();
        };
        match self {
            Self::One(words) => relocate(words),
            Self::Two(pieces) => pieces.iter_mut().for_each(relocate),
        }
    }
}

fn try_zeroed(words: usize) -> Result<Box<[u64]>, OutOfMemory> {
    bytemuck::try_zeroed_slice_box(words).map_err(|()| OutOfMemory)
}

/// Returns a range of two slices, the second of which continues the first; `None` if they have no such range, or if it is
/// not in one of them.
pub(super) fn in_one([first, rest]: [&[u64]; 2], range: Range<usize>) -> Option<&[u64]> {
    match range.start.checked_sub(first.len()) {
        None => first.get(range),
        Some(start) => rest.get(start..range.end.checked_sub(first.len())?),
    }
}

/// Does [`in_one`] for mutable slices.
pub(super) fn in_one_mut([first, rest]: [&mut [u64]; 2], range: Range<usize>) -> Option<&mut [u64]> {
    match range.start.checked_sub(first.len()) {
        None => first.get_mut(range),
        Some(start) => rest.get_mut(start..range.end.checked_sub(first.len())?),
    }
}

/// Some bytes of an array: a slice, and a second one, mostly empty, that continues it.
#[derive(Clone, Copy, Debug, Default)]
pub struct BitBytes<'b>([&'b [u8]; 2]);

impl<'b> BitBytes<'b> {
    /// Returns the bytes of two slices.
    pub(super) const fn new(slices: [&'b [u8]; 2]) -> Self {
        Self(slices)
    }

    /// Returns the slices, the second of which continues the first.
    #[must_use]
    pub const fn slices(self) -> [&'b [u8]; 2] {
        self.0
    }

    /// Returns the number of bytes.
    #[must_use]
    pub const fn len(self) -> usize {
        let [first, rest] = self.0;
        first.len() + rest.len()
    }

    /// Returns whether there are no bytes.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Returns a range of the bytes, without those after the end. O(1).
    #[must_use]
    pub fn range(self, range: Range<usize>) -> Self {
        let [first, rest] = self.0;
        let end = range.end.min(self.len()).max(range.start);
        let cut = |slice: &'b [u8], before: usize| {
            let (start, end) = (range.start.saturating_sub(before), end.saturating_sub(before));
            slice.get(start.min(slice.len())..end.min(slice.len())).unwrap_or_default()
        };
        Self([cut(first, 0), cut(rest, first.len())])
    }

    /// Returns the bytes in pieces of `most` bytes, and a shorter last one.
    pub fn chunks(self, most: usize) -> impl Iterator<Item = Self> + use<'b> {
        let starts = (0..self.len()).step_by(most.max(1));
        starts.map(move |start| self.range(start..start.saturating_add(most)))
    }

    /// Returns the bytes as one slice. They are copied only if they are in two.
    #[must_use]
    pub fn joined(self) -> Cow<'b, [u8]> {
        match self.0 {
            [bytes, []] | [[], bytes] => Cow::Borrowed(bytes),
            slices => Cow::Owned(slices.concat()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::cast_possible_truncation, reason = "sizes of some MiB")]

    use super::*;
    use crate::bits::BitArray;
    use crate::memory::Memory;

    /// Returns the size of the block that jemalloc allocates for so many bytes.
    fn class(bytes: usize) -> usize {
        bytes.next_multiple_of(((1 << bytes.ilog2()) / 4).max(4096))
    }

    /// Returns the bytes of the blocks of so many pages.
    fn blocks(pages: usize) -> [usize; 2] {
        BitBlocks::try_new(pages * 512, ArrayForm::Pages).unwrap().words().map(|words| words.len() * 8)
    }

    #[test]
    fn two_blocks_take_no_more_memory_than_one() {
        let sizes = (1..2000).chain((2000..50_000).step_by(37));
        let mut shares = Vec::new();
        for pages in sizes {
            let (size_bytes, [first, rest]) = (pages * 4096, blocks(pages));
            assert_eq!(first + rest, size_bytes);
            assert!(rest == 0 || first == class(first), "{pages} pages: {first} bytes do not fill a block");
            assert!(rest == 0 || first.is_multiple_of(1 << 20), "{pages} pages");
            let taken = first + if rest > 0 { class(rest) } else { 0 };
            assert!(taken <= class(size_bytes), "{pages} pages: {taken} bytes");
            if size_bytes >= 4 << 20 {
                shares.push(taken as f64 / size_bytes as f64);
            }
        }
        let mean = shares.iter().sum::<f64>() / shares.len() as f64;
        assert!(mean < 1.015 && shares.iter().all(|share| *share < 1.04), "{mean}");
    }

    #[test]
    fn small_arrays_and_other_forms_have_one_block() {
        assert_eq!(blocks(255), [255 * 4096, 0]);
        assert_eq!(blocks(257), [256 * 4096, 4096]);
        assert_eq!(blocks(768), [768 * 4096, 0]);
        for form in [ArrayForm::Block, ArrayForm::Headed] {
            assert!(matches!(BitBlocks::try_new(1 << 20, form), Ok(BitBlocks::One(_))));
        }
    }

    /// Returns an array of so many bytes in one block, and one in two blocks.
    fn both(size_bytes: u64) -> [BitArray; 2] {
        [ArrayForm::Block, ArrayForm::Pages].map(|form| BitArray::try_new(size_bytes * 8, form).unwrap())
    }

    /// Says that the parts with set bits were written to.
    #[derive(Clone, Copy)]
    struct Written;

    impl Memory for Written {
        fn written_ranges(self, words: &[u64], visit: &mut dyn FnMut(Range<usize>)) {
            let parts = words.chunks(700).enumerate().filter(|(_, part)| part.iter().any(|word| *word != 0));
            parts.for_each(|(number, part)| visit(number * 700..number * 700 + part.len()));
        }
    }

    #[test]
    fn an_array_in_two_blocks_does_what_an_array_in_one_does() {
        // Of the last size, the system is asked which pages were written to.
        for size_bytes in [(1 << 20) + (5 << 12), (3 << 20) + (100 << 12), (5 << 20) + (3 << 12)] {
            let [mut one, mut two] = both(size_bytes);
            let [first, rest] = two.pieces().map(size_of_val);
            assert!(first > 0 && rest > 0 && one.pieces()[1].is_empty());
            let [mut others_one, mut others_two] = both(size_bytes);
            let mut expected = vec![0; size_bytes as usize];
            // Below, over and after the border, and at the end.
            let last = size_bytes as usize - 10;
            for (number, offset) in
                [0, 5000, first - 5000, first - 7, first, first + 1, last].into_iter().enumerate()
            {
                let bytes: Vec<u8> = (0..9_997usize.min(size_bytes as usize - offset))
                    .map(|byte| if byte < 10 || byte % 97 == number { 0x11 << (number % 4) } else { 0 })
                    .collect();
                assert!(one.add_bytes(offset, &bytes) && two.add_bytes(offset, &bytes));
                expected[offset..].iter_mut().zip(&bytes).for_each(|(to, from)| *to |= from);
                assert!(*two.bytes() == expected);
                assert!(!two.add_bytes(last + 1, &[1; 10]));
                assert!(
                    number % 2 == 0
                        || others_one.add_bytes(offset / 2, &bytes)
                            && others_two.add_bytes(offset / 2, &bytes)
                );
                for (one, two) in [(&one, &two), (&others_one, &others_two)] {
                    assert_eq!((one.set_bits(), two.validate()), (two.set_bits(), Ok(())));
                    assert!(one.bytes() == two.bytes() && one.words().eq(two.words()));
                }
                assert!((0..one.size_words() + 2).step_by(61).all(|word| one.word(word) == two.word(word)));
                assert_eq!(one.count_beyond(&others_one), two.count_beyond(&others_two));
                assert_eq!(one.covers(&others_one), two.covers(&others_two));
                assert!(two.covers(&one) && one.covers(&two));
            }
            for most in [4096, 1 << 20, 16 << 20] {
                for start in [0, 1, first - 1, first, size_bytes as usize - 1, size_bytes as usize] {
                    let part = |array: &BitArray| {
                        array.bytes_from(start, most).map(|bytes| bytes.joined().into_owned())
                    };
                    assert!(part(&one) == part(&two), "{start}, {most}");
                }
            }
            let copy = two.try_clone(Written).unwrap();
            assert!(
                copy.bytes() == one.bytes()
                    && copy.pieces().map(<[u64]>::len) == two.pieces().map(<[u64]>::len)
            );
            assert_eq!((copy.validate(), copy.set_bits()), (Ok(()), one.set_bits()));
            let is_clear = |array: &BitArray| {
                let occupancy = array.occupancy(Written);
                let pages = 0..size_bytes as usize / 4096;
                pages.map(|page| occupancy.is_clear(page * 4096..(page + 1) * 4096)).collect::<Vec<_>>()
            };
            assert!(is_clear(&one) == is_clear(&two));
            assert_eq!(is_clear(&two).contains(&true), size_bytes > 4 << 20);
            one.unite(&others_one, Written);
            two.unite(&others_two, Written);
            assert!(
                one.bytes() == two.bytes() && one.set_bits() == two.set_bits() && two.covers(&others_one)
            );
            // Arrays of other forms are united too.
            let [mut again, _] = both(size_bytes);
            again.unite(&two, Written);
            assert!(again.bytes() == two.bytes() && again.validate().is_ok());
        }
    }

    #[test]
    fn ranges_of_bytes_continue_in_the_second_slice() {
        let all: Vec<u8> = (0..100).collect();
        for border in [0, 1, 40, 99, 100] {
            let bytes = BitBytes::new([&all[..border], &all[border..]]);
            for (start, end) in [(0, 100), (0, 0), (39, 41), (40, 41), (5, 300), (100, 101), (300, 400)] {
                let expected = all.get(start..end.min(100)).unwrap_or_default();
                assert_eq!(*bytes.range(start..end).joined(), *expected, "{start}..{end}, {border}");
            }
            for most in [1, 7, 100, 101] {
                let chunks: Vec<_> = bytes.chunks(most).map(BitBytes::joined).collect();
                assert!(chunks.iter().map(|chunk| &**chunk).eq(all.chunks(most)), "{most}, {border}");
            }
        }
    }
}
