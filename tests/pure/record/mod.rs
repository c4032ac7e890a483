//! The record of everbloom's own format and the cells after it: read by an independent reader, saved and loaded in
//! every way for filters of every kind, and changed by hostile input.

mod fields;
mod hostile;
mod reader;

use everbloom::bloom::hash::scheme::{ItemEncoding, Scheme, SchemeParameters};
use everbloom::bloom::hash::siphash::{HashKey, Seed};
use everbloom::bloom::layout::SchemeLayout;
use everbloom::bloom::policy::redisbloom::Options;
use everbloom::bloom::policy::{BitOrder, StringForm, ValkeyBloom};
use everbloom::bloom::window::Span;
use everbloom::bloom::{CellType, Depth, Filter, Growth, Hash, Policy, Promise, UnknownMemory, Window};
use everbloom::format::CHUNK_BYTES;
use everbloom::format::filter::{chunk, from_header, header};

use crate::support::make::{
    ANY, KEY, START_MS, add, cells_of, contains, counting, imported, keyed, keyed_window, own, plain,
    promise, redisbloom, saturating, set_time, unreserved, valkeybloom, window, windowed,
};
use crate::support::saved::{digested, from_chunks, loaded, rewritten, saved, string};
use crate::support::{Field, Random};

/// The window of the samples.
const WINDOW_MS: u64 = 14_000;

/// Returns the filter with this number of adds over twenty generations. Every other item occurs twice on average.
fn filled(mut filter: Filter, items: u64) -> Filter {
    let mut random = Random(items);
    for number in 0..items {
        set_time(&mut filter, START_MS + number * 20_000 / items);
        let item = (random.next() % (items / 2 + 1)).to_le_bytes();
        add(&mut filter, &item).unwrap();
        if random.below(4) == 0 {
            filter.remove(&item);
        }
        drop(filter.take_expired());
    }
    filter
}

fn valkey() -> Filter {
    let growth = Growth::Scaling { expansion: 2 };
    let policy = ValkeyBloom { error_rate: 0.01, tightening_ratio: 0.5, capacity_items: 10, growth };
    valkeybloom(policy, Seed::FIXED)
}

fn guava(capacity_items: u64) -> Filter {
    let (scheme, encoding) = (Scheme::GuavaMitz64, ItemEncoding::Raw);
    let parameters = SchemeParameters { scheme, encoding, shift: 0, probes: 5, size_bits: 4001 };
    let layout = SchemeLayout::new(parameters).unwrap();
    let (form, bits) = StringForm::read(&[0x80, 0, 3], BitOrder::Msb, layout.array_bits()).unwrap();
    let policy = imported(form, 0.01, Growth::Scaling { expansion: 2 });
    Filter::import(layout, bits, capacity_items, policy).unwrap()
}

/// Returns filters of everbloom's own format, of every kind and combination of kinds, with names: empty and with
/// items, small, grown, paged, and longer than a chunk.
fn samples() -> Vec<(&'static str, Filter)> {
    let no_refresh = Window::new(promise(0.01, 50, 2), Span::new(WINDOW_MS), true);
    let mut united = filled(plain(promise(0.01, 100, 2)), 60);
    let sources = [
        filled(redisbloom(0.001, 10, Options::SCALING, 2), 50),
        filled(valkey(), 50),
        filled(keyed(promise(0.001, 20, 2)), 70),
        filled(guava(10), 50),
    ];
    let sources: Vec<&Filter> = sources.iter().collect();
    assert_eq!(united.merge(&sources, true, &ANY, UnknownMemory), Ok(true));
    let merged = |promise: Promise| {
        let mut merged = filled(plain(promise), 60);
        let source = filled(plain(unreserved(0.001, 10, 2)), 50);
        assert_eq!(merged.merge(&[&source], true, &ANY, UnknownMemory), Ok(true));
        assert!(matches!(merged.policy(), Policy::Merged(_)));
        merged
    };
    vec![
        ("empty", plain(promise(0.01, 100, 2))),
        ("few", filled(plain(promise(0.01, 100, 2)), 60)),
        ("one", filled(plain(promise(0.3, 1, 0)), 1)),
        ("grown", filled(plain(promise(0.001, 10, 2)), 300)),
        ("unreserved", filled(plain(unreserved(0.001, 10, 2)), 300)),
        ("unreserved, of equal layers", filled(plain(unreserved(0.01, 10, 1)), 300)),
        ("unreserved, counting", filled(counting(unreserved(0.01, 10, 4)), 300)),
        ("saturated", filled(plain(saturating(0.01, 60)), 400)),
        ("paged", filled(plain(promise(1e-6, 400_000, 0)), 1000)),
        ("chunks", filled(plain(promise(0.01, 30_000_000, 0)), 10)),
        ("keyed", filled(keyed(promise(0.001, 10, 2)), 300)),
        (
            "keyed of another key",
            filled(own(saturating(0.01, 60), Hash::Keyed(HashKey::new([0xff; 16])), CellType::Bits), 400),
        ),
        ("keyed in pages", filled(keyed(promise(0.01, 3_000_000, 0)), 5000)),
        ("counting, empty", counting(promise(0.01, 100, 2))),
        ("counting", filled(counting(promise(0.001, 20, 2)), 900)),
        ("counting in pages", filled(counting(promise(1e-6, 900_000, 0)), 2000)),
        ("counting in chunks", filled(counting(promise(0.01, 4_000_000, 0)), 1000)),
        ("counting, saturated", filled(own(saturating(0.01, 60), Hash::Murmur3, CellType::Counters), 400)),
        ("keyed counting", filled(own(promise(0.01, 50, 2), Hash::Keyed(KEY), CellType::Counters), 300)),
        ("window, empty", window(promise(0.01, 100, 2), WINDOW_MS)),
        ("window of one", filled(window(promise(0.3, 1, 2), WINDOW_MS), 1)),
        ("window", filled(window(promise(0.001, 20, 2), WINDOW_MS), 900)),
        ("window in pages", filled(window(promise(1e-6, 900_000, 0), WINDOW_MS), 2000)),
        ("window in chunks", filled(window(promise(0.01, 10_000_000, 0), WINDOW_MS), 3000)),
        ("keyed window", filled(keyed_window(promise(0.01, 50, 2), WINDOW_MS), 500)),
        ("window without refresh", filled(windowed(no_refresh), 500)),
        ("imported", filled(guava(1000), 50)),
        ("imported and grown", filled(guava(10), 300)),
        ("united", united),
        ("merged", merged(promise(0.01, 100, 2))),
        ("merged, of equal layers", merged(promise(0.01, 10, 1))),
        ("merged, fixed", merged(promise(0.01, 100, 0))),
        ("merged, saturating", merged(saturating(0.01, 60))),
        ("merged, unreserved", merged(unreserved(0.01, 100, 2))),
    ]
}

/// Returns whether a sample is small enough for tests that copy it many times.
fn is_small(filter: &Filter) -> bool {
    filter.size_bytes() < 1 << 16
}

fn assert_same(one: &Filter, other: &Filter, name: &str) {
    assert!(digested(one) == digested(other), "{name}");
    assert_eq!(header(one), header(other), "{name}");
    assert_eq!(one.spec(), other.spec(), "{name}");
    assert!(cells_of(one) == cells_of(other), "{name}");
    assert_eq!(one.internal_validate(Depth::Cells), Ok(()), "{name}");
}

/// Asserts that adds and lookups in both filters continue alike, so the state in memory follows from the bytes.
fn assert_goes_on(mut one: Filter, mut other: Filter, name: &str) {
    let mut random = Random(5);
    for number in 0..2000u64 {
        let item = (random.next() % 4000).to_le_bytes();
        for filter in [&mut one, &mut other] {
            set_time(filter, START_MS + 20_000 + number * 3);
        }
        assert_eq!(contains(&one, &item), contains(&other, &item), "{name}, {number}");
        assert_eq!(add(&mut one, &item), add(&mut other, &item), "{name}, {number}");
        drop((one.take_expired(), other.take_expired()));
    }
    assert_same(&one, &other, name);
}

#[test]
fn a_snapshot_and_a_copy_continue_like_the_filter() {
    for (name, filter) in samples() {
        let record = saved(&filter);
        let again = loaded(&record, ANY).unwrap();
        assert_same(&filter, &again, name);
        assert_eq!(saved(&again), record, "{name}");
        assert_same(&filter, &filter.try_clone(UnknownMemory).unwrap(), name);
        assert_goes_on(filter, again, name);
    }
}

#[test]
fn chunks_make_the_same_filter_in_any_order_and_twice() {
    for (name, mut filter) in samples() {
        filter.begin_dump(7);
        let again = from_chunks(&filter);
        assert_same(&filter, &again, name);
        assert_goes_on(filter, again, name);
    }
}

#[test]
fn a_rewritten_file_makes_the_same_filter() {
    for (name, filter) in samples() {
        assert_same(&filter, &rewritten(&filter), name);
    }
}

#[test]
fn an_emptied_filter_keeps_its_parameters() {
    for (name, filter) in samples() {
        let emptied = filter.try_emptied(&ANY).unwrap();
        assert!(emptied.is_empty(), "{name}");
        assert_eq!(emptied.internal_validate(Depth::Cells), Ok(()), "{name}");
        assert_eq!(emptied.cell_type(), filter.cell_type(), "{name}");
        assert_same(&emptied, &loaded(&saved(&emptied), ANY).unwrap(), name);
    }
}

#[test]
fn a_filter_loads_within_its_size_and_not_below() {
    for (name, mut filter) in samples() {
        let record = saved(&filter);
        filter.begin_dump(7);
        let header = chunk(&filter, 0).unwrap().unwrap().data;
        let needed_bytes = filter.size_bytes();
        let limit_bytes = needed_bytes - 1;
        assert!(
            loaded(&record, needed_bytes).is_ok() && from_header(&header, &needed_bytes).is_ok(),
            "{name}"
        );
        let refused = Some(everbloom::DecodeError::TooLarge { needed_bytes, limit: limit_bytes.into() });
        // The first layers alone may be too large already.
        let or_before = |error: Option<everbloom::DecodeError>| {
            error == refused
                || matches!(error, Some(everbloom::DecodeError::TooLarge { .. })) && filter.layer_count() > 1
        };
        assert!(or_before(loaded(&record, limit_bytes).err()), "{name}");
        assert!(or_before(from_header(&header, &limit_bytes).err()), "{name}");
    }
}

#[test]
fn cells_are_saved_in_bounded_strings_which_are_empty_if_clear() {
    for (name, filter) in samples() {
        let mut record = saved(&filter);
        let strings = record.0.len();
        let mut at = 1;
        for layer in filter.layers() {
            let mut offset = 0;
            while let Some(segment) = layer.cells().segment(offset, CHUNK_BYTES) {
                let is_clear = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
                let is_empty = is_clear(segment.cells) && is_clear(segment.stamps);
                let mut expected = vec![segment.cells];
                expected.extend(Some(segment.stamps).filter(|stamps| !stamps.is_empty()));
                for bytes in expected {
                    assert!(bytes.len() <= CHUNK_BYTES, "{name}");
                    assert!(string(&mut record, at) == if is_empty { &[][..] } else { bytes }, "{name}");
                    at += 1;
                }
                offset += segment.cells.len() + segment.stamps.len();
            }
            assert_eq!(offset as u64, layer.cells().size_bytes(), "{name}");
        }
        assert_eq!(at, strings, "{name}");
        assert!(record.0.iter().all(|field| matches!(field, Field::Bytes(_))), "{name}");
    }
}

#[test]
fn samples_cover_every_kind() {
    use everbloom::bloom::kind::KINDS;
    let samples = samples();
    for row in KINDS.iter().filter(|row| row.format == everbloom::Format::Everbloom) {
        assert!(samples.iter().any(|(_, filter)| filter.kind() == row.kind), "{}", row.name);
    }
    assert!(samples.iter().any(|(_, filter)| {
        filter.layers().iter().any(|layer| layer.cells().size_bytes() > 2 * CHUNK_BYTES as u64)
    }));
}
