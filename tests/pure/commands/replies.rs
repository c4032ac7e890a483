//! Adds above the byte limit, and the fields of BF.INFO.

use everbloom::bloom::{Limit, LimitSource, ReserveError};
use everbloom::command::{CommandError, Protocol};

use crate::support::server::Server;

#[test]
fn growth_above_the_byte_limit_refuses_the_item_and_continues() {
    let mut server = Server::new();
    server.settings.max_filter_bytes = 512;
    server.run("BF.INSERT k CAPACITY 10 ERROR 0.001 ITEMS a");
    let items: Vec<String> = (0..200).map(|item| format!("i{item}")).collect();
    let reply = server.run(&format!("BF.MADD k {}", items.join(" ")));
    assert!(reply.starts_with("*200 #t"), "{reply}");
    assert!(reply.contains("-ERR problem inserting into filter"), "{reply}");
    assert!(server.replicated.last().unwrap().starts_with("BF.MADD k i0 i1 "));
    assert_eq!(server.run("BF.MEXISTS k a i0 i1"), "*3 #t #t #t");
    let refusal = server.run("BF.RESERVE r 0.01 1000000");
    assert!(refusal.starts_with("-ERR filter would take "), "{refusal}");
    assert!(refusal.contains("bf.max-filter-bytes"), "{refusal}");
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

#[test]
fn refused_items_are_logged_with_the_limit() {
    let mut server = Server::new();
    server.settings.max_filter_bytes = 512;
    server.run("BF.RESERVE k 0.001 10");
    server.run("BF.RESERVE fixed 0.001 1 NONSCALING");
    let items: Vec<String> = (0..200).map(|item| format!("i{item}")).collect();
    for command in ["BF.MADD k", "BF.INSERT k NOCREATE ITEMS", "BF.MADD fixed", "BF.ADD fixed more"] {
        let items = if command.ends_with("more") { "" } else { &format!(" {}", items.join(" ")) };
        let reply = server.run(&format!("{command}{items}"));
        assert!(reply.contains("-ERR "), "{command}: {reply}");
    }
    assert_eq!(server.log.len(), 2, "{:?}", server.log);
    let beginning = "'k' has no room for new items: with more items it would take ";
    assert!(server.log[0].starts_with(beginning), "{:?}", server.log);
    assert!(server.log[0].ends_with(" bytes, more than bf.max-filter-bytes (512)"), "{:?}", server.log);
    let fixed = "'fixed' has no room for new items: it is fixed and has as many items as its capacity; without \
                 NONSCALING it would accept more";
    assert_eq!(server.log[1], fixed);
    // A minute later.
    server.now_ms += 60_000;
    server.run("BF.ADD fixed more");
    assert_eq!(server.log.len(), 3, "{:?}", server.log);
}

#[test]
fn info_has_five_fields_in_both_protocols() {
    let mut server = Server::new();
    server.run("BF.MADD k a b c");
    let full = server.run("BF.INFO k");
    assert!(full.starts_with("%5 +Capacity :100 +Size :"), "{full}");
    assert!(
        full.ends_with(" +Number of filters :1 +Number of items inserted :3 +Expansion rate :2"),
        "{full}"
    );
    assert_eq!(server.run("BF.INFO k items"), "*1 :3");
    assert_eq!(server.run("BF.INFO k nothing"), "-Invalid information value");
    server.protocol = Protocol::Resp3;
    assert_eq!(server.run("BF.INFO k FILTERS"), "%1 +Number of filters :1");
}
