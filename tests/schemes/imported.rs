//! Filters that were taken over, written down and read back, and hostile headers of them.

use everbloom::bloom::scheme::{BitOrder, StringForm};
use everbloom::bloom::{Chain, Filter, Growth, NoPrefetch};
use everbloom::format::DecodeError;
use everbloom::format::dump::Trust;
use everbloom::format::filter::{from_header, header, load_chunk, piece};
use everbloom::format::imported::{IMPORTED_HEADER_BYTES, build};

use crate::vectors::{System, systems};

const LIMIT_BYTES: u64 = 1 << 30;

/// The recorded bitmap, grown by layers of our own.
fn grown(system: &System) -> Filter {
    let placement = system.placement_of(&system.json["bitmap"]);
    let string = system.string("/bitmap/redis_string_b64");
    let (form, bits) = StringForm::read(&string, BitOrder::Msb, placement.array_bits()).unwrap();
    let growth = Growth::Scaling { expansion: 2 };
    let chain = Chain::take_over(placement, form, bits, 10, 0.01, growth).unwrap();
    let mut filter = Filter::Imported(Box::new(chain));
    let items: Vec<Vec<u8>> = (0..50).map(|item| format!("later-{item}").into_bytes()).collect();
    let items: Vec<&[u8]> = items.iter().map(Vec::as_slice).collect();
    filter.add_many(&items, &LIMIT_BYTES, NoPrefetch, |outcome| outcome.is_ok());
    assert!(filter.layer_count() > 1);
    filter
}

#[test]
fn a_taken_over_filter_travels_in_pieces_and_stays_the_same() {
    for system in systems() {
        let filter = grown(&system);
        let first = piece(&filter, 0).unwrap().unwrap();
        let mut copy = from_header(&first.data, &LIMIT_BYTES).unwrap();
        let mut iterator = first.next_iterator;
        while let Some(next) = piece(&filter, iterator).unwrap() {
            iterator = next.next_iterator;
            load_chunk(&mut copy, iterator, &next.data, Trust::Sender).unwrap();
        }
        assert_eq!(header(&copy), header(&filter), "{}", system.name);
        assert!(filter.bit_arrays().map(|bits| bits.bytes()).eq(copy.bit_arrays().map(|bits| bits.bytes())));
    }
}

#[test]
fn the_limit_counts_the_clients_array_and_every_layer_behind_it() {
    for system in systems() {
        let placement = system.placement_of(&system.json["bitmap"]);
        let string = system.string("/bitmap/redis_string_b64");
        let (form, bits) = StringForm::read(&string, BitOrder::Msb, placement.array_bits()).unwrap();
        let chain = Chain::take_over(placement, form, bits, 10, 0.01, Growth::Fixed).unwrap();
        let alone = Filter::Imported(Box::new(chain));
        for filter in [alone, grown(&system)] {
            let bytes = header(&filter);
            let arrays: Vec<u64> = filter.bit_arrays().map(|bits| bits.size_bytes()).collect();
            let sum_bytes: u64 = arrays.iter().sum();
            let refusal = |limit_bytes: u64| build(&bytes, &limit_bytes, |_, _| Ok(())).unwrap_err();
            // Whatever a filter takes beside its arrays: it says so itself.
            let DecodeError::TooLarge { needed_bytes, .. } = refusal(0) else { panic!("{}", system.name) };
            assert!(needed_bytes >= sum_bytes, "{}: {needed_bytes} for {arrays:?}", system.name);
            for spared in arrays.into_iter().chain([1]) {
                let limit_bytes = needed_bytes - spared;
                let expected = DecodeError::TooLarge { needed_bytes, limit_bytes };
                assert_eq!(refusal(limit_bytes), expected, "{}", system.name);
            }
            assert!(build(&bytes, &needed_bytes, |_, _| Ok(())).is_ok(), "{}", system.name);
        }
    }
}

#[test]
fn every_altered_header_is_refused_or_says_the_same_when_written_again() {
    let mut refused = 0;
    for system in systems() {
        let bytes = header(&grown(&system));
        for length in 0..bytes.len() {
            assert!(build(&bytes[..length], &LIMIT_BYTES, |_, _| Ok(())).is_err(), "cut at {length}");
        }
        for place in 0..bytes.len() {
            for value in [0, 1, 2, 9, 10, 127, 128, 255] {
                let mut altered = bytes.clone();
                altered[place] = value;
                match build(&altered, &LIMIT_BYTES, |_, _| Ok(())) {
                    Err(_) => refused += 1,
                    Ok(chain) => {
                        // Bits are clear here, so the count of set bits is not what the header said.
                        let again = header(&Filter::Imported(Box::new(chain)));
                        let kept = IMPORTED_HEADER_BYTES - 8;
                        assert_eq!(again[..kept], altered[..kept], "byte {place} = {value}");
                    }
                }
            }
        }
    }
    assert!(refused > 1000, "{refused}");
}
