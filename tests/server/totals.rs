//! The totals of INFO are the sums over all filters.

use std::collections::{BTreeMap, BTreeSet};

use redis::Value;

use crate::dump::{chunk, load};
use crate::harness::{Client, Server, Site, Test, show, tests, wait_until};
use crate::kinds::fill;
use crate::monitoring::kinds;
use crate::support::Random;

pub(crate) const TESTS: &[Test] = tests![
    totals_are_the_sums_after_each_command_on_filters_of_every_kind,
    totals_are_the_sums_over_all_filters_after_random_commands,
    a_saturated_item_count_stops_at_its_limit,
    evicted_and_expired_filters_are_not_counted,
];

/// The totals of one kind: filters, bytes, layers, items, capacity.
type Totals = [u64; 5];

/// Returns the totals of each kind from INFO.
fn totals(client: &mut Client) -> BTreeMap<String, Totals> {
    let text = String::from_utf8(client.bytes(&["INFO", "bf"])).unwrap();
    let number = |name: &str| -> u64 {
        let found = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        found.unwrap_or_else(|| panic!("no {name}")).parse().unwrap()
    };
    let suffixes = ["filters", "bytes", "layers", "items", "capacity"];
    let of = |kind: &str| suffixes.map(|suffix| number(&format!("{kind}_{suffix}")));
    let totals: BTreeMap<_, _> = kinds().iter().map(|kind| ((*kind).to_owned(), of(kind))).collect();
    let sums: Totals = std::array::from_fn(|place| totals.values().map(|totals| totals[place]).sum());
    assert_eq!(sums, of("bf"));
    let theirs = ["num_objects", "total_memory_bytes", "num_filters_across_objects"];
    let theirs = theirs.iter().chain(&["num_items_across_objects", "capacity_across_objects"]);
    let theirs: Vec<u64> = theirs.map(|name| number(&format!("bf_bloom_{name}"))).collect();
    assert_eq!(theirs, sums);
    totals
}

/// Returns the totals of each kind from BF.STATS of every key in databases 0 and 1.
fn counted(client: &mut Client) -> BTreeMap<String, Totals> {
    let mut totals: BTreeMap<String, Totals> =
        kinds().iter().map(|kind| ((*kind).to_owned(), [0; 5])).collect();
    for database in ["1", "0"] {
        client.call(&["SELECT", database]);
        for key in client.array(&["KEYS", "*"]) {
            let key = show(&key).replace('"', "");
            if client.say(&format!("TYPE {key}")) == "+string" {
                continue;
            }
            let Ok(Value::Array(stats)) = client.try_call(&["BF.STATS", &key]) else {
                // A filter that is being loaded shows nothing.
                client.call(&["DEL", &key]);
                continue;
            };
            let field = |name: &str| -> &Value {
                let pairs = &mut stats.as_chunks::<2>().0.iter();
                &pairs.find(|pair| show(&pair[0]).trim_start_matches('+') == name).unwrap()[1]
            };
            let number = |name: &str| show(field(name)).parse::<u64>().unwrap();
            let kind = format!("bf_{}", show(field("kind")).replace('"', "").replace('-', "_"));
            let mut more = ["bytes", "layers", "items", "capacity"].map(number);
            // A table counts as a layer.
            more[1] += u64::from(*field("table-segments") != Value::Nil);
            // The items of windows are not totalled, because their expiry raises no event.
            more[2] *= u64::from(kind != "bf_window");
            let sums = totals.get_mut(&kind).unwrap_or_else(|| panic!("{kind}"));
            let more = std::iter::once(1).chain(more);
            sums.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
        }
    }
    totals
}

/// Asserts that [`counted`] and [`totals`] agree. It retries, because filters may be freed in the background, and keys
/// may expire between two commands. The total capacity of windows is the reserved one. BF.STATS shows a higher one for a
/// window with more live items.
fn assert_totals(client: &mut Client, when: &str) {
    let read = |client: &mut Client| {
        let (mut counted, totals) = (counted(client), totals(client));
        counted.entry("bf_window".to_owned()).and_modify(|[.., capacity]| {
            *capacity = totals["bf_window"][4].min(*capacity);
        });
        (counted, totals)
    };
    let mut last = read(client);
    for _ in 0..200 {
        if last.0 == last.1 {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
        last = read(client);
    }
    panic!("{when}: counted {:?}, in INFO {:?}", last.0, last.1);
}

fn totals_are_the_sums_after_each_command_on_filters_of_every_kind(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    let filters = fill(&mut client);
    assert_totals(&mut client, "filled");
    for step in ["COPY $ copy-$", "BF.MERGE merged-$ $ FORCE", "DEL copy-$", "BF.ADD $ more", "BF.CLEAR $"] {
        for filter in &filters {
            client.say(&step.replace('$', &filter.key));
        }
        assert_totals(&mut client, step);
    }
    assert_ne!(client.info_number("bf_filters"), 0);
    for step in ["DEBUG RELOAD", "FLUSHALL"] {
        assert_eq!(client.say(step), "+OK");
        assert_totals(&mut client, step);
    }
    assert_eq!(client.info_number("bf_filters"), 0);
}

/// Commands that create filters of every kind, with equal and different sizes and shapes for merges.
const MAKERS: [&str; 10] = [
    "BF.RESERVE {k} 0.01 20 EXPANSION 1",
    "BF.RESERVE {k} 0.001 100",
    "BF.RESERVE {k} 0.01 50 NONSCALING",
    "BF.RESERVE {k} 0.01 20 NONSCALING SATURATE",
    "BF.RESERVE {k} 0.01 20 FORMAT redisbloom",
    "BF.RESERVE {k} 0.01 20 FORMAT valkey-bloom",
    "BF.RESERVE {k} 0.01 10 COUNTING EXPANSION 1",
    "BF.RESERVE {k} 0.01 20 KEYED",
    "BF.RESERVE {k} 0.01 20 EXPANSION 1 PWINDOW 300",
    "BF.IMPORT {k} EMPTY SCHEME murmur3-salted BITS 1000 HASHES 5 CAPACITY 10",
];

/// Runs one random command; some are refused.
fn disturb(client: &mut Client, random: &mut Random) -> String {
    let key = |random: &mut Random| format!("{{k}}{}", random.below(10));
    let (one, other) = (key(random), key(random));
    let items = |random: &mut Random| {
        // Sometimes enough for a table to grow and shrink.
        let (count, most) = if random.below(6) == 0 { (500, 4000) } else { (30, 300) };
        let count = 1 + random.below(count);
        (0..count).map(|_| format!("i{}", random.below(most))).collect::<Vec<_>>().join(" ")
    };
    let line = match random.below(24) {
        0..4 => random.choose(&MAKERS).replace("{k}", &one),
        4..9 => format!("BF.MADD {one} {}", items(random)),
        9 | 10 => format!("BF.ADD {one} i{}", random.below(300)),
        11 => format!("BF.INSERT {one} CAPACITY 5 ITEMS {}", items(random)),
        12 | 13 => format!("BF.DEL {one} {}", items(random)),
        14 => format!("BF.CLEAR {one}"),
        15 => format!("BF.MERGE {one} {other}"),
        16 => format!("BF.MERGE {one} {other} {} FORCE", key(random)),
        17 => format!("COPY {one} {other} REPLACE"),
        18 => format!("COPY {one} {other} DB 1 REPLACE"),
        19 => format!("RENAME {one} {other}"),
        20 => format!("{} {one}", random.choose(&["DEL", "UNLINK"])),
        21 => {
            if let Value::BulkString(payload) = client.call(&["DUMP", &one]) {
                client.ask(&[b"RESTORE".as_slice(), other.as_bytes(), b"0", &payload, b"REPLACE"]);
            }
            format!("EXISTS {other}")
        }
        22 => match random.below(3) {
            0 => format!("SET {one} x"),
            1 => format!("PEXPIRE {one} 1"),
            _ => format!("MOVE {one} 1"),
        },
        _ => match random.below(8) {
            0 => "FLUSHDB".to_owned(),
            1 => "SWAPDB 0 1".to_owned(),
            2 => {
                expire(client);
                "DEBUG RELOAD".to_owned()
            }
            _ => {
                let count = *random.choose(&[1, usize::MAX]);
                chunks(client, &one, &other, count)
            }
        },
    };
    let _ = client.try_call(&line.split(' ').collect::<Vec<_>>());
    line
}

/// Reads every key, so that the server deletes and replicates expired keys. A reload drops them without replicating it.
fn expire(client: &mut Client) {
    std::thread::sleep(std::time::Duration::from_millis(5));
    let keys: Vec<_> = (0..10).map(|key| format!("{{k}}{key}")).collect();
    for database in [1, 0] {
        client.say(&format!("SELECT {database}"));
        client.say(&format!("EXISTS {}", keys.join(" ")));
    }
}

/// Loads up to `count` chunks of a filter, the header first, under another key. Returns a command that changes
/// nothing.
fn chunks(client: &mut Client, from: &str, to: &str, count: usize) -> String {
    let mut iterator = "0".to_owned();
    for _ in 0..count {
        let Ok(Value::Array(chunk)) = client.try_call(&["BF.SCANDUMP", from, &iterator]) else { break };
        let [Value::Int(next), Value::BulkString(data)] = &chunk[..] else { break };
        if *next == 0 {
            break;
        }
        iterator = next.to_string();
        if client.try_call(&[b"BF.LOADCHUNK".as_slice(), to.as_bytes(), iterator.as_bytes(), data]).is_err() {
            break;
        }
    }
    format!("EXISTS {to}")
}

fn totals_are_the_sums_over_all_filters_after_random_commands(site: &Site) {
    let seed = std::process::id().into();
    eprintln!("seed {seed}");
    let mut random = Random(seed);
    let server = site.launch().with("appendonly yes").with("aof-use-rdb-preamble no").start();
    let replica = server.replica(site.launch());
    let mut client = server.client();
    let mut seen = BTreeSet::new();
    for (key, maker) in MAKERS.iter().enumerate() {
        assert_eq!(client.say(&maker.replace("{k}", &format!("{{k}}{key}"))), "+OK");
        assert_eq!(client.int(&format!("BF.ADD {{k}}{key} i{key}")), 1);
    }
    assert_eq!(client.say("BF.MERGE {k}union {k}0 {k}4 FORCE"), "+OK");
    for turn in 0..60 {
        let with_items = totals(&mut client)
            .into_iter()
            .filter(|(kind, totals)| totals[3] > 0 || kind == "bf_window" && totals[0] > 0);
        seen.extend(with_items.map(|(kind, _)| kind));
        let lines: Vec<_> = (0..20).map(|_| disturb(&mut client, &mut random)).collect();
        assert_totals(&mut client, &format!("seed {seed}, turn {turn}: {lines:#?}"));
    }
    assert!(seen.iter().map(String::as_str).eq(kinds()), "not all kinds in {seen:?}, seed {seed}");
    replica.wait_for_primary();
    let mut reader = replica.client();
    wait_until("the replica has counted all", || totals(&mut reader) == totals(&mut client));
    assert_totals(&mut reader, "replica");
    client.call(&["BGREWRITEAOF"]);
    wait_until("rewritten", || client.info_number("aof_rewrite_in_progress") == 0);
    let server: Server = server.restart();
    assert_totals(&mut server.client(), "restarted");
    let mut client = server.client();
    client.say("FLUSHALL");
    wait_until("all gone", || totals(&mut client).values().all(|totals| *totals == [0; 5]));
}

fn a_saturated_item_count_stops_at_its_limit(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    assert_eq!(client.say("BF.RESERVE full 0.01 1 NONSCALING SATURATE"), "+OK");
    for item in 0..300 {
        client.say(&format!("BF.ADD full {item}"));
    }
    assert_totals(&mut client, "saturated");
    // Without the other chunks, the copy adds items as new that its header already counts.
    let (iterator, header) = chunk(&mut client, "full", 0).unwrap();
    assert_eq!(load(&mut client, "copy", iterator, &header), "+OK");
    let from_header = client.int("BF.CARD copy");
    for item in 0..300 {
        client.say(&format!("BF.ADD copy {item}"));
        assert_totals(&mut client, &format!("the header and {item} items more"));
    }
    assert!(client.int("BF.CARD copy") > from_header);
    client.say("BF.CLEAR copy");
    assert_totals(&mut client, "cleared");
    client.say("FLUSHALL SYNC");
    wait_until("all gone", || totals(&mut client).values().all(|totals| *totals == [0; 5]));
}

fn evicted_and_expired_filters_are_not_counted(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    for number in 0..40 {
        client.say(&format!("BF.RESERVE {{k}}{number} 0.01 {}", 10_000 + number * 1000));
        client.say(&format!("BF.ADD {{k}}{number} item"));
    }
    // The time must still be in the future when a slow server gets it: PEXPIRE with a past time deletes the key at
    // once, without counting it as expired.
    client.say("PEXPIRE {k}0 200");
    // EXISTS does not find an expired key even before the server deletes it, so the test also waits for the count.
    wait_until("expired", || client.say("EXISTS {k}0") == "0" && client.info_number("expired_keys") == 1);
    assert_totals(&mut client, "expired");
    client.say("CONFIG SET maxmemory-policy allkeys-random");
    let used = client.info_number("used_memory");
    client.say(&format!("CONFIG SET maxmemory {}", used - 300_000));
    wait_until("evicted", || client.info_number("evicted_keys") > 0);
    client.say("CONFIG SET maxmemory 0");
    assert!(client.info_number("bf_filters") < 39);
    assert_totals(&mut client, "evicted");
}
