//! Bugs that fuzzing has found, one test each.

use everbloom::bloom::CellType;
use everbloom::format::filter::header;

use super::fuzz::exercise::reload;
use super::fuzz::forge;
use crate::support::server::Server;

/// Returns a record of everbloom's own format: the policy, then layers of 1024 positions for 77 items.
fn header_of(cells: CellType, reserved_items: u64, expansion: u32, layers: u32) -> Vec<u8> {
    let rate = 0.01f64.to_le_bytes();
    let parts = [
        &[0; 2][..],
        &[u8::from(expansion > 0)],
        &[0; 2],
        &expansion.to_le_bytes(),
        &rate,
        &reserved_items.to_le_bytes(),
        &[0; 16],
    ];
    let mut body = parts.concat();
    for _ in 0..layers {
        body.extend([1, 1, cells.id(), 0, 7, 0, 0, 0]);
        let size_bits = if cells == CellType::Counters { 4096u64 } else { 1024 };
        [size_bits, 77, 0, 0].iter().for_each(|field| body.extend(field.to_le_bytes()));
        // Counters have occurrences too.
        body.extend(vec![0; if cells == CellType::Counters { 8 } else { 0 }]);
    }
    forge::header_chunk(&forge::header(0, &body), 1)
}

/// The record contains the reserved capacity, and its layers may be smaller. BF.CLEAR created a filter of the
/// reserved capacity, whatever its size.
#[test]
fn clearing_a_filter_with_a_false_capacity_makes_no_large_filter() {
    for (kind, name) in [(CellType::Bits, "own"), (CellType::Counters, "counting")] {
        let mut server = Server::new();
        server.settings.max_filter_bytes = 1 << 20;
        let header = header_of(kind, 1 << 30, 2, 1);
        let key = name.as_bytes();
        assert_eq!(server.call(&[b"BF.LOADCHUNK", key, b"1", &header]), "+OK", "{name}");
        let reply = server.call(&[b"BF.CLEAR", key]);
        assert!(reply.starts_with("-ERR filter would take "), "{name}: {reply}");
        assert!(server.keys[key].size_bytes() < 1 << 20);
        // The filter may keep its current size, whatever the setting is then.
        let header = header_of(kind, 77, 2, 1);
        assert_eq!(server.call(&[b"BF.LOADCHUNK", b"honest", b"1", &header]), "+OK");
        server.settings.max_filter_bytes = 1;
        assert_eq!(server.call(&[b"BF.CLEAR", b"honest"]), "+OK", "{name}");
        server.keys.clear();
    }
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
    let made = header(&server.keys[&b"own"[..]]);
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
    let before = server.keys[&b"f"[..]].items();
    assert_eq!(server.run("BF.MADD f 1 2 3 4 5"), "*5 #t #t #t #t #t");
    let filter = &server.keys[&b"f"[..]];
    assert_eq!(filter.items(), before + 5);
    reload(filter);
}

/// Returns the only page of a small sliding window: its header without items, and its array.
fn window_of(line: &str) -> (Vec<u8>, Vec<u8>) {
    let mut server = Server::new();
    assert_eq!(server.run(line), "+OK");
    let filter = &server.keys[&b"w"[..]];
    let bytes = filter.layers()[0].cells().bytes().to_vec();
    (header(filter), bytes)
}

/// Every item of a generation sets a bit of it. A header may have as many items as bits, although bits are clear.
/// After one more counted item, no decoder accepted the filter.
#[test]
fn a_generation_with_one_item_per_position_is_loaded_after_an_add() {
    let (mut header, _) = window_of("BF.RESERVE w 0.99 20 WINDOW 100 NONSCALING");
    let mut server = Server::new();
    let generation = server.now_ms * 14 / 100_000 + 1;
    let layer = forge::layers(&header)[0].start;
    let size_bits = u64::from_le_bytes(header[layer + 8..][..8].try_into().unwrap());
    let positions = (size_bits - 64) / 16;
    // One probe: at a rate of 99 % the formula gives a layer more items than that.
    header[layer + 4] = 1;
    let columns = layer + forge::LAYER_BYTES;
    header[columns..][..8].copy_from_slice(&generation.to_le_bytes());
    let column = columns + 16 + 8 * (generation % 16) as usize;
    header[column..column + 8].copy_from_slice(&positions.to_le_bytes());
    assert_eq!(server.call(&[b"BF.LOADCHUNK", b"w", b"1", &forge::header_chunk(&header, 1)]), "+OK");
    reload(&server.keys[&b"w"[..]]);
    assert_eq!(server.run("BF.ADD w one-more"), "#t");
    reload(&server.keys[&b"w"[..]]);
    assert_eq!(server.keys[&b"w"[..]].items(), positions);
}

/// A page with set bits whose stamp means that it has no items. An item that set no bit stamped such a page but not
/// its layer, and no decoder accepts a page that is newer than its layer. Such a page is refused now.
#[test]
fn a_page_with_bits_but_no_items_is_refused() {
    let (header, mut bytes) = window_of("BF.RESERVE w 0.01 20 WINDOW 100");
    let page_at = bytes.len() - 8;
    bytes[..page_at].fill(u8::MAX);
    let mut server = Server::new();
    assert_eq!(server.call(&[b"BF.LOADCHUNK", b"w", b"1", &forge::header_chunk(&header, 1)]), "+OK");
    let iterator = forge::iterator_at(bytes.len() as u64, 1);
    let chunk = forge::with_trailer(&bytes, iterator, 1);
    let iterator = iterator.to_string();
    let load = server.call(&[b"BF.LOADCHUNK", b"w", iterator.as_bytes(), &chunk]);
    assert_eq!(load, "-ERR received bad data");
    assert_eq!(server.run("BF.EXISTS w item"), "#f");
    server.run("BF.ADD w item");
    assert_eq!(server.run("BF.EXISTS w item"), "#t");
    reload(&server.keys[&b"w"[..]]);
}

/// An item whose counters are full can be deleted repeatedly, and the count of occurrences reaches 0. The target
/// `commands` expected less than 0.
#[test]
fn an_item_with_full_counters_is_deleted_down_to_zero() {
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

/// Counters that were full stay set after their items are deleted. A merge estimated items from such cells and counted
/// more items than occurrences, which no decoder accepted.
#[test]
fn merged_counters_without_occurrences_have_no_items() {
    let mut server = Server::new();
    let items = "a b c d e f g h i j k l m n o p q r s t";
    for key in ["f", "g"] {
        assert_eq!(server.run(&format!("BF.RESERVE {key} 0.01 20 NONSCALING COUNTING")), "+OK");
    }
    for command in ["BF.MADD", "BF.DEL"] {
        for _ in 0..15 {
            server.run(&format!("{command} g {items}"));
        }
    }
    assert_eq!(server.run("BF.CARD g"), ":0");
    assert_eq!(server.run("BF.EXISTS g a"), "#t");
    for key in ["f", "created"] {
        assert_eq!(server.run(&format!("BF.MERGE {key} g")), "+OK");
        assert_eq!(server.run(&format!("BF.CARD {key}")), ":0");
        assert_eq!(server.run(&format!("BF.EXISTS {key} a")), "#t");
        reload(&server.keys[key.as_bytes()]);
    }
}
