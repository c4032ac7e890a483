//! Bits that come as bytes, from a file or another server.

use super::array::Bits;

impl Bits {
    /// Sets the bits that are set in `data`, whose first byte stands for byte `offset` of the array; bits
    /// that are set already stay so. Answers false, changing nothing, when the data do not fit or have a bit
    /// set beyond the last of the array. Memory behind clear pages of `data` is not touched, so a sparse
    /// array stays cheap. O(bytes).
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

const _: () = assert!(PAGE_BYTES.is_multiple_of(64), "a page is whole lines");
