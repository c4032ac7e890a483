//! What a change has replicated, and whom it notifies: enough for the same filter elsewhere, and no more.

use everbloom::bloom::{Bits, Format};
use everbloom::command::Settings;
use everbloom::format::filter::header;

use crate::server::{Server, assert_dialogue};

#[test]
fn a_reserved_filter_is_replicated_with_every_parameter() {
    let mut server = Server::new();
    let dialogue = [
        ("BF.RESERVE a 1e-2 100", "+OK"),
        ("bf.reserve b 0.5 7 expansion 3", "+OK"),
        ("BF.RESERVE c 0x1p-3 1000 EXPANSION 0", "+OK"),
        ("BF.RESERVE d .001 5 NonScaling EXPANSION 0", "+OK"),
        ("BF.RESERVE NONSCALING 0.001 5", "+OK"),
        ("BF.RESERVE a 0.01 100", "-ERR item exists"),
        ("BF.INFO NONSCALING EXPANSION", "*1 :2"),
        ("BF.INFO c EXPANSION", "*1 _"),
    ];
    assert_dialogue(&mut server, &dialogue);
    let expected = [
        "BF.INSERT a CAPACITY 100 ERROR 0.01 EXPANSION 2 FORMAT everbloom",
        "BF.INSERT b CAPACITY 7 ERROR 0.5 EXPANSION 3 FORMAT everbloom",
        "BF.INSERT c CAPACITY 1000 ERROR 0.125 NONSCALING FORMAT everbloom",
        "BF.INSERT d CAPACITY 5 ERROR 0.001 NONSCALING FORMAT everbloom",
        "BF.INSERT NONSCALING CAPACITY 5 ERROR 0.001 EXPANSION 2 FORMAT everbloom",
    ];
    assert_eq!(server.replicated, expected);
    assert_eq!(server.events, ["bloom.reserve"; 5]);
}

#[test]
fn the_configured_defaults_are_spelt_out_for_replicas() {
    let mut server = Server::new();
    server.settings =
        Settings { error_rate: 0.003, initial_size_items: 7, expansion_factor: 0, ..Settings::DEFAULT };
    assert_eq!(server.run("BF.ADD k x"), "#t");
    assert_eq!(server.run("BF.RESERVE r 0.1 10 EXPANSION 2"), "-Nonscaling filters cannot expand");
    assert_eq!(server.replicated, ["BF.INSERT k CAPACITY 7 ERROR 0.003 NONSCALING FORMAT everbloom ITEMS x"]);
    server.must_obey = true;
    assert_eq!(server.run("BF.RESERVE r 0.1 10 EXPANSION 2"), "+OK");
}

#[test]
fn every_replicated_command_builds_the_same_filter_elsewhere() {
    let mut primary = Server::new();
    for line in [
        "BF.RESERVE a 0.001 3 EXPANSION 4",
        "BF.MADD a 1 2 3 4 5 1 2",
        "BF.ADD b only",
        "BF.INSERT c CAPACITY 2 NONSCALING ITEMS x y x z y",
        "BF.INSERT c ITEMS x y z",
        "BF.INSERT d CAPACITY 1 EXPANSION 1 ERROR 0.3 ITEMS p q r s t u v w",
        "BF.RESERVE e 0.01 50 FORMAT valkey-bloom EXPANSION 3",
        "BF.MADD e a b c",
        "BF.INSERT f FORMAT valkey-bloom TIGHTENING 0.25 NONSCALING ITEMS a b c",
    ] {
        primary.run(line);
    }
    let mut replica = Server::new();
    replica.settings = Settings {
        error_rate: 0.2,
        initial_size_items: 5,
        expansion_factor: 0,
        max_filter_bytes: 1,
        format: Format::RedisBloom,
        ..Settings::DEFAULT
    };
    replica.must_obey = true;
    for line in primary.replicated.clone() {
        assert!(!replica.run(&line).contains('-'), "{line}");
    }
    for (key, filter) in &primary.keys {
        let copy = &replica.keys[key];
        assert_eq!(header(copy), header(filter));
        assert!(filter.bit_arrays().map(Bits::bytes).eq(copy.bit_arrays().map(Bits::bytes)));
    }
}

#[test]
fn what_changes_nothing_is_neither_replicated_nor_notified() {
    let mut server = Server::new();
    server.run("BF.INSERT k CAPACITY 2 NONSCALING ITEMS a b");
    let (replicated, events) = (server.replicated.len(), server.events.len());
    let dialogue = [
        ("BF.ADD k a", "#f"),
        ("BF.MADD k a b a", "*3 #f #f #f"),
        ("BF.INSERT k NOCREATE ITEMS a", "*1 #f"),
        ("BF.ADD k c", "-ERR non scaling filter is full"),
        ("BF.MADD k a c b", "*2 #f -ERR non scaling filter is full"),
        ("BF.INSERT nothing NOCREATE ITEMS a", "-ERR not found"),
    ];
    assert_dialogue(&mut server, &dialogue);
    assert_eq!((server.replicated.len(), server.events.len()), (replicated, events));
}

#[test]
fn a_filter_that_fills_up_part_way_replicates_only_what_was_added() {
    let mut server = Server::new();
    server.run("BF.RESERVE k 0.0001 2 NONSCALING");
    assert_eq!(server.run("BF.MADD k a a b c d"), "*4 #t #f #t -ERR non scaling filter is full");
    assert_eq!(server.replicated.last().unwrap(), "BF.MADD k a b");
    assert_eq!(
        server.run("BF.INSERT n CAPACITY 1 NONSCALING ITEMS a b c"),
        "*2 #t -ERR non scaling filter is full"
    );
    assert_eq!(
        server.replicated.last().unwrap(),
        "BF.INSERT n CAPACITY 1 ERROR 0.01 NONSCALING FORMAT everbloom ITEMS a"
    );
}
