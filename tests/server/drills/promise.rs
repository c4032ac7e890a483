//! Filters of every kind are merged and filled to twice their capacity. The error rate stays within the promised one,
//! and a replica has the same filter.

use redis::Value;

use super::Drill;
use crate::harness::{Client, Site, Test, tests};
use crate::support::Random;

pub(super) const TESTS: &[Test] = tests![merged_filters_keep_their_promise];

/// Number of absent items.
const ABSENT: u64 = 100_000;

fn merged_filters_keep_their_promise(site: &Site) {
    let mut drill = Drill::new("merged and filled", site, 6);
    let server = site.start();
    let replica = server.replica(site.launch().with("propagation-error-behavior panic"));
    let mut client = server.client();
    while drill.goes_on() {
        client.say("FLUSHALL");
        let random = &mut drill.random;
        let promised = *random.choose(&[0.005, 0.01, 0.03]);
        let growth = *random.choose(&["", "EXPANSION 1", "EXPANSION 4", "NONSCALING"]);
        let (mut next, mut merged, mut refused) = (0, 0, 0);
        let reserve = format!("BF.RESERVE dest {promised} {} {growth}", 1000 * (1 + random.below(5)));
        assert_eq!(client.say(reserve.trim_end()), "+OK");
        let mut history = vec![reserve];
        for step in 0..5 {
            let mut line = "BF.MERGE dest".to_owned();
            let mut is_mismatch = false;
            for number in 0..1 + random.below(4) {
                let key = format!("s{step}-{number}");
                let (creation, items) = source(random, promised);
                assert!(client.say(&format!("BF.INSERT {key} {creation} ITEMS made-{key}")).starts_with('['));
                add(&mut client, &key, next..next + items);
                next += items;
                // A filter of fixed size takes no entries of a table, and a table none that another key has hashed.
                let has_table = client.say(&format!("BF.INFO {key} TABLE-SEGMENTS")) != "[nil]";
                is_mismatch |= has_table && (growth == "NONSCALING" || creation.contains("KEY"));
                line += &format!(" {key}");
                history.push(format!("{key}: {creation}, {items} items"));
            }
            let reply = client.say(&line);
            let is_refused = reply.starts_with("-ERR the merged filter would have an error rate of ")
                || is_mismatch && reply.starts_with("-ERR the destination cannot take what a source has");
            assert!(is_refused || reply == "+OK", "{line}: {reply}");
            merged += u64::from(!is_refused);
            refused += u64::from(is_refused);
            history.push(format!("{line}: {reply}"));
            let items = random.below(3) as u64 * 500;
            add(&mut client, "dest", next..next + items);
            next += items;
        }
        let Value::Array(capacity) = client.call(&["BF.INFO", "dest", "CAPACITY"]) else {
            panic!("no capacity")
        };
        let Value::Int(capacity) = capacity[0] else { panic!("{capacity:?}") };
        let items = 2 * u64::try_from(capacity).unwrap();
        add(&mut client, "dest", next..next + items);
        let mean = promised * ABSENT as f64;
        drill.count("checks", ABSENT);
        let found = found(&mut client, "dest", ABSENT);
        // The bits of small filters vary, and so does the sample of lookups.
        assert!(found as f64 <= mean * 1.1 + 4.0 * mean.sqrt(), "{found} of {ABSENT}: {history:#?}");
        assert_eq!(client.int("WAIT 1 60000"), 1);
        assert_eq!(replica.client().digest("dest"), client.digest("dest"), "{history:#?}");
        drill.count("merged", merged);
        drill.count("refused", refused);
        drill.count("items", next + items);
        drill.count("false positives", found as u64);
    }
}

/// Returns a command that creates a source, and the number of its items.
fn source(random: &mut Random, promised: f64) -> (String, u64) {
    let format = *random.choose(&[
        "FORMAT everbloom",
        "FORMAT everbloom",
        "KEYED",
        "FORMAT redisbloom",
        "FORMAT valkey-bloom",
        "KEY 0123456789abcdef",
    ]);
    let growth = *random.choose(&["EXPANSION 1", "EXPANSION 2", "NONSCALING"]);
    let rate = promised / *random.choose(&[1.0, 2.0, 10.0, 100.0]);
    let capacity = 1000 * (1 + random.below(3) as u64);
    let items = capacity * *random.choose(&[1, 2, 4, 8]) / 4;
    (format!("CAPACITY {capacity} ERROR {rate} {growth} {format}"), items)
}

/// Adds items. A fixed filter may be full.
fn add(client: &mut Client, key: &str, items: std::ops::Range<u64>) {
    let items: Vec<String> = items.map(|item| item.to_string()).collect();
    for items in items.chunks(1000) {
        let words: Vec<&str> = ["BF.MADD", key].into_iter().chain(items.iter().map(String::as_str)).collect();
        client.call(&words);
    }
}

/// Returns the number of false positives among absent items.
fn found(client: &mut Client, key: &str, absent: u64) -> usize {
    let items: Vec<String> = (0..absent).map(|item| format!("absent-{item}")).collect();
    let replies = items.chunks(1000).flat_map(|items| {
        let words: Vec<&str> =
            ["BF.MEXISTS", key].into_iter().chain(items.iter().map(String::as_str)).collect();
        client.array(&words)
    });
    replies.filter(|reply| *reply == Value::Int(1)).count()
}
