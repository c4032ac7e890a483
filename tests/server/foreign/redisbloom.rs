//! With `bf.format redisbloom` a server behaves exactly as RedisBloom: sizes, replies in RESP2 and RESP3, chunks,
//! growth.

use super::{add, cases};
use crate::dump::{chunks, load, travel};
use crate::harness::{Server, Site, Test, show, tests, wait_until};
use crate::support::rdb::Payload;

pub(crate) const TESTS: &[Test] = tests![
    new_filters_equal_redisblooms,
    sizes_are_redisblooms,
    replies_are_redisblooms_to_the_byte,
    errors_are_redisblooms,
    error_rates_above_a_quarter_are_a_quarter,
    filters_grow_as_in_redisbloom,
    fixed_filters_fill_up_as_in_redisbloom,
    chunks_are_redisblooms,
    a_header_with_more_items_than_bits_counts_the_bits,
    format_overrides_the_setting,
];

fn start(site: &Site) -> Server {
    site.launch().with_option("bf.format redisbloom").start()
}

fn new_filters_equal_redisblooms(site: &Site) {
    let server = start(site);
    let mut client = server.client();
    let current = ["redisbloom-2.2.18", "redisbloom-8.10-dev"];
    for case in cases().iter().filter(|case| current.contains(&case.producer)) {
        let key = case.key.as_str();
        let words = case.reserve_words();
        if !words.is_empty() {
            assert_eq!(client.say(&format!("BF.RESERVE {key} {}", words.join(" "))), "+OK");
        }
        add(&mut client, key, &case.members);
        case.assert_replies(&mut client, key);
        assert_eq!(chunks(&mut client, key), case.chunks(), "{key}");
        let (dumped, recorded) = (Payload::read(&client.bytes(&["DUMP", key])), Payload::read(&case.payload));
        assert_eq!((dumped.type_name, dumped.record), (recorded.type_name, recorded.record), "{key}");
        let lines: Vec<String> = client.array(&["BF.DEBUG", key]).iter().map(show).collect();
        let recorded = case.json["debug"].as_array().unwrap().iter().map(|line| format!("{line}"));
        assert_eq!(lines, recorded.collect::<Vec<_>>(), "{key}");
    }
}

fn sizes_are_redisblooms(site: &Site) {
    let server = start(site);
    let mut client = server.client();
    // Arguments; then probes, bytes and BF.INFO Size in RedisBloom 8.
    for (words, probes, bytes, size) in [
        ("0.01 100", 8, 144u64, 240u64),
        ("0.05 1000", 6, 960, 1056),
        ("0.001 100", 11, 200, 296),
        ("0.001 50000", 11, 98_880, 98_976),
        ("0.01 3 NONSCALING", 7, 8, 104),
        ("0.000001 300000000", 21, 1_132_420_136, 1_132_420_232),
        ("0.01 1073741824", 8, 1_480_120_016, 1_480_120_112),
        ("0.25 1", 4, 8, 104),
    ] {
        assert_eq!(client.say(&format!("BF.RESERVE k {words}")), "+OK", "{words}");
        assert_eq!(client.say("BF.INFO k SIZE"), format!("[{size}]"), "{words}");
        let line = client.say("BF.DEBUG k");
        assert!(
            line.contains(&format!("\"bytes:{bytes} bits:{} hashes:{probes} hashwidth:64 ", bytes * 8)),
            "{line}"
        );
        client.say("DEL k");
    }
}

fn replies_are_redisblooms_to_the_byte(site: &Site) {
    let server = start(site);
    let (mut two, mut three) = (server.raw(), server.raw3());
    two.say("BF.RESERVE f 0.05 1000");
    two.say("BF.RESERVE n 0.01 5 NONSCALING");
    for (line, resp2, resp3) in [
        (
            "BF.INFO f",
            "*10\r\n+Capacity\r\n:1000\r\n+Size\r\n:1056\r\n+Number of filters\r\n:1\r\n+Number of items inserted\r\n:0\r\n+Expansion rate\r\n:2\r\n",
            "%5\r\n+Capacity\r\n:1000\r\n+Size\r\n:1056\r\n+Number of filters\r\n:1\r\n+Number of items inserted\r\n:0\r\n+Expansion rate\r\n:2\r\n",
        ),
        ("BF.INFO f size", "*1\r\n:1056\r\n", "%1\r\n+Size\r\n:1056\r\n"),
        ("BF.INFO n EXPANSION", "*1\r\n$-1\r\n", "%1\r\n+Expansion rate\r\n_\r\n"),
        (
            "BF.DEBUG f",
            "*2\r\n$6\r\nsize:0\r\n$74\r\nbytes:960 bits:7680 hashes:6 hashwidth:64 capacity:1000 size:0 ratio:0.025\r\n",
            "*2\r\n$6\r\nsize:0\r\n$74\r\nbytes:960 bits:7680 hashes:6 hashwidth:64 capacity:1000 size:0 ratio:0.025\r\n",
        ),
        ("BF.EXISTS f a", ":0\r\n", "#f\r\n"),
        ("BF.MEXISTS f a b", "*2\r\n:0\r\n:0\r\n", "*2\r\n#f\r\n#f\r\n"),
        ("BF.CARD f", ":0\r\n", ":0\r\n"),
        ("BF.CARD none", ":0\r\n", ":0\r\n"),
        ("BF.INFO none", "-ERR not found\r\n", "-ERR not found\r\n"),
        ("BF.SCANDUMP f -1", "*2\r\n:0\r\n$0\r\n\r\n", "*2\r\n:0\r\n$0\r\n\r\n"),
    ] {
        assert_eq!(two.say(line), resp2, "{line}");
        assert_eq!(three.say(line), resp3, "{line}");
    }
    for (line, expected) in [
        ("BF.ADD f a", ":1\r\n"),
        ("BF.MADD f a b b", "*3\r\n:0\r\n:1\r\n:0\r\n"),
        ("BF.INSERT f ITEMS c", "*1\r\n:1\r\n"),
    ] {
        assert_eq!(two.say(line), expected, "{line}");
    }
    for (line, expected) in
        [("BF.ADD f z", "#t\r\n"), ("BF.MADD f z y", "*2\r\n#f\r\n#t\r\n"), ("BF.RESERVE q 0.1 5", "+OK\r\n")]
    {
        assert_eq!(three.say(line), expected, "{line}");
    }
}

fn errors_are_redisblooms(site: &Site) {
    let server = start(site);
    let mut client = server.client();
    client.say("BF.RESERVE f 0.01 10");
    let rate = "-ERR error rate must be in the range (0.000000, 1.000000)";
    let capacity = "-ERR capacity must be in the range [1, 1073741824]";
    for (line, expected) in [
        ("BF.RESERVE k x 10", "-ERR bad error rate"),
        ("BF.RESERVE k 0 10", rate),
        ("BF.RESERVE k 1 10", rate),
        ("BF.RESERVE k 0.01 x", "-ERR bad capacity"),
        ("BF.RESERVE k 0.01 0", capacity),
        ("BF.RESERVE k 0.01 -1", capacity),
        ("BF.RESERVE k 0.01 1073741825", capacity),
        ("BF.RESERVE k 0.01 10 EXPANSION", "-ERR no expansion"),
        ("BF.RESERVE k 0.01 10 EXPANSION x", "-ERR bad expansion"),
        ("BF.RESERVE k 0.01 10 EXPANSION 32769", "-ERR expansion must be in the range [0, 32768]"),
        ("BF.RESERVE k 0.01 10 NONSCALING EXPANSION 2", "-Nonscaling filters cannot expand"),
        ("BF.RESERVE f 0.01 10", "-ERR item exists"),
        ("BF.INSERT k CAPACITY 1073741825 ITEMS a", "-Bad capacity"),
        ("BF.INSERT k CAPACITY 0 ITEMS a", "-Bad capacity"),
        ("BF.INSERT k ERROR 1 ITEMS a", "-Bad error rate"),
        ("BF.INSERT k EXPANSION 32769 ITEMS a", "-Bad expansion"),
        ("BF.INSERT k WORD ITEMS a", "-Unknown argument received"),
        ("BF.INSERT k NOCREATE ITEMS a", "-ERR not found"),
        ("BF.INSERT k CAPACITY 10", "-ERR wrong number of arguments for 'bf.insert' command"),
        ("BF.INFO f WORD", "-Invalid information value"),
        ("BF.SCANDUMP f x", "-Second argument must be numeric"),
        ("BF.SCANDUMP k 0", "-ERR not found"),
        ("BF.LOADCHUNK f x data", "-ERR Second argument must be numeric"),
        ("BF.LOADCHUNK k 2 data", "-ERR not found"),
        ("BF.LOADCHUNK k 1 data", "-ERR received bad data"),
        ("BF.LOADCHUNK f 0 data", "-ERR received bad data"),
        ("BF.LOADCHUNK f 3 data", "-ERR received bad data"),
        ("BF.LOADCHUNK f 4 data", "-ERR invalid offset - no link found"),
        ("BF.LOADCHUNK f 1000 data", "-ERR invalid offset - no link found"),
        ("BF.LOADCHUNK f 20 0123456789abcdefg", "-ERR invalid chunk - Too big for current filter"),
    ] {
        assert_eq!(client.say(line), expected, "{line}");
    }
    assert_eq!(client.int("EXISTS k"), 0);
    assert_eq!(client.say("BF.INSERT k CAPACITY 1073741824 NOCREATE ITEMS a"), "-ERR not found");
}

fn error_rates_above_a_quarter_are_a_quarter(site: &Site) {
    let server = site.launch().with_option("bf.format redisbloom").with_option("bf.error-rate 0.8").start();
    let mut client = server.client();
    assert_eq!(client.say("BF.RESERVE scaling 0.9 100"), "+OK");
    assert_eq!(client.say("BF.RESERVE fixed 0.9 100 NONSCALING"), "+OK");
    client.say("BF.INSERT inserted ERROR 0.5 ITEMS a");
    client.say("BF.ADD default a");
    for (key, ratio) in [("scaling", "0.125"), ("fixed", "0.25"), ("inserted", "0.125"), ("default", "0.125")]
    {
        let debug = client.say(&format!("BF.DEBUG {key}"));
        assert!(debug.ends_with(&format!("ratio:{ratio}\"]")), "{key}: {debug}");
    }
}

fn filters_grow_as_in_redisbloom(site: &Site) {
    let server = start(site);
    let mut client = server.client();
    for (words, capacities) in
        [("EXPANSION 1", [4, 8, 12, 16]), ("", [4, 12, 28, 60]), ("EXPANSION 3", [4, 16, 52, 160])]
    {
        client.say("DEL k");
        assert_eq!(client.say(&format!("BF.RESERVE k 0.01 4 {words}")), "+OK");
        let mut item = 0;
        for (layer, capacity) in capacities.into_iter().enumerate() {
            while client.int("BF.CARD k") < capacity {
                item += 1;
                client.say(&format!("BF.ADD k item-{item}"));
            }
            assert_eq!(client.say("BF.INFO k FILTERS"), format!("[{}]", layer + 1), "{words}");
            assert_eq!(client.say("BF.INFO k CAPACITY"), format!("[{capacity}]"), "{words}");
        }
        let ratios: Vec<String> = client.array(&["BF.DEBUG", "k"])[1..]
            .iter()
            .map(|line| show(line).rsplit_once("ratio:").unwrap().1.trim_end_matches('"').to_owned())
            .collect();
        assert_eq!(ratios, ["0.005", "0.0025", "0.00125", "0.000625"]);
    }
}

fn fixed_filters_fill_up_as_in_redisbloom(site: &Site) {
    let server = start(site);
    let mut client = server.client();
    for words in ["NONSCALING", "EXPANSION 0"] {
        client.say("DEL k");
        assert_eq!(client.say(&format!("BF.RESERVE k 0.001 2 {words}")), "+OK");
        assert_eq!(client.say("BF.MADD k a b a c d"), "[1, 1, 0, -ERR non scaling filter is full]");
        assert_eq!(client.say("BF.ADD k c"), "-ERR non scaling filter is full");
        assert_eq!(client.say("BF.ADD k a"), "0");
        assert_eq!(client.say("BF.INFO k EXPANSION"), "[nil]");
    }
    // The factor is saved although it is never used: the requested one, or the default.
    client.say("BF.RESERVE f 0.01 9 NONSCALING");
    let header = chunks(&mut client, "f").swap_remove(0).1;
    assert_eq!(header[12..20], [13, 0, 0, 0, 2, 0, 0, 0], "options and growth");
}

fn chunks_are_redisblooms(site: &Site) {
    let server = start(site);
    let mut client = server.client();
    // Two chunks of 16 MiB in the first layer, which is larger.
    assert_eq!(client.say("BF.RESERVE k 0.01 20000000"), "+OK");
    client.say("BF.ADD k a");
    let chunks = chunks(&mut client, "k");
    let sizes: Vec<usize> = chunks.iter().map(|chunk| chunk.1.len()).collect();
    assert_eq!(sizes, [73, 16 << 20, 27_569_384 - (16 << 20)]);
    let iterators: Vec<i64> = chunks.iter().map(|chunk| chunk.0).collect();
    assert_eq!(iterators, [1, 1 + (16 << 20), 1 + 27_569_384]);
}

/// The header in `test_arbitrary_offset` of RedisBloom's tests: one layer of 8 bits, 3.6e14 items.
fn a_header_with_more_items_than_bits_counts_the_bits(site: &Site) {
    const HEADER: &str = "1118f3dd74480100010000000100000001000000010000000000000008000000000000001118f3dd744801009a9999999999b9\
                          3f9a9999999999b93f010000001118f3dd7448010000";
    let header = data_encoding::HEXLOWER.decode(HEADER.as_bytes()).unwrap();
    let launch =
        site.launch().with("appendonly yes").with("appendfsync always").with("aof-use-rdb-preamble no");
    let server = launch.start();
    let replica = server.replica(site.launch().with("propagation-error-behavior panic"));
    let mut client = server.client();
    assert_eq!(load(&mut client, "k", 1, &header), "+OK");
    assert_eq!(client.say("TYPE k"), "+MBbloom--");
    assert_eq!(client.int("BF.CARD k"), 8);
    assert_eq!(client.say("BF.INFO k CAPACITY"), format!("[{}]", 0x0001_4874_ddf3_1811u64));
    assert_eq!(client.info_number("bf_items"), 8);
    for (iterator, reply) in [
        (-2, "-ERR received bad data"),
        (0, "-ERR received bad data"),
        (1_000_000, "-ERR invalid offset - no link found"),
    ] {
        assert_eq!(load(&mut client, "k", iterator, b"x"), reply, "{iterator}");
    }
    assert_eq!(load(&mut client, "k", 2, &[0x11]), "+OK");
    // Items are added and found, but the count stays.
    for item in 0..40 {
        let reply = client.say(&format!("BF.ADD k {item}"));
        assert!(reply == "0" || reply == "1", "{reply}");
        assert_eq!(client.say(&format!("BF.EXISTS k {item}")), "1");
    }
    assert_eq!((client.int("BF.CARD k"), client.info_number("bf_items")), (8, 8));
    client.say("BF.STATS k");
    assert_eq!(client.int("WAIT 1 60000"), 1);
    let digest = client.digest("k");
    assert_eq!(replica.client().digest("k"), digest);
    travel(&mut client, "k", "travelled");
    assert_eq!(client.digest("travelled"), digest);
    assert_eq!(client.say("DEBUG RELOAD"), "+OK");
    assert_eq!(client.digest("k"), digest);
    drop(client);
    let server = server.restart();
    let mut client = server.client();
    assert_eq!((client.digest("k"), client.info_number("bf_items")), (digest, 16));
    assert_eq!(client.say("BF.CLEAR k"), "+OK");
    // The server may free them in another thread.
    client.say("FLUSHALL");
    wait_until("no items are counted", || client.info_number("bf_items") == 0);
}

fn format_overrides_the_setting(site: &Site) {
    let server = start(site);
    let mut client = server.client();
    for (line, key_type) in [
        ("BF.RESERVE a 0.01 10", "MBbloom--"),
        ("BF.RESERVE b 0.01 10 FORMAT everbloom", "everbloom"),
        ("BF.RESERVE c 0.01 10 format VALKEY-BLOOM EXPANSION 3", "bloomfltr"),
        ("BF.INSERT d FORMAT everbloom CAPACITY 2000000000 ITEMS a", "everbloom"),
        ("BF.INSERT e ITEMS a", "MBbloom--"),
    ] {
        client.say(line);
        let key = line.split(' ').nth(1).unwrap();
        assert_eq!(client.say(&format!("TYPE {key}")), format!("+{key_type}"), "{line}");
    }
    let unknown = "-ERR unknown format: use everbloom, redisbloom or valkey-bloom";
    assert_eq!(client.say("BF.RESERVE f 0.01 10 FORMAT other"), unknown);
    assert_eq!(client.say("BF.INSERT f FORMAT other ITEMS a"), unknown);
    let keyed = "-ERR SEED and TIGHTENING need FORMAT valkey-bloom";
    assert_eq!(client.say("BF.INSERT f TIGHTENING 0.5 ITEMS a"), keyed);
    let scale = "-ERR VALIDATESCALETO cannot be combined with FORMAT redisbloom";
    assert_eq!(client.say("BF.INSERT f VALIDATESCALETO 1000 ITEMS a"), scale);
    assert_eq!(client.int("EXISTS f"), 0);
}
