//! Limits: of a filter's bytes, with refused items, their log lines and VALIDATESCALETO; of the counts of an item.

use everbloom::bloom::table::COUNT_MAX;
use everbloom::bloom::{Limit, LimitSource, ReserveError};
use everbloom::command::{CommandError, Settings};

use crate::support::server::Server;

#[test]
fn growth_above_the_byte_limit_refuses_the_item_and_is_logged_once_a_minute() {
    let mut server = Server::new();
    server.settings.max_filter_bytes = 512;
    server.run("BF.INSERT k CAPACITY 10 ERROR 0.001 ITEMS a");
    server.run("BF.RESERVE fixed 0.001 1 NONSCALING");
    for command in ["BF.MADD k", "BF.INSERT k NOCREATE ITEMS"] {
        let reply = server.batches(command, "i", 0..200);
        assert!(reply.contains("-ERR problem inserting into filter"), "{command}: {reply}");
    }
    assert!(server.replicated[2].starts_with("BF.MADD k i0 i1 "));
    assert_eq!(server.run("BF.MEXISTS k a i0 i1"), "*3 #t #t #t");
    assert!(server.batches("BF.MADD fixed", "i", 0..200).contains("-ERR non scaling filter is full"));
    server.run("BF.ADD fixed more");
    let refusal = server.run("BF.RESERVE r 0.01 1000000");
    assert!(refusal.starts_with("-ERR filter would take "), "{refusal}");
    assert!(refusal.contains("bf.max-filter-bytes"), "{refusal}");
    let refusal = server.run("BF.IMPORT r EMPTY SCHEME go-zero BITS 80000");
    assert!(refusal.starts_with("-ERR filter would take 10"), "{refusal}");
    let [limited, fixed] = &server.log[..] else { panic!("{:?}", server.log) };
    assert!(
        limited.starts_with("'k' has no room for new items: with more items it would take "),
        "{limited}"
    );
    assert!(limited.ends_with(" bytes, more than bf.max-filter-bytes (512)"), "{limited}");
    let text = "'fixed' has no room for new items: it is fixed and has as many items as its capacity; without \
                NONSCALING it would accept more";
    assert_eq!(fixed, text);
    server.now_ms += 60_000;
    server.run("BF.ADD fixed more");
    assert_eq!(server.log.len(), 3, "{:?}", server.log);
}

#[test]
fn a_filter_that_is_too_large_is_refused_with_the_limit_and_its_setting() {
    for (source, text) in [
        (
            LimitSource::Setting,
            "bf.max-filter-bytes (8): choose a smaller capacity or raise bf.max-filter-bytes",
        ),
        (LimitSource::MaxMemory, "maxmemory (8): choose a smaller capacity or raise maxmemory"),
        (LimitSource::Machine, "the machine has (8): choose a smaller capacity"),
        (LimitSource::Layer, "a layer can have (8): choose a smaller capacity"),
    ] {
        let limit = Limit { bytes: 8, source };
        let error = CommandError::Reserve(ReserveError::TooLarge { needed_bytes: 9, limit });
        assert_eq!(error.to_string(), format!("ERR filter would take 9 bytes, more than {text}"));
    }
}

/// tests/pure/growth finds the least limit that is validated.
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
        server.add("k", "", 0..50_000);
        server.assert_replicated(Settings::DEFAULT);
    }
}

/// Returns the reply to a command with the same item many times.
fn repeated(server: &mut Server, command: &str, item: &str, times: usize) -> String {
    server.run(&format!("{command}{}", format!(" {item}").repeat(times)))
}

#[test]
fn more_than_can_be_counted_is_an_error_and_changes_nothing() {
    const ERROR: &str = "-ERR item was added too often: at most 4097 times are counted";
    assert_eq!(COUNT_MAX, 4097);
    let times = COUNT_MAX as usize;
    for words in ["", " CAPACITY 3 NONSCALING", " KEYED"] {
        let mut server = Server::new();
        server.must(&format!("BF.INSERT k ERROR 0.0001{words} COUNTING ITEMS other"));
        let added = repeated(&mut server, "BF.MADD k", "x", 1000);
        assert_eq!(added, format!("*1000 #t{}", " #f".repeat(999)));
        // A thousand occurrences of one item take as much memory as a few.
        let size_bytes = server.filter("k").size_bytes();
        assert!(!repeated(&mut server, "BF.MADD k", "x", times - 1000).contains("-ERR"));
        assert_eq!(server.filter("k").size_bytes(), size_bytes);
        let (before, replicated) = (server.digested("k"), server.replicated.len());
        assert_eq!(server.run("BF.ADD k x"), ERROR);
        assert_eq!(server.run("BF.MADD k x x"), format!("*2 {ERROR} {ERROR}"));
        assert_eq!(server.run("BF.BULKADD k LINES x\nx"), "$!!");
        assert!(server.digested("k") == before);
        assert_eq!((server.replicated.len(), server.log.len()), (replicated, 0));
        // Only this item is refused, and only the others are replicated.
        assert_eq!(server.run("BF.MADD k x y x other"), format!("*4 {ERROR} #t {ERROR} #f"));
        assert_eq!(server.replicated.last().unwrap(), "BF.MADD k y other");
        assert_eq!(server.run("BF.CARD k"), format!(":{}", COUNT_MAX + 3));
        // One deletion makes room for one more.
        assert_eq!(server.run("BF.DEL k x"), "*1 #t");
        assert_eq!(server.run("BF.MADD k x x"), format!("*2 #f {ERROR}"));
        let deleted = repeated(&mut server, "BF.DEL k", "x", times + 1);
        assert_eq!(deleted, format!("*{}{} #f", times + 1, " #t".repeat(times)), "{words}");
        assert_eq!(server.run("BF.MEXISTS k x y other"), "*3 #f #t #t");
        assert_eq!(server.run("BF.CARD k"), ":3");
        server.assert_replicated(Settings::DEFAULT);
    }
}
