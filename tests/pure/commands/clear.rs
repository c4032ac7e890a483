//! BF.CLEAR: the result is an empty filter with the same parameters.

use everbloom_filter::Filter;
use everbloom_format::filter::header;

use crate::support::make::set_bits;
use crate::support::server::{Server, assert_dialogue};

/// Commands that create a filter of every kind, with the parameters that must survive.
const MAKERS: [&str; 13] = [
    "BF.RESERVE k 0.003 10 EXPANSION 3",
    "BF.RESERVE k 0.003 50000 NONSCALING",
    "BF.RESERVE k 0.003 10 EXPANSION 3 FORMAT redisbloom",
    "BF.RESERVE k 0.003 10 NONSCALING FORMAT redisbloom",
    "BF.INSERT k FORMAT valkey-bloom CAPACITY 10 ERROR 0.003 TIGHTENING 0.3 EXPANSION 3",
    "BF.INSERT k FORMAT valkey-bloom CAPACITY 10 NONSCALING",
    "BF.IMPORT k EMPTY SCHEME guava-mitz64 BITS 64 HASHES 3 CAPACITY 10 ERROR 0.003 EXPANSION 3",
    "BF.IMPORT k EMPTY SCHEME go-zero BITS 2000 CAPACITY 10 NONSCALING",
    "BF.RESERVE k 0.003 10 COUNTING",
    "BF.RESERVE k 0.003 10 COUNTING NONSCALING KEYED",
    "BF.RESERVE k 0.003 10 WINDOW 60",
    "BF.RESERVE k 0.003 40000 WINDOW 60 NOREFRESH",
    "BF.RESERVE k 0.003 10 KEYED",
];

#[test]
fn a_cleared_filter_equals_a_new_one() {
    for maker in MAKERS {
        let mut server = Server::new();
        assert_eq!(server.run(maker), if maker.contains("INSERT") { "*0" } else { "+OK" });
        let made = header(server.filter("k"));
        // Clearing an empty filter changes nothing.
        let before = (server.replicated.len(), server.events.len());
        assert_dialogue(&mut server, &[("BF.CLEAR k", "+OK"), ("BF.CLEAR k", "+OK")]);
        assert_eq!((server.replicated.len(), server.events.len()), before, "{maker}");
        server.batches("BF.MADD k", "item-", 0..13);
        let filled = header(server.filter("k"));
        assert_ne!(filled, made, "{maker}");
        server.replicated.clear();
        server.events.clear();
        assert_dialogue(
            &mut server,
            &[("BF.CLEAR k", "+OK"), ("BF.EXISTS k item-1", "#f"), ("BF.CARD k", ":0")],
        );
        let filter = server.filter("k");
        assert_eq!(header(filter), made, "{maker}");
        assert!(set_bits(filter) == 0 && filter.is_empty(), "{maker}");
        assert_eq!(
            (server.replicated.join("|"), server.events.join("|")),
            ("BF.CLEAR k".into(), "bloom.clear".into())
        );
        // It fills up and grows as before.
        server.batches("BF.MADD k", "item-", 0..13);
        assert_eq!(header(server.filter("k")), filled, "{maker}");
    }
}

/// A filter that nobody reserved is created with its first item. So this test fills the cleared filter again, and
/// compares it with the filter before.
#[test]
fn clearing_a_filter_that_nobody_reserved_frees_its_table() {
    let mut server = Server::new();
    let add = |server: &mut Server| {
        server.add("k", "item-", 0..20_000);
        (header(server.filter("k")), server.filter("k").size_bytes())
    };
    let filled = add(&mut server);
    assert_eq!(server.run("BF.CLEAR k"), "+OK");
    let filter = server.filter("k");
    assert!(filter.is_empty() && filter.growth().is_unreserved(), "{filter:?}");
    assert_eq!(filter.size_bytes(), size_of::<Filter>() as u64);
    let dialogue = [
        ("BF.EXISTS k item-1", "#f"),
        ("BF.CARD k", ":0"),
        ("BF.INFO k CAPACITY", "*1 :100"),
        ("BF.INFO k FILTERS", "*1 :1"),
        ("BF.INFO k EXPANSION", "*1 :2"),
    ];
    assert_dialogue(&mut server, &dialogue);
    assert_eq!(add(&mut server), filled);
}

#[test]
fn clearing_a_union_restores_the_parameters_of_its_first_filter() {
    for options in [
        "FORMAT redisbloom",
        "FORMAT redisbloom NONSCALING",
        "FORMAT valkey-bloom",
        "EXPANSION 3",
        "KEYED",
        "KEY 0123456789abcdef",
    ] {
        let mut server = Server::new();
        server.run(&format!("BF.INSERT k CAPACITY 20 ERROR 0.01 {options} ITEMS a"));
        server.run("BF.INSERT other CAPACITY 5000 ERROR 0.0001 FORMAT everbloom ITEMS b");
        assert_eq!(server.run("BF.MERGE made k other FORCE"), "+OK", "{options}");
        assert_eq!(server.run("BF.CLEAR made"), "+OK");
        assert_eq!(server.run("BF.MEXISTS made a b"), "*2 #f #f");
        for (field, expected) in
            [("KIND", "*1 $everbloom"), ("ERROR-RATE", "*1 ,0.01"), ("CAPACITY", "*1 :20")]
        {
            assert_eq!(server.run(&format!("BF.INFO made {field}")), expected, "{options}");
        }
    }
}
