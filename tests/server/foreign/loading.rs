//! Every recorded filter loads, replies as recorded, is described as recorded, accepts further items, and is saved
//! unchanged.

use redis::Value;

use super::{AMBIGUOUS, ASSUME, Case, add, cases, digests, lookups, restore, servers};
use crate::dump::{chunks, load, travel};
use crate::harness::{Client, Site, Test, show, tests};
use crate::support::rdb::Payload;

pub(crate) const TESTS: &[Test] = tests![
    every_filter_is_restored_and_replies_as_recorded,
    every_filter_is_described_as_recorded,
    every_filter_loads_from_its_chunks_or_its_blob,
    every_filter_grows_by_two_layers,
    every_filter_is_dumped_unchanged,
    filters_of_redisbloom_1_1_need_their_option,
    the_order_of_fields_before_1_0_is_refused_with_an_explanation,
];

fn every_filter_is_restored_and_replies_as_recorded(site: &Site) {
    for (server, cases) in servers(site, |launch| launch) {
        let mut client = server.client();
        cases.iter().for_each(|case| case.assert_replies(&mut client, &case.key));
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

/// Returns the expected Size. It differs between releases, whose structs have other sizes.
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

fn every_filter_is_described_as_recorded(site: &Site) {
    for (server, cases) in servers(site, |launch| launch) {
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
                    Some(_) if word == "EXPANSION" && case.is_fixed() => assert_eq!(actual, "[nil]"),
                    Some(value) => assert_eq!(actual, format!("[{value}]"), "{key} {word}"),
                    None if case.producer == "valkey-bloom-0.1.0" => {
                        // It had no such field. Its rate was a float: the requested rate is shown, as a decimal.
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
}

/// Asserts that BF.DEBUG is exactly RedisBloom's, except for 1.0's, which lacked a word and had another form of the
/// rate.
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

fn every_filter_loads_from_its_chunks_or_its_blob(site: &Site) {
    for (server, cases) in servers(site, |launch| launch) {
        let mut client = server.client();
        let mut loaded = 0;
        for case in &cases {
            if case.is_redisbloom() {
                for (iterator, data) in case.chunks() {
                    assert_eq!(load(&mut client, "copy", iterator, &data), "+OK", "{}", case.key);
                }
            } else if let Some(blob) = case.blob() {
                assert_eq!(client.ask(&[b"BF.LOAD", b"copy".as_slice(), &blob]), "+OK", "{}", case.key);
            } else {
                continue;
            }
            case.assert_replies(&mut client, "copy");
            assert_eq!(client.digest("copy"), client.digest(&case.key), "{}", case.key);
            client.say("DEL copy");
            loaded += 1;
        }
        let of_0_1_0 = cases.iter().filter(|case| case.producer == "valkey-bloom-0.1.0").count();
        assert_eq!(loaded, cases.len() - of_0_1_0);
    }
}

fn every_filter_grows_by_two_layers(site: &Site) {
    const BATCH: usize = 1000;
    for (server, cases) in servers(site, |launch| launch) {
        let mut client = server.client();
        for case in &cases {
            let layers = |client: &mut Client| client.array(&["BF.DEBUG", case.key.as_str()]).len() - 1;
            let before = layers(&mut client);
            let mut members = case.members.clone();
            for batch in 0.. {
                let items: Vec<Vec<u8>> =
                    (0..BATCH).map(|i| format!("more:{batch}:{i}").into_bytes()).collect();
                let replies = add(&mut client, &case.key, &items);
                let added = replies.iter().take_while(|reply| ["0", "1"].contains(&reply.as_str())).count();
                members.extend(items.into_iter().take(added));
                if added < BATCH {
                    assert_eq!(replies[added], "-ERR non scaling filter is full", "{}", case.key);
                    assert!(case.is_fixed(), "{}", case.key);
                    break;
                }
                if layers(&mut client) >= before + 2 {
                    break;
                }
            }
            assert!(members.len() > case.members.len(), "{}", case.key);
            let found = lookups(&mut client, &case.key, &members);
            assert!(found.iter().all(|reply| *reply == '1'), "{} has a false negative", case.key);
            travel(&mut client, &case.key, "copy");
            assert_eq!(client.digest("copy"), client.digest(&case.key), "{}", case.key);
            client.say("DEL copy");
        }
    }
}

fn every_filter_is_dumped_unchanged(site: &Site) {
    for (server, cases) in servers(site, |launch| launch) {
        let mut client = server.client();
        for case in &cases {
            if case.is_redisbloom() && !["redisbloom-2.2.0"].contains(&case.producer) {
                let actual = chunks(&mut client, &case.key);
                let recorded = case.chunks();
                // The header has the newest form, whichever form was loaded.
                let from = usize::from(!case.is_newest_encoding());
                assert_eq!(actual[from..], recorded[from..], "{}", case.key);
            }
            if !case.is_newest_encoding() {
                continue;
            }
            let actual = Payload::read(&client.bytes(&["DUMP", case.key.as_str()]));
            let recorded = Payload::read(&case.payload);
            assert_eq!(actual.type_name, recorded.type_name);
            assert_eq!(actual.encoding_version, recorded.encoding_version);
            assert_eq!(actual.record, recorded.record, "{}", case.key);
        }
        digests(&mut client, &cases);
    }
}

fn filters_of_redisbloom_1_1_need_their_option(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    let ambiguous: Vec<Case> = cases().into_iter().filter(|case| case.producer == AMBIGUOUS).collect();
    for case in &ambiguous {
        assert_eq!(restore(&mut client, &case.key, &case.payload_for(site)), "+OK");
        let found = lookups(&mut client, &case.key, &case.members).iter().filter(|c| **c == '1').count();
        assert!(found * 10 < case.members.len(), "{}: {found} found", case.key);
    }
    let wrong = digests(&mut client, &ambiguous);
    // Filters that are loaded from now on are read as of 1.1.
    let [option, value] = ASSUME.split(' ').collect::<Vec<_>>()[..] else { panic!("{ASSUME}") };
    assert_eq!(client.say(&format!("CONFIG SET {option} {value}")), "+OK");
    assert_eq!(client.say("DEBUG RELOAD"), "+OK");
    for case in &ambiguous {
        case.assert_replies(&mut client, &case.key);
        // Copies and chunks keep this.
        assert_eq!(client.say(&format!("COPY {} copy", case.key)), "1");
        assert_eq!(client.say(&format!("CONFIG SET {option} no")), "+OK");
        case.assert_replies(&mut client, "copy");
        assert_eq!(client.say(&format!("CONFIG SET {option} {value}")), "+OK");
        client.say("DEL copy");
        travel(&mut client, &case.key, "copy");
        case.assert_replies(&mut client, "copy");
        client.say("DEL copy");
    }
    // The same bytes but other replies, so the digests differ.
    for (right, wrong) in digests(&mut client, &ambiguous).iter().zip(&wrong) {
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
    let Value::Int(_) = client.call(&["DEL", "k"]) else { panic!("DEL") };
    // Header: type, id, four fields and the mark of the seed; then capacity (02 0a), items (02 01), slice, end.
    let head = 1 + 9 + 2 + 2 + 9 + 9 + 2;
    assert_eq!(payload[head..head + 5], [2, 10, 2, 1, 5], "capacity, items and a string");
    let end = payload.len() - 11;
    let (fields, slice) = (&payload[head..head + 4], &payload[head + 4..end]);
    let mut older = [&payload[..head], slice, fields, &payload[end..]].concat();
    crate::harness::reseal(&mut older);
    assert_eq!(restore(&mut client, "k", &older), "-ERR Bad data format");
    let log = server.log();
    assert!(log.contains("a valkey-bloom before release 1.0"), "{log}");
    assert_eq!(restore(&mut client, "k", &payload), "+OK");
}
