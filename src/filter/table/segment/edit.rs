//! Changing a segment in place: overwriting, inserting and removing a slot, and replacing a run.

use super::read::{BucketRun, OFFSET_BITS, Segment, SlotIndex};
use crate::table::size::{RUN_ENDS_AT, TooFull};
use crate::words::{bits_at, insert_bits, low_bits, set_bits, shift_down};

/// The offset in the second word of a block.
const OFFSET_MASK: u64 = low_bits(OFFSET_BITS);

impl Segment {
    /// Overwrites a slot.
    #[inline(always)]
    pub(crate) fn set_slot(&mut self, at: SlotIndex, value: u64) {
        let (bit, width) = (self.slot_bit(at.index()), self.width.into());
        set_bits(self.block_mut(at.block), bit, width, value);
    }

    /// Inserts a slot at the start of a run.
    #[inline(always)]
    pub(crate) fn insert(&mut self, run: BucketRun, value: u64) -> Result<(), TooFull> {
        if self.used >= self.used_max {
            return Err(TooFull);
        }
        let BucketRun { block: home, bucket, start, is_empty: is_new } = run;
        if is_new && let Some(occupied) = self.block_mut(home).first_mut() {
            *occupied |= 1 << (bucket & 63);
        }
        for block in home..start.block {
            self.raise_offset(block + 1);
        }
        let (mut block, mut carried) = (start.block, self.insert_at(start, value, is_new, 0));
        while let Some((value, is_end)) = carried
            && block < start.block + self.blocks()
        {
            block += 1;
            carried = self.insert_at(SlotIndex::first(block), value, is_end, 1);
        }
        self.used += 1;
        Ok(())
    }

    /// Inserts a slot into a block, at the end of a run or before other slots of it. Adds `raise` to the offset of the block.
    /// Returns the last slot of the block, and whether a run ends with it, if it must move to the next block.
    #[inline(always)]
    fn insert_at(&mut self, at: SlotIndex, value: u64, is_end: bool, raise: u64) -> Option<(u64, bool)> {
        let (slots, width, last) = (u32::from(self.slots), u32::from(self.width), self.last_run_end());
        let (begin, end) = (self.slot_bit(at.index()), self.slot_bit(slots));
        let continues = self.is_continued(at.block);
        let block = self.block_mut(at.block);
        let [_, low, high, ..] = &mut *block else { return None };
        assert!(*low & OFFSET_MASK <= OFFSET_MASK - raise, "the offset of a block");
        let raw = u128::from(*low + raise) | u128::from(*high) << 64;
        let has_last_end = raw & last != 0;
        // The run ends from this slot on move up by one slot: a bit that is added to itself does.
        let bit = run_end(at.index());
        let moved = (raw & !last) + (raw & (last - 1) & !(bit - 1));
        let moved = if is_end { moved | bit } else { moved };
        (*low, *high) = (moved as u64, (moved >> 64) as u64);
        if !continues && !has_last_end {
            let end = (used_slots(raw, last) + 1) * width + (RUN_ENDS_AT + slots);
            insert_bits(block, begin, end, width, value);
            return None;
        }
        let carried = bits_at(block, end - width, width);
        insert_bits(block, begin, end, width, value);
        Some((carried, has_last_end))
    }

    /// Returns whether the runs of a block, or of those before it, continue in the next block.
    #[inline(always)]
    fn is_continued(&self, block: usize) -> bool {
        self.block_mask() > 0 && self.header(block + 1).offset > 0
    }

    /// Returns the bit for the run end of the last slot of a block.
    #[inline(always)]
    fn last_run_end(&self) -> u128 {
        // A segment without memory has no slot.
        run_end(u32::from(self.slots.max(1)) - 1)
    }

    /// Makes the offset of a block larger by one. The check finds a broken segment before its run ends change.
    #[inline(always)]
    fn raise_offset(&mut self, block: usize) {
        if let Some(word) = self.block_mut(block).get_mut(1) {
            assert!(*word & OFFSET_MASK != OFFSET_MASK, "the offset of a block");
            *word += 1;
        }
    }

    /// Does the opposite of [`raise_offset`](Self::raise_offset).
    #[inline(always)]
    fn lower_offset(&mut self, block: usize) {
        if let Some(word) = self.block_mut(block).get_mut(1) {
            assert!(*word & OFFSET_MASK != 0, "the offset of a block");
            *word -= 1;
        }
    }

    /// Replaces the slots of a run, which has `before` slots.
    pub(crate) fn replace_run(
        &mut self,
        run: BucketRun,
        before: usize,
        slots: &[u64],
    ) -> Result<(), TooFull> {
        if self.used() - before + slots.len() > self.used_max() {
            return Err(TooFull);
        }
        for _ in slots.len()..before {
            self.remove_first(run);
        }
        for slot in before..slots.len() {
            self.insert(BucketRun { is_empty: slot == 0, ..run }, 0)?;
        }
        let mut at = run.start;
        for value in slots {
            self.set_slot(at, *value);
            at = self.next(at);
        }
        Ok(())
    }

    /// Removes the slot of a run that has `index` slots before it.
    #[inline(always)]
    pub(crate) fn remove(&mut self, run: BucketRun, index: u32) {
        // The slots before it move up by one, so that the first one can be removed.
        let mut at = run.start;
        let mut before = self.slot(at);
        for _ in 0..index {
            at = self.next(at);
            let value = std::mem::replace(&mut before, self.slot(at));
            self.set_slot(at, value);
        }
        self.remove_first(run);
    }

    /// Returns the value of a slot.
    #[inline(always)]
    fn slot(&self, at: SlotIndex) -> u64 {
        bits_at(self.block(at.block), self.slot_bit(at.index()), self.width.into())
    }

    /// Removes the first slot of a run.
    #[inline(always)]
    fn remove_first(&mut self, run: BucketRun) {
        let BucketRun { block: home, bucket, start, .. } = run;
        if self.is_run_end(start)
            && let Some(occupied) = self.block_mut(home).first_mut()
        {
            *occupied &= !(1 << (bucket & 63));
        }
        for block in home..start.block {
            self.lower_offset(block + 1);
        }
        let (slots, width, last) = (u32::from(self.slots), u32::from(self.width), self.last_run_end());
        let (mut at, last_block) = (start, start.block + self.blocks());
        while at.block <= last_block {
            let next = SlotIndex::first(at.block + 1);
            let is_full = self.is_continued(at.block);
            let (begin, end) = (self.slot_bit(at.index()), self.slot_bit(slots));
            let carried = if is_full { self.slot(next) } else { 0 };
            let is_end = is_full && self.is_run_end(next);
            let block = self.block_mut(at.block);
            let [_, low, high, ..] = &mut *block else { return };
            let raw = u128::from(*low) | u128::from(*high) << 64;
            // The run ends above this slot move down by one slot.
            let below = run_end(at.index()) - 1;
            let ends = raw & (last | (last - 1)) & !below;
            let moved = raw & !ends | ends >> 1 & !below;
            let moved = if is_end { moved | last } else { moved };
            (*low, *high) = (moved as u64, (moved >> 64) as u64);
            shift_down(block, begin, end, width);
            if !is_full {
                break;
            }
            set_bits(block, end - width, width, carried);
            self.lower_offset(next.block);
            at = next;
        }
        self.used -= 1;
    }
}

/// Returns the bit for the run end of a slot in the second and third word of its block.
#[inline(always)]
fn run_end(index: u32) -> u128 {
    1 << ((OFFSET_BITS + index) & 127)
}

/// Returns how many slots of a block are in use, up to the last run end. `raw` is its second and third word.
#[inline(always)]
fn used_slots(raw: u128, last: u128) -> u32 {
    let ends = (raw & (last | (last - 1))) >> OFFSET_BITS;
    128 - ends.leading_zeros()
}
