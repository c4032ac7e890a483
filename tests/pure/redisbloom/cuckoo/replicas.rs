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
