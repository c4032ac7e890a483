//! Saves and loads filters in every way.

use everbloom::bloom::{Filter, Format, UnknownMemory, Validation};
use everbloom::format::DecodeError;
use everbloom::format::chunks::Rewritten;
use everbloom::format::chunks::Trust;
use everbloom::format::filter::{DataType, chunk, digest, from_header, load, load_chunk, rewrite, save};

use super::make::ANY;
use super::{Field, Record};

/// Returns the fields of a filter in a snapshot.
pub fn saved(filter: &Filter) -> Record {
    let mut record = Record::default();
    // Saves a copy, since saving writes into the space before the cells of layers.
    save(&mut filter.try_clone(UnknownMemory).unwrap(), &mut record, UnknownMemory);
    record
}

/// Returns the filter of everbloom's own data type in a snapshot, with a limit of `limit_bytes`.
pub fn loaded(record: &Record, limit_bytes: u64) -> Result<Filter, DecodeError> {
    loaded_as(Format::Everbloom, None, record, limit_bytes)
}

/// Returns the filter of a format in a snapshot without further fields. Without an encoding version, the newest is
/// used.
pub fn loaded_as(
    format: Format,
    version: Option<i32>,
    record: &Record,
    limit_bytes: u64,
) -> Result<Filter, DecodeError> {
    let version = version.unwrap_or(DataType::of(format).encoding_version);
    let mut reader = record.reader();
    let filter = load(format, version, &mut reader, &limit_bytes).map(validated)?;
    if reader.is_at_end() { Ok(filter) } else { Err(DecodeError::Invalid("fields after the end")) }
}

/// Returns the filter, after a check of all rules.
pub fn validated(filter: Filter) -> Filter {
    assert_eq!(filter.internal_validate(Validation::Contents), Ok(()));
    filter
}

/// Returns a field of a snapshot that is a string.
pub fn string(record: &mut Record, index: usize) -> &mut Vec<u8> {
    match &mut record.0[index] {
        Field::Bytes(bytes) => bytes,
        other => panic!("{other:?}"),
    }
}

/// Returns the filter from its chunks: the header, then all chunks from the last but one to the first, then all in
/// order.
pub fn from_chunks(filter: &Filter) -> Filter {
    let (mut iterator, mut chunks) = (0, Vec::new());
    while let Some(chunk) = chunk(filter, iterator).unwrap() {
        iterator = chunk.next_iterator;
        chunks.push((iterator, chunk.data.into_owned()));
    }
    let (first, chunks) = chunks.split_first().unwrap();
    let mut loaded = from_header(&first.1, &ANY).unwrap();
    for (iterator, data) in chunks.iter().rev().skip(1).chain(chunks) {
        load_chunk(&mut loaded, *iterator, data, Trust::DumpId, &ANY).unwrap();
        loaded = validated(loaded);
    }
    loaded
}

/// Returns the filter from its commands in a rewritten append-only file.
pub fn rewritten(filter: &Filter) -> Filter {
    let mut made: Option<Filter> = None;
    rewrite(filter, UnknownMemory, 3, &mut |line| {
        let Rewritten::Chunk { iterator, data } = line else { panic!("a blob") };
        match &mut made {
            None => made = Some(from_header(data, &ANY).unwrap()),
            Some(made) => load_chunk(made, iterator, data, Trust::Sender, &ANY).unwrap(),
        }
    })
    .unwrap();
    validated(made.unwrap())
}

/// Returns the bytes from which the digest of a key is computed.
pub fn digested(filter: &Filter) -> Vec<u8> {
    let mut bytes = Vec::new();
    digest(filter, &mut |part| bytes.extend_from_slice(part));
    bytes
}
