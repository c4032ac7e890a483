//! Items have their recorded positions, in the order of computation. Items of any length are hashed in chunks with the
//! same result as at once, and without memory of their size.

use everbloom_filter::bits::layout::SchemeLayout;
use everbloom_filter::encoding::ItemEncoding;
use everbloom_filter::hash::scheme::{Scheme, SchemeParameters};
use everbloom_filter::prefetch::NoPrefetch;
use everbloom_filter::{Filter, Growth};

use super::vectors::{hex, number, numbers, positions, recording, system, systems};
use crate::batch::{add_both, commands, found_both};
use crate::support::make::{add, bits_of, client};
use crate::support::{Random, slices};

#[test]
fn every_recorded_item_has_the_recorded_positions() {
    let special = &recording("_sets")["special"];
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
    let special = &recording("_sets")["special"];
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
        for funnel in system.json["funnels"].as_array().unwrap() {
            let (bytes, expected) = (hex(&funnel["bytes_hex"]), numbers(&funnel["in_order"]));
            let (size_bits, probes) = (funnel["m"].as_u64().unwrap(), number(&funnel["k"]));
            // With the encoding raw, the bytes that any funnel writes are an item.
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
    let special = &recording("_sets")["special"];
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
fn sizes_end_where_the_clients_integers_end() {
    assert_eq!(Scheme::Redisson.max_size_bits(), 2 * u64::from(u32::MAX >> 1));
    for scheme in [Scheme::Murmur3Salted, Scheme::Murmur3X86Mitz64, Scheme::CsharpNetfxMitz64] {
        assert_eq!(scheme.max_size_bits(), u64::from(u32::MAX >> 1));
    }
}

const TEXT: [ItemEncoding; 3] = [ItemEncoding::Utf16Le, ItemEncoding::Kryo5String, ItemEncoding::JsonString];

fn layout(scheme: Scheme, encoding: ItemEncoding) -> SchemeLayout {
    let probes = scheme.fixed_probes().unwrap_or(20);
    SchemeLayout::new(SchemeParameters { scheme, encoding, shift: 0, probes, size_bits: 1 << 30 }).unwrap()
}

/// Returns text with all characters that an encoding treats specially.
fn text(random: &mut Random, characters: u64) -> String {
    let alphabet: Vec<char> = "abcdefghijklmnopqrstuvwxyz\"\\\n\u{1}é漢😀".chars().collect();
    // Runs of one kind of character, as in real text.
    let mut run = |_| {
        let character = *random.choose(&alphabet);
        std::iter::repeat_n(character, 1 + random.below(20))
    };
    (0..characters).flat_map(&mut run).take(characters as usize).collect()
}

#[test]
fn text_is_hashed_in_chunks_as_it_is_at_once() {
    let seed = 11;
    let mut random = Random(seed);
    for characters in 0..=300 {
        let text = text(&mut random, characters);
        for encoding in TEXT {
            let mut bytes = Vec::new();
            encoding.encode(text.as_bytes(), |chunk| bytes.extend_from_slice(chunk)).unwrap();
            for scheme in Scheme::ALL {
                let whole = positions(&layout(scheme, ItemEncoding::Raw), &bytes);
                let in_chunks = positions(&layout(scheme, encoding), text.as_bytes());
                assert_eq!(in_chunks, whole, "{scheme:?} {encoding:?} {text:?}, seed {seed}");
            }
        }
    }
}

#[test]
fn salted_positions_are_hashes_of_the_item_and_one_byte() {
    let seed = 12;
    let mut random = Random(seed);
    let layout = layout(Scheme::Murmur3Salted, ItemEncoding::Raw);
    for length in (0..70).chain([255, 1000, 4095]) {
        let item: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
        let salted = |salt: u64| {
            let salted = [&item[..], &[salt as u8]].concat();
            murmur3::murmur3_x64_128(&mut &salted[..], 0).unwrap() as u64 % (1 << 30)
        };
        let expected: Vec<u64> = (0..20).map(salted).collect();
        assert_eq!(positions(&layout, &item), expected, "{length} bytes, seed {seed}");
    }
}

/// Returns an empty filter of a client.
fn imported(scheme: Scheme, encoding: ItemEncoding, size_bits: u64) -> Filter {
    let probes = scheme.fixed_probes().unwrap_or(7);
    let parameters = SchemeParameters { scheme, encoding, shift: 0, probes, size_bits };
    client(parameters, 1500, Growth::Scaling { expansion: 2 })
}

#[test]
fn hashing_needs_no_memory_for_the_item() {
    use crate::allocations::largest_allocation;

    let item = text(&mut Random(13), 200_000);
    let item = item.as_bytes();
    for scheme in Scheme::ALL {
        for encoding in ItemEncoding::ALL {
            let mut filter = imported(scheme, encoding, 8 * 8192);
            let is_text = TEXT.contains(&encoding) || encoding == ItemEncoding::Raw;
            let (_, largest_bytes) = largest_allocation(|| {
                let added = add(&mut filter, item);
                assert_eq!(added.is_ok(), is_text, "{scheme:?} {encoding:?}");
                assert_eq!(filter.contains(item, NoPrefetch), is_text);
                filter.add_many(&[item], &u64::MAX, NoPrefetch, |_| true);
                filter.contains_many(&[item], 0, NoPrefetch, |found| assert_eq!(found, is_text));
            });
            assert!(largest_bytes < 4096, "{scheme:?} {encoding:?}: {largest_bytes}");
        }
    }
}

#[test]
fn many_items_at_once_equal_items_one_by_one() {
    // Arrays that fit the caches and arrays that do not. Some items are not numbers.
    let item = |number: u32| if number.is_multiple_of(7) { format!("x{number}") } else { number.to_string() };
    let items: Vec<String> = (0..3000).map(item).collect();
    let items = slices(&items);
    for (scheme, size_bits) in
        Scheme::ALL.into_iter().flat_map(|scheme| [(scheme, 64 * 1024), (scheme, 1 << 24)])
    {
        for encoding in [ItemEncoding::Raw, ItemEncoding::Int32Le, ItemEncoding::JsonString] {
            let name = format!("{scheme:?} {encoding:?} {size_bits}");
            let [mut single, mut batched] = [(); 2].map(|()| imported(scheme, encoding, size_bits));
            for group in commands(&items[..2000]) {
                add_both(&mut batched, &mut single, group, &name);
            }
            assert!(bits_of(&single) == bits_of(&batched) && single.items() > 1500, "{name}");
            commands(&items).for_each(|group| _ = found_both(&batched, group, &name));
            assert_eq!(add(&mut batched, b"x").is_err(), encoding == ItemEncoding::Int32Le);
        }
    }
}
