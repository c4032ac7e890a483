//! Tests `size`: compares the computed sizes with those of servers.

use serde_json::Value;

use crate::harness::{Client, Site, Test, tests};
use crate::tool::{Files, json, run, url};

pub(crate) const TESTS: &[Test] = tests![
    sizes_are_those_that_a_server_allocates,
    a_filter_that_grew_has_the_predicted_layers,
    sizes_of_windows_and_rotating_keys_are_those_of_a_server,
    the_size_of_a_burst_is_that_of_a_server,
    partitions_are_sized_as_load_reserves_them,
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
                // Some allocators round up to one of four sizes between two powers of two, some to pages. The buffers
                // of clients vary.
                let fits = |expected: u64| taken.abs_diff(expected) < expected / 100 + 200_000;
                let [bytes, rounded] = ["bytes", "allocated_bytes"].map(|name| number(size, name));
                assert!(fits(bytes) || fits(rounded), "{size}: {taken} taken");
                let shown = client.say("BF.INFO key SIZE");
                let shown: u64 = shown.trim_matches(['[', ']']).parse().unwrap();
                assert!((bytes..bytes + 1000).contains(&shown), "{size}: {shown} shown");
                client.say("DEL key");
            }
        }
    }
    let ended = run(&["size", "--items", "1e8", "--error", "0.001"]);
    assert!(ended.code == Some(0) && ended.out.contains("BF.RESERVE key 0.001 100000000"), "{}", ended.out);
}

fn a_filter_that_grew_has_the_predicted_layers(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    let files = Files::new();
    let file = files.items("items", 20_000);
    for (module, format) in MODULES {
        client.say("DEL key");
        client.say(&format!("BF.RESERVE key 0.01 100 EXPANSION 2 FORMAT {format}"));
        json(&["load", &url(&server), "key", &file, "--add"]);
        let items = client.int("BF.CARD key").to_string();
        let sizes = json(&["size", "--items", &items]);
        let layers = number(find(&sizes, module, "grown"), "layers");
        assert_eq!(client.say("BF.INFO key FILTERS"), format!("[{layers}]"), "{module}");
    }
}

/// Creates a filter with a command, deletes it, and returns its size by BF.INFO.
fn made(client: &mut Client, command: &str) -> u64 {
    assert_eq!(client.say(command), "+OK", "{command}");
    let key = command.split(' ').nth(1).unwrap();
    let shown = client.say(&format!("BF.INFO {key} SIZE"));
    client.say(&format!("DEL {key}"));
    shown.trim_matches(['[', ']']).parse().unwrap()
}

fn sizes_of_windows_and_rotating_keys_are_those_of_a_server(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    for (items, error, window) in [("1e6", "0.001", "7d"), ("10000", "0.01", "250ms"), ("2e7", "0.02", "90s")]
    {
        let sizes = json(&["size", "--items", items, "--error", error, "--window", window]);
        for filter in ["reserved", "fixed"] {
            let size = find(&sizes, "everbloom", filter);
            let (bytes, command) = (number(size, "bytes"), size["command"].as_str().unwrap());
            assert!((bytes..bytes + 1000).contains(&made(&mut client, command)), "{size}");
            assert!(size["lines"].as_u64() <= size["probes"].as_u64() && size["keys"] == 1, "{size}");
        }
        // A filter that grows is larger, since each layer is twice as large as the one before.
        let [grown, reserved] = ["grown", "reserved"].map(|filter| find(&sizes, "everbloom", filter));
        assert!(number(grown, "bytes") > number(reserved, "bytes"), "{grown}");
        for (module, format) in &MODULES[1..] {
            let size = find(&sizes, module, "rotating");
            assert_eq!(size["keys"], 8, "{size}");
            let command = size["command"].as_str().unwrap();
            let bytes = number(size, "bytes");
            let eight = 8 * made(&mut client, &format!("{command} FORMAT {format}"));
            assert!((bytes..bytes + 8000).contains(&eight), "{size}: {eight}");
        }
        assert_eq!(sizes["filters"].as_array().unwrap().len(), 5);
    }
    assert_eq!(json(&["size", "--items", "10", "--window", "7d"])["window_ms"], 7 * 86_400_000);
    for wrong in ["0", "99ms", "soon", "99999999999d"] {
        assert_eq!(run(&["size", "--items", "10", "--window", wrong]).code, Some(2), "{wrong}");
    }
}

fn the_size_of_a_burst_is_that_of_a_server(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    let files = Files::new();
    let file = files.items("items", 200_000);
    let sizes = json(&["size", "--items", "2e5", "--window", "7d"]);
    let reserved = find(&sizes, "everbloom", "reserved");
    json(&["load", &url(&server), "k", &file, "--window", "7d"]);
    let shown = client.say("BF.INFO k SIZE");
    let shown: u64 = shown.trim_matches(['[', ']']).parse().unwrap();
    let at_once = number(&reserved["at_once"], "bytes");
    assert!((at_once..at_once + 1000).contains(&shown), "{reserved}: {shown}");
    assert_eq!(
        client.say("BF.INFO k FILTERS"),
        format!("[{}]", number(&reserved["at_once"], "layers")),
        "{reserved}"
    );
    // A burst takes more memory than the same items at an even pace.
    assert!(at_once > number(reserved, "bytes"), "{reserved}");
    let now_s = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let time = |item: u64| now_s - 7 * 86_400 + item * (7 * 86_400) / 200_000;
    let log: String = (0..200_000).map(|item| format!("item-{item},{}\n", time(item))).collect();
    let log = files.write("log", log);
    let columns = ["--csv", "1", "--no-header", "--time", "2"];
    json(&[&["load", &url(&server), "even", &log, "--window", "7d"], &columns[..]].concat());
    let shown = client.say("BF.INFO even SIZE");
    let shown: u64 = shown.trim_matches(['[', ']']).parse().unwrap();
    let bytes = number(reserved, "bytes");
    assert!((bytes..bytes + 1000).contains(&shown), "{reserved}: {shown}");
    // A filter of fixed size refuses such a burst; the other modules have no windows.
    for (module, filter) in [("everbloom", "fixed"), ("RedisBloom", "rotating")] {
        assert!(find(&sizes, module, filter)["at_once"].is_null(), "{sizes}");
    }
    let ended = run(&["size", "--items", "2e5", "--window", "7d"]);
    assert!(ended.out.contains("at once"), "{}", ended.out);
    let ended = run(&["size", "--items", "2e5"]);
    assert!(!ended.out.contains("at once"), "{}", ended.out);
}

fn partitions_are_sized_as_load_reserves_them(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    for window in [&[][..], &["--window", "1h"]] {
        let sizes = json(&[&["size", "--capacity", "2e6", "--partitions", "24"], window].concat());
        assert_eq!((&sizes["partitions"], &sizes["items_per_key"]), (&24.into(), &84_489.into()));
        let size = find(&sizes, "everbloom", "reserved");
        let (bytes, command) = (number(size, "bytes"), size["command"].as_str().unwrap());
        assert!(command.starts_with("BF.RESERVE key:{0} 0.01 84489"), "{command}");
        let all = 24 * made(&mut client, command);
        assert!((bytes..bytes + 24_000).contains(&all), "{size}: {all}");
        let rotating = sizes["filters"].as_array().unwrap().iter().filter(|size| size["keys"] == 24 * 8);
        assert_eq!(rotating.count(), if window.is_empty() { 0 } else { 2 });
    }
    let ended = run(&["size", "--items", "2e6", "--partitions", "24"]);
    assert!(
        ended.out.contains("{1} to {23}") && ended.out.contains("over 24 partitions of 84489"),
        "{}",
        ended.out
    );
}

fn impossible_numbers_are_refused(_: &Site) {
    for wrong in [
        &["--items", "0"][..],
        &["--items", "many"],
        &["--items", "10", "--error", "0"],
        &["--items", "10", "--error", "1"],
        &["--items", "10", "--error", "NaN"],
        &["--items", "10", "--expansion", "0"],
        &["--items", "18446744073709551615"],
        &[],
    ] {
        let ended = run(&[&["size"], wrong].concat());
        assert!(ended.code == Some(2) && !ended.err.is_empty(), "{wrong:?}: {:?} {}", ended.code, ended.out);
    }
    // If one module cannot create the filter, `size` shows the others.
    let sizes = json(&["size", "--items", "5e9"]);
    assert!(number(find(&sizes, "everbloom", "reserved"), "bytes") > 5_000_000_000);
}
