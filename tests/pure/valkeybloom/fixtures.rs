//! Every recorded filter has the numbers and bytes of its producer.

use everbloom::Format;
use everbloom::bloom::filter::policy::valkeybloom::{
    TIGHTENING_RATIO_DEFAULT, max_scaled_capacity, size_bytes,
};
use everbloom::bloom::hash::siphash::FIXED_SEED;
use everbloom::format::filter::DataType;
use everbloom::format::valkeybloom::decode_blob;
use serde_json::Value;

use super::{assert_same, encode_blob, loaded, policy};
use crate::recorded::recorded;
use crate::support::Field;
use crate::support::make::ANY;
use crate::support::rdb::Payload;
use crate::support::saved::saved;

/// The encoding version of valkey-bloom 1.0.
const ENCODING_VERSION: i32 = DataType::of(Format::ValkeyBloom).encoding_version;
const TYPE_NAME: &str = DataType::of(Format::ValkeyBloom).name;
/// Default of valkey-bloom's `bloom-memory-usage-limit`, with which the fixtures were recorded.
const LIMIT_BYTES: u64 = 128 << 20;

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
        assert_eq!(encode_blob(&chain).unwrap(), blob, "{}", case.key);
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
