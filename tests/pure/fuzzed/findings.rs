//! What fuzzing has found, one test each.

use everbloom::bloom::Filter;
use everbloom::format::filter::header;

use super::fuzz::exercise::reload;
use super::fuzz::forge;
use super::fuzz::server::Server;

/// A header of our own: the chain's, then layers of 1024 bits for 77 items.
fn header_of(kind: u8, reserved_items: u64, expansion: u32, layers: u32) -> Vec<u8> {
    let rate = 0.01f64.to_le_bytes();
    let parts = [&layers.to_le_bytes()[..], &expansion.to_le_bytes(), &rate, &reserved_items.to_le_bytes()];
    let mut body = parts.concat();
    for _ in 0..layers {
        body.extend([1, 0, 7, 1, 0, 0, 0, 0]);
        [1024u64, 77, 0, 0].iter().for_each(|field| body.extend(field.to_le_bytes()));
        // Of a counting filter the distinct items follow.
        body.extend(vec![0; if kind == 3 { 8 } else { 0 }]);
    }
    forge::sealed_header(&forge::header(kind, &body), Some(1))
}

/// The chain's header says how large a filter was reserved; its layers may be smaller. BF.CLEAR made the reserved one,
/// whatever its size.
#[test]
fn a_header_that_lies_about_the_capacity_makes_no_large_filter_when_cleared() {
    for (kind, name) in [(0, "own"), (3, "counting")] {
        let mut server = Server::new();
        server.settings.max_filter_bytes = 1 << 20;
        let header = header_of(kind, 1 << 30, 2, 1);
        let key = name.as_bytes();
        assert_eq!(server.call(&[b"BF.LOADCHUNK", key, b"1", &header]), "+OK", "{name}");
        let reply = server.call(&[b"BF.CLEAR", key]);
        assert!(reply.starts_with("-ERR filter would take "), "{name}: {reply}");
        assert!(server.keys[key].size_bytes() < 1 << 20);
        // As large as it is it may be, whatever the setting says by then.
        let header = header_of(kind, 77, 2, 1);
        assert_eq!(server.call(&[b"BF.LOADCHUNK", b"honest", b"1", &header]), "+OK");
        server.settings.max_filter_bytes = 1;
        assert_eq!(server.call(&[b"BF.CLEAR", b"honest"]), "+OK", "{name}");
        server.keys.clear();
    }
}

/// A union that saturates ends in a layer of everbloom's own, where commands made it, and in any that takes new items,
/// where somebody else did. One of valkey-bloom's counted beyond its capacity there, which no decoder took.
#[test]
fn a_union_that_saturates_is_loaded_whichever_layer_is_its_last() {
    let mut server = Server::new();
    for line in [
        "BF.INSERT v CAPACITY 3 FORMAT valkey-bloom ITEMS a b c",
        "BF.INSERT own CAPACITY 9 NONSCALING SATURATE ITEMS d",
        "BF.MERGE own v FORCE",
    ] {
        assert!(!server.run(line).starts_with('-'), "{line}");
    }
    let made = header(&server.keys[&b"own"[..]]);
    let (front, layers) = made.split_at(32);
    assert_eq!((front[6], &front[12..16]), (6, &u32::MAX.to_le_bytes()[..]));
    let (first, last) = layers.split_at(96);
    assert_eq!((first[0], last[0]), (3, 1));
    let mut turned = [front, last, first].concat();
    // No bits follow.
    for layer in turned[32..].as_chunks_mut::<96>().0 {
        layer[40..48].fill(0);
    }
    assert_eq!(server.call(&[b"BF.LOADCHUNK", b"f", b"1", &forge::sealed_header(&turned, Some(1))]), "+OK");
    let before = server.keys[&b"f"[..]].items();
    assert_eq!(server.run("BF.MADD f 1 2 3 4 5"), "*5 #t #t #t #t #t");
    let filter = &server.keys[&b"f"[..]];
    assert_eq!(filter.items(), before + 5);
    reload(filter);
}

/// The one page of a small filter that forgets: its header without items, and its array.
fn window_of(line: &str) -> (Vec<u8>, Vec<u8>) {
    let mut server = Server::new();
    assert_eq!(server.run(line), "+OK");
    let filter = &server.keys[&b"w"[..]];
    let bytes = filter.storages().next().unwrap().bytes().to_vec();
    (header(filter), bytes)
}

/// Items that a filter that forgets took in a generation each set a bit of it; a header may say that there are as many
/// as bits, and bits may be clear. One more item counted was one more than a decoder takes.
#[test]
fn a_generation_that_counts_as_many_items_as_positions_is_loaded_after_an_add() {
    let (mut header, _) = window_of("BF.RESERVE w 0.99 20 WINDOW 100 NONSCALING");
    let mut server = Server::new();
    let generation = server.now_ms * 14 / 100_000 + 1;
    let positions = header[56..64].to_vec();
    // One probe: at a rate of 99 % a layer takes more items than that, by its formula.
    header[50] = 1;
    header[80..88].copy_from_slice(&generation.to_le_bytes());
    let column = 96 + 8 * (generation % 16) as usize;
    header[column..column + 8].copy_from_slice(&positions);
    assert_eq!(server.call(&[b"BF.LOADCHUNK", b"w", b"1", &forge::sealed_header(&header, Some(1))]), "+OK");
    reload(&server.keys[&b"w"[..]]);
    assert_eq!(server.run("BF.ADD w one-more"), "#t");
    reload(&server.keys[&b"w"[..]]);
    let Filter::Window(chain) = &server.keys[&b"w"[..]] else { panic!() };
    assert_eq!(chain.items_told().to_le_bytes(), positions[..]);
}

/// A page whose bits are set although its stamp says that it took nothing. An item that set no bit once stamped such a page
/// and not its layer, and no decoder takes a page that is newer than its layer. Now no decoder takes such a page.
#[test]
fn a_page_that_took_nothing_and_has_bits_is_refused() {
    let (header, mut bytes) = window_of("BF.RESERVE w 0.01 20 WINDOW 100");
    let page_at = bytes.len() - 8;
    bytes[..page_at].fill(u8::MAX);
    let mut server = Server::new();
    assert_eq!(server.call(&[b"BF.LOADCHUNK", b"w", b"1", &forge::sealed_header(&header, Some(1))]), "+OK");
    let (array, _) = forge::array_at(&server.keys[&b"w"[..]], 0).unwrap();
    let piece = forge::sealed_chunk(&bytes, 0, &array, Some(1));
    let iterator = (bytes.len() + 1).to_string();
    let load = server.call(&[b"BF.LOADCHUNK", b"w", iterator.as_bytes(), &piece]);
    assert_eq!(load, "-ERR received bad data");
    assert_eq!(server.run("BF.EXISTS w item"), "#f");
    server.run("BF.ADD w item");
    assert_eq!(server.run("BF.EXISTS w item"), "#t");
    reload(&server.keys[&b"w"[..]]);
}

/// An item that cannot be deleted any more is deleted for ever, and counts down to nothing. The target `commands` expected
/// less than nothing.
#[test]
fn an_item_that_stays_is_deleted_until_nothing_is_counted() {
    let mut server = Server::new();
    let adds = server.run("BF.INSERT f CAPACITY 3 NONSCALING COUNTING ITEMS x x x x x x x x x x");
    assert_eq!(adds, "*10 #t #f #f #f #f #f #f #f #f #f");
    for deleted in 1..15u64 {
        assert_eq!(server.run("BF.DEL f x"), "*1 #t");
        assert_eq!(server.run("BF.CARD f"), format!(":{}", 10u64.saturating_sub(deleted)));
    }
    assert_eq!(server.run("BF.EXISTS f x"), "#t");
    reload(&server.keys[&b"f"[..]]);
}
