//! A bit array of fixed length that counts its set bits as it sets them.

use std::ops::Range;

use bitvec::prelude::{BitBox, Lsb0};

use super::memory::Memory;
use super::occupancy::{BLOCK_WORDS, Occupancy};
use super::prefetch::Prefetch;

/// The allocator had no room for an array of the asked size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory;

/// Words in front of an array that has a head.
const HEAD_WORDS: usize = 6;
/// Bytes that fit in front of an array that has a head.
pub const HEAD_BYTES: usize = HEAD_WORDS * 8;

/// Bits in words of 64, least significant first; seen as bytes, bit `i` is bit `i % 8` of byte `i / 8`.
///
/// Some arrays have room for a head in front, of [`HEAD_BYTES`] in the same allocation: where another module writes an
/// array behind fields of its own as one string, such an array is written without a copy.
#[derive(Debug)]
pub struct Bits {
    /// The head, if there is one, and the bits.
    bits: BitBox<u64, Lsb0>,
    count: Count,
}

/// The number of set bits, and in the lowest bit whether there is a head: a word of its own would make every filter larger.
#[derive(Clone, Copy, Debug)]
struct Count(u64);

impl Count {
    fn of(set_bits: u64, has_head: bool) -> Self {
        Self(set_bits << 1 | u64::from(has_head))
    }

    fn set_bits(self) -> u64 {
        self.0 >> 1
    }

    fn has_head(self) -> bool {
        self.0 & 1 == 1
    }

    /// Words in front of the bits.
    fn head_words(self) -> usize {
        if self.has_head() { HEAD_WORDS } else { 0 }
    }

    fn add(&mut self, new_bits: u64) {
        self.0 += new_bits << 1;
    }
}

impl Bits {
    /// An array of `size_bits` clear bits. The memory is zeroed lazily: a large array costs nothing until its bits
    /// are set.
    ///
    /// # Errors
    /// [`OutOfMemory`] when the allocator refuses; nothing is allocated then.
    pub fn try_zeroed(size_bits: u64) -> Result<Self, OutOfMemory> {
        Self::try_zeroed_behind(size_bits, false)
    }

    /// As [`try_zeroed`](Self::try_zeroed), with or without room for a head.
    ///
    /// # Errors
    /// As there.
    pub fn try_zeroed_behind(size_bits: u64, has_head: bool) -> Result<Self, OutOfMemory> {
        let count = Count::of(0, has_head);
        let size_bits = usize::try_from(size_bits).map_err(|_| OutOfMemory)?;
        let words = size_bits.div_ceil(64).checked_add(count.head_words()).ok_or(OutOfMemory)?;
        let words = bytemuck::try_zeroed_slice_box(words).map_err(|()| OutOfMemory)?;
        Ok(Self { bits: cut(words, size_bits.saturating_add(count.head_words() * 64)), count })
    }

    /// Number of bits.
    #[must_use]
    pub fn len(&self) -> u64 {
        let all = self.bits.len() as u64;
        if self.count.has_head() { all.saturating_sub(HEAD_WORDS as u64 * 64) } else { all }
    }

    /// Whether the array has no bits at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of bytes.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.len().div_ceil(8)
    }

    /// Number of set bits, O(1).
    #[must_use]
    pub fn set_bits(&self) -> u64 {
        self.count.set_bits()
    }

    /// The whole allocation.
    #[must_use]
    pub fn allocation(&self) -> &[u64] {
        self.bits.as_raw_slice()
    }

    /// The words of the array; bits of the last one beyond the end are clear.
    #[must_use]
    pub fn words(&self) -> &[u64] {
        // A branch that is always taken the same way costs less than what an offset of zero would.
        let words = self.bits.as_raw_slice();
        if self.count.has_head() { words.get(HEAD_WORDS..).unwrap_or(&[]) } else { words }
    }

    fn words_mut(&mut self) -> &mut [u64] {
        let words = self.bits.as_raw_mut_slice();
        if self.count.has_head() { words.get_mut(HEAD_WORDS..).unwrap_or(&mut []) } else { words }
    }

    /// The bytes of the array, in the order of docs/formats.md.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        let bytes: &[u8] = bytemuck::cast_slice(self.words());
        usize::try_from(self.size_bytes()).ok().and_then(|size| bytes.get(..size)).unwrap_or(bytes)
    }

    /// The bytes of the array behind those of `head`; nothing where there is no room for them.
    pub fn bytes_behind(&mut self, head: &[u8]) -> Option<&[u8]> {
        let head_bytes = self.count.head_words() * 8;
        let start = head_bytes.checked_sub(head.len())?;
        let end = head_bytes.checked_add(usize::try_from(self.size_bytes()).ok()?)?;
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(self.bits.as_raw_mut_slice());
        bytes.get_mut(start..head_bytes)?.copy_from_slice(head);
        bytes.get(start..end)
    }

    /// Whether bit `position` is set; false for a position outside the array.
    #[must_use]
    pub fn get(&self, position: u64) -> bool {
        self.reader().get(position)
    }

    /// The array for many reads in a row.
    #[must_use]
    pub fn reader(&self) -> Reader<'_> {
        Reader(self.words())
    }

    /// Sets bit `position`; answers whether it was clear before. A position outside the array changes nothing.
    pub fn set(&mut self, position: u64) -> bool {
        if position >= self.len() {
            return false;
        }
        let Some(word) = self.words_mut().get_mut(word_index(position)) else { return false };
        let mask = 1 << (position % 64);
        let was_clear = *word & mask == 0;
        // A store makes the line dirty (write-back, copy-on-write while a child saves): only where it changes.
        if was_clear {
            *word |= mask;
            self.count.add(1);
        }
        was_clear
    }

    /// The whole pages of the array.
    #[must_use]
    pub(super) fn pages(&self) -> &[[u64; PAGE_WORDS]] {
        self.words().as_chunks().0
    }

    /// Sets the bits at `positions`, all of them inside the array, as many times [`set`](Self::set); answers how many
    /// were clear before.
    ///
    /// Whether a bit of a half-full array is set is a coin toss, and a branch on it is mispredicted every other time:
    /// so some are looked at before the first branch, and if one is clear all are set without asking.
    pub fn set_all(&mut self, positions: impl Iterator<Item = u64> + Clone) -> u32 {
        let (reader, mut seen) = (self.reader(), positions.clone());
        if reader.all_set_at_hand(seen.by_ref().take(TELLING_PROBES)) && reader.all_set_at_hand(seen) {
            return 0;
        }
        let size_bits = self.len();
        let words = self.words_mut();
        let mut new_bits = 0;
        for position in positions {
            debug_assert!(position < size_bits, "position {position} of {size_bits}");
            if let Some(word) = words.get_mut(word_index(position)) {
                new_bits += u32::from(*word >> (position % 64) & 1 == 0);
                *word |= 1 << (position % 64);
            }
        }
        self.count.add(new_bits.into());
        new_bits
    }

    /// Lets `update` set bits of whole pages, and count those that were clear.
    pub(super) fn update_pages(&mut self, update: impl FnOnce(&mut [[u64; PAGE_WORDS]]) -> u32) -> u32 {
        let new_bits = update(self.words_mut().as_chunks_mut().0);
        self.count.add(new_bits.into());
        new_bits
    }

    /// Asks for the memory of bit `position` ahead of its use.
    pub fn prefetch(&self, position: u64, prefetch: impl Prefetch) {
        if let Some(word) = self.words().get(word_index(position)) {
            prefetch.prefetch(word);
        }
    }

    /// Asks for the memory of those of the `positions` that have an index in `part`.
    pub(super) fn prefetch_each(
        &self,
        mut positions: impl Iterator<Item = u64>,
        part: Range<u32>,
        prefetch: impl Prefetch,
    ) {
        // By hand: `skip` would ask for every element whether it is still to be skipped.
        for _ in 0..part.start {
            let _ = positions.next();
        }
        positions.take(part.len()).for_each(|position| self.prefetch(position, prefetch));
    }

    /// Sets the bits that are set in `data`, whose first byte stands for byte `offset` of the array; bits that are set
    /// already stay so. Answers false, changing nothing, when the data do not fit or have a bit set beyond the last of
    /// the array. Memory behind clear pages of `data` is not touched, so a sparse array stays cheap. O(bytes).
    #[must_use]
    pub fn add_bytes(&mut self, offset: usize, data: &[u8]) -> bool {
        let Ok(size_bytes) = usize::try_from(self.size_bytes()) else { return false };
        let used_bits = self.len() % 8;
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(self.words_mut());
        let end = offset.checked_add(data.len()).filter(|end| *end <= size_bytes);
        if used_bits != 0 && end == Some(size_bytes) && data.last().is_some_and(|last| last >> used_bits != 0)
        {
            return false;
        }
        let Some(target) = end.and_then(|end| bytes.get_mut(offset..end)) else { return false };
        let mut new_bits = 0;
        for (to, from) in target.chunks_mut(PAGE_BYTES).zip(data.chunks(PAGE_BYTES)) {
            if !is_clear(from) {
                new_bits += add_page(to, from);
            }
        }
        self.count.add(new_bits);
        true
    }

    /// A copy of the array that, like the original, has no memory behind pages that are all zero. O(bytes that may be
    /// set, as far as is known).
    ///
    /// # Errors
    /// [`OutOfMemory`] when the allocator refuses.
    pub fn try_clone(&self, memory: impl Memory) -> Result<Self, OutOfMemory> {
        let mut copy = Self::try_zeroed_behind(self.len(), self.count.has_head())?;
        let occupancy = Occupancy::of(self, memory);
        let blocks = self.words().chunks(BLOCK_WORDS);
        for (number, (to, from)) in copy.words_mut().chunks_mut(BLOCK_WORDS).zip(blocks).enumerate() {
            if occupancy.is_clear_block(number) {
                continue;
            }
            for (to, from) in to.chunks_mut(PAGE_WORDS).zip(from.chunks(PAGE_WORDS)) {
                if from.iter().any(|word| *word != 0) {
                    to.copy_from_slice(from);
                }
            }
        }
        copy.count = self.count;
        Ok(copy)
    }

    /// Lets `relocate` move the allocation, as active defragmentation does; it must give back the same words.
    pub fn relocate(&mut self, relocate: impl FnOnce(Box<[u64]>) -> Box<[u64]>) {
        let size_bits = self.bits.len();
        let words = std::mem::take(&mut self.bits).into_boxed_slice();
        self.bits = cut(relocate(words), size_bits);
    }
}

/// The words of a bit array, found once for many reads.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a>(&'a [u64]);

/// Bits that tell most new items: in a full array seven of eight.
const TELLING_PROBES: usize = 3;

impl Reader<'_> {
    /// As [`Bits::get`]: bits beyond the end of the last word are clear.
    #[must_use]
    pub fn get(self, position: u64) -> bool {
        self.bit(position) & 1 == 1
    }

    /// Whether the bits at `positions` are all set. Ends at the first that is not, so it waits for no more memory than
    /// it needs.
    #[must_use]
    pub fn all_set(self, mut positions: impl Iterator<Item = u64>) -> bool {
        positions.all(|position| self.get(position))
    }

    /// As [`all_set`](Self::all_set), for a few dozen bits at most that are in the caches or on their way there: then a
    /// branch per bit, mispredicted as often as the filter is full, costs more than looking at all of them.
    #[must_use]
    pub fn all_set_at_hand(self, positions: impl Iterator<Item = u64>) -> bool {
        positions.fold(1, |set, position| set & self.bit(position)) & 1 == 1
    }

    /// The bit in the lowest place, others above it.
    fn bit(self, position: u64) -> u64 {
        self.0.get(word_index(position)).map_or(0, |word| word >> (position % 64))
    }
}

/// Index of the word that holds the bit; beyond every array for a position that no array of this machine has.
fn word_index(position: u64) -> usize {
    usize::try_from(position / 64).unwrap_or(usize::MAX)
}

/// The first `size_bits` bits of `words`, in the same allocation.
fn cut(words: Box<[u64]>, size_bits: usize) -> BitBox<u64, Lsb0> {
    let mut bits = BitBox::from_boxed_slice(words).into_bitvec();
    bits.truncate(size_bits);
    bits.into_boxed_bitslice()
}

/// Bytes of a memory page, the unit in which large arrays are laid out.
pub const PAGE_BYTES: usize = 4096;
/// Words of 64 bits in a page.
pub const PAGE_WORDS: usize = PAGE_BYTES / 8;

/// Sets in `to` the bits of `from`, which is as long; answers how many were clear before.
fn add_page(to: &mut [u8], from: &[u8]) -> u64 {
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

/// Whether no bit is set. Ends at the first that is.
#[must_use]
pub fn is_clear(bytes: &[u8]) -> bool {
    let (words, rest) = bytes.as_chunks::<8>();
    words.iter().all(|word| *word == [0; 8]) && rest.iter().all(|byte| *byte == 0)
}

#[cfg(test)]
mod tests {
    use super::super::memory::UnknownMemory;
    use super::*;

    #[test]
    fn an_array_has_the_asked_bits_and_counts_what_it_sets() {
        for size_bits in [8u64, 64, 72, 1104, 4096 * 8 * 3 + 8] {
            let mut bits = Bits::try_zeroed(size_bits).unwrap();
            assert_eq!((bits.len(), bits.bytes().len() as u64), (size_bits, size_bits / 8));
            assert!(bits.set(size_bits - 1) && !bits.set(size_bits - 1) && !bits.set(size_bits));
            assert!(bits.get(size_bits - 1) && !bits.get(0) && !bits.get(size_bits));
            assert_eq!(bits.set_bits(), 1);
            assert_eq!(bits.try_clone(UnknownMemory).unwrap().bytes(), bits.bytes());
            assert!(
                !bits.add_bytes(0, &vec![0; bits.bytes().len() + 1]) && !bits.add_bytes(usize::MAX, &[0])
            );
            assert!(bits.add_bytes(0, &vec![0; bits.bytes().len()]));
            assert_eq!(bits.set_bits(), 1);
        }
    }

    #[test]
    fn an_array_behind_a_head_is_as_any_other_and_one_string_with_it() {
        for size_bits in [8u64, 72, 4096 * 8 * 3 + 8] {
            let mut bits = Bits::try_zeroed_behind(size_bits, true).unwrap();
            let mut plain = Bits::try_zeroed(size_bits).unwrap();
            for bits in [&mut bits, &mut plain] {
                assert!(bits.set(size_bits - 1) && bits.set(0) && !bits.set(size_bits));
                assert_eq!(bits.set_all([1, 3].into_iter()), 2);
                assert!(!bits.add_bytes(bits.bytes().len(), &[1]) && bits.add_bytes(0, &[0x10]));
            }
            for head in [&b""[..], b"head", &[0xFF; HEAD_BYTES]] {
                let both = [head, plain.bytes()].concat();
                assert_eq!(bits.bytes_behind(head).unwrap(), both);
                let mut copy = bits.try_clone(UnknownMemory).unwrap();
                assert_eq!(copy.bytes_behind(head).unwrap(), both);
                for bits in [&bits, &copy] {
                    assert_eq!((bits.len(), bits.set_bits(), bits.words()), (size_bits, 5, plain.words()));
                    assert_eq!(bits.allocation().len(), bits.words().len() + HEAD_WORDS);
                }
            }
            assert_eq!(bits.bytes_behind(&[0; HEAD_BYTES + 1]), None);
            assert_eq!(plain.bytes_behind(b"head"), None);
        }
    }

    #[test]
    fn relocation_keeps_the_bits_and_cutting_keeps_the_allocation() {
        let mut bits = Bits::try_zeroed(1104).unwrap();
        bits.set(1103);
        let before = bits.words().as_ptr();
        bits.relocate(|words| words);
        assert_eq!(bits.words().as_ptr(), before);
        bits.relocate(|words| words.to_vec().into_boxed_slice());
        assert!(bits.get(1103) && bits.len() == 1104 && bits.set_bits() == 1);
    }

    #[test]
    fn an_array_larger_than_memory_is_refused() {
        assert!(Bits::try_zeroed(u64::MAX).is_err());
        assert!(Bits::try_zeroed(1 << 62).is_err());
    }
}
