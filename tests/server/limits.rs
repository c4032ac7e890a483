//! The largest, the smallest and impossible filters.

use crate::harness::{Client, Site, Test, tests};
use crate::keys::union_of_layers;

pub(crate) const TESTS: &[Test] = tests![
    a_filter_of_a_gigabyte_takes_no_memory_until_it_is_used,
    a_filter_beyond_the_byte_limit_is_refused,
    a_filter_beyond_the_memory_is_refused,
    a_filter_beyond_maxmemory_is_refused,
    growth_beyond_the_byte_limit_is_refused_and_changes_nothing,
    refused_items_are_logged_once_per_filter_and_minute,
    the_byte_limit_counts_every_layer,
    a_table_uses_nearly_all_of_its_limit,
    the_byte_limit_does_not_affect_existing_filters,
    items_of_a_mebibyte_are_accepted,
    a_command_may_carry_many_items,
    a_filter_of_a_thousand_layers_works,
    a_filter_stops_growing_at_its_last_layer,
    tiny_filters_keep_their_items,
];

fn a_filter_of_a_gigabyte_takes_no_memory_until_it_is_used(site: &Site) {
    if site.hides_memory() {
        return;
    }
    let server = site.start();
    let mut client = server.client();
    let before = server.resident_bytes();
    assert_eq!(client.say("BF.RESERVE big 0.01 800000000"), "+OK");
    let size: u64 = client.say("BF.INFO big SIZE").trim_matches(['[', ']']).parse().unwrap();
    assert!(size > 900_000_000, "{size}");
    assert_eq!(client.say("BF.MADD big a b c"), "[1, 1, 1]");
    assert_eq!(client.say("BF.MEXISTS big a b c d"), "[1, 1, 1, 0]");
    let grown = server.resident_bytes().saturating_sub(before);
    assert!(grown < 8 << 20, "{grown} bytes resident");
    assert_eq!(client.int("DEL big"), 1);
    assert_eq!(client.say("BF.RESERVE big 0.01 800000000 NONSCALING"), "+OK");
    assert_eq!(client.int("UNLINK big"), 1);
    let grown = server.resident_bytes().saturating_sub(before);
    assert!(grown < 8 << 20, "{grown} bytes resident after deletion");
}

/// Asserts that a filter was refused because of one of these limits, with its name and its bytes.
pub(crate) fn assert_too_large(reply: &str, limits: &[&str]) {
    assert!(reply.starts_with("-ERR filter would take "), "{reply}");
    let is_named =
        |limit: &&str| reply.contains(&format!(" bytes, more than {limit}: choose a smaller capacity"));
    assert_eq!(limits.iter().filter(|limit| is_named(limit)).count(), 1, "{reply}");
    let setting = limits.iter().find(|limit| is_named(limit)).and_then(|limit| limit.split(' ').next());
    let is_raised = |setting: &str| reply.ends_with(&format!(" or raise {setting}"));
    assert_eq!(setting.is_some_and(is_raised), setting != Some("the"), "{reply}");
}

/// Returns the limit that is the memory of the machine.
fn of_the_machine(client: &mut Client) -> String {
    format!("the machine has ({})", client.info_number("total_system_memory"))
}

fn a_filter_beyond_the_byte_limit_is_refused(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    let machine = of_the_machine(&mut client);
    for command in [
        "BF.RESERVE k 0.01 1099511627776",
        "BF.RESERVE k 0.000001 1099511627776 NONSCALING",
        "BF.RESERVE k 0.0000000001 900000000000 EXPANSION 32768",
        "BF.INSERT k CAPACITY 1099511627776 ITEMS a",
    ] {
        assert_too_large(&client.say(command), &["bf.max-filter-bytes (68719476736)", &machine]);
        assert_eq!(client.int("EXISTS k"), 0);
    }
    client.say("CONFIG SET bf.max-filter-bytes 100000");
    let limit = ["bf.max-filter-bytes (100000)"];
    assert_too_large(&client.say("BF.RESERVE k 0.01 100000"), &limit);
    assert_eq!(client.say("BF.RESERVE k 0.01 50000"), "+OK");
    let size: u64 = client.say("BF.INFO k SIZE").trim_matches(['[', ']']).parse().unwrap();
    assert!(size <= 100_000, "{size}");
    // The limit applies to the defaults too.
    client.say("CONFIG SET bf.initial-size 1000000");
    for command in ["BF.ADD d a", "BF.MADD d a b", "BF.INSERT d ITEMS a"] {
        assert_too_large(&client.say(command), &limit);
    }
    assert_eq!(client.int("EXISTS d"), 0);
}

fn a_filter_beyond_the_memory_is_refused(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    // The operator allows any size; the machine does not.
    assert_eq!(client.say("CONFIG SET bf.max-filter-bytes 70368744177664"), "+OK");
    let machine = of_the_machine(&mut client);
    for capacity in ["1099511627776", "800000000000", "600000000000"] {
        for rate in ["0.01", "0.000001"] {
            let reply = client.say(&format!("BF.RESERVE k {rate} {capacity}"));
            assert_too_large(&reply, &[&machine]);
            assert_eq!(client.int("EXISTS k"), 0);
        }
    }
    assert_eq!(client.say("BF.ADD k a"), "1");
}

fn a_filter_beyond_maxmemory_is_refused(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    client.say("BF.ADD k a");
    client.say("CONFIG SET maxmemory 50mb");
    assert_too_large(&client.say("BF.RESERVE large 0.01 800000000"), &["maxmemory (52428800)"]);
    assert_eq!(client.say("BF.RESERVE small 0.01 1000000"), "+OK");
    assert_eq!(client.say("BF.EXISTS k a"), "1");
    assert_eq!(client.int("EXISTS large"), 0);
}

/// Adds new items until one is refused. Returns the number of accepted items, and the refusal.
fn add_until_refused(client: &mut Client, key: &str, most: u32) -> (i64, String) {
    for item in 0..most {
        let reply = client.say(&format!("BF.ADD {key} item-{item}"));
        if reply.starts_with('-') {
            return (client.int(&format!("BF.CARD {key}")), reply);
        }
    }
    panic!("{most} items and no refusal");
}

fn growth_beyond_the_byte_limit_is_refused_and_changes_nothing(site: &Site) {
    let server = site.launch().with_option("bf.max-filter-bytes 2000").start();
    let mut client = server.client();
    client.say("BF.RESERVE k 0.01 100");
    let (items, refusal) = add_until_refused(&mut client, "k", 5000);
    assert_eq!(refusal, "-ERR problem inserting into filter");
    assert!(items >= 300, "{items}");
    let digest = client.digest("k");
    // Existing items are still found. Each refusal is an element, and the next items follow.
    let refused = "-ERR problem inserting into filter";
    let reply = client.say("BF.MADD k new-1 item-0 new-2 item-1");
    assert_eq!(reply, format!("[{refused}, 0, {refused}, 0]"));
    assert_eq!(client.say("BF.INSERT k ITEMS new-1 item-0"), format!("[{refused}, 0]"));
    assert_eq!(client.digest("k"), digest);
    assert_eq!(client.int("BF.CARD k"), items);
    client.say("CONFIG SET bf.max-filter-bytes 1000000");
    assert_eq!(client.say("BF.ADD k new-1"), "1");
    assert_ne!(client.digest("k"), digest);
}

fn refused_items_are_logged_once_per_filter_and_minute(site: &Site) {
    let launch = site.launch().with_option("bf.max-filter-bytes 2000");
    let primary = launch.start();
    let replica = primary.replica(site.launch());
    let mut client = primary.client();
    client.say("BF.RESERVE grows 0.01 100");
    let (_, refusal) = add_until_refused(&mut client, "grows", 5000);
    assert_eq!(refusal, "-ERR problem inserting into filter");
    client.say("BF.RESERVE fixed 0.0001 2 NONSCALING");
    for number in 0..100 {
        client.say(&format!("BF.MADD grows new-{number} item-0 newer-{number}"));
        client.say(&format!("BF.MADD fixed a b c-{number}"));
        client.say(&format!("BF.BULKADD fixed LINES d-{number}"));
    }
    // A filter of the same name in another database.
    client.say("SELECT 1");
    client.say("BF.RESERVE fixed 0.0001 1 NONSCALING");
    client.say("BF.INSERT fixed NOCREATE ITEMS a b c d");
    let log = primary.log();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("a filter refuses items: ")).collect();
    assert_eq!(lines.len(), 3, "{log}");
    let because = "'grows' has no room for new items: with more items it would take ";
    assert!(lines[0].contains(because), "{}", lines[0]);
    assert!(lines[0].ends_with(" bytes, more than bf.max-filter-bytes (2000)"), "{}", lines[0]);
    let because = "'fixed' has no room for new items: it is fixed and has as many items as its capacity";
    assert!(lines[1..].iter().all(|line| line.contains(because)), "{}", lines[1]);
    replica.wait_for_primary();
    assert!(!replica.log().contains("a filter refuses items"), "{}", replica.log());
}

fn the_byte_limit_counts_every_layer(site: &Site) {
    let server = site.launch().with_option("bf.max-filter-bytes 5000").start();
    let mut client = server.client();
    client.say("BF.RESERVE k 0.01 100 EXPANSION 1 FORMAT valkey-bloom");
    let (items, _) = add_until_refused(&mut client, "k", 100_000);
    let size: u64 = client.say("BF.INFO k BYTES").trim_matches(['[', ']']).parse().unwrap();
    assert!(size <= 5000, "{size}");
    assert!(items > 500, "{items} items in {size} bytes");
}

/// Every kind with a table is refused new items at its limit and not long before, and accepts them when it is raised.
fn a_table_uses_nearly_all_of_its_limit(site: &Site) {
    let server = site.launch().with_option("bf.max-filter-bytes 50000").start();
    let replica = server.replica(site.launch().with("propagation-error-behavior panic"));
    let mut client = server.client();
    for (key, creation, most_bits) in [
        ("unreserved", "", 22),
        ("reserved", "CAPACITY 1000 ", 22),
        ("counting", "COUNTING ", 22),
        ("window", "WINDOW 86400 ", 25),
    ] {
        client.say(&format!("BF.INSERT {key} {creation}ITEMS first"));
        let refused = "-ERR problem inserting into filter";
        let mut from = 0;
        loop {
            let items: Vec<String> = (from..from + 500).map(|item| item.to_string()).collect();
            let words: Vec<&str> =
                ["BF.MADD", key].into_iter().chain(items.iter().map(String::as_str)).collect();
            let replies = client.array(&words);
            from += 500;
            if replies.iter().any(|reply| crate::harness::show(reply) == refused) {
                break;
            }
            assert!(from < 100_000, "{key}");
        }
        let number = |reply: String| reply.trim_matches(['[', ']']).parse::<i64>().unwrap();
        let size = number(client.say(&format!("BF.INFO {key} SIZE")));
        let items = client.int(&format!("BF.CARD {key}"));
        assert!(size <= 50_000 && items * most_bits > 45_000 * 8, "{key}: {items} items in {size} bytes");
        assert_eq!(client.int("WAIT 1 60000"), 1);
        assert_eq!(replica.client().digest(key), client.digest(key), "{key}");
    }
    client.say("CONFIG SET bf.max-filter-bytes 1000000");
    for key in ["unreserved", "reserved", "counting", "window"] {
        let items: String = (0..2000).map(|item| format!(" more-{item}")).collect();
        let reply = client.say(&format!("BF.MADD {key}{items}"));
        assert!(!reply.contains("ERR"), "{key}");
    }
}

fn the_byte_limit_does_not_affect_existing_filters(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    client.say("BF.RESERVE k 0.01 100000");
    client.say("CONFIG SET bf.max-filter-bytes 1024");
    assert_eq!(client.say("BF.MADD k a b"), "[1, 1]");
    assert_eq!(client.say("BF.MEXISTS k a b c"), "[1, 1, 0]");
    assert_eq!(client.say("DEBUG RELOAD"), "+OK");
    assert_eq!(client.say("BF.MEXISTS k a b c"), "[1, 1, 0]");
    assert_eq!(client.int("COPY k l"), 1);
}

fn items_of_a_mebibyte_are_accepted(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    let mut item = vec![b'x'; 1 << 20];
    assert_eq!(client.ask(&[b"BF.ADD".as_slice(), b"k", &item]), "1");
    assert_eq!(client.ask(&[b"BF.ADD".as_slice(), b"k", &item]), "0");
    let last = item.len() - 1;
    item[last] = b'y';
    assert_eq!(client.ask(&[b"BF.EXISTS".as_slice(), b"k", &item]), "0");
    assert_eq!(client.ask(&[b"BF.MADD".as_slice(), b"k", &item, b"short"]), "[1, 1]");
    assert_eq!(client.int("BF.CARD k"), 3);
}

fn a_command_may_carry_many_items(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    let items: Vec<String> = (0..50_000).map(|item| format!("item-{item}")).collect();
    let command =
        |name| -> Vec<&str> { [name, "k"].into_iter().chain(items.iter().map(String::as_str)).collect() };
    client.say("BF.RESERVE k 0.0001 1000");
    let added = client.array(&command("BF.MADD"));
    assert_eq!(added.len(), items.len());
    let new = added.iter().filter(|reply| **reply == redis::Value::Int(1)).count();
    assert_eq!(client.int("BF.CARD k"), i64::try_from(new).unwrap());
    assert!(new > 49_900, "{new}");
    let found = client.array(&command("BF.MEXISTS"));
    assert!(found.len() == items.len() && found.iter().all(|reply| *reply == redis::Value::Int(1)));
}

fn a_filter_of_a_thousand_layers_works(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    union_of_layers(&mut client, "k", 1000);
    assert_eq!(client.array(&["BF.DEBUG", "k"]).len(), 1001);
    for item in 1..=1000 {
        assert_eq!(client.int(&format!("BF.EXISTS k {item}")), 1);
    }
    let digest = client.digest("k");
    assert_eq!(client.int("COPY k copied"), 1);
    crate::dump::travel(&mut client, "k", "travelled");
    let payload = client.bytes(&["DUMP", "k"]);
    client.ask(&[b"RESTORE", b"restored".as_slice(), b"0", &payload]);
    assert_eq!(client.say("DEBUG RELOAD"), "+OK");
    for key in ["k", "copied", "travelled", "restored"] {
        assert_eq!(client.digest(key), digest, "{key}");
    }
}

fn a_filter_stops_growing_at_its_last_layer(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    client.say("BF.RESERVE k 0.01 1 EXPANSION 1 FORMAT redisbloom");
    let (items, refusal) = add_until_refused(&mut client, "k", 10_000);
    assert_eq!(refusal, "-ERR problem inserting into filter");
    assert_eq!(client.say("BF.INFO k FILTERS"), format!("[{items}]"));
    assert!(items >= 1000, "{items}");
    assert_eq!(client.say("BF.ADD k item-0"), "0");
    assert_eq!(client.say("DEBUG RELOAD"), "+OK");
    assert_eq!(client.int("BF.CARD k"), items);
    // A factor that overflows the capacity of the next layer ends the growth too.
    assert_eq!(client.say("BF.RESERVE wide 0.01 1 EXPANSION 32768"), "+OK");
    assert_eq!(client.say("BF.MADD wide a b c d"), "[1, 1, 1, 1]");
}

fn tiny_filters_keep_their_items(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    for rate in ["0.9", "0.5", "0.01", "0.000001", "1e-300", "5e-324"] {
        for options in ["", " NONSCALING", " EXPANSION 1"] {
            client.say("DEL k");
            assert_eq!(client.say(&format!("BF.RESERVE k {rate} 1{options}")), "+OK", "{rate}{options}");
            assert_eq!(client.say("BF.ADD k a"), "1", "{rate}{options}");
            assert_eq!(client.say("BF.ADD k a"), "0", "{rate}{options}");
            assert_eq!(client.say("BF.EXISTS k a"), "1", "{rate}{options}");
            let before = client.digest("k");
            assert_eq!(client.say("DEBUG RELOAD"), "+OK");
            assert_eq!(client.digest("k"), before, "{rate}{options}");
        }
    }
}
