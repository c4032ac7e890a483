//! Imports in append-only files and on replicas, whatever the defaults there.

use super::{import, many, redisson, state};
use crate::harness::{Client, Launch, Site, Test, tests};
use crate::vectors::{system, systems};

pub(crate) const TESTS: &[Test] =
    tests![the_append_only_file_keeps_imports, a_replica_with_other_defaults_imports_the_same];

/// One import of every kind, with items added to each.
fn fill(client: &mut Client) -> Vec<String> {
    let mut keys = Vec::new();
    for system in systems() {
        import(client, &system);
        many(client, "BF.MADD", system.name, &system.items("queries"));
        keys.push(system.name.to_owned());
    }
    assert_eq!(client.say("BF.IMPORT grown EMPTY SCHEME go-zero BITS 1000 CAPACITY 20 EXPANSION 3"), "+OK");
    assert_eq!(client.say("BF.IMPORT fixed EMPTY SCHEME go-zero BITS 1000 NONSCALING"), "+OK");
    for item in 0..500 {
        client.say(&format!("BF.ADD grown item-{item}"));
        client.say(&format!("BF.ADD fixed item-{item}"));
    }
    let blob = system("guava-mitz64").string("/guava_writeTo_b64");
    assert_eq!(client.ask(&[b"BF.IMPORT", b"guava".as_slice(), b"GUAVA", &blob]), "+OK");
    client.say("BF.ADD guava something-new");
    keys.extend(["grown", "fixed", "guava"].map(str::to_owned));
    keys
}

fn the_append_only_file_keeps_imports(site: &Site) {
    for preamble in ["no", "yes"] {
        let configured = |launch: Launch| {
            launch
                .with("appendonly yes")
                .with("appendfsync always")
                .with(format!("aof-use-rdb-preamble {preamble}"))
        };
        let server = configured(site.launch()).start();
        let mut client = server.client();
        let keys = fill(&mut client);
        let before: Vec<_> = keys.iter().map(|key| state(&mut client, key)).collect();
        // As the commands that were sent, with other defaults; then rewritten.
        let server = server.restart_as(|launch| launch.with_option("bf.error-rate 0.2"));
        let mut client = server.client();
        let after: Vec<_> = keys.iter().map(|key| state(&mut client, key)).collect();
        assert_eq!(after, before, "as sent");
        client.say("BGREWRITEAOF");
        crate::harness::wait_until("the rewrite", || {
            client.info("aof_rewrite_in_progress").as_deref() == Some("0")
                && client.info("aof_rewrite_scheduled").as_deref() == Some("0")
        });
        assert_eq!(client.info("aof_last_bgrewrite_status").as_deref(), Some("ok"));
        let server = server.restart();
        let mut client = server.client();
        let after: Vec<_> = keys.iter().map(|key| state(&mut client, key)).collect();
        assert_eq!(after, before, "rewritten, preamble {preamble}");
    }
}

fn a_replica_with_other_defaults_imports_the_same(site: &Site) {
    let primary = site.start();
    let strict = site
        .launch()
        .with("propagation-error-behavior panic")
        .with_option("bf.error-rate 0.2")
        .with_option("bf.expansion-factor 0")
        .with_option("bf.max-filter-bytes 1024");
    let replica = primary.replica(strict);
    let mut client = primary.client();
    let keys = fill(&mut client);
    redisson(&mut client, "{users}");
    assert_eq!(
        client.say("BF.IMPORT {users}:bf SOURCE {users} SCHEME redisson ENCODING kryo5-string"),
        "+OK"
    );
    // Refusals are no business of the replica's.
    client.say("BF.IMPORT grown EMPTY SCHEME go-zero BITS 1000");
    client.say("BF.ADD fixed one-too-many");
    client.say("BF.MADD redisson-kryo5-codec fine \u{7}");
    client.ask(&[b"BF.MADD", b"redisson-kryo5-codec".as_slice(), b"fine-too", b"\xff", b"after"]);
    assert_eq!(client.say("BF.EXPORT nothing"), "-ERR not found");
    assert_eq!(client.int("WAIT 1 60000"), 1);
    let mut reader = replica.client();
    for key in keys.iter().map(String::as_str).chain(["{users}:bf"]) {
        assert_eq!(state(&mut reader, key), state(&mut client, key), "{key}");
    }
    // One that joins later gets the same by a snapshot.
    let later = primary.replica(site.launch());
    let mut reader = later.client();
    for key in &keys {
        assert_eq!(state(&mut reader, key), state(&mut client, key), "{key}");
    }
}
