//! Adding and removing items. Both edit the run of the item's bucket.
//!
//! An add makes room first, reads the run, changes it, and writes it back. The kinds of entries differ only in the
//! change:
//!
//! * Plain: a new entry, unless an entry matches the item.
//! * Counted: the longest entry that matches counts the item, if its remainder lacks at most [`LOST_BITS_MAX`] bits.
//!   Otherwise the item gets a new entry.
//! * Timed: an entry of the item gets the new generation. Only an entry with the longest remainder of its segment is
//!   the item's own. A shorter one matches more items, and would never expire if each of them refreshed it.
//!
//! What most adds do has a shorter path, with the same result: to insert an entry of an item that no entry matches, and to
//! give a timed entry a new generation. An add to a table of 100,000 items takes 1,470 instructions, its share of the splits
//! included, and 1,840 without this path (callgrind).
//!
//! A removal takes from the longest entry that matches (Dayan, Bercea, Reviriego, Pagh, "InfiniFilter", SIGMOD 2023). An
//! item may have several entries, and share each of them with other items. A removal still takes none of these away:
//!
//! * The entries that match an item are nested: of two, the shorter one matches all items that the longer one matches.
//! * Assign each occurrence of an item, that is each add that was not removed, to an entry that matches the item, so that
//!   no entry has more occurrences than it counts. An add assigns its occurrence to the entry that counts it, or to the
//!   new one. Which of the matching entries this is makes no difference.
//! * A removal of x takes one from the longest match L of x. If an occurrence of x is assigned to L, it ends. Otherwise
//!   an occurrence of x at a shorter match E ends. If L then has more occurrences than it counts, one of them, of an item
//!   y, moves to E: L matches y, so E does.
//! * A split or join gives each entry to the bucket of its items, which are the same before and after. Entries that
//!   become equal become one with the sum of their counts. Decision 25 has the rule for copies of void entries.
//!
//! So each occurrence always has an entry, and each item that was added is found and can be removed as often.

use smallvec::SmallVec;

use super::entry::{COUNT_MAX, CountedEntry, Entry, EntryKind, RUN_MAX, RunSlots, matches, remainder_bits};
use super::lookup::STEP_ITEMS;
use super::reshape::{Changes, SlotDemand};
use super::segment::{BucketRun, Segment, TooFull};
use super::size::{BLOCKS_LOG_MAX, BUCKETS, USED_MAX};
use super::state::{BucketAddress, Table};
use super::totals::{EntrySums, History, ItemCounts, weight};
use crate::generation::{Generation, Steps};
use crate::group::{ItemSet, all, in_steps, members};
use crate::growth_budget::GrowthBudget;
use crate::hash::ItemHash;
use crate::memory::OutOfMemory;
use crate::outcome::{AddError, Added, ReserveError};
use crate::prefetch::{Prefetch, SelectTask};
use crate::words::{PortableSelect, Select, low_bits};

/// The most bits by which the remainder of an entry may be shorter than that of a new entry, if the entry counts further
/// items. So after four doublings of the table an item that is added again gets a new entry.
///
/// With l remainder bits, an entry matches other items of its bucket with a probability of 2^-l. A short entry would count
/// many of them, and its item would still be found after its deletion. With more new entries, items that are added often
/// take more memory. Decision 30 has the measurements.
pub(super) const LOST_BITS_MAX: u32 = 4;

/// The number of slots of a bucket from which on any entry that is not void counts further items. Only items that are
/// added often, at many sizes of the table, fill a bucket so far. So their entries never make a bucket full.
const SHARED_SLOTS: usize = RUN_MAX / 2 + 1;

/// An item to add, and the rules for adding it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addition {
    /// The hash of the item.
    pub hash: ItemHash,
    /// The generation of the entry, if entries are timed. It is at most `now`, and live at `now`.
    pub generation: Generation,
    /// The current generation, if entries are timed.
    pub now: Generation,
    /// Whether an item that is present is left as it is, instead of being counted or getting a newer generation. Plain
    /// entries ignore it.
    pub only_absent: bool,
    /// The largest value that [`Table::distinct_items`] may reach. Plain entries ignore it.
    pub most_items: u64,
}

/// The outcomes of adding the items of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableAdds {
    /// Items that are [`Added::New`].
    pub new: ItemSet,
    /// Items that are [`Added::Again`].
    pub again: ItemSet,
    /// The index of the first item that was refused, and the reason. The items after it were not added.
    pub refused: Option<(u32, AddError)>,
}

/// What an add does to the run of its item.
enum Edit {
    /// The item is present, and nothing changes.
    Nothing,
    /// The item gets a new entry.
    Insert,
    /// The slots of the run have changed. An entry has left this generation, if entries are timed.
    Replace(Generation),
}

/// The change that an add makes to the run of its item.
struct PlannedEdit {
    address: BucketAddress,
    run: BucketRun,
    /// The slots of the run, after the change if the edit replaces them.
    slots: RunSlots,
    /// The number of slots before.
    before: usize,
    edit: Edit,
    /// Whether the item is, or seems to be, present.
    is_found: bool,
    /// How many more slots come into use.
    more: usize,
    /// Whether room must be made first.
    needs_room: bool,
}

impl PlannedEdit {
    /// Returns whether the bucket will be [full](RUN_MAX).
    #[inline(always)]
    const fn fills_bucket(&self) -> bool {
        self.more > 0 && self.before.wrapping_add(self.more) >= RUN_MAX
    }

    #[inline(always)]
    const fn added(&self) -> Added {
        if self.is_found { Added::Again } else { Added::New }
    }
}

/// What takes back an add that is refused after it has changed the table.
#[derive(Default)]
struct Undo {
    /// The changes that take back the room that was made, in the order in which it was made.
    room: SmallVec<[Changes; 4]>,
    /// The slots of the run before the add.
    run: Option<(BucketAddress, RunSlots)>,
    /// The stored sums and the counts before the add.
    totals: Option<(EntrySums, ItemCounts)>,
}

/// Returns the error of an add for which a segment has no slot. Only the items of crafted tables have it.
#[cold]
fn no_slot(kind: EntryKind, _: TooFull) -> AddError {
    match kind {
        EntryKind::Counted => AddError::TooOften,
        EntryKind::Plain | EntryKind::Timed(_) => AddError::CannotGrow(ReserveError::TooLong),
    }
}

/// The most slots that a table with one item may have in use: of its entry, and of copies of void entries of items that
/// were removed.
const LEFT_SLOTS_MAX: u64 = 128;

impl Table {
    /// Adds an item. O(1). One add in a few thousand also splits a segment.
    ///
    /// # Errors
    /// [`AddError`].
    #[inline(always)]
    pub fn add(
        &mut self,
        addition: Addition,
        room: &GrowthBudget<'_>,
        prefetch: impl Prefetch,
    ) -> Result<Added, AddError> {
        self.prefetch_change(addition.hash, prefetch);
        prefetch.with_fast_select(Add { table: self, addition, room })
    }

    /// Adds the `wanted` items in order, until one is refused. The hash of `addition` is ignored. O(items).
    pub fn add_each(
        &mut self,
        hashes: &[ItemHash],
        wanted: ItemSet,
        addition: Addition,
        room: &GrowthBudget<'_>,
        prefetch: impl Prefetch,
    ) -> TableAdds {
        let mut outcomes = TableAdds::default();
        self.change_in_steps(hashes, wanted, prefetch, |table, step| {
            prefetch.with_fast_select(AddEach {
                table,
                hashes,
                wanted: step,
                addition,
                room,
                outcomes: &mut outcomes,
            })
        });
        outcomes
    }

    /// Calls `change` with the `wanted` items, until it returns false. If the table is too large for the processor's
    /// caches, the memory of some items is prefetched while the items before them are changed.
    #[inline(always)]
    fn change_in_steps(
        &mut self,
        hashes: &[ItemHash],
        wanted: ItemSet,
        prefetch: impl Prefetch,
        mut change: impl FnMut(&mut Self, ItemSet) -> bool,
    ) {
        if self.is_cached() {
            change(self, wanted);
            return;
        }
        let mut table = self;
        in_steps(
            &mut table,
            wanted,
            STEP_ITEMS,
            |table, step| members(hashes, step).for_each(|(_, hash)| table.prefetch_change(hash, prefetch)),
            |table, step| change(table, step),
        );
    }

    #[inline(always)]
    fn add_item(
        &mut self,
        addition: Addition,
        room: &GrowthBudget<'_>,
        select: impl Select,
    ) -> Result<Added, AddError> {
        match self.kind() {
            EntryKind::Plain => self.add_kind(EntryKind::Plain, addition, room, select),
            EntryKind::Counted => self.add_kind(EntryKind::Counted, addition, room, select),
            EntryKind::Timed(Steps::Fourteen) => {
                self.add_kind(EntryKind::Timed(Steps::Fourteen), addition, room, select)
            }
            EntryKind::Timed(Steps::Fine) => {
                self.add_kind(EntryKind::Timed(Steps::Fine), addition, room, select)
            }
        }
    }

    /// Does [`edit`](Self::edit), with shorter paths for what most adds do if there is room: insert an entry of an item
    /// that no entry matches, or give a timed entry a new generation. `kind` is that of the table.
    #[inline(always)]
    fn add_kind(
        &mut self,
        kind: EntryKind,
        addition: Addition,
        room: &GrowthBudget<'_>,
        select: impl Select,
    ) -> Result<Added, AddError> {
        let (address, segment) = self.locate(addition.hash);
        let run = segment.run(address.block, address.bucket, select);
        let entry_mask = if kind.is_timed() { low_bits(kind.entry_bits(segment)) } else { u64::MAX };
        let (mut slots, mut found) = (0u32, None);
        if !run.is_empty {
            // A slot of a count may seem to match, which only leads to the longer path.
            segment.scan(run.start, |slot| {
                found = matches(slot & entry_mask, address.key).then_some(slot);
                slots = slots.wrapping_add(1);
                found.is_none()
            });
        }
        if found.is_some() && kind == EntryKind::Plain {
            return Ok(Added::Present);
        }
        if Self::is_stale(kind, segment, addition.now) || kind.is_timed() && self.is_sweep_next() {
            return self.edit_apart(kind, addition, room);
        }
        let edit = match found {
            Some(slot) if kind.is_timed() => {
                let Some((newer, before)) = refreshed(kind, slot, segment, &addition) else {
                    return self.edit(kind, addition, room, select);
                };
                let at = segment.slot_behind(run.start, slots.wrapping_sub(1));
                self.directory.edit(address.segment, |segment| segment.set_slot(at, newer));
                Edit::Replace(before)
            }
            Some(_) => return self.edit(kind, addition, room, select),
            None if slots as usize + 1 >= RUN_MAX
                || self.needs_room(segment, 1)
                || self.must_spread(segment, 1, false) =>
            {
                return self.edit_apart(kind, addition, room);
            }
            None => {
                if kind != EntryKind::Plain {
                    self.check_items(&addition)?;
                }
                self.insert(&address, run, kind.code_of(addition.generation))
                    .map_err(|error| no_slot(kind, error))?;
                Edit::Insert
            }
        };
        self.count(&addition, &edit);
        Ok(if found.is_some() { Added::Again } else { Added::New })
    }

    /// Does [`edit`](Self::edit). Not inlined, because few adds need room.
    #[inline(never)]
    fn edit_apart(
        &mut self,
        kind: EntryKind,
        addition: Addition,
        room: &GrowthBudget<'_>,
    ) -> Result<Added, AddError> {
        self.edit(kind, addition, room, PortableSelect)
    }

    /// Adds an item. `kind` is that of the table.
    #[inline(always)]
    fn edit(
        &mut self,
        kind: EntryKind,
        addition: Addition,
        room: &GrowthBudget<'_>,
        select: impl Select,
    ) -> Result<Added, AddError> {
        let planned = self.plan_edit(kind, &addition, None, select)?;
        if let Edit::Nothing = planned.edit {
            return Ok(Added::Present);
        }
        if planned.needs_room || kind.is_timed() && self.is_sweep_next() {
            return self.edit_with_room(kind, &addition, planned, room);
        }
        self.write_edit(kind, &addition, &planned).map_err(|error| no_slot(kind, error))?;
        self.count(&addition, &planned.edit);
        Ok(planned.added())
    }

    /// Returns the change that the add of an item makes. Room was made for `made_slots` more slots, if for any.
    #[inline(always)]
    fn plan_edit(
        &self,
        kind: EntryKind,
        addition: &Addition,
        made_slots: Option<usize>,
        select: impl Select,
    ) -> Result<PlannedEdit, AddError> {
        let (address, segment) = self.locate(addition.hash);
        let run = segment.run(address.block, address.bucket, select);
        let mut slots = segment.slots_of(run);
        let before = slots.len();
        let (edit, is_found) = match kind {
            EntryKind::Plain => plain_edit(&slots, &address),
            EntryKind::Counted => {
                counted_edit(&mut slots, &address, kind.entry_bits(segment), addition.only_absent)?
            }
            EntryKind::Timed(_) => timed_edit(kind, &mut slots, &address, segment, addition),
        };
        let after = if let Edit::Insert = edit { before.wrapping_add(1) } else { slots.len() };
        let more = after.wrapping_sub(before);
        let mut planned =
            PlannedEdit { address, run, slots, before, edit, is_found, more, needs_room: false };
        if let Edit::Nothing = planned.edit {
            return Ok(planned);
        }
        if !is_found && kind != EntryKind::Plain {
            self.check_items(addition)?;
        }
        if kind == EntryKind::Counted && more > 0 && (after > RUN_MAX || segment.is_overfull(more)) {
            return Err(AddError::TooOften);
        }
        planned.needs_room = made_slots.is_none_or(|made| made < more)
            && (Self::is_stale(kind, segment, addition.now)
                || more > 0
                    && (self.needs_room(segment, more)
                        || self.must_spread(segment, more, planned.fills_bucket())));
        Ok(planned)
    }

    /// Adds an item if room must be made first, or if the add sweeps. Either all of this is done, or nothing.
    #[inline(never)]
    fn edit_with_room(
        &mut self,
        kind: EntryKind,
        addition: &Addition,
        planned: PlannedEdit,
        room: &GrowthBudget<'_>,
    ) -> Result<Added, AddError> {
        let mut undo = Undo::default();
        let added = self.try_edit_with_room(kind, addition, planned, room, &mut undo);
        let has_room = !undo.room.is_empty();
        if added.is_err() {
            self.undo(undo);
        }
        if has_room {
            self.directory.trim();
        }
        added
    }

    fn try_edit_with_room(
        &mut self,
        kind: EntryKind,
        addition: &Addition,
        mut planned: PlannedEdit,
        room: &GrowthBudget<'_>,
        undo: &mut Undo,
    ) -> Result<Added, AddError> {
        let Addition { hash, now, .. } = *addition;
        while planned.needs_room {
            let fills_bucket = planned.fills_bucket();
            let demand = SlotDemand { hash, slots: planned.more, fills_bucket, now };
            self.make_room(demand, room, &mut undo.room).map_err(|error| match error {
                ReserveError::TooLong if kind == EntryKind::Counted => AddError::TooOften,
                error => AddError::CannotGrow(error),
            })?;
            // Entries may be shorter now. So the run is read again, and more slots may be needed than before.
            // The item was absent, or is added again. So the plan does not depend on `only_absent`, which is not replicated.
            let addition = Addition { only_absent: false, ..*addition };
            planned = self.plan_edit(kind, &addition, Some(planned.more), PortableSelect)?;
            if let Edit::Nothing = planned.edit {
                // The table has changed, so replicas must change theirs.
                self.counts.advance(now);
                return Ok(Added::Again);
            }
        }
        let sweeps = kind.is_timed() && self.is_sweep_next();
        let refuse = |error: OutOfMemory| {
            room.refuse(error.into());
            AddError::CannotGrow(error.into())
        };
        if sweeps {
            // After too many sweeps that were refused, no more are tried in this command.
            if room.refused() == Some(ReserveError::OutOfMemory) && !room.may_free() {
                return Err(refuse(OutOfMemory));
            }
            self.keep(&planned, undo).map_err(refuse)?;
        }
        self.write_edit(kind, addition, &planned).map_err(|error| no_slot(kind, error))?;
        self.count(addition, &planned.edit);
        if sweeps {
            self.sweep(now).map_err(refuse)?;
        }
        Ok(planned.added())
    }

    /// Keeps what an add changes besides the room that was made, because the sweep after it may be refused.
    fn keep(&mut self, planned: &PlannedEdit, undo: &mut Undo) -> Result<(), OutOfMemory> {
        let (number, segment) = (planned.address.segment, self.directory.get(planned.address.segment));
        let slots = segment.slots_of(planned.run);
        if segment.used() < segment.used_max() {
            undo.run = Some((planned.address, slots));
        } else {
            // Several buckets become saturated.
            let copy = self.replacing(number, segment.try_clone()?, EntrySums::default());
            undo.room.push(self.apply(copy)?);
        }
        undo.totals = Some((self.stored_sums(), self.counts.clone()));
        Ok(())
    }

    /// Takes back what an add has changed.
    #[cold]
    #[expect(clippy::expect_used, reason = "the segment had these slots before")]
    fn undo(&mut self, undo: Undo) {
        let Undo { room, run, totals } = undo;
        if let Some((address, slots)) = run {
            self.directory
                .edit(address.segment, |segment| {
                    let run = segment.run(address.block, address.bucket, PortableSelect);
                    segment.replace_run(run, segment.slots_of(run).len(), &slots)
                })
                .expect("the slots of a run");
        }
        if let Some((sums, counts)) = totals {
            self.add_sums(sums.minus(self.stored_sums()));
            self.counts = counts;
        }
        room.into_iter().rev().for_each(|changes| self.take_back(changes));
    }

    /// Writes the run of an item, as planned.
    #[inline(always)]
    fn write_edit(
        &mut self,
        kind: EntryKind,
        addition: &Addition,
        planned: &PlannedEdit,
    ) -> Result<(), TooFull> {
        let PlannedEdit { address, run, slots, before, edit, .. } = planned;
        let segment = self.directory.get(address.segment);
        let code = kind.code_of(addition.generation);
        if let Edit::Replace(_) = edit {
            return self.directory.edit(address.segment, |segment| segment.replace_run(*run, *before, slots));
        }
        // Counted entries never become a saturated bucket.
        if *before >= RUN_MAX && kind != EntryKind::Counted {
            let bits = kind.entry_bits(segment);
            let generations =
                slots.iter().map(|slot| Entry::of_slot(kind, bits, segment.stamp, *slot).number);
            let newest = generations.max().unwrap_or(0).max(addition.generation);
            self.saturate_bucket(address, newest)
        } else if segment.used() >= segment.used_max() && kind != EntryKind::Counted {
            self.saturate_fullest_block(address, addition.now)?;
            self.insert_unless_saturated(addition.hash, code)
        } else {
            self.insert(address, *run, code)
        }
    }

    /// Counts an item that was added.
    #[inline(always)]
    fn count(&mut self, addition: &Addition, edit: &Edit) {
        match &mut self.counts {
            ItemCounts::Plain { items, .. } => *items = items.saturating_add(1),
            ItemCounts::Counted { items, entries, .. } => {
                *items = items.saturating_add(1);
                *entries = entries.saturating_add(matches!(edit, Edit::Insert).into());
            }
            ItemCounts::Timed { history, adds } => count_timed(history, adds, addition, edit),
            ItemCounts::Fine { history, adds } => count_timed(history, adds, addition, edit),
        }
    }
}

/// Counts an item with a timed entry.
#[inline(always)]
fn count_timed<const N: usize>(history: &mut History<N>, adds: &mut u64, addition: &Addition, edit: &Edit) {
    history.advance(addition.now);
    if let Edit::Replace(moved_from) = edit {
        history.remove_one(*moved_from);
    }
    history.add(addition.generation, 1);
    *adds = adds.wrapping_add(1);
}

/// Changing the slots of a bucket.
impl Table {
    /// Adds an entry with the longest remainder. `code` is the generation of the entry modulo 16; 0 if entries are not
    /// timed.
    ///
    /// # Errors
    /// [`TooFull`] if the segment has no free slot. Nothing has changed.
    #[inline(always)]
    fn insert(&mut self, address: &BucketAddress, run: BucketRun, code: u64) -> Result<(), TooFull> {
        let kind = self.kind();
        let (segment, all_used) = self.directory.get_mut(address.segment);
        let bits = kind.entry_bits(segment).wrapping_sub(1);
        let entry = 1u64.wrapping_shl(bits) | address.key & low_bits(bits);
        segment.insert(run, code << 1 << (bits & 63) | entry)?;
        if let Some(all_used) = all_used {
            *all_used = all_used.wrapping_add(1);
        }
        self.add_weight(weight(address.address_bits, entry));
        Ok(())
    }

    /// Adds an entry of an item unless its bucket has become saturated.
    fn insert_unless_saturated(&mut self, hash: ItemHash, code: u64) -> Result<(), TooFull> {
        let (address, segment) = self.locate(hash);
        let run = segment.run(address.block, address.bucket, PortableSelect);
        let entry_mask = low_bits(self.kind().entry_bits(segment));
        if run.is_empty || !segment.run_has(run.start, |value| value & entry_mask == 0) {
            return self.insert(&address, run, code);
        }
        Ok(())
    }

    /// Makes a bucket saturated: one slot that matches every item replaces its entries. The slot has the generation
    /// `number` if entries are timed.
    fn saturate_bucket(&mut self, address: &BucketAddress, number: Generation) -> Result<(), TooFull> {
        let (kind, segment) = (self.kind(), self.directory.get(address.segment));
        let run = segment.run(address.block, address.bucket, PortableSelect);
        let (slots, entry_bits) = (segment.slots_of(run), kind.entry_bits(segment));
        let mut change = EntrySums::default();
        for slot in &slots {
            change.remove(kind, address.address_bits, Entry::of_slot(kind, entry_bits, segment.stamp, *slot));
        }
        let saturated = Entry { value: 0, copies: 0, number };
        change.add(kind, address.address_bits, saturated);
        let mut slot = 0;
        saturated.write(kind, entry_bits, |written| slot = written);
        self.directory.edit(address.segment, |segment| segment.replace_run(run, slots.len(), &[slot]))?;
        self.add_sums(change);
        Ok(())
    }

    /// Makes every occupied bucket of the fullest block of a segment saturated. This frees slots in a segment of the
    /// largest size that is full, which happens only if items are crafted.
    #[cold]
    fn saturate_fullest_block(&mut self, address: &BucketAddress, number: Generation) -> Result<(), TooFull> {
        let segment = self.directory.get(address.segment);
        let block = (0..segment.blocks()).max_by_key(|block| segment.length(*block)).unwrap_or(0);
        let header = segment.header(block);
        let mut occupied = (0..BUCKETS).filter(|bucket| header.is_occupied(*bucket));
        occupied
            .try_for_each(|bucket| self.saturate_bucket(&BucketAddress { block, bucket, ..*address }, number))
    }

    /// Checks that a table of counted or timed entries may get one more item.
    #[inline(always)]
    fn check_items(&self, addition: &Addition) -> Result<(), AddError> {
        let is_full =
            addition.most_items != u64::MAX && self.distinct_items(addition.now) >= addition.most_items;
        if is_full { Err(AddError::Full) } else { Ok(()) }
    }
}

/// Returns what the add of a plain entry does, and whether the item is present.
fn plain_edit(slots: &RunSlots, address: &BucketAddress) -> (Edit, bool) {
    let is_found = slots.iter().any(|slot| matches(*slot, address.key));
    (if is_found { Edit::Nothing } else { Edit::Insert }, is_found)
}

/// Counts an item on the longest entry that matches, if that is long enough. Changes nothing if only an absent item is
/// added and one matches. Returns what the add does, and whether the item is present. A new entry has `entry_bits` bits.
#[inline(always)]
fn counted_edit(
    slots: &mut RunSlots,
    address: &BucketAddress,
    entry_bits: u32,
    only_absent: bool,
) -> Result<(Edit, bool), AddError> {
    let longest = longest_match(slots, address);
    if only_absent && longest.is_some() {
        return Ok((Edit::Nothing, true));
    }
    // The fewest bits of a remainder with which an entry counts the item.
    let least_bits =
        if slots.len() < SHARED_SLOTS { entry_bits.wrapping_sub(1).saturating_sub(LOST_BITS_MAX) } else { 1 };
    match longest.filter(|longest| remainder_bits(longest.entry.value) >= least_bits) {
        None => Ok((Edit::Insert, longest.is_some())),
        Some(found) if found.entry.number >= COUNT_MAX => Err(AddError::TooOften),
        Some(found) => {
            found.set_count(found.entry.number.wrapping_add(1), slots);
            Ok((Edit::Replace(0), true))
        }
    }
}

/// Returns the longest entry that matches an item. Of several void entries it is the one with the fewest copies, which
/// knows most bits of the hash.
#[inline(always)]
fn longest_match(slots: &[u64], address: &BucketAddress) -> Option<CountedEntry> {
    let matching = CountedEntry::all(slots).filter(|found| matches(found.entry.value, address.key));
    matching.max_by_key(|found| (found.entry.value, std::cmp::Reverse(found.entry.copies)))
}

/// Gives the entry of an item a new generation, if it has one. Returns what the add does, and whether the item is
/// present.
#[inline(always)]
fn timed_edit(
    kind: EntryKind,
    slots: &mut RunSlots,
    address: &BucketAddress,
    segment: &Segment,
    addition: &Addition,
) -> (Edit, bool) {
    let entry_bits = kind.entry_bits(segment);
    let (mut is_found, mut own) = (false, None);
    for slot in slots {
        let entry = Entry::of_slot(kind, entry_bits, segment.stamp, *slot);
        if matches(entry.value, address.key) {
            is_found |= !kind.has_expired(entry.number, addition.now);
            if remainder_bits(entry.value).wrapping_add(1) == entry_bits {
                own = Some((slot, entry));
            }
        }
    }
    let edit = match own {
        _ if is_found && addition.only_absent => Edit::Nothing,
        Some((_, entry)) if entry.number >= addition.generation => Edit::Nothing,
        // A compaction is due, which removes the entry.
        Some((_, entry))
            if kind.has_expired(entry.number, addition.now)
                && Table::is_stale(kind, segment, addition.now) =>
        {
            Edit::Insert
        }
        // The slot of an entry that has expired is used again.
        Some((slot, entry)) => {
            let newer = Entry { number: addition.generation, ..entry };
            newer.write(kind, entry_bits, |value| *slot = value);
            Edit::Replace(entry.number)
        }
        None => Edit::Insert,
    };
    (edit, is_found)
}

/// Returns a slot of an item's own entry with the generation of an add, and the generation before; `None` if the entry
/// is not the item's own, has expired, or keeps its generation.
#[inline(always)]
fn refreshed(
    kind: EntryKind,
    slot: u64,
    segment: &Segment,
    addition: &Addition,
) -> Option<(u64, Generation)> {
    let entry_bits = kind.entry_bits(segment);
    let entry = Entry::of_slot(kind, entry_bits, segment.stamp, slot);
    let is_own = remainder_bits(entry.value).wrapping_add(1) == entry_bits;
    let is_older = entry.number < addition.generation && !addition.only_absent;
    (is_own && is_older && !kind.has_expired(entry.number, addition.now)).then(|| {
        let mut newer = 0;
        let refreshed = Entry { number: addition.generation, ..entry };
        refreshed.write(kind, entry_bits, |value| newer = value);
        (newer, entry.number)
    })
}

impl Segment {
    /// Returns whether a segment of the largest shape cannot take `more` slots. This happens only if items are crafted.
    fn is_overfull(&self, more: usize) -> bool {
        self.blocks_log() == BLOCKS_LOG_MAX && self.used().saturating_add(more) > USED_MAX
    }
}

/// Removing items.
impl Table {
    /// Removes each item once, in order, from a table of counted entries. Calls `reply` for each item with whether the
    /// item was, or seemed to be, present. Stops when `reply` returns false. O(items). One removal in a few thousand
    /// also joins two segments.
    pub fn remove_each(
        &mut self,
        hashes: &[ItemHash],
        prefetch: impl Prefetch,
        mut reply: impl FnMut(Result<bool, OutOfMemory>) -> bool,
    ) {
        self.change_in_steps(hashes, all(hashes.len()), prefetch, |table, step| {
            prefetch.with_fast_select(RemoveEach { table, hashes, wanted: step, reply: &mut reply })
        });
    }

    /// Removes an item once. Returns whether it was, or seemed to be, present. O(1). One removal in a few thousand also
    /// joins two segments.
    ///
    /// # Errors
    /// [`OutOfMemory`]. Nothing has changed.
    #[inline(always)]
    fn remove(&mut self, hash: ItemHash, select: impl Select) -> Result<bool, OutOfMemory> {
        let mut made_smaller = None;
        loop {
            let (address, segment) = self.locate(hash);
            let run = segment.run(address.block, address.bucket, select);
            let mut slots = segment.slots_of(run);
            let before = slots.len();
            let Some(found) = longest_match(&slots, &address) else {
                // A join may have left out the copy of a void entry that was found before.
                made_smaller.into_iter().for_each(|changes| self.take_back(changes));
                return Ok(false);
            };
            if self.items(0) <= 1 && self.used_slots() <= LEFT_SLOTS_MAX {
                // Copies of void entries may be left in other buckets. They are removed with the last item. More slots have
                // other items, of which a forged header did not tell.
                *self = self.emptied();
                return Ok(true);
            }
            let count = found.entry.number.wrapping_sub(1);
            found.set_count(count, &mut slots);
            let freed = before.wrapping_sub(slots.len());
            if made_smaller.is_none() && freed > 0 {
                made_smaller = self.shrink_before_removal(address.segment, freed)?;
                if made_smaller.is_some() {
                    // The entries may have moved or changed, so they are read again.
                    continue;
                }
            }
            let edit = |segment: &mut Segment| segment.replace_run(run, before, &slots);
            if let Err(TooFull) = self.directory.edit(address.segment, edit) {
                // A smaller count never takes more slots.
                made_smaller.into_iter().for_each(|changes| self.take_back(changes));
                return Err(OutOfMemory);
            }
            if found.entry.value == 1 || count == 0 {
                let mut change = EntrySums::default();
                change.remove(EntryKind::Counted, address.address_bits, found.entry);
                if count > 0 {
                    let left = Entry { number: count, ..found.entry };
                    change.add(EntryKind::Counted, address.address_bits, left);
                }
                self.add_sums(change);
            }
            if self.directory.get(address.segment).is_empty() {
                let blank = Segment::blank(self.size().blocks_log);
                self.directory.replace(address.segment, blank);
            }
            if made_smaller.is_some() {
                self.directory.trim();
            }
            if let ItemCounts::Counted { items, entries, .. } = &mut self.counts {
                *entries = entries.saturating_sub((count == 0).into());
                *items = items.saturating_sub(1);
            }
            self.counts.settle(self.used_slots());
            return Ok(true);
        }
    }
}

struct Add<'t, 'l> {
    table: &'t mut Table,
    addition: Addition,
    room: &'t GrowthBudget<'l>,
}

impl SelectTask for Add<'_, '_> {
    type Output = Result<Added, AddError>;

    #[inline(always)]
    fn run(self, select: impl Select) -> Self::Output {
        self.table.add_item(self.addition, self.room, select)
    }
}

struct AddEach<'t, 'l> {
    table: &'t mut Table,
    hashes: &'t [ItemHash],
    wanted: ItemSet,
    addition: Addition,
    room: &'t GrowthBudget<'l>,
    outcomes: &'t mut TableAdds,
}

impl SelectTask for AddEach<'_, '_> {
    type Output = bool;

    #[inline(always)]
    fn run(self, select: impl Select) -> bool {
        let Self { table, hashes, wanted, addition, room, outcomes } = self;
        for (index, hash) in members(hashes, wanted) {
            match table.add_item(Addition { hash, ..addition }, room, select) {
                Ok(outcome) => {
                    outcomes.new |= ItemSet::from(outcome == Added::New).wrapping_shl(index);
                    outcomes.again |= ItemSet::from(outcome == Added::Again).wrapping_shl(index);
                }
                Err(error) => {
                    outcomes.refused = Some((index, error));
                    return false;
                }
            }
        }
        true
    }
}

struct RemoveEach<'t, F> {
    table: &'t mut Table,
    hashes: &'t [ItemHash],
    wanted: ItemSet,
    reply: &'t mut F,
}

impl<F: FnMut(Result<bool, OutOfMemory>) -> bool> SelectTask for RemoveEach<'_, F> {
    type Output = bool;

    #[inline(always)]
    fn run(self, select: impl Select) -> bool {
        let Self { table, hashes, wanted, reply } = self;
        members(hashes, wanted).all(|(_, hash)| reply(table.remove(hash, select)))
    }
}

#[cfg(test)]
impl Addition {
    /// Returns an addition of an item in generation `now`.
    const fn of_item(hash: ItemHash, now: Generation) -> Self {
        Self { hash, generation: now, now, only_absent: false, most_items: u64::MAX }
    }
}

#[cfg(test)]
impl Table {
    /// Adds an item in generation `now`.
    pub(super) fn add_at(&mut self, hash: ItemHash, now: Generation) -> Added {
        let room = GrowthBudget::new(&u64::MAX);
        self.add(Addition::of_item(hash, now), &room, crate::prefetch::NoPrefetch).unwrap()
    }
}

#[cfg(test)]
mod tests {
    use super::super::state::TableSpec;
    use super::*;

    /// The paths of an add change a table and reply alike, for honest items and for items that are crafted to fill a
    /// bucket, a block or a segment.
    #[test]
    fn the_paths_of_an_add_do_the_same() {
        let mut state = 1u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 16).wrapping_mul(0x9E37_79B9_7F4A_7C15)
        };
        // The first bits of `h1` that are equal, the buckets of a block, the different items, and the adds.
        let cases = [
            (0, 64, u64::MAX, 20_000),
            (0, 64, 500, 5_000),
            (12, 2, u64::MAX, 2_000),
            (12, 64, u64::MAX, 8_000),
            (6, 64, u64::MAX, 20_000),
            (5, 64, 9_000, 20_000),
        ];
        for (kind, (equal_bits, buckets, items, adds)) in [
            EntryKind::Plain,
            EntryKind::Counted,
            EntryKind::Timed(Steps::Fourteen),
            EntryKind::Timed(Steps::Fine),
        ]
        .into_iter()
        .flat_map(|kind| cases.map(|case| (kind, case)))
        {
            let spec = TableSpec { error_rate: 0.001, kind, items: 3_000 };
            let (mut table, mut apart) = (Table::new(spec), Table::new(spec));
            let room = GrowthBudget::new(&u64::MAX);
            for step in 0..adds {
                let item = random() % items;
                let (h1, h2) =
                    (item.wrapping_mul(0xD6E8_FEB8_6659_FD93), item.wrapping_mul(0xA076_1D64_78BD_642F));
                let hash = ItemHash { h1: h1 << equal_bits, h2: ((h2 >> 32) % buckets) << 58 | h2 >> 6 };
                let now = 20 + step / 900;
                let addition = Addition {
                    hash,
                    generation: now - random() % 3 / 2,
                    now,
                    only_absent: random() % 4 == 0,
                    most_items: 19_900,
                };
                let added = table.add_item(addition, &room, PortableSelect);
                assert_eq!(added, apart.edit_apart(kind, addition, &room), "{kind:?}, {equal_bits}, {step}");
                if step % 512 == 0 || step == adds - 1 {
                    assert!(format!("{table:?}") == format!("{apart:?}"), "{kind:?}, {equal_bits}, {step}");
                }
            }
        }
    }

    /// An add that only renews a timed entry finds its bucket once.
    #[test]
    fn a_timed_entry_is_renewed_in_place() {
        #[derive(Clone, Copy)]
        struct Counting<'c>(&'c std::cell::Cell<u32>);
        impl Select for Counting<'_> {
            fn select(self, word: u64, rank: u32) -> u32 {
                self.0.set(self.0.get() + 1);
                PortableSelect.select(word, rank)
            }
        }
        let mut table = Table::new(TableSpec {
            error_rate: 0.001,
            kind: EntryKind::Timed(Steps::Fourteen),
            items: 3_000,
        });
        let (room, finds) = (GrowthBudget::new(&u64::MAX), std::cell::Cell::new(0));
        let mut add = |bucket: u64, now| {
            let hash = ItemHash { h1: 0, h2: bucket << 58 };
            finds.set(0);
            let added = table.add_item(Addition::of_item(hash, now), &room, Counting(&finds)).unwrap();
            (added, finds.get())
        };
        add(0, 20);
        add(1, 20);
        assert_eq!(add(1, 21), (Added::Again, 1));
    }
}
