//! Prefetching. It changes no result, so only the calls show it.

use std::cell::Cell;

use everbloom_filter::Prefetch;
use everbloom_filter::table::EntryKind;

use super::{add_kind, hash, of_kind};

/// Counts the prefetches.
#[derive(Clone, Copy)]
struct Counting<'c>(&'c Cell<u64>);

impl Prefetch for Counting<'_> {
    fn prefetch<T>(self, _: &T) {
        self.0.set(self.0.get() + 1);
    }
}

/// Memory is prefetched only from tables of more than 1 MiB, for which the caches of a processor are too small.
#[test]
fn a_batch_prefetches_only_from_a_large_table() {
    let hashes: Vec<_> = (0..64).map(hash).collect();
    let (mut table, mut item) = (of_kind(EntryKind::Plain, 0.01, 0), 0);
    let mut sizes = [0, 0];
    while sizes[1] < 3 {
        (0..20_000).for_each(|_| {
            add_kind(&mut table, item, 0);
            item += 1;
        });
        let prefetches = Cell::new(0);
        assert_eq!(table.contains_each(&hashes, u64::MAX, 0, Counting(&prefetches)), u64::MAX);
        let is_large = table.size_bytes() > 1 << 20;
        assert_eq!(prefetches.get() > 0, is_large, "{} bytes", table.size_bytes());
        sizes[usize::from(is_large)] += 1;
    }
    assert!(sizes[0] > 3, "{sizes:?}");
}
