//! A server that follows a primary or loads an append-only file has the same filters, or exits: it never creates a
//! filter from its own defaults in place of a lost one.

use crate::foreign::streams::{follow_stream, stream};
use crate::harness::{Launch, Site, Test, tests, wait_until};
use crate::journeys::{append_only, rewrite};

pub(crate) const TESTS: &[Test] = tests![
    a_server_exits_if_a_logged_filter_does_not_fit,
    a_server_exits_if_a_rewritten_filter_does_not_fit,
    a_server_exits_at_a_changed_chunk_in_its_file,
    a_replica_without_memory_for_a_filter_exits,
    a_replica_without_memory_for_a_layer_exits,
    replicated_adds_to_a_missing_filter_create_none,
];

/// Takes about 800 MB of address space, and no memory.
const LARGE: &str = "BF.RESERVE large 0.01 600000000";

/// Enough memory for a server, but not for that filter.
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
    let launch = append_only(site.launch(), "no");
    let dir = launch.clone();
    let server = launch.start();
    let mut client = server.client();
    assert_eq!(client.say(LARGE), "+OK");
    assert_eq!(client.say("BF.MADD large a b"), "[1, 1]");
    drop(server);
    assert_says_why(&cramped(dir.clone()).expect_dead_at_start(), "BF.INSERT");
    let server = dir.start();
    assert_eq!(server.client().say("BF.MEXISTS large a b"), "[1, 1]");
}

fn a_server_exits_if_a_rewritten_filter_does_not_fit(site: &Site) {
    let launch = append_only(site.launch(), "no");
    let dir = launch.clone();
    let server = launch.start();
    let mut client = server.client();
    assert_eq!(client.say(LARGE), "+OK");
    assert_eq!(client.say("BF.ADD large a"), "1");
    rewrite(&mut client);
    assert_eq!(client.say("BF.MADD large b c"), "[1, 1]");
    drop(server);
    assert_says_why(&cramped(dir.clone()).expect_dead_at_start(), "BF.LOADCHUNK");
    let server = dir.start();
    assert_eq!(server.client().say("BF.MEXISTS large a b c"), "[1, 1, 1]");
}

fn a_server_exits_at_a_changed_chunk_in_its_file(site: &Site) {
    let launch = append_only(site.launch(), "no");
    let dir = launch.clone();
    let server = launch.start();
    let mut client = server.client();
    client.say("BF.MADD large a b c");
    rewrite(&mut client);
    drop(server);
    let base = std::fs::read_dir(dir.dir().join("appendonlydir")).unwrap();
    let base = base
        .map(|entry| entry.unwrap().path())
        .find(|path| path.to_string_lossy().contains(".base."))
        .unwrap();
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
        let items: Vec<String> = (0..30_000).map(|item| format!("item-{item}")).collect();
        let mut full = false;
        for batch in items.chunks(1000) {
            client.say(&format!("BF.MADD large {}", batch.join(" ")));
            full |= client.int("BF.CARD large") == 30_000;
        }
        while !full {
            let more = format!("BF.ADD large more-{}", client.int("BF.CARD large"));
            client.say(&more);
            full = client.int("BF.CARD large") == 30_000 || client.say("BF.INFO large FILTERS") == "[2]";
        }
        client.say(add);
        let (status, log) = replica.expect_end();
        assert_eq!(status.code(), Some(1));
        let name = add.split(' ').next().unwrap();
        assert_says_why(&log, name);
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
