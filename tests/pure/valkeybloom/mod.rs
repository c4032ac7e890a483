//! valkey-bloom's filters: recorded ones of both generations, the library of valkey-bloom as an oracle, and hostile
//! bytes.

mod hostile;
mod oracle;

use everbloom_filter::filter::policy::ValkeyBloom;
use everbloom_filter::filter::policy::valkeybloom::{
    ProbeRounding, TIGHTENING_RATIO_DEFAULT, max_scaled_capacity, size_bytes,
};
use everbloom_filter::hash::siphash::{FIXED_SEED, Seed};
use everbloom_filter::{Filter, Format, Growth, OutOfMemory, Policy};
use everbloom_format::DataType;
use everbloom_format::valkeybloom::{self, decode_blob, load};
use everbloom_format::{DecodeError, Source};
use serde_json::Value;

use crate::recorded::recorded;
use crate::support::make::{ANY, valkeybloom as reserved};
use crate::support::rdb::Payload;
use crate::support::saved::{loaded_as, rewritten, saved};
use crate::support::{Field, Record};

/// The encoding version of valkey-bloom 1.0.
const ENCODING_VERSION: i32 = DataType::of(Format::ValkeyBloom).encoding_version;
const TYPE_NAME: &str = DataType::of(Format::ValkeyBloom).name;
/// Default of valkey-bloom's `bloom-memory-usage-limit`, with which the fixtures were recorded.
const LIMIT_BYTES: u64 = 128 << 20;

/// Returns the filter in a snapshot of an encoding version.
fn loaded(record: &Record, version: i32, limit_bytes: u64) -> Result<Filter, DecodeError> {
    loaded_as(Format::ValkeyBloom, Some(version), record, limit_bytes)
}

/// Checks the layers of a recorded filter that has grown.
pub(crate) fn assert_grown(filter: &Filter, encoding_version: i32) {
    let rounding = if encoding_version == 0 { ProbeRounding::Up } else { ProbeRounding::Nearest };
    oracle::assert_layers_are_as_computed(filter, rounding);
    assert_same(&loaded(&saved(filter), 1, ANY).unwrap(), filter);
}

/// Returns the parameters with which the filter was reserved.
fn policy(chain: &Filter) -> ValkeyBloom {
    let Policy::ValkeyBloom(policy) = chain.policy() else { panic!("another policy") };
    **policy
}

fn encode_blob(chain: &Filter) -> Result<Vec<u8>, OutOfMemory> {
    valkeybloom::encode_blob(&policy(chain), chain.layers())
}

/// Asserts that both have the same parameters and layers, bit for bit.
fn assert_same(left: &Filter, right: &Filter) {
    assert_eq!(left.policy(), right.policy());
    assert_eq!(saved(left), saved(right));
    for (left, right) in left.layers().iter().zip(right.layers()) {
        assert_eq!((left.counts(), left.placement()), (right.counts(), right.placement()));
    }
}

/// Returns an item that no fixture has.
fn new_item(number: u64) -> Vec<u8> {
    format!("new item {number}").into_bytes()
}

#[test]
fn a_blind_source_reads_the_released_order_only() {
    let growth = Growth::default();
    let policy = ValkeyBloom { error_rate: 0.1, tightening_ratio: 0.8, capacity_items: 9, growth };
    let mut record = saved(&reserved(policy, Seed::new([3; 32])));
    load(&mut record.blind_reader(), 1, &ANY).unwrap();
    record.0[5..].rotate_right(1);
    assert_eq!(load(&mut record.blind_reader(), 1, &ANY).unwrap_err(), DecodeError::PrereleaseOrder);
    assert!(record.blind_reader().float().is_err());
    load(&mut record.reader(), 1, &ANY).unwrap();
}

#[test]
fn the_numbers_are_those_recorded() {
    for (case, dump, chain) in recorded("valkey-bloom") {
        let number = |name: &str| case.info(name).and_then(Value::as_u64);
        let float = |name: &str| case.info(name).map(|value| value.as_str().unwrap().parse::<f64>().unwrap());
        assert_eq!(number("Capacity"), Some(chain.capacity_items()), "{}", case.key);
        assert_eq!(number("Number of filters"), Some(chain.layer_count() as u64));
        assert_eq!(number("Number of items inserted"), Some(chain.items()));
        assert_eq!(number("Expansion rate").unwrap_or(0), u64::from(policy(&chain).growth.expansion()));
        let layers_bytes = chain.layers().iter().map(|layer| layer.bits().size_bytes());
        if dump.encoding_version == 0 {
            // 0.1.0 has another formula; 1.0 reports a slightly larger size for the same filter.
            assert_eq!(number("Size"), Some(layers_bytes.map(|bytes| 200 + bytes).sum::<u64>() + 32));
            continue;
        }
        assert_eq!(number("Size"), Some(size_bytes(layers_bytes)), "{}", case.key);
        assert_eq!(float("Error rate"), Some(policy(&chain).error_rate));
        if let Some(expected) = float("Tightening ratio") {
            assert_eq!(expected, policy(&chain).tightening_ratio);
            assert_eq!(
                number("Max scaled capacity"),
                Some(max_scaled_capacity(&policy(&chain), LIMIT_BYTES)),
                "{}",
                case.key
            );
        }
    }
}

#[test]
fn a_filter_of_1_0_is_saved_byte_for_byte() {
    for (case, mut dump, chain) in recorded("valkey-bloom-1.0") {
        let is_plain = dump.is_plain;
        assert_eq!((dump.type_name.as_str(), dump.encoding_version), (TYPE_NAME, ENCODING_VERSION));
        let record = saved(&chain);
        assert_eq!(record, dump.record, "{}", case.key);
        dump.record = record;
        if is_plain {
            assert_eq!(dump.write(), Payload::without_footer(&case.payload), "{}", case.key);
        }
    }
}

#[test]
fn a_filter_of_1_0_and_its_blob_are_equivalent() {
    for (case, _, chain) in recorded("valkey-bloom-1.0") {
        let blob = case.blob().unwrap();
        let encoded = encode_blob(&chain).unwrap();
        assert_eq!((encoded.capacity(), &encoded), (blob.len(), &blob), "{}", case.key);
        assert_same(&decode_blob(&blob, &ANY).unwrap(), &chain);
    }
}

#[test]
fn a_filter_of_0_1_0_is_converted_with_the_same_results() {
    for (case, dump, chain) in recorded("valkey-bloom-0.1.0") {
        assert_eq!((dump.type_name.as_str(), dump.encoding_version), (TYPE_NAME, 0));
        let record = saved(&chain);
        assert_same(&loaded(&record, ENCODING_VERSION, ANY).unwrap(), &chain);
        assert_same(&decode_blob(&encode_blob(&chain).unwrap(), &ANY).unwrap(), &chain);
        assert_same(&rewritten(&chain), &chain);

        // Field by field, with the bits reversed independently.
        let Field::Float(error_rate) = dump.record.0[2] else { panic!("{:?}", dump.record.0[2]) };
        let mut expected = dump.record.0[..2].to_vec();
        expected.extend([
            Field::Double(error_rate.into()),
            Field::Double(TIGHTENING_RATIO_DEFAULT),
            Field::Unsigned(0),
        ]);
        let seed = FIXED_SEED;
        let mut fields = dump.record.0[3..].iter();
        while let (Some(Field::Bytes(bits)), Some(_), Some(Field::Unsigned(probes)), Some(capacity)) =
            (fields.next(), fields.next(), fields.next(), fields.next())
        {
            expected.push(capacity.clone());
            if fields.len() == 1 {
                expected.extend(fields.next().cloned());
            }
            let mut slice =
                [&[1], &(bits.len() as u64).to_le_bytes()[..], &(*probes as u32).to_le_bytes(), &seed]
                    .concat();
            for byte in bits {
                slice.push((0..8).map(|bit| (byte >> bit & 1) << (7 - bit)).sum());
            }
            expected.push(Field::Bytes(slice));
        }
        assert_eq!(record.0, expected, "{}", case.key);
    }
}

#[test]
fn the_order_before_the_release_is_read_but_not_written() {
    for (_, _, chain) in recorded("valkey-bloom-1.0") {
        let mut record = saved(&chain);
        let layers = chain.layer_count();
        for (index, layer) in record.0[5..].chunks_mut(2).enumerate().take(layers - 1) {
            layer.swap(0, 1);
            assert!(matches!(layer, [Field::Bytes(_), Field::Unsigned(_)]), "layer {index}");
        }
        record.0[5 + 2 * (layers - 1)..].rotate_right(1);
        assert_ne!(record, saved(&chain));
        assert_same(&loaded(&record, ENCODING_VERSION, ANY).unwrap(), &chain);
    }
}
