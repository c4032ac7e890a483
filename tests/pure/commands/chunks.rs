//! BF.SCANDUMP and BF.LOADCHUNK of every kind of filter, with time, adds and removals between the chunks.

use std::ops::Range;

use everbloom::bloom::{
    Filter, FilterSpec, Growth, Hash, NoPrefetch, Policy, Promise, UnknownMemory, Validation,
};
use everbloom::format::filter::digest;

use crate::support::Random;
use crate::support::server::Server;

/// The start of a generation in every window of these tests.
const START_MS: u64 = 1_800_000_000_000;
const WINDOW_MS: u64 = 14_000;
const GENERATION_MS: u64 = WINDOW_MS / 14;

/// A chunk and the iterator with which it is loaded. The first one is the header.
type Chunk = (u64, Vec<u8>);

fn server() -> Server {
    let mut server = Server::new();
    server.now_ms = START_MS;
    server
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

/// Adds numbered items.
fn add(server: &mut Server, key: &str, name: &str, numbers: Range<u64>) {
    add_by(server, &format!("BF.MADD {key}"), name, numbers);
}

/// Adds numbered items with the command that starts with these words.
fn add_by(server: &mut Server, command: &str, name: &str, numbers: Range<u64>) {
    let numbers: Vec<u64> = numbers.collect();
    for numbers in numbers.chunks(500) {
        let items: Vec<String> = numbers.iter().map(|number| format!("{name}-{number}")).collect();
        let reply = server.run(&format!("{command} {}", items.join(" ")));
        assert!(!reply.contains("-ERR"), "{reply}");
    }
}

/// Returns how many of the numbered items are found.
fn count(server: &mut Server, key: &str, name: &str, numbers: Range<u64>) -> usize {
    let items: Vec<String> = numbers.map(|number| format!("{name}-{number}")).collect();
    server.run(&format!("BF.MEXISTS {key} {}", items.join(" "))).matches("#t").count()
}

fn digested(server: &Server, key: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    digest(&server.keys[key.as_bytes()], &mut |part| bytes.extend_from_slice(part));
    bytes
}

/// Before the chunk arrives, an add to the destination moves its time. Expired entries of the chunk must not come back.
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
            add(&mut server, "src", "old", 0..40);
            let chunks = dump(&mut server, "src");
            server.now_ms += elapsed_ms;
            load(&mut server, "dst", &chunks[0]);
            add(&mut server, "dst", "new", 0..new);
            chunks[1..].iter().for_each(|chunk| load(&mut server, "dst", chunk));
            assert_eq!(count(&mut server, "dst", "old", 0..40), 0, "{options} after {elapsed_ms} ms");
            assert_eq!(count(&mut server, "dst", "new", 0..new), new as usize, "{options}");
        }
    }
}

/// Items are added while a window is dumped: for part of a generation, for several generations, and for longer than the
/// window. Every chunk loads, and the copy has all items from before the first call that have not expired.
#[test]
fn a_window_is_dumped_while_adds_go_on() {
    for step_ms in [100, GENERATION_MS, 9 * GENERATION_MS, 40 * GENERATION_MS] {
        let mut server = server();
        assert_eq!(server.run(&format!("BF.RESERVE src 0.000001 12000 PWINDOW {WINDOW_MS}")), "+OK");
        add(&mut server, "src", "before", 0..3000);
        let (mut iterator, mut chunks) = (0, 0);
        while let Some(chunk) = scan(&mut server, "src", iterator) {
            iterator = chunk.0;
            load(&mut server, "dst", &chunk);
            server.now_ms += step_ms;
            add(&mut server, "src", &format!("meanwhile-{chunks}"), 0..9000);
            chunks += 1;
        }
        let expected = if chunks * step_ms < WINDOW_MS { 3000 } else { 0 };
        assert_eq!(count(&mut server, "dst", "before", 0..3000), expected, "steps of {step_ms} ms");
        assert_eq!(count(&mut server, "dst", "never", 0..9000), 0);
        // The copy works like any other filter.
        add(&mut server, "dst", "after", 0..1000);
        assert_eq!(count(&mut server, "dst", "after", 0..1000), 1000);
        let again = dump(&mut server, "dst");
        again.iter().for_each(|chunk| load(&mut server, "again", chunk));
        assert!(digested(&server, "again") == digested(&server, "dst"));
    }
}

/// A table of two chunks splits between them, before and behind the position of the dump.
#[test]
fn a_large_table_is_dumped_while_adds_go_on() {
    // A round of splits begins with a few more.
    const ITEMS: u64 = 2_900_000;
    let promise = Promise { error_rate: 1e-15, growth: Growth::default().unreserved(), ..Promise::default() };
    let spec = FilterSpec { policy: Policy::Everbloom(promise), hash: Hash::Murmur3 };
    let mut filter = Filter::reserve(spec, &u64::MAX).unwrap();
    for item in 0..ITEMS {
        filter.add(&item.to_le_bytes(), &u64::MAX, NoPrefetch).unwrap();
    }
    let mut server = server();
    server.keys.insert(b"src".to_vec(), filter);
    let segments = |server: &Server| server.keys[&b"src"[..]].table().unwrap().segment_count();
    let before = segments(&server);
    let (mut iterator, mut chunks) = (0, 0);
    while let Some(chunk) = scan(&mut server, "src", iterator) {
        iterator = chunk.0;
        load(&mut server, "dst", &chunk);
        let filter = server.keys.get_mut(&b"src"[..]).unwrap();
        for item in ITEMS * 2 + chunks * 100_000..ITEMS * 2 + (chunks + 1) * 100_000 {
            filter.add(&item.to_le_bytes(), &u64::MAX, NoPrefetch).unwrap();
        }
        chunks += 1;
    }
    assert!(chunks > 2 && segments(&server) > before, "{chunks} chunks");
    let copy = &server.keys[&b"dst"[..]];
    let has = |item: u64| copy.contains(&item.to_le_bytes(), NoPrefetch);
    assert!((0..ITEMS).step_by(7).all(has));
    // Some of the items that were added during the dump are in it, and none that was never added.
    let meanwhile = (ITEMS * 2..ITEMS * 2 + chunks * 100_000).step_by(7).filter(|item| has(*item)).count();
    assert!(meanwhile > 0 && (ITEMS * 3..ITEMS * 3 + 50_000).filter(|item| has(*item)).count() == 0);
    assert_eq!(copy.internal_validate(Validation::Contents), Ok(()));
}

/// The destination gets the same adds with all chunks before them, between them and after them. It has the same items
/// then as a copy by DUMP. Without adds between them, the chunks make the same filter.
#[test]
fn chunks_and_adds_may_come_in_any_order() {
    let seed = 0x6368_756e_6b73;
    let mut random = Random(seed);
    for (reserve, rounds, adds) in [
        ("BF.RESERVE src 0.000001 3000 PWINDOW 14000 NONSCALING", 25, 30),
        ("BF.RESERVE src 0.000001 40000 PWINDOW 14000", 10, 2000),
        ("BF.RESERVE src 0.000001 100 COUNTING", 10, 1000),
        ("BF.RESERVE src 0.000001 300", 10, 1000),
        ("BF.INSERT src ERROR 0.000001 ITEMS before-0", 10, 2000),
    ] {
        let is_window = reserve.contains("WINDOW");
        for round in 0..rounds {
            let context = format!("seed {seed:#x}, {reserve}, round {round}");
            let mut server = server();
            assert!(!server.run(reserve).contains('-'), "{context}");
            let mut added: Vec<(String, u64, u64)> = Vec::new();
            for part in 0..random.below(30) as u64 {
                add(&mut server, "src", &format!("before-{part}"), 0..adds / 30);
                added.push((format!("before-{part}"), adds / 30, server.now_ms));
                server.now_ms += random.next() % (2 * GENERATION_MS);
            }
            let whole = server.keys[&b"src"[..]].try_clone(UnknownMemory).unwrap();
            server.keys.insert(b"whole".to_vec(), whole);
            let chunks = dump(&mut server, "src");
            for key in ["first", "mixed", "last"] {
                load(&mut server, key, &chunks[0]);
            }
            chunks[1..].iter().for_each(|chunk| load(&mut server, "first", chunk));
            assert!(digested(&server, "first") == digested(&server, "whole"), "{context}");
            let steps = 1 + random.below(8) as u64;
            // For each chunk, the step before which it arrives.
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
                // Some adds have an earlier time than the items in the chunks.
                let at_ms = server.now_ms - if is_window { random.next() % WINDOW_MS } else { 0 };
                for key in ["whole", "first", "mixed", "last"] {
                    let command = match at_ms == server.now_ms {
                        true => format!("BF.MADD {key}"),
                        false => format!("BF.INSERT {key} NOCREATE AT {at_ms} ITEMS"),
                    };
                    add_by(&mut server, &command, &format!("step-{step}"), 0..adds / 5);
                }
                added.push((format!("step-{step}"), adds / 5, at_ms));
            }
            chunks[1..].iter().for_each(|chunk| load(&mut server, "last", chunk));
            for key in ["whole", "first", "mixed", "last"] {
                let context = format!("{context}: {key}");
                let mut live = 0;
                for (name, items, at_ms) in &added {
                    let (found, age_ms) = (count(&mut server, key, name, 0..*items), server.now_ms - at_ms);
                    if !is_window || age_ms <= WINDOW_MS {
                        assert_eq!(found, *items as usize, "{context}: {name}");
                        live += items;
                    } else if age_ms > WINDOW_MS + GENERATION_MS {
                        assert!(found <= 1, "{context}: {found} of {name}, which have expired");
                    }
                }
                assert!(count(&mut server, key, "never", 0..1000) <= 1, "{context}");
                let card: u64 = server.run(&format!("BF.CARD {key}"))[1..].parse().unwrap();
                assert!(card + 2 >= live, "{context}: {card} counted, {live} live");
                // Loading the chunks again changes nothing.
                if key != "whole" {
                    let before = digested(&server, key);
                    chunks[1..].iter().for_each(|chunk| load(&mut server, key, chunk));
                    assert!(digested(&server, key) == before, "{context}: twice");
                }
            }
        }
    }
}

/// Items are deleted while a counting filter is dumped, and its table becomes smaller. The copy has every item that was
/// kept, as often as it was added.
#[test]
fn a_counting_filter_is_dumped_while_items_are_deleted() {
    let mut server = server();
    assert_eq!(server.run("BF.RESERVE src 0.000001 100 COUNTING"), "+OK");
    for _ in 0..3 {
        add(&mut server, "src", "kept", 0..3000);
    }
    add(&mut server, "src", "deleted", 0..20_000);
    let header = scan(&mut server, "src", 0).unwrap();
    load(&mut server, "dst", &header);
    let bytes = server.keys[&b"src"[..]].size_bytes();
    add_by(&mut server, "BF.DEL src", "deleted", 0..20_000);
    assert!(server.keys[&b"src"[..]].size_bytes() < bytes / 2);
    let mut iterator = header.0;
    while let Some(chunk) = scan(&mut server, "src", iterator) {
        iterator = chunk.0;
        load(&mut server, "dst", &chunk);
    }
    assert_eq!(server.run("BF.CARD dst"), ":9000");
    for times in (0..3).rev() {
        assert_eq!(count(&mut server, "dst", "kept", 0..3000), 3000);
        add_by(&mut server, "BF.DEL dst", "kept", 0..3000);
        assert_eq!(server.run("BF.CARD dst"), format!(":{}", times * 3000));
    }
    assert_eq!(count(&mut server, "dst", "kept", 0..3000), 0);
}

/// Items are added and expire while a filter is dumped, at the source and at the destination. Every chunk loads, also
/// on a replica that got the destination from a snapshot meanwhile.
#[test]
fn items_are_added_and_expire_during_a_dump() {
    let seed = 0x6c61_7965_7273;
    let mut random = Random(seed);
    for round in 0..60 {
        let context = format!("seed {seed:#x}, round {round}");
        let mut server = server();
        assert_eq!(server.run(&format!("BF.RESERVE src 0.000001 200 PWINDOW {WINDOW_MS}")), "+OK");
        let mut added: Vec<(String, u64, u64)> = Vec::new();
        for part in 0..1 + random.below(4) {
            let count = *random.choose(&[20, 200, 1500]);
            add(&mut server, "src", &format!("before-{part}"), 0..count);
            added.push((format!("before-{part}"), count, server.now_ms));
            server.now_ms += random.next() % (9 * GENERATION_MS);
        }
        let mut replica: Option<Server> = None;
        let (mut iterator, mut is_at_end, mut pending) = (0, false, Vec::new());
        loop {
            let chunk = if is_at_end { None } else { scan(&mut server, "src", iterator) };
            is_at_end = chunk.is_none();
            if let Some(chunk) = chunk {
                iterator = chunk.0;
                pending.push(chunk);
            }
            // The header comes first, the other chunks in any order.
            if is_at_end && pending.is_empty() {
                break;
            }
            let is_made = server.keys.contains_key(&b"dst"[..]);
            if !pending.is_empty() && (!is_made || random.below(2) == 0) {
                let next = if is_made { random.below(pending.len()) } else { 0 };
                let chunk = pending.remove(next);
                server.replicated_calls.clear();
                assert_eq!(try_load(&mut server, "dst", &chunk), "+OK", "{context}: {}", chunk.0);
                follow(&server, replica.as_mut(), &context);
            }
            server.now_ms += random.next() % (6 * GENERATION_MS);
            let count = *random.choose(&[3, 20, 300]);
            let name = format!("meanwhile-{iterator}");
            add(&mut server, "src", &name, 0..count);
            if random.below(2) == 0 {
                server.replicated_calls.clear();
                add(&mut server, "dst", &name, 0..count);
                follow(&server, replica.as_mut(), &context);
            }
            if replica.is_none() && random.below(3) == 0 {
                let mut made = Server::new();
                made.is_replicated = true;
                let copy = server.keys[&b"dst"[..]].try_clone(UnknownMemory).unwrap();
                made.keys.insert(b"dst".to_vec(), copy);
                replica = Some(made);
            }
        }
        for (name, count_of, at_ms) in &added {
            let found = count(&mut server, "dst", name, 0..*count_of);
            let is_live = server.now_ms - at_ms <= WINDOW_MS;
            assert!(!is_live || found == *count_of as usize, "{context}: {found} of {name}");
        }
        assert_eq!(count(&mut server, "dst", "never", 0..500), 0, "{context}");
    }
}

/// Runs the replicated commands on a replica, and compares both.
fn follow(server: &Server, replica: Option<&mut Server>, context: &str) {
    let Some(replica) = replica else { return };
    for call in &server.replicated_calls {
        let words: Vec<&[u8]> = call.iter().map(Vec::as_slice).collect();
        let reply = replica.call(&words);
        assert!(!reply.starts_with('-'), "{context}: {reply}");
    }
    assert!(digested(server, "dst") == digested(replica, "dst"), "{context}");
}

/// Every chunk of a filter that grows loads. A part that it got since is not in the dump.
#[test]
fn a_filter_that_grows_is_dumped_to_the_end_of_its_header() {
    for options in ["", "COUNTING", "KEYED", "FORMAT valkey-bloom"] {
        let mut server = server();
        assert_eq!(server.run(format!("BF.RESERVE src 0.001 50 {options}").trim_end()), "+OK");
        add(&mut server, "src", "before", 0..300);
        let (mut iterator, mut step) = (0, 0);
        while let Some(chunk) = scan(&mut server, "src", iterator) {
            iterator = chunk.0;
            assert_eq!(try_load(&mut server, "dst", &chunk), "+OK", "{options}: {iterator}");
            add(&mut server, "src", &format!("meanwhile-{step}"), 0..300);
            step += 1;
        }
        assert_eq!(count(&mut server, "dst", "before", 0..300), 300, "{options}");
        // The next dump has all layers.
        dump(&mut server, "src").iter().for_each(|chunk| load(&mut server, "whole", chunk));
        assert!(digested(&server, "whole") == digested(&server, "src"), "{options}");
    }
}

/// A chunk that does not belong to the header is refused, and the error text contains the remedy.
#[test]
fn a_chunk_of_another_dump_is_refused_with_a_remedy() {
    let mut server = server();
    assert_eq!(server.run("BF.RESERVE src 0.01 1000 PWINDOW 14000"), "+OK");
    add(&mut server, "src", "old", 0..10);
    let chunks = dump(&mut server, "src");
    load(&mut server, "dst", &chunks[0]);
    let expected = "-ERR received bad data - the chunk and the header are from different dumps: delete the key and start \
                    again with BF.SCANDUMP and iterator 0";
    // Another dump was started meanwhile.
    add(&mut server, "src", "new", 0..10);
    let later = dump(&mut server, "src");
    assert_eq!(try_load(&mut server, "dst", &later[1]), expected);
    // The source was cleared.
    assert_eq!(server.run("BF.CLEAR src"), "+OK");
    let cleared = dump(&mut server, "src");
    assert_eq!(try_load(&mut server, "dst", &cleared[1]), expected);
    // The header is no longer known, as after a restart.
    let copy = server.keys[&b"dst"[..]].try_clone(UnknownMemory).unwrap();
    server.keys.insert(b"restarted".to_vec(), copy);
    assert_eq!(try_load(&mut server, "restarted", &chunks[1]), expected);
    load(&mut server, "dst", &chunks[1]);
    assert_eq!(count(&mut server, "dst", "old", 0..10), 10);
}

/// Returns the dump id of a header, which changes when the filter changes.
fn dump_id(header: &Chunk) -> [u8; 8] {
    *header.1[..header.1.len() - 16].last_chunk().unwrap()
}

/// Another call with iterator 0 continues the dump, unless the filter has changed.
#[test]
fn every_change_begins_another_dump() {
    for (reserve, changes) in [
        ("BF.RESERVE src 0.01 100 COUNTING", &["BF.ADD src a", "BF.ADD src a", "BF.DEL src a"][..]),
        ("BF.RESERVE src 0.01 100 PWINDOW 14000", &["BF.ADD src a", "BF.MERGE src window", "BF.ADD src b"]),
        ("BF.RESERVE src 0.01 1", &["BF.ADD src a", "BF.ADD src b", "BF.ADD src c", "BF.MERGE src table"]),
        ("BF.INSERT src ITEMS z", &["BF.ADD src a", "BF.ADD src b", "BF.MERGE src table", "BF.CLEAR src"]),
    ] {
        let mut server = server();
        for line in [reserve, "BF.RESERVE window 0.01 100 PWINDOW 14000", "BF.ADD window w", "BF.ADD table t"]
        {
            assert!(!server.run(line).contains('-'), "{line}");
        }
        for line in changes {
            let before = dump_id(&scan(&mut server, "src", 0).unwrap());
            server.run("BF.ADD table t");
            server.run("BF.EXISTS src a");
            assert_eq!(dump_id(&scan(&mut server, "src", 0).unwrap()), before, "nothing has changed");
            server.now_ms += GENERATION_MS;
            assert!(!server.run(line).contains('-'), "{line}");
            assert_ne!(dump_id(&scan(&mut server, "src", 0).unwrap()), before, "{reserve}: {line}");
        }
    }
}

/// The text of BF.SCANDUMP for an iterator of a dump that has ended.
const ENDED: &str =
    "-ERR the dump of this iterator has ended: delete the copy and start again with iterator 0";

/// What creates a filter of every kind whose dumps have an id, and a command that ends a dump of the filter `src`.
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

/// The same, and commands that do not end a dump: a table of other entries is at the same positions.
const CHANGES: [(&str, &str); 3] = [
    ("BF.RESERVE src 0.01 100 COUNTING", "BF.DEL src"),
    ("BF.RESERVE src 0.01 100 COUNTING", "BF.MERGE src other FORCE"),
    ("BF.RESERVE src 0.01 100 PWINDOW 14000", "BF.MERGE src other FORCE"),
];

/// Returns a server with the filter `src`, and what an `end` of [`ENDS`] needs.
fn before_the_end(reserve: &str, end: &str) -> Server {
    let mut server = server();
    assert!(!server.run(reserve).contains('-'), "{reserve}");
    add(&mut server, "src", "item", 0..450);
    if end.starts_with("BF.MERGE") {
        // A filter whose layer cannot be united with that of the source.
        let kind = reserve.split_once(" 100").map_or("", |(_, options)| options);
        assert_eq!(server.run(&format!("BF.RESERVE other 0.001 70{kind}")), "+OK");
        add(&mut server, "other", "other", 0..400);
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

/// A dump never ends before its last chunk: every iterator of a dump that has ended is an error, also one that lies
/// past the end of the filter, and also after another dump of the filter.
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
                assert!(*iterator < 1 << 53);
                let reply = server.run(&format!("BF.SCANDUMP src {iterator}"));
                assert_eq!(reply, ENDED, "{context}, {iterator}, dumped again: {is_dumped_again}");
            }
        }
        for iterator in [i64::MIN, -1, 1, 2, i64::MAX] {
            assert_eq!(server.run(&format!("BF.SCANDUMP src {iterator}")), ENDED, "{context}, {iterator}");
        }
    }
}

/// The rest of a dump is refused with the same text, wherever its chunks lie, and whatever kind the target is of.
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
        for (target, chunks) in [("first", &second), ("second", &first), ("small", &first), ("src", &first)] {
            let before = digested(&server, target);
            for chunk in &chunks[1..] {
                let reply = try_load(&mut server, target, chunk);
                assert_eq!(reply, other_dump, "{options}, {end}, {target}, {}", chunk.0);
            }
            assert!(digested(&server, target) == before);
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
                    add(&mut server, "src", "meanwhile", 0..1 + random.below(300) as u64);
                }
                _ => {}
            }
        };
        if is_complete {
            complete += 1;
            let found = count(&mut server, "dst", "item", kept.clone());
            assert_eq!(found as u64, kept.end - kept.start, "{context}");
        } else {
            ended += 1;
        }
    }
    assert!(complete > 100 && ended > 50, "{complete} complete, {ended} ended");
}

/// A merge may insert layers into a filter that is being dumped. That ends the dump, and the next one has them.
#[test]
fn a_merge_that_adds_layers_ends_a_dump() {
    let mut server = server();
    for line in [
        "BF.RESERVE src 0.01 100",
        // A filter with the shape of the layer, and full, so that it does not fit into it.
        "BF.RESERVE other 0.0075 100 NONSCALING",
    ] {
        assert_eq!(server.run(line), "+OK", "{line}");
    }
    add(&mut server, "src", "item", 0..190);
    add(&mut server, "other", "other", 0..100);
    let header = scan(&mut server, "src", 0).unwrap();
    let first = scan(&mut server, "src", header.0).unwrap();
    let layers = server.run("BF.INFO src FILTERS");
    assert_eq!(server.run("BF.MERGE src other FORCE"), "+OK");
    assert_ne!(server.run("BF.INFO src FILTERS"), layers);
    assert_eq!(server.run(&format!("BF.SCANDUMP src {}", first.0)), ENDED);
    dump(&mut server, "src").iter().for_each(|chunk| load(&mut server, "again", chunk));
    assert!(digested(&server, "again") == digested(&server, "src"));
}
