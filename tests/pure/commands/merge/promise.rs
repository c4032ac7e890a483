//! A filter keeps its promised error rate over its whole life, also after BF.MERGE. The rate is measured after the
//! destination has got many more items.

use super::MISMATCH;
use crate::support::server::Server;
use crate::support::{Random, effort};

const REFUSAL: &str = "-ERR the merged filter would have an error rate of ";

/// Adds items. A fixed filter may be full.
fn add(server: &mut Server, key: &str, items: std::ops::Range<u64>) {
    let replies = server.batches(&format!("BF.MADD {key}"), "", items);
    assert!(!replies.contains("-ERR") || replies.contains("full"), "{key}: {replies}");
}

/// Asserts that the error rate of the filter is at most `promised`, plus three standard deviations.
fn assert_promise(server: &mut Server, key: &str, promised: f64, absent: u64, context: &str) {
    let mean = promised * absent as f64;
    let found = server.found(key, "absent-", 0..absent);
    let rate = found as f64 / absent as f64;
    assert!(found as f64 <= mean + 3.0 * mean.sqrt(), "{context}: {rate} of {absent}, {promised} promised");
}

/// Returns the highest error rate that the filter can reach.
fn most(server: &mut Server, key: &str) -> f64 {
    server.number(key, "ERROR-RATE-MAX")
}

/// Returns the error rate that a destination needs, from the text of a refusal. It is at least the rate that the merged
/// filter would have, which is above the promised one.
fn needed_rate(refusal: &str) -> f64 {
    let number = |before: &str| {
        let (_, rest) = refusal.split_once(before).unwrap_or_else(|| panic!("{refusal}"));
        let text = rest.split([',', ' ']).next().unwrap();
        text.parse::<f64>().unwrap_or_else(|_| panic!("{refusal}"))
    };
    let (rate, promised) = (number(REFUSAL), number(", above the "));
    let needed = number("reserve a destination with an error rate of at least ");
    assert!(promised < rate && rate <= needed, "{refusal}");
    needed
}

/// Returns a command that creates a filter of a random kind with a promised rate.
fn make(random: &mut Random, key: &str, rate: f64, capacity: u64) -> String {
    let growth = *random.choose(&["EXPANSION 1", "EXPANSION 2", "EXPANSION 4", "NONSCALING"]);
    if random.below(8) == 0 {
        // A filter that nobody reserved.
        return format!("BF.INSERT {key} ERROR {rate} FORMAT everbloom ITEMS made-{key}");
    }
    let rest = match random.below(6) {
        0 => "FORMAT redisbloom",
        1 => "FORMAT valkey-bloom SEED 0123456789abcdefghijklmnopqrstuv",
        2 => "FORMAT everbloom KEY 0123456789abcdef",
        _ => "FORMAT everbloom",
    };
    format!("BF.INSERT {key} CAPACITY {capacity} ERROR {rate} {growth} {rest} ITEMS made-{key}")
}

#[test]
fn random_merges_and_adds_stay_within_the_promise_at_twice_the_capacity() {
    const ABSENT: u64 = 30_000;
    let (mut merged, mut refused, mut sum) = (0, 0, 0.0);
    let seeds = effort(20, 60);
    for seed in 0..seeds {
        let mut random = Random(seed);
        let mut server = Server::new();
        let mut next = 0;
        let promised = *random.choose(&[0.01, 0.02, 0.05]);
        let growth = *random.choose(&["", " EXPANSION 1", " EXPANSION 4", " NONSCALING"]);
        let reserve = format!("BF.RESERVE dest {promised} {}{growth}", 500 + random.below(4) * 500);
        assert_eq!(server.run(&reserve), "+OK");
        let mut lines = vec![reserve];
        for round in 0..4 {
            let (mut sources, mut has_table) = (String::new(), false);
            for number in 0..1 + random.below(4) {
                let key = format!("s{round}-{number}");
                let rate = promised / *random.choose(&[1.0, 2.0, 8.0, 50.0]);
                let capacity = 500 + random.below(3) as u64 * 500;
                let line = make(&mut random, &key, rate, capacity);
                assert_eq!(server.run(&line), "*1 #t", "{seed}: {line}");
                let items = capacity * *random.choose(&[1, 2, 4, 8]) / 4;
                add(&mut server, &key, next..next + items);
                next += items;
                sources += &format!(" {key}");
                let table_hash = server.filter(&key).table_hash().copied();
                has_table |= table_hash.is_some_and(|hash| growth == " NONSCALING" || hash.is_secret());
                lines.push(line);
            }
            let line = format!("BF.MERGE dest{sources}");
            let reply = server.run(&line);
            if reply == "+OK" {
                merged += 1;
            } else {
                let refusal = if has_table { MISMATCH } else { REFUSAL };
                assert!(reply.starts_with(refusal), "{seed}: {line}: {reply}");
                refused += 1;
            }
            lines.push(format!("{line}: {reply}"));
            if random.below(2) == 0 {
                add(&mut server, "dest", next..next + 700);
                next += 700;
                lines.push("700 items".to_owned());
            }
        }
        let capacity = server.filter("dest").capacity_items();
        add(&mut server, "dest", next..next + 2 * capacity);
        let rate = server.found("dest", "absent-", 0..ABSENT) as f64 / ABSENT as f64;
        // The number of set bits varies in small filters.
        let most = promised * 1.1 + 3.0 * (promised / ABSENT as f64).sqrt();
        assert!(rate <= most, "{seed}: {rate} of {ABSENT}, {promised} promised: {lines:#?}");
        sum += rate / promised;
    }
    println!("{merged} merged, {refused} refused, {} of the promise on average", sum / seeds as f64);
    assert!(
        merged > effort(40, 60) && refused > effort(13, 20) && sum < seeds as f64,
        "{merged} merged, {refused} refused, {sum}"
    );
}

#[test]
fn merges_within_the_promise_are_accepted() {
    let mut server = Server::new();
    // The days have one shape and the week another. The week is reserved with the sum of the rates of the days. Each
    // merge repeats the days before.
    assert_eq!(server.run("BF.RESERVE week 0.007 1000"), "+OK");
    let mut days = String::new();
    for day in 0..7 {
        assert_eq!(server.run(&format!("BF.RESERVE day{day} 0.001 1000")), "+OK");
        add(&mut server, &format!("day{day}"), day * 1000..day * 1000 + 1000);
        days += &format!(" day{day}");
        assert_eq!(server.run(&format!("BF.MERGE week{days}")), "+OK", "{day}");
    }
    let layers = server.run("BF.INFO week FILTERS");
    assert_eq!(layers, "*1 :8");
    assert_eq!(server.run(&format!("BF.MERGE week{days}")), "+OK");
    assert_eq!(server.run("BF.INFO week FILTERS"), layers);
    add(&mut server, "week", 100_000..107_000);
    assert_promise(&mut server, "week", 0.007, 200_000, "a week");

    // A filter that has grown is merged into an empty one with the same parameters.
    for key in ["grown", "empty"] {
        assert_eq!(server.run(&format!("BF.RESERVE {key} 0.01 {}", 100 + key.len())), "+OK");
    }
    add(&mut server, "grown", 0..3000);
    assert_eq!(server.run("BF.MERGE empty grown"), "+OK");
    add(&mut server, "empty", 10_000..20_000);
    assert_promise(&mut server, "empty", 0.01, 200_000, "grown");

    // Filters that are not full, with other shapes than the destination.
    for (key, capacity) in [("p", 3000), ("q", 4000), ("r", 5000)] {
        assert_eq!(server.run(&format!("BF.RESERVE {key} 0.01 {capacity}")), "+OK");
        add(&mut server, key, capacity..capacity + capacity / 2);
    }
    assert_eq!(server.run("BF.MERGE p q r"), "+OK");
    add(&mut server, "p", 100_000..120_000);
    assert_promise(&mut server, "p", 0.01, 200_000, "half full");
    // The rest of the promise is too small for `grown`, which has outgrown its capacity.
    let reply = server.run("BF.MERGE p grown");
    assert!(needed_rate(&reply) > 0.01, "{reply}");
    assert_eq!(server.run("BF.MERGE p grown FORCE"), "+OK");
}

#[test]
fn the_rate_named_in_a_refusal_is_enough() {
    for growth in ["", " EXPANSION 1", " EXPANSION 8"] {
        let mut server = Server::new();
        for (key, capacity) in [("a", 1000), ("b", 1500), ("c", 2500)] {
            assert_eq!(server.run(&format!("BF.RESERVE {key} 0.01 {capacity}")), "+OK");
            add(&mut server, key, capacity * 10..capacity * 11);
        }
        let reply = server.run("BF.MERGE a b c");
        let needed = needed_rate(&reply);
        assert!(needed > 0.02 && needed < 0.04, "{reply}");
        assert_eq!(server.run(&format!("BF.RESERVE all {needed} 1000{growth}")), "+OK");
        assert_eq!(server.run("BF.MERGE all a b c"), "+OK", "{growth}: {needed}");
        add(&mut server, "all", 100_000..110_000);
        assert_promise(&mut server, "all", needed, 100_000, growth);
    }
}

#[test]
fn statistics_show_the_highest_rate_after_a_forced_merge() {
    let mut server = Server::new();
    for key in ["a", "b", "c"] {
        assert_eq!(
            server.run(&format!("BF.RESERVE {key} 0.01 {}", 1000 + u64::from(key.as_bytes()[0]))),
            "+OK"
        );
    }
    assert_eq!(server.run("BF.RESERVE k 0.01 1000 KEYED"), "+OK");
    for key in ["a", "b", "c", "k"] {
        assert_eq!(most(&mut server, key), 0.01);
        add(
            &mut server,
            key,
            u64::from(key.as_bytes()[0]) * 10_000..u64::from(key.as_bytes()[0]) * 10_000 + 3000,
        );
        assert_eq!(most(&mut server, key), 0.01);
    }
    assert!(server.run("BF.MERGE a b c").starts_with(REFUSAL));
    assert_eq!(server.run("BF.MERGE a b c FORCE"), "+OK");
    assert_eq!(server.number("a", "ERROR-RATE"), 0.01);
    let forced = most(&mut server, "a");
    assert!(forced > 0.02 && forced < 0.04, "{forced}");
    // With many more items, the filter does not exceed that rate.
    add(&mut server, "a", 5_000_000..5_050_000);
    assert_promise(&mut server, "a", forced, 100_000, "forced");
    assert!(server.number("a", "ERROR-RATE-NOW") > 0.015);

    // A full filter has the promised rate, also at high rates, where many added items are false positives and not
    // counted.
    for (number, rate) in [0.9, 0.5, 0.25, 0.1, 0.001].into_iter().enumerate() {
        for growth in ["NONSCALING", "EXPANSION 1", "EXPANSION 2"] {
            let key = format!("full-{number}-{}", &growth[growth.len() - 1..]);
            assert_eq!(server.run(&format!("BF.RESERVE {key} {rate} 500 {growth}")), "+OK");
            add(&mut server, &key, 0..10_000);
            assert_eq!(most(&mut server, &key), rate, "{growth}");
        }
    }

    // The table of an unreserved filter may spend the whole promise. A forced merge adds the rate of the merged
    // entries.
    add(&mut server, "t", 0..20_000);
    add(&mut server, "u", 100_000..120_000);
    assert_eq!(most(&mut server, "t"), 0.01);
    assert!(server.run("BF.MERGE t u").starts_with(REFUSAL));
    assert_eq!(most(&mut server, "t"), 0.01);
    assert_eq!(server.run("BF.MERGE t u FORCE"), "+OK");
    let forced = most(&mut server, "t");
    assert!(forced > 0.0105 && forced < 0.02, "{forced}");
    assert_promise(&mut server, "t", forced, 100_000, "a forced merge of tables");
}

#[test]
fn no_destination_is_named_for_a_source_that_finds_everything() {
    let mut server = Server::new();
    server.run("BF.INSERT source CAPACITY 1 ERROR 0.5 NONSCALING SATURATE ITEMS x");
    add(&mut server, "source", 0..2000);
    assert_eq!(server.run("BF.RESERVE destination 0.01 100"), "+OK");
    let reply = server.run("BF.MERGE destination source");
    assert!(reply.starts_with(REFUSAL), "{reply}");
    assert!(
        reply.ends_with("no destination can hold these sources within its error rate; FORCE merges anyway"),
        "{reply}"
    );
    assert_eq!(server.run("BF.MERGE destination source FORCE"), "+OK");
}

/// A new destination is a copy of the first source. If that has the format of another module, the merge with a table
/// makes it a union, whose promise covers the layers too.
#[test]
fn a_full_chain_and_a_table_are_refused_or_keep_the_promise() {
    const ABSENT: u64 = 20_000;
    const CAPACITY: u64 = 2000;
    let formats = [
        ("valkey-bloom", "FORMAT valkey-bloom SEED 0123456789abcdefghijklmnopqrstuv"),
        ("redisbloom", "FORMAT redisbloom"),
    ];
    for ((format, options), promised) in formats.into_iter().flat_map(|of| [0.01, 0.1].map(|rate| (of, rate)))
    {
        let (mut merged, mut refused) = (0, 0);
        for &percent in effort(&[50, 100][..], &[50, 90, 97, 99, 100]) {
            for (sources, others) in [("chain table", 1), ("table chain", 1), ("chain table table-2", 2)] {
                let context = format!("{format} with {percent} %, {promised}: {sources}");
                let mut server = Server::new();
                server.must(&format!(
                    "BF.INSERT chain CAPACITY {CAPACITY} ERROR {promised} {options} ITEMS made"
                ));
                add(&mut server, "chain", 0..CAPACITY * percent / 100 - 1);
                for (key, first) in [("table", 100_000), ("table-2", 200_000)].into_iter().take(others) {
                    server
                        .must(&format!("BF.INSERT {key} ERROR {promised} FORMAT everbloom ITEMS made-{key}"));
                    add(&mut server, key, first..first + CAPACITY / 2);
                }
                let reply = server.run(&format!("BF.MERGE dest {sources}"));
                if reply == "+OK" {
                    merged += 1;
                    assert_eq!(most(&mut server, "dest"), promised, "{context}");
                } else {
                    refused += 1;
                    needed_rate(&reply);
                    server.must(&format!("BF.MERGE dest {sources} FORCE"));
                    let forced = most(&mut server, "dest");
                    assert!(forced > promised, "{context}: {forced}");
                }
                let highest = most(&mut server, "dest");
                assert_promise(&mut server, "dest", highest, ABSENT, &context);
                add(&mut server, "dest", 300_000..300_000 + 5 * CAPACITY);
                assert_promise(&mut server, "dest", highest, ABSENT, &format!("{context}, with more items"));
                let then = most(&mut server, "dest");
                assert!(then <= highest * 1.00001, "{context}: {highest}, with more items {then}");
            }
        }
        println!("{format}, {promised}: {merged} merged, {refused} refused");
        assert!(
            merged >= effort(1, 3) && refused >= effort(1, 3),
            "{format}, {promised}: {merged} merged, {refused} refused"
        );
    }
}
