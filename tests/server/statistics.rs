//! Information for operators: BF.STATS, the sections of INFO, and the event and the log line of filters that grow.

use redis::Value;

use crate::harness::{Client, Site, Test, show, tests, wait_until};

pub(crate) const TESTS: &[Test] = tests![
    stats_is_a_map_in_resp3_and_a_flat_array_in_resp2,
    the_allocators_bytes_are_those_of_memory_usage,
    a_table_takes_what_memory_usage_shows,
    totals_of_every_kind_are_correct_for_its_whole_life,
    merges_clears_and_deletions_keep_totals_correct,
    operations_on_items_are_counted,
    values_that_cannot_be_loaded_are_counted,
    growth_raises_an_event_and_sometimes_a_log_line,
    replicas_and_loading_servers_log_no_growth,
    very_small_rates_have_an_exponent,
];

fn very_small_rates_have_an_exponent(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    client.say("BF.RESERVE k 0.000001 100000");
    client.say("BF.ADD k a");
    let rate = client.say("BF.INFO k ERROR-RATE-NOW");
    let rate = rate.trim_matches(['[', ']', '"']);
    let number: f64 = rate.parse().unwrap();
    assert!(number > 0.0 && number < 1e-30, "{rate}");
    assert!(rate.contains("e-") && rate.len() < 16, "{rate}");
}

fn stats_is_a_map_in_resp3_and_a_flat_array_in_resp2(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    client.say("BF.RESERVE k 0.01 10");
    (0..100).for_each(|item| drop(client.say(&format!("BF.ADD k item-{item}"))));
    let flat = client.array(&["BF.STATS", "k"]);
    let Value::Map(map) = server.client3().call(&["BF.STATS", "k"]) else { panic!("no map") };
    assert_eq!((flat.len(), map.len()), (62, 31));
    for (pair, (name, value)) in flat.as_chunks::<2>().0.iter().zip(&map) {
        assert_eq!(show(&pair[0]), show(name));
        match value {
            Value::Double(number) => assert_eq!(show(&pair[1]), format!("\"{number}\"")),
            Value::Boolean(value) => assert_eq!(show(&pair[1]), u8::from(*value).to_string()),
            Value::Array(layers) => {
                let Value::Array(flat_layers) = &pair[1] else { panic!("{}", show(&pair[1])) };
                assert_eq!((layers.len(), flat_layers.len()), (1, 1));
                for (layer, flat_layer) in layers.iter().zip(flat_layers) {
                    let (Value::Map(layer), Value::Array(flat_layer)) = (layer, flat_layer) else { panic!() };
                    assert_eq!((layer.len(), flat_layer.len()), (11, 22));
                }
            }
            other => assert_eq!(show(&pair[1]), show(other)),
        }
    }
}

fn the_allocators_bytes_are_those_of_memory_usage(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    for (rate, capacity) in [("0.01", 100), ("0.001", 10_000), ("0.01", 1_000_000)] {
        client.say("DEL k");
        client.say(&format!("BF.RESERVE k {rate} {capacity}"));
        let reply = client.say("BF.INFO k ALLOCATED-BYTES");
        let allocated: i64 = reply.trim_matches(['[', ']']).parse().unwrap();
        let usage = client.int("MEMORY USAGE k");
        // The server also counts the key.
        assert!(allocated <= usage && usage < allocated + 150, "{allocated} of {usage}");
    }
}

/// All that a table takes from the allocator is in MEMORY USAGE and nearly all in BF.INFO SIZE, while it grows and
/// shrinks; and INFO follows.
fn a_table_takes_what_memory_usage_shows(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    let number = |reply: String| reply.trim_matches(['[', ']']).parse::<u64>().unwrap();
    for creation in ["", "COUNTING ", "WINDOW 86400 ", "CAPACITY 1000 "] {
        client.say("FLUSHALL SYNC");
        wait_until("all is freed", || client.info_number("bf_bytes") == 0);
        let items = |from: u32| (from..from + 5000).map(|item| format!(" {item}")).collect::<String>();
        let mut others_bytes = None;
        client.say(&format!("BF.INSERT k {creation}ITEMS first"));
        let mut check = |client: &mut Client| {
            let [allocated, size] =
                ["ALLOCATED-BYTES", "SIZE"].map(|field| number(client.say(&format!("BF.INFO k {field}"))));
            let usage = client.int("MEMORY USAGE k").unsigned_abs();
            assert!(allocated <= usage && usage < allocated + 150, "{creation}: {allocated} of {usage}");
            assert!(
                size <= allocated && allocated < size + size / 8 + 150,
                "{creation}: {size}, {allocated}"
            );
            assert_eq!(client.info_number("bf_bytes"), size, "{creation}");
            // What the server takes besides is about the same at each check.
            let others = client.info_number("used_memory").cast_signed() - usage.cast_signed();
            let before = *others_bytes.get_or_insert(others);
            let most = usage.cast_signed() / 100 + 30_000;
            assert!(others.abs_diff(before).cast_signed() < most, "{creation}: {others}, {before} before");
            usage
        };
        let mut most = 0;
        for from in (0..60_000).step_by(5000) {
            client.say(&format!("BF.MADD k{}", items(from)));
            most = check(&mut client);
        }
        if creation.starts_with("COUNTING") {
            for from in (0..60_000).step_by(5000) {
                client.say(&format!("BF.DEL k{}", items(from)));
                check(&mut client);
            }
            assert!(check(&mut client) < most / 50);
        }
    }
}

/// Returns the filters, layers, items and capacity of a kind.
fn totals(client: &mut Client, kind: &str) -> [u64; 4] {
    ["filters", "layers", "items", "capacity"].map(|field| client.info_number(&format!("bf_{kind}_{field}")))
}

fn totals_of_every_kind_are_correct_for_its_whole_life(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    client.say("SET string x");
    // The layers and the capacity with 25 items.
    let kinds = [
        ("everbloom", "BF.RESERVE {k}everbloom 0.01 10", 2, 25),
        ("keyed", "BF.RESERVE {k}keyed 0.01 10 KEYED", 2, 25),
        ("redisbloom", "BF.RESERVE {k}redisbloom 0.01 10 FORMAT redisbloom", 2, 30),
        ("valkey_bloom", "BF.RESERVE {k}valkey_bloom 0.01 10 FORMAT valkey-bloom", 2, 30),
        ("counting", "BF.RESERVE {k}counting 0.01 10 COUNTING", 1, 10),
        (
            "imported",
            "BF.IMPORT {k}imported EMPTY SCHEME murmur3-salted BITS 1000 HASHES 5 CAPACITY 10",
            2,
            25,
        ),
    ];
    for (kind, reserve, layers, capacity) in kinds {
        assert_eq!(totals(&mut client, kind), [0; 4], "{kind}");
        assert_eq!(client.say(reserve), "+OK");
        assert_eq!(totals(&mut client, kind), [1, 1, 0, 10], "{kind}");
        let mut item = 0;
        while client.int(&format!("BF.CARD {{k}}{kind}")) < 25 {
            client.say(&format!("BF.ADD {{k}}{kind} item-{item}"));
            item += 1;
        }
        assert_eq!(totals(&mut client, kind), [1, layers, 25, capacity], "{kind}");
        assert!(client.info_number(&format!("bf_{kind}_bytes")) > 100);
        client.say(&format!("COPY {{k}}{kind} {{k}}copy"));
        assert_eq!(totals(&mut client, kind), [2, 2 * layers, 50, 2 * capacity], "{kind}");
        client.say("DEL {k}copy");
        assert_eq!(totals(&mut client, kind), [1, layers, 25, capacity], "{kind}");
    }
    assert_eq!(client.say("DEBUG RELOAD"), "+OK");
    for (kind, _, layers, capacity) in kinds {
        // Earlier filters may be freed in the background.
        wait_until(kind, || totals(&mut client, kind) == [1, layers, 25, capacity]);
    }
    let own =
        ["filters", "layers", "items", "capacity", "bytes"].map(|f| client.info_number(&format!("bf_{f}")));
    assert_eq!(own[..4], [6, 11, 150, 145]);
    let theirs = ["num_objects", "num_filters_across_objects", "num_items_across_objects"];
    let theirs = theirs.map(|field| client.info_number(&format!("bf_bloom_{field}")));
    assert_eq!(theirs, own[..3]);
    assert_eq!(client.info_number("bf_bloom_capacity_across_objects"), own[3]);
    assert_eq!(client.info_number("bf_bloom_total_memory_bytes"), own[4]);
    assert!(client.info("bf_bloom_defrag_hits").is_some() && client.info("bf_bloom_defrag_misses").is_some());
    client.say("FLUSHALL SYNC");
    for (kind, ..) in kinds {
        wait_until(kind, || totals(&mut client, kind) == [0; 4]);
        assert_eq!(client.info_number(&format!("bf_{kind}_bytes")), 0);
    }
}

fn merges_clears_and_deletions_keep_totals_correct(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    client.say("BF.RESERVE {k}own 0.01 10");
    client.say("BF.MADD {k}own a b c");
    client.say("BF.RESERVE {k}other 0.01 20 FORMAT redisbloom");
    client.say("BF.MADD {k}other d e");
    assert_eq!(client.say("BF.MERGE {k}own {k}other"), "+OK");
    assert_eq!(client.say("BF.INFO {k}own KIND"), "[\"union\"]");
    let number = |reply: String| reply.trim_matches(['[', ']']).parse::<u64>().unwrap();
    let [layers, items, capacity] = ["FILTERS", "ITEMS", "CAPACITY"]
        .map(|field| number(client.say(&format!("BF.INFO {{k}}own {field}"))));
    assert!(layers >= 2 && items == 5, "{layers} {items}");
    assert_eq!(totals(&mut client, "everbloom"), [0; 4]);
    assert_eq!(totals(&mut client, "union"), [1, layers, items, capacity]);
    assert_eq!(totals(&mut client, "redisbloom"), [1, 1, 2, 20]);
    assert_eq!(client.say("BF.CLEAR {k}own"), "+OK");
    let kind = client.say("BF.INFO {k}own KIND");
    let cleared = totals(&mut client, kind.trim_matches(['[', ']', '"']));
    assert_eq!((cleared[0], cleared[2]), (1, 0), "{kind}");
    client.say("DEL {k}own {k}other");
    client.say("BF.RESERVE c 0.01 4 COUNTING EXPANSION 1");
    (0..12).for_each(|item| drop(client.say(&format!("BF.ADD c item-{item}"))));
    for item in 0..12 {
        client.say(&format!("BF.DEL c item-{item}"));
        let fields =
            ["FILTERS", "ITEMS", "CAPACITY"].map(|field| number(client.say(&format!("BF.INFO c {field}"))));
        let [layers, items, capacity] = fields;
        assert_eq!(totals(&mut client, "counting"), [1, layers, items, capacity], "without {item}");
    }
    client.say("FLUSHALL SYNC");
    for kind in ["everbloom", "union", "redisbloom", "counting"] {
        wait_until(kind, || totals(&mut client, kind) == [0; 4]);
        assert_eq!(client.info_number(&format!("bf_{kind}_bytes")), 0);
    }
}

/// Returns the numbers of new, known and refused adds, of found and missed lookups, and of growths.
fn counts(client: &mut Client) -> [u64; 6] {
    ["adds", "adds_known", "adds_refused", "checks_found", "checks_missed", "growths"]
        .map(|field| client.info_number(&format!("bf_{field}")))
}

fn operations_on_items_are_counted(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    let mut before = counts(&mut client);
    assert_eq!(before, [0; 6]);
    for (command, more) in [
        ("BF.ADD k a", [1, 0, 0, 0, 0, 0]),
        ("BF.ADD k a", [0, 1, 0, 0, 0, 0]),
        ("BF.MADD k a b c", [2, 1, 0, 0, 0, 0]),
        ("BF.EXISTS k a", [0, 0, 0, 1, 0, 0]),
        ("BF.EXISTS k z", [0, 0, 0, 0, 1, 0]),
        ("BF.EXISTS none z", [0, 0, 0, 0, 1, 0]),
        ("BF.MEXISTS none x y z", [0, 0, 0, 0, 3, 0]),
        ("BF.MEXISTS k a b y z", [0, 0, 0, 2, 2, 0]),
        ("BF.INSERT fixed CAPACITY 2 NONSCALING ITEMS a b c d", [2, 0, 2, 0, 0, 0]),
        ("BF.ADD fixed e", [0, 0, 1, 0, 0, 0]),
        ("BF.MADD fixed a e f", [0, 1, 2, 0, 0, 0]),
        ("BF.INSERT grows CAPACITY 1 EXPANSION 1 ITEMS a b c d", [4, 0, 0, 0, 0, 1]),
        ("BF.ADD grows e", [1, 0, 0, 0, 0, 0]),
        ("BF.INSERT chain CAPACITY 1 EXPANSION 1 FORMAT redisbloom ITEMS a b c d", [4, 0, 0, 0, 0, 3]),
        ("BF.ADD chain e", [1, 0, 0, 0, 0, 1]),
        ("BF.RESERVE k 0.01 10", [0; 6]),
        ("BF.INFO k", [0; 6]),
    ] {
        client.say(command);
        let now = counts(&mut client);
        let difference: Vec<u64> = now.iter().zip(before).map(|(now, before)| now - before).collect();
        assert_eq!(difference, more, "{command}");
        before = now;
    }
    // A batch of more than one group.
    let items: Vec<String> = (0..200).map(|item| format!("i{item}")).collect();
    client.say("BF.RESERVE large 0.000001 1000");
    client.say(&format!("BF.MADD large {}", items[..130].join(" ")));
    client.say(&format!("BF.MEXISTS large {}", items.join(" ")));
    let now = counts(&mut client);
    assert_eq!((now[0] - before[0], now[3] - before[3], now[4] - before[4]), (130, 130, 70));
    assert_eq!(client.info_number("bf_checks"), now[3] + now[4]);
}

fn values_that_cannot_be_loaded_are_counted(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    client.say("BF.RESERVE k 0.01 1000");
    let payload = client.bytes(&["DUMP", "k"]);
    client.say("CONFIG SET bf.max-filter-bytes 1024");
    assert_eq!(client.info_number("bf_load_errors"), 0);
    for errors in 1..3 {
        let reply = client.ask(&[b"RESTORE".as_slice(), b"copy", b"0", &payload]);
        assert!(reply.starts_with("-ERR"), "{reply}");
        assert_eq!(client.info_number("bf_load_errors"), errors);
    }
}

fn growth_raises_an_event_and_sometimes_a_log_line(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    client.say("CONFIG SET notify-keyspace-events Kg");
    let mut subscriber = server.raw();
    assert!(subscriber.say("SUBSCRIBE __keyspace@0__:k").contains("subscribe"));
    client.say("BF.RESERVE k 0.01 1 EXPANSION 1 FORMAT redisbloom");
    let items: Vec<String> = (0..6).map(|item| format!("item-{item}")).collect();
    client.say(&format!("BF.ADD k {}", items[0]));
    client.say(&format!("BF.ADD k {}", items[1]));
    client.say(&format!("BF.MADD k {}", items[2..].join(" ")));
    let mut event = || {
        let message = String::from_utf8_lossy(&subscriber.next()).into_owned();
        message.lines().last().unwrap_or_default().to_owned()
    };
    let expected = ["bloom.reserve", "bloom.add", "bloom.add", "bloom.grow", "bloom.add", "bloom.grow"];
    assert_eq!(expected.map(|_| event()), expected);
    let layers = client.say("BF.INFO k LAYERS");
    assert!(["[5]", "[6]"].contains(&layers.as_str()), "{layers}");
    let log = server.log();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("a filter has grown often")).collect();
    assert_eq!(lines.len(), 1, "{log}");
    assert!(
        lines[0].contains(": 'k' has ") && lines[0].contains(" so far, BF.RESERVE k 0.01 "),
        "{}",
        lines[0]
    );
    let advice = client.say("BF.INFO k ADVICE");
    let advice = advice.trim_matches(['[', ']', '"']);
    assert!(lines[0].ends_with(advice), "{advice} in {}", lines[0]);
}

fn replicas_and_loading_servers_log_no_growth(site: &Site) {
    // A busy disk delays the writes of `everysec`, and the server is killed.
    let launch = site.launch().with("appendonly yes").with("appendfsync always");
    let primary = launch.with("aof-use-rdb-preamble no").start();
    let replica = primary.replica(site.launch());
    let mut client = primary.client();
    client.say("BF.RESERVE k 0.01 1 EXPANSION 1 FORMAT redisbloom");
    (0..20).for_each(|item| drop(client.say(&format!("BF.ADD k item-{item}"))));
    replica.wait_for_primary();
    let mut reader = replica.client();
    let items = client.int("BF.CARD k");
    wait_until("the replica has all", || reader.int("BF.CARD k") == items);
    let warnings = |log: String| log.lines().filter(|line| line.contains("a filter has grown often")).count();
    assert!(warnings(primary.log()) >= 3, "{}", primary.log());
    assert_eq!(warnings(replica.log()), 0, "{}", replica.log());
    let before = warnings(primary.log());
    let primary = primary.restart();
    assert_eq!(primary.client().int("BF.CARD k"), items);
    assert!(warnings(primary.log()) <= before, "{}", primary.log());
}
