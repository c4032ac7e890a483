//! How bits are turned from one order of a client's string into another.

use crate::bloom::policy::BitOrder;

impl BitOrder {
    /// Returns eight bytes of a string, read low byte first, as the word of the bits, and back: each order undoes itself.
    const fn swap(self, word: u64) -> u64 {
        match self {
            Self::Msb => word.reverse_bits().swap_bytes(),
            Self::Lsb => word,
            Self::BigEndianWords => word.swap_bytes(),
        }
    }

    /// Rewrites bytes of a string, which start at a multiple of eight, into bytes of bits, or back.
    /// Bytes beyond `to` or `from`, the shorter of the two, are left alone.
    pub(super) fn copy(self, from: &[u8], to: &mut [u8]) {
        let rewritten = |bytes: [u8; 8]| self.swap(u64::from_le_bytes(bytes)).to_le_bytes();
        let whole_bytes = from.len().min(to.len()) / 8 * 8;
        let ((from, last_from), (to, last_to)) = (from.split_at(whole_bytes), to.split_at_mut(whole_bytes));
        let (from, to) = (from.as_chunks().0, to.as_chunks_mut().0);
        to.iter_mut().zip(from).for_each(|(to, from)| *to = rewritten(*from));
        // One word more, where either of the two does not end with a whole one.
        let mut word = [0; 8];
        word.iter_mut().zip(last_from).for_each(|(to, from)| *to = *from);
        if !last_from.is_empty() {
            last_to.iter_mut().zip(rewritten(word)).for_each(|(to, from)| *to = from);
        }
    }
}
