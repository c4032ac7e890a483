//! The limit of a filter's bytes: refused items, their log lines, and VALIDATESCALETO.

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
