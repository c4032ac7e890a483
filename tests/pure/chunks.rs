//! The chunks of BF.SCANDUMP: all chunks of a dump recreate the filter, and other chunks are refused.

use std::collections::HashMap;

use everbloom::bloom::filter::policy::ValkeyBloom;
use everbloom::bloom::hash::murmur3::hash128;
use everbloom::bloom::hash::siphash::Seed;
use everbloom::bloom::table::{Addition, POSITIONS};
use everbloom::bloom::{
    DumpId, EntryKind, Filter, Format, Growth, ItemHash, NoPrefetch, Room, Table, TableSpec, UnknownMemory,
};
use everbloom::format::chunks::Rewritten;
use everbloom::format::chunks::{ChunkError, DumpError, TRAILER_BYTES, Trust, first_iterator};
use everbloom::format::filter::{chunk, from_header, header, load_chunk, rewrite};

use crate::support::Random;
use crate::support::make::{ANY, bits_of, counting, plain, promise, unreserved, valkeybloom};
use crate::support::saved::validated;

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
    let mut filter = chain();
    add(&mut filter, "grown", 100);
    filter
}

/// Returns an empty filter that gets further layers.
fn chain() -> Filter {
    let growth = Growth::Scaling { expansion: 2 };
    let policy = ValkeyBloom { error_rate: 0.001, tightening_ratio: 0.5, capacity_items: 10, growth };
    valkeybloom(policy, Seed::FIXED)
}

/// Returns a filter of a layer and a table.
fn outgrown() -> Filter {
    filter(0.001, 10, 2, "outgrown", 100)
}

/// Returns a filter of a table.
fn table() -> Filter {
    let mut filter = plain(unreserved(0.01, 100, 2));
    add(&mut filter, "table", 20_000);
    filter
}

fn samples() -> Vec<Filter> {
    vec![
        filter(0.01, 100, 2, "few", 60),
        filter(0.3, 1, 0, "one", 1),
        filter(1e-6, 400_000, 0, "paged", 1000),
        filter(0.05, 123, 0, "none", 0),
        outgrown(),
        table(),
        plain(unreserved(0.01, 100, 2)),
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
    load_chunk(filter, *iterator, data, Trust::DumpId, &ANY)
}

/// Returns everything in which two filters can differ: the header, the bits and the segments.
fn state(filter: &Filter) -> (Vec<u8>, Vec<Vec<u8>>, Vec<Vec<u64>>) {
    let bits = bits_of(filter).into_iter().map(<[u8]>::to_vec).collect();
    (header(filter), bits, filter.table().map_or(Vec::new(), segments_of))
}

/// Returns the words of each segment.
fn segments_of(table: &Table) -> Vec<Vec<u64>> {
    (0..table.segment_count()).map(|number| table.segment(number).unwrap().0.to_vec()).collect()
}

fn assert_contains(filter: &Filter, name: &str, items: u64) {
    for item in 0..items {
        assert!(filter.contains(format!("{name}-{item}").as_bytes(), NoPrefetch), "{name}-{item}");
    }
}

#[test]
fn a_dump_loads_to_the_same_filter_in_any_order_of_chunks() {
    for mut filter in samples().into_iter().chain([grown()]) {
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
fn a_dump_is_cut_at_16_mib_and_between_parts() {
    let mut large = filter(0.01, 30_000_000, 0, "large", 10);
    let size_bytes = large.layers()[0].bits().size_bytes();
    let iterators: Vec<u64> = dumped(&mut large, 1).into_iter().map(|(iterator, _)| iterator).collect();
    let positions = [0, 16 << 20, 32 << 20, size_bytes];
    assert_eq!(iterators, positions.map(|position| first_iterator(1) + position));
    let mut grown = grown();
    let chunks = dumped(&mut grown, 1);
    let mut end = first_iterator(1);
    for (layer, (iterator, data)) in grown.layers().iter().zip(&chunks[1..]) {
        let bits = layer.bits();
        end += bits.size_bytes();
        assert_eq!((*iterator, data.len() as u64), (end, bits.size_bytes() + TRAILER_BYTES as u64));
    }
    let mut outgrown = outgrown();
    let chunks = dumped(&mut outgrown, 1);
    let end = first_iterator(1) + outgrown.layers()[0].bits().size_bytes();
    assert_eq!(chunks.len(), 3);
    assert_eq!((chunks[1].0, chunks[2].0), (end, end + POSITIONS));
}

#[test]
fn a_damaged_or_misplaced_chunk_changes_nothing() {
    [grown(), outgrown()].into_iter().for_each(assert_refuses_damaged_chunks);
}

fn assert_refuses_damaged_chunks(mut source: Filter) {
    let chunks = dumped(&mut source, 3);
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
    let mut sources =
        [grown(), outgrown(), table(), filter(0.01, 100_000, 0, "long", 500), filter(0.3, 1, 0, "one", 1)];
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
        let outcome = load_chunk(&mut target, dump[1].0, &dump[1].1, Trust::Sender, &ANY);
        assert_eq!(outcome, Err(ChunkError::BadData));
        assert_eq!(state(&target), before);
    }
    let mut grown = grown();
    let chunks = dumped(&mut grown, 6);
    let mut first_layer_only = chain();
    let load = |filter: &mut Filter, index: usize| {
        let (iterator, data): &(u64, Vec<u8>) = &chunks[index];
        load_chunk(filter, *iterator, data, Trust::Sender, &ANY)
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
    filter.layers().iter().map(|layer| layer.counts().set_bits).collect()
}

#[test]
fn headers_and_chunks_are_not_interchangeable() {
    let mut filter = filter(0.01, 1000, 0, "a", 500);
    let chunks = dumped(&mut filter, 5);
    let before = state(&filter);
    // At every iterator where its bytes would fit.
    for iterator in (0..9).chain(chunks[0].0 - 1..=chunks[1].0 + 1) {
        let outcome = load_chunk(&mut filter, iterator, &chunks[0].1, Trust::Sender, &ANY);
        assert!(outcome.is_err(), "{iterator}");
    }
    assert_eq!(state(&filter), before);
    assert!(from_header(&chunks[1].1, &ANY).is_err());
}

#[test]
fn adds_during_a_dump_and_a_load_are_kept_and_counted() {
    assert_keeps_adds_during_a_dump(grown(), "grown", 100);
    assert_keeps_adds_during_a_dump(outgrown(), "outgrown", 100);
    assert_keeps_adds_during_a_dump(table(), "table", 20_000);
}

fn assert_keeps_adds_during_a_dump(mut source: Filter, name: &str, dumped_items: u64) {
    let first = dumped(&mut source, 6);
    let mut copy = from_header(&first[0].1, &ANY).unwrap();
    // Both the source and the copy get new items. The copy does not have the dumped items yet.
    add(&mut source, "meanwhile", 1);
    add(&mut copy, "own", 20);
    let chunks = rest(&source, first[0].0);
    for chunk in chunks.iter().take(first.len() - 1) {
        load(&mut copy, chunk).unwrap();
    }
    assert_contains(&copy, name, dumped_items);
    assert_contains(&copy, "own", 20);
    // A table also gives what it got since the header.
    let items = source.items() + 20;
    assert!((items.saturating_sub(1 + items / 100)..=items).contains(&copy.items()), "{}", copy.items());
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
        load_chunk(&mut without_id, *iterator, data, Trust::Sender, &ANY).unwrap();
        load_chunk(&mut half, *iterator, data, Trust::DumpId, &ANY).unwrap();
    }
    assert_eq!(state(&without_id), state(&half));
    let mut altered = chunks[1].1.clone();
    altered[0] ^= 1;
    let outcome = load_chunk(&mut without_id, chunks[1].0, &altered, Trust::Sender, &ANY);
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
        assert_eq!(chunks.len(), 1 + occupied + usize::from(filter.table().is_some()));
        // The server may load the file, or a client may send it to another server.
        for trust in [Trust::Sender, Trust::DumpId] {
            let mut again = from_header(&chunks[0].1, &ANY).unwrap();
            for (iterator, data) in &chunks[1..] {
                load_chunk(&mut again, *iterator, data, trust, &ANY).unwrap();
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
    assert!(filter.add_bytes(0, 0, &[1]) && filter.add_bytes(0, 33 << 20, &[1]));
    let iterators: Vec<u64> = rewritten(&filter, 7).into_iter().map(|(iterator, _)| iterator).collect();
    assert_eq!(iterators.len(), 3);
    assert_eq!(iterators[1], iterators[0] + (16 << 20));
}

/// Returns a header with its dump id and checksum, as docs/formats.md describes them.
pub(super) fn header_chunk(payload: &[u8], id: DumpId) -> Vec<u8> {
    sealed(payload, (1 << 52) + id % (1 << 51), id)
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
    let mut filter = counting(promise(0.01, 100, 2));
    add(&mut filter, "few", 1);
    let first = dumped(&mut filter, 5);
    assert_eq!(dumped(&mut filter, 6), first);
    assert_eq!(filter.remove(b"few-0", NoPrefetch), Ok(true));
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

/// What happens to the table between two parts of its dump.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Meanwhile {
    Nothing,
    Adds,
    Removals,
    AddsAndRemovals,
}

/// A table and the items that it must find, with how often each was added.
struct Known {
    table: Table,
    items: HashMap<(u64, u64), u64>,
    random: Random,
}

impl Known {
    fn new(kind: EntryKind, seed: u64) -> Self {
        let table = Table::try_new(TableSpec { error_rate: 0.01, kind, items: 2000 }).unwrap();
        Self { table, items: HashMap::new(), random: Random(seed) }
    }

    fn add(&mut self, count: usize) {
        for _ in 0..count {
            let hash = ItemHash { h1: self.random.next(), h2: self.random.next() };
            let addition = Addition { hash, added: 9, now: 9, keeps_generation: false, most_items: u64::MAX };
            for _ in 0..1 + self.random.below(3) / 2 * self.random.below(5) {
                self.table.add(addition, &Room::new(&ANY), NoPrefetch).unwrap();
                *self.items.entry((hash.h1, hash.h2)).or_default() += 1;
            }
        }
    }

    fn remove(&mut self, count: usize) {
        let items: Vec<_> = self.items.keys().copied().collect();
        for _ in 0..count {
            let (h1, h2) = *self.random.choose(&items);
            while self.items.contains_key(&(h1, h2)) {
                assert_eq!(self.table.remove(ItemHash { h1, h2 }, NoPrefetch), Ok(true));
                let left = self.items.get_mut(&(h1, h2)).unwrap();
                *left -= 1;
                if *left == 0 {
                    self.items.remove(&(h1, h2));
                }
            }
        }
    }

    fn has(&self, (h1, h2): (u64, u64)) -> bool {
        self.table.contains(ItemHash { h1, h2 }, 9, NoPrefetch)
    }
}

/// Parts are merged in any order, and what was in the table all the time is in its copy, whatever splits and joins
/// happen to both between two parts.
#[test]
fn a_table_is_dumped_while_it_is_split_and_joined() {
    use Meanwhile::{Adds, AddsAndRemovals, Nothing, Removals};
    let kinds = [EntryKind::Plain, EntryKind::Counted, EntryKind::Timed];
    for (seed, kind) in (1..).zip(kinds) {
        for meanwhile in [Nothing, Adds, Removals, AddsAndRemovals] {
            if kind != EntryKind::Counted && !matches!(meanwhile, Nothing | Adds) {
                continue;
            }
            let mut source = Known::new(kind, seed);
            source.add(40_000);
            let segments = source.table.segment_count();
            let (mut copy, used) = (Known::new(kind, seed + 100), source.table.used_slots());
            copy.table = Table::try_of_counts(kind, source.table.counts(), &Room::new(&ANY)).unwrap();
            copy.table.begin_loading(used);
            let before = source.items.clone();
            let (mut parts, mut position, mut visited) = (Vec::new(), 0, 0);
            while let Some((part, end)) = source.table.part_at(position).unwrap() {
                visited += 1;
                parts.push(part);
                position = end;
                let count = 100_000 / segments;
                if matches!(meanwhile, Adds | AddsAndRemovals) && visited % 8 < 4 {
                    source.add(count);
                }
                if meanwhile == Removals && source.items.len() > 3 * count {
                    source.remove(count);
                }
                if meanwhile == AddsAndRemovals && visited % 8 >= 4 {
                    source.remove(count);
                }
                if meanwhile != Nothing {
                    copy.add(20);
                }
            }
            assert_eq!(position, POSITIONS);
            let is_other_size = source.table.segment_count() != segments;
            assert!(is_other_size || !matches!(meanwhile, Adds | Removals), "{kind:?}, {meanwhile:?}");
            // Out of order, and some of them twice.
            for _ in 0..parts.len() {
                let (one, other) = (source.random.below(parts.len()), source.random.below(parts.len()));
                parts.swap(one, other);
            }
            for part in parts.iter().chain(&parts[..parts.len() / 3]) {
                copy.table.add_parts(vec![part.clone()], &Room::new(&ANY)).unwrap();
            }
            copy.table.end_loading();
            assert_eq!(copy.table.internal_validate(), Ok(()));
            for item in copy.items.keys().chain(before.keys().filter(|item| source.items.contains_key(item)))
            {
                assert!(copy.has(*item), "{kind:?}, {meanwhile:?}: {item:x?}");
            }
            if meanwhile == Nothing {
                assert_eq!(segments_of(&copy.table), segments_of(&source.table), "{kind:?}");
                assert_eq!(copy.table.counts(), source.table.counts(), "{kind:?}");
            }
            // Counts have arrived too: all that is left can be removed as often as it was added.
            for ((h1, h2), count) in &source.items {
                if kind == EntryKind::Counted && before.contains_key(&(*h1, *h2)) {
                    for _ in 0..*count {
                        assert_eq!(copy.table.remove(ItemHash { h1: *h1, h2: *h2 }, NoPrefetch), Ok(true));
                    }
                }
            }
            assert!(copy.items.keys().all(|item| copy.has(*item)), "{kind:?}, {meanwhile:?}");
        }
    }
}

/// The last chunk may come first: the items are counted whenever parts come after it.
#[test]
fn chunks_of_a_table_after_the_last_one_are_counted() {
    let mut source = Known::new(EntryKind::Plain, 5);
    source.add(20_000);
    let mut copy = Table::try_of_counts(EntryKind::Plain, source.table.counts(), &Room::new(&ANY)).unwrap();
    copy.begin_loading(source.table.used_slots());
    let mut parts = Vec::new();
    let mut position = 0;
    while let Some((part, end)) = source.table.part_at(position).unwrap() {
        parts.push(part);
        position = end;
    }
    let last = parts.pop().unwrap();
    copy.add_parts(vec![last], &Room::new(&ANY)).unwrap();
    copy.end_loading();
    assert!(copy.items(0) > 0 && copy.items(0) < source.table.items(0));
    copy.add_parts(parts, &Room::new(&ANY)).unwrap();
    assert_eq!(copy.counts(), source.table.counts());
    assert_eq!(segments_of(&copy), segments_of(&source.table));
}

/// A chunk of a table has only what is before its end.
#[test]
fn a_chunk_of_a_table_that_does_not_fit_its_iterator_is_refused() {
    let mut source = table();
    let chunks = dumped(&mut source, 4);
    let payload = &chunks[1].1[..chunks[1].1.len() - TRAILER_BYTES];
    let mut copy = from_header(&chunks[0].1, &ANY).unwrap();
    let before = state(&copy);
    let mut load = |end: u64, payload: &[u8]| {
        let iterator = first_iterator(4) + end;
        load_chunk(&mut copy, iterator, &sealed(payload, iterator, 4), Trust::DumpId, &ANY)
    };
    let torn = payload[..payload.len() - 8].to_vec();
    let reserved = [&payload[..10], &[1], &payload[11..]].concat();
    let depth = [&payload[..8], &[31], &payload[9..]].concat();
    let number = [&[0xff; 4], &payload[4..]].concat();
    let stamp = [&payload[..16], &[1], &payload[17..]].concat();
    for payload in [&torn, &reserved, &depth, &number, &stamp, &vec![0; 7]] {
        assert_eq!(load(POSITIONS, payload), Err(ChunkError::BadData));
    }
    for end in [1, POSITIONS / 2, POSITIONS + 1] {
        assert_eq!(load(end, payload), Err(ChunkError::BadData), "{end}");
    }
    assert_eq!(load(POSITIONS + 1, &[]), Err(ChunkError::BadData));
    assert_eq!(state(&copy), before);
}

/// A chunk that exceeds the limit changes nothing, and can be loaded when there is more room.
#[test]
fn a_chunk_of_a_table_is_refused_if_there_is_no_room() {
    let mut source = table();
    let chunks = dumped(&mut source, 4);
    let mut copy = from_header(&chunks[0].1, &ANY).unwrap();
    let (before, empty_bytes) = (state(&copy), copy.size_bytes());
    for limit_bytes in [empty_bytes, source.size_bytes() - 1] {
        let refused = load_chunk(&mut copy, chunks[1].0, &chunks[1].1, Trust::DumpId, &limit_bytes);
        assert!(matches!(refused, Err(ChunkError::NoRoom(_))), "{refused:?}");
        assert_eq!(state(&copy), before);
    }
    load_chunk(&mut copy, chunks[1].0, &chunks[1].1, Trust::DumpId, &source.size_bytes()).unwrap();
    assert_eq!(state(&validated(copy)), state(&source));
}
