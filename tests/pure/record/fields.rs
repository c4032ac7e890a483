//! Fields of the record that are refused, each with its name, and those that are valid.

use everbloom::bloom::limits::{
    CAPACITY_MAX_ITEMS, EXPANSION_MAX, LAYER_MAX_BYTES, LAYER_OCCURRENCES_MAX, LAYERS_MAX,
};
use everbloom::bloom::policy::BitOrder;
use everbloom::bloom::{Filter, Growth};
use everbloom::format::filter::{DataType, from_header, load};
use everbloom::format::record::{LAYER_BYTES, POLICY_BYTES};
use everbloom::{DecodeError, Format};

use super::{WINDOW_MS, filled, guava};
use crate::support::make::{
    ANY, START_MS, add, counting, keyed, plain, promise, saturating, set_time, window,
};
use crate::support::saved::{loaded, saved, string};
use crate::support::{Field, Record};

/// Offsets of fields of the policy.
const VERSION: usize = 4;
const POLICY: usize = 6;
const FLAGS: usize = 7;
const ORDER: usize = 8;
const SHARES: usize = 9;
const LAYER_COUNT: usize = 10;
const EXPANSION: usize = 12;
const ERROR_RATE: usize = 16;
const CAPACITY: usize = 24;
const LENGTH: usize = 32;
const DETAIL: usize = 40;
/// Offsets of fields of the first layer.
const HASH: usize = POLICY_BYTES;
const LAYOUT: usize = POLICY_BYTES + 1;
const CELLS: usize = POLICY_BYTES + 2;
const LAYER_DETAIL: usize = POLICY_BYTES + 3;
const PROBES: usize = POLICY_BYTES + 4;
const ENCODING: usize = POLICY_BYTES + 6;
const LAYER_RESERVED: usize = POLICY_BYTES + 7;
const SIZE_BITS: usize = POLICY_BYTES + 8;
const LAYER_CAPACITY: usize = POLICY_BYTES + 16;
const ITEMS: usize = POLICY_BYTES + 24;
const SET_CELLS: usize = POLICY_BYTES + 32;
/// Offset of the optional parts.
const OPTIONAL: usize = POLICY_BYTES + LAYER_BYTES;

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
            (VERSION, &[3], unsupported("version", 3)),
            (POLICY, &[9], unsupported("policy", 9)),
            (FLAGS, &[1], invalid("unused field")),
            (FLAGS, &[2], invalid("unused field")),
            (FLAGS, &[4], invalid("unused field")),
            (ORDER, &[1], invalid("unused field")),
            (SHARES, &[0], unsupported("shares", 0)),
            (SHARES, &[3], unsupported("shares", 3)),
            (SHARES, &[255], unsupported("shares", 255)),
            // A fixed filter has no shares.
            (EXPANSION, &[0; 4], unsupported("shares", 1)),
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
            (CELLS, &[0], unsupported("cells", 0)),
            (CELLS, &[5], unsupported("cells", 5)),
            (CELLS, &[2], invalid("positions")),
            (LAYER_DETAIL, &[1], invalid("unused field")),
            (PROBES, &[0], invalid("probes")),
            (PROBES, &[51], invalid("probes")),
            (ENCODING, &[1], invalid("unused field")),
            (LAYER_RESERVED, &[1], invalid("unused field")),
            (SIZE_BITS, &63u64.to_le_bytes(), invalid("positions")),
            (SIZE_BITS, &1025u64.to_le_bytes(), invalid("size in bits")),
            (SIZE_BITS, &too_large, invalid("positions")),
            (LAYER_CAPACITY, &[0; 8], invalid("capacity")),
            // More items than bits are never counted, so no layer has such a capacity.
            (LAYER_CAPACITY, &1025u64.to_le_bytes(), invalid("capacity")),
            (ITEMS, &101u64.to_le_bytes(), invalid("items")),
            (SET_CELLS, &1u64.to_le_bytes(), invalid("set cells")),
            (SET_CELLS, &u64::MAX.to_le_bytes(), invalid("set cells")),
        ],
    );
    let mut longer = saved(&few);
    string(&mut longer, 0).push(0);
    assert_eq!(loaded(&longer, ANY).err(), Some(invalid("header length")));
}

#[test]
fn impossible_counters_are_refused_by_name() {
    let mut filter = counting(promise(0.01, 100, 2));
    add(&mut filter, b"hello").unwrap();
    assert_refused(
        &filter,
        &[
            (SIZE_BITS, &4160u64.to_le_bytes(), invalid("positions")),
            (SIZE_BITS, &0u64.to_le_bytes(), invalid("positions")),
            (SIZE_BITS, &8192u64.to_le_bytes(), invalid("chunk length")),
            (LAYER_CAPACITY, &0u64.to_le_bytes(), invalid("capacity")),
            (OPTIONAL, &(LAYER_OCCURRENCES_MAX + 1).to_le_bytes(), invalid("items")),
            (SET_CELLS, &8u64.to_le_bytes(), invalid("set cells")),
            // One item was added once.
            (ITEMS, &2u64.to_le_bytes(), invalid("distinct items")),
            (ITEMS, &u64::MAX.to_le_bytes(), invalid("items")),
            // There is no window.
            (CELLS, &[3], DecodeError::Truncated),
        ],
    );
    // More occurrences than the capacity are valid; more distinct items are not.
    let record = saved(&filter);
    let most = LAYER_OCCURRENCES_MAX.to_le_bytes();
    let mut filter = changed(&record, &[(OPTIONAL, &most)]).unwrap();
    assert_eq!(filter.items(), LAYER_OCCURRENCES_MAX);
    add(&mut filter, b"hello").unwrap();
    assert_eq!(filter.items(), LAYER_OCCURRENCES_MAX);
    let error = changed(&record, &[(OPTIONAL, &most), (ITEMS, &101u64.to_le_bytes())]).err();
    assert_eq!(error, Some(invalid("items")));
    // A clear counter with other bits set: planes of 64 bytes, the first of which shows which counters are above 0.
    let Field::Bytes(cells) = &record.0[1] else { panic!() };
    let clear = (0..512).find(|bit| cells[bit / 8] >> (bit % 8) & 1 == 0).unwrap();
    for plane in 1..4 {
        let mut altered = record.clone();
        string(&mut altered, 1)[plane * 64 + clear / 8] |= 1 << (clear % 8);
        assert_eq!(loaded(&altered, ANY).err(), Some(invalid("chunk")), "{plane}");
    }
}

#[test]
fn impossible_windows_are_refused_by_name() {
    let mut filter = window(promise(0.01, 100, 2), WINDOW_MS);
    set_time(&mut filter, START_MS);
    add(&mut filter, b"hello").unwrap();
    let newest = START_MS * 14 / WINDOW_MS + 1;
    let (address, items) = (OPTIONAL + 8, OPTIONAL + 16);
    assert_refused(
        &filter,
        &[
            (POLICY, &[1], unsupported("shares", 0)),
            (SHARES, &[1], invalid("unused field")),
            (SHARES, &[2], invalid("growth")),
            (FLAGS, &[1], invalid("unused field")),
            (LENGTH, &99u64.to_le_bytes(), invalid("window")),
            (LENGTH, &u64::MAX.to_le_bytes(), invalid("window")),
            (LENGTH, &0u64.to_le_bytes(), invalid("window")),
            (LAYOUT, &[2], invalid("probes")),
            (LAYER_DETAIL, &[1], invalid("unused field")),
            (SIZE_BITS, &64u64.to_le_bytes(), invalid("positions")),
            (SIZE_BITS, &(1u64 << 24).to_le_bytes(), invalid("positions")),
            (SIZE_BITS, &(4000u64 * 16 + 64).to_le_bytes(), invalid("address")),
            (LAYER_CAPACITY, &u64::MAX.to_le_bytes(), invalid("capacity")),
            // These items are counted by generation.
            (ITEMS, &1u64.to_le_bytes(), invalid("items")),
            (SET_CELLS, &3u64.to_le_bytes(), invalid("set cells")),
            // A column without a generation has an item.
            (OPTIONAL, &0u64.to_le_bytes(), invalid("items")),
            // The page is newer than the layer.
            (OPTIONAL, &(newest - 16).to_le_bytes(), invalid("chunk")),
            (address, &((1u64 << 50) + 1).to_le_bytes(), invalid("address")),
            (items, &u64::MAX.to_le_bytes(), invalid("items")),
        ],
    );
    let limit_bytes = 64 << 20;
    let large = window(promise(0.01, 100_000_000, 0), WINDOW_MS);
    assert!(matches!(loaded(&saved(&large), limit_bytes).err(), Some(DecodeError::TooLarge { .. })));
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
        (SET_CELLS, &[0xff; 8], invalid("set cells")),
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
    for flags in [3, 5, 129, 255] {
        assert_eq!(growth(&saturated, &[(FLAGS, &[flags])]), Err(invalid("unused field")), "{flags}");
    }
    // Without the flag, or with growth, the layer has more items than its capacity.
    assert_eq!(growth(&saturated, &[(EXPANSION, &[2]), (SHARES, &[1])]), Err(invalid("items")));
    assert_eq!(growth(&saturated, &[(FLAGS, &[0])]), Err(invalid("items")));
    // As many items as bits, which may follow in chunks, and no more.
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
fn payloads_of_releases_before_the_first_public_one_are_refused_by_name() {
    // Bytes of 0.1 and 0.2: the record of version 1, an empty filter of 100 items at 1 %, and its clear bits.
    let mut header = b"evbl\x01\0\x01\0\x01\0\0\0\x02\0\0\0".to_vec();
    header.extend(0.01f64.to_le_bytes());
    header.extend(100u64.to_le_bytes());
    header.extend([1, 0, 7, 1, 0, 0, 0, 0]);
    [1024u64, 100, 0, 0].iter().for_each(|number| header.extend(number.to_le_bytes()));
    let record = Record(vec![Field::Bytes(header.clone()), Field::Bytes(Vec::new())]);
    let refused = loaded(&record, ANY).unwrap_err();
    assert_eq!(refused, DecodeError::BeforeFirstRelease);
    let text = refused.to_string();
    assert!(text.contains("0.1") && text.contains("0.2"), "{text}");
    // Also as the header of a dump, of every kind.
    for kind in 1..8 {
        header[6] = kind;
        let chunk = crate::chunks::header_chunk(&header, 0);
        assert_eq!(from_header(&chunk, &ANY).map(|_| ()), Err(DecodeError::BeforeFirstRelease), "{kind}");
    }
    // Another encoding version of the data type is from a later release.
    let data_type = DataType::of(Format::Everbloom);
    let later = load(Format::Everbloom, data_type.encoding_version + 1, &mut record.reader(), &ANY);
    assert_eq!(
        later.map(|_| ()),
        Err(unsupported("encoding version", data_type.encoding_version as u64 + 1))
    );
}

#[test]
fn the_data_type_refuses_filters_of_valkey_bloom() {
    let mut filter = super::valkey();
    filter.begin_dump(1);
    let header = everbloom::format::filter::header(&filter);
    let record = Record(vec![Field::Bytes(header), Field::Bytes(Vec::new())]);
    assert_eq!(loaded(&record, ANY).err(), Some(invalid("policy")));
}

#[test]
fn a_key_is_part_of_the_record() {
    let record = saved(&filled(keyed(promise(0.01, 100, 2)), 60));
    let other = changed(&record, &[(OPTIONAL, &[0xee])]).unwrap();
    assert_eq!(string(&mut saved(&other), 0)[OPTIONAL], 0xee);
}
