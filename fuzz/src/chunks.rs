//! Loads chunks with BF.LOADCHUNK: a header of any kind, then chunks of cells, with valid or invalid checksums.

use everbloom::bloom::{CellType, Filter, Format, UnknownMemory};
use everbloom::format::chunks::Trust;
use everbloom::format::filter::{from_header, header, load_chunk};

use super::exercise::{exercise, validate};
use super::forge;
use super::input::Input;

/// Largest number of chunks of one input.
const CHUNKS_MAX: usize = 24;

/// Loads a header and chunks, and uses the filter.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let limit = input.limit_bytes();
    let (form, kind) = (input.byte(), input.byte());
    let id = if form & 1 == 0 { u64::from(input.byte()) } else { 0 };
    let length = input.u16().into();
    let bytes = input.bytes(length);
    let first = match form >> 1 & 3 {
        // Uses RedisBloom's header or that of a release, without changes.
        0 | 1 => bytes.to_vec(),
        2 => forge::header_chunk(bytes, id),
        _ => forge::header_chunk(&forge::header(kind, bytes), id),
    };
    let Ok(mut filter) = from_header(&first, &limit) else { return };
    assert!(filter.layers().iter().map(|layer| layer.cells().size_bytes()).sum::<u64>() <= limit);
    for _ in 0..CHUNKS_MAX {
        if input.is_empty() {
            break;
        }
        chunk(&mut filter, &mut input, id);
    }
    exercise(filter, &mut Input::new(data), limit);
}

/// Loads one chunk. A refused chunk must have changed nothing, an accepted one must have cleared no live bit.
fn chunk(filter: &mut Filter, input: &mut Input<'_>, id: u64) {
    let form = input.byte();
    let position = u64::from(input.u32());
    let length = usize::from(input.u16());
    let mut bytes = input.bytes(length).to_vec();
    let mut position = if form & 2 == 0 { position & !255 } else { position };
    match filter.cell_type() {
        // Whole pages and their stamps.
        CellType::Columns if form & 1 == 0 => (position, bytes) = pages(filter, position, &bytes, input),
        // Whole lines of counters.
        _ if form & 1 == 0 => bytes.resize(bytes.len().next_multiple_of(256), 0),
        _ => {}
    }
    let trust = if form & 4 == 0 { Trust::DumpId } else { Trust::Sender };
    let id = if form & 8 == 0 { id } else { u64::from(form) };
    let end = position + bytes.len() as u64;
    let is_redisbloom = filter.format() == Format::RedisBloom;
    let iterator = match form & 32 {
        0 if is_redisbloom => end + 1,
        0 => forge::iterator_at(end, id),
        _ => input.u64(),
    };
    let data = if form & 16 == 0 && !is_redisbloom {
        forge::with_trailer(&bytes, iterator, id)
    } else {
        bytes.clone()
    };
    let before = filter.try_clone(UnknownMemory).unwrap();
    let result = load_chunk(filter, iterator, &data, trust);
    validate(filter);
    for (old, new) in before.layers().iter().zip(filter.layers()) {
        let (old, new) = (old.cells(), new.cells());
        match (result, old.state().cell_type()) {
            (Err(_), _) => assert!(old.words() == new.words() && old.set_cells() == new.set_cells()),
            (Ok(()), CellType::Counters | CellType::Columns) => {}
            (Ok(()), CellType::Bits | CellType::Burst) => {
                assert!(old.words().iter().zip(new.words()).all(|(old, new)| old & new == *old));
            }
        }
    }
    if filter.window().is_some() {
        assert_keeps_live_bits(&before, filter);
    }
    if result.is_err() {
        assert_eq!(header(&before), header(filter));
    }
}

/// Returns whole pages of the array that holds a position, with stamps that are valid or nearly valid for the layer.
fn pages(filter: &Filter, position: u64, cells: &[u8], input: &mut Input<'_>) -> (u64, Vec<u8>) {
    let located = forge::located(filter);
    let at =
        located.iter().position(|(layer, start)| position < start.saturating_add(layer.cells().size_bytes()));
    let index = at.unwrap_or(0);
    let (layer, start) = located[index];
    let newest = layer.cells().timed().unwrap().history.newest;
    let offset = usize::try_from(position.saturating_sub(start)).unwrap();
    let most_bytes = usize::from(input.byte()) << 8;
    let Some(segment) = layer.cells().segment(offset, most_bytes) else { return (position, cells.to_vec()) };
    let mut bytes = vec![0; segment.cells.len()];
    bytes.iter_mut().zip(cells).for_each(|(byte, value)| *byte = *value);
    for _ in segment.stamps.chunks(8) {
        let back = u64::from(input.byte() & 63);
        bytes.extend(newest.saturating_add(1).saturating_sub(back).to_le_bytes());
    }
    (start.saturating_add(segment.offset as u64), bytes)
}

/// Asserts that a chunk cleared only columns that have expired by the newest generation of the filter.
fn assert_keeps_live_bits(old: &Filter, new: &Filter) {
    let newest = old.window().unwrap().newest();
    let layers = old.layers().iter().zip(new.layers());
    for (old, new) in layers.filter(|(old, _)| !old.is_burst()) {
        let (old, new) = (old.cells(), new.cells());
        let (words, pages) = (old.words().len(), old.timed().unwrap().stamps());
        let page_words = (words - pages) / pages;
        for (page, stamp) in old.words()[words - pages..].iter().enumerate() {
            let live = (1..=*stamp).rev().take(16).filter(|generation| newest - generation < 15);
            let columns = live.fold(0u64, |columns, generation| columns | 1 << (generation % 16));
            let mask = columns * 0x0001_0001_0001_0001;
            let range = page * page_words..(page + 1) * page_words;
            let mut words = old.words()[range.clone()].iter().zip(&new.words()[range]);
            assert!(words.all(|(old, new)| old & mask & !new == 0), "page {page}");
        }
    }
}
