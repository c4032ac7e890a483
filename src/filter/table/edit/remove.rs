//! Removing items.

use super::run::longest_match;
use crate::group::{ItemSet, all, members};
use crate::hash::ItemHash;
use crate::memory::OutOfMemory;
use crate::prefetch::{Prefetch, SelectTask};
use crate::table::changes::Undo;
use crate::table::entry::{Entry, EntryKind, matches};
use crate::table::segment::Segment;
use crate::table::size::TooFull;
use crate::table::state::Table;
use crate::table::totals::{EntrySums, ItemCounts};
use crate::words::Select;

/// The most slots that a table with one item may have in use: of its entry, and of copies of void entries of items that
/// were removed.
const LEFT_SLOTS_MAX: u64 = 128;

/// Why an item was not removed.
enum NotRemoved {
    /// No entry matches it.
    Absent,
    OutOfMemory,
}

impl From<OutOfMemory> for NotRemoved {
    fn from(OutOfMemory: OutOfMemory) -> Self {
        Self::OutOfMemory
    }
}

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

    /// Removes an item once from a table of counted entries. Returns whether it was, or seemed to be, present. O(1). One
    /// removal in a few thousand also joins two segments.
    pub fn remove(&mut self, hash: ItemHash, prefetch: impl Prefetch) -> Result<bool, OutOfMemory> {
        prefetch.with_fast_select(Remove { table: self, hash, prefetch })
    }

    #[inline(always)]
    fn remove_selecting(&mut self, hash: ItemHash, select: impl Select) -> Result<bool, OutOfMemory> {
        if let Some(is_found) = self.remove_shortly(hash, select) {
            return Ok(is_found);
        }
        match self.do_whole(|table, undo| table.try_remove(hash, select, undo)) {
            Ok(()) => Ok(true),
            Err(NotRemoved::Absent) => Ok(false),
            Err(NotRemoved::OutOfMemory) => Err(OutOfMemory),
        }
    }

    /// Does [`try_remove`](Self::try_remove) in less time for what most removals do: remove an entry with one slot from a
    /// segment that stays as large. Returns whether the item was present; `None` for other removals.
    #[inline(always)]
    fn remove_shortly(&mut self, hash: ItemHash, select: impl Select) -> Option<bool> {
        let (address, segment) = self.locate(hash);
        let run = segment.run(address.block, address.bucket, select);
        let (mut slots, mut has_counts, mut found, mut longest) = (0u32, false, 0, 0);
        if !run.is_empty {
            segment.scan(run.start, |slot| {
                // Before each digit of a count comes a slot of zero. Without one, each slot is an entry.
                has_counts |= slot == 0;
                if matches(slot, address.key) && slot >= longest {
                    (found, longest) = (slots, slot);
                }
                slots += 1;
                true
            });
        }
        if has_counts || longest == 1 {
            return None;
        }
        if longest == 0 {
            return Some(false);
        }
        if segment.used() == 1 || self.items(0) <= 1 || self.is_shrinkage_due(segment, 1) {
            return None;
        }
        let (segment, all_used) = self.directory.get_mut(address.segment);
        segment.remove(run, found);
        if let Some(all_used) = all_used {
            *all_used -= 1;
        }
        let mut change = EntrySums::default();
        change.remove_weight(address.address_bits, longest);
        self.add_weight(change.weight.get());
        self.uncount(true);
        Some(true)
    }

    /// Counts a removal. `is_last` is whether it has removed the entry.
    #[inline(always)]
    fn uncount(&mut self, is_last: bool) {
        // Counts of a snapshot may be too small.
        if let ItemCounts::Counted { items, entries, .. } = &mut self.counts {
            *entries = entries.saturating_sub(is_last.into());
            *items = items.saturating_sub(1);
        }
        self.counts.settle(self.used_slots());
    }

    fn try_remove(&mut self, hash: ItemHash, select: impl Select, undo: &mut Undo) -> Result<(), NotRemoved> {
        loop {
            let (address, segment) = self.locate(hash);
            let run = segment.run(address.block, address.bucket, select);
            let mut slots = segment.slots_of(run);
            let before = slots.len();
            // A join may have left out the copy of a void entry that was found before.
            let found = longest_match(&slots, &address).ok_or(NotRemoved::Absent)?;
            if self.items(0) <= 1 && self.used_slots() <= LEFT_SLOTS_MAX {
                // Copies of void entries may be left in other buckets. They are removed with the last item. More slots have
                // other items, of which a forged snapshot did not tell.
                *self = self.emptied();
                return Ok(());
            }
            let count = found.entry.number - 1;
            found.set_count(count, &mut slots);
            let freed = before - slots.len();
            if undo.is_empty()
                && freed > 0
                && let Some(smaller) = self.plan_shrinkage(address.segment, freed)?
            {
                // The entries may move or change, so they are read again.
                self.make(smaller, undo)?;
                continue;
            }
            let edit = |segment: &mut Segment| segment.replace_run(run, before, &slots);
            // A smaller count never takes more slots.
            self.directory.edit(address.segment, edit).map_err(|TooFull| NotRemoved::OutOfMemory)?;
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
            self.uncount(count == 0);
            return Ok(());
        }
    }
}

struct Remove<'t, P> {
    table: &'t mut Table,
    hash: ItemHash,
    prefetch: P,
}

impl<P: Prefetch> SelectTask for Remove<'_, P> {
    type Output = Result<bool, OutOfMemory>;

    #[inline(always)]
    fn run(self, select: impl Select) -> Self::Output {
        let Self { table, hash, prefetch } = self;
        if !table.is_cached() {
            table.prefetch_change(hash, prefetch);
        }
        table.remove_selecting(hash, select)
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
        // A closure would be compiled without the processor's instructions.
        for (_, hash) in members(hashes, wanted) {
            if !reply(table.remove_selecting(hash, select)) {
                return false;
            }
        }
        true
    }
}
