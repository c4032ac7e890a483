//! BF.SCANDUMP and BF.LOADCHUNK: a filter is copied in chunks, and a wrong chunk leaves the key unchanged.

use redis::Value;

use crate::harness::{Client, Site, Test, tests};

pub(crate) const TESTS: &[Test] = tests![
    a_filter_of_many_layers_is_copied_in_chunks,
    chunks_are_at_most_16_mib_and_never_span_layers,
    chunks_may_come_in_any_order_and_twice,
    a_dump_may_start_at_any_byte,
    a_truncated_chunk_is_refused_and_changes_nothing,
    a_changed_chunk_is_refused_and_changes_nothing,
    a_misplaced_chunk_is_refused_and_changes_nothing,
    a_chunk_of_another_filter_is_refused,
    a_chunk_after_the_last_layer_is_refused,
    a_header_over_a_filter_is_refused,
    loading_chunks_removes_no_items,
    a_bad_header_changes_nothing,
];

/// Returns the chunk for an iterator, and the iterator with which it is loaded; `None` at the end.
pub(crate) fn chunk(client: &mut Client, key: &str, iterator: i64) -> Option<(i64, Vec<u8>)> {
    let reply = client.array(&["BF.SCANDUMP", key, &iterator.to_string()]);
    match <[Value; 2]>::try_from(reply) {
        Ok([Value::Int(0), Value::BulkString(data)]) if data.is_empty() => None,
        Ok([Value::Int(next), Value::BulkString(data)]) => Some((next, data)),
        other => panic!("BF.SCANDUMP {key} {iterator} replied {other:?}"),
    }
}

/// Returns all chunks, the header first.
pub(crate) fn chunks(client: &mut Client, key: &str) -> Vec<(i64, Vec<u8>)> {
    let mut iterator = 0;
    std::iter::from_fn(|| {
        let chunk = chunk(client, key, iterator)?;
        iterator = chunk.0;
        Some(chunk)
    })
    .collect()
}

/// Loads one chunk and returns the reply.
pub(crate) fn load(client: &mut Client, key: &str, iterator: i64, data: &[u8]) -> String {
    client.ask(&[b"BF.LOADCHUNK", key.as_bytes(), iterator.to_string().as_bytes(), data])
}

/// Copies a filter chunk by chunk.
pub(crate) fn travel(client: &mut Client, from: &str, to: &str) {
    for (iterator, data) in chunks(client, from) {
        assert_eq!(load(client, to, iterator, &data), "+OK", "iterator {iterator}");
    }
}

/// Creates a filter of several layers.
fn grown(client: &mut Client, key: &str) {
    client.say(&format!("BF.RESERVE {key} 0.001 10"));
    for item in 0..300 {
        client.say(&format!("BF.ADD {key} item-{item}"));
    }
}

fn a_filter_of_many_layers_is_copied_in_chunks(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    grown(&mut client, "k");
    let chunks = chunks(&mut client, "k");
    let layers = client.say("BF.INFO k FILTERS");
    assert_eq!(layers, format!("[{}]", chunks.len() - 1), "a chunk per layer and the header");
    assert_eq!(chunks[0].0, 1);
    travel(&mut client, "k", "copy");
    assert_eq!(client.digest("copy"), client.digest("k"));
    assert_eq!(client.say("BF.DEBUG copy"), client.say("BF.DEBUG k"));
    assert_eq!(client.say("BF.INFO copy"), client.say("BF.INFO k"));
    for item in 0..300 {
        assert_eq!(client.int(&format!("BF.EXISTS copy item-{item}")), 1);
    }
    // Equal except for the mark and the checksum at the end of each.
    let payloads = |chunks: Vec<(i64, Vec<u8>)>| -> Vec<(i64, Vec<u8>)> {
        chunks.into_iter().map(|(iterator, data)| (iterator, data[..data.len() - 24].to_vec())).collect()
    };
    let of_copy = self::chunks(&mut client, "copy");
    assert_eq!(payloads(of_copy), payloads(chunks));
}

fn chunks_are_at_most_16_mib_and_never_span_layers(site: &Site) {
    const CHUNK_BYTES: i64 = 16 << 20;
    let server = site.start();
    let mut client = server.client();
    // 35 MB in the first layer, and a small second layer.
    client.say("BF.RESERVE k 0.01 28500000 EXPANSION 1");
    for batch in 0..20 {
        let items: Vec<String> = (0..500).map(|item| format!("{batch}-{item}")).collect();
        let mut args = vec!["BF.MADD", "k"];
        args.extend(items.iter().map(String::as_str));
        client.call(&args);
    }
    let debug = client.say("BF.DEBUG k");
    let (_, rest) = debug.split_once("bytes:").unwrap();
    let layer_bytes: i64 = rest.split(' ').next().unwrap().parse().unwrap();
    assert!(layer_bytes > 2 * CHUNK_BYTES, "{layer_bytes}");
    let mut expected = vec![1];
    while *expected.last().unwrap() <= layer_bytes {
        let last = *expected.last().unwrap();
        expected.push((last + CHUNK_BYTES).min(1 + layer_bytes));
    }
    let mut iterator = 0;
    for next in expected {
        let (returned, data) = chunk(&mut client, "k", iterator).unwrap();
        assert_eq!(returned, next);
        // The seal at the end of a chunk adds 24 bytes.
        assert!(data.len() <= (16 << 20) + 24, "{}", data.len());
        assert_eq!(load(&mut client, "copy", returned, &data), "+OK");
        iterator = next;
    }
    assert_eq!(chunk(&mut client, "k", iterator), None);
    assert_eq!(client.digest("copy"), client.digest("k"));
    client.say("BF.RESERVE two 0.01 3 EXPANSION 1");
    client.say("BF.MADD two a b c d e f g h i j");
    let layers = client.array(&["BF.DEBUG", "two"]).len() - 1;
    assert!(layers >= 3, "{layers}");
    assert_eq!(chunks(&mut client, "two").len(), layers + 1);
}

fn chunks_may_come_in_any_order_and_twice(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    grown(&mut client, "k");
    let chunks = chunks(&mut client, "k");
    assert_eq!(load(&mut client, "copy", chunks[0].0, &chunks[0].1), "+OK");
    for (iterator, data) in chunks[1..].iter().rev().chain(&chunks[1..]) {
        assert_eq!(load(&mut client, "copy", *iterator, data), "+OK");
    }
    assert_eq!(client.digest("copy"), client.digest("k"));
}

fn a_dump_may_start_at_any_byte(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    grown(&mut client, "k");
    let (end, _) = chunks(&mut client, "k").pop().unwrap();
    for iterator in 1..end {
        let (next, data) = chunk(&mut client, "k", iterator).unwrap();
        assert!(next > iterator && next <= end && data.len() > 24, "{iterator} -> {next}");
    }
    for iterator in [end, end + 1, i64::MAX, -1, i64::MIN] {
        assert_eq!(chunk(&mut client, "k", iterator), None, "{iterator}");
    }
    // Such a chunk can be loaded like any other.
    travel(&mut client, "k", "copy");
    let (next, data) = chunk(&mut client, "k", 5).unwrap();
    assert_eq!(load(&mut client, "copy", next, &data), "+OK");
    assert_eq!(client.digest("copy"), client.digest("k"));
}

/// Creates a source `k` and a target `copy` that has only loaded the header.
fn half_loaded(client: &mut Client) -> Vec<(i64, Vec<u8>)> {
    grown(client, "k");
    let chunks = chunks(client, "k");
    assert_eq!(load(client, "copy", chunks[0].0, &chunks[0].1), "+OK");
    chunks
}

fn a_truncated_chunk_is_refused_and_changes_nothing(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    let chunks = half_loaded(&mut client);
    let before = client.digest("copy");
    let (iterator, data) = &chunks[1];
    for length in 0..data.len() {
        let reply = load(&mut client, "copy", *iterator, &data[..length]);
        assert_eq!(reply, "-ERR received bad data", "cut to {length} of {} bytes", data.len());
    }
    let longer = [data.as_slice(), b"\0"].concat();
    assert!(load(&mut client, "copy", *iterator, &longer).starts_with("-ERR "));
    assert_eq!(client.digest("copy"), before);
}

fn a_changed_chunk_is_refused_and_changes_nothing(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    let chunks = half_loaded(&mut client);
    let before = client.digest("copy");
    let (iterator, data) = &chunks[2];
    for at in 0..data.len() {
        let mut altered = data.clone();
        altered[at] ^= 1 << (at % 8);
        assert_eq!(load(&mut client, "copy", *iterator, &altered), "-ERR received bad data", "byte {at}");
    }
    assert_eq!(client.digest("copy"), before);
}

fn a_misplaced_chunk_is_refused_and_changes_nothing(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    let chunks = half_loaded(&mut client);
    let before = client.digest("copy");
    let (end, _) = *chunks.last().unwrap();
    for (iterator, data) in &chunks[1..] {
        for wrong in [iterator - 1, iterator + 1, iterator - 8, iterator + 8, 2, end, 0, -1, i64::MIN] {
            if wrong != *iterator {
                let reply = load(&mut client, "copy", wrong, data);
                assert!(reply.starts_with("-ERR "), "{iterator} as {wrong}: {reply}");
            }
        }
        assert_eq!(load(&mut client, "copy", 1, data), "-ERR received bad data", "a chunk as a header");
    }
    assert!(load(&mut client, "copy", chunks[1].0, &chunks[0].1).starts_with("-ERR "), "a header as a chunk");
    assert_eq!(client.digest("copy"), before);
}

fn a_chunk_of_another_filter_is_refused(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    half_loaded(&mut client);
    client.say("BF.RESERVE other 0.001 10");
    for item in 300..600 {
        client.say(&format!("BF.ADD other item-{item}"));
    }
    let before = client.digest("copy");
    for (iterator, data) in chunks(&mut client, "other").into_iter().skip(1) {
        let reply = load(&mut client, "copy", iterator, &data);
        assert!(reply.starts_with("-ERR "), "{iterator}: {reply}");
    }
    assert_eq!(client.digest("copy"), before);
}

fn a_chunk_after_the_last_layer_is_refused(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    let chunks = half_loaded(&mut client);
    let (end, data) = chunks.last().unwrap();
    let before = client.digest("copy");
    for iterator in [end + 1000, end + (1 << 40), i64::MAX] {
        let reply = load(&mut client, "copy", iterator, data);
        assert_eq!(reply, "-ERR invalid offset - no link found", "{iterator}");
    }
    assert_eq!(client.digest("copy"), before);
}

fn a_header_over_a_filter_is_refused(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    grown(&mut client, "k");
    let chunks = chunks(&mut client, "k");
    client.say("BF.RESERVE copy 0.3 7 NONSCALING");
    client.say("BF.MADD copy a b c");
    client.say("EXPIRE copy 1000");
    let before = client.digest("copy");
    assert_eq!(load(&mut client, "copy", chunks[0].0, &chunks[0].1), "-ERR received bad data");
    assert_eq!(client.digest("copy"), before);
    assert!(client.int("TTL copy") > 0);
    // A load cannot be restarted halfway either.
    assert_eq!(load(&mut client, "half", chunks[0].0, &chunks[0].1), "+OK");
    assert_eq!(load(&mut client, "half", chunks[1].0, &chunks[1].1), "+OK");
    let before = client.digest("half");
    assert_eq!(load(&mut client, "half", chunks[0].0, &chunks[0].1), "-ERR received bad data");
    assert_eq!(client.digest("half"), before);
    client.say("SET s text");
    let reply = load(&mut client, "s", chunks[0].0, &chunks[0].1);
    assert!(reply.starts_with("-WRONGTYPE"), "{reply}");
}

fn loading_chunks_removes_no_items(site: &Site) {
    for format in ["everbloom", "redisbloom", "valkey-bloom"] {
        let server = site.launch().with_option(format!("bf.format {format}")).start();
        let mut client = server.client();
        grown(&mut client, "k");
        let dump = chunks(&mut client, "k");
        assert_eq!(load(&mut client, "copy", dump[0].0, &dump[0].1), "+OK");
        // Items are added between header and chunks, and before an old chunk is loaded again. A few of them may be
        // false positives.
        let added: i64 = (0..20).map(|item| client.int(&format!("BF.ADD copy between-{item}"))).sum();
        for (iterator, data) in &dump[1..] {
            assert_eq!(load(&mut client, "copy", *iterator, data), "+OK", "{format}");
        }
        let counted = client.int("BF.CARD k");
        assert_eq!(client.int("BF.CARD copy"), counted + added, "{format}");
        for item in 0..20 {
            client.say(&format!("BF.ADD copy after-{item}"));
        }
        for (iterator, data) in &dump[1..] {
            assert_eq!(load(&mut client, "copy", *iterator, data), "+OK", "{format}");
        }
        let names =
            |name: &str, items: u32| (0..items).map(|item| format!("{name}-{item}")).collect::<Vec<_>>();
        for item in [names("item", 300), names("between", 20), names("after", 20)].concat() {
            assert_eq!(client.int(&format!("BF.EXISTS copy {item}")), 1, "{format}: {item}");
        }
    }
}

fn a_bad_header_changes_nothing(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    grown(&mut client, "k");
    let (_, header) = chunk(&mut client, "k", 0).unwrap();
    client.say("BF.MADD copy a b c");
    let before = client.digest("copy");
    for at in 0..header.len() {
        for altered in [header[..at].to_vec(), {
            let mut bytes = header.clone();
            bytes[at] ^= 0x40;
            bytes
        }] {
            assert_eq!(load(&mut client, "copy", 1, &altered), "-ERR received bad data", "byte {at}");
            assert_eq!(load(&mut client, "new", 1, &altered), "-ERR received bad data", "byte {at}");
        }
    }
    assert_eq!(client.digest("copy"), before);
    assert_eq!(client.int("EXISTS new"), 0);
}
