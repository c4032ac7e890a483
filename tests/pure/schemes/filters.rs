//! Filters that were imported, written down and read back, and hostile headers of them.

use everbloom::bloom::client::{BitOrder, ItemEncoding, Scheme, SchemeLayout, StringForm};
use everbloom::bloom::{Chain, Filter, Growth, LayerShape, NoPrefetch};
use everbloom::format::DecodeError;
use everbloom::format::client::GuavaHeader;
use everbloom::format::client::header::{CLIENT_HEADER_BYTES, ClientChain, decode};
use everbloom::format::filter::{from_header, header, load_chunk, piece};
use everbloom::format::pieces::Trust;

use super::vectors::{System, system, systems};

const LIMIT_BYTES: u64 = 1 << 30;

fn built(header: &[u8], limit_bytes: u64) -> Result<ClientChain, DecodeError> {
    decode(header, &limit_bytes)?.build().map(|(chain, _)| chain)
}

/// The recorded bitmap, grown by layers of our own.
fn grown(system: &System) -> Filter {
    let layout = system.layout_of(&system.json["bitmap"]);
    let string = system.string("/bitmap/redis_string_b64");
    let (form, bits) = StringForm::read(&string, BitOrder::Msb, layout.array_bits()).unwrap();
    let growth = Growth::Scaling { expansion: 2 };
    let chain = Chain::take_over(layout, form, bits, 10, 0.01, growth).unwrap();
    let mut filter = Filter::Client(Box::new(chain));
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
        assert!(filter.storages().map(|bits| bits.bytes()).eq(copy.storages().map(|bits| bits.bytes())));
    }
}

#[test]
fn the_limit_counts_the_clients_array_and_every_layer_behind_it() {
    for system in systems() {
        let layout = system.layout_of(&system.json["bitmap"]);
        let string = system.string("/bitmap/redis_string_b64");
        let (form, bits) = StringForm::read(&string, BitOrder::Msb, layout.array_bits()).unwrap();
        let chain = Chain::take_over(layout, form, bits, 10, 0.01, Growth::Fixed).unwrap();
        let alone = Filter::Client(Box::new(chain));
        for filter in [alone, grown(&system)] {
            let bytes = header(&filter);
            let arrays: Vec<u64> = filter.storages().map(|bits| bits.size_bytes()).collect();
            let sum_bytes: u64 = arrays.iter().sum();
            let refusal = |limit_bytes: u64| built(&bytes, limit_bytes).unwrap_err();
            // Whatever a filter takes beside its arrays: it says so itself.
            let DecodeError::TooLarge { needed_bytes, .. } = refusal(0) else { panic!("{}", system.name) };
            assert!(needed_bytes >= sum_bytes, "{}: {needed_bytes} for {arrays:?}", system.name);
            for spared in arrays.into_iter().chain([1]) {
                let limit_bytes = needed_bytes - spared;
                let expected = DecodeError::TooLarge { needed_bytes, limit_bytes };
                assert_eq!(refusal(limit_bytes), expected, "{}", system.name);
            }
            assert!(built(&bytes, needed_bytes).is_ok(), "{}", system.name);
        }
    }
}

#[test]
fn every_altered_header_is_refused_or_says_the_same_when_written_again() {
    let mut refused = 0;
    for system in systems() {
        let bytes = header(&grown(&system));
        for length in 0..bytes.len() {
            assert!(built(&bytes[..length], LIMIT_BYTES).is_err(), "cut at {length}");
        }
        for place in 0..bytes.len() {
            for value in [0, 1, 2, 9, 10, 127, 128, 255] {
                let mut altered = bytes.clone();
                altered[place] = value;
                match built(&altered, LIMIT_BYTES) {
                    Err(_) => refused += 1,
                    Ok(chain) => {
                        // Bits are clear here, so the count of set bits is not what the header said.
                        let again = header(&Filter::Client(Box::new(chain)));
                        let kept = CLIENT_HEADER_BYTES - 8;
                        assert_eq!(again[..kept], altered[..kept], "byte {place} = {value}");
                    }
                }
            }
        }
    }
    assert!(refused > 1000, "{refused}");
}

#[test]
fn the_order_of_guavas_longs_is_read_only_with_what_guava_can_have_made() {
    const SCHEME: usize = 24;
    const ORDER: usize = 26;
    const SHIFT: usize = 27;
    const SIZE_BITS: usize = 32;
    const SET_BITS: usize = 72;
    let blob = system("guava-mitz64").string("/guava_writeTo_b64");
    let (parameters, form, bits) = GuavaHeader::read(&blob, ItemEncoding::Raw).unwrap();
    let layout = SchemeLayout::new(parameters).unwrap();
    let chain = Chain::take_over(layout, form, bits, 10, 0.01, Growth::Fixed).unwrap();
    let bytes = header(&Filter::Client(Box::new(chain)));
    let read = |altered: &[u8]| built(altered, LIMIT_BYTES).map(|_| ());
    assert_eq!((bytes[ORDER], read(&bytes)), (BitOrder::BigEndianWords.id(), Ok(())));
    for (place, value, can_be_guavas) in [
        (SCHEME, Scheme::GuavaMitz32.id(), true),
        (SCHEME, Scheme::CsharpNetfxMitz64.id(), false),
        (SCHEME, Scheme::Redisson.id(), false),
        (SHIFT, 1, false),
        // 110 longs before: 7040 bits.
        (SIZE_BITS, bytes[SIZE_BITS] ^ 64, true),
        (SIZE_BITS, bytes[SIZE_BITS] ^ 1, false),
    ] {
        let mut altered = bytes.clone();
        altered[place] = value;
        // A shift leaves room for fewer bits.
        altered[SET_BITS..].fill(0);
        let expected = if can_be_guavas { Ok(()) } else { Err(DecodeError::Invalid("bit order")) };
        assert_eq!(read(&altered), expected, "byte {place} = {value}");
        altered[ORDER] = BitOrder::Msb.id();
        assert_eq!(read(&altered), Ok(()), "byte {place} = {value}");
    }
}

#[test]
fn layers_of_our_own_keep_the_promise_among_themselves() {
    let Filter::Client(chain) = grown(&system("go-zero")) else { panic!("an imported filter") };
    let shapes: Vec<LayerShape> = chain.own_layers().map(|(shape, _)| shape).collect();
    // 3/4 of 0.01, then half of what is left, and so on; capacities from 10 on.
    let expected = [(20, 0.0075), (40, 0.00125), (80, 0.000_625)]
        .map(|(capacity_items, error_rate)| LayerShape::sized(capacity_items, error_rate));
    assert_eq!(shapes, expected[..shapes.len()]);
    assert!(shapes.len() >= 2, "{shapes:?}");
}
