//! Options that cannot be combined, and the settings `bf.missing-filter` and `bf.auto-create`, which make a missing
//! filter an error.

use everbloom::command::Settings;

use crate::support::server::{Server, assert_dialogue};

#[test]
fn incompatible_options_are_refused() {
    let mut server = Server::new();
    server.run("BF.ADD there a");
    let seed = "0123456789abcdef0123456789abcdef";
    for (options, error) in [
        (
            "NONSCALING VALIDATESCALETO 1000".to_owned(),
            "-ERR cannot use NONSCALING and VALIDATESCALETO options together",
        ),
        (
            "EXPANSION 0 VALIDATESCALETO 1000".to_owned(),
            "-ERR cannot use NONSCALING and VALIDATESCALETO options together",
        ),
        (format!("FORMAT redisbloom SEED {seed}"), "-ERR SEED and TIGHTENING need FORMAT valkey-bloom"),
        ("TIGHTENING 0.3".to_owned(), "-ERR SEED and TIGHTENING need FORMAT valkey-bloom"),
        (
            "VALIDATESCALETO 1000 FORMAT redisbloom".to_owned(),
            "-ERR VALIDATESCALETO cannot be combined with FORMAT redisbloom",
        ),
    ] {
        for key in ["vacant", "string"] {
            assert_eq!(server.run(&format!("BF.INSERT {key} {options} ITEMS b")), error, "{key} {options}");
        }
        // Options that also differ from an existing filter have the error for that.
        let reply = server.run(&format!("BF.INSERT there {options} ITEMS b"));
        assert!(reply == error || reply.contains(" differs from the existing filter"), "{options}: {reply}");
    }
    assert_eq!(server.run("BF.CARD there"), ":1");
    assert_eq!(server.keys.len(), 1);
}

/// A filter has room for the items that it was validated for, and little more is refused.
#[test]
fn a_filter_grows_to_the_capacity_that_was_validated() {
    const REFUSED: &str = "-ERR provided VALIDATESCALETO causes bloom object to exceed memory limit";
    for (options, target) in [
        ("ERROR 0.01", 30_000),
        ("ERROR 0.000001", 30_000),
        ("ERROR 0.01 CAPACITY 1000", 30_000),
        ("ERROR 0.01 CAPACITY 40000", 30_000),
        ("ERROR 0.01 CAPACITY 100 COUNTING", 30_000),
    ] {
        let mut server = Server::new();
        // The smallest limit that permits it.
        let (mut refused, mut accepted) = (0, 1 << 20);
        while accepted - refused > 1 {
            server.settings.max_filter_bytes = u64::midpoint(refused, accepted);
            server.keys.clear();
            let reply = server.run(&format!("BF.INSERT k {options} VALIDATESCALETO {target} ITEMS item-0"));
            if reply == "*1 #t" {
                accepted = server.settings.max_filter_bytes;
            } else {
                assert!(
                    reply == REFUSED || reply.starts_with("-ERR filter would take "),
                    "{options}: {reply}"
                );
                refused = server.settings.max_filter_bytes;
            }
        }
        server.settings.max_filter_bytes = accepted;
        server.keys.clear();
        server.run(&format!("BF.INSERT k {options} VALIDATESCALETO {target} ITEMS item-0"));
        for first in (0..target).step_by(1000) {
            let items: String = (first..first + 1000).map(|item| format!(" item-{item}")).collect();
            let reply = server.run(&format!("BF.MADD k{items}"));
            assert!(!reply.contains("-ERR"), "{options}, {first} within {accepted}: {reply}");
        }
        let bytes = server.keys[b"k".as_slice()].size_bytes();
        assert!(accepted <= bytes * 6 / 5, "{options}: {accepted} for {bytes}");
    }
}

#[test]
fn lookups_in_a_missing_filter_follow_the_setting() {
    let mut server = Server::new();
    assert_dialogue(&mut server, &[("BF.EXISTS none a", "#f"), ("BF.MEXISTS none a b", "*2 #f #f")]);
    server.settings.missing_filter_is_error = true;
    let dialogue = [
        ("BF.EXISTS none a", "-ERR not found"),
        ("BF.MEXISTS none a b", "-ERR not found"),
        ("BF.CARD none", ":0"),
        ("BF.ADD k a", "#t"),
        ("BF.EXISTS k a", "#t"),
        ("BF.MEXISTS k a b", "*2 #t #f"),
        ("BF.EXISTS string a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
    ];
    assert_dialogue(&mut server, &dialogue);
}

#[test]
fn without_auto_create_adds_need_a_filter() {
    let mut server = Server::new();
    server.settings = Settings { auto_create: false, ..Settings::DEFAULT };
    let dialogue = [
        ("BF.ADD k a", "-ERR not found"),
        ("BF.MADD k a b", "-ERR not found"),
        ("BF.ADD string a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("BF.INSERT i ITEMS a", "*1 #t"),
        ("BF.RESERVE k 0.01 100", "+OK"),
        ("BF.ADD k a", "#t"),
        ("BF.MADD k a b", "*2 #f #t"),
    ];
    assert_dialogue(&mut server, &dialogue);
    assert_eq!(server.replicated.len(), 4);
    // A filter to which a primary of RedisBloom's format adds must exist.
    server.settings.format = everbloom::bloom::Format::RedisBloom;
    server.is_replicated = true;
    assert_eq!(server.run("BF.ADD obeyed a"), "#t");
    assert_eq!(server.run("BF.MADD obeyed-too a"), "*1 #t");
}
