//! KEYED, KEY and `bf.keyed`: filters whose hash is keyed.

use everbloom::bloom::{Format, Hash, Kind};
use everbloom::command::Settings;

use crate::support::saved::digested;
use crate::support::server::{Server, assert_dialogue};

/// The first half of the random bytes of the test's server.
const DRAWN: [u8; 16] = [7; 16];

fn key(server: &Server, name: &str) -> Option<[u8; 16]> {
    match server.keys[name.as_bytes()].hash() {
        Hash::Keyed(key) => Some(*key.bytes()),
        _ => None,
    }
}

#[test]
fn a_keyed_filter_gets_a_random_or_a_given_key() {
    let mut server = Server::new();
    let dialogue = [
        ("BF.RESERVE a 0.01 100 keyed", "+OK"),
        ("BF.INSERT b KEYED ITEMS x", "*1 #t"),
        ("BF.INSERT c KEY 0123456789abcdef ITEMS x", "*1 #t"),
        ("BF.INSERT d KEYED KEY 0123456789abcdef ITEMS x", "*1 #t"),
        ("BF.ADD plain x", "#t"),
        ("BF.MEXISTS c x y", "*2 #t #f"),
        ("BF.CARD c", ":1"),
        ("BF.INFO c ERROR", "*1 ,0.01"),
        ("BF.MADD plain y", "*1 #t"),
    ];
    assert_dialogue(&mut server, &dialogue);
    let given = Some(*b"0123456789abcdef");
    let keys = ["a", "b", "c", "d", "plain"].map(|name| key(&server, name));
    assert_eq!(keys, [Some(DRAWN), Some(DRAWN), given, given, None]);
    // No reply about the filter contains the key.
    for question in ["BF.INFO c", "BF.DEBUG c"] {
        assert!(!server.run(question).contains("0123456789abcdef"), "{question}");
    }
    assert_eq!(server.run("BF.DEBUG c"), server.run("BF.DEBUG d"));
    assert_eq!(
        server.replicated[2],
        "BF.INSERT c ERROR 0.01 EXPANSION 2 UNRESERVED FORMAT everbloom KEY 0123456789abcdef ITEMS x"
    );
    assert_eq!(server.replicated.last().unwrap(), "BF.MADD plain y");
}

#[test]
fn a_keyed_filter_is_replicated_with_its_key() {
    let mut primary = Server::new();
    primary.run("BF.RESERVE a 0.01 2 KEYED EXPANSION 4");
    primary.run("BF.MADD a a b c d e f");
    primary.run("BF.INSERT b KEYED CAPACITY 2 NONSCALING SATURATE ITEMS a b c");
    primary.settings.keyed = true;
    primary.run("BF.ADD c x");
    primary.settings.keyed = false;
    primary.run("BF.ADD plain x");
    for (is_keyed, format) in [false, true].into_iter().flat_map(|keyed| Format::ALL.map(|f| (keyed, f))) {
        primary.assert_replicated(Settings { keyed: is_keyed, format, ..Settings::DEFAULT });
    }
}

#[test]
fn only_everblooms_filters_can_be_keyed() {
    let mut server = Server::new();
    server.run("BF.ADD there a");
    for format in ["redisbloom", "valkey-bloom"] {
        let error = "-ERR KEYED needs FORMAT everbloom";
        assert_eq!(server.run(&format!("BF.RESERVE there 0.01 9 KEYED FORMAT {format}")), error);
        for name in ["vacant", "string"] {
            let error = "-ERR KEYED needs FORMAT everbloom";
            assert_eq!(server.run(&format!("BF.RESERVE {name} 0.01 9 KEYED FORMAT {format}")), error);
            assert_eq!(server.run(&format!("BF.INSERT {name} FORMAT {format} KEYED ITEMS a")), error);
            let error = "-ERR KEY needs FORMAT everbloom";
            let line = format!("BF.INSERT {name} FORMAT {format} KEY 0123456789abcdef ITEMS a");
            assert_eq!(server.run(&line), error);
        }
    }
    for line in ["BF.INSERT k KEY short ITEMS a", "BF.INSERT k KEY 0123456789abcdef0 ITEMS a"] {
        assert_eq!(server.run(line), "-ERR KEY must have 16 bytes");
    }
    assert_eq!(server.run("BF.RESERVE k 0.01 9 KEY 0123456789abcdef"), "-ERR unknown argument 'KEY'");
    assert_eq!(server.run("BF.INSERT k KEY"), "-ERR wrong number of arguments for 'bf.insert' command");
    assert_eq!(server.keys.len(), 1);
}

#[test]
fn the_setting_keys_every_new_everbloom_filter() {
    let mut server = Server::new();
    server.settings = Settings { keyed: true, ..Settings::DEFAULT };
    for (line, is_keyed) in [
        ("BF.ADD a x", true),
        ("BF.RESERVE b 0.01 9", true),
        ("BF.INSERT c NONSCALING ITEMS x", true),
        ("BF.RESERVE counts 0.01 9 COUNTING", true),
        ("BF.RESERVE window 0.01 9 WINDOW 60", true),
        ("BF.RESERVE d 0.01 9 FORMAT redisbloom", false),
        ("BF.RESERVE e 0.01 9 FORMAT valkey-bloom", false),
        ("BF.IMPORT f EMPTY SCHEME guava-mitz64 BITS 64 HASHES 3", false),
    ] {
        assert!(!server.run(line).starts_with('-'), "{line}");
        assert_eq!(key(&server, line.split(' ').nth(1).unwrap()).is_some(), is_keyed, "{line}");
    }
    assert_eq!(server.run("BF.CLEAR a"), "+OK");
    assert_eq!(key(&server, "a"), Some(DRAWN));
}

#[test]
fn counting_filters_and_windows_can_be_keyed() {
    let mut server = Server::new();
    for (name, words, kind) in [("c", "COUNTING", Kind::Counting), ("w", "WINDOW 60", Kind::Window)] {
        let start = server.replicated.len();
        assert_eq!(
            server.run(&format!("BF.INSERT {name} {words} KEY 0123456789abcdef ITEMS a b")),
            "*2 #t #t"
        );
        assert_eq!(server.run(&format!("BF.RESERVE {name}2 0.01 100 {words} KEYED")), "+OK");
        assert_eq!(key(&server, name), Some(*b"0123456789abcdef"));
        assert_eq!(key(&server, &format!("{name}2")), Some(DRAWN));
        assert_eq!(server.keys[name.as_bytes()].kind(), kind);
        // It counts as the kind of its entries.
        let reply = server.run(&format!("BF.STATS {name}"));
        assert!(reply.contains(&format!("+kind ${} ", kind.row().name)), "{reply}");
        assert_eq!(server.run(&format!("BF.MEXISTS {name} a b c")), "*3 #t #t #f");
        // A replica creates the same filter, whatever its settings are.
        let mut replica = Server::new();
        (replica.is_replicated, replica.now_ms) = (true, server.now_ms);
        for line in &server.replicated[start..] {
            assert!(!replica.run(line).contains("-ERR"), "{line}");
        }
        for name in [name.to_owned(), format!("{name}2")] {
            let [copy, filter] = [&replica, &server].map(|server| digested(&server.keys[name.as_bytes()]));
            assert!(copy == filter, "{name}");
        }
        assert_eq!(server.run(&format!("BF.CLEAR {name}")), "+OK");
        assert_eq!(key(&server, name), Some(*b"0123456789abcdef"));
    }
    assert_eq!(server.run("BF.MADD c a a b"), "*3 #t #f #t");
    assert_eq!(server.run("BF.DEL c a a a"), "*3 #t #t #f");
}
