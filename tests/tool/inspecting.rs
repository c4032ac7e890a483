//! Tests `inspect` with files of servers and with damaged files.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::harness::{Server, Site, Test, tests};
use crate::tool::{Files, json, keys, run, url};

pub(crate) const TESTS: &[Test] = tests![
    filters_are_found_in_a_snapshot_with_keys_of_all_types,
    a_dump_and_a_file_of_build_hold_one_filter,
    malformed_files_are_errors,
];

/// Creates keys of every type, small and large, and filters of every kind.
fn fill(server: &Server) {
    let mut client = server.client();
    let words = |count: usize| (0..count).map(|word| format!("w{word} {word}")).collect::<Vec<_>>().join(" ");
    let long = "x".repeat(300);
    for (form, count) in [("small", 3), ("large", 600)] {
        client.say(&format!("RPUSH list-{form} {}", words(count)));
        client.say(&format!("SADD set-{form} {}", words(count)));
        client.say(&format!("HSET hash-{form} {}", words(count)));
        let scored: Vec<String> = (0..count).map(|word| format!("{word}.5 w{word}")).collect();
        client.say(&format!("ZADD zset-{form} inf top -inf low {}", scored.join(" ")));
        for entry in 0..count {
            client.say(&format!("XADD stream-{form} * field {entry}"));
        }
        client.say(&format!("RPUSH list-long-{form} {long} {}", "y".repeat(10_000)));
    }
    client.say("SADD numbers 1 2 3 70000");
    client.say("XGROUP CREATE stream-small group 0");
    client.say("XREADGROUP GROUP group reader COUNT 2 STREAMS stream-small >");
    // Fields with times to live, if the server supports them.
    client.say("HEXPIRE hash-small 1000 FIELDS 1 w0");
    client.say("HEXPIRE hash-large 1000 FIELDS 1 w0");
    client.say(&format!("SET compressed {long} EX 1000"));
    for number in ["7", "-300", "70000", "5000000000"] {
        client.say(&format!("SET number{number} {number}"));
    }
    client.ask(&["FUNCTION", "LOAD", "#!lua name=f\nredis.register_function('f', function() return 1 end)"]);
    let kinds =
        ["", "NONSCALING", "FORMAT redisbloom", "FORMAT valkey-bloom", "COUNTING", "KEYED", "WINDOW 3600"];
    for (number, kind) in kinds.iter().enumerate() {
        client.say(&format!("BF.RESERVE filter-{number} 0.01 30 {kind}"));
        let items: Vec<String> = (0..25).map(|item| format!("item-{item}")).collect();
        client.say(&format!("BF.MADD filter-{number} {}", items.join(" ")));
        for item in 0..(if *kind == "NONSCALING" { 0 } else { 60 }) {
            client.say(&format!("BF.ADD filter-{number} more-{item}"));
        }
    }
    client.say("BF.RESERVE large 0.001 3000000 EX 1000");
    client.say("BF.MADD large a b c");
    client.say("SELECT 3");
    client.say("BF.ADD elsewhere item");
}

fn find<'v>(looked: &'v Value, key: &str) -> &'v Value {
    looked["filters"].as_array().unwrap().iter().find(|filter| filter["key"] == key).unwrap()
}

fn filters_are_found_in_a_snapshot_with_keys_of_all_types(site: &Site) {
    for compression in ["yes", "no"] {
        let server = site.launch().with(format!("rdbcompression {compression}")).start();
        fill(&server);
        let mut client = server.client();
        assert_eq!(client.say("SAVE"), "+OK");
        let path = server.dir().join("dump.rdb");
        let looked = json(&["inspect", path.to_str().unwrap()]);
        let (mut filters, mut others) = (0, std::collections::BTreeMap::<String, u64>::new());
        for key in keys(&mut client) {
            let kind = client.say(&format!("TYPE {key}"));
            if ["+everbloom", "+MBbloom--", "+bloomfltr"].contains(&kind.as_str()) {
                let filter = find(&looked, &key);
                assert_eq!((&filter["db"], filter["type"].as_str()), (&0.into(), kind.strip_prefix('+')));
                for (name, field) in [("items", "ITEMS"), ("capacity", "CAPACITY"), ("layers", "FILTERS")] {
                    let shown = client.say(&format!("BF.INFO {key} {field}"));
                    assert_eq!(shown, format!("[{}]", filter[name]), "{filter}");
                }
                // A table has no fill.
                let has_bits = !filter["per_layer"].as_array().unwrap().is_empty();
                assert!(
                    filter["fill"].as_f64().map(|fill| fill > 0.0 && fill < 0.7) == has_bits.then_some(true)
                );
                let table = client.say(&format!("BF.INFO {key} TABLE-BYTES"));
                assert_eq!(table, format!("[{}]", filter["table_bytes"]).replace("null", "nil"), "{filter}");
                assert_eq!(filter["expires_ms"].is_null(), key != "large", "{filter}");
                if key == "large" {
                    let expires = filter["expires"].as_str().unwrap();
                    let date = Command::new("date").args(["-u", "-d", expires, "+%s%3N"]).output().unwrap();
                    let ms = String::from_utf8(date.stdout).unwrap();
                    assert_eq!(ms.trim(), filter["expires_ms"].to_string(), "{filter}");
                    let shown = run(&["inspect", path.to_str().unwrap()]).out;
                    assert!(shown.contains(&format!("expires {expires}")), "{shown}");
                }
                filters += 1;
            } else {
                *others.entry(kind[1..].to_owned()).or_default() += 1;
            }
        }
        assert_eq!(find(&looked, "elsewhere")["db"], 3);
        assert_eq!(looked["filters"].as_array().unwrap().len(), filters + 1);
        assert_eq!(looked["others"], serde_json::json!(others), "{looked}");
    }
}

fn a_dump_and_a_file_of_build_hold_one_filter(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    let files = Files::new();
    let (items, built) = (files.items("items", 5000), files.path("k.bloom"));
    let build = json(&["build", &items, "-o", &built]);
    json(&["restore", &url(&server), "k", &built]);
    let dump = files.write("k.dump", client.bytes(&["DUMP", "k"]));
    assert_eq!(client.say("SAVE"), "+OK");
    let saved = server.dir().join("dump.rdb");
    let looked = [built.as_str(), &dump, saved.to_str().unwrap()].map(|file| json(&["inspect", file]));
    for look in &looked {
        let filter = &look["filters"][0];
        assert_eq!((&filter["items"], &filter["capacity"]), (&build["new"], &5000.into()), "{filter}");
        assert_eq!(filter["digest"], looked[0]["filters"][0]["digest"], "{filter}");
    }
    let ended = run(&["inspect", &dump]);
    assert!(ended.code == Some(0) && ended.out.contains("a reply of DUMP\nkey "), "{}", ended.out);
}

fn malformed_files_are_errors(site: &Site) {
    let server = site.start();
    fill(&server);
    server.client().say("SAVE");
    let whole = fs::read(server.dir().join("dump.rdb")).unwrap();
    let dump = server.client().bytes(&["DUMP", "filter-0"]);
    let files = Files::new();
    let ends = |file: &[u8], what: &str| {
        let ended = run(&["inspect", &files.write("hostile", file)]);
        // The tool must not be killed by a signal or panic.
        assert!(matches!(ended.code, Some(0 | 1 | 3)), "{what}: {:?} {}", ended.code, ended.err);
        ended.code
    };
    for (what, file) in [
        ("empty", &b""[..]),
        ("text", b"hello, world\n"),
        ("no version", b"REDISabcd"),
        ("the future", b"REDIS9999\x7F"),
        ("an endless list", b"REDIS0011\x01\x01k\x81\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF"),
        ("an endless string", b"REDIS0011\x00\x01k\x81\x7F\xFF\xFF\xFF\xFF\xFF\xFF\xFF"),
        ("an endless key", b"REDIS0011\x07\x81\x7F\xFF\xFF\xFF\xFF\xFF\xFF\xFF"),
        ("compressed out of nothing", b"REDIS0011\x07\xC3\x01\x81\x7F\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x00"),
        ("a dump of nothing", b"\x07"),
        ("chunks of nothing", b"evblfile\x01\0\0\0"),
    ] {
        assert_eq!(ends(file, what), Some(1), "{what}");
    }
    for cut in (0..whole.len()).step_by(whole.len() / 40) {
        assert_eq!(ends(&whole[..cut], &format!("cut at {cut}")), Some(1), "cut at {cut}");
    }
    // Some bytes are changed at random, with a fixed seed.
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    let mut next = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % below as u64).unwrap()
    };
    for round in 0..120 {
        let mut altered = if round % 2 == 0 { whole.clone() } else { dump.clone() };
        for _ in 0..=next(4) {
            let place = next(altered.len());
            altered[place] = u8::try_from(next(256)).unwrap();
        }
        ends(&altered, &format!("round {round}"));
    }
}
