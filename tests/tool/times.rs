//! Tests `load --time`: items with their own times in sliding-window filters.

use std::io::Write;
use std::thread;
use std::time::Duration;

use crate::harness::{Client, Site, Test, tests};
use crate::tool::{fail, json, keys, pass, spawn, start, url};

pub(crate) const TESTS: &[Test] = tests![
    items_are_added_with_their_own_times,
    items_are_added_with_their_own_lives,
    bad_times_are_errors_that_name_the_line,
    items_with_times_go_to_existing_filters_and_to_partitions,
    items_that_expire_while_they_wait_are_skipped,
];

const HOUR_MS: u64 = 3_600_000;
const WEEK_MS: u64 = 168 * HOUR_MS;

/// Returns the time of the server in milliseconds since 1970.
fn now_ms(client: &mut Client) -> u64 {
    let (seconds, microseconds): (u64, u64) = redis::from_redis_value(client.call(&["TIME"])).unwrap();
    seconds * 1000 + microseconds / 1000
}

/// Creates the filter `mine` with a window of a week, and adds each item with its time. Adds the items in the order of
/// their generations, as the tool does, since the state of a table depends on the order.
fn add_at(client: &mut Client, capacity: &str, items: &[(String, u64)]) {
    client.say("DEL mine");
    assert_eq!(client.say(&format!("BF.RESERVE mine 0.000001 {capacity} WINDOW 604800")), "+OK");
    let mut items = items.to_vec();
    items.sort_by_key(|(_, at_ms)| at_ms / (WEEK_MS / 14));
    for (item, at_ms) in items {
        assert_eq!(client.say(&format!("BF.INSERT mine AT {at_ms} ITEMS {item}")), "[1]");
    }
}

/// Returns CSV with the items and their times, and with some items that have expired.
fn log_of(items: &[(String, u64)], expired: u64) -> String {
    let mut text = String::from("when,what\n");
    for (item, at_ms) in items {
        text.push_str(&format!("{at_ms},{item}\n"));
    }
    (0..expired).for_each(|number| text.push_str(&format!("{},old-{number}\n", 1_700_000_000 + number)));
    text
}

fn items_are_added_with_their_own_times(site: &Site) {
    let (server, mut client, files) = start(site);
    // Items of all generations, in random order. The time of the last item is ahead of the clock, so filters add it to
    // the current generation.
    let now_ms = now_ms(&mut client) / 1000 * 1000;
    let item = |number: u64| (format!("item-{number}"), now_ms - number * 5 % 167 * HOUR_MS);
    let mut items: Vec<(String, u64)> = (0..100).map(item).collect();
    items.push(("ahead".to_owned(), now_ms + 11 * HOUR_MS));
    add_at(&mut client, "101", &items);
    let expected = client.digest("mine");
    let milliseconds = files.write("ms", log_of(&items, 7));
    let seconds: Vec<(String, u64)> = items.iter().map(|(item, ms)| (item.clone(), ms / 1000)).collect();
    let seconds = files.write("s", log_of(&seconds, 7).replace(',', "\t"));
    for arguments in [
        vec![&milliseconds[..], "--csv", "what", "--time", "when"],
        vec![&milliseconds, "--csv", "2", "--time", "1"],
        vec![&seconds, "--csv", "what", "--time", "when", "--delimiter", "\t"],
    ] {
        let load = ["load", &url(&server), "k", "--replace", "--window", "7d", "--error", "0.000001"];
        let result = json(&[&load, &arguments[..]].concat());
        assert_eq!((&result["items"], &result["new"]), (&101.into(), &101.into()), "{arguments:?} {result}");
        assert_eq!(result["expired"], 7, "{arguments:?} {result}");
        assert_eq!(client.digest("k"), expected, "{arguments:?}");
    }
    // Checks the output as text, with times in RFC 3339. If one item has another time, the filter differs.
    let old = "old,2001-02-03T04:05:06.789+09:30\n";
    let file = files.write("dates", format!("old,1970-01-01T00:00:00Z\n{old}new,{now_ms}\n"));
    let load = ["load", &url(&server), "other", &file, "--csv", "1", "--no-header", "--window", "7d"];
    let text = "other: 1 item, 1 new, 0 present, 0 refused, 2 expired; a filter of ";
    pass(text, &[&load[..], &["--time", "2"]].concat());
    assert_eq!(client.say("BF.INFO other CAPACITY"), "[1]");
    items[3].1 -= 24 * HOUR_MS;
    add_at(&mut client, "101", &items);
    assert_ne!(client.digest("mine"), expected);
    // Without --time, no item expires.
    let result = json(&["load", &url(&server), "k", &seconds, "--window", "7d", "--replace"]);
    assert_eq!((&result["items"], &result["expired"]), (&109.into(), &serde_json::Value::Null), "{result}");
}

fn items_are_added_with_their_own_lives(site: &Site) {
    let (server, mut client, files) = start(site);
    let now_ms = now_ms(&mut client);
    let mut text = String::from("id,issued,seconds\n");
    // The lives of some have ended.
    let lives =
        (0..2000u64).map(|number| (number, number % 150 * HOUR_MS / 1000, 3600 + number % 40 * 10_000));
    let mut live = Vec::new();
    for (number, age, life) in lives {
        text.push_str(&format!("token-{number},{},{life}\n", now_ms / 1000 - age));
        if life > age + 60 {
            live.push((number, life - age));
        }
    }
    let file = files.write("tokens", text);
    for steps in ["14", "120"] {
        let load =
            ["load", &url(&server), "k", &file, "--csv", "id", "--time", "issued", "--life", "seconds"];
        let filter = ["--window", "7d", "--steps", steps, "--error", "0.000001", "--replace"];
        let result = json(&[&load[..], &filter].concat());
        let (added, expired) = (result["items"].as_u64().unwrap(), result["expired"].as_u64().unwrap());
        assert_eq!(added + expired, 2000, "{result}");
        assert_eq!(client.say("BF.INFO k LIFE-ADDS"), format!("[{added}]"));
        let step = 604_800 / steps.parse::<u64>().unwrap() + 1;
        for (number, left) in live.iter().step_by(37) {
            let ttl = client.int(&format!("BF.TTL k token-{number}")).cast_unsigned();
            assert!((left - 60..=left + step).contains(&ttl), "token-{number}: {ttl} of {left}");
        }
        // More items, with the steps of the filter.
        assert_eq!(json(&[&load[..], &["--add"]].concat())["new"], 0);
    }
    let bad = files.write("bad", format!("id,issued,seconds\na,{now_ms},604801\n"));
    let load = ["load", &url(&server), "b", &bad, "--csv", "id", "--time", "issued", "--life", "seconds"];
    fail(1, "line 2: `604801` is not a life", &[&load[..], &["--window", "7d"]].concat());
}

fn bad_times_are_errors_that_name_the_line(site: &Site) {
    let (server, mut client, files) = start(site);
    let now_ms = now_ms(&mut client);
    let ahead = now_ms + 13 * HOUR_MS;
    for (text, trouble) in [
        (format!("when,what\n{now_ms},a\n{ahead},b\n"), "line 3: the time 20"),
        (format!("when,what\n{now_ms},a\nsoon,b\n"), "line 3: `soon` is not a time"),
        (format!("what\n{now_ms}\n"), "no column when"),
    ] {
        let file = files.write("csv", text);
        for capacity in [&[][..], &["--capacity", "10"]] {
            let load = ["load", &url(&server), "k", &file, "--csv", "what", "--time", "when"];
            fail(1, trouble, &[&load[..], &["--window", "7d"], capacity].concat());
        }
    }
    for (arguments, missing) in [
        (&["--window", "7d"][..], "--csv"),
        (&["--csv", "1"], "--window"),
        (&["--csv", "1", "--replace"], "--add"),
    ] {
        fail(2, missing, &[&["load", &url(&server), "k", "/no/file", "--time", "when"], arguments].concat());
    }
    assert_eq!(keys(&mut client).len(), 0);
}

fn items_with_times_go_to_existing_filters_and_to_partitions(site: &Site) {
    let (server, mut client, files) = start(site);
    let now_ms = now_ms(&mut client);
    let items: Vec<(String, u64)> = (0..3000u64)
        .map(|number| (format!("item-{number}"), now_ms - number * 7_919_000 % (WEEK_MS - HOUR_MS)))
        .collect();
    let file = files.write("log", log_of(&items, 5));
    let columns = ["--csv", "what", "--time", "when"];
    let counts = |result: &serde_json::Value| {
        ["items", "expired"].map(|name| result[name].as_u64().unwrap_or_else(|| panic!("{result}")))
    };
    // The items are counted over all partitions.
    let spread = |count: &'static str| {
        let load = ["load", &url(&server), "k", &file, "--window", "7d", "--partitions", count, "--replace"];
        json(&[&load[..], &columns].concat())
    };
    assert_eq!(counts(&spread("3")), [3000, 5]);
    let cards = [3, 1, 0].map(|number| client.int(&format!("BF.CARD k:{{{number}}}"))).iter().sum::<i64>();
    assert!((2900..=3000).contains(&cards), "{cards}");
    for number in [3, 1] {
        client.say(&format!("DEL k:{{{number}}}"));
    }
    assert_eq!(counts(&spread("1")), [3000, 5]);
    let capacity = client.say("BF.INFO k:{0} CAPACITY");
    let reserve =
        |key: &str| format!("BF.RESERVE {key} 0.01 {} WINDOW 604800", capacity.trim_matches(['[', ']']));
    // --add uses the window of the existing filter.
    assert_eq!(client.say(&reserve("mine")), "+OK");
    let load = ["load", &url(&server), "mine", &file, "--add"];
    assert_eq!(counts(&json(&[&load[..], &columns].concat())), [3000, 5]);
    assert_eq!(client.digest("k:{0}"), client.digest("mine"));
    assert_eq!(client.say("BF.RESERVE plain 0.01 100"), "+OK");
    for key in ["none", "plain"] {
        let load = ["load", &url(&server), key, &file, "--add"];
        let trouble = format!("{key}: the key is not a sliding-window filter");
        fail(1, &trouble, &[&load[..], &columns].concat());
    }
    assert_eq!(client.say("BF.RESERVE two:{2} 0.01 100 WINDOW 60"), "+OK");
    assert_eq!(client.say("BF.RESERVE two:{0} 0.01 100 WINDOW 61"), "+OK");
    let load = ["load", &url(&server), "two", &file, "--add", "--partitions", "2"];
    fail(1, "two:{0}: the partitions have different windows", &[&load[..], &columns].concat());
}

fn items_that_expire_while_they_wait_are_skipped(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    let load = ["load", &url(&server), "k", "-", "--capacity", "10", "--window", "1400ms", "--json"];
    let columns = ["--csv", "1", "--no-header", "--time", "2"];
    let mut child = spawn(&[&load[..], &columns].concat());
    // The tool reads the item at once and sends it when the input ends.
    let mut input = child.stdin.take().unwrap();
    input.write_all(format!("item,{}\n", now_ms(&mut client)).as_bytes()).unwrap();
    thread::sleep(Duration::from_millis(1700));
    drop(input);
    let output = child.wait_with_output().unwrap();
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&result["items"], &result["expired"]), (&0.into(), &1.into()), "{result}");
    assert_eq!(client.int("BF.CARD k"), 0);
}
