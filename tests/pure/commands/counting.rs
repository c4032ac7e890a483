//! Counting filters: options, errors, the bound of counts, memory, and replicated changes.

use everbloom::bloom::Format;
use everbloom::bloom::table::COUNT_MAX;
use everbloom::command::Settings;

use crate::support::Random;
use crate::support::saved::digested;
use crate::support::server::{Server, assert_dialogue};

const NOT_OWN: &str = "-ERR COUNTING needs FORMAT everbloom";

fn size_bytes(server: &Server, key: &str) -> u64 {
    server.keys[key.as_bytes()].size_bytes()
}

/// Returns a line with the same item many times.
fn repeated(command: &str, item: &str, times: usize) -> String {
    format!("{command}{}", format!(" {item}").repeat(times))
}

/// Returns a line with the items of these numbers.
fn line_of(command: &str, numbers: impl Iterator<Item = u64>) -> String {
    let items: Vec<String> = numbers.map(|number| format!("item-{number}")).collect();
    format!("{command} {}", items.join(" "))
}

#[test]
fn counting_needs_everblooms_format() {
    let dialogue = [
        ("BF.RESERVE a 0.01 100 COUNTING", "+OK"),
        ("BF.RESERVE b 0.01 100 counting FORMAT everbloom NONSCALING", "+OK"),
        ("BF.RESERVE c 0.01 100 COUNTING FORMAT redisbloom", NOT_OWN),
        ("BF.RESERVE c 0.01 100 FORMAT valkey-bloom COUNTING", NOT_OWN),
        ("BF.RESERVE a 0.01 100 COUNTING FORMAT redisbloom", NOT_OWN),
        ("BF.RESERVE a 0.01 100 COUNTING IFNOTEXISTS", ":0"),
        ("BF.INSERT c FORMAT redisbloom COUNTING ITEMS x", NOT_OWN),
        (
            "BF.INSERT a FORMAT redisbloom COUNTING ITEMS x",
            "-ERR FORMAT differs from the existing filter: omit the option, or use another key",
        ),
        ("BF.INSERT c COUNTING SEED 00000000000000000000000000000000 ITEMS x", NOT_OWN),
        ("BF.INSERT c COUNTING TIGHTENING 0.5 ITEMS x", "-ERR SEED and TIGHTENING need FORMAT valkey-bloom"),
        (
            "BF.INSERT c COUNTING VALIDATESCALETO 1000000000000 ITEMS x",
            "-ERR provided VALIDATESCALETO causes bloom object to exceed memory limit",
        ),
        ("BF.INSERT c COUNTING VALIDATESCALETO 1000 ITEMS x", "*1 #t"),
    ];
    let mut server = Server::new();
    assert_dialogue(&mut server, &dialogue);
    // COUNTING selects its format even if another one is the default.
    server.settings = Settings { format: Format::RedisBloom, ..Settings::DEFAULT };
    assert_eq!(server.run("BF.RESERVE d 0.01 100 COUNTING"), "+OK");
    assert_eq!(server.run("BF.DEL d x"), "*1 #f");
    let expected = [
        "BF.INSERT a CAPACITY 100 ERROR 0.01 EXPANSION 2 FORMAT everbloom COUNTING",
        "BF.INSERT b CAPACITY 100 ERROR 0.01 NONSCALING FORMAT everbloom COUNTING",
        "BF.INSERT c ERROR 0.01 EXPANSION 2 UNRESERVED FORMAT everbloom COUNTING ITEMS x",
        "BF.INSERT d CAPACITY 100 ERROR 0.01 EXPANSION 2 FORMAT everbloom COUNTING",
    ];
    assert_eq!(server.replicated, expected);
}

/// A full counting filter always refuses, because the memory of counted items is not fixed.
#[test]
fn a_counting_filter_does_not_saturate() {
    const ERROR: &str = "-ERR SATURATE cannot be combined with COUNTING: counted items have no fixed memory";
    let mut server = Server::new();
    for line in [
        "BF.RESERVE k 0.01 2 NONSCALING COUNTING SATURATE",
        "BF.RESERVE k 0.01 2 SATURATE COUNTING",
        "BF.INSERT k COUNTING NONSCALING SATURATE ITEMS a",
        "BF.INSERT k SATURATE COUNTING EXPANSION 0 ITEMS a",
    ] {
        assert_eq!(server.run(line), ERROR, "{line}");
    }
    assert!(server.keys.is_empty());
    // The settings for fixed filters do not make it saturate either.
    server.settings = Settings { expansion_factor: 0, fixed_filters_saturate: true, ..Settings::DEFAULT };
    assert_eq!(server.run("BF.RESERVE k 0.01 2 COUNTING SATURATE"), ERROR);
    for (key, line) in [
        ("k", "BF.RESERVE k 0.0001 2 COUNTING"),
        ("l", "BF.INSERT l CAPACITY 2 ERROR 0.0001 COUNTING NONSCALING ITEMS x"),
    ] {
        assert!(!server.run(line).contains("-ERR"), "{line}");
        assert!(server.run(&format!("BF.MADD {key} x y")).contains("#t"));
        assert_eq!(server.run(&format!("BF.ADD {key} z")), "-ERR non scaling filter is full");
        assert!(server.run(&format!("BF.STATS {key}")).contains(" +growth $fixed "));
    }
    // It differs from a filter that saturates.
    let reply = server.run("BF.INSERT k SATURATE ITEMS x");
    assert_eq!(reply, "-ERR SATURATE differs from the existing filter: omit the option, or use another key");
    server.assert_replicated(Settings { fixed_filters_saturate: true, ..Settings::DEFAULT });
}

#[test]
fn every_add_counts_and_deletions_are_replicated() {
    let mut server = Server::new();
    server.run("BF.RESERVE k 0.001 2 COUNTING NONSCALING");
    server.replicated.clear();
    server.events.clear();
    let dialogue = [
        ("BF.ADD k a", "#t"),
        ("BF.ADD k a", "#f"),
        ("BF.MADD k a b", "*2 #f #t"),
        ("BF.CARD k", ":4"),
        ("BF.ADD k c", "-ERR non scaling filter is full"),
        ("BF.MADD k a c b", "*2 #f -ERR non scaling filter is full"),
        ("BF.INSERT k COUNTING ITEMS a", "*1 #f"),
        ("BF.INSERT k ITEMS b", "*1 #f"),
        ("BF.DEL k x", "*1 #f"),
        ("BF.DEL k a", "*1 #t"),
        ("BF.DEL k a x b a", "*4 #t #f #t #t"),
        ("BF.DEL k a a a", "*3 #t #t #f"),
        ("BF.CARD k", ":1"),
        ("BF.MEXISTS k a b", "*2 #f #t"),
        ("BF.ADD k c", "#t"),
    ];
    assert_dialogue(&mut server, &dialogue);
    let expected = [
        "BF.ADD k a",
        "BF.ADD k a",
        "BF.MADD k a b",
        "BF.MADD k a",
        "BF.MADD k a",
        "BF.INSERT k ITEMS b",
        "BF.DEL k a",
        "BF.DEL k a b a",
        "BF.DEL k a a",
        "BF.ADD k c",
    ];
    assert_eq!(server.replicated, expected);
    let (add, del) = ("bloom.add", "bloom.del");
    assert_eq!(server.events, [add, add, add, add, add, add, del, del, del, add]);
}

#[test]
fn an_item_is_added_a_thousand_times_and_deleted_as_often() {
    let mut server = Server::new();
    for (key, words) in [("k", ""), ("fixed", " CAPACITY 3 NONSCALING"), ("keyed", " KEYED")] {
        server.run(&format!("BF.INSERT {key} ERROR 0.0001{words} COUNTING ITEMS other more"));
        let added = server.run(&repeated(&format!("BF.MADD {key}"), "x", 1000));
        assert_eq!(added, format!("*1000 #t{}", " #f".repeat(999)));
        assert_eq!(server.run(&format!("BF.CARD {key}")), ":1002");
        // A thousand occurrences of one item take as much memory as a few.
        let size = size_bytes(&server, key);
        assert_eq!(
            server.run(&repeated(&format!("BF.DEL {key}"), "x", 990)),
            format!("*990{}", " #t".repeat(990))
        );
        assert_eq!(size_bytes(&server, key), size, "{key}");
        assert_eq!(server.run(&format!("BF.MEXISTS {key} x other more")), "*3 #t #t #t");
        assert_eq!(
            server.run(&repeated(&format!("BF.DEL {key}"), "x", 11)),
            format!("*11{} #f", " #t".repeat(10))
        );
        assert_eq!(server.run(&format!("BF.MEXISTS {key} x other more")), "*3 #f #t #t");
        assert_eq!(server.run(&format!("BF.CARD {key}")), ":2");
    }
    server.assert_replicated(Settings::DEFAULT);
}

#[test]
fn more_than_can_be_counted_is_an_error_and_changes_nothing() {
    const ERROR: &str = "-ERR item was added too often: at most 4097 times are counted";
    assert_eq!(COUNT_MAX, 4097);
    let times = COUNT_MAX as usize;
    let mut server = Server::new();
    server.run("BF.INSERT k ERROR 0.0001 COUNTING ITEMS other");
    assert!(!server.run(&repeated("BF.MADD k", "x", times)).contains("-ERR"));
    let before = digested(&server.keys[b"k".as_slice()]);
    let replicated = server.replicated.len();
    assert_eq!(server.run("BF.ADD k x"), ERROR);
    assert_eq!(server.run("BF.MADD k x x"), format!("*2 {ERROR} {ERROR}"));
    assert_eq!(server.run("BF.BULKADD k LINES x\nx"), "$!!");
    assert!(digested(&server.keys[b"k".as_slice()]) == before);
    assert_eq!((server.replicated.len(), server.log.len()), (replicated, 0));
    // Only this item is refused, and only the others are replicated.
    assert_eq!(server.run("BF.MADD k x y x other"), format!("*4 {ERROR} #t {ERROR} #f"));
    assert_eq!(server.replicated.last().unwrap(), "BF.MADD k y other");
    assert_eq!(server.run("BF.CARD k"), format!(":{}", COUNT_MAX + 3));
    // One deletion makes room for one more.
    assert_eq!(server.run("BF.DEL k x"), "*1 #t");
    assert_eq!(server.run("BF.MADD k x x"), format!("*2 #f {ERROR}"));
    let deleted = server.run(&repeated("BF.DEL k", "x", times + 1));
    assert_eq!(deleted, format!("*{}{} #f", times + 1, " #t".repeat(times)));
    assert_eq!(server.run("BF.MEXISTS k x y other"), "*3 #f #t #t");
    assert_eq!(server.run("BF.CARD k"), ":3");
    server.assert_replicated(Settings::DEFAULT);
}

#[test]
fn memory_follows_the_items() {
    const ITEMS: u64 = 60_000;
    let mut server = Server::new();
    server.run("BF.RESERVE new 0.01 10 COUNTING");
    server.run("BF.RESERVE k 0.01 10 COUNTING");
    let batches = || (0..ITEMS).step_by(5000).map(|first| first..first + 5000);
    for batch in batches() {
        server.run(&line_of("BF.MADD k", batch));
    }
    assert_eq!(server.run("BF.INFO k FILTERS"), "*1 :1");
    let full = size_bytes(&server, "k");
    assert!(full * 8 < ITEMS * 21, "{full} bytes");
    for batch in batches().take(9) {
        let reply = server.run(&line_of("BF.DEL k", batch));
        assert_eq!(reply.matches("#t").count(), 5000);
    }
    let quarter = size_bytes(&server, "k");
    assert!(quarter < full / 3, "{quarter} of {full} bytes");
    let kept = server.run(&line_of("BF.MEXISTS k", 45_000..ITEMS));
    assert_eq!(kept.matches("#t").count() as u64, ITEMS - 45_000);
    let gone = server.run(&line_of("BF.MEXISTS k", 0..45_000)).matches("#t").count();
    assert!(gone < 450, "{gone}");
    for batch in batches().skip(9) {
        server.run(&line_of("BF.DEL k", batch));
    }
    assert_eq!(server.run("BF.CARD k"), ":0");
    assert_eq!(server.run(&line_of("BF.MEXISTS k", 0..ITEMS)).matches("#t").count(), 0);
    let (new, emptied) = (size_bytes(&server, "new"), size_bytes(&server, "k"));
    assert!(emptied * 5 <= new * 6, "{emptied} bytes, a new filter {new}");
    assert!(server.run("BF.STATS k").contains(" +void-entries :0 "));
    server.assert_replicated(Settings::DEFAULT);
}

#[test]
fn a_counting_filter_gets_no_advice() {
    let mut server = Server::new();
    server.run("BF.RESERVE k 0.0001 5 COUNTING EXPANSION 1");
    for item in 0..30 {
        assert_eq!(server.run(&format!("BF.MADD k {item} {item} {item}")), "*3 #t #f #f");
    }
    assert_eq!(server.run("BF.CARD k"), ":90");
    assert_eq!(server.run("BF.INFO k CAPACITY"), "*1 :5");
    assert_eq!(server.run("BF.INFO k ADVICE"), "*1 _");
    assert!(server.log.is_empty(), "{:?}", server.log);
}

/// The primary has a limit that refuses items; its replicas have none.
#[test]
fn replicated_commands_make_the_same_filter() {
    for (seed, words) in [(1, "CAPACITY 5"), (2, "CAPACITY 300 NONSCALING"), (3, ""), (4, "KEYED")] {
        let mut primary = Server::new();
        primary.settings.max_filter_bytes = 3000;
        let mut random = Random(seed);
        primary.run(&format!("BF.INSERT k ERROR 0.3 {words} COUNTING ITEMS 1 2 3").replace("  ", " "));
        let mut refused = 0;
        for round in 0..600 {
            let item = |random: &mut Random| random.below(round * 6 + 5).to_string();
            let items: Vec<String> = (0..7).map(|_| item(&mut random)).collect();
            let command = if random.below(5) == 0 { "BF.DEL" } else { "BF.MADD" };
            let reply = primary.run(&format!("{command} k {}", items.join(" ")));
            refused += reply.matches("-ERR").count();
        }
        assert!(refused > 50, "{words}: {refused}");
        let format = Format::ValkeyBloom;
        primary.assert_replicated(Settings {
            error_rate: 0.5,
            expansion_factor: 0,
            format,
            ..Settings::DEFAULT
        });
    }
}
