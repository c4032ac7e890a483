//! What earlier releases of everbloom wrote down is read for ever: snapshots, pieces, and the commands of
//! append-only files, recorded from the released module. tests/fixtures/README.md says how.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::panic,
    missing_docs,
    unreachable_pub,
    dead_code,
    reason = "a test fails by panicking; files that several tests share are used in part"
)]

mod commands;
mod pieces;
#[path = "../commands/server.rs"]
mod server;
mod snapshots;
#[path = "../support/mod.rs"]
mod support;

use everbloom::bloom::{Filter, Format, NoPrefetch, Storage, UnknownMemory};
use everbloom::format::DecodeError;
use everbloom::format::filter::{header, load, save};
use support::Record;
use support::rdb::Payload;
use support::recording::Recorded;

/// No limit.
const ANY: u64 = u64::MAX;

/// The filter in a reply of DUMP.
fn restored(recorded: &Recorded) -> Filter {
    let payload = Payload::read(&recorded.dump);
    loaded(&payload.type_name, payload.encoding_version, &payload.record).unwrap()
}

/// The filter that a record holds from its first to its last field.
fn loaded(type_name: &str, version: i32, record: &Record) -> Result<Filter, DecodeError> {
    let mut reader = record.reader();
    let format = match (type_name, version) {
        ("everbloom", 1) => Format::Everbloom,
        ("MBbloom--", 4) => Format::RedisBloom,
        ("bloomfltr", 1) => Format::ValkeyBloom,
        other => panic!("no release wrote {other:?}"),
    };
    let filter = load(format, version, &mut reader, &ANY)?;
    assert!(reader.is_at_end());
    Ok(filter)
}

fn saved(filter: &Filter) -> Record {
    let mut record = Record::default();
    save(&mut filter.try_clone(UnknownMemory).unwrap(), &mut record, UnknownMemory);
    record
}

/// Asserts that the filter is the recorded one as far as commands can tell.
fn assert_answers(filter: &Filter, recorded: &Recorded) {
    let name = &recorded.name;
    assert_eq!(filter.items(), recorded.cardinality, "{name}");
    assert_eq!(filter.layer_count(), recorded.debug.len() - 1, "{name}");
    for item in recorded.items.all() {
        assert!(filter.contains(&item, NoPrefetch), "{name} lost {}", item.escape_ascii());
    }
    let digit = |is_there| if is_there { '1' } else { '0' };
    let probes = recorded.probes.all();
    let one_by_one: String = probes.iter().map(|item| digit(filter.contains(item, NoPrefetch))).collect();
    assert_eq!(one_by_one, recorded.answers, "{name}");
    let mut at_once = String::new();
    let probes: Vec<&[u8]> = probes.iter().map(Vec::as_slice).collect();
    filter.contains_many(&probes, NoPrefetch, |is_there| at_once.push(digit(is_there)));
    assert_eq!(at_once, recorded.answers, "{name}");
}

/// Asserts that two filters have the same header and the same bits.
fn assert_same(left: &Filter, right: &Filter, name: &str) {
    assert_eq!(header(left), header(right), "{name}");
    assert!(left.storages().map(Storage::bytes).eq(right.storages().map(Storage::bytes)), "{name}");
}
