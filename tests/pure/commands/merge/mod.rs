//! BF.MERGE: merges of filters of every kind and format, and the refusals.

mod counting;
mod tables;
mod windows;

use everbloom::bloom::{Filter, Format, NoPrefetch, UnknownMemory};
use everbloom::format::chunks::Trust;
use everbloom::format::filter::{chunk, digest, from_header, header, load, load_chunk, save};

use crate::support::dialogues::replies::FORCE_IS_A_KEY;
use crate::support::server::{Server, assert_dialogue};
use crate::support::{Field, Random, Record};

const NOT_FOUND: &str = "-ERR not found";
const NO_PERMISSION: &str = "-NOPERM this user needs the permission to run BF.CARD on every source";
/// The refusal if the destination cannot have the bits or entries of a source.
const MISMATCH: &str = "-ERR the destination cannot take what a source has";
const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value";

const fn word(format: Format) -> &'static str {
    match format {
        Format::Everbloom => "everbloom",
        Format::RedisBloom => "redisbloom",
        Format::ValkeyBloom => "valkey-bloom",
    }
}

/// Returns everything in which two filters can differ.
fn state(filter: &Filter) -> Vec<Vec<u8>> {
    let mut state = Vec::new();
    digest(filter, &mut |bytes| state.push(bytes.to_vec()));
    state
}

fn add(server: &mut Server, key: &str, items: std::ops::Range<u64>) {
    for item in items {
        let reply = server.run(&format!("BF.ADD {key} {item}"));
        assert!(reply.starts_with('#'), "{key} {item}: {reply}");
    }
}

fn assert_has(server: &mut Server, key: &str, items: std::ops::Range<u64>) {
    for item in items {
        assert_eq!(server.run(&format!("BF.EXISTS {key} {item}")), "#t", "{key} {item}");
    }
}

#[test]
fn a_merge_is_refused_before_anything_changes() {
    let mut server = Server::new();
    let dialogue = [
        ("BF.MERGE a", "-ERR wrong number of arguments for 'bf.merge' command"),
        ("BF.MERGE a b", NOT_FOUND),
        ("BF.MERGE a a", NOT_FOUND),
        // Without a source before it, FORCE is a source.
        ("BF.MERGE a FORCE", NOT_FOUND),
        ("BF.RESERVE a 0.01 100", "+OK"),
        ("BF.ADD a x", "#t"),
        ("BF.MERGE string a", WRONG_TYPE),
        ("BF.MERGE a string", WRONG_TYPE),
        ("BF.MERGE b a string", WRONG_TYPE),
        ("BF.MERGE b a secret", NO_PERMISSION),
        ("BF.MERGE string secret", NO_PERMISSION),
        ("BF.IMPORT b SOURCE secret SCHEME go-zero BITS 900", NO_PERMISSION),
        ("BF.MERGE b a none", NOT_FOUND),
        ("BF.MERGE b a b", NOT_FOUND),
        ("BF.MERGE a none force", NOT_FOUND),
        ("BF.RESERVE r 0.01 100 FORMAT redisbloom", "+OK"),
        ("BF.RESERVE v 0.01 100 FORMAT valkey-bloom", "+OK"),
    ];
    assert_dialogue(&mut server, &dialogue);
    for line in ["BF.MERGE r a", "BF.MERGE v a FORCE"] {
        let reply = server.run(line);
        assert!(reply.starts_with(MISMATCH), "{line}: {reply}");
    }
    assert_eq!(server.replicated.len(), 4);
    assert!(!server.keys.contains_key(b"b".as_slice()));
}

#[test]
fn a_missing_source_in_a_migrating_slot_returns_tryagain() {
    const TRY_AGAIN: &str = "-TRYAGAIN Multiple keys request during rehashing of slot";
    let mut server = Server::new();
    server.strings.insert(b"{migrating}:config-less".to_vec(), b"4".to_vec());
    let dialogue = [
        ("BF.RESERVE a 0.01 100", "+OK"),
        ("BF.MERGE a migrating", TRY_AGAIN),
        ("BF.MERGE b a migrating", TRY_AGAIN),
        ("BF.MERGE b b migrating", TRY_AGAIN),
        ("BF.MERGE string migrating", WRONG_TYPE),
        ("BF.MERGE a none", NOT_FOUND),
        ("BF.IMPORT b SOURCE migrating SCHEME go-zero BITS 900", TRY_AGAIN),
        ("BF.IMPORT a SOURCE migrating SCHEME go-zero BITS 900", "-BUSYKEY Target key name already exists."),
        // The string is on this node, but its settings are not.
        ("BF.IMPORT b SOURCE {migrating}:config-less SCHEME redisson", TRY_AGAIN),
    ];
    assert_dialogue(&mut server, &dialogue);
    assert_eq!(server.replicated.len(), 1);
}

#[test]
fn force_is_an_option_only_as_the_last_word() {
    let mut server = Server::new();
    assert_dialogue(&mut server, FORCE_IS_A_KEY);
    assert_eq!(server.replicated[1..], ["BF.MERGE a FORCE", "BF.MERGE b FORCE FORCE"]);
    assert_eq!(
        server.events,
        ["bloom.reserve", "bloom.add", "bloom.reserve", "bloom.merge", "bloom.reserve", "bloom.merge"]
    );
}

/// A seed with different halves, like those that a server draws.
const SEED: &str = "0123456789abcdefghijklmnopqrstuv";

/// Creates a filter for 4000 items. All filters of one format have the same shape and hash.
fn make(server: &mut Server, key: &str, format: &str) {
    let seed = if format == "valkey-bloom" { format!("SEED {SEED}") } else { String::new() };
    let line = format!("BF.INSERT {key} CAPACITY 4000 ERROR 0.01 FORMAT {format} {seed} ITEMS 0-{key}");
    assert_eq!(server.run(&line.replace("  ", " ")), "*1 #t");
}

#[test]
fn equal_filters_merge_into_one_layer_in_every_format() {
    for format in Format::ALL.map(word) {
        let mut server = Server::new();
        for shard in 0..4 {
            make(&mut server, &shard.to_string(), format);
            add(&mut server, &shard.to_string(), shard * 1000..shard * 1000 + 999);
        }
        for line in ["BF.MERGE all 0 1 2 3", "BF.MERGE 0 1 2 3 0"] {
            assert_eq!(server.run(line), "+OK", "{format}: {line}");
        }
        for key in ["all", "0"] {
            (0..4).for_each(|shard| assert_has(&mut server, key, shard * 1000..shard * 1000 + 999));
            let filter = &server.keys[key.as_bytes()];
            assert_eq!((filter.layer_count(), word(filter.format())), (1, format), "{key}");
            assert!(filter.items().abs_diff(4000) < 100, "{format}: {} items", filter.items());
        }
        // The same merge again changes nothing, so nothing is replicated.
        let replicated = server.replicated.len();
        assert_eq!(server.run("BF.MERGE all 0 1 2 3"), "+OK");
        assert_eq!(server.replicated.len(), replicated, "{format}");
        // One more item than the capacity: no layer of the same shape can take it.
        make(&mut server, "more", format);
        add(&mut server, "more", 50_000..53_999);
        let before = state(&server.keys[b"all".as_slice()]);
        let reply = server.run("BF.MERGE all more");
        let refusal = if format == "everbloom" {
            "-ERR the merged filter would have"
        } else {
            "-ERR the destination would exceed"
        };
        assert!(reply.starts_with(refusal), "{format}: {reply}");
        assert!(state(&server.keys[b"all".as_slice()]) == before, "{format}");
        assert_eq!(server.run("BF.MERGE all more FORCE"), "+OK");
        assert_has(&mut server, "all", 50_000..53_999);
    }
}

/// Returns a command that creates a filter of some kind.
fn reserve(random: &mut Random, key: &str, capacity: u64, rate: f64) -> String {
    let growth = *random.choose(&["EXPANSION 1", "EXPANSION 2", "NONSCALING"]);
    match random.below(5) {
        0 | 1 => format!("BF.RESERVE {key} {rate} {capacity} FORMAT everbloom {growth}"),
        2 => format!("BF.RESERVE {key} {rate} {capacity} FORMAT redisbloom {growth}"),
        3 => {
            let seed = random.choose(&[SEED, "the_seed_of_another_valkey-bloom"]);
            format!("BF.INSERT {key} CAPACITY {capacity} ERROR {rate} SEED {seed} {growth} ITEMS {key}")
        }
        _ => {
            let scheme = *random.choose(&["redisson", "guava-mitz64", "murmur3-salted"]);
            format!(
                "BF.IMPORT {key} EMPTY SCHEME {scheme} BITS {} HASHES 9 CAPACITY {capacity} ERROR {rate} {growth}",
                capacity * 16
            )
        }
    }
}

/// Saves and loads a filter in every way.
fn assert_survives(filter: &mut Filter, name: &str) {
    let expected = state(filter);
    let mut record = Record::default();
    save(filter, &mut record, UnknownMemory);
    let read = load(filter.format(), 1, &mut record.reader(), &u64::MAX).unwrap();
    assert!(state(&read) == expected, "{name}: snapshot");
    assert!(state(&filter.try_clone(UnknownMemory).unwrap()) == expected, "{name}: copy");
    filter.begin_dump(77);
    let first = chunk(filter, 0).unwrap().unwrap();
    let mut loaded = from_header(&first.data, &u64::MAX).unwrap();
    let mut iterator = first.next_iterator;
    while let Some(next) = chunk(filter, iterator).unwrap() {
        load_chunk(&mut loaded, next.next_iterator, &next.data, Trust::DumpId, &u64::MAX).unwrap();
        iterator = next.next_iterator;
    }
    assert!(state(&loaded) == expected, "{name}: chunks");
}

#[test]
fn random_merges_keep_every_item_and_the_promised_rate() {
    const ABSENT: u64 = 20_000;
    for seed in 0..40 {
        let mut random = Random(seed);
        let (mut primary, mut replica) = (Server::new(), Server::new());
        replica.is_replicated = true;
        let mut next = 0;
        let mut sources = Vec::new();
        for number in 0..2 + random.below(5) as u64 {
            let key = format!("s{number}");
            let capacity = 200 + random.below(3) as u64 * 400;
            let line = reserve(&mut random, &key, capacity, 0.001);
            let reply = primary.run(&line);
            assert!(reply == "+OK" || reply == "*1 #t", "{seed}: {line}: {reply}");
            let items = capacity * *random.choose(&[1, 2, 4]) / 4 - 1;
            add(&mut primary, &key, next..next + items);
            next += items;
            sources.push(key);
        }
        let rate = 0.02;
        if random.below(3) > 0 {
            assert_eq!(primary.run(&format!("BF.RESERVE dest {rate} 1000 FORMAT everbloom")), "+OK");
            if random.below(2) > 0 {
                add(&mut primary, "dest", next..next + 300);
                next += 300;
            }
        } else {
            // FORCE, so that the promise of the first filter does not matter.
            sources.push("FORCE".to_owned());
        }
        let line = format!("BF.MERGE dest {}", sources.join(" "));
        assert_eq!(primary.run(&line), "+OK", "{seed}: {line}");
        assert_has(&mut primary, "dest", 0..next);
        let filter = &primary.keys[b"dest".as_slice()];
        let promised: f64 = filter.layers().iter().map(everbloom::bloom::Layer::error_rate_now).sum();
        let wrong = (0..ABSENT)
            .filter(|item| filter.contains(format!("absent-{item}").as_bytes(), NoPrefetch))
            .count() as f64;
        let mean = promised.min(rate) * ABSENT as f64;
        assert!(wrong <= mean + 3.0 * mean.sqrt() + 3.0, "{seed}: {wrong} of {ABSENT}, {promised} {line}");
        // It accepts further items, and so does a server that replays the replicated commands.
        let more = primary.run("BF.MADD dest p q r s t");
        assert!(!more.contains("-ERR") || more.contains("full"), "{more}");
        for line in primary.replicated.clone() {
            let reply = replica.run(&line);
            assert!(!reply.contains("-ERR"), "{seed}: {line}: {reply}");
        }
        for (key, filter) in &mut primary.keys {
            let copy = &replica.keys[key];
            let name = format!("{seed}: {}", String::from_utf8_lossy(key));
            assert!(header(copy) == header(filter), "{name}");
            assert!(state(copy) == state(filter), "{name}");
            if filter.format() == Format::Everbloom {
                assert_survives(filter, &name);
            }
        }
    }
}

#[test]
fn filters_of_thousands_of_layers_are_merged_and_merged_again_without_a_change() {
    let mut server = Server::new();
    for (key, first) in [("a", 0), ("b", 10_000)] {
        assert_eq!(server.run(&format!("BF.RESERVE {key} 0.5 10")), "+OK");
        let mut sources = String::new();
        for item in first..first + 2000 {
            let source = format!(" {item}");
            assert_eq!(server.run(&format!("BF.RESERVE{source} 0.01 1")), "+OK");
            assert_eq!(server.run(&format!("BF.ADD{source}{source}")), "#t");
            sources += &source;
        }
        for line in [&format!("BF.MERGE {key}{sources}"), "BF.MERGE a b FORCE"] {
            if server.keys.contains_key(b"b".as_slice()) || !line.ends_with("FORCE") {
                assert_eq!(server.run(line), "+OK");
                let replicated = server.replicated.len();
                assert_eq!(server.run(line), "+OK");
                assert_eq!(server.replicated.len(), replicated);
            }
        }
    }
    assert!(server.keys[b"b".as_slice()].layer_count() > 1000);
    assert_has(&mut server, "a", 0..2000);
    assert_has(&mut server, "a", 10_000..12_000);
    assert_has(&mut server, "b", 10_000..12_000);
}

#[test]
fn a_merge_keeps_within_the_limits_even_if_forced() {
    let mut server = Server::new();
    let dialogue = [
        ("BF.RESERVE a 0.01 1000", "+OK"),
        ("BF.RESERVE b 0.01 1001", "+OK"),
        ("BF.ADD a x", "#t"),
        ("BF.ADD b y", "#t"),
    ];
    assert_dialogue(&mut server, &dialogue);
    server.settings.max_filter_bytes = 2000;
    let before = state(&server.keys[b"a".as_slice()]);
    for line in ["BF.MERGE a b FORCE", "BF.MERGE c a b FORCE"] {
        let reply = server.run(line);
        assert!(reply.starts_with("-ERR filter would take 2"), "{line}: {reply}");
    }
    assert!(state(&server.keys[b"a".as_slice()]) == before && server.keys.len() == 2);
    server.settings.max_filter_bytes = 4000;
    assert_eq!(server.run("BF.MERGE a b"), "+OK");
    assert_eq!(server.run("BF.MEXISTS a x y z"), "*3 #t #t #f");
}

#[test]
fn a_changed_header_of_a_union_is_refused_or_valid() {
    let mut server = Server::new();
    for line in [
        "BF.RESERVE dest 0.1 10",
        "BF.INSERT r CAPACITY 20 ERROR 0.01 FORMAT redisbloom ITEMS a b",
        "BF.INSERT v CAPACITY 20 ERROR 0.01 FORMAT valkey-bloom ITEMS c d",
        "BF.IMPORT i EMPTY SCHEME go-zero BITS 900",
        "BF.ADD i e",
        "BF.ADD dest f",
        "BF.MERGE dest r v i",
    ] {
        assert!(!server.run(line).contains("-ERR"), "{line}");
    }
    let filter = server.keys.get_mut(b"dest".as_slice()).unwrap();
    let mut record = Record::default();
    save(filter, &mut record, UnknownMemory);
    let bytes = header(filter);
    assert_eq!(bytes.len(), 48 + 4 * 40 + 24 + 32 + 8);
    let limit = 64u64 << 10;
    let mut refused = 0;
    for at in 0..bytes.len() {
        for value in [0, 1, 2, 3, 4, 0x7F, 0x80, 0xFF] {
            let mut altered = bytes.clone();
            altered[at] = value;
            record.0[0] = Field::Bytes(altered.clone());
            match load(Format::Everbloom, 1, &mut record.reader(), &limit) {
                Ok(read) => assert!(header(&read) == altered, "byte {at} as {value}"),
                Err(_) => refused += 1,
            }
        }
    }
    assert!(refused > bytes.len() * 4, "{refused}");
    for length in 0..bytes.len() {
        record.0[0] = Field::Bytes(bytes[..length].to_vec());
        assert!(load(Format::Everbloom, 1, &mut record.reader(), &limit).is_err(), "{length} bytes");
    }
}
