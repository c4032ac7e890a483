//! Tests `check`.

use redis::from_redis_value;

use crate::harness::{Site, Test, imitate, tests};
use crate::tool::{fail, json, pass, primaries, run, url};

pub(crate) const TESTS: &[Test] = tests![
    every_filter_is_shown_with_its_statistics,
    a_copy_without_its_chunks_is_remarked,
    keys_that_everbloom_only_keeps_are_listed,
    a_filter_that_cannot_be_queried_is_an_error,
    a_node_of_a_cluster_is_checked_with_all_others_or_not_at_all,
];

fn every_filter_is_shown_with_its_statistics(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    for (key, words) in
        [("small", "0.01 100"), ("counts", "0.01 100 COUNTING"), ("redis", "0.01 50 FORMAT redisbloom")]
    {
        assert_eq!(client.say(&format!("BF.RESERVE {key} {words}")), "+OK");
        client.say(&format!("BF.MADD {key} a b c"));
    }
    client.say("BF.RESERVE grown 0.01 100 FORMAT redisbloom");
    for item in 0..3000 {
        client.say(&format!("BF.ADD grown item-{item}"));
        client.say(&format!("BF.ADD unreserved item-{item}"));
    }
    client.say("SET text value");
    assert_eq!(client.say("BF.RESERVE empty 0.01 100"), "+OK");
    let ended = pass("1 filter, ", &["check", &url(&server), "--match", "empty"]);
    assert!(!ended.out.contains(" -0"), "{}", ended.out);
    client.say("DEL empty");
    assert_eq!(client.say("BF.RESERVE lives 0.01 100 WINDOW 86400 STEPS 120"), "+OK");
    pass(" window, 120 steps  ", &["check", &url(&server), "--match", "lives"]);
    assert_eq!(client.say("BF.ADD lives a LIFE 3600"), "1");
    pass(" window, 120 steps, lives  ", &["check", &url(&server), "--match", "lives"]);
    let checked = json(&["check", &url(&server), "--match", "lives"]);
    assert_eq!(
        (&checked["filters"][0]["steps"], &checked["filters"][0]["life_adds"]),
        (&120.into(), &1.into())
    );
    client.say("DEL lives");
    // A mistyped key is an error. A server without a filter is none.
    fail(1, "matches lives: check the pattern", &["check", &url(&server), "--match", "lives"]);
    fail(1, "not looked at: database 0 (", &["check", &format!("{}/1", url(&server)), "--match", "small"]);
    pass("0 filters, ", &["check", &format!("{}/1", url(&server))]);
    for protocol in [&[][..], &["--resp3"]] {
        let checked = json(&[&["check", &url(&server)], protocol].concat());
        let filters = checked["filters"].as_array().unwrap();
        let names: Vec<&str> = filters.iter().map(|filter| filter["key"].as_str().unwrap()).collect();
        assert_eq!(names, ["counts", "grown", "redis", "small", "unreserved"]);
        for filter in filters {
            let key = filter["key"].as_str().unwrap();
            let info = |field: &str| {
                let shown = server.client().say(&format!("BF.INFO {key} {field}"));
                shown.trim_matches(['[', ']']).parse::<u64>().unwrap()
            };
            for (name, field) in [("layers", "FILTERS"), ("items", "ITEMS"), ("capacity", "CAPACITY")] {
                assert_eq!(filter[name], info(field), "{filter}");
            }
            assert!(filter["bytes"].as_u64() >= Some(info("SIZE") / 2), "{filter}");
            // Only the filter that has grown four times gets advice.
            assert_eq!(filter["advice"].is_null(), key != "grown", "{filter}");
            let has_bits = !["counts", "unreserved"].contains(&key);
            let fill = filter["fill"].as_f64();
            assert!(fill.map(|fill| fill > 0.0 && fill < 1.0) == has_bits.then_some(true), "{filter}");
            assert!(filter["error_rate_now"].is_f64(), "{filter}");
        }
        let filters = json(&["check", &url(&server), "--match", "s*"]);
        assert_eq!(filters["filters"].as_array().unwrap().len(), 1);
    }
    let ended = pass("\n5 filters, ", &["check", &url(&server)]);
    assert!(
        ended.out.contains("\n3 filters of the type everbloom, which RedisBloom cannot load\n"),
        "{}",
        ended.out
    );
}

fn a_copy_without_its_chunks_is_remarked(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    for (format, kind) in [("everbloom", "everbloom"), ("redisbloom", "redisbloom"), ("layers", "redisbloom")]
    {
        let capacity = if format == "layers" { 2 } else { 100 };
        let reserve = format!("BF.RESERVE {format} 0.01 {capacity} FORMAT {kind}");
        assert_eq!(client.say(&reserve), "+OK");
        client.say(&format!("BF.MADD {format} a b c"));
        let mut iterator = "0".to_owned();
        loop {
            let reply = client.call(&["BF.SCANDUMP", format, &iterator]);
            let (next, data): (u64, Option<Vec<u8>>) = from_redis_value(reply).unwrap();
            let Some(data) = data.filter(|_| next > 0) else { break };
            iterator = next.to_string();
            // What is left after the header, and then after each chunk.
            let load: [&[u8]; 4] = [b"BF.LOADCHUNK", b"broken", iterator.as_bytes(), &data];
            client.call(&load);
            for protocol in [&[][..], &["--resp3"]] {
                let ended =
                    run(&[&["check", &url(&server), "--match", "broken", "--json"], protocol].concat());
                let filter = ended.json()["filters"][0].clone();
                let is_whole = client.say("BF.MEXISTS broken a b c") == "[1, 1, 1]";
                assert_eq!(ended.code, Some(if is_whole { 0 } else { 3 }), "{format} {filter} {}", ended.err);
                assert_eq!(filter["lacks_chunks"], !is_whole, "{format}");
                let advice = filter["advice"].as_str().unwrap_or_default();
                assert_eq!(advice.contains(", but no bits: chunks are missing"), !is_whole, "{advice}");
                assert_eq!(ended.err.contains("1 filter without some of their chunks"), !is_whole);
            }
        }
        assert_eq!(client.say("BF.MEXISTS broken a b c"), "[1, 1, 1]");
        client.say("DEL broken");
    }
}

fn keys_that_everbloom_only_keeps_are_listed(_: &Site) {
    // RedisBloom is not installed: this server replies as RedisBloom does.
    let address = imitate(|words| {
        let keys = ["MBbloom--", "MBbloomCF", "CMSk-TYPE", "TopK-TYPE", "TDIS-TYPE", "string"];
        Some(redisbloom(words, &keys))
    });
    let checked = fail(3, "no command of everbloom works on 3 keys", &["check", &address, "--json"]).json();
    let types: Vec<&str> =
        checked["only_kept"].as_array().unwrap().iter().map(|key| key["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["CMSk-TYPE", "TDIS-TYPE", "TopK-TYPE"]);
    assert_eq!(checked["only_kept"][0]["bytes"], 777);
    let cuckoo = &checked["filters"][1];
    assert_eq!(
        (&cuckoo["kind"], &cuckoo["layers"], &cuckoo["items"]),
        (&"cuckoo".into(), &6.into(), &9.into())
    );
    let filter = &checked["filters"][0];
    assert_eq!((&filter["layers"], &filter["items"], &filter["bytes"]), (&6.into(), &9.into(), &777.into()));
    assert!(filter["fill"].is_null() && filter["advice"].as_str().unwrap().contains("6300"), "{filter}");
}

fn a_filter_that_cannot_be_queried_is_an_error(_: &Site) {
    let check = |error: &'static str| {
        let address = imitate(move |words| match words[0].as_str() {
            "BF.STATS" => Some(format!("-{error}\r\n")),
            _ => Some(redisbloom(words, &["MBbloom--"])),
        });
        ["check".to_owned(), address]
    };
    for error in ["BUSY Redis is busy running a script", "ERR internal error", "MASTERDOWN Link is down"] {
        let arguments = check(error);
        fail(1, &format!("MBbloom--: {error}"), &arguments.each_ref().map(String::as_str));
    }
    // The filter has vanished since the scan.
    for error in ["ERR not found", "not found", "WRONGTYPE no filter"] {
        let arguments = check(error);
        let checked = json(&arguments.each_ref().map(String::as_str));
        assert_eq!(checked["filters"].as_array().unwrap().len(), 0, "{checked}");
    }
}

fn a_node_of_a_cluster_is_checked_with_all_others_or_not_at_all(site: &Site) {
    let nodes: [_; 2] = primaries(site);
    for (key, node) in [("foo", 1), ("bar", 0)] {
        assert_eq!(nodes[node].client().int(&format!("BF.ADD {key} item")), 1);
    }
    for node in &nodes {
        for protocol in [&[][..], &["--resp3"]] {
            let ended = fail(1, "use -c", &[&["check", &url(node)], protocol].concat());
            assert!(ended.err.contains("is a node of a cluster") && ended.out.is_empty(), "{}", ended.err);
            let checked = json(&[&["check", &url(node), "-c"], protocol].concat());
            assert_eq!(checked["filters"].as_array().unwrap().len(), 2, "{checked}");
        }
    }
}

/// Returns the reply of a server with RedisBloom. The name of each key is its type.
fn redisbloom(words: &[String], keys: &[&str]) -> String {
    let bulk = |text: &str| format!("${}\r\n{text}\r\n", text.len());
    match words[0].as_str() {
        "SCAN" => {
            let all: String = keys.iter().map(|key| bulk(key)).collect();
            format!("*2\r\n$1\r\n0\r\n*{}\r\n{all}", keys.len())
        }
        "TYPE" => format!("+{}\r\n", words[1]),
        "BF.STATS" => "-ERR unknown command 'BF.STATS', with args beginning with: \r\n".to_owned(),
        "BF.INFO" | "CF.INFO" => {
            let fields = [("Capacity", 6300), ("Size", 800), ("Number of filters", 6)];
            let more = [("Number of items inserted", 9), ("Expansion rate", 2)];
            let fields: String = fields
                .iter()
                .chain(&more)
                .map(|(name, number)| format!("+{name}\r\n:{number}\r\n"))
                .collect();
            format!("*10\r\n{fields}")
        }
        "MEMORY" => ":777\r\n".to_owned(),
        _ => "+OK\r\n".to_owned(),
    }
}
