//! Loads chunks with BF.LOADCHUNK: a header of any kind, then chunks of bits and of segments, with valid or invalid
//! checksums.

use everbloom::bloom::generation::is_live;
use everbloom::bloom::prefetch::NoPrefetch;
use everbloom::bloom::{Filter, Format, ItemHash, UnknownMemory};
use everbloom::format::chunks::Trust;
use everbloom::format::filter::{from_header, load_chunk};

use super::exercise::exercise;
use super::forge::{self, TableForm};
use super::input::Input;
use super::read;
use super::snapshot::{assert_within, size_bytes};
use crate::support::make::ANY;
use crate::support::saved::{assert_valid, fingerprint};
use crate::support::work::bounded;

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
    let Ok(mut filter) = bounded(first.len() as u64, "header", load, size_bytes) else { return };
    assert_within(&filter, limit);
    let form_of_table = filter.table().and_then(|_| TableForm::of(&first));
    for _ in 0..CHUNKS_MAX {
        if input.is_empty() {
            break;
        }
        match form_of_table {
            Some(form) if input.flag() => parts(&mut filter, &mut input, &form, id),
            _ => chunk(&mut filter, &mut input, id),
        }
    }
    exercise(filter, &mut Input::new(data), limit);
}

/// Loads one chunk of bits.
fn chunk(filter: &mut Filter, input: &mut Input<'_>, id: u64) {
    let form = input.byte();
    let position = u64::from(input.u32());
    let length = usize::from(input.u16());
    let mut bytes = input.bytes(length).to_vec();
    let position = if form & 2 == 0 { position & !255 } else { position };
    if form & 1 == 0 {
        bytes.resize(bytes.len().next_multiple_of(256), 0);
    }
    let trust = if form & 4 == 0 { Trust::Client { now_ms: u64::MAX } } else { Trust::Sender };
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
    load(filter, iterator, &data, trust);
}

/// Loads a chunk of segments. They may be larger or smaller than those of the table.
fn parts(filter: &mut Filter, input: &mut Input<'_>, form: &TableForm, id: u64) {
    let mut bytes = Vec::new();
    let choice = input.byte();
    for _ in 0..=choice & 3 {
        let depth = match input.byte() {
            byte @ 0..6 => byte.into(),
            byte => form.depth_of(byte.into()),
        };
        let number = u32::from(input.byte()) & ((1 << depth) - 1);
        let blocks_log =
            if depth == 0 && input.flag() { u32::from(input.byte() % 7) } else { form.blocks_log };
        let stamp = if form.is_timed() {
            let newest = filter.newest_generation();
            newest.saturating_add(3).saturating_sub(input.byte().into())
        } else {
            0
        };
        let (segment, _) = forge::segment_of(input, form, depth, blocks_log);
        bytes.extend(forge::part(number, depth, blocks_log, stamp, &segment));
    }
    let end = if choice & 4 == 0 { 1 << 32 } else { u64::from(input.u32()) };
    let iterator = forge::iterator_at(filter.layers_end() + end, id);
    load(filter, iterator, &forge::with_trailer(&bytes, iterator, id), Trust::Sender);
}

/// Loads a chunk. A refused chunk must change nothing. An accepted chunk must clear no bit and remove no entry.
fn load(filter: &mut Filter, iterator: u64, data: &[u8], trust: Trust) {
    let before = filter.try_clone(UnknownMemory).unwrap();
    let load = || {
        let result = load_chunk(filter, iterator, data, trust, &ANY);
        (result, filter.size_bytes())
    };
    let bytes = data.len() as u64 + before.size_bytes();
    let (result, _) = bounded(bytes, "chunk", load, |(_, size_bytes)| *size_bytes);
    assert_valid(filter, "after a chunk");
    for (old, new) in before.layers().iter().zip(filter.layers()) {
        let (old, new) = (old.bits(), new.bits());
        match result {
            Err(_) => assert!(old.words() == new.words() && old.set_bits() == new.set_bits()),
            Ok(()) => assert!(old.words().iter().zip(new.words()).all(|(old, new)| old & new == *old)),
        }
    }
    match result {
        Err(_) => assert_eq!(fingerprint(&before), fingerprint(filter)),
        Ok(()) => assert_has_entries(&before, filter),
    }
}

/// Asserts that the filter still matches every live entry of `before`. The lookup is for one of the items that the
/// entry matches: all unknown bits of its hash are clear.
fn assert_has_entries(before: &Filter, after: &Filter) {
    let (Some(old), Some(new)) = (before.table(), after.table()) else { return };
    let now = after.newest_generation();
    for segment in read::segments_of(old) {
        for entry in &segment.entries {
            let (known, _) = entry.known(&segment);
            let h2 = (known >> 64) as u64 & (u64::MAX >> 6) | u64::from(entry.bucket) << 58;
            let hash = ItemHash { h1: known as u64, h2 };
            let is_live = before.window().is_none() || is_live(entry.generation, now);
            assert!(!is_live || new.contains(hash, now, NoPrefetch), "lost {entry:?}");
        }
    }
}
