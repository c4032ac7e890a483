//! The same operations in the same order give the same bytes in every release. Otherwise a replica would differ from a
//! primary of another release. docs/stability.md promises this.
//!
//! Each history has two digests: that of the bytes, and that of the figures that commands show, such as the error rate, and
//! of the work. The figures may change with a better formula, and the work with a better algorithm. The bytes may change
//! only with the major version.

use everbloom_filter::hash::murmur3::hash128;
use everbloom_filter::prefetch::NoPrefetch;
use everbloom_filter::table::{
    Addition, DumpedSegment, EntryKind, Replaced, Schedule, Table, TableCounts, TableSpec, UnionError,
};
use everbloom_filter::{GrowthBudget, ItemHash, work};

use super::forged::{Forged, forged, now_of};
use super::segments::{add_part, load_of, made_of, made_of_parts, parts};
use super::{KINDS, add_kind, addition, any, bytes, hash, made, of_kind, remove};
use crate::support::fuzz::forge::FILLINGS;
use crate::support::make::insert;
use crate::support::{ROOT, Random};

/// The digests of the states of a history.
#[derive(Default)]
struct Digests {
    bytes: u64,
    figures: u64,
}

impl Digests {
    fn add_bytes(&mut self, text: &str) {
        self.bytes = hash128(format!("{} {text}", self.bytes).as_bytes()).h1;
    }

    fn add_figures(&mut self, text: &str) {
        self.figures = hash128(format!("{} {text}", self.figures).as_bytes()).h1;
    }

    /// Adds the state of a table, and the work since the last state.
    fn add(&mut self, table: &Table, now: u64) {
        let work = work::take();
        let TableCounts { schedule, items, entries, history, segments, blocks_log } = table.counts();
        // The generations that have a count. The text has a field that the counts once had, so that the digests stay.
        let codes = if table.kind() == EntryKind::Timed(everbloom::Steps::Fine) { 256 } else { 16 };
        let history =
            format!("History {{ newest: {}, items: {:?} }}", history.newest, &history.items[..codes]);
        self.add_bytes(&format!(
            "{:?} TableCounts {{ schedule: {schedule:?}, items: {items}, entries: {entries}, history: {history}, \
             segments: {segments}, blocks_log: {blocks_log}, loading: Loading(0) }}",
            bytes(table)
        ));
        let items = [table.items(now), table.distinct_items(now), table.capacity_items()];
        let bytes = [table.size_bytes(), table.stats(now).expired_bytes(), table.used_slots()];
        let rates = [table.error_rate(now), table.error_rate_max()];
        let (crafted, stats) = (table.match_all_counts(), table.stats(now));
        self.add_figures(&format!("{items:?} {bytes:?} {rates:?} {crafted:?} {stats:?} {work:?}"));
    }
}

/// Compares the digests of each kind of entries with the recorded ones.
fn assert_frozen(history: &str, expected: [(u64, u64); 3], run: impl Fn(EntryKind, &mut Digests)) {
    let found = KINDS.map(|kind| {
        _ = work::take();
        let mut digests = Digests::default();
        run(kind, &mut digests);
        (digests.bytes, digests.figures)
    });
    assert_eq!(
        found.map(|of| of.0),
        expected.map(|of| of.0),
        "{history}: other bytes than before, {found:#x?}"
    );
    assert_eq!(
        found, expected,
        "{history}: the same bytes, and other figures or other work than before, {found:#x?}"
    );
}

/// Timed entries of windows with 120 steps: even traffic, lives of all lengths, pauses, and a merge.
#[test]
fn windows_of_120_steps_are_as_before() {
    let kind = EntryKind::Timed(everbloom::Steps::Fine);
    let mut digests = Digests::default();
    let mut random = Random(3);
    for (error_rate, items) in [(0.01, 20_000u64), (0.3, 500), (1e-9, 3_000)] {
        let mut table = of_kind(kind, error_rate, items);
        let is_checkpoint = checkpoints(60_000);
        for step in 0..60_000 {
            let now = 200 + step / 200 + step / 20_000 * 130;
            let generation = if step % 3 == 0 { now - random.next() % 121 } else { now };
            let addition = Addition { hash: hash(step - step % 7 / 6), generation, ..addition(now) };
            insert(&mut table, addition, &any()).unwrap();
            if is_checkpoint(step) {
                digests.add(&table, now);
            }
        }
    }
    let fixture = format!("{ROOT}/tests/fixtures/windows-of-120-steps.txt");
    let expected = std::fs::read_to_string(fixture).unwrap();
    assert_eq!(format!("{:#x}", digests.bytes), expected.trim(), "other bytes than before");
}

/// Calls `visit` with the numbers up to `end`, each a tenth larger than the one before.
fn checkpoints(end: u64) -> impl Fn(u64) -> bool {
    let mut all = vec![0u64];
    while let Some(last) = all.last().filter(|last| **last < end) {
        all.push(last + last / 10 + 1);
    }
    move |step| all.binary_search(&step).is_ok()
}

#[test]
fn tables_grow_as_before() {
    let expected = [
        (0xc3eb_8780_d616_84cf, 0x8c41_771c_2b3e_233b),
        (0xe767_8011_8ca0_d0ca, 0xd44a_6620_dbd2_9828),
        (0xc643_d26d_a871_1f0f, 0xf8f2_cde5_35f9_5f8f),
    ];
    assert_frozen("adds", expected, |kind, digests| {
        for (error_rate, items) in [(0.01, 20_000u64), (0.3, 500), (1e-9, 3_000)] {
            let mut table = of_kind(kind, error_rate, items);
            let is_checkpoint = checkpoints(30_000);
            for step in 0..30_000 {
                add_kind(&mut table, step - step % 7 / 6, 100 + step / 3_000);
                // The struct of several segments once had 64 bytes more.
                let more_bytes = if table.segment_count() > 1 { 64 } else { 0 };
                digests.add_bytes(&format!("{}", table.size_bytes() + more_bytes));
                if is_checkpoint(step) {
                    digests.add(&table, 100 + step / 3_000);
                }
            }
        }
    });
}

/// The figures of tables of many segments are estimated from some of them.
#[test]
fn large_tables_grow_as_before() {
    let expected = [
        (0xcfee_83df_f6f0_d4d6, 0xa264_a11b_56f3_27a8),
        (0xdca0_1fb9_b0bf_b61d, 0x83b5_2c48_73e3_bb30),
        (0x383e_4621_819a_7171, 0x37c2_7cef_c8fb_e942),
    ];
    assert_frozen("large tables", expected, |kind, digests| {
        let mut table = of_kind(kind, 0.01, 3_000);
        for item in 0..150_000 {
            add_kind(&mut table, item, 100 + item / 10_000);
            if item % 30_000 == 29_999 {
                digests.add(&table, 100 + item / 10_000);
                digests.add(&table, 108 + item / 10_000);
            }
        }
        for item in 0..(if kind == EntryKind::Plain { 0 } else { 146_000 }) {
            if kind == EntryKind::Counted {
                assert_eq!(remove(&mut table, item, NoPrefetch), Ok(true));
            } else if item % 10 == 0 {
                add_kind(&mut table, item % 7_000, 140);
            }
            if item % 10_000 == 9_999 {
                digests.add(&table, 140);
            }
        }
    });
}

/// A header may describe a table of any size, to which a few items are added.
#[test]
fn huge_tables_take_items_as_before() {
    let expected = [
        (0x0ea7_b170_0416_1e78, 0xcf85_ce07_e1b8_5b53),
        (0xd3ed_73ef_c8fc_ecb1, 0xce1a_4263_7055_ffdb),
        (0x7bbc_bd1e_66fb_0a5c, 0xd82c_f8ed_f528_c5e3),
    ];
    assert_frozen("huge tables", expected, |kind, digests| {
        for (error_rate, segments) in [0.01, 1e-9, 1e-15]
            .iter()
            .flat_map(|rate| [1usize, 1 << 5, 3 << 9, 1 << 14, 1 << 20].map(|segments| (*rate, segments)))
        {
            let counts = TableCounts { segments, blocks_log: 6, ..of_kind(kind, error_rate, 9).counts() };
            let mut table = Table::try_of_counts(kind, counts, 0, &any()).unwrap();
            (0..20).for_each(|item| _ = add_kind(&mut table, item, 100));
            digests.add(&table, 100);
        }
    });
}

#[test]
fn tables_shrink_as_before() {
    let expected = [
        (0x02ff_998c_c466_a135, 0xa496_6e9a_a538_2c09),
        (0x504b_f422_c6ea_826d, 0xe51f_5213_7b87_2c47),
        (0x3c91_fcf7_d175_296a, 0x193e_ec0b_cbb5_ffb3),
    ];
    assert_frozen("removals and expiry", expected, |kind, digests| {
        let mut table = of_kind(kind, 0.01, 2_000);
        let mut random = Random(1);
        let (mut now, items) = (100, 25_000);
        (0..items).for_each(|item| _ = add_kind(&mut table, item, now));
        let is_checkpoint = checkpoints(items);
        for step in 0..items {
            if kind == EntryKind::Counted {
                assert_eq!(remove(&mut table, items - 1 - step, NoPrefetch), Ok(true));
            } else {
                now += step % 700 / 699;
                // Late items, and some that are added again.
                let late = random.next() % 15;
                let addition =
                    Addition { hash: hash(random.next() % 60_000), generation: now - late, ..addition(now) };
                insert(&mut table, addition, &any()).unwrap();
            }
            if is_checkpoint(step) || is_checkpoint(items - step) {
                digests.add(&table, now);
            }
        }
    });
}

/// Old items expire while the table grows.
#[test]
fn tables_grow_at_a_rising_pace_as_before() {
    let expected = [
        (0x16eb_64a2_e6f6_dfc7, 0x98ff_757b_418c_ad9d),
        (0x21e3_50cc_9869_7c81, 0xf480_58e6_291f_9c3b),
        (0xa311_49b7_7042_f808, 0x5f70_e700_e287_6907),
    ];
    assert_frozen("a rising pace", expected, |kind, digests| {
        for (error_rate, items) in [(0.01, 500), (1e-6, 20)] {
            let (mut table, mut item, mut pace) = (of_kind(kind, error_rate, items), 0, 20);
            for now in 100..160 {
                for _ in 0..pace {
                    add_kind(&mut table, item, now);
                    item += 1;
                }
                pace += pace / 13 + 1;
                digests.add(&table, now);
            }
        }
    });
}

/// One item is added over and over after all others have expired, then a few items.
#[test]
fn tables_take_a_hot_item_as_before() {
    let expected = [
        (0x693d_7f2a_39e3_f5ce, 0x2f1c_ac46_dcf7_2385),
        (0x11f9_2739_1367_5ebb, 0xc4d4_ebbb_168d_bd68),
        (0x0c6a_9b0a_59a6_2ded, 0x7750_1183_5498_b6a4),
    ];
    assert_frozen("a hot item", expected, |kind, digests| {
        let mut table = of_kind(kind, 0.01, 2_000);
        (0..20_000).for_each(|item| _ = add_kind(&mut table, item, 100));
        for step in 0..30_000 {
            let now = 120 + step / 20_000;
            add_kind(&mut table, 1, now);
            if step % 256 == 255 {
                digests.add(&table, now);
            }
        }
        // A few items over a long time, each to a segment that was not compacted since.
        for step in 0..2_000 {
            add_kind(&mut table, 30_000 + step, 130 + 2 * step);
            if step % 100 == 99 {
                digests.add(&table, 130 + 2 * step);
            }
        }
    });
}

#[test]
fn tables_take_crafted_items_as_before() {
    let expected = [
        (0x8720_2084_3d85_0569, 0x4bfc_b645_5462_7635),
        (0x12d7_7b70_fb96_42b4, 0xf1d4_8e39_2b3d_8ec9),
        (0x2e9b_4efc_5a42_6ff6, 0x41ed_e1f9_466e_3eb7),
    ];
    assert_frozen("crafted items", expected, |kind, digests| {
        // The low bits of the hash that are equal, the buckets of a block that get items, and the adds.
        let cases = [(0, 1, 300), (0, 3, 900), (12, 1, 900), (12, 2, 2_000), (12, 64, 5_000), (6, 64, 6_000)];
        for (honest, (equal_bits, buckets, adds)) in
            [0, 7_000].into_iter().flat_map(|honest| cases.map(|case| (honest, case)))
        {
            let mut table = of_kind(kind, 0.01, 3_000);
            (0..honest).for_each(|item| _ = add_kind(&mut table, item, 20));
            let (mut random, mut refused) = (Random(equal_bits), 0u64);
            for step in 0..adds {
                let h1 = random.next() << equal_bits;
                let h2 = (random.next() % buckets) << 58 | random.next() >> 6;
                let addition = Addition { hash: ItemHash { h1, h2 }, ..addition(20 + step / 400) };
                refused += u64::from(insert(&mut table, addition, &any()).is_err());
                if step.is_power_of_two() || step % 400 == 0 {
                    digests.add(&table, 20 + step / 400);
                    digests.add_bytes(&format!("{refused} refused"));
                }
            }
        }
    });
}

#[test]
fn tables_are_refused_memory_as_before() {
    let expected = [
        (0x497e_e810_1364_4d9f, 0x7c4b_0596_dccd_8318),
        (0x63cb_3855_6d08_7ac0, 0x82f6_3ed1_7e1e_3c69),
        (0x395f_58a4_4fd2_d7a9, 0x101d_ea4a_c795_d8c5),
    ];
    assert_frozen("limits", expected, |kind, digests| {
        let mut table = of_kind(kind, 0.01, 2_000);
        let mut limit = 200u64;
        for step in 0..12_000 {
            // Items expire, so a compaction is taken back if the growth after it is refused.
            let addition = Addition { hash: hash(step), ..addition(100 + step / 300) };
            if let Err(error) = insert(&mut table, addition, &GrowthBudget::new(&limit)) {
                assert_eq!(table.internal_validate(), Ok(()));
                digests.add_bytes(&format!("{step} {limit} {error:?}"));
                limit += limit / 9;
            }
        }
        digests.add(&table, 140);
        // Commands of many items: after a refusal, only those go on for which expired items leave room.
        let mut table = of_kind(kind, 0.01, 9_000);
        for command in 0..60 {
            let limit = 18_000u64;
            let room = GrowthBudget::new(&limit);
            let mut add = |item| {
                let addition = Addition { hash: hash(command * 400 + item), ..addition(100 + command / 2) };
                insert(&mut table, addition, &room)
            };
            let outcomes: Vec<_> = (0..400).map(&mut add).collect();
            digests.add_bytes(&format!("{outcomes:?}"));
            digests.add(&table, 100 + command / 2);
        }
        // Crafted items fill one bucket after the other, and for each the table grows by several steps.
        let (mut table, mut random) = (of_kind(kind, 0.01, 2), Random(5));
        for step in 0..600 {
            let hash = ItemHash { h1: (random.next() << 20) | (step / 40), h2: random.next() >> 6 };
            let addition = Addition { hash, ..addition(100 + step / 60) };
            for limit in [600u64, 2_000, 4_000, 9_000, 30_000, 80_000, u64::MAX] {
                let outcome = insert(&mut table, addition, &GrowthBudget::new(&limit));
                assert_eq!(table.internal_validate(), Ok(()));
                digests.add_bytes(&format!("{outcome:?}"));
                digests.add(&table, 110);
                if outcome.is_ok() {
                    break;
                }
            }
        }
    });
}

#[test]
fn unions_are_made_as_before() {
    let expected = [
        (0x44ae_e94d_926b_b081, 0xe1e7_fd34_7fca_16f6),
        (0xbc9c_23f8_b602_afdb, 0x2f45_87e6_6164_d14d),
        (0xa21b_c7ff_771b_8d57, 0x282a_a2bd_da34_1f42),
    ];
    assert_frozen("unions", expected, |kind, digests| {
        let ranges = [0..40u64, 30..300, 250..2_000, 1_000..9_000, 5_000..30_000];
        let tables = ranges.map(|range| {
            let mut table = of_kind(kind, 0.01, range.end);
            range.for_each(|item| _ = add_kind(&mut table, item, 90 + item % 12));
            table
        });
        let orders: [&[usize]; 8] =
            [&[0, 1], &[1, 0], &[2, 3], &[3, 2], &[4, 0, 1, 2], &[0, 4], &[3, 2, 1, 0], &[4, 3, 3]];
        for order in orders {
            let others: Vec<&Table> = order[1..].iter().map(|number| &tables[*number]).collect();
            for now in [101, 107, 120] {
                let check = |_| Ok::<(), UnionError>(());
                let united = tables[order[0]].union_with(&others, now, &any(), check).unwrap();
                let united = made(united).unwrap_or_else(|| tables[order[0]].try_clone().unwrap());
                assert_eq!(united.internal_validate(), Ok(()));
                digests.add(&united, now);
            }
        }
        // Tables of which some segments are missing.
        let partial = [&[1, 3][..], &[2, 3], &[0]].map(|numbers| {
            let parts = parts(&tables[4]);
            made_of_parts(&tables[4], numbers.iter().map(|number| parts[*number].0.clone()))
        });
        for (first, second) in [(0, 1), (1, 0), (0, 2), (2, 2)] {
            let check = |_| Ok::<(), UnionError>(());
            let united = partial[first].union_with(&[&partial[second]], 101, &any(), check).map(made);
            digests.add_bytes(&format!("{:?}", united.as_ref().map(Option::is_some)));
            if let Ok(Some(united)) = united {
                assert_eq!(united.internal_validate(), Ok(()));
                digests.add(&united, 101);
            }
        }
    });
}

#[test]
fn dumps_are_made_and_loaded_as_before() {
    let expected = [
        (0x2cf8_a07e_c42d_4d4f, 0xfba9_5ade_f636_4d34),
        (0x68ad_55a6_80fa_0cc1, 0x1837_4a95_c78d_bb2b),
        (0x2060_c58a_7d13_569f, 0x964f_3471_8357_9803),
    ];
    assert_frozen("dumps", expected, |kind, digests| {
        for items in [50u64, 2_000, 9_000, 24_000] {
            let mut table = of_kind(kind, 0.01, 3_000);
            (0..items).for_each(|item| _ = add_kind(&mut table, item, 100));
            let mut load = load_of(&table);
            for (part, end) in parts(&table) {
                digests.add_bytes(&format!("{part:?} {end}"));
                add_part(&mut load, part).unwrap();
            }
            digests.add(&made_of(&mut load), 101);
            // The table has grown after the header, and its last parts come first.
            let (mut late, mut grown) = (load_of(&table), table.try_clone().unwrap());
            (items..items * 7 / 4).for_each(|item| _ = add_kind(&mut grown, item, 101));
            for (part, _) in parts(&grown).into_iter().rev() {
                add_part(&mut late, part).unwrap();
            }
            digests.add(&made_of(&mut late), 101);
            // Segments are joined between two parts.
            let (part, end) = table.segment_at(0).unwrap().unwrap();
            digests.add_bytes(&format!("{part:?}"));
            for item in 0..items {
                if kind == EntryKind::Counted {
                    assert_eq!(remove(&mut table, item, NoPrefetch), Ok(true));
                } else {
                    add_kind(&mut table, item % 100, 116 + item * 40 / items);
                }
                if item % (items / 8) == 0 {
                    digests.add_bytes(&format!("{:?}", table.segment_at(end).unwrap()));
                }
            }
        }
    });
}

#[test]
fn sizes_are_chosen_as_before() {
    let expected = [
        (0xd1c2_1a45_992f_0060, 0x24dc_4abc_1f25_f18d),
        (0x06a7_046e_28ed_1094, 0x263b_3a13_fed2_e80b),
        (0xe1ab_3912_4ecc_3ecf, 0x582c_ca12_aebb_7af2),
    ];
    assert_frozen("sizes", expected, |kind, digests| {
        for error_rate in [0.9, 0.3, 0.1, 0.01, 0.001, 1e-4, 1e-6, 1e-9, 1e-12, 1e-17] {
            for items in (0..41).map(|log| (1u64 << log) + (1 << log) / 3) {
                let spec = TableSpec { error_rate, kind, items };
                let schedule: Schedule = Table::new(spec).counts().schedule;
                digests.add_bytes(&format!("{schedule:?}"));
                digests.add_figures(&format!("{} {}", spec.empty_bytes(), spec.expected_bytes(items)));
            }
        }
    });
}

/// Each part of a dump is changed at one place, and is refused or loaded as before.
#[test]
fn changed_parts_of_dumps_are_loaded_as_before() {
    let expected = [
        (0xc239_d780_0a2d_3f80, 0xfc11_c9ff_4f9b_b2cf),
        (0xa105_01f2_9d5e_a568, 0xded1_c9f5_565b_8f53),
        (0x85b7_0fc9_5707_211c, 0x5f24_a7e2_1113_2149),
    ];
    assert_frozen("changed parts", expected, |kind, digests| {
        for items in [1u64, 9, 60, 400, 2_000] {
            let mut table = of_kind(kind, 0.3, items);
            // Void entries, and an item that counts often.
            (0..items).for_each(|item| _ = add_kind(&mut table, item % (items / 3 * 2 + 1), 100 + item % 3));
            let (dumped, _) = table.segment_at(0).unwrap().unwrap();
            let mut changed = vec![dumped.clone()];
            for bit in 0..dumped.words.len() * 64 {
                // Each bit of a small segment, and some of a large one.
                if dumped.words.len() < 40 || bit % 1_021 < 2 {
                    let mut part = dumped.clone();
                    part.words[bit / 64] ^= 1 << (bit % 64);
                    changed.push(part);
                }
            }
            let with_words = |length: usize| {
                let words = dumped.words.iter().copied().chain([0; 40]).take(length).collect();
                DumpedSegment { words, ..dumped.clone() }
            };
            changed.extend((0..40).map(|more| with_words((dumped.words.len() + more).saturating_sub(20))));
            for stamp in [0, 1, 84, 85, 99, 100, 101, 102, 103, 115, 116, 117, 200] {
                changed.push(DumpedSegment { stamp, ..dumped.clone() });
            }
            for (depth, number) in (0..34u32)
                .chain([63])
                .flat_map(|depth| [0, 1, 2, 5, (1 << depth) - 1, 1 << depth].map(|number| (depth, number)))
            {
                changed.push(DumpedSegment { depth, number, ..dumped.clone() });
            }
            for depth in [64, 65, u32::MAX] {
                changed.push(DumpedSegment { depth, number: 0, ..dumped.clone() });
            }
            for blocks_log in 0..8 {
                changed.push(DumpedSegment { blocks_log, ..dumped.clone() });
            }
            for part in changed {
                for latest in [u64::MAX, 101] {
                    let mut load = load_of(&table);
                    let outcome =
                        load.add(vec![part.clone()], latest, &any()).map(|replaced| replaced.is_empty());
                    digests.add_figures(&format!("{outcome:?}"));
                    if outcome.is_ok() {
                        digests.add(&made_of(&mut load), 102);
                    }
                }
            }
        }
    });
}

#[test]
fn parts_of_dumps_are_combined_as_before() {
    let expected = [
        (0xbcbb_2046_3d8c_93ec, 0x9987_1a66_d18d_d123),
        (0xfb66_696e_d431_c64a, 0xa8cd_a5cb_4010_ac23),
        (0xcac1_0713_6f66_52e1, 0xbaa3_94a1_8505_5357),
    ];
    assert_frozen("combined parts", expected, |kind, digests| {
        let tables = [300u64, 2_500, 12_000].map(|items| {
            let mut table = of_kind(kind, 0.05, 2_000);
            (0..items).for_each(|item| _ = add_kind(&mut table, item, 100 + item % 3));
            table
        });
        for (one, other) in tables.iter().flat_map(|one| tables.iter().map(move |other| (one, other))) {
            let dumped: Vec<DumpedSegment> = parts(one).into_iter().map(|(part, _)| part).collect();
            // All at once, in pairs from the end, and a third of them.
            let all = vec![dumped.clone()];
            let pairs: Vec<_> = dumped.rchunks(2).map(<[_]>::to_vec).collect();
            let third = dumped.iter().step_by(3).map(|part| vec![part.clone()]).collect();
            for groups in [all, pairs, third] {
                let mut load = load_of(other);
                parts(other).into_iter().for_each(|(part, _)| _ = add_part(&mut load, part).unwrap());
                for (number, group) in groups.iter().enumerate() {
                    // A limit refuses some.
                    let limit = load.size_bytes() + 9_000 * number as u64;
                    let outcome = load.add(group.clone(), u64::MAX, &GrowthBudget::new(&limit));
                    digests.add_figures(&format!("{:?}", outcome.as_ref().map(Replaced::is_empty)));
                    if outcome.is_err() {
                        let outcome = load.add(group.clone(), u64::MAX, &any());
                        digests.add_figures(&format!("{:?}", outcome.as_ref().map(Replaced::is_empty)));
                    }
                }
                digests.add(&made_of(&mut load), 102);
            }
        }
    });
}

/// Tables that no honest client makes are loaded, united and changed as before.
#[test]
fn forged_tables_are_changed_as_before() {
    let expected = [
        (0x7792_b1f2_847a_44fa, 0x1144_9415_8307_3f8f),
        (0x31a0_edda_2490_46e0, 0xf19c_9b8a_8158_9e4a),
        (0xee0f_61e1_cf17_a229, 0xbf83_0665_79b7_b0d4),
    ];
    assert_frozen("forged tables", expected, |kind, digests| {
        let now = now_of(kind);
        let mut honest = of_kind(kind, 0.01, 50);
        (0..9_000).for_each(|item| _ = add_kind(&mut honest, item, now));
        for (filling, (blocks_log, segments)) in
            FILLINGS.into_iter().flat_map(|filling| [(0, 1), (2, 1), (6, 2)].map(|size| (filling, size)))
        {
            for most in [1, (64 << blocks_log) * 7 / 5 + 1] {
                let Some(Forged { table, .. }) = forged(kind, filling, blocks_log, segments, most) else {
                    continue;
                };
                for (one, other) in [(&honest, &table), (&table, &honest)] {
                    match one.union_with(&[other], now, &any(), |_| Ok::<(), UnionError>(())) {
                        Ok(united) => made(united).iter().for_each(|united| digests.add(united, now)),
                        Err(error) => digests.add_figures(&format!("{error:?}")),
                    }
                }
                for mut load in [load_of(&table), load_of(&honest)] {
                    for (part, _) in parts(&table) {
                        let outcome = add_part(&mut load, part);
                        digests.add_figures(&format!("{:?}", outcome.as_ref().map(Replaced::is_empty)));
                    }
                    digests.add(&made_of(&mut load), now);
                }
                let mut changed = table;
                for item in 0..60 {
                    let addition = Addition { hash: hash(item), ..addition(now + item / 3) };
                    let outcome = changed.add(addition, &any(), NoPrefetch);
                    digests.add_figures(&format!("{outcome:?}"));
                }
                digests.add(&changed, now + 20);
                if kind == EntryKind::Counted {
                    let removed = (0..300).filter(|item| remove(&mut changed, *item, NoPrefetch) == Ok(true));
                    digests.add_figures(&format!("{} removed", removed.count()));
                    digests.add(&changed, now);
                }
            }
        }
    });
}

/// Segments are split to which no item was added since their entries have expired.
#[test]
fn forged_tables_grow_while_their_entries_expire_as_before() {
    let expected = [
        (0xa812_d330_d0d6_5792, 0x485a_809b_d90d_ba0f),
        (0x92a9_71ba_16fe_f257, 0x3146_2ae1_876b_ab50),
        (0xee53_dc5d_a53c_bd4e, 0x630f_081d_aa7d_b72a),
    ];
    assert_frozen("expired forgeries", expected, |kind, digests| {
        for filling in FILLINGS {
            let Some(Forged { mut table, .. }) = forged(kind, filling, 6, 2, 3_000) else { continue };
            let (mut random, now, is_checkpoint) = (Random(3), now_of(kind) + 20, checkpoints(9_000));
            for step in 0..9_000 {
                let even = ItemHash { h1: random.next() << 1, h2: random.next() };
                let outcome = insert(&mut table, Addition { hash: even, ..addition(now) }, &any());
                if is_checkpoint(step) {
                    digests.add_bytes(&format!("{outcome:?}"));
                    digests.add(&table, now);
                }
            }
            assert_eq!(table.internal_validate(), Ok(()));
        }
    });
}

/// The segment of crafted items gets full, and then their buckets.
#[test]
fn a_full_segment_takes_items_as_before() {
    let expected = [
        (0xdb66_38f9_53d9_2ac4, 0x432f_0c12_0332_0fc5),
        (0xb9f8_af5a_6481_28f9, 0xcd47_d18c_ebe3_0bfc),
        (0x8d0c_1dab_4aeb_4532, 0x5088_ebcc_d92a_5474),
    ];
    assert_frozen("full segments", expected, |kind, digests| {
        let (mut table, mut random, mut refused) = (of_kind(kind, 0.01, 3_000), Random(7), 0u64);
        for _ in 0..11_000 {
            let hash = ItemHash { h1: random.next() << 7, h2: random.next() };
            let addition = Addition { hash, ..addition(20) };
            refused += u64::from(insert(&mut table, addition, &any()).is_err());
        }
        assert_eq!(table.internal_validate(), Ok(()));
        digests.add(&table, 20);
        digests.add_bytes(&format!("{refused} refused"));
    });
}
