//! Snapshots of every data type and encoding version: what a DUMP, an RDB file or a full synchronisation holds.

use everbloom::bloom::{Filter, Format};
use everbloom::format::filter::{from_header, load, load_chunk};
use everbloom::format::pieces::Trust;

use super::exercise::exercise;
use super::fields::{Field, Fields};
use super::forge;
use super::input::Input;

/// Loads one snapshot, and uses what is accepted.
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
        // A server refuses these.
        return;
    }
    assert!(filter.storages().map(|storage| storage.size_bytes()).sum::<u64>() <= limit);
    if mode & 16 != 0 {
        filter.assume_redisbloom_1_1();
    }
    // The choices of what is done with it are the first bytes once more.
    exercise(filter, &mut Input::new(data), limit);
}

/// A header with magic, and arrays of the size and the counts that it needs, filled with what is left.
fn forged(input: &mut Input<'_>, limit: u64) -> Fields {
    let kind = input.byte();
    let length = input.u16().into();
    let mut header = forge::header(kind, input.bytes(length));
    let mut fields = vec![Field::Bytes(header.clone())];
    let Ok(mut empty) = from_header(&forge::sealed_header(&header, Some(1)), &limit) else {
        return Fields(fields);
    };
    if matches!(empty, Filter::RedisBloom(_) | Filter::ValkeyBloom(_)) {
        return Fields(fields);
    }
    let mut position = 0;
    while let Some((array, start)) = forge::array_at(&empty, position) {
        let end = start + array.bytes.len() as u64;
        let length = (end - position).min(16 << 20) as usize;
        let is_clear = input.byte() & 3 == 0;
        let mut chunk = vec![0; length];
        if !is_clear {
            let count = usize::from(input.u16());
            let place = usize::from(input.byte()) * length / 256;
            chunk[place..].iter_mut().zip(input.bytes(count)).for_each(|(byte, value)| *byte = *value);
        }
        let piece = forge::sealed_chunk(&chunk, position, &array, Some(1));
        position += length as u64;
        let _ = load_chunk(&mut empty, position + 1, &piece, Trust::Marks);
        fields.push(Field::Bytes(if is_clear { Vec::new() } else { chunk }));
    }
    forge::count_set_bits(&mut header, &empty);
    fields[0] = Field::Bytes(header);
    Fields(fields)
}
