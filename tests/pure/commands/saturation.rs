//! SATURATE and `bf.on-full`: full fixed filters that accept further items.

use everbloom::bloom::{Format, Growth};
use everbloom::command::Settings;

use crate::support::dialogues::replies::SATURATING;
use crate::support::server::{Server, assert_dialogue};

fn growth(server: &Server, key: &str) -> Growth {
    server.keys[key.as_bytes()].growth()
}

#[test]
fn a_saturating_filter_takes_what_a_fixed_one_refuses() {
    let mut server = Server::new();
    assert_dialogue(&mut server, SATURATING);
    assert_eq!(
        server.replicated[..2],
        ["BF.INSERT k CAPACITY 2 ERROR 0.0001 NONSCALING SATURATE FORMAT everbloom", "BF.MADD k a b c d a",]
    );
    assert_eq!(growth(&server, "k"), Growth::Saturating);
}

#[test]
fn saturation_is_replicated() {
    let mut primary = Server::new();
    primary.run("BF.RESERVE k 0.01 2 NONSCALING SATURATE");
    primary.run("BF.MADD k a b c d");
    primary.settings.fixed_filters_saturate = true;
    primary.run("BF.INSERT i CAPACITY 2 NONSCALING ITEMS a b c");
    primary.run("BF.ADD scaling a");
    primary.settings.fixed_filters_saturate = false;
    primary.run("BF.INSERT fixed CAPACITY 2 NONSCALING ITEMS a b");
    // Independently of the settings of the replica.
    for fixed_filters_saturate in [false, true] {
        for format in Format::ALL {
            primary.assert_replicated(Settings { fixed_filters_saturate, format, ..Settings::DEFAULT });
        }
    }
}

#[test]
fn saturate_needs_a_fixed_everbloom_filter() {
    const SIZE: &str = "-ERR SATURATE needs a fixed filter: add NONSCALING or EXPANSION 0";
    const FORMAT: &str = "-ERR SATURATE needs FORMAT everbloom";
    let seed = "0123456789abcdef0123456789abcdef";
    let mut server = Server::new();
    server.run("BF.ADD there a");
    for (options, error) in [
        ("SATURATE".to_owned(), SIZE),
        ("SATURATE EXPANSION 2".to_owned(), SIZE),
        ("NONSCALING SATURATE FORMAT redisbloom".to_owned(), FORMAT),
        ("NONSCALING SATURATE FORMAT valkey-bloom".to_owned(), FORMAT),
        ("SATURATE FORMAT redisbloom".to_owned(), FORMAT),
    ] {
        for key in ["there", "vacant", "string"] {
            let inserted = server.run(&format!("BF.INSERT {key} {options} ITEMS b"));
            let differs =
                inserted.ends_with(" differs from the existing filter: omit the option, or use another key");
            assert!(if key == "there" { differs } else { inserted == error }, "{key} {options}: {inserted}");
            assert_eq!(server.run(&format!("BF.RESERVE {key} 0.01 100 {options}")), error, "{key} {options}");
        }
    }
    assert_eq!(server.run(&format!("BF.INSERT v SEED {seed} NONSCALING SATURATE ITEMS a")), FORMAT);
    assert_eq!(
        server.run("BF.INSERT v NONSCALING SATURATE VALIDATESCALETO 1000 ITEMS a"),
        "-ERR cannot use NONSCALING and VALIDATESCALETO options together"
    );
    assert_eq!(server.keys.len(), 1);
    // The filter may be fixed by a setting.
    server.settings.expansion_factor = 0;
    assert_eq!(server.run("BF.RESERVE by-setting 0.01 100 SATURATE"), "+OK");
    assert_eq!(growth(&server, "by-setting"), Growth::Saturating);
    server.settings.format = Format::RedisBloom;
    assert_eq!(server.run("BF.RESERVE vacant 0.01 100 NONSCALING SATURATE"), FORMAT);
}

#[test]
fn on_full_applies_to_fixed_everbloom_filters_of_bits() {
    let mut server = Server::new();
    server.settings = Settings { fixed_filters_saturate: true, ..Settings::DEFAULT };
    for (line, expected) in [
        ("BF.RESERVE a 0.01 9 NONSCALING", Growth::Saturating),
        ("BF.RESERVE b 0.01 9 EXPANSION 0", Growth::Saturating),
        ("BF.INSERT c NONSCALING ITEMS x", Growth::Saturating),
        ("BF.RESERVE d 0.01 9", Growth::Scaling { expansion: 2 }),
        ("BF.RESERVE e 0.01 9 NONSCALING FORMAT redisbloom", Growth::Fixed),
        ("BF.RESERVE f 0.01 9 NONSCALING FORMAT valkey-bloom", Growth::Fixed),
        ("BF.IMPORT g EMPTY SCHEME guava-mitz64 BITS 64 HASHES 3 NONSCALING", Growth::Fixed),
        ("BF.INSERT i NONSCALING COUNTING ITEMS x", Growth::Fixed),
        ("BF.INSERT j NONSCALING WINDOW 60 ITEMS x", Growth::Fixed),
        ("BF.ADD l x", Growth::Unreserved { expansion: 2 }),
    ] {
        assert!(!server.run(line).starts_with('-'), "{line}");
        assert_eq!(growth(&server, line.split(' ').nth(1).unwrap()), expected, "{line}");
    }
    server.settings.expansion_factor = 0;
    server.run("BF.ADD h x");
    assert_eq!(growth(&server, "h"), Growth::Saturating);
    assert_eq!(
        server.replicated.last().unwrap(),
        "BF.INSERT h CAPACITY 100 ERROR 0.01 NONSCALING SATURATE FORMAT everbloom ITEMS x"
    );
}
