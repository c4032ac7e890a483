//! The byte limit for filters that are loaded whole: it applies to a client's filters only.

use crate::harness::{Client, Server, Site, Test, tests, wait_until};
use crate::limits::assert_too_large;

pub(crate) const TESTS: &[Test] = tests![
    the_byte_limit_applies_to_restore_by_a_client,
    the_limit_of_restore_is_exact_for_each_format,
    the_byte_limit_does_not_apply_to_primaries_and_files,
    a_client_cannot_move_a_filter_to_a_server_with_a_smaller_limit,
];

fn restore(client: &mut Client, key: &str, payload: &[u8]) -> String {
    client.ask(&[b"RESTORE", key.as_bytes(), b"0", payload])
}

/// The reply of RESTORE to a payload that the module refuses. The reason is in the log.
const BAD_PAYLOAD: &str = "-ERR Bad data format";

fn assert_logged(server: &Server, reason: &str) {
    let log = server.log();
    let line = log.lines().rev().find(|line| line.contains("a filter cannot be loaded"));
    assert!(line.is_some_and(|line| line.contains(reason)), "{log}");
}

fn the_byte_limit_applies_to_restore_by_a_client(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    // A few hundred bytes that would become 20 GB.
    client.say("BF.RESERVE k 0.01 16000000000 NONSCALING");
    let payload = client.bytes(&["DUMP", "k"]);
    assert!(payload.len() < 10_000, "{} bytes", payload.len());
    let shape = client.say("BF.DEBUG k");
    assert_eq!(client.say("FLUSHALL SYNC"), "+OK");
    assert_eq!(client.say("CONFIG SET bf.max-filter-bytes 1mb"), "+OK");
    assert_eq!(restore(&mut client, "new", &payload), BAD_PAYLOAD);
    assert_logged(&server, "more than bf.max-filter-bytes (1048576)");
    let script = "return redis.call('RESTORE', KEYS[1], 0, ARGV[1])";
    let reply = client.ask(&[b"EVAL", script.as_bytes(), b"1", b"new", &payload]);
    assert!(reply.contains("Bad data format"), "{reply}");
    // As for new filters, the server's own limit applies too.
    client.say("CONFIG SET bf.max-filter-bytes 64gb");
    client.say("CONFIG SET maxmemory 1gb");
    assert_eq!(restore(&mut client, "new", &payload), BAD_PAYLOAD);
    assert_logged(&server, "more than maxmemory (1073741824)");
    assert_eq!(client.int("EXISTS new"), 0);
    client.say("CONFIG SET maxmemory 0");
    assert_eq!(restore(&mut client, "new", &payload), "+OK");
    assert_eq!(client.say("BF.DEBUG new"), shape);
}

fn the_limit_of_restore_is_exact_for_each_format(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    for format in ["everbloom", "redisbloom", "valkey-bloom"] {
        let make = format!("BF.RESERVE {format} 0.01 10000 NONSCALING FORMAT {format}");
        assert_eq!(client.say(&make), "+OK");
        let payload = client.bytes(&["DUMP", format]);
        let (_, header) = crate::dump::chunk(&mut client, format, 0).unwrap();
        client.say("DEL chunks");
        // The error contains the number of bytes that it would need.
        client.say("CONFIG SET bf.max-filter-bytes 1024");
        let refusal = crate::dump::load(&mut client, "chunks", 1, &header);
        assert_too_large(&refusal, &["bf.max-filter-bytes (1024)"]);
        let needed_bytes: u64 = refusal.split_whitespace().nth(4).unwrap().parse().unwrap();
        assert!(needed_bytes > 10_000, "{refusal}");
        for (limit_bytes, outcome) in [(needed_bytes - 1, BAD_PAYLOAD), (needed_bytes, "+OK")] {
            client.say(&format!("DEL new chunks {format}"));
            client.say(&format!("CONFIG SET bf.max-filter-bytes {limit_bytes}"));
            assert_eq!(restore(&mut client, "new", &payload), outcome, "{format}");
            // The same rule holds for all ways of loading.
            let loaded = crate::dump::load(&mut client, "chunks", 1, &header);
            let made = client.say(&make);
            assert_eq!(
                (loaded.as_str() == "+OK", made.as_str() == "+OK"),
                (outcome == "+OK", outcome == "+OK")
            );
        }
        client.say("CONFIG SET bf.max-filter-bytes 64gb");
    }
}

fn the_byte_limit_does_not_apply_to_primaries_and_files(site: &Site) {
    const SMALL: &str = "bf.max-filter-bytes 1024";
    // Written before the reply is sent, because the server will be killed.
    let commands = ["appendonly yes", "appendfsync always", "aof-use-rdb-preamble no"];
    let launch = commands.iter().fold(site.launch(), |launch, line| launch.with(*line));
    let server = launch.start();
    let mut client = server.client();
    for format in ["everbloom", "redisbloom", "valkey-bloom"] {
        assert_eq!(client.say(&format!("BF.RESERVE {format} 0.01 10000 FORMAT {format}")), "+OK");
        client.say(&format!("BF.MADD {format} a b c"));
    }
    // By full synchronisation, then by the stream. The replica applies no limit.
    let replica = server.replica(site.launch().with_option(SMALL));
    let mut follower = replica.client();
    for format in ["everbloom", "redisbloom", "valkey-bloom"] {
        let payload = client.bytes(&["DUMP", format]);
        let digest = client.digest(format);
        assert_eq!(restore(&mut client, &format!("restored-{format}"), &payload), "+OK");
        for key in [format, &format!("restored-{format}")] {
            wait_until("replicated", || follower.int(&format!("EXISTS {key}")) == 1);
            assert_eq!(follower.digest(key), digest, "{key}");
        }
    }
    // When it is a primary, it applies the limit.
    assert_eq!(follower.say("REPLICAOF NO ONE"), "+OK");
    let payload = follower.bytes(&["DUMP", "everbloom"]);
    assert_eq!(restore(&mut follower, "late", &payload), BAD_PAYLOAD);
    // At the start from a file of commands, including RESTORE, then from a snapshot, and in DEBUG RELOAD.
    let digest = client.digest("restored-redisbloom");
    let server = server.restart_as(|launch| launch.with_option(SMALL));
    let mut client = server.client();
    assert_eq!(client.digest("restored-redisbloom"), digest);
    assert_eq!(client.say("DEBUG RELOAD"), "+OK");
    assert_eq!((client.int("DBSIZE"), client.digest("restored-redisbloom")), (6, digest.clone()));
    assert_eq!(client.say("SAVE"), "+OK");
    let server = server.restart_as(|launch| launch.with("appendonly no"));
    let mut client = server.client();
    assert_eq!((client.int("DBSIZE"), client.digest("restored-redisbloom")), (6, digest));
    assert_eq!(restore(&mut client, "late", &payload), BAD_PAYLOAD);
}

fn a_client_cannot_move_a_filter_to_a_server_with_a_smaller_limit(site: &Site) {
    let from = site.start();
    let to = site.launch().with_option("bf.max-filter-bytes 1024").start();
    let mut client = from.client();
    client.say("BF.RESERVE k 0.01 10000");
    let migrate = format!("MIGRATE 127.0.0.1 {} k 0 60000", to.port());
    let reply = client.say(&migrate);
    assert!(reply.starts_with("-ERR ") && reply.contains("Bad data format"), "{reply}");
    assert_logged(&to, "bf.max-filter-bytes");
    assert_eq!((client.int("EXISTS k"), to.client().int("DBSIZE")), (1, 0));
    to.client().say("CONFIG SET bf.max-filter-bytes 1mb");
    assert_eq!(client.say(&migrate), "+OK");
    assert_eq!((client.int("EXISTS k"), to.client().int("DBSIZE")), (0, 1));
}
