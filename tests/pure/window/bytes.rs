//! Every way that a filter survives: snapshot, pieces, rewritten file, copy; and many items at once.

use everbloom::bloom::window::Span;
use everbloom::bloom::{Added, Blueprint, Depth, Filter, NoPrefetch, UnknownMemory, Window};
use everbloom::format::filter::header;

use crate::support::Random;
use crate::support::saved::{digested, from_pieces, loaded, rewritten, saved};
use super::{ANY, START_MS, chain, parameters};

const WINDOW_MS: u64 = 14_000;

pub(crate) fn reserve(error_rate: f64, capacity: u64, expansion: u32) -> Filter {
    let window = Window::new(parameters(error_rate, capacity, expansion), Span::new(WINDOW_MS), false);
    Filter::reserve(Blueprint::Window(window), &ANY).unwrap()
}

/// A filter with items of twenty generations.
fn sample(error_rate: f64, capacity: u64, expansion: u32, items: u64) -> Filter {
    let mut filter = reserve(error_rate, capacity, expansion);
    let mut random = Random(items);
    for number in 0..items {
        filter.tell_time(START_MS + number * 20_000 / items.max(1));
        filter.add(&(random.next() % items).to_le_bytes(), &ANY, NoPrefetch).unwrap();
        drop(filter.take_dead());
    }
    filter
}

pub(crate) fn samples() -> Vec<Filter> {
    vec![
        sample(0.01, 100, 2, 0),
        sample(0.01, 100, 2, 90),
        sample(0.3, 1, 2, 1),
        sample(0.001, 20, 2, 900),
        sample(1e-6, 900_000, 0, 2000),
        // More than a chunk.
        sample(0.01, 10_000_000, 0, 3000),
    ]
}

fn assert_same(one: &Filter, other: &Filter) {
    assert!(digested(one) == digested(other));
    let (Filter::Window(one), Filter::Window(other)) = (one, other) else { panic!("another kind") };
    assert_eq!(one.family().newest(), other.family().newest());
    for (one, other) in one.layers().iter().zip(other.layers()) {
        assert_eq!((one.shape(), one.storage().history()), (other.shape(), other.storage().history()));
        assert!(one.placement() == other.placement());
    }
}

/// Adds go on alike: what is kept in memory only follows from the bytes.
fn assert_goes_on(mut one: Filter, mut other: Filter) {
    let mut random = Random(5);
    for number in 0..3000 {
        let item = random.next().to_le_bytes();
        for filter in [&mut one, &mut other] {
            filter.tell_time(START_MS + 20_000 + number * 3);
        }
        assert_eq!(one.add(&item, &ANY, NoPrefetch), other.add(&item, &ANY, NoPrefetch), "{number}");
        drop((one.take_dead(), other.take_dead()));
    }
    assert_same(&one, &other);
}

#[test]
fn a_snapshot_and_a_copy_are_the_same_filter_and_go_on_alike() {
    for mut filter in samples() {
        let record = saved(&mut filter);
        let again = loaded(&record, ANY).unwrap();
        assert_eq!(again.internal_validate(Depth::Cells), Ok(()));
        assert_same(&filter, &again);
        assert_same(&filter, &filter.try_clone(UnknownMemory).unwrap());
        let Filter::Window(chain) = &filter else { panic!("another kind") };
        assert!(loaded(&record, chain.size_bytes() - 1).is_err());
        assert!(loaded(&record, chain.size_bytes()).is_ok());
        assert_goes_on(filter, again);
    }
}

#[test]
fn pieces_make_the_same_filter_in_any_order_and_twice() {
    for mut filter in samples() {
        filter.mark_state(7);
        assert_same(&filter, &from_pieces(&filter));
    }
}

#[test]
fn a_rewritten_file_makes_the_same_filter() {
    for filter in samples() {
        assert_same(&filter, &rewritten(&filter));
    }
}

#[test]
fn the_header_is_the_documented_one() {
    let mut filter = reserve(0.01, 100, 2);
    filter.tell_time(START_MS);
    filter.add(b"hello", &ANY, NoPrefetch).unwrap();
    let mut expected = b"evbl\x01\0\x07\0\x01\0\0\0\x02\0\0\0".to_vec();
    expected.extend(0.01f64.to_le_bytes());
    for number in [100, WINDOW_MS, 0] {
        expected.extend(number.to_le_bytes());
    }
    let Filter::Window(chain) = &filter else { panic!("another kind") };
    let shape = chain.layers()[0].shape();
    let generation = START_MS * 14 / WINDOW_MS + 1;
    expected.extend([1, 0, shape.probes as u8, 1, 0, 0, 0, 0]);
    for number in [shape.positions, 100, u64::from(shape.probes) + 1, generation, 0] {
        expected.extend(number.to_le_bytes());
    }
    for column in 0..16 {
        expected.extend(u64::from(column == generation % 16).to_le_bytes());
    }
    assert_eq!(header(&filter), expected);
    // What the filter was told is no part of it.
    filter.tell_time(START_MS * 2);
    assert_eq!(header(&filter), expected);
}

/// The words of docs/formats.md, for one item.
#[test]
fn positions_agree_with_the_document() {
    let golden = 0x9e37_79b9_7f4a_7c15u64;
    let constants: [u64; 8] = [
        0x6a09_e667_f3bc_c908,
        0xbb67_ae85_84ca_a73b,
        0x3c6e_f372_fe94_f82b,
        0xa54f_f53a_5f1d_36f1,
        0x510e_527f_ade6_82d1,
        0x9b05_688c_2b3e_6c1f,
        0x1f83_d9ab_fb41_bd6b,
        0x5be0_cd19_137e_2179,
    ];
    let high = |a: u64, b: u64| ((u128::from(a) * u128::from(b)) >> 64) as u64;
    for (error_rate, capacity) in
        [(0.01, 100), (0.01, 600_000), (1e-3, 500_000), (1e-9, 500_000), (0.4, 700_000)]
    {
        let filter = chain(error_rate, capacity, 0, WINDOW_MS);
        let shape = filter.layers()[0].shape();
        let mut random = Random(capacity);
        for _ in 0..50 {
            let item = random.next().to_le_bytes();
            let hash = everbloom::bloom::hash128(&item);
            let k = u64::from(shape.probes);
            let mut positions = Vec::new();
            match shape.layout {
                everbloom::bloom::Layout::Scattered => {
                    let mut x = hash.h1 ^ hash.h2.rotate_left(29) ^ golden;
                    for _ in 0..k {
                        positions.push(high(x, shape.positions));
                        x = x.wrapping_mul(golden);
                    }
                }
                everbloom::bloom::Layout::Paged { lines } => {
                    let lines = u64::from(lines);
                    let page = high(hash.h1, shape.positions / 2048);
                    for role in 0..lines {
                        let line = hash.h2.wrapping_add(role.wrapping_mul(hash.h2 >> 6 | 1)) % 64;
                        let x = (hash.h2 ^ hash.h2 >> 29 ^ golden).wrapping_mul(constants[role as usize] | 1);
                        let runs = k / lines + u64::from(role < k % lines);
                        for run in 0..runs {
                            let (start, end) = (32 * run / runs, 32 * (run + 1) / runs);
                            let byte = x >> (56 - 8 * run) & 255;
                            positions.push(page * 2048 + line * 32 + start + byte * (end - start) / 256);
                        }
                    }
                }
            }
            positions.sort_unstable();
            positions.dedup();
            let mut one = chain(error_rate, capacity, 0, WINDOW_MS);
            assert_eq!(super::add(&mut one, u64::from_le_bytes(item), START_MS), Ok(Added::New));
            let storage = one.layers()[0].storage();
            let words = everbloom::bloom::Storage::words(storage);
            let column = one.family().newest() % 16;
            let set: Vec<u64> = (0..shape.positions)
                .filter(|position| words[(*position / 4) as usize] >> (position % 4 * 16) & 0xffff != 0)
                .collect();
            assert_eq!(set, positions, "{shape:?}");
            assert!(set.iter().all(|p| words[(*p / 4) as usize] >> (p % 4 * 16) & 0xffff == 1 << column));
        }
    }
}

#[test]
fn many_items_at_once_are_added_and_asked_for_as_one_by_one() {
    let seed = 0x0062_6174_6368;
    for (error_rate, capacity, expansion) in
        [(0.01, 100, 2), (0.01, 900_000, 2), (1e-6, 700_000, 1), (0.001, 1_000_000, 0), (0.01, 300_000, 0)]
    {
        let mut random = Random(seed);
        let (mut batched, mut single) =
            (reserve(error_rate, capacity, expansion), chain(error_rate, capacity, expansion, WINDOW_MS));
        let mut now_ms = START_MS;
        for round in 0..400 {
            now_ms += random.next() % 300;
            batched.tell_time(now_ms);
            single.family_mut().tell_time(now_ms);
            let items: Vec<Vec<u8>> =
                (0..random.below(130)).map(|_| random.below(4000).to_string().into_bytes()).collect();
            let items: Vec<&[u8]> = items.iter().map(Vec::as_slice).collect();
            let context = format!("seed {seed}, round {round}, {error_rate} at {capacity}");
            let mut answers = Vec::new();
            batched.add_many(&items, &ANY, NoPrefetch, |outcome| {
                answers.push(outcome);
                true
            });
            let expected: Vec<_> = items.iter().map(|item| single.add(single.digest(item), &ANY)).collect();
            assert_eq!(answers, expected, "{context}");
            let later_ms = now_ms + random.next() % 15_000;
            batched.tell_time(later_ms);
            single.family_mut().tell_time(later_ms);
            let mut found = Vec::new();
            batched.contains_many(&items, NoPrefetch, |is_in| found.push(is_in));
            assert!(items.iter().map(|item| single.contains(single.digest(item))).eq(found), "{context}");
        }
        let bytes = single.layers().iter().map(|layer| everbloom::bloom::Storage::bytes(layer.storage()));
        assert!(batched.storages().map(|storage| storage.bytes()).eq(bytes));
    }
}
