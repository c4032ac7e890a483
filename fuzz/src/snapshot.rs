//! Loads snapshots of every data type and encoding version, as in a DUMP, an RDB file or a full synchronisation, and
//! the arguments of BF.LOAD.

use everbloom_filter::filter::loading::FilterValue;
use everbloom_filter::{Filter, Format};
use everbloom_format::contents::STRING_BYTES;
use everbloom_format::filter::from_blob;
use everbloom_format::value::{from_header, load};

use super::exercise::exercise;
use super::forge::{self, TableForm};
use super::input::Input;
use crate::work::bounded;
use crate::{Field, Record};

/// Longest string of one field.
const STRING_MAX_BYTES: usize = 24 << 20;
/// Largest sum of the lengths of all strings.
const ALL_MAX_BYTES: usize = 40 << 20;
/// Largest number of fields. No filter within the limits has as many.
const FIELDS_MAX: usize = 40_000;

/// Decodes one blob, and uses the filter if the blob is accepted.
pub fn run_blob(data: &[u8]) {
    let mut input = Input::new(data);
    let limit = input.limit_bytes();
    let blob = input.rest();
    if let Ok(filter) = bounded(blob.len() as u64, "blob", || from_blob(blob, &limit), size_bytes) {
        assert_within(&filter, limit);
        exercise(FilterValue::Complete(filter), &mut Input::new(data), limit);
    }
}

/// Returns the bytes of a filter that was decoded, for the bound of the work.
fn size_bytes<E>(decoded: &Result<Filter, E>) -> u64 {
    decoded.as_ref().map_or(0, Filter::size_bytes)
}

/// Returns the bytes of a value that was decoded, for the bound of the work.
pub fn value_bytes<E>(decoded: &Result<FilterValue, E>) -> u64 {
    decoded.as_ref().map_or(0, FilterValue::size_bytes)
}

/// Asserts that the bits of a filter are within the limit with which it was loaded.
pub fn assert_within(filter: &Filter, limit: u64) {
    assert!(filter.layers().iter().map(|layer| layer.bits().size_bytes()).sum::<u64>() <= limit);
}

/// Loads one snapshot, and uses the filter if it is accepted.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let mode = input.byte();
    let limit = input.limit_bytes();
    let (format, version, fields) = if mode & 8 == 0 {
        let format = *input.choose(&Format::ALL);
        let version = i32::from(input.byte().cast_signed());
        (format, version, read(&mut input))
    } else {
        (Format::Everbloom, 1, forged(&mut input, limit))
    };
    let mut reader = fields.reader();
    let load = || load(format, version, &mut reader, &limit);
    let Ok(mut value) = bounded(fields.size_bytes(), "snapshot", load, value_bytes) else { return };
    if !reader.is_at_end() {
        // A server refuses these bytes before it calls the module.
        return;
    }
    assert_within(value.filter(), limit);
    if mode & 16 != 0 {
        value.filter_mut().assume_redisbloom_1_1();
    }
    // The first bytes are read a second time, as the choices for the use of the filter.
    exercise(value, &mut Input::new(data), limit);
}

/// Returns the fields of a snapshot: a header with a valid start, and bits and segments of the sizes that the header
/// states. The rest of the input fills the bits and segments, and the header states their counts.
fn forged(input: &mut Input<'_>, limit: u64) -> Record {
    let kind = input.byte();
    let length = input.u16().into();
    let mut header = forge::header(kind, input.bytes(length));
    let mut fields = vec![Field::Bytes(header.clone())];
    let Ok(mut value) = from_header(&forge::header_chunk(&header, 1), &limit) else {
        return Record(fields);
    };
    let empty = value.filter_mut();
    if empty.format() != Format::Everbloom {
        return Record(fields);
    }
    for index in 0..empty.layer_count() {
        let size_bytes = empty.layers()[index].bits().bytes().len();
        for start in (0..size_bytes).step_by(STRING_BYTES) {
            let mut bytes = vec![0; (size_bytes - start).min(STRING_BYTES)];
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
    forge::count_set_bits(&mut header, empty);
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
    Record(fields)
}

/// Reads fields to the end of the input. For a string, the input has either a length and all bytes, or a few bytes that
/// are surrounded by zero bytes. In the second case, the input has the length in bytes, or an earlier field has it in
/// bits.
pub fn read(input: &mut Input<'_>) -> Record {
    let mut fields = Vec::new();
    let mut total_bytes = 0;
    while !input.is_empty() && fields.len() < FIELDS_MAX {
        let field = match input.byte() % 6 {
            0 => Field::Unsigned(input.u64()),
            1 => Field::Double(f64::from_bits(input.u64())),
            2 => Field::Float(f32::from_bits(input.u32())),
            3 => {
                let length = input.u32() as usize;
                Field::Bytes(input.bytes(length).to_vec())
            }
            4 => {
                let length = input.u32() as usize;
                repeated(input, length)
            }
            _ => {
                let back = input.below(8);
                let bits = match fields.iter().rev().nth(back) {
                    Some(Field::Unsigned(bits)) => *bits,
                    _ => 0,
                };
                repeated(input, usize::try_from(bits.div_ceil(8)).unwrap_or(usize::MAX))
            }
        };
        if let Field::Bytes(bytes) = &field {
            total_bytes += bytes.len();
            if total_bytes > ALL_MAX_BYTES {
                break;
            }
        }
        fields.push(field);
    }
    Record(fields)
}

/// Appends the input from which [`run`] reads these fields.
pub fn write(record: &Record, input: &mut Vec<u8>) {
    for field in &record.0 {
        let (kind, bytes) = match field {
            Field::Unsigned(number) => (0, number.to_le_bytes().to_vec()),
            Field::Double(number) => (1, number.to_le_bytes().to_vec()),
            Field::Float(number) => (2, number.to_le_bytes().to_vec()),
            Field::Bytes(bytes) => {
                let (is_clear, length) = (bytes.iter().all(|byte| *byte == 0), bytes.len() as u32);
                let rest = if is_clear { &[0; 2][..] } else { bytes };
                (if is_clear { 4 } else { 3 }, [&length.to_le_bytes()[..], rest].concat())
            }
        };
        input.push(kind);
        input.extend(bytes);
    }
}

/// Returns a string of zero bytes, except for a few bytes at one place.
pub fn repeated(input: &mut Input<'_>, length: usize) -> Field {
    let mut bytes = vec![0; length.min(STRING_MAX_BYTES)];
    let place = usize::from(input.byte()) * bytes.len() / 256;
    let count = usize::from(input.byte() & 63);
    for (byte, value) in bytes[place..].iter_mut().zip(input.bytes(count)) {
        *byte = *value;
    }
    Field::Bytes(bytes)
}
