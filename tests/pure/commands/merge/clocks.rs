//! BF.MERGE of sliding-window filters of servers whose clocks differ. No source makes items of the destination expire.

use everbloom_command::Settings;

use crate::support::saved::{assert_valid, chunks};
use crate::support::server::Server;

const WINDOW_MS: u64 = 14 * 3_600_000;
const GENERATION_MS: u64 = WINDOW_MS / 14;
/// A time at the start of a generation.
const START_MS: u64 = 1_800_000_000_000 / WINDOW_MS * WINDOW_MS;

/// Returns a server with a filter `dest`, whose items `oldest` are a window old and `old` six tenths of a window, and a
/// filter `source`, made at a time that is `ahead_ms` later than that of the server.
fn server(options: &str, ahead_ms: u64) -> Server {
    let mut server = Server::at(START_MS - WINDOW_MS);
    server.must(&format!("BF.RESERVE dest 0.001 1000 {options}"));
    server.add("dest", "oldest", 0..200);
    server.now_ms = START_MS - WINDOW_MS / 10 * 6;
    server.add("dest", "old", 0..1000);
    server.now_ms = START_MS - GENERATION_MS / 2;
    server.add("dest", "recent", 0..50);
    server.now_ms = START_MS + ahead_ms;
    server.must(&format!("BF.RESERVE source 0.001 1000 {options}"));
    server.add("source", "ahead", 0..300);
    server.now_ms = START_MS;
    server
}

/// Returns the state of a replica whose clock shows another time, after the commands of a server.
fn assert_same_on_replicas(server: &Server, context: &str) {
    for now_ms in [0, START_MS / 2, START_MS, START_MS + WINDOW_MS / 2, START_MS + 100 * WINDOW_MS] {
        let mut replica = Server::at(now_ms);
        replica.replay(&server.replicated_calls);
        assert!(replica.state() == server.state(), "{context}, clock {now_ms}");
    }
}

/// Items of a later time count as of the current time. The bounds are a generation, and five seconds in short windows.
#[test]
fn items_of_a_clock_that_is_a_little_ahead_count_as_now() {
    for options in [format!("PWINDOW {WINDOW_MS}"), format!("PWINDOW {WINDOW_MS} NOREFRESH")] {
        for ahead_ms in [0, 1, GENERATION_MS - 1, GENERATION_MS] {
            let context = format!("{options}, {ahead_ms} ms ahead");
            let mut server = server(&options, ahead_ms);
            server.must("BF.MERGE dest source");
            assert_valid(server.filter("dest"), &context);
            assert_eq!(server.found("dest", "oldest", 0..200), 200, "{context}");
            assert_eq!(server.found("dest", "old", 0..1000), 1000, "{context}");
            assert_eq!(server.found("dest", "ahead", 0..300), 300, "{context}");
            assert_same_on_replicas(&server, &context);
            // Both expire as if the items of the source had been added now.
            server.now_ms = START_MS + WINDOW_MS / 10 * 4 + 2 * GENERATION_MS;
            assert!(server.found("dest", "old", 0..1000) < 30, "{context}");
            server.now_ms = START_MS + WINDOW_MS;
            assert_eq!(server.found("dest", "ahead", 0..300), 300, "{context}");
            server.now_ms += 2 * GENERATION_MS;
            assert!(server.found("dest", "ahead", 0..300) < 20, "{context}");
        }
    }
}

#[test]
fn a_short_window_permits_five_seconds() {
    for (ahead_ms, is_accepted) in [(900, true), (4_900, true), (5_200, false), (60_000, false)] {
        let mut server = Server::at(START_MS);
        server.must("BF.RESERVE dest 0.001 1000 PWINDOW 1400");
        server.add("dest", "own", 0..500);
        server.now_ms += ahead_ms;
        server.must("BF.RESERVE source 0.001 1000 PWINDOW 1400");
        server.add("source", "ahead", 0..300);
        server.now_ms = START_MS;
        let before = server.state();
        let reply = server.run("BF.MERGE dest source");
        assert_eq!(reply == "+OK", is_accepted, "{ahead_ms}: {reply}");
        assert!(is_accepted || server.state() == before, "{ahead_ms}");
        assert_eq!(server.found("dest", "own", 0..500), 500, "{ahead_ms}");
        if is_accepted {
            assert_eq!(server.found("dest", "ahead", 0..300), 300, "{ahead_ms}");
            server.now_ms = START_MS + 1_700;
            assert!(server.found("dest", "ahead", 0..300) < 20, "{ahead_ms}");
        }
        server.now_ms = START_MS;
        assert_same_on_replicas(&server, "short");
    }
}

/// The error has both times. It does not depend on what the destination is.
#[test]
fn a_source_whose_clock_is_further_ahead_is_refused() {
    for ahead_ms in [2 * GENERATION_MS, WINDOW_MS / 10 * 9, WINDOW_MS, 2 * WINDOW_MS] {
        let mut server = server(&format!("PWINDOW {WINDOW_MS}"), ahead_ms);
        let (before, replicated) = (server.state(), server.replicated.len());
        let newest_ms = (START_MS + ahead_ms) / GENERATION_MS * GENERATION_MS;
        let refused = format!(
            "-ERR the newest items of the source 'source' are of {newest_ms}, and it is {START_MS} here (milliseconds of \
             UNIX time): check the clocks"
        );
        for line in [
            "BF.MERGE dest source",
            "BF.MERGE dest source FORCE",
            "BF.MERGE new source",
            "BF.MERGE new dest source",
        ] {
            assert_eq!(server.run(line), refused, "{line}, {ahead_ms} ms ahead");
            assert!(server.state() == before && server.replicated.len() == replicated, "{line}");
        }
        assert_eq!(server.found("dest", "old", 0..1000), 1000);
    }
}

/// One source that is a little ahead must not make items of another one expire.
#[test]
fn a_new_destination_counts_later_items_as_now() {
    for line in ["BF.MERGE new dest source", "BF.MERGE new source dest", "BF.MERGE new source"] {
        let mut server = server(&format!("PWINDOW {WINDOW_MS}"), GENERATION_MS);
        server.must(line);
        let items = if line.contains("dest") { 1000 } else { 0 };
        assert_eq!(server.found("new", "oldest", 0..items / 5), items / 5, "{line}");
        assert_eq!(server.found("new", "old", 0..items), items, "{line}");
        assert_eq!(server.found("new", "ahead", 0..300), 300, "{line}");
        assert_valid(server.filter("new"), line);
        assert_same_on_replicas(&server, line);
        server.now_ms = START_MS + WINDOW_MS + GENERATION_MS - 1;
        assert_eq!(server.found("new", "ahead", 0..300), 300, "{line}");
        server.now_ms += GENERATION_MS;
        assert!(server.found("new", "ahead", 0..300) < 20, "{line}");
    }
}

/// If the clock of a server went back, its filters keep their time. They merge with each other.
#[test]
fn filters_of_a_clock_that_went_back_are_merged() {
    let mut server = Server::at(START_MS);
    for key in ["dest", "source"] {
        server.must(&format!("BF.RESERVE {key} 0.001 1000 PWINDOW {WINDOW_MS}"));
        server.add(key, key, 0..500);
        server.now_ms += GENERATION_MS / 3;
    }
    server.now_ms = START_MS - 3 * WINDOW_MS;
    server.must("BF.MERGE dest source");
    assert_eq!(server.found("dest", "dest", 0..500) + server.found("dest", "source", 0..500), 1000);
    assert!(
        server.run("BF.MERGE new dest").starts_with("-ERR the newest items of the source 'dest' are of ")
    );
}

/// Only the time of a merge that changes the time of items is replicated. Keys may have any name.
#[test]
fn a_merge_is_replicated_with_the_time_if_a_source_is_ahead() {
    let mut server = server(&format!("PWINDOW {WINDOW_MS}"), GENERATION_MS);
    for (key, now_ms) in [("near", START_MS), ("AT", START_MS), ("5", START_MS), ("FORCE", START_MS)] {
        server.now_ms = now_ms;
        server.must(&format!("BF.RESERVE {key} 0.001 1000 PWINDOW {WINDOW_MS}"));
        server.add(key, key, 0..20);
    }
    let at = format!("AT {START_MS}");
    for (sent, replicated) in [
        ("BF.MERGE dest near FORCE", "BF.MERGE dest near FORCE".to_owned()),
        ("BF.MERGE dest near source FORCE", format!("BF.MERGE dest near source FORCE {at}")),
        ("BF.MERGE one near AT 5", format!("BF.MERGE one near AT 5 {at}")),
        ("BF.MERGE two AT 5", "BF.MERGE two AT 5".to_owned()),
        ("BF.MERGE three source FORCE AT 5 FORCE", format!("BF.MERGE three source FORCE AT 5 FORCE {at}")),
        ("BF.MERGE four near FORCE AT FORCE", "BF.MERGE four near FORCE AT FORCE".to_owned()),
    ] {
        server.must(sent);
        assert_eq!(server.replicated.last(), Some(&replicated), "{sent}");
    }
    assert_eq!(server.found("three", "AT", 0..20) + server.found("three", "5", 0..20), 40);
    assert_same_on_replicas(&server, "names");
    server.assert_replicated(Settings::DEFAULT);
    // From a client, these words are keys.
    let reply = server.run(&format!("BF.MERGE dest near {at}"));
    assert_eq!(reply, format!("-ERR not found: the source '{START_MS}' does not exist"));
}

/// What a server has in its snapshot, its append-only file or from its primary is never refused.
#[test]
fn a_replicated_merge_accepts_every_time() {
    let mut server = server(&format!("PWINDOW {WINDOW_MS}"), WINDOW_MS / 2);
    server.is_replicated = true;
    server.must("BF.MERGE dest source");
    assert_eq!(server.found("dest", "ahead", 0..300), 300);
}

/// A load makes a new filter, so that no other items can expire. It accepts a clock that is a window ahead.
#[test]
fn a_header_of_a_clock_that_is_ahead_is_loaded() {
    let mut server = server(&format!("PWINDOW {WINDOW_MS}"), WINDOW_MS / 10 * 9);
    for (iterator, data) in chunks(server.filter("source"), 1) {
        let iterator = iterator.to_string();
        assert_eq!(server.call(&[b"BF.LOADCHUNK", b"new", iterator.as_bytes(), &data]), "+OK");
    }
    assert_eq!(server.found("new", "ahead", 0..300), 300);
}
