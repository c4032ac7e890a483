//! BF.MERGE of filters with tables: filters that nobody reserved, outgrown ones, and imported ones.

use everbloom_command::Settings;
use everbloom_filter::filter::merge::MergeError;
use everbloom_filter::work;
use everbloom_filter::{Filter, ReserveError, UnknownMemory};

use crate::support::saved::{assert_survives, assert_valid};
use crate::support::server::Server;

/// Asserts that the filter has these items and its promised rate.
fn assert_kept(server: &mut Server, key: &str, items: std::ops::Range<u64>, rate: f64) {
    const ABSENT: u64 = 20_000;
    assert_eq!(server.found(key, "", items.clone()), items.end - items.start, "{key}");
    let mean = rate * ABSENT as f64;
    let wrong = server.found(key, "absent-", 0..ABSENT) as f64;
    assert!(wrong <= mean + 3.0 * mean.sqrt(), "{key}: {wrong} of {ABSENT}, {rate} promised");
    let most = server.number(key, "ERROR-RATE-MAX");
    assert!(most <= rate * 1.02, "{key}: {most}, {rate} promised");
}

#[test]
fn a_new_filter_of_shards_promises_the_sum_of_their_rates() {
    for (shards, items) in [(2, 1), (2, 90), (3, 130), (4, 5000), (8, 400), (2, 12_000), (20, 700), (40, 50)]
    {
        let mut server = Server::new();
        let mut sources = String::new();
        for shard in 0..shards {
            server.add(&format!("s{shard}"), "", shard * items..(shard + 1) * items);
            sources += &format!(" s{shard}");
        }
        assert_eq!(server.run(&format!("BF.MERGE all{sources}")), "+OK", "{shards} of {items}");
        let rate = (0.01 * shards as f64).min(0.25);
        assert!((server.number("all", "ERROR-RATE") - rate).abs() < 1e-9);
        assert_kept(&mut server, "all", 0..shards * items, rate);
        let filter = server.filter("all");
        assert!(filter.growth().is_unreserved() && filter.layers().is_empty(), "{filter:?}");
        assert!(
            filter.items() <= shards * items && filter.items() * 5 > shards * items * 3,
            "{}",
            filter.items()
        );
        // The merged filter has one part, and keeps its promise while it grows.
        assert_eq!(server.run("BF.INFO all FILTERS"), "*1 :1");
        server.add("all", "", shards * items..2 * shards * items + 3000);
        assert_kept(&mut server, "all", 0..2 * shards * items + 3000, rate);
        // Merging again changes nothing.
        let replicated = server.replicated.len();
        assert_eq!(server.run(&format!("BF.MERGE all{sources}")), "+OK");
        assert_eq!(server.replicated.len(), replicated);
    }
}

#[test]
fn an_existing_filter_takes_what_its_promise_permits() {
    let mut server = Server::new();
    server.add("a", "", 0..20_000);
    server.add("b", "", 20_000..40_000);
    let before = server.digested("a");
    let reply = server.run("BF.MERGE a b");
    assert!(reply.starts_with("-ERR the merged filter would have an error rate of 0.01"), "{reply}");
    assert!(server.digested("a") == before);
    // The rate that the refusal names is enough, for a reserved filter.
    let needed = reply.split("at least ").nth(1).unwrap().split(',').next().unwrap();
    for capacity in [100, 100_000] {
        server.keys.remove(b"all".as_slice());
        assert_eq!(server.run(&format!("BF.RESERVE all {needed} {capacity}")), "+OK");
        assert_eq!(server.run("BF.MERGE all a b"), "+OK", "{needed}");
        assert_kept(&mut server, "all", 0..40_000, needed.parse().unwrap());
        server.add("all", "", 40_000..60_000);
        assert_kept(&mut server, "all", 0..60_000, needed.parse().unwrap());
    }
    // A source of few items fits.
    server.add("few", "", 40_000..40_010);
    assert_eq!(server.run("BF.MERGE a few"), "+OK");
    assert_kept(&mut server, "a", 0..20_000, 0.01);
    assert_eq!(server.run("BF.MERGE a b FORCE"), "+OK");
    assert_eq!(server.found("a", "", 0..40_010), 40_010);
    let most = server.number("a", "ERROR-RATE-MAX");
    assert!(most > 0.0101 && most < 0.02, "{most}");
    assert!(server.found("a", "absent-", 0..20_000) < 300);
}

/// Merges filters that are within their capacity, filters that have outgrown it, and filters that nobody reserved.
#[test]
fn bits_go_to_bits_and_entries_to_the_table() {
    const ITEMS: u64 = 3000;
    // The arguments of BF.RESERVE. An `UNRESERVED` filter is created by its first item.
    let kinds = ["0.01 4000", "0.01 500", "UNRESERVED", "0.01 4000 EXPANSION 1", "0.002 1000"];
    for into in kinds {
        for from in kinds {
            let mut server = Server::new();
            for (key, kind, first) in [("into", into, 0), ("from", from, ITEMS)] {
                if kind != "UNRESERVED" {
                    assert_eq!(server.run(&format!("BF.RESERVE {key} {kind}")), "+OK");
                }
                server.add(key, "", first..first + ITEMS);
            }
            let context = format!("{into}: {from}");
            let sources = ["into", "from"].map(|key| server.filter(key));
            let has_table = sources.iter().any(|filter| filter.table().is_some());
            assert_eq!(server.run("BF.MERGE into from FORCE"), "+OK", "{context}");
            assert_eq!(server.found("into", "", 0..2 * ITEMS), 2 * ITEMS, "{context}");
            let filter = server.filter("into");
            assert!(filter.table().is_some() || !has_table, "{context}");
            let wrong = server.found("into", "absent-", 0..10_000);
            let most = server.number("into", "ERROR-RATE-MAX");
            assert!(wrong as f64 <= 10_000.0 * most + 40.0, "{context}: {wrong}, {most}");
            let replicated = server.replicated.len();
            assert_eq!(server.run("BF.MERGE into from"), "+OK", "{context}");
            assert_eq!(server.replicated.len(), replicated, "{context}");
            server.add("into", "", 2 * ITEMS..3 * ITEMS);
            assert_eq!(server.found("into", "", 0..3 * ITEMS), 3 * ITEMS, "{context}");
            assert_survives(server.filter("into"), &context);
            // A replica does the same.
            server.assert_replicated(Settings::DEFAULT);
        }
    }
}

#[test]
fn a_reserved_filter_takes_a_table_within_its_promise() {
    let mut server = Server::new();
    assert_eq!(server.run("BF.INSERT low ERROR 0.0001 ITEMS low"), "*1 #t");
    server.add("low", "", 0..3000);
    for (key, items) in [("full", 1000), ("half", 500), ("empty", 0)] {
        assert_eq!(server.run(&format!("BF.RESERVE {key} 0.01 1000")), "+OK");
        server.add(key, "", 10_000..10_000 + items);
        assert_eq!(server.run(&format!("BF.MERGE {key} low")), "+OK");
        assert_kept(&mut server, key, 0..3000, 0.01);
        assert_kept(&mut server, key, 10_000..10_000 + items, 0.01);
        assert_eq!(server.run(&format!("BF.INFO {key} FILTERS")), "*1 :2");
        assert_eq!(server.run(&format!("BF.INFO {key} KIND")), "*1 $everbloom");
        server.add(key, "", 20_000..40_000);
        assert_kept(&mut server, key, 20_000..40_000, 0.01);
    }
    // A merge counts the rate that the destination has from earlier merges, so several merges together cannot exceed
    // the promise.
    assert_eq!(server.run("BF.RESERVE dest 0.01 20000"), "+OK");
    server.add("dest", "", 0..100);
    for (key, first) in [("one", 100_000), ("two", 200_000)] {
        assert_eq!(server.run(&format!("BF.INSERT {key} ERROR 0.012 ITEMS {key}")), "*1 #t");
        server.add(key, "", first..first + 30_000);
    }
    assert_eq!(server.run("BF.MERGE dest one"), "+OK");
    let reply = server.run("BF.MERGE dest two");
    assert!(reply.starts_with("-ERR the merged filter would have an error rate of 0.01"), "{reply}");
    assert_kept(&mut server, "dest", 100_000..130_000, 0.01);
}

#[test]
fn merged_items_that_the_encoding_of_an_import_cannot_express_are_found() {
    let mut server = Server::new();
    server.must("BF.IMPORT into EMPTY SCHEME redisson BITS 64 HASHES 3 ENCODING json-string CAPACITY 1");
    server.add("into", "", 0..10);
    assert_eq!(server.call(&[b"BF.MADD", b"from", b"\xff", b"b"]), "*2 #t #t");
    assert_eq!(server.run("BF.MERGE into from FORCE"), "+OK");
    for command in [&b"BF.EXISTS"[..], b"BF.MEXISTS"] {
        assert!(server.call(&[command, b"into", b"\xff"]).contains("#t"));
    }
    assert_eq!(server.call(&[b"BF.MEXISTS", b"into", b"\xff", b"b", b"\xfe"]), "*3 #t #t #f");
}

#[test]
fn the_table_after_merged_layers_has_their_hash() {
    const KEY: &str = "KEY 0123456789abcdef";
    let mut server = Server::new();
    assert_eq!(server.run(&format!("BF.INSERT dest {KEY} CAPACITY 1000 ITEMS a")), "*1 #t");
    // The capacity of `other` differs, and its rate uses so much of the promise that a table must take the new items.
    assert_eq!(server.run(&format!("BF.INSERT other {KEY} CAPACITY 500 ERROR 0.02 ITEMS b")), "*1 #t");
    server.add("other", "", 0..400);
    assert_eq!(server.run("BF.MERGE dest other"), "+OK");
    let filter = server.filter("dest");
    assert_eq!(filter.table_hash(), Some(&filter.hash()));
    assert_survives(filter, "keyed");
    server.add("dest", "", 1000..3000);
    assert_kept(&mut server, "dest", 1000..3000, 0.01);
}

/// The limit applies to all parts of the merged filter. A merge that changes nothing is not refused.
#[test]
fn the_limit_of_bytes_refuses_a_merge_before_anything_changes() {
    for (into, capacity) in [("UNRESERVED", 0), ("0.01 5000", 5000), ("0.01 100", 100), ("0.01 50000", 0)] {
        let mut server = Server::new();
        if into != "UNRESERVED" {
            assert_eq!(server.run(&format!("BF.RESERVE into {into}")), "+OK");
        }
        server.add("into", "", 0..capacity.max(u64::from(into == "UNRESERVED")));
        server.add("from", "", 100_000..108_000);
        let bytes = |server: &Server| server.filter("into").size_bytes();
        let (before, at_first) = (server.digested("into"), bytes(&server));
        server.copy("into", "at-first");
        // The smallest limit at which the merge succeeds.
        let (mut refused, mut accepted) = (at_first, at_first + (1 << 20));
        while accepted - refused > 1 {
            let limit = refused.midpoint(accepted);
            server.settings.max_filter_bytes = limit;
            let reply = server.run("BF.MERGE into from FORCE");
            if reply == "+OK" {
                assert!(bytes(&server) <= limit, "{into}: {} of {limit}", bytes(&server));
                assert_eq!(server.found("into", "", 100_000..108_000), 8000);
                accepted = limit;
                server.copy("at-first", "into");
            } else {
                assert!(reply.starts_with("-ERR filter would take "), "{reply}");
                refused = limit;
            }
            assert!(server.digested("into") == before, "{into}, {limit}");
        }
        server.settings.max_filter_bytes = accepted;
        assert_eq!(server.run("BF.MERGE into from FORCE"), "+OK");
        assert!(accepted < bytes(&server) * 5 / 4, "{into}: {accepted}, {}", bytes(&server));
        // Nothing is refused if there is nothing to take.
        server.settings.max_filter_bytes = 1;
        assert_eq!(server.run("BF.MERGE into from"), "+OK", "{into}");
    }
    // The table of the destination counts also if only bits are merged into it.
    let mut server = Server::new();
    server.add("into", "", 0..20_000);
    server.run("BF.RESERVE bits 0.01 1000");
    server.add("bits", "", 50_000..50_900);
    server.settings.max_filter_bytes = server.filter("into").size_bytes() + 500;
    assert!(server.run("BF.MERGE into bits FORCE").starts_with("-ERR filter would take "));
}

/// Many sources with nearly the same items need little more memory than one of them.
#[test]
fn common_items_take_no_memory() {
    let mut server = Server::new();
    let mut sources = String::new();
    for shard in 0..30 {
        server.add(&format!("s{shard}"), "", 0..5000);
        server.add(&format!("s{shard}"), "", 10_000 + shard..10_001 + shard);
        sources += &format!(" s{shard}");
    }
    let one = server.filter("s0").size_bytes();
    server.settings.max_filter_bytes = one * 2;
    assert_eq!(server.run(&format!("BF.MERGE all{sources}")), "+OK");
    let all = server.filter("all").size_bytes();
    assert!(all < one * 5 / 4, "{all}, {one} of one source");
    assert_eq!(server.found("all", "", 0..5000), 5000);
}

/// A merge that the promise does not permit is refused before its work, with an error rate that permits it.
#[test]
fn a_merge_above_the_promise_costs_little() {
    let mut server = Server::new();
    for (key, items) in [("all", 0..100_000), ("a", 100_000..180_000), ("b", 180_000..260_000)] {
        assert_eq!(server.run(&format!("BF.INSERT {key} ERROR 0.001 ITEMS first")), "*1 #t");
        server.add(key, "", items);
    }
    let reply = server.run("BF.MERGE all a b");
    assert!(reply.starts_with("-ERR the merged filter would have an error rate of 0.00"), "{reply}");
    let mut all = server.filter("all").try_clone(UnknownMemory).unwrap();
    let sources = [server.filter("a"), server.filter("b")];
    let mut slots = |is_forced| {
        _ = work::take();
        let merged = all.merge(&sources, u64::MAX, is_forced, &u64::MAX, UnknownMemory);
        assert_eq!(merged.is_ok(), is_forced, "{merged:?}");
        work::take().slots
    };
    let (refused, merged) = (slots(false), slots(true));
    assert!(refused < merged / 4, "{refused}, {merged}");
}

/// The library's merge refuses as the command does.
#[test]
fn a_limit_of_a_merge_is_asked_at_most_three_times() {
    let mut server = Server::new();
    server.add("a", "", 0..5000);
    server.add("b", "", 5000..10_000);
    let (a, b) = (server.filter("a"), server.filter("b"));
    let error = Filter::merged_of(&[a, b], u64::MAX, false, &1000u64, UnknownMemory).map(|_| ()).unwrap_err();
    assert!(matches!(error, MergeError::Reserve(ReserveError::TooLarge { .. })), "{error:?}");
    server.run("BF.MERGE new a b");
    assert!(server.limit_asked <= 3, "{}", server.limit_asked);
}

/// Merges sources whose entries have few bits of the hash, because their tables are much smaller than the destination.
#[test]
fn entries_of_small_tables_match_in_large_ones() {
    const ITEMS: u64 = 100_000;
    let mut server = Server::new();
    server.add("large", "", 0..ITEMS);
    let mut sources = String::new();
    for number in 0..20 {
        let key = format!("s{number}");
        // Remainders of this rate are as short as they can be.
        assert_eq!(server.run(&format!("BF.INSERT {key} ERROR 0.2 ITEMS {key}")), "*1 #t");
        server.add(&key, "", 300_000 + number * 50..300_000 + number * 50 + 50);
        sources += &format!(" {key}");
    }
    assert_eq!(server.run(&format!("BF.MERGE large{sources} FORCE")), "+OK");
    assert_eq!(server.found("large", "", 0..ITEMS), ITEMS);
    assert_eq!(server.found("large", "", 300_000..301_000), 1000);
    let filter = server.filter("large");
    assert_valid(filter, "large");
    let wrong = server.found("large", "absent-", 0..20_000) as f64 / 20_000.0;
    let now = server.number("large", "ERROR-RATE-NOW");
    assert!(wrong <= now * 1.1 + 0.002, "{wrong} measured, {now} computed");
}
