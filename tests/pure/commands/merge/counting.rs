//! BF.MERGE of counting filters: an item can be deleted as often as from all sources together.

use everbloom::bloom::table::COUNT_MAX;

use super::assert_has;
use crate::support::Random;
use crate::support::server::{Server, assert_dialogue};

#[test]
fn counts_are_added_up() {
    let mut server = Server::new();
    for (key, items) in [("a", "x x y"), ("b", "x z"), ("far", "x x x x x x x x")] {
        assert_eq!(server.run(&format!("BF.RESERVE {key} 0.001 1000 COUNTING")), "+OK");
        server.run(&format!("BF.MADD {key} {items}"));
    }
    let dialogue = [
        ("BF.MERGE a b", "+OK"),
        ("BF.MEXISTS a x y z w", "*4 #t #t #t #f"),
        ("BF.CARD a", ":5"),
        ("BF.DEL a x x x", "*3 #t #t #t"),
        ("BF.DEL a x", "*1 #f"),
        ("BF.MEXISTS a x y z", "*3 #f #t #t"),
        ("BF.CARD b", ":2"),
        ("BF.MERGE far b", "+OK"),
        ("BF.CARD far", ":10"),
        ("BF.DEL far x x x x x x x x x x", "*10 #t #t #t #t #t #t #t #t #t #f"),
        ("BF.MEXISTS far x z", "*2 #f #t"),
        // A new key gets the sum of all sources, and promises the sum of their rates.
        ("BF.MERGE sum a b", "+OK"),
        ("BF.INFO sum ERROR-RATE", "*1 ,0.002"),
        ("BF.INFO sum KIND", "*1 $counting"),
        ("BF.MEXISTS sum x y z w", "*4 #t #t #t #f"),
        ("BF.DEL sum z z", "*2 #t #t"),
        ("BF.DEL sum z", "*1 #f"),
        // Another capacity or error rate does not matter.
        ("BF.RESERVE other 0.01 5 COUNTING", "+OK"),
        ("BF.MADD other o p", "*2 #t #t"),
        ("BF.MERGE a other", "+OK"),
        ("BF.DEL a o o", "*2 #t #f"),
    ];
    assert_dialogue(&mut server, &dialogue);
}

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
    for (key, times) in [("a", COUNT_MAX - 2), ("b", 2), ("c", 3)] {
        assert_eq!(server.run(&format!("BF.RESERVE {key} 0.01 100 COUNTING")), "+OK");
        (0..times).for_each(|_| drop(server.run(&format!("BF.ADD {key} x"))));
        server.run(&format!("BF.MADD {key} {key}-1 {key}-2"));
    }
    let before = server.digested("a");
    for line in ["BF.MERGE a c", "BF.MERGE a c FORCE", "BF.MERGE a b c", "BF.MERGE new a c"] {
        let reply = server.run(line);
        assert_eq!(
            reply,
            format!("-ERR an item would be counted more than {COUNT_MAX} times: delete it first"),
            "{line}"
        );
    }
    assert!(server.digested("a") == before && server.keys.len() == 3);
    assert_eq!(server.run("BF.MERGE a b"), "+OK");
    assert_eq!(
        server.run("BF.ADD a x"),
        format!("-ERR item was added too often: at most {COUNT_MAX} times are counted")
    );
    let deleted = (0..=COUNT_MAX).take_while(|_| server.run("BF.DEL a x") == "*1 #t").count() as u64;
    assert_eq!(deleted, COUNT_MAX);
}

/// A multiset is the oracle: counts of all sizes, in filters of unlike sizes that were grown and emptied before.
#[test]
fn random_counts_are_added_up() {
    let mut random = Random(7);
    for round in 0..6 {
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
        assert!(server.filter("a").is_empty(), "{round}");
    }
}
