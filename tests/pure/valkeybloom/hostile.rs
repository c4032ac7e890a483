//! Changed payloads: each field at its limits, and truncated everywhere. Each payload is refused or gives a filter
//! that works.

use everbloom_filter::limits::{LAYERS_MAX, PROBES_TOTAL_MAX};
use everbloom_format::DecodeError;
use everbloom_format::valkeybloom::decode_blob;

use super::{assert_same, encode_blob, loaded};
use crate::recorded::recorded;
use crate::support::fixtures::{Case, cases};
use crate::support::hostile::{FLOATS, NUMBERS, Outcomes, edges};
use crate::support::rdb::Payload;
use crate::support::{Field, Record, effort};

/// Far above the size of every payload.
const LIMIT_BYTES: u64 = 1 << 20;

/// Returns the string with each of its fixed fields at its limits, and truncated everywhere if it is short.
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
        for edge in NUMBERS.into_iter().filter(|_| bytes.len() >= at + width) {
            let mut altered = bytes.to_vec();
            altered[at..at + width].copy_from_slice(&edge.to_le_bytes()[..width]);
            all.push(altered);
        }
    }
    all
}

fn altered_fields(field: &Field) -> Vec<Field> {
    let mut all = edges(field);
    if let Field::Bytes(bytes) = field {
        all.extend(altered_strings(bytes).into_iter().map(Field::Bytes));
    }
    all
}

#[test]
fn changed_snapshots_are_refused_or_valid() {
    let mut outcomes = Outcomes::default();
    for (Case { key, payload, .. }, dump, filter) in recorded("valkey-bloom") {
        // The largest payloads take time and have no additional fields.
        if payload.len() > 4000 || filter.size_bytes() > 20_000 {
            continue;
        }
        let load = |record: &Record| loaded(record, dump.encoding_version, LIMIT_BYTES);
        for (at, field) in dump.record.0.iter().enumerate() {
            for altered in altered_fields(field) {
                let mut record = dump.record.clone();
                record.0[at] = altered;
                outcomes.judge(load(&record), &|| format!("{key} field {at} {:?}", record.0[at]));
            }
            let mut shorter = dump.record.clone();
            shorter.0.remove(at);
            outcomes.judge(load(&shorter), &|| format!("{key} without field {at}"));
            assert!(load(&Record(dump.record.0[..at].to_vec())).is_err(), "{key} cut at {at}");
        }
        let plain = [dump.write(), vec![0; 10]].concat();
        for at in (1..plain.len() - 10).step_by(effort(7, 1)) {
            let mut altered = plain.clone();
            altered[at] = altered[at].wrapping_add(1 + (at % 255) as u8);
            let Some(altered) = Payload::try_read(&altered) else { continue };
            let outcome = loaded(&altered.record, altered.encoding_version, LIMIT_BYTES);
            outcomes.judge(outcome, &|| format!("{key} byte {at}"));
        }
    }
    outcomes.assert_at_least(effort(1_500, 10_000), effort(1_500, 10_000));
}

#[test]
fn changed_blobs_are_refused_or_valid() {
    let mut outcomes = Outcomes::default();
    for (case, ..) in recorded("valkey-bloom-1.0") {
        let blob = case.blob().unwrap();
        for end in 0..blob.len() {
            assert!(decode_blob(&blob[..end], &LIMIT_BYTES).is_err(), "{} cut at {end}", case.key);
        }
        assert!(decode_blob(&[&blob[..], &[0]].concat(), &LIMIT_BYTES).is_err());
        let last_counts = blob.len() - 16;
        let numbers = [(1, 4), (22, 8), (30, 8), (39, 8), (47, 4), (last_counts, 8), (last_counts + 8, 8)];
        let numbers = numbers
            .into_iter()
            .flat_map(|(at, width)| NUMBERS.map(|edge| (at, edge.to_le_bytes()[..width].to_vec())));
        let floats = [5, 13].into_iter().flat_map(|at| FLOATS.map(|edge| (at, edge.to_le_bytes().to_vec())));
        let bytes = (0..blob.len().min(120)).map(|at| (at, vec![blob[at] ^ 0x81]));
        for (at, altered) in numbers.chain(floats).chain(bytes) {
            let mut hostile = blob.clone();
            hostile[at..at + altered.len()].copy_from_slice(&altered);
            let outcome = decode_blob(&hostile, &LIMIT_BYTES);
            if let Ok(filter) = &outcome {
                let again = decode_blob(&encode_blob(filter).unwrap(), &LIMIT_BYTES).unwrap();
                assert_same(filter, &again);
            }
            outcomes.judge(outcome, &|| format!("{} at {at} {altered:?}", case.key));
        }
    }
    outcomes.assert_at_least(1_000, 500);
}

/// Returns the fields of the first recorded filter whose name contains the word.
fn record_of(producer: &str, word: &str) -> Record {
    let case = cases(producer).into_iter().find(|case| case.key.contains(word)).unwrap();
    Payload::read(&case.payload).record
}

#[test]
fn values_out_of_range_are_refused_by_name() {
    let record = record_of("valkey-bloom-1.0-random-seed", "one");
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
    // The layer has eight bits, and each counted item has set at least one of them. So it cannot have nine items.
    let mut altered = record.clone();
    (altered.0[5], altered.0[6]) = (Field::Unsigned(100), Field::Unsigned(9));
    assert_eq!(loaded(&altered, 1, LIMIT_BYTES).unwrap_err(), DecodeError::Invalid("items"));
    altered.0[6] = Field::Unsigned(8);
    loaded(&altered, 1, LIMIT_BYTES).unwrap();

    // Of 0.1.0: more bits than the bitmap has.
    let mut record = record_of("valkey-bloom-0.1.0", "one");
    record.0[4] = Field::Unsigned(1600);
    assert_eq!(loaded(&record, 0, LIMIT_BYTES).unwrap_err(), DecodeError::Invalid("length of a layer"));
}

#[test]
fn layers_with_different_seeds_are_refused() {
    let mut record = record_of("valkey-bloom-1.0-random-seed", "slow");
    let Field::Bytes(slice) = &mut record.0[8] else { panic!("no string") };
    slice[13] ^= 1;
    assert_eq!(loaded(&record, 1, LIMIT_BYTES).unwrap_err(), DecodeError::Invalid("seed"));
}

/// Returns a blob of `layers` layers of 2048 probes in 2048 bits, each full with one item.
fn blob_of_many_probes(layers: u64) -> Vec<u8> {
    let mut blob = cases("valkey-bloom-1.0")[0].blob().unwrap();
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
fn the_probes_of_all_layers_are_limited() {
    let most_layers = PROBES_TOTAL_MAX / 2048;
    let chain = decode_blob(&blob_of_many_probes(most_layers), &LIMIT_BYTES).unwrap();
    assert_eq!(chain.layer_count() as u64, most_layers);
    let refused = DecodeError::Invalid("probes of all layers");
    // Such a blob blocked a server for seconds with every batch of items.
    for layers in [most_layers + 1, LAYERS_MAX as u64] {
        assert_eq!(decode_blob(&blob_of_many_probes(layers), &(1 << 30)).unwrap_err(), refused);
    }
    let too_many_layers = blob_of_many_probes(LAYERS_MAX as u64 + 1);
    assert_eq!(decode_blob(&too_many_layers, &(1 << 30)).unwrap_err(), DecodeError::Invalid("layer count"));
}
