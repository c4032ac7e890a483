//! Filters are read by commands while another thread saves them, and keys are not written to meanwhile.
//!
//! `scripts/sanitize` runs the tests of this file under Miri too, so the filters are small.

use std::collections::BTreeSet;
use std::thread;

use everbloom_command::COMMANDS;
use everbloom_command::table::KeyAccess;
use everbloom_filter::UnknownMemory;
use everbloom_filter::filter::loading::FilterValue;
use everbloom_filter::prefetch::NoPrefetch;
use everbloom_format::filter::chunk;
use everbloom_format::redisbloom::cuckoo;
use everbloom_format::value;

use crate::support::Record;
use crate::support::saved::digested;
use crate::support::server::Server;

/// The commands that make a filter `k` of each kind.
const KINDS: [&[&str]; 13] = [
    &["BF.ADD k a"],
    &["BF.RESERVE k 0.01 20"],
    &["BF.RESERVE k 0.01 20 KEYED"],
    &["BF.RESERVE k 0.01 20 NONSCALING SATURATE"],
    &["BF.RESERVE k 0.01 20 COUNTING"],
    &["BF.RESERVE k 0.01 20 WINDOW 100"],
    &["BF.RESERVE k 0.01 20 FORMAT redisbloom"],
    &["BF.RESERVE k 0.01 20 FORMAT valkey-bloom"],
    &["BF.IMPORT k EMPTY SCHEME go-zero BITS 500 CAPACITY 20"],
    &["BF.RESERVE v 0.01 9 FORMAT valkey-bloom", "BF.ADD v x", "BF.ADD o y", "BF.MERGE k v o FORCE"],
    &["BF.RESERVE m 0.01 20 COUNTING", "BF.ADD m x", "BF.MERGE k m"],
    // Being loaded.
    &["BF.ADD s a", "LOAD k s"],
    // A cuckoo filter, whose format is that of the settings.
    &["CF.RESERVE k 20"],
];

/// Returns a server with the filter `k` of a kind, with items.
fn server(lines: &[&str]) -> Server {
    let mut server = Server::new();
    for line in lines {
        match line.strip_prefix("LOAD k ") {
            Some(source) => {
                server.must(&format!("BF.SCANDUMP {source} 0"));
                let (iterator, header) = (server.reply[1][1..].to_owned(), server.bulk.clone());
                assert_eq!(server.call(&[b"BF.LOADCHUNK", b"k", iterator.as_bytes(), &header]), "+OK");
            }
            None => drop(server.must(line)),
        }
    }
    if let Some(FilterValue::Complete(_)) = server.keys.get(&b"k"[..]) {
        server.batches("BF.MADD k", "item", 0..50);
    }
    server
}

fn saved(value: &FilterValue) -> Record {
    let mut record = Record::default();
    value::save(value, &mut record, UnknownMemory);
    record
}

/// Reads everything that reading commands read of a filter.
fn read(value: &FilterValue, now_ms: u64) {
    let mut bytes = 0;
    value::digest(value, UnknownMemory, &mut |part| bytes += part.len());
    assert!(bytes > 0 && value.try_clone(UnknownMemory).is_ok());
    // As DUMP does.
    assert!(!saved(value).0.is_empty());
    let FilterValue::Complete(filter) = value else { return };
    let now = filter.generation_at(|| now_ms);
    let items: [&[u8]; 3] = [b"item1", b"item2", b"none"];
    assert!(
        filter.contains_in(items[0], now, NoPrefetch) && filter.contains_at(items[1], now_ms, NoPrefetch)
    );
    assert!(filter.contains_many(&items, now, NoPrefetch, |_| ()) >= 2);
    assert!(filter.item_end(items[0], now, NoPrefetch).is_some());
    let _ = (filter.occurrences(items[0]), filter.stats(now), filter.size_bytes(), filter.error_rate_max());
    assert!(filter.items_in(now) > 0 && filter.capacity_items_in(now) > 0);
    let (dump, mut iterator) = (Some(filter.dump_as(7)), 0);
    while let Some(chunk) = chunk(filter, dump, iterator).unwrap() {
        iterator = chunk.next_iterator;
    }
}

#[test]
fn a_filter_of_every_kind_is_saved_while_it_is_read() {
    for lines in &KINDS[..KINDS.len() - 1] {
        let mut server = server(lines);
        let (value, now_ms) = (server.keys.remove(&b"k"[..]).unwrap(), server.now_ms);
        let before = saved(&value);
        thread::scope(|scope| {
            let saver = scope.spawn(|| [(); 3].map(|()| saved(&value)));
            read(&value, now_ms);
            while !saver.is_finished() {
                read(&value, now_ms);
            }
            assert!(saver.join().unwrap().into_iter().all(|record| record == before), "{lines:?}");
        });
    }
}

#[test]
fn a_cuckoo_filter_is_saved_while_it_is_read() {
    let mut server = Server::new();
    server.settings.format = everbloom_filter::Format::RedisBloom;
    server.must("CF.RESERVE k 20");
    server.must("CF.INSERT k ITEMS a a b c");
    let filter = server.cuckoos.remove(&b"k"[..]).unwrap();
    let saved = || {
        let mut record = Record::default();
        cuckoo::save(&filter, &mut record);
        record
    };
    let before = saved();
    thread::scope(|scope| {
        let saver = scope.spawn(|| [(); 3].map(|()| saved()));
        while !saver.is_finished() {
            assert!(filter.contains(b"a", NoPrefetch) && filter.count(b"a", NoPrefetch) >= 2);
            assert!(cuckoo::chunk(&filter, 1).is_some());
        }
        assert!(saver.join().unwrap().into_iter().all(|record| record == before));
    });
}

/// A command of each kind that writes to the key `k`.
const WRITES: [&str; 20] = [
    "BF.RESERVE k 0.01 100",
    "BF.RESERVE k 0.01 100 IFNOTEXISTS",
    "BF.ADD k a",
    "BF.MADD k a b",
    "BF.INSERT k ITEMS a",
    "BF.DEL k a",
    "BF.BULKADD k FIXED 1 ab",
    "BF.CLEAR k",
    "BF.LOADCHUNK k 17592186044417 data",
    "BF.LOAD k blob",
    "BF.IMPORT k EMPTY SCHEME go-zero BITS 500 CAPACITY 20 REPLACE",
    "BF.MERGE k other",
    "CF.RESERVE k 100",
    "CF.ADD k a",
    "CF.ADDNX k a",
    "CF.INSERT k ITEMS a",
    "CF.INSERTNX k ITEMS a",
    "CF.DEL k a",
    "CF.COMPACT k",
    "CF.LOADCHUNK k 17592186044417 data",
];

/// The server says that a key cannot be written to, not that it does not exist: no command makes a filter over the one that
/// is being saved.
#[test]
fn a_key_that_is_being_saved_is_read_and_not_written_to() {
    let names: BTreeSet<String> =
        WRITES.iter().map(|line| line.split(' ').next().unwrap().to_lowercase()).collect();
    let writing = COMMANDS.iter().filter(|command| command.spec().key_access == KeyAccess::ReadWrite);
    assert_eq!(names, writing.map(|command| command.spec().name.to_owned()).collect());
    for lines in KINDS {
        let mut server = server(lines);
        server.run("BF.ADD other a");
        let reads =
            ["BF.CARD k", "BF.EXISTS k a", "BF.INFO k", "BF.SCANDUMP k 0", "CF.EXISTS k a", "BF.STATS k"];
        let replies = reads.map(|read| server.run(read));
        let before = (server.state(), server.replicated.len());
        server.in_use.insert(b"k".to_vec());
        for write in WRITES {
            assert_eq!(server.run(write), "-ERR the key is being saved, try again", "{write}");
            assert!(!server.has_ended && (server.state(), server.replicated.len()) == before, "{write}");
        }
        assert_eq!(reads.map(|read| server.run(read)), replies);
        // A source of a merge is only read.
        server.run("BF.MERGE other k FORCE");
        server.in_use.clear();
        if server.keys.get(&b"k"[..]).is_some_and(|value| matches!(value, FilterValue::Complete(_))) {
            let digest = digested(server.filter("k"));
            assert!(server.state()[&b"k"[..]] == before.0[&b"k"[..]] && !digest.is_empty());
        }
    }
}

/// A replica or a server that reads its file would lack what the command adds.
#[test]
fn a_server_does_not_outlive_a_replicated_write_to_a_key_that_is_being_saved() {
    for write in WRITES {
        let mut server = server(KINDS[1]);
        server.is_replicated = true;
        server.in_use.insert(b"k".to_vec());
        assert_eq!(server.run(write), "-ERR the key is being saved, try again");
        assert!(server.has_ended, "{write}");
    }
}
