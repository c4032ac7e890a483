//! Items of any length: hashed in chunks with the same result as at once, only once, and without memory of their
//! size.

use everbloom::bloom::bits::layout::SchemeLayout;
use everbloom::bloom::hash::scheme::{ItemEncoding, Scheme, SchemeParameters};
use everbloom::bloom::{Filter, Growth, NoPrefetch};

use super::vectors::positions;
use crate::batch::{add_both, commands, found_both};
use crate::support::make::{ANY, bits_of, client};
use crate::support::{Random, slices};

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

#[cfg(not(feature = "server"))]
#[test]
fn hashing_needs_no_memory_for_the_item() {
    use crate::support::memory::largest_allocation;

    let item = text(&mut Random(13), 200_000);
    let item = item.as_bytes();
    for scheme in Scheme::ALL {
        for encoding in ItemEncoding::ALL {
            let mut filter = imported(scheme, encoding, 8 * 8192);
            let is_text = TEXT.contains(&encoding) || encoding == ItemEncoding::Raw;
            let (_, largest_bytes) = largest_allocation(|| {
                let added = filter.add(item, &u64::MAX, NoPrefetch);
                assert_eq!(added.is_ok(), is_text, "{scheme:?} {encoding:?}");
                assert_eq!(filter.contains(item, NoPrefetch), is_text);
                filter.add_many(&[item], &u64::MAX, NoPrefetch, |_| true);
                filter.contains_many(&[item], NoPrefetch, |found| assert_eq!(found, is_text));
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
            assert_eq!(batched.add(b"x", &ANY, NoPrefetch).is_err(), encoding == ItemEncoding::Int32Le);
        }
    }
}
