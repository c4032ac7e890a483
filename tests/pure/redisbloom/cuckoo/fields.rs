//! Headers and snapshots with fields at the edges of their ranges.

use everbloom_filter::ReserveError;
use everbloom_filter::cuckoo::array::{BucketArray, CuckooHash, CuckooRelease};
use everbloom_filter::cuckoo::filter::{CuckooFilter, CuckooParameters};
use everbloom_filter::prefetch::NoPrefetch;
use everbloom_format::DecodeError;
use everbloom_format::redisbloom::cuckoo::{chunk, from_header, load, load_chunk};

use super::saved;
use crate::support::rdb::{Field, Record};

#[test]
fn a_header_of_several_arrays_needs_an_expansion() {
    for (count, expansion, is_possible) in
        [(1u64, 0u16, true), (2, 0, false), (2, 1, true), (1, 1 << 15, true), (1, (1 << 15) + 1, false)]
    {
        let words = [1, 2, 0, count].map(u64::to_le_bytes).concat();
        let header = [&words[..], &[2, 0, 20, 0], &expansion.to_le_bytes()].concat();
        let error = (!is_possible).then_some(DecodeError::Invalid("expansion"));
        assert_eq!(from_header(&header, &u64::MAX).err(), error, "{count} arrays, {expansion}");
    }
}

#[test]
fn a_header_has_fewer_than_2_to_the_56_buckets() {
    for (buckets, error) in [(1u64 << 55, None), (1 << 56, Some(DecodeError::Invalid("buckets")))] {
        let words = [1, buckets, 0, 1].map(u64::to_le_bytes).concat();
        let header = [&words[..], &[2, 0, 20, 0, 1, 0]].concat();
        let refused = from_header(&header, &1000).err();
        let is_too_large = matches!(refused, Some(DecodeError::TooLarge { .. }));
        assert!(refused == error || error.is_none() && is_too_large, "{buckets}: {refused:?}");
    }
}

/// Such a number of arrays is refused before the arrays are read.
#[test]
fn impossible_numbers_of_arrays_and_buckets_are_refused() {
    let fields = |count| [count, 2, 0, 0, 2, 20, 1].map(Field::Unsigned).to_vec();
    for count in [65_536, u64::MAX] {
        let refused = load(4, &mut Record(fields(count)).reader(), &u64::MAX).err();
        assert_eq!(refused, Some(DecodeError::Invalid("filters")), "{count}");
    }
    let parameters = CuckooParameters { buckets: 2, bucket_size: 2, max_iterations: 20, expansion: 1 };
    for count in [0, 65_536] {
        let arrays = (0..count).map(|_| BucketArray::of_bytes(2, 2, &[0; 4]).unwrap()).collect();
        let refused = CuckooFilter::from_parts(parameters, CuckooRelease::Current, 0, 0, arrays);
        assert_eq!(refused.err(), Some("filters"), "{count}");
    }
    for (none, name) in [
        (CuckooParameters { buckets: 0, ..parameters }, "buckets"),
        (CuckooParameters { buckets: 1 << 56, ..parameters }, "buckets"),
        (CuckooParameters { bucket_size: 0, ..parameters }, "bucket size"),
        (CuckooParameters { expansion: 32_769, ..parameters }, "expansion"),
    ] {
        let arrays = vec![BucketArray::of_bytes(2, 2, &[0; 4]).unwrap()];
        let refused = CuckooFilter::from_parts(none, CuckooRelease::Current, 0, 0, arrays);
        assert_eq!(refused.err(), Some(name));
        let refused = CuckooFilter::reserve(none, &u64::MAX).err();
        assert_eq!(refused, Some(ReserveError::TooLong), "{none:?}");
    }
    let arrays = (0..65_535).flat_map(|_| [Field::Unsigned(2), Field::Bytes(vec![0; 4])]);
    let most = fields(65_535).into_iter().chain(arrays).collect();
    load(4, &mut Record(most).reader(), &u64::MAX).unwrap();
}

/// Every field with values at the edges of its range: an error, or a filter that answers.
#[test]
fn hostile_fields_are_refused_or_answer() {
    let number = Field::Unsigned;
    let good = vec![
        number(1),
        number(2),
        number(1),
        number(0),
        number(2),
        number(20),
        number(1),
        number(2),
        Field::Bytes(vec![7, 0, 0, 9]),
    ];
    let (mut refused, mut accepted) = (0, 0);
    for place in 0..good.len() {
        for value in [0, 1, 2, 3, 255, 256, 65_535, 65_536, 1 << 32, 1 << 56, u64::MAX] {
            for bytes in [None, Some(0), Some(3), Some(5)] {
                let mut fields = good.clone();
                if let Some(length) = bytes {
                    fields[8] = Field::Bytes(vec![1; length]);
                }
                if place < 8 {
                    fields[place] = number(value);
                }
                let Ok(mut filter) = load(4, &mut Record(fields).reader(), &u64::MAX) else {
                    refused += 1;
                    continue;
                };
                accepted += 1;
                for item in 0..30u64 {
                    let item = item.to_le_bytes();
                    let hash = CuckooHash::of(&item);
                    let _ = filter.add(hash, &(1 << 16));
                    filter.delete(&item);
                    let _ = filter.count(&item, NoPrefetch);
                }
                filter.compact(true);
                saved(&filter);
            }
        }
    }
    assert!(refused > 100 && accepted > 50, "{refused}, {accepted}");
    // The numbers of the filter are checked, not only those of its arrays.
    for (place, slots) in [(1, 4), (4, 0)] {
        let mut fields = good.clone();
        (fields[place], fields[8]) = (number(0), Field::Bytes(vec![7; slots]));
        assert!(load(4, &mut Record(fields).reader(), &u64::MAX).is_err(), "field {place} is 0");
    }
    // Headers: an expansion that asks for terabytes, and sizes that no memory has.
    let header = |fields: [u64; 4], slots: [u16; 3]| {
        let numbers = fields.iter().flat_map(|field| field.to_le_bytes());
        numbers.chain(slots.iter().flat_map(|field| field.to_le_bytes())).collect::<Vec<u8>>()
    };
    let limit = 64u64 << 20;
    for (fields, slots) in [
        ([0, 2, 0, 4], [1, 20, 32_768]),
        ([0, 1 << 55, 0, 1], [255, 20, 1]),
        ([0, 1 << 40, 0, 1], [2, 20, 1]),
        ([0, 1 << 20, 0, 65_535], [2, 20, 1]),
        ([0, 3, 0, 1], [2, 20, 1]),
        ([0, 4, 0, 0], [2, 20, 1]),
        ([0, 4, 0, 1], [0, 20, 1]),
        ([0, 4, 0, 1], [256, 20, 1]),
        ([0, 4, 0, 1], [2, 0, 1]),
        ([0, 4, 0, 2], [2, 20, 0]),
    ] {
        assert!(from_header(&header(fields, slots), &limit).is_err(), "{fields:?}, {slots:?}");
    }
    assert!(from_header(&header([0, 4, 0, 1], [2, 20, 0]), &limit).is_ok(), "one array needs no expansion");
    assert!(from_header(&header([0, 4, 0, 1], [2, 20, 32_768]), &limit).is_ok(), "the largest expansion");
    let mut filter = from_header(&header([5, 4, 0, 2], [2, 20, 2]), &limit).unwrap();
    for (iterator, length) in [(0, 1), (1, 1), (9, 0), (u64::MAX, 4), (200, 30)] {
        assert!(load_chunk(&mut filter, iterator, &vec![1; length]).is_err(), "{iterator}, {length}");
    }
    assert!(load_chunk(&mut filter, 9, &[1; 8]).is_ok() && chunk(&filter, 99).is_none());
    // The arrays have 8 and 16 bytes. A position after the end is counted from there, in the last array.
    for (position, place) in [(8, 0), (12, 4), (20, 12), (24, 0), (28, 4)] {
        let mut filter = from_header(&header([5, 4, 0, 2], [2, 20, 2]), &limit).unwrap();
        load_chunk(&mut filter, position + 4 + 1, &[1; 4]).unwrap();
        let mut expected = [0; 16];
        expected[place..place + 4].fill(1);
        assert_eq!(filter.arrays()[1].bytes(), expected, "position {position}");
    }
    let mut filter = from_header(&header([0, 4, 0, 1], [2, 20, 1]), &limit).unwrap();
    assert!(!filter.compact(true), "nothing was deleted, and nothing can be moved");
}
