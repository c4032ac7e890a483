//! BF.SCANDUMP and BF.LOADCHUNK: a filter is copied in chunks, and a wrong chunk leaves the key unchanged.

use redis::Value;

use crate::harness::{Client, Site, Test, tests};

pub(crate) const TESTS: &[Test] = tests![
    a_filter_of_several_parts_is_copied_in_chunks,
    chunks_are_at_most_16_mib_and_never_span_layers,
    a_large_table_is_dumped_while_items_are_added_and_deleted,
    chunks_may_come_in_any_order_and_twice,
    a_dump_may_start_at_any_byte,
    a_truncated_chunk_is_refused_and_changes_nothing,
    a_changed_chunk_is_refused_and_changes_nothing,
    a_misplaced_chunk_is_refused_and_changes_nothing,
    a_chunk_of_another_filter_is_refused,
    a_dump_that_has_ended_is_an_error,
    a_copy_is_complete_or_the_dump_has_ended,
    a_header_over_a_filter_is_refused,
    loading_chunks_removes_no_items,
    a_bad_header_changes_nothing,
];

/// The reply to an iterator of a dump that has ended.
const ENDED: &str =
    "-ERR the dump of this iterator has ended: delete the copy and start again with iterator 0";
/// The reply to a chunk of another dump.
const OTHER_DUMP: &str = "-ERR received bad data - the chunk and the header are from different dumps: delete the key \
                          and start again with BF.SCANDUMP and iterator 0";

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

/// Creates a filter of bits and a table; in other formats, of several layers.
fn grown(client: &mut Client, key: &str) {
    client.say(&format!("BF.RESERVE {key} 0.001 10"));
    for item in 0..300 {
        client.say(&format!("BF.ADD {key} item-{item}"));
    }
}

fn a_filter_of_several_parts_is_copied_in_chunks(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    grown(&mut client, "k");
    let chunks = chunks(&mut client, "k");
    let layers = client.say("BF.INFO k FILTERS");
    assert_eq!(layers, format!("[{}]", chunks.len() - 1), "a chunk per part and the header");
    travel(&mut client, "k", "copy");
    assert_eq!(client.digest("copy"), client.digest("k"));
    assert_eq!(client.say("BF.DEBUG copy"), client.say("BF.DEBUG k"));
    assert_eq!(client.say("BF.INFO copy"), client.say("BF.INFO k"));
    for item in 0..300 {
        assert_eq!(client.int(&format!("BF.EXISTS copy item-{item}")), 1);
    }
    // Equal except for the dump id and the checksum at the end of each.
    let payloads = |chunks: Vec<(i64, Vec<u8>)>| -> Vec<(i64, Vec<u8>)> {
        let first = chunks[0].0;
        let payload = |(iterator, data): (i64, Vec<u8>)| (iterator - first, data[..data.len() - 24].to_vec());
        chunks.into_iter().map(payload).collect()
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
    let mut positions = vec![0];
    while *positions.last().unwrap() < layer_bytes {
        let last = *positions.last().unwrap();
        positions.push((last + CHUNK_BYTES).min(layer_bytes));
    }
    let (mut first, mut iterator) = (0, 0);
    for position in positions {
        let (next, data) = chunk(&mut client, "k", iterator).unwrap();
        first = if position == 0 { next } else { first };
        assert_eq!(next - first, position);
        // The trailer of a chunk has 24 bytes.
        assert!(data.len() <= (16 << 20) + 24, "{}", data.len());
        assert_eq!(load(&mut client, "copy", next, &data), "+OK");
        iterator = next;
    }
    assert_eq!(chunk(&mut client, "k", iterator), None);
    assert_eq!(client.digest("copy"), client.digest("k"));
    client.say("BF.RESERVE two 0.01 3 EXPANSION 1 FORMAT valkey-bloom");
    client.say("BF.MADD two a b c d e f g h i j");
    let layers = client.array(&["BF.DEBUG", "two"]).len() - 1;
    assert!(layers >= 3, "{layers}");
    assert_eq!(chunks(&mut client, "two").len(), layers + 1);
}

/// A table of several chunks splits and joins segments while it is dumped.
fn a_large_table_is_dumped_while_items_are_added_and_deleted(site: &Site) {
    const BATCH: u64 = 250_000;
    let server = site.start();
    let replica = server.replica(site.launch().with("propagation-error-behavior panic"));
    let mut client = server.client();
    let batch = |number: u64| -> Vec<u8> {
        (number * BATCH..(number + 1) * BATCH)
            .flat_map(|item| item.wrapping_mul(0x9e37_79b9).to_le_bytes())
            .collect()
    };
    let bulk = |client: &mut Client, command: &str, key: &str, words: &[&str], data: &[u8]| {
        let words: Vec<&[u8]> = [command, key]
            .into_iter()
            .chain(words.iter().copied())
            .chain(["FIXED", "8"])
            .map(str::as_bytes)
            .chain([data])
            .collect();
        client.call(&words)
    };
    for kind in ["", "COUNTING ", "WINDOW 86400 "] {
        client.say("FLUSHALL");
        // Some 45 bits per item, so that two million take more than a chunk.
        client.say(&format!("BF.INSERT src ERROR 0.000000000001 {kind}ITEMS first"));
        let batches = 12;
        (0..batches)
            .for_each(|number| drop(bulk(&mut client, "BF.BULKADD", "src", &["NOCREATE"], &batch(number))));
        let (mut iterator, mut chunks, mut deleted) = (0, 0, 0);
        while let Some((next, data)) = chunk(&mut client, "src", iterator) {
            assert!(data.len() < (17 << 20), "{} bytes", data.len());
            iterator = next;
            assert_eq!(load(&mut client, "copy", next, &data), "+OK", "{kind}");
            chunks += 1;
            bulk(&mut client, "BF.BULKADD", "src", &["NOCREATE"], &batch(100 + chunks));
            bulk(&mut client, "BF.BULKADD", "copy", &["NOCREATE"], &batch(200 + chunks)[..8 * 1000]);
            if kind == "COUNTING " {
                // From the last batch on, as many as were added, so that segments are joined.
                for data in batch(batches - chunks).chunks(8 * 10_000) {
                    let words: Vec<&[u8]> =
                        [b"BF.DEL".as_slice(), b"src"].into_iter().chain(data.chunks(8)).collect();
                    client.call(&words);
                }
                deleted += 1;
            }
        }
        assert!(chunks >= 3, "{chunks} chunks");
        for number in 0..batches - deleted {
            let found = bulk(&mut client, "BF.BULKEXISTS", "copy", &["COUNT"], &batch(number));
            assert_eq!(found, Value::Int(BATCH.cast_signed()), "{kind}batch {number}");
        }
        for number in (1..=chunks).map(|chunk| 200 + chunk) {
            let found = bulk(&mut client, "BF.BULKEXISTS", "copy", &["COUNT"], &batch(number)[..8 * 1000]);
            assert_eq!(found, Value::Int(1000), "{kind}batch {number}");
        }
        client.say("INCR sync-marker");
        assert_eq!(client.int("WAIT 1 60000"), 1);
        assert_eq!(replica.client().digest("copy"), client.digest("copy"), "{kind}");
        assert_eq!(replica.client().digest("src"), client.digest("src"), "{kind}");
    }
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
    let dump = chunks(&mut client, "k");
    let (first, end) = (dump[0].0, dump.last().unwrap().0);
    // All bytes of the bits, and some of the 2^32 positions in the table.
    let positions = (first..first + 100).chain((first..end).step_by(12_345_678)).chain([end - 1]);
    for iterator in positions {
        let (next, data) = chunk(&mut client, "k", iterator).unwrap();
        assert!(next > iterator && next <= end && data.len() >= 24, "{iterator} -> {next}");
    }
    assert_eq!(chunk(&mut client, "k", end), None);
    for iterator in [1, 2, end - first, first - 1, end + 1, i64::MAX, -1, i64::MIN] {
        assert_eq!(client.say(&format!("BF.SCANDUMP k {iterator}")), ENDED, "{iterator}");
    }
    // Such a chunk can be loaded like any other.
    travel(&mut client, "k", "copy");
    for iterator in [first + 5, first + 1000, end - 1] {
        let (next, data) = chunk(&mut client, "k", iterator).unwrap();
        assert_eq!(load(&mut client, "copy", next, &data), "+OK");
    }
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
    let (first, end) = (chunks[0].0, chunks.last().unwrap().0);
    for (iterator, data) in &chunks[1..] {
        for wrong in [iterator - 1, iterator + 1, iterator - 8, iterator + 8, 2, first, end, 0, -1, i64::MIN]
        {
            if wrong != *iterator {
                let reply = load(&mut client, "copy", wrong, data);
                assert!(reply.starts_with("-ERR "), "{iterator} as {wrong}: {reply}");
            }
        }
        assert_eq!(load(&mut client, "copy", 1, data), "-ERR received bad data", "a chunk as a header");
        assert_eq!(load(&mut client, "new", 1, data), "-ERR received bad data", "a chunk as a header");
        assert_eq!(load(&mut client, "new", *iterator, data), "-ERR not found", "a chunk without its header");
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
        assert_eq!(load(&mut client, "copy", iterator, &data), OTHER_DUMP, "{iterator}");
    }
    assert_eq!(client.digest("copy"), before);
    // Also where it begins after the last layer of the target, or does not fit there.
    client.say("BF.RESERVE small 0.3 1");
    client.say("BF.ADD small a");
    let (iterator, header) = chunk(&mut client, "small", 0).unwrap();
    client.say("DEL small");
    assert_eq!(load(&mut client, "small", iterator, &header), "+OK");
    for (iterator, data) in chunks(&mut client, "other").into_iter().skip(1) {
        assert_eq!(load(&mut client, "small", iterator, &data), OTHER_DUMP, "{iterator}");
    }
}

fn a_dump_that_has_ended_is_an_error(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    for format in ["everbloom", "valkey-bloom"] {
        for end in ["BF.CLEAR k", "DEL k", "RENAME small k", "DEBUG RELOAD"] {
            client.say("FLUSHALL");
            client.say(&format!("CONFIG SET bf.format {format}"));
            grown(&mut client, "k");
            client.say("BF.RESERVE small 0.3 1");
            let dump = chunks(&mut client, "k");
            client.say(end);
            if end == "DEL k" {
                assert_eq!(client.say(&format!("BF.SCANDUMP k {}", dump[1].0)), "-ERR not found");
                client.say("BF.RESERVE k 0.3 1");
            }
            // Without another dump, and after one.
            for _ in 0..2 {
                for (iterator, _) in &dump {
                    let reply = client.say(&format!("BF.SCANDUMP k {iterator}"));
                    assert_eq!(reply, ENDED, "{format}, {end}, {iterator}");
                }
                chunks(&mut client, "k");
            }
        }
    }
    // RedisBloom's iterators are positions, and its dumps have no end but that of the filter.
    client.say("FLUSHALL");
    client.say("CONFIG SET bf.format redisbloom");
    grown(&mut client, "k");
    let dump = chunks(&mut client, "k");
    assert_eq!(dump[0].0, 1);
    client.say("BF.CLEAR k");
    for iterator in [dump.last().unwrap().0, i64::MAX, -1] {
        assert_eq!(chunk(&mut client, "k", iterator), None, "{iterator}");
    }
}

/// A copy in chunks never succeeds without some of the items, whatever is done to the source meanwhile.
fn a_copy_is_complete_or_the_dump_has_ended(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    let maker = |options: &str| format!("BF.RESERVE src 0.01 100 {options}");
    // Entries can be added to a table and deleted during its dump.
    for (options, end, may_end) in [
        ("WINDOW 1000", "BF.MERGE src other FORCE", false),
        ("COUNTING", "BF.MERGE src other FORCE", false),
        ("COUNTING", "BF.DEL src", false),
        ("WINDOW 1000", "BF.CLEAR src", true),
        ("COUNTING", "BF.CLEAR src", true),
        ("EXPANSION 1", "BF.MERGE src other FORCE", true),
        ("EXPANSION 1", "BF.CLEAR src", true),
        ("EXPANSION 1 FORMAT valkey-bloom", "BF.CLEAR src", true),
    ] {
        let mut outcomes = [0, 0];
        for step in 0.. {
            client.say("FLUSHALL");
            let items = |name: &str, count: usize| {
                (0..count).map(|item| format!("{name}-{item}")).collect::<Vec<_>>().join(" ")
            };
            assert_eq!(client.say(&maker(options)), "+OK");
            client.say(&format!("BF.MADD src {}", items("item", 500)));
            client.say(&format!("BF.RESERVE other 0.001 70 {}", options.replace(" FORMAT valkey-bloom", "")));
            client.say(&format!("BF.MADD other {}", items("other", 400)));
            let (mut iterator, mut copied, mut chunks) = (0, true, 0);
            loop {
                let reply = client.call(&["BF.SCANDUMP", "src", &iterator.to_string()]);
                let Value::Array(parts) = reply else {
                    copied = false;
                    break;
                };
                let [Value::Int(next), Value::BulkString(data)] = &parts[..] else { panic!("{parts:?}") };
                if *next == 0 {
                    break;
                }
                iterator = *next;
                if load(&mut client, "copy", iterator, data) != "+OK" {
                    copied = false;
                    break;
                }
                if chunks == step {
                    match end {
                        "BF.DEL src" => client.say(&format!("BF.DEL src {}", items("item", 250))),
                        _ => client.say(end),
                    };
                }
                chunks += 1;
            }
            outcomes[usize::from(copied)] += 1;
            if copied {
                let all: Vec<String> = (0..500).map(|item| format!("item-{item}")).collect();
                let first = if end == "BF.DEL src" && chunks > step { 250 } else { 0 };
                let mut call = vec!["BF.MEXISTS", "copy"];
                call.extend(all[first..].iter().map(String::as_str));
                let found = client.array(&call).iter().filter(|found| **found == Value::Int(1)).count();
                assert_eq!(found, 500 - first, "{options}, {end} after {step} chunks");
            }
            if step > chunks {
                break;
            }
        }
        assert!(outcomes[1] > 0 && (outcomes[0] > 0) == may_end, "{options}, {end}: {outcomes:?}");
    }
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
    let (iterator, header) = chunk(&mut client, "k", 0).unwrap();
    client.say("BF.MADD copy a b c");
    let before = client.digest("copy");
    for at in 0..header.len() {
        for altered in [header[..at].to_vec(), {
            let mut bytes = header.clone();
            bytes[at] ^= 0x40;
            bytes
        }] {
            for (key, iterator) in [("copy", iterator), ("new", iterator), ("copy", 1), ("new", 1)] {
                let reply = load(&mut client, key, iterator, &altered);
                assert_eq!(reply, "-ERR received bad data", "byte {at}, {key}, {iterator}");
            }
        }
    }
    assert_eq!(client.digest("copy"), before);
    assert_eq!(client.int("EXISTS new"), 0);
}
