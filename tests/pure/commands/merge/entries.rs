//! BF.MERGE of counting filters, which adds up the counts of an item, and of sliding-window filters, where every item
//! keeps its time.

use everbloom_filter::table::COUNT_MAX;

use super::assert_has;
use crate::support::server::{Server, assert_dialogue};
use crate::support::{Random, effort};

#[test]
fn a_fixed_filter_keeps_its_capacity() {
    const FULL: &str = "-ERR the destination would exceed its capacity: merge into a filter of FORMAT everbloom that may \
                        grow, or use FORCE";
    let mut server = Server::new();
    for (key, first, items) in [("l", 0, 990), ("m", 10_000, 900), ("few", 20_000, 10)] {
        server.run(&format!("BF.RESERVE {key} 0.001 1000 COUNTING NONSCALING"));
        server.add(key, "", first..first + items);
    }
    let before = server.digested("l");
    assert_eq!(server.run("BF.MERGE l m"), FULL);
    assert!(server.digested("l") == before);
    assert_eq!(server.run("BF.MERGE l few"), "+OK");
    assert!(server.run("BF.ADD l more").starts_with("-ERR non scaling filter is full"));
    assert_eq!(server.run("BF.MERGE l m FORCE"), "+OK");
    assert_eq!(server.run("BF.CARD l"), ":1900");
    assert_has(&mut server, "l", 0..990);
    assert_has(&mut server, "l", 10_000..10_900);
    // A new filter has the capacity of all sources.
    assert_eq!(server.run("BF.MERGE sum m few"), "+OK");
    assert_eq!(server.run("BF.INFO sum CAPACITY"), "*1 :2000");
}

#[test]
fn an_item_that_would_be_counted_too_often_refuses_the_merge() {
    let mut server = Server::new();
    for key in ["a", "c", "d"] {
        server.must(&format!("BF.RESERVE {key} 0.01 100 COUNTING"));
        server.must(&format!("BF.MADD {key} x {key}-1 {key}-2"));
    }
    server.must("BF.DEL a a-1 a-2");
    // Each merge doubles the count.
    for _ in 0..COUNT_MAX.ilog2() {
        server.copy("a", "b");
        server.must("BF.MERGE a b");
    }
    server.must("BF.DEL a x");
    let before = server.digested("a");
    for line in ["BF.MERGE a c d", "BF.MERGE a c d FORCE", "BF.MERGE a b", "BF.MERGE new a c d"] {
        let reply = server.run(line);
        assert_eq!(
            reply,
            format!("-ERR an item would be counted more than {COUNT_MAX} times: delete it first"),
            "{line}"
        );
    }
    assert!(server.digested("a") == before && server.keys.len() == 4);
    assert_eq!(server.run("BF.MERGE a c"), "+OK");
    assert_eq!(
        server.run("BF.ADD a x"),
        format!("-ERR item was added too often: at most {COUNT_MAX} times are counted")
    );
    assert_eq!(server.run("BF.CARD a"), format!(":{}", COUNT_MAX + 2));
}

/// Compares merges with a multiset. The filters have different sizes, and items were added and deleted before.
#[test]
fn random_counts_are_added_up() {
    let mut random = Random(7);
    for round in 0..effort(3, 6) {
        let mut server = Server::new();
        let mut counts = std::collections::HashMap::<u64, u64>::new();
        for key in ["a", "b", "c"] {
            assert_eq!(server.run(&format!("BF.RESERVE {key} 0.0001 100 COUNTING")), "+OK");
            let items = *random.choose(&[20, 300, 3000]);
            for _ in 0..items {
                let (item, times) = (random.next() % 2000, 1 + random.next() % 4);
                (0..times).for_each(|_| drop(server.run(&format!("BF.ADD {key} {item}"))));
                let removed = if random.below(3) == 0 { random.next() % (times + 1) } else { 0 };
                (0..removed).for_each(|_| drop(server.run(&format!("BF.DEL {key} {item}"))));
                *counts.entry(item).or_default() += times - removed;
            }
        }
        assert_eq!(server.run("BF.MERGE a b c"), "+OK", "{round}");
        assert_eq!(server.run("BF.CARD a"), format!(":{}", counts.values().sum::<u64>()));
        for (item, count) in &counts {
            for _ in 0..*count {
                assert_eq!(server.run(&format!("BF.DEL a {item}")), "*1 #t", "{round}: {item}");
            }
        }
        assert_eq!(server.run("BF.CARD a"), ":0");
        assert!(server.filter("a").table().unwrap().is_empty(), "{round}");
    }
}

/// The start of a generation: every window here has fourteen seconds.
const START_MS: u64 = 14_000_000;

fn server() -> Server {
    Server::at(START_MS)
}

#[test]
fn each_item_expires_as_in_its_own_filter() {
    let mut server = server();
    for key in ["a", "b"] {
        assert_eq!(server.run(&format!("BF.RESERVE {key} 0.01 1000 PWINDOW 14000")), "+OK");
    }
    server.run("BF.MADD a old-a both");
    server.now_ms = START_MS + 5000;
    server.run("BF.MADD b new-b both");
    assert_eq!(server.run("BF.MERGE a b"), "+OK");
    let replicated = server.replicated.len();
    assert_eq!(server.run("BF.MERGE a b"), "+OK");
    assert_eq!(server.replicated.len(), replicated, "nothing has changed");
    let all = "BF.MEXISTS a old-a both new-b none";
    assert_dialogue(&mut server, &[(all, "*4 #t #t #t #f"), ("BF.CARD a", ":3")]);
    server.now_ms = START_MS + 15_000;
    assert_dialogue(&mut server, &[(all, "*4 #f #t #t #f"), ("BF.CARD a", ":2")]);
    server.now_ms = START_MS + 20_000;
    assert_dialogue(&mut server, &[(all, "*4 #f #f #f #f"), ("BF.CARD a", ":0")]);
    // Filters of all sizes are merged, and a new key gets the window of the first source.
    server.run("BF.RESERVE large 0.01 5000 PWINDOW 14000 NOREFRESH");
    server.run("BF.MADD large p q");
    let dialogue = [
        ("BF.MERGE made a large", "+OK"),
        ("BF.INFO made WINDOW", "*1 :14000"),
        ("BF.INFO made ERROR-RATE", "*1 ,0.02"),
        ("BF.INFO made CAPACITY", "*1 :6000"),
        ("BF.MEXISTS made p q r", "*3 #t #t #f"),
    ];
    assert_dialogue(&mut server, &dialogue);
}

/// A merge into a window is refused if it would exceed the promise or, in a fixed window, the capacity.
#[test]
fn live_items_count_towards_the_promise_and_the_capacity() {
    for growth in ["", " NONSCALING"] {
        let mut server = server();
        for key in ["l", "m"] {
            server.run(&format!("BF.RESERVE {key} 0.01 10000 PWINDOW 14000{growth}"));
            for generation in 0..14 {
                server.add(key, &format!("{key}-{generation}-"), 0..700);
                server.now_ms += 1000;
            }
            server.now_ms -= 14_000;
        }
        server.now_ms += 13_000;
        let before = server.digested("l");
        let reply = server.run("BF.MERGE l m");
        let refusal = if growth.is_empty() {
            "-ERR the merged filter would have"
        } else {
            "-ERR the destination would exceed"
        };
        assert!(reply.starts_with(refusal), "{reply}");
        assert!(server.digested("l") == before);
        // A new filter has the capacity and the rate of both.
        assert_eq!(server.run("BF.MERGE both l m"), "+OK");
        assert_eq!(server.run("BF.INFO both CAPACITY"), "*1 :20000");
        assert_eq!(server.run("BF.INFO both ERROR-RATE-MAX"), "*1 ,0.02");
        let absent = server.found("both", "absent-", 0..20_000);
        assert!(absent < 20_000 / 50, "{absent}");
        assert_eq!(server.run("BF.MERGE l m FORCE"), "+OK");
        for key in ["l", "both"] {
            let found: u64 = (0..14)
                .flat_map(|generation| [format!("l-{generation}-"), format!("m-{generation}-")])
                .map(|name| server.found(key, &name, 0..700))
                .sum();
            assert_eq!(found, 2 * 14 * 700);
        }
        assert!(server.number("l", "ERROR-RATE-MAX") > 0.01);
        // Expired items do not count, even before their memory is freed.
        server.now_ms += 20_000;
        assert_eq!(server.run("BF.RESERVE new 0.01 10000 PWINDOW 14000"), "+OK");
        server.add("new", "new-", 0..9500);
        assert_eq!(server.run("BF.MERGE l new"), "+OK");
        assert_eq!(server.run("BF.INFO l EXPIRED-ENTRIES"), "*1 :0");
        assert_eq!(server.found("l", "new-", 0..9500), 9500);
    }
}

/// A window that is merged into another one again and again, while its items are refreshed, does not pile up entries.
#[test]
fn a_window_is_merged_in_every_generation() {
    let mut server = server();
    for key in ["all", "shard"] {
        assert_eq!(server.run(&format!("BF.RESERVE {key} 0.01 2000 PWINDOW 14000")), "+OK");
    }
    for _ in 0..60 {
        server.add("shard", "item-", 0..500);
        assert_eq!(server.run("BF.MERGE all shard"), "+OK");
        assert_eq!(server.found("all", "item-", 0..500), 500);
        server.now_ms += 1000;
    }
    let card: u64 = server.run("BF.CARD all")[1..].parse().unwrap();
    assert!((490..=510).contains(&card), "{card}");
    assert!(server.filter("all").table().unwrap().used_slots() < 600);
    assert_eq!(server.run("BF.INFO all SATURATED-BUCKETS"), "*1 :0");
    server.now_ms += 16_000;
    assert_eq!(server.found("all", "item-", 0..500), 0);
}

/// Compares merges with a map of times. The shards have different sizes. Time sometimes passes without adds for longer
/// than the window.
#[test]
fn random_windows_are_merged_with_their_times() {
    for seed in 0..effort(2, 5) {
        let mut random = Random(seed);
        let mut server = server();
        let mut times = std::collections::HashMap::<u64, u64>::new();
        let shards: Vec<String> = (0..1 + random.below(4)).map(|shard| format!("s{shard}")).collect();
        for key in shards.iter().map(String::as_str).chain(["all"]) {
            let capacity = random.choose(&[100, 3000, 20_000]);
            assert_eq!(server.run(&format!("BF.RESERVE {key} 0.0001 {capacity} PWINDOW 14000")), "+OK");
        }
        for _ in 0..40 {
            let key = if random.below(4) == 0 { "all" } else { random.choose(&shards).as_str() }.to_owned();
            let items: Vec<u64> = (0..random.below(200) + 1).map(|_| random.next() % 5000).collect();
            let words: String = items.iter().map(|item| format!(" {item}")).collect();
            server.run(&format!("BF.MADD {key}{words}"));
            times.extend(items.iter().map(|item| (*item, server.now_ms)));
            server.now_ms += random.next() % if random.below(20) == 0 { 20_000 } else { 1500 };
            if random.below(5) == 0 {
                assert_eq!(server.run(&format!("BF.MERGE all {} FORCE", shards.join(" "))), "+OK");
            }
        }
        assert_eq!(server.run(&format!("BF.MERGE all {} FORCE", shards.join(" "))), "+OK");
        for _ in 0..8 {
            let mut stale = 0;
            for (item, at_ms) in &times {
                let is_found = server.run(&format!("BF.EXISTS all {item}")) == "#t";
                assert!(is_found || server.now_ms - at_ms > 14_000, "{seed}: {item}");
                stale += u32::from(is_found && server.now_ms - at_ms > 15_001);
            }
            assert!(stale <= 3, "{seed}: {stale}");
            server.now_ms += 3000;
        }
    }
}

/// Items that have expired by the clock take no room in a fixed window, although no item is newer.
#[test]
fn a_fixed_window_takes_a_window_whose_items_have_expired() {
    let mut server = server();
    for key in ["l", "m"] {
        server.must(&format!("BF.RESERVE {key} 0.01 100 PWINDOW 14000 NONSCALING"));
        server.add(key, &format!("{key}-"), 0..60);
    }
    assert!(server.run("BF.MERGE l m").starts_with("-ERR the destination would exceed"));
    server.now_ms += 30_000;
    assert_eq!(server.run("BF.MERGE l m"), "+OK");
    assert_eq!(server.run("BF.CARD l"), ":0");
}
