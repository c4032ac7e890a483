//! Every way that a filter survives: snapshot, pieces, rewritten file, copy.

use everbloom::bloom::{Filter, NoPrefetch, UnknownMemory};
use everbloom::format::filter::{from_header, header, piece};

use crate::support::Random;
use crate::support::saved::{digested, from_pieces, loaded, rewritten, saved};
use super::{ANY, reserve};

/// A filter with items of which some are there several times and some were deleted.
fn sample(error_rate: f64, capacity: u64, expansion: u32, items: u64) -> Filter {
    let mut filter = reserve(error_rate, capacity, expansion);
    let mut random = Random(items);
    for _ in 0..items {
        let item = (random.next() % (items / 2 + 1)).to_le_bytes();
        filter.add(&item, &ANY, NoPrefetch).unwrap();
        let Filter::Counting(chain) = &mut filter else { panic!("another kind") };
        if random.below(4) == 0 {
            assert!(chain.remove(chain.digest(&item)));
        }
    }
    filter
}

pub(crate) fn samples() -> Vec<Filter> {
    vec![
        sample(0.01, 100, 2, 0),
        sample(0.01, 100, 2, 90),
        sample(0.3, 1, 0, 1),
        sample(0.001, 20, 2, 900),
        sample(1e-6, 900_000, 0, 2000),
        // More than a chunk.
        sample(0.01, 4_000_000, 0, 1000),
    ]
}

fn assert_same(one: &Filter, other: &Filter) {
    assert!(digested(one) == digested(other));
    let (Filter::Counting(one), Filter::Counting(other)) = (one, other) else { panic!("another kind") };
    for (one, other) in one.layers().iter().zip(other.layers()) {
        assert_eq!((one.counts(), one.capacity_items()), (other.counts(), other.capacity_items()));
        assert_eq!(one.storage().distinct_items, other.storage().distinct_items);
        assert!(one.placement() == other.placement());
    }
}

#[test]
fn a_snapshot_and_a_copy_are_the_same_filter() {
    for mut filter in samples() {
        let record = saved(&mut filter);
        assert_same(&filter, &loaded(&record, ANY).unwrap());
        assert_same(&filter, &filter.try_clone(UnknownMemory).unwrap());
        // The limit is the one under which it was made.
        assert!(loaded(&record, filter.size_bytes() - 100).is_err());
        let Filter::Counting(chain) = &filter else { panic!("another kind") };
        assert!(loaded(&record, chain.size_bytes()).is_ok());
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
    for _ in 0..3 {
        filter.add(b"hello", &ANY, NoPrefetch).unwrap();
    }
    let mut expected = b"evbl\x01\0\x04\0\x01\0\0\0\x02\0\0\0".to_vec();
    expected.extend(0.01f64.to_le_bytes());
    expected.extend(100u64.to_le_bytes());
    let Filter::Counting(chain) = &filter else { panic!("another kind") };
    let shape = chain.layers()[0].shape();
    expected.extend([1, 0, shape.probes as u8, 1, 0, 0, 0, 0]);
    // Positions, capacity, occurrences, counters above 0, distinct items.
    for number in [shape.size_bits, 100, 3, u64::from(shape.probes), 1] {
        expected.extend(number.to_le_bytes());
    }
    assert_eq!(header(&filter), expected);
    assert_eq!(shape.size_bits, 1024);
}

#[test]
fn a_filter_that_lacks_its_chunks_is_not_in_the_state_of_its_header() {
    let mut filter = reserve(0.01, 100, 2);
    filter.add(b"one", &ANY, NoPrefetch).unwrap();
    filter.mark_state(5);
    let header = piece(&filter, 0).unwrap().unwrap().data.into_owned();
    let mut without = from_header(&header, &ANY).unwrap();
    without.mark_state(6);
    let Filter::Counting(chain) = &without else { panic!("another kind") };
    assert_eq!(chain.state_mark(), 6);
}

#[test]
fn a_dump_after_a_change_that_was_taken_back_has_another_mark() {
    let mut filter = reserve(0.01, 100, 2);
    filter.add(b"one", &ANY, NoPrefetch).unwrap();
    let dump = |filter: &Filter| piece(filter, 0).unwrap().unwrap().data.into_owned();
    filter.mark_state(5);
    let first = dump(&filter);
    filter.mark_state(6);
    assert_eq!(dump(&filter), first);
    let Filter::Counting(chain) = &mut filter else { panic!("another kind") };
    assert!(chain.remove(chain.digest(b"one")));
    chain.add(chain.digest(b"one"), &ANY).unwrap();
    filter.mark_state(7);
    assert_ne!(dump(&filter), first);
}
