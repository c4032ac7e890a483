//! Filters that get a time to live when they are created.

use crate::support::server::{NOW_MS, Server, assert_dialogue};

/// The reply, the replicated commands, the expiry times of keys, and the events.
type Made = (String, Vec<String>, Vec<(String, u64)>, Vec<&'static str>);

/// Returns the results of a command line on an empty server.
fn made(line: &str) -> Made {
    let mut server = Server::new();
    let reply = server.run(line);
    (reply, server.replicated, server.expiries, server.events)
}

#[test]
fn the_expiry_time_of_a_new_filter_is_replicated() {
    let moments =
        [("EX 10", NOW_MS + 10_000), ("px 10", NOW_MS + 10), ("EXAT 2000", 2_000_000), ("PXAT 2000", 2_000)];
    for (option, at_ms) in moments {
        let expiries = vec![("k".to_owned(), at_ms)];
        let moment = format!("PEXPIREAT k {at_ms}");
        let (reply, replicated, moments, events) = made(&format!("BF.RESERVE k 0.01 100 {option}"));
        assert_eq!((reply.as_str(), &moments), ("+OK", &expiries), "{option}");
        let created = "BF.INSERT k CAPACITY 100 ERROR 0.01 EXPANSION 2 FORMAT everbloom";
        let made_by_add = "BF.INSERT k ERROR 0.01 EXPANSION 2 UNRESERVED FORMAT everbloom";
        assert_eq!(replicated, [created, &moment]);
        assert_eq!(events, ["bloom.reserve", "expire"]);
        let (reply, replicated, moments, events) = made(&format!("BF.INSERT k {option} ITEMS a b"));
        assert_eq!((reply.as_str(), &moments), ("*2 #t #t", &expiries), "{option}");
        assert_eq!(replicated, [format!("{made_by_add} ITEMS a b"), moment.clone()]);
        assert_eq!(events, ["bloom.reserve", "expire", "bloom.add"]);
        let import = format!("BF.IMPORT k EMPTY SCHEME guava-mitz64 BITS 64 HASHES 3 {option}");
        let (reply, replicated, moments, _) = made(&import);
        assert_eq!((reply.as_str(), &moments), ("+OK", &expiries), "{option}");
        assert_eq!((replicated.len(), replicated.last()), (2, Some(&moment)));
    }
    // With options that RedisBloom supports too.
    let (_, replicated, ..) = made("BF.RESERVE k 0.01 100 FORMAT redisbloom PXAT 7");
    assert_eq!(replicated, ["BF.RESERVE k 0.01 100 EXPANSION 2", "PEXPIREAT k 7"]);
}

#[test]
fn an_existing_filter_keeps_its_time_to_live() {
    let mut server = Server::new();
    assert_dialogue(
        &mut server,
        &[
            ("BF.RESERVE k 0.01 100", "+OK"),
            ("BF.INSERT k EX 10 ITEMS a", "*1 #t"),
            ("BF.INSERT k NOCREATE EX 10 ITEMS b", "*1 #t"),
            ("BF.INSERT new NOCREATE EX 10 ITEMS b", "-ERR not found"),
            ("BF.RESERVE k 0.01 100 EX 10", "-ERR item exists"),
        ],
    );
    assert!(server.expiries.is_empty());
    // Without the options that another module does not support.
    assert_eq!(server.replicated[1..], ["BF.MADD k a", "BF.MADD k b"]);
}

#[test]
fn a_bad_time_to_live_is_refused_as_by_set() {
    let huge = i64::MAX;
    let cases = [
        ("EX 0", "ERR invalid expire time in 'bf.reserve' command"),
        ("PXAT -1", "ERR invalid expire time in 'bf.reserve' command"),
        (&format!("EX {huge}"), "ERR invalid expire time in 'bf.reserve' command"),
        (&format!("PX {huge}"), "ERR invalid expire time in 'bf.reserve' command"),
        ("EX soon", "ERR value is not an integer or out of range"),
        ("EX 1 PX 1", "ERR syntax error"),
        ("EX", "ERR wrong number of arguments for 'bf.reserve' command"),
    ];
    for (option, error) in cases {
        assert_eq!(
            made(&format!("BF.RESERVE k 0.01 100 {option}")),
            (format!("-{error}"), vec![], vec![], vec![])
        );
    }
    let (reply, ..) = made("BF.INSERT k EX 0 ITEMS a");
    assert_eq!(reply, "-ERR invalid expire time in 'bf.insert' command");
    let (reply, ..) = made("BF.IMPORT k EMPTY SCHEME guava-mitz64 BITS 64 HASHES 3 EX 0");
    assert_eq!(reply, "-ERR invalid expire time in 'bf.import' command");
}

#[test]
fn reserve_with_ifnotexists_accepts_an_existing_filter() {
    let mut server = Server::new();
    assert_dialogue(
        &mut server,
        &[
            ("BF.RESERVE k 0.01 100 IFNOTEXISTS", ":1"),
            ("BF.ADD k a", "#t"),
            ("BF.RESERVE k 0.5 7 ifnotexists NONSCALING EX 9", ":0"),
            ("BF.CARD k", ":1"),
            ("BF.RESERVE string 0.01 100 IFNOTEXISTS", WRONG_TYPE),
            ("BF.RESERVE k 2 100 IFNOTEXISTS", "-ERR error rate must be in the range (0.000000, 1.000000)"),
        ],
    );
    assert_eq!((server.replicated.len(), server.expiries.len()), (2, 0));
}

const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value";
