//! Entries outside of a table: to merge tables, and to dump and load them.

use super::add::RUN_MAX;
use super::count::{COUNT_MAX, Found, Values};
use super::lookup::{Counts, Place, depth_of, matches, remainder_bits};
use super::schedule::BUCKET_BITS;
use super::segment::{Segment, low_bits};
use super::select::PortableSelect;
use super::{EntryKind, Table, Tally};
use crate::bloom::generation::{CODES, Generation, is_live};
use crate::bloom::hash::ItemHash;
use crate::bloom::outcome::AddError;
use crate::bloom::room::Room;

/// An entry: what a table knows of an item, or of several items that it cannot tell apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// The number of its bucket in a block.
    pub bucket: u8,
    /// How many bits of the hash it knows besides those of the bucket.
    pub known_bits: u8,
    /// These bits, the lowest of the hash.
    pub known: u128,
    /// How often the item was added, if entries are counted; otherwise 1.
    pub count: u64,
    /// The generation in which the item was added, if entries are timed; otherwise 0.
    pub generation: Generation,
}

impl Entry {
    /// Returns the hash of an item that the entry matches. All bits that it does not know are clear.
    fn hash(&self) -> ItemHash {
        let h2 = (self.known >> 64) as u64 | u64::from(self.bucket) << (64 - BUCKET_BITS);
        ItemHash { h1: self.known as u64, h2 }
    }
}

impl Entry {
    /// Returns the two entries that each know one more bit.
    fn halves(&self) -> [Self; 2] {
        [0, 1].map(|bit| Self {
            known: self.known | bit << (self.known_bits & 127),
            known_bits: self.known_bits.wrapping_add(1),
            ..*self
        })
    }
}

/// What becomes of the count of an entry that is in the table already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counting {
    /// It is added to the present one: the union of two filters.
    Sum,
    /// The larger one remains: the same entry comes again.
    Larger,
}

impl Table {
    /// Visits the entries of a segment, in the order of its blocks. O(slots).
    pub fn visit_segment(&self, number: usize, mut visit: impl FnMut(Entry)) {
        if let Some(segment) = self.directory.get(number) {
            self.visit_entries(segment, number, depth_of(self.directory.len(), number), &mut visit);
        }
    }

    /// Visits the entries of a segment with this number and depth.
    pub(super) fn visit_entries(
        &self,
        segment: &Segment,
        number: usize,
        depth: u32,
        visit: &mut impl FnMut(Entry),
    ) {
        let address_bits = depth.wrapping_add(segment.blocks_log());
        for block in 0..segment.blocks() {
            let address = number as u128 | (block as u128) << depth;
            let (mut last, mut counts, mut is_less_two) = (None::<Entry>, Counts::default(), false);
            segment.visit_block(block, |bucket, value| {
                if self.kind() == EntryKind::Counted && !counts.is_entry(value) {
                    // The count of the last entry: a slot of zero, then the count less two.
                    if let Some(last) = last.as_mut().filter(|_| is_less_two) {
                        last.count = value.saturating_add(2);
                    }
                    is_less_two = !is_less_two;
                    return;
                }
                last.take().into_iter().for_each(&mut *visit);
                last = Some(self.entry(segment, value, (address, address_bits), bucket));
            });
            last.into_iter().for_each(&mut *visit);
        }
    }

    pub(super) fn entry(
        &self,
        segment: &Segment,
        value: u64,
        (address, address_bits): (u128, u32),
        bucket: u32,
    ) -> Entry {
        let entry = value & low_bits(self.entry_bits(segment));
        let bits = remainder_bits(entry);
        Entry {
            bucket: bucket as u8,
            known_bits: address_bits.wrapping_add(bits) as u8,
            known: address | u128::from(entry & low_bits(bits)) << address_bits,
            count: 1,
            generation: if self.kind() == EntryKind::Timed { segment.generation(value) } else { 0 },
        }
    }

    /// Adds an entry. One that knows less of the hash than an address is added to all of its addresses. Returns whether
    /// that changed anything. O(1); O(copies) for an entry that knows little.
    ///
    /// Entries of another table do not come in a random order: [`grow_for`](Self::grow_for) them first.
    ///
    /// # Errors
    /// [`AddError`]; copies to other addresses may have been added.
    pub fn add_entry(
        &mut self,
        entry: Entry,
        counting: Counting,
        now: Generation,
        room: &Room<'_>,
    ) -> Result<bool, AddError> {
        let added = self.add_copies(entry, counting, now, room)?;
        match &mut self.tally {
            Tally::Plain { items, .. } => *items = items.saturating_add(added.times),
            Tally::Counted { items, entries, .. } => {
                *items = items.saturating_add(added.times);
                *entries = entries.saturating_add(added.is_new.into());
            }
            Tally::Timed { history, .. } if added.times > 0 => {
                if let Some(before) = added.moved_from {
                    history.take(before);
                }
                history.add(entry.generation);
            }
            Tally::Timed { .. } => {}
        }
        Ok(added.times > 0)
    }

    /// Returns about how many more slots this table needs for the entries of another one; `None` if it has all of them.
    /// O(slots and copies).
    #[must_use]
    pub fn lacking_slots(&self, source: &Self, now: Generation) -> Option<u64> {
        if self.kind() == EntryKind::Counted {
            return Some(source.used_slots()).filter(|slots| *slots > 0);
        }
        let mut lacking = None::<u64>;
        for number in 0..source.segment_count() {
            source.visit_segment(number, |entry| {
                if !self.has_entry(&entry, now) {
                    lacking = Some(lacking.unwrap_or(0).saturating_add(self.copies_of(&entry)));
                }
            });
        }
        lacking
    }

    /// Returns how many slots entries would take, besides counts. O(entries).
    pub(super) fn slots_for(&self, entries: &[Entry]) -> u64 {
        entries.iter().fold(0, |slots, entry| slots.saturating_add(self.copies_of(entry)))
    }

    /// Returns how many copies of an entry would take another slot.
    fn copies_of(&self, entry: &Entry) -> u64 {
        let Some((place, segment)) = self.locate(entry.hash()) else { return 0 };
        let Some(bits) = self.remainder_of(entry, &place, segment) else {
            return entry.halves().iter().fold(0, |copies, half| copies.saturating_add(self.copies_of(half)));
        };
        let value = self.slot_of(segment, entry, &place, bits);
        let values = segment.values(segment.run(&place, PortableSelect));
        let known = |value: u64| value & low_bits(self.entry_bits(segment));
        let is_there = match self.kind() {
            EntryKind::Counted => Found::all(&values).any(|found| found.entry == value),
            _ => values.iter().any(|present| {
                known(*present) == known(value) || self.covers(segment, *present, entry, value)
            }),
        };
        u64::from(!is_there)
    }

    /// Returns whether other entries match all items of this one for as long, or it has expired. Not for counted
    /// entries.
    fn has_entry(&self, entry: &Entry, now: Generation) -> bool {
        if self.kind() == EntryKind::Timed && !is_live(entry.generation, now) {
            return true;
        }
        let Some((place, segment)) = self.locate(entry.hash()) else { return true };
        let Some(bits) = self.remainder_of(entry, &place, segment) else {
            return entry.halves().iter().all(|half| self.has_entry(half, now));
        };
        let value = self.slot_of(segment, entry, &place, bits);
        let run = segment.run(&place, PortableSelect);
        !run.is_empty && segment.run_has(run.start, |present| self.covers(segment, present, entry, value))
    }

    /// Returns how many bits of its remainder an entry has in a segment; `None` if it knows less than the address.
    fn remainder_of(&self, entry: &Entry, place: &Place, segment: &Segment) -> Option<u32> {
        let bits = u32::from(entry.known_bits).checked_sub(place.address_bits)?;
        Some(bits.min(self.entry_bits(segment).wrapping_sub(1)))
    }

    /// Returns the slot of an entry in a segment, with a remainder of this length.
    fn slot_of(&self, segment: &Segment, entry: &Entry, place: &Place, bits: u32) -> u64 {
        let code = if self.kind() == EntryKind::Timed { entry.generation % CODES } else { 0 };
        code << (self.entry_bits(segment) & 63) | 1 << bits | place.key & low_bits(bits)
    }

    /// Returns whether a slot of a bucket stands for all items of an entry of the bucket with the slot `value`; of
    /// timed ones for as long. Not for counted entries.
    fn covers(&self, segment: &Segment, present: u64, entry: &Entry, value: u64) -> bool {
        let entry_mask = low_bits(self.entry_bits(segment));
        let (known, value) = (present & entry_mask, value & entry_mask);
        remainder_bits(known) <= remainder_bits(value)
            && matches(known, value)
            && (self.kind() == EntryKind::Plain || segment.generation(present) >= entry.generation)
    }

    pub(super) fn add_copies(
        &mut self,
        entry: Entry,
        counting: Counting,
        now: Generation,
        room: &Room<'_>,
    ) -> Result<AddedEntry, AddError> {
        let mut is_room_made = false;
        loop {
            let Some((place, segment)) = self.locate(entry.hash()) else {
                return Ok(AddedEntry::default());
            };
            let Some(bits) = self.remainder_of(&entry, &place, segment) else {
                let [zero, one] = entry.halves();
                let zero = self.add_copies(zero, counting, now, room)?;
                let one = self.add_copies(one, counting, now, room)?;
                return Ok(AddedEntry {
                    is_new: zero.is_new || one.is_new,
                    times: zero.times.max(one.times),
                    moved_from: zero.moved_from.or(one.moved_from),
                });
            };
            let run = segment.run(&place, PortableSelect);
            let values = segment.values(run);
            let entry_bits = self.entry_bits(segment);
            let value = self.slot_of(segment, &entry, &place, bits);
            let change = match self.kind() {
                EntryKind::Counted => {
                    let change = Change::of_count(values, value, entry.count, counting)?;
                    let more = change.slots();
                    if change.values.len() > RUN_MAX as usize || segment.is_overfull(more) {
                        return Err(AddError::TooOften);
                    }
                    change
                }
                _ => {
                    if self.has_entry(&entry, now) {
                        return Ok(AddedEntry::default());
                    }
                    // Of two entries that match the same items, the later one is enough.
                    let known = |value: u64| value & low_bits(entry_bits);
                    match values.iter().position(|present| known(*present) == known(value)) {
                        Some(index) => Change::refresh(values, index, value, segment),
                        None => Change::insertion(values, value),
                    }
                }
            };
            let is_stale = self.kind() == EntryKind::Timed && self.is_stale(segment, now);
            let more = change.slots();
            // How many slots counts will take is not known before. Other entries need no split.
            let may_grow = self.kind() == EntryKind::Counted;
            let is_full = segment.used().saturating_add(more) > segment.used_max();
            let needs_room = more > 0 && if may_grow { self.needs_room(segment, more) } else { is_full };
            if !is_room_made && (is_stale || needs_room) {
                let made = if may_grow {
                    self.make_room(place.segment, more, now, room)
                } else {
                    self.widen(place.segment, more, now, room)
                };
                made.map_err(AddError::CannotGrow)?;
                is_room_made = true;
                continue;
            }
            if change.values.len() > RUN_MAX as usize {
                let newest = change.values.iter().map(|value| segment.generation(*value)).max().unwrap_or(0);
                self.saturate_bucket(
                    &place,
                    if self.kind() == EntryKind::Timed { newest % CODES } else { 0 },
                );
            } else if change.slots() > 0 && segment.used() >= segment.used_max() {
                self.saturate_fullest_block(
                    &place,
                    if self.kind() == EntryKind::Timed { now % CODES } else { 0 },
                );
                // The bucket may have become saturated.
                is_room_made = true;
                continue;
            } else {
                self.rewrite_run(&place, run, &change.values);
                if change.is_new {
                    self.gain(place.address_bits, bits);
                    self.count_leftover(value & low_bits(entry_bits), 1);
                }
            }
            return Ok(AddedEntry {
                is_new: change.is_new,
                times: change.times,
                moved_from: change.moved_from,
            });
        }
    }

    /// Unites the entries that are equal in this table, whose remainders may be shorter than those of the other one.
    /// Their counts are added.
    pub(super) fn unite_equal(&self, entries: &mut Vec<Entry>) {
        for entry in &mut *entries {
            if let Some((place, segment)) = self.locate(entry.hash()) {
                let most = place.address_bits.wrapping_add(self.entry_bits(segment)).wrapping_sub(1);
                if u32::from(entry.known_bits) > most {
                    entry.known_bits = most as u8;
                    entry.known &= 1u128.wrapping_shl(most).wrapping_sub(1);
                }
            }
        }
        entries.sort_unstable();
        entries.dedup_by(|later, first| {
            let is_equal = (later.bucket, later.known_bits, later.known)
                == (first.bucket, first.known_bits, first.known);
            if is_equal {
                first.count = first.count.saturating_add(later.count);
            }
            is_equal
        });
    }

    /// Returns the bits of an entry in a segment.
    pub(super) fn entry_bits(&self, segment: &Segment) -> u32 {
        segment.width().wrapping_sub(self.kind().generation_bits())
    }
}

/// What became of an entry that was added.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AddedEntry {
    is_new: bool,
    /// How much more is counted; 0 if nothing changed.
    times: u64,
    /// The generation that an entry had before it got a later one.
    moved_from: Option<Generation>,
}

/// What becomes of the run of an entry's bucket.
#[derive(Debug)]
struct Change {
    values: Values,
    slots_before: usize,
    /// Whether the entry is not in the run yet.
    is_new: bool,
    /// How much more is counted.
    times: u64,
    /// The generation of the entry before it gets a later one.
    moved_from: Option<Generation>,
}

impl Change {
    /// Returns the run with a further entry.
    fn insertion(mut values: Values, value: u64) -> Self {
        let slots_before = values.len();
        values.insert(0, value);
        Self { values, slots_before, is_new: true, times: 1, moved_from: None }
    }

    /// Returns the run with a later generation of an entry.
    fn refresh(mut values: Values, index: usize, value: u64, segment: &Segment) -> Self {
        let slots_before = values.len();
        let moved_from = values.get_mut(index).map(|present| std::mem::replace(present, value));
        let moved_from = moved_from.map(|before| segment.generation(before));
        Self { values, slots_before, is_new: false, times: 1, moved_from }
    }

    /// Returns the run with an entry counted.
    fn of_count(mut values: Values, value: u64, count: u64, counting: Counting) -> Result<Self, AddError> {
        let slots_before = values.len();
        // Joins cut entries, so there may be several.
        let equal = || Found::all(&values).filter(|found| found.entry == value);
        let (before, total) =
            (equal().next(), equal().fold(0, |sum: u64, found| sum.saturating_add(found.count)));
        let is_new = before.is_none();
        let times = match counting {
            Counting::Sum => count,
            Counting::Larger => count.saturating_sub(total),
        };
        let found = before.unwrap_or_else(|| {
            values.insert(0, value);
            Found { index: 0, entry: value, count: 1 }
        });
        let count = if is_new { count } else { found.count.saturating_add(times) };
        if count > COUNT_MAX {
            return Err(AddError::TooOften);
        }
        found.set_count(&mut values, count);
        Ok(Self { values, slots_before, is_new, times, moved_from: None })
    }

    /// Returns how many more slots the run has.
    fn slots(&self) -> usize {
        self.values.len().saturating_sub(self.slots_before)
    }
}
