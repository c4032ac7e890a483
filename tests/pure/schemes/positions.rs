//! Every recorded position of every item, in the order of computation.

use everbloom::bloom::hash::scheme::{ItemEncoding, Scheme};

use super::vectors::{file, hex, number, numbers, positions, system, systems};
use crate::support::Random;

#[test]
fn every_recorded_item_has_the_recorded_positions() {
    let special = &file("_sets")["special"];
    let mut items = 0;
    for system in systems() {
        for set in system.json["param_sets"].as_array().unwrap() {
            let layout = system.layout_of(set);
            for (name, expected) in set["offsets"].as_object().unwrap() {
                let got = positions(&layout, &hex(&special[name]));
                assert_eq!(got, numbers(expected), "{} m={} k={} {name}", system.name, set["m"], set["k"]);
                assert!(got.iter().all(|position| *position < layout.array_bits()));
                items += 1;
            }
        }
    }
    // 9 systems of 4 sets and 40 items, one of 2 sets, two of 4 sets and the 33 items that are text.
    assert_eq!(items, 9 * 4 * 40 + 2 * 40 + 2 * 4 * 33);
}

#[test]
fn text_takes_the_recorded_form_of_redissons_codecs() {
    let special = &file("_sets")["special"];
    for name in ["redisson-kryo5-codec", "redisson-json-codec"] {
        let system = system(name);
        let encoded = system.json["encoded_hex"].as_object().unwrap();
        assert_eq!(encoded.len(), 31);
        for (item, expected) in encoded {
            let item = hex(&special[item]);
            let mut bytes = Vec::new();
            system.encoding.encode(&item, |chunk| bytes.extend_from_slice(chunk)).unwrap();
            assert_eq!(bytes, hex(expected), "{name} {item:?}");
        }
    }
}

#[test]
fn guavas_funnels_have_their_encodings() {
    let mut encoded = 0;
    for name in ["guava-mitz32", "guava-mitz64"] {
        let mut system = system(name);
        for funnel in std::mem::take(&mut system.json["funnels"]).as_array().unwrap() {
            let (bytes, expected) = (hex(&funnel["bytes_hex"]), numbers(&funnel["in_order"]));
            let (size_bits, probes) = (funnel["m"].as_u64().unwrap(), number(&funnel["k"]));
            // For every funnel, its own bytes are an item.
            system.encoding = ItemEncoding::Raw;
            assert_eq!(positions(&system.layout(size_bits, probes), &bytes), expected, "{funnel}");
            let value = &funnel["value"];
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            system.encoding = match funnel["funnel"].as_str().unwrap() {
                // A lone surrogate, written as an escape, cannot be an item: Guava replaced it.
                "stringFunnel(UTF_8)" if !value.contains("\\u") => ItemEncoding::Raw,
                "unencodedCharsFunnel" | "stringFunnel(UTF_16LE)" => ItemEncoding::Utf16Le,
                "integerFunnel" => ItemEncoding::Int32Le,
                "longFunnel" => ItemEncoding::Int64Le,
                _ => continue,
            };
            let layout = system.layout(size_bits, probes);
            assert_eq!(positions(&layout, value.as_bytes()), expected, "{funnel}");
            encoded += 1;
        }
    }
    // Per strategy: 5 texts in 3 funnels, 6 integers, 7 longs.
    assert_eq!(encoded, 2 * (5 * 3 + 6 + 7));
}

#[test]
fn unreduced_php_hashes_equal_the_recorded_ones() {
    let system = system("php-bkdr-js-sdbm");
    let special = &file("_sets")["special"];
    let layout = system.layout(1 << 32, 3);
    let hashes = system.json["hashes_before_mod"].as_object().unwrap();
    let mut checked = 0;
    for (name, hash) in hashes {
        let item = if special[name].is_string() {
            hex(&special[name])
        } else if ["a", "world", "worrrrrld"].contains(&name.as_str()) {
            name.clone().into_bytes()
        } else {
            continue;
        };
        let expected: Vec<u64> = ["BKDR", "JS", "SDBM"].map(|name| hash[name].as_u64().unwrap()).to_vec();
        assert_eq!(positions(&layout, &item), expected, "{name}");
        checked += 1;
    }
    assert_eq!(checked, 43);
}

#[test]
fn the_salt_of_a_probe_wraps_at_256() {
    for name in ["murmur3-salted", "fnv32a-salted"] {
        let got = positions(&system(name).layout(8191, 258), b"hello");
        assert_eq!((got.len(), &got[256..]), (258, &got[..2]), "{name}");
        assert_ne!(got[0], got[1]);
    }
}

#[test]
fn all_bytes_of_long_items_are_hashed() {
    // Longer than any buffer on the stack; only the last byte differs.
    let seed = 5;
    let mut random = Random(seed);
    for system in systems().into_iter().filter(|system| system.encoding == ItemEncoding::Raw) {
        let probes = system.scheme.fixed_probes().unwrap_or(7);
        let layout = system.layout(1 << 20, probes);
        for length in [255, 256, 257, 300, 5000] {
            let mut item: Vec<u8> = (0..length).map(|_| b'a' + (random.below(26) as u8)).collect();
            let before = positions(&layout, &item);
            *item.last_mut().unwrap() ^= 1;
            assert_ne!(positions(&layout, &item), before, "{} {length}, seed {seed}", system.name);
        }
    }
}

#[test]
fn sizes_follow_the_formulas_of_the_documentation() {
    let sizing = file("sizing");
    let ln2 = std::f64::consts::LN_2;
    let mut checked = 0;
    for (table, size, probes) in
        [("guava_31.1", "m_optimalNumOfBits", "k"), ("redisson", "size", "hashIterations")]
    {
        for row in sizing[table].as_array().unwrap() {
            let (Some(expected_bits), Some(expected_probes)) = (row[size].as_u64(), row[probes].as_u64())
            else {
                continue;
            };
            let items = row["n"].as_f64().unwrap().max(1.0);
            let bits = (-items * row["p"].as_f64().unwrap().ln() / (ln2 * ln2)) as u64;
            let probes = (bits as f64 / items * ln2).round().max(1.0) as u64;
            assert_eq!((bits, probes), (expected_bits, expected_probes), "{table} {row}");
            checked += 1;
        }
    }
    assert!(checked > 130, "{checked}");
    assert_eq!(Scheme::Redisson.max_size_bits(), 2 * u64::from(u32::MAX >> 1));
    for scheme in [Scheme::Murmur3Salted, Scheme::Murmur3X86Mitz64, Scheme::CsharpNetfxMitz64] {
        assert_eq!(scheme.max_size_bits(), u64::from(u32::MAX >> 1));
    }
}
