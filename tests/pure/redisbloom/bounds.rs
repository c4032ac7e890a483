//! Fields at and above their limits are refused by name, or accepted and kept as older releases wrote them. Chunks are
//! saved and loaded at their positions.

use everbloom_filter::filter::policy::redisbloom::RedisBloomOptions;
use everbloom_filter::limits::{LAYERS_MAX, PROBES_TOTAL_MAX};
use everbloom_filter::{AddError, Added, Filter, Footprint, ReserveError};
use everbloom_format::DecodeError;
use everbloom_format::chunks::ChunkError;
use everbloom_format::contents::CHUNK_BYTES;

use super::hostile::{LIMIT_BYTES, bases};
use super::{add, chunk, from_header, load, load_chunk, read};
use crate::support::make::{self, ANY, contains, redisbloom, set_bits};
use crate::support::saved::saved;
use crate::support::{Field, Record};

#[test]
fn values_that_break_redisbloom_are_refused_by_name() {
    let (_, record) = bases().swap_remove(0);
    let layers = load(&record, 4);
    let (first_bits, rest_items) = (layers.layers()[0].bits().size_bits(), layers.items() - 6);
    let refused = |changes: &[(usize, Field)]| {
        let mut altered = record.clone();
        for (index, field) in changes {
            altered.0[*index] = field.clone();
        }
        read(&altered, 4, LIMIT_BYTES).map(|_| ()).unwrap_err()
    };
    let unsigned = |index, value| (index, Field::Unsigned(value));
    let double = |index, value| (index, Field::Double(value));
    // Filter: items, layers, options, growth. Layer: capacity, error rate, probes, bits per item, bits, exponent,
    // array, items.
    for (changes, field) in [
        (&[unsigned(1, 0)][..], "layer count"),
        (&[unsigned(1, LAYERS_MAX as u64 + 1)], "layer count"),
        (&[unsigned(3, 1 << 32)], "growth"),
        (&[unsigned(4, 0)], "capacity"),
        (&[unsigned(4, u64::MAX)], "capacity"),
        (&[double(5, f64::NAN)], "error rate"),
        (&[double(5, 0.0)], "error rate"),
        (&[double(5, 1.0)], "error rate"),
        // 2^31 probes, which would block a server for seconds per item.
        (&[unsigned(6, 1 << 31), double(7, f64::NAN)], "bits per item"),
        (&[unsigned(6, 1 << 31), double(7, 3.1e9)], "bits per item"),
        // One more than allowed, and a number that RedisBloom truncates to a valid one.
        (&[unsigned(6, 2049), double(7, 2955.0)], "bits per item"),
        (&[unsigned(6, (1 << 32) + 5)], "probes"),
        (&[unsigned(6, 0), double(7, 0.0)], "bits per item"),
        (&[unsigned(8, 0)], "size in bits"),
        (&[unsigned(8, 128)], "size of the bit array"),
        (&[unsigned(8, 56)], "size of the bit array"),
        (&[unsigned(9, 64)], "binary logarithm of the bits"),
        (&[unsigned(9, 256)], "binary logarithm of the bits"),
        (&[unsigned(9, 7)], "size in bits"),
        (&[unsigned(8, 0), unsigned(9, 7)], "size of the bit array"),
        (&[(10, Field::Bytes(vec![0; 7]))], "size of the bit array"),
        (&[(10, Field::Bytes(vec![]))], "size of the bit array"),
        (&[unsigned(0, 41)], "items"),
        (&[unsigned(11, u64::MAX)], "items of the layers"),
        (&[unsigned(0, 1 << 63), unsigned(11, (1 << 63) - rest_items)], "items of the layers"),
        (&[unsigned(11, first_bits + 1)], "items"),
    ] {
        assert_eq!(refused(changes), DecodeError::Invalid(field), "{changes:?}");
    }
    assert_eq!(refused(&[unsigned(2, 16)]), DecodeError::Unsupported { what: "options", got: 16 });
    assert_eq!(refused(&[unsigned(2, 261)]), DecodeError::Unsupported { what: "options", got: 261 });
    assert_eq!(
        refused(&[unsigned(8, 1 << 40)]),
        DecodeError::TooLarge {
            needed_bytes: Footprint::default().and_layer(1 << 37, 5).needed_bytes(),
            limit: LIMIT_BYTES.into()
        }
    );
    assert_eq!(
        read(&record, 5, ANY).map(|_| ()).unwrap_err(),
        DecodeError::Unsupported { what: "encoding version", got: 5 }
    );
}

#[test]
fn values_of_older_releases_are_accepted_and_kept() {
    let (_, record) = bases().swap_remove(0);
    let Field::Bytes(bytes) = &record.0[10] else { panic!("the array") };
    assert_eq!(bytes.len(), 8);
    for changes in [
        // The exponent without the number of bits or with it. The array may be longer than 2^exponent bits.
        &[(8, Field::Unsigned(0)), (9, Field::Unsigned(6))][..],
        &[(8, Field::Unsigned(0)), (9, Field::Unsigned(5))],
        &[(9, Field::Unsigned(6))],
        &[(9, Field::Unsigned(3))],
        // Bits that do not fill the last byte, or the last word.
        &[(8, Field::Unsigned(57))],
        &[(8, Field::Unsigned(40)), (10, Field::Bytes(vec![1; 5]))],
        // Capacities and rates that current commands refuse.
        &[(4, Field::Unsigned(1 << 31))],
        &[(5, Field::Double(0.9))],
        // The most probes of a layer.
        &[(6, Field::Unsigned(2048)), (7, Field::Double(2954.0))],
        // More items than the capacity: the layer is full.
        &[(4, Field::Unsigned(1))],
        &[(3, Field::Unsigned(0))],
        &[(3, Field::Unsigned(u64::from(u32::MAX)))],
    ] {
        let mut altered = record.clone();
        for (index, field) in changes {
            altered.0[*index] = field.clone();
        }
        let mut chain = load(&altered, 4);
        assert_eq!(saved(&chain), altered, "{changes:?}");
        let from_header = from_header(&chunk(&chain, 0).unwrap().data, ANY).unwrap();
        assert_eq!(chunk(&from_header, 0), chunk(&chain, 0), "{changes:?}");
        if altered.0[3] == record.0[3] {
            add(&mut chain, b"one more");
            assert!(contains(&chain, b"one more"), "{changes:?}");
        }
    }
}

/// RedisBloom accepts any number of items, so its snapshots and dumps may have more than a layer can have taken.
#[test]
fn a_layer_with_more_items_than_bits_counts_its_bits() {
    let (_, record) = bases().swap_remove(0);
    let before = load(&record, 4);
    let (bits, first_items) = (before.layers()[0].bits().size_bits(), before.layers()[0].counts().items);
    let most = u64::MAX >> 1;
    for items in [bits, bits + 1, most - (before.items() - first_items)] {
        let mut altered = record.clone();
        altered.0[0] = Field::Unsigned(before.items() - first_items + items);
        altered.0[11] = Field::Unsigned(items);
        let mut chain = load(&altered, 4);
        assert_eq!(chain.items(), before.items() - first_items + bits, "{items}");
        assert_eq!(chain.layers()[0].bits().bytes(), before.layers()[0].bits().bytes());
        // The saved filter is consistent, and loads unchanged.
        assert_eq!(saved(&load(&saved(&chain), 4)), saved(&chain));
        let mut header = chunk(&before, 0).unwrap().data.into_owned();
        header[..8].copy_from_slice(&(before.items() - first_items + items).to_le_bytes());
        header[20 + 16..20 + 24].copy_from_slice(&items.to_le_bytes());
        let from_header = from_header(&header, ANY).unwrap();
        assert_eq!(from_header.items(), chain.items(), "{items}");
        assert_eq!(chunk(&from_header, 0), chunk(&chain, 0));
        add(&mut chain, b"one more");
        assert!(contains(&chain, b"one more"));
    }
}

/// Returns the filter of BF.RESERVE with the highest error rate, a capacity of 1 and EXPANSION 1, grown as far as
/// possible.
fn longest() -> Filter {
    let mut chain = redisbloom(0.25, 1, RedisBloomOptions::SCALING, 1);
    for item in 0u32.. {
        if let Err(error) = make::add(&mut chain, &item.to_le_bytes()) {
            assert_eq!(error, AddError::CannotGrow(ReserveError::TooLong));
            break;
        }
    }
    chain
}

/// Returns the probes of an item over all layers.
fn probes(chain: &Filter) -> u64 {
    chain.layers().iter().map(|layer| u64::from(layer.layout().probes())).sum()
}

#[test]
fn the_longest_filter_that_redisbloom_makes_loads_and_grows() {
    let chain = longest();
    // The filter grows until its rate cannot be halved again. No filter that commands of RedisBloom create gets longer.
    assert_eq!((chain.layer_count(), probes(&chain)), (1072, 578_344));
    let record = saved(&chain);
    assert_eq!(saved(&load(&record, 4)), record);
    let header = chunk(&chain, 0).unwrap().data;
    assert_eq!(from_header(&header, ANY).unwrap().layer_count(), 1072);
    // Without its last layer it grows to the same filter again.
    let mut shorter = record.clone();
    shorter.0.truncate(record.0.len() - 8);
    shorter.0[0] = Field::Unsigned(1071);
    shorter.0[1] = Field::Unsigned(1071);
    let mut grown = load(&shorter, 4);
    // Nearly every item is a false positive then, because the arrays have only a few words.
    let mut items = (0..1_000_000u32).map(u32::to_le_bytes);
    assert!(items.any(|item| add(&mut grown, &item) == Added::New));
    assert_eq!((grown.layer_count(), probes(&grown)), (1072, 578_344));
}

/// Returns a snapshot of `layers` layers of 2048 probes each, each full with one item.
fn many_probes(layers: u64) -> Record {
    let (_, record) = bases().swap_remove(0);
    let (chain, rest) = record.0.split_at(4);
    let mut layer = rest[..8].to_vec();
    layer[0] = Field::Unsigned(1);
    layer[2] = Field::Unsigned(2048);
    layer[3] = Field::Double(2954.0);
    layer[7] = Field::Unsigned(1);
    let mut fields = chain.to_vec();
    fields[0] = Field::Unsigned(layers);
    fields[1] = Field::Unsigned(layers);
    (0..layers).for_each(|_| fields.extend(layer.iter().cloned()));
    Record(fields)
}

#[test]
fn the_probes_of_all_layers_are_limited() {
    let most_layers = PROBES_TOTAL_MAX / 2048;
    let too_many = many_probes(most_layers + 1);
    let refused = DecodeError::Invalid("probes of all layers");
    assert_eq!(read(&too_many, 4, ANY).map(|_| ()).unwrap_err(), refused);
    let mut chain = load(&many_probes(most_layers), 4);
    assert_eq!(probes(&chain), PROBES_TOTAL_MAX);
    let header = chunk(&chain, 0).unwrap().data;
    assert!(from_header(&header, ANY).is_ok());
    let mut longer = [&header[..], &header[header.len() - 53..]].concat();
    longer[..8].copy_from_slice(&(most_layers + 1).to_le_bytes());
    longer[8..12].copy_from_slice(&(most_layers as u32 + 1).to_le_bytes());
    assert_eq!(from_header(&longer, ANY).unwrap_err(), refused);
    // It accepts commands, and does not grow.
    let refusals = (0..100u8)
        .filter(|item| make::add(&mut chain, &[*item]) == Err(AddError::CannotGrow(ReserveError::TooLong)));
    assert!(refusals.count() > 50);
    // With one layer less it can grow by one.
    let mut chain = load(&many_probes(most_layers - 1), 4);
    (0..100u8).for_each(|item| {
        let _ = make::add(&mut chain, &[item]);
    });
    assert!(chain.layer_count() as u64 >= most_layers);
}

/// Returns a filter with three layers of 8, 16 and 40 bytes.
fn small() -> Filter {
    let mut chain = redisbloom(0.2, 10, RedisBloomOptions::SCALING, 2);
    for i in 0..40 {
        add(&mut chain, format!("{i}").as_bytes());
    }
    let sizes: Vec<u64> = chain.layers().iter().map(|layer| layer.bits().size_bytes()).collect();
    assert_eq!(sizes, [8, 16, 40]);
    chain
}

#[test]
fn chunks_follow_each_other_and_begin_anywhere() {
    let chain = small();
    let ends: Vec<u64> =
        std::iter::successors(Some(0), |iterator| chunk(&chain, *iterator).map(|chunk| chunk.next_iterator))
            .collect();
    assert_eq!(ends, [0, 1, 9, 25, 65]);
    assert_eq!(chunk(&chain, 65), None);
    assert_eq!(chunk(&chain, u64::MAX), None);
    // From the middle of a layer to its end.
    let from_the_middle = chunk(&chain, 12).unwrap();
    assert_eq!(from_the_middle.next_iterator, 25);
    assert_eq!(*from_the_middle.data, chain.layers()[1].bits().bytes()[3..]);
}

#[test]
fn chunks_are_loaded_at_their_iterator() {
    let mut chain = small();
    let before = saved(&chain);
    for (iterator, data, expected) in [
        (0, &[][..], Err(ChunkError::BadData)),
        (0, &[1][..], Err(ChunkError::BadData)),
        (1, &[1, 2][..], Err(ChunkError::BadData)),
        (1, &[], Ok(())),
        (1, &[1], Err(ChunkError::BeyondEnd)),
        (2, &[1, 2], Err(ChunkError::BeyondEnd)),
        (65, &[], Err(ChunkError::BeyondEnd)),
        (66, &[1], Err(ChunkError::BeyondEnd)),
        (u64::MAX, &[1], Err(ChunkError::BeyondEnd)),
        // One byte after the end of the first and of the last layer.
        (10, &[0; 9], Err(ChunkError::TooBig)),
        (66, &[0; 41], Err(ChunkError::TooBig)),
    ] {
        assert_eq!(load_chunk(&mut chain, iterator, data), expected, "{iterator} {}", data.len());
        assert_eq!(saved(&chain), before, "{iterator}");
    }
    // The bits are merged with the existing ones. RedisBloom overwrites them, and loses items that were added
    // meanwhile.
    let mut expected = bytes_of(&chain);
    assert_eq!(load_chunk(&mut chain, 9, &[0; 8]), Ok(()));
    assert_eq!(load_chunk(&mut chain, 11, &[7, 9]), Ok(()));
    expected[8] |= 7;
    expected[9] |= 9;
    assert_eq!(bytes_of(&chain), expected);
    assert_eq!(set_bits(&chain), expected.iter().map(|byte| u64::from(byte.count_ones())).sum::<u64>());
}

/// Returns the bit arrays one after another.
fn bytes_of(chain: &Filter) -> Vec<u8> {
    chain.layers().iter().flat_map(|layer| layer.bits().bytes().to_vec()).collect()
}

#[test]
fn large_layers_come_in_chunks_of_sixteen_mebibytes() {
    let mut chain = redisbloom(0.01, 30_000_000, RedisBloomOptions::SCALING, 2);
    for i in 0..1000 {
        add(&mut chain, format!("{i}").as_bytes());
    }
    let mut copy = from_header(&chunk(&chain, 0).unwrap().data, ANY).unwrap();
    let mut lengths = Vec::new();
    let mut iterator = 1;
    while let Some(chunk) = chunk(&chain, iterator) {
        iterator = chunk.next_iterator;
        lengths.push(chunk.data.len());
        load_chunk(&mut copy, iterator, &chunk.data).unwrap();
    }
    let rest = chain.layers()[0].bits().bytes().len() - 2 * CHUNK_BYTES;
    assert_eq!(lengths, [CHUNK_BYTES, CHUNK_BYTES, rest]);
    assert!(saved(&copy) == saved(&chain));
}
