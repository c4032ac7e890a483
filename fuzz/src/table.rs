//! Drives an expandable table alone: adds, removals, time, limits, splits and joins, unions, dumps, and crafted items
//! and entries. After each step, checks every rule and that no item is missing. Checks that a table that was saved and
//! loaded is the same.

use std::collections::HashMap;

use everbloom::bloom::generation::is_live;
use everbloom::bloom::hash::murmur3::hash128;
use everbloom::bloom::prefetch::NoPrefetch;
use everbloom::bloom::table::merge::{Counting, Entry};
use everbloom::bloom::table::{Addition, COUNT_MAX, EntryKind, Table};
use everbloom::bloom::{AddError, Added, ItemHash, Room, TableSpec};

use super::input::Input;

/// Largest number of steps of one input.
const STEPS_MAX: usize = 60;
/// Largest number of adds of one step.
const ADDS_MAX: usize = 2000;

/// The number of adds of an item, and the generation of the last one.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    count: u64,
    added: u64,
}

/// The table, and the items that it must find.
struct World {
    table: Table,
    known: HashMap<(u64, u64), Known>,
    /// The current generation, if entries are timed.
    now: u64,
    /// Whether all entries of the table belong to known items.
    is_exact: bool,
}

/// Makes a table and runs a sequence of operations on it.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let kind = *input.choose(&[EntryKind::Plain, EntryKind::Counted, EntryKind::Timed]);
    let error_rate = *input.choose(&[0.01, 0.3, 1e-6, 0.9, 1e-15]);
    let items = *input.choose(&[1, 50, 2000, 30_000]);
    let table = Table::try_new(TableSpec { error_rate, kind, items }).unwrap();
    let now = if kind == EntryKind::Timed { 100 } else { 0 };
    let mut world = World { table, known: HashMap::new(), now, is_exact: true };
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
            5..=7 => {
                let (first, count) = (input.u32(), usize::from(input.u16()) % ADDS_MAX);
                for number in 0..count as u64 {
                    self.add(hash128(&(u64::from(first) << 20 | number).to_le_bytes()), u64::MAX, 0);
                }
            }
            8 => {
                let limit = self.table.size_bytes() + u64::from(input.u16());
                for _ in 0..=input.byte() {
                    let hash = hash(input);
                    self.add(hash, limit, 0);
                }
            }
            9..=12 => self.remove(usize::from(input.u16()), usize::from(input.byte())),
            13 | 14 if self.kind() == EntryKind::Timed => {
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
        self.table.history().map_or(0, |history| history.newest.max(1))
    }

    fn addition(&self, hash: ItemHash, flags: u8) -> Addition {
        let added = self.now.saturating_sub(u64::from(flags >> 4).min(14));
        // For an item that is added late, the current generation is that of the newest entry.
        let now = added.max(self.newest());
        let added = if is_live(added, now) { added } else { now };
        Addition { hash, generation: added, now, keeps_generation: flags & 1 == 1, most_items: u64::MAX }
    }

    fn add(&mut self, hash: ItemHash, limit: u64, flags: u8) {
        let addition = self.addition(hash, flags);
        let before = self.table.counts();
        let result = self.table.add(addition, &Room::new(&limit), NoPrefetch);
        let known = self.known.entry((hash.h1, hash.h2)).or_default();
        match result {
            Ok(added) => {
                let is_known = known.count > 0
                    && (self.table.kind() != EntryKind::Timed || is_live(known.added, self.now));
                assert!(added != Added::New || !is_known);
                known.count += 1;
                if added != Added::Present || !addition.keeps_generation {
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

    /// Removes some of the known items.
    fn remove(&mut self, first: usize, times: usize) {
        if self.kind() != EntryKind::Counted {
            return;
        }
        let mut items: Vec<_> = self.known.keys().copied().collect();
        items.sort_unstable();
        let skipped = if items.is_empty() { 0 } else { first % items.len() };
        for item in items.into_iter().skip(skipped).take(times * 8) {
            let known = self.known.get_mut(&item).unwrap();
            self.table.remove_each(&[ItemHash { h1: item.0, h2: item.1 }], NoPrefetch, |removed| {
                assert_eq!(removed, Ok(true), "{item:x?}");
                true
            });
            known.count -= 1;
            if known.count == 0 {
                self.known.remove(&item);
            }
        }
    }

    /// Adds the entries of another table.
    fn unite(&mut self, input: &mut Input<'_>) {
        let table = self.table.try_emptied().unwrap();
        let mut other = Self { table, known: HashMap::new(), now: self.now, is_exact: true };
        for _ in 0..usize::from(input.u16()) % ADDS_MAX {
            if input.is_empty() {
                break;
            }
            let hash = hash(input);
            other.add(hash, u64::MAX, 0);
        }
        let (any, now) = (Room::new(&u64::MAX), self.newest().max(other.newest()));
        self.table.grow_for(other.table.used_slots(), now, &any).unwrap();
        for number in 0..other.table.segment_count() {
            let mut entries = Vec::new();
            other.table.visit_segment(number, |entry| entries.push(entry));
            for entry in entries {
                match self.table.add_entry(entry, Counting::Sum, now, &any) {
                    Ok(_) => {}
                    Err(AddError::TooOften) => {
                        // The table has refused this entry, and it is unknown which items have it.
                        other.known.clear();
                        self.is_exact = false;
                    }
                    Err(error) => panic!("{error}"),
                }
            }
        }
        for (item, of_other) in other.known {
            let known = self.known.entry(item).or_default();
            known.count += of_other.count;
            known.added = known.added.max(of_other.added);
        }
    }

    /// Adds entries of every length. Adds of items would not make most of them.
    fn craft(&mut self, input: &mut Input<'_>) {
        self.is_exact = false;
        for _ in 0..=input.byte() & 15 {
            // An entry that knows fewer bits of the hash would be copied to very many buckets.
            let address_bits = self.table.segment_count().ilog2() + self.table.counts().blocks_log;
            let known_bits = (u32::from(input.byte()) % 70).max(address_bits.saturating_sub(8));
            let known = (u128::from(input.u64()) << 8 | u128::from(input.byte())) & ((1 << known_bits) - 1);
            let entry = Entry {
                bucket: input.byte() & 63,
                known_bits: known_bits as u8,
                known,
                count: if self.kind() == EntryKind::Counted {
                    u64::from(input.u16()) % COUNT_MAX + 1
                } else {
                    1
                },
                generation: if self.kind() == EntryKind::Timed {
                    self.newest().saturating_sub(u64::from(input.byte() & 15).min(14)).max(1)
                } else {
                    0
                },
            };
            let counting = if input.flag() { Counting::Sum } else { Counting::Larger };
            let result = self.table.add_entry(entry, counting, self.newest(), &Room::new(&u64::MAX));
            assert!(matches!(result, Ok(_) | Err(AddError::TooOften)), "{result:?}");
            let h2 = (known >> 64) as u64 | u64::from(entry.bucket) << 58;
            let is_found = self.table.contains(ItemHash { h1: known as u64, h2 }, self.newest(), NoPrefetch);
            assert!(is_found || result.is_err(), "{entry:?}");
        }
    }

    /// Saves and loads the segments, and copies the table.
    fn reload(&self) {
        let any = Room::new(&u64::MAX);
        let mut loaded = Table::try_of_counts(self.kind(), self.table.counts(), &any).unwrap();
        for number in 0..self.table.segment_count() {
            let (words, stamp) = self.table.segment(number).unwrap();
            loaded.set_segment(number, words.into(), stamp).unwrap();
        }
        for again in [loaded, self.table.try_clone().unwrap()] {
            assert_eq!(again.internal_validate(), Ok(()));
            assert_eq!(
                (again.counts(), again.stats(self.now)),
                (self.table.counts(), self.table.stats(self.now))
            );
            for number in 0..self.table.segment_count() {
                assert!(again.segment(number) == self.table.segment(number), "{number}");
            }
        }
    }

    /// Dumps the table part by part into a copy while the table changes. Items that were in it all the time must be in
    /// the copy.
    fn dump(&mut self, input: &mut Input<'_>) {
        let any = Room::new(&u64::MAX);
        let mut copy = Table::try_of_counts(self.kind(), self.table.counts(), &any).unwrap();
        copy.begin_loading(self.table.used_slots());
        let before = self.known.clone();
        let mut position = 0;
        while let Some((part, end)) = self.table.part_at(position).unwrap() {
            assert!(end > position);
            position = end;
            copy.add_parts(vec![part.clone()], &any).unwrap();
            if input.flag() {
                copy.add_parts(vec![part], &any).unwrap();
            }
            match input.byte() % 8 {
                0 => self.remove(usize::from(input.u16()), usize::from(input.byte())),
                1 | 2 => {
                    let first = u64::from(input.u32()) << 20;
                    for number in 0..usize::from(input.u16()) % ADDS_MAX {
                        self.add(hash128(&(first | number as u64).to_le_bytes()), u64::MAX, 0);
                    }
                }
                _ => {}
            }
        }
        copy.end_loading();
        assert_eq!(copy.internal_validate(), Ok(()));
        for (item, known) in before.iter().filter(|(item, _)| self.known.contains_key(item)) {
            let is_live = self.kind() != EntryKind::Timed || is_live(known.added, self.now);
            let is_found = copy.contains(ItemHash { h1: item.0, h2: item.1 }, self.now, NoPrefetch);
            assert!(is_found || !is_live, "{item:x?}");
        }
    }

    fn check(&self) {
        assert_eq!(self.table.internal_validate(), Ok(()));
        for (item, known) in &self.known {
            let is_live = self.kind() != EntryKind::Timed || is_live(known.added, self.now);
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
