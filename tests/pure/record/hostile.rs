//! Records, segments and parts of tables with bytes that commands do not create. Each is refused, or it gives a filter
//! that keeps all rules.

use std::collections::BTreeSet;

use everbloom_filter::table::{DumpedSegment, EntryKind, LoadError, Schedule, Table, TableLoad};
use everbloom_filter::{Filter, GrowthBudget, TableSpec};
use everbloom_format::DecodeError;
use everbloom_format::record::{LAYER_BYTES, POLICY_BYTES, TABLE_BYTES};
use everbloom_format::value::from_header;

use super::{WINDOW_MS, is_small, samples};
use crate::support::hostile::{FLOATS, NUMBERS, Outcomes};
use crate::support::make::{
    ANY, START_MS, add, counting, plain, promise, remove, set_time, unreserved, window,
};
use crate::support::saved::{loaded, saved, string};
use crate::support::server::Server;
use crate::support::{Field, Random, Record, effort};

/// The largest size of a filter from hostile bytes.
const LIMIT_BYTES: u64 = 64 << 20;

/// A block of the only segment of a table, as docs/formats.md describes it.
struct Block {
    occupied: u64,
    offset: u16,
    /// Whether each slot is the last of its run, and its value.
    slots: Vec<(bool, u64)>,
    width: usize,
}

impl Block {
    /// Returns the block in this number of words.
    fn write(&self, words: usize) -> Box<[u64]> {
        let capacity = (words * 64 - 80) / (self.width + 1);
        assert!(self.slots.len() <= capacity && capacity < 112);
        let mut block = vec![0u64; words];
        block[0] = self.occupied;
        block[1] = self.offset.into();
        let mut set = |bit: usize, value: u64, width: usize| {
            for at in (0..width).filter(|at| value >> at & 1 == 1) {
                block[(bit + at) / 64] |= 1 << ((bit + at) % 64);
            }
        };
        for (index, (is_last, value)) in self.slots.iter().enumerate() {
            set(80 + index, u64::from(*is_last), 1);
            set(80 + capacity + index * self.width, *value, self.width);
        }
        block.into_boxed_slice()
    }
}

/// Returns an empty table of one block at 1 %, and the number of bits of a slot.
fn table(kind: EntryKind) -> (Table, usize) {
    let table = Table::new(TableSpec { error_rate: 0.01, kind, items: 50 });
    let base = match table.counts().schedule {
        Schedule::FromOneBlock { base, longer_from } => base + u8::from(longer_from == 0),
        Schedule::FromCapacity { base, .. } => base,
    };
    assert_eq!((table.counts().segments, table.counts().blocks_log), (1, 0));
    (table, usize::from(base) + 1 + if kind.is_timed() { 4 } else { 0 })
}

fn part(block: &Block, words: usize, stamp: u64) -> DumpedSegment {
    DumpedSegment { number: 0, depth: 0, blocks_log: 0, stamp, words: block.write(words) }
}

/// Adds a segment of this block to a table. Returns the rule that it breaks.
fn broken(kind: EntryKind, stamp: u64, occupied: u64, slots: &[(bool, u64)]) -> Option<&'static str> {
    let (table, width) = table(kind);
    let block = Block { occupied, offset: 0, slots: slots.to_vec(), width };
    let mut load = TableLoad::new(kind, table.counts(), 0).unwrap();
    let result = load.add(vec![part(&block, 8, stamp)], u64::MAX, &GrowthBudget::new(&ANY));
    assert_eq!(load.internal_validate(), Ok(()));
    match result {
        Ok(_) => None,
        Err(LoadError::Invalid(rule)) => {
            assert_eq!((load.part_count(), load.size_bytes()), (0, 0));
            Some(rule)
        }
        Err(other) => panic!("{other:?}"),
    }
}

#[test]
fn impossible_runs_are_refused_by_name() {
    let plain = |occupied, slots: &[_]| broken(EntryKind::Plain, 0, occupied, slots);
    assert_eq!(plain(0b101, &[(false, 3), (true, 2), (true, 1)]), None);
    let places = Some("the runs of a segment are not where they belong");
    // Slots that belong to no bucket.
    assert_eq!(plain(0b1, &[(true, 3), (true, 2)]), places);
    let blank = Some("a segment without entries has memory");
    assert_eq!(plain(0, &[(true, 3)]), blank);
    assert_eq!(plain(0, &[(false, 3)]), blank);
    // Two entries that match the same items, and one that matches more than the saturated bucket needs.
    let equal = Some("an entry is impossible, or equals another of its bucket");
    assert_eq!(plain(0b1, &[(false, 3), (true, 3)]), equal);
    assert_eq!(plain(0b1, &[(false, 0), (true, 3)]), equal);
    assert_eq!(plain(0b1, &[(false, 3), (true, 1)]), equal);
    // Buckets without slots: their runs would be those of other buckets a second time.
    assert!(plain(0b11, &[(true, 3)]).is_some());
    assert!(plain(u64::MAX, &[(true, 3)]).is_some());
    let crowded: Vec<_> = (0..30).map(|value| (true, value + 1)).collect();
    assert!(plain(u64::MAX >> 4, &crowded).is_some());
    assert!(plain(0b1, &[(false, 3)]).is_some());
    assert_eq!(broken(EntryKind::Plain, 1, 1, &[(true, 3)]), Some("stamp"));
}

/// A segment may come again, but not twice in one chunk, whatever it takes the place of.
#[test]
fn two_segments_for_one_place_are_refused() {
    let (table, width) = table(EntryKind::Plain);
    let of =
        |value, words| part(&Block { occupied: 1, offset: 0, slots: vec![(true, value)], width }, words, 0);
    let mut load = TableLoad::new(EntryKind::Plain, table.counts(), 0).unwrap();
    let mut add = |parts: Vec<DumpedSegment>| {
        let added = load.add(parts, u64::MAX, &GrowthBudget::new(&ANY));
        assert_eq!(load.internal_validate(), Ok(()));
        (added.map(|_| ()).map_err(|error| error.to_string()), load.size_bytes())
    };
    let (added, large_bytes) = add(vec![of(4, 16)]);
    assert_eq!(added, Ok(()));
    let (refused, bytes) = add(vec![of(5, 8), of(6, 8)]);
    assert!(refused.is_err_and(|text| text.contains("two segments for the same items")));
    assert_eq!(bytes, large_bytes);
    assert!(add(vec![of(5, 8)]).1 < large_bytes);
}

#[test]
fn impossible_counts_are_refused_by_name() {
    /// An entry that knows as many bits as a counted entry must know.
    const ENTRY: u64 = 1 << 11 | 9;
    let counted = |slots: &[_]| broken(EntryKind::Counted, 0, 1, slots);
    let rule = Some("a count is not after an entry, or not in its shortest form");
    let impossible = Some("an entry is impossible, or equals another of its bucket");
    assert_eq!(counted(&[(true, ENTRY)]), None);
    assert_eq!(counted(&[(false, ENTRY), (false, 0), (true, 4)]), None);
    // A digit may be zero, but not the last one.
    assert_eq!(counted(&[(false, ENTRY), (false, 0), (false, 0), (false, 0), (true, 4)]), None);
    assert_eq!(counted(&[(false, ENTRY), (false, 0), (true, 0)]), rule);
    assert_eq!(counted(&[(false, ENTRY), (false, 0), (false, 4), (false, 0), (true, 0)]), rule);
    // A digit has 12 bits, and a number at most five digits.
    assert_eq!(counted(&[(false, ENTRY), (false, 0), (true, (1 << 12) - 1)]), None);
    let digits = |count: usize| -> Vec<_> {
        let digits = (0..count).flat_map(|digit| [(false, 0), (digit + 1 == count, 1)]);
        std::iter::once((false, ENTRY)).chain(digits).collect()
    };
    assert_eq!(counted(&digits(4)), None);
    assert_eq!(counted(&digits(6)), impossible);
    // The zero before a digit without an entry before it, and without a digit after it.
    for slots in [
        &[(true, 0)][..],
        &[(false, 0), (true, 4)],
        &[(true, ENTRY), (true, 0)],
        &[(false, ENTRY), (true, 0)],
    ] {
        let occupied = (1 << slots.iter().filter(|slot| slot.0).count()) - 1;
        assert!(broken(EntryKind::Counted, 0, occupied, slots).is_some(), "{slots:?}");
    }
    // Two entries that match the same items, and an entry that knows fewer bits.
    assert_eq!(counted(&[(false, ENTRY), (true, ENTRY)]), impossible);
    assert_eq!(counted(&[(true, 1 << 10)]), impossible);
}

/// An array whose bits do not fill its last byte has clear bits there.
#[test]
fn bits_beyond_the_last_one_are_refused() {
    let mut server = Server::new();
    server.must("BF.IMPORT k EMPTY SCHEME murmur3-salted BITS 10001 HASHES 7 CAPACITY 1000");
    server.add("k", "item", 0..100);
    let record = saved(server.filter("k"));
    let with = |mask: u8| {
        let mut changed = record.clone();
        *string(&mut changed, 1).last_mut().unwrap() |= mask;
        loaded(&changed, ANY).err()
    };
    assert_eq!(with(0), None);
    for bit in 1..8 {
        assert_eq!(with(1 << bit), Some(DecodeError::Invalid("chunk")), "{bit}");
    }
}

/// The segments of a snapshot are in order, so their number is bounded.
#[test]
fn segments_out_of_order_are_refused() {
    let mut filter = plain(unreserved(0.01, 100, 2));
    (0..20_000).for_each(|item| _ = add(&mut filter, format!("item-{item}").as_bytes()));
    let record = saved(&filter);
    let first = record.0.iter().position(|field| matches!(field, Field::Unsigned(_))).unwrap();
    let Field::Unsigned(count) = record.0[first] else { unreachable!() };
    assert!(count >= 4);
    let with_numbers = |numbers: [u64; 2]| {
        let mut changed = record.clone();
        (changed.0[first + 1], changed.0[first + 3]) =
            (Field::Unsigned(numbers[0]), Field::Unsigned(numbers[1]));
        loaded(&changed, ANY).err()
    };
    assert_eq!(with_numbers([0, 1]), None);
    for numbers in [[1, 0], [0, 0], [1, 1], [0, count], [u64::MAX, 1], [0, 1 << 32]] {
        assert_eq!(with_numbers(numbers), Some(DecodeError::Invalid("segment number")), "{numbers:?}");
    }
}

#[test]
fn generations_before_the_first_are_refused() {
    let rule = Some("an entry is impossible, or equals another of its bucket");
    let (_, width) = table(EntryKind::Timed(everbloom::Steps::Fourteen));
    let timed = |stamp, code: u64| {
        let value = code << (width - 4) | 1 << (width - 5);
        broken(EntryKind::Timed(everbloom::Steps::Fourteen), stamp, 1, &[(true, value)])
    };
    for code in 0..16 {
        assert_eq!(timed(0, code), if code == 1 { None } else { rule }, "{code}");
        assert_eq!(timed(4, code), if (1..=5).contains(&code) { None } else { rule }, "{code}");
        assert_eq!(timed(15, code), None, "{code}");
        // Near the largest generation, every code is valid.
        assert_eq!(timed(u64::MAX - 1, code), None, "{code}");
    }
}

#[test]
fn changed_segments_are_refused_or_valid() {
    let seed = 0x7365_676d;
    let mut random = Random(seed);
    let mut outcomes = Outcomes::default();
    let mut timed = window(promise(0.01, 50, 2), WINDOW_MS);
    set_time(&mut timed, START_MS);
    let tiny = [plain(unreserved(0.01, 100, 2)), counting(promise(0.1, 9, 2)), timed].map(|mut filter| {
        for item in [b"1", b"2", b"3", b"3", b"3"] {
            add(&mut filter, item).unwrap();
        }
        ("tiny", filter)
    });
    let small = samples().into_iter().filter(|(_, filter)| is_small(filter) && filter.table().is_some());
    for (name, filter) in tiny.into_iter().chain(small) {
        let good = saved(&filter);
        let last = good.0.len() - 1;
        // An empty table ends with the number of its segments.
        let Field::Bytes(bytes) = &good.0[last] else { continue };
        let mut judge = |at: usize, width: usize, value: u64| {
            let mut record = good.clone();
            string(&mut record, last)[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
            outcomes.judge(loaded(&record, LIMIT_BYTES), &|| format!("{name}, {value} at {at}"));
        };
        // Every bit of a small segment.
        for bit in (0..bytes.len() * 8).filter(|_| bytes.len() <= 64) {
            judge(bit / 8, 1, (bytes[bit / 8] ^ 1 << (bit % 8)).into());
        }
        for _ in 0..if bytes.is_empty() { 0 } else { 60 } {
            let width = [1, 2, 8][random.below(3)];
            judge(random.below(bytes.len() / width) * width, width, *random.choose(&NUMBERS));
        }
    }
    outcomes.assert_at_least(1000, 100);
}

/// Filters whose counts contradict their entries can be used, saved and loaded.
#[test]
fn false_counts_never_make_a_filter_that_cannot_be_loaded() {
    let mut filter = counting(promise(0.01, 100, 2));
    for item in [&b"one"[..], b"one", b"one", b"one", b"two"] {
        add(&mut filter, item).unwrap();
    }
    let used = filter.table().unwrap().used_slots();
    assert_eq!(used, 4);
    let counts = super::POLICY_AND_TABLE_ITEMS;
    let of = |items: u64, entries: u64| -> Filter {
        let mut record = saved(&filter);
        let header = string(&mut record, 0);
        header[counts..counts + 8].copy_from_slice(&items.to_le_bytes());
        header[counts + 8..counts + 16].copy_from_slice(&entries.to_le_bytes());
        loaded(&record, ANY).unwrap()
    };
    for (items, entries) in [(4, 4), (u64::MAX, 4), (2, 0), (5, 2), (1, 1)] {
        for words in [["one"; 4], ["two", "one", "one", "one"], ["one", "two", "one", "new"]] {
            let mut filter = of(items, entries);
            for word in words {
                remove(&mut filter, word.as_bytes()).unwrap();
                loaded(&saved(&filter), ANY).unwrap();
            }
            for word in words {
                add(&mut filter, word.as_bytes()).unwrap();
                loaded(&saved(&filter), ANY).unwrap();
            }
        }
    }
}

/// A segment whose time is after that of any clock once gave a filter that was saved, but did not load again.
#[test]
fn a_segment_of_any_time_is_refused_or_loads_again() {
    let mut filter = window(promise(0.01, 10_000, 2), WINDOW_MS);
    set_time(&mut filter, START_MS);
    for item in 0..20_000u64 {
        add(&mut filter, &item.to_le_bytes()).unwrap();
    }
    let record = saved(&filter);
    let (mut refused, mut loads) = (0, 0);
    let fields = 0..record.0.len();
    for (field, time) in fields.flat_map(|field| NUMBERS.map(|time| (field, time))) {
        let mut changed = Record(record.0.clone());
        let Field::Unsigned(number) = &mut changed.0[field] else { continue };
        *number = time;
        match loaded(&changed, LIMIT_BYTES) {
            Err(_) => refused += 1,
            Ok(filter) => {
                loaded(&saved(&filter), ANY).unwrap();
                loads += 1;
            }
        }
    }
    assert!(refused > 10 && loads > 10, "{refused}, {loads}");
}

#[test]
fn a_snapshot_cut_anywhere_is_refused() {
    for (name, filter) in samples() {
        let record = saved(&filter);
        // Copies of a large filter take long.
        let cuts = if is_small(&filter) && record.0.len() < 100 { 20 } else { 3 };
        let step = record.0.len() / cuts + 1;
        for fields in (0..record.0.len()).step_by(step) {
            assert!(loaded(&Record(record.0[..fields].to_vec()), ANY).is_err(), "{name}");
        }
        for field in (0..record.0.len()).step_by(step) {
            let Field::Bytes(bytes) = &record.0[field] else { continue };
            let step = if cuts == 3 || bytes.len() > 1000 { bytes.len() / cuts + 1 } else { 1 };
            for length in (1..bytes.len()).step_by(step) {
                let mut cut = record.clone();
                string(&mut cut, field).truncate(length);
                assert!(loaded(&cut, ANY).is_err(), "{name}: field {field} cut to {length}");
                if field == 0 {
                    assert!(from_header(string(&mut cut, 0), &LIMIT_BYTES).is_err(), "{name}");
                }
            }
        }
    }
}

#[test]
fn a_record_with_edge_values_is_refused_or_valid() {
    let mut outcomes = Outcomes::default();
    for (name, filter) in samples().into_iter().filter(|(_, filter)| filter.size_bytes() < 1500) {
        let record = saved(&filter);
        let record_bytes = string(&mut record.clone(), 0).len();
        // The first layers and the table have all possible fields.
        let most_bytes = POLICY_BYTES + 3 * LAYER_BYTES + TABLE_BYTES;
        let offsets = (0..record_bytes.min(most_bytes)).flat_map(|at| [1, 4, 8].map(|width| (at, width)));
        // The quick form alters an eighth of the single bytes.
        let of_bytes = effort(8, 1);
        let is_chosen = |(at, width): &(usize, usize)| {
            at + width <= record_bytes && at % if *width == 1 { of_bytes } else { *width } == 0
        };
        for (at, width) in offsets.filter(is_chosen) {
            let numbers = NUMBERS.into_iter().chain(FLOATS.map(f64::to_bits));
            let values: BTreeSet<Vec<u8>> =
                numbers.map(|number| number.to_le_bytes()[..width].to_vec()).collect();
            for value in values {
                let mut altered = record.clone();
                string(&mut altered, 0)[at..at + width].copy_from_slice(&value);
                outcomes.judge(loaded(&altered, LIMIT_BYTES), &|| format!("{name}, {value:?} at {at}"));
            }
        }
    }
    outcomes.assert_at_least(effort(3_000, 10_000), effort(300, 1000));
}
