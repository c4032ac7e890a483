//! Every case of every fixture: answers, numbers and bytes as its producer gave them.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use everbloom::Format;
use everbloom::bloom::Filter;
use everbloom::bloom::hash::siphash::FIXED_SEED;
use everbloom::bloom::policy::valkeybloom::{TIGHTENING_RATIO_DEFAULT, max_scaled_capacity, size_bytes};
use everbloom::format::filter::DataType;
use everbloom::format::valkeybloom::decode_blob;
use serde_json::Value;

use super::rdb::{Dump, Field};
use super::{assert_same, encode_blob, loaded, policy, saved};
use crate::support::make::{ANY, contains};

/// What valkey-bloom 1.0 writes.
const ENCODING_VERSION: i32 = DataType::of(Format::ValkeyBloom).encoding_version;
const TYPE_NAME: &str = DataType::of(Format::ValkeyBloom).name;
/// Default of valkey-bloom's `bloom-memory-usage-limit`, at which the fixtures were made.
const LIMIT_BYTES: u64 = 128 << 20;

/// One filter that a server held.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) generation: i32,
    pub(crate) dump: Vec<u8>,
    pub(crate) blob: Option<Vec<u8>>,
    pub(crate) items: Vec<Vec<u8>>,
    probes: Vec<Vec<u8>>,
    answers: String,
    info: Vec<Value>,
}

impl Case {
    pub(crate) fn chain(&self) -> Filter {
        let dump = Dump::read(&self.dump).unwrap();
        loaded(&dump.record, dump.encoding_version, ANY).unwrap()
    }

    fn info(&self, name: &str) -> Option<&Value> {
        let at = self.info.iter().position(|value| value == name)?;
        self.info.get(at + 1)
    }
}

fn list(value: &Value) -> Vec<Vec<u8>> {
    if let Some(strings) = value["base64"].as_array() {
        return strings.iter().map(|text| BASE64_STANDARD.decode(text.as_str().unwrap()).unwrap()).collect();
    }
    let (format, count) = (value["format"].as_str().unwrap(), value["count"].as_u64().unwrap());
    (0..count).map(|number| format.replace("%d", &number.to_string()).into_bytes()).collect()
}

/// All cases of all three producers.
pub(crate) fn cases() -> Vec<Case> {
    let files = [
        (0, include_str!("../../fixtures/valkey-bloom-0.1.0.json")),
        (1, include_str!("../../fixtures/valkey-bloom-1.0-fixed-seed.json")),
        (1, include_str!("../../fixtures/valkey-bloom-1.0-random-seed.json")),
    ];
    let mut all = Vec::new();
    for (generation, text) in files {
        let file: Value = serde_json::from_str(text).unwrap();
        for case in file["cases"].as_array().unwrap() {
            let decoded = |name: &str| case[name].as_str().map(|text| BASE64_STANDARD.decode(text).unwrap());
            all.push(Case {
                name: format!("{} {}", file["producer"], case["case"]),
                generation,
                dump: decoded("dump_b64").unwrap(),
                blob: decoded("bf_load_b64"),
                items: list(&case["items"]),
                probes: list(&case["probes"]),
                answers: case["probe_answers"].as_str().unwrap().to_owned(),
                info: case["info"].as_array().unwrap().clone(),
            });
        }
    }
    assert_eq!(all.len(), 27);
    all
}

#[test]
fn every_member_is_there_and_every_probe_is_answered_as_recorded() {
    for case in cases() {
        let chain = case.chain();
        for item in &case.items {
            assert!(contains(&chain, item), "{} lost {item:?}", case.name);
        }
        let answers: String =
            case.probes.iter().map(|probe| if contains(&chain, probe) { '1' } else { '0' }).collect();
        assert_eq!(answers, case.answers, "{}", case.name);
    }
}

#[test]
fn the_numbers_are_those_recorded() {
    for case in cases() {
        let chain = case.chain();
        let number = |name: &str| case.info(name).and_then(Value::as_u64);
        let float = |name: &str| case.info(name).map(|value| value.as_str().unwrap().parse::<f64>().unwrap());
        assert_eq!(number("Capacity"), Some(chain.capacity_items()), "{}", case.name);
        assert_eq!(number("Number of filters"), Some(chain.layer_count() as u64));
        assert_eq!(number("Number of items inserted"), Some(chain.items()));
        assert_eq!(number("Expansion rate").unwrap_or(0), u64::from(policy(&chain).growth.expansion()));
        let layers_bytes = chain.layers().iter().map(|layer| layer.cells().size_bytes());
        if case.generation == 0 {
            // Its own formula; as a filter of 1.0 the same one is reported somewhat larger.
            assert_eq!(number("Size"), Some(layers_bytes.map(|bytes| 200 + bytes).sum::<u64>() + 32));
            continue;
        }
        assert_eq!(number("Size"), Some(size_bytes(layers_bytes)), "{}", case.name);
        assert_eq!(float("Error rate"), Some(policy(&chain).error_rate));
        if let Some(expected) = float("Tightening ratio") {
            assert_eq!(expected, policy(&chain).tightening_ratio);
            assert_eq!(
                number("Max scaled capacity"),
                Some(max_scaled_capacity(&policy(&chain), LIMIT_BYTES)),
                "{}",
                case.name
            );
        }
    }
}

#[test]
fn a_filter_of_1_0_is_saved_byte_for_byte() {
    for case in cases().into_iter().filter(|case| case.generation == 1) {
        let mut dump = Dump::read(&case.dump).unwrap();
        let is_plain = dump.is_plain;
        assert_eq!((dump.type_name.as_str(), dump.encoding_version), (TYPE_NAME, ENCODING_VERSION));
        let record = saved(&case.chain());
        assert_eq!(record, dump.record, "{}", case.name);
        dump.record = record;
        if is_plain {
            assert_eq!(dump.write(), Dump::without_footer(&case.dump), "{}", case.name);
        }
    }
}

#[test]
fn a_filter_of_1_0_is_its_blob_both_ways() {
    for case in cases().into_iter().filter(|case| case.generation == 1) {
        let (chain, blob) = (case.chain(), case.blob.unwrap());
        assert_eq!(encode_blob(&chain).unwrap(), blob, "{}", case.name);
        assert_same(&decode_blob(&blob, &ANY).unwrap(), &chain);
    }
}

#[test]
fn a_filter_of_0_1_0_becomes_one_of_1_0_with_the_same_answers() {
    for case in cases().into_iter().filter(|case| case.generation == 0) {
        let dump = Dump::read(&case.dump).unwrap();
        assert_eq!((dump.type_name.as_str(), dump.encoding_version), (TYPE_NAME, 0));
        let chain = case.chain();
        let record = saved(&chain);
        assert_same(&loaded(&record, ENCODING_VERSION, ANY).unwrap(), &chain);
        assert_same(&decode_blob(&encode_blob(&chain).unwrap(), &ANY).unwrap(), &chain);

        // Field by field, the bits turned round independently.
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
        assert_eq!(record.0, expected, "{}", case.name);
    }
}

#[test]
fn the_order_from_before_the_release_is_read_and_the_released_one_written() {
    for case in cases().into_iter().filter(|case| case.generation == 1) {
        let (chain, mut record) = (case.chain(), saved(&case.chain()));
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
