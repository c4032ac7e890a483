//! The form of numbers, and the meaning of the options of BF.RESERVE and BF.INSERT.

use redis::Value;

use crate::harness::{Client, Site, Test, tests};

pub(crate) const TESTS: &[Test] = tests![
    integers_have_one_canonical_form,
    error_rates_are_floating_point_numbers,
    error_rates_that_are_not_numbers_are_refused,
    iterators_have_one_canonical_form,
    options_may_have_any_order,
    a_filter_grows_by_its_expansion_factor,
    a_filter_without_options_has_the_defaults,
    full_filters_keep_their_error_rate,
    hash_keys_are_random_and_not_shown,
    the_setting_keys_new_filters,
    the_setting_saturates_new_fixed_filters,
];

const NOT_INTEGERS: &[&str] =
    &["", "+5", "007", "-0", " 1", "1 ", "1e3", "1.0", "0x10", "1_000", "5k", "--5", "٣", "\0"];

fn integers_have_one_canonical_form(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    for text in NOT_INTEGERS {
        assert_eq!(client.ask(&["BF.RESERVE", "k", "0.01", text]), "-ERR bad capacity", "{text:?}");
        let expansion = client.ask(&["BF.RESERVE", "k", "0.01", "9", "EXPANSION", text]);
        assert_eq!(expansion, "-ERR bad expansion", "{text:?}");
        let capacity = client.ask(&["BF.INSERT", "k", "CAPACITY", text, "ITEMS", "a"]);
        assert_eq!(capacity, "-Bad capacity", "{text:?}");
        let expansion = client.ask(&["BF.INSERT", "k", "EXPANSION", text, "ITEMS", "a"]);
        assert_eq!(expansion, "-Bad expansion", "{text:?}");
    }
    for capacity in ["1", "2", "10", "99", "100000"] {
        client.say("DEL k");
        assert_eq!(client.ask(&["BF.RESERVE", "k", "0.01", capacity]), "+OK", "{capacity}");
        assert_eq!(client.say("BF.INFO k CAPACITY"), format!("[{capacity}]"));
    }
}

fn error_rates_are_floating_point_numbers(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    let rates = [
        ("0.01", 0.01),
        ("1e-2", 0.01),
        ("1E-2", 0.01),
        (".01", 0.01),
        ("0.010", 0.01),
        ("00.01", 0.01),
        ("0x1p-3", 0.125),
        ("0X1.8P-4", 0.09375),
        ("0.999999", 0.999999),
        ("1e-6", 1e-6),
    ];
    for (text, rate) in rates {
        client.say("DEL k n");
        assert_eq!(client.ask(&["BF.RESERVE", "k", text, "100", "NONSCALING"]), "+OK", "{text}");
        let insert = ["BF.INSERT", "n", "ERROR", text, "NONSCALING", "ITEMS", "a"];
        assert_eq!(client.ask(&insert), "[1]", "{text}");
        for key in ["k", "n"] {
            let debug = client.say(&format!("BF.DEBUG {key}"));
            let (_, ratio) = debug.rsplit_once("ratio:").unwrap();
            let ratio: f64 = ratio.trim_end_matches("\"]").parse().unwrap();
            assert!((ratio - rate).abs() < 1e-12, "{text}: {ratio}");
        }
    }
}

fn error_rates_that_are_not_numbers_are_refused(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    let no_numbers = [
        "", "nan", "NaN", "-nan", " 0.01", "0.01 ", "0.01f", "1e-400", "1e400", "1%", "0,01", ".", "e-2",
        "\0",
    ];
    let out_of_range =
        ["0", "0.0", "-0", "1", "1.0", "2", "-0.01", "inf", "-inf", "infinity", "INF", "1e300", "0x1p0"];
    let range = "-ERR error rate must be in the range (0.000000, 1.000000)";
    for (texts, reserve) in [(no_numbers.as_slice(), "-ERR bad error rate"), (&out_of_range, range)] {
        for text in texts {
            assert_eq!(client.ask(&["BF.RESERVE", "k", text, "100"]), reserve, "{text:?}");
            let insert = client.ask(&["BF.INSERT", "k", "ERROR", text, "ITEMS", "a"]);
            assert_eq!(insert, "-Bad error rate", "{text:?}");
        }
    }
    assert_eq!(client.int("EXISTS k"), 0);
}

fn iterators_have_one_canonical_form(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    client.say("BF.ADD k a");
    for text in NOT_INTEGERS {
        let scan = client.ask(&["BF.SCANDUMP", "k", text]);
        assert_eq!(scan, "-Second argument must be numeric", "{text:?}");
        let load = client.ask(&["BF.LOADCHUNK", "k", text, "data"]);
        assert_eq!(load, "-ERR Second argument must be numeric", "{text:?}");
    }
}

fn options_may_have_any_order(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    let options = ["CAPACITY 77", "ERROR 0.2", "EXPANSION 5"];
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        client.say("DEL k");
        let words: Vec<&str> = order.iter().map(|index| options[*index]).collect();
        assert_eq!(client.say(&format!("BF.INSERT k {} ITEMS a", words.join(" "))), "[1]");
        assert_eq!(client.say("BF.INFO k CAPACITY"), "[77]");
        assert_eq!(client.say("BF.INFO k EXPANSION"), "[5]");
        assert!(client.say("BF.DEBUG k").contains("ratio:0.15"), "{}", client.say("BF.DEBUG k"));
    }
    for options in ["EXPANSION 0 NONSCALING", "NONSCALING EXPANSION 0"] {
        client.say("DEL k");
        assert_eq!(client.say(&format!("BF.RESERVE k 0.01 9 {options}")), "+OK");
        assert_eq!(client.say("BF.INFO k EXPANSION"), "[nil]");
    }
}

fn a_filter_grows_by_its_expansion_factor(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    // Chains of other formats grow by layers; a filter of everbloom's own format by a table, which grows with its
    // items.
    for (format, capacities, filters) in [
        ("redisbloom", [2, 2, 8, 8, 8, 8, 8, 8, 26, 26], 3),
        ("valkey-bloom", [2, 2, 8, 8, 8, 8, 8, 8, 26, 26], 3),
        ("everbloom", [2, 2, 3, 4, 5, 6, 7, 8, 9, 10], 2),
    ] {
        client.say("DEL k");
        assert_eq!(client.say(&format!("BF.RESERVE k 0.0000001 2 EXPANSION 3 FORMAT {format}")), "+OK");
        let mut names = (0..100).map(|item| format!("item-{item}"));
        let mut added = Vec::new();
        for (item, capacity) in capacities.iter().enumerate() {
            // Other formats have false positives in layers as small as these.
            added.push(names.find(|name| client.say(&format!("BF.ADD k {name}")) == "1").unwrap());
            // A filter grows when a new item does not fit, not before.
            assert_eq!(client.say("BF.INFO k CAPACITY"), format!("[{capacity}]"), "{format}, item {item}");
            assert_eq!(client.say("BF.CARD k"), (item + 1).to_string());
        }
        assert_eq!(client.say("BF.INFO k FILTERS"), format!("[{filters}]"), "{format}");
        assert_eq!(client.say("BF.INFO k EXPANSION"), "[3]", "{format}");
        for name in &added {
            assert_eq!(client.say(&format!("BF.EXISTS k {name}")), "1");
            assert_eq!(client.say(&format!("BF.ADD k {name}")), "0");
        }
        assert_eq!(client.say("BF.CARD k"), "10");
    }
}

fn a_filter_without_options_has_the_defaults(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    client.say("BF.ADD a x");
    client.say("BF.MADD b x");
    client.say("BF.INSERT c ITEMS x");
    client.say("BF.INSERT d CAPACITY 100 ERROR 0.01 EXPANSION 2 UNRESERVED ITEMS x");
    let expected = client.say("BF.DEBUG d");
    assert!(expected.contains("segments:1 slots:1 size:1"), "{expected}");
    for key in ["a", "b", "c"] {
        assert_eq!(client.say(&format!("BF.DEBUG {key}")), expected);
        assert_eq!(client.say(&format!("BF.INFO {key} EXPANSION")), "[2]");
        assert_eq!(client.say(&format!("BF.INFO {key} CAPACITY")), "[100]");
        assert_eq!(client.digest(key), client.digest("d"));
    }
}

/// Sends items `prefix-0`, `prefix-1`, ... in batches. Returns the number of replies 1.
fn count_ones(client: &mut Client, command: &str, key: &str, prefix: &str, items: u32) -> f64 {
    const BATCH: u32 = 1000;
    let mut ones = 0;
    for first in (0..items).step_by(BATCH as usize) {
        let batch: Vec<String> =
            (first..items.min(first + BATCH)).map(|item| format!("{prefix}-{item}")).collect();
        let args: Vec<&str> = [command, key].into_iter().chain(batch.iter().map(String::as_str)).collect();
        ones += client.array(&args).iter().filter(|reply| **reply == Value::Int(1)).count();
    }
    f64::from(u32::try_from(ones).unwrap())
}

fn full_filters_keep_their_error_rate(site: &Site) {
    const CHECKS: u32 = 100_000;
    let server = site.start();
    let mut client = server.client();
    // Fixed, scattered and paged; and grown through six layers, filled to the last item of the last one.
    let cases = [
        ("0.01", 10_000, " NONSCALING", 10_000),
        ("0.001", 10_000, " NONSCALING", 10_000),
        ("0.01", 100_000, " NONSCALING", 100_000),
        ("0.01", 500, "", 31_500),
    ];
    for (rate, capacity, options, items) in cases {
        client.say("DEL k");
        assert_eq!(client.say(&format!("BF.RESERVE k {rate} {capacity}{options}")), "+OK");
        // Items that are false positives are not counted, so the filter ends slightly less than full.
        let new = count_ones(&mut client, "BF.MADD", "k", "item", items);
        assert!(new > 0.98 * f64::from(items), "{new} of {items} were new");
        assert_eq!(client.say("BF.CARD k"), new.to_string());
        let found = count_ones(&mut client, "BF.MEXISTS", "k", "item", items);
        assert_eq!(found, f64::from(items), "an item that was added is missing");
        let asked: f64 = rate.parse().unwrap();
        let allowed = asked + 3.0 * (asked * (1.0 - asked) / f64::from(CHECKS)).sqrt();
        let measured = count_ones(&mut client, "BF.MEXISTS", "k", "absent", CHECKS) / f64::from(CHECKS);
        assert!(measured <= allowed, "{measured} for {rate} {capacity}{options}");
        assert!(measured > asked / 5.0, "{measured} for {rate}: are items found at all?");
    }
}

fn hash_keys_are_random_and_not_shown(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    assert_eq!(client.say("BF.RESERVE one 0.01 100 KEYED"), "+OK");
    assert_eq!(client.say("BF.RESERVE other 0.01 100 KEYED"), "+OK");
    assert_ne!(client.digest("one"), client.digest("other"));
    assert_eq!(client.say("BF.DEBUG one"), client.say("BF.DEBUG other"));
    assert_eq!(client.say("BF.INFO one"), client.say("BF.INFO other"));
    // An explicit key creates the same filter.
    for key in ["given", "again"] {
        let made = client.say(&format!("BF.INSERT {key} KEY 0123456789abcdef ITEMS a b"));
        assert_eq!(made, "[1, 1]");
    }
    assert_eq!(client.digest("given"), client.digest("again"));
}

fn the_setting_keys_new_filters(site: &Site) {
    let server = site.launch().with_option("bf.keyed yes").start();
    let mut client = server.client();
    assert_eq!(client.say("BF.ADD one a"), "1");
    assert_eq!(client.say("BF.ADD other a"), "1");
    assert_ne!(client.digest("one"), client.digest("other"));
    assert_eq!(client.say("CONFIG SET bf.keyed no"), "+OK");
    assert_eq!(client.say("BF.ADD plain a"), "1");
    assert_eq!(client.say("BF.ADD plain-too a"), "1");
    assert_eq!(client.digest("plain"), client.digest("plain-too"));
}

fn the_setting_saturates_new_fixed_filters(site: &Site) {
    let server = site.launch().with_option("bf.on-full saturate").start();
    let mut client = server.client();
    assert_eq!(client.say("BF.RESERVE k 0.0001 1 NONSCALING"), "+OK");
    assert_eq!(client.say("BF.MADD k a b c"), "[1, 1, 1]");
    assert_eq!(client.say("BF.RESERVE peer 0.0001 1 NONSCALING FORMAT redisbloom"), "+OK");
    assert_eq!(client.say("BF.MADD peer a b"), "[1, -ERR non scaling filter is full]");
    assert_eq!(client.say("CONFIG SET bf.on-full refuse"), "+OK");
    assert_eq!(client.say("BF.ADD k d"), "1");
    assert_eq!(client.say("BF.RESERVE fixed 0.0001 1 NONSCALING"), "+OK");
    assert_eq!(client.say("BF.MADD fixed a b"), "[1, -ERR non scaling filter is full]");
}
