//! Adding the entries of one table to another, in a merge or from the parts of a dump.
//!
//! An entry of another table may have more or fewer bits of the hash than the entries of this one. A longer remainder
//! is cut to the length of remainders here. An entry with fewer bits than an address is copied to every address that it
//! matches.

use super::counted::{COUNT_MAX, CountedEntry};
use super::lookup::{BucketAddress, RUN_MAX, RunSlots, matches, remainder_bits};
use super::resize::SlotDemand;
use super::segment::Segment;
use super::size::BUCKET_BITS;
use super::totals::{AddedEntry, EntrySums};
use super::{EntryKind, Table};
use crate::bloom::generation::{Generation, is_live};
use crate::bloom::hash::ItemHash;
use crate::bloom::outcome::AddError;
use crate::bloom::room::Room;
use crate::bloom::words::{PortableSelect, low_bits};

/// The most copies that one merge, or one call of `Table::add_parts`, may make of entries with fewer bits than an
/// address. A large chunk of a dump has as many entries. Within this limit, a table of 10^9 items can take every table
/// that was not crafted.
pub(super) const COPIES_MAX: u64 = 1 << 22;

/// An entry: the bits of an item's hash that a table has stored, with its count or generation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// The number of the bucket in its block.
    pub bucket: u8,
    /// How many bits of the hash are known, besides those that choose the bucket.
    pub known_bits: u8,
    /// The known bits. They are the lowest bits of the hash.
    pub known: u128,
    /// How often the item was added, if entries are counted; otherwise 1.
    pub count: u64,
    /// The generation in which the item was added, if entries are timed; otherwise 0.
    pub generation: Generation,
}

impl Entry {
    /// Returns the hash of an item that the entry matches. All unknown bits are clear.
    fn hash(&self) -> ItemHash {
        let h2 = (self.known >> 64) as u64 | u64::from(self.bucket) << (64 - BUCKET_BITS);
        ItemHash { h1: self.known as u64, h2 }
    }

    /// Returns the two entries with one more known bit that together match the same items.
    fn halves(&self) -> [Self; 2] {
        [0, 1].map(|bit| Self {
            known: self.known | bit << (self.known_bits & 127),
            known_bits: self.known_bits.wrapping_add(1),
            ..*self
        })
    }
}

/// How the count of an added entry changes that of an equal entry in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counting {
    /// The counts are added, as in a merge of two filters.
    Sum,
    /// The larger count remains, because a dump may have the same entry twice.
    Larger,
}

impl Table {
    /// Visits the entries of a segment, in the order of its blocks. O(slots).
    pub fn visit_segment(&self, number: usize, mut visit: impl FnMut(Entry)) {
        if let Some(segment) = self.directory.get(number) {
            let depth = self.directory.size().depth_of(number);
            self.visit_entries(segment, number, depth, &mut visit);
        }
    }

    /// Visits the entries of a segment with this number and depth. The segment may belong to another table.
    pub(super) fn visit_entries(
        &self,
        segment: &Segment,
        number: usize,
        depth: u32,
        visit: &mut impl FnMut(Entry),
    ) {
        for block in 0..segment.blocks() {
            let mut last = None::<Entry>;
            self.visit_slots(segment, block, |bucket, value, is_entry| {
                if is_entry {
                    last.take().into_iter().for_each(&mut *visit);
                    let entry = self.entry(segment, value, (number, depth), block);
                    last = Some(Entry { bucket: bucket as u8, ..entry });
                } else if let Some(last) = &mut last {
                    // A count is two slots: zero, and the count minus two. The second slot sets the right count.
                    last.count = value.saturating_add(2);
                }
            });
            last.into_iter().for_each(&mut *visit);
        }
    }

    /// Returns the entry of a slot in a block of a segment with this number and depth. The bucket and the count are not
    /// set.
    pub(super) fn entry(
        &self,
        segment: &Segment,
        value: u64,
        (number, depth): (usize, u32),
        block: usize,
    ) -> Entry {
        let address_bits = depth.wrapping_add(segment.blocks_log());
        let address = number as u128 | (block as u128) << depth;
        let entry = value & low_bits(self.entry_bits(segment));
        let bits = remainder_bits(entry);
        Entry {
            bucket: 0,
            known_bits: address_bits.wrapping_add(bits) as u8,
            known: address | u128::from(entry & low_bits(bits)) << address_bits,
            count: 1,
            generation: if self.kind() == EntryKind::Timed { segment.generation(value) } else { 0 },
        }
    }

    /// Returns whether the entries of another table need at most [`COPIES_MAX`] copies here, so that adding them takes
    /// bounded time. O(entries).
    #[must_use]
    pub fn can_take(&self, source: &Self) -> bool {
        let mut copies = 0u64;
        for number in 0..source.segment_count() {
            source.visit_segment(number, |entry| copies = copies.saturating_add(self.copies_besides(&entry)));
        }
        copies <= COPIES_MAX
    }

    /// Returns how many addresses an entry matches, minus one.
    pub(super) fn copies_besides(&self, entry: &Entry) -> u64 {
        let missing_bits = self.directory.size().address_bits(0).saturating_sub(entry.known_bits.into());
        (1u64 << missing_bits.min(63)).wrapping_sub(1)
    }

    /// Returns an estimate of the slots that this table needs for the entries of another one; `None` if adding them
    /// would change nothing. O(slots and copies).
    #[must_use]
    pub fn lacking_slots(&self, source: &Self, now: Generation) -> Option<u64> {
        if self.kind() == EntryKind::Counted {
            return Some(source.used_slots()).filter(|slots| *slots > 0);
        }
        let mut lacking = None::<u64>;
        for number in 0..source.segment_count() {
            source.visit_segment(number, |entry| lacking = sum(lacking, self.slots_for(&entry, now)));
        }
        lacking
    }

    /// Returns how many more slots an entry would take, without the slots of its count. Returns `None` if adding the
    /// entry would change nothing: it has expired, or an entry of the table matches at least the same items for at
    /// least as long. O(copies).
    pub(super) fn slots_for(&self, entry: &Entry, now: Generation) -> Option<u64> {
        if self.kind() == EntryKind::Timed && !is_live(entry.generation, now) {
            return None;
        }
        let (address, segment) = self.locate(entry.hash())?;
        let Some(value) = self.slot_of(segment, entry, &address) else {
            let [zero, one] = entry.halves();
            return sum(self.slots_for(&zero, now), self.slots_for(&one, now));
        };
        let slots = segment.slots_of(segment.run(&address, PortableSelect));
        if self.kind() == EntryKind::Counted {
            return Some(u64::from(CountedEntry::all(&slots).all(|found| found.entry != value)));
        }
        let entry_mask = low_bits(self.entry_bits(segment));
        let (mut is_there, own) = (false, value & entry_mask);
        for slot in slots {
            let present = slot & entry_mask;
            is_there |= present == own;
            let is_newer = self.kind() == EntryKind::Plain || segment.generation(slot) >= entry.generation;
            if is_newer && remainder_bits(present) <= remainder_bits(own) && matches(present, own) {
                return None;
            }
        }
        Some(u64::from(!is_there))
    }

    /// Returns the slot of an entry in a segment; `None` if the entry has fewer bits of the hash than the address.
    fn slot_of(&self, segment: &Segment, entry: &Entry, address: &BucketAddress) -> Option<u64> {
        let entry_bits = self.entry_bits(segment);
        let bits = u32::from(entry.known_bits).checked_sub(address.address_bits)?;
        let bits = bits.min(entry_bits.wrapping_sub(1));
        let code = self.kind().code(entry.generation);
        Some(code << (entry_bits & 63) | 1 << bits | address.key & low_bits(bits))
    }

    /// Adds an entry of another table, and copies of it if it matches several addresses. Returns whether the table has
    /// changed. O(copies).
    ///
    /// Call [`grow_for`](Self::grow_for) before the first entry. The entries of another table come in the order of its
    /// segments, and the first of them would overfill segments of a table that is too small.
    ///
    /// # Errors
    /// [`AddError`]. Copies may have been added to some addresses.
    pub fn add_entry(
        &mut self,
        entry: Entry,
        counting: Counting,
        now: Generation,
        room: &Room<'_>,
    ) -> Result<bool, AddError> {
        let added = self.add_copies(entry, counting, now, room)?;
        self.counts.add(added, entry.generation);
        Ok(added.times > 0)
    }

    /// Adds an entry like [`add_entry`](Self::add_entry), but does not change the counts of items.
    pub(super) fn add_copies(
        &mut self,
        entry: Entry,
        counting: Counting,
        now: Generation,
        room: &Room<'_>,
    ) -> Result<AddedEntry, AddError> {
        let (kind, is_counted) = (self.kind(), self.kind() == EntryKind::Counted);
        let mut is_room_made = false;
        loop {
            let Some((address, segment)) = self.locate(entry.hash()) else {
                return Ok(AddedEntry::default());
            };
            let Some(value) = self.slot_of(segment, &entry, &address) else {
                let [zero, one] = entry.halves();
                let zero = self.add_copies(zero, counting, now, room)?;
                let one = self.add_copies(one, counting, now, room)?;
                return Ok(AddedEntry {
                    new_entries: zero.new_entries.max(one.new_entries),
                    times: zero.times.max(one.times),
                    moved_from: zero.moved_from.or(one.moved_from),
                });
            };
            let run = segment.run(&address, PortableSelect);
            let mut slots = segment.slots_of(run);
            let before = slots.len();
            let added = if is_counted {
                count_entry(&mut slots, value, entry.count, counting)?
            } else if self.slots_for(&entry, now).is_some() {
                insert_or_refresh(&mut slots, value, segment, self.entry_bits(segment))
            } else {
                return Ok(AddedEntry::default());
            };
            let more = slots.len().saturating_sub(before);
            // A join may have made a run longer than `RUN_MAX`. Such a run is too long only if the entry adds slots.
            let is_too_long = more > 0 && slots.len() > RUN_MAX;
            if is_counted && more > 0 {
                let is_overfull = segment.is_overfull(more);
                match counting {
                    Counting::Sum if is_too_long || is_overfull => return Err(AddError::TooOften),
                    // Only crafted parts of a dump overfill a segment of the largest size. An entry that does not fit
                    // is left out.
                    Counting::Larger if is_overfull => return Ok(AddedEntry::default()),
                    _ => {}
                }
            }
            let is_full = segment.used().saturating_add(more) > segment.used_max();
            // `grow_for` does not know how many slots counts will take. So only counted entries can cause a split here.
            let needs_room = more > 0 && if is_counted { self.needs_room(segment, more) } else { is_full };
            if !is_room_made && (needs_room || kind == EntryKind::Timed && self.is_stale(segment, now)) {
                let demand = SlotDemand { segment: address.segment, slots: more, now };
                let made = if is_counted { self.make_room(demand, room) } else { self.enlarge(demand, room) };
                made.map_err(AddError::CannotGrow)?;
                is_room_made = true;
                continue;
            }
            if is_too_long && !is_counted {
                let newest = slots.iter().map(|slot| segment.generation(*slot)).max().unwrap_or(0);
                self.saturate_bucket(&address, kind.code(newest));
            } else if more > 0 && segment.used() >= segment.used_max() {
                self.saturate_fullest_block(&address, kind.code(now));
                // The bucket of the entry may be saturated now.
                is_room_made = true;
                continue;
            } else {
                let own = value & low_bits(self.entry_bits(segment));
                self.replace_run(&address, run, before, &slots);
                (0..added.new_entries).for_each(|_| self.apply(EntrySums::of(address.address_bits, own)));
            }
            return Ok(added);
        }
    }
}

/// Unites equal entries. Their counts are added.
pub(super) fn unite_equal(entries: &mut Vec<Entry>) {
    entries.sort_unstable();
    entries.dedup_by(|later, first| {
        let known = |entry: &Entry| (entry.bucket, entry.known_bits, entry.known);
        let is_equal = known(later) == known(first);
        if is_equal {
            first.count = first.count.saturating_add(later.count);
        }
        is_equal
    });
}

/// Returns the sum of two numbers, where `None` counts as 0. Returns `None` if both are `None`.
fn sum(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    one.zip(other).map(|(one, other)| one.saturating_add(other)).or(one).or(other)
}

/// Adds an entry with its count to the slots of its run.
fn count_entry(
    slots: &mut RunSlots,
    value: u64,
    count: u64,
    counting: Counting,
) -> Result<AddedEntry, AddError> {
    // Joins shorten entries, so several entries of the run may be equal to this one.
    let equal = || CountedEntry::all(slots).filter(|found| found.entry == value);
    let total = equal().fold(0u64, |sum, found| sum.saturating_add(found.count));
    let mut found = equal().next();
    let mut rest = match counting {
        Counting::Sum => count,
        Counting::Larger => count.saturating_sub(total),
    };
    let mut added = AddedEntry { times: rest, ..AddedEntry::default() };
    if counting == Counting::Sum && found.map_or(0, |found| found.count).saturating_add(rest) > COUNT_MAX {
        return Err(AddError::TooOften);
    }
    // Equal entries of a dump may together have a count above `COUNT_MAX`. Such a count takes several entries.
    while rest > 0 {
        let entry = found.take().unwrap_or_else(|| {
            slots.insert(0, value);
            added.new_entries = added.new_entries.saturating_add(1);
            rest = rest.saturating_sub(1);
            CountedEntry { index: 0, entry: value, count: 1 }
        });
        let more = rest.min(COUNT_MAX.saturating_sub(entry.count));
        entry.set_count(slots, entry.count.saturating_add(more));
        rest = rest.saturating_sub(more);
    }
    Ok(added)
}

/// Adds an entry to the slots of its run, or replaces the entry that matches the same items.
fn insert_or_refresh(slots: &mut RunSlots, value: u64, segment: &Segment, entry_bits: u32) -> AddedEntry {
    let is_equal = |slot: &&mut u64| (**slot ^ value) & low_bits(entry_bits) == 0;
    if let Some(present) = slots.iter_mut().find(is_equal) {
        let before = std::mem::replace(present, value);
        return AddedEntry { new_entries: 0, times: 1, moved_from: Some(segment.generation(before)) };
    }
    slots.insert(0, value);
    AddedEntry { new_entries: 1, times: 1, moved_from: None }
}
