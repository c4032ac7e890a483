//! Settings, which decide the format, growth, hash and capacity of new filters. Two limits: that of a filter's bytes,
//! with refused items, log lines and VALIDATESCALETO, and that of the count of an item.

use everbloom_command::words::Word;
use everbloom_command::{CommandError, Settings};
use everbloom_filter::table::COUNT_MAX;
use everbloom_filter::{Format, Growth, Hash, Kind, Limit, LimitSource, ReserveError};

use crate::support::server::Server;

const NOT_FOUND: &str = "-ERR not found";
const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value";

/// The first half of the random bytes of the test's server.
const DRAWN: [u8; 16] = [7; 16];
const GIVEN: [u8; 16] = *b"0123456789abcdef";

/// Returns the key of a keyed filter.
fn key(server: &Server, name: &str) -> Option<[u8; 16]> {
    match server.filter(name).hash() {
        Hash::Keyed(key) => Some(*key.bytes()),
        _ => None,
    }
}

/// The settings `fixed_filters_saturate` and `keyed` apply only to new filters of a kind and format that can saturate
/// or be keyed.
#[test]
fn fixed_filters_saturate_and_filters_are_keyed_if_they_can() {
    let fixed = Growth::Fixed;
    let scaling = Growth::Scaling { expansion: 2 };
    for (line, growth, is_keyed) in [
        ("BF.RESERVE k 0.01 9 NONSCALING", Growth::Saturating, true),
        ("BF.RESERVE k 0.01 9 EXPANSION 0", Growth::Saturating, true),
        ("BF.INSERT k NONSCALING ITEMS x", Growth::Saturating, true),
        ("BF.RESERVE k 0.01 9", scaling, true),
        ("BF.ADD k x", Growth::Unreserved { expansion: 2 }, true),
        ("BF.INSERT k NONSCALING COUNTING ITEMS x", fixed, true),
        ("BF.INSERT k NONSCALING WINDOW 60 ITEMS x", fixed, true),
        ("BF.RESERVE k 0.01 9 NONSCALING FORMAT redisbloom", fixed, false),
        ("BF.RESERVE k 0.01 9 FORMAT redisbloom", scaling, false),
        ("BF.RESERVE k 0.01 9 NONSCALING FORMAT valkey-bloom", fixed, false),
        ("BF.IMPORT k EMPTY SCHEME guava-mitz64 BITS 64 HASHES 3 NONSCALING", fixed, false),
    ] {
        for is_on in [false, true] {
            let mut server = Server::new();
            (server.settings.fixed_filters_saturate, server.settings.keyed) = (is_on, is_on);
            server.must(line);
            let filter = server.filter("k");
            let expected = if is_on || growth != Growth::Saturating { growth } else { fixed };
            assert_eq!(filter.growth(), expected, "{line}");
            assert_eq!(key(&server, "k"), (is_on && is_keyed).then_some(DRAWN), "{line}");
            server.run("BF.CLEAR k");
            assert_eq!(key(&server, "k"), (is_on && is_keyed).then_some(DRAWN), "{line}");
        }
    }
}

#[test]
fn a_keyed_filter_gets_a_random_or_a_given_key() {
    for (line, expected) in [
        ("BF.RESERVE k 0.01 100 keyed", Some(DRAWN)),
        ("BF.INSERT k KEYED ITEMS x", Some(DRAWN)),
        ("BF.INSERT k COUNTING KEYED ITEMS x", Some(DRAWN)),
        ("BF.INSERT k KEY 0123456789abcdef ITEMS x", Some(GIVEN)),
        ("BF.INSERT k KEYED KEY 0123456789abcdef ITEMS x", Some(GIVEN)),
        ("BF.INSERT k COUNTING KEY 0123456789abcdef ITEMS x", Some(GIVEN)),
        ("BF.INSERT k WINDOW 60 KEY 0123456789abcdef ITEMS x", Some(GIVEN)),
        ("BF.ADD k x", None),
    ] {
        let mut server = Server::new();
        server.must(line);
        assert_eq!(key(&server, "k"), expected, "{line}");
        // A keyed filter with counts or times has the kind of its entries.
        let kind = match server.filter("k").kind() {
            Kind::Counting => "counting",
            Kind::Window => "window",
            _ if expected.is_some() => "keyed",
            _ => "everbloom",
        };
        let stats = server.run("BF.STATS k");
        assert!(stats.contains(&format!("+kind ${kind} ")), "{line}: {stats}");
        // No reply contains the key.
        let replies = ["BF.INFO k", "BF.DEBUG k"].map(|line| server.run(line)).concat() + &stats;
        assert!(!replies.contains("0123456789abcdef"), "{line}: {replies}");
    }
}

#[test]
fn a_capacity_that_somebody_chose_decides_what_a_new_filter_is() {
    let bits = |capacity_items| (false, capacity_items);
    let table = (true, 100);
    for (initial_size_items, line, expected) in [
        (100, "BF.ADD k a", table),
        (100, "BF.MADD k a b", table),
        (100, "BF.INSERT k ITEMS a", table),
        (100, "BF.INSERT k ERROR 0.5 EXPANSION 1 KEYED ITEMS a", table),
        (100, "BF.BULKADD k LINES a", table),
        (100, "BF.INSERT k CAPACITY 100 ITEMS a", bits(100)),
        (100, "BF.RESERVE k 0.01 100", bits(100)),
        (100, "BF.INSERT k NONSCALING ITEMS a", bits(100)),
        (100, "BF.INSERT k EXPANSION 0 ITEMS a", bits(100)),
        (7, "BF.ADD k a", bits(7)),
        (7, "BF.INSERT k ITEMS a", bits(7)),
        (7, "BF.INSERT k NONSCALING ITEMS a", bits(7)),
        (7, "BF.INSERT k EXPANSION 0 ITEMS a", bits(7)),
        (7, "BF.INSERT k UNRESERVED ITEMS a", table),
        (7, "BF.INSERT k CAPACITY 5 UNRESERVED ITEMS a", (true, 5)),
        (7, "BF.INSERT k COUNTING ITEMS a", (true, 7)),
        (7, "BF.INSERT k WINDOW 60 ITEMS a", (true, 7)),
    ] {
        let mut server = Server::new();
        server.settings.initial_size_items = initial_size_items;
        server.must(line);
        let filter = server.filter("k");
        let made = (filter.layers().is_empty(), filter.capacity_items());
        assert_eq!(made, expected, "{initial_size_items}: {line}");
        // A replica makes the same filter with any default capacity of its own.
        for initial_size_items in [7, 100, 5000] {
            server.assert_replicated(Settings { initial_size_items, ..Settings::DEFAULT });
        }
    }
    // If the setting makes new filters fixed, they have bits.
    let mut server = Server::new();
    server.settings.expansion_factor = 0;
    server.run("BF.ADD k a");
    assert_eq!(server.filter("k").layer_count(), 1);
}

/// A replica applies no limits, and a replicated BF.RESERVE without a format is RedisBloom's.
#[test]
fn a_replica_makes_the_filter_of_its_primary() {
    let mut server = Server::new();
    server.is_replicated = true;
    for format in Format::ALL {
        server.settings.format = format;
        let key = format.word();
        assert_eq!(server.run(&format!("BF.RESERVE {key} 0.01 2147483648")), "+OK");
        assert_eq!(server.filter(key).format(), Format::RedisBloom);
    }
}

#[test]
fn growth_above_the_byte_limit_refuses_the_item_and_is_logged_once_a_minute() {
    let mut server = Server::new();
    server.settings.max_filter_bytes = 512;
    server.run("BF.INSERT k CAPACITY 10 ERROR 0.001 ITEMS a");
    server.run("BF.RESERVE fixed 0.001 1 NONSCALING");
    for command in ["BF.MADD k", "BF.INSERT k NOCREATE ITEMS"] {
        let reply = server.batches(command, "i", 0..200);
        assert!(reply.contains("-ERR problem inserting into filter"), "{command}: {reply}");
    }
    assert!(server.replicated[2].starts_with("BF.MADD k i0 i1 "));
    assert_eq!(server.run("BF.MEXISTS k a i0 i1"), "*3 #t #t #t");
    assert!(server.batches("BF.MADD fixed", "i", 0..200).contains("-ERR non scaling filter is full"));
    server.run("BF.ADD fixed more");
    let refusal = server.run("BF.RESERVE r 0.01 1000000");
    assert!(refusal.starts_with("-ERR filter would take "), "{refusal}");
    assert!(refusal.contains("bf.max-filter-bytes"), "{refusal}");
    let refusal = server.run("BF.IMPORT r EMPTY SCHEME go-zero BITS 80000");
    assert!(refusal.starts_with("-ERR filter would take 10"), "{refusal}");
    let [limited, fixed] = &server.log[..] else { panic!("{:?}", server.log) };
    assert!(
        limited.starts_with("'k' has no room for new items: with more items it would take "),
        "{limited}"
    );
    assert!(limited.ends_with(" bytes, more than bf.max-filter-bytes (512)"), "{limited}");
    let text = "'fixed' has no room for new items: it is fixed and has as many items as its capacity; without \
                NONSCALING it would accept more";
    assert_eq!(fixed, text);
    server.now_ms += 60_000;
    server.run("BF.ADD fixed more");
    assert_eq!(server.log.len(), 3, "{:?}", server.log);
}

#[test]
fn a_filter_that_is_too_large_is_refused_with_the_limit_and_its_setting() {
    for (source, text) in [
        (
            LimitSource::Setting,
            "bf.max-filter-bytes (8): choose a smaller capacity or raise bf.max-filter-bytes",
        ),
        (LimitSource::MaxMemory, "maxmemory (8): choose a smaller capacity or raise maxmemory"),
        (
            LimitSource::Cgroup,
            "the memory limit of the cgroup (8): choose a smaller capacity or raise the memory limit of the cgroup",
        ),
        (LimitSource::Machine, "the machine has (8): choose a smaller capacity"),
        (LimitSource::Layer, "a layer can have (8): choose a smaller capacity"),
        (LimitSource::Array, "an array of a cuckoo filter can have (8): choose a smaller capacity"),
    ] {
        let limit = Limit { bytes: 8, source };
        let error = CommandError::Reserve(ReserveError::TooLarge { needed_bytes: 9, limit });
        assert_eq!(error.to_string(), format!("ERR filter would take 9 bytes, more than {text}"));
    }
}

/// Of several limits, the smallest one is stated. Of equal ones, the first.
#[test]
fn the_smallest_limit_counts() {
    let limit = |bytes, source| Limit { bytes, source };
    let machine = limit(8, LimitSource::Machine);
    for (bytes, source) in [(7, LimitSource::Cgroup), (8, LimitSource::Machine), (9, LimitSource::Machine)] {
        let smaller = machine.min(limit(bytes, LimitSource::Cgroup));
        assert_eq!(smaller, limit(bytes.min(8), source));
    }
}

/// tests/pure/growth finds the least limit that is validated.
#[test]
fn a_new_filter_must_be_able_to_grow_to_the_items_of_validatescaleto() {
    let too_large = "-ERR provided VALIDATESCALETO causes bloom object to exceed memory limit";
    for options in ["", "COUNTING ", "CAPACITY 1000 ", "UNRESERVED KEYED "] {
        let mut server = Server::new();
        server.settings.max_filter_bytes = 1 << 18;
        let line = |items: u64| format!("BF.INSERT k {options}VALIDATESCALETO {items} ITEMS a");
        assert_eq!(server.run(&line(250_000)), too_large, "{options}");
        assert!(server.keys.is_empty());
        assert_eq!(server.run(&line(50_000)), "*1 #t", "{options}");
        // The filter takes that many items.
        server.add("k", "", 0..50_000);
        server.assert_replicated(Settings::DEFAULT);
    }
}

/// Returns the reply to a command with the same item many times.
fn repeated(server: &mut Server, command: &str, item: &str, times: usize) -> String {
    server.run(&format!("{command}{}", format!(" {item}").repeat(times)))
}

/// Doubles the counts of a filter under `k` until an item that was added once has the largest count.
fn double_to_the_most(server: &mut Server) {
    for _ in 0..COUNT_MAX.ilog2() {
        server.copy("k", "half");
        server.must("BF.MERGE k half");
    }
    server.keys.remove(&b"half"[..]);
}

#[test]
fn more_than_can_be_counted_is_an_error_and_changes_nothing() {
    let error = format!("-ERR item was added too often: at most {COUNT_MAX} times are counted");
    assert_eq!(COUNT_MAX, 1 << 54);
    for words in ["", " CAPACITY 3 NONSCALING", " KEYED"] {
        let mut server = Server::new();
        server.must(&format!("BF.INSERT k ERROR 0.0001{words} COUNTING ITEMS x"));
        double_to_the_most(&mut server);
        server.must("BF.ADD k other");
        let (before, replicated) = (server.digested("k"), server.replicated.len());
        assert_eq!(server.run("BF.ADD k x"), error);
        assert_eq!(server.run("BF.MADD k x x"), format!("*2 {error} {error}"));
        assert_eq!(server.run("BF.BULKADD k LINES x\nx"), "$!!");
        assert!(server.digested("k") == before);
        assert_eq!((server.replicated.len(), server.log.len()), (replicated, 0));
        // Only this item is refused, and only the others are replicated.
        assert_eq!(server.run("BF.MADD k x y x other"), format!("*4 {error} #t {error} #f"));
        assert_eq!(server.replicated.last().unwrap(), "BF.MADD k y other");
        assert_eq!(server.run("BF.CARD k"), format!(":{}", COUNT_MAX + 3));
        // One deletion makes room for one more.
        assert_eq!(server.run("BF.DEL k x"), "*1 #t");
        assert_eq!(server.run("BF.MADD k x x"), format!("*2 #f {error}"));
        assert_eq!(server.run("BF.DEL k y other other y"), "*4 #t #t #t #f");
        assert_eq!(server.run("BF.MEXISTS k x y other"), "*3 #t #f #f");
    }
}

/// More occurrences of an item take two more slots at 2, at 4097, at 2^24 + 1 and so on. They are deleted one by one.
#[test]
fn every_occurrence_of_an_item_is_counted() {
    let mut server = Server::new();
    server.must("BF.RESERVE k 0.0001 100 COUNTING");
    let (mut count, mut random) = (0u64, crate::support::Random(3));
    let used = |server: &Server| server.filter("k").table().unwrap().used_slots();
    for _ in 0..40 {
        for _ in 0..random.below(4100) {
            server.must("BF.ADD k x");
            count += 1;
        }
        for _ in 0..random.below(3000).min(count as usize) {
            assert_eq!(server.run("BF.DEL k x"), "*1 #t");
            count -= 1;
        }
        assert_eq!(server.run("BF.CARD k"), format!(":{count}"));
        let digits = if count < 2 { 0 } else { (count - 1).ilog2() / 12 + 1 };
        assert_eq!(used(&server), if count == 0 { 0 } else { 1 + 2 * u64::from(digits) }, "{count}");
    }
    assert!(count > 1 << 12);
    while server.run("BF.DEL k x") == "*1 #t" {
        count -= 1;
    }
    assert_eq!((count, server.run("BF.EXISTS k x").as_str()), (0, "#f"));
}

/// `bf.expansion-factor` is about filters of BF.*: with 0 they are fixed. Those of CF.* grow unless EXPANSION is 0.
#[test]
fn filters_of_cf_grow_whatever_the_expansion_of_bf_is() {
    for (line, is_fixed) in [
        ("CF.RESERVE k 4", false),
        ("CF.RESERVE k 4 EXPANSION 2", false),
        ("CF.RESERVE k 4 EXPANSION 0", true),
        ("CF.ADD k first", false),
        ("CF.INSERT k CAPACITY 4 ITEMS first", false),
        ("BF.RESERVE k 0.01 4 COUNTING", true),
    ] {
        let mut server = Server::new();
        server.settings.expansion_factor = 0;
        let reply = server.run(line);
        assert!(!reply.starts_with('-'), "{line}: {reply}");
        assert_eq!(server.filter("k").growth().is_fixed_size(), is_fixed, "{line}");
    }
}
