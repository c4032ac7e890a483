//! The chunks of BF.SCANDUMP: all chunks of a dump recreate the filter, and other chunks are refused.

use everbloom_filter::filter::loading::{FilterValue, LoadingFilter};
use everbloom_filter::hash::murmur3::hash128;
use everbloom_filter::table::{DumpedSegment, POSITIONS, TableLoad};
use everbloom_filter::{DumpId, Filter, Format, GrowthBudget, ItemHash, UnknownMemory};
use everbloom_format::chunks::{ChunkError, Rewritten, TRAILER_BYTES, Trust, first_iterator};
use everbloom_format::filter::{chunk, header, rewrite};
use everbloom_format::value::{from_header, load_chunk};

use crate::support::make::{self, ANY, CLIENT, plain, promise, unreserved, valkey};
use crate::support::saved::{
    assert_same, assert_value_survives, chunks as dumped, complete, digested, digested_value, remade,
    validated,
};

/// Returns a filter of everbloom's own format with `items` items, whose names begin with `name`.
fn filter(error_rate: f64, capacity_items: u64, expansion: u32, name: &str, items: u64) -> Filter {
    let mut filter = plain(promise(error_rate, capacity_items, expansion));
    add(&mut filter, name, items);
    filter
}

fn add(filter: &mut Filter, name: &str, items: u64) {
    for item in 0..items {
        let _ = make::add(filter, format!("{name}-{item}").as_bytes()).unwrap();
    }
}

/// Returns a filter of several layers.
fn grown() -> Filter {
    let mut filter = chain();
    add(&mut filter, "grown", 100);
    filter
}

/// Returns an empty filter that grows by layers.
fn chain() -> Filter {
    valkey(promise(0.001, 10, 2))
}

/// Returns a filter of a layer and a table.
fn outgrown() -> Filter {
    filter(0.001, 10, 2, "outgrown", 100)
}

/// Returns a filter with only a table.
fn table() -> Filter {
    let mut filter = plain(unreserved(0.01, 100, 2));
    add(&mut filter, "table", 20_000);
    filter
}

fn load(value: &mut FilterValue, (iterator, data): &(u64, Vec<u8>)) -> Result<bool, ChunkError> {
    load_chunk(value, *iterator, data, CLIENT, &ANY)
}

#[test]
fn a_dump_is_cut_at_16_mib_and_between_parts() {
    let large = filter(0.01, 30_000_000, 0, "large", 10);
    let size_bytes = large.layers()[0].bits().size_bytes();
    let iterators: Vec<u64> = dumped(&large, 1).into_iter().map(|(iterator, _)| iterator).collect();
    let positions = [0, 16 << 20, 32 << 20, size_bytes];
    assert_eq!(iterators, positions.map(|position| first_iterator(1) + position));
    let grown = grown();
    let chunks = dumped(&grown, 1);
    let mut end = first_iterator(1);
    for (layer, (iterator, data)) in grown.layers().iter().zip(&chunks[1..]) {
        let bits = layer.bits();
        end += bits.size_bytes();
        assert_eq!((*iterator, data.len() as u64), (end, bits.size_bytes() + TRAILER_BYTES as u64));
    }
    let outgrown = outgrown();
    let chunks = dumped(&outgrown, 1);
    let end = first_iterator(1) + outgrown.layers()[0].bits().size_bytes();
    assert_eq!(chunks.len(), 3);
    assert_eq!((chunks[1].0, chunks[2].0), (end, end + POSITIONS));
}

#[test]
fn a_damaged_or_misplaced_chunk_changes_nothing() {
    [grown(), outgrown()].iter_mut().for_each(assert_refuses_damaged_chunks);
}

fn assert_refuses_damaged_chunks(source: &mut Filter) {
    let chunks = dumped(source, 3);
    let mut target = from_header(&chunks[0].1, &ANY).unwrap();
    let before = digested_value(&target);
    for (iterator, data) in &chunks[1..] {
        for length in 0..data.len() {
            assert!(load(&mut target, &(*iterator, data[..length].to_vec())).is_err(), "cut to {length}");
        }
        for at in 0..data.len() {
            let mut altered = data.clone();
            altered[at] ^= 0x10;
            assert_eq!(load(&mut target, &(*iterator, altered)), Err(ChunkError::BadData), "byte {at}");
        }
        for (other, _) in chunks.iter().filter(|(other, _)| other != iterator) {
            assert!(load(&mut target, &(*other, data.clone())).is_err());
        }
        for wrong in [0, 1, 2, first_iterator(3), iterator + 8, iterator - 8, u64::MAX] {
            assert!(load(&mut target, &(wrong, data.clone())).is_err());
        }
        // Headers and chunks are not interchangeable.
        for near in iterator - 2..iterator + 2 {
            assert!(load_chunk(&mut target, near, &chunks[0].1, Trust::Sender, &ANY).is_err());
        }
        assert!(from_header(data, &ANY).is_err());
    }
    for at in 0..chunks[0].1.len() {
        let mut altered = chunks[0].1.clone();
        altered[at] ^= 1;
        assert!(from_header(&altered, &ANY).is_err());
        assert!(from_header(&chunks[0].1[..at], &ANY).is_err());
    }
    let empty = (first_iterator(3), sealed(&[], first_iterator(3), 3));
    assert_eq!(load(&mut target, &empty), Err(ChunkError::BadData), "an empty chunk at the header");
    assert!(digested_value(&target) == before);
}

/// Every chunk of another dump gives the same error, even if it is longer than the target or begins after its end.
#[test]
fn a_chunk_of_another_dump_is_refused_as_such_at_every_place() {
    let mut sources = [
        grown(),
        outgrown(),
        table(),
        filter(0.01, 100_000, 0, "long", 500),
        filter(0.01, 100_000, 0, "equal", 500),
        filter(0.3, 1, 0, "one", 1),
    ];
    let dumps: Vec<_> = (1..).zip(&mut sources).map(|(id, source)| dumped(source, id)).collect();
    for (target, of_target) in dumps.iter().enumerate() {
        let mut filter = from_header(&of_target[0].1, &ANY).unwrap();
        let before = digested_value(&filter);
        for (source, of_source) in dumps.iter().enumerate().filter(|(source, _)| *source != target) {
            for chunk in &of_source[1..] {
                let outcome = load(&mut filter, chunk);
                assert_eq!(outcome, Err(ChunkError::OtherDump), "{source} into {target}: {}", chunk.0);
            }
        }
        assert!(digested_value(&filter) == before);
    }
}

/// A primary or an append-only file has verified the dump id of a chunk, so [`Trust::Sender`] does not compare it with
/// that of the filter. The chunk must still fit.
#[test]
fn a_chunk_that_does_not_fit_is_refused_from_a_trusted_sender_too() {
    let dump = dumped(&filter(0.01, 1000, 0, "a", 500), 5);
    let shorter = filter(0.01, 500, 0, "b", 0);
    let shortest = filter(0.3, 1, 0, "c", 0);
    for mut target in [shorter, shortest].map(FilterValue::Complete) {
        let before = digested_value(&target);
        let outcome = load_chunk(&mut target, dump[1].0, &dump[1].1, Trust::Sender, &ANY);
        assert_eq!(outcome, Err(ChunkError::BadData));
        assert!(digested_value(&target) == before);
    }
    let grown = grown();
    let chunks = dumped(&grown, 6);
    let mut first_layer_only = FilterValue::Complete(chain());
    let load = |value: &mut FilterValue, index: usize| {
        let (iterator, data): &(u64, Vec<u8>) = &chunks[index];
        load_chunk(value, *iterator, data, Trust::Sender, &ANY)
    };
    assert_eq!(load(&mut first_layer_only, 1), Ok(true));
    for index in 2..chunks.len() {
        assert_eq!(load(&mut first_layer_only, index), Err(ChunkError::BadData), "behind the last layer");
    }
    assert_eq!(set_bits(&complete(first_layer_only)), set_bits(&grown)[..1]);
}

fn set_bits(filter: &Filter) -> Vec<u64> {
    filter.layers().iter().map(|layer| layer.counts().set_bits).collect()
}

/// Returns the chunks or the blob that a rewritten append-only file has for the filter. A blob has the iterator 0.
fn rewritten_chunks(filter: &Filter, fresh: u64) -> Vec<(u64, Vec<u8>)> {
    let mut chunks = Vec::new();
    rewrite(filter, UnknownMemory, fresh, &mut |command| match command {
        Rewritten::Chunk { iterator, data } => chunks.push((iterator, data.to_vec())),
        Rewritten::Blob(blob) => chunks.push((0, blob.to_vec())),
        Rewritten::CuckooChunk { .. } | Rewritten::Payload(_) => panic!("not of a filter"),
    })
    .unwrap();
    chunks
}

#[test]
fn a_rewritten_file_omits_clear_chunks() {
    for filter in [
        filter(0.01, 100, 2, "few", 60),
        filter(0.05, 123, 0, "none", 0),
        outgrown(),
        table(),
        plain(unreserved(0.01, 100, 2)),
    ] {
        let chunks = rewritten_chunks(&filter, 7);
        let occupied = set_bits(&filter).into_iter().filter(|set| *set > 0).count();
        assert_eq!(chunks.len(), 1 + occupied + usize::from(filter.table().is_some()));
        // The server may load the file, or a client may send it to another server.
        for trust in [Trust::Sender, CLIENT] {
            let mut again = from_header(&chunks[0].1, &ANY).unwrap();
            for (iterator, data) in &chunks[1..] {
                load_chunk(&mut again, *iterator, data, trust, &ANY).unwrap();
            }
            assert!(digested(&complete(again)) == digested(&filter));
        }
        // A chunk of another rewrite belongs to another dump.
        let other = rewritten_chunks(&filter, 8);
        if let Some(chunk) = chunks.get(1) {
            assert_eq!(load(&mut from_header(&other[0].1, &ANY).unwrap(), chunk), Err(ChunkError::OtherDump));
        }
    }
    // The second of three chunks has no set bit.
    let mut filter = plain(promise(0.01, 30_000_000, 0));
    assert!([0, 33 << 20].iter().all(|offset| filter.add_bytes(0, *offset, &[1]).is_some()));
    let iterators: Vec<u64> =
        rewritten_chunks(&filter, 7).into_iter().map(|(iterator, _)| iterator).collect();
    assert_eq!(iterators.len(), 3);
    assert_eq!(iterators[1], iterators[0] + (16 << 20));
}

/// Lua writes a number with 14 digits.
#[test]
fn iterators_have_at_most_14_digits() {
    const LAYERS_BYTES: u64 = 10 << 40;
    for id in [0, 1, 1 << 46, (1 << 46) - 1, u64::MAX] {
        let end = first_iterator(id) + LAYERS_BYTES + POSITIONS;
        assert!(end < 10u64.pow(14), "{id}: {end}");
        assert_eq!(first_iterator(id), (1 << 44) + id % (1 << 46));
    }
    let source = outgrown();
    let last = dumped(&source, u64::MAX).pop().unwrap().0;
    assert_eq!(last, first_iterator(u64::MAX) + source.layers_end() + POSITIONS);
}

/// An iterator of an ended dump can be one of the next dump. The chunk then has the id of the next dump.
#[test]
fn a_chunk_for_an_iterator_of_an_ended_dump_is_refused_by_the_copy() {
    let mut source = table();
    let chunks = dumped(&source, 4);
    let mut copy = from_header(&chunks[0].1, &ANY).unwrap();
    add(&mut source, "later", 1);
    let stale = chunks[0].0;
    assert_eq!(stale, first_iterator(3) + 1);
    let chunk = chunk(&source, Some(source.dump_as(3)), stale).unwrap().unwrap();
    let before = digested_value(&copy);
    assert_eq!(load(&mut copy, &(chunk.next_iterator, chunk.data.into_owned())), Err(ChunkError::OtherDump));
    assert!(digested_value(&copy) == before);
}

/// Returns a header with its dump id and checksum, as docs/formats.md describes them.
pub(super) fn header_chunk(payload: &[u8], id: DumpId) -> Vec<u8> {
    sealed(payload, (1 << 44) + id % (1 << 46), id)
}

/// Returns a chunk with its dump id and checksum.
fn sealed(payload: &[u8], iterator: u64, id: DumpId) -> Vec<u8> {
    let ItemHash { h1, h2 } = hash128(payload);
    let words: Vec<u8> = [h1, h2, iterator, id].iter().flat_map(|word| word.to_le_bytes()).collect();
    let ItemHash { h1, h2 } = hash128(&words);
    [payload, &id.to_le_bytes(), &h1.to_le_bytes(), &h2.to_le_bytes()].concat()
}

#[test]
fn the_checksum_is_as_documented() {
    let filter = grown();
    let chunk = chunk(&filter, Some(filter.dump_as(5)), 0).unwrap().unwrap().data;
    assert_eq!(header_chunk(&header(&filter), 5), *chunk);
}

#[test]
fn a_header_without_a_trailer_is_read_as_redisblooms() {
    let magic = u64::from_le_bytes(*b"evbl\x01\0\x01\0");
    assert_eq!(magic, 281_481_090_070_117);
    // One layer of 8 bytes with a capacity of 2^50. The items of the filter and of the layer are the number `magic`.
    let mut bytes = magic.to_le_bytes().to_vec();
    for field in [1u32, 5, 2] {
        bytes.extend(field.to_le_bytes());
    }
    for field in [8u64, 64, magic, 0.005f64.to_bits(), 11.027_753_418_256_411_f64.to_bits()] {
        bytes.extend(field.to_le_bytes());
    }
    bytes.extend(8u32.to_le_bytes());
    bytes.extend((1u64 << 50).to_le_bytes());
    bytes.push(0);
    // The header is read as RedisBloom's. The layer counts as many items as it has bits, because its array cannot have
    // taken more.
    let filter = complete(from_header(&bytes, &ANY).unwrap());
    assert_eq!((filter.format(), filter.items()), (Format::RedisBloom, 64));
}

/// A chunk of a table says where it begins, its iterator says where it ends, and every segment in it is between.
#[test]
fn a_chunk_of_a_table_that_does_not_fit_its_iterator_is_refused() {
    let source = table();
    let chunks = dumped(&source, 4);
    let payload = &chunks[1].1[..chunks[1].1.len() - TRAILER_BYTES];
    let mut copy = from_header(&chunks[0].1, &ANY).unwrap();
    let before = digested_value(&copy);
    let mut load = |end: u64, payload: &[u8]| {
        let iterator = first_iterator(4) + end;
        load_chunk(&mut copy, iterator, &sealed(payload, iterator, 4), CLIENT, &ANY)
    };
    assert_eq!(payload[..8], [0; 8], "the chunk begins at position 0");
    let torn = payload[..payload.len() - 8].to_vec();
    let reserved = [&payload[..18], &[1], &payload[19..]].concat();
    let depth = [&payload[..16], &[31], &payload[17..]].concat();
    let number = [&payload[..8], &[0xff; 4], &payload[12..]].concat();
    let stamp = [&payload[..24], &[1], &payload[25..]].concat();
    let after_end = [&(POSITIONS + 1).to_le_bytes(), &payload[8..]].concat();
    for payload in [&torn, &reserved, &depth, &number, &stamp, &after_end, &vec![0; 7]] {
        assert_eq!(load(POSITIONS, payload), Err(ChunkError::BadData));
    }
    let empty = 0u64.to_le_bytes();
    assert_eq!(load(0, &empty), Err(ChunkError::BadData));
    for end in [1, POSITIONS / 2, POSITIONS + 1] {
        assert_eq!(load(end, payload), Err(ChunkError::BadData), "{end}");
    }
    assert_eq!(load(POSITIONS + 1, &empty), Err(ChunkError::BadData));
    assert!(digested_value(&copy) == before);
}

/// A chunk that exceeds the limit changes nothing, and can be loaded when there is more room.
#[test]
fn a_chunk_of_a_table_is_refused_if_there_is_no_room() {
    let source = table();
    let chunks = dumped(&source, 4);
    let mut copy = from_header(&chunks[0].1, &ANY).unwrap();
    let (before, empty_bytes) = (digested_value(&copy), copy.size_bytes());
    let needed_bytes = source.size_bytes() + empty_bytes;
    for limit_bytes in [empty_bytes, source.size_bytes() / 2, source.size_bytes() - 1] {
        let refused = load_chunk(&mut copy, chunks[1].0, &chunks[1].1, CLIENT, &limit_bytes);
        assert!(matches!(refused, Err(ChunkError::NoRoom(_))), "{refused:?}");
        assert!(digested_value(&copy) == before);
    }
    load_chunk(&mut copy, chunks[1].0, &chunks[1].1, CLIENT, &needed_bytes).unwrap();
    assert!(digested(&validated(complete(copy))) == digested(&source));
}

/// Returns the chunks of a dump with one segment of the table in each.
pub(super) fn in_small_chunks(filter: &mut Filter, id: DumpId) -> Vec<(u64, Vec<u8>)> {
    let mut chunks = dumped(filter, id);
    let (_, table) = chunks.pop().unwrap();
    let layers_end = filter.layers_end();
    let (start, mut rest) = table[..table.len() - TRAILER_BYTES].split_at(8);
    let mut start = u64::from_le_bytes(start.try_into().unwrap());
    assert_eq!(start, layers_end);
    while !rest.is_empty() {
        let number = u32::from_le_bytes(rest[..4].try_into().unwrap());
        let words = u32::from_le_bytes(rest[4..8].try_into().unwrap()) as usize;
        let (segment, after) = rest.split_at(24 + words * 8);
        // Segments without entries are left out of a dump. The last chunk ends at the end of the dump.
        let of_segment = layers_end + u64::from(number.reverse_bits()) + (POSITIONS >> rest[8]);
        let end = if after.is_empty() { layers_end + POSITIONS } else { of_segment };
        let iterator = first_iterator(id) + end;
        chunks.push((iterator, sealed(&[&start.to_le_bytes(), segment].concat(), iterator, id)));
        (start, rest) = (end, after);
    }
    chunks
}

/// A filter of every kind that has a table, with its chunks, one segment in each.
fn dumps_of_tables() -> impl Iterator<Item = (&'static str, Filter, Vec<(u64, Vec<u8>)>)> {
    let full = |mut filter: Filter, rounds: u64| {
        for item in 0..20_000 * rounds {
            // The items of a window are of several generations.
            make::set_time(&mut filter, make::START_MS + item / 2);
            let _ = make::add(&mut filter, format!("{}", item % 20_000).as_bytes()).unwrap();
        }
        filter
    };
    let kinds = [
        ("small table", filter(0.01, 100, 2, "", 500)),
        ("table", full(plain(unreserved(0.01, 100, 2)), 1)),
        ("outgrown", full(plain(promise(0.01, 1000, 2)), 1)),
        ("counting", full(make::counting(promise(0.001, 100, 2)), 2)),
        ("window", full(make::window(promise(0.01, 1000, 2), 14_000), 1)),
        ("keyed window", full(make::keyed_window(promise(0.01, 30_000, 2), 14_000), 1)),
    ];
    kinds.into_iter().map(|(name, mut filter)| {
        let chunks = in_small_chunks(&mut filter, 9);
        assert!(chunks.len() > 3 || name == "small table", "{name}: {}", chunks.len());
        (name, filter, chunks)
    })
}

/// A filter may stay without its last chunks. Each copy of it is the same load, and takes the other chunks like it.
#[test]
fn a_load_survives_between_any_two_chunks() {
    for (name, source, chunks) in dumps_of_tables() {
        for is_reversed in [false, true] {
            let mut half = from_header(&chunks[0].1, &ANY).unwrap();
            let order = (1..chunks.len()).map(|at| if is_reversed { chunks.len() - at } else { at });
            let mut left: Vec<usize> = order.collect();
            while !left.is_empty() {
                let context = format!("{name}, {} of {} chunks left", left.len(), chunks.len());
                assert!(matches!(half, FilterValue::Loading(_)), "{context}");
                assert_value_survives(&half, &context);
                for (way, mut again) in remade(&half) {
                    // After a restart, the chunks come from the client, or from a primary.
                    for at in &left {
                        let (iterator, data) = &chunks[*at];
                        let trust = if is_reversed { CLIENT } else { Trust::Sender };
                        let loaded = load_chunk(&mut again, *iterator, data, trust, &ANY);
                        assert_eq!(loaded, Ok(true), "{context}, {way}: {at}");
                    }
                    assert_same(&source, &complete(again), &format!("{context}, {way}"));
                }
                assert_eq!(load(&mut half, &chunks[left.remove(0)]), Ok(true), "{context}");
            }
            assert_same(&source, &complete(half), name);
        }
    }
}

/// The chunk that is missing may be any one, and it completes the filter whenever it comes.
#[test]
fn the_chunk_that_completes_a_load_may_be_any() {
    for (name, source, chunks) in dumps_of_tables() {
        for missing in 1..chunks.len() {
            let mut value = from_header(&chunks[0].1, &ANY).unwrap();
            for (at, chunk) in chunks.iter().enumerate().skip(1).filter(|(at, _)| *at != missing) {
                assert_eq!(load(&mut value, chunk), Ok(true), "{name}: {at}");
                // It comes again, and changes nothing.
                let before = digested_value(&value);
                assert_eq!(load(&mut value, chunk), Ok(false), "{name}: {at} again");
                assert!(digested_value(&value) == before, "{name}: {at} again");
            }
            assert!(matches!(value, FilterValue::Loading(_)), "{name}: without {missing}");
            assert_eq!(load(&mut value, &chunks[missing]), Ok(true), "{name}: {missing}");
            // The last chunk may come again, others not.
            assert_eq!(load(&mut value, &chunks[missing]), Ok(false), "{name}: {missing} again");
            let other = if missing == 1 { chunks.len() - 1 } else { 1 };
            if other != missing {
                assert_eq!(load(&mut value, &chunks[other]), Err(ChunkError::Complete), "{name}: {other}");
            }
            assert_same(&source, &complete(value), name);
        }
    }
}

/// A client must not bring parts whose items would make all others expire, and no part may be later than any clock.
#[test]
fn a_load_tells_how_far_its_parts_are_ahead() {
    let mut source = make::window(promise(0.01, 1000, 2), 14_000);
    make::set_time(&mut source, make::START_MS);
    add(&mut source, "early", 500);
    let dump = source.dump_as(9);
    let header = dumped(&source, 9).remove(0).1;
    let later_ms = make::START_MS + 100 * 14_000;
    make::set_time(&mut source, later_ms);
    add(&mut source, "late", 500);
    // The first part is missing.
    let middle = first_iterator(9) + source.layers_end() + POSITIONS / 2;
    let chunk = chunk(&source, Some(dump), middle).unwrap().unwrap();
    let mut value = from_header(&header, &ANY).unwrap();
    assert!(!value.is_ahead_of(make::START_MS));
    assert_eq!(load_chunk(&mut value, chunk.next_iterator, &chunk.data, Trust::Sender, &ANY), Ok(true));
    assert!(matches!(value, FilterValue::Loading(_)));
    for (_, again) in remade(&value) {
        assert!(again.is_ahead_of(make::START_MS) && !again.is_ahead_of(later_ms));
    }
    let table = source.table().unwrap();
    for (stamp, is_accepted) in [(table.newest(), true), (u64::MAX - 20, false)] {
        let mut load = TableLoad::new(table.kind(), table.counts(), table.used_slots()).unwrap();
        let segment = DumpedSegment { stamp, ..table.segment_at(0).unwrap().unwrap().0 };
        load.add(vec![segment], u64::MAX, &GrowthBudget::new(&ANY)).unwrap();
        let empty = source.try_emptied(&ANY).unwrap();
        let made = LoadingFilter::from_parts(empty, &header, 9, load, std::iter::once(0..POSITIONS / 2));
        assert_eq!(made.is_ok(), is_accepted, "{stamp}");
    }
}
