//! BF.STATS, its fields in BF.INFO, and log lines about filters that have grown.

use everbloom_command::Protocol;

use crate::support::server::Server;

/// Adds the items with these numbers to `k`. A fixed filter may be full.
fn add(server: &mut Server, items: std::ops::Range<u64>) {
    server.batches("BF.MADD k", "item-", items);
}

/// Returns the number of commands that have added layers or a table to a filter.
fn growths(server: &Server) -> usize {
    server.events.iter().filter(|event| **event == "bloom.grow").count()
}

#[test]
fn info_has_five_fields_in_both_protocols() {
    let mut server = Server::new();
    server.run("BF.MADD k a b c");
    let full = server.run("BF.INFO k");
    assert!(full.starts_with("%5 +Capacity :100 +Size :"), "{full}");
    let rest = " +Number of filters :1 +Number of items inserted :3 +Expansion rate :2";
    assert!(full.ends_with(rest), "{full}");
    server.protocol = Protocol::Resp3;
    assert_eq!(server.run("BF.INFO k FILTERS"), "%1 +Number of filters :1");
}

#[test]
fn the_stats_are_one_map_that_has_one_map_per_layer() {
    let mut server = Server::new();
    server.run("BF.RESERVE k 0.01 100 NONSCALING");
    server.run("BF.MADD k a b c");
    let stats = "%33 +type $everbloom +format $everbloom +kind $everbloom +layers :1 +capacity :100 +items :3 \
                 +estimated-items :3 +set-bits :15 +fill ,0.0146484";
    let reply = server.run("BF.STATS k");
    assert!(reply.starts_with(stats), "{reply}");
    let size = server.filter("k").size_bytes();
    for part in [
        " +error-rate ,0.01 +error-rate-max ,0.01 +error-rate-now ,",
        &format!(
            " +bytes :{size} +bits-per-item ,341.333 +allocated-bytes :{} +table-items _ +table-bytes _ \
             +table-segments _ +void-entries _ +saturated-buckets _ +expired-entries _ +expired-bytes _ +steps _ +life-adds _ +hashes :5 \
             +growth $fixed +expansion _",
            size + 9
        ),
        " +keyed #f +import-scheme _ +import-encoding _ +import-order _ +advice _ +per-layer *1",
        "%11 +placement $scattered +bits :1024 +bytes :128 +hashes :5 +capacity :100 +items :3 +estimated-items :3 \
         +set-bits :15 +fill ,0.0146484 +error-rate ,0.01 +error-rate-now ,",
    ] {
        assert!(reply.contains(part), "{part} in {reply}");
    }
}

/// A seed of two equal halves can come only from a primary or a file. It makes a filter exceed its rate, which cannot
/// be seen from the fill.
#[test]
fn the_rate_with_equal_seed_halves_is_measured() {
    for (rate, items) in [(0.1, 3000), (0.01, 1500), (0.01, 3000), (0.0001, 3000)] {
        let mut server = Server::new();
        server.is_replicated = true;
        let seed = "s".repeat(32);
        let insert = format!("BF.INSERT k CAPACITY 3000 ERROR {rate} NONSCALING SEED {seed} ITEMS first");
        assert_eq!(server.run(&insert), "*1 #t");
        server.is_replicated = false;
        add(&mut server, 1..items);
        let measured = server.found("k", "absent-", 0..100_000) as f64 / 100_000.0;
        let now = server.number("k", "ERROR-RATE-NOW");
        println!("{rate} asked, {items} items: {measured} measured, {now} reported");
        assert!((now / measured - 1.0).abs() < 0.35, "{rate}: {measured} measured, {now} reported");
        if items == 3000 {
            assert!(now > 1.3 * rate, "{rate}: {now} reported");
        }
        let estimated = server.number("k", "ESTIMATED-ITEMS");
        assert!((estimated / items as f64 - 1.0).abs() < 0.12, "{rate}: {estimated} of {items}");
    }
}

#[test]
fn every_field_is_also_one_of_info_and_every_kind_on_the_page() {
    let page = include_str!("../../../docs/commands.md");
    let row = page.lines().find(|line| line.starts_with("| `kind` |")).unwrap();
    let mut server = Server::new();
    for reserve in [
        "BF.RESERVE k 0.01 100",
        "BF.RESERVE k 0.01 100 FORMAT redisbloom",
        "BF.RESERVE k 0.01 100 FORMAT valkey-bloom",
        "BF.RESERVE k 0.01 100 COUNTING",
        "BF.RESERVE k 0.01 100 KEYED",
        "BF.RESERVE k 0.01 2",
        "BF.RESERVE k 0.01 100 WINDOW 60",
        "BF.RESERVE k 0.01 100 NONSCALING SATURATE",
        "BF.INSERT k ITEMS first",
        "BF.IMPORT k SOURCE string SCHEME murmur3-salted BITS 8 HASHES 1",
    ] {
        server.keys.clear();
        server.must(reserve);
        if server.filter("k").is_empty() && !reserve.contains("IMPORT") {
            assert!(!server.run("BF.STATS k").contains(",-0"), "{reserve}");
            assert_eq!(server.run("BF.INFO k ERROR-RATE-NOW"), "*1 ,0", "{reserve}");
        }
        let kind = server.run("BF.INFO k KIND").replace("*1 $", "`") + "`";
        assert!(row.contains(&kind), "{kind} in {row}");
        add(&mut server, 0..3);
        let reply = server.run("BF.STATS k");
        let (scalars, _) = reply.split_once(" +per-layer").unwrap();
        let pairs = scalars.split(" +").skip(1).filter_map(|pair| pair.split_once(' '));
        let mut seen = 0;
        for (name, value) in pairs {
            seen += 1;
            for word in [name.to_uppercase(), name.to_owned()] {
                let reply = server.run(&format!("BF.INFO k {word}"));
                assert_eq!(reply, format!("*1 {value}"), "{reserve}: {word}");
            }
        }
        assert_eq!(seen, 32, "{scalars}");
    }
    server.protocol = Protocol::Resp3;
    assert_eq!(server.run("BF.INFO k Import-Scheme"), "%1 +import-scheme $murmur3-salted");
    assert_eq!(server.run("BF.INFO k KIND"), "%1 +kind $imported");
    assert_eq!(server.run("BF.INFO k CAPACITY").split(' ').take(2).collect::<Vec<_>>(), ["%1", "+Capacity"]);
}

/// Returns the value of a field, from a reply of BF.STATS.
fn field<'r>(stats: &'r str, name: &str) -> &'r str {
    let (_, rest) = stats.split_once(&format!(" +{name} ")).unwrap_or_else(|| panic!("{name} in {stats}"));
    rest.split(" +").next().unwrap()
}

#[test]
fn a_table_has_no_fields_of_bits_and_bits_none_of_a_table() {
    const OF_BITS: [&str; 3] = ["set-bits", "fill", "hashes"];
    const OF_TABLES: [&str; 5] =
        ["table-items", "table-bytes", "table-segments", "void-entries", "saturated-buckets"];
    const OF_WINDOWS: [&str; 4] = ["expired-entries", "expired-bytes", "steps", "life-adds"];
    for (reserve, has_bits, has_table) in [
        ("BF.INSERT k ITEMS item-0", false, true),
        ("BF.RESERVE k 0.01 100 COUNTING", false, true),
        ("BF.RESERVE k 0.01 100 WINDOW 60", false, true),
        ("BF.RESERVE k 0.01 20", true, true),
        ("BF.RESERVE k 0.01 100", true, false),
        ("BF.RESERVE k 0.01 20 FORMAT redisbloom", true, false),
        ("BF.RESERVE k 0.01 20 FORMAT valkey-bloom", true, false),
        ("BF.IMPORT k EMPTY SCHEME go-zero BITS 2000 CAPACITY 20", true, true),
    ] {
        let mut server = Server::new();
        server.run(reserve);
        add(&mut server, 0..50);
        let stats = server.run("BF.STATS k");
        let has = |names: &[&str]| names.iter().filter(|name| field(&stats, name) != "_").count();
        assert_eq!(has(&OF_BITS), if has_bits { 3 } else { 0 }, "{stats}");
        assert_eq!(has(&OF_TABLES), if has_table { 5 } else { 0 }, "{stats}");
        assert_eq!(has(&OF_WINDOWS), if reserve.contains("WINDOW") { 4 } else { 0 }, "{stats}");
        assert_eq!(field(&stats, "layers"), if has_bits { field(&stats, "layers") } else { ":0" });
        let filter = server.filter("k");
        assert_eq!(field(&stats, "items"), format!(":{}", filter.items()), "{stats}");
        let parts = format!("*1 :{}", filter.layer_count() + usize::from(has_table));
        let (capacity, items) = (filter.capacity_items(), filter.table().map_or(0, |table| table.items(0)));
        assert!(capacity >= filter.items(), "{reserve}: {capacity}");
        assert_eq!(server.run("BF.INFO k FILTERS"), parts, "{reserve}");
        assert_eq!(server.run("BF.INFO k CAPACITY"), format!("*1 :{capacity}"), "{reserve}");
        if has_table && !reserve.contains("WINDOW") {
            assert_eq!(field(&stats, "table-items"), format!(":{items}"), "{reserve}");
        }
        // One line for the items, one for each layer, and one for the table.
        let debug = server.run("BF.DEBUG k");
        let lines = debug.split(" $").count();
        assert_eq!(format!("*1 :{}", lines - 2), parts, "{debug}");
        assert_eq!(debug.contains(" segments:1 slots:"), has_table, "{debug}");
        assert_eq!(debug.contains(" expired:0 window:60000 "), reserve.contains("WINDOW"), "{debug}");
    }
}

#[test]
fn the_fields_of_a_table_follow_its_items() {
    let mut server = Server::new();
    add(&mut server, 0..1);
    assert_eq!(server.run("BF.INFO k CAPACITY"), "*1 :100");
    add(&mut server, 1..30_000);
    let stats = server.run("BF.STATS k");
    let items: u64 = field(&stats, "items")[1..].parse().unwrap();
    assert!(items > 29_700, "{stats}");
    for name in ["estimated-items", "table-items"] {
        assert_eq!(field(&stats, name), format!(":{items}"), "{name}");
    }
    // With one item more, there are 16 segments.
    assert_eq!(field(&stats, "capacity"), ":51609");
    let filter = server.filter("k");
    let table = filter.table().unwrap();
    assert_eq!(field(&stats, "bytes"), format!(":{}", filter.size_bytes()));
    assert_eq!(field(&stats, "table-bytes"), format!(":{}", table.size_bytes()));
    assert_eq!(field(&stats, "table-segments"), format!(":{}", table.segment_count()));
    assert!(table.segment_count() > 3 && filter.size_bytes() > table.size_bytes());
    let bits: f64 = field(&stats, "bits-per-item")[1..].parse().unwrap();
    assert!(bits > 13.0 && bits < 19.6, "{bits}");
    let now: f64 = field(&stats, "error-rate-now")[1..].parse().unwrap();
    assert!(now > 0.002 && now < 0.005, "{now}");
    assert_eq!(field(&stats, "error-rate-max"), ",0.01");
    assert!(stats.ends_with(" +advice _ +per-layer *0"), "{stats}");
}

#[test]
fn advice_repeats_the_options_of_the_filter() {
    for options in ["", " KEYED", " FORMAT redisbloom", " FORMAT valkey-bloom"] {
        let mut server = Server::new();
        server.run(&format!("BF.RESERVE k 0.001 100 EXPANSION 1{options}"));
        add(&mut server, 0..400);
        assert_eq!(server.run("BF.INFO k ADVICE"), "*1 _", "{options}");
        add(&mut server, 400..950);
        let advice = server.run("BF.INFO k ADVICE");
        let expected = format!("*1 $BF.RESERVE k 0.001 1000{options} would have taken ");
        let expected = [expected.clone(), expected.replace(" 1000", " 900")];
        assert!(expected.iter().any(|expected| advice.starts_with(expected)), "{advice}");
        let number = |word: &str| -> u64 {
            advice.split(word).nth(1).unwrap().split(' ').next().unwrap().parse().unwrap()
        };
        let (bytes, saved_bytes) = (number(" taken "), number(" saved "));
        assert_eq!(server.run("BF.INFO k BYTES"), format!("*1 :{}", bytes + saved_bytes), "{advice}");
        let command =
            advice.split(" would ").next().unwrap().replace("*1 $BF.RESERVE k", "BF.RESERVE advised");
        assert_eq!(server.run(&command), "+OK");
        let debug = server.run("BF.DEBUG advised");
        assert!(debug.contains(&format!("bytes:{bytes} ")), "{advice}: {debug}");
    }
}

/// A table alone gains nothing from a reserved capacity, and the log has no line about its growth.
#[test]
fn a_table_has_neither_advice_nor_log_lines() {
    for reserve in [
        "",
        "BF.RESERVE k 0.01 10 COUNTING",
        "BF.RESERVE k 0.01 10 WINDOW 60",
        "BF.IMPORT k SOURCE string SCHEME murmur3-salted BITS 8 HASHES 1 CAPACITY 5",
    ] {
        let mut server = Server::new();
        if !reserve.is_empty() {
            assert_eq!(server.run(reserve), "+OK");
        }
        add(&mut server, 0..3000);
        assert_eq!((server.run("BF.INFO k ADVICE").as_str(), server.log.len()), ("*1 _", 0), "{reserve}");
    }
    // A reserved filter grows once, by its table. It has advice, but no log line.
    let mut server = Server::new();
    server.run("BF.RESERVE k 0.01 100");
    add(&mut server, 0..3000);
    assert_eq!(growths(&server), 1);
    assert!(server.run("BF.INFO k ADVICE").starts_with("*1 $BF.RESERVE k 0.01 3000 would have taken "));
    assert!(server.log.is_empty(), "{:?}", server.log);
}

#[test]
fn every_fourth_growth_of_a_chain_is_logged_with_advice() {
    let mut server = Server::new();
    server.settings.format = everbloom_filter::Format::RedisBloom;
    let add = |server: &mut Server, items: std::ops::Range<u32>| {
        items.for_each(|item| drop(server.run(&format!("BF.ADD k item-{item}"))));
    };
    add(&mut server, 0..1400);
    assert_eq!((growths(&server), server.log.len()), (3, 0));
    add(&mut server, 1400..3000);
    assert_eq!((growths(&server), server.log.len()), (4, 1));
    let line = server.log.remove(0);
    assert!(line.starts_with("'k' has 5 layers and "), "{line}");
    assert!(line.contains(" bytes for 1501 items; reserve it for all items that you expect: so far, BF.RESERVE k 0.01 2000 FORMAT redisbloom would have taken "), "{line}");
    let advice = server.run("BF.INFO k ADVICE");
    assert!(advice.starts_with("*1 $BF.RESERVE k 0.01 3000 FORMAT redisbloom would have taken "), "{advice}");
    // The recommended command creates a filter of that size.
    let bytes: u64 = advice.split(' ').nth(10).unwrap().parse().unwrap();
    server.run("BF.RESERVE advised 0.01 3000 FORMAT redisbloom");
    assert!(server.run("BF.DEBUG advised").contains(&format!("bytes:{bytes} ")), "{advice}");
}

#[test]
fn a_batch_that_adds_layers_is_logged_once() {
    for format in ["redisbloom", "valkey-bloom"] {
        let mut server = Server::new();
        server.run(&format!("BF.RESERVE k 0.01 10 EXPANSION 1 FORMAT {format}"));
        server.add("k", "i", 0..400);
        assert_eq!(growths(&server), 1, "{format}");
        assert_eq!(server.log.len(), 1, "{format}: {:?}", server.log);
        let expected = format!(" so far, BF.RESERVE k 0.01 400 FORMAT {format} would have taken ");
        assert!(
            server.log[0].contains(&expected) || server.log[0].contains(&expected.replace("400", "500")),
            "{:?}",
            server.log
        );
    }
}
