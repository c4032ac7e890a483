//! Crafted headers: clear arrays with the highest counts that a decoder accepts, and headers with which fuzzing has
//! found bugs. After any adds, the filter can still be saved and loaded.

use everbloom_format::chunks::TRAILER_BYTES;
use everbloom_format::filter::header;
use everbloom_format::value::from_header;

use crate::support::fuzz::forge;
use crate::support::saved::{assert_survives, loaded, saved, string};
use crate::support::server::Server;

/// A header of one layer or of a table, and the offsets of its counts.
struct Form {
    name: String,
    header: Vec<u8>,
    /// `None` for a table, which has no capacity of its own.
    capacity_at: Option<usize>,
    items_at: usize,
    /// Whether the header is RedisBloom's: it also has the number of items of the filter, and no trailer.
    is_redisbloom: bool,
}

impl Form {
    /// Returns the form of the record or header of a filter with one layer or a table.
    fn new(name: String, mut header: Vec<u8>) -> Self {
        let is_redisbloom = name.ends_with("redisbloom");
        let (capacity_at, items_at) = if is_redisbloom {
            (Some(header.len() - 9), header.len() - 37)
        } else if let Some(table) = forge::table_start(&header) {
            // The number of entries, which is at most that of items.
            header[table + 40..][..8].fill(0);
            (None, table + 32)
        } else {
            let layer = forge::layers(&header)[0].clone();
            (Some(layer.start + 16), layer.start + 24)
        };
        Self { name, header, capacity_at, items_at, is_redisbloom }
    }

    /// Returns the header with another number of items, and optionally with another capacity.
    fn header_with(&self, capacity_items: Option<u64>, items: u64) -> Vec<u8> {
        let mut header = self.header.clone();
        let mut put = |at: usize, number: u64| header[at..at + 8].copy_from_slice(&number.to_le_bytes());
        if let (Some(capacity_at), Some(capacity_items)) = (self.capacity_at, capacity_items) {
            put(capacity_at, capacity_items);
            // valkey-bloom's header has the capacity of its first layer.
            if self.name.ends_with("valkey-bloom") {
                put(24, capacity_items);
            }
        }
        put(self.items_at, items);
        if self.is_redisbloom {
            put(0, items);
            return header;
        }
        forge::header_chunk(&header, 1)
    }

    /// Returns the highest number that is accepted.
    fn highest(header: impl Fn(u64) -> Vec<u8>) -> u64 {
        let is_taken = |number| from_header(&header(number), &u64::MAX).is_ok();
        assert!(is_taken(1));
        if is_taken(u64::MAX) {
            return u64::MAX;
        }
        let (mut taken, mut refused) = (1, u64::MAX);
        while refused - taken > 1 {
            let middle = taken + (refused - taken) / 2;
            *(if is_taken(middle) { &mut taken } else { &mut refused }) = middle;
        }
        taken
    }
}

fn reserved(lines: &[&str]) -> Server {
    let mut server = Server::new();
    for line in lines {
        let words: Vec<&[u8]> = line.split_whitespace().map(str::as_bytes).collect();
        let reply = server.call(&words);
        assert!(!reply.starts_with('-'), "{line}: {reply}");
    }
    server
}

/// Returns filters of one layer or a table, of every kind but windows, which count by generation.
fn forms() -> Vec<Form> {
    let mut forms = Vec::new();
    let mut made = |line: &str| {
        let server = reserved(&[line]);
        forms.push(Form::new(line.to_owned(), header(server.filter("f"))));
    };
    for growth in ["", "NONSCALING", "NONSCALING SATURATE"] {
        for kind in ["", "KEYED"] {
            made(&format!("BF.RESERVE f 0.1 5 {growth} {kind}"));
        }
    }
    made("BF.INSERT f UNRESERVED ITEMS a");
    for growth in ["EXPANSION 2", "NONSCALING"] {
        made(&format!("BF.INSERT f ERROR 0.1 CAPACITY 5 {growth} COUNTING ITEMS a"));
        made(&format!("BF.RESERVE f 0.1 5 {growth} FORMAT valkey-bloom"));
        made(&format!("BF.RESERVE f 0.1 5 {growth} FORMAT redisbloom"));
    }
    made("BF.IMPORT f EMPTY SCHEME murmur3-salted BITS 100 HASHES 3 CAPACITY 5");
    forms.extend(unions());
    forms
}

/// Returns unions of one layer: for every kind of layer that can be the last of a union, and for every growth.
fn unions() -> Vec<Form> {
    let server = reserved(&[
        "BF.INSERT own ERROR 0.1 CAPACITY 5 ITEMS a",
        "BF.INSERT keyed ERROR 0.1 CAPACITY 5 KEYED ITEMS a",
        "BF.INSERT redisbloom ERROR 0.1 CAPACITY 5 FORMAT redisbloom ITEMS a",
        "BF.INSERT valkeybloom ERROR 0.1 CAPACITY 5 FORMAT valkey-bloom ITEMS a",
        "BF.MERGE u own keyed redisbloom valkeybloom FORCE",
    ]);
    let union = header(server.filter("u"));
    let (front, layers) = (&union[..forge::POLICY_BYTES], forge::layers(&union));
    assert_eq!(layers.len(), 4);
    let mut forms = Vec::new();
    for layer in layers {
        let layer = &union[layer];
        for (growth, saturates) in [(0u32, 0), (2, 0), (0, 1)] {
            let mut header = [front, layer].concat();
            (header[7], header[10]) = (saturates, 1);
            header[12..16].copy_from_slice(&growth.to_le_bytes());
            forms.push(Form::new(format!("union of {}, growth {growth}, {saturates}", layer[0]), header));
        }
    }
    forms
}

#[test]
fn counts_stay_within_what_a_decoder_accepts() {
    for form in forms() {
        let highest_capacity = Form::highest(|capacity_items| form.header_with(Some(capacity_items), 0));
        for capacity_items in [None, Some(highest_capacity)] {
            let most_items = Form::highest(|items| form.header_with(capacity_items, items));
            for items in [most_items, most_items - 1] {
                let what = format!("{}: {items} of {capacity_items:?}", form.name);
                let mut server = Server::new();
                let header = form.header_with(capacity_items, items);
                if form.capacity_at.is_none() {
                    // A header alone makes no table.
                    let mut record = saved(reserved(&[&form.name]).filter("f"));
                    *string(&mut record, 0) = header[..header.len() - TRAILER_BYTES].to_vec();
                    server.set("f", loaded(&record, u64::MAX).unwrap());
                } else {
                    assert_eq!(server.call(&[b"BF.LOADCHUNK", b"f", b"1", &header]), "+OK", "{what}");
                }
                for number in 0..8 {
                    server.run(&format!("BF.ADD f {number}"));
                    assert_survives(server.filter("f"), &what);
                }
                for line in ["BF.MADD f a b c d e f g h i j", "BF.MERGE g f FORCE", "BF.MERGE f g FORCE"] {
                    server.run(line);
                    server.filters().for_each(|filter| assert_survives(filter, &what));
                }
                // RedisBloom's header may have more items than bits, which are 64 here.
                let least_items = if form.is_redisbloom { items.min(64) } else { items };
                assert!(server.filter("f").items() >= least_items, "{what}");
            }
        }
    }
}

/// No chunks follow the header of an empty table, so nothing would correct its counts.
#[test]
fn the_header_of_an_empty_table_has_no_items() {
    for creation in ["BF.RESERVE f 0.1 5 COUNTING", "BF.RESERVE f 0.1 5 COUNTING KEYED"] {
        for field in [32, 40] {
            let mut server = reserved(&[creation]);
            let mut header = header(server.filter("f"));
            let at = forge::table_start(&header).unwrap() + field;
            header[at..at + 8].fill(0xff);
            let reply = server.call(&[b"BF.LOADCHUNK", b"g", b"1", &forge::header_chunk(&header, 1)]);
            assert!(reply.starts_with("-ERR"), "{reply}");
            assert!(!server.keys.contains_key(&b"g"[..]));
        }
    }
}

/// Returns a record of everbloom's own format: the policy, then a layer of 1024 positions for 77 items.
fn header_of(reserved_items: u64) -> Vec<u8> {
    let rate = 0.01f64.to_le_bytes();
    let mut body =
        [&[0; 3][..], &[1, 0, 2, 0, 0, 0], &rate, &reserved_items.to_le_bytes(), &[0; 16]].concat();
    body.extend([1, 1, 0, 7, 0, 0, 0, 0]);
    [1024u64, 77, 0, 0].iter().for_each(|field| body.extend(field.to_le_bytes()));
    forge::header_chunk(&forge::header(0, &body), 1)
}

/// The record contains the reserved capacity, and its layers may be smaller. BF.CLEAR once created a filter of the
/// reserved capacity, however large that was.
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
    // The policy is that of a union, and the filter saturates.
    assert_eq!((front[6], front[7]), (2, 1));
    let layers = forge::layers(&made);
    let (first, last) = (&made[layers[0].clone()], &made[layers[1].clone()]);
    assert!(layers.len() == 2 && [6, 7].contains(&first[0]) && last[0] == 1);
    let mut turned = [front, last, first].concat();
    // The bits of the layers do not follow, so their numbers of set bits are 0.
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
