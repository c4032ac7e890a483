//! A filter is a key like any other: it is renamed, copied, expires, is moved, evicted and deleted.

use crate::harness::{Client, Site, Test, tests, wait_until};

pub(crate) const TESTS: &[Test] = tests![
    the_type_of_a_filter_is_everbloom,
    a_renamed_filter_keeps_its_items,
    a_copied_filter_is_independent,
    a_filter_expires,
    a_persisted_filter_does_not_expire,
    a_filter_moves_between_databases,
    deleted_filters_free_their_memory,
    unlink_frees_a_big_filter,
    flushed_filters_free_their_memory,
    a_default_filter_takes_at_most_330_bytes,
    object_and_scan_support_filters,
    filters_are_evicted_above_maxmemory,
    eviction_removes_no_more_filters_than_needed,
    writes_that_need_memory_are_refused_above_maxmemory,
    filters_of_many_layers_or_segments_have_a_large_effort,
];

fn the_type_of_a_filter_is_everbloom(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    client.say("BF.ADD k a");
    assert_eq!(client.say("TYPE k"), "+everbloom");
    client.say("SET s x");
    assert_eq!(client.say("SCAN 0 COUNT 100 TYPE everbloom"), "[\"0\", [\"k\"]]");
}

fn a_renamed_filter_keeps_its_items(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    client.say("BF.MADD k a b");
    let digest = client.digest("k");
    assert_eq!(client.say("RENAME k l"), "+OK");
    assert_eq!(client.digest("l"), digest);
    assert_eq!(client.int("BF.EXISTS k a"), 0);
    assert_eq!(client.say("BF.MEXISTS l a b c"), "[1, 1, 0]");
    client.say("BF.ADD other x");
    assert_eq!(client.int("RENAMENX l other"), 0);
    assert_eq!(client.say("RENAME l other"), "+OK");
    assert_eq!(client.digest("other"), digest);
}

fn a_copied_filter_is_independent(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    client.say("BF.RESERVE k 0.01 5");
    for item in 0..50 {
        client.say(&format!("BF.ADD k item-{item}"));
    }
    let digest = client.digest("k");
    assert_eq!(client.int("COPY k copy"), 1);
    assert_eq!(client.digest("copy"), digest);
    assert_eq!(client.int("COPY k copy"), 0);
    client.say("BF.MADD copy new-1 new-2 new-3");
    assert_eq!(client.digest("k"), digest);
    assert_ne!(client.digest("copy"), digest);
    assert_eq!(client.int("COPY k copy REPLACE"), 1);
    assert_eq!(client.digest("copy"), digest);
    assert_eq!(client.int("COPY k k DB 1"), 1);
    client.say("DEL k copy");
    client.say("SELECT 1");
    assert_eq!(client.digest("k"), digest);
    assert_eq!(client.int("BF.EXISTS k item-7"), 1);
}

fn a_filter_expires(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    client.say("BF.ADD k a");
    assert_eq!(client.int("TTL k"), -1);
    assert_eq!(client.int("EXPIRE k 1000"), 1);
    // Neither an add nor a lookup changes the time to live.
    client.say("BF.MADD k b c");
    client.say("BF.EXISTS k b");
    assert!(client.int("TTL k") > 900);
    client.say("PEXPIRE k 1");
    wait_until("expiry", || client.int("BF.EXISTS k a") == 0);
    assert_eq!(client.int("EXISTS k"), 0);
    assert_eq!(client.int("BF.CARD k"), 0);
    assert_eq!(client.say("BF.INFO k"), "-ERR not found");
    assert_eq!(client.int("BF.ADD k a"), 1);
    assert_eq!(client.int("TTL k"), -1);
    assert_eq!(client.int("BF.CARD k"), 1);
}

fn a_persisted_filter_does_not_expire(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    client.say("BF.ADD k a");
    client.say("EXPIRE k 1000");
    assert_eq!(client.int("PERSIST k"), 1);
    assert_eq!(client.int("TTL k"), -1);
    assert_eq!(client.int("BF.EXISTS k a"), 1);
}

fn a_filter_moves_between_databases(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    client.say("BF.MADD k a b");
    let digest = client.digest("k");
    assert_eq!(client.int("MOVE k 3"), 1);
    assert_eq!(client.int("BF.EXISTS k a"), 0);
    client.say("SELECT 3");
    assert_eq!(client.digest("k"), digest);
    assert_eq!(client.say("SWAPDB 0 3"), "+OK");
    assert_eq!(client.int("BF.EXISTS k a"), 0);
    client.say("SELECT 0");
    assert_eq!(client.digest("k"), digest);
    assert_eq!(client.int("BF.ADD k c"), 1);
}

/// Creates a filter of about 12 MB with every page in use.
fn big(client: &mut Client, key: &str) {
    assert_eq!(client.say(&format!("BF.RESERVE {key} 0.01 10000000")), "+OK");
    for batch in 0..20 {
        let items: Vec<String> = (0..1000).map(|item| format!("{batch}-{item}")).collect();
        let mut args = vec!["BF.MADD", key];
        args.extend(items.iter().map(String::as_str));
        client.call(&args);
    }
}

fn gives_memory_back(site: &Site, delete: &str) {
    let server = site.start();
    let mut client = server.client();
    client.say("SET marker x");
    let before = client.info_number("used_memory");
    for key in ["a", "b", "c"] {
        big(&mut client, key);
    }
    assert!(client.info_number("used_memory") > before + 30_000_000);
    let reply = client.say(delete);
    assert!(!reply.starts_with('-'), "{delete}: {reply}");
    wait_until("memory given back", || client.info_number("used_memory") < before + 2_000_000);
    assert_eq!(client.int("BF.EXISTS a 0-0"), 0);
    wait_until("filters gone", || client.info_number("bf_filters") == 0);
    assert_eq!(client.int("BF.ADD a x"), 1);
}

fn deleted_filters_free_their_memory(site: &Site) {
    gives_memory_back(site, "DEL a b c");
}

fn unlink_frees_a_big_filter(site: &Site) {
    gives_memory_back(site, "UNLINK a b c");
    // Freed in the background: the server counts what its other thread freed.
    let server = site.start();
    let mut client = server.client();
    let freed = client.info_number("lazyfreed_objects");
    assert_eq!(client.say("BF.RESERVE k 0.01 120000000 NONSCALING"), "+OK");
    assert!(client.int("MEMORY USAGE k") >= 128 << 20);
    assert_eq!(client.int("UNLINK k"), 1);
    wait_until("lazily freed", || client.info_number("lazyfreed_objects") > freed);
    // A smaller one is freed immediately, although it has some layers.
    wait_until("idle", || client.info_number("lazyfree_pending_objects") == 0);
    let freed = client.info_number("lazyfreed_objects");
    assert_eq!(client.say("BF.RESERVE k 0.01 100000000 NONSCALING"), "+OK");
    assert!(client.int("MEMORY USAGE k") > 100 << 20);
    assert_eq!(client.int("UNLINK k"), 1);
    client.say("BF.RESERVE k 0.01 1 EXPANSION 1");
    for item in 0..200 {
        client.say(&format!("BF.ADD k {item}"));
    }
    assert!(client.int("BF.CARD k") > 150);
    assert_eq!(client.int("UNLINK k"), 1);
    assert_eq!(client.info_number("lazyfreed_objects"), freed);
}

fn flushed_filters_free_their_memory(site: &Site) {
    gives_memory_back(site, "FLUSHALL ASYNC");
    gives_memory_back(site, "FLUSHDB SYNC");
}

fn a_default_filter_takes_at_most_330_bytes(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    client.say("BF.ADD k a");
    let usage = client.int("MEMORY USAGE k");
    // jemalloc's sizes. With the C library's malloc the server also counts its bytes before each block.
    let most = if client.info("mem_allocator").as_deref() == Some("libc") { 360 } else { 330 };
    assert!((150..=most).contains(&usage), "{usage} bytes");
}

fn object_and_scan_support_filters(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    client.say("BF.ADD k a");
    for command in ["OBJECT ENCODING k", "OBJECT REFCOUNT k", "OBJECT IDLETIME k", "DEBUG OBJECT k"] {
        let reply = client.say(command);
        assert!(!reply.starts_with('-'), "{command}: {reply}");
    }
    assert_eq!(client.say("KEYS *"), "[\"k\"]");
    assert_eq!(client.say("RANDOMKEY"), "\"k\"");
    assert_eq!(client.int("TOUCH k"), 1);
}

fn filters_are_evicted_above_maxmemory(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    let limit = client.info_number("used_memory") + 20_000_000;
    client.say("CONFIG SET maxmemory-policy allkeys-lru");
    client.say(&format!("CONFIG SET maxmemory {limit}"));
    for filter in 0..200 {
        assert_eq!(client.say(&format!("BF.RESERVE filter-{filter} 0.01 400000")), "+OK", "{filter}");
        assert_eq!(client.say(&format!("BF.ADD filter-{filter} a")), "1", "{filter}");
    }
    assert!(client.info_number("evicted_keys") > 50);
    assert!(client.info_number("used_memory") < limit + 2_000_000);
    let left = client.int("DBSIZE");
    assert!((10..100).contains(&left), "{left} filters left");
    // The server may be a few bytes below its limit, and then evicts one more filter for the reply of the next INFO.
    wait_until("evicted filters gone", || {
        client.info_number("bf_filters") == client.int("DBSIZE").unsigned_abs()
    });
}

/// Creates a filter with the key `0`, adds copies of it up to `filters` filters, limits the memory to about half of
/// them, and asserts that the server evicts no more than needed.
fn evicts_no_more_than_needed(site: &Site, filters: u64, create: impl Fn(&mut Client)) {
    // The default of Valkey from 8.0 on: evicted filters may be freed in the background.
    let server =
        site.launch().with("lazyfree-lazy-eviction yes").with("maxmemory-policy allkeys-random").start();
    let mut client = server.client();
    create(&mut client);
    for filter in 1..filters {
        assert_eq!(client.int(&format!("COPY 0 {filter}")), 1);
    }
    let filter_bytes = client.int("MEMORY USAGE 0").unsigned_abs();
    let too_many = filters / 2;
    // Half a filter more, for the memory of the server.
    let limit = client.info_number("used_memory") - too_many * filter_bytes + filter_bytes / 2;
    client.say(&format!("CONFIG SET maxmemory {limit}"));
    wait_until("enough evicted", || {
        client.info_number("used_memory") <= limit && client.info_number("lazyfree_pending_objects") == 0
    });
    let evicted = client.info_number("evicted_keys");
    assert!(
        (too_many..=too_many + 1).contains(&evicted),
        "{evicted} of {filters}, {filter_bytes} bytes each"
    );
    assert_eq!(client.int("DBSIZE").unsigned_abs(), filters - evicted);
}

fn eviction_removes_no_more_filters_than_needed(site: &Site) {
    // 5 MB, 125 MB, and 250 MB, which is otherwise freed in the background. None of their pages is ever written to.
    for (capacity, filters) in [(4_000_000, 50), (100_000_000, 40), (200_000_000, 40)] {
        let line = format!("BF.RESERVE 0 0.01 {capacity} NONSCALING");
        evicts_no_more_than_needed(site, filters, |client| assert_eq!(client.say(&line), "+OK"));
    }
    // Tables that are otherwise freed in the background.
    evicts_no_more_than_needed(site, 30, |client| table_of_segments(client, "0", 1001));
}

fn writes_that_need_memory_are_refused_above_maxmemory(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    client.say("BF.ADD k a");
    client.say("CONFIG SET maxmemory-policy noeviction");
    client.say("CONFIG SET maxmemory 1");
    for command in
        ["BF.ADD k b", "BF.MADD k b", "BF.INSERT k ITEMS b", "BF.RESERVE n 0.1 9", "BF.LOADCHUNK k 1 x"]
    {
        let reply = client.say(command);
        assert_eq!(reply, "-OOM command not allowed when used memory > 'maxmemory'.", "{command}");
    }
    assert_eq!(client.say("BF.MEXISTS k a b"), "[1, 0]");
    assert_eq!(client.int("BF.CARD k"), 1);
    client.say("CONFIG SET maxmemory 0");
    assert_eq!(client.int("BF.ADD k b"), 1);
}

/// A large effort prevents active defragmentation from moving such filters in a single, uninterruptible call. It also
/// makes the server free them in the background, which this test can observe.
fn filters_of_many_layers_or_segments_have_a_large_effort(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    let freed_lazily = |client: &mut Client| {
        let (before, filters) = (client.info_number("lazyfreed_objects"), client.info_number("bf_filters"));
        assert_eq!(client.say("UNLINK k"), "1");
        wait_until("freed", || client.info_number("bf_filters") == filters - 1);
        wait_until("counted", || client.info_number("lazyfree_pending_objects") == 0);
        client.info_number("lazyfreed_objects") - before
    };
    for (layers, is_laborious) in [(1000, 0), (1001, 1)] {
        union_of_layers(&mut client, "k", layers);
        assert_eq!(freed_lazily(&mut client), is_laborious, "{layers} layers");
    }
    for (least, is_laborious) in [(100, 0), (1001, 1)] {
        table_of_segments(&mut client, "k", least);
        assert!(client.int("MEMORY USAGE k") < 64 << 20);
        assert_eq!(freed_lazily(&mut client), is_laborious, "{least} segments");
    }
}

/// Creates a filter that is a table of at least `least` segments under a key. It has a high error rate, so that it
/// takes a few megabytes only.
fn table_of_segments(client: &mut Client, key: &str, least: u64) {
    assert_eq!(client.say(&format!("BF.INSERT {key} ERROR 0.5 ITEMS first")), "[1]");
    let segments = |client: &mut Client| -> u64 {
        let reply = client.say(&format!("BF.INFO {key} TABLE-SEGMENTS"));
        reply.trim_matches(['[', ']']).parse().expect("a number of segments")
    };
    for from in (0u64..).step_by(250_000) {
        if segments(client) >= least {
            return;
        }
        let items: Vec<u8> = (from..from + 250_000).flat_map(u64::to_le_bytes).collect();
        client.call(&[b"BF.BULKADD".as_slice(), key.as_bytes(), b"FIXED", b"8", &items]);
    }
}

/// Creates a filter of this many layers under a key: the union of filters with different keys of the hash.
pub(crate) fn union_of_layers(client: &mut Client, key: &str, layers: u64) {
    let mut line = format!("BF.MERGE {key}");
    for number in 1..=layers {
        client.say(&format!("BF.INSERT source-{number} CAPACITY 1 NONSCALING KEYED ITEMS {number}"));
        line += &format!(" source-{number}");
    }
    assert_eq!(client.say(&format!("{line} FORCE")), "+OK");
    assert_eq!(client.say(&format!("BF.INFO {key} FILTERS")), format!("[{layers}]"));
}
