//! Loads chunks with BF.LOADCHUNK: a header of any kind, then chunks of bits and of segments, with valid or invalid
//! checksums.

use everbloom_filter::filter::loading::FilterValue;
use everbloom_filter::{Format, UnknownMemory, Validation};
use everbloom_format::chunks::Trust;
use everbloom_format::value::{from_header, load_chunk};

use super::exercise::exercise;
use super::forge::{self, TableForm};
use super::input::Input;
use super::snapshot::{assert_within, value_bytes};
use crate::make::ANY;
use crate::saved::fingerprint;
use crate::work::bounded;

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
        // Uses the bytes unchanged. They may be a header of RedisBloom or of a release.
        0 | 1 => bytes.to_vec(),
        2 => forge::header_chunk(bytes, id),
        _ => forge::header_chunk(&forge::header(kind, bytes), id),
    };
    let load = || from_header(&first, &limit);
    let Ok(mut value) = bounded(first.len() as u64, "header", load, value_bytes) else { return };
    assert_within(value.filter(), limit);
    let form_of_table = if let FilterValue::Loading(_) = value { TableForm::of(&first) } else { None };
    for _ in 0..CHUNKS_MAX {
        if input.is_empty() {
            break;
        }
        match form_of_table {
            Some(form) if input.flag() => parts(&mut value, &mut input, &form, id),
            _ => chunk(&mut value, &mut input, id),
        }
    }
    exercise(value, &mut Input::new(data), limit);
}

/// Loads one chunk of bits.
fn chunk(value: &mut FilterValue, input: &mut Input<'_>, id: u64) {
    let form = input.byte();
    let position = u64::from(input.u32());
    let length = usize::from(input.u16());
    let mut bytes = input.bytes(length).to_vec();
    let position = if form & 2 == 0 { position & !255 } else { position };
    if form & 1 == 0 {
        bytes.resize(bytes.len().next_multiple_of(256), 0);
    }
    let length = bytes.len();
    let trust = if form & 4 == 0 { Trust::Client { now_ms: u64::MAX } } else { Trust::Sender };
    let id = if form & 8 == 0 { id } else { u64::from(form) };
    let end = position + length as u64;
    let is_redisbloom = value.filter().format() == Format::RedisBloom;
    if let FilterValue::Loading(_) = value {
        // The chunk begins where its bits begin, or before.
        let start = position.saturating_sub(u64::from(form & 64) << 10);
        bytes.splice(0..0, start.to_le_bytes());
    }
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
    load(value, iterator, &data, trust);
}

/// Loads a chunk of segments. They may be larger or smaller than those of the table.
fn parts(value: &mut FilterValue, input: &mut Input<'_>, form: &TableForm, id: u64) {
    let choice = input.byte();
    let layers_end = value.filter().layers_end();
    let start = if choice & 8 == 0 { 0 } else { u64::from(input.u32()) };
    let mut bytes = (layers_end + start).to_le_bytes().to_vec();
    for _ in 0..=choice & 3 {
        let depth = match input.byte() {
            byte @ 0..6 => byte.into(),
            byte => form.depth_of(byte.into()),
        };
        let number = u32::from(input.byte()) & ((1 << depth) - 1);
        let blocks_log =
            if depth == 0 && input.flag() { u32::from(input.byte() % 7) } else { form.blocks_log };
        let stamp = if form.is_timed() {
            let newest = value.filter().newest_generation();
            newest.saturating_add(3).saturating_sub(input.byte().into())
        } else {
            0
        };
        let (segment, _) = forge::segment_of(input, form, depth, blocks_log);
        bytes.extend(forge::part(number, depth, blocks_log, stamp, &segment));
    }
    let end = if choice & 4 == 0 { 1 << 32 } else { u64::from(input.u32()) };
    let iterator = forge::iterator_at(layers_end + end, id);
    load(value, iterator, &forge::with_trailer(&bytes, iterator, id), Trust::Sender);
}

/// Loads a chunk. A refused chunk must change nothing. An accepted chunk must clear no bit.
fn load(value: &mut FilterValue, iterator: u64, data: &[u8], trust: Trust) {
    let before = value.try_clone(UnknownMemory).unwrap();
    let load = || {
        let result = load_chunk(value, iterator, data, trust, &ANY);
        (result, value.size_bytes())
    };
    let bytes = data.len() as u64 + before.size_bytes();
    let (result, _) = bounded(bytes, "chunk", load, |(_, size_bytes)| *size_bytes);
    assert_eq!(value.internal_validate(Validation::Contents), Ok(()), "after a chunk");
    for (old, new) in before.filter().layers().iter().zip(value.filter().layers()) {
        let (old, new) = (old.bits(), new.bits());
        assert!(old.words().zip(new.words()).all(|(old, new)| old & new == old));
    }
    if let Err(_) | Ok(false) = result {
        assert_eq!(fingerprint(&before), fingerprint(value));
    }
}
