//! The chunks of BF.SCANDUMP: all chunks of a dump recreate the filter, and other chunks are refused.

use everbloom::bloom::hash::murmur3::hash128;
use everbloom::bloom::{DumpId, Filter, Format, ItemHash, NoPrefetch, UnknownMemory};
use everbloom::format::chunks::Rewritten;
use everbloom::format::chunks::{ChunkError, DumpError, TRAILER_BYTES, Trust, first_iterator};
use everbloom::format::filter::{chunk, from_header, header, load_chunk, rewrite};

use crate::support::make::{ANY, cells_of, plain, promise};

/// Returns a filter of everbloom's own format with `items` items, whose names begin with `name`.
fn filter(error_rate: f64, capacity_items: u64, expansion: u32, name: &str, items: u64) -> Filter {
    let mut filter = plain(promise(error_rate, capacity_items, expansion));
    add(&mut filter, name, items);
    filter
}

fn add(filter: &mut Filter, name: &str, items: u64) {
    for item in 0..items {
        filter.add(format!("{name}-{item}").as_bytes(), &ANY, NoPrefetch).unwrap();
    }
}

/// Returns a filter of several layers.
fn grown() -> Filter {
    filter(0.001, 10, 2, "grown", 100)
}

fn samples() -> Vec<Filter> {
    vec![
        filter(0.01, 100, 2, "few", 60),
        filter(0.3, 1, 0, "one", 1),
        filter(1e-6, 400_000, 0, "paged", 1000),
        filter(0.05, 123, 0, "none", 0),
        grown(),
    ]
}

/// Returns all chunks of a dump, the header first. The dump has this id if the filter has changed since the last one.
fn dumped(filter: &mut Filter, id: DumpId) -> Vec<(u64, Vec<u8>)> {
    filter.begin_dump(id);
    rest(filter, 0)
}

/// Returns the chunks from an iterator on.
fn rest(filter: &Filter, mut iterator: u64) -> Vec<(u64, Vec<u8>)> {
    let mut chunks = Vec::new();
    while let Some(chunk) = chunk(filter, iterator).unwrap() {
        iterator = chunk.next_iterator;
        chunks.push((iterator, chunk.data.into_owned()));
    }
    chunks
}

fn load(filter: &mut Filter, (iterator, data): &(u64, Vec<u8>)) -> Result<(), ChunkError> {
    load_chunk(filter, *iterator, data, Trust::DumpId)
}

/// Returns everything in which two filters can differ: the header and the bits.
fn state(filter: &Filter) -> (Vec<u8>, Vec<Vec<u8>>) {
    (header(filter), cells_of(filter).into_iter().map(<[u8]>::to_vec).collect())
}

fn assert_contains(filter: &Filter, name: &str, items: u64) {
    for item in 0..items {
        assert!(filter.contains(format!("{name}-{item}").as_bytes(), NoPrefetch), "{name}-{item}");
    }
}

#[test]
fn a_dump_loads_to_the_same_filter_in_any_order_of_chunks() {
    for mut filter in samples() {
        let chunks = dumped(&mut filter, 7);
        assert_eq!(chunks[0].0, first_iterator(7));
        let mut again = from_header(&chunks[0].1, &ANY).unwrap();
        for chunk in chunks[1..].iter().rev().chain(&chunks[1..]) {
            load(&mut again, chunk).unwrap();
        }
        assert_eq!(state(&again), state(&filter));
        // The chunks of the copy are equal except for their dump id.
        let payloads = |chunks: &[(u64, Vec<u8>)], id| -> Vec<(u64, Vec<u8>)> {
            let payload = |(iterator, data): &(u64, Vec<u8>)| {
                (iterator - first_iterator(id), data[..data.len() - TRAILER_BYTES].to_vec())
            };
            chunks.iter().map(payload).collect()
        };
        assert_eq!(payloads(&dumped(&mut again, 8), 8), payloads(&chunks, 7));
        assert_ne!(dumped(&mut again, 8), chunks);
    }
}

#[test]
fn a_dump_is_cut_at_16_mib_and_at_layers() {
    let mut large = filter(0.01, 30_000_000, 0, "large", 10);
    let size_bytes = large.layers()[0].cells().size_bytes();
    let iterators: Vec<u64> = dumped(&mut large, 1).into_iter().map(|(iterator, _)| iterator).collect();
    let positions = [0, 16 << 20, 32 << 20, size_bytes];
    assert_eq!(iterators, positions.map(|position| first_iterator(1) + position));
    let mut grown = grown();
    let chunks = dumped(&mut grown, 1);
    let mut end = first_iterator(1);
    for (layer, (iterator, data)) in grown.layers().iter().zip(&chunks[1..]) {
        let bits = layer.cells();
        end += bits.size_bytes();
        assert_eq!((*iterator, data.len() as u64), (end, bits.size_bytes() + TRAILER_BYTES as u64));
    }
}

#[test]
fn a_damaged_or_misplaced_chunk_changes_nothing() {
    let chunks = dumped(&mut grown(), 3);
    let mut target = from_header(&chunks[0].1, &ANY).unwrap();
    let before = state(&target);
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
    }
    for at in 0..chunks[0].1.len() {
        let mut altered = chunks[0].1.clone();
        altered[at] ^= 1;
        assert!(from_header(&altered, &ANY).is_err());
        assert!(from_header(&chunks[0].1[..at], &ANY).is_err());
    }
    assert_eq!(state(&target), before);
}

#[test]
fn a_chunk_of_another_filter_or_of_another_dump_is_refused() {
    let equal = |name| filter(0.01, 1000, 0, name, 500);
    let (mut a, mut b) = (equal("a"), equal("b"));
    let (of_a, of_b) = (dumped(&mut a, 1), dumped(&mut b, 2));
    let mut target = from_header(&of_a[0].1, &ANY).unwrap();
    assert_eq!(load(&mut target, &of_b[1]), Err(ChunkError::OtherDump));
    // A filter that no header created refuses it too.
    assert_eq!(load(&mut b, &of_a[1]), Err(ChunkError::OtherDump));
    assert_contains(&b, "b", 500);
    // A later dump of a filter that has changed, and an earlier one.
    add(&mut a, "later", 10);
    let later = dumped(&mut a, 3);
    assert_eq!(load(&mut target, &later[1]), Err(ChunkError::OtherDump));
    let mut newest = from_header(&later[0].1, &ANY).unwrap();
    assert_eq!(load(&mut newest, &of_a[1]), Err(ChunkError::OtherDump));
    assert_eq!(load(&mut newest, &later[1]), Ok(()));
    // A second dump of an unchanged filter is the same dump.
    assert_eq!(dumped(&mut a, 4), later);
}

/// Chunks of all dumps have the same text in the error, also where they are longer than the target or begin behind it.
#[test]
fn a_chunk_of_another_dump_is_refused_as_such_at_every_place() {
    let mut sources = [grown(), filter(0.01, 100_000, 0, "long", 500), filter(0.3, 1, 0, "one", 1)];
    let dumps: Vec<_> = (1..).zip(&mut sources).map(|(id, source)| dumped(source, id)).collect();
    for (target, of_target) in dumps.iter().enumerate() {
        let mut filter = from_header(&of_target[0].1, &ANY).unwrap();
        let before = state(&filter);
        for (source, of_source) in dumps.iter().enumerate().filter(|(source, _)| *source != target) {
            for chunk in &of_source[1..] {
                let outcome = load(&mut filter, chunk);
                assert_eq!(outcome, Err(ChunkError::OtherDump), "{source} into {target}: {}", chunk.0);
            }
        }
        assert_eq!(state(&filter), before);
    }
}

/// A primary and an append-only file have checked the dump id, which the filter may not know.
#[test]
fn a_chunk_that_does_not_fit_is_refused_from_a_trusted_sender_too() {
    let dump = dumped(&mut filter(0.01, 1000, 0, "a", 500), 5);
    let shorter = filter(0.01, 500, 0, "b", 0);
    let shortest = filter(0.3, 1, 0, "c", 0);
    for mut target in [shorter, shortest] {
        let before = state(&target);
        let outcome = load_chunk(&mut target, dump[1].0, &dump[1].1, Trust::Sender);
        assert_eq!(outcome, Err(ChunkError::BadData));
        assert_eq!(state(&target), before);
    }
    let mut grown = grown();
    let chunks = dumped(&mut grown, 6);
    let mut first_layer_only = filter(0.001, 10, 2, "a", 0);
    let load = |filter: &mut Filter, index: usize| {
        let (iterator, data): &(u64, Vec<u8>) = &chunks[index];
        load_chunk(filter, *iterator, data, Trust::Sender)
    };
    assert_eq!(load(&mut first_layer_only, 1), Ok(()));
    for index in 2..chunks.len() {
        assert_eq!(load(&mut first_layer_only, index), Err(ChunkError::BadData), "behind the last layer");
    }
    assert_eq!(set_bits(&first_layer_only), set_bits(&grown)[..1]);
}

/// An iterator is one of the last dump or an error, whatever the filter has become: never the end of a dump.
#[test]
fn an_iterator_of_an_ended_dump_is_an_error() {
    let mut source = grown();
    assert_eq!(chunk(&source, 0), Err(DumpError::Ended), "no dump has begun");
    let ids = [0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210];
    let first: Vec<u64> = dumped(&mut source, ids[0]).into_iter().map(|(iterator, _)| iterator).collect();
    let end = *first.last().unwrap();
    assert_eq!(chunk(&source, end), Ok(None));
    for iterator in [1, 2, first[0] - 1, end + 1, 1 << 52, (1 << 53) - 1, u64::MAX] {
        assert_eq!(chunk(&source, iterator), Err(DumpError::Ended), "{iterator}");
    }
    // The same filter with the same dump.
    let again: Vec<u64> = dumped(&mut source, ids[1]).into_iter().map(|(iterator, _)| iterator).collect();
    assert_eq!(again, first);
    // Later dumps of the same filter, which has changed, and of a small one, which has taken its place.
    add(&mut source, "more", 1);
    let mut small = filter(0.3, 1, 0, "small", 1);
    for filter in [&mut source, &mut small] {
        dumped(filter, ids[1]);
        for iterator in &first {
            assert_eq!(chunk(filter, *iterator), Err(DumpError::Ended), "{iterator}");
        }
    }
}

#[test]
fn iterators_of_every_dump_are_exact_in_javascript() {
    for id in [0, 1, (1 << 51) - 1, 1 << 51, 1 << 63, u64::MAX] {
        // No filter has as many bytes.
        let (first, last) = (first_iterator(id), first_iterator(id) + (1 << 51));
        assert!(first >= 1 << 52 && last < 1 << 53, "{id}: {first}");
        assert_eq!([first as f64 as u64, last as f64 as u64], [first, last], "{id}");
    }
}

fn set_bits(filter: &Filter) -> Vec<u64> {
    filter.layers().iter().map(|layer| layer.counts().set_cells).collect()
}

#[test]
fn headers_and_chunks_are_not_interchangeable() {
    let mut filter = filter(0.01, 1000, 0, "a", 500);
    let chunks = dumped(&mut filter, 5);
    let before = state(&filter);
    // At every iterator where its bytes would fit.
    for iterator in (0..9).chain(chunks[0].0 - 1..=chunks[1].0 + 1) {
        let outcome = load_chunk(&mut filter, iterator, &chunks[0].1, Trust::Sender);
        assert!(outcome.is_err(), "{iterator}");
    }
    assert_eq!(state(&filter), before);
    assert!(from_header(&chunks[1].1, &ANY).is_err());
}

#[test]
fn adds_during_a_dump_and_a_load_are_kept_and_counted() {
    let mut source = grown();
    let first = dumped(&mut source, 6);
    let mut copy = from_header(&first[0].1, &ANY).unwrap();
    // Both the source and the copy get new items. The copy does not have the dumped items yet.
    add(&mut source, "meanwhile", 1);
    add(&mut copy, "own", 20);
    let chunks = rest(&source, first[0].0);
    for chunk in chunks.iter().take(first.len() - 1) {
        load(&mut copy, chunk).unwrap();
    }
    assert_contains(&copy, "grown", 100);
    assert_contains(&copy, "own", 20);
    assert_eq!(copy.items(), 120);
    // Loading an old chunk again removes nothing.
    add(&mut copy, "last", 20);
    let before = state(&copy);
    for chunk in &chunks[..first.len() - 1] {
        load(&mut copy, chunk).unwrap();
    }
    assert_eq!(state(&copy), before);
    assert_contains(&copy, "last", 20);
}

#[test]
fn replicated_chunks_load_into_a_filter_from_a_snapshot() {
    let chunks = dumped(&mut grown(), 9);
    let mut half = from_header(&chunks[0].1, &ANY).unwrap();
    load(&mut half, &chunks[1]).unwrap();
    let mut without_id = half.try_clone(UnknownMemory).unwrap();
    assert_eq!(load(&mut without_id, &chunks[2]), Err(ChunkError::OtherDump));
    for (iterator, data) in &chunks[1..] {
        load_chunk(&mut without_id, *iterator, data, Trust::Sender).unwrap();
        load_chunk(&mut half, *iterator, data, Trust::DumpId).unwrap();
    }
    assert_eq!(state(&without_id), state(&half));
    let mut altered = chunks[1].1.clone();
    altered[0] ^= 1;
    let outcome = load_chunk(&mut without_id, chunks[1].0, &altered, Trust::Sender);
    assert_eq!(outcome, Err(ChunkError::BadData));
}

/// Returns the chunks and blobs of an append-only file.
fn rewritten(filter: &Filter, fresh: u64) -> Vec<(u64, Vec<u8>)> {
    let mut chunks = Vec::new();
    rewrite(filter, UnknownMemory, fresh, &mut |command| match command {
        Rewritten::Chunk { iterator, data } => chunks.push((iterator, data.to_vec())),
        Rewritten::Blob(blob) => chunks.push((0, blob.to_vec())),
    })
    .unwrap();
    chunks
}

#[test]
fn a_rewritten_file_omits_clear_chunks() {
    for filter in samples() {
        let chunks = rewritten(&filter, 7);
        let occupied = set_bits(&filter).into_iter().filter(|set| *set > 0).count();
        assert_eq!(chunks.len(), 1 + occupied);
        // The server may load the file, or a client may send it to another server.
        for trust in [Trust::Sender, Trust::DumpId] {
            let mut again = from_header(&chunks[0].1, &ANY).unwrap();
            for (iterator, data) in &chunks[1..] {
                load_chunk(&mut again, *iterator, data, trust).unwrap();
            }
            assert_eq!(state(&again), state(&filter));
        }
        // A chunk of another rewrite belongs to another dump.
        let other = rewritten(&filter, 8);
        if let Some(chunk) = chunks.get(1) {
            assert_eq!(load(&mut from_header(&other[0].1, &ANY).unwrap(), chunk), Err(ChunkError::OtherDump));
        }
    }
    // The second of three chunks has no set bit.
    let mut filter = plain(promise(0.01, 30_000_000, 0));
    let cells = filter.layers_mut()[0].cells_mut();
    assert!(cells.add_segment(0, &[1]) && cells.add_segment(33 << 20, &[1]));
    let iterators: Vec<u64> = rewritten(&filter, 7).into_iter().map(|(iterator, _)| iterator).collect();
    assert_eq!(iterators.len(), 3);
    assert_eq!(iterators[1], iterators[0] + (16 << 20));
}

/// Returns a header with its dump id and checksum, as docs/formats.md describes them.
pub(super) fn header_chunk(payload: &[u8], id: DumpId) -> Vec<u8> {
    let iterator = (1 << 52) + id % (1 << 51);
    let ItemHash { h1, h2 } = hash128(payload);
    let words: Vec<u8> = [h1, h2, iterator, id].iter().flat_map(|word| word.to_le_bytes()).collect();
    let ItemHash { h1, h2 } = hash128(&words);
    [payload, &id.to_le_bytes(), &h1.to_le_bytes(), &h2.to_le_bytes()].concat()
}

#[test]
fn the_checksum_is_as_documented() {
    let mut filter = grown();
    filter.begin_dump(5);
    let chunk = chunk(&filter, 0).unwrap().unwrap().data;
    assert_eq!(header_chunk(&header(&filter), 5), *chunk);
}

#[test]
fn a_filter_without_its_chunks_has_another_dump_id() {
    let mut filter = filter(0.01, 100, 2, "few", 1);
    filter.begin_dump(5);
    let header = chunk(&filter, 0).unwrap().unwrap().data.into_owned();
    let mut without = from_header(&header, &ANY).unwrap();
    without.begin_dump(6);
    assert_eq!(without.dump().unwrap().id, 6);
}

#[test]
fn a_dump_after_an_undone_change_has_another_id() {
    let mut filter = crate::support::make::counting(promise(0.01, 100, 2));
    add(&mut filter, "few", 1);
    let first = dumped(&mut filter, 5);
    assert_eq!(dumped(&mut filter, 6), first);
    assert!(filter.remove(b"few-0"));
    add(&mut filter, "few", 1);
    assert_ne!(dumped(&mut filter, 7), first);
}

#[test]
fn a_header_without_a_trailer_is_read_as_redisblooms() {
    let magic = u64::from_le_bytes(*b"evbl\x01\0\x01\0");
    assert_eq!(magic, 281_481_090_070_117);
    // One layer of 4 bytes with a rate close to 1.
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
    // It is read as RedisBloom's header, whose array cannot have taken that many items.
    let filter = from_header(&bytes, &ANY).unwrap();
    assert_eq!((filter.format(), filter.items()), (Format::RedisBloom, 64));
}
