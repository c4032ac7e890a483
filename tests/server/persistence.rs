//! Snapshots and append-only files: cases that `journeys` does not have, and the files of every release. A server that
//! follows a primary or loads an append-only file has the same filters, or exits. It never replaces a lost filter with
//! one of its own defaults.

use crate::dump::{chunks, load};
use crate::foreign::streams::{follow_stream, stream};
use crate::foreign::{OnServer, restore};
use crate::harness::{Client, Launch, Site, Test, append_only_file, numbered, tests, wait_until};
use crate::journeys::{append_only, append_only_base, rewrite};
use crate::support::fixtures::{self, Case, releases, server_file};

pub(crate) const TESTS: &[Test] = tests![
    digests_of_different_filters_differ,
    large_filters_survive_an_append_only_file_of_commands,
    writes_during_a_rewrite_are_kept,
    a_filter_without_its_last_chunks_survives_a_rewrite,
    a_truncated_snapshot_is_refused_with_a_log_line,
    snapshots_of_every_release_load,
    append_only_files_of_every_release_load,
    dumps_and_chunks_of_every_release_load,
    a_server_exits_if_a_logged_filter_does_not_fit,
    a_server_exits_at_a_changed_chunk_in_its_file,
    a_replica_without_memory_for_a_filter_exits,
    a_replica_without_memory_for_a_layer_exits,
    replicated_adds_to_a_missing_filter_create_none,
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
        "0.001 5 EXPANSION 3",
    ] {
        client.say("DEL k");
        assert_eq!(client.say(&format!("BF.RESERVE k {options}")), "+OK", "{options}");
        digests.push(client.digest("k"));
        for item in 0..20 {
            client.say(&format!("BF.ADD k {item}"));
            digests.push(client.digest("k"));
        }
    }
    let count = digests.len();
    digests.sort();
    digests.dedup();
    assert_eq!(digests.len(), count);
    // The server's digest also says whether a key has a time to live.
    assert_eq!(client.int("COPY k long-lived"), 1);
    client.say("EXPIRE long-lived 100000");
    assert_ne!(client.digest("long-lived"), client.digest("k"));
}

fn large_filters_survive_an_append_only_file_of_commands(site: &Site) {
    let server = append_only(site.launch(), "no").start();
    let mut client = server.client();
    // Each filter has three chunks of up to 16 MiB. `own` has bits in each of them. In RedisBloom's format, chunks
    // without a bit are written too.
    let digests = |client: &mut Client| ["own", "redisbloom", "empty"].map(|key| client.digest(key));
    client.say("BF.RESERVE own 0.01 30000000");
    client.say("BF.RESERVE redisbloom 0.01 30000000 FORMAT redisbloom");
    client.say("BF.RESERVE empty 0.01 30000000 FORMAT redisbloom");
    client.many("BF.MADD own", &numbered("item", 0..10_000));
    client.say("BF.ADD redisbloom a");
    let expected = digests(&mut client);
    rewrite(&mut client);
    let base = append_only_base(&server);
    assert_eq!(base.windows(12).filter(|window| *window == b"BF.LOADCHUNK").count(), 3 * (1 + 3));
    let server = server.restart();
    let mut client = server.client();
    assert_eq!(digests(&mut client), expected);
    assert_eq!(client.say("BF.MEXISTS own item-0 item-9999"), "[1, 1]");
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

/// A client may send the header of a dump and never the last chunk.
fn a_filter_without_its_last_chunks_survives_a_rewrite(site: &Site) {
    let server = append_only(site.launch(), "no").start();
    let mut client = server.client();
    for reserve in [
        "BF.RESERVE {d}counting 0.01 100 COUNTING",
        "BF.RESERVE {d}outgrown 0.01 100",
        "BF.RESERVE {d}window 0.01 100 WINDOW 86400",
        "BF.INSERT {d}table ITEMS first",
    ] {
        client.say(reserve);
    }
    let mut copies = Vec::new();
    for name in ["counting", "outgrown", "window", "table"] {
        let key = format!("{{d}}{name}");
        client.many(&format!("BF.MADD {key}"), &numbered("item", 0..20_000));
        let chunks = chunks(&mut client, &key);
        for count in 1..=chunks.len() {
            let copy = format!("{{d}}{name}-{count}");
            for (iterator, data) in &chunks[..count] {
                assert_eq!(load(&mut client, &copy, *iterator, data), "+OK", "{copy}");
            }
            let reply = client.say(&format!("BF.ADD {copy} new"));
            assert_eq!(reply.starts_with("-ERR the filter is being loaded"), count < chunks.len(), "{reply}");
            copies.push(copy);
        }
    }
    let state = |client: &mut Client| -> Vec<(String, String)> {
        copies.iter().map(|key| (client.digest(key), client.say(&format!("BF.CARD {key}")))).collect()
    };
    let expected = state(&mut client);
    rewrite(&mut client);
    let server = server.restart();
    assert_eq!(state(&mut server.client()), expected);
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

fn snapshots_of_every_release_load(site: &Site) {
    for release in releases() {
        let launch = site.launch();
        std::fs::write(launch.dir().join("dump.rdb"), server_file(release, "rdb_b64")).unwrap();
        assert_all(&mut launch.start().client(), &fixtures::cases(release));
    }
}

fn append_only_files_of_every_release_load(site: &Site) {
    for release in releases() {
        let mut cases = fixtures::cases(release);
        for field in ["commands_aof_b64", "rewritten_aof_b64"] {
            // Every server also reads the single append-only file of servers before 7.0.
            let launch = append_only(site.launch(), "no");
            std::fs::write(launch.dir().join("appendonly.aof"), server_file(release, field)).unwrap();
            assert_all(&mut launch.start().client(), &cases);
            // A rewritten file has only the filters that were recorded with chunks.
            cases.retain(|case| !case.chunks().is_empty());
        }
    }
}

fn dumps_and_chunks_of_every_release_load(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    for case in releases().flat_map(fixtures::cases) {
        assert_eq!(restore(&mut client, "restored", &case.payload), "+OK", "{}", case.key);
        case.assert_lookups(&mut client, "restored");
        for (iterator, data) in case.chunks() {
            assert_eq!(load(&mut client, "copy", iterator.cast_signed(), &data), "+OK", "{}", case.key);
        }
        if !case.chunks().is_empty() {
            assert_eq!(client.digest("copy"), client.digest("restored"), "{}", case.key);
        }
        client.say("DEL restored copy");
    }
}

/// Asserts that the server has these filters and no others, under the names of the cases.
fn assert_all(client: &mut Client, cases: &[Case]) {
    assert_eq!(client.say("DBSIZE"), cases.len().to_string());
    for case in cases {
        case.assert_lookups(client, case.json["case"].as_str().unwrap());
    }
}

/// Takes about 800 MB of address space, but no memory until it is used.
const LARGE: &str = "BF.RESERVE large 0.01 600000000";

/// Gives the server enough address space to run, but not for the filter of [`LARGE`].
fn cramped(launch: Launch) -> Launch {
    launch.with_address_space_mib(600)
}

fn assert_says_why(log: &str, command: &str) {
    let line = log
        .lines()
        .find(|line| line.contains(&format!("{command} from the primary or the append-only file")));
    let line = line.unwrap_or_else(|| panic!("nothing of {command} in the log:\n{log}"));
    assert!(line.contains("for key 'large'") && line.contains(" bytes"), "{line}");
}

fn a_server_exits_if_a_logged_filter_does_not_fit(site: &Site) {
    for (is_rewritten, command) in [(false, "BF.INSERT"), (true, "BF.LOADCHUNK")] {
        let launch = append_only(site.launch(), "no");
        let server = launch.clone().start();
        let mut client = server.client();
        assert_eq!(client.say(LARGE), "+OK");
        assert_eq!(client.say("BF.ADD large a"), "1");
        if is_rewritten {
            rewrite(&mut client);
        }
        assert_eq!(client.say("BF.MADD large b c"), "[1, 1]");
        drop(server);
        assert_says_why(&cramped(launch.clone()).expect_dead_at_start(), command);
        let server = launch.start();
        assert_eq!(server.client().say("BF.MEXISTS large a b c"), "[1, 1, 1]");
    }
}

fn a_server_exits_at_a_changed_chunk_in_its_file(site: &Site) {
    let launch = append_only(site.launch(), "no");
    let dir = launch.clone();
    let server = launch.start();
    let mut client = server.client();
    client.say("BF.MADD large a b c");
    rewrite(&mut client);
    drop(server);
    let base = append_only_file(dir.dir(), ".base.");
    let mut bytes = std::fs::read(&base).unwrap();
    // The last bytes are the checksum of the last chunk, and an end of line.
    let at = bytes.len() - 10;
    bytes[at] ^= 0x40;
    std::fs::write(&base, bytes).unwrap();
    let log = dir.expect_dead_at_start();
    assert_says_why(&log, "BF.LOADCHUNK");
    assert!(log.contains("received bad data"), "{log}");
}

fn a_replica_without_memory_for_a_filter_exits(site: &Site) {
    let primary = site.start();
    let replica = primary.replica(cramped(site.launch()));
    let mut client = primary.client();
    assert_eq!(client.say(LARGE), "+OK");
    assert_eq!(client.say("BF.ADD large a"), "1");
    let (status, log) = replica.expect_end();
    assert_eq!(status.code(), Some(1));
    assert_says_why(&log, "BF.INSERT");
    assert_eq!(client.say("BF.EXISTS large a"), "1");
}

fn a_replica_without_memory_for_a_layer_exits(site: &Site) {
    for add in ["BF.ADD large b", "BF.MADD large a b"] {
        let primary = site.start();
        let replica = primary.replica(cramped(site.launch()));
        let mut client = primary.client();
        // The first layer is small; the second one needs 1.2 GB.
        assert_eq!(client.say("BF.RESERVE large 0.01 30000 EXPANSION 32768 FORMAT redisbloom"), "+OK");
        client.many("BF.MADD large", &numbered("item", 0..30_000));
        // Adds more items, because some were false positives and are not counted.
        while client.int("BF.CARD large") < 30_000 {
            let more = format!("BF.ADD large more-{}", client.int("BF.CARD large"));
            client.say(&more);
        }
        client.say(add);
        let (status, log) = replica.expect_end();
        assert_eq!(status.code(), Some(1));
        assert_says_why(&log, add.split(' ').next().unwrap());
        assert_eq!(client.say("BF.EXISTS large b"), "1");
    }
}

fn replicated_adds_to_a_missing_filter_create_none(site: &Site) {
    let lines =
        ["SELECT 0", "BF.ADD a x", "BF.MADD b x y", "BF.INSERT c CAPACITY 7 ITEMS x", "SET end marker"];
    let replica = follow_stream(site.launch().expecting("CRITICAL"), stream(&lines));
    let mut client = replica.client();
    wait_until("the stream is carried out", || client.int("EXISTS end") == 1);
    assert_eq!(client.int("DBSIZE"), 1);
    assert!(replica.log().contains("a replicated command adds to a filter that this server does not have"));
}
