//! Items a few at a time: those of a command, and those of a packed batch.

use super::group::GROUP_ITEMS;

/// Items in turn. The places of all of them could take more memory than the batch they are cut out of.
pub trait Items<'i> {
    /// Returns the next items, at most [`GROUP_ITEMS`]; none where no more follow.
    fn next_few(&mut self) -> &[&'i [u8]];
}

impl<'i> Items<'i> for &[&'i [u8]] {
    #[inline]
    fn next_few(&mut self) -> &[&'i [u8]] {
        let (few, rest) = self.split_at(self.len().min(GROUP_ITEMS));
        *self = rest;
        few
    }
}
