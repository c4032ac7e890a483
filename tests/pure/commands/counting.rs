//! Counting filters: options, errors, and replicated changes.

use everbloom::bloom::Format;
use everbloom::command::Settings;

use crate::support::server::{Server, assert_dialogue};

const NOT_OWN: &str = "-ERR COUNTING needs FORMAT everbloom";

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
        "BF.INSERT c CAPACITY 100 ERROR 0.01 EXPANSION 2 UNRESERVED FORMAT everbloom COUNTING ITEMS x",
        "BF.INSERT d CAPACITY 100 ERROR 0.01 EXPANSION 2 FORMAT everbloom COUNTING",
    ];
    assert_eq!(server.replicated, expected);
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
fn advice_is_for_distinct_items() {
    let mut server = Server::new();
    server.run("BF.RESERVE k 0.0001 5 COUNTING EXPANSION 1");
    for item in 0..30 {
        assert_eq!(server.run(&format!("BF.MADD k {item} {item} {item}")), "*3 #t #f #f");
    }
    assert_eq!(server.run("BF.CARD k"), ":90");
    let advice = server.run("BF.INFO k ADVICE");
    assert!(advice.starts_with("*1 $BF.RESERVE k 0.0001 30 COUNTING would have taken "), "{advice}");
    assert!(
        server.log.iter().any(|line| line.contains("BF.RESERVE k 0.0001 30 COUNTING")),
        "{:?}",
        server.log
    );
}

#[test]
fn replicated_commands_make_the_same_filter() {
    let mut primary = Server::new();
    primary.run("BF.INSERT k CAPACITY 5 ERROR 0.3 EXPANSION 1 COUNTING ITEMS 1 2 3");
    for item in 0..200 {
        primary.run(&format!("BF.MADD k {item} {}", item / 2));
        primary.run(&format!("BF.DEL k {} {} none-{item}", item / 3, item));
    }
    let format = Format::ValkeyBloom;
    primary.assert_replicated(Settings { error_rate: 0.5, expansion_factor: 0, format, ..Settings::DEFAULT });
    assert!(primary.keys[b"k".as_slice()].layer_count() > 1);
}
