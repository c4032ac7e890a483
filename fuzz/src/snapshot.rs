//! Loads snapshots of every data type and encoding version, as in a DUMP, an RDB file or a full synchronisation.

use everbloom::bloom::{Filter, Format, Window};
use everbloom::format::chunks::Trust;
use everbloom::format::filter::{from_header, load, load_chunk};

use super::exercise::exercise;
use super::fields::{Field, Fields};
use super::forge;
use super::input::Input;

/// Loads one snapshot, and uses the filter if it is accepted.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let mode = input.byte();
    let limit = input.limit_bytes();
    let (format, version, fields) = if mode & 8 == 0 {
        let format = *input.choose(&Format::ALL);
        let version = i32::from(input.byte().cast_signed());
        (format, version, Fields::read(&mut input))
    } else {
        (Format::Everbloom, 1, forged(&mut input, limit))
    };
    let mut reader = fields.reader();
    let Ok(mut filter) = load(format, version, &mut reader, &limit) else { return };
    if !reader.is_at_end() {
        // A server refuses these bytes before it calls the module.
        return;
    }
    assert!(filter.layers().iter().map(|layer| layer.cells().size_bytes()).sum::<u64>() <= limit);
    if mode & 16 != 0 {
        filter.assume_redisbloom_1_1();
    }
    // The first bytes are read a second time, as the choices for the use of the filter.
    exercise(filter, &mut Input::new(data), limit);
}

/// Returns a header with the magic, and arrays of the size and the counts that the header states. The rest of the input
/// fills the arrays.
fn forged(input: &mut Input<'_>, limit: u64) -> Fields {
    let kind = input.byte();
    let length = input.u16().into();
    let mut header = forge::header(kind, input.bytes(length));
    let mut fields = vec![Field::Bytes(header.clone())];
    let Ok(mut empty) = from_header(&forge::header_chunk(&header, 1), &limit) else {
        return Fields(fields);
    };
    if empty.format() != Format::Everbloom {
        return Fields(fields);
    }
    let newest = empty.window().map_or(0, Window::newest);
    for (position, cells_bytes, stamps_bytes) in segments(&empty) {
        let is_clear = input.byte() & 3 == 0;
        let (mut cells, mut stamps) = (vec![0; cells_bytes], vec![0; stamps_bytes]);
        if !is_clear {
            let count = usize::from(input.u16());
            let place = usize::from(input.byte()) * cells_bytes / 256;
            cells[place..].iter_mut().zip(input.bytes(count)).for_each(|(byte, value)| *byte = *value);
            for stamp in stamps.as_chunks_mut::<8>().0 {
                *stamp = newest.saturating_sub(u64::from(input.byte() & 31)).to_le_bytes();
            }
        }
        let payload = [cells.as_slice(), &stamps].concat();
        let iterator = forge::iterator_at(position + payload.len() as u64, 1);
        let chunk = forge::with_trailer(&payload, iterator, 1);
        let _ = load_chunk(&mut empty, iterator, &chunk, Trust::DumpId);
        let strings = [cells, stamps].into_iter().filter(|string| !string.is_empty());
        fields.extend(strings.map(|string| Field::Bytes(if is_clear { Vec::new() } else { string })));
    }
    forge::count_set_cells(&mut header, &empty);
    fields[0] = Field::Bytes(header);
    Fields(fields)
}

/// Returns the start of each segment of a filter's arrays in a dump, and the bytes of its cells and of its stamps.
fn segments(filter: &Filter) -> Vec<(u64, usize, usize)> {
    let mut segments = Vec::new();
    for (layer, start) in forge::located(filter) {
        let mut offset = 0;
        while let Some(segment) = layer.cells().segment(offset, 16 << 20) {
            segments.push((start + offset as u64, segment.cells.len(), segment.stamps.len()));
            offset += segment.cells.len() + segment.stamps.len();
        }
    }
    segments
}
