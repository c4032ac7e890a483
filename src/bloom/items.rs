//! Items that are told a few at a time: those of a batch that nobody has cut up yet.

/// Items in turn. To keep where all of them are could take more room than the batch they are cut out of.
pub trait Items<'i> {
    /// Writes where the next items are to the front of `room`; answers how many. Fewer than there is room for
    /// only where no more follow.
    fn next_few(&mut self, room: &mut [&'i [u8]]) -> usize;
}

impl<'i> Items<'i> for &[&'i [u8]] {
    fn next_few(&mut self, room: &mut [&'i [u8]]) -> usize {
        let (few, rest) = self.split_at(self.len().min(room.len()));
        room.iter_mut().zip(few).for_each(|(place, item)| *place = item);
        *self = rest;
        few.len()
    }
}
