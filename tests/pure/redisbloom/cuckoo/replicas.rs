//! Replicas, and settings.

use everbloom_command::CuckooSettings;

use super::{saved, server};
use crate::support::server::Server;
use crate::support::{Random, slices};

/// Every replicated command makes the same filter on a replica with other settings.
#[test]
fn replicas_have_the_same_bytes() {
    let (mut primary, mut replica, mut random) = (server(), Server::new(), Random(9));
    primary.settings.cuckoo.max_iterations = 5;
    replica.is_replicated = true;
    replica.settings.cuckoo = CuckooSettings {
        bucket_size_slots: 99,
        max_expansions: 1,
        expansion_factor: 0,
        ..CuckooSettings::DEFAULT
    };
    primary.run("CF.RESERVE fixed 40 BUCKETSIZE 4 MAXITERATIONS 7 EXPANSION 0");
    for _ in 0..3_000 {
        let key = ["fixed", "a", "b"][random.below(3)];
        let items: Vec<String> = (0..1 + random.below(6)).map(|_| random.below(120).to_string()).collect();
        let (one, all) = (&items[0], items.join(" "));
        primary.run(&match random.below(7) {
            0 => format!("CF.ADD {key} {one}"),
            1 => format!("CF.ADDNX {key} {one}"),
            2 => format!("CF.INSERT {key} CAPACITY 16 ITEMS {all}"),
            3 => format!("CF.INSERTNX {key} ITEMS {all}"),
            4 if random.below(5) == 0 => format!("CF.COMPACT {key}"),
            _ => format!("CF.DEL {key} {one}"),
        });
        for call in std::mem::take(&mut primary.replicated_calls) {
            let reply = replica.call(&slices(&call));
            assert!(!reply.contains('-'), "{call:?}: {reply}");
        }
        for (key, filter) in &primary.cuckoos {
            assert!(saved(filter) == saved(&replica.cuckoos[key]), "{}", key.escape_ascii());
        }
    }
    assert_eq!((primary.cuckoos.len(), replica.keys.len()), (3, 0));
}

/// The settings decide what a new filter is, and when a filter refuses adds of clients.
#[test]
fn settings_decide_about_new_filters() {
    let mut server = server();
    server.settings.cuckoo = CuckooSettings {
        bucket_size_slots: 10,
        initial_size_items: 4,
        max_iterations: 3,
        expansion_factor: 3,
        max_expansions: 2,
    };
    assert_eq!(server.run("CF.ADD k a"), "#t");
    assert_eq!(
        server.run("CF.DEBUG k"),
        "$bktsize:10 buckets:2 items:1 deletes:0 filters:1 max_iterations:3 expansion:4"
    );
    assert_eq!(
        server.run("CF.INSERT other CAPACITY 19 ITEMS a"),
        "-Capacity must be in the range [cf-bucket-size * 2, 1073741824]"
    );
    assert_eq!(
        server.run("CF.RESERVE other 19"),
        "-Capacity must be in the range [2 * BUCKETSIZE, 1073741824]"
    );
    assert_eq!(server.run("CF.RESERVE other 19 BUCKETSIZE 9 EXPANSION 0 MAXITERATIONS 1"), "+OK");
    assert_eq!(
        server.run("CF.DEBUG other"),
        "$bktsize:9 buckets:2 items:0 deletes:0 filters:1 max_iterations:1 expansion:0"
    );
    while server.cuckoos[&b"k"[..]].arrays().len() < 2 {
        assert_eq!(server.run("CF.ADD k a"), "#t");
    }
    assert_eq!(server.run("CF.ADD k a"), "-Maximum expansions reached");
    server.settings.cuckoo.max_expansions = 3;
    assert_eq!(server.run("CF.ADD k a"), "#t");
}
