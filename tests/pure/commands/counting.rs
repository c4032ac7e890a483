//! Filters that items can be deleted from: words, errors, and what changes are replicated.

use everbloom::bloom::Format;
use everbloom::command::Settings;
use everbloom::format::filter::header;

use crate::support::make::cells_of;
use crate::support::server::{Server, assert_dialogue};

const NOT_COUNTING: &str =
    "-ERR items can be deleted only from a filter that was made with COUNTING (BF.RESERVE, BF.INSERT)";
const NOT_OWN: &str = "-ERR COUNTING is for filters of FORMAT everbloom only";

#[test]
fn counting_goes_with_the_own_format_only() {
    let dialogue = [
        ("BF.RESERVE a 0.01 100 COUNTING", "+OK"),
        ("BF.RESERVE b 0.01 100 counting FORMAT everbloom NONSCALING", "+OK"),
        ("BF.RESERVE c 0.01 100 COUNTING FORMAT redisbloom", NOT_OWN),
        ("BF.RESERVE c 0.01 100 FORMAT valkey-bloom COUNTING", NOT_OWN),
        ("BF.RESERVE a 0.01 100 COUNTING FORMAT redisbloom", NOT_OWN),
        ("BF.RESERVE a 0.01 100 COUNTING IFNOTEXISTS", ":0"),
        ("BF.INSERT c FORMAT redisbloom COUNTING ITEMS x", NOT_OWN),
        ("BF.INSERT a FORMAT redisbloom COUNTING ITEMS x", NOT_OWN),
        ("BF.INSERT c COUNTING SEED 00000000000000000000000000000000 ITEMS x", NOT_OWN),
        (
            "BF.INSERT c COUNTING TIGHTENING 0.5 ITEMS x",
            "-ERR SEED and TIGHTENING are for filters of FORMAT valkey-bloom only",
        ),
        (
            "BF.INSERT c COUNTING VALIDATESCALETO 1000000000000 ITEMS x",
            "-ERR provided VALIDATESCALETO causes bloom object to exceed memory limit",
        ),
        ("BF.INSERT c COUNTING VALIDATESCALETO 1000 ITEMS x", "*1 #t"),
    ];
    let mut server = Server::new();
    assert_dialogue(&mut server, &dialogue);
    // It asks for its format where another is configured.
    server.settings = Settings { format: Format::RedisBloom, ..Settings::DEFAULT };
    assert_eq!(server.run("BF.RESERVE d 0.01 100 COUNTING"), "+OK");
    assert_eq!(server.run("BF.DEL d x"), "*1 #f");
    let expected = [
        "BF.INSERT a CAPACITY 100 ERROR 0.01 EXPANSION 2 FORMAT everbloom COUNTING",
        "BF.INSERT b CAPACITY 100 ERROR 0.01 NONSCALING FORMAT everbloom COUNTING",
        "BF.INSERT c CAPACITY 100 ERROR 0.01 EXPANSION 2 FORMAT everbloom COUNTING ITEMS x",
        "BF.INSERT d CAPACITY 100 ERROR 0.01 EXPANSION 2 FORMAT everbloom COUNTING",
    ];
    assert_eq!(server.replicated, expected);
}

#[test]
fn only_filters_that_count_give_items_back() {
    let mut server = Server::new();
    let dialogue = [
        ("BF.DEL k", "-ERR wrong number of arguments for 'bf.del' command"),
        ("BF.DEL none x", "-ERR not found"),
        ("BF.DEL string x", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("BF.ADD own x", "#t"),
        ("BF.DEL own x", NOT_COUNTING),
        ("BF.INSERT redis FORMAT redisbloom ITEMS x", "*1 #t"),
        ("BF.DEL redis x", NOT_COUNTING),
        ("BF.INSERT valkey FORMAT valkey-bloom ITEMS x", "*1 #t"),
        ("BF.DEL valkey x y", NOT_COUNTING),
    ];
    assert_dialogue(&mut server, &dialogue);
    assert!(server.replicated.iter().all(|line| !line.starts_with("BF.DEL")));
}

#[test]
fn every_add_counts_and_what_was_deleted_is_replicated() {
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
fn the_capacity_is_of_distinct_items() {
    let full = "-ERR non scaling filter is full";
    let mut server = Server::new();
    let dialogue = [
        ("BF.RESERVE k 0.0001 5 COUNTING NONSCALING", "+OK"),
        ("BF.MADD k a a a a a", "*5 #t #f #f #f #f"),
        ("BF.MADD k b c d e f", "*5 #t #t #t #t -ERR non scaling filter is full"),
        ("BF.CARD k", ":9"),
        ("BF.ADD k a", "#f"),
        // Five of six occurrences: the item is there still.
        ("BF.DEL k a a a a a", "*5 #t #t #t #t #t"),
        ("BF.ADD k f", full),
        ("BF.DEL k a a", "*2 #t #f"),
        ("BF.CARD k", ":4"),
        ("BF.MADD k f g", "*2 #t -ERR non scaling filter is full"),
        ("BF.MADD k f f f", "*3 #f #f #f"),
        ("BF.DEL k b c d e f f f f", "*8 #t #t #t #t #t #t #t #t"),
        ("BF.CARD k", ":0"),
        ("BF.MADD k 1 2 3 4 5 6", "*6 #t #t #t #t #t -ERR non scaling filter is full"),
        ("BF.CLEAR k", "+OK"),
        ("BF.MADD k 1 2 3 4 5 6", "*6 #t #t #t #t #t -ERR non scaling filter is full"),
        // A filter that grows does so for distinct items, too.
        ("BF.RESERVE grows 0.0001 5 COUNTING EXPANSION 1", "+OK"),
        ("BF.MADD grows a a a a a a b c d e", "*10 #t #f #f #f #f #f #t #t #t #t"),
        ("BF.INFO grows FILTERS", "*1 :1"),
        ("BF.ADD grows f", "#t"),
        ("BF.INFO grows FILTERS", "*1 :2"),
    ];
    assert_dialogue(&mut server, &dialogue);
}

#[test]
fn the_advice_for_a_filter_that_has_grown_is_for_its_distinct_items() {
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
fn every_replicated_command_makes_the_same_filter_elsewhere() {
    let mut primary = Server::new();
    primary.run("BF.INSERT k CAPACITY 5 ERROR 0.3 EXPANSION 1 COUNTING ITEMS 1 2 3");
    for item in 0..200 {
        primary.run(&format!("BF.MADD k {item} {}", item / 2));
        primary.run(&format!("BF.DEL k {} {} none-{item}", item / 3, item));
    }
    let mut replica = Server::new();
    replica.must_obey = true;
    replica.settings =
        Settings { error_rate: 0.5, expansion_factor: 0, format: Format::ValkeyBloom, ..Settings::DEFAULT };
    for line in &primary.replicated {
        replica.run(line);
    }
    let key = b"k".as_slice();
    assert_eq!(header(&replica.keys[key]), header(&primary.keys[key]));
    assert!(cells_of(&replica.keys[key]) == cells_of(&primary.keys[key]));
    assert!(primary.keys[key].layer_count() > 1);
}

#[test]
fn an_emptied_one_has_the_parameters_that_it_was_made_with() {
    let mut server = Server::new();
    server.run("BF.INSERT k CAPACITY 2 EXPANSION 3 ERROR 0.001 COUNTING ITEMS a b c d e");
    let dialogue = [
        // The first layer goes with its items.
        ("BF.INFO k CAPACITY", "*1 :8"),
        ("BF.DEL k a b", "*2 #t #t"),
        ("BF.INFO k CAPACITY", "*1 :6"),
        ("BF.CLEAR k", "+OK"),
        ("BF.INFO k CAPACITY", "*1 :2"),
        ("BF.DEL k c", "*1 #f"),
        ("BF.ADD k c", "#t"),
        ("BF.DEL k c", "*1 #t"),
    ];
    assert_dialogue(&mut server, &dialogue);
}
