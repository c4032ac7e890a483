//! Real filters of six releases: they load, answer as they did, go on, and are written down as they were.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use everbloom::bloom::policy::redisbloom::{Options, reported_size_bytes};
use everbloom::bloom::{AddError, Filter};
use everbloom::format::pieces::HEADER_ITERATOR;
use serde_json::Value;

use super::{add, from_header, load, load_chunk, parameters, piece, policy, saved};
use crate::support::make::{self, ANY, contains, redisbloom};
use crate::support::rdb::Payload;
use crate::support::{Field, Record};

/// Releases with the encoding they write, the bytes of their headers, and what their BF.INFO counts for a filter and a layer.
const RELEASES: [Release; 6] = [
    Release { name: "1.0.3", encoding_version: 1, header: (16, 49), structs: None },
    Release { name: "1.1.1", encoding_version: 3, header: (16, 49), structs: None },
    Release { name: "2.0.3", encoding_version: 3, header: (16, 49), structs: None },
    Release { name: "2.2.0", encoding_version: 4, header: (20, 49), structs: Some((32, 120)) },
    Release { name: "2.2.18", encoding_version: 4, header: (20, 53), structs: Some((32, 120)) },
    Release { name: "8.10-dev", encoding_version: 4, header: (20, 53), structs: Some((32, 64)) },
];

struct Release {
    name: &'static str,
    encoding_version: i32,
    header: (usize, usize),
    structs: Option<(u64, u64)>,
}

impl Release {
    /// A filter that it made, and that may have been saved again.
    fn load(&self, record: &Record, encoding_version: i32) -> Filter {
        let mut chain = load(record, encoding_version);
        if self.name == "1.1.1" {
            chain.assume_redisbloom_1_1();
        }
        chain
    }

    /// Whether it sizes filters and writes headers as the newest release does.
    fn is_current(&self) -> bool {
        self.header == (20, 53)
    }
}

/// One recorded filter.
struct Case {
    name: String,
    json: Value,
    record: Record,
    members: Vec<Vec<u8>>,
}

impl Case {
    /// The filter, read as of its release.
    fn load(&self, release: &Release) -> Filter {
        release.load(&self.record, release.encoding_version)
    }

    fn scandump(&self) -> Vec<(u64, Vec<u8>)> {
        let pieces = self.json["scandump"].as_array().unwrap();
        pieces.iter().map(|piece| (piece[0].as_u64().unwrap(), decoded(&piece[1]))).collect()
    }

    fn lines(&self, field: &str) -> Vec<String> {
        let lines = self.json[field].as_array().unwrap();
        lines.iter().map(|line| line.as_str().unwrap().to_owned()).collect()
    }
}

/// Every case of every release.
fn cases() -> Vec<(&'static Release, Case)> {
    let mut cases = Vec::new();
    for release in &RELEASES {
        let path = format!("{}/tests/fixtures/redisbloom-{}.json", env!("CARGO_MANIFEST_DIR"), release.name);
        let file: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        for json in file["cases"].as_array().unwrap() {
            let name = format!("{} {}", release.name, json["case"].as_str().unwrap());
            let payload = Payload::read(&decoded(&json["dump_b64"]));
            assert_eq!(
                (payload.type_name.as_str(), payload.encoding_version),
                ("MBbloom--", release.encoding_version)
            );
            let members = items(&json["items"]);
            cases.push((release, Case { name, json: json.clone(), record: payload.record, members }));
        }
    }
    assert_eq!(cases.len(), 3 * 6 + 3 * 9);
    cases
}

fn decoded(text: &Value) -> Vec<u8> {
    STANDARD.decode(text.as_str().unwrap()).unwrap()
}

fn items(json: &Value) -> Vec<Vec<u8>> {
    match json["base64"].as_array() {
        Some(items) => items.iter().map(decoded).collect(),
        None => (0..json["count"].as_u64().unwrap())
            .map(|i| json["format"].as_str().unwrap().replace("%d", &i.to_string()).into_bytes())
            .collect(),
    }
}

#[test]
fn every_filter_answers_as_its_release_did() {
    for (release, case) in cases() {
        let chain = case.load(release);
        assert!(case.members.iter().all(|item| contains(&chain, item)), "{}", case.name);
        let answers: String = items(&case.json["probes"])
            .iter()
            .map(|item| if contains(&chain, item) { '1' } else { '0' })
            .collect();
        assert_eq!(answers, case.json["probe_answers"].as_str().unwrap(), "{}", case.name);
    }
}

#[test]
fn release_1_1_wrote_the_same_as_2_0_about_another_hash() {
    let cases = cases();
    for (release, case) in cases.iter().filter(|(release, _)| release.name == "1.1.1") {
        // The same but for the arrays, and for the items where some were taken for false positives.
        let of_2_0 =
            cases.iter().find(|(_, other)| other.name == case.name.replace("1.1.1", "2.0.3")).unwrap();
        let fields = |case: &Case| {
            let mut record = case.record.clone();
            record.0.retain(|field| !matches!(field, Field::Bytes(_)));
            record
        };
        assert_eq!(fields(case), fields(&of_2_0.1), "{}", case.name);
        let unassumed = load(&case.record, release.encoding_version);
        let found = case.members.iter().filter(|item| contains(&unassumed, item)).count();
        assert!(found * 10 < case.members.len(), "{}", case.name);
    }
    // Said of filters that cannot be of 1.1, it changes nothing.
    for (release, case) in cases.iter().filter(|(release, _)| !["1.1.1", "2.0.3"].contains(&release.name)) {
        let mut chain = case.load(release);
        let spec = chain.spec();
        chain.assume_redisbloom_1_1();
        assert_eq!(chain.spec(), spec);
    }
}

#[test]
fn every_filter_is_described_as_its_release_did() {
    for (release, case) in cases() {
        let chain = case.load(release);
        let width = match (release.name, policy(&chain).options().has_wide_hash()) {
            // The one release that did not show it.
            ("1.0.3", wide) => {
                assert!(!wide);
                ""
            }
            (_, true) => " hashwidth:64",
            (_, false) => " hashwidth:32",
        };
        let mut expected = vec![format!("size:{}", chain.items())];
        expected.extend(chain.layers().iter().map(|layer| {
            let parameters = super::parameters(layer);
            format!(
                "bytes:{} bits:{} hashes:{}{width} capacity:{} size:{} ratio:{}",
                layer.cells().size_bytes(),
                parameters.shown_bits(),
                parameters.probes,
                parameters.capacity_items,
                layer.counts().items,
                six_digits(parameters.error_rate),
            )
        }));
        let debug = case.lines("debug").into_iter().map(|line| match line.split_once("ratio:") {
            Some((before, ratio)) => format!("{before}ratio:{}", six_digits(ratio.parse().unwrap())),
            None => line,
        });
        assert_eq!(expected, debug.collect::<Vec<_>>(), "{}", case.name);

        let Some((chain_bytes, layer_bytes)) = release.structs else { continue };
        let array_bytes: u64 = chain.layers().iter().map(|layer| layer.cells().size_bytes()).sum();
        let layers = chain.layer_count() as u64;
        let size_bytes = chain_bytes + layer_bytes * layers + array_bytes;
        if release.name == "8.10-dev" {
            assert_eq!(reported_size_bytes(chain.layers()), size_bytes);
        }
        // The first release with BF.INFO showed a growth for fixed filters too.
        let is_fixed = policy(&chain).options().is_fixed() && release.name != "2.2.0";
        let growth = if is_fixed { Value::Null } else { policy(&chain).expansion().into() };
        let info = &case.json["info"];
        let numbers = [1, 3, 5, 7, 9].map(|index| info[index].clone());
        let expected =
            [chain.capacity_items().into(), size_bytes.into(), layers.into(), chain.items().into(), growth];
        assert_eq!(numbers, expected, "{}", case.name);
    }
}

/// A number as C's `%g` rounds it.
fn six_digits(number: f64) -> String {
    format!("{number:.5e}")
}

#[test]
fn every_filter_is_saved_as_it_was() {
    for (release, case) in cases() {
        let chain = case.load(release);
        let record = saved(&chain);
        if release.encoding_version == 4 {
            assert_eq!(record, case.record, "{}", case.name);
        }
        // What older releases wrote gains the fields it lacked and keeps the others.
        let mut lacked = record.clone();
        let fields = [(2, 2), (3, 4)].into_iter().rev();
        for (index, _) in fields.filter(|(_, since)| release.encoding_version < *since) {
            lacked.0.remove(index);
        }
        assert_eq!(lacked, case.record, "{}", case.name);
        assert_eq!(saved(&load(&record, 4)), record, "{}", case.name);
    }
}

#[test]
fn every_filter_is_dumped_and_loaded_in_pieces() {
    for (release, case) in cases() {
        let chain = case.load(release);
        let pieces = case.scandump();
        let (iterator, header) = &pieces[0];
        let (chain_bytes, layer_bytes) = release.header;
        assert_eq!(*iterator, HEADER_ITERATOR);
        assert_eq!(header.len(), chain_bytes + layer_bytes * chain.layer_count(), "{}", case.name);

        let mut ours = vec![piece(&chain, 0).unwrap()];
        while let Some(piece) = piece(&chain, ours[ours.len() - 1].next_iterator) {
            ours.push(piece);
        }
        let ours: Vec<_> =
            ours.into_iter().map(|piece| (piece.next_iterator, piece.data.into_owned())).collect();
        assert_eq!(ours[1..], pieces[1..], "{}", case.name);
        if release.is_current() {
            assert_eq!(ours[0], pieces[0], "{}", case.name);
        }
        for pieces in [ours, pieces] {
            let mut copy = from_header(&pieces[0].1, ANY).unwrap();
            for (iterator, data) in &pieces[1..] {
                load_chunk(&mut copy, *iterator, data).unwrap();
            }
            assert_eq!(saved(&copy), saved(&chain), "{}", case.name);
        }
    }
}

#[test]
fn every_filter_goes_on_for_two_more_layers() {
    for (release, case) in cases() {
        let mut chain = case.load(release);
        let layers = chain.layer_count();
        let mut members = case.members.clone();
        for i in 0.. {
            let item = format!("more:{i}").into_bytes();
            match make::add(&mut chain, &item) {
                Ok(_) => members.push(item),
                Err(error) => {
                    assert_eq!(error, AddError::Full);
                    assert!(policy(&chain).options().is_fixed(), "{}", case.name);
                    assert_eq!((chain.items(), chain.layer_count()), (chain.capacity_items(), layers));
                    break;
                }
            }
            if chain.layer_count() == layers + 2 && chain.layers()[layers + 1].is_full() {
                break;
            }
        }
        assert!(members.len() > case.members.len() && members.iter().all(|item| contains(&chain, item)));
        let record = saved(&chain);
        let again = release.load(&record, 4);
        assert_eq!(saved(&again), record, "{}", case.name);
        assert!(members.iter().all(|item| contains(&again, item)), "{}", case.name);
        for pair in chain.layers().windows(2).skip(layers - 1) {
            let [old, new] = [&pair[0], &pair[1]].map(parameters);
            assert_eq!(new.error_rate, old.error_rate / 2.0, "{}", case.name);
            // Powers of two before 2.2, with a capacity that fills them; whole words of 64 bits ever since.
            let is_old = release.encoding_version < 4;
            assert_eq!((new.exponent > 0, new.size_bits % 64), (is_old, 0), "{}", case.name);
            let asked = old.capacity_items * u64::from(policy(&chain).expansion());
            assert!(if is_old { new.capacity_items >= asked } else { new.capacity_items == asked });
        }
    }
}

#[test]
fn a_filter_made_here_is_the_one_that_current_releases_made() {
    for (release, case) in cases().into_iter().filter(|(release, _)| release.is_current()) {
        let words = case.json["reserve"].as_array().cloned().unwrap_or_default();
        let words: Vec<&str> = words.iter().map(|word| word.as_str().unwrap()).collect();
        let rest = words.get(2..).unwrap_or_default();
        let mut chain = redisbloom(
            words.first().map_or(0.01, |word| word.parse().unwrap()),
            words.get(1).map_or(100, |word| word.parse().unwrap()),
            if rest == ["NONSCALING"] { Options::FIXED } else { Options::SCALING },
            rest.get(1).map_or(2, |word| word.parse().unwrap()),
        );
        for item in &case.members {
            add(&mut chain, item);
        }
        assert_eq!(saved(&chain), case.record, "{} {}", release.name, case.name);
    }
}
