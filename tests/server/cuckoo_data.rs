//! Cuckoo filters of RedisBloom on a server: loaded, kept by everything that servers do with values, written back.

use crate::harness::{Client, Site, Test, tests, wait_until};
use crate::journeys::{append_only, append_only_base, rewrite};
use crate::support::fixtures::cuckoo_cases;
use crate::support::rdb::Payload;

pub(crate) const TESTS: &[Test] = tests![
    filters_are_kept_by_snapshots_files_copies_and_replicas,
    new_filters_have_the_type_of_the_format,
    filters_above_the_limit_are_refused,
    memory_that_was_never_written_to_stays_untouched,
];

fn assert_kept(client: &mut Client, cases: &[(String, Vec<u8>)], way: &str) {
    for (key, payload) in cases {
        let dumped = client.bytes(&["DUMP", key]);
        assert!(Payload::read(&dumped) == Payload::read(payload), "{key} by {way}");
    }
    assert_eq!(client.info_number("bf_cuckoo_values"), cases.len() as u64, "{way}");
}

fn filters_are_kept_by_snapshots_files_copies_and_replicas(site: &Site) {
    let cases = cuckoo_cases();
    assert!(cases.len() > 20);
    let server = append_only(site.launch(), "no").start();
    let mut client = server.client();
    for (key, payload) in &cases {
        assert_eq!(client.ask(&[b"RESTORE", key.as_bytes(), b"0", payload]), "+OK", "{key}");
        assert_eq!(client.ask(&["TYPE", key]), "+MBbloomCF", "{key}");
    }
    assert_kept(&mut client, &cases, "RESTORE");
    assert_eq!(client.say("DEBUG RELOAD"), "+OK");
    assert_kept(&mut client, &cases, "a snapshot");
    // A rewritten file describes the arrays by base and expansion, so it holds those that RedisBloom makes.
    rewrite(&mut client);
    let server = server.restart();
    let mut client = server.client();
    assert_kept(&mut client, &cases, "a rewritten file of commands");
    let replica = server.replica(site.launch().with("propagation-error-behavior panic"));
    assert_kept(&mut replica.client(), &cases, "a full synchronisation");
    let bytes = client.info_number("bf_cuckoo_bytes");
    for (key, payload) in &cases {
        assert_eq!(client.ask(&["COPY", key, "copy"]), "1", "{key}");
        assert_eq!(client.ask(&["CF.ADD", "copy", "new"]).starts_with('-'), is_at_an_end(key), "{key}");
        client.ask(&["CF.DEL", "copy", "new"]);
        assert!(client.int("MEMORY USAGE copy") > 100, "{key}");
        // The original is unchanged.
        assert!(Payload::read(&client.bytes(&["DUMP", key])) == Payload::read(payload), "{key}");
        // A dump by chunks.
        let mut iterator = "0".to_owned();
        client.say("DEL loaded");
        while let [redis::Value::Int(next), redis::Value::BulkString(data)] =
            &client.array(&["CF.SCANDUMP", key, &iterator])[..]
        {
            iterator = next.to_string();
            let words = [&b"CF.LOADCHUNK"[..], b"loaded", iterator.as_bytes(), data];
            assert_eq!(client.ask(&words), "+OK", "{key}");
        }
        if iterator != "0" {
            let loaded = Payload::read(&client.bytes(&["DUMP", "loaded"]));
            assert!(loaded == Payload::read(payload), "{key} by chunks");
        }
        assert_eq!(client.say("WAIT 1 60000"), "1");
        assert_eq!(replica.client().say("DEBUG DIGEST"), client.say("DEBUG DIGEST"), "{key}");
        client.say("UNLINK copy");
    }
    client.say("DEL loaded");
    // Values may be freed in the background.
    wait_until("the copies are freed", || client.info_number("bf_cuckoo_bytes") == bytes);
    client.say("FLUSHALL");
    wait_until("all filters are freed", || client.info_number("bf_cuckoo_bytes") == 0);
}

/// Returns whether a recorded filter takes no more items.
fn is_at_an_end(case: &str) -> bool {
    ["fixed-full", "fixed-small-full", "max-expansions", "insert-beyond-max"].contains(&case)
}

fn new_filters_have_the_type_of_the_format(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    for (format, expected) in
        [("everbloom", "everbloom"), ("redisbloom", "MBbloomCF"), ("valkey-bloom", "everbloom")]
    {
        assert_eq!(client.say(&format!("CONFIG SET bf.format {format}")), "+OK");
        for line in ["CF.ADD k a", "CF.RESERVE k 100", "CF.INSERT k ITEMS a b"] {
            client.say("DEL k");
            assert!(!client.say(line).starts_with('-'), "{line}");
            assert_eq!(client.say("TYPE k"), format!("+{expected}"), "{format}: {line}");
        }
    }
    client.say("CONFIG SET bf.format redisbloom");
    assert_eq!(client.say("CF.RESERVE new 100 ERROR 0.1"), "-ERR ERROR needs bf.format everbloom");
    assert_eq!(client.say("CF.INSERT new KEYED ITEMS a"), "-ERR KEYED needs bf.format everbloom");
    client.say("DEL k");
    client.say("CF.ADD k a");
    let import = "BF.IMPORT d SOURCE k SCHEME go-zero BITS 1024 HASHES 3";
    for line in ["BF.ADD k a", "BF.EXISTS k a", "BF.CARD k", "BF.MERGE d k", "BF.STATS k", import] {
        let reply = client.say(line);
        assert!(reply.starts_with("-WRONGTYPE"), "{line}: {reply}");
    }
    assert!(client.say("BF.MERGE d k").ends_with("value: 'k'"));
}

fn filters_above_the_limit_are_refused(site: &Site) {
    let server = site.launch().with("bf.format redisbloom").with("bf.max-filter-bytes 1kb").start();
    let mut client = server.client();
    assert_eq!(client.say("CF.RESERVE k 2 BUCKETSIZE 1 EXPANSION 4"), "+OK");
    let replies: Vec<String> = (0..12).map(|_| client.say("CF.ADD k same")).collect();
    assert_eq!(replies.last().unwrap(), "-ERR Insufficient memory", "{replies:?}");
    assert_eq!(client.say("CF.INSERT k ITEMS same same"), "[-1, -1]");
    let reply = client.say("CF.RESERVE large 2048");
    assert!(reply.starts_with("-ERR filter would take"), "{reply}");
    assert!(client.info_number("used_memory") < 64 << 20);
    assert!(server.log().contains("a filter refuses items"), "{}", server.log());
}

/// A header of 38 bytes makes an array of 256 MiB. Deletions, copies, digests and a rewritten file touch the pages of its
/// items only.
fn memory_that_was_never_written_to_stays_untouched(site: &Site) {
    let server = append_only(site.launch(), "no").start();
    let mut client = server.client();
    let words = [1u64, 1 << 27, 0, 2].map(u64::to_le_bytes).concat();
    let header = [&words[..], &[2, 0, 20, 0, 1, 0]].concat();
    assert_eq!(client.ask(&[b"CF.LOADCHUNK", &b"k"[..], b"1", &header]), "+OK");
    for line in ["CF.ADD k a", "CF.ADD k b", "CF.DEL k a", "CF.ADD k a", "COPY k copy"] {
        assert_eq!(client.say(line), "1", "{line}");
    }
    assert_eq!(client.say("CF.COMPACT copy"), "+OK");
    let digests = client.say("DEBUG DIGEST-VALUE k copy");
    rewrite(&mut client);
    let file = append_only_base(&server);
    assert!(file.len() < 1 << 16, "{} bytes", file.len());
    assert!(client.info_number("used_memory_rss") < 200 << 20);
    let server = server.restart();
    let mut client = server.client();
    assert_eq!(client.say("DEBUG DIGEST-VALUE k copy"), digests);
    for key in ["k", "copy"] {
        assert_eq!(client.say(&format!("CF.MEXISTS {key} a b c")), "[1, 1, 0]", "{key}");
    }
    assert!(client.info_number("used_memory_rss") < 200 << 20);
}
