//! Timed entries: an item is found until its generation has expired.
//!
//! A slot has the generation modulo 16, its *code*. At most 15 generations are live. A compaction removes the expired
//! entries of a segment, and the stamp of the segment is the generation of its last compaction. As long as no entry is
//! more than one generation newer than the stamp, stamp and code together give the generation of an entry. So a segment
//! is compacted before an entry of a later generation is stored. Lookups and refused adds compact nothing.
//!
//! An add gives a live entry a newer generation only if the entry has the longest remainder of its segment. A shorter
//! entry matches more items, and would never expire if each of them refreshed it.

use super::Table;
use super::add::Addition;
use super::directory::SegmentChanges;
use super::lookup::{RUN_MAX, live_codes, matches, remainder_bits};
use super::resize::SlotDemand;
use super::segment::Segment;
use super::totals::{EntrySums, ItemCounts};
use crate::bloom::generation::{CODES, Generation, is_live};
use crate::bloom::memory::OutOfMemory;
use crate::bloom::outcome::{AddError, Added};
use crate::bloom::room::Room;
use crate::bloom::words::{Select, low_bits};

/// The number of adds between two sweeps. A sweep compacts the next segment in turn, or joins two segments. So the
/// memory of expired entries becomes free also in segments to which no items are added.
const SWEEP_ENTRIES: u64 = 256;

impl Table {
    /// Adds an item to a table of timed entries.
    pub(super) fn add_timed(
        &mut self,
        addition: Addition,
        room: &Room<'_>,
        select: impl Select,
    ) -> Result<Added, AddError> {
        let Addition { hash, generation: added, now, keeps_generation, .. } = addition;
        let code = added % CODES;
        let mut is_room_made = false;
        loop {
            let Some((address, segment)) = self.locate(hash) else { return Ok(Added::Present) };
            let run = segment.run(&address, select);
            let entry_bits = self.entry_bits(segment);
            let (mut slots, mut is_found, mut newest, mut longest) = (0usize, false, added, None);
            if !run.is_empty {
                segment.visit_run(run.start, |at, value| {
                    slots = slots.wrapping_add(1);
                    let (entry, generation) = (value & low_bits(entry_bits), segment.generation(value));
                    newest = newest.max(generation);
                    if matches(entry, address.key) && is_live(generation, now) {
                        is_found = true;
                        if remainder_bits(entry).wrapping_add(1) == entry_bits {
                            longest = Some((at, value));
                        }
                    }
                    true
                });
            }
            let is_newer = longest.is_none_or(|(_, value)| segment.generation(value) < added);
            if is_found && (keeps_generation || !is_newer) {
                // A join shortens entries, so an entry may match now that did not match before. The outcome is `Again`
                // because the table has changed, and replicas must change theirs.
                return Ok(if is_room_made { Added::Again } else { Added::Present });
            }
            if !is_found {
                self.check_items(&addition)?;
            }
            let more = usize::from(longest.is_none() && slots < RUN_MAX);
            let must_sweep = self.stored().wrapping_add(1).is_multiple_of(SWEEP_ENTRIES);
            if !is_room_made && (must_sweep || self.is_stale(segment, now) || self.needs_room(segment, more))
            {
                self.make_room(SlotDemand { segment: address.segment, slots: more, now }, room)
                    .map_err(AddError::CannotGrow)?;
                is_room_made = true;
                continue;
            }
            let moved_from = longest.map(|(_, value)| segment.generation(value));
            match longest {
                Some((at, value)) => {
                    let value = value & low_bits(entry_bits) | code << (entry_bits & 63);
                    if let Some(segment) = self.directory.get_mut(address.segment) {
                        segment.set_slot(at, value);
                    }
                }
                None if slots >= RUN_MAX => self.saturate_bucket(&address, newest % CODES),
                None if segment.used() >= segment.used_max() => {
                    self.saturate_fullest_block(&address, now % CODES);
                    self.insert_unless_saturated(hash, code);
                }
                None => self.insert(&address, run, code),
            }
            if let ItemCounts::Timed { history, stored, .. } = &mut self.counts {
                history.take(moved_from);
                history.add(added);
                *stored = stored.wrapping_add(1);
            }
            return Ok(if is_found { Added::Again } else { Added::New });
        }
    }

    /// Returns how many adds have stored an entry. The number decides when a sweep is due.
    #[inline(always)]
    fn stored(&self) -> u64 {
        if let ItemCounts::Timed { stored, .. } = self.counts { stored } else { 0 }
    }

    /// Returns whether a segment must be compacted before an entry of the generation `now` can be stored in it.
    #[inline(always)]
    pub(super) fn is_stale(&self, segment: &Segment, now: Generation) -> bool {
        segment.stamp.wrapping_add(1) < now
    }

    /// Plans to free the memory of expired entries before an entry is stored in a segment. That segment is compacted if
    /// its last compaction is too old. If a sweep is due, the next segment of the sweep is compacted, or two segments
    /// are joined.
    pub(super) fn plan_expiry(
        &self,
        changes: &mut SegmentChanges,
        demand: SlotDemand,
    ) -> Result<(), OutOfMemory> {
        let SlotDemand { segment: number, slots, now } = demand;
        // A segment that was compacted in the generation before `now` is compacted again only if it is full.
        let stale = now.saturating_sub(1);
        let is_full = changes.segment(self, number).is_some_and(|segment| self.needs_room(segment, slots));
        self.plan_compaction(changes, demand, if is_full { now } else { stale })?;
        let stored = self.stored().wrapping_add(1);
        if !stored.is_multiple_of(SWEEP_ENTRIES) {
            return Ok(());
        }
        let size = self.directory.size();
        let compact = |segment, changes: &mut SegmentChanges| {
            self.plan_compaction(changes, SlotDemand { segment, ..demand }, stale)
        };
        if self.is_too_large(changes.used())
            && let Some(smaller) = size.before_growth()
        {
            // The join reads these two segments. In a table of one segment both are the same.
            compact(size.segments.wrapping_sub(1), changes)?;
            compact(smaller.next_to_grow(), changes)?;
            self.plan_join(changes)?;
        } else {
            compact((stored / SWEEP_ENTRIES % size.segments as u64) as usize, changes)?;
        }
        Ok(())
    }

    /// Advances the newest generation to `now`, and removes all entries that have expired at `now`. O(slots).
    ///
    /// # Errors
    /// [`OutOfMemory`]. Some expired entries may have been removed.
    pub fn advance_to(&mut self, now: Generation) -> Result<(), OutOfMemory> {
        self.counts.advance(now);
        for segment in 0..self.segment_count() {
            let mut changes = SegmentChanges::new(self);
            self.plan_compaction(&mut changes, SlotDemand { segment, slots: 0, now }, now)?;
            changes.commit(self)?;
        }
        Ok(())
    }

    /// Plans to replace a segment by one without its expired entries. The new segment is smaller if the live entries
    /// and the demanded slots fit a smaller shape. Plans nothing if the last compaction was in the generation `before`
    /// or later.
    fn plan_compaction(
        &self,
        changes: &mut SegmentChanges,
        SlotDemand { segment: number, slots, now }: SlotDemand,
        before: Generation,
    ) -> Result<(), OutOfMemory> {
        let Some(segment) = changes.segment(self, number).filter(|segment| segment.stamp < before) else {
            return Ok(());
        };
        let (entry_bits, address_bits) =
            (self.entry_bits(segment), self.directory.size().address_bits(number));
        let (live, mut sums) = (live_codes(segment.stamp, now), EntrySums::default());
        let stays = |_, value: u64| {
            let is_live = live >> (value >> entry_bits) & 1 == 1;
            if !is_live {
                sums.remove(address_bits, value & low_bits(entry_bits));
            }
            is_live
        };
        let shape = |used: usize| {
            let used = used.saturating_add(slots);
            let smaller =
                if used > segment.used_max() { None } else { segment.shape().reduced_for(used, used) };
            smaller.unwrap_or(segment.shape())
        };
        let compacted = self.selected(segment, shape, now, stays)?;
        changes.sums.apply(sums);
        changes.replace(self, number, compacted);
        Ok(())
    }
}
