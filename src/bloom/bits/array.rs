//! A bit array of fixed length that counts its set bits as it sets them.

use bitvec::prelude::{BitBox, BitSlice, Lsb0};

use super::count::Count;
use crate::bloom::memory::OutOfMemory;

/// Bits in words of 64, least significant first; seen as bytes, bit `i` is bit `i % 8` of byte `i / 8`.
///
/// Some arrays have room for a head in front, of [`HEAD_BYTES`](super::HEAD_BYTES) in the same allocation:
/// where another module writes an array behind fields of its own as one string, such an array is written
/// without a copy.
#[derive(Debug)]
pub struct Bits {
    /// The head, if there is one, and the bits.
    pub(super) bits: BitBox<u64, Lsb0>,
    pub(super) count: Count,
}

impl Bits {
    /// An array of `size_bits` clear bits. The memory is zeroed lazily: a large array costs nothing until its
    /// bits are set.
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
        if self.count.has_head() { all.saturating_sub(Count::HEAD_BITS) } else { all }
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
        self.count.behind_head(self.bits.as_raw_slice())
    }

    pub(super) fn words_mut(&mut self) -> &mut [u64] {
        self.count.behind_head_mut(self.bits.as_raw_mut_slice())
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

    /// The bits, to be looked at one by one, counted or searched where that need not be fast.
    #[must_use]
    pub fn view(&self) -> &BitSlice<u64, Lsb0> {
        self.bits.get(self.count.head_words() * 64..).unwrap_or_default()
    }

    /// Whether bit `position` is set; false for a position outside the array.
    #[must_use]
    pub fn get(&self, position: u64) -> bool {
        usize::try_from(position).ok().and_then(|index| self.view().get(index)).is_some_and(|bit| *bit)
    }

    /// Sets bit `position`; answers whether it was clear before. A position outside the array changes
    /// nothing.
    pub fn set(&mut self, position: u64) -> bool {
        // A store makes the line dirty (write-back, copy-on-write while a child saves): only where it
        // changes.
        let is_clear = position < self.len() && !self.get(position);
        if is_clear && let Ok(index) = usize::try_from(position) {
            self.bits.set(self.count.head_words() * 64 + index, true);
            self.count.add(1);
        }
        is_clear
    }
}

/// The first `size_bits` bits of `words`, in the same allocation.
pub(super) fn cut(words: Box<[u64]>, size_bits: usize) -> BitBox<u64, Lsb0> {
    let mut bits = BitBox::from_boxed_slice(words).into_bitvec();
    bits.truncate(size_bits);
    bits.into_boxed_bitslice()
}

#[cfg(test)]
mod tests {
    use super::super::HEAD_BYTES;
    use super::*;
    use crate::bloom::memory::UnknownMemory;
    use crate::bloom::storage::Storage;

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
                    assert_eq!(bits.allocation().len(), bits.words().len() + HEAD_BYTES / 8);
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
        bits.relocate(&mut |words| words);
        assert_eq!(bits.words().as_ptr(), before);
        bits.relocate(&mut |words| words.to_vec().into_boxed_slice());
        assert!(bits.get(1103) && bits.len() == 1104 && bits.set_bits() == 1);
    }

    #[test]
    fn an_array_larger_than_memory_is_refused() {
        assert!(Bits::try_zeroed(u64::MAX).is_err());
        assert!(Bits::try_zeroed(1 << 62).is_err());
    }
}
