//! Bugs that fuzzing has found, one test each.

use everbloom::format::filter::header;

use super::fuzz::forge;
use crate::support::saved::assert_survives;
use crate::support::server::Server;

/// Returns a record of everbloom's own format: the policy, then a layer of 1024 positions for 77 items.
fn header_of(reserved_items: u64) -> Vec<u8> {
    let rate = 0.01f64.to_le_bytes();
    let mut body =
        [&[0; 3][..], &[1, 0, 2, 0, 0, 0], &rate, &reserved_items.to_le_bytes(), &[0; 16]].concat();
    body.extend([1, 1, 0, 7, 0, 0, 0, 0]);
    [1024u64, 77, 0, 0].iter().for_each(|field| body.extend(field.to_le_bytes()));
    forge::header_chunk(&forge::header(0, &body), 1)
}

/// The record contains the reserved capacity, and its layers may be smaller. BF.CLEAR created a filter of the
/// reserved capacity, whatever its size.
#[test]
fn clearing_a_filter_with_a_false_capacity_makes_no_large_filter() {
    let mut server = Server::new();
    server.settings.max_filter_bytes = 1 << 20;
    assert_eq!(server.call(&[b"BF.LOADCHUNK", b"own", b"1", &header_of(1 << 30)]), "+OK");
    let reply = server.run("BF.CLEAR own");
    assert!(reply.starts_with("-ERR filter would take "), "{reply}");
    assert!(server.filter("own").size_bytes() < 1 << 20);
    // The filter may keep its current size, whatever the setting is then.
    assert_eq!(server.call(&[b"BF.LOADCHUNK", b"honest", b"1", &header_of(77)]), "+OK");
    server.settings.max_filter_bytes = 1;
    assert_eq!(server.run("BF.CLEAR honest"), "+OK");
}

/// A saturating union ends with a layer of everbloom's own if commands created it, but with any layer that takes new
/// items if a crafted header did. A layer of valkey-bloom's then counted above its capacity, which no decoder
/// accepted.
#[test]
fn a_saturating_union_loads_with_any_last_layer() {
    let mut server = Server::new();
    for line in [
        "BF.INSERT v CAPACITY 3 FORMAT valkey-bloom ITEMS a b c",
        "BF.INSERT own CAPACITY 9 NONSCALING SATURATE ITEMS d",
        "BF.MERGE own v FORCE",
    ] {
        assert!(!server.run(line).starts_with('-'), "{line}");
    }
    let made = header(server.filter("own"));
    let front = &made[..forge::POLICY_BYTES];
    // A union, and saturating.
    assert_eq!((front[6], front[7]), (2, 1));
    let layers = forge::layers(&made);
    let (first, last) = (&made[layers[0].clone()], &made[layers[1].clone()]);
    assert!(layers.len() == 2 && [6, 7].contains(&first[0]) && last[0] == 1);
    let mut turned = [front, last, first].concat();
    // No bits follow.
    for layer in forge::layers(&turned) {
        turned[layer.start + 32..][..8].fill(0);
    }
    assert_eq!(server.call(&[b"BF.LOADCHUNK", b"f", b"1", &forge::header_chunk(&turned, 1)]), "+OK");
    let before = server.filter("f").items();
    assert_eq!(server.run("BF.MADD f 1 2 3 4 5"), "*5 #t #t #t #t #t");
    let filter = server.filter("f");
    assert_eq!(filter.items(), before + 5);
    assert_survives(filter, "a crafted union");
}
