//! Filters survive: snapshots, append-only files, DUMP and RESTORE, each compared by digest.

use crate::dump::travel;
use crate::harness::{Client, Launch, Server, Site, Test, tests, wait_until};

pub(crate) const TESTS: &[Test] = tests![
    digests_tell_filters_apart,
    a_snapshot_survives_a_restart,
    a_background_snapshot_survives_a_restart,
    a_snapshot_survives_without_compression_or_checksum,
    debug_reload_keeps_every_filter,
    the_append_only_file_survives_a_restart,
    the_append_only_file_survives_other_defaults,
    an_append_only_file_rewritten_as_commands_survives,
    an_append_only_file_rewritten_as_a_snapshot_survives,
    a_rewritten_append_only_file_can_be_sent_by_a_client,
    a_large_filter_survives_an_append_only_file_of_commands,
    writes_during_a_rewrite_are_kept,
    dump_and_restore_make_an_equal_filter,
    every_way_of_copying_gives_the_same_digest,
    loading_ignores_the_byte_limit,
    a_cut_snapshot_refuses_to_load_and_says_so,
];

const KEYS: &[&str] = &["empty", "default", "grown", "fixed", "full", "paged", "binary", "long-lived"];

/// One filter of every shape.
fn fill(client: &mut Client) {
    assert_eq!(client.say("BF.RESERVE empty 0.002 1000 EXPANSION 7"), "+OK");
    client.say("BF.MADD default a b c");
    client.say("BF.RESERVE grown 0.001 5 EXPANSION 3");
    client.say("BF.RESERVE fixed 0.1 50 NONSCALING");
    client.say("BF.RESERVE full 0.01 3 NONSCALING");
    assert_eq!(client.say("BF.RESERVE paged 0.0001 2000000"), "+OK");
    for item in 0..1000 {
        client.say(&format!("BF.ADD grown item-{item}"));
        client.say(&format!("BF.ADD paged item-{item}"));
    }
    for item in 0..30 {
        client.say(&format!("BF.ADD fixed item-{item}"));
        client.say(&format!("BF.ADD full item-{item}"));
    }
    client.ask(&[b"BF.MADD".as_slice(), b"binary", b"", b"\0", b"\xff\r\n"]);
    client.say("BF.ADD long-lived a");
    assert_eq!(client.int("EXPIRE long-lived 100000"), 1);
}

/// Digest, BF.DEBUG and BF.INFO (without the memory, which depends on the allocator) of every filter.
fn state(client: &mut Client) -> Vec<[String; 5]> {
    let words = ["CAPACITY", "FILTERS", "EXPANSION"];
    KEYS.iter()
        .map(|key| {
            let info = words.map(|word| client.say(&format!("BF.INFO {key} {word}")));
            let [capacity, filters, expansion] = info;
            [client.digest(key), client.say(&format!("BF.DEBUG {key}")), capacity, filters, expansion]
        })
        .collect()
}

fn assert_state(client: &mut Client, expected: &[[String; 5]]) {
    for ((key, now), before) in KEYS.iter().zip(state(client)).zip(expected) {
        assert_eq!(now, *before, "{key}");
    }
    for item in 0..1000 {
        assert_eq!(client.int(&format!("BF.EXISTS grown item-{item}")), 1);
        assert_eq!(client.int(&format!("BF.EXISTS paged item-{item}")), 1);
    }
    assert_eq!(client.ask(&[b"BF.MEXISTS".as_slice(), b"binary", b"", b"\0", b"\xff\r\n"]), "[1, 1, 1]");
    let ttl = client.int("TTL long-lived");
    assert!(ttl > 0, "{ttl}");
    assert_eq!(client.say("BF.ADD full something-new"), "-ERR non scaling filter is full");
}

fn digests_tell_filters_apart(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    fill(&mut client);
    let mut digests: Vec<String> = KEYS.iter().map(|key| client.digest(key)).collect();
    client.say("BF.MADD default d");
    digests.push(client.digest("default"));
    client.say("BF.RESERVE empty2 0.002 1000 EXPANSION 6");
    digests.push(client.digest("empty2"));
    client.say("BF.RESERVE empty3 0.002 1000 NONSCALING");
    digests.push(client.digest("empty3"));
    client.say("BF.RESERVE empty4 0.0021 1000 EXPANSION 7");
    digests.push(client.digest("empty4"));
    client.say("BF.RESERVE empty5 0.002 1001 EXPANSION 7");
    digests.push(client.digest("empty5"));
    // A single item more or other.
    for item in ["a", "b", "c"] {
        client.say(&format!("BF.ADD one-{item} {item}"));
        digests.push(client.digest(&format!("one-{item}")));
    }
    // The server adds a mark to the digest of a key with a time to live.
    assert_ne!(
        client.digest("long-lived"),
        client.digest("one-a"),
        "the same filter, one with a time to live"
    );
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

/// Fills a server, saves by `save`, restarts, and compares.
fn survives(launch: Launch, save: impl FnOnce(&mut Client), after: impl FnOnce(Launch) -> Launch) -> Server {
    let server = launch.start();
    let mut client = server.client();
    fill(&mut client);
    let expected = state(&mut client);
    save(&mut client);
    let server = server.restart_as(after);
    assert_state(&mut server.client(), &expected);
    server
}

fn save(client: &mut Client) {
    assert_eq!(client.say("SAVE"), "+OK");
}

fn a_snapshot_survives_a_restart(site: &Site) {
    survives(site.launch(), save, |launch| launch);
}

fn a_background_snapshot_survives_a_restart(site: &Site) {
    let background = |client: &mut Client| {
        client.say("BGSAVE");
        wait_until("background save", || client.info_number("rdb_bgsave_in_progress") == 0);
        assert_eq!(client.info("rdb_last_bgsave_status").as_deref(), Some("ok"));
        assert_eq!(client.info_number("rdb_changes_since_last_save"), 0);
    };
    survives(site.launch(), background, |launch| launch);
}

fn a_snapshot_survives_without_compression_or_checksum(site: &Site) {
    let launch = site.launch().with("rdbcompression no").with("rdbchecksum no");
    survives(launch, save, |launch| launch);
}

fn debug_reload_keeps_every_filter(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    fill(&mut client);
    let expected = state(&mut client);
    for _ in 0..2 {
        assert_eq!(client.say("DEBUG RELOAD"), "+OK");
        assert_state(&mut client, &expected);
    }
}

pub(crate) fn append_only(launch: Launch, preamble: &str) -> Launch {
    launch.with("appendonly yes").with("appendfsync always").with(format!("aof-use-rdb-preamble {preamble}"))
}

pub(crate) fn rewrite(client: &mut Client) {
    wait_until("no rewrite running", || client.info_number("aof_rewrite_in_progress") == 0);
    let reply = client.say("BGREWRITEAOF");
    assert!(reply.contains("append only file rewriting"), "{reply}");
    wait_until("rewrite", || {
        client.info_number("aof_rewrite_in_progress") == 0 && client.info_number("aof_rewrite_scheduled") == 0
    });
    assert_eq!(client.info("aof_last_bgrewrite_status").as_deref(), Some("ok"));
}

fn the_append_only_file_survives_a_restart(site: &Site) {
    survives(append_only(site.launch(), "yes"), |_| (), |launch| launch);
}

fn the_append_only_file_survives_other_defaults(site: &Site) {
    let other = |launch: Launch| {
        launch
            .with_option("bf.error-rate 0.25")
            .with_option("bf.initial-size 7")
            .with_option("bf.expansion-factor 0")
            .with_option("bf.max-filter-bytes 1024")
    };
    survives(append_only(site.launch(), "no"), |_| (), other);
}

fn an_append_only_file_rewritten_as_commands_survives(site: &Site) {
    let server = survives(append_only(site.launch(), "no"), rewrite, |launch| launch);
    let base = append_only_base(&server);
    assert!(base.windows(12).any(|window| window == b"BF.LOADCHUNK"), "the file holds no commands of ours");
}

fn an_append_only_file_rewritten_as_a_snapshot_survives(site: &Site) {
    let server = survives(append_only(site.launch(), "yes"), rewrite, |launch| launch);
    let base = append_only_base(&server);
    assert!(base.starts_with(b"REDIS") || base.starts_with(b"VALKEY"), "the file is no snapshot");
}

/// The bytes of the base file of an append-only file.
pub(crate) fn append_only_base(server: &Server) -> Vec<u8> {
    let dir = std::fs::read_dir(server.dir().join("appendonlydir")).unwrap();
    let base = dir.map(|entry| entry.unwrap().path()).find(|path| path.to_string_lossy().contains(".base."));
    std::fs::read(base.unwrap()).unwrap()
}

/// What docs/migration.md does with `redis-cli --pipe`.
fn a_rewritten_append_only_file_can_be_sent_by_a_client(site: &Site) {
    let server = append_only(site.launch(), "no").start();
    let mut client = server.client();
    fill(&mut client);
    client.say("BF.IMPORT imported EMPTY SCHEME guava-mitz64 BITS 8192 HASHES 3");
    client.say("BF.MADD imported a b c");
    client.say("BF.RESERVE theirs 0.01 100 FORMAT redisbloom");
    client.say("BF.MADD theirs a b c");
    client.say("BF.INSERT seeded FORMAT valkey-bloom ITEMS a b c");
    rewrite(&mut client);
    let directory = server.dir().join("appendonlydir");
    let files = std::fs::read_dir(&directory).expect("the directory of append-only files");
    let base = files.flatten().map(|file| file.path()).find(|path| path.to_string_lossy().contains(".base."));
    let mut commands = std::fs::read(base.expect("a rewritten file")).expect("read the file");
    let target = site.start();
    let mut raw = target.raw();
    commands.extend_from_slice(b"*2\r\n$4\r\nECHO\r\n$8\r\nall sent\r\n");
    let mut reply = raw.raw(&commands);
    while !reply.ends_with(b"all sent\r\n") {
        assert!(!reply.starts_with(b"-"), "{}", String::from_utf8_lossy(&reply));
        reply = raw.next();
    }
    let mut copies = target.client();
    for key in KEYS.iter().copied().chain(["imported", "theirs", "seeded"]) {
        assert_eq!(copies.digest(key), client.digest(key), "{key}");
    }
}

fn a_large_filter_survives_an_append_only_file_of_commands(site: &Site) {
    let server = append_only(site.launch(), "no").start();
    let mut client = server.client();
    // More than two chunks of 16 MiB, and bits in each of them.
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
    fill(&mut client);
    client.say("BGREWRITEAOF");
    for item in 0..200 {
        client.say(&format!("BF.ADD late late-{item}"));
        client.say(&format!("BF.ADD grown late-{item}"));
    }
    wait_until("rewrite", || {
        client.info_number("aof_rewrite_in_progress") == 0 && client.info_number("aof_rewrite_scheduled") == 0
    });
    let digests = ["late", "grown"].map(|key| client.digest(key));
    let server = server.restart();
    let mut client = server.client();
    assert_eq!(["late", "grown"].map(|key| client.digest(key)), digests);
}

fn dump_and_restore_make_an_equal_filter(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    fill(&mut client);
    client.say("PERSIST long-lived");
    for key in KEYS {
        let payload = client.bytes(&["DUMP", key]);
        let digest = client.digest(key);
        assert_eq!(client.ask(&[b"RESTORE", b"copy".as_slice(), b"0", &payload]), "+OK", "{key}");
        assert_eq!(client.digest("copy"), digest, "{key}");
        assert_eq!(client.bytes(&["DUMP", "copy"]), payload, "{key}");
        assert_eq!(
            client.ask(&[b"RESTORE", b"copy".as_slice(), b"0", &payload]),
            "-BUSYKEY Target key name already exists."
        );
        // Restored over itself, and with a time to live.
        assert_eq!(client.ask(&[b"RESTORE", key.as_bytes(), b"50000", &payload, b"REPLACE"]), "+OK");
        assert_eq!(client.int(&format!("PERSIST {key}")), 1);
        assert_eq!(client.digest(key), digest);
        client.say("DEL copy");
    }
    // On another server too.
    let other = site.launch().with_option("bf.expansion-factor 0").start();
    let mut elsewhere = other.client();
    for key in KEYS {
        let payload = client.bytes(&["DUMP", key]);
        assert_eq!(elsewhere.ask(&[b"RESTORE", key.as_bytes(), b"0", &payload]), "+OK", "{key}");
        assert_eq!(elsewhere.digest(key), client.digest(key), "{key}");
    }
}

fn every_way_of_copying_gives_the_same_digest(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    fill(&mut client);
    client.say("PERSIST long-lived");
    for key in KEYS {
        let digest = client.digest(key);
        assert_eq!(client.int(&format!("COPY {key} copied")), 1);
        travel(&mut client, key, "travelled");
        let payload = client.bytes(&["DUMP", key]);
        client.ask(&[b"RESTORE", b"restored".as_slice(), b"0", &payload]);
        client.say(&format!("RENAME {key} renamed"));
        for copy in ["copied", "travelled", "restored", "renamed"] {
            assert_eq!(client.digest(copy), digest, "{key} {copy}");
        }
        client.say("DEL copied travelled restored renamed");
    }
}

fn loading_ignores_the_byte_limit(site: &Site) {
    let small = |launch: Launch| launch.with_option("bf.max-filter-bytes 1024");
    let server = survives(site.launch(), save, small);
    let mut client = server.client();
    assert!(client.say("BF.RESERVE k 0.01 10000").starts_with("-ERR filter would take "));
    let payload = client.bytes(&["DUMP", "paged"]);
    // What a client restores is a filter that the client makes.
    assert_eq!(client.ask(&[b"RESTORE", b"copy".as_slice(), b"0", &payload]), "-ERR Bad data format");
    // It is there, but does not grow beyond the limit.
    client.say("BF.RESERVE grows 0.01 100");
    let mut refused = 0;
    for item in 0..2000 {
        refused += i32::from(client.say(&format!("BF.ADD grows item-{item}")).starts_with('-'));
    }
    assert!(refused > 0, "a filter grew beyond the limit");
}

fn a_cut_snapshot_refuses_to_load_and_says_so(site: &Site) {
    let server = site.launch().with("rdbcompression no").start();
    let mut client = server.client();
    client.say("BF.RESERVE k 0.01 1000");
    client.say("BF.MADD k a b c");
    save(&mut client);
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
