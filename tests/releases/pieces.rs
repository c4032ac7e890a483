//! The pieces of BF.SCANDUMP, with the check that the release put at their end.

use everbloom::bloom::Filter;
use everbloom::format::filter::{from_header, load_chunk};
use everbloom::format::pieces::{ChunkError, Trust};

use crate::support::rdb::Payload;
use crate::support::recording::{Recorded, recording, recordings};
use crate::support::{Field, Random};
use crate::{ANY, assert_answers, assert_same, loaded, restored};

#[test]
fn every_filter_loads_from_its_pieces_in_any_order_and_twice() {
    let seed = 0x5eed_0010;
    println!("seed {seed:#x}");
    let mut random = Random(seed);
    for recorded in recordings() {
        let expected = restored(&recorded);
        let (first, chunks) = recorded.pieces.split_first().unwrap();
        let mut order: Vec<usize> = (0..chunks.len()).collect();
        let shuffled: Vec<usize> = {
            let mut order = order.clone();
            for last in (1..order.len()).rev() {
                order.swap(last, random.below(last + 1));
            }
            order.iter().copied().chain(order.iter().rev().copied()).collect()
        };
        for order in [std::mem::take(&mut order), shuffled] {
            let mut filter = from_header(&first.1, &ANY).unwrap();
            for index in order {
                let (iterator, data) = &chunks[index];
                load_chunk(&mut filter, *iterator, data, Trust::Marks).unwrap();
            }
            assert_same(&filter, &expected, &recorded.name);
            assert_answers(&filter, &recorded);
        }
    }
}

/// One of each kind whose pieces have a check.
const CHECKED: [&str; 4] =
    ["everbloom-full-0.01", "everbloom-grown-by-4", "valkeybloom-grown", "imported-murmur3-salted"];

#[test]
fn a_torn_altered_or_misplaced_piece_changes_nothing() {
    for name in CHECKED {
        let recorded = recording(name);
        let (first, chunks) = recorded.pieces.split_first().unwrap();
        for at in 0..first.1.len() {
            let mut altered = first.1.clone();
            altered[at] ^= 1 << (at % 8);
            assert!(from_header(&altered, &ANY).is_err(), "{name}: byte {at} of the header");
            assert!(from_header(&first.1[..at], &ANY).is_err(), "{name}: header cut to {at}");
        }
        let mut filter = from_header(&first.1, &ANY).unwrap();
        for (iterator, data) in chunks {
            for at in 0..data.len() {
                let mut altered = data.clone();
                altered[at] ^= 1 << (at % 8);
                let outcome = load_chunk(&mut filter, *iterator, &altered, Trust::Marks);
                assert_eq!(outcome, Err(ChunkError::BadData), "{name}: byte {at} of {iterator}");
                assert!(
                    load_chunk(&mut filter, *iterator, &data[..at], Trust::Marks).is_err(),
                    "{name}: cut to {at}"
                );
            }
            for wrong in (0..=iterator + 16).filter(|wrong| wrong != iterator) {
                assert!(
                    load_chunk(&mut filter, wrong, data, Trust::Marks).is_err(),
                    "{name}: {iterator} as {wrong}"
                );
            }
        }
        assert_same(&filter, &from_header(&first.1, &ANY).unwrap(), name);
    }
}

/// Where the fields of a layer's header are, from its start on.
const PROBES_AT: usize = 2;
const SIZE_BITS_AT: usize = 8;
const CAPACITY_AT: usize = 16;
const SET_BITS_AT: usize = 32;
/// Where the first layer's header is.
const LAYER_AT: usize = 32;

/// An empty filter like a recorded one of one layer, but for what `alter` does to its header.
fn altered(recorded: &Recorded, alter: impl FnOnce(&mut Vec<u8>)) -> Filter {
    let mut record = Payload::read(&recorded.dump).record;
    let Some(Field::Bytes(header)) = record.0.first_mut() else { panic!("no header") };
    header[LAYER_AT + SET_BITS_AT..LAYER_AT + SET_BITS_AT + 8].fill(0);
    alter(header);
    let layers = (header.len() - LAYER_AT) / 40;
    record.0.truncate(1);
    record.0.extend((0..layers).map(|_| Field::Bytes(Vec::new())));
    loaded("everbloom", 1, &record).unwrap()
}

#[test]
fn a_chunk_of_a_filter_of_another_shape_is_refused_whichever_field_differs() {
    let recorded = recording("everbloom-full-0.01");
    let (iterator, data) = &recorded.pieces[1];
    assert_eq!(load_chunk(&mut altered(&recorded, |_| ()), *iterator, data, Trust::Sender), Ok(()));

    let add = |at: usize, more: u64| {
        move |header: &mut Vec<u8>| {
            let field = &mut header[LAYER_AT + at..LAYER_AT + at + 8];
            let value = u64::from_le_bytes(field.try_into().unwrap());
            field.copy_from_slice(&(value + more).to_le_bytes());
        }
    };
    let mut others = [
        ("one item more of capacity", altered(&recorded, add(CAPACITY_AT, 1))),
        ("64 bits more", altered(&recorded, add(SIZE_BITS_AT, 64))),
        ("a probe more", altered(&recorded, |header| header[LAYER_AT + PROBES_AT] += 1)),
    ];
    for (what, other) in &mut others {
        assert_eq!(load_chunk(other, *iterator, data, Trust::Sender), Err(ChunkError::BadData), "{what}");
        assert!(other.storages().all(|bits| bits.set_bits() == 0), "{what}");
    }

    // Two layers that differ in nothing but their place.
    let mut twins = altered(&recorded, |header| {
        header[8] = 2;
        header.extend_from_within(LAYER_AT..);
    });
    let layer_bytes = iterator - 1;
    assert_eq!(load_chunk(&mut twins, iterator + layer_bytes, data, Trust::Sender), Err(ChunkError::BadData));
    assert_eq!(load_chunk(&mut twins, *iterator, data, Trust::Sender), Ok(()));
}
