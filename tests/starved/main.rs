//! Tests allocation failures and memory leaks, for every command and every way to copy, save and load a filter: each
//! failure returns an error, the filters stay unchanged, and no memory leaks.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::panic,
    clippy::big_endian_bytes,
    missing_docs,
    unreachable_pub,
    dead_code,
    reason = "a test fails by panicking; files that several tests share are used in part"
)]

mod allocator;
mod cases;
mod deployment;
mod worlds;

use std::collections::BTreeMap;
use std::fmt::Display;

use allocator::{live_bytes, refuse, relent, watch};
use everbloom_command::COMMANDS;
use everbloom_filter::cuckoo::array::{BucketArray, CuckooRelease};
use everbloom_filter::cuckoo::filter::{CuckooFilter, CuckooParameters};
use everbloom_filter::table::TableLoad;
use everbloom_filter::{Filter, GrowthBudget, UnknownMemory};
use everbloom_format::DataType;
use everbloom_format::carried::{Carried, CarriedType};
use everbloom_format::chunks::Rewritten;
use everbloom_format::filter::{chunk, from_blob, rewrite};
use everbloom_format::redisbloom::cuckoo;
use everbloom_format::value::{from_header, load, load_chunk};
use everbloom_test_support as support;
use support::make::{CLIENT, add, plain, unreserved};
use support::saved::{chunks, saved};
use support::server::Server;
use support::{Field, Record, effort, slices};

#[global_allocator]
static ALLOCATOR: allocator::Starving = allocator::Starving;

/// More large allocations than any command makes.
const ALLOCATIONS_MAX: i64 = 400;

/// Runs a command with each of its large allocations failing in turn; in the quick form, with each of the first five and
/// every ninth of the others. Returns how many failed.
fn starve(name: &str, prepare: &dyn Fn() -> Server, words: &[&[u8]]) -> i64 {
    let mut well = prepare();
    let (before, replicated) = (well.state(), well.replicated.len());
    let expected = well.call(words);
    assert!(!expected.starts_with('-'), "{name}: {expected}");
    let after = well.state();
    let numbers = (0..5).chain((5..ALLOCATIONS_MAX).step_by(effort(9, 1)));
    for (failures, number) in (0..).zip(numbers) {
        let mut server = prepare();
        assert_eq!(server.state(), before, "{name}");
        server.watch = watch;
        refuse(number);
        let reply = server.call(words);
        if relent() == 0 {
            assert_eq!((reply, server.state()), (expected, after), "{name}");
            return failures;
        }
        server.watch = |_| {};
        if reply.starts_with('-') {
            let is_said = ["memory", "-ERR problem inserting into filter", "-Couldn't create filter!"];
            let is_said = is_said.iter().any(|text| reply.contains(text));
            assert!(is_said, "{name}, allocation {number}: {reply}");
            assert_eq!(server.state(), before, "{name}, allocation {number}: {reply}");
            assert_eq!(server.replicated.len(), replicated, "{name}");
            // After the failure, the same command succeeds.
            assert_eq!((server.call(words), server.state()), (expected.clone(), after.clone()), "{name}");
        } else {
            // The item whose allocation failed has an error, and items after it may have one. They can be added or
            // deleted later.
            let error = match words[0] {
                b"BF.BULKADD" => "!",
                b"BF.DEL" => " -ERR out of memory",
                b"CF.INSERT" | b"CF.INSERTNX" => " :-1",
                _ => " -ERR problem inserting into filter",
            };
            assert!(reply.starts_with(['*', '$']) && reply.contains(error), "{name}, {number}: {reply}");
            // Exactly the changes that were made are replicated.
            let mut replica = prepare();
            let before = replica.replicated_calls.len();
            replica.replay(&server.replicated_calls[before..]);
            assert_eq!(replica.state(), server.state(), "{name}, allocation {number}");
            let rest = server.call(words);
            let sign = [" -", "!", " :-1"].into_iter().find(|sign| error.starts_with(sign)).unwrap();
            assert!(!rest.contains(sign), "{name}: {rest}");
            // A replica that has no memory for an item exits.
            let mut replica = prepare();
            (replica.is_replicated, replica.watch) = (true, watch);
            refuse(number);
            replica.call(words);
            assert!(replica.has_ended || relent() == 0, "{name}, allocation {number}");
        }
    }
    panic!("{name}: more allocations than expected");
}

#[test]
fn every_command_survives_every_allocation_that_fails() {
    let mut starved = BTreeMap::new();
    for case in cases::cases() {
        let failures = starve(&case.name, &|| case.prepared(), &slices(&case.words));
        let name = String::from_utf8(case.words[0].clone()).unwrap().to_ascii_lowercase();
        *starved.entry(name).or_insert(0) += failures;
    }
    println!("{} allocations refused in commands", starved.values().sum::<i64>());
    for command in COMMANDS {
        let name = command.spec().name;
        let failures = starved.get(name).copied();
        // These commands allocate nothing whose size depends on an argument or a filter.
        let small =
            ["exists", "mexists", "ttl", "pttl", "info", "stats", "card", "count", "debug", "compact"];
        let is_small = small.contains(&&name[3..]);
        assert_eq!(failures.map(|failures| failures > 0), Some(!is_small), "{name}: {failures:?}");
    }
}

/// Returns the filters of [`cases::filters`] with their names.
fn filters() -> impl Iterator<Item = (String, Filter)> {
    cases::filters().into_iter().map(|(name, lines)| {
        let mut server = Server::new();
        lines.iter().for_each(|line| drop(server.must(line)));
        (name.to_owned(), server.take("k"))
    })
}

/// Runs `action` with each of its large allocations failing in turn. It must return an error, or succeed without the
/// memory.
fn each_refusal<T, E: Display>(name: &str, mut action: impl FnMut() -> Result<T, E>) -> i64 {
    for number in 0..ALLOCATIONS_MAX {
        refuse(number);
        watch(true);
        let result = action();
        watch(false);
        if relent() == 0 {
            assert!(result.is_ok(), "{name}");
            return number;
        }
        if let Err(error) = result {
            assert_eq!(error.to_string(), "out of memory", "{name}, allocation {number}");
        }
    }
    panic!("{name}: more allocations than expected");
}

#[test]
fn copies_snapshots_and_dumps_survive_every_allocation_that_fails() {
    let mut refused = 0;
    for (name, filter) in filters() {
        let mut refusals = each_refusal(&name, || filter.try_clone(UnknownMemory));
        refusals += each_refusal(&name, || filter.try_emptied(&u64::MAX));
        let record = saved(&filter);
        let version = DataType::of(filter.format()).encoding_version;
        // The source is not tested, so its allocations do not fail.
        refusals += each_refusal(&name, || {
            watch(false);
            let mut reader = record.reader();
            watch(true);
            load(filter.format(), version, &mut reader, &u64::MAX)
        });
        let (dump, chunks) = (Some(filter.dump_as(3)), chunks(&filter, 3));
        let iterators = [0].into_iter().chain(chunks.iter().map(|(iterator, _)| *iterator));
        for iterator in iterators {
            refusals += each_refusal(&name, || chunk(&filter, dump, iterator).map(drop));
        }
        refusals += each_refusal(&name, || from_header(&chunks[0].1, &u64::MAX));
        let mut made = from_header(&chunks[0].1, &u64::MAX).unwrap();
        for (iterator, data) in &chunks[1..] {
            each_refusal(&name, || load_chunk(&mut made, *iterator, data, CLIENT, &u64::MAX));
        }
        let mut blobs = Vec::new();
        refusals += each_refusal(&name, || {
            rewrite(&filter, UnknownMemory, 9, &mut |command| {
                watch(false);
                if let Rewritten::Blob(blob) = command {
                    blobs.push(blob.to_vec());
                }
                watch(true);
            })
        });
        for blob in &blobs {
            refusals += each_refusal(&name, || from_blob(blob, &u64::MAX));
        }
        assert!(refusals > 3, "{name}: {refusals}");
        refused += refusals;
    }
    println!("{refused} allocations refused in copies, snapshots and dumps");
}

/// Returns a server with a window whose traffic has fallen.
fn quiet_window() -> Server {
    let mut server = Server::at(1_000_000_000);
    server.must("BF.RESERVE k 0.01 2700000 WINDOW 140");
    // Larger batches take less time: every command checks the whole filter.
    let items: Vec<u8> = (0..2_700_000u64).flat_map(u64::to_le_bytes).collect();
    assert!(!server.call(&[b"BF.BULKADD", b"k", b"FIXED", b"8", &items]).contains('!'));
    server.now_ms += 300_000;
    server.add("k", "new", 0..20_000);
    server
}

/// A chunk for which there is no memory changes nothing, also if it is the last one. It is loaded later.
#[test]
fn a_load_continues_after_every_allocation_that_fails() {
    let mut sources: Vec<(String, Filter)> = filters().collect();
    sources.push(("quiet window".to_owned(), quiet_window().take("k")));
    let mut refused = 0;
    for (name, filter) in sources {
        let chunks = chunks(&filter, 3);
        let mut primary = Server::at(1_000_300_000);
        for (iterator, data) in &chunks {
            let iterator = iterator.to_string();
            let call: [&[u8]; 4] = [b"BF.LOADCHUNK", b"n", iterator.as_bytes(), data];
            let before = primary.state();
            for number in 0.. {
                assert!(number < ALLOCATIONS_MAX, "{name}: more allocations than expected");
                let (mut replica, sent) = (Server::at(primary.now_ms), primary.replicated_calls.len());
                replica.replay(&primary.replicated_calls);
                primary.watch = watch;
                refuse(number);
                let reply = primary.call(&call);
                let failures = relent();
                primary.watch = |_| {};
                if reply == "+OK" {
                    assert_eq!(failures, 0, "{name}, allocation {number}");
                    replica.replay(&primary.replicated_calls[sent..]);
                    assert_eq!(replica.state(), primary.state(), "{name}");
                    break;
                }
                refused += failures;
                assert!(reply.contains("memory"), "{name}, allocation {number}: {reply}");
                assert_eq!(primary.state(), before, "{name}, allocation {number}: {reply}");
                assert_eq!(primary.replicated_calls.len(), sent, "{name}, allocation {number}: {reply}");
                // A replica that has no memory for the chunk exits.
                (replica.is_replicated, replica.watch) = (true, watch);
                refuse(number);
                replica.call(&call);
                assert!(relent() > 0 && replica.has_ended, "{name}, allocation {number}");
            }
        }
    }
    assert!(refused > 50, "{refused}");
}

/// Copies a table of which many segments have been loaded, with each of the first allocations failing in turn.
#[test]
fn a_copy_of_many_loaded_segments_survives_every_allocation_that_fails() {
    let mut filter = plain(unreserved(0.01, 100, 2));
    (0..400_000u64).for_each(|item| _ = add(&mut filter, &item.to_le_bytes()).unwrap());
    let table = filter.table().unwrap();
    let mut load = TableLoad::new(table.kind(), table.counts(), table.used_slots()).unwrap();
    let (mut position, mut parts) = (0, 0);
    while let Some((part, next)) = table.segment_at(position).unwrap() {
        position = next;
        drop(load.add(vec![part], u64::MAX, &GrowthBudget::new(&u64::MAX)).unwrap());
        parts += 1;
    }
    assert!(parts > 60, "{parts}");
    let mut refused = 0;
    for number in 0..80 {
        refuse(number);
        watch(true);
        let copy = load.try_clone();
        watch(false);
        let failures = relent();
        assert_eq!(copy.is_err(), failures > 0, "{number}");
        refused += failures;
    }
    assert!(refused > 50, "{refused}");
}

/// A cuckoo filter whose arrays no header describes, and a value of another type of RedisBloom.
#[test]
fn payloads_survive_every_allocation_that_fails() {
    let parameters = CuckooParameters { buckets: 4096, bucket_size: 2, max_iterations: 20, expansion: 2 };
    let arrays = [1, 2].map(|slot| BucketArray::of_bytes(4096, 2, &[slot; 8192]).unwrap());
    let filter = CuckooFilter::from_parts(parameters, CuckooRelease::Current, 9, 0, arrays.into()).unwrap();
    assert!(!filter.has_header());
    assert!(each_refusal("cuckoo", || cuckoo::rewrite(&filter, &mut |_| {})) > 2);

    let fields = [5000, 1, 0].map(Field::Unsigned).into_iter().chain([Field::Bytes(vec![7; 20_000])]);
    let record = Record(fields.collect());
    let load = || {
        // The source is not tested, so its allocations do not fail.
        watch(false);
        let mut reader = record.reader();
        watch(true);
        Carried::load(CarriedType::CountMin, 0, &mut reader)
    };
    let allocations = each_refusal("sketch", load);
    assert!(allocations > 1);
    // A value without some of its fields is not loaded.
    for number in 0..allocations {
        refuse(number);
        let loaded = load();
        watch(false);
        assert!(relent() > 0 && loaded.is_err(), "allocation {number}");
    }
    let sketch = load().unwrap();
    watch(false);
    assert!(each_refusal("sketch", || sketch.payload()) > 0);
    assert!(each_refusal("sketch", || sketch.try_clone()) > 0);
}

#[test]
fn no_memory_is_leaked() {
    for case in cases::cases() {
        let round = || {
            let mut server = case.prepared();
            server.call(&slices(&case.words));
        };
        round();
        let before = live_bytes();
        (0..effort(1, 2)).for_each(|_| round());
        assert_eq!(live_bytes(), before, "{}", case.name);
    }
}
