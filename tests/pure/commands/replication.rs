//! Replicated commands and events of a change: sufficient for the same filter elsewhere, and nothing more.

use everbloom::bloom::Format;
use everbloom::command::Settings;
use everbloom::command::words::Word;
use everbloom::format::filter::header;

use crate::support::Random;
use crate::support::server::Server;

#[test]
fn defaults_are_replicated_explicitly() {
    let mut server = Server::new();
    server.settings =
        Settings { error_rate: 0.003, initial_size_items: 7, expansion_factor: 0, ..Settings::DEFAULT };
    assert_eq!(server.run("BF.ADD k x"), "#t");
    assert_eq!(server.run("BF.RESERVE r 0.1 10 EXPANSION 2"), "-Nonscaling filters cannot expand");
    assert_eq!(server.replicated, ["BF.INSERT k CAPACITY 7 ERROR 0.003 NONSCALING FORMAT everbloom ITEMS x"]);
    server.is_replicated = true;
    assert_eq!(server.run("BF.RESERVE r 0.1 10 EXPANSION 2"), "+OK");
}

#[test]
fn replicated_commands_build_the_same_filter() {
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
        "BF.RESERVE g 0.01 3 FORMAT redisbloom",
        "BF.MADD g a b c d e f g h",
        "BF.RESERVE h 0.01 3 FORMAT redisbloom NONSCALING",
        "BF.INSERT i CAPACITY 4 EXPANSION 5 FORMAT redisbloom ITEMS a b c d e",
    ] {
        primary.run(line);
    }
    primary.assert_replicated(Settings {
        error_rate: 0.2,
        initial_size_items: 5,
        expansion_factor: 0,
        max_filter_bytes: 1,
        format: Format::RedisBloom,
        ..Settings::DEFAULT
    });
}

#[test]
fn redisbloom_filters_are_replicated_as_bf_reserve_if_possible() {
    let mut server = Server::new();
    server.settings = Settings { format: Format::RedisBloom, ..Settings::DEFAULT };
    for (line, replicated) in [
        ("BF.RESERVE a 0.01 100", Some("BF.RESERVE a 0.01 100 EXPANSION 2")),
        ("BF.RESERVE b 1e-3 5 EXPANSION 7", Some("BF.RESERVE b 0.001 5 EXPANSION 7")),
        ("BF.RESERVE c 0.7 5 NONSCALING", Some("BF.RESERVE c 0.25 5 NONSCALING")),
        ("BF.ADD d x", Some("BF.RESERVE d 0.01 100 EXPANSION 2 BF.MADD d x")),
        ("BF.INSERT e CAPACITY 3 ITEMS x y x", Some("BF.RESERVE e 0.01 3 EXPANSION 2 BF.MADD e x y")),
        ("BF.INSERT f EXPANSION 1 ITEMS x", Some("BF.RESERVE f 0.01 100 EXPANSION 1 BF.MADD f x")),
        ("BF.RESERVE g 1.5e-323 1 FORMAT redisbloom", Some("BF.RESERVE g 0.0000")),
        // RedisBloom saves 0 here, which no BF.RESERVE of all its releases does, and 3 for a fixed filter.
        ("BF.RESERVE h 0.01 100 EXPANSION 0", None),
        ("BF.INSERT i EXPANSION 3 NONSCALING ITEMS x", None),
    ] {
        server.replicated.clear();
        assert!(!server.run(line).contains("-ERR"), "{line}");
        let sent = server.replicated.join(" ");
        match replicated {
            Some(expected) => assert!(sent.starts_with(expected), "{line}: {sent}"),
            None => assert!(sent.starts_with("BF.LOADCHUNK"), "{line}: {sent}"),
        }
    }
}

/// Returns the growth that RedisBloom saves in the header, and whether the filter is fixed.
fn written_growth(server: &Server, key: &str) -> (u32, bool) {
    let header = header(&server.keys[key.as_bytes()]);
    let growth = u32::from_le_bytes(header[16..20].try_into().unwrap());
    (growth, header[12] & 8 != 0)
}

#[test]
fn redisbloom_filters_save_the_same_growth_as_redisbloom() {
    let mut server = Server::new();
    for (factor, line, expected) in [
        (2, "BF.RESERVE k 0.01 9", (2, false)),
        (2, "BF.RESERVE k 0.01 9 NONSCALING", (2, true)),
        (2, "BF.RESERVE k 0.01 9 EXPANSION 0", (0, true)),
        (2, "BF.RESERVE k 0.01 9 NONSCALING EXPANSION 0", (0, true)),
        (2, "BF.INSERT k EXPANSION 0 ITEMS a", (0, true)),
        (2, "BF.INSERT k EXPANSION 3 ITEMS a", (3, false)),
        (2, "BF.INSERT k EXPANSION 3 NONSCALING ITEMS a", (3, true)),
        (5, "BF.RESERVE k 0.01 9 NONSCALING", (5, true)),
        (0, "BF.RESERVE k 0.01 9", (0, true)),
        (0, "BF.ADD k a", (0, true)),
        (0, "BF.RESERVE k 0.01 9 NONSCALING", (0, true)),
        (0, "BF.INSERT k EXPANSION 3 ITEMS a", (3, true)),
    ] {
        server.keys.clear();
        server.settings =
            Settings { format: Format::RedisBloom, expansion_factor: factor, ..Settings::DEFAULT };
        assert!(!server.run(line).starts_with('-'), "{line}");
        assert_eq!(written_growth(&server, "k"), expected, "factor {factor}: {line}");
    }
    // The same options for filters of everbloom's and valkey-bloom's formats, where an explicit factor overrides the
    // setting.
    server.settings = Settings { expansion_factor: 0, ..Settings::DEFAULT };
    server.run("BF.INSERT own EXPANSION 3 ITEMS a");
    assert_eq!(server.run("BF.INFO own EXPANSION"), "*1 _");
    server.run("BF.INSERT valkey FORMAT valkey-bloom EXPANSION 3 ITEMS a");
    assert_eq!(server.run("BF.INFO valkey EXPANSION"), "*1 :3");
}

#[test]
fn a_replica_creates_no_filter_from_its_own_defaults() {
    let mut server = Server::new();
    server.is_replicated = true;
    for line in
        ["BF.ADD k a", "BF.MADD k a b", "BF.INSERT k ITEMS a", "BF.INSERT k CAPACITY 50 EXPANSION 2 ITEMS a"]
    {
        assert!(server.run(line).starts_with("-ERR not found: "), "{line}");
    }
    assert_eq!(server.run("BF.INSERT k NOCREATE ITEMS a"), "-ERR not found");
    assert!(server.keys.is_empty() && server.replicated.is_empty());
    // Other modules replicate no options. Their replica has their format in `bf.format`.
    server.settings.format = Format::RedisBloom;
    assert_eq!(server.run("BF.ADD k a"), "#t");
    assert_eq!(server.run("BF.INSERT i CAPACITY 50 ITEMS a"), "*1 #t");
    // A replicated BF.RESERVE without a format creates a filter of RedisBloom's format: only RedisBloom, and
    // everbloom for such filters, replicate this command.
    for format in Format::ALL {
        server.settings.format = format;
        let key = format.word();
        assert_eq!(server.run(&format!("BF.RESERVE {key} 0.01 2147483648")), "+OK");
        assert_eq!(server.keys[key.as_bytes()].format(), Format::RedisBloom);
    }
}

/// Returns whether the filter is a table from the first item on, and its capacity.
fn shape(server: &Server, key: &str) -> (bool, u64) {
    let filter = &server.keys[key.as_bytes()];
    (filter.layers().is_empty(), filter.capacity_items())
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
        assert!(!server.run(line).contains("-ERR"), "{line}");
        assert_eq!(shape(&server, "k"), expected, "{initial_size_items}: {line}");
        // Whatever the capacity that a replica would choose.
        for initial_size_items in [7, 100, 5000] {
            server.assert_replicated(Settings { initial_size_items, ..Settings::DEFAULT });
        }
    }
    // A setting for fixed filters makes bits too.
    let mut server = Server::new();
    server.settings.expansion_factor = 0;
    server.run("BF.ADD k a");
    assert_eq!(shape(&server, "k"), bits(100));
}

#[test]
fn a_table_is_replicated_with_its_error_rate_and_its_key() {
    let mut primary = Server::new();
    primary.settings = Settings { error_rate: 0.003, expansion_factor: 4, ..Settings::DEFAULT };
    primary.run("BF.ADD a x");
    primary.run("BF.INSERT b ERROR 0.2 EXPANSION 1 KEY 0123456789abcdef ITEMS x");
    primary.run("BF.INSERT c CAPACITY 5 UNRESERVED COUNTING ITEMS x");
    assert_eq!(
        primary.replicated,
        [
            "BF.INSERT a ERROR 0.003 EXPANSION 4 UNRESERVED FORMAT everbloom ITEMS x",
            "BF.INSERT b ERROR 0.2 EXPANSION 1 UNRESERVED FORMAT everbloom KEY 0123456789abcdef ITEMS x",
            "BF.INSERT c CAPACITY 5 ERROR 0.003 EXPANSION 4 UNRESERVED FORMAT everbloom COUNTING ITEMS x",
        ]
    );
    for number in (0..9000).step_by(100) {
        let items: Vec<String> = (number..number + 100).map(|item: u64| item.to_string()).collect();
        for key in ["a", "b", "c"] {
            primary.run(&format!("BF.MADD {key} {}", items.join(" ")));
        }
    }
    assert_eq!(primary.run("BF.INFO a FILTERS"), "*1 :1");
    for keyed in [false, true] {
        primary.assert_replicated(Settings {
            initial_size_items: 7,
            expansion_factor: 0,
            fixed_filters_saturate: true,
            keyed,
            format: Format::RedisBloom,
            ..Settings::DEFAULT
        });
    }
}

/// A replica has no limit, so an item that its primary refused would make another filter.
#[test]
fn refused_items_are_not_replicated() {
    for (seed, creation) in [
        "BF.INSERT k ITEMS first",
        "BF.INSERT k KEYED ERROR 0.2 ITEMS first",
        "BF.RESERVE k 0.01 500",
        "BF.RESERVE k 0.01 500 NONSCALING",
        "BF.IMPORT k EMPTY SCHEME guava-mitz64 BITS 640 HASHES 3 CAPACITY 60 ENCODING int32le",
        "BF.INSERT k CAPACITY 300 WINDOW 60 ITEMS first",
        "BF.INSERT k CAPACITY 300 COUNTING ITEMS first",
    ]
    .into_iter()
    .enumerate()
    {
        let mut primary = Server::new();
        primary.settings.max_filter_bytes = 1000;
        let mut random = Random(seed as u64);
        assert!(!primary.run(creation).contains("-ERR"), "{creation}");
        let mut refused = 0;
        for _ in 0..500 {
            let items: Vec<String> = (0..5).map(|_| random.below(4000).to_string()).collect();
            let reply = match random.below(3) {
                0 => primary.run(&format!("BF.ADD k {}", items[0])),
                1 => primary.run(&format!("BF.INSERT k ITEMS {}", items.join(" "))),
                _ => primary.run(&format!("BF.MADD k {}", items.join(" "))),
            };
            refused += reply.matches("-ERR").count();
        }
        assert!(refused > 100, "{creation}: {refused}");
        assert!(primary.keys[b"k".as_slice()].size_bytes() <= 1000);
        primary.assert_replicated(Settings::DEFAULT);
    }
}

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
        // It has room for as many.
        let items: Vec<String> = (0..50_000).map(|item| item.to_string()).collect();
        for items in items.chunks(25_000) {
            assert!(!server.run(&format!("BF.MADD k {}", items.join(" "))).contains("-ERR"), "{options}");
        }
        server.assert_replicated(Settings::DEFAULT);
    }
}
