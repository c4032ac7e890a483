//! BF.MERGE: its keys, and equal bits on replicas.

use crate::harness::{Client, Site, Test, tests, wait_until};

pub(crate) const TESTS: &[Test] = tests![
    only_the_first_key_is_declared,
    io_threads_never_call_the_module,
    access_to_each_key_is_checked,
    keys_in_several_slots_are_refused,
    replicas_have_equal_bits_and_the_destination_keeps_its_expiry,
];

fn only_the_first_key_is_declared(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    assert_eq!(client.say("COMMAND GETKEYS BF.MERGE d a b FORCE"), "[\"d\"]");
    assert_eq!(client.say("COMMAND GETKEYS BF.IMPORT k SOURCE s SCHEME go-zero"), "[\"k\"]");
    let flags = client.say("COMMAND GETKEYSANDFLAGS BF.MERGE d a");
    assert!(flags.contains("RW") && !flags.contains("RO"), "{flags}");
}

/// In a cluster, Valkey 8 and later find a command's keys in I/O threads. For commands with `getkeys-api` they call
/// the module there, beside the main thread: the server crashed within a second.
fn io_threads_never_call_the_module(site: &Site) {
    let server = site.launch().in_cluster().with("io-threads 4").with("appendonly yes").start();
    server.client().own_all_slots();
    let work = |lines: &[&str]| {
        let mut client = server.client();
        (0..150).for_each(|_| client.pipeline(lines));
    };
    server.client().say("BF.RESERVE {k}source 0.01 100");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| work(&["BF.MERGE {k}dest {k}source"; 20]));
            scope.spawn(|| work(&["BF.IMPORT {k}import EMPTY SCHEME go-zero BITS 900 REPLACE"; 20]));
            scope.spawn(|| work(&["INCR {k}count"; 20]));
        }
    });
    assert_eq!(server.client().say("GET {k}count"), "\"12000\"");
    let server = server.restart();
    wait_until("cluster up", || server.client().say("GET {k}count") == "\"12000\"");
}

fn access_to_each_key_is_checked(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    for key in ["mine:a", "readable:a", "secret"] {
        client.say(&format!("BF.ADD {key} x"));
    }
    client.say("ACL SETUSER u on >p +@all ~mine:* %R~readable:*");
    assert_eq!(client.say("AUTH u p"), "+OK");
    for line in ["mine:d secret", "mine:d mine:a secret FORCE", "readable:a mine:a", "secret mine:a"] {
        let reply = client.say(&format!("BF.MERGE {line}"));
        assert!(reply.starts_with("-NOPERM"), "{line}: {reply}");
    }
    assert_eq!(client.say("BF.MERGE mine:d mine:a readable:a FORCE"), "+OK");
    // Also in a script and in a transaction.
    let script = "return redis.pcall('BF.MERGE', KEYS[1], ARGV[1])";
    let reply = client.ask(&["EVAL", script, "1", "mine:d", "secret"]);
    assert!(reply.starts_with("-NOPERM"), "{reply}");
    assert_eq!(client.ask(&["EVAL", script, "1", "mine:d", "readable:a"]), "+OK");
    client.say("MULTI");
    client.say("BF.MERGE mine:d secret");
    assert!(client.say("EXEC").contains("NOPERM"));
}

fn keys_in_several_slots_are_refused(site: &Site) {
    let server = site.launch().in_cluster().start();
    let mut client = server.client();
    client.own_all_slots();
    for key in ["{a}1", "{a}2", "{b}1"] {
        client.say(&format!("BF.ADD {key} {key}"));
    }
    for line in ["{b}1 {a}1", "{a}1 {a}2 {b}1", "{a}1 {a}2 {b}1 FORCE", "{a}1 FORCE"] {
        let reply = client.say(&format!("BF.MERGE {line}"));
        assert!(reply.starts_with("-CROSSSLOT"), "{line}: {reply}");
    }
    // The option has no slot.
    assert_eq!(client.say("BF.MERGE {a}d {a}1 {a}2 FORCE"), "+OK");
    assert_eq!(client.say("BF.MEXISTS {a}d {a}1 {a}2 {b}1"), "[1, 1, 0]");
}

/// Creates filters of every kind, with different items.
fn fill(client: &mut Client) {
    for (index, format) in ["everbloom", "redisbloom", "valkey-bloom"].into_iter().enumerate() {
        assert_eq!(client.say(&format!("BF.RESERVE s{index} 0.001 50 FORMAT {format}")), "+OK");
    }
    client.say("BF.IMPORT s3 EMPTY SCHEME go-zero BITS 3000");
    for index in 0..4 {
        for item in 0..120 {
            client.say(&format!("BF.ADD s{index} {index}-{item}"));
        }
    }
    assert_eq!(client.say("BF.RESERVE d 0.02 100"), "+OK");
}

fn assert_has_all(client: &mut Client, key: &str) {
    let mut args = vec!["BF.MEXISTS".to_owned(), key.to_owned()];
    args.extend((0..4).flat_map(|index| (0..120).map(move |item| format!("{index}-{item}"))));
    let found = client.array(&args);
    assert!(found.len() == 480 && found.iter().all(|reply| *reply == redis::Value::Int(1)), "{key}");
}

fn replicas_have_equal_bits_and_the_destination_keeps_its_expiry(site: &Site) {
    let server = site.start();
    let replica = server.replica(
        site.launch()
            .with("propagation-error-behavior panic")
            .with_option("bf.error-rate 0.2")
            .with_option("bf.max-filter-bytes 1024"),
    );
    let mut client = server.client();
    fill(&mut client);
    client.say("EXPIRE d 1000");
    for line in ["d s0 s1 s2 s3", "new s1 s2 FORCE", "s0 s0 s3", "like s2", "d s0 s1"] {
        assert_eq!(client.say(&format!("BF.MERGE {line}")), "+OK", "{line}");
    }
    assert!(client.int("TTL d") > 900);
    assert_has_all(&mut client, "d");
    client.say("BF.MADD d p q r s t");
    assert_eq!(client.int("WAIT 1 60000"), 1);
    let mut copy = replica.client();
    for key in ["d", "new", "s0", "like"] {
        assert_eq!(copy.digest(key), client.digest(key), "{key}");
        assert_eq!(copy.say(&format!("TYPE {key}")), client.say(&format!("TYPE {key}")));
    }
    // An expired source does not exist, and the refused command is not replicated.
    client.say("PEXPIRE s1 1");
    wait_until("expiry", || client.say("BF.MERGE d s1") == "-ERR not found");
    client.say("INCR marker");
    assert_eq!(client.int("WAIT 1 60000"), 1);
    assert_eq!(copy.digest("d"), client.digest("d"));
}
