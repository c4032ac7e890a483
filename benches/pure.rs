//! Times of the rooms that know no server: hashing, sizing, and adding and checking in every layout, one by one and
//! in batches. Every benchmark asserts its answers. `make bench` runs it; docs/performance.md has the results.

#![expect(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

use std::hint::black_box;
use std::time::Duration;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use everbloom::bloom::{
    Chain, ChainParameters, Growth, Layer, LayerCounts, LayerShape, Layout, Prefetch, hash128,
};

/// Items per batch, and per step of the loops over single items.
const ITEMS: u64 = 1000;

/// Asks the processor for memory, as the host does.
#[derive(Clone, Copy)]
struct Processor;

impl Prefetch for Processor {
    #[cfg(target_arch = "x86_64")]
    fn prefetch(self, word: &u64) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: SSE is part of every x86-64 processor; the instruction is a hint that faults on no address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(word).cast()) };
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn prefetch(self, _: &u64) {}
}

/// Items of one kind: 21 bytes that no other kind has.
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
        let shape = LayerShape::sized(capacity_items, 0.01);
        // 9.59 bits are what the classic formula asks for at 1 %; a layer of whole words or pages may take more.
        let bits_per_item = shape.size_bits as f64 / capacity_items as f64;
        assert!((9.58..10.3).contains(&bits_per_item), "{capacity_items}: {bits_per_item} bits per item");
        group.bench_function(BenchmarkId::from_parameter(capacity_items), |bencher| {
            bencher.iter(|| LayerShape::sized(black_box(capacity_items), black_box(0.01)));
        });
    }
}

/// A chain of one layer in that layout, with room for all the items of a benchmark.
fn chain(capacity_items: u64, error_rate: f64) -> Chain {
    let parameters = ChainParameters { error_rate, capacity_items, growth: Growth::Fixed };
    Chain::reserve(parameters, &u64::MAX).unwrap()
}

fn layouts() -> [(&'static str, u64, f64); 3] {
    // Below 2 MiB a layer is scattered; larger ones have as many lines per item as their error rate asks for.
    [("scattered", 400_000, 0.01), ("paged", 2_400_000, 0.01), ("paged_1e-6", 800_000, 1e-6)]
}

fn single(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("single");
    group.throughput(Throughput::Elements(ITEMS));
    for (name, capacity_items, error_rate) in layouts() {
        let mut layer: Layer = Layer::try_new(LayerShape::sized(capacity_items, error_rate).into()).unwrap();
        let is_scattered = layer.shape().layout == Layout::Scattered;
        assert_eq!(is_scattered, name == "scattered", "{:?}", layer.shape());
        let (known, absent) = (items("known", 0, ITEMS), items("absent", 0, ITEMS));
        let added: u64 = known.iter().map(|item| u64::from(layer.insert(hash128(item)))).sum();
        assert_eq!(layer.counts().items, added);
        assert!(added >= ITEMS - 1, "an almost empty layer took {added} of {ITEMS} items for new");
        for (case, items, share) in [("hit", &known, ITEMS), ("miss", &absent, 0)] {
            group.bench_function(BenchmarkId::new(format!("contains_{case}"), name), |bencher| {
                bencher.iter(|| {
                    let found = items.iter().filter(|item| layer.contains(hash128(item))).count() as u64;
                    assert!(found.abs_diff(share) <= 1, "{found} found, {share} expected");
                });
            });
        }
        let LayerCounts { set_bits, .. } = layer.counts();
        group.bench_function(BenchmarkId::new("insert_known", name), |bencher| {
            bencher.iter(|| assert!(!known.iter().any(|item| layer.insert(hash128(item)))));
        });
        assert_eq!(layer.counts().set_bits, set_bits, "a known item changes nothing");
    }
}

fn batch(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("batch");
    group.throughput(Throughput::Elements(ITEMS));
    for (name, capacity_items, error_rate) in layouts() {
        let mut filter = chain(capacity_items, error_rate);
        let (known, absent) = (items("known", 0, ITEMS), items("absent", 0, ITEMS));
        let mut new = 0;
        filter.add_many(&borrowed(&known), &u64::MAX, Processor, |outcome| {
            new += u64::from(outcome == Ok(everbloom::bloom::Added::New));
            true
        });
        assert_eq!(filter.items(), new);
        for (case, items, share) in [("hit", &known, ITEMS), ("miss", &absent, 0)] {
            let items = borrowed(items);
            group.bench_function(BenchmarkId::new(format!("contains_{case}"), name), |bencher| {
                bencher.iter(|| {
                    let mut found = 0;
                    filter.contains_many(&items, Processor, |answer| found += u64::from(answer));
                    assert!(found.abs_diff(share) <= 1, "{found} found, {share} expected");
                });
            });
        }
        let mut from = 0;
        group.bench_function(BenchmarkId::new("add_new", name), |bencher| {
            let next_batch = || {
                from += ITEMS;
                items("new", from, ITEMS)
            };
            bencher.iter_batched(
                next_batch,
                |items| {
                    if filter.items() + ITEMS > capacity_items {
                        // Full: the time of one new filter is shared by all the batches that it takes.
                        filter = chain(capacity_items, error_rate);
                    }
                    let before = filter.items();
                    filter.add_many(&borrowed(&items), &u64::MAX, Processor, |outcome| outcome.is_ok());
                    // An item may be taken for known, more often as the filter fills up.
                    let new = filter.items() - before;
                    assert!(new >= ITEMS - ITEMS / 20, "{new} of {ITEMS} new items were new");
                },
                BatchSize::SmallInput,
            );
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
