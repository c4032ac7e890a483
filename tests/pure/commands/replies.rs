//! Adds above the byte limit, and the fields of BF.INFO.

use everbloom::command::Protocol;

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
