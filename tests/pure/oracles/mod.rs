//! Random operations on whole filters, compared with a set, a multiset and a map of times: adds, deletions and lookups,
//! one by one and in batches, while the tables grow and shrink; in between restarts, copies, merges and dumps.
//!
//! `ORACLE_OPERATIONS=10000000 cargo test -p everbloom-tests --test pure oracles` does that many operations for each
//! of the three.

mod counting;
mod plain;
mod window;
mod words;

use everbloom_filter::filter::dumps::Remembered;
use everbloom_filter::filter::loading::FilterValue;
use everbloom_filter::prefetch::NoPrefetch;

use everbloom_filter::{Filter, UnknownMemory, Validation};
use everbloom_format::filter::chunk;
use everbloom_format::value::{from_header, load_chunk};

use crate::support::make::{ANY, CLIENT, contains};
use crate::support::saved::{assert_valid, complete, digested, from_chunks, loaded, rewritten, saved};
use crate::support::{Random, slices};

/// Returns how many operations an oracle does.
fn operations() -> u64 {
    std::env::var("ORACLE_OPERATIONS").map_or(300_000, |operations| operations.parse().unwrap())
}

/// Returns the bytes of an item that is a number.
fn item(number: u64) -> [u8; 8] {
    number.to_le_bytes()
}

/// No numbers.
const NONE: [u64; 0] = [];

/// Looks up numbers in one batch. Returns those that are not found.
fn missing(filter: &Filter, numbers: impl Iterator<Item = u64>) -> Vec<u64> {
    let numbers: Vec<u64> = numbers.collect();
    let items: Vec<[u8; 8]> = numbers.iter().copied().map(item).collect();
    let (mut missing, mut next) = (Vec::new(), 0);
    filter.contains_many(&slices(&items), filter.now(), NoPrefetch, |found| {
        if !found {
            missing.push(numbers[next]);
        }
        next += 1;
    });
    missing
}

/// The bytes that each step lets a [`Validator`] read.
const VALIDATED_STEP_BYTES: u64 = 512;

/// Checks the rules of a filter after the steps of a test: of a small one after every step, of a larger one after every
/// step that changes its size, and else as often as the steps before have paid for.
#[derive(Default)]
struct Validator {
    size_bytes: u64,
    paid_bytes: u64,
}

impl Validator {
    fn step(&mut self, filter: &Filter, context: &str) {
        let size_bytes = filter.size_bytes();
        self.paid_bytes += VALIDATED_STEP_BYTES;
        if size_bytes != self.size_bytes || self.paid_bytes >= size_bytes {
            assert_valid(filter, context);
            *self = Self { size_bytes, paid_bytes: 0 };
        }
    }
}

/// Asserts every rule of a filter, and that absent items are found at most as often as its statistics say.
fn assert_keeps_promise(filter: &Filter, context: &str) {
    assert_valid(filter, context);
    let (.., stats) = filter.stats(filter.now());
    let promised = filter.error_rate_max().unwrap();
    assert!(stats.error_rate <= promised * 1.0001, "{context}: {} of {promised}", stats.error_rate);
    let probes = 4_000u64;
    let found = (0..probes).filter(|probe| contains(filter, &item(u64::MAX - probe))).count();
    let most = stats.error_rate * probes as f64;
    assert!(found as f64 <= most + 6.0 * most.sqrt() + 2.0, "{context}: {found} of {probes}, {stats:?}");
}

/// Replaces a filter by one with the same digest: from a snapshot, a dump or a rewritten file, or a copy.
fn restart(filter: &mut Filter, random: &mut Random, context: &str) {
    let (before, counts) = (digested(filter), (filter.items(), filter.distinct_items()));
    let moment = filter.window().map(|window| window.now_ms());
    let way = random.below(4);
    *filter = match way {
        0 => loaded(&saved(filter), ANY).unwrap(),
        1 => {
            let id = random.next();
            from_chunks(filter, id)
        }
        2 => rewritten(filter),
        _ => filter.try_clone(UnknownMemory).unwrap(),
    };
    if let Some(now_ms) = moment {
        filter.set_now(now_ms);
    }
    let after = (filter.items(), filter.distinct_items());
    assert!(digested(filter) == before && after == counts, "{context}, way {way}: {after:?}, {counts:?}");
}

/// A dump that is loaded into another filter, chunk by chunk, while the dumped filter changes; with what was known when
/// it began.
struct Dump<T> {
    /// The dump, the iterator of the next chunk, the copy, and what was known.
    running: Option<(Remembered, u64, FilterValue, T)>,
    complete: u64,
}

impl<T> Dump<T> {
    fn none() -> Self {
        Self { running: None, complete: 0 }
    }

    fn is_running(&self) -> bool {
        self.running.is_some()
    }

    fn begin(&mut self, filter: &Filter, random: &mut Random, known: T) {
        let mut dump = Remembered::default();
        dump.begin_dump(filter, random.next());
        let header = chunk(filter, dump.dump(), 0).unwrap().unwrap();
        let copy = from_header(&header.data, &ANY).unwrap();
        assert_eq!(copy.internal_validate(Validation::Contents), Ok(()));
        self.running = Some((dump, header.next_iterator, copy, known));
    }

    /// Records a merge into the filter, the end of whose dumps was `end` before.
    fn note_merge(&mut self, filter: &Filter, end: u64) {
        self.running.iter_mut().for_each(|(dump, ..)| dump.note_merge(filter, end));
    }

    /// Loads the next chunk, and checks the copy after the last one. The dump may have ended early.
    fn go_on(&mut self, filter: &Filter, context: &str, check: impl FnOnce(&mut Filter, T)) {
        let Some((dump, iterator, mut copy, known)) = self.running.take() else { return };
        match chunk(filter, dump.dump(), iterator) {
            Err(_) => {}
            Ok(Some(chunk)) => {
                load_chunk(&mut copy, chunk.next_iterator, &chunk.data, CLIENT, &ANY).unwrap();
                assert_eq!(copy.internal_validate(Validation::Contents), Ok(()), "{context}: the copy");
                self.running = Some((dump, chunk.next_iterator, copy, known));
            }
            Ok(None) => {
                let mut copy = complete(copy);
                check(&mut copy, known);
                assert_keeps_promise(&copy, context);
                self.complete += 1;
            }
        }
    }
}
