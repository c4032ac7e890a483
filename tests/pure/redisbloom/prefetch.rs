//! Prefetching of cuckoo filters. It changes no result, so only the calls show it.

use std::cell::RefCell;
use std::collections::BTreeSet;

use everbloom_filter::Prefetch;
use everbloom_filter::cuckoo::filter::{Arrays, CuckooFilter, CuckooParameters};
use everbloom_filter::prefetch::NoPrefetch;

use crate::support::slices;

/// Collects the addresses that are prefetched.
#[derive(Clone, Copy)]
struct Collected<'c>(&'c RefCell<Vec<usize>>);

impl Prefetch for Collected<'_> {
    fn prefetch<T>(self, word: &T) {
        self.0.borrow_mut().push(std::ptr::from_ref(word).addr());
    }
}

/// Returns a filter of arrays of 256 slots with this many items.
fn filled(items: u64) -> CuckooFilter {
    let parameters = CuckooParameters { buckets: 128, bucket_size: 2, max_iterations: 20, expansion: 1 };
    let mut filter = CuckooFilter::reserve(parameters, &u64::MAX).unwrap();
    let items: Vec<_> = (0..items).map(u64::to_le_bytes).collect();
    CuckooFilter::for_each_hash(&mut filter, &slices(&items), Arrays::Newest, NoPrefetch, |filter, hash| {
        filter.add(hash, &u64::MAX).unwrap();
    });
    filter
}

/// A lookup of an absent item reads both of its buckets in every array. An add mostly reads the newest one only.
#[test]
fn the_buckets_that_a_lookup_reads_are_prefetched_in_every_array() {
    for (items, arrays) in [(100, 1..2), (500, 2..4), (2_000, 7..16)] {
        let mut filter = filled(items);
        let count = filter.arrays().len();
        assert!(arrays.contains(&count), "{count} arrays");
        // Returns the number of prefetches, and in how many arrays they are.
        let prefetched = |filter: &CuckooFilter, calls: &RefCell<Vec<usize>>| {
            let calls = calls.take();
            let array_of = |address: &usize| {
                let mut arrays = filter.arrays().iter().map(|array| array.bytes().as_ptr_range());
                arrays.position(|bytes| (bytes.start.addr()..bytes.end.addr()).contains(address)).unwrap()
            };
            (calls.len(), calls.iter().map(array_of).collect::<BTreeSet<_>>().len())
        };
        let calls = RefCell::default();
        let _ = filter.contains(b"absent", Collected(&calls));
        assert_eq!(prefetched(&filter, &calls), (2 * count, count));
        let _ = filter.count(b"absent", Collected(&calls));
        assert_eq!(prefetched(&filter, &calls), (2 * count, count));
        let absent: Vec<_> = (1 << 40..(1 << 40) + 50u64).map(u64::to_le_bytes).collect();
        for (read, expected) in [(Arrays::All, count), (Arrays::Newest, 1)] {
            let mut visited = 0;
            CuckooFilter::for_each_hash(&mut filter, &slices(&absent), read, Collected(&calls), |_, _| {
                visited += 1
            });
            assert_eq!(visited, absent.len());
            assert_eq!(prefetched(&filter, &calls), (2 * expected * absent.len(), expected));
        }
    }
}

/// An item is prefetched in a bounded number of arrays.
#[test]
fn prefetching_in_many_arrays_is_bounded() {
    let parameters = CuckooParameters { buckets: 1, bucket_size: 1, max_iterations: 1, expansion: 1 };
    let mut filter = CuckooFilter::reserve(parameters, &u64::MAX).unwrap();
    let items: Vec<_> = (0..300u64).map(u64::to_le_bytes).collect();
    CuckooFilter::for_each_hash(&mut filter, &slices(&items), Arrays::All, NoPrefetch, |filter, hash| {
        filter.add(hash, &u64::MAX).unwrap();
    });
    assert_eq!(filter.arrays().len(), 300);
    let (calls, mut found) = (RefCell::default(), 0);
    CuckooFilter::for_each_hash(
        &mut filter,
        &slices(&items),
        Arrays::All,
        Collected(&calls),
        |filter, hash| {
            found += u32::from(filter.contains_hash(hash));
        },
    );
    assert_eq!((found, calls.take().len()), (300, 300 * 2 * 128));
}
