//! Changed payloads of other modules' filters: an error, or a filter that works. The server keeps running and
//! replies.

use super::{Case, cases, restore};
use crate::harness::{Client, Site, Test, reseal, tests};
use crate::support::Random;

pub(crate) const TESTS: &[Test] = tests![
    changed_filters_of_redisbloom_are_refused_or_valid,
    changed_filters_of_valkey_bloom_are_refused_or_valid,
    changed_chunks_of_redisbloom_are_refused_or_valid,
    changed_blobs_of_valkey_bloom_are_refused_or_valid,
];

/// Changed payloads per test and server. The pure tests have many times more.
const SAMPLES: u32 = 10_000;
const SEED: u64 = 0x0f0e_1a6e;
/// Limit on resident memory: no payload can create a filter near this size.
const MOST_RESIDENT_BYTES: u64 = 300 << 20;

/// Numbers at which programs often fail.
const EDGES: [u64; 16] = [
    0,
    1,
    2,
    0x3f,
    0x7f,
    0xff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    1 << 32,
    1 << 43,
    1 << 62,
    i64::MAX as u64,
    u64::MAX - 63,
    u64::MAX,
    0x7ff8_0000_0000_0000,
];

/// Changes bytes between `from` and `end`: a bit, a byte, an edge value, a truncation, an insertion.
fn alter(bytes: &[u8], from: usize, end: usize, random: &mut Random) -> Vec<u8> {
    let (mut inner, tail) = (bytes[..end].to_vec(), &bytes[end..]);
    for _ in 0..=random.below(3) {
        if inner.len() <= from {
            break;
        }
        // The parameters are at the beginning, so half of the changes are there.
        let span = inner.len() - from;
        let at = from + if random.below(2) == 0 { random.below(span.min(100)) } else { random.below(span) };
        match random.below(6) {
            0 => inner[at] ^= 1 << random.below(8),
            1 => inner[at] = random.next().to_le_bytes()[0],
            2 | 3 => {
                let width = *random.choose(&[1, 2, 4, 8]);
                let edge = *random.choose(&EDGES);
                let edge =
                    if random.below(2) == 0 { edge.swap_bytes().to_le_bytes() } else { edge.to_le_bytes() };
                let width = width.min(inner.len() - at);
                inner[at..at + width].copy_from_slice(&edge[..width]);
            }
            4 => inner.truncate(at),
            _ => inner.insert(at, random.next().to_le_bytes()[0]),
        }
    }
    [inner.as_slice(), tail].concat()
}

/// Runs all kinds of commands on a loaded filter. A full or expiring one may refuse an item.
fn behaves(client: &mut Client, key: &str) {
    for command in ["BF.INFO", "BF.DEBUG", "BF.CARD", "MEMORY USAGE", "DUMP"] {
        let reply = client.say(&format!("{command} {key}"));
        assert!(!reply.starts_with('-'), "{command}: {reply}");
    }
    let added = client.say(&format!("BF.ADD {key} something-new"));
    let possible = ["0", "1", "-ERR problem inserting into filter", "-ERR non scaling filter is full"];
    assert!(possible.contains(&added.as_str()), "{added}");
    if added == "1" {
        assert_eq!(client.say(&format!("BF.EXISTS {key} something-new")), "1");
    }
    let again = client.bytes(&["DUMP", key]);
    assert_eq!(restore(client, "again", &again), "+OK");
    assert_eq!(client.digest("again"), client.digest(key));
}

/// Sends changed samples of `of` to a server with `put`, which returns the reply. A loaded filter must work.
fn corpus(
    site: &Site,
    of: impl Fn(&Case) -> Option<(Vec<u8>, usize, usize)>,
    put: impl Fn(&mut Client, &[u8]) -> String,
    errors: &[&str],
) {
    let mut originals: Vec<(Vec<u8>, usize, usize)> = cases().iter().filter_map(&of).collect();
    originals.retain(|original| original.0.len() < 2000);
    let server = site.launch().with("maxmemory 256mb").with_option("bf.max-filter-bytes 8mb").start();
    let mut client = server.client();
    let mut random = Random(SEED);
    let mut taken = 0;
    for sample in 0..SAMPLES {
        let (bytes, from, end) = random.choose(&originals);
        let altered = alter(bytes, *from, *end, &mut random);
        let reply = put(&mut client, &altered);
        if reply == "+OK" {
            taken += 1;
            // A changed value may have another type, or have expired.
            let is_filter = ["+MBbloom--", "+bloomfltr"].contains(&client.say("TYPE new").as_str());
            if is_filter {
                behaves(&mut client, "new");
            }
            client.say("DEL new again");
        } else {
            let known = errors.iter().any(|error| reply.starts_with(error));
            assert!(known, "seed {SEED:#x}, sample {sample}: {reply}");
        }
    }
    assert!(taken > SAMPLES / 100 && taken < SAMPLES, "{taken} of {SAMPLES} were taken");
    assert!(server.resident_bytes() < MOST_RESIDENT_BYTES, "{}", server.resident_bytes());
}

/// Returns the payload, and the offsets after the type's id and before the footer.
fn payload(case: &Case, site: &Site) -> (Vec<u8>, usize, usize) {
    let payload = case.payload_for(site);
    let end = payload.len() - 10;
    (payload, 10, end)
}

fn put_payload(client: &mut Client, altered: &[u8]) -> String {
    let mut payload = altered.to_vec();
    reseal(&mut payload);
    restore(client, "new", &payload)
}

fn changed_filters_of_redisbloom_are_refused_or_valid(site: &Site) {
    let of = |case: &Case| case.is_redisbloom().then(|| payload(case, site));
    corpus(site, of, put_payload, &["-ERR Bad data format"]);
}

fn changed_filters_of_valkey_bloom_are_refused_or_valid(site: &Site) {
    let of = |case: &Case| (!case.is_redisbloom()).then(|| payload(case, site));
    corpus(site, of, put_payload, &["-ERR Bad data format"]);
}

fn changed_chunks_of_redisbloom_are_refused_or_valid(site: &Site) {
    let of = |case: &Case| {
        let header = case.is_redisbloom().then(|| case.chunks().swap_remove(0).1)?;
        let end = header.len();
        Some((header, 0, end))
    };
    let put =
        |client: &mut Client, header: &[u8]| client.ask(&[b"BF.LOADCHUNK", b"new".as_slice(), b"1", header]);
    corpus(site, of, put, &["-ERR received bad data", "-ERR filter would take ", "-ERR Insufficient memory"]);
}

fn changed_blobs_of_valkey_bloom_are_refused_or_valid(site: &Site) {
    let of = |case: &Case| {
        let blob = case.blob()?;
        let end = blob.len();
        Some((blob, 0, end))
    };
    let put = |client: &mut Client, blob: &[u8]| client.ask(&[b"BF.LOAD", b"new".as_slice(), blob]);
    corpus(
        site,
        of,
        put,
        &["-ERR bloom object decoding failed", "-ERR filter would take ", "-ERR Insufficient memory"],
    );
}
