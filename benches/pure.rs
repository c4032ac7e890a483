//! Measures the modules that need no server: hashing, sizing, and adding and checking items in every layout, one by one
//! and in batches. Every benchmark asserts its results. `make bench` runs it. docs/performance-cells.csv has the
//! results.

#![expect(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use everbloom::bloom::bits::sizing::Shape;
use everbloom::bloom::hash::murmur3::hash128;
use everbloom::bloom::{
    Added, Filter, FilterSpec, Growth, Hash, LayerCounts, Policy, Promise, UnknownMemory,
};
use everbloom::prefetch::Processor;

/// Items per batch, and per step of the loops over single items.
const BATCH: usize = 1000;
const ITEMS: u64 = BATCH as u64;

/// Returns items of one kind, of 21 bytes each. They differ from the items of all other kinds.
fn items(kind: &str, from: u64, count: u64) -> Vec<Vec<u8>> {
    (from..from + count).map(|number| format!("{kind}:{number:016}").into_bytes()).collect()
}

fn borrowed(items: &[Vec<u8>]) -> Vec<&[u8]> {
    items.iter().map(Vec::as_slice).collect()
}

fn hashing(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("hash");
    for length in [8usize, 13, 16, 24, 32, 256] {
        let item: Vec<u8> = (0u8..=255).cycle().take(length).collect();
        let digest = hash128(&item);
        let defined = murmur3::murmur3_x64_128(&mut item.as_slice(), 0).unwrap();
        assert_eq!(u128::from(digest.h2) << 64 | u128::from(digest.h1), defined);
        group.throughput(Throughput::Elements(1));
        group.bench_function(BenchmarkId::new("ours", length), |bencher| {
            bencher.iter(|| hash128(black_box(&item)));
        });
        group.bench_function(BenchmarkId::new("crate", length), |bencher| {
            bencher.iter(|| murmur3::murmur3_x64_128(&mut black_box(item.as_slice()), 0).unwrap());
        });
    }
}

fn sizing(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("sizing");
    for capacity_items in [100, 1_000_000, 1_000_000_000u64] {
        let shape = Shape::sized(capacity_items, 0.01);
        // The classic formula gives 9.59 bits at 1 %; a layer of whole words or pages may have more.
        let bits_per_item = shape.spec(Hash::Murmur3).size_bits as f64 / capacity_items as f64;
        assert!((9.58..10.3).contains(&bits_per_item), "{capacity_items}: {bits_per_item} bits per item");
        group.bench_function(BenchmarkId::from_parameter(capacity_items), |bencher| {
            bencher.iter(|| Shape::sized(black_box(capacity_items), black_box(0.01)));
        });
    }
}

/// Returns a filter of one layer at half its capacity, so that the processor cannot predict the value of a bit.
fn half_full(capacity_items: u64, error_rate: f64) -> Filter {
    let policy = Policy::Everbloom(Promise { error_rate, capacity_items, growth: Growth::Fixed });
    let spec = FilterSpec { policy, hash: Hash::Murmur3 };
    let mut filter = Filter::reserve(spec, &u64::MAX).unwrap();
    let known = items("known", 0, capacity_items / 2);
    let mut new = 0;
    filter.add_many(&borrowed(&known), &u64::MAX, Processor, |outcome| {
        new += u64::from(outcome == Ok(Added::New));
        true
    });
    assert_eq!(filter.items(), new);
    assert!(new > capacity_items / 2 - capacity_items / 1000, "{new} of {capacity_items} / 2 were new");
    filter
}

/// Returns one batch after another, and starts again after the last. There are more items than a branch predictor can
/// learn.
struct Rounds {
    items: Vec<Vec<u8>>,
    next: usize,
}

impl Rounds {
    fn new(kind: &str, count: u64) -> Self {
        Self { items: items(kind, 0, count), next: 0 }
    }

    fn next(&mut self) -> Vec<&[u8]> {
        let (batches, _) = self.items.as_chunks::<BATCH>();
        let batch = batches.get(self.next).unwrap();
        self.next = (self.next + 1) % batches.len();
        borrowed(batch)
    }
}

fn layouts() -> [(&'static str, u64, f64); 3] {
    // Layers below 2 MiB are scattered; an item of a larger one has the number of lines that the error rate needs.
    [("scattered", 800_000, 0.01), ("paged", 2_400_000, 0.01), ("paged_1e-6", 800_000, 1e-6)]
}

/// Returns the items of each case, and how many of a batch are found.
fn cases(capacity_items: u64) -> [(&'static str, Rounds, u64); 2] {
    [
        ("hit", Rounds::new("known", capacity_items / 2), ITEMS),
        ("miss", Rounds::new("absent", capacity_items / 2), 0),
    ]
}

/// Asserts the number of found items. Few are false positives, since the filter is at half its capacity.
fn assert_found(found: u64, expected: u64) {
    assert!(found.abs_diff(expected) <= ITEMS / 100, "{found} found, {expected} expected");
}

fn single(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("single");
    group.throughput(Throughput::Elements(ITEMS));
    for (name, capacity_items, error_rate) in layouts() {
        let mut filter = half_full(capacity_items, error_rate);
        let shape = filter.layers().last().unwrap().shape().unwrap();
        assert_eq!(shape.lines == 0, name == "scattered", "{shape:?}");
        for (case, mut rounds, expected) in cases(capacity_items) {
            group.bench_function(BenchmarkId::new(format!("contains_{case}"), name), |bencher| {
                bencher.iter(|| {
                    let found = rounds.next().iter().filter(|item| filter.contains(item, Processor)).count();
                    assert_found(found as u64, expected);
                });
            });
        }
        let LayerCounts { set_bits, .. } = filter.layers().last().unwrap().counts();
        let mut rounds = Rounds::new("known", capacity_items / 2);
        group.bench_function(BenchmarkId::new("insert_known", name), |bencher| {
            bencher.iter(|| {
                assert!(
                    !rounds
                        .next()
                        .iter()
                        .any(|item| filter.add(item, &u64::MAX, Processor) != Ok(Added::Present))
                )
            });
        });
        assert_eq!(
            filter.layers().last().unwrap().counts().set_bits,
            set_bits,
            "a known item changes nothing"
        );
    }
}

fn batch(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("batch");
    group.throughput(Throughput::Elements(ITEMS));
    for (name, capacity_items, error_rate) in layouts() {
        let filter = half_full(capacity_items, error_rate);
        for (case, mut rounds, expected) in cases(capacity_items) {
            group.bench_function(BenchmarkId::new(format!("contains_{case}"), name), |bencher| {
                bencher.iter(|| {
                    let mut found = 0;
                    filter.contains_many(&rounds.next(), Processor, |is_found| found += u64::from(is_found));
                    assert_found(found, expected);
                });
            });
        }
        let mut filled = filter.try_clone(UnknownMemory).unwrap();
        let mut rounds = Rounds::new("new", capacity_items / 2);
        group.bench_function(BenchmarkId::new("add_new", name), |bencher| {
            bencher.iter(|| {
                if rounds.next == 0 {
                    // All items were added, so the filter is copied again. Many batches share the time of one copy.
                    filled = filter.try_clone(UnknownMemory).unwrap();
                }
                let before = filled.items();
                filled.add_many(&rounds.next(), &u64::MAX, Processor, |outcome| outcome.is_ok());
                // Some items are false positives, more of them as the filter fills.
                let new = filled.items() - before;
                assert!(new >= ITEMS - ITEMS / 20, "{new} of {ITEMS} new items were new");
            });
        });
        let mut rounds = Rounds::new("known", capacity_items / 2);
        group.bench_function(BenchmarkId::new("add_known", name), |bencher| {
            bencher.iter(|| {
                filled.add_many(&rounds.next(), &u64::MAX, Processor, |outcome| outcome == Ok(Added::Present))
            });
        });
    }
}

fn short() -> Criterion {
    let is_quick = std::env::var("QUICK").is_ok_and(|value| value == "1");
    Criterion::default()
        .warm_up_time(Duration::from_millis(if is_quick { 10 } else { 200 }))
        .measurement_time(Duration::from_millis(if is_quick { 50 } else { 600 }))
        .sample_size(20)
        .without_plots()
}

criterion_group! { name = benches; config = short(); targets = hashing, sizing, single, batch }
criterion_main!(benches);
