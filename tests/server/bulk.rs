//! Packed batches over the wire: in both protocols, in transactions and scripts, on replicas and in append-only
//! files, and malicious batches.

use crate::harness::{Client, Site, Test, tests};
use crate::journeys::append_only;

pub(crate) const TESTS: &[Test] = tests![
    transactions_and_scripts_accept_batches,
    replicas_and_append_only_files_get_the_added_items,
    batches_raise_events_and_are_counted,
    truncated_batches_change_nothing,
    a_large_batch_has_a_complete_reply,
];

fn transactions_and_scripts_accept_batches(site: &Site) {
    let server = site.start();
    for mut client in [server.client(), server.client3()] {
        client.say("FLUSHALL");
        client.say("MULTI");
        for command in ["BF.BULKADD k FIXED 1 aba", "BF.BULKEXISTS k FIXED 1 abc", "BF.BULKADD k FIXED 2 aba"]
        {
            assert_eq!(client.say(command), "+QUEUED");
        }
        assert_eq!(
            client.say("EXEC"),
            "[\"110\", \"110\", -ERR the data ends in the middle of an item: check the packing]"
        );
        let add = "return {redis.call('BF.BULKADD', KEYS[1], 'LINES', ARGV[1]), \
                   redis.call('BF.BULKEXISTS', KEYS[1], 'COUNT', 'LINES', ARGV[1])}";
        assert_eq!(client.ask(&["EVAL", add, "1", "k", "a\nx\ny\nx"]), "[\"0110\", 4]");
        let check = "return redis.call('BF.BULKEXISTS', KEYS[1], 'LINES', ARGV[1])";
        assert_eq!(client.ask(&["EVAL_RO", check, "1", "k", "x\nz"]), "\"10\"");
    }
}

fn state(client: &mut Client) -> Vec<[String; 2]> {
    let keys = ["fixed", "counting", "made", "redisbloom"];
    keys.iter().map(|key| [client.digest(key), client.say(&format!("BF.CARD {key}"))]).collect()
}

fn replicas_and_append_only_files_get_the_added_items(site: &Site) {
    let server = append_only(site.launch(), "no").start();
    let strict = site.launch().with("propagation-error-behavior panic").with_option("bf.expansion-factor 0");
    let replica = server.replica(strict);
    let mut client = server.client();
    client.say("BF.RESERVE fixed 0.01 50 NONSCALING");
    client.say("BF.RESERVE counting 0.01 40 NONSCALING COUNTING");
    client.say("BF.RESERVE redisbloom 0.01 10 FORMAT redisbloom EXPANSION 2");
    for round in 0..4 {
        let numbers = (0..30).map(|item| item * 3 % 40 + round * 20);
        let lines = numbers.clone().map(|number| format!("item-{number}\n")).collect::<String>();
        let fixed = numbers.map(|number: i32| format!("{number:04}")).collect::<String>();
        for key in ["fixed", "counting", "made", "redisbloom"] {
            client.ask(&["BF.BULKADD", key, "LINES", &lines]);
            client.ask(&["BF.BULKADD", key, "COUNT", "FIXED", "4", &fixed]);
            client.ask(&[
                "EVAL",
                "return redis.call('BF.BULKADD', KEYS[1], 'LINES', ARGV[1])",
                "1",
                key,
                "a\nb",
            ]);
        }
    }
    // Partly refused.
    assert!(client.ask(&["BF.BULKADD", "fixed", "LINES", "new\nitem-3"]).contains("!"));
    assert_eq!(client.int("WAIT 1 60000"), 1);
    let expected = state(&mut client);
    assert_eq!(state(&mut replica.client()), expected);
    drop(client);
    assert_eq!(state(&mut server.restart().client()), expected);
}

fn batches_raise_events_and_are_counted(site: &Site) {
    let server = site.launch().with("notify-keyspace-events KEA").start();
    let mut client = server.client();
    client.say("BF.RESERVE k 0.01 100");
    let mut watcher = server.raw();
    watcher.say("SUBSCRIBE __keyspace@0__:k");
    let (adds, checks) = (client.info_number("bf_adds"), client.info_number("bf_checks"));
    // Only duplicates, so there is no event.
    for batch in ["ab", "ba", "bc"] {
        client.say(&format!("BF.BULKADD k FIXED 1 {batch}"));
    }
    client.say("BF.BULKEXISTS k COUNT FIXED 1 abcd");
    for _ in 0..2 {
        assert!(String::from_utf8_lossy(&watcher.next()).contains("bloom.add"));
    }
    assert_eq!((client.info_number("bf_adds") - adds, client.info_number("bf_checks") - checks), (3, 4));
    let mut watching = server.client();
    watching.say("WATCH k");
    client.say("BF.BULKADD k FIXED 1 abc");
    watching.say("MULTI");
    watching.say("PING");
    assert_eq!(watching.say("EXEC"), "[+PONG]", "nothing had changed");
}

fn truncated_batches_change_nothing(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    let torn = "-ERR the data ends in the middle of an item: check the packing";
    client.say("BF.RESERVE k 0.01 1000");
    let digest = client.digest("k");
    let many = [b"\x01\0\0\0a".repeat(1000), b"\x02\0\0\0a".to_vec()].concat();
    for data in [b"\xff\xff\xff\xff".as_slice(), b"\xff\xff\xff\xffabc", b"\0\0\0\x80abc", b"abc", &many] {
        for key in ["k", "none"] {
            assert_eq!(client.ask(&[b"BF.BULKADD", key.as_bytes(), b"PREFIXED", data]), torn);
            assert_eq!(client.ask(&[b"BF.BULKEXISTS", key.as_bytes(), b"PREFIXED", data]), torn);
        }
    }
    assert_eq!((client.digest("k"), client.int("EXISTS none")), (digest, 0));
}

/// 64 MiB of newlines are one item per byte. The memory is bounded by the size of the batch.
fn a_large_batch_has_a_complete_reply(site: &Site) {
    const BYTES: usize = 64 << 20;
    let server = site.start();
    let mut client = server.client();
    let newlines = vec![b'\n'; BYTES];
    let reply = client.bytes(&[b"BF.BULKADD", b"k".as_slice(), b"LINES", &newlines]);
    assert!(reply.len() == BYTES && reply[0] == b'1' && reply[1..].iter().all(|reply| *reply == b'0'));
    assert_eq!(
        client.ask(&[b"BF.BULKEXISTS", b"k".as_slice(), b"COUNT", b"LINES", &newlines]),
        BYTES.to_string()
    );
    assert_eq!(client.int("BF.CARD k"), 1);
    // The batch, its reply, the copy of the reply for the client, and the replicated command.
    let peak = client.info_number("used_memory_peak");
    assert!(peak < 6 * BYTES as u64, "{peak} bytes at the peak");
}
