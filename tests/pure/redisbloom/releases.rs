//! Recorded filters of six releases: they are described and saved as the releases did. Encoding 0 is from before
//! release 1.0: no server with it is available, so its data is built from the table of fields.

use everbloom_filter::filter::policy::redisbloom::{RedisBloomOptions, reported_size_bytes};
use everbloom_filter::hash::murmur2::Murmur2;
use everbloom_filter::{AddError, Filter, ItemHash};
use everbloom_format::redisbloom::HEADER_ITERATOR;
use serde_json::Value;

use super::{add, chunk, from_header, load, load_chunk, policy};
use crate::recorded::recorded;
use crate::support::fixtures::Case;
use crate::support::make::{self, ANY, add_within, contains, parameters, redisbloom};
use crate::support::rdb::Payload;
use crate::support::saved::saved;
use crate::support::{Field, Record};

/// Releases, with the encoding that they write, the bytes of their headers, and what their BF.INFO counts for a
/// filter and a layer.
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
    /// Returns whether the release sizes filters and writes headers as the newest one does.
    fn is_current(&self) -> bool {
        self.header == (20, 53)
    }
}

/// One recorded filter.
struct Recorded {
    release: &'static Release,
    case: Case,
    record: Record,
    chain: Filter,
}

/// Returns every recorded filter of every release.
fn cases() -> Vec<Recorded> {
    let with_release = |(case, payload, chain): (Case, Payload, Filter)| {
        let name = case.producer.strip_prefix("redisbloom-").unwrap();
        let release = RELEASES.iter().find(|release| release.name == name).unwrap();
        let head = (payload.type_name.as_str(), payload.encoding_version);
        assert_eq!(head, ("MBbloom--", release.encoding_version));
        Recorded { release, case, record: payload.record, chain }
    };
    recorded("redisbloom").into_iter().map(with_release).collect()
}

#[test]
fn release_1_1_saved_the_same_as_2_0_with_another_hash() {
    let cases = cases();
    for Recorded { release, case, record, .. } in cases.iter().filter(|of| of.release.name == "1.1.1") {
        // The records are equal except for the arrays.
        let key = case.key.replace("1.1.1", "2.0.3");
        let of_2_0 = cases.iter().find(|other| other.case.key == key).unwrap();
        let fields = |record: &Record| {
            let mut record = record.clone();
            record.0.retain(|field| !matches!(field, Field::Bytes(_)));
            record
        };
        assert_eq!(fields(record), fields(&of_2_0.record), "{}", case.key);
        let unassumed = load(record, release.encoding_version);
        let found = case.members.iter().filter(|item| contains(&unassumed, item)).count();
        assert!(found * 10 < case.members.len(), "{}", case.key);
    }
    // For filters that cannot be of 1.1, the assumption changes nothing.
    for mut of in cases.into_iter().filter(|of| !["1.1.1", "2.0.3"].contains(&of.release.name)) {
        let spec = of.chain.spec();
        of.chain.assume_redisbloom_1_1();
        assert_eq!(of.chain.spec(), spec);
    }
}

#[test]
fn every_filter_is_described_as_its_release_did() {
    for Recorded { release, case, chain, .. } in cases() {
        let width = match (release.name, policy(&chain).options().has_wide_hash()) {
            // This release did not show the width of the hash.
            ("1.0.3", wide) => {
                assert!(!wide);
                ""
            }
            (_, true) => " hashwidth:64",
            (_, false) => " hashwidth:32",
        };
        let mut expected = vec![format!("size:{}", chain.items())];
        expected.extend(chain.layers().iter().map(|layer| {
            let parameters = parameters(layer);
            format!(
                "bytes:{} bits:{} hashes:{}{width} capacity:{} size:{} ratio:{}",
                layer.bits().size_bytes(),
                parameters.shown_bits(),
                parameters.probes,
                parameters.capacity_items,
                layer.counts().items,
                six_digits(parameters.error_rate),
            )
        }));
        let lines = case.json["debug"].as_array().unwrap().iter().map(|line| line.as_str().unwrap());
        let debug = lines.map(|line| match line.split_once("ratio:") {
            Some((before, ratio)) => format!("{before}ratio:{}", six_digits(ratio.parse().unwrap())),
            None => line.to_owned(),
        });
        assert_eq!(expected, debug.collect::<Vec<_>>(), "{}", case.key);

        let Some((chain_bytes, layer_bytes)) = release.structs else { continue };
        let array_bytes: u64 = chain.layers().iter().map(|layer| layer.bits().size_bytes()).sum();
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
        assert_eq!(numbers, expected, "{}", case.key);
    }
}

/// Returns a number rounded as by C's `%g`.
fn six_digits(number: f64) -> String {
    format!("{number:.5e}")
}

#[test]
fn every_filter_is_saved_as_it_was() {
    for Recorded { release, case, record: original, chain } in cases() {
        let record = saved(&chain);
        if release.encoding_version == 4 {
            assert_eq!(record, original, "{}", case.key);
        }
        // Filters of older releases get the missing fields and keep the others.
        let mut lacked = record.clone();
        let fields = [(2, 2), (3, 4)].into_iter().rev();
        for (index, _) in fields.filter(|(_, since)| release.encoding_version < *since) {
            lacked.0.remove(index);
        }
        assert_eq!(lacked, original, "{}", case.key);
        assert_eq!(saved(&load(&record, 4)), record, "{}", case.key);
    }
}

#[test]
fn every_filter_is_dumped_and_loaded_in_chunks() {
    for Recorded { release, case, chain, .. } in cases() {
        let chunks = case.chunks();
        let (iterator, header) = &chunks[0];
        let (chain_bytes, layer_bytes) = release.header;
        assert_eq!(*iterator, HEADER_ITERATOR);
        assert_eq!(header.len(), chain_bytes + layer_bytes * chain.layer_count(), "{}", case.key);

        let mut ours = vec![chunk(&chain, 0).unwrap()];
        while let Some(chunk) = chunk(&chain, ours[ours.len() - 1].next_iterator) {
            ours.push(chunk);
        }
        let ours: Vec<_> =
            ours.into_iter().map(|chunk| (chunk.next_iterator, chunk.data.into_owned())).collect();
        assert_eq!(ours[1..], chunks[1..], "{}", case.key);
        if release.is_current() {
            assert_eq!(ours[0], chunks[0], "{}", case.key);
        }
        for chunks in [ours, chunks] {
            let mut copy = from_header(&chunks[0].1, ANY).unwrap();
            for (iterator, data) in &chunks[1..] {
                load_chunk(&mut copy, *iterator, data).unwrap();
            }
            assert_eq!(saved(&copy), saved(&chain), "{}", case.key);
        }
    }
}

#[test]
fn new_filters_equal_those_of_current_releases() {
    for Recorded { case, record, .. } in cases().into_iter().filter(|of| of.release.is_current()) {
        let words = case.reserve_words();
        let rest = words.get(2..).unwrap_or_default();
        let mut chain = redisbloom(
            words.first().map_or(0.01, |word| word.parse().unwrap()),
            words.get(1).map_or(100, |word| word.parse().unwrap()),
            if rest == ["NONSCALING"] { RedisBloomOptions::FIXED } else { RedisBloomOptions::SCALING },
            rest.get(1).map_or(2, |word| word.parse().unwrap()),
        );
        for item in &case.members {
            add(&mut chain, item);
        }
        assert_eq!(saved(&chain), record, "{}", case.key);
    }
}

/// Returns the record in encoding 0 of a filter that has `items`: one layer for `entries` items at 1 %.
fn oldest(entries: u64, items: &[&str]) -> Record {
    let bits_per_item = f64::abs(f64::ln(0.01) / 0.480453013918201);
    let bits = (entries as f64 * bits_per_item) as u64;
    let mut bytes = vec![0; bits.div_ceil(8) as usize];
    for item in items {
        let ItemHash { h1: a, h2: b } = Murmur2::Narrow.pair(item.as_bytes());
        for i in 0..7 {
            let position = (a + i * b) % bits;
            bytes[position as usize / 8] |= 1 << (position % 8);
        }
    }
    Record(vec![
        Field::Unsigned(items.len() as u64),
        Field::Unsigned(1),
        Field::Unsigned(entries),
        Field::Double(0.01),
        Field::Unsigned(7),
        Field::Double(bits_per_item),
        Field::Bytes(bytes),
        Field::Unsigned(items.len() as u64),
    ])
}

#[test]
fn the_bits_follow_from_the_capacity_and_need_not_fill_a_byte() {
    for (entries, bits) in [(100, 958), (1000, 9585), (83, 795), (1, 9)] {
        let mut chain = load(&oldest(entries, &["a", "b", "c"][..entries.min(3) as usize]), 0);
        assert_eq!(parameters(&chain.layers()[0]).size_bits, bits);
        assert_eq!(chain.layers()[0].bits().size_bytes(), bits.div_ceil(8));
        assert!(contains(&chain, b"a") && !contains(&chain, b"d"));
        // Saved in the newest encoding it keeps its bits, so its items are found again.
        assert_eq!(saved(&load(&saved(&chain), 4)), saved(&chain));
        let items: Vec<String> = (0..3 * entries).map(|i| i.to_string()).collect();
        for item in &items {
            add(&mut chain, item.as_bytes());
        }
        assert!(chain.layer_count() > 1 && items.iter().all(|item| contains(&chain, item.as_bytes())));
        assert!(parameters(&chain.layers()[1]).exponent > 0);
    }
}

#[test]
fn an_unusual_growth_is_kept_and_ends_on_overflow() {
    // Releases up to 2.4 accepted any EXPANSION.
    for (growth, next_capacity_items) in [(0u32, None), (u32::MAX, None), (40_000, Some(40_000))] {
        let mut record = saved(&load(&oldest(1, &["a"]), 0));
        record.0[3] = Field::Unsigned(growth.into());
        let mut chain = load(&record, 4);
        assert_eq!(saved(&chain), record);
        // A growth of 2^32 - 1 gives 5.5 GB, which the limit refuses.
        let outcome = add_within(&mut chain, b"b", 1 << 20);
        assert_eq!(outcome.is_ok(), next_capacity_items.is_some(), "{growth}");
        assert!(!matches!(outcome, Err(AddError::Full)));
        assert!(contains(&chain, b"a"));
        if let Some(capacity_items) = next_capacity_items {
            assert!(parameters(&chain.layers()[1]).capacity_items >= capacity_items);
        } else {
            assert_eq!(saved(&chain), record);
        }
    }
    // Capacity times growth beyond 64 bits, which wraps in RedisBloom.
    let mut record = saved(&load(&oldest(1, &["a"]), 0));
    record.0[3] = Field::Unsigned(4);
    record.0[4] = Field::Unsigned(1 << 62);
    let mut chain = load(&record, 4);
    chain.layers_mut()[0].set_items(1 << 62);
    assert!(matches!(make::add(&mut chain, b"b"), Err(AddError::CannotGrow(_))));
    chain.layers_mut()[0].set_items(1);
    assert_eq!(saved(&chain), record);
}
