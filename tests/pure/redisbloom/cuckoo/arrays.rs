//! Filters of many arrays: what they cost, how they grow, and their chunks.

use everbloom_filter::cuckoo::array::{BucketArray, CuckooHash, CuckooRelease};
use everbloom_filter::cuckoo::filter::{CuckooFilter, CuckooParameters};
use everbloom_filter::work;
use everbloom_format::chunks::Rewritten;
use everbloom_format::redisbloom::cuckoo::{chunk, from_header, load, load_chunk, rewrite};

use super::{forged, saved};
use crate::support::rdb::{Field, Record};
use crate::support::work::{assert_work, bounded};

/// A compaction costs what its bytes cost, also if tens of thousands of arrays have free slots that no fingerprint can
/// take.
#[test]
fn compactions_of_many_arrays_are_bounded() {
    // Fingerprint 2 has one bucket only in arrays of two buckets, and bucket 1 has a free slot.
    let small = vec![(2, vec![2, 0]); 65_000];
    let full = vec![(4, vec![2; 4]); 65_535];
    let mixed = [vec![(1 << 16, vec![2; 1 << 16])], vec![(2, vec![2, 0]); 65_000], vec![(8, vec![9; 8])]];
    for arrays in [small, full, mixed.concat()] {
        let mut filter = forged(1, arrays);
        let bytes = filter.slots_bytes();
        for goes_on in [true, false] {
            _ = work::take();
            filter.compact(goes_on);
            assert_work(work::take(), bytes, &format!("{} arrays", filter.arrays().len()));
        }
    }
}

/// A header of 38 bytes may describe tens of thousands of arrays.
#[test]
fn a_header_of_many_arrays_costs_what_its_arrays_cost() {
    let words = [1, 1, 0, 65_535u64].map(u64::to_le_bytes).concat();
    let header = [&words[..], &[1, 0, 20, 0, 1, 0]].concat();
    let context = "65535 arrays";
    let filter = bounded(
        0,
        context,
        || from_header(&header, &u64::MAX).unwrap(),
        |filter| filter.arrays().len() as u64,
    );
    assert_eq!(filter.arrays().len(), 65_535);
}

/// A filter of many sizes of arrays grows only as long as it can be loaded again, and its compaction is bounded.
#[test]
fn a_filter_of_many_sizes_can_be_loaded_after_it_has_grown() {
    let sizes = |run: usize| (0..200).map(move |index| 2 << (index / run % 2));
    let (mut loaded, mut refused) = (0, 0);
    for run in [1, 2, 8, 9, 20] {
        for count in 1..200 {
            let arrays: Vec<_> = sizes(run).take(count).map(|n: u64| (n, vec![2; n as usize])).collect();
            let items = count as u64;
            let parameters = CuckooParameters { buckets: 8, bucket_size: 1, max_iterations: 3, expansion: 1 };
            let arrays = arrays.into_iter().map(|(n, slots)| BucketArray::of_bytes(n, 1, &slots).unwrap());
            let release = CuckooRelease::Current;
            let Ok(mut filter) = CuckooFilter::from_parts(parameters, release, items, 0, arrays.collect())
            else {
                refused += 1;
                continue;
            };
            for item in 0..200u32 {
                // Refused at the latest when there are too many sizes.
                let _ = filter.add(CuckooHash::of(&item.to_le_bytes()), &u64::MAX);
            }
            load(4, &mut saved(&filter).reader(), &u64::MAX).unwrap();
            let bytes = 64 * filter.slots_bytes();
            bounded(bytes, "compaction", || filter.compact(true), |_| 0);
            loaded += 1;
        }
    }
    // Those of at most 64 arrays, where a run of more than eight counts as one.
    assert_eq!((loaded, refused), (590, 405));
}

#[test]
fn arrays_of_changing_sizes_are_at_most_64() {
    let sizes = (0..63).map(|index| 2 << (index % 2));
    let mut filter = forged(1, sizes.map(|buckets: u64| (buckets, vec![2; buckets as usize])).collect());
    for item in 0..200u32 {
        let _ = filter.add(CuckooHash::of(&item.to_le_bytes()), &u64::MAX);
    }
    assert_eq!(filter.arrays().len(), 64);
}

/// As RedisBloom does.
#[test]
fn an_array_of_one_chunk_is_sent_whole_from_any_position() {
    let arrays = [(1..=16).collect(), vec![7; 16]];
    let filter = forged(2, arrays.iter().map(|slots: &Vec<u8>| (8, slots.clone())).collect());
    for position in 0..32u64 {
        let sent = chunk(&filter, 1 + position).unwrap();
        assert_eq!(sent.data[..], arrays[position as usize / 16], "{position}");
        assert_eq!(sent.next_iterator, 1 + position + 16, "{position}");
    }
    assert!(chunk(&filter, 33).is_none());
}

/// A rewritten append-only file has chunks only for arrays of the sizes that follow from the parameters, because a header
/// has no sizes.
#[test]
fn a_filter_with_arrays_of_other_sizes_has_no_chunks() {
    for (buckets, sizes, is_possible) in [
        (4, vec![4], true),
        (4, vec![4, 8], true),
        (4, vec![4, 4], false),
        (2, vec![4], false),
        (3, vec![3], false),
        (3, vec![4], false),
    ] {
        let number = Field::Unsigned;
        let count = sizes.len() as u64;
        let mut fields = [count, buckets, 0, 0, 2, 20, 2].map(number).to_vec();
        for size in &sizes {
            fields.extend([number(*size as u64), Field::Bytes(vec![0; 2 * size])]);
        }
        let filter = load(4, &mut Record(fields).reader(), &u64::MAX).unwrap();
        assert_eq!(filter.has_header(), is_possible, "{buckets} buckets, {sizes:?}");
        let (mut again, mut payloads) = (None, 0);
        rewrite(&filter, &mut |command| match (command, &mut again) {
            (Rewritten::CuckooChunk { data, .. }, None) => {
                again = Some(from_header(data, &u64::MAX).unwrap())
            }
            (Rewritten::CuckooChunk { iterator, data }, Some(again)) => {
                load_chunk(again, iterator, data).unwrap();
            }
            (Rewritten::Payload(_), _) => payloads += 1,
            (Rewritten::Chunk { .. } | Rewritten::Blob(_), _) => panic!("not of a cuckoo filter"),
        })
        .unwrap();
        assert_eq!(payloads, usize::from(!is_possible), "{buckets} buckets, {sizes:?}");
        assert_eq!(again.map(|again| saved(&again)), is_possible.then(|| saved(&filter)));
    }
}
