//! Looking up items, one or a group.

use super::entry::{CountReader, CountedEntry, EntryKind, RunSlots, generation, matches};
use super::segment::{BucketRun, Segment};
use super::state::Table;
use crate::generation::{Generation, Steps};
use crate::group::{ItemSet, in_steps, members};
use crate::hash::ItemHash;
use crate::limits::CACHED_MAX_WORDS;
use crate::prefetch::{Prefetch, SelectTask};
use crate::words::{PortableSelect, Select, low_bits};

/// The number of items whose memory is prefetched while as many items before them are looked up. Decision 6 has the times of
/// steps of several sizes, for bits.
pub(super) const STEP_ITEMS: usize = 8;

impl Table {
    /// Returns whether an item may be in the table. If entries are timed, it must be live at `now`. O(1).
    #[inline(always)]
    pub fn contains(&self, hash: ItemHash, now: Generation, prefetch: impl Prefetch) -> bool {
        self.prefetch(hash, prefetch);
        prefetch.with_fast_select(Contains { table: self, hash, now })
    }

    /// Returns which of the `wanted` items may be in the table. If entries are timed, they must be live at `now`.
    /// O(items).
    pub fn contains_each(
        &self,
        hashes: &[ItemHash],
        wanted: ItemSet,
        now: Generation,
        prefetch: impl Prefetch,
    ) -> ItemSet {
        let look_up = |wanted| prefetch.with_fast_select(ContainsEach { table: self, hashes, wanted, now });
        if self.is_cached() {
            return look_up(wanted);
        }
        let mut found = 0;
        in_steps(
            &mut found,
            wanted,
            STEP_ITEMS,
            |_, step| members(hashes, step).for_each(|(_, hash)| self.prefetch(hash, prefetch)),
            |found, step| {
                *found |= look_up(step);
                true
            },
        );
        found
    }

    /// Returns how often an item was added to a table of counted entries and not removed since: the sum of all entries
    /// that match it, so never less. It is more with the probability that [`contains`](Self::contains) is wrong. O(1).
    #[must_use]
    pub fn occurrences(&self, hash: ItemHash) -> u64 {
        let (address, segment) = self.locate(hash);
        let run = segment.run(address.block, address.bucket, PortableSelect);
        let slots = segment.slots_of(run);
        let matching = CountedEntry::all(&slots).filter(|found| matches(found.entry.value, address.key));
        // Crafted counts may have a larger sum.
        matching.fold(0, |sum, found| sum.saturating_add(found.entry.number))
    }

    /// Returns the newest generation of the entries that match an item, if entries are timed and one matches. O(1).
    #[must_use]
    pub fn newest_of(&self, hash: ItemHash) -> Option<Generation> {
        let steps = self.kind().steps()?;
        let (address, segment) = self.locate(hash);
        let run = segment.run(address.block, address.bucket, PortableSelect);
        let entry_mask = low_bits(self.kind().entry_bits(segment));
        let slots = segment.slots_of(run);
        let matching = slots.iter().filter(|slot| matches(**slot & entry_mask, address.key));
        matching.map(|slot| generation(steps, segment, *slot)).max()
    }

    /// Returns whether the table is small enough for the processor's caches, so that a prefetch would take as long as a
    /// read.
    #[inline(always)]
    pub(super) fn is_cached(&self) -> bool {
        self.directory.bytes() <= CACHED_MAX_WORDS as u64 * 8
    }

    /// Returns whether an item may be in the table. If entries are timed, it must be live at `now`.
    #[inline(always)]
    fn has(&self, hash: ItemHash, now: Generation, select: impl Select) -> bool {
        let (address, segment) = self.locate(hash);
        let header = segment.header(address.block);
        if !header.is_occupied(address.bucket) {
            return false;
        }
        let start = segment.run_start(address.block, &header, address.bucket, select);
        let timed = |steps: Steps| {
            let entry_bits = EntryKind::Timed(steps).entry_bits(segment);
            segment.run_has(start, |slot| {
                matches(slot & low_bits(entry_bits), address.key)
                    && steps.is_live(generation(steps, segment, slot), now)
            })
        };
        match self.kind() {
            EntryKind::Plain => segment.run_has(start, |slot| matches(slot, address.key)),
            EntryKind::Counted => {
                let mut counts = CountReader::default();
                segment.run_has(start, |slot| counts.is_entry(slot) && matches(slot, address.key))
            }
            EntryKind::Timed(Steps::Fourteen) => timed(Steps::Fourteen),
            EntryKind::Timed(Steps::Fine) => timed(Steps::Fine),
        }
    }

    /// Prefetches the memory of an item's entries for a lookup.
    #[inline(always)]
    fn prefetch(&self, hash: ItemHash, prefetch: impl Prefetch) {
        let (address, segment) = self.locate(hash);
        segment.prefetch(address.block, prefetch);
    }

    /// Prefetches the memory of an item's entries for a change.
    #[inline(always)]
    pub(super) fn prefetch_change(&self, hash: ItemHash, prefetch: impl Prefetch) {
        let (address, segment) = self.locate(hash);
        segment.prefetch(address.block, prefetch);
        // An insertion reads the offset of the next block to find the free slots of this one.
        segment.prefetch_header(address.block + 1, prefetch);
    }
}

impl Segment {
    #[inline(always)]
    pub(super) fn slots_of(&self, run: BucketRun) -> RunSlots {
        let mut slots = RunSlots::new();
        if !run.is_empty {
            self.scan(run.start, |slot| {
                slots.push(slot);
                true
            });
        }
        slots
    }
}

struct Contains<'t> {
    table: &'t Table,
    hash: ItemHash,
    now: Generation,
}

impl SelectTask for Contains<'_> {
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

impl SelectTask for ContainsEach<'_> {
    type Output = ItemSet;

    #[inline(always)]
    fn run(self, select: impl Select) -> ItemSet {
        let Self { table, hashes, wanted, now } = self;
        members(hashes, wanted).fold(0, |found, (index, hash)| {
            found | ItemSet::from(table.has(hash, now, select)) << (index & 63)
        })
    }
}
