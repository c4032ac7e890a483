//! The orders in which clients put the bits of a filter into a string: the id of each in our header, and how
//! bits are turned from one order into another.

use crate::bloom::client::BitOrder;

impl BitOrder {
    /// Every order, by id.
    pub const ALL: [Self; 3] = [Self::Msb, Self::Lsb, Self::BigEndianWords];

    /// The id in the format, never 0.
    #[must_use]
    pub const fn id(self) -> u8 {
        self as u8
    }

    /// The order with an id.
    #[must_use]
    pub fn from_id(id: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|order| order.id() == id)
    }

    /// Bytes that come and go together.
    pub(super) const fn unit_bytes(self) -> u64 {
        match self {
            Self::Msb | Self::Lsb => 1,
            Self::BigEndianWords => 8,
        }
    }

    /// Eight bytes of a string, read low byte first, to the word of the bit array, and back: each order
    /// undoes itself.
    const fn swap(self, word: u64) -> u64 {
        match self {
            Self::Msb => word.reverse_bits().swap_bytes(),
            Self::Lsb => word,
            Self::BigEndianWords => word.swap_bytes(),
        }
    }

    /// Rewrites bytes of a string, which start at a multiple of eight, into bytes of a bit array, or back.
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
