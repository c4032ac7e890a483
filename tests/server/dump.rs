//! BF.SCANDUMP and BF.LOADCHUNK: helpers that copy filters in chunks, and tests of iterators on a server. The pure
//! tests check the chunks themselves.

use redis::Value;

use crate::harness::{Client, Site, Test, numbered, tests};

pub(crate) const TESTS: &[Test] = tests![
    a_dump_may_start_at_any_byte,
    a_dump_that_has_ended_is_an_error,
    a_header_over_a_filter_is_refused,
];

/// The reply to an iterator of a dump that has ended.
const ENDED: &str =
    "-ERR the dump of this iterator has ended: delete the copy and start again with iterator 0";

/// Returns the reply of BF.SCANDUMP: the iterator with which the chunk is loaded, and the chunk. `None` at the end.
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

/// Copies a filter chunk by chunk. Returns OK or the first error reply.
pub(crate) fn try_travel(client: &mut Client, from: &[u8], to: &[u8]) -> redis::RedisResult<Value> {
    let mut iterator = 0;
    loop {
        let reply = client.try_call(&[b"BF.SCANDUMP", from, iterator.to_string().as_bytes()])?;
        let Value::Array(chunk) = reply else { return Ok(reply) };
        let [Value::Int(next), Value::BulkString(data)] = chunk.as_slice() else { panic!("{chunk:?}") };
        iterator = *next;
        if iterator == 0 {
            return Ok(Value::Okay);
        }
        let reply = client.try_call(&[b"BF.LOADCHUNK", to, iterator.to_string().as_bytes(), data])?;
        if reply != Value::Okay {
            return Ok(reply);
        }
    }
}

/// Copies a filter chunk by chunk.
pub(crate) fn travel(client: &mut Client, from: &str, to: &str) {
    assert_eq!(try_travel(client, from.as_bytes(), to.as_bytes()), Ok(Value::Okay), "{from}");
}

/// Creates a filter that has outgrown its capacity: it has bits and a table, or several layers in other formats.
fn grown(client: &mut Client, key: &str) {
    client.say(&format!("BF.RESERVE {key} 0.001 10"));
    client.many(&format!("BF.MADD {key}"), &numbered("item", 0..300));
}

fn a_dump_may_start_at_any_byte(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    grown(&mut client, "k");
    let dump = chunks(&mut client, "k");
    let (first, end) = (dump[0].0, dump.last().unwrap().0);
    travel(&mut client, "k", "copy");
    // The iterators of all bytes of the bits, and of some of the 2^32 positions in the table.
    for iterator in (first..first + 100).chain((first..end).step_by(12_345_678)).chain([end - 1]) {
        let (next, data) = chunk(&mut client, "k", iterator).unwrap();
        assert!(next > iterator && next <= end, "{iterator} -> {next}");
        // Such a chunk can be loaded like any other.
        client.say("DEL half");
        assert_eq!(load(&mut client, "half", dump[0].0, &dump[0].1), "+OK");
        assert_eq!(load(&mut client, "half", next, &data), "+OK", "{iterator}");
    }
    assert_eq!(chunk(&mut client, "k", end), None);
    for iterator in [1, end - first, first - 1, end + 1, i64::MAX, -1, i64::MIN] {
        assert_eq!(client.say(&format!("BF.SCANDUMP k {iterator}")), ENDED, "{iterator}");
    }
    assert_eq!(client.digest("copy"), client.digest("k"));
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
            // First without another dump, then after another dump.
            for _ in 0..2 {
                for (iterator, _) in &dump {
                    let reply = client.say(&format!("BF.SCANDUMP k {iterator}"));
                    assert_eq!(reply, ENDED, "{format}, {end}, {iterator}");
                }
                chunks(&mut client, "k");
            }
        }
    }
    // In RedisBloom's format an iterator is only a position, so a change of the filter does not end a dump. A position
    // beyond the filter gets the reply for the end, not an error.
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

fn a_header_over_a_filter_is_refused(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    grown(&mut client, "k");
    let chunks = chunks(&mut client, "k");
    client.say("BF.RESERVE copy 0.3 7 NONSCALING");
    client.say("EXPIRE copy 1000");
    // A filter of which only some chunks are loaded refuses a header too: a load cannot be restarted.
    for (iterator, data) in &chunks[..2] {
        assert_eq!(load(&mut client, "half", *iterator, data), "+OK");
    }
    for (key, error) in [("copy", "-ERR received bad data"), ("half", "-ERR the filter is being loaded: ")] {
        let before = client.digest(key);
        let reply = load(&mut client, key, chunks[0].0, &chunks[0].1);
        assert!(reply.starts_with(error), "{key}: {reply}");
        assert_eq!(client.digest(key), before);
    }
    assert!(client.int("TTL copy") > 0);
}
