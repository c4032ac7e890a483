//! The pieces of BF.LOADCHUNK: a header of any kind, then chunks of it, with seals that hold or not.

use everbloom::bloom::{Filter, Storage, UnknownMemory};
use everbloom::format::filter::{from_header, header, load_chunk};
use everbloom::format::pieces::Trust;

use super::exercise::exercise;
use super::forge;
use super::input::Input;

/// Most chunks of one input.
const CHUNKS_MAX: usize = 24;

/// Loads a header and chunks, and uses the filter.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let limit = input.limit_bytes();
    let (form, kind) = (input.byte(), input.byte());
    let mark = (form & 1 == 0).then(|| u64::from(input.byte()));
    let length = input.u16().into();
    let bytes = input.bytes(length);
    let piece = match form >> 1 & 3 {
        // Nothing is forged: RedisBloom's header, or one that a release wrote.
        0 | 1 => bytes.to_vec(),
        2 => forge::sealed_header(bytes, mark),
        _ => forge::sealed_header(&forge::header(kind, bytes), mark),
    };
    let Ok(mut filter) = from_header(&piece, &limit) else { return };
    assert!(filter.storages().map(Storage::size_bytes).sum::<u64>() <= limit);
    for _ in 0..CHUNKS_MAX {
        if input.is_empty() {
            break;
        }
        chunk(&mut filter, &mut input, mark);
    }
    exercise(filter, &mut Input::new(data), limit);
}

/// Loads one chunk. Refused, it has changed nothing; taken, it has taken no bit away.
fn chunk(filter: &mut Filter, input: &mut Input<'_>, mark: Option<u64>) {
    let form = input.byte();
    let position = u64::from(input.u32());
    let length = usize::from(input.u16());
    // Filters that count take whole lines.
    let mut bytes = input.bytes(length).to_vec();
    if form & 1 == 0 {
        bytes.resize(bytes.len().next_multiple_of(256), 0);
    }
    let position = if form & 2 == 0 { position & !255 } else { position };
    let trust = if form & 4 == 0 { Trust::Marks } else { Trust::Sender };
    let mark = if form & 8 == 0 { mark } else { Some(u64::from(form)) };
    let data = match forge::array_at(filter, position) {
        Some((array, _)) if form & 16 == 0 && !matches!(filter, Filter::RedisBloom(_)) => {
            forge::sealed_chunk(&bytes, position, &array, mark)
        }
        _ => bytes.clone(),
    };
    let iterator = if form & 32 == 0 { position + bytes.len() as u64 + 1 } else { input.u64() };
    let before = filter.try_clone(UnknownMemory).unwrap();
    let result = load_chunk(filter, iterator, &data, trust);
    let is_counting = matches!(filter, Filter::Counting(_));
    for (old, new) in before.storages().zip(filter.storages()) {
        match result {
            Err(_) => assert!(old.words() == new.words() && old.set_bits() == new.set_bits()),
            Ok(()) if is_counting => {}
            Ok(()) => assert!(old.words().iter().zip(new.words()).all(|(old, new)| old & new == *old)),
        }
    }
    if result.is_err() {
        assert_eq!(header(&before), header(filter));
    }
}
