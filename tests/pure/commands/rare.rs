//! Paths that other tests of commands do not take.

use everbloom_command::Protocol;
use everbloom_filter::filter::kind::Kind;
use everbloom_filter::filter::policy::redisbloom::RedisBloomOptions;
use everbloom_format::DecodeError;
use everbloom_format::redisbloom::cuckoo;

use crate::support::fuzz::forge;
use crate::support::make::redisbloom;
use crate::support::saved::digested;
use crate::support::server::{NOW_MS, Server};

/// Copies a filter by the chunks of CF.SCANDUMP.
fn copy_by_chunks(server: &mut Server, from: &str, to: &str) {
    let mut iterator = "0".to_owned();
    loop {
        let reply = server.run(&format!("CF.SCANDUMP {from} {iterator}"));
        iterator = server.reply[1].trim_start_matches(':').to_owned();
        if iterator == "0" {
            return;
        }
        let data = server.bulk.clone();
        let loaded = server.call(&[b"CF.LOADCHUNK", to.as_bytes(), iterator.as_bytes(), &data]);
        assert_eq!(loaded, "+OK", "{reply}");
    }
}

#[test]
fn a_counting_filter_is_copied_by_chunks_of_cuckoo_commands() {
    let mut server = Server::new();
    server.must("CF.RESERVE k 1000");
    server.add("k", "item", 0..3000);
    copy_by_chunks(&mut server, "k", "copy");
    assert_eq!(server.filter("copy").kind(), Kind::Counting);
    assert_eq!(server.found("copy", "item", 0..3000), 3000);
    // The header of a filter that does not count.
    server.must("BF.RESERVE plain 0.01 100");
    server.run("BF.SCANDUMP plain 0");
    let (iterator, data) = (server.reply[1].trim_start_matches(':').to_owned(), server.bulk.clone());
    let reply = server.call(&[b"CF.LOADCHUNK", b"new", iterator.as_bytes(), &data]);
    assert_eq!(reply, "-Invalid header");
    assert!(!server.keys.contains_key(&b"new"[..]));
}

#[test]
fn a_large_replicated_batch_holds_no_memory_for_its_reply() {
    let mut server = Server::new();
    server.must("BF.RESERVE k 0.01 100");
    server.is_replicated = true;
    let lines: String = (0..70_000).map(|item| format!("{item}\n")).collect();
    let reply = server.call(&[b"BF.BULKADD", b"k", b"LINES", lines.as_bytes()]);
    assert!(reply.starts_with('$'), "{}", &reply[..100]);
    assert_eq!(server.found("k", "", 0..70_000), 70_000);
}

#[test]
fn a_packed_batch_is_refused_in_part_or_as_a_whole() {
    let mut server = Server::new();
    server.must("BF.RESERVE k 0.01 5 NONSCALING");
    let lines = |from: u32| (from..from + 20).map(|item| format!("item-{item}\n")).collect::<String>();
    let [first, second] = [lines(0), lines(100)];
    let mut add = |data: &str| server.call(&[b"BF.BULKADD", b"k", b"COUNT", b"LINES", data.as_bytes()]);
    let (part, whole) = (add(&first), add(&second));
    assert!(part != whole, "{part}, {whole}");
    let replicated = server.replicated.len();
    assert_eq!(replicated, 2, "{:?}", server.replicated);
    // The replicated batch has only the items that were added.
    server.assert_replicated(server.settings);
}

/// In RESP3, an item that CF.INSERT refuses has the reply false.
#[test]
fn refused_items_of_cuckoo_commands_are_false_in_resp3() {
    let mut server = Server::new();
    server.protocol = Protocol::Resp3;
    server.must("CF.RESERVE k 100");
    server.settings.max_filter_bytes = 3000;
    let items: Vec<String> = (0..3000).map(|item| format!("item-{item}")).collect();
    let reply = server.run(&format!("CF.INSERT k ITEMS {}", items.join(" ")));
    assert!(reply.contains("#t") && reply.contains("#f") && !reply.contains(":-1"), "{}", &reply[..200]);
}

#[test]
fn headers_of_cuckoo_filters_beyond_their_ranges_are_refused() {
    let mut server = Server::new();
    server.settings.format = everbloom::Format::RedisBloom;
    server.must("CF.RESERVE k 1000");
    let header = cuckoo::header(&server.cuckoos[&b"k"[..]]);
    assert_eq!(header.len(), 38);
    let with = |at: usize, bytes: &[u8]| {
        let mut header = header.to_vec();
        header[at..at + bytes.len()].copy_from_slice(bytes);
        cuckoo::from_header(&header, &u64::MAX).err()
    };
    assert_eq!(with(0, &[]), None);
    assert_eq!(with(36, &u16::MAX.to_le_bytes()), Some(DecodeError::Invalid("expansion")));
    assert_eq!(with(8, &(1u64 << 63).to_le_bytes()), Some(DecodeError::Invalid("buckets")));
}

#[test]
fn filters_of_redisbloom_1_1_have_another_digest() {
    let options = RedisBloomOptions::from_bits(4).unwrap();
    let mut filter = redisbloom(0.01, 100, options, 2);
    let before = digested(&filter);
    filter.assume_redisbloom_1_1();
    assert_ne!(digested(&filter), before);
}

/// The last byte of an array of 10,001 bits has one bit. A chunk with others is refused, also with a right checksum.
#[test]
fn chunks_with_bits_beyond_the_last_one_are_refused() {
    let mut server = Server::new();
    server.must("BF.IMPORT k EMPTY SCHEME murmur3-salted BITS 10001 HASHES 7 CAPACITY 1000");
    server.add("k", "item", 0..100);
    server.run("BF.SCANDUMP k 0");
    let header = (server.reply[1].trim_start_matches(':').to_owned(), server.bulk.clone());
    server.run(&format!("BF.SCANDUMP k {}", header.0));
    let (iterator, data) = (server.reply[1].trim_start_matches(':').to_owned(), server.bulk.clone());
    let (payload, trailer) = data.split_at(data.len() - 24);
    let id = u64::from_le_bytes(*trailer.first_chunk().unwrap());
    let mut load = |key: &str, mask: u8| {
        let mut payload = payload.to_vec();
        *payload.last_mut().unwrap() |= mask;
        let chunk = forge::with_trailer(&payload, iterator.parse().unwrap(), id);
        server.call(&[b"BF.LOADCHUNK", key.as_bytes(), header.0.as_bytes(), &header.1]);
        server.call(&[b"BF.LOADCHUNK", key.as_bytes(), iterator.as_bytes(), &chunk])
    };
    assert_eq!(load("a", 0), "+OK");
    assert_eq!(load("b", 2), "-ERR received bad data");
    assert_eq!(load("b", 0x80), "-ERR received bad data");
}

/// A chunk with items of the future is refused.
#[test]
fn chunks_ahead_of_the_clock_are_refused() {
    let mut source = Server::new();
    source.must("BF.RESERVE w 0.01 100 WINDOW 100");
    source.add("w", "item", 0..50);
    let mut load = |later_ms: u64| {
        let mut target = Server::new();
        source.run("BF.SCANDUMP w 0");
        let header = source.reply[1].trim_start_matches(':').to_owned();
        let data = source.bulk.clone();
        assert_eq!(target.call(&[b"BF.LOADCHUNK", b"w", header.as_bytes(), &data]), "+OK");
        source.now_ms += later_ms;
        source.add("w", "later", 0..50);
        source.run(&format!("BF.SCANDUMP w {header}"));
        let iterator = source.reply[1].trim_start_matches(':').to_owned();
        let data = source.bulk.clone();
        target.call(&[b"BF.LOADCHUNK", b"w", iterator.as_bytes(), &data])
    };
    assert_eq!(load(0), "+OK");
    assert!(load(1_000_000_000).starts_with("-ERR the items are more than a window ahead"));
}

/// A client cannot bring a filter whose items are of the future.
#[test]
fn filters_ahead_of_the_clock_are_not_admitted() {
    let mut server = Server::new();
    server.must("BF.RESERVE w 0.01 100 WINDOW 100");
    server.must("BF.ADD w a");
    server.must("BF.RESERVE plain 0.01 100");
    server.must("BF.ADD unreserved a");
    for key in ["w", "plain", "unreserved"] {
        let filter = server.filter(key);
        assert!(!filter.is_ahead_of(NOW_MS), "{key}");
        assert_eq!(filter.is_ahead_of(0), key == "w");
    }
}
