//! Malicious payloads: RESTORE replies with an error or accepts a valid filter. It never aborts, hangs or allocates
//! much memory.

use crate::dump::{chunk, load};
use crate::foreign::restore;
use crate::harness::{Client, Server, Site, Test, crc64, now_ms, reseal, tests, wait_until};
use crate::support::fixtures::old_cuckoo_payload;

pub(crate) const TESTS: &[Test] = tests![
    an_unknown_word_cannot_inject_a_reply,
    the_checksum_is_that_of_the_servers,
    a_truncated_payload_is_bad_data,
    a_payload_with_a_changed_byte_is_refused_or_valid,
    a_payload_with_edge_values_is_refused_or_valid,
    a_payload_of_another_encoding_version_is_bad_data,
    a_payload_with_missing_or_extra_fields_is_bad_data,
    an_impossible_count_is_limited_to_the_possible_one,
    a_window_of_a_clock_that_is_far_ahead_is_bad_data,
    a_small_payload_cannot_take_much_memory,
    a_forged_dump_header_cannot_take_much_memory,
    refused_payloads_do_not_fill_the_log,
    lines_about_old_cuckoo_filters_are_counted_too,
];

/// Bytes after the value: RDB version and checksum.
const TRAILER_BYTES: usize = 10;
/// Bytes before the fields: type byte, length byte and id of the module type.
const PREFIX_BYTES: usize = 10;

fn uncompressed(site: &Site) -> Server {
    site.launch().with("rdbcompression no").start()
}

/// Returns a payload of a small filter that has outgrown its capacity: bits and a table.
fn small_payload(client: &mut Client) -> Vec<u8> {
    client.say("BF.RESERVE k 0.01 3");
    client.say("BF.MADD k a b c d");
    client.bytes(&["DUMP", "k"])
}

/// A former bug: the text of the error was truncated in the middle of a character.
fn an_unknown_word_cannot_inject_a_reply(site: &Site) {
    let server = site.start();
    let (mut raw, mut client) = (server.raw(), server.client());
    let long = vec![b'x'; 1 << 20];
    // The error shows each byte that is not UTF-8 as U+FFFD, which has three bytes.
    let cut = [0, 1, 2, 3].map(|letters| [vec![b'x'; letters], vec![0xff; 200]].concat());
    let words: [&[u8]; 5] = [b"a\r\n+PWNED", b"\n", b"nul\0nul", b"\xff\xfe", &long];
    for word in words.into_iter().chain(cut.iter().map(Vec::as_slice)) {
        let command: [&[u8]; 5] = [b"BF.RESERVE", b"k", b"0.01", b"100", word];
        // This client fails if an error reply is not UTF-8.
        assert!(client.ask(&command).starts_with("-ERR unknown argument '"));
        let reply = raw.ask(&command);
        assert_eq!(reply.matches("\r\n").count(), 1, "{reply:.100}");
        assert_eq!(raw.say("PING"), "+PONG\r\n");
    }
}

fn the_checksum_is_that_of_the_servers(site: &Site) {
    assert_eq!(crc64(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
    let server = uncompressed(site);
    let mut client = server.client();
    let payload = small_payload(&mut client);
    let mut resealed = payload.clone();
    *resealed.last_mut().unwrap() ^= 0xff;
    reseal(&mut resealed);
    assert_eq!(resealed, payload);
    assert!(payload.windows(4).any(|window| window == b"evbl"), "a readable header was expected");
}

fn a_truncated_payload_is_bad_data(site: &Site) {
    let server = uncompressed(site);
    let mut client = server.client();
    let payload = small_payload(&mut client);
    let (value, trailer) = payload.split_at(payload.len() - TRAILER_BYTES);
    for length in 1..value.len() {
        let mut cut = [&value[..length], trailer].concat();
        reseal(&mut cut);
        assert_eq!(restore(&mut client, "new", &cut), "-ERR Bad data format", "cut to {length}");
        // Without a matching checksum the server refuses the payload before the module sees it.
        let torn = &payload[..length];
        // Since Redis 8.6, a checksum of zeros is not compared, so the module sees such a payload.
        let (reply, is_seen) = (restore(&mut client, "new", torn), torn.ends_with(&[0; 8]));
        let refused = "-ERR DUMP payload version or checksum are wrong";
        assert!(reply == refused || is_seen && reply == "-ERR Bad data format", "{reply}");
    }
    assert_eq!(client.int("EXISTS new"), 0);
    assert_eq!(restore(&mut client, "new", &payload), "+OK");
    assert_eq!(client.digest("new"), client.digest("k"));
}

/// The items of such a window would make all others expire.
fn a_window_of_a_clock_that_is_far_ahead_is_bad_data(site: &Site) {
    let server = uncompressed(site);
    let mut client = server.client();
    client.say("BF.RESERVE k 0.01 100 PWINDOW 1400000000");
    client.say("BF.MADD k a b c");
    let payload = client.bytes(&["DUMP", "k"]);
    // A generation is a fourteenth of the window. The first one has the number 1.
    let newest = now_ms() / 100_000_000 + 1;
    let ahead = |generations: u64| {
        let mut changed = payload.clone();
        // The newest generation of the table is in a header of eight bytes per number. That of the segment is a number
        // of the file: a byte for its form, and four bytes.
        let in_header = |number: u64| number.to_le_bytes().to_vec();
        let in_file =
            |number: u64| [vec![0x80], number.to_le_bytes().into_iter().take(4).rev().collect()].concat();
        for saved in [in_header as fn(u64) -> Vec<u8>, in_file] {
            let (from, to) = (saved(newest), saved(newest + generations));
            let at = changed.windows(from.len()).position(|bytes| bytes == from).unwrap();
            changed[at..at + to.len()].copy_from_slice(&to);
        }
        reseal(&mut changed);
        changed
    };
    assert_eq!(restore(&mut client, "new", &ahead(15)), "-ERR Bad data format");
    assert_eq!(restore(&mut client, "new", &ahead(14)), "+OK");
}

/// Restores a payload. If it is accepted, every command must work on the filter.
fn survive(client: &mut Client, payload: &[u8]) -> bool {
    let reply = restore(client, "new", payload);
    if reply != "+OK" {
        assert_eq!(reply, "-ERR Bad data format");
        assert_eq!(client.int("EXISTS new"), 0);
        return false;
    }
    if ["+everbloom", "+MBbloom--", "+bloomfltr"].contains(&client.say("TYPE new").as_str()) {
        for command in
            ["BF.INFO new", "BF.DEBUG new", "BF.EXISTS new a", "BF.SCANDUMP new 0", "MEMORY USAGE new"]
        {
            let reply = client.say(command);
            assert!(!reply.starts_with('-'), "{command}: {reply}");
        }
        let reply = client.say("BF.ADD new another");
        assert!(
            ["0", "1", "-ERR problem inserting into filter", "-ERR non scaling filter is full"]
                .contains(&reply.as_str())
        );
        // The dump of an accepted filter must be accepted again.
        let again = client.bytes(&["DUMP", "new"]);
        assert_eq!(client.ask(&[b"RESTORE".as_slice(), b"new", b"0", &again, b"REPLACE"]), "+OK");
    }
    client.say("DEL new");
    true
}

fn a_payload_with_a_changed_byte_is_refused_or_valid(site: &Site) {
    let server = uncompressed(site);
    let mut client = server.client();
    for (key, options) in [
        ("fixed", "NONSCALING"),
        ("grown", "EXPANSION 2"),
        ("counts", "COUNTING"),
        ("window", "WINDOW 86400"),
        ("redisbloom", "FORMAT redisbloom"),
        ("valkey-bloom", "FORMAT valkey-bloom"),
    ] {
        client.say(&format!("BF.RESERVE {key} 0.01 {} {options}", if key == "grown" { 3 } else { 4 }));
        client.say(&format!("BF.MADD {key} a b c d{}", if key == "counts" { " a a" } else { "" }));
        let payload = client.bytes(&["DUMP", key]);
        // The array of a fixed filter is the last string of its payload. The stored count of set bits detects one
        // flipped bit in it.
        let debug = client.say(&format!("BF.DEBUG {key}"));
        let array_bytes: usize = if key == "fixed" {
            debug.split("bytes:").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap()
        } else {
            0
        };
        let array = payload.len() - TRAILER_BYTES - 1 - array_bytes;
        for at in 1..payload.len() - TRAILER_BYTES {
            for change in [0x01, 0x80, 0xff, payload[at], payload[at] ^ 0xff] {
                let mut altered = payload.clone();
                altered[at] ^= change;
                reseal(&mut altered);
                let taken = altered != payload && survive(&mut client, &altered);
                let is_in_array = (array..array + array_bytes).contains(&at);
                assert!(!taken || !is_in_array || change.count_ones() > 1, "{key}: byte {at} ^ {change}");
            }
        }
        assert_eq!(client.say(&format!("BF.MEXISTS {key} a b c d")), "[1, 1, 1, 1]");
    }
}

fn a_payload_with_edge_values_is_refused_or_valid(site: &Site) {
    if site.hides_memory() {
        return;
    }
    let server = uncompressed(site);
    let mut client = server.client();
    let payload = small_payload(&mut client);
    let edges: [u64; 12] = [
        0,
        1,
        0x7f,
        0x7fff_ffff,
        0xffff_ffff,
        1 << 32,
        1 << 43,
        1 << 62,
        i64::MAX.unsigned_abs(),
        u64::MAX,
        f64::NAN.to_bits(),
        f64::INFINITY.to_bits(),
    ];
    for at in PREFIX_BYTES..payload.len() - TRAILER_BYTES {
        for edge in edges {
            for width in [1, 2, 4, 8] {
                let end = at + width;
                if end <= payload.len() - TRAILER_BYTES {
                    let mut altered = payload.clone();
                    altered[at..end].copy_from_slice(&edge.to_le_bytes()[..width]);
                    reseal(&mut altered);
                    survive(&mut client, &altered);
                }
            }
        }
    }
    assert!(server.resident_bytes() < 200 << 20, "{} bytes resident", server.resident_bytes());
}

fn a_payload_of_another_encoding_version_is_bad_data(site: &Site) {
    let server = uncompressed(site);
    let mut client = server.client();
    let payload = small_payload(&mut client);
    // The last ten bits of the type's id are the version.
    let version = payload[PREFIX_BYTES - 1];
    for other in [0, version + 1, 255] {
        let mut altered = payload.clone();
        altered[PREFIX_BYTES - 1] = other;
        reseal(&mut altered);
        assert_eq!(restore(&mut client, "new", &altered), "-ERR Bad data format", "version {other}");
    }
}

fn a_payload_with_missing_or_extra_fields_is_bad_data(site: &Site) {
    let server = uncompressed(site);
    let mut client = server.client();
    let payload = small_payload(&mut client);
    let (value, trailer) = payload.split_at(payload.len() - TRAILER_BYTES);
    let (prefix, fields) = value.split_at(PREFIX_BYTES);
    let fields = &fields[..fields.len() - 1];
    let variants: [Vec<u8>; 6] = [
        // No fields.
        [prefix, b"\0"].concat(),
        // An additional string, and an additional integer.
        [prefix, fields, b"\x05\x01x\0"].concat(),
        [prefix, fields, b"\x02\x01\0"].concat(),
        // Fields of other types than a string.
        [prefix, b"\x02\x01", fields, b"\0"].concat(),
        [prefix, b"\x04\0\0\0\0\0\0\0\0", fields, b"\0"].concat(),
        // An empty header.
        [prefix, b"\x05\0", fields, b"\0"].concat(),
    ];
    for (index, variant) in variants.iter().enumerate() {
        let mut altered = [variant, trailer].concat();
        reseal(&mut altered);
        assert_eq!(restore(&mut client, "new", &altered), "-ERR Bad data format", "variant {index}");
    }
}

/// Returns a payload of a RedisBloom filter with one layer of 64 set bits. `dumped` is the payload from which the bytes
/// before and after the fields are copied.
#[expect(clippy::big_endian_bytes, reason = "numbers in an RDB file are big-endian")]
fn redisbloom_payload(dumped: &[u8], items: u64, layer_items: u64) -> Vec<u8> {
    let (value, trailer) = dumped.split_at(dumped.len() - TRAILER_BYTES);
    let unsigned = |number: u64| [&[2, 0x81][..], &number.to_be_bytes()].concat();
    let double = |number: f64| [&[4][..], &number.to_le_bytes()].concat();
    let bits_per_item = f64::abs(f64::ln(0.1) / 0.480_453_013_918_201);
    let fields = [
        [items, 1, 5, 2, i64::MAX.unsigned_abs()].map(unsigned).concat(),
        double(0.1),
        unsigned(4),
        double(bits_per_item),
        [64, 0].map(unsigned).concat(),
        [&[5, 8][..], &[0xff; 8]].concat(),
        unsigned(layer_items),
        vec![0],
    ];
    let mut payload = [&value[..PREFIX_BYTES], &fields.concat(), trailer].concat();
    reseal(&mut payload);
    payload
}

fn an_impossible_count_is_limited_to_the_possible_one(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    client.say("BF.RESERVE k 0.01 3 FORMAT redisbloom");
    let dumped = client.bytes(&["DUMP", "k"]);
    // Counts of 64 items, the bits of the layer, and more. One of them has the first bytes of everbloom's own header.
    let magic = u64::from_le_bytes(*b"evbl\x01\x00\x01\x00");
    for items in [64, 65, 1 << 40, magic, i64::MAX.unsigned_abs()] {
        let payload = redisbloom_payload(&dumped, items, items);
        assert_eq!(restore(&mut client, "new", &payload), "+OK", "{items} items");
        assert_eq!((client.int("BF.CARD new"), client.info_number("bf_items")), (64, 64), "{items} items");
        client.say("BF.MADD new a b c d e f g h");
        assert_eq!((client.int("BF.CARD new"), client.info_number("bf_items")), (64, 64), "{items} items");
        let header = client.array(&["BF.SCANDUMP", "new", "0"]);
        assert!(!format!("{header:?}").contains("evbl"), "{header:?}");
        client.say("DEL new");
        if items != 64 {
            let payload = redisbloom_payload(&dumped, items, 64);
            assert_eq!(restore(&mut client, "other", &payload), "-ERR Bad data format", "{items} items");
        }
    }
    // Numbers that BF.CARD would show as negative.
    for items in [1 << 63, u64::MAX] {
        let payload = redisbloom_payload(&dumped, items, items);
        assert_eq!(restore(&mut client, "other", &payload), "-ERR Bad data format", "{items} items");
    }
    assert_eq!(client.int("EXISTS other"), 0);
}

/// Returns the offset of the header in the bytes: the position of `evbl`.
fn header_at(bytes: &[u8]) -> usize {
    bytes.windows(4).position(|window| window == b"evbl").expect("a header")
}

/// Offsets in the header of the first layer's size in bits and of its capacity.
const FIRST_SIZE_BITS: usize = 40;
const FIRST_CAPACITY: usize = 48;

fn a_small_payload_cannot_take_much_memory(site: &Site) {
    if site.hides_memory() {
        return;
    }
    let server = uncompressed(site);
    let mut client = server.client();
    client.say("BF.RESERVE k 0.01 100");
    let payload = client.bytes(&["DUMP", "k"]);
    let before = server.resident_bytes();
    for size_bits in [1u64 << 33, 1 << 38, 1 << 43, 1 << 50, 1 << 62, u64::MAX - 63] {
        for capacity in [100u64, 1 << 30, 1 << 40] {
            let mut altered = payload.clone();
            let at = header_at(&altered);
            altered[at + FIRST_SIZE_BITS..][..8].copy_from_slice(&size_bits.to_le_bytes());
            altered[at + FIRST_CAPACITY..][..8].copy_from_slice(&capacity.to_le_bytes());
            reseal(&mut altered);
            assert_eq!(restore(&mut client, "new", &altered), "-ERR Bad data format", "{size_bits} bits");
        }
    }
    let grown = server.resident_bytes().saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes more");
}

/// Returns the header of a dump with its trailer, as docs/formats.md specifies it.
pub(crate) fn header_chunk(header: &[u8], iterator: i64, id: &[u8]) -> Vec<u8> {
    let digest = |bytes: &[u8]| murmur3::murmur3_x64_128(&mut &*bytes, 0).unwrap().to_le_bytes();
    let words = [&digest(header)[..], &iterator.to_le_bytes(), id].concat();
    [header, id, &digest(&words)].concat()
}

fn a_forged_dump_header_cannot_take_much_memory(site: &Site) {
    if site.hides_memory() {
        return;
    }
    let server = site.start();
    let mut client = server.client();
    client.say("BF.RESERVE k 0.01 100");
    let (iterator, data) = chunk(&mut client, "k", 0).unwrap();
    let (header, id) = data[..data.len() - 16].split_at(data.len() - 24);
    assert_eq!(header_chunk(header, iterator, id), data, "the test knows the trailer of a header");
    let digest = client.digest("k");
    let before = server.resident_bytes();
    for at in 0..header.len() {
        for edge in
            [0u64, 1, 0xffff_ffff, 1 << 38, 1 << 43, 1 << 50, u64::MAX - 63, u64::MAX, f64::NAN.to_bits()]
        {
            let mut forged = header.to_vec();
            let width = (header.len() - at).min(8);
            forged[at..at + width].copy_from_slice(&edge.to_le_bytes()[..width]);
            let reply = load(&mut client, "new", iterator, &header_chunk(&forged, iterator, id));
            assert!(reply == "+OK" || reply.starts_with("-ERR "), "{reply}");
            if reply == "+OK" {
                let reply = client.say("BF.ADD new a");
                assert!(reply == "1" || reply.starts_with("-ERR "), "{reply}");
                client.say("DEL new");
            }
        }
    }
    assert_eq!(client.digest("k"), digest);
    let grown = server.resident_bytes().saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes more");
}

fn refused_payloads_do_not_fill_the_log(site: &Site) {
    const MANY: u64 = 3000;
    let server = uncompressed(site);
    let mut client = server.client();
    let payload = small_payload(&mut client);
    let mut payload = [&payload[..payload.len() / 2], &payload[payload.len() - TRAILER_BYTES..]].concat();
    reseal(&mut payload);
    for _ in 0..MANY {
        assert_eq!(restore(&mut client, "new", &payload), "-ERR Bad data format");
    }
    let written = wait_for_lines(&server, "a filter cannot be loaded: ", MANY);
    assert!((5..MANY / 2).contains(&written), "{written} lines");
}

fn lines_about_old_cuckoo_filters_are_counted_too(site: &Site) {
    const MANY: u64 = 300;
    let server = site.start();
    let mut client = server.client();
    let payload = old_cuckoo_payload();
    for _ in 0..MANY {
        let words = [&b"RESTORE"[..], b"k", b"0", &payload, b"REPLACE"];
        assert_eq!(client.ask(&words), "+OK");
    }
    wait_for_lines(&server, "a cuckoo filter is from RedisBloom before 2.2: ", MANY);
}

/// Waits until a number of lines that begin so are written or counted as omitted, which the server logs after a
/// flood. Returns how many were written.
fn wait_for_lines(server: &Server, beginning: &str, number: u64) -> u64 {
    let counts = || {
        let log = server.log();
        let lines = log.lines().filter_map(|line| line.split_once(beginning));
        let (summaries, written): (Vec<_>, Vec<_>) =
            lines.partition(|(_, text)| text.ends_with(" more lines of this kind were omitted"));
        let left_out =
            summaries.iter().map(|(_, text)| text.split(' ').next().unwrap().parse::<u64>().unwrap());
        (written.len() as u64, left_out.sum::<u64>())
    };
    wait_until("all are counted", || {
        let (written, left_out) = counts();
        written + left_out == number
    });
    counts().0
}
