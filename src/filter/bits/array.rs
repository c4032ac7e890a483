//! The bits of a layer.

use std::borrow::Cow;
use std::ops::Range;

use super::head::HEAD_BYTES;
use super::layout::PAGE_WORDS;
use super::occupancy::{Occupancy, PAGE_BYTES, ones};
use super::pieces::{ArrayForm, BitBlocks, BitBytes, in_one_mut};
use crate::memory::{BlockMover, BlockVisitor, Memory, OutOfMemory};
use crate::work::count_slots;

/// Words before the bits of a layer with a head, which ends where the bits begin.
const HEAD_WORDS: usize = HEAD_BYTES.div_ceil(8);

/// An array of bits: words of 64 bits, least significant bit first. As bytes, bit `i` is bit `i % 8` of byte `i / 8`.
///
/// Some arrays have a head of [`HEAD_BYTES`] before the bits, in the same allocation. Another module's format may need a
/// string of its own fields followed by the bits; with the head such an array is written without a copy.
/// Other arrays are in two blocks of the allocator, which takes less memory: see [`ArrayForm`].
#[derive(Debug)]
pub struct BitArray {
    /// The head, if any, and the bits.
    blocks: BitBlocks,
    counts: ArrayCounts,
}

/// Three numbers in one word, because separate words would make every layer larger. From the lowest bit on: whether
/// there is a head, the number of unused bits of the last word, and the number of set bits.
#[derive(Clone, Copy, Debug)]
struct ArrayCounts(u64);

impl ArrayCounts {
    const UNUSED_SHIFT: u32 = 1;
    const SET_SHIFT: u32 = 7;

    /// Returns the counts of an array of clear bits that ends `unused_bits` before the end of its last word.
    const fn new(has_head: bool, unused_bits: u64) -> Self {
        Self((unused_bits % 64) << Self::UNUSED_SHIFT | has_head as u64)
    }

    #[inline(always)]
    const fn has_head(self) -> bool {
        self.0 & 1 == 1
    }

    const fn unused_bits(self) -> u64 {
        (self.0 >> Self::UNUSED_SHIFT) & 63
    }

    #[inline(always)]
    const fn set_bits(self) -> u64 {
        self.0 >> Self::SET_SHIFT
    }

    /// Adds to the number of set bits.
    #[inline(always)]
    const fn add_set(&mut self, more: u64) {
        self.0 = self.0.wrapping_add(more << Self::SET_SHIFT);
    }
}

impl BitArray {
    /// Creates an array of `size_bits` clear bits, and of a head that is clear too, if the form has one. The memory is zeroed
    /// lazily: a large array takes no memory until its bits are set.
    ///
    /// # Errors
    /// [`OutOfMemory`] if an allocation fails.
    pub fn try_new(size_bits: u64, form: ArrayForm) -> Result<Self, OutOfMemory> {
        let has_head = form == ArrayForm::Headed;
        let head_words = if has_head { HEAD_WORDS } else { 0 };
        let size_bits = usize::try_from(size_bits).map_err(|_| OutOfMemory)?;
        let words = size_bits.div_ceil(64).checked_add(head_words).ok_or(OutOfMemory)?;
        let blocks = BitBlocks::try_new(words, form)?;
        let unused_bits = size_bits.wrapping_neg() % 64;
        Ok(Self { blocks, counts: ArrayCounts::new(has_head, unused_bits as u64) })
    }

    /// Makes a copy with its own memory, all of which is allocated first. Pages that are all zero take no memory in the
    /// copy. O(bytes that may be set).
    ///
    /// # Errors
    /// [`OutOfMemory`] if an allocation fails.
    pub fn try_clone(&self, memory: impl Memory) -> Result<Self, OutOfMemory> {
        let mut copy = Self { blocks: self.blocks.try_cleared()?, counts: self.counts };
        for (start, from) in self.occupancy(memory).pages(self.pieces()) {
            count_slots(|| from.len());
            let is_clear = from.iter().all(|word| *word == 0);
            if !is_clear {
                copy.page_mut(start..start + from.len()).copy_from_slice(from);
            }
        }
        if let Some(head) = self.head() {
            copy.set_head(head);
        }
        Ok(copy)
    }

    /// Returns the number of bits. O(1).
    #[must_use]
    pub fn size_bits(&self) -> u64 {
        (self.size_words() as u64).saturating_mul(64).saturating_sub(self.counts.unused_bits())
    }

    /// Returns the number of words. O(1).
    #[must_use]
    pub fn size_words(&self) -> usize {
        self.pieces().into_iter().map(<[u64]>::len).sum()
    }

    /// Returns the number of bytes. O(1).
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.size_bits().div_ceil(8)
    }

    /// Returns the number of set bits. O(1).
    #[must_use]
    #[inline(always)]
    pub fn set_bits(&self) -> u64 {
        self.counts.set_bits()
    }

    /// Adds `more` to the number of set bits.
    #[inline(always)]
    pub(crate) fn count_set(&mut self, more: u64) {
        self.counts.add_set(more);
    }

    /// Returns whether there is space for a head. O(1).
    #[must_use]
    pub const fn has_head(&self) -> bool {
        self.counts.has_head()
    }

    /// Returns the words of the array in one or two pieces: the second one, which may be empty, continues the first one.
    /// If it is not empty, each has whole pages. The bits of the last word after the end are clear.
    #[must_use]
    #[inline(always)]
    pub fn pieces(&self) -> [&[u64]; 2] {
        let [first, rest] = self.blocks.words();
        // A branch that always goes the same way costs less than an offset of zero.
        [if self.has_head() { behind_head(first) } else { first }, rest]
    }

    #[inline(always)]
    pub(crate) fn pieces_mut(&mut self) -> [&mut [u64]; 2] {
        let has_head = self.has_head();
        let [first, rest] = self.blocks.words_mut();
        [if has_head { behind_head_mut(first) } else { first }, rest]
    }

    /// Returns the words in order.
    pub fn words(&self) -> impl DoubleEndedIterator<Item = u64> {
        let [first, rest] = self.pieces();
        first.iter().chain(rest).copied()
    }

    /// Returns the pages of the array in order, and a shorter last one. Each is in one piece.
    pub fn pages(&self) -> impl Iterator<Item = &[u64]> {
        self.pieces().into_iter().flat_map(|piece| piece.chunks(PAGE_WORDS))
    }

    /// Returns a word; `None` past the end. O(1).
    #[must_use]
    pub fn word(&self, index: usize) -> Option<u64> {
        let [first, rest] = self.pieces();
        first.get(index).or_else(|| rest.get(index.checked_sub(first.len())?)).copied()
    }

    /// Returns the mutable words of a page, or of a part of one.
    #[expect(clippy::expect_used, reason = "each piece but the last has whole pages: see `ArrayForm`")]
    fn page_mut(&mut self, range: Range<usize>) -> &mut [u64] {
        in_one_mut(self.pieces_mut(), range).expect("a page in one piece")
    }

    /// Returns the bytes, in the order in which they are saved.
    #[must_use]
    pub fn contents(&self) -> BitBytes<'_> {
        let bytes = BitBytes::new(self.pieces().map(bytemuck::cast_slice));
        bytes.range(0..usize::try_from(self.size_bytes()).unwrap_or(usize::MAX))
    }

    /// Returns the bytes, in the order in which they are saved. Copies them if they are in two pieces.
    #[must_use]
    pub fn bytes(&self) -> Cow<'_, [u8]> {
        self.contents().joined()
    }

    /// Returns the bytes of the head followed by those of the bits; `None` if there is no head.
    #[must_use]
    pub fn head_and_bytes(&self) -> Option<&[u8]> {
        let size_bytes = usize::try_from(self.size_bytes()).ok().filter(|_| self.has_head())?;
        let [words, []] = self.blocks.words() else { return None };
        let bytes: &[u8] = bytemuck::cast_slice(words);
        bytes.get(HEAD_WORDS * 8 - HEAD_BYTES..)?.get(..HEAD_BYTES.checked_add(size_bytes)?)
    }

    /// Returns the head; `None` if there is none.
    #[must_use]
    pub fn head(&self) -> Option<&[u8; HEAD_BYTES]> {
        self.head_and_bytes()?.first_chunk()
    }

    /// Sets the head of an array that has one.
    pub(super) fn set_head(&mut self, head: &[u8; HEAD_BYTES]) {
        debug_assert!(self.has_head(), "an array with a head");
        let [words, _] = self.blocks.words_mut();
        let words = words.first_chunk_mut::<HEAD_WORDS>();
        let place = words.and_then(|words| bytemuck::bytes_of_mut(words).last_chunk_mut());
        if let Some(place) = place {
            *place = *head;
        }
    }

    /// Returns the words of the blocks of the allocator, including the head.
    #[must_use]
    #[inline(always)]
    pub fn allocated_words(&self) -> usize {
        let [first, rest] = self.blocks.words();
        first.len().saturating_add(rest.len())
    }

    /// Visits the blocks of the allocator.
    pub(crate) fn visit_blocks(&self, visitor: &mut impl BlockVisitor) {
        self.blocks.visit_blocks(visitor);
    }

    /// Moves the block that the pointers to two pieces are in, if there is one.
    pub(crate) fn move_struct(&mut self, mover: &impl BlockMover) {
        self.blocks.move_struct(mover);
    }

    /// Moves the blocks of words. Of two, only the second one may be small.
    pub(crate) fn move_words(&mut self, mover: &impl BlockMover) {
        self.blocks.move_words(mover);
    }

    /// Returns which parts may have a set bit.
    #[must_use]
    pub fn occupancy(&self, memory: impl Memory) -> Occupancy {
        Occupancy::of(self.pieces(), self.set_bits(), memory)
    }

    /// Checks that no bit beyond the end is set, and that the number of set bits is correct. O(bytes).
    ///
    /// # Errors
    /// The rule that is broken.
    pub fn validate(&self) -> Result<(), &'static str> {
        let used_bits = self.size_bits() % 64;
        let last = self.words().next_back().filter(|_| used_bits != 0);
        if last.is_some_and(|last| last >> used_bits != 0) {
            return Err("bits beyond the end");
        }
        let set_bits = self.pieces().into_iter().map(ones).sum::<u64>();
        if set_bits == self.set_bits() { Ok(()) } else { Err("set bits") }
    }

    /// Returns the bytes from `offset` on, at most `most_bytes`; `None` past the end. O(1).
    #[must_use]
    pub fn bytes_from(&self, offset: usize, most_bytes: usize) -> Option<BitBytes<'_>> {
        let bytes = self.contents().range(offset..offset.saturating_add(most_bytes));
        (!bytes.is_empty()).then_some(bytes)
    }

    /// Returns whether the array has place for `bytes` from byte `offset` on, and all set bits are inside. O(1).
    #[must_use]
    pub fn takes(&self, offset: usize, bytes: &[u8]) -> bool {
        let Ok(size_bytes) = usize::try_from(self.size_bytes()) else { return false };
        let used_bits = self.size_bits() % 8;
        let end = offset.checked_add(bytes.len()).filter(|end| *end <= size_bytes);
        let is_last = used_bits != 0 && end == Some(size_bytes);
        end.is_some() && !(is_last && bytes.last().is_some_and(|last| last >> used_bits != 0))
    }

    /// Sets, from byte `offset` of the array on, the bits that are set in `bytes`. Skips clear pages of `bytes`, so
    /// that a sparse array takes little memory. Returns false, and changes nothing, if the array does not
    /// [take](Self::takes) them. O(bytes).
    #[must_use]
    pub fn add_bytes(&mut self, offset: usize, bytes: &[u8]) -> bool {
        if !self.takes(offset, bytes) {
            return false;
        }
        let mut new_bits = 0;
        for (target, bytes) in self.targets(offset, bytes) {
            for (to, from) in target.chunks_mut(PAGE_BYTES).zip(bytes.chunks(PAGE_BYTES)) {
                if !is_clear(from) {
                    new_bits += set_page(to, from);
                }
            }
        }
        self.count_set(new_bits);
        true
    }

    /// Returns the bytes of each piece that `bytes` belong to, from byte `offset` of the array on, each with its part of
    /// `bytes`.
    fn targets<'t>(&'t mut self, offset: usize, bytes: &'t [u8]) -> [(&'t mut [u8], &'t [u8]); 2] {
        let [first, rest] = self.pieces_mut().map(bytemuck::cast_slice_mut::<_, u8>);
        let border = first.len();
        let (of_first, of_rest) = bytes.split_at(border.saturating_sub(offset).min(bytes.len()));
        let target = |piece: &'t mut [u8], start: usize, bytes: &'t [u8]| {
            (piece.get_mut(start..start.saturating_add(bytes.len())).unwrap_or_default(), bytes)
        };
        [target(first, offset, of_first), target(rest, offset.saturating_sub(border), of_rest)]
    }

    /// Sets the bits that are set in `other`. An array of another length changes nothing. Does not touch memory for
    /// clear pages of `other`. O(bytes that may be set).
    pub(crate) fn unite(&mut self, other: &Self, memory: impl Memory) {
        if self.size_bits() != other.size_bits() {
            return;
        }
        let mut new_bits = 0;
        for (start, from) in other.occupancy(memory).pages(other.pieces()) {
            let to = self.page_mut(start..start + from.len());
            // First checks whether any bit would be set. Writing to a page copies it while a child saves, and takes
            // memory if the page was never written to.
            let page_bits = beyond(to, from);
            if page_bits > 0 {
                to.iter_mut().zip(from).for_each(|(to, from)| *to |= from);
                new_bits += page_bits;
            }
        }
        self.count_set(new_bits);
    }

    /// Returns how many bits are set in `other` and clear here. `other` must have the same length. O(bytes).
    #[must_use]
    pub(crate) fn count_beyond(&self, other: &Self) -> u64 {
        self.pages().zip(other.pages()).map(|(to, from)| beyond(to, from)).sum()
    }

    /// Returns whether `other` has the same length and all its set bits are set here. Stops at the first one that is
    /// not. O(bytes).
    #[must_use]
    pub(crate) fn covers(&self, other: &Self) -> bool {
        count_slots(|| self.size_words().min(other.size_words()));
        let has_all = |(to, from): (&[u64], &[u64])| to.iter().zip(from).all(|(to, from)| from & !to == 0);
        self.size_bits() == other.size_bits()
            && other.set_bits() <= self.set_bits()
            && self.pages().zip(other.pages()).all(has_all)
    }
}

#[cold]
fn behind_head(words: &[u64]) -> &[u64] {
    words.get(HEAD_WORDS..).unwrap_or_default()
}

/// Returns the mutable words after the head.
#[cold]
fn behind_head_mut(words: &mut [u64]) -> &mut [u64] {
    words.get_mut(HEAD_WORDS..).unwrap_or_default()
}

/// Returns how many bits are set in `from` and clear in `to`. O(words).
fn beyond(to: &[u64], from: &[u64]) -> u64 {
    count_slots(|| from.len());
    to.iter().zip(from).map(|(to, from)| u64::from((from & !to).count_ones())).sum()
}

/// Sets in `to` the bits of `from`, which has the same length. Returns how many of them were clear.
fn set_page(to: &mut [u8], from: &[u8]) -> u64 {
    count_slots(|| from.len() / 8);
    let ((words, rest), (from_words, from_rest)) = (to.as_chunks_mut::<8>(), from.as_chunks::<8>());
    let mut new_bits = 0;
    for (to, from) in words.iter_mut().zip(from_words) {
        let (before, added) = (u64::from_le_bytes(*to), u64::from_le_bytes(*from));
        new_bits += u64::from((added & !before).count_ones());
        *to = (before | added).to_le_bytes();
    }
    for (to, from) in rest.iter_mut().zip(from_rest) {
        new_bits += u64::from((from & !*to).count_ones());
        *to |= from;
    }
    new_bits
}

/// Returns whether no bit is set. Stops at the first set bit. O(bytes).
#[must_use]
pub fn is_clear(bytes: &[u8]) -> bool {
    let (words, rest) = bytes.as_chunks::<8>();
    count_slots(|| words.len());
    words.iter().all(|word| *word == [0; 8]) && rest.iter().all(|byte| *byte == 0)
}
