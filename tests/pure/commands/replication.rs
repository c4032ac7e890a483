//! Replicated commands and events of a change. The replicated commands make the same filter elsewhere.

use everbloom_command::Settings;
use everbloom_filter::{Format, Kind};
use everbloom_format::filter::header;

use crate::support::Random;
use crate::support::make::START_MS;
use crate::support::server::{NOW_MS, Server};
use crate::support::world::{Adding, Form, Outcome, Refusing, World};

#[test]
fn defaults_are_replicated_explicitly() {
    let mut server = Server::new();
    server.settings =
        Settings { error_rate: 0.003, initial_size_items: 7, expansion_factor: 0, ..Settings::DEFAULT };
    assert_eq!(server.run("BF.ADD k x"), "#t");
    assert_eq!(server.replicated, ["BF.INSERT k CAPACITY 7 ERROR 0.003 NONSCALING FORMAT everbloom ITEMS x"]);
}

/// The replica builds the same filters with any settings of its own.
#[test]
fn replicated_commands_build_the_same_filter() {
    let mut primary = Server::new();
    for line in [
        "BF.RESERVE a 0.001 3 EXPANSION 4",
        "BF.MADD a 1 2 3 4 5 1 2",
        "BF.ADD b only",
        "BF.INSERT c CAPACITY 2 NONSCALING ITEMS x y x z y",
        "BF.INSERT c ITEMS x y z",
        "BF.INSERT d CAPACITY 1 EXPANSION 1 ERROR 0.3 ITEMS p q r s t u v w",
        "BF.RESERVE e 0.01 50 FORMAT valkey-bloom EXPANSION 3",
        "BF.MADD e a b c",
        "BF.INSERT f FORMAT valkey-bloom TIGHTENING 0.25 NONSCALING ITEMS a b c",
        "BF.RESERVE g 0.01 3 FORMAT redisbloom",
        "BF.MADD g a b c d e f g h",
        "BF.RESERVE h 0.01 3 FORMAT redisbloom NONSCALING",
        "BF.INSERT i CAPACITY 4 EXPANSION 5 FORMAT redisbloom ITEMS a b c d e",
        "BF.RESERVE saturating 0.01 2 NONSCALING SATURATE",
        "BF.MADD saturating a b c d",
        "BF.RESERVE keyed 0.01 2 KEYED EXPANSION 4",
        "BF.MADD keyed a b c d e f",
        "BF.INSERT both KEYED CAPACITY 2 NONSCALING SATURATE ITEMS a b c",
        "BF.INSERT c1 KEY 0123456789abcdef COUNTING ITEMS a b a",
        "BF.RESERVE c2 0.01 100 COUNTING",
        "BF.INSERT w1 KEYED WINDOW 60 ITEMS a b a",
        "BF.RESERVE w2 0.01 100 WINDOW 60 NOREFRESH",
    ] {
        primary.run(line);
    }
    (primary.settings.keyed, primary.settings.fixed_filters_saturate) = (true, true);
    primary.run("BF.INSERT by-setting CAPACITY 2 NONSCALING ITEMS a b c");
    primary.run("BF.ADD by-setting-too x");
    for (format, is_on) in Format::ALL.into_iter().flat_map(|format| [(format, false), (format, true)]) {
        primary.assert_replicated(Settings {
            error_rate: 0.2,
            initial_size_items: 5,
            expansion_factor: if is_on { 0 } else { 7 },
            max_filter_bytes: 1,
            format,
            fixed_filters_saturate: is_on,
            keyed: is_on,
            ..Settings::DEFAULT
        });
    }
}

#[test]
fn redisbloom_filters_are_replicated_as_bf_reserve_if_possible() {
    let mut server = Server::new();
    server.settings = Settings { format: Format::RedisBloom, ..Settings::DEFAULT };
    for (line, replicated) in [
        ("BF.RESERVE a 0.01 100", Some("BF.RESERVE a 0.01 100 EXPANSION 2")),
        ("BF.RESERVE b 1e-3 5 EXPANSION 7", Some("BF.RESERVE b 0.001 5 EXPANSION 7")),
        ("BF.RESERVE c 0.7 5 NONSCALING", Some("BF.RESERVE c 0.25 5 NONSCALING")),
        ("BF.ADD d x", Some("BF.RESERVE d 0.01 100 EXPANSION 2 BF.MADD d x")),
        ("BF.INSERT e CAPACITY 3 ITEMS x y x", Some("BF.RESERVE e 0.01 3 EXPANSION 2 BF.MADD e x y")),
        ("BF.INSERT f EXPANSION 1 ITEMS x", Some("BF.RESERVE f 0.01 100 EXPANSION 1 BF.MADD f x")),
        ("BF.RESERVE g 1.5e-323 1 FORMAT redisbloom", Some("BF.RESERVE g 0.0000")),
        // RedisBloom saves a growth of 0 for the first of these, and of 3 for the second, which is fixed. No BF.RESERVE
        // does either in all releases of RedisBloom.
        ("BF.RESERVE h 0.01 100 EXPANSION 0", None),
        ("BF.INSERT i EXPANSION 3 NONSCALING ITEMS x", None),
    ] {
        server.replicated.clear();
        assert!(!server.run(line).contains("-ERR"), "{line}");
        let sent = server.replicated.join(" ");
        match replicated {
            Some(expected) => assert!(sent.starts_with(expected), "{line}: {sent}"),
            None => assert!(sent.starts_with("BF.LOADCHUNK"), "{line}: {sent}"),
        }
    }
}

/// Returns the growth that RedisBloom saves in the header, and whether the filter is fixed.
fn written_growth(server: &Server, key: &str) -> (u32, bool) {
    let header = header(server.filter(key));
    let growth = u32::from_le_bytes(header[16..20].try_into().unwrap());
    (growth, header[12] & 8 != 0)
}

#[test]
fn redisbloom_filters_save_the_same_growth_as_redisbloom() {
    let mut server = Server::new();
    for (factor, line, expected) in [
        (2, "BF.RESERVE k 0.01 9", (2, false)),
        (2, "BF.RESERVE k 0.01 9 NONSCALING", (2, true)),
        (2, "BF.RESERVE k 0.01 9 EXPANSION 0", (0, true)),
        (2, "BF.RESERVE k 0.01 9 NONSCALING EXPANSION 0", (0, true)),
        (2, "BF.INSERT k EXPANSION 0 ITEMS a", (0, true)),
        (2, "BF.INSERT k EXPANSION 3 ITEMS a", (3, false)),
        (2, "BF.INSERT k EXPANSION 3 NONSCALING ITEMS a", (3, true)),
        (5, "BF.RESERVE k 0.01 9 NONSCALING", (5, true)),
        (0, "BF.RESERVE k 0.01 9", (0, true)),
        (0, "BF.ADD k a", (0, true)),
        (0, "BF.RESERVE k 0.01 9 NONSCALING", (0, true)),
        (0, "BF.INSERT k EXPANSION 3 ITEMS a", (3, true)),
    ] {
        server.keys.clear();
        server.settings =
            Settings { format: Format::RedisBloom, expansion_factor: factor, ..Settings::DEFAULT };
        assert!(!server.run(line).starts_with('-'), "{line}");
        assert_eq!(written_growth(&server, "k"), expected, "factor {factor}: {line}");
    }
    // The same options for filters of everbloom's and valkey-bloom's formats, where an explicit factor overrides the
    // setting.
    server.settings = Settings { expansion_factor: 0, ..Settings::DEFAULT };
    server.run("BF.INSERT own EXPANSION 3 ITEMS a");
    assert_eq!(server.run("BF.INFO own EXPANSION"), "*1 _");
    server.run("BF.INSERT valkey FORMAT valkey-bloom EXPANSION 3 ITEMS a");
    assert_eq!(server.run("BF.INFO valkey EXPANSION"), "*1 :3");
}

/// A replica has no limit. If an item that the primary refused were replicated, the replica's filter would differ. The
/// clock and the settings of the replica do not matter either.
#[test]
fn random_commands_give_the_same_filter_on_a_replica_years_later() {
    const LATER_MS: [u64; 3] = [0, 0, 10 * 365 * 86_400_000];
    for (seed, creation) in [
        "BF.INSERT k ITEMS 1",
        "BF.INSERT k KEYED ERROR 0.2 ITEMS 1",
        "BF.RESERVE k 0.01 500",
        "BF.RESERVE k 0.01 500 NONSCALING",
        "BF.IMPORT k EMPTY SCHEME guava-mitz64 BITS 640 HASHES 3 CAPACITY 60 ENCODING int32le",
        "BF.INSERT k ERROR 0.3 COUNTING ITEMS 1",
        "BF.RESERVE k 0.3 300 COUNTING NONSCALING",
        "BF.RESERVE k 0.3 5 COUNTING KEYED",
        "BF.RESERVE k 0.01 300 WINDOW 14",
        "BF.INSERT k PWINDOW 14000 NOREFRESH ITEMS 1 2 3",
        "BF.RESERVE k 0.01 300 WINDOW 14 KEYED",
        "BF.RESERVE k 0.01 300 WINDOW 14 NONSCALING",
    ]
    .into_iter()
    .enumerate()
    {
        let servers = LATER_MS.map(|later_ms| {
            let mut server = Server::at(START_MS + later_ms);
            let other = Settings {
                error_rate: 0.5,
                expansion_factor: 0,
                fixed_filters_saturate: true,
                keyed: later_ms == 0,
                ..Settings::DEFAULT
            };
            server.settings = other;
            server
        });
        let mut world = World::of(servers.into(), Refusing::NEVER);
        (world.is_prompt, world.server_mut().settings) = (true, Settings::DEFAULT);
        let key = b"k";
        world.call(&creation.split(' ').map(str::as_bytes).collect::<Vec<_>>());
        world.recount(key, true);
        let limit = world.size_bytes(key) + 300;
        world.limit(limit);
        let kind = world.filter(key).unwrap().kind();
        let (mut random, mut refused) = (Random(seed as u64), 0);
        for round in 0..600 {
            let now_ms = match random.below(40) {
                0 => world.now_ms() + random.next() % 40_000,
                1..=3 => world.now_ms() - random.next() % 4000,
                _ => world.now_ms() + random.next() % 400,
            };
            world.set_clocks(now_ms, now_ms);
            world.nodes[2].server.now_ms += LATER_MS[2];
            let items: Vec<Vec<u8>> =
                (0..1 + random.below(9)).map(|_| random.below(900).to_string().into_bytes()).collect();
            let at_ms = Some(now_ms - random.next() % 16_000 + 500);
            let words = [b"NOCREATE", &b"CAPACITY"[..], b"7"].map(<[u8]>::to_vec);
            let adding = match (random.below(6), kind) {
                (0, _) => Adding { form: Form::Add, ..Adding::default() },
                (1, _) => Adding { form: Form::Insert, ..Adding::default() },
                (2, _) => Adding { form: Form::Packed, ..Adding::default() },
                (3, Kind::Window) => Adding { form: Form::Insert, at_ms, words: &words, ..Adding::default() },
                (3, Kind::Counting) => {
                    world.remove(key, false, &items);
                    continue;
                }
                (4, _) if round % 50 == 0 => {
                    world.clear(key);
                    continue;
                }
                _ => Adding::default(),
            };
            let outcomes = world.add(key, adding, &items);
            refused += outcomes.iter().filter(|outcome| **outcome == Outcome::Refused).count();
            world.check();
        }
        world.check_all();
        assert!(refused > 20 && world.size_bytes(key) <= limit, "{creation}: {refused}");
        // Replies to the clients of a replica depend on its own clock.
        let expected = world.run("BF.CARD k");
        for (node, later_ms) in world.nodes.iter_mut().zip(LATER_MS) {
            node.server.is_replicated = false;
            let has_expired = kind == Kind::Window && later_ms > 0;
            let expected = if has_expired { ":0" } else { &expected };
            assert_eq!(node.server.run("BF.CARD k"), expected, "{creation}, {later_ms} ms later");
        }
    }
}

#[test]
fn options_unknown_to_redisbloom_are_not_replicated_for_an_existing_filter() {
    for format in ["everbloom", "redisbloom"] {
        let mut server = Server::new();
        assert_eq!(server.run(&format!("BF.RESERVE k 0.01 100 FORMAT {format}")), "+OK");
        for (words, is_known) in [
            (format!("FORMAT {format}"), false),
            ("VALIDATESCALETO 1000".to_owned(), false),
            ("EX 10".to_owned(), false),
            ("NOCREATE EX 10".to_owned(), false),
            ("ERROR 0.1 EXPANSION 4 NOCREATE NONSCALING".to_owned(), true),
        ] {
            let line = format!("BF.INSERT k CAPACITY 50 {words} ITEMS {}", words.len());
            assert_eq!(server.run(&line), "*1 #t", "{line}");
            let expected = if is_known { line } else { format!("BF.MADD k {}", words.len()) };
            assert_eq!(*server.replicated.last().unwrap(), expected);
        }
        // An existing filter keeps its time to live.
        assert!(server.expiries.is_empty());
    }
}

#[test]
fn the_expiry_time_of_a_new_filter_is_replicated() {
    for (option, at_ms) in
        [("EX 10", NOW_MS + 10_000), ("px 10", NOW_MS + 10), ("EXAT 2000", 2_000_000), ("PXAT 2000", 2_000)]
    {
        let (reserved, added) = (&["bloom.reserve", "expire"][..], ["bloom.reserve", "expire", "bloom.add"]);
        for (line, created, events) in [
            (
                "BF.RESERVE k 0.01 100 {}",
                "BF.INSERT k CAPACITY 100 ERROR 0.01 EXPANSION 2 FORMAT everbloom",
                reserved,
            ),
            (
                "BF.INSERT k {} ITEMS a b",
                "BF.INSERT k ERROR 0.01 EXPANSION 2 UNRESERVED FORMAT everbloom ITEMS a b",
                &added,
            ),
            (
                "BF.IMPORT k EMPTY SCHEME guava-mitz64 BITS 64 HASHES 3 {}",
                "BF.IMPORT k EMPTY SCHEME guava-mitz64 BITS 64 HASHES 3 SHIFT 0 ORDER msb ENCODING raw CAPACITY 15 \
                 ERROR 0.01 EXPANSION 2",
                reserved,
            ),
            // With options that RedisBloom supports too.
            ("BF.RESERVE k 0.01 100 FORMAT redisbloom {}", "BF.RESERVE k 0.01 100 EXPANSION 2", reserved),
        ] {
            let mut server = Server::new();
            server.must(&line.replace("{}", option));
            assert_eq!(server.replicated, [created.to_owned(), format!("PEXPIREAT k {at_ms}")]);
            assert_eq!(server.expiries, [("k".to_owned(), at_ms)], "{option}: {line}");
            assert_eq!(server.events, events, "{option}: {line}");
        }
    }
}

/// A packed batch is replicated as sent, or with the items that were added if others were refused.
#[test]
fn a_batch_is_replicated_as_sent_or_with_the_added_items() {
    let mut server = Server::new();
    for (line, reply, replicated) in [
        (
            "BF.BULKADD k COUNT LINES a\nb",
            ":2",
            "BF.INSERT k ERROR 0.01 EXPANSION 2 UNRESERVED FORMAT everbloom|BF.BULKADD k LINES a\nb",
        ),
        ("BF.BULKADD k LINES a\nb", "$00", ""),
        ("bf.bulkadd k nocreate count lines a\nc", ":1", "bf.bulkadd k nocreate count lines a\nc"),
        ("BF.BULKADD f LINES a\nb", "$11", "BF.BULKADD f LINES a\nb"),
        ("BF.BULKADD f LINES a\nc\nd\nb\ne", "$01!0!", "BF.BULKADD f LINES c\n"),
        ("BF.BULKADD f FIXED 1 abcde", "$000!!", ""),
        ("BF.BULKADD g FIXED 1 abc", "$11!", "BF.BULKADD g FIXED 1 ab"),
        (
            "BF.BULKADD h COUNT PREFIXED \x01\0\0\0a\x01\0\0\0a\x01\0\0\0b\x01\0\0\0c",
            ":2",
            "BF.BULKADD h PREFIXED \x01\0\0\0a\x01\0\0\0b",
        ),
        ("BF.BULKADD n LINES a\nb\na\nc", "$110!", "BF.BULKADD n LINES a\nb\na\n"),
        ("BF.CARD n", ":3", ""),
    ] {
        let key = line.split(' ').nth(1).unwrap();
        if key != "k" && !server.keys.contains_key(key.as_bytes()) {
            let capacity = if key == "f" { 3 } else { 2 };
            let counting = if key == "n" { " COUNTING" } else { "" };
            server.must(&format!("BF.RESERVE {key} 0.01 {capacity} NONSCALING{counting}"));
        }
        server.replicated.clear();
        assert_eq!(server.run(line), reply, "{line:?}");
        assert_eq!(server.replicated.join("|"), replicated, "{line:?}");
    }
}

/// The first item of a generation is replicated with its time, and is not in the batch after it.
#[test]
fn a_batch_that_begins_a_generation_is_replicated_in_two_parts() {
    let mut server = Server::new();
    server.must("BF.RESERVE k 0.01 100 WINDOW 14");
    for (line, first, others) in [
        ("BF.BULKADD k LINES a\nb\na\nc", "a", "BF.BULKADD k LINES b\nc\n"),
        ("BF.BULKADD k FIXED 1 ab", "a", "BF.BULKADD k FIXED 1 b"),
        ("BF.BULKADD k IFABSENT FIXED 1 bax", "x", ""),
        ("BF.BULKADD k LINES d", "d", ""),
    ] {
        server.now_ms += 1000;
        server.replicated.clear();
        server.run(line);
        let with_time = &server.replicated[0];
        assert!(with_time.starts_with("BF.INSERT k ") && with_time.ends_with(&format!(" ITEMS {first}")));
        assert_eq!(server.replicated[1..].join("|"), others, "{line:?}");
    }
}

/// Options that an existing filter ignores, and that RedisBloom does not have, are not sent to replicas.
#[test]
fn cf_insert_into_an_existing_filter_is_replicated_without_foreign_options() {
    for (format, added) in
        [(Format::RedisBloom, "CF.INSERT k NOCREATE ITEMS a"), (Format::Everbloom, "BF.MADD k a")]
    {
        for options in ["EX 60", "PXAT 9000000000000", "KEYED", "ERROR 0.1"] {
            let mut server = Server::new();
            server.settings.format = format;
            server.must("CF.RESERVE k 1000");
            server.replicated.clear();
            let line = format!("CF.INSERT k {options} ITEMS a");
            server.run(&line);
            // Only RedisBloom lacks ERROR, and it has no counting filters.
            let is_sent = format == Format::Everbloom && options.starts_with("ERROR");
            assert_eq!(server.replicated, [if is_sent { line } else { added.to_owned() }], "{format:?}");
            assert!(server.expiries.is_empty());
        }
    }
}

/// A chunk that comes again changes nothing, also if it is the last one.
#[test]
fn a_chunk_that_comes_again_is_not_replicated() {
    for (format, create, dump, load) in [
        (Format::Everbloom, "BF.RESERVE k 0.01 1000 NONSCALING", "BF.SCANDUMP", "BF.LOADCHUNK"),
        (Format::RedisBloom, "BF.RESERVE k 0.01 1000", "BF.SCANDUMP", "BF.LOADCHUNK"),
        (Format::RedisBloom, "CF.RESERVE k 1000", "CF.SCANDUMP", "CF.LOADCHUNK"),
    ] {
        let mut server = Server::new();
        server.settings.format = format;
        server.must(create);
        server.run(&format!("{}.ADD k item", &load[..2]));
        let (mut iterator, mut chunks) = ("0".to_owned(), Vec::new());
        loop {
            server.run(&format!("{dump} k {iterator}"));
            iterator = server.reply[1][1..].to_owned();
            if iterator == "0" {
                break;
            }
            chunks.push((iterator.clone(), std::mem::take(&mut server.bulk)));
        }
        let mut send = |(iterator, data): &(String, Vec<u8>)| {
            server.replicated.clear();
            let call = [load.as_bytes(), b"copy", iterator.as_bytes(), data];
            assert_eq!(server.call(&call), "+OK");
            server.replicated.len()
        };
        assert!(chunks.iter().map(&mut send).all(|replicated| replicated == 1), "{create}");
        assert!(chunks[1..].iter().map(&mut send).all(|replicated| replicated == 0), "{create}");
    }
}

/// The array of a header is not clear in a RedisBloom before 2.2.19, 2.4.8 or 2.6.11. Such a replica needs every chunk.
#[test]
fn a_clear_chunk_of_redisblooms_format_is_replicated() {
    let mut server = Server::new();
    server.settings.format = Format::RedisBloom;
    server.must("BF.RESERVE k 0.01 1000");
    server.run("BF.SCANDUMP k 0");
    let header = std::mem::take(&mut server.bulk);
    let clear = vec![0; server.filter("k").layers()[0].bits().size_bytes() as usize];
    assert_eq!(server.call(&[b"BF.LOADCHUNK", b"copy", b"1", &header]), "+OK");
    server.replicated.clear();
    let end = (clear.len() + 1).to_string();
    assert_eq!(server.call(&[b"BF.LOADCHUNK", b"copy", end.as_bytes(), &clear]), "+OK");
    assert_eq!(server.replicated.len(), 1);
}
