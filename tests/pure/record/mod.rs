//! The record of everbloom's own format, and the bits and segments after it: read by an independent reader, saved and
//! loaded in every way for filters of every kind, and changed by hostile input.

mod codec;
mod fields;
mod hostile;
mod reader;

use everbloom_filter::bits::layout::SchemeLayout;
use everbloom_filter::encoding::ItemEncoding;
use everbloom_filter::filter::loading::FilterValue;
use everbloom_filter::filter::policy::BitOrder;
use everbloom_filter::filter::policy::redisbloom::RedisBloomOptions;
use everbloom_filter::generation::WindowLength;
use everbloom_filter::hash::scheme::{Scheme, SchemeParameters};
use everbloom_filter::hash::siphash::HashKey;
use everbloom_filter::{
    Filter, FilterSpec, Growth, Hash, Policy, Promise, Rules, Table, UnknownMemory, Window,
};
use everbloom_format::DecodeError;
use everbloom_format::client::bitmap;
use everbloom_format::contents::STRING_BYTES;
use everbloom_format::filter::chunk;
use everbloom_format::record::POLICY_BYTES;
use everbloom_format::value::from_header;

use crate::support::make::{
    ANY, KEY, START_MS, add, contains, counting, imported, keyed, keyed_window, own, plain, promise,
    redisbloom, remove, saturating, set_time, unreserved, valkey, window, windowed,
};
use crate::support::saved::{assert_same, assert_survives, from_chunks, loaded, saved};
use crate::support::{Field, Random};

/// The window of the samples.
const WINDOW_MS: u64 = 14_000;
/// Offset of the number of items of the table of a filter without layers.
const POLICY_AND_TABLE_ITEMS: usize = POLICY_BYTES + 32;

/// Returns the filter after this number of adds over twenty generations. An item is added twice on average. Counting
/// filters also delete some.
fn filled(mut filter: Filter, items: u64) -> Filter {
    let mut random = Random(items);
    for number in 0..items {
        set_time(&mut filter, START_MS + number * 20_000 / items);
        let item = (random.next() % (items / 2 + 1)).to_le_bytes();
        add(&mut filter, &item).unwrap();
        if random.below(4) == 0 {
            remove(&mut filter, &item).unwrap();
        }
    }
    filter
}

fn guava(capacity_items: u64) -> Filter {
    let (scheme, encoding) = (Scheme::GuavaMitz64, ItemEncoding::Raw);
    let parameters = SchemeParameters { scheme, encoding, shift: 0, probes: 5, size_bits: 4001 };
    let layout = SchemeLayout::new(parameters).unwrap();
    let (form, bits) = bitmap::read(&[0x80, 0, 3], BitOrder::Msb, layout.array_bits()).unwrap();
    let policy = imported(form, 0.01, Growth::Scaling { expansion: 2 });
    Filter::import(layout, bits, capacity_items, policy).unwrap()
}

/// Returns filters of everbloom's own format, of every kind and combination of kinds, with names: empty and with
/// items, small, grown, paged, and longer than a chunk.
fn samples() -> Vec<(&'static str, Filter)> {
    let no_refresh = Window::new(WindowLength::new(WINDOW_MS), true);
    let mut united = filled(plain(promise(0.01, 100, 2)), 60);
    let sources = [
        filled(redisbloom(0.001, 10, RedisBloomOptions::SCALING, 2), 50),
        filled(valkey(promise(0.01, 10, 2)), 50),
        filled(keyed(promise(0.001, 100, 2)), 70),
        filled(guava(10), 50),
    ];
    let sources: Vec<&Filter> = sources.iter().collect();
    assert_eq!(united.merge(&sources, u64::MAX, true, &ANY, UnknownMemory), Ok(true));
    let merged = |promised: Promise| {
        let mut merged = filled(plain(promised), 60);
        let source = filled(plain(promise(0.001, 50, 2)), 50);
        assert_eq!(merged.merge(&[&source], u64::MAX, true, &ANY, UnknownMemory), Ok(true));
        assert!(matches!(merged.policy(), Policy::Promised(promised) if promised.rules == Rules::Merged));
        merged
    };
    let keyed_counting = Policy::promised(promise(0.01, 50, 2), Rules::Counting(Default::default()));
    let keyed_counting =
        Filter::reserve(FilterSpec { policy: keyed_counting, hash: Hash::Keyed(KEY) }, &ANY).unwrap();
    vec![
        ("empty", plain(promise(0.01, 100, 2))),
        ("few", filled(plain(promise(0.01, 100, 2)), 60)),
        ("one", filled(plain(promise(0.3, 1, 0)), 1)),
        ("outgrown", filled(plain(promise(0.001, 10, 2)), 300)),
        ("far outgrown", filled(plain(promise(0.01, 10, 1)), 20_000)),
        ("unreserved, empty", plain(unreserved(0.01, 100, 2))),
        ("unreserved", filled(plain(unreserved(0.001, 100, 2)), 300)),
        ("unreserved, of several segments", filled(plain(unreserved(0.01, 100, 2)), 60_000)),
        ("unreserved, keyed", filled(keyed(unreserved(0.01, 100, 4)), 900)),
        ("saturated", filled(plain(saturating(0.01, 60)), 400)),
        ("paged", filled(plain(promise(1e-6, 400_000, 0)), 1000)),
        ("chunks", filled(plain(promise(0.01, 30_000_000, 0)), 10)),
        ("keyed", filled(keyed(promise(0.001, 10, 2)), 300)),
        (
            "keyed of another key",
            filled(own(saturating(0.01, 60), Hash::Keyed(HashKey::new([0xff; 16]))), 400),
        ),
        ("keyed in pages", filled(keyed(promise(0.01, 3_000_000, 0)), 5000)),
        ("counting, empty", counting(promise(0.01, 100, 2))),
        ("counting", filled(counting(promise(0.001, 20, 2)), 900)),
        ("counting, of several segments", filled(counting(promise(0.01, 20, 2)), 50_000)),
        ("counting, fixed", filled(counting(promise(0.01, 600, 0)), 900)),
        ("keyed counting", filled(keyed_counting, 300)),
        ("window, empty", window(promise(0.01, 100, 2), WINDOW_MS)),
        ("window, empty, of several segments", window(promise(0.01, 20_000, 2), WINDOW_MS)),
        ("window of one", filled(window(promise(0.3, 1, 2), WINDOW_MS), 1)),
        ("window", filled(window(promise(0.001, 20, 2), WINDOW_MS), 900)),
        ("window of several segments", filled(window(promise(0.01, 20_000, 0), WINDOW_MS), 40_000)),
        ("window in chunks", filled(window(promise(0.01, 1_500_000_000, 0), WINDOW_MS), 3000)),
        ("keyed window", filled(keyed_window(promise(0.01, 50, 2), WINDOW_MS), 500)),
        ("window without refresh", filled(windowed(promise(0.01, 50, 2), no_refresh), 500)),
        ("imported", filled(guava(1000), 50)),
        ("imported and grown", filled(guava(10), 300)),
        ("united", united),
        ("merged", merged(promise(0.01, 100, 2))),
        ("merged and outgrown", filled(merged(promise(0.01, 10, 1)), 700)),
        ("merged, unreserved", merged(unreserved(0.01, 100, 2))),
    ]
}

/// Returns whether a sample is small enough for tests that copy it many times.
fn is_small(filter: &Filter) -> bool {
    filter.size_bytes() < 1 << 16
}

/// Returns the number, the words and the stamp of each segment with entries.
fn segments_of(filter: &Filter) -> Vec<(usize, &[u64], u64)> {
    filter.table().into_iter().flat_map(|table| table.segments()).collect()
}

/// Asserts that both filters reply alike to further adds, lookups and deletions, so the state in memory follows from
/// the bytes.
fn assert_goes_on(mut one: Filter, mut other: Filter, name: &str) {
    let mut random = Random(5);
    for number in 0..2000u64 {
        let item = (random.next() % 4000).to_le_bytes();
        for filter in [&mut one, &mut other] {
            set_time(filter, START_MS + 20_000 + number * 3);
        }
        assert_eq!(contains(&one, &item), contains(&other, &item), "{name}, {number}");
        assert_eq!(add(&mut one, &item), add(&mut other, &item), "{name}, {number}");
        let delete = |filter: &mut Filter| number % 3 == 0 && remove(filter, &item).unwrap();
        assert_eq!(delete(&mut one), delete(&mut other), "{name}, {number}");
    }
    assert_same(&one, &other, name);
}

#[test]
fn a_copy_a_snapshot_and_chunks_are_the_filter_and_continue_like_it() {
    for (name, filter) in samples() {
        let record = saved(&filter);
        let again = loaded(&record, ANY).unwrap();
        assert_eq!(saved(&again), record, "{name}");
        assert_eq!(again.spec(), filter.spec(), "{name}");
        let heads = |filter: &Filter| filter.layers().iter().filter(|layer| layer.bits().has_head()).count();
        assert!(heads(&again) <= heads(&filter), "{name}");
        assert_survives(&filter, name);
        let copies = [again, from_chunks(&filter, 7)];
        for copy in copies {
            assert_goes_on(filter.try_clone(UnknownMemory).unwrap(), copy, name);
        }
    }
}

#[test]
fn an_emptied_filter_keeps_its_parameters() {
    for (name, filter) in samples() {
        let emptied = filter.try_emptied(&ANY).unwrap();
        assert!(emptied.is_empty(), "{name}");
        let kind = |filter: &Filter| filter.table().map(Table::kind);
        assert!(kind(&emptied).is_none() || kind(&emptied) == kind(&filter), "{name}");
        assert_survives(&emptied, name);
    }
}

#[test]
fn a_filter_loads_within_its_size_and_not_below() {
    for (name, filter) in samples() {
        let record = saved(&filter);
        let header = chunk(&filter, Some(filter.dump_as(7)), 0).unwrap().unwrap().data;
        let empty = from_header(&header, &ANY).unwrap();
        let of_header = empty.size_bytes();
        let needed_bytes = loaded(&record, ANY).unwrap().size_bytes();
        loaded(&record, needed_bytes).unwrap();
        assert!(from_header(&header, &needed_bytes).is_ok(), "{name}");
        let is_too_large = |error| matches!(error, Some(DecodeError::TooLarge { .. }));
        assert!(is_too_large(loaded(&record, needed_bytes - 1).err()), "{name}");
        // A load counts its header too, but is refused for what it will be.
        let is_load = matches!(empty, FilterValue::Loading(_));
        assert!(is_load || is_too_large(from_header(&header, &(of_header - 1)).err()), "{name}");
    }
}

#[test]
fn contents_are_saved_in_bounded_strings_which_are_empty_if_clear() {
    for (name, filter) in samples() {
        let record = saved(&filter);
        let mut fields = record.0[1..].iter();
        for layer in filter.layers() {
            for bytes in layer.bits().bytes().chunks(STRING_BYTES) {
                let is_clear = bytes.iter().all(|byte| *byte == 0);
                let expected = Field::Bytes(if is_clear { Vec::new() } else { bytes.to_vec() });
                assert!(fields.next() == Some(&expected), "{name}");
            }
        }
        let segments = segments_of(&filter);
        if filter.table().is_some() {
            assert_eq!(fields.next(), Some(&Field::Unsigned(segments.len() as u64)), "{name}");
        }
        for (number, words, stamp) in segments {
            assert_eq!(fields.next(), Some(&Field::Unsigned(number as u64)), "{name}");
            if filter.window().is_some() {
                assert_eq!(fields.next(), Some(&Field::Unsigned(stamp)), "{name}");
            }
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            assert!(bytes.len() < 1 << 16 && fields.next() == Some(&Field::Bytes(bytes)), "{name}");
        }
        assert_eq!(fields.next(), None, "{name}");
    }
}

#[test]
fn samples_cover_every_kind() {
    use everbloom_filter::filter::kind::KINDS;
    let samples = samples();
    for row in KINDS.iter().filter(|row| row.format == everbloom::Format::Everbloom) {
        assert!(samples.iter().any(|(_, filter)| filter.kind() == row.kind), "{}", row.name);
    }
    assert!(samples.iter().any(|(_, filter)| {
        filter.layers().iter().any(|layer| layer.bits().size_bytes() > 2 * STRING_BYTES as u64)
    }));
}
