//! Information for operators: BF.STATS, the sections of INFO, and the event and the log line of filters that grow.
//! `totals` tests the totals of INFO.

use redis::Value;

use crate::harness::{Client, Site, Test, numbered, show, tests, wait_until};

pub(crate) const TESTS: &[Test] = tests![
    stats_is_a_map_in_resp3_and_a_flat_array_in_resp2,
    very_small_rates_have_an_exponent,
    bits_take_what_memory_usage_shows,
    a_table_takes_what_memory_usage_shows,
    operations_on_items_are_counted,
    growth_raises_an_event_and_sometimes_a_log_line,
    replicas_and_loading_servers_log_no_growth,
];

fn stats_is_a_map_in_resp3_and_a_flat_array_in_resp2(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    client.say("BF.RESERVE k 0.01 10");
    (0..100).for_each(|item| drop(client.say(&format!("BF.ADD k item-{item}"))));
    let flat = client.array(&["BF.STATS", "k"]);
    let Value::Map(map) = server.client3().call(&["BF.STATS", "k"]) else { panic!("no map") };
    assert_eq!((flat.len(), map.len()), (66, 33));
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

/// Asserts that MEMORY USAGE is ALLOCATED-BYTES and a little more, which the server counts for the key, and that SIZE
/// is close to both. Returns MEMORY USAGE and SIZE.
fn memory_usage(client: &mut Client) -> (u64, u64) {
    let [allocated, size] = ["ALLOCATED-BYTES", "SIZE"].map(|field| client.field("k", field));
    let usage = client.int("MEMORY USAGE k").unsigned_abs();
    assert!(allocated <= usage && usage < allocated + 150, "{allocated} of {usage}");
    assert!(size <= allocated && allocated < size + size / 4 + 150, "{size}, {allocated}");
    assert_eq!(client.info_number("bf_bytes"), size);
    (usage, size)
}

fn bits_take_what_memory_usage_shows(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    for (rate, capacity) in [("0.01", 100), ("0.001", 10_000), ("0.01", 1_000_000)] {
        assert_eq!(client.say(&format!("BF.RESERVE k {rate} {capacity}")), "+OK");
        memory_usage(&mut client);
        client.say("DEL k");
    }
}

/// MEMORY USAGE counts everything that a table takes from the allocator, and BF.INFO SIZE nearly everything, while the
/// table grows, shrinks or expires. `bf_bytes` of INFO follows SIZE.
fn a_table_takes_what_memory_usage_shows(site: &Site) {
    // An entry of the slow log takes some kilobytes.
    let server = site.launch().with("slowlog-log-slower-than -1").start();
    let mut client = server.client();
    for creation in ["", "COUNTING ", "PWINDOW 1400 ", "CAPACITY 1000 "] {
        client.say("FLUSHALL SYNC");
        wait_until("all is freed", || client.info_number("bf_bytes") == 0);
        let mut others_bytes = None;
        client.say(&format!("BF.INSERT k {creation}ITEMS first"));
        let mut check = |client: &mut Client| {
            let (usage, size) = memory_usage(client);
            assert!(usage < size + size / 8 + 300, "{creation}: {size} of {usage}");
            // The memory of the server besides the filter is about the same at each check.
            let others = client.info_number("used_memory").cast_signed() - usage.cast_signed();
            let before = *others_bytes.get_or_insert(others);
            let most = usage.cast_signed() / 100 + 30_000;
            assert!(others.abs_diff(before).cast_signed() < most, "{creation}: {others}, {before} before");
            usage
        };
        let mut most = 0;
        for from in (0..60_000).step_by(5000) {
            client.many("BF.MADD k", &numbered("item", from..from + 5000));
            most = check(&mut client);
        }
        if creation.starts_with("COUNTING") {
            for from in (0..60_000).step_by(5000) {
                client.many("BF.DEL k", &numbered("item", from..from + 5000));
                check(&mut client);
            }
            assert!(check(&mut client) < most / 50);
        }
        if creation.starts_with("PWINDOW") {
            wait_until("all items expire", || client.int("BF.CARD k") == 0);
            // Lookups free nothing. Adds free expired entries, also in segments that get no new items.
            assert_eq!(check(&mut client), most);
            let mut numbers = (0..200_000).step_by(50);
            wait_until("what has expired is freed", || {
                let from = numbers.next().expect("few new items free what has expired");
                client.many("BF.MADD k", &numbered("new", from..from + 50));
                client.field("k", "EXPIRED-ENTRIES") < 100
            });
            assert!(check(&mut client) < most / 2);
        }
    }
}

/// Returns the numbers of new, known and refused adds, of found and missed lookups, of growths, and of adds with a life.
fn counts(client: &mut Client) -> [u64; 7] {
    ["adds", "adds_known", "adds_refused", "checks_found", "checks_missed", "growths", "adds_with_life"]
        .map(|field| client.info_number(&format!("bf_{field}")))
}

fn operations_on_items_are_counted(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    let mut before = counts(&mut client);
    assert_eq!(before, [0; 7]);
    for (command, more) in [
        ("BF.ADD k a", [1, 0, 0, 0, 0, 0, 0]),
        ("BF.ADD k a", [0, 1, 0, 0, 0, 0, 0]),
        ("BF.MADD k a b c", [2, 1, 0, 0, 0, 0, 0]),
        ("BF.EXISTS k a", [0, 0, 0, 1, 0, 0, 0]),
        ("BF.EXISTS k z", [0, 0, 0, 0, 1, 0, 0]),
        ("BF.EXISTS none z", [0, 0, 0, 0, 1, 0, 0]),
        ("BF.MEXISTS none x y z", [0, 0, 0, 0, 3, 0, 0]),
        ("BF.MEXISTS k a b y z", [0, 0, 0, 2, 2, 0, 0]),
        ("BF.INSERT fixed CAPACITY 2 NONSCALING ITEMS a b c d", [2, 0, 2, 0, 0, 0, 0]),
        ("BF.ADD fixed e", [0, 0, 1, 0, 0, 0, 0]),
        ("BF.MADD fixed a e f", [0, 1, 2, 0, 0, 0, 0]),
        ("BF.INSERT grows CAPACITY 1 EXPANSION 1 ITEMS a b c d", [4, 0, 0, 0, 0, 1, 0]),
        ("BF.ADD grows e", [1, 0, 0, 0, 0, 0, 0]),
        ("BF.INSERT chain CAPACITY 1 EXPANSION 1 FORMAT redisbloom ITEMS a b c d", [4, 0, 0, 0, 0, 3, 0]),
        ("BF.ADD chain e", [1, 0, 0, 0, 0, 1, 0]),
        ("BF.BULKADD k FIXED 1 abd", [1, 2, 0, 0, 0, 0, 0]),
        ("BF.BULKEXISTS k COUNT FIXED 1 abz", [0, 0, 0, 2, 1, 0, 0]),
        ("BF.RESERVE k 0.01 10", [0; 7]),
        ("BF.RESERVE lives 0.01 10 WINDOW 1000", [0; 7]),
        ("BF.ADD lives a LIFE 100", [1, 0, 0, 0, 0, 0, 1]),
        ("BF.ADD lives a IFABSENT LIFE 100", [0, 1, 0, 0, 0, 0, 0]),
        ("BF.INSERT lives LIFE 100 ITEMS b c", [2, 0, 0, 0, 0, 0, 2]),
        ("BF.ADD lives d", [1, 0, 0, 0, 0, 0, 0]),
        ("BF.INFO k", [0; 7]),
    ] {
        client.say(command);
        let now = counts(&mut client);
        let difference: Vec<u64> = now.iter().zip(before).map(|(now, before)| now - before).collect();
        assert_eq!(difference, more, "{command}");
        before = now;
    }
    // Commands with more items than one group.
    client.say("BF.RESERVE large 0.000001 1000");
    client.many("BF.MADD large", &numbered("i", 0..130));
    client.many("BF.MEXISTS large", &numbered("i", 0..200));
    let now = counts(&mut client);
    assert_eq!((now[0] - before[0], now[3] - before[3], now[4] - before[4]), (130, 130, 70));
    assert_eq!(client.info_number("bf_checks"), now[3] + now[4]);
}

fn growth_raises_an_event_and_sometimes_a_log_line(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    client.say("CONFIG SET notify-keyspace-events Kg");
    let mut subscriber = server.raw();
    assert!(subscriber.say("SUBSCRIBE __keyspace@0__:k").contains("subscribe"));
    client.say("BF.RESERVE k 0.01 1 EXPANSION 1 FORMAT redisbloom");
    client.say("BF.ADD k item-0");
    client.say("BF.ADD k item-1");
    client.many("BF.MADD k", &numbered("item", 2..6));
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
    // The server is killed later. With `everysec`, a busy disk delays writes, which would then be lost.
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
