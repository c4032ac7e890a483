//! Operations on one item and on groups of items, with their memory prefetched.

use super::Table;
use super::add::Addition;
use super::select::{Select, Task};
use crate::bloom::generation::Generation;
use crate::bloom::group::{ItemSet, members, take_first};
use crate::bloom::hash::ItemHash;
use crate::bloom::memory::OutOfMemory;
use crate::bloom::outcome::{AddError, Added};
use crate::bloom::prefetch::Prefetch;
use crate::bloom::room::Room;

/// Items whose memory is prefetched before the first of them is looked up.
const STEP_ITEMS: usize = 32;

/// What became of the items of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcomes {
    /// Items that are [`Added::New`].
    pub new: ItemSet,
    /// Items that are [`Added::Again`].
    pub again: ItemSet,
    /// The first item that was refused, and why. Those after it were not added.
    pub refused: Option<(u32, AddError)>,
}

impl Table {
    /// Returns whether an item may be in the table; at `now`, if entries are timed. O(1).
    #[inline(always)]
    pub fn contains(&self, hash: ItemHash, now: Generation, prefetch: impl Prefetch) -> bool {
        self.prefetch(hash, prefetch);
        prefetch.run(Contains { table: self, hash, now })
    }

    /// Returns which of the `wanted` items may be in the table; at `now`, if entries are timed. O(items).
    pub fn contains_each(
        &self,
        hashes: &[ItemHash],
        wanted: ItemSet,
        now: Generation,
        prefetch: impl Prefetch,
    ) -> ItemSet {
        let (mut rest, mut found) = (wanted, 0);
        while rest != 0 {
            let step = take_first(&mut rest, STEP_ITEMS);
            members(hashes, step).for_each(|(_, hash)| self.prefetch(hash, prefetch));
            found |= prefetch.run(ContainsEach { table: self, hashes, wanted: step, now });
        }
        found
    }

    /// Adds an item. O(1); one add in some thousand also splits a segment.
    ///
    /// # Errors
    /// [`AddError`].
    #[inline(always)]
    pub fn add(
        &mut self,
        addition: Addition,
        room: &Room<'_>,
        prefetch: impl Prefetch,
    ) -> Result<Added, AddError> {
        self.prefetch_change(addition.hash, prefetch);
        prefetch.run(Add { table: self, addition, room })
    }

    /// Adds the `wanted` items in order, until one is refused. `addition` has what they have in common. O(items).
    pub fn add_each(
        &mut self,
        hashes: &[ItemHash],
        wanted: ItemSet,
        addition: Addition,
        room: &Room<'_>,
        prefetch: impl Prefetch,
    ) -> Outcomes {
        let (mut rest, mut outcomes) = (wanted, Outcomes::default());
        while rest != 0 && outcomes.refused.is_none() {
            let step = take_first(&mut rest, STEP_ITEMS);
            members(hashes, step).for_each(|(_, hash)| self.prefetch_change(hash, prefetch));
            let of_step = prefetch.run(AddEach { table: self, hashes, wanted: step, addition, room });
            outcomes.new |= of_step.new;
            outcomes.again |= of_step.again;
            outcomes.refused = of_step.refused;
        }
        outcomes
    }

    /// Removes an item once from counted entries. Returns whether it, or a false positive, was present. O(1); one
    /// removal in some thousand also joins two segments.
    ///
    /// # Errors
    /// [`OutOfMemory`]; nothing changed.
    pub fn remove(&mut self, hash: ItemHash, prefetch: impl Prefetch) -> Result<bool, OutOfMemory> {
        self.prefetch_change(hash, prefetch);
        prefetch.run(Remove { table: self, hash })
    }

    /// Does [`remove`](Self::remove) for each item in order, until `reply` returns false. O(items).
    pub fn remove_each(
        &mut self,
        hashes: &[ItemHash],
        prefetch: impl Prefetch,
        mut reply: impl FnMut(Result<bool, OutOfMemory>) -> bool,
    ) {
        for step in hashes.chunks(STEP_ITEMS) {
            step.iter().for_each(|hash| self.prefetch_change(*hash, prefetch));
            for hash in step {
                if !reply(prefetch.run(Remove { table: self, hash: *hash })) {
                    return;
                }
            }
        }
    }
}

struct Contains<'t> {
    table: &'t Table,
    hash: ItemHash,
    now: Generation,
}

impl Task for Contains<'_> {
    type Output = bool;

    #[inline(always)]
    fn run(self, select: impl Select) -> bool {
        self.table.has(self.hash, self.now, select)
    }
}

struct ContainsEach<'t> {
    table: &'t Table,
    hashes: &'t [ItemHash],
    wanted: ItemSet,
    now: Generation,
}

impl Task for ContainsEach<'_> {
    type Output = ItemSet;

    #[inline(always)]
    fn run(self, select: impl Select) -> ItemSet {
        let Self { table, hashes, wanted, now } = self;
        members(hashes, wanted).fold(0, |found, (index, hash)| {
            found | ItemSet::from(table.has(hash, now, select)).wrapping_shl(index)
        })
    }
}

struct Add<'t, 'l> {
    table: &'t mut Table,
    addition: Addition,
    room: &'t Room<'l>,
}

impl Task for Add<'_, '_> {
    type Output = Result<Added, AddError>;

    #[inline(always)]
    fn run(self, select: impl Select) -> Self::Output {
        self.table.add_item(self.addition, self.room, select)
    }
}

struct Remove<'t> {
    table: &'t mut Table,
    hash: ItemHash,
}

impl Task for Remove<'_> {
    type Output = Result<bool, OutOfMemory>;

    #[inline(always)]
    fn run(self, select: impl Select) -> Self::Output {
        self.table.remove_counted(self.hash, select)
    }
}

struct AddEach<'t, 'l> {
    table: &'t mut Table,
    hashes: &'t [ItemHash],
    wanted: ItemSet,
    addition: Addition,
    room: &'t Room<'l>,
}

impl Task for AddEach<'_, '_> {
    type Output = Outcomes;

    #[inline(always)]
    fn run(self, select: impl Select) -> Outcomes {
        let mut outcomes = Outcomes::default();
        for (index, hash) in members(self.hashes, self.wanted) {
            match self.table.add_item(Addition { hash, ..self.addition }, self.room, select) {
                Ok(outcome) => {
                    outcomes.new |= ItemSet::from(outcome == Added::New).wrapping_shl(index);
                    outcomes.again |= ItemSet::from(outcome == Added::Again).wrapping_shl(index);
                }
                Err(error) => {
                    outcomes.refused = Some((index, error));
                    break;
                }
            }
        }
        outcomes
    }
}
