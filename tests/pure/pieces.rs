//! The pieces of BF.SCANDUMP: whole they make the same filter, and no piece of anything else gets in.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests fail by panicking")]

use everbloom::bloom::{Chain, Everbloom, Filter, Growth, ItemHash, NoPrefetch, UnknownMemory, hash128};
use everbloom::format::everbloom::header::CHAIN_HEADER_BYTES;
use everbloom::format::filter::{from_header, header, load_chunk, piece, rewrite};
use everbloom::format::pieces::{ChunkError, SEAL_BYTES, Trust};
use everbloom::format::rewrite::Rewritten;

const ANY: u64 = u64::MAX;

/// A filter of our own with so many items, whose names begin with `name`.
fn filter(error_rate: f64, capacity_items: u64, growth: Growth, name: &str, items: u64) -> Filter {
    let chain = Chain::reserve(Everbloom { error_rate, capacity_items, growth }, &ANY).unwrap();
    let mut filter = Filter::Everbloom(chain);
    add(&mut filter, name, items);
    filter
}

fn add(filter: &mut Filter, name: &str, items: u64) {
    for item in 0..items {
        filter.add(format!("{name}-{item}").as_bytes(), &ANY, NoPrefetch).unwrap();
    }
}

/// A filter of several layers.
fn grown() -> Filter {
    filter(0.001, 10, Growth::Scaling { expansion: 2 }, "grown", 100)
}

fn samples() -> Vec<Filter> {
    vec![
        filter(0.01, 100, Growth::default(), "few", 60),
        filter(0.3, 1, Growth::Fixed, "one", 1),
        filter(1e-6, 400_000, Growth::Fixed, "paged", 1000),
        filter(0.05, 123, Growth::Fixed, "none", 0),
        grown(),
    ]
}

/// All pieces of a dump that begins with a fresh mark, the header first.
fn dumped(filter: &mut Filter, mark: u64) -> Vec<(u64, Vec<u8>)> {
    filter.mark_state(mark);
    rest(filter, 0)
}

/// The pieces from an iterator on.
fn rest(filter: &Filter, mut iterator: u64) -> Vec<(u64, Vec<u8>)> {
    let mut pieces = Vec::new();
    while let Some(piece) = piece(filter, iterator).unwrap() {
        iterator = piece.next_iterator;
        pieces.push((iterator, piece.data.into_owned()));
    }
    pieces
}

fn load(filter: &mut Filter, (iterator, data): &(u64, Vec<u8>)) -> Result<(), ChunkError> {
    load_chunk(filter, *iterator, data, Trust::Marks)
}

/// What tells a filter from every other: its header and its bits.
fn state(filter: &Filter) -> (Vec<u8>, Vec<Vec<u8>>) {
    (header(filter), filter.storages().map(|bits| bits.bytes().to_vec()).collect())
}

fn assert_contains(filter: &Filter, name: &str, items: u64) {
    for item in 0..items {
        assert!(filter.contains(format!("{name}-{item}").as_bytes(), NoPrefetch), "{name}-{item}");
    }
}

#[test]
fn a_dump_loads_to_the_same_filter_in_any_order_of_chunks() {
    for mut filter in samples() {
        let pieces = dumped(&mut filter, 7);
        assert_eq!(pieces[0].0, 1);
        let mut again = from_header(&pieces[0].1, &ANY).unwrap();
        for piece in pieces[1..].iter().rev().chain(&pieces[1..]) {
            load(&mut again, piece).unwrap();
        }
        assert_eq!(state(&again), state(&filter));
        // A whole copy is in the state of the mark that it came with, so its pieces are the very same.
        assert_eq!(dumped(&mut again, 8), pieces);
        if again.has_room() {
            add(&mut again, "more", 1);
            assert_ne!(dumped(&mut again, 8)[0], pieces[0]);
        }
    }
}

#[test]
fn a_dump_is_cut_at_16_mib_and_at_layers() {
    let mut large = filter(0.01, 30_000_000, Growth::Fixed, "large", 10);
    let size_bytes = large.storages().next().unwrap().size_bytes();
    let iterators: Vec<u64> = dumped(&mut large, 1).into_iter().map(|(iterator, _)| iterator).collect();
    assert_eq!(iterators, [1, 1 + (16 << 20), 1 + (32 << 20), 1 + size_bytes]);
    let mut grown = grown();
    let pieces = dumped(&mut grown, 1);
    let mut end = 1;
    for (bits, (iterator, data)) in grown.storages().zip(&pieces[1..]) {
        end += bits.size_bytes();
        assert_eq!((*iterator, data.len() as u64), (end, bits.size_bytes() + SEAL_BYTES as u64));
    }
}

#[test]
fn a_torn_altered_or_misplaced_piece_changes_nothing() {
    let pieces = dumped(&mut grown(), 3);
    let mut target = from_header(&pieces[0].1, &ANY).unwrap();
    let before = state(&target);
    for (iterator, data) in &pieces[1..] {
        for length in 0..data.len() {
            assert!(load(&mut target, &(*iterator, data[..length].to_vec())).is_err(), "cut to {length}");
        }
        for at in 0..data.len() {
            let mut altered = data.clone();
            altered[at] ^= 0x10;
            assert_eq!(load(&mut target, &(*iterator, altered)), Err(ChunkError::BadData), "byte {at}");
        }
        for (other, _) in pieces.iter().filter(|(other, _)| other != iterator) {
            assert!(load(&mut target, &(*other, data.clone())).is_err());
        }
        for wrong in [0, 1, 2, iterator + 8, iterator - 8, u64::MAX] {
            assert!(load(&mut target, &(wrong, data.clone())).is_err());
        }
    }
    for at in 0..pieces[0].1.len() {
        let mut altered = pieces[0].1.clone();
        altered[at] ^= 1;
        assert!(from_header(&altered, &ANY).is_err());
        assert!(from_header(&pieces[0].1[..at], &ANY).is_err());
    }
    assert_eq!(state(&target), before);
}

#[test]
fn a_chunk_of_another_filter_or_of_another_dump_is_refused() {
    let equal = |name| filter(0.01, 1000, Growth::Fixed, name, 500);
    let (mut a, mut b) = (equal("a"), equal("b"));
    let (of_a, of_b) = (dumped(&mut a, 1), dumped(&mut b, 2));
    let mut target = from_header(&of_a[0].1, &ANY).unwrap();
    assert_eq!(load(&mut target, &of_b[1]), Err(ChunkError::OtherDump));
    // Nor into a filter that no header made.
    assert_eq!(load(&mut b, &of_a[1]), Err(ChunkError::OtherDump));
    assert_contains(&b, "b", 500);
    // A later dump of a filter that has changed, and an earlier one.
    add(&mut a, "later", 10);
    let later = dumped(&mut a, 3);
    assert_eq!(load(&mut target, &later[1]), Err(ChunkError::OtherDump));
    let mut newest = from_header(&later[0].1, &ANY).unwrap();
    assert_eq!(load(&mut newest, &of_a[1]), Err(ChunkError::OtherDump));
    assert_eq!(load(&mut newest, &later[1]), Ok(()));
    // A second dump of a filter that has not changed is the same dump.
    assert_eq!(dumped(&mut a, 4), later);
}

/// An empty filter like another, but for what `alter` does to its header.
fn altered(filter: &Filter, alter: impl FnOnce(&mut Vec<u8>)) -> Filter {
    let mut payload = header(filter);
    alter(&mut payload);
    from_header(&sealed_unmarked(&payload, [0; 4]), &ANY).unwrap()
}

#[test]
fn a_chunk_of_a_filter_of_another_shape_is_refused_whichever_field_differs() {
    let mut source = filter(0.01, 1000, Growth::Fixed, "a", 500);
    let (iterator, data) = dumped(&mut source, 5).swap_remove(1);
    // Whoever sends it.
    let load = |filter: &mut Filter, iterator| load_chunk(filter, iterator, &data, Trust::Sender);
    assert_eq!(load(&mut altered(&source, |_| ()), iterator), Ok(()));
    let add = |at: usize, more: u64| {
        move |header: &mut Vec<u8>| {
            let field = &mut header[CHAIN_HEADER_BYTES + at..CHAIN_HEADER_BYTES + at + 8];
            let value = u64::from_le_bytes(field.try_into().unwrap());
            field.copy_from_slice(&(value + more).to_le_bytes());
        }
    };
    let others = [
        ("one item more of capacity", altered(&source, add(16, 1))),
        ("64 bits more", altered(&source, add(8, 64))),
        ("a probe more", altered(&source, |header| header[CHAIN_HEADER_BYTES + 2] += 1)),
    ];
    for (what, mut other) in others {
        assert_eq!(load(&mut other, iterator), Err(ChunkError::BadData), "{what}");
        assert_eq!(set_bits(&other), [0], "{what}");
    }
    // Two layers that differ in nothing but their place.
    let mut twins = altered(&source, |header| {
        header[8] = 2;
        header.extend_from_within(CHAIN_HEADER_BYTES..);
    });
    let elsewhere = iterator + source.storages().next().unwrap().size_bytes();
    assert_eq!(load(&mut twins, elsewhere), Err(ChunkError::BadData));
    assert_eq!(load(&mut twins, iterator), Ok(()));
    assert_eq!(set_bits(&twins), [set_bits(&source)[0], 0]);
}

fn set_bits(filter: &Filter) -> Vec<u64> {
    filter.storages().map(|bits| bits.set_bits()).collect()
}

#[test]
fn a_header_is_no_chunk_and_a_chunk_no_header() {
    let mut filter = filter(0.01, 1000, Growth::Fixed, "a", 500);
    let pieces = dumped(&mut filter, 5);
    let before = state(&filter);
    // Wherever its bytes would fit.
    for iterator in 0..=pieces[1].0 + 1 {
        let outcome = load_chunk(&mut filter, iterator, &pieces[0].1, Trust::Sender);
        assert!(outcome.is_err(), "{iterator}");
    }
    assert_eq!(state(&filter), before);
    assert!(from_header(&pieces[1].1, &ANY).is_err());
}

#[test]
fn adds_during_a_dump_and_a_load_are_kept_and_counted() {
    let mut source = grown();
    let pieces = dumped(&mut source, 6);
    let mut copy = from_header(&pieces[0].1, &ANY).unwrap();
    // The source goes on, and so does the copy, where all items but its own are still missing.
    add(&mut source, "meanwhile", 1);
    add(&mut copy, "own", 20);
    let chunks = rest(&source, 1);
    for chunk in chunks.iter().take(pieces.len() - 1) {
        load(&mut copy, chunk).unwrap();
    }
    assert_contains(&copy, "grown", 100);
    assert_contains(&copy, "own", 20);
    assert_eq!(copy.items(), 120);
    // An old chunk once more takes nothing away.
    add(&mut copy, "last", 20);
    let before = state(&copy);
    for piece in &chunks[..pieces.len() - 1] {
        load(&mut copy, piece).unwrap();
    }
    assert_eq!(state(&copy), before);
    assert_contains(&copy, "last", 20);
}

#[test]
fn a_primary_and_a_log_may_send_the_chunks_of_a_filter_that_came_by_a_snapshot() {
    let pieces = dumped(&mut grown(), 9);
    let mut half = from_header(&pieces[0].1, &ANY).unwrap();
    load(&mut half, &pieces[1]).unwrap();
    let mut without_marks = half.try_clone(UnknownMemory).unwrap();
    assert_eq!(load(&mut without_marks, &pieces[2]), Err(ChunkError::OtherDump));
    for (iterator, data) in &pieces[1..] {
        load_chunk(&mut without_marks, *iterator, data, Trust::Sender).unwrap();
        load_chunk(&mut half, *iterator, data, Trust::Marks).unwrap();
    }
    assert_eq!(state(&without_marks), state(&half));
    let mut altered = pieces[1].1.clone();
    altered[0] ^= 1;
    let outcome = load_chunk(&mut without_marks, pieces[1].0, &altered, Trust::Sender);
    assert_eq!(outcome, Err(ChunkError::BadData));
}

/// The pieces that an append-only file holds, and blobs.
fn rewritten(filter: &Filter, fresh: u64) -> Vec<(u64, Vec<u8>)> {
    let mut pieces = Vec::new();
    rewrite(filter, UnknownMemory, fresh, &mut |command| match command {
        Rewritten::Piece { iterator, data } => pieces.push((iterator, data.to_vec())),
        Rewritten::Blob(blob) => pieces.push((0, blob.to_vec())),
    })
    .unwrap();
    pieces
}

#[test]
fn a_rewritten_file_holds_what_a_header_does_not_imply() {
    for filter in samples() {
        let pieces = rewritten(&filter, 7);
        let occupied = filter.storages().filter(|bits| bits.set_bits() > 0).count();
        assert_eq!(pieces.len(), 1 + occupied);
        // The server may load the file, and a client send it to another server.
        for trust in [Trust::Sender, Trust::Marks] {
            let mut again = from_header(&pieces[0].1, &ANY).unwrap();
            for (iterator, data) in &pieces[1..] {
                load_chunk(&mut again, *iterator, data, trust).unwrap();
            }
            assert_eq!(state(&again), state(&filter));
        }
        // A chunk of another rewriting is of another state.
        let other = rewritten(&filter, 8);
        if let Some(chunk) = pieces.get(1) {
            assert_eq!(load(&mut from_header(&other[0].1, &ANY).unwrap(), chunk), Err(ChunkError::OtherDump));
        }
    }
    // The middle one of three chunks has no bit.
    let mut chain = Chain::reserve(
        Everbloom { error_rate: 0.01, capacity_items: 30_000_000, growth: Growth::Fixed },
        &ANY,
    )
    .unwrap();
    let bits = chain.layers_mut()[0].bits_mut();
    assert!(bits.set(0) && bits.set((33 << 20) * 8));
    let iterators: Vec<u64> =
        rewritten(&Filter::Everbloom(chain), 7).into_iter().map(|(iterator, _)| iterator).collect();
    assert_eq!(iterators.len(), 3);
    assert_eq!(iterators[..2], [1, 1 + (16 << 20)]);
}

/// A piece as release 0.1 wrote it: a check over the bytes and the place, and no mark.
fn unmarked(piece: &(u64, Vec<u8>), place: [u64; 4]) -> (u64, Vec<u8>) {
    (piece.0, sealed_unmarked(&piece.1[..piece.1.len() - SEAL_BYTES], place))
}

fn sealed_unmarked(payload: &[u8], place: [u64; 4]) -> Vec<u8> {
    let ItemHash { h1, h2 } = hash128(payload);
    let words: Vec<u8> = [h1, h2].iter().chain(&place).flat_map(|word| word.to_le_bytes()).collect();
    let ItemHash { h1, h2 } = hash128(&words);
    [payload, &h1.to_le_bytes(), &h2.to_le_bytes()].concat()
}

#[test]
fn pieces_of_the_first_release_load_into_filters_of_their_headers_only() {
    let mut source = filter(0.01, 100, Growth::Fixed, "old", 50);
    let pieces = dumped(&mut source, 1);
    let Filter::Everbloom(chain) = &source else { unreachable!() };
    let shape = chain.layers()[0].shape();
    let header = unmarked(&pieces[0], [0; 4]);
    let chunk = unmarked(&pieces[1], [0, shape.size_bits, shape.capacity_items, shape.probes.into()]);
    let mut old = from_header(&header.1, &ANY).unwrap();
    assert_eq!(load(&mut old, &pieces[1]), Err(ChunkError::BadData));
    load(&mut old, &chunk).unwrap();
    assert_eq!(state(&old), state(&source));
    let mut new = from_header(&pieces[0].1, &ANY).unwrap();
    assert_eq!(load(&mut new, &chunk), Err(ChunkError::BadData));
    load_chunk(&mut new, chunk.0, &chunk.1, Trust::Sender).unwrap();
    assert_eq!(state(&new), state(&source));
}

#[test]
fn a_header_without_our_seal_is_redisblooms_whatever_it_begins_with() {
    let magic = u64::from_le_bytes(*b"evbl\x01\0\x01\0");
    assert_eq!(magic, 281_481_090_070_117);
    // One layer of 4 bytes that is nearly of one item.
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
    // Read as RedisBloom's header, whose array cannot have taken so many items.
    let filter = from_header(&bytes, &ANY).unwrap();
    assert!(matches!(filter, Filter::RedisBloom(_)));
    assert_eq!(filter.items(), 64);
}
