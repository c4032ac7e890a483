//! Drives an expandable table alone: adds, removals, time, limits, splits and joins, unions, dumps, and crafted items
//! and entries. After each step, checks every rule and that no item is missing. Checks that a table that was saved and
//! loaded is the same.

use std::collections::BTreeMap;

use everbloom_filter::hash::murmur3::hash128;
use everbloom_filter::prefetch::NoPrefetch;
use everbloom_filter::table::{
    Addition, DumpedSegment, EntryKind, LoadError, Table, TableLoad, TableStats, Union, UnionError,
};
use everbloom_filter::work;
use everbloom_filter::{AddError, Added, GrowthBudget, ItemHash, TableSpec};

use super::forge::{self, FILLINGS, TableForm};
use super::input::Input;
use crate::make::insert;
use crate::work::{assert_work, callback};

/// Largest number of steps of one input.
const STEPS_MAX: usize = 60;
/// The most slots that one add reads and writes: it may compact one segment, split another and enlarge a third.
const ADD_SLOTS_MAX: u64 = 60_000;
/// Largest number of adds of one step.
const ADDS_MAX: usize = 2000;
/// Largest number of adds and removals of one input in steps of many. More would take seconds.
const CHANGES_MAX: usize = 30_000;

/// The number of adds of an item, and the generation of the last one.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    count: u64,
    added: u64,
}

/// The table, and the items that it must find.
struct World {
    table: Table,
    known: BTreeMap<(u64, u64), Known>,
    /// The current generation, if entries are timed.
    now: u64,
    /// Whether all entries of the table belong to known items.
    is_exact: bool,
    /// How many adds and removals are left for steps of many.
    changes_left: usize,
}

/// Makes a table and runs a sequence of operations on it.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let kind = *input.choose(&[
        EntryKind::Plain,
        EntryKind::Counted,
        EntryKind::Timed(everbloom::Steps::Fourteen),
        EntryKind::Timed(everbloom::Steps::Fine),
    ]);
    let error_rate = *input.choose(&[0.01, 0.3, 1e-6, 0.9, 1e-15]);
    let items = *input.choose(&[1, 50, 2000, 30_000]);
    let table = Table::new(TableSpec { error_rate, kind, items });
    let now = if kind.is_timed() { 100 } else { 0 };
    let mut world = World { table, known: BTreeMap::new(), now, is_exact: true, changes_left: CHANGES_MAX };
    for _ in 0..STEPS_MAX {
        if input.is_empty() {
            break;
        }
        world.step(&mut input);
        world.check();
    }
    world.reload();
}

/// Returns the hash of an item. It is a real hash, or it is crafted so that items fall into few buckets.
fn hash(input: &mut Input<'_>) -> ItemHash {
    let choice = input.byte();
    let number = u64::from(input.u16());
    match choice {
        0..0xa0 => hash128(&number.to_le_bytes()),
        // The same segment and block, a few buckets, and remainders that differ in their upper bits.
        0xa0..0xd0 => ItemHash { h1: number << (choice & 31), h2: u64::from(choice & 3) << 58 },
        0xd0..0xf0 => ItemHash { h1: number << 40 | u64::from(choice & 7), h2: number << 50 },
        _ => ItemHash { h1: input.u64(), h2: input.u64() },
    }
}

impl World {
    fn kind(&self) -> EntryKind {
        self.table.kind()
    }

    fn step(&mut self, input: &mut Input<'_>) {
        match input.byte() % 20 {
            0..=4 => {
                for _ in 0..=input.byte() {
                    let hash = hash(input);
                    self.add(hash, u64::MAX, input.byte());
                    if input.is_empty() {
                        break;
                    }
                }
            }
            5..=7 => self.add_many(input),
            8 => {
                let limit = self.table.size_bytes() + u64::from(input.u16());
                for _ in 0..=input.byte() {
                    let hash = hash(input);
                    self.add(hash, limit, 0);
                }
            }
            9..=12 => _ = self.remove(usize::from(input.u16()), usize::from(input.byte())),
            13 | 14 if self.kind().is_timed() => {
                self.now += u64::from(*input.choose(&[1u8, 1, 2, 7, 14, 15, 16, 40]))
            }
            15 => self.unite(input),
            16 => self.craft(input),
            17 => self.reload(),
            _ => self.dump(input),
        }
    }

    /// Returns the generation of the newest entry, at least 1; 0 if entries are not timed.
    fn newest(&self) -> u64 {
        self.table.newest().max(1)
    }

    fn addition(&self, hash: ItemHash, flags: u8) -> Addition {
        let added = self.now.saturating_sub(u64::from(flags >> 4).min(14));
        // For an item that is added late, the current generation is that of the newest entry.
        let now = added.max(self.newest());
        let added = if !self.kind().has_expired(added, now) { added } else { now };
        Addition { hash, generation: added, now, only_absent: flags & 1 == 1, most_items: u64::MAX }
    }

    fn add(&mut self, hash: ItemHash, limit: u64, flags: u8) {
        let addition = self.addition(hash, flags);
        let before = self.table.counts();
        _ = work::take();
        let result = insert(&mut self.table, addition, &GrowthBudget::new(&limit));
        let done = work::take();
        assert!(done.slots < ADD_SLOTS_MAX, "{done:?}");
        let known = self.known.entry((hash.h1, hash.h2)).or_default();
        match result {
            Ok(added) => {
                assert!(
                    added != Added::Present
                        || addition.only_absent
                        || self.table.kind() != EntryKind::Counted
                );
                let is_known = known.count > 0 && !self.table.kind().has_expired(known.added, self.now);
                assert!(added != Added::New || !is_known);
                let is_counted = self.table.kind() != EntryKind::Counted || added != Added::Present;
                known.count += u64::from(is_counted);
                if added != Added::Present || !addition.only_absent {
                    known.added = known.added.max(addition.generation);
                } else if !is_known {
                    // A false positive, whose generation stays.
                    self.known.remove(&(hash.h1, hash.h2));
                }
            }
            Err(error) => {
                assert!(error == AddError::TooOften || limit < u64::MAX, "{error}");
                assert_eq!(self.table.counts(), before);
                if known.count == 0 {
                    self.known.remove(&(hash.h1, hash.h2));
                }
            }
        }
    }

    /// Returns how many of `wanted` changes may be made.
    fn changes(&mut self, wanted: usize) -> usize {
        let made = wanted.min(self.changes_left);
        self.changes_left -= made;
        made
    }

    /// Adds many honest items.
    fn add_many(&mut self, input: &mut Input<'_>) {
        let (first, count) = (u64::from(input.u32()) << 20, usize::from(input.u16()) % ADDS_MAX);
        let count = self.changes(count);
        for number in 0..count as u64 {
            self.add(hash128(&(first | number).to_le_bytes()), u64::MAX, 0);
        }
    }

    /// Removes some of the known items. Returns those that are no longer known.
    fn remove(&mut self, first: usize, times: usize) -> Vec<(u64, u64)> {
        if self.kind() != EntryKind::Counted {
            return Vec::new();
        }
        let skipped = first % self.known.len().max(1);
        let most = self.changes(times * 8);
        let items: Vec<_> = self.known.keys().copied().skip(skipped).take(most).collect();
        for item in &items {
            let known = self.known.get_mut(item).unwrap();
            self.table.remove_each(&[ItemHash { h1: item.0, h2: item.1 }], NoPrefetch, |removed| {
                assert_eq!(removed, Ok(true), "{item:x?}");
                true
            });
            known.count -= 1;
            if known.count == 0 {
                self.known.remove(item);
            }
        }
        items.into_iter().filter(|item| !self.known.contains_key(item)).collect()
    }

    /// Adds the entries of another table.
    fn unite(&mut self, input: &mut Input<'_>) {
        let table = self.table.emptied();
        let mut other =
            Self { table, known: BTreeMap::new(), now: self.now, is_exact: true, changes_left: 0 };
        for _ in 0..usize::from(input.u16()) % ADDS_MAX {
            if input.is_empty() {
                break;
            }
            let hash = hash(input);
            other.add(hash, u64::MAX, 0);
        }
        assert_eq!(other.table.internal_validate(), Ok(()));
        let (any, now) = (GrowthBudget::new(&u64::MAX), self.newest().max(other.newest()));
        let tables = [&other.table];
        let bytes = self.table.size_bytes() + other.table.size_bytes();
        _ = work::take();
        let united = self.table.union_with(&tables, now, &any, |_| Ok::<(), UnionError>(()));
        let united_bytes = if let Ok(Union::Made(table)) = &united { table.size_bytes() } else { 0 };
        assert_work(work::take(), 2 * bytes + united_bytes, "union");
        match united {
            Ok(Union::Unchanged) => {}
            Ok(Union::Made(table)) => self.table = table,
            Err(UnionError::TooOften) => return,
            Err(error) => panic!("{error:?}"),
        }
        for (item, of_other) in other.known {
            let known = self.known.entry(item).or_default();
            known.count += of_other.count;
            known.added = known.added.max(of_other.added);
        }
    }

    /// Loads a crafted segment of a table of about the same size. Adds of items would not make most of its entries.
    fn craft(&mut self, input: &mut Input<'_>) {
        let form = TableForm::of_table(&self.table);
        let most_depth = form.segments.ilog2() + 2;
        let depth = if form.blocks_log < 6 { 0 } else { u32::from(input.byte()) % (most_depth + 1) };
        let blocks_log = if depth > 0 { 6 } else { u32::from(input.byte()) % 7 };
        let number = usize::from(input.u16()) & ((1 << depth) - 1);
        let stamp = if form.is_timed() { self.newest().max(20) } else { 0 };
        let bytes = if input.flag() {
            forge::segment_of(input, &form, depth, blocks_log).0
        } else {
            let most = usize::from(input.u16());
            forge::full_segment(&form, depth, blocks_log, *input.choose(&FILLINGS), most, stamp).0
        };
        let words = bytes.chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
        let segment = DumpedSegment { number, depth, blocks_log, stamp, words };
        let bytes = bytes.len() as u64 + self.table.size_bytes();
        let limit = self.table.size_bytes() + (1 << 22);
        let room = GrowthBudget::new(&limit);
        let (counts, used) = (self.table.counts(), self.table.used_slots());
        let mut load = TableLoad::new(self.kind(), counts, used).unwrap();
        let mut position = 0;
        while let Some((part, end)) = self.table.segment_at(position).unwrap() {
            position = end;
            load.add(vec![part], u64::MAX, &GrowthBudget::new(&u64::MAX)).unwrap();
            assert_eq!(load.internal_validate(), Ok(()));
        }
        let before = load.size_bytes();
        _ = work::take();
        let made = load.add(vec![segment], u64::MAX, &room).and_then(|replaced| {
            let made = load.make_table(false, &room);
            if made.is_err() {
                load.take_back(replaced);
            }
            made
        });
        let made_bytes = made.as_ref().map_or(0, Table::size_bytes);
        assert_work(work::take(), 4 * bytes + made_bytes, "part");
        match made {
            Ok(table) => {
                self.table = table;
                self.is_exact = false;
                self.now = self.now.max(self.table.newest());
            }
            Err(LoadError::Invalid(_) | LoadError::NoRoom(_) | LoadError::Ahead | LoadError::Overlapping) => {
                assert_eq!(load.size_bytes(), before);
                assert_eq!(load.internal_validate(), Ok(()));
            }
        }
    }

    /// Saves and loads the segments, and copies the table.
    fn reload(&self) {
        let any = GrowthBudget::new(&u64::MAX);
        let (counts, used) = (self.table.counts(), self.table.used_slots());
        let mut loaded = Table::try_of_counts(self.kind(), counts, used, &any).unwrap();
        for (number, words, stamp) in self.table.segments() {
            loaded.set_segment(number, words.into(), stamp).unwrap();
        }
        let copy = || self.table.try_clone().unwrap();
        for again in [loaded, callback(self.table.size_bytes(), "copy", copy, Table::size_bytes)] {
            assert_eq!(again.internal_validate(), Ok(()));
            assert_eq!(again.counts(), self.table.counts());
            // Empty segments may take memory in the directory until the table is loaded or copied.
            let (stats, size_bytes) = (again.stats(self.now), again.size_bytes());
            assert_eq!(stats, TableStats { size_bytes, ..self.table.stats(self.now) });
            let is_full = self.table.segments().count() == again.segment_count();
            assert!(
                size_bytes == self.table.size_bytes() || size_bytes < self.table.size_bytes() && !is_full
            );
            assert!(again.segments().eq(self.table.segments()));
        }
    }

    /// Dumps the table part by part into a copy while the table changes. Items that were in it all the time must be in
    /// the copy.
    fn dump(&mut self, input: &mut Input<'_>) {
        let any = GrowthBudget::new(&u64::MAX);
        let (counts, used) = (self.table.counts(), self.table.used_slots());
        let mut load = TableLoad::new(self.kind(), counts, used).unwrap();
        // An item that is removed and added again may be absent when its part is dumped.
        let mut kept = self.known.clone();
        let mut position = 0;
        while let Some((part, end)) = self.table.segment_at(position).unwrap() {
            assert!(end > position);
            position = end;
            load.add(vec![part.clone()], u64::MAX, &any).unwrap();
            assert_eq!(load.internal_validate(), Ok(()));
            if input.flag() {
                assert!(load.add(vec![part], u64::MAX, &any).unwrap().is_empty());
            }
            match input.byte() % 8 {
                0 => {
                    for item in self.remove(usize::from(input.u16()), usize::from(input.byte())) {
                        kept.remove(&item);
                    }
                }
                1 | 2 => self.add_many(input),
                _ => continue,
            }
            assert_eq!(self.table.internal_validate(), Ok(()));
        }
        let copy = load.make_table(false, &any).unwrap();
        assert_eq!(copy.internal_validate(), Ok(()));
        for (item, known) in &kept {
            let is_live = !self.kind().has_expired(known.added, self.now);
            let is_found = copy.contains(ItemHash { h1: item.0, h2: item.1 }, self.now, NoPrefetch);
            assert!(is_found || !is_live, "{item:x?}");
        }
    }

    fn check(&self) {
        assert_eq!(self.table.internal_validate(), Ok(()));
        for (item, known) in &self.known {
            let is_live = !self.kind().has_expired(known.added, self.now);
            let is_found = self.table.contains(ItemHash { h1: item.0, h2: item.1 }, self.now, NoPrefetch);
            assert!(is_found || !is_live, "lost {item:x?}, {known:?}");
        }
        if self.kind() == EntryKind::Counted && self.is_exact {
            let items = self.known.values().map(|known| known.count).sum::<u64>();
            assert_eq!(self.table.items(0), items);
        }
        let rate = self.table.error_rate(self.now);
        assert!((0.0..=1.0).contains(&rate));
    }
}
