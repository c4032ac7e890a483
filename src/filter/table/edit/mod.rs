//! Adding and removing items. Both edit the run of the item's bucket.
//!
//! An add makes room first, reads the run, changes it, and writes it back. The kinds of entries differ only in the
//! change:
//!
//! * Plain: a new entry, unless an entry matches the item.
//! * Counted: the longest entry that matches counts the item, if its remainder lacks at most
//!   [`LOST_BITS_MAX`](run::LOST_BITS_MAX) bits. Otherwise the item gets a new entry.
//! * Timed: an entry of the item gets the new generation. Only an entry with the longest remainder of its segment is
//!   the item's own. A shorter one matches more items, and would never expire if each of them refreshed it.
//!
//! What most adds do has a shorter path, with the same result: to insert an entry of an item that no entry matches, and to
//! give a timed entry a new generation. Adds to a table of 100,000 items take a fifth fewer instructions with it (callgrind).
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
//!
//! Each file imports only the ones above it in this list:
//!
//! * [`run`]: what an add does to the run of its item. [`bucket`]: changing the slots of a bucket.
//! * [`add`] and [`remove`]: the change of the table.

mod add;
mod bucket;
mod remove;
mod run;

#[cfg(test)]
pub(super) use run::LOST_BITS_MAX;
pub use run::{Addition, TableAdds};

use super::entry::EntryKind;
use super::lookup::STEP_ITEMS;
use super::state::Table;
use crate::generation::Steps;
use crate::group::{ItemSet, in_steps, members};
use crate::growth_budget::GrowthBudget;
use crate::hash::ItemHash;
use crate::outcome::{AddError, Added};
use crate::prefetch::{Prefetch, SelectTask};
use crate::words::Select;

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
        prefetch.with_fast_select(Add { table: self, addition, room, prefetch })
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
}

struct Add<'t, 'l, P> {
    table: &'t mut Table,
    addition: Addition,
    room: &'t GrowthBudget<'l>,
    prefetch: P,
}

impl<P: Prefetch> SelectTask for Add<'_, '_, P> {
    type Output = Result<Added, AddError>;

    #[inline(always)]
    fn run(self, select: impl Select) -> Self::Output {
        let Self { table, addition, room, prefetch } = self;
        if !table.is_cached() {
            table.prefetch_change(addition.hash, prefetch);
        }
        table.add_item(addition, room, select)
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
                    let index = index & 63;
                    outcomes.new |= ItemSet::from(outcome == Added::New) << index;
                    outcomes.again |= ItemSet::from(outcome == Added::Again) << index;
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

#[cfg(test)]
impl Addition {
    /// Returns an addition of an item in generation `now`.
    const fn of_item(hash: ItemHash, now: u64) -> Self {
        Self { hash, generation: now, now, only_absent: false, most_items: u64::MAX }
    }
}

#[cfg(test)]
impl Table {
    /// Adds an item in generation `now`.
    pub(super) fn add_at(&mut self, hash: ItemHash, now: u64) -> Added {
        let room = GrowthBudget::new(&u64::MAX);
        self.add(Addition::of_item(hash, now), &room, crate::prefetch::NoPrefetch).unwrap()
    }
}
