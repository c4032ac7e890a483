//! Values of the fields of the record: the refused ones, with the name of the field, and valid ones.

use std::num::{NonZeroU8, NonZeroU16};

use everbloom::{DecodeError, Format};
use everbloom_filter::filter::policy::{BitOrder, Counting};
use everbloom_filter::limits::{CAPACITY_MAX_ITEMS, EXPANSION_MAX, LAYER_MAX_BYTES, LAYERS_MAX};
use everbloom_filter::{Filter, Growth};
use everbloom_format::record::{LAYER_BYTES, POLICY_BYTES, TABLE_BYTES};
use everbloom_format::value::{from_header, load};

use super::{WINDOW_MS, filled, guava};
use crate::support::make::{
    ANY, START_MS, add, counting, keyed, plain, promise, remove, saturating, set_time, unreserved, valkey,
    window,
};
use crate::support::saved::{loaded, saved, string};
use crate::support::{Field, Record};

/// Offsets of fields of the policy.
const VERSION: usize = 4;
const POLICY: usize = 6;
const FLAGS: usize = 7;
const ORDER: usize = 8;
const POLICY_RESERVED: usize = 9;
const LAYER_COUNT: usize = 10;
const EXPANSION: usize = 12;
const ERROR_RATE: usize = 16;
const CAPACITY: usize = 24;
const LENGTH: usize = 32;
const DETAIL: usize = 40;
/// Offsets of fields of the first layer.
const HASH: usize = POLICY_BYTES;
const LAYOUT: usize = POLICY_BYTES + 1;
const LAYER_DETAIL: usize = POLICY_BYTES + 2;
const PROBES: usize = POLICY_BYTES + 3;
const ENCODING: usize = POLICY_BYTES + 5;
const LAYER_RESERVED: usize = POLICY_BYTES + 6;
const SIZE_BITS: usize = POLICY_BYTES + 8;
const LAYER_CAPACITY: usize = POLICY_BYTES + 16;
const ITEMS: usize = POLICY_BYTES + 24;
const SET_BITS: usize = POLICY_BYTES + 32;
/// Offset of the optional parts of a layer.
const OPTIONAL: usize = POLICY_BYTES + LAYER_BYTES;
/// Offsets of fields of the table of a filter without layers.
const SCHEDULE: usize = POLICY_BYTES + 1;
const BASE: usize = POLICY_BYTES + 2;
const BLOCKS: usize = POLICY_BYTES + 3;
const BLOCKS_LOG: usize = POLICY_BYTES + 4;
const TABLE_RESERVED: usize = POLICY_BYTES + 5;
const SEGMENTS_FIRST: usize = POLICY_BYTES + 8;
const TABLE_RESERVED_LAST: usize = POLICY_BYTES + 15;
const SEGMENTS: usize = POLICY_BYTES + 16;
const USED_SLOTS: usize = POLICY_BYTES + 24;
const TABLE_ITEMS: usize = POLICY_BYTES + 32;
const TALLY: usize = POLICY_BYTES + 40;

/// A change of the record: offset and new bytes.
type Change<'c> = (usize, &'c [u8]);

fn changed(record: &Record, changes: &[Change<'_>]) -> Result<Filter, DecodeError> {
    let mut changed = record.clone();
    for (at, bytes) in changes {
        string(&mut changed, 0)[*at..at + bytes.len()].copy_from_slice(bytes);
    }
    loaded(&changed, ANY)
}

/// Asserts the error for each change of a filter's record.
fn assert_refused(filter: &Filter, refusals: &[(usize, &[u8], DecodeError)]) {
    let record = saved(filter);
    assert!(changed(&record, &[]).is_ok());
    let outcome = |(at, bytes, expected): &(usize, &[u8], DecodeError)| {
        let got = changed(&record, &[(*at, bytes)]).map(|_| ());
        (got != Err(*expected)).then(|| format!("{bytes:?} at {at}: {got:?}, expected {expected:?}"))
    };
    let wrong: Vec<String> = refusals.iter().filter_map(outcome).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn invalid(what: &'static str) -> DecodeError {
    DecodeError::Invalid(what)
}

fn unsupported(what: &'static str, got: u64) -> DecodeError {
    DecodeError::Unsupported { what, got }
}

#[test]
fn impossible_fields_are_refused_by_name() {
    let few = filled(plain(promise(0.01, 100, 2)), 60);
    let nan = f64::NAN.to_le_bytes();
    let too_many_layers = (LAYERS_MAX as u16 + 1).to_le_bytes();
    let too_large = ((LAYER_MAX_BYTES + 8) * 8).to_le_bytes();
    assert_refused(
        &few,
        &[
            (0, b"x", invalid("magic")),
            (VERSION, &[0], unsupported("version", 0)),
            (VERSION, &[2], unsupported("version", 2)),
            (VERSION, &[1, 1], unsupported("version", 257)),
            (POLICY, &[9], unsupported("policy", 9)),
            (FLAGS, &[1], invalid("unused field")),
            (FLAGS, &[2], invalid("unused field")),
            // The part for a table is missing.
            (FLAGS, &[8], DecodeError::Truncated),
            (FLAGS, &[16], invalid("unused field")),
            (ORDER, &[1], invalid("unused field")),
            (POLICY_RESERVED, &[1], invalid("unused field")),
            (LAYER_COUNT, &[0, 0], invalid("layer count")),
            (LAYER_COUNT, &[2, 0], DecodeError::Truncated),
            (LAYER_COUNT, &too_many_layers, invalid("layer count")),
            (EXPANSION, &(EXPANSION_MAX + 1).to_le_bytes(), invalid("expansion")),
            (ERROR_RATE, &nan, invalid("error rate")),
            (CAPACITY, &[0; 8], invalid("capacity")),
            (LENGTH, &[1], invalid("unused field")),
            (DETAIL, &[1], invalid("unused field")),
            (HASH, &[0], unsupported("hash", 0)),
            (HASH, &[8], unsupported("hash", 8)),
            // The bytes of a key are missing.
            (HASH, &[2], DecodeError::Truncated),
            (HASH, &[3], invalid("hash")),
            (LAYOUT, &[0], unsupported("layout", 0)),
            (LAYOUT, &[6], unsupported("layout", 6)),
            (LAYOUT, &[4], invalid("hash")),
            (LAYER_DETAIL, &[1], invalid("unused field")),
            (PROBES, &[0], invalid("probes")),
            (PROBES, &[51], invalid("probes")),
            (ENCODING, &[1], invalid("unused field")),
            (LAYER_RESERVED, &[1], invalid("unused field")),
            (SIZE_BITS, &63u64.to_le_bytes(), invalid("positions")),
            (SIZE_BITS, &1025u64.to_le_bytes(), invalid("positions")),
            (SIZE_BITS, &too_large, invalid("positions")),
            (LAYER_CAPACITY, &[0; 8], invalid("capacity")),
            // More items than bits are never counted, so no layer has such a capacity.
            (LAYER_CAPACITY, &1025u64.to_le_bytes(), invalid("capacity")),
            (ITEMS, &101u64.to_le_bytes(), invalid("items")),
            (SET_BITS, &1u64.to_le_bytes(), invalid("set bits")),
            (SET_BITS, &u64::MAX.to_le_bytes(), invalid("set bits")),
        ],
    );
    let mut longer = saved(&few);
    string(&mut longer, 0).push(0);
    assert_eq!(loaded(&longer, ANY).err(), Some(invalid("header length")));
}

#[test]
fn impossible_tables_are_refused_by_name() {
    let filter = filled(plain(unreserved(0.01, 100, 2)), 60);
    let used = filter.table().unwrap().used_slots();
    assert_refused(
        &filter,
        &[
            // Without its flag the table is not read.
            (FLAGS, &[4], invalid("layer count")),
            (FLAGS, &[8], invalid("layer count")),
            // A fixed filter has no table.
            (EXPANSION, &[0; 4], invalid("table")),
            (POLICY, &[3], DecodeError::Truncated),
            (POLICY, &[4], unsupported("bit order", 0)),
            (POLICY, &[5], invalid("tightening ratio")),
            (HASH, &[0], unsupported("hash", 0)),
            (HASH, &[2], DecodeError::Truncated),
            (HASH, &[3], invalid("table")),
            (SCHEDULE, &[0], unsupported("schedule", 0)),
            (SCHEDULE, &[2], invalid("schedule")),
            (SCHEDULE, &[3], unsupported("schedule", 3)),
            (BASE, &[0], invalid("schedule")),
            (BASE, &[59], invalid("schedule")),
            // With wider slots, the segment has fewer of them.
            (BASE, &[58], invalid("a segment has too many slots in use")),
            (BLOCKS, &[21], invalid("schedule")),
            (BLOCKS_LOG, &[7], invalid("segments")),
            (TABLE_RESERVED, &[1], invalid("unused field")),
            (TABLE_RESERVED, &[0, 0, 1], invalid("unused field")),
            (SEGMENTS_FIRST, &[1], invalid("unused field")),
            (TABLE_RESERVED_LAST, &[1], invalid("unused field")),
            (SEGMENTS, &[0], invalid("segments")),
            (SEGMENTS, &[2], invalid("segments")),
            (SEGMENTS, &[0xff; 8], invalid("segments")),
            (USED_SLOTS, &(used + 1).to_le_bytes(), invalid("used slots")),
            (USED_SLOTS, &[0xff; 8], invalid("used slots")),
            (TALLY, &[1], invalid("unused field")),
        ],
    );
    let record = saved(&filter);
    // The number of items of plain entries is not checked: any value is loaded.
    assert_eq!(changed(&record, &[(TABLE_ITEMS, &[0xff; 8])]).unwrap().items(), u64::MAX);
    // The record has a size of more segments than follow it.
    let large = [(BLOCKS_LOG, &[6][..]), (SEGMENTS, &[0, 1])];
    assert!(changed(&record, &large).is_err());
    let huge = [(BLOCKS_LOG, &[6][..]), (SEGMENTS, &(1u64 << 30).to_le_bytes())];
    let mut refused = record.clone();
    for (at, bytes) in huge {
        string(&mut refused, 0)[at..at + bytes.len()].copy_from_slice(bytes);
    }
    assert!(matches!(loaded(&refused, 1 << 20), Err(DecodeError::TooLarge { .. })));
    string(&mut refused, 0)[SEGMENTS + 3] = 0x41;
    assert_eq!(loaded(&refused, ANY).err(), Some(invalid("segments")));
}

#[test]
fn impossible_counters_are_refused_by_name() {
    let mut filter = counting(promise(0.01, 100, 2));
    for item in [&b"one"[..], b"two", b"two", b"two"] {
        add(&mut filter, item).unwrap();
    }
    let counts = "the number of items does not fit the entries";
    assert_refused(
        &filter,
        &[
            (POLICY, &[1], invalid("layer count")),
            (FLAGS, &[1 | 8], invalid("unused field")),
            // The part for the table is read as a layer.
            (LAYER_COUNT, &[1], invalid("positions")),
            (LENGTH, &65_536u64.to_le_bytes(), invalid("iterations")),
            (POLICY_RESERVED, &[1], invalid("unused field")),
            (BASE, &[10], invalid("schedule")),
            // Fewer items than entries, and more entries than slots.
            (TABLE_ITEMS, &[1], invalid(counts)),
            (TALLY, &[200], invalid(counts)),
        ],
    );
}

/// A record of version 1.0.0 has 0 in these fields, which CF.INFO shows as RedisBloom's defaults.
#[test]
fn a_counting_filter_keeps_what_cf_info_shows() {
    let mut filter = counting(promise(0.01, 100, 2));
    add(&mut filter, b"one").unwrap();
    let record = saved(&filter);
    let none = Counting { bucket_size: None, max_iterations: None, deletions: 0 };
    assert_eq!(changed(&record, &[]).unwrap().policy().counting(), Some(&none));
    let (length, detail) = (65_535u64.to_le_bytes(), u64::MAX.to_le_bytes());
    let loaded = changed(&record, &[(ORDER, &[255]), (LENGTH, &length), (DETAIL, &detail)]);
    let mut loaded = loaded.unwrap();
    let all = Counting {
        bucket_size: NonZeroU8::new(255),
        max_iterations: NonZeroU16::new(65_535),
        deletions: u64::MAX,
    };
    assert_eq!(loaded.policy().counting(), Some(&all));
    // The number of deletions does not overflow.
    assert_eq!(remove(&mut loaded, b"one"), Ok(true));
    assert_eq!(loaded.policy().counting(), Some(&all));
    assert_eq!(remove(&mut filter, b"one"), Ok(true));
    assert_eq!(remove(&mut filter, b"one"), Ok(false));
    assert_eq!(filter.policy().counting().unwrap().deletions, 1);
    assert_ne!(saved(&filter), record);
}

#[test]
fn impossible_windows_are_refused_by_name() {
    let mut filter = window(promise(0.01, 300, 2), WINDOW_MS);
    set_time(&mut filter, START_MS);
    add(&mut filter, b"hello").unwrap();
    assert_refused(
        &filter,
        &[
            (POLICY, &[1], invalid("header length")),
            (FLAGS, &[1 | 8], invalid("unused field")),
            (FLAGS, &[4 | 8], invalid("growth")),
            (LENGTH, &99u64.to_le_bytes(), invalid("window")),
            (LENGTH, &u64::MAX.to_le_bytes(), invalid("window")),
            (LENGTH, &0u64.to_le_bytes(), invalid("window")),
            (SCHEDULE, &[1], invalid("schedule")),
            (SEGMENTS_FIRST, &[2], invalid("unused field")),
            (TABLE_ITEMS, &[1], invalid("unused field")),
        ],
    );
}

#[test]
fn impossible_imports_are_refused_by_name() {
    let string_bytes = OPTIONAL;
    let rates = [0.0, 1.0, -0.5, f64::NAN, f64::INFINITY].map(f64::to_le_bytes);
    let filter = guava(10);
    let mut refusals = vec![
        (FLAGS, &[1][..], invalid("unused field")),
        (EXPANSION, &[0xff; 4][..], invalid("expansion")),
        (ORDER, &[200], unsupported("bit order", 200)),
        (CAPACITY, &[1], invalid("unused field")),
        (LENGTH, &[0xff; 8], invalid("string length")),
        (HASH, &[255], unsupported("scheme", 127)),
        (HASH, &[1], invalid("hash")),
        (ENCODING, &[200], unsupported("encoding", 200)),
        (PROBES, &[0, 0], invalid("scheme")),
        (string_bytes, &[0; 8], invalid("scheme")),
        (LAYER_CAPACITY, &[0; 8], invalid("capacity")),
        (LAYER_CAPACITY, &[0xff; 8], invalid("capacity")),
        (SET_BITS, &[0xff; 8], invalid("set bits")),
    ];
    refusals.extend(rates.iter().map(|rate| (ERROR_RATE, &rate[..], invalid("error rate"))));
    assert_refused(&filter, &refusals);
    let record = saved(&filter);
    let most = CAPACITY_MAX_ITEMS.to_le_bytes();
    assert!(changed(&record, &[(EXPANSION, &EXPANSION_MAX.to_le_bytes()), (LAYER_CAPACITY, &most)]).is_ok());
    // Words of 64 bits are Guava's, and 4001 bits are not whole words.
    let words = [BitOrder::BigEndianWords.id()];
    let whole = [(ORDER, &words[..]), (LENGTH, &[16, 0])];
    assert_eq!(changed(&record, &whole).err(), Some(invalid("bit order")));
}

#[test]
fn only_a_fixed_filter_saturates() {
    let growth =
        |record: &Record, changes: &[Change<'_>]| changed(record, changes).map(|filter| filter.growth());
    let saturated = saved(&filled(plain(saturating(0.01, 60)), 400));
    assert_eq!(growth(&saturated, &[]), Ok(Growth::Saturating));
    for flags in [3, 5, 129] {
        assert_eq!(growth(&saturated, &[(FLAGS, &[flags])]), Err(invalid("unused field")), "{flags}");
    }
    // Without the flag, or with growth, the layer has more items than its capacity.
    assert_eq!(growth(&saturated, &[(EXPANSION, &[2]), (FLAGS, &[0])]), Err(invalid("items")));
    assert_eq!(growth(&saturated, &[(FLAGS, &[0])]), Err(invalid("items")));
    // A saturating layer may have as many items as bits, and no more. The bits themselves may follow in chunks.
    let size_bits =
        u64::from_le_bytes(string(&mut saturated.clone(), 0)[SIZE_BITS..][..8].try_into().unwrap());
    let mut full = changed(&saturated, &[(ITEMS, &size_bits.to_le_bytes())]).unwrap();
    for item in 0..10u8 {
        add(&mut full, &[item]).unwrap();
        assert_eq!(full.items(), size_bits);
    }
    assert_eq!(growth(&saturated, &[(ITEMS, &(size_bits + 1).to_le_bytes())]), Err(invalid("items")));
}

#[test]
fn a_record_has_4096_layers_at_most() {
    let mut one = saved(&plain(promise(0.01, 100, 2)));
    let record = string(&mut one, 0).clone();
    let with_layers = |layers: usize| {
        let (policy, layer) = record.split_at(POLICY_BYTES);
        let mut record = [policy, &layer.repeat(layers)].concat();
        record[LAYER_COUNT..][..2].copy_from_slice(&(layers as u16).to_le_bytes());
        let mut fields = vec![Field::Bytes(record)];
        fields.extend(vec![Field::Bytes(Vec::new()); layers]);
        loaded(&Record(fields), ANY).map(|filter| filter.layer_count())
    };
    assert_eq!(with_layers(LAYERS_MAX), Ok(LAYERS_MAX));
    for layers in [0, LAYERS_MAX + 1] {
        assert_eq!(with_layers(layers), Err(invalid("layer count")));
    }
}

#[test]
fn other_versions_are_refused_by_number() {
    let record = saved(&plain(promise(0.01, 100, 2)));
    for version in [0, 2, u16::MAX] {
        let error = Some(unsupported("version", version.into()));
        // As a snapshot, and as the header of a dump of every kind.
        let mut other = record.clone();
        string(&mut other, 0)[VERSION..][..2].copy_from_slice(&version.to_le_bytes());
        assert_eq!(loaded(&other, ANY).err(), error);
        for kind in 1..9 {
            string(&mut other, 0)[POLICY] = kind;
            let chunk = crate::chunks::header_chunk(string(&mut other, 0), 0);
            assert_eq!(from_header(&chunk, &ANY).err(), error, "{kind}");
        }
    }
    for version in [0, 2] {
        let outcome = load(Format::Everbloom, version, &mut record.reader(), &ANY);
        assert_eq!(outcome.err(), Some(unsupported("encoding version", version as u64)));
    }
}

#[test]
fn the_data_type_refuses_filters_of_valkey_bloom() {
    let header = everbloom_format::filter::header(&valkey(promise(0.01, 10, 2)));
    let record = Record(vec![Field::Bytes(header), Field::Bytes(Vec::new())]);
    assert_eq!(loaded(&record, ANY).err(), Some(invalid("policy")));
}

/// Its format cannot save that a filter saturates, or that nobody reserved it.
#[test]
fn a_filter_of_valkey_bloom_has_no_growth_that_its_format_lacks() {
    for (expansion, flags) in [(0, 1), (2, 4)] {
        let mut header = everbloom_format::filter::header(&valkey(promise(0.01, 10, expansion)));
        let head = |header: &[u8]| from_header(&crate::chunks::header_chunk(header, 0), &ANY).err();
        assert_eq!(head(&header), None);
        header[FLAGS] = flags;
        assert_eq!(head(&header), Some(invalid("growth")), "{flags}");
    }
}

#[test]
fn a_key_is_part_of_the_record() {
    let record = saved(&filled(keyed(promise(0.01, 100, 2)), 60));
    let other = changed(&record, &[(OPTIONAL, &[0xee])]).unwrap();
    assert_eq!(string(&mut saved(&other), 0)[OPTIONAL], 0xee);
    let record = saved(&filled(keyed(unreserved(0.01, 100, 2)), 60));
    let key = POLICY_BYTES + TABLE_BYTES;
    let other = changed(&record, &[(key, &[0xee])]).unwrap();
    assert_eq!(string(&mut saved(&other), 0)[key], 0xee);
}
