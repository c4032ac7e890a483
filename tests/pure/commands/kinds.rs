//! Behaviour of commands that differs for filters of other kinds.

use data_encoding::BASE64;
use everbloom::bloom::Format;
use everbloom::bloom::Hash;
use everbloom::bloom::hash::murmur2::Murmur2;
use everbloom::command::Settings;
use everbloom::format::filter::header;
use serde_json::Value;

use crate::support::server::{Server, assert_dialogue};

#[test]
fn options_unknown_to_redisbloom_are_not_replicated_for_an_existing_filter() {
    let mut server = Server::new();
    for format in ["everbloom", "redisbloom"] {
        server.keys.clear();
        assert_eq!(server.run(&format!("BF.RESERVE k 0.01 100 FORMAT {format}")), "+OK");
        let format = format!("FORMAT {format}");
        for (number, words) in [format.as_str(), "VALIDATESCALETO 1000"].into_iter().enumerate() {
            let line = format!("BF.INSERT k CAPACITY 50 {words} ITEMS new-{number}");
            assert_eq!(server.run(&line), "*1 #t", "{line}");
            assert_eq!(server.replicated.last().unwrap(), &format!("BF.MADD k new-{number}"), "{line}");
        }
        let plain = "BF.INSERT k CAPACITY 50 ERROR 0.1 EXPANSION 4 NOCREATE NONSCALING ITEMS plain";
        assert_eq!(server.run(plain), "*1 #t");
        let known = ["CAPACITY", "ERROR", "EXPANSION", "NOCREATE", "NONSCALING", "ITEMS"];
        let replicated = server.replicated.last().unwrap().split(' ');
        let unknown = replicated
            .skip(2)
            .find(|word| !known.contains(word) && *word != "plain" && word.parse::<f64>().is_err());
        assert_eq!(unknown, None);
    }
}

/// The options that say what kind of filter it is, with the word of the error.
const KIND_OPTIONS: [(&str, &str); 14] = [
    ("FORMAT everbloom", "FORMAT"),
    ("FORMAT redisbloom", "FORMAT"),
    ("FORMAT valkey-bloom", "FORMAT"),
    ("COUNTING", "COUNTING"),
    ("SATURATE", "SATURATE"),
    ("KEYED", "KEYED"),
    ("KEY 0123456789abcdef", "KEY"),
    ("KEY 0123456789abcdeF", "KEY"),
    ("WINDOW 60", "WINDOW"),
    ("PWINDOW 60001", "WINDOW"),
    ("NOREFRESH", "NOREFRESH"),
    ("SEED 0123456789abcdef0123456789ABCDEF", "SEED"),
    ("SEED 0123456789abcdef0123456789ABCDEf", "SEED"),
    ("TIGHTENING 0.3", "TIGHTENING"),
];

#[test]
fn an_option_that_repeats_the_kind_of_a_filter_is_accepted_and_any_other_refused() {
    let kinds: [(&str, &[&str]); 9] = [
        ("FORMAT everbloom", &["FORMAT everbloom"]),
        ("COUNTING", &["FORMAT everbloom", "COUNTING"]),
        ("NONSCALING SATURATE FORMAT everbloom", &["FORMAT everbloom", "SATURATE"]),
        ("KEY 0123456789abcdef FORMAT everbloom", &["FORMAT everbloom", "KEYED", "KEY 0123456789abcdef"]),
        ("KEY 0123456789abcdef COUNTING", &["FORMAT everbloom", "KEYED", "KEY 0123456789abcdef", "COUNTING"]),
        ("WINDOW 60", &["FORMAT everbloom", "WINDOW 60"]),
        ("WINDOW 60 NOREFRESH", &["FORMAT everbloom", "WINDOW 60", "NOREFRESH"]),
        ("FORMAT redisbloom", &["FORMAT redisbloom"]),
        (
            "SEED 0123456789abcdef0123456789ABCDEF",
            &["FORMAT valkey-bloom", "SEED 0123456789abcdef0123456789ABCDEF", "TIGHTENING 0.3"],
        ),
    ];
    // The settings are for new filters.
    for (format, keyed) in Format::ALL.into_iter().flat_map(|format| [(format, false), (format, true)]) {
        for (words, own) in kinds {
            let mut server = Server::new();
            assert_eq!(server.run(&format!("BF.INSERT k CAPACITY 100 {words} ITEMS a")), "*1 #t", "{words}");
            (server.settings.format, server.settings.keyed) = (format, keyed);
            for (number, (option, word)) in KIND_OPTIONS.into_iter().enumerate() {
                let before = header(&server.keys[b"k".as_slice()]);
                let line = format!("BF.INSERT k {option} ITEMS new-{number}");
                let reply = server.run(&line);
                if own.contains(&option) {
                    assert_eq!(reply, "*1 #t", "{line} for {words}");
                    continue;
                }
                let differs = format!(
                    "-ERR {word} differs from the existing filter: omit the option, or use another key"
                );
                assert_eq!(reply, differs, "{line} for {words}");
                assert!(header(&server.keys[b"k".as_slice()]) == before, "{line} for {words}");
            }
            let all = own.join(" ");
            assert_eq!(server.run(&format!("BF.INSERT k {all} ITEMS all")), "*1 #t", "{words}");
            server.assert_replicated(Settings::DEFAULT);
        }
    }
}

#[test]
fn a_replicated_command_adds_to_a_filter_of_another_kind() {
    let mut server = Server::new();
    assert_eq!(server.run("BF.RESERVE k 0.01 100"), "+OK");
    server.is_replicated = true;
    assert_eq!(server.run("BF.INSERT k FORMAT redisbloom ITEMS a"), "*1 #t");
    assert_eq!(server.run("BF.RESERVE k 0.01 100 IFNOTEXISTS"), ":0");
}

#[test]
fn the_error_rate_of_redisblooms_filters_is_at_most_a_quarter() {
    let made = |line: &str| {
        let mut server = Server::new();
        let reply = server.run(line);
        assert!(!reply.starts_with('-'), "{line}: {reply}");
        header(&server.keys[b"k".as_slice()])
    };
    for growth in ["EXPANSION 2", "NONSCALING"] {
        let reserve = |rate: &str| made(&format!("BF.RESERVE k {rate} 100 {growth} FORMAT redisbloom"));
        let insert = |rate: &str| {
            made(&format!("BF.INSERT k CAPACITY 100 ERROR {rate} {growth} FORMAT redisbloom ITEMS a"))
        };
        for rate in ["0.2501", "0.5", "0.9", "0.999999"] {
            assert_eq!(reserve(rate), reserve("0.25"), "{rate}");
            assert_eq!(insert(rate), insert("0.25"), "{rate}");
        }
        assert_ne!(reserve("0.2499"), reserve("0.25"));
    }
    // Only in that format.
    for format in ["everbloom", "valkey-bloom"] {
        let mut server = Server::new();
        assert_eq!(server.run(&format!("BF.RESERVE k 0.9 100 FORMAT {format}")), "+OK");
        let reply = server.run("BF.INFO k ERROR");
        assert!(reply.contains("0.9") && !reply.contains("0.25"), "{format}: {reply}");
    }
    // The default rate too.
    let mut server = Server::new();
    server.settings.format = Format::RedisBloom;
    server.settings.error_rate = 0.7;
    assert_eq!(server.run("BF.ADD k a"), "#t");
    assert_eq!(
        header(&server.keys[b"k".as_slice()]),
        made("BF.INSERT k CAPACITY 100 ERROR 0.25 FORMAT redisbloom ITEMS a")
    );
}

#[test]
fn an_item_that_an_encoding_cannot_express_is_refused_by_every_layer() {
    const REFUSED: &str = "-ERR the item is not a decimal integer of 32 bits, as encoding int32le requires";
    let mut server = Server::new();
    let [both, many] = [format!("*3 #t {REFUSED} #t"), format!("*4 #t #t {REFUSED} #t")];
    let dialogue = [
        ("BF.IMPORT k EMPTY SCHEME guava-mitz64 BITS 6400 HASHES 3 ENCODING int32le CAPACITY 3", "+OK"),
        ("BF.ADD k abc", REFUSED),
        ("BF.ADD k 007", REFUSED),
        ("BF.MADD k 1 abc 2", both.as_str()),
        ("BF.INFO k FILTERS", "*1 :1"),
        ("BF.MADD k 3 4 abc 5", many.as_str()),
        // Also by a layer of everbloom's own, which could hash any item.
        ("BF.INFO k FILTERS", "*1 :2"),
        ("BF.ADD k abc", REFUSED),
        ("BF.MEXISTS k abc 1 5 007", "*4 #f #t #t #f"),
        ("BF.CARD k", ":5"),
    ];
    assert_dialogue(&mut server, &dialogue);
    assert_eq!(server.replicated[1..], ["BF.MADD k 1 2", "BF.MADD k 3 4 5"]);
}

/// Returns a filter of RedisBloom 1.1, whose hash does not follow from its bytes.
fn filter_of_redisbloom_1_1() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/redisbloom-1.1.1.json");
    let file: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    file["cases"].as_array().unwrap().iter().find(|case| case["case"] == "reserved").unwrap().clone()
}

#[test]
fn chunks_load_as_redisbloom_1_1_if_configured() {
    let case = filter_of_redisbloom_1_1();
    for assume in [true, false] {
        let mut server = Server::new();
        server.settings.assume_redisbloom_1_1 = assume;
        for chunk in case["scandump"].as_array().unwrap() {
            let iterator = chunk[0].to_string();
            let data = BASE64.decode(chunk[1].as_str().unwrap().as_bytes()).unwrap();
            let reply = server.call(&[b"BF.LOADCHUNK", b"k", iterator.as_bytes(), &data]);
            assert_eq!(reply, "+OK", "{iterator}");
        }
        let hash = *server.keys[b"k".as_slice()].layers()[0].hash();
        assert_eq!(hash == Hash::RedisBloom(Murmur2::WideCutSeeds), assume);
        let (format, count) =
            (case["items"]["format"].as_str().unwrap(), case["items"]["count"].as_u64().unwrap());
        let found = (0..count)
            .filter(|number| {
                let item = format.replace("%d", &number.to_string());
                server.call(&[b"BF.EXISTS", b"k", item.as_bytes()]) == "#t"
            })
            .count() as u64;
        if assume {
            assert_eq!(found, count);
        } else {
            assert!(found < count / 10, "{found} of {count}");
        }
    }
}

#[test]
fn a_filter_has_room_until_its_last_layer_is_full() {
    let mut server = Server::new();
    for create in [
        "BF.RESERVE k 0.0001 3 FORMAT everbloom",
        "BF.RESERVE k 0.0001 3 FORMAT redisbloom",
        "BF.RESERVE k 0.0001 3 FORMAT valkey-bloom",
        "BF.IMPORT k EMPTY SCHEME go-zero BITS 20000 CAPACITY 3",
    ] {
        for growth in ["EXPANSION 2", "NONSCALING"] {
            server.keys.clear();
            assert_eq!(server.run(&format!("{create} {growth}")), "+OK");
            for (item, has_room) in [("a", true), ("b", true), ("b", true), ("c", false)] {
                server.run(&format!("BF.ADD k {item}"));
                assert_eq!(takes_more(&server.keys[b"k".as_slice()]), has_room, "{create} {growth}: {item}");
            }
            server.run("BF.ADD k d");
            let is_scaling = growth != "NONSCALING";
            assert_eq!(takes_more(&server.keys[b"k".as_slice()]), is_scaling, "{create} {growth}");
        }
    }
}

/// Returns whether the filter takes another item without another part.
fn takes_more(filter: &everbloom::bloom::Filter) -> bool {
    filter.growth() == everbloom::bloom::Growth::Saturating
        || filter.table().is_some()
        || filter.layers().last().is_some_and(|layer| !layer.is_full())
}
