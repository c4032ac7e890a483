//! Saves and loads filters in every way.

use everbloom_filter::DumpId;
use everbloom_filter::bits::estimate::deviation;
use everbloom_filter::cuckoo::filter::CuckooFilter;
use everbloom_filter::filter::loading::FilterValue;
use everbloom_filter::hash::murmur2::Murmur2;
use everbloom_filter::hash::murmur3::hash128;
use everbloom_filter::table::Table;
use everbloom_filter::{Filter, Format, Hash, ItemHash, Layer, UnknownMemory, Validation};
use everbloom_format::DataType;
use everbloom_format::chunks::{Rewritten, Trust};
use everbloom_format::filter::{chunk, digest, from_blob, save};
use everbloom_format::redisbloom::cuckoo;
use everbloom_format::value::{self, from_header, load_chunk};
use everbloom_format::{DecodeError, Sink};

use super::make::{ANY, CLIENT};
use super::work::{bounded, callback, defragment};
use super::{Field, Record};

/// Returns the fields of a filter in a snapshot.
pub fn saved(filter: &Filter) -> Record {
    let bytes = filter.size_bytes();
    let save = || {
        let mut record = Record::default();
        save(filter, &mut record, UnknownMemory);
        record
    };
    callback(bytes, "save", save, Record::size_bytes)
}

/// Loads a filter from a snapshot of everbloom's own data type, with a limit of `limit_bytes`.
pub fn loaded(record: &Record, limit_bytes: u64) -> Result<Filter, DecodeError> {
    loaded_as(Format::Everbloom, None, record, limit_bytes)
}

/// Loads a filter from a snapshot of the data type of a format. Fields that the load does not read are an error.
/// Without a `version`, the newest encoding version is used.
pub fn loaded_as(
    format: Format,
    version: Option<i32>,
    record: &Record,
    limit_bytes: u64,
) -> Result<Filter, DecodeError> {
    let version = version.unwrap_or(DataType::of(format).encoding_version);
    let mut reader = record.reader();
    let filter = validated(complete(value::load(format, version, &mut reader, &limit_bytes)?));
    if reader.is_at_end() { Ok(filter) } else { Err(DecodeError::Invalid("fields after the end")) }
}

/// Returns the filter of a value that is not being loaded.
pub fn complete(value: FilterValue) -> Filter {
    match value {
        FilterValue::Complete(filter) => filter,
        FilterValue::Loading(load) => panic!("still being loaded: {:?}", load.ranges().collect::<Vec<_>>()),
    }
}

/// Asserts that a filter keeps all rules.
pub fn assert_valid(filter: &Filter, context: &str) {
    assert_eq!(filter.internal_validate(Validation::Contents), Ok(()), "{context}");
}

/// Returns the filter, after a check of all rules.
pub fn validated(filter: Filter) -> Filter {
    assert_valid(&filter, "loaded");
    filter
}

/// Returns the field of a snapshot at `index`, which must be a string.
pub fn string(record: &mut Record, index: usize) -> &mut Vec<u8> {
    match &mut record.0[index] {
        Field::Bytes(bytes) => bytes,
        other => panic!("{other:?}"),
    }
}

/// Returns the chunks of a dump with this id, each with its iterator, the header first.
pub fn chunks(filter: &Filter, id: DumpId) -> Vec<(u64, Vec<u8>)> {
    let (mut iterator, mut chunks) = (0, Vec::new());
    let dump = Some(filter.dump_as(id));
    while let Some(chunk) = chunk(filter, dump, iterator).unwrap() {
        iterator = chunk.next_iterator;
        chunks.push((iterator, chunk.data.into_owned()));
    }
    chunks
}

/// Loads the header of a dump, then all chunks but the last in reverse order, then the last. Returns the loaded filter.
pub fn from_chunks(filter: &Filter, id: DumpId) -> Filter {
    let all = chunks(filter, id);
    let (first, chunks) = all.split_first().unwrap();
    let mut loaded = from_header(&first.1, &ANY).unwrap();
    for (iterator, data) in chunks.iter().rev().skip(1).chain(chunks.last()) {
        load_chunk(&mut loaded, *iterator, data, CLIENT, &ANY).unwrap();
        assert_valid(loaded.filter(), "being loaded");
    }
    validated(complete(loaded))
}

/// Returns the filter that is loaded from its commands in a rewritten append-only file.
pub fn rewritten(filter: &Filter) -> Filter {
    let copy = FilterValue::Complete(filter.try_clone(UnknownMemory).unwrap());
    validated(complete(rewritten_value(&copy)))
}

/// Returns the value that is loaded from its commands in a rewritten append-only file.
pub fn rewritten_value(value: &FilterValue) -> FilterValue {
    let mut made: Option<FilterValue> = None;
    let is_valkeybloom = value.filter().format() == Format::ValkeyBloom;
    for (iterator, data) in rewritten_commands(value) {
        match (iterator, &mut made) {
            (Some(_), _) if is_valkeybloom => panic!("valkey-bloom loads no chunks"),
            (None, _) => made = Some(FilterValue::Complete(from_blob(&data, &ANY).unwrap())),
            (Some(_), None) => made = Some(from_header(&data, &ANY).unwrap()),
            (Some(iterator), Some(made)) => {
                load_chunk(made, iterator, &data, Trust::Sender, &ANY).unwrap();
            }
        }
    }
    made.unwrap()
}

/// Returns the commands of a value in a rewritten append-only file: BF.LOADCHUNK with an iterator, and BF.LOAD without
/// one.
pub fn rewritten_commands(value: &FilterValue) -> Vec<(Option<u64>, Vec<u8>)> {
    let mut commands = Vec::new();
    let rewrite = || {
        value::rewrite(value, UnknownMemory, 3, &mut |command| {
            commands.push(match command {
                Rewritten::Chunk { iterator, data } => (Some(iterator), data.to_vec()),
                Rewritten::Blob(blob) => (None, blob.to_vec()),
                Rewritten::CuckooChunk { .. } | Rewritten::Payload(_) => panic!("not of a filter"),
            });
        })
        .unwrap();
        commands
    };
    let size_bytes = |commands: &Vec<(_, Vec<u8>)>| commands.iter().map(|(_, data)| data.len() as u64).sum();
    callback(value.size_bytes(), "rewrite", rewrite, size_bytes)
}

/// Returns everything in which two filters can differ, as bytes.
pub fn digested(filter: &Filter) -> Vec<u8> {
    let digest = || {
        let mut bytes = Vec::new();
        digest(filter, UnknownMemory, &mut |part| bytes.extend_from_slice(part));
        bytes
    };
    callback(filter.size_bytes(), "digest", digest, |bytes| bytes.len() as u64)
}

/// Returns everything in which two values can differ, as bytes.
pub fn digested_value(value: &FilterValue) -> Vec<u8> {
    let digest = || {
        let mut bytes = Vec::new();
        value::digest(value, UnknownMemory, &mut |part| bytes.extend_from_slice(part));
        bytes
    };
    callback(value.size_bytes(), "digest", digest, |bytes| bytes.len() as u64)
}

/// Returns a hash of everything in which two values can differ.
pub fn fingerprint(value: &FilterValue) -> ItemHash {
    hash128(&digested_value(value))
}

/// Returns the fields of a value in a snapshot.
pub fn saved_value(value: &FilterValue) -> Record {
    let copy = || value.try_clone(UnknownMemory).unwrap();
    let copied = callback(value.size_bytes(), "copy", copy, FilterValue::size_bytes);
    let save = || {
        let mut record = Record::default();
        value::save(&copied, &mut record, UnknownMemory);
        record
    };
    callback(value.size_bytes(), "save", save, Record::size_bytes)
}

/// Loads a value from a snapshot of the newest encoding version.
pub fn loaded_value(format: Format, record: &Record) -> FilterValue {
    let mut reader = record.reader();
    let version = DataType::of(format).encoding_version;
    let loaded = value::load(format, version, &mut reader, &u64::MAX).unwrap();
    assert!(reader.is_at_end());
    loaded
}

/// Returns copies of a value that were made in every way: a copy, a snapshot, and a rewritten append-only file.
pub fn remade(value: &FilterValue) -> [(&'static str, FilterValue); 3] {
    let copied = value.try_clone(UnknownMemory).unwrap();
    let loaded = loaded_value(value.filter().format(), &saved_value(value));
    [("copy", copied), ("snapshot", loaded), ("rewritten", rewritten_value(value))]
}

/// Asserts that every way to save a value gives the same one.
pub fn assert_value_survives(value: &FilterValue, context: &str) {
    for (way, again) in remade(value) {
        assert_eq!(again.internal_validate(Validation::Contents), Ok(()), "{context}, {way}");
        assert!(digested_value(&again) == digested_value(value), "{context}, {way}");
    }
}

/// Returns a hash of the saved fields of a cuckoo filter.
pub fn cuckoo_fingerprint(filter: &CuckooFilter) -> ItemHash {
    let mut record = Record::default();
    cuckoo::save(filter, &mut record);
    let mut bytes = Vec::new();
    for field in &record.0 {
        match field {
            Field::Unsigned(number) => bytes.extend(number.to_le_bytes()),
            Field::Bytes(string) => bytes.extend_from_slice(string),
            other => panic!("{other:?}"),
        }
    }
    hash128(&bytes)
}

/// Returns everything in which two cuckoo filters can differ, as bytes.
fn cuckoo_digested(filter: &CuckooFilter) -> Vec<u8> {
    let mut bytes = Vec::new();
    cuckoo::digest(filter, &mut |part| bytes.extend_from_slice(part));
    bytes
}

/// Reads nothing of what is saved.
struct Unread;

impl Sink for Unread {
    fn unsigned(&mut self, _: u64) {}
    fn double(&mut self, _: f64) {}
    fn bytes(&mut self, _: &[u8]) {}
}

/// Asserts that the callbacks of a server for a cuckoo filter cost what is stored. Returns the copy.
pub fn assert_cuckoo_callbacks(filter: &CuckooFilter, context: &str) -> CuckooFilter {
    let stored = filter.stored_bytes();
    let name = |callback: &str| format!("{callback}, {context}");
    let copy = bounded(stored, &name("copy"), || filter.try_clone().unwrap(), |_| 0);
    let mut emitted = 0;
    let mut count = |command: Rewritten<'_>| match command {
        Rewritten::CuckooChunk { data, .. } | Rewritten::Payload(data) => emitted += data.len() as u64,
        _ => panic!("not of a cuckoo filter"),
    };
    let rewrite = || cuckoo::rewrite(filter, &mut count);
    bounded(stored, &name("rewrite"), rewrite, |_| 0).unwrap();
    // Besides the header. A payload has every slot.
    let most = if filter.has_header() { stored } else { filter.slots_bytes() };
    assert!(
        emitted <= most + 512 + 30 * filter.arrays().len() as u64,
        "{context}: {emitted} of {most} bytes"
    );
    bounded(stored, &name("save"), || cuckoo::save(filter, &mut Unread), |()| 0);
    let digested = bounded(stored, &name("digest"), || cuckoo_digested(filter), |_| 0);
    assert!(cuckoo_digested(&copy) == digested && digested.len() as u64 <= 2 * stored + 64, "{context}");
    assert!(copy.stored_bytes() <= stored, "{context}");
    copy
}

/// Asserts that a copy of a cuckoo filter, and its saved fields, are the same filter, and what the callbacks of a server cost.
pub fn assert_cuckoo_survives(filter: &CuckooFilter, context: &str) {
    let copy = assert_cuckoo_callbacks(filter, context);
    let mut record = Record::default();
    cuckoo::save(filter, &mut record);
    let loaded = cuckoo::load(cuckoo::ENCODING_VERSION, &mut record.reader(), &u64::MAX).unwrap();
    for same in [filter, &copy, &loaded] {
        assert_eq!(cuckoo_fingerprint(same), cuckoo_fingerprint(filter), "{context}");
        assert!(cuckoo_digested(same) == cuckoo_digested(filter), "{context}: digest");
        assert_eq!(same.internal_validate(), Ok(()), "{context}");
    }
}

/// Asserts that two filters are the same, and that the second one keeps all rules.
pub fn assert_same(one: &Filter, other: &Filter, context: &str) {
    assert_valid(other, context);
    assert!(digested(one) == digested(other), "{context}: other contents");
    // A sliding-window filter counts the items that are live at its time, and the saved bytes have no time.
    assert!(one.window().is_some() || one.items() == other.items(), "{context}: other items");
    assert_eq!(one.growth(), other.growth(), "{context}");
}

/// Returns whether the items of a layer explain its set bits, up to chance.
fn counts_what_is_set(layer: &Layer) -> bool {
    let (items, estimated) = (layer.counts().items as f64, layer.estimated_items());
    estimated - items <= 4.0 * deviation(estimated, layer.positions(), layer.layout().probes())
}

/// Asserts that a copy, a snapshot, the chunks of a dump and a rewritten append-only file give the same filter.
pub fn assert_survives(filter: &Filter, context: &str) {
    // The saved bytes do not show whether the filter has the hash of RedisBloom 1.1.
    let is_1_1 = filter.layers().first().map(Layer::hash) == Some(&Hash::RedisBloom(Murmur2::WideCutSeeds));
    let assert_same = |mut other: Filter, way: &str| {
        if is_1_1 {
            other.assume_redisbloom_1_1();
        }
        assert_same(filter, &other, &format!("{context}, {way}"));
    };
    let mut copy = filter.try_clone(UnknownMemory).unwrap();
    assert_same(loaded_as(filter.format(), None, &saved(filter), ANY).unwrap(), "snapshot");
    let bytes = copy.size_bytes();
    defragment(&mut copy, bytes, context);
    // A load counts the items of some tables and bits again, as those of forged ones.
    let loaded = from_chunks(&copy, 77);
    let is_counted = filter.layers().iter().all(counts_what_is_set);
    if is_counted && filter.table().is_none_or(Table::has_counts_of_entries) {
        assert_same(loaded, "chunks");
    } else {
        self::assert_same(&loaded, &from_chunks(&loaded, 77), &format!("{context}, chunks again"));
    }
    if is_counted || filter.format() != Format::RedisBloom {
        assert_same(rewritten(filter), "rewritten");
    }
    assert_same(copy, "copy");
}
