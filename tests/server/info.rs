//! Information about filters and the module: BF.INFO, BF.DEBUG, BF.CARD, INFO, MODULE LIST.

use crate::harness::{Client, Site, Test, tests, wait_until};

pub(crate) const TESTS: &[Test] = tests![
    info_follows_a_growing_filter,
    card_counts_items_that_were_added,
    debug_describes_every_layer_and_the_table,
    debug_shows_the_layout_of_small_and_large_layers,
    size_is_the_memory_of_the_filter,
    the_info_section_counts_filters_items_and_bytes,
    the_info_section_counts_adds_and_checks,
    the_module_is_named_bf,
];

fn info_follows_a_growing_filter(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    client.say("BF.RESERVE k 0.001 10");
    let mut size_before = 0;
    // A table is one more filter. Its capacity is its items.
    for (layers, items, capacity) in [(1, 10, 10), (2, 30, 30), (2, 70, 70)] {
        fill(&mut client, "k", items);
        let size = number(&client.say("BF.INFO k SIZE"));
        assert!(size > size_before, "{size} bytes for {items} items");
        size_before = size;
        let expected = format!(
            "[+Capacity, {capacity}, +Size, {size}, +Number of filters, {layers}, +Number of items inserted, \
             {items}, +Expansion rate, 2]"
        );
        assert_eq!(client.say("BF.INFO k"), expected);
    }
}

/// Adds items until the filter counts `items` of them.
fn fill(client: &mut Client, key: &str, items: i64) {
    let mut item = 0;
    while client.int(&format!("BF.CARD {key}")) < items {
        client.say(&format!("BF.ADD {key} item-{item}"));
        item += 1;
    }
}

/// Returns the number in `[n]`.
fn number(reply: &str) -> u64 {
    reply.trim_matches(['[', ']']).parse().unwrap_or_else(|_| panic!("{reply}"))
}

fn card_counts_items_that_were_added(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    assert_eq!(client.say("BF.MADD k a b c"), "[1, 1, 1]");
    assert_eq!(client.say("BF.MADD k a b c"), "[0, 0, 0]");
    assert_eq!(client.int("BF.CARD k"), 3);
    assert_eq!(client.say("BF.INFO k ITEMS"), "[3]");
    client.say("DEL k");
    assert_eq!(client.int("BF.CARD k"), 0);
}

/// Returns a field of a line of BF.DEBUG.
fn field<'a>(line: &'a str, name: &str) -> &'a str {
    line.trim_matches('"')
        .split(' ')
        .find_map(|word| word.strip_prefix(name)?.strip_prefix(':'))
        .unwrap_or_else(|| panic!("no {name} in {line}"))
}

fn debug_lines(client: &mut Client, key: &str) -> Vec<String> {
    client.array(&["BF.DEBUG", key]).iter().map(crate::harness::show).collect()
}

fn debug_describes_every_layer_and_the_table(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    client.say("BF.RESERVE outgrown 0.01 10");
    client.say("BF.ADD unreserved item-0");
    client.say("BF.RESERVE counts 0.01 10 COUNTING");
    client.say("BF.RESERVE window 0.01 10 WINDOW 1000");
    for (key, layers) in [("outgrown", 1), ("unreserved", 0), ("counts", 0), ("window", 0)] {
        fill(&mut client, key, 50);
        let lines = debug_lines(&mut client, key);
        assert_eq!((lines.len(), lines[0].as_str()), (2 + layers, "\"size:50\""), "{lines:?}");
        let table = lines.last().unwrap();
        let size = if layers == 1 { "40" } else { "50" };
        let fields = ["segments", "slots", "size", "void", "saturated"].map(|name| field(table, name));
        assert_eq!(fields, ["1", size, size, "0", "0"], "{key}: {table}");
        let (bytes, rate): (u64, f64) =
            (field(table, "bytes").parse().unwrap(), field(table, "ratio").parse().unwrap());
        assert!((64..2000).contains(&bytes) && rate > 0.0 && rate < 0.01, "{key}: {table}");
        if layers == 1 {
            let layer = ["capacity", "size", "ratio", "layout"].map(|name| field(&lines[1], name));
            assert_eq!(layer, ["10", "10", "0.0075", "scattered"], "{lines:?}");
            let [bytes, bits, hashes, set]: [u64; 4] =
                ["bytes", "bits", "hashes", "set"].map(|name| field(&lines[1], name).parse().unwrap());
            assert!(bits <= bytes * 8 && set > 10 && set <= 10 * hashes && hashes < 50, "{lines:?}");
            // The promise holds over both.
            assert!(rate < 0.0025, "{table}");
        }
    }
}

fn debug_shows_the_layout_of_small_and_large_layers(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    client.say("BF.RESERVE small 0.01 100");
    client.say("BF.RESERVE large 0.01 10000000 NONSCALING");
    let small = debug_lines(&mut client, "small").remove(1);
    let large = debug_lines(&mut client, "large").remove(1);
    assert_eq!(field(&small, "layout"), "scattered", "{small}");
    assert_eq!(field(&large, "layout"), "paged", "{large}");
    assert!(field(&large, "lines").parse::<u32>().unwrap() >= 2, "{large}");
    // The promised bits per item of a fixed filter at 1 %.
    let bits: f64 = field(&large, "bits").parse().unwrap();
    assert!(bits / 1e7 <= 9.70, "{large}");
}

fn size_is_the_memory_of_the_filter(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    for (rate, capacity) in [("0.01", 100), ("0.001", 10_000), ("0.01", 1_000_000)] {
        client.say("DEL k");
        client.say(&format!("BF.RESERVE k {rate} {capacity}"));
        let size = number(&client.say("BF.INFO k SIZE"));
        let line = debug_lines(&mut client, "k").remove(1);
        let bytes: u64 = field(&line, "bytes").parse().unwrap();
        assert!(size > bytes && size < bytes + 300, "{size} for {line}");
        let usage = client.int("MEMORY USAGE k").unsigned_abs();
        // The allocator rounds up by less than a quarter.
        assert!(usage >= size && usage < size + size / 4 + 200, "MEMORY USAGE {usage}, size {size}");
    }
}

fn the_info_section_counts_filters_items_and_bytes(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    assert_eq!(client.info_number("bf_filters"), 0);
    assert_eq!(client.info_number("bf_items"), 0);
    assert_eq!(client.info_number("bf_bytes"), 0);
    client.say("BF.MADD a x y z x");
    client.say("BF.RESERVE b 0.01 1000000");
    client.say("BF.ADD b x");
    assert_eq!(client.info_number("bf_filters"), 2);
    assert_eq!(client.info_number("bf_items"), 4);
    let bytes = client.info_number("bf_bytes");
    assert!((1_200_000..1_500_000).contains(&bytes), "{bytes}");
    client.say("COPY b c");
    assert_eq!(client.info_number("bf_filters"), 3);
    assert_eq!(client.info_number("bf_items"), 5);
    client.say("DEL b c");
    // Some servers free large values in the background.
    wait_until("filters gone", || client.info_number("bf_bytes") < 1000);
    assert_eq!(client.info_number("bf_filters"), 1);
    assert_eq!(client.info_number("bf_items"), 3);
    client.say("BF.RESERVE grows 0.01 10");
    let before = client.info_number("bf_bytes");
    fill(&mut client, "grows", 200);
    assert!(client.info_number("bf_bytes") > before + 100);
    assert_eq!(client.info_number("bf_items"), 203);
    assert_eq!(client.say("SAVE"), "+OK");
    assert_eq!(client.say("DEBUG RELOAD"), "+OK");
    // Some servers free the earlier filters in the background.
    wait_until("the filters of before are gone", || client.info_number("bf_filters") == 2);
    assert_eq!(client.info_number("bf_items"), 203);
    client.say("FLUSHALL SYNC");
    for field in ["bf_filters", "bf_items", "bf_bytes"] {
        wait_until(field, || client.info_number(field) == 0);
    }
}

fn the_info_section_counts_adds_and_checks(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    let (adds, checks) = (client.info_number("bf_adds"), client.info_number("bf_checks"));
    client.say("BF.MADD a x y z");
    client.say("BF.MEXISTS a x y z w");
    client.say("BF.EXISTS a x");
    assert_eq!(client.info_number("bf_adds"), adds + 3);
    assert_eq!(client.info_number("bf_checks"), checks + 5);
}

fn the_module_is_named_bf(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    let list = client.say("MODULE LIST");
    assert!(list.contains("\"name\", \"bf\""), "{list}");
    // The number of release a.b.c is 8ab0c, or 8abcc.
    let release: Vec<i64> = env!("CARGO_PKG_VERSION").split('.').map(|part| part.parse().unwrap()).collect();
    let number = 80_000 + release[0] * 1000 + release[1] * 100 + release[2];
    assert!(list.contains(&format!("\"ver\", {number},")), "{list}");
    assert_eq!(client.info("bf_release").as_deref(), Some(env!("CARGO_PKG_VERSION")));
    let text = String::from_utf8(client.bytes(&["INFO", "modules"])).unwrap();
    assert!(text.contains("module:name=bf,"), "{text}");
    assert!(text.contains("handle-io-errors"), "{text}");
    // Its data types may be in use, so it cannot be unloaded. The attempt has no effect.
    client.say("BF.ADD k a");
    assert!(client.say("MODULE UNLOAD bf").starts_with("-ERR"));
    assert_eq!(client.say("BF.EXISTS k a"), "1");
}
