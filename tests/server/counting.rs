//! Filters that items can be deleted from: every way they survive, and what others are told of their changes.

use crate::dump::travel;
use crate::harness::{Client, Site, Test, tests, wait_until};

pub(crate) const TESTS: &[Test] = tests![
    they_survive_snapshots_and_append_only_files,
    they_survive_copies_payloads_and_pieces,
    a_strict_replica_has_the_same_counts,
    the_room_of_a_full_filter_survives,
    deletions_are_told_and_watched,
    their_items_are_counted_in_the_statistics,
    deletions_are_answered_as_adds_in_both_protocols,
];

const KEYS: [&str; 4] = ["empty", "small", "grown", "paged"];

fn fill(client: &mut Client) {
    assert_eq!(client.say("BF.RESERVE empty 0.002 1000 COUNTING"), "+OK");
    client.say("BF.INSERT small COUNTING ITEMS a b a c a");
    client.say("BF.RESERVE grown 0.001 5 EXPANSION 3 COUNTING");
    assert_eq!(client.say("BF.RESERVE paged 0.0001 2000000 COUNTING"), "+OK");
    for item in 0..300 {
        for key in ["grown", "paged"] {
            client.say(&format!("BF.MADD {key} item-{item} item-{}", item / 7));
            if item % 3 == 0 {
                assert_eq!(client.say(&format!("BF.DEL {key} item-{item}")), "[1]");
            }
        }
    }
}

fn state(client: &mut Client) -> Vec<[String; 3]> {
    KEYS.iter()
        .map(|key| {
            [
                client.digest(key),
                client.say(&format!("BF.DEBUG {key}")),
                client.say(&format!("BF.CARD {key}")),
            ]
        })
        .collect()
}

/// What is there can be deleted, once.
fn assert_counts(client: &mut Client) {
    assert_eq!(client.say("BF.DEL small a b a c a a b"), "[1, 1, 1, 1, 1, 0, 0]");
    assert_eq!(client.say("BF.DEL paged item-299 item-299"), "[1, 0]");
}

fn they_survive_snapshots_and_append_only_files(site: &Site) {
    for preamble in ["yes", "no"] {
        let append_only = format!("aof-use-rdb-preamble {preamble}");
        let launch = site.launch().with("appendonly yes").with("appendfsync always").with(append_only);
        let server = launch.start();
        let mut client = server.client();
        fill(&mut client);
        let expected = state(&mut client);
        assert_eq!(client.say("DEBUG RELOAD"), "+OK");
        assert_eq!(state(&mut client), expected, "reloaded");
        let server = server.restart_as(|launch| launch.with_option("bf.format redisbloom"));
        let mut client = server.client();
        assert_eq!(state(&mut client), expected, "the commands of an append-only file");
        client.say("BGREWRITEAOF");
        wait_until("the rewrite", || {
            client.info("aof_rewrite_in_progress").as_deref() == Some("0")
                && client.info("aof_rewrite_scheduled").as_deref() == Some("0")
        });
        assert_eq!(client.info("aof_last_bgrewrite_status").as_deref(), Some("ok"));
        let server = server.restart();
        assert_eq!(state(&mut server.client()), expected, "rewritten, preamble {preamble}");
        assert_counts(&mut server.client());
    }
}

fn they_survive_copies_payloads_and_pieces(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    fill(&mut client);
    for key in KEYS {
        let digest = client.digest(key);
        assert_eq!(client.int(&format!("COPY {key} copied")), 1);
        let payload = client.bytes(&["DUMP", key]);
        assert_eq!(client.ask(&[b"RESTORE", b"restored".as_slice(), b"0", &payload]), "+OK");
        travel(&mut client, key, "travelled");
        for copy in ["copied", "restored", "travelled"] {
            assert_eq!(client.digest(copy), digest, "{key} {copy}");
            let debug = client.say(&format!("BF.DEBUG {key}"));
            assert_eq!(client.say(&format!("BF.DEBUG {copy}")), debug);
        }
        client.say("DEL copied restored");
        client.say("DEL travelled");
    }
    assert_counts(&mut client);
}

fn a_strict_replica_has_the_same_counts(site: &Site) {
    let server = site.start();
    let strict = site
        .launch()
        .with("propagation-error-behavior panic")
        .with_option("bf.format valkey-bloom")
        .with_option("bf.expansion-factor 0");
    let replica = server.replica(strict);
    let mut client = server.client();
    fill(&mut client);
    client.say("BF.DEL small x a y");
    client.say("EVAL return{redis.call('BF.DEL',KEYS[1],'b','nothing')} 1 small");
    assert_eq!(client.int("WAIT 1 60000"), 1);
    assert_eq!(state(&mut replica.client()), state(&mut client));
}

/// The filter is full with five distinct items, of which `a` was added five times.
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

fn the_room_of_a_full_filter_survives(site: &Site) {
    for preamble in ["yes", "no"] {
        let append_only = format!("aof-use-rdb-preamble {preamble}");
        let launch = site.launch().with("appendonly yes").with("appendfsync always").with(append_only);
        let server = launch.start();
        let replica = server.replica(site.launch().with("propagation-error-behavior panic"));
        let mut client = server.client();
        assert_eq!(client.say("BF.RESERVE k 0.0001 5 COUNTING NONSCALING"), "+OK");
        client.say("BF.MADD k a a a a a b c d e");
        assert_eq!(client.int("COPY k copied"), 1);
        let payload = client.bytes(&["DUMP", "k"]);
        assert_eq!(client.ask(&[b"RESTORE", b"restored".as_slice(), b"0", &payload]), "+OK");
        travel(&mut client, "k", "travelled");
        let keys = ["k", "copied", "restored", "travelled"];
        let digests = |client: &mut Client| keys.map(|key| client.digest(key));
        let expected = digests(&mut client);
        assert!(expected.iter().all(|digest| *digest == expected[0]));
        assert_eq!(client.int("WAIT 1 60000"), 1);
        assert_eq!(digests(&mut replica.client()), expected);
        assert_eq!(client.say("DEBUG RELOAD"), "+OK");
        assert_eq!(digests(&mut client), expected, "reloaded");
        client.say("BGREWRITEAOF");
        wait_until("the rewrite", || {
            client.info("aof_rewrite_in_progress").as_deref() == Some("0")
                && client.info("aof_rewrite_scheduled").as_deref() == Some("0")
        });
        drop(replica);
        let server = server.restart();
        let mut client = server.client();
        assert_eq!(digests(&mut client), expected, "rewritten, preamble {preamble}");
        // The replica gets them as a snapshot, then every command.
        let replica = server.replica(site.launch().with("propagation-error-behavior panic"));
        keys.iter().for_each(|key| assert_full_of_five(&mut client, key));
        assert_eq!(client.int("WAIT 1 60000"), 1);
        assert_eq!(digests(&mut replica.client()), digests(&mut client));
    }
}

fn deletions_are_told_and_watched(site: &Site) {
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
        let told = String::from_utf8_lossy(&watcher.next()).into_owned();
        assert!(told.contains(event), "{told}");
    }
}

fn their_items_are_counted_in_the_statistics(site: &Site) {
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
    // The layers whose items are gone went with them.
    assert!(client.info_number("bf_bytes") < bytes / 2);
    client.say("DEL k");
    assert_eq!((client.info_number("bf_items"), client.info_number("bf_bytes")), (0, 0));
}

fn deletions_are_answered_as_adds_in_both_protocols(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    client.say("BF.INSERT k COUNTING ITEMS a b");
    assert_eq!(server.raw().say("BF.DEL k a x"), "*2\r\n:1\r\n:0\r\n");
    assert_eq!(server.raw3().say("BF.DEL k b x"), "*2\r\n#t\r\n#f\r\n");
}
