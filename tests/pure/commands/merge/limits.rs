//! BF.MERGE under limits of bytes around and below the destination: the destination has all items, or nothing has
//! changed, and a replica without a limit has the same filter.

use std::collections::BTreeMap;

use everbloom_filter::limits::LAYERS_MAX;

use crate::support::effort;
use crate::support::saved::assert_valid;
use crate::support::server::Server;

/// Items of a destination, and of a source that is like it.
const ITEMS: u64 = 12_000;

/// Items of the busy time and of the quiet time of windows.
const WINDOWS: [(u64, u64); 4] = [(30_000, 8_000), (60_000, 100), (60_000, 8_000), (200_000, 6_000)];

/// The commands that create a filter under `@`, and add its items.
const KINDS: [(&str, &str); 12] = [
    ("unreserved", "BF.INSERT @ ITEMS first"),
    ("unreserved, low rate", "BF.INSERT @ ERROR 0.0001 ITEMS first"),
    ("outgrown", "BF.RESERVE @ 0.01 1000"),
    ("bits", "BF.RESERVE @ 0.01 12000"),
    ("fixed", "BF.RESERVE @ 0.01 12000 NONSCALING"),
    ("saturating", "BF.RESERVE @ 0.01 12000 NONSCALING SATURATE"),
    ("keyed", "BF.INSERT @ ERROR 0.01 CAPACITY 100 KEY 0123456789abcdef ITEMS first"),
    ("counting", "BF.RESERVE @ 0.01 100 COUNTING"),
    ("window", "BF.RESERVE @ 0.01 12000 WINDOW 14"),
    ("imported", "BF.IMPORT @ EMPTY SCHEME murmur3-salted BITS 9000 HASHES 4 CAPACITY 1000"),
    ("redisbloom", "BF.RESERVE @ 0.01 1000 FORMAT redisbloom"),
    ("valkey-bloom", "BF.INSERT @ CAPACITY 1000 ERROR 0.01 FORMAT valkey-bloom ITEMS first"),
];

/// Creates a filter with these items.
fn make(server: &mut Server, key: &str, create: &str, items: std::ops::Range<u64>) {
    let reply = server.run(&create.replace("@", key));
    assert!(!reply.starts_with('-'), "{create}: {reply}");
    server.batches(&format!("BF.MADD {key}"), "", items);
}

/// A primary whose limit changes, and its replica, which has none.
struct Pair {
    primary: Server,
    replica: Server,
    /// What [`Server::held`] returns for `before` and for each source.
    held: BTreeMap<String, Vec<u64>>,
}

impl Pair {
    /// Returns the pair after the commands of the primary. The destination is `dest`.
    fn of(primary: Server) -> Self {
        let mut replica = Server::at(primary.now_ms);
        replica.replay(&primary.replicated_calls);
        let mut pair = Self { primary, replica, held: BTreeMap::new() };
        for server in [&mut pair.primary, &mut pair.replica] {
            server.copy("dest", "before");
        }
        pair
    }

    /// Merges sources into the destination. Asserts that it has all items afterwards or has not changed, and that the
    /// replica has the same filter. Returns the reply.
    fn merge(&mut self, sources: &str, limit_bytes: u64, context: &str) -> String {
        for server in [&mut self.primary, &mut self.replica] {
            server.copy("before", "dest");
        }
        let (primary, context) = (&mut self.primary, format!("{context}: {sources}, {limit_bytes} bytes"));
        let before = primary.digested("dest");
        primary.replicated_calls.clear();
        let limit_before = std::mem::replace(&mut primary.settings.max_filter_bytes, limit_bytes);
        let reply = primary.run(&format!("BF.MERGE dest {sources}"));
        primary.settings.max_filter_bytes = limit_before;
        let is_replicated = !primary.replicated_calls.is_empty();
        let has_changed = primary.digested("dest") != before;
        assert!(reply == "+OK" || reply.starts_with("-ERR"), "{context}: {reply}");
        assert!(reply == "+OK" || !is_replicated, "{context}: {reply}");
        assert_eq!(has_changed, is_replicated, "{context}: {reply}");
        if reply == "+OK" {
            assert_valid(primary.filter("dest"), &context);
            let all = 0..3 * ITEMS;
            let merged = primary.held("dest", all.clone());
            for key in ["before"].into_iter().chain(sources.split(' ').filter(|word| *word != "FORCE")) {
                let of_key =
                    self.held.entry(key.to_owned()).or_insert_with(|| primary.held(key, all.clone()));
                let missing = of_key.iter().filter(|item| merged.binary_search(item).is_err()).count();
                assert_eq!(missing, 0, "{context}: of {} items of {key}", of_key.len());
            }
        }
        self.replica.replay(&primary.replicated_calls);
        assert!(self.replica.digested("dest") == primary.digested("dest"), "{context}: the replica differs");
        reply
    }
}

/// Merges each source, and the sources together, under limits from nothing to more than the destination has.
fn merge_under_limits(pair: &mut Pair, sources: &[&str], context: &str) {
    let bytes = pair.primary.filter("before").size_bytes();
    let all = sources.join(" ");
    let mut done = [0, 0];
    for sources in sources.iter().copied().chain([all.as_str()]) {
        let limits = effort(2, 12);
        for number in 0..=limits {
            let limit = 1 + bytes * number * 5 / (limits * 4);
            let reply = pair.merge(&format!("{sources} FORCE"), limit, context);
            done[usize::from(reply == "+OK")] += 1;
        }
        pair.merge(sources, bytes / 2, context);
        pair.merge(sources, u64::MAX, context);
    }
    assert!(done[1] > 0, "{context}: {done:?}");
}

#[test]
fn a_merge_under_any_limit_has_all_items_or_changes_nothing() {
    for (name, create) in KINDS {
        let mut server = Server::new();
        make(&mut server, "dest", create, 0..ITEMS);
        make(&mut server, "part", create, 0..ITEMS / 10);
        make(&mut server, "other", create, ITEMS..2 * ITEMS);
        make(&mut server, "empty", create, 0..0);
        let mut pair = Pair::of(server);
        for server in [&mut pair.primary, &mut pair.replica] {
            server.copy("dest", "copy");
        }
        merge_under_limits(&mut pair, &["copy", "part", "other", "empty"], name);
    }
}

/// The destinations are unions of filters of two kinds, and windows whose items have expired in part or whose traffic
/// has fallen, so that their tables are larger than a union of their items.
#[test]
fn a_merge_into_an_uncommon_table_has_all_items_or_changes_nothing() {
    let mut union = Server::new();
    make(&mut union, "dest", "BF.RESERVE @ 0.01 1000", 0..ITEMS);
    make(&mut union, "bits", "BF.RESERVE @ 0.001 500 FORMAT redisbloom", ITEMS..ITEMS + 700);
    make(&mut union, "other", "BF.INSERT @ ITEMS first", 2 * ITEMS..3 * ITEMS);
    union.must("BF.MERGE dest bits FORCE");
    let mut pair = Pair::of(union);
    for server in [&mut pair.primary, &mut pair.replica] {
        server.copy("dest", "copy");
    }
    merge_under_limits(&mut pair, &["copy", "bits", "other"], "union");

    for &(busy, quiet) in effort(&WINDOWS[..2], &WINDOWS[..]) {
        let mut window = Server::at(1_400_000_000);
        let create = "BF.RESERVE @ 0.01 60000 WINDOW 14";
        make(&mut window, "dest", create, 100_000..100_000 + busy);
        for (later_ms, items) in [(15_000, 0..quiet / 2), (1_000, quiet / 2..quiet)] {
            window.now_ms += later_ms;
            window.batches("BF.MADD dest", "", items);
        }
        make(&mut window, "other", create, ITEMS..ITEMS + 500);
        let context = format!("window with {quiet} items after {busy}");
        let mut pair = Pair::of(window);
        for server in [&mut pair.primary, &mut pair.replica] {
            server.copy("dest", "copy");
        }
        merge_under_limits(&mut pair, &["copy", "other"], &context);
    }
}

/// The size of a union is estimated before it is made. A union that adds nothing changes nothing, whatever the estimate
/// and the limit are.
#[test]
fn a_merge_with_a_copy_changes_nothing_at_any_size() {
    let step = effort(64_000, 16_000);
    for (create, step) in
        [("BF.INSERT @ ITEMS first", step), ("BF.RESERVE @ 0.01 100 WINDOW 86400", 2 * step)]
    {
        let mut server = Server::new();
        make(&mut server, "k", create, 0..20_000);
        for items in (20_000..effort(120_000, 400_000)).step_by(step) {
            server.add("k", "", items..items + step as u64);
            let (before, replicated) = (server.digested("k"), server.replicated.len());
            server.copy("k", "copy");
            for limit in [u64::MAX, server.filter("k").size_bytes() / 20] {
                let limit_before = std::mem::replace(&mut server.settings.max_filter_bytes, limit);
                assert_eq!(server.run("BF.MERGE k copy"), "+OK", "{create}, {items} items, limit {limit}");
                server.settings.max_filter_bytes = limit_before;
                assert_eq!(server.replicated.len(), replicated, "{create}, {items} items, limit {limit}");
            }
            assert!(server.digested("k") == before, "{create}, {items} items");
            server.keys.remove(&b"copy"[..]);
        }
    }
}

/// An empty layer counts towards the limit when a source is united with it.
#[test]
fn the_limit_counts_an_empty_layer_that_takes_bits() {
    for further in ["", " CAPACITY 50000"] {
        let mut server = Server::new();
        server.must("BF.RESERVE dest 0.01 100000");
        server.must("BF.RESERVE same 0.01 100000");
        server.add("same", "", 0..1000);
        assert_eq!(server.run(&format!("BF.INSERT other ERROR 0.001{further} ITEMS first")), "*1 #t");
        server.add("other", "", 1000..40_000);
        let [dest, other] = ["dest", "other"].map(|key| server.filter(key).size_bytes());
        server.settings.max_filter_bytes = dest + other / 2;
        let before = server.digested("dest");
        for sources in ["other", "same other", "other same"] {
            let reply = server.run(&format!("BF.MERGE dest {sources} FORCE"));
            assert!(reply.starts_with("-ERR filter would take "), "{sources}: {reply}");
            assert_eq!(server.digested("dest"), before);
        }
        server.settings.max_filter_bytes = u64::MAX;
        server.must("BF.MERGE dest same other FORCE");
        assert!(server.filter("dest").size_bytes() > dest + other / 2);
    }
}

/// An empty layer counts towards the number of layers too, if a merged table keeps it after the added layers.
#[test]
fn a_merge_with_a_table_counts_the_empty_layer_that_it_keeps() {
    let mut server = Server::new();
    // The simulated server adds up the bytes of all keys for each command, so there are few at any time.
    let mut groups = String::new();
    let capacities: Vec<usize> = (1..=LAYERS_MAX).collect();
    for (number, capacities) in capacities.chunks(64).enumerate() {
        let mut sources = String::new();
        for capacity in capacities {
            server.must(&format!("BF.INSERT s{capacity} CAPACITY {capacity} ERROR 0.01 ITEMS s{capacity}"));
            sources += &format!(" s{capacity}");
        }
        server.must(&format!("BF.MERGE group{number}{sources} FORCE"));
        server.keys.retain(|key, _| key.starts_with(b"group"));
        groups += &format!(" group{number}");
    }
    server.must(&format!("BF.MERGE all{groups} FORCE"));
    server.add("all", "more", 0..20);
    assert_eq!(server.filter("all").layer_count(), LAYERS_MAX);
    assert!(server.filter("all").table().is_some());
    server.must("BF.RESERVE dest 0.01 5000");
    let before = server.digested("dest");
    let reply = server.run("BF.MERGE dest all FORCE");
    assert!(reply.starts_with("-ERR the merged filter would have too many layers"), "{reply}");
    assert!(server.digested("dest") == before);
}
