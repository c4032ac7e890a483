//! BF.SCANDUMP and BF.LOADCHUNK of every kind of filter, with time, adds and removals between the chunks.

use everbloom_filter::prefetch::NoPrefetch;

use crate::support::Random;
use crate::support::make::{START_MS, add as add_item, plain, unreserved};
use crate::support::saved::{assert_valid, remade};
use crate::support::server::Server;

const WINDOW_MS: u64 = 14_000;
const GENERATION_MS: u64 = WINDOW_MS / 14;

/// The iterator with which a chunk is loaded, and the chunk. The first chunk of a dump is the header.
type Chunk = (u64, Vec<u8>);

/// Returns a server whose clock is at the start of a generation in every window of these tests.
fn server() -> Server {
    Server::at(START_MS)
}

/// Returns the reply of BF.SCANDUMP to an iterator; `None` at the end of the dump.
fn scan(server: &mut Server, key: &str, iterator: u64) -> Option<Chunk> {
    let reply = server.run(&format!("BF.SCANDUMP {key} {iterator}"));
    assert!(reply.starts_with("*2 :"), "{reply}");
    let next = server.reply[1][1..].parse().unwrap();
    (next != 0).then(|| (next, std::mem::take(&mut server.bulk)))
}

/// Returns all chunks of a dump, the header first.
fn dump(server: &mut Server, key: &str) -> Vec<Chunk> {
    let mut iterator = 0;
    std::iter::from_fn(|| {
        let chunk = scan(server, key, iterator)?;
        iterator = chunk.0;
        Some(chunk)
    })
    .collect()
}

fn try_load(server: &mut Server, key: &str, (iterator, data): &Chunk) -> String {
    server.call(&[b"BF.LOADCHUNK", key.as_bytes(), iterator.to_string().as_bytes(), data])
}

fn load(server: &mut Server, key: &str, chunk: &Chunk) {
    assert_eq!(try_load(server, key, chunk), "+OK", "iterator {}", chunk.0);
}

/// Loads chunks that must be accepted.
fn load_all(server: &mut Server, key: &str, chunks: &[Chunk]) {
    chunks.iter().for_each(|chunk| load(server, key, chunk));
}

/// Items that have expired since the dump do not come back with its chunks.
#[test]
fn chunks_bring_no_expired_item_back() {
    for (options, new) in [
        ("0.000001 1000 PWINDOW 1400", 50),
        ("0.01 1000 PWINDOW 1400 NONSCALING", 50),
        ("0.000001 600000 PWINDOW 1400", 20_000),
        ("0.01 12000000 PWINDOW 1400 NOREFRESH", 60_000),
    ] {
        for elapsed_ms in [2000, 1600, 1700, 20_000] {
            let mut server = server();
            assert_eq!(server.run(&format!("BF.RESERVE src {options}")), "+OK");
            server.add("src", "old-", 0..40);
            let chunks = dump(&mut server, "src");
            server.now_ms += elapsed_ms;
            load_all(&mut server, "dst", &chunks);
            server.add("dst", "new-", 0..new);
            assert_eq!(server.found("dst", "old-", 0..40), 0, "{options} after {elapsed_ms} ms");
            assert_eq!(server.found("dst", "new-", 0..new), new, "{options}");
        }
    }
}

/// Segments of the table are split during its dump, before and after the position of the dump.
#[test]
fn a_large_table_is_dumped_while_adds_go_on() {
    // With a few more items, a round of splits begins.
    const ITEMS: u64 = 2_900_000;
    let mut filter = plain(unreserved(1e-15, 100, 2));
    (0..ITEMS).for_each(|item| _ = add_item(&mut filter, &item.to_le_bytes()).unwrap());
    let mut server = server();
    server.set("src", filter);
    let segments = |server: &Server| server.filter("src").table().unwrap().segment_count();
    let before = segments(&server);
    let (mut iterator, mut chunks) = (0, 0);
    while let Some(chunk) = scan(&mut server, "src", iterator) {
        iterator = chunk.0;
        load(&mut server, "dst", &chunk);
        let filter = server.filter_mut("src");
        let first = ITEMS * 2 + chunks * 100_000;
        (first..first + 100_000).for_each(|item| _ = add_item(filter, &item.to_le_bytes()).unwrap());
        chunks += 1;
    }
    assert!(chunks > 2 && segments(&server) > before, "{chunks} chunks");
    let copy = server.filter("dst");
    let has = |item: u64| copy.contains(&item.to_le_bytes(), NoPrefetch);
    assert!((0..ITEMS).step_by(7).all(has));
    // The copy has some of the items that were added during the dump, and no item that was never added.
    let meanwhile = (ITEMS * 2..ITEMS * 2 + chunks * 100_000).step_by(7).filter(|item| has(*item)).count();
    assert!(meanwhile > 0 && (ITEMS * 3..ITEMS * 3 + 50_000).filter(|item| has(*item)).count() == 0);
    assert_valid(copy, "dst");
}

/// Three destinations of bits alone get the same adds: after all chunks, between the chunks, and before them. Each then has
/// the same items as a plain copy that gets these adds. The chunks alone make the same filter as the dumped one.
#[test]
fn chunks_and_adds_may_come_in_any_order() {
    let seed = 0x6368_756e_6b73;
    let mut random = Random(seed);
    for (reserve, rounds, adds) in [
        ("BF.RESERVE src 0.000001 40000", 10, 1000),
        ("BF.RESERVE src 0.000001 40000 NONSCALING KEYED", 10, 1000),
        ("BF.RESERVE src 0.000001 300 FORMAT valkey-bloom", 10, 1000),
    ] {
        for round in 0..rounds {
            let context = format!("seed {seed:#x}, {reserve}, round {round}");
            let mut server = server();
            server.must(reserve);
            let mut added: Vec<(String, u64)> = Vec::new();
            for part in 0..random.below(30) as u64 {
                server.add("src", &format!("before-{part}-"), 0..adds / 30);
                added.push((format!("before-{part}-"), adds / 30));
                server.now_ms += random.next() % (2 * GENERATION_MS);
            }
            server.copy("src", "whole");
            let chunks = dump(&mut server, "src");
            for key in ["first", "mixed", "last"] {
                load(&mut server, key, &chunks[0]);
            }
            load_all(&mut server, "first", &chunks[1..]);
            assert!(server.digested("first") == server.digested("whole"), "{context}");
            let steps = 1 + random.below(8) as u64;
            // Each chunk arrives before one of the steps: this is the number of the step.
            let mut moments: Vec<u64> = chunks[1..].iter().map(|_| random.next() % (steps + 1)).collect();
            for step in 0..=steps {
                for (chunk, moment) in chunks[1..].iter().zip(&mut moments).rev() {
                    if *moment == step {
                        load(&mut server, "mixed", chunk);
                    }
                }
                if step == steps {
                    break;
                }
                server.now_ms += match random.below(5) {
                    0 => 0,
                    1 => random.next() % (20 * GENERATION_MS),
                    _ => random.next() % (3 * GENERATION_MS),
                };
                for key in ["whole", "first", "mixed", "last"] {
                    server.add(key, &format!("step-{step}-"), 0..adds / 5);
                }
                added.push((format!("step-{step}-"), adds / 5));
            }
            load_all(&mut server, "last", &chunks[1..]);
            for key in ["whole", "first", "mixed", "last"] {
                let context = format!("{context}: {key}");
                let mut live = 0;
                for (name, items) in &added {
                    assert_eq!(server.found(key, name, 0..*items), *items, "{context}: {name}");
                    live += items;
                }
                assert!(server.found(key, "never-", 0..1000) <= 1, "{context}");
                let card: u64 = server.run(&format!("BF.CARD {key}"))[1..].parse().unwrap();
                assert!(card + 2 >= live, "{context}: {card} counted, {live} live");
                // Loading the chunks again changes nothing.
                if key != "whole" {
                    let before = server.digested(key);
                    load_all(&mut server, key, &chunks[1..]);
                    assert!(server.digested(key) == before, "{context}: twice");
                }
            }
        }
    }
}

/// A copy has items that were added during the dump. It counts them, so that it takes no more than keep its error rate.
#[test]
fn a_copy_of_a_filter_that_takes_adds_keeps_its_error_rate() {
    let kinds = ["", " NONSCALING", " KEYED", " FORMAT redisbloom", " FORMAT valkey-bloom NONSCALING"];
    for (kind, capacity) in
        kinds.into_iter().flat_map(|kind| [1_000, 30_000].map(|capacity| (kind, capacity)))
    {
        let mut server = server();
        server.must(&format!("BF.RESERVE src 0.01 {capacity}{kind}"));
        server.add("src", "before-", 0..capacity / 10);
        let mut chunks = vec![scan(&mut server, "src", 0).unwrap()];
        server.add("src", "during-", 0..capacity * 8 / 10);
        while let Some(chunk) = scan(&mut server, "src", chunks[chunks.len() - 1].0) {
            chunks.push(chunk);
        }
        load_all(&mut server, "dst", &chunks);
        let [counted, items] = ["dst", "src"].map(|key| server.number(key, "items"));
        assert!((counted / items - 1.0).abs() < 0.05, "{kind}, {capacity}: {counted} of {items}");
        // Many are refused by a fixed filter.
        server.batches("BF.MADD dst", "more-", 0..capacity * 2);
        let found = server.found("dst", "never-", 0..100_000) as f64 / 1e5;
        assert!(found < 0.0125, "{kind}, {capacity}: {found}");
    }
}

/// The count of an imported filter is an estimate, which also stands for items that were false positives when they were
/// added. So it may explain more bits than are set, and a copy keeps it.
#[test]
fn a_copy_of_an_imported_filter_has_its_count() {
    let mut random = Random(0x696d_706f_7274);
    for round in 0..40 {
        let mut server = server();
        let bits = (0..2304).map(|_| (random.next() & random.next()) as u8).collect();
        server.strings.insert(b"bits".to_vec(), bits);
        server.must("BF.IMPORT src SOURCE bits SCHEME murmur3-salted BITS 18432 HASHES 1 CAPACITY 100000");
        server.add("src", &format!("{round}-"), 0..500);
        let chunks = dump(&mut server, "src");
        load_all(&mut server, "dst", &chunks);
        let [copied, items] = ["dst", "src"].map(|key| server.number(key, "items"));
        assert_eq!(copied, items, "round {round}");
    }
}

/// Copies are made by COPY, by a snapshot (RESTORE, a restart, a replica), and by a rewritten append-only file.
#[test]
fn a_copy_of_a_load_takes_the_other_chunks() {
    for reserve in ["BF.RESERVE src 0.01 100 COUNTING", "BF.RESERVE src 0.01 100 PWINDOW 14000"] {
        let mut server = server();
        server.must(reserve);
        server.add("src", "item-", 0..20_000);
        let chunks = dump(&mut server, "src");
        for loaded_before in 1..chunks.len() {
            load_all(&mut server, "half", &chunks[..loaded_before]);
            for (key, copy) in remade(&server.keys[&b"half"[..]]) {
                server.keys.insert(key.as_bytes().to_vec(), copy);
                load_all(&mut server, key, &chunks[loaded_before..]);
                assert!(server.digested(key) == server.digested("src"), "{reserve}: {key}");
                server.keys.remove(key.as_bytes());
            }
            server.keys.remove(&b"half"[..]);
        }
    }
}

/// Returns the dump id of a header, which changes when the filter changes.
fn dump_id(header: &Chunk) -> [u8; 8] {
    *header.1[..header.1.len() - 16].last_chunk().unwrap()
}

/// A second call with iterator 0 continues the dump, unless the filter has changed. After a change, a dump has an id
/// that no dump had before, even if the change was undone.
#[test]
fn every_change_begins_another_dump() {
    for (reserve, changes) in [
        (
            "BF.RESERVE src 0.01 100 COUNTING",
            &["BF.ADD src a", "BF.ADD src a", "BF.DEL src a", "BF.ADD src a"][..],
        ),
        ("BF.RESERVE src 0.01 100 PWINDOW 14000", &["BF.ADD src a", "BF.MERGE src window", "BF.ADD src b"]),
        ("BF.RESERVE src 0.01 1", &["BF.ADD src a", "BF.ADD src b", "BF.ADD src c", "BF.MERGE src table"]),
        ("BF.INSERT src ITEMS z", &["BF.ADD src a", "BF.ADD src b", "BF.MERGE src table", "BF.CLEAR src"]),
    ] {
        let mut server = server();
        for line in [reserve, "BF.RESERVE window 0.01 100 PWINDOW 14000", "BF.ADD window w", "BF.ADD table t"]
        {
            server.must(line);
        }
        let mut ids = Vec::new();
        for line in changes {
            let chunks = dump(&mut server, "src");
            server.run("BF.ADD table t");
            server.run("BF.EXISTS src a");
            assert_eq!(dump(&mut server, "src"), chunks, "nothing has changed");
            ids.push(dump_id(&chunks[0]));
            server.keys.remove(&b"copy"[..]);
            load_all(&mut server, "copy", &chunks);
            ids.push(dump_id(&scan(&mut server, "copy", 0).unwrap()));
            server.now_ms += GENERATION_MS;
            server.must(line);
        }
        ids.push(dump_id(&scan(&mut server, "src", 0).unwrap()));
        assert!((1..ids.len()).all(|number| !ids[..number].contains(&ids[number])), "{reserve}: {ids:?}");
    }
}

/// The text of BF.SCANDUMP for an iterator of a dump that has ended.
const ENDED: &str =
    "-ERR the dump of this iterator has ended: delete the copy and start again with iterator 0";

/// For every kind of filter whose dumps have an id: a command that creates the filter `src`, and one that ends its
/// dumps.
const ENDS: [(&str, &str); 9] = [
    ("BF.RESERVE src 0.01 100", "BF.CLEAR src"),
    ("BF.RESERVE src 0.01 100 KEYED", "BF.CLEAR src"),
    ("BF.RESERVE src 0.01 100", "BF.MERGE src other FORCE"),
    ("BF.RESERVE src 0.01 100 COUNTING", "BF.CLEAR src"),
    ("BF.INSERT src ITEMS item-0", "BF.CLEAR src"),
    ("BF.INSERT src ITEMS item-0", "BF.MERGE src other FORCE"),
    ("BF.RESERVE src 0.01 100 PWINDOW 14000", "BF.CLEAR src"),
    ("BF.RESERVE src 0.01 100 FORMAT valkey-bloom", "BF.CLEAR src"),
    ("BF.RESERVE src 0.01 100", "DEL src"),
];

/// Commands that create the filter `src`, and commands that change its entries without ending a dump: the positions in
/// a table do not depend on its entries.
const CHANGES: [(&str, &str); 3] = [
    ("BF.RESERVE src 0.01 100 COUNTING", "BF.DEL src"),
    ("BF.RESERVE src 0.01 100 COUNTING", "BF.MERGE src other FORCE"),
    ("BF.RESERVE src 0.01 100 PWINDOW 14000", "BF.MERGE src other FORCE"),
];

/// Returns a server with the filter `src`, and with the other keys that the command `end` reads. `end` is of [`ENDS`].
fn before_the_end(reserve: &str, end: &str) -> Server {
    let mut server = server();
    server.must(reserve);
    server.add("src", "item-", 0..450);
    if end.starts_with("BF.MERGE") {
        // A filter whose layer cannot be united with that of the source.
        let kind = reserve.split_once(" 100").map_or("", |(_, options)| options);
        assert_eq!(server.run(&format!("BF.RESERVE other 0.001 70{kind}")), "+OK");
        server.add("other", "other-", 0..400);
    }
    server
}

fn end_dump(server: &mut Server, end: &str) {
    match end {
        "DEL src" => drop(server.keys.remove(&b"src"[..])),
        "BF.DEL src" => (0..300).for_each(|number| drop(server.run(&format!("BF.DEL src item-{number}")))),
        _ => assert_eq!(server.run(end), "+OK", "{end}"),
    }
}

/// A dump that a change has ended never looks complete: each of its iterators is an error, even past the end of the
/// filter, and even after another dump of the filter.
#[test]
fn an_ended_dump_never_looks_complete() {
    for (options, end) in ENDS {
        let context = format!("{options}, {end}");
        let mut server = before_the_end(options, end);
        let chunks = dump(&mut server, "src");
        assert!(chunks.len() > 1, "{context}: {}", chunks.len());
        assert_eq!(scan(&mut server, "src", chunks.last().unwrap().0), None);
        end_dump(&mut server, end);
        for is_dumped_again in [false, true] {
            if !server.keys.contains_key(&b"src"[..]) {
                assert_eq!(server.run(&format!("BF.SCANDUMP src {}", chunks[1].0)), "-ERR not found");
                // Another filter under the same key, shorter than the first one.
                assert_eq!(server.run("BF.RESERVE src 0.1 9"), "+OK");
            }
            if is_dumped_again {
                dump(&mut server, "src");
            }
            for (iterator, _) in &chunks {
                // Lua writes a number with 14 digits.
                assert_eq!(iterator.to_string().len(), 14);
                let reply = server.run(&format!("BF.SCANDUMP src {iterator}"));
                assert_eq!(reply, ENDED, "{context}, {iterator}, dumped again: {is_dumped_again}");
            }
        }
        for iterator in [i64::MIN, -1, 1, 2, i64::MAX] {
            assert_eq!(server.run(&format!("BF.SCANDUMP src {iterator}")), ENDED, "{context}, {iterator}");
        }
    }
}

/// The chunks of an ended dump are refused with the same text, at every position and by targets of every kind.
#[test]
fn the_chunks_of_another_dump_are_refused_at_every_place() {
    let other_dump = "-ERR received bad data - the chunk and the header are from different dumps: delete the key and \
                      start again with BF.SCANDUMP and iterator 0";
    for (options, end) in ENDS.into_iter().filter(|(_, end)| *end != "DEL src") {
        let mut server = before_the_end(options, end);
        let first = dump(&mut server, "src");
        end_dump(&mut server, end);
        let second = dump(&mut server, "src");
        load(&mut server, "first", &first[0]);
        load(&mut server, "second", &second[0]);
        assert_eq!(server.run("BF.RESERVE small 0.3 1"), "+OK");
        // A load knows its dump after a restart too.
        server.copy("first", "restarted");
        for (target, chunks) in [
            ("first", &second),
            ("second", &first),
            ("small", &first),
            ("src", &first),
            ("restarted", &second),
        ] {
            let before = server.digested(target);
            for chunk in &chunks[1..] {
                let reply = try_load(&mut server, target, chunk);
                assert_eq!(reply, other_dump, "{options}, {end}, {target}, {}", chunk.0);
            }
            assert!(server.digested(target) == before);
        }
    }
}

/// Items are added and deleted, filters are merged and cleared, and other dumps begin, between the chunks of a dump.
/// If a dump comes to its end, the copy has all items that the filter had at the header and has kept since.
#[test]
fn a_dump_that_ends_well_is_complete() {
    let seed = 0x636f_6d70_6c65;
    let mut random = Random(seed);
    let (mut complete, mut ended) = (0, 0);
    for round in 0..400 {
        let (options, end) = *ENDS.iter().chain(&CHANGES).cycle().nth(round).unwrap();
        let context = format!("seed {seed:#x}, round {round}, {options}, {end}");
        let mut server = before_the_end(options, end);
        let mut kept = 0..450;
        let mut iterator = 0;
        let is_complete = loop {
            let reply = server.run(&format!("BF.SCANDUMP src {iterator}"));
            if reply.starts_with('-') {
                assert!(reply == ENDED || reply == "-ERR not found", "{context}: {reply}");
                break false;
            }
            iterator = server.reply[1][1..].parse().unwrap();
            if iterator == 0 {
                break true;
            }
            let chunk = (iterator, std::mem::take(&mut server.bulk));
            if try_load(&mut server, "dst", &chunk) != "+OK" {
                break false;
            }
            match random.below(12) {
                0 => {
                    end_dump(&mut server, end);
                    if end == "BF.DEL src" {
                        kept.start = 300;
                    }
                    if random.below(2) == 0 && !server.keys.contains_key(&b"src"[..]) {
                        server.run("BF.RESERVE src 0.1 9");
                    }
                }
                1 if server.keys.contains_key(&b"src"[..]) => drop(dump(&mut server, "src")),
                2 if server.keys.contains_key(&b"src"[..]) => {
                    server.add("src", "meanwhile-", 0..1 + random.below(300) as u64);
                }
                _ => {}
            }
        };
        if is_complete {
            complete += 1;
            let found = server.found("dst", "item-", kept.clone());
            assert_eq!(found, kept.end - kept.start, "{context}");
        } else {
            ended += 1;
        }
    }
    assert!(complete > 100 && ended > 50, "{complete} complete, {ended} ended");
}

/// Returns the chunks of a dump of a filter that changes after its header.
fn dump_with_change(server: &mut Server, change: impl FnOnce(&mut Server)) -> Vec<Chunk> {
    let mut chunks = vec![scan(server, "k", 0).unwrap()];
    change(server);
    while let Some(chunk) = scan(server, "k", chunks[chunks.len() - 1].0) {
        chunks.push(chunk);
    }
    chunks
}

/// The header of a dump may tell fewer or more items than the chunks after it have, because a count can change without another
/// slot. A large table has void entries too.
#[test]
fn counts_that_change_during_a_dump_are_loaded() {
    for others in [0u64, 40_000] {
        let mut server = server();
        server.must("BF.RESERVE k 0.01 100 COUNTING");
        server.add("k", "other-", 0..others);
        server.run("BF.MADD k y x x z z z");
        let items = others + 6;
        let chunks = dump_with_change(&mut server, |server| {
            (0..97).for_each(|_| _ = server.run("BF.ADD k x"));
            assert_eq!(server.run("BF.DEL k z"), "*1 #t");
        });
        load_all(&mut server, "copy", &chunks);
        assert_eq!(server.run("CF.COUNT copy x"), ":99");
        assert_eq!(server.run("BF.CARD copy"), format!(":{}", items + 96));
        server.batches("BF.DEL copy", "other-", 0..others);
        (0..99).for_each(|_| _ = server.run("BF.DEL copy x"));
        assert_eq!(server.run("BF.MEXISTS copy y z"), "*2 #t #t", "{others}");
    }
}

/// The sum of the counts may be the same with another number of entries, in as many slots.
#[test]
fn another_number_of_entries_with_the_same_sum_is_loaded() {
    let mut server = server();
    server.must("BF.RESERVE k 0.01 4 NONSCALING COUNTING");
    server.run("BF.MADD k a b c");
    let chunks = dump_with_change(&mut server, |server| {
        assert_eq!(server.run("BF.DEL k b c"), "*2 #t #t");
        server.run("BF.ADD k a");
        server.run("BF.ADD k a");
    });
    load_all(&mut server, "copy", &chunks);
    for key in ["k", "copy"] {
        assert_eq!(server.run(&format!("BF.MADD {key} d e f")), "*3 #t #t #t");
        assert!(server.run(&format!("BF.ADD {key} g")).starts_with('-'), "{key}");
    }
}

/// Items of a window may move to another generation without another slot.
#[test]
fn items_that_are_refreshed_during_a_dump_are_counted() {
    for steps in ["", " STEPS 120"] {
        let mut server = server();
        server.must(&format!("BF.RESERVE k 0.01 100 PWINDOW {WINDOW_MS}{steps}"));
        server.run("BF.MADD k a b c");
        let chunks = dump_with_change(&mut server, |server| {
            server.now_ms += WINDOW_MS / 4 * 3;
            server.run("BF.MADD k a b c");
        });
        load_all(&mut server, "copy", &chunks);
        server.now_ms += WINDOW_MS / 2;
        assert_eq!(server.run("BF.MEXISTS copy a b c"), "*3 #t #t #t");
        assert_eq!(server.run("BF.CARD copy"), ":3", "{steps}");
    }
}

/// Void entries are copied by splits. A window with many of them has the same counts after a load.
#[test]
fn a_window_at_rest_keeps_its_counts_in_a_load() {
    let mut server = server();
    server.must(&format!("BF.RESERVE k 0.01 100 PWINDOW {WINDOW_MS}"));
    server.add("k", "old-", 0..100);
    server.now_ms += GENERATION_MS;
    server.add("k", "new-", 0..150_000);
    assert!(server.filter("k").table().unwrap().match_all_counts().void_entries > 500);
    let chunks = dump(&mut server, "k");
    load_all(&mut server, "copy", &chunks);
    let counts = |key: &str| server.filter(key).table().unwrap().counts().history;
    assert_eq!(counts("copy"), counts("k"));
}
