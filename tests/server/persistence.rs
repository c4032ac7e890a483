//! Digests, and snapshots and append-only files, for cases that are not journeys of every kind.

use crate::harness::{Client, Site, Test, tests, wait_until};
use crate::journeys::{append_only, rewrite};

pub(crate) const TESTS: &[Test] = tests![
    digests_of_different_filters_differ,
    a_large_filter_survives_an_append_only_file_of_commands,
    writes_during_a_rewrite_are_kept,
    loading_ignores_the_byte_limit,
    a_truncated_snapshot_is_refused_with_a_log_line,
];

fn digests_of_different_filters_differ(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    let mut digests = Vec::new();
    for options in [
        "0.002 1000 EXPANSION 7",
        "0.002 1000 EXPANSION 6",
        "0.002 1000 NONSCALING",
        "0.0021 1000 EXPANSION 7",
        "0.002 1001 EXPANSION 7",
        "0.1 50 NONSCALING",
        "0.0001 2000000",
    ] {
        client.say("DEL k");
        assert_eq!(client.say(&format!("BF.RESERVE k {options}")), "+OK", "{options}");
        digests.push(client.digest("k"));
        client.say("BF.MADD k a b c");
        digests.push(client.digest("k"));
    }
    client.say("BF.ADD k d");
    digests.push(client.digest("k"));
    client.say("BF.RESERVE grown 0.001 5 EXPANSION 3");
    for _ in 0..100 {
        client.say(&format!("BF.ADD grown {}", digests.len()));
        digests.push(client.digest("grown"));
    }
    // One item more, or another item.
    for item in ["a", "b", "c"] {
        client.say(&format!("BF.ADD one-{item} {item}"));
        digests.push(client.digest(&format!("one-{item}")));
    }
    // The server adds a mark to the digest of a key with a time to live.
    assert_eq!(client.int("COPY one-a long-lived"), 1);
    assert_eq!(client.int("EXPIRE long-lived 100000"), 1);
    assert_ne!(client.digest("long-lived"), client.digest("one-a"), "one with a time to live");
    client.say("EXPIRE one-a 1000");
    assert_eq!(client.digest("long-lived"), client.digest("one-a"), "both with a time to live");
    client.say("PERSIST long-lived");
    client.say("PERSIST one-a");
    assert_eq!(client.digest("long-lived"), client.digest("one-a"), "none with a time to live");
    let count = digests.len();
    digests.sort();
    digests.dedup();
    assert_eq!(digests.len(), count);
}

fn a_large_filter_survives_an_append_only_file_of_commands(site: &Site) {
    let server = append_only(site.launch(), "no").start();
    let mut client = server.client();
    // More than two chunks of 16 MiB, with bits in each of them.
    client.say("BF.RESERVE large 0.01 30000000");
    for batch in 0..10 {
        let items: Vec<String> = (0..1000).map(|item| format!("{batch}-{item}")).collect();
        let mut args = vec!["BF.MADD", "large"];
        args.extend(items.iter().map(String::as_str));
        client.call(&args);
    }
    let digest = client.digest("large");
    rewrite(&mut client);
    let server = server.restart();
    let mut client = server.client();
    assert_eq!(client.digest("large"), digest);
    assert_eq!(client.say("BF.MEXISTS large 0-0 9-999"), "[1, 1]");
}

fn writes_during_a_rewrite_are_kept(site: &Site) {
    let server = append_only(site.launch(), "no").start();
    let mut client = server.client();
    client.say("BF.RESERVE paged 0.0001 2000000");
    client.say("BF.RESERVE grown 0.001 5 EXPANSION 3");
    client.say("BGREWRITEAOF");
    for item in 0..200 {
        for key in ["late", "grown", "paged"] {
            client.say(&format!("BF.ADD {key} late-{item}"));
        }
    }
    wait_until("rewrite", || {
        client.info_number("aof_rewrite_in_progress") == 0 && client.info_number("aof_rewrite_scheduled") == 0
    });
    let digests = |client: &mut Client| ["late", "grown", "paged"].map(|key| client.digest(key));
    let expected = digests(&mut client);
    let server = server.restart();
    assert_eq!(digests(&mut server.client()), expected);
}

fn loading_ignores_the_byte_limit(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    assert_eq!(client.say("BF.RESERVE paged 0.0001 2000000"), "+OK");
    let digest = client.digest("paged");
    assert_eq!(client.say("SAVE"), "+OK");
    let server = server.restart_as(|launch| launch.with_option("bf.max-filter-bytes 1024"));
    let mut client = server.client();
    assert_eq!(client.digest("paged"), digest);
    assert!(client.say("BF.RESERVE k 0.01 10000").starts_with("-ERR filter would take "));
    let payload = client.bytes(&["DUMP", "paged"]);
    // The limit applies to a filter that a client restores.
    assert_eq!(client.ask(&[b"RESTORE", b"copy".as_slice(), b"0", &payload]), "-ERR Bad data format");
    // The filter exists, but does not grow beyond the limit.
    client.say("BF.RESERVE grows 0.01 100");
    let mut refused = 0;
    for item in 0..2000 {
        refused += i32::from(client.say(&format!("BF.ADD grows item-{item}")).starts_with('-'));
    }
    assert!(refused > 0, "a filter grew beyond the limit");
}

fn a_truncated_snapshot_is_refused_with_a_log_line(site: &Site) {
    let server = site.launch().with("rdbcompression no").start();
    let mut client = server.client();
    client.say("BF.RESERVE k 0.01 1000");
    client.say("BF.MADD k a b c");
    assert_eq!(client.say("SAVE"), "+OK");
    let file = server.dir().join("dump.rdb");
    let snapshot = std::fs::read(&file).unwrap();
    let at = snapshot.windows(4).position(|window| window == b"evbl").expect("a filter in the snapshot");
    for length in [at + 2, at + 40, at + 100, snapshot.len() - 20] {
        let launch = site.launch();
        let dir = launch.dir().to_owned();
        std::fs::write(dir.join("dump.rdb"), &snapshot[..length]).unwrap();
        let log = launch.expect_dead_at_start();
        assert!(!log.contains("panicked") && !log.contains("BUG REPORT"), "{log}");
        let lower = log.to_lowercase();
        assert!(lower.contains("rdb") || lower.contains("short read"), "{log}");
    }
}
