//! Altered payloads: each field at its edges, cut everywhere. Each must be refused or be a filter that behaves.

use everbloom::bloom::hash::siphash::Seed;
use everbloom::bloom::limits::{LAYERS_MAX, PROBES_TOTAL_MAX};
use everbloom::bloom::policy::ValkeyBloom;
use everbloom::bloom::{Filter, Growth, NoPrefetch};
use everbloom::format::DecodeError;
use everbloom::format::filter::{from_header, piece};
use everbloom::format::valkeybloom::decode_blob;

use super::fixtures::cases;
use super::rdb::{Dump, Field, Record};
use super::{assert_same, encode_blob, loaded, new_item, reserved, saved};
use crate::support::make::contains;

/// Far above what any payload here holds.
const LIMIT_BYTES: u64 = 1 << 20;

const EDGES: [u64; 16] = [
    0,
    1,
    2,
    3,
    7,
    64,
    4096,
    4097,
    (1 << 31) - 1,
    1 << 31,
    u32::MAX as u64,
    1 << 32,
    (1 << 63) - 1,
    1 << 63,
    u64::MAX - 7,
    u64::MAX,
];

const FLOAT_EDGES: [f64; 14] = [
    0.0,
    -0.0,
    f64::MIN_POSITIVE,
    5e-324,
    1e-300,
    0.999_999_999_999_999_9,
    1.0,
    2.0,
    -0.5,
    f64::MAX,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
    -f64::NAN,
];

/// What became of the payloads that were tried.
#[derive(Default)]
struct Tally {
    accepted: usize,
    refused: usize,
}

impl Tally {
    /// A filter that was let in must take items, find them, keep to the limit and survive being saved.
    fn judge(&mut self, result: Result<Filter, DecodeError>, what: &dyn Fn() -> String) {
        let Ok(mut chain) = result else {
            self.refused += 1;
            return;
        };
        self.accepted += 1;
        for number in 0..20 {
            let item = new_item(number);
            if chain.add(&item, &LIMIT_BYTES, NoPrefetch).is_ok() {
                assert!(contains(&chain, &item), "{}", what());
            }
        }
        assert!(chain.size_bytes() <= 2 * LIMIT_BYTES, "{}", what());
        let record = saved(&chain);
        let again = loaded(&record, 1, LIMIT_BYTES).unwrap_or_else(|error| panic!("{error:?}: {}", what()));
        assert_eq!(saved(&again), record, "{}", what());
        let blob = encode_blob(&chain).unwrap();
        assert_eq!(saved(&decode_blob(&blob, &LIMIT_BYTES).unwrap()), record, "{}", what());
    }
}

/// The string with each of its fixed fields at its edges, and cut; all of it for a short one.
fn altered_strings(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = (0..bytes.len().min(60)).map(|end| bytes[..end].to_vec()).collect();
    all.push([bytes, &[0]].concat());
    for at in 0..bytes.len().min(50) {
        for edge in [0, 1, 0x7F, 0x80, 0xFF, bytes[at] ^ 1] {
            let mut altered = bytes.to_vec();
            altered[at] = edge;
            all.push(altered);
        }
    }
    for (at, width) in [(1, 8), (9, 4)] {
        for edge in EDGES.into_iter().filter(|_| bytes.len() >= at + width) {
            let mut altered = bytes.to_vec();
            altered[at..at + width].copy_from_slice(&edge.to_le_bytes()[..width]);
            all.push(altered);
        }
    }
    all
}

fn altered_fields(field: &Field) -> Vec<Field> {
    let mut all = vec![Field::Unsigned(1), Field::Double(0.5), Field::Float(0.5), Field::Bytes(Vec::new())];
    match field {
        Field::Unsigned(value) => {
            let near = [value.wrapping_sub(1), value.wrapping_add(1)];
            all.extend(EDGES.into_iter().chain(near).map(Field::Unsigned));
        }
        Field::Float(_) => all.extend(FLOAT_EDGES.map(|edge| Field::Float(edge as f32))),
        Field::Double(_) => all.extend(FLOAT_EDGES.map(Field::Double)),
        Field::Bytes(bytes) => all.extend(altered_strings(bytes).into_iter().map(Field::Bytes)),
    }
    all
}

#[test]
fn altered_snapshots_are_refused_or_behave() {
    let mut tally = Tally::default();
    for case in cases() {
        let dump = Dump::read(&case.dump).unwrap();
        // The largest of them adds time and no field.
        if case.dump.len() > 4000 || case.chain().size_bytes() > 20_000 {
            continue;
        }
        for (at, field) in dump.record.0.iter().enumerate() {
            for altered in altered_fields(field) {
                let mut record = dump.record.clone();
                record.0[at] = altered;
                let result = loaded(&record, dump.encoding_version, LIMIT_BYTES);
                tally.judge(result, &|| format!("{} field {at} {:?}", case.name, record.0[at]));
            }
            let mut shorter = dump.record.clone();
            shorter.0.remove(at);
            let result = loaded(&shorter, dump.encoding_version, LIMIT_BYTES);
            tally.judge(result, &|| format!("{} without field {at}", case.name));
            let cut = Record(dump.record.0[..at].to_vec());
            assert!(loaded(&cut, dump.encoding_version, LIMIT_BYTES).is_err(), "{} cut at {at}", case.name);
        }
        let plain = [dump.write(), vec![0; 10]].concat();
        for at in 1..plain.len() - 10 {
            let mut altered = plain.clone();
            altered[at] = altered[at].wrapping_add(1 + (at % 255) as u8);
            let Some(altered) = Dump::read(&altered) else { continue };
            let result = loaded(&altered.record, altered.encoding_version, LIMIT_BYTES);
            tally.judge(result, &|| format!("{} byte {at}", case.name));
        }
    }
    println!("snapshots: {} accepted, {} refused", tally.accepted, tally.refused);
    assert!(tally.accepted > 10_000 && tally.refused > 10_000, "{} {}", tally.accepted, tally.refused);
}

#[test]
fn altered_blobs_are_refused_or_behave() {
    let mut tally = Tally::default();
    for case in cases() {
        let Some(blob) = case.blob else { continue };
        for end in 0..blob.len() {
            assert!(decode_blob(&blob[..end], &LIMIT_BYTES).is_err(), "{} cut at {end}", case.name);
            tally.refused += 1;
        }
        assert!(decode_blob(&[&blob[..], &[0]].concat(), &LIMIT_BYTES).is_err());
        let last_counts = blob.len() - 16;
        let numbers = [(1, 4), (22, 8), (30, 8), (39, 8), (47, 4), (last_counts, 8), (last_counts + 8, 8)];
        let edges = numbers
            .into_iter()
            .flat_map(|(at, width)| EDGES.map(|edge| (at, edge.to_le_bytes()[..width].to_vec())));
        let float_edges =
            [5, 13].into_iter().flat_map(|at| FLOAT_EDGES.map(|edge| (at, edge.to_le_bytes().to_vec())));
        let bytes = (0..blob.len().min(120)).map(|at| (at, vec![blob[at] ^ 0x81]));
        for (at, altered) in edges.chain(float_edges).chain(bytes) {
            let mut hostile = blob.clone();
            hostile[at..at + altered.len()].copy_from_slice(&altered);
            tally
                .judge(decode_blob(&hostile, &LIMIT_BYTES), &|| format!("{} at {at} {altered:?}", case.name));
        }
    }
    println!("blobs: {} accepted, {} refused", tally.accepted, tally.refused);
    assert!(tally.accepted > 500 && tally.refused > 10_000, "{} {}", tally.accepted, tally.refused);
}

#[test]
fn what_makes_valkey_bloom_abort_or_spin_is_refused_by_name() {
    let case =
        cases().into_iter().find(|case| case.name.contains("random") && case.name.contains("one")).unwrap();
    let record = Dump::read(&case.dump).unwrap().record;
    let Field::Bytes(slice) = record.0[7].clone() else { panic!("{:?}", record.0[7]) };
    let with = |at: usize, field: Field| {
        let mut altered = record.clone();
        altered.0[at] = field;
        loaded(&altered, 1, LIMIT_BYTES).unwrap_err()
    };
    let with_slice = |at: usize, bytes: &[u8]| {
        let mut altered = slice.clone();
        altered[at..at + bytes.len()].copy_from_slice(bytes);
        with(7, Field::Bytes(altered))
    };
    assert_eq!(with(0, Field::Unsigned(0)), DecodeError::Invalid("layer count"));
    assert_eq!(with(0, Field::Unsigned(1 << 40)), DecodeError::Invalid("layer count"));
    assert_eq!(with(1, Field::Unsigned(1 << 32)), DecodeError::Invalid("expansion"));
    assert_eq!(with(2, Field::Double(2.0)), DecodeError::Invalid("error rate"));
    assert_eq!(with(3, Field::Double(2.0)), DecodeError::Invalid("tightening ratio"));
    assert_eq!(with(4, Field::Unsigned(7)), DecodeError::Invalid("seed mark"));
    assert_eq!(with(4, Field::Unsigned(0)), DecodeError::Invalid("seed"));
    assert_eq!(with(5, Field::Unsigned(0)), DecodeError::Invalid("capacity"));
    assert_eq!(with(5, Field::Unsigned(1 << 63)), DecodeError::Invalid("capacity"));
    assert_eq!(with(6, Field::Unsigned(2)), DecodeError::Invalid("items"));
    assert_eq!(with(7, Field::Bytes(Vec::new())), DecodeError::Truncated);
    assert_eq!(with_slice(0, &[2]), DecodeError::Unsupported { what: "version of a layer", got: 2 });
    assert_eq!(with_slice(1, &[2]), DecodeError::Invalid("length of a layer"));
    assert_eq!(with_slice(9, &[0]), DecodeError::Invalid("probes"));
    assert_eq!(with_slice(9, &1_000_000_000u32.to_le_bytes()), DecodeError::Invalid("probes"));
    let empty = [&slice[..1], &[0; 8], &slice[9..45]].concat();
    assert_eq!(with(7, Field::Bytes(empty)), DecodeError::Invalid("length of a layer"));
    assert_eq!(
        loaded(&record, 2, LIMIT_BYTES).unwrap_err(),
        DecodeError::Unsupported { what: "encoding version", got: 2 }
    );
    // More than the eight bits, each of which one item sets at most.
    let mut altered = record.clone();
    (altered.0[5], altered.0[6]) = (Field::Unsigned(100), Field::Unsigned(9));
    assert_eq!(loaded(&altered, 1, LIMIT_BYTES).unwrap_err(), DecodeError::Invalid("items"));
    altered.0[6] = Field::Unsigned(8);
    loaded(&altered, 1, LIMIT_BYTES).unwrap();

    // Of 0.1.0: more bits than the bitmap has.
    let old = cases().into_iter().find(|case| case.generation == 0 && case.name.contains("one")).unwrap();
    let mut record = Dump::read(&old.dump).unwrap().record;
    record.0[4] = Field::Unsigned(1600);
    assert_eq!(loaded(&record, 0, LIMIT_BYTES).unwrap_err(), DecodeError::Invalid("length of a layer"));
}

#[test]
fn layers_with_different_seeds_are_refused() {
    let case =
        cases().into_iter().find(|case| case.name.contains("random") && case.name.contains("slow")).unwrap();
    let mut record = Dump::read(&case.dump).unwrap().record;
    let Field::Bytes(slice) = &mut record.0[8] else { panic!("no string") };
    slice[13] ^= 1;
    assert_eq!(loaded(&record, 1, LIMIT_BYTES).unwrap_err(), DecodeError::Invalid("seed"));
}

#[test]
fn a_filter_loads_within_the_limit_it_needs_and_not_a_byte_less() {
    for case in cases() {
        let chain = case.chain();
        let (record, blob) = (saved(&chain), encode_blob(&chain).unwrap());
        let header = piece(&chain, 0).unwrap().unwrap().data;
        let needed_bytes = chain.size_bytes();
        let limit_bytes = needed_bytes - 1;
        assert!(loaded(&record, 1, needed_bytes).is_ok() && decode_blob(&blob, &needed_bytes).is_ok());
        assert!(from_header(&header, &needed_bytes).is_ok());
        let refused = DecodeError::TooLarge { needed_bytes, limit_bytes };
        assert_eq!(loaded(&record, 1, limit_bytes).unwrap_err(), refused, "{}", case.name);
        assert_eq!(decode_blob(&blob, &limit_bytes).unwrap_err(), refused, "{}", case.name);
        let outcome = from_header(&header, &limit_bytes);
        assert_eq!(outcome.unwrap_err(), refused, "{}", case.name);
    }
}

/// A blob of so many layers of 2048 probes in 2048 bits, each full with one item.
fn blob_of_many_probes(layers: u64) -> Vec<u8> {
    let case = cases().into_iter().find(|case| case.blob.is_some()).unwrap();
    let mut blob = case.blob.unwrap();
    let seed = blob[30 + 8 + 13..30 + 8 + 45].to_vec();
    blob.truncate(30);
    blob[22..].copy_from_slice(&layers.to_le_bytes());
    for _ in 0..layers {
        blob.extend((45u64 + 256).to_le_bytes());
        blob.extend([&[1][..], &256u64.to_le_bytes(), &2048u32.to_le_bytes(), &seed].concat());
        blob.extend([&[0; 256][..], &1i64.to_le_bytes(), &1i64.to_le_bytes()].concat());
    }
    blob
}

#[test]
fn a_filter_has_so_many_probes_and_no_more() {
    let most_layers = PROBES_TOTAL_MAX / 2048;
    let chain = decode_blob(&blob_of_many_probes(most_layers), &LIMIT_BYTES).unwrap();
    assert_eq!(chain.layer_count() as u64, most_layers);
    let refused = DecodeError::Invalid("probes of all layers");
    // The blob that kept a server busy for seconds with every batch of items.
    for layers in [most_layers + 1, LAYERS_MAX as u64] {
        assert_eq!(decode_blob(&blob_of_many_probes(layers), &(1 << 30)).unwrap_err(), refused);
    }
    let too_many_layers = blob_of_many_probes(LAYERS_MAX as u64 + 1);
    assert_eq!(decode_blob(&too_many_layers, &(1 << 30)).unwrap_err(), DecodeError::Invalid("layer count"));
}

#[test]
fn a_count_is_at_most_the_bits_even_when_items_are_added_to_what_was_read_of_a_filter() {
    // Of a high error rate, so that the capacity is above the bits, and between the pieces of a dump.
    let parameters = ValkeyBloom {
        error_rate: 0.99,
        tightening_ratio: 0.5,
        capacity_items: 1000,
        growth: Growth::Scaling { expansion: 2 },
    };
    let mut chain = reserved(parameters, Seed::new([3; 32]));
    let bits = chain.layers()[0].cells().size_bits();
    assert!(bits < 100, "{bits}");
    chain.layers_mut()[0].set_items(bits);
    for number in 0..1000 {
        assert!(chain.add(&new_item(number), &LIMIT_BYTES, NoPrefetch).is_ok() && chain.items() == bits);
    }
    assert_same(&loaded(&saved(&chain), 1, LIMIT_BYTES).unwrap(), &chain);
}
