//! With `bf.format` a server creates, describes, saves and loads filters as RedisBloom and valkey-bloom do, bit for bit.

use super::{ASSUME, OnServer, cases, lookups, restore};
use crate::dump::{chunks, travel};
use crate::harness::{Client, Server, Site, Test, reseal, show, tests};
use crate::support::Field;
use crate::support::fixtures::{AMBIGUOUS, Case};
use crate::support::rdb::Payload;

pub(crate) const TESTS: &[Test] = tests![
    new_filters_equal_redisblooms,
    new_filters_equal_valkey_blooms,
    every_filter_is_described_as_recorded,
    every_filter_is_dumped_unchanged,
    replies_are_redisblooms_to_the_byte,
    filters_of_redisbloom_1_1_need_their_option,
    the_order_of_fields_before_1_0_is_refused_with_an_explanation,
];

/// Asserts that DUMP returns the recorded filter of a case.
fn assert_dumps(client: &mut Client, case: &Case) {
    let dumped = Payload::read(&client.bytes(&["DUMP", case.key.as_str()]));
    let recorded = Payload::read(&case.payload);
    assert_eq!((dumped.type_name, dumped.record), (recorded.type_name, recorded.record), "{}", case.key);
    assert_eq!(dumped.encoding_version, recorded.encoding_version, "{}", case.key);
}

fn assert_chunks(client: &mut Client, case: &Case, from: usize) {
    let dumped = chunks(client, &case.key).into_iter().map(|(next, data)| (next.unsigned_abs(), data));
    assert_eq!(dumped.skip(from).collect::<Vec<_>>(), case.chunks()[from..], "{}", case.key);
}

fn new_filters_equal_redisblooms(site: &Site) {
    let server = site.launch().with_option("bf.format redisbloom").start();
    let mut client = server.client();
    let current = ["redisbloom-2.2.18", "redisbloom-8.10-dev"];
    for case in cases().iter().filter(|case| current.contains(&case.producer)) {
        let key = case.key.as_str();
        let words = case.reserve_words();
        if !words.is_empty() {
            assert_eq!(client.say(&format!("BF.RESERVE {key} {}", words.join(" "))), "+OK");
        }
        client.many(&format!("BF.MADD {key}"), &case.members);
        case.assert_replies(&mut client, key);
        assert_chunks(&mut client, case, 0);
        assert_dumps(&mut client, case);
        assert_debug(&mut client, case);
    }
}

/// Returns the seed in a payload: it follows version, length and probes in the slice of every layer.
fn seed(payload: &Payload) -> Vec<u8> {
    let slice = payload.record.0.iter().find_map(|field| match field {
        Field::Bytes(bytes) => Some(bytes),
        _ => None,
    });
    slice.unwrap()[13..45].to_vec()
}

fn new_filters_equal_valkey_blooms(site: &Site) {
    let server = site.launch().with_option("bf.format valkey-bloom").start();
    let mut client = server.client();
    for case in cases().iter().filter(|case| case.producer.starts_with("valkey-bloom-1.0")) {
        let seed = seed(&Payload::read(&case.payload));
        let words = case.reserve_words();
        let rate = words.first().unwrap_or(&"0.01");
        let capacity = words.get(1).unwrap_or(&"100");
        let mut insert: Vec<&[u8]> = vec![b"BF.INSERT", case.key.as_bytes(), b"SEED", &seed];
        insert.extend(["CAPACITY", capacity, "ERROR", rate].map(str::as_bytes));
        insert.extend(words.iter().skip(2).map(|word| word.as_bytes()));
        assert_eq!(client.ask(&insert), "[]", "{}", case.key);
        client.many(&format!("BF.MADD {}", case.key), &case.members);
        case.assert_replies(&mut client, &case.key);
        assert_dumps(&mut client, case);
        let blob = case.blob().unwrap();
        for (blob, error) in
            [([&[2], &blob[1..]].concat(), ". Unsupported version"), ([&blob[..], b"x"].concat(), "")]
        {
            let reply = client.ask(&[b"BF.LOAD".as_slice(), b"none", &blob]);
            assert_eq!(reply, format!("-ERR bloom object decoding failed{error}"), "{}", case.key);
        }
    }
}

/// Returns the value after a name in a recorded BF.INFO.
fn recorded(case: &Case, name: &str) -> Option<String> {
    let info = case.json["info"].as_array()?;
    let at = info.iter().position(|word| word == name)?;
    Some(match &info[at + 1] {
        serde_json::Value::Null => "nil".to_owned(),
        serde_json::Value::String(text) => format!("\"{text}\""),
        other => other.to_string(),
    })
}

/// Returns the expected Size. It differs from the recorded one if the release had structs of other sizes.
fn expected_size(case: &Case, client: &mut Client) -> Option<String> {
    let size: u64 = recorded(case, "Size")?.parse().unwrap();
    let layers = client.array(&["BF.DEBUG", case.key.as_str()]).len() as u64 - 1;
    let size = match case.producer {
        "redisbloom-2.2.0" | "redisbloom-2.2.18" => size - (120 - 64) * layers,
        // 0.1.0 counted 32 bytes, and 200 per layer. 1.0 counts 48, 208 per layer and the capacity of the list, which
        // doubles from 4.
        "valkey-bloom-0.1.0" => {
            let list_capacity = if layers == 1 { 1 } else { layers.next_power_of_two().max(4) };
            size + 16 + 8 * layers + 8 * list_capacity
        }
        _ => size,
    };
    Some(size.to_string())
}

/// Returns a server that has every recorded filter. It reads those of RedisBloom 1.1 as filters of 2.0.
fn restored(site: &Site) -> (Server, Vec<Case>) {
    let (server, cases) = (site.start(), cases());
    let mut client = server.client();
    for case in &cases {
        assert_eq!(restore(&mut client, &case.key, &case.payload_for(site)), "+OK", "{}", case.key);
    }
    (server, cases)
}

fn every_filter_is_described_as_recorded(site: &Site) {
    let (server, cases) = restored(site);
    let mut client = server.client();
    for case in &cases {
        let key = &case.key;
        let fields = [
            ("CAPACITY", "Capacity"),
            ("FILTERS", "Number of filters"),
            ("ITEMS", "Number of items inserted"),
            ("EXPANSION", "Expansion rate"),
            ("ERROR", "Error rate"),
            ("TIGHTENING", "Tightening ratio"),
            ("MAXSCALEDCAPACITY", "Max scaled capacity"),
        ];
        for (word, name) in fields {
            let actual = client.say(&format!("BF.INFO {key} {word}"));
            match recorded(case, name) {
                // The first release with BF.INFO showed a growth for fixed filters too.
                Some(_) if word == "EXPANSION" && case.json["case"] == "fixed" => assert_eq!(actual, "[nil]"),
                Some(value) => assert_eq!(actual, format!("[{value}]"), "{key} {word}"),
                None if case.producer == "valkey-bloom-0.1.0" => {
                    // valkey-bloom 0.1.0 had no such field, and stored the rate as a float. The requested rate is shown
                    // as a decimal.
                    let rate = case.reserve_words().first().map_or(0.001, |word| word.parse().unwrap());
                    if word == "ERROR" {
                        assert_eq!(actual, format!("[\"{rate}\"]"), "{key}");
                    }
                }
                None if case.json["info"].is_array() => {
                    assert_eq!(actual, "-Invalid information value", "{key} {word}");
                }
                // This release had no BF.INFO.
                None => {}
            }
        }
        if let Some(size) = expected_size(case, &mut client) {
            assert_eq!(client.say(&format!("BF.INFO {key} SIZE")), format!("[{size}]"), "{key}");
            let full = client.array(&["BF.INFO", key.as_str()]);
            assert_eq!(full.len(), 10, "five fields and no more");
        }
        assert_debug(&mut client, case);
    }
}

/// Asserts that BF.DEBUG replies exactly as RedisBloom does. RedisBloom 1.0 did not show the width of the hash.
fn assert_debug(client: &mut Client, case: &Case) {
    let Some(expected) = case.json["debug"].as_array() else { return };
    let expected: Vec<&str> = expected.iter().map(|line| line.as_str().unwrap()).collect();
    let actual: Vec<String> = client
        .array(&["BF.DEBUG", case.key.as_str()])
        .iter()
        .map(|line| {
            let line = show(line).trim_matches('"').to_owned();
            if case.producer == "redisbloom-1.0.3" { line.replace(" hashwidth:32", "") } else { line }
        })
        .collect();
    assert_eq!(actual, expected, "{}", case.key);
}

fn every_filter_is_dumped_unchanged(site: &Site) {
    let (server, cases) = restored(site);
    let mut client = server.client();
    for case in &cases {
        if case.is_redisbloom() && case.producer != "redisbloom-2.2.0" {
            // The header has the newest form, whichever form was loaded.
            assert_chunks(&mut client, case, usize::from(!case.is_newest_encoding()));
        }
        if case.is_newest_encoding() {
            assert_dumps(&mut client, case);
        }
    }
}

fn replies_are_redisblooms_to_the_byte(site: &Site) {
    let server = site.launch().with_option("bf.format redisbloom").start();
    let (mut two, mut three) = (server.raw(), server.raw3());
    two.say("BF.RESERVE f 0.05 1000");
    two.say("BF.RESERVE n 0.01 5 NONSCALING");
    for (line, resp2, resp3) in [
        (
            "BF.INFO f",
            "*10\r\n+Capacity\r\n:1000\r\n+Size\r\n:1056\r\n+Number of filters\r\n:1\r\n+Number of items inserted\r\n:0\r\n+Expansion rate\r\n:2\r\n",
            "%5\r\n+Capacity\r\n:1000\r\n+Size\r\n:1056\r\n+Number of filters\r\n:1\r\n+Number of items inserted\r\n:0\r\n+Expansion rate\r\n:2\r\n",
        ),
        ("BF.INFO f size", "*1\r\n:1056\r\n", "%1\r\n+Size\r\n:1056\r\n"),
        ("BF.INFO n EXPANSION", "*1\r\n$-1\r\n", "%1\r\n+Expansion rate\r\n_\r\n"),
        (
            "BF.DEBUG f",
            "*2\r\n$6\r\nsize:0\r\n$74\r\nbytes:960 bits:7680 hashes:6 hashwidth:64 capacity:1000 size:0 ratio:0.025\r\n",
            "*2\r\n$6\r\nsize:0\r\n$74\r\nbytes:960 bits:7680 hashes:6 hashwidth:64 capacity:1000 size:0 ratio:0.025\r\n",
        ),
        ("BF.EXISTS f a", ":0\r\n", "#f\r\n"),
        ("BF.MEXISTS f a b", "*2\r\n:0\r\n:0\r\n", "*2\r\n#f\r\n#f\r\n"),
        ("BF.CARD f", ":0\r\n", ":0\r\n"),
        ("BF.CARD none", ":0\r\n", ":0\r\n"),
        ("BF.INFO none", "-ERR not found\r\n", "-ERR not found\r\n"),
        ("BF.SCANDUMP f -1", "*2\r\n:0\r\n$0\r\n\r\n", "*2\r\n:0\r\n$0\r\n\r\n"),
    ] {
        assert_eq!(two.say(line), resp2, "{line}");
        assert_eq!(three.say(line), resp3, "{line}");
    }
    for (line, expected) in [
        ("BF.ADD f a", ":1\r\n"),
        ("BF.MADD f a b b", "*3\r\n:0\r\n:1\r\n:0\r\n"),
        ("BF.INSERT f ITEMS c", "*1\r\n:1\r\n"),
    ] {
        assert_eq!(two.say(line), expected, "{line}");
    }
    for (line, expected) in
        [("BF.ADD f z", "#t\r\n"), ("BF.MADD f z y", "*2\r\n#f\r\n#t\r\n"), ("BF.RESERVE q 0.1 5", "+OK\r\n")]
    {
        assert_eq!(three.say(line), expected, "{line}");
    }
}

fn filters_of_redisbloom_1_1_need_their_option(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    let ambiguous: Vec<Case> = cases().into_iter().filter(|case| case.producer == AMBIGUOUS).collect();
    for case in &ambiguous {
        assert_eq!(restore(&mut client, &case.key, &case.payload_for(site)), "+OK");
        let found =
            lookups(&mut client, &case.key, &case.members).iter().filter(|reply| **reply == '1').count();
        assert!(found * 10 < case.members.len(), "{}: {found} found", case.key);
    }
    let digests =
        |client: &mut Client| ambiguous.iter().map(|case| client.digest(&case.key)).collect::<Vec<_>>();
    let wrong = digests(&mut client);
    // Filters that are loaded from now on are read as of 1.1.
    let set = |client: &mut Client, value: &str| {
        let line = format!("CONFIG SET {}", ASSUME.replace("yes", value));
        assert_eq!(client.say(&line), "+OK");
    };
    set(&mut client, "yes");
    assert_eq!(client.say("DEBUG RELOAD"), "+OK");
    for case in &ambiguous {
        case.assert_replies(&mut client, &case.key);
        // A copy is read as of 1.1 even after the setting has changed.
        assert_eq!(client.say(&format!("COPY {} copy", case.key)), "1");
        set(&mut client, "no");
        case.assert_replies(&mut client, "copy");
        set(&mut client, "yes");
        client.say("DEL copy");
    }
    // The bytes are the same but the replies are not, so the digests differ.
    for (right, wrong) in digests(&mut client).iter().zip(&wrong) {
        assert_ne!(right, wrong);
    }
    // A filter that 1.1 cannot have written is not affected.
    client.say("BF.INSERT new FORMAT redisbloom ITEMS a b");
    let digest = client.digest("new");
    travel(&mut client, "new", "copy");
    assert_eq!((client.digest("copy"), client.say("BF.MEXISTS copy a b")), (digest, "[1, 1]".to_owned()));
}

fn the_order_of_fields_before_1_0_is_refused_with_an_explanation(site: &Site) {
    let server = site.launch().with("rdbcompression no").start();
    let mut client = server.client();
    client.say("BF.INSERT k FORMAT valkey-bloom CAPACITY 10 ITEMS a");
    let payload = client.bytes(&["DUMP", "k"]);
    client.say("DEL k");
    // Header: type, id, four fields, and whether the seed is random; then capacity (02 0a), items (02 01), slice, end.
    let head = 1 + 9 + 2 + 2 + 9 + 9 + 2;
    assert_eq!(payload[head..head + 5], [2, 10, 2, 1, 5], "capacity, items and a string");
    let end = payload.len() - 11;
    let (fields, slice) = (&payload[head..head + 4], &payload[head + 4..end]);
    let mut older = [&payload[..head], slice, fields, &payload[end..]].concat();
    reseal(&mut older);
    assert_eq!(restore(&mut client, "k", &older), "-ERR Bad data format");
    let log = server.log();
    assert!(log.contains("a valkey-bloom before release 1.0"), "{log}");
    assert_eq!(restore(&mut client, "k", &payload), "+OK");
}
