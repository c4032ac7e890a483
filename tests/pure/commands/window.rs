//! WINDOW, PWINDOW, NOREFRESH and AT: sliding-window filters, their memory and limits, and the time in replicated
//! commands.

use crate::support::effort;
use crate::support::make::START_MS;
use crate::support::saved::{chunks, digested, loaded, saved};
use crate::support::server::Server;

/// Returns a server whose clock is at the start of a generation of a window of 14 seconds.
fn server() -> Server {
    Server::at(START_MS / 14_000 * 14_000)
}

/// Adds the first `count` items with a name. Returns how many were refused.
fn add(server: &mut Server, name: &str, count: u64) -> usize {
    server.batches("BF.MADD k", &format!("{name}-"), 0..count).matches("-ERR").count()
}

/// Returns how many of the first `count` items with a name are found.
fn found(server: &mut Server, name: &str, count: u64) -> u64 {
    server.found("k", &format!("{name}-"), 0..count)
}

fn size_bytes(server: &Server) -> u64 {
    server.filter("k").size_bytes()
}

/// Returns a whole number of BF.INFO.
fn number(server: &mut Server, field: &str) -> u64 {
    server.number("k", field) as u64
}

/// A client may not load items of a clock that is far ahead.
#[test]
fn items_of_a_clock_that_is_far_ahead_are_refused() {
    const REFUSED: &str =
        "-ERR the items are more than a window ahead of the server's clock: check the clocks";
    for (ahead_ms, is_refused) in [(13_000, false), (16_000, true)] {
        let mut server = server();
        let start = server.now_ms;
        server.now_ms += ahead_ms;
        server.must("BF.RESERVE ahead 0.01 1000 WINDOW 14");
        server.must("BF.MADD ahead a b c");
        let (iterator, header) = chunks(server.filter("ahead"), 1).swap_remove(0);
        server.now_ms = start;
        let iterator = iterator.to_string();
        let loaded = server.call(&[b"BF.LOADCHUNK", b"new", iterator.as_bytes(), &header]);
        assert_eq!(loaded, if is_refused { REFUSED } else { "+OK" });
        assert_eq!(server.keys.contains_key(&b"new"[..]), !is_refused);
    }
}

/// RESTORE is replicated as it was sent. A client's payload is checked, and a replica's is not.
#[test]
fn a_restored_window_is_the_same_on_a_replica() {
    const ITEMS: u64 = 2_700_000;
    let mut server = server();
    server.must(&format!("BF.RESERVE k 0.01 {ITEMS} WINDOW 140"));
    let items: Vec<u8> = (0..ITEMS).flat_map(u64::to_le_bytes).collect();
    server.call(&[b"BF.BULKADD", b"k", b"FIXED", b"8", &items]);
    server.now_ms += 300_000;
    add(&mut server, "new", 20_000);
    let record = saved(server.filter("k"));
    let primary = loaded(&record, u64::MAX).unwrap();
    let table = primary.table().unwrap();
    assert!(table.counts().is_proportionate(table.kind(), table.used_slots()));
    let replica = loaded(&record, u64::MAX).unwrap();
    assert!(digested(&primary) == digested(&replica));
}

/// Codes of generations repeat every sixteen generations.
#[test]
fn clocks_that_jump_neither_revive_nor_lose_items() {
    let coarse = [14, 15, 16, 17, 31, 32, 33, 48, 1000].map(|seconds| ("WINDOW 14", seconds));
    // A step of a second, of which a window has 120.
    let fine = [120, 121, 122, 135, 136, 137, 255, 256, 257, 512, 1000];
    for (window, generations) in
        coarse.into_iter().chain(fine.map(|seconds| ("WINDOW 120 STEPS 120", seconds)))
    {
        let steps = if window == "WINDOW 14" { 14 } else { 120 };
        let mut server = Server::at(START_MS / 120_000 * 120_000 / 14_000 * 14_000);
        server.now_ms = server.now_ms / 1000 * 1000;
        let start = server.now_ms;
        server.run(&format!("BF.RESERVE k 0.0001 5000 {window}"));
        add(&mut server, "old", 2000);
        server.now_ms = start + generations * 1000;
        let live = if generations == steps { 2000 } else { 0 };
        assert!(found(&mut server, "old", 2000) <= live + 2, "{generations}");
        assert_eq!(server.run("BF.CARD k"), format!(":{live}"));
        // Adds to some segments do not change what the others have.
        add(&mut server, "new", 20);
        assert!(found(&mut server, "old", 2000).abs_diff(live) <= 4, "{generations}");
        // The clock goes back, but the time of the filter stays. Items that are added now expire with the newest items.
        server.now_ms = start;
        add(&mut server, "back", 2000);
        assert_eq!((found(&mut server, "new", 20), found(&mut server, "back", 2000)), (20, 2000));
        server.now_ms = start + (generations + steps) * 1000;
        assert_eq!((found(&mut server, "new", 20), found(&mut server, "back", 2000)), (20, 2000));
        server.now_ms = start + (generations + steps + 1) * 1000;
        assert!(found(&mut server, "back", 2000) <= 4, "{generations}");
        // An emptied filter follows the clock again.
        server.now_ms = start;
        server.run("BF.CLEAR k");
        add(&mut server, "again", 20);
        server.now_ms = start + (steps + 1) * 1000;
        assert_eq!(found(&mut server, "again", 20), 0, "{generations}");
    }
}

/// BF.STATS and BF.INFO show what is expired. The next adds free it; lookups do not.
#[test]
fn expired_memory_is_shown_until_adds_free_it() {
    let mut server = server();
    assert_eq!(server.run("BF.RESERVE k 0.01 14000 WINDOW 14"), "+OK");
    assert_eq!(number(&mut server, "EXPIRED-ENTRIES"), 0);
    add(&mut server, "burst", 14_000);
    let (full, entries) = (size_bytes(&server), number(&mut server, "ITEMS"));
    assert!(full * 8 < 14_000 * 20, "{full} bytes");
    assert_eq!((number(&mut server, "EXPIRED-ENTRIES"), number(&mut server, "EXPIRED-BYTES")), (0, 0));
    server.now_ms += 15_000;
    assert!(found(&mut server, "burst", 14_000) < 140);
    assert_eq!(size_bytes(&server), full);
    let live = ["ITEMS", "TABLE-ITEMS", "ERROR-RATE-NOW", "EXPIRED-ENTRIES", "CAPACITY"];
    assert_eq!(live.map(|field| number(&mut server, field)), [0, 0, 0, entries, 14_000]);
    assert_eq!(server.run("BF.INFO k ERROR-RATE-NOW"), "*1 ,0");
    assert!(number(&mut server, "EXPIRED-BYTES") > full / 10 * 9);
    // After 256 adds per segment, everything is free.
    let adds = 256 * number(&mut server, "TABLE-SEGMENTS");
    add(&mut server, "next", adds + adds / 50);
    assert_eq!(number(&mut server, "EXPIRED-ENTRIES"), 0);
    assert!(size_bytes(&server) < full / 4, "{} of {full} bytes", size_bytes(&server));
    assert_eq!((server.run("BF.INFO k ADVICE").as_str(), server.log.len()), ("*1 _", 0));
}

/// Replicas do not get these commands, so they must not change a byte: what has expired stays.
#[test]
fn commands_that_store_nothing_change_nothing() {
    let mut server = server();
    server.run("BF.RESERVE k 0.01 1000 WINDOW 14 NOREFRESH");
    add(&mut server, "old", 1500);
    server.now_ms += 14_000;
    add(&mut server, "new", 500);
    server.now_ms += 1000;
    server.settings.max_filter_bytes = size_bytes(&server);
    let (before, replicated) = (server.digested("k"), server.replicated.len());
    for line in ["BF.ADD k new-1", "BF.MADD k new-2 new-3", "BF.EXISTS k old-1", "BF.CARD k", "BF.STATS k"] {
        assert!(!server.run(line).starts_with('-'), "{line}");
    }
    for line in ["BF.INFO k", "BF.DEBUG k", "BF.RESERVE k 0.01 9 IFNOTEXISTS", "BF.BULKADD k LINES new-4"] {
        assert!(!server.run(line).starts_with('-'), "{line}");
    }
    found(&mut server, "old", 1500);
    assert!(server.digested("k") == before);
    assert_eq!(server.replicated.len(), replicated);
    // A command of which all items are refused.
    let mut full = self::server();
    full.run("BF.RESERVE k 0.01 1000 WINDOW 14");
    full.settings.max_filter_bytes = size_bytes(&full);
    let before = full.digested("k");
    assert_eq!(add(&mut full, "x", 10), 10);
    assert!(full.digested("k") == before && full.replicated.len() == 1);
}

/// Asserts that the error rate in BF.STATS is the measured one, at several times without adds.
fn assert_current_rate(server: &mut Server) {
    let absent_items = effort(20_000, 50_000);
    let start_ms = server.now_ms;
    for later_ms in [0, 2_000, 5_000, 10_000, 13_000, 14_000, 15_000, 16_000, 100_000] {
        server.now_ms = start_ms + later_ms;
        let measured = found(server, "absent", absent_items) as f64 / absent_items as f64;
        let now = server.number("k", "ERROR-RATE-NOW");
        let deviation = (now.max(1.0 / absent_items as f64) / absent_items as f64).sqrt();
        let context = format!("{now} after {later_ms} ms, {measured} measured");
        assert!(now >= measured - 5.0 * deviation, "{context}");
        // Several entries of a bucket can match the same item.
        assert!(now * (1.0 - 4.0 * now).max(0.5) <= measured + 5.0 * deviation, "{context}");
    }
    server.now_ms = start_ms;
}

/// The items of the older history are more than the live ones, and have longer remainders because the filter has grown.
#[test]
fn the_current_rate_after_a_loaded_history_is_the_measured_one() {
    let mut server = server();
    server.must("BF.RESERVE k 0.01 1000 WINDOW 14");
    add(&mut server, "live", 1000);
    let insert = format!("BF.INSERT k NOCREATE AT {} ITEMS", server.now_ms - 12_000);
    assert!(!server.batches(&insert, "older-", 0..100_000).contains("-ERR"));
    assert_current_rate(&mut server);
}

/// The entries of the sources have fewer bits of the hash than those of the destination.
#[test]
fn the_current_rate_after_a_merge_is_the_measured_one() {
    let all = [("0.001 500", "0.05 3000"), ("0.001 40000", "0.3 300"), ("0.01 100", "0.01 100")];
    for (dest, source) in effort(&all[..1], &all) {
        let mut server = server();
        server.must(&format!("BF.RESERVE k {dest} WINDOW 14"));
        server.must(&format!("BF.RESERVE source {source} WINDOW 14"));
        server.add("k", "", 0..20_000);
        server.now_ms += 3_000;
        server.add("source", "", 19_000..21_000);
        server.now_ms += 2_000;
        server.must("BF.MERGE k source FORCE");
        assert_current_rate(&mut server);
        server.now_ms += 2_000;
        server.add("k", "", 20_000..50_000);
        assert_current_rate(&mut server);
    }
}
