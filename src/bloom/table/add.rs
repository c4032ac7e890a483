//! Adding items.

use super::directory::Leftovers;
use super::lookup::{Place, Run, matches};
use super::schedule::BUCKET_BITS;
use super::segment::low_bits;
use super::select::{PortableSelect, Select};
use super::{EntryKind, MASS_BITS, Table, Tally};
use crate::bloom::generation::Generation;
use crate::bloom::hash::ItemHash;
use crate::bloom::outcome::{AddError, Added, ReserveError};
use crate::bloom::room::Room;

/// Most slots of a bucket. One more makes the bucket saturated; if entries are counted, it is refused. Items that
/// nobody crafted fill a bucket with as many slots less than once in 10^20 buckets.
pub(super) const RUN_MAX: u32 = 31;

/// An item that is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addition {
    /// Its hash.
    pub hash: ItemHash,
    /// The generation of its entry, if entries are timed: at most `now` and live then.
    pub added: Generation,
    /// The current generation, if entries are timed.
    pub now: Generation,
    /// Whether an entry that is live keeps its generation.
    pub keeps_generation: bool,
    /// Items of which no more are added: [`Table::distinct_items`]. Plain entries have no such limit.
    pub most_items: u64,
}

impl Table {
    /// Adds an item. O(1); one add in some thousand also splits a segment.
    ///
    /// # Errors
    /// [`AddError`].
    #[inline(always)]
    pub(super) fn add_item(
        &mut self,
        addition: Addition,
        room: &Room<'_>,
        select: impl Select,
    ) -> Result<Added, AddError> {
        match self.kind() {
            EntryKind::Plain => self.add_plain(addition.hash, room, select),
            EntryKind::Counted => self.add_counted(addition, room, select),
            EntryKind::Timed => self.add_timed(addition, room, select),
        }
    }

    #[inline(always)]
    fn add_plain(&mut self, hash: ItemHash, room: &Room<'_>, select: impl Select) -> Result<Added, AddError> {
        let Some((place, segment)) = self.locate(hash) else { return Ok(Added::Present) };
        let run = segment.run(&place, select);
        let mut slots = 0u32;
        if !run.is_empty {
            let mut is_present = false;
            segment.scan(run.start, |slot| {
                is_present = matches(slot, place.key);
                slots = slots.wrapping_add(1);
                !is_present
            });
            if is_present {
                return Ok(Added::Present);
            }
        }
        if slots >= RUN_MAX {
            self.saturate_bucket(&place, 0);
        } else if !self.needs_room(segment, 1) {
            self.insert(&place, run, 0);
        } else {
            self.add_after_making_room(hash, room).map_err(AddError::CannotGrow)?;
        }
        if let Tally::Plain { items, .. } = &mut self.tally {
            *items = items.saturating_add(1);
        }
        Ok(Added::New)
    }

    /// Checks that the table may have one more item.
    ///
    /// # Errors
    /// [`AddError::Full`].
    #[inline(always)]
    pub(super) fn check_items(&self, addition: &Addition) -> Result<(), AddError> {
        let is_full =
            addition.most_items != u64::MAX && self.distinct_items(addition.now) >= addition.most_items;
        if is_full { Err(AddError::Full) } else { Ok(()) }
    }

    /// Makes room for the entry of an item that has none, and adds it.
    #[inline(never)]
    fn add_after_making_room(&mut self, hash: ItemHash, room: &Room<'_>) -> Result<(), ReserveError> {
        let Some((place, _)) = self.locate(hash) else { return Ok(()) };
        self.make_room(place.segment, 1, 0, room)?;
        if let Some((place, segment)) = self.locate(hash) {
            if segment.used() >= segment.used_max() {
                self.saturate_fullest_block(&place, 0);
            }
            self.insert_unless_saturated(hash, 0);
        }
        Ok(())
    }

    /// Adds an entry to a segment that has a free slot, unless the bucket has become saturated.
    pub(super) fn insert_unless_saturated(&mut self, hash: ItemHash, code: u64) {
        let Some((place, segment)) = self.locate(hash) else { return };
        let run = segment.run(&place, PortableSelect);
        let entry_bits = segment.width().wrapping_sub(self.kind().generation_bits());
        let is_saturated =
            !run.is_empty && segment.run_has(run.start, |value| value & low_bits(entry_bits) == 0);
        if !is_saturated {
            self.insert(&place, run, code);
        }
    }

    /// Adds an entry with the longest remainder to a segment that has a free slot. `code` is that of its generation.
    #[inline(always)]
    pub(super) fn insert(&mut self, place: &Place, run: Run, code: u64) {
        let generation_bits = self.kind().generation_bits();
        let Some(segment) = self.directory.get_mut(place.segment) else { return };
        let bits = segment.width().wrapping_sub(generation_bits).wrapping_sub(1);
        let slot = (code << 1 | 1) << (bits & 63) | place.key & low_bits(bits);
        segment.insert(place.block, place.bucket, run.start, slot, run.is_empty);
        self.directory.count_used(1);
        self.gain(place.address_bits, bits);
    }

    /// Adds what an entry with a remainder of this length contributes to the error rate.
    #[inline(always)]
    pub(super) fn gain(&mut self, address_bits: u32, remainder_bits: u32) {
        self.set_mass(self.mass().wrapping_add(weight(address_bits, remainder_bits)));
    }

    /// Counts an entry `times` more among the leftovers, if it is one.
    pub(super) fn count_leftover(&mut self, entry: u64, times: u64) {
        let mut change = Leftovers::default();
        change.count(entry, times);
        self.directory.count_leftovers(change);
    }

    /// Subtracts what an entry with a remainder of this length contributes to the error rate.
    #[inline(always)]
    pub(super) fn lose(&mut self, address_bits: u32, remainder_bits: u32) {
        self.set_mass(self.mass().wrapping_sub(weight(address_bits, remainder_bits)));
    }

    #[inline(always)]
    pub(super) fn mass(&self) -> u128 {
        let [low, high] = self.mass;
        u128::from(low) | u128::from(high) << 64
    }

    #[inline(always)]
    pub(super) fn set_mass(&mut self, mass: u128) {
        self.mass = [mass as u64, (mass >> 64) as u64];
    }
}

/// Returns what an entry with a remainder of this length contributes to the error rate, in units of 2^-[`MASS_BITS`].
#[inline(always)]
pub(super) const fn weight(address_bits: u32, remainder_bits: u32) -> u128 {
    let known = address_bits.wrapping_add(BUCKET_BITS).wrapping_add(remainder_bits);
    1u128.wrapping_shl(MASS_BITS.wrapping_sub(known))
}
