//! BF.MERGE of counting filters: an item can be deleted as often as from all sources together.

use everbloom::bloom::table::COUNT_MAX;

use super::*;

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
fn filters_of_other_kinds_are_refused() {
    let mut server = Server::new();
    server.run("BF.RESERVE a 0.001 1000 COUNTING");
    server.run("BF.INSERT keyed CAPACITY 1000 ERROR 0.001 COUNTING KEY 0123456789abcdef ITEMS x");
    server.run("BF.RESERVE bits 0.001 1000");
    server.run("BF.RESERVE window 0.001 1000 WINDOW 60");
    server.run("BF.RESERVE outgrown 0.001 2");
    server.run("BF.MADD outgrown a b c d e f");
    for key in ["keyed", "bits", "window", "outgrown", "table"] {
        server.run(&format!("BF.ADD {key} item"));
        for line in [
            format!("BF.MERGE a {key}"),
            format!("BF.MERGE {key} a"),
            format!("BF.MERGE a {key} FORCE"),
            format!("BF.MERGE new a {key} FORCE"),
        ] {
            let reply = server.run(&line);
            assert!(reply.starts_with(MISMATCH), "{line}: {reply}");
        }
    }
    assert!(!server.keys.contains_key(b"new".as_slice()));
}

#[test]
fn a_fixed_filter_keeps_its_capacity() {
    const FULL: &str = "-ERR the destination would exceed its capacity: merge into a filter of FORMAT everbloom that may \
                        grow, or use FORCE";
    let mut server = Server::new();
    for (key, first, items) in [("l", 0, 990), ("m", 10_000, 900), ("few", 20_000, 10)] {
        server.run(&format!("BF.RESERVE {key} 0.001 1000 COUNTING NONSCALING"));
        add(&mut server, key, first..first + items);
    }
    let before = state(&server.keys[b"l".as_slice()]);
    assert_eq!(server.run("BF.MERGE l m"), FULL);
    assert!(state(&server.keys[b"l".as_slice()]) == before);
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
    let before = state(&server.keys[b"a".as_slice()]);
    for line in ["BF.MERGE a c", "BF.MERGE a c FORCE", "BF.MERGE a b c", "BF.MERGE new a c"] {
        let reply = server.run(line);
        assert_eq!(
            reply,
            format!("-ERR an item would be counted more than {COUNT_MAX} times: delete it first"),
            "{line}"
        );
    }
    assert!(state(&server.keys[b"a".as_slice()]) == before && server.keys.len() == 3);
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
        assert!(server.keys[b"a".as_slice()].is_empty(), "{round}");
    }
}
