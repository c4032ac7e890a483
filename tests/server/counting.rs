//! Counting filters: the capacity of a full one, and the events and statistics of deletions.

use crate::dump::travel;
use crate::harness::{Client, Site, Test, tests};
use crate::journeys::{append_only, rewrite};

pub(crate) const TESTS: &[Test] = tests![
    the_capacity_of_a_full_filter_survives,
    deletions_raise_events_and_abort_watch,
    items_are_counted_in_the_statistics,
];

/// Asserts that the filter is full with five distinct items, of which `a` was added five times.
fn assert_full_of_five(client: &mut Client, key: &str) {
    let full = "-ERR non scaling filter is full";
    assert_eq!(client.int(&format!("BF.CARD {key}")), 9, "{key}");
    assert_eq!(client.say(&format!("BF.ADD {key} f")), full, "{key}");
    assert_eq!(client.say(&format!("BF.DEL {key} a a a a")), "[1, 1, 1, 1]", "{key}");
    assert_eq!(client.say(&format!("BF.ADD {key} f")), full, "{key}");
    assert_eq!(client.say(&format!("BF.DEL {key} a")), "[1]", "{key}");
    assert_eq!(client.say(&format!("BF.MADD {key} f g")), format!("[1, {full}]"), "{key}");
    assert_eq!(client.int(&format!("BF.CARD {key}")), 5, "{key}");
}

fn the_capacity_of_a_full_filter_survives(site: &Site) {
    let server = append_only(site.launch(), "no").start();
    let mut client = server.client();
    assert_eq!(client.say("BF.RESERVE k 0.0001 5 COUNTING NONSCALING"), "+OK");
    client.say("BF.MADD k a a a a a b c d e");
    travel(&mut client, "k", "loaded");
    rewrite(&mut client);
    // A replica gets the filter in a snapshot, then every command.
    let server = server.restart();
    let replica = server.replica(site.launch().with("propagation-error-behavior panic"));
    let mut client = server.client();
    for key in ["k", "loaded"] {
        assert_full_of_five(&mut client, key);
        assert_eq!(client.int("WAIT 1 60000"), 1);
        assert_eq!(replica.client().digest(key), client.digest(key), "{key}");
    }
}

fn deletions_raise_events_and_abort_watch(site: &Site) {
    let server = site.launch().with("notify-keyspace-events KEA").start();
    let mut client = server.client();
    client.say("BF.INSERT k COUNTING ITEMS a b");
    let mut watcher = server.raw();
    watcher.say("SUBSCRIBE __keyspace@0__:k");
    let mut transaction = server.client();
    for (line, changes) in [("BF.DEL k x", false), ("BF.DEL k a x", true), ("BF.ADD k b", true)] {
        transaction.say("WATCH k");
        client.say(line);
        transaction.say("MULTI");
        transaction.say("PING");
        assert_eq!(transaction.say("EXEC") == "nil", changes, "{line}");
    }
    for event in ["bloom.del", "bloom.add"] {
        let message = String::from_utf8_lossy(&watcher.next()).into_owned();
        assert!(message.contains(event), "{message}");
    }
}

fn items_are_counted_in_the_statistics(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    client.say("BF.RESERVE k 0.01 10 EXPANSION 1 COUNTING");
    for item in 0..100 {
        client.say(&format!("BF.ADD k {item}"));
    }
    let bytes = client.info_number("bf_bytes");
    assert_eq!(client.info_number("bf_items"), 100);
    for item in 0..100 {
        assert_eq!(client.say(&format!("BF.DEL k {item}")), "[1]");
    }
    assert_eq!((client.info_number("bf_items"), client.say("BF.CARD k")), (0, "0".to_owned()));
    // Layers without items are freed.
    assert!(client.info_number("bf_bytes") < bytes / 2);
    client.say("DEL k");
    assert_eq!((client.info_number("bf_items"), client.info_number("bf_bytes")), (0, 0));
}
