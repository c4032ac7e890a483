//! Compares sliding-window filters with plain filters of the same size, with batches of 100 and with single items:
//! `cargo bench --bench window [MiB]`, by default 1024 MiB. The arrays are as full as at their capacity. docs/window.md
//! has the results.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark fails by panicking and prints")]

use std::time::{Duration, Instant};

use everbloom::bloom::cells::History;
use everbloom::bloom::window::Span;
use everbloom::bloom::{Added, CellType, Cells, Filter, Growth, Hash, Policy, Promise, Spec, Window};
use everbloom::prefetch::Processor;

const BATCH: usize = 100;
/// Batches of a round; the rounds of the two filters alternate.
const BATCHES: usize = 500;
const ROUNDS: usize = 15;
/// A moment in 2027.
const NOW_MS: u64 = 1_800_000_000_000;
const CHUNK_BYTES: usize = 8 << 20;

/// Returns the next random number: SplitMix64.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let word = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

fn promise(capacity_items: u64) -> Promise {
    Promise { error_rate: 0.01, capacity_items, growth: Growth::Fixed }
}

/// Sets half of the bits. Sets the stamp of pages that have one.
fn fill(storage: &mut Cells, stamp: u64) {
    let (mut state, mut offset) = (7, 0usize);
    while let Some(segment) = storage.segment(offset, CHUNK_BYTES) {
        let (cells, stamps) = (segment.cells.len(), segment.stamps.len());
        let cells: Vec<u8> = (0..cells / 8).flat_map(|_| random(&mut state).to_le_bytes()).collect();
        let stamps: Vec<u8> = (0..stamps / 8).flat_map(|_| stamp.to_le_bytes()).collect();
        assert!(storage.add_parts(offset, &cells, &stamps));
        offset += cells.len() + stamps.len();
    }
}

/// Returns a filter of `size_bytes` with a window of a day, filled to its capacity.
fn window(size_bytes: u64) -> Filter {
    // 18.46 bits per item.
    let window = Window::new(promise(size_bytes * 100 / 231), Span::new(86_400_000), false);
    let policy = Policy::Window(Box::new(window));
    let spec = Spec { policy, hash: Hash::Murmur3, cells: CellType::Columns };
    let mut filter = Filter::reserve(spec, &u64::MAX).unwrap();
    set_now(&mut filter, NOW_MS);
    let window = filter.window_mut().unwrap();
    let newest = window.moment().now;
    window.set_newest(newest);
    let cells = filter.layers_mut().first_mut().unwrap().cells_mut();
    cells.timed_mut().unwrap().history = History { newest, items: [1000; 16] };
    fill(cells, newest);
    filter
}

fn set_now(filter: &mut Filter, now_ms: u64) {
    filter.window_mut().unwrap().set_now(now_ms);
}

/// Returns a plain filter of `size_bytes`, filled to its capacity.
fn plain(size_bytes: u64) -> Filter {
    let policy = Policy::Promise(promise(size_bytes * 8 * 1000 / 9690));
    let mut filter =
        Filter::reserve(Spec { policy, hash: Hash::Murmur3, cells: CellType::Bits }, &u64::MAX).unwrap();
    fill(filter.layers_mut().first_mut().unwrap().cells_mut(), 0);
    filter
}

#[derive(Clone, Copy)]
enum Case {
    CheckAbsent,
    CheckThere,
    Add,
    AddPages,
}

/// Measures the time per item in a round of batches.
fn round(filter: &mut Filter, case: Case, from: u64, batch: usize) -> Duration {
    let items: Vec<Vec<u8>> =
        (from..).take(BATCH * BATCHES).map(|number| format!("item:{number:012}").into_bytes()).collect();
    let batches: Vec<Vec<&[u8]>> =
        items.chunks(batch).map(|batch| batch.iter().map(Vec::as_slice).collect()).collect();
    let mut found = 0u64;
    let start = Instant::now();
    for batch in &batches {
        match (case, batch.as_slice()) {
            (Case::CheckAbsent | Case::CheckThere, [item]) => {
                found += u64::from(filter.contains(item, Processor));
            }
            (Case::CheckAbsent | Case::CheckThere, items) => {
                filter.contains_many(items, Processor, |is_in| found += u64::from(is_in));
            }
            (Case::Add | Case::AddPages, [item]) => {
                found += u64::from(filter.add(item, &u64::MAX, Processor) == Ok(Added::New));
            }
            (Case::Add | Case::AddPages, items) => filter.add_many(items, &u64::MAX, Processor, |outcome| {
                found += u64::from(outcome == Ok(Added::New));
                true
            }),
        }
    }
    let elapsed = start.elapsed();
    assert!(found <= items.len() as u64);
    elapsed / u32::try_from(items.len()).unwrap()
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times.get(times.len() / 2).unwrap().as_nanos() as f64
}

fn main() {
    let mib: u64 = std::env::args().filter_map(|argument| argument.parse().ok()).next().unwrap_or(1024);
    let (mut window, mut plain) = (window(mib << 20), plain(mib << 20));
    println!("{mib} MiB: window {} bytes, plain {} bytes", window.size_bytes(), plain.size_bytes());
    let cases = [
        ("check absent", Case::CheckAbsent),
        ("add new", Case::Add),
        ("check there", Case::CheckThere),
        ("add new, first of its generation in most pages", Case::AddPages),
    ];
    for (batch, name) in [(BATCH, "batches of 100"), (1, "single")] {
        for (title, case) in cases {
            let (mut windowed_ns, mut plain_ns) = (Vec::new(), Vec::new());
            for number in 0..ROUNDS {
                let numbered = (batch as u64 * 1000 + number as u64) * 1_000_000;
                // Present items are those that the case `Add` has added.
                let from = match case {
                    Case::CheckAbsent => 1 << 50 | numbered,
                    Case::AddPages => 1 << 52 | numbered,
                    Case::Add | Case::CheckThere => numbered,
                };
                if matches!(case, Case::AddPages) {
                    set_now(&mut window, NOW_MS + 6_171_429 * (100 * batch + number + 1) as u64);
                }
                windowed_ns.push(round(&mut window, case, from, batch));
                plain_ns.push(round(&mut plain, case, from, batch));
            }
            let (windowed_ns, plain_ns) = (median(windowed_ns), median(plain_ns));
            println!(
                "{name}, {title}: {windowed_ns:.0} ns per item, plain {plain_ns:.0} ns, ratio {:.2}",
                windowed_ns / plain_ns
            );
            if matches!(case, Case::AddPages) {
                set_now(&mut window, NOW_MS + 6_171_429 * 100 * batch as u64);
            }
        }
    }
}
