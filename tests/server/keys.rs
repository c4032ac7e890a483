//! A filter is a key like any other: it has a type and a time to live, is evicted and deleted.

use crate::harness::{Client, Site, Test, numbered, tests, wait_until};
use crate::journeys::append_only;

pub(crate) const TESTS: &[Test] = tests![
    a_filter_has_a_type_of_its_own,
    a_filter_expires_at_its_time_everywhere,
    filters_that_are_removed_or_cleared_free_their_memory,
    a_cleared_filter_takes_no_memory_until_it_is_used,
    filters_above_128_mib_are_freed_in_the_background,
    filters_of_many_layers_or_segments_have_a_large_effort,
    a_default_filter_takes_at_most_330_bytes,
    eviction_removes_no_more_filters_than_needed,
    writes_that_need_memory_are_refused_above_maxmemory,
];

/// Commands of filters refuse keys of other types, and commands of other types refuse filters.
fn a_filter_has_a_type_of_its_own(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    let wrong_type = "-WRONGTYPE Operation against a key holding the wrong kind of value";
    for make in ["SET x text", "RPUSH x a", "SADD x a", "HSET x a b", "ZADD x 1 a", "XADD x * a b"] {
        client.say("DEL x");
        client.say(make);
        let before = client.digest("x");
        for command in
            ["BF.ADD x a", "BF.EXISTS x a", "BF.INFO x", "BF.RESERVE x 0.01 100", "BF.LOADCHUNK x 1 data"]
        {
            assert_eq!(client.say(command), wrong_type, "{command} after {make}");
        }
        assert_eq!(client.digest("x"), before, "{make}");
    }
    client.say("DEL x");
    client.say("BF.ADD x a");
    for command in ["GET x", "LPUSH x a", "SADD x a", "APPEND x a", "INCR x", "HGETALL x"] {
        assert_eq!(client.say(command), wrong_type, "{command} on a filter");
    }
    assert_eq!(client.say("SCAN 0 COUNT 100 TYPE everbloom"), "[\"0\", [\"x\"]]");
    // A type that no module has. Valkey from 8.0 on refuses the command.
    let reply = client.say("SCAN 0 COUNT 100 TYPE unknownxx");
    let is_refused = site.from(None, Some((8, 0)));
    assert!(if is_refused { reply.starts_with('-') } else { reply == "[\"0\", []]" }, "{reply}");
    assert_eq!(
        (client.say("KEYS *"), client.say("RANDOMKEY"), client.int("TOUCH x")),
        ("[\"x\"]".to_owned(), "\"x\"".to_owned(), 1)
    );
    for command in ["OBJECT ENCODING x", "OBJECT REFCOUNT x", "OBJECT IDLETIME x", "DEBUG OBJECT x"] {
        let reply = client.say(command);
        assert!(!reply.starts_with('-'), "{command}: {reply}");
    }
}

/// Commands that create a filter, and their options before the time to live.
const MAKERS: [(&str, &str); 4] = [
    ("BF.RESERVE", "0.01 100"),
    ("BF.RESERVE", "0.01 100 FORMAT redisbloom"),
    ("BF.INSERT", "FORMAT valkey-bloom"),
    ("BF.IMPORT", "EMPTY SCHEME guava-mitz64 BITS 64 HASHES 3"),
];

fn a_filter_expires_at_its_time_everywhere(site: &Site) {
    let server = append_only(site.launch(), "no").start();
    let replica = server.replica(site.launch().with("propagation-error-behavior panic"));
    let mut client = server.client();
    for (index, (command, options)) in MAKERS.iter().enumerate() {
        let tail = if *command == "BF.INSERT" { " ITEMS a" } else { "" };
        client.say(&format!("{command} k{index} {options} EX 1000{tail}"));
        assert!((990..=1000).contains(&client.int(&format!("TTL k{index}"))), "{command} {options}");
        client.say(&format!("{command} gone{index} {options} PX 50{tail}"));
        wait_until("the filter expires", || client.int(&format!("EXISTS gone{index}")) == 0);
    }
    let times = |client: &mut Client| -> Vec<i64> {
        (0..MAKERS.len()).map(|index| client.int(&format!("PEXPIRETIME k{index}"))).collect()
    };
    // Neither an add nor a merge changes the time to live.
    let expected = times(&mut client);
    client.say("BF.MADD k0 b c");
    client.say("BF.ADD source a");
    assert_eq!(client.say("BF.MERGE k0 source FORCE"), "+OK");
    // A time in the past leaves no filter.
    assert_eq!(client.say("BF.RESERVE past 0.01 100 EXAT 1000"), "+OK");
    assert_eq!(client.int("EXISTS past"), 0);
    // An expired filter does not exist. An add creates a new one.
    assert_eq!((client.say("BF.INFO gone0"), client.int("BF.ADD gone0 a")), ("-ERR not found".to_owned(), 1));
    assert_eq!((client.int("TTL gone0"), client.int("WAIT 1 60000")), (-1, 1));
    assert_eq!(times(&mut replica.client()), expected);
    assert_eq!(replica.client().say("DEBUG DIGEST"), client.say("DEBUG DIGEST"));
    drop(client);
    assert_eq!(times(&mut server.restart().client()), expected);
}

/// Creates a filter of about 12 MB with every page in use.
fn big(client: &mut Client, key: &str) {
    assert_eq!(client.say(&format!("BF.RESERVE {key} 0.01 10000000")), "+OK");
    client.many(&format!("BF.MADD {key}"), &numbered("item", 0..20_000));
}

fn filters_that_are_removed_or_cleared_free_their_memory(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    client.say("BF.ADD marker x");
    let before = client.info_number("used_memory");
    for lines in [
        &["DEL a b c"][..],
        &["UNLINK a b c"],
        &["BF.CLEAR a", "BF.CLEAR b", "BF.CLEAR c", "DEL a b c"],
        &["FLUSHDB SYNC"],
        &["FLUSHALL ASYNC"],
    ] {
        ["a", "b", "c"].iter().for_each(|key| big(&mut client, key));
        assert!(client.info_number("used_memory") > before + 30_000_000);
        for line in lines {
            let reply = client.say(line);
            assert!(!reply.starts_with('-'), "{line}: {reply}");
            // A cleared filter keeps its array, but gives the array's pages back.
            assert_eq!(client.int("BF.EXISTS a item-0"), 0);
        }
        wait_until("memory given back", || client.info_number("used_memory") < before + 2_000_000);
        wait_until("filters gone", || client.info_number("bf_filters") <= 1);
    }
}

/// One filter is below, and one above the size from which filters are freed in the background.
fn a_cleared_filter_takes_no_memory_until_it_is_used(site: &Site) {
    if site.hides_memory() {
        return;
    }
    for capacity in [20_000_000, 250_000_000] {
        let server = site.start();
        let mut client = server.client();
        let before = server.resident_bytes();
        assert_eq!(client.say(&format!("BF.RESERVE k 0.01 {capacity} NONSCALING")), "+OK");
        client.many("BF.MADD k", &numbered("item", 0..20_000));
        assert!(server.resident_bytes() > before + (20 << 20));
        assert_eq!(client.say("BF.CLEAR k"), "+OK");
        wait_until("memory is given back", || server.resident_bytes() < before + (20 << 20));
        assert_eq!((client.info_number("bf_items"), client.say("BF.ADD k again")), (0, "1".to_owned()));
    }
}

fn filters_above_128_mib_are_freed_in_the_background(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    for (capacity, is_lazy) in [(120_000_000, 1), (100_000_000, 0)] {
        let freed = client.info_number("lazyfreed_objects");
        assert_eq!(client.say(&format!("BF.RESERVE k 0.01 {capacity} NONSCALING")), "+OK");
        assert!(client.int("MEMORY USAGE k") > 100 << 20);
        assert_eq!(client.int("UNLINK k"), 1);
        wait_until("idle", || client.info_number("lazyfree_pending_objects") == 0);
        assert_eq!(client.info_number("lazyfreed_objects"), freed + is_lazy, "{capacity}");
    }
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
    for from in (0u64..).step_by(250_000) {
        if client.field(key, "TABLE-SEGMENTS") >= least {
            return;
        }
        let items: Vec<u8> = (from..from + 250_000).flat_map(u64::to_le_bytes).collect();
        client.call(&[b"BF.BULKADD".as_slice(), key.as_bytes(), b"FIXED", b"8", &items]);
    }
}

/// Creates a filter of this many layers under a key: a union of keyed filters, whose layers cannot be united because
/// their keys differ.
pub(crate) fn union_of_layers(client: &mut Client, key: &str, layers: u64) {
    let mut line = format!("BF.MERGE {key}");
    for number in 1..=layers {
        client.say(&format!("BF.INSERT source-{number} CAPACITY 1 NONSCALING KEYED ITEMS {number}"));
        line += &format!(" source-{number}");
    }
    assert_eq!(client.say(&format!("{line} FORCE")), "+OK");
    assert_eq!(client.say(&format!("BF.INFO {key} FILTERS")), format!("[{layers}]"));
}

fn a_default_filter_takes_at_most_330_bytes(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    client.say("BF.ADD k a");
    let usage = client.int("MEMORY USAGE k");
    // 330 bytes hold for jemalloc. With the C library's malloc the server also counts the bytes before each block.
    let most = if client.info("mem_allocator").as_deref() == Some("libc") { 360 } else { 330 };
    assert!((150..=most).contains(&usage), "{usage} bytes");
}

/// Creates a filter with the key `0` and copies of it, `filters` in all. Limits the memory to about half of them, and
/// asserts that the server evicts no more than needed.
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
    // Filters of 5, 125 and 250 MB, whose pages are never written to. Those of 250 MB are freed in the background,
    // except by eviction.
    for (capacity, filters) in [(4_000_000, 50), (100_000_000, 40), (200_000_000, 40)] {
        let line = format!("BF.RESERVE 0 0.01 {capacity} NONSCALING");
        evicts_no_more_than_needed(site, filters, |client| assert_eq!(client.say(&line), "+OK"));
    }
    // These tables are freed in the background, except by eviction.
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
    assert_eq!((client.say("BF.CLEAR k"), client.int("BF.CARD k")), ("+OK".to_owned(), 0));
    client.say("CONFIG SET maxmemory 0");
    assert_eq!(client.int("BF.ADD k b"), 1);
}
