//! Tests `size`: compares the computed sizes with those of servers.

use serde_json::Value;

use crate::harness::{Client, Site, Test, tests};
use crate::tool::{fail, json, keys, pass, start, url};

pub(crate) const TESTS: &[Test] = tests![
    sizes_are_those_that_a_server_allocates,
    a_filter_that_grew_has_the_predicted_size,
    sizes_of_windows_and_rotating_keys_are_those_of_a_server,
    sizes_of_counting_filters_are_those_of_a_server,
    partitions_are_sized_as_load_reserves_them,
    partitions_have_the_keys_that_load_creates,
    impossible_numbers_are_refused,
];

fn find<'v>(sizes: &'v Value, module: &str, filter: &str) -> &'v Value {
    let filters = sizes["filters"].as_array().unwrap();
    filters.iter().find(|found| found["module"] == module && found["filter"] == filter).unwrap()
}

fn number(size: &Value, name: &str) -> u64 {
    size[name].as_u64().unwrap_or_else(|| panic!("no {name} in {size}"))
}

/// Modules with their formats in everbloom.
const MODULES: [(&str, &str); 3] =
    [("everbloom", "everbloom"), ("RedisBloom", "redisbloom"), ("valkey-bloom", "valkey-bloom")];

fn sizes_are_those_that_a_server_allocates(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    for (items, error) in [("20000000", "0.01"), ("3e6", "0.0001"), ("1e6", "0.2")] {
        let sizes = json(&["size", "--items", items, "--error", error]);
        for (module, format) in MODULES {
            for filter in ["reserved", "fixed"] {
                let size = find(&sizes, module, filter);
                // The command that `size` shows, with the format of the module.
                let command = size["command"].as_str().unwrap();
                let before = client.info_number("used_memory");
                assert_eq!(client.say(&format!("{command} FORMAT {format}")), "+OK", "{command}");
                let taken = client.info_number("used_memory").saturating_sub(before);
                // Some allocators round up to one of four sizes between two powers of two, others to whole pages. The
                // buffers of clients vary.
                let fits = |expected: u64| taken.abs_diff(expected) < expected / 100 + 200_000;
                let [bytes, rounded] = ["bytes", "allocated_bytes"].map(|name| number(size, name));
                assert!(fits(bytes) || fits(rounded), "{size}: {taken} taken");
                let shown = info(&mut client, "key", "SIZE");
                assert!((bytes..bytes + 1000).contains(&shown), "{size}: {shown} shown");
                client.say("DEL key");
            }
        }
    }
    pass("BF.RESERVE key 0.001 100000000", &["size", "--items", "1e8", "--error", "0.001"]);
}

/// Returns the number in a field of BF.INFO.
fn info(client: &mut Client, key: &str, field: &str) -> u64 {
    client.say(&format!("BF.INFO {key} {field}")).trim_matches(['[', ']']).parse().unwrap()
}

/// Asserts that a filter with a table has about the predicted bytes. A sliding-window filter has fewer bytes if nothing
/// has expired, because the prediction includes expired entries.
fn assert_near(size: &Value, actual_bytes: u64) {
    let bytes = number(size, "bytes");
    let least =
        if size["command"].as_str().unwrap().contains("WINDOW") { bytes / 10 * 7 } else { bytes / 8 * 7 };
    assert!(actual_bytes + 400 > least && actual_bytes < bytes + bytes / 8 + 400, "{size}: {actual_bytes}");
    assert!(number(size, "table_bytes") > bytes / 2 && number(size, "layers") == 1, "{size}");
    // A lookup in a table makes no probes.
    assert!(size["probes"].is_null() && size["lines"].is_null(), "{size}");
}

fn a_filter_that_grew_has_the_predicted_size(site: &Site) {
    let (server, mut client, files) = start(site);
    for count in [500, 20_000, 120_000] {
        let file = files.items("items", count);
        for (module, format) in MODULES {
            client.say("DEL key");
            match format {
                "everbloom" => client.say("BF.ADD key first"),
                _ => client.say(&format!("BF.RESERVE key 0.01 100 EXPANSION 2 FORMAT {format}")),
            };
            json(&["load", &url(&server), "key", &file, "--add"]);
            let items = client.int("BF.CARD key").to_string();
            let sizes = json(&["size", "--items", &items]);
            let size = find(&sizes, module, "grown");
            assert_eq!(info(&mut client, "key", "FILTERS"), number(size, "layers"), "{size}");
            if format == "everbloom" {
                assert_eq!(size["command"], "BF.ADD key item");
                assert_near(size, info(&mut client, "key", "SIZE"));
            }
        }
    }
    pass("  -       -      BF.ADD key item\n", &["size", "--items", "1e6"]);
}

/// Returns the size, by BF.INFO, of the filter that a command creates. Deletes the filter.
fn made(client: &mut Client, command: &str) -> u64 {
    assert_eq!(client.say(command), "+OK", "{command}");
    let key = command.split(' ').nth(1).unwrap();
    let shown = info(client, key, "SIZE");
    client.say(&format!("DEL {key}"));
    shown
}

fn sizes_of_windows_and_rotating_keys_are_those_of_a_server(site: &Site) {
    let (server, mut client, files) = start(site);
    for (items, error, window) in [(100_000, "0.001", "7d"), (10_000, "0.01", "15m"), (60_000, "0.02", "2w")]
    {
        let (file, count) = (files.items("items", items), items.to_string());
        let sizes = json(&["size", "--items", &count, "--error", error, "--window", window]);
        for filter in ["reserved", "fixed", "grown"] {
            let size = find(&sizes, "everbloom", filter);
            assert_eq!(client.say(size["command"].as_str().unwrap()), "+OK", "{size}");
            json(&["load", &url(&server), "key", &file, "--add"]);
            assert_near(size, info(&mut client, "key", "SIZE"));
            client.say("DEL key");
        }
        for (module, format) in &MODULES[1..] {
            let size = find(&sizes, module, "rotating");
            assert_eq!(size["keys"], 8, "{size}");
            let command = size["command"].as_str().unwrap();
            let bytes = number(size, "bytes");
            let eight = 8 * made(&mut client, &format!("{command} FORMAT {format}"));
            assert!((bytes..bytes + 8000).contains(&eight), "{size}: {eight}");
        }
        assert!(sizes["filters"].as_array().unwrap().len() == 5 && sizes["window_ms"].is_u64(), "{sizes}");
    }
    let now_s = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let time = |item: u64| now_s - 7 * 86_400 + item * (7 * 86_400) / 100_000;
    let log: String = (0..100_000).map(|item| format!("item-{item},{}\n", time(item))).collect();
    let log = files.write("log", log);
    let columns = ["--csv", "1", "--no-header", "--time", "2"];
    json(&[&["load", &url(&server), "even", &log, "--window", "7d"], &columns[..]].concat());
    let sizes = json(&["size", "--items", "100000", "--window", "7d"]);
    assert_near(find(&sizes, "everbloom", "reserved"), info(&mut client, "even", "SIZE"));
}

fn sizes_of_counting_filters_are_those_of_a_server(site: &Site) {
    let (server, mut client, files) = start(site);
    for (items, error) in [(100_000, "0.001"), (5000, "0.01")] {
        let (file, count) = (files.items("items", items), items.to_string());
        let sizes = json(&["size", "--items", &count, "--error", error, "--counting"]);
        // The Bloom filters of the other modules cannot count.
        assert_eq!((sizes["filters"].as_array().unwrap().len(), &sizes["counting"]), (3, &true.into()));
        for filter in ["reserved", "fixed", "grown"] {
            let size = find(&sizes, "everbloom", filter);
            assert_eq!(client.say(size["command"].as_str().unwrap()), "+OK", "{size}");
            json(&["load", &url(&server), "key", &file, "--add"]);
            assert_near(size, info(&mut client, "key", "SIZE"));
            assert_eq!(client.say("BF.INFO key KIND"), "[\"counting\"]");
            client.say("DEL key");
        }
    }
    let text = "1000000 items at 0.01, each added once\n";
    pass(text, &["size", "--items", "1e6", "--counting"]);
    fail(2, "--window", &["size", "--items", "1e6", "--counting", "--window", "7d"]);
    // `load` refuses this too, before it reads the file or asks the server.
    fail(2, "--window", &["load", "redis://127.0.0.1:1", "k", "none", "--counting", "--window", "7d"]);
}

fn partitions_are_sized_as_load_reserves_them(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    for window in [&[][..], &["--window", "1h"]] {
        let sizes = json(&[&["size", "--capacity", "2e6", "--partitions", "24"], window].concat());
        assert_eq!((&sizes["partitions"], &sizes["items_per_key"]), (&24.into(), &84_489.into()));
        let size = find(&sizes, "everbloom", "reserved");
        let (bytes, command) = (number(size, "bytes"), size["command"].as_str().unwrap());
        assert!(command.starts_with("BF.RESERVE key:{10} 0.01 84489"), "{command}");
        let all = 24 * made(&mut client, command);
        // A window takes memory for its items only.
        let taken = if window.is_empty() { bytes..bytes + 24_000 } else { 0..bytes / 10 };
        assert!(taken.contains(&all), "{size}: {all}");
        let rotating = sizes["filters"].as_array().unwrap().iter().filter(|size| size["keys"] == 24 * 8);
        assert_eq!(rotating.count(), if window.is_empty() { 0 } else { 2 });
    }
    pass("over 24 partitions of 84489", &["size", "--items", "2e6", "--partitions", "24"]);
}

/// Returns the keys of all partitions that `size` names: the first in its commands, the others in its last line.
fn named(count: &str, how: &[&str]) -> Vec<String> {
    let size = [&["size", "--items", "1000", "--partitions", count], how].concat();
    let sizes = json(&size);
    let command = find(&sizes, "everbloom", "reserved")["command"].as_str().unwrap();
    let mut names = vec![command.split(' ').nth(1).unwrap().to_owned()];
    let text = pass("", &size).out;
    if let Some((_, others)) = text.split_once(" in the same way for n = ") {
        let numbers = others.split_once(';').unwrap().0.split(", ");
        names.extend(numbers.map(|number| format!("key:{{{number}}}")));
    }
    names.sort();
    names
}

fn partitions_have_the_keys_that_load_creates(site: &Site) {
    let (server, mut client, files) = start(site);
    let file = files.items("items", 1000);
    for (count, how) in [("1", &[][..]), ("2", &[]), ("24", &[]), ("64", &["--window", "1h"])] {
        json(&[&["load", &url(&server), "key", &file, "--partitions", count], how].concat());
        let made = keys(&mut client);
        assert_eq!(made.len().to_string(), count);
        assert_eq!(named(count, how), made);
        client.say("FLUSHALL");
    }
    // The keys of the other modules, which have a filter for each seventh of the window.
    let text = pass(
        "key:2:{10} to key:8:{10}",
        &["size", "--items", "1000", "--partitions", "24", "--window", "1h"],
    );
    assert!(text.out.contains("BF.RESERVE key:1:{10} 0.00125 "), "{}", text.out);
}

fn impossible_numbers_are_refused(site: &Site) {
    let (server, _, files) = start(site);
    let range = "a filter has at most 1099511627776 items";
    fail(2, range, &["size", "--items", "1e14"]);
    fail(2, range, &["size", "--items", "1e14", "--partitions", "24"]);
    fail(2, range, &["load", &url(&server), "k", &files.items("items", 10), "--capacity", "1099511627777"]);
    fail(2, range, &["load", "redis://127.0.0.1:1", "k", "-", "--capacity", "1e14", "--partitions", "24"]);
    pass("1099511627776 items at 0.01", &["size", "--items", "1099511627776"]);
    pass("over 24 partitions of ", &["size", "--items", "2e13", "--partitions", "24"]);
    for wrong in [
        &["--items", "many"][..],
        &["--items", "10", "--error", "1"],
        &["--items", "10", "--expansion", "0"],
        &["--items", "10", "--window", "99ms"],
        &["--items", "18446744073709551615"],
        &[],
    ] {
        fail(2, "", &[&["size"], wrong].concat());
    }
    // If one module cannot create the filter, `size` shows the others.
    let sizes = json(&["size", "--items", "5e9"]);
    assert!(number(find(&sizes, "everbloom", "reserved"), "bytes") > 5_000_000_000);
}
