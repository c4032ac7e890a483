//! Loads snapshots of every data type and encoding version, as in a DUMP, an RDB file or a full synchronisation.

use everbloom::bloom::Format;
use everbloom::format::CHUNK_BYTES;
use everbloom::format::filter::{from_header, load};

use super::exercise::exercise;
use super::fields::{Field, Fields};
use super::forge::{self, TableForm};
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
    assert!(filter.layers().iter().map(|layer| layer.bits().size_bytes()).sum::<u64>() <= limit);
    if mode & 16 != 0 {
        filter.assume_redisbloom_1_1();
    }
    // The first bytes are read a second time, as the choices for the use of the filter.
    exercise(filter, &mut Input::new(data), limit);
}

/// Returns a header with the magic, bits of the size and the counts that the header states, and segments of the size
/// that it states. The rest of the input fills them.
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
    for index in 0..empty.layer_count() {
        let size_bytes = empty.layers()[index].bits().bytes().len();
        for start in (0..size_bytes).step_by(CHUNK_BYTES) {
            let mut bytes = vec![0; (size_bytes - start).min(CHUNK_BYTES)];
            let is_clear = input.byte() & 3 == 0;
            if !is_clear {
                let place = usize::from(input.byte()) * bytes.len() / 256;
                let count = usize::from(input.u16());
                bytes[place..].iter_mut().zip(input.bytes(count)).for_each(|(byte, value)| *byte = *value);
            }
            // Bits above the size of the layer are refused.
            let _ = empty.add_bytes(index, start, &bytes);
            fields.push(Field::Bytes(if is_clear { Vec::new() } else { bytes }));
        }
    }
    forge::count_set_bits(&mut header, &empty);
    if let Some(form) = TableForm::of(&header) {
        let mut used_slots = 0;
        let newest = empty.newest_generation();
        for number in 0..form.segments {
            let is_clear = input.byte() & 3 == 0;
            if form.is_timed() {
                fields.push(Field::Unsigned(if is_clear {
                    0
                } else {
                    newest - u64::from(input.byte()).min(newest)
                }));
            }
            let (segment, used) = match is_clear {
                true => Default::default(),
                false => forge::segment_of(input, &form, form.depth_of(number), form.blocks_log),
            };
            used_slots += used;
            fields.push(Field::Bytes(segment));
        }
        let start = forge::table_start(&header).unwrap();
        header[start + 24..][..8].copy_from_slice(&used_slots.to_le_bytes());
    }
    fields[0] = Field::Bytes(header);
    Fields(fields)
}
