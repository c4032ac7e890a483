//! docs/monitoring.md documents the fields of INFO, the dashboard and the alerts use only these, and the script of the
//! exporter reports them. The totals are those of the existing filters.

use std::collections::{BTreeMap, BTreeSet};

use redis::Value;

use crate::dump::{chunk, load};
use crate::harness::{Client, Server, Site, Test, show, tests, wait_until};
use crate::support::Random;

pub(crate) const TESTS: &[Test] = tests![
    every_documented_field_is_shown_and_every_field_is_documented,
    the_dashboard_and_the_alerts_use_documented_names,
    the_script_reports_each_filter_with_the_documented_permissions,
    the_script_has_limits,
    totals_are_the_sums_over_all_filters_after_random_commands,
    a_saturated_item_count_stops_at_its_limit,
    evicted_and_expired_filters_are_not_counted,
];

const SCRIPT: &str = include_str!("../../docs/redis-exporter.lua");
/// The line with the limits of the script. Tests change it: they must not depend on the load of the machine.
const LIMITS: &str = "local filters_max, keys_max, ms_max = 100, 10000, 10\n";

/// The page.
const PAGE: &str = include_str!("../../docs/monitoring.md");

/// Returns the texts in backquotes, in the order of the page.
fn quoted() -> impl Iterator<Item = &'static str> {
    let prose = PAGE.split("```").step_by(2);
    prose.flat_map(|text| text.split('`').skip(1).step_by(2))
}

/// Returns the kinds of filters, by the first part of their fields.
fn kinds() -> BTreeSet<&'static str> {
    quoted().filter_map(|word| word.strip_suffix("_...")).collect()
}

/// How names begin that the script for the exporter adds for single filters.
const OF_FILTERS: &str = "bf_filter_";

/// Returns the names that the script adds, without keys.
fn of_filters() -> BTreeSet<&'static str> {
    let names = quoted().filter(|word| word.starts_with(OF_FILTERS));
    names.map(|word| word.split(':').next().unwrap_or(word)).collect()
}

/// Returns every field of INFO that the page names.
fn fields() -> BTreeSet<String> {
    let is_field =
        |word: &&str| word.starts_with("bf_") && !word.starts_with(OF_FILTERS) && !word.ends_with('.');
    let whole = quoted().filter(is_field);
    let of_kinds = kinds().into_iter().flat_map(|kind| {
        quoted().filter(|word| word.starts_with('_')).map(move |field| format!("{kind}{field}"))
    });
    whole.map(str::to_owned).chain(of_kinds).collect()
}

fn every_documented_field_is_shown_and_every_field_is_documented(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    let text = String::from_utf8(client.bytes(&["INFO", "bf"])).unwrap();
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    let shown: BTreeSet<String> = pairs.map(|(name, _)| name.to_owned()).collect();
    assert_eq!(shown, fields());
    // The script of the exporter finds all of them.
    let pairs = client.array(&["EVAL", SCRIPT, "0"]);
    let found = pairs.as_chunks::<2>().0.iter().map(|[name, _]| show(name).replace('"', ""));
    let of_info = found.filter(|name| !name.starts_with(OF_FILTERS));
    assert_eq!(of_info.collect::<BTreeSet<_>>(), shown);
}

fn the_dashboard_and_the_alerts_use_documented_names(_: &Site) {
    for file in ["grafana-dashboard.json", "prometheus-alerts.yaml"] {
        let path = format!("{}/docs/{file}", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(path).unwrap().replace("\\\"", "\"");
        let mut checked = 0;
        for query in text.split("redis_script_values{").skip(1) {
            let (matcher, value) = query.split_once('"').unwrap();
            let value = value.split('"').next().unwrap();
            // A pattern is that of a value of each filter, or of a field of each kind.
            let is_documented = if let Some(name) = value.strip_suffix(":.+") {
                of_filters().contains(name)
            } else if let Some((before, rest)) = value.split_once('(') {
                let (choices, after) = rest.split_once(')').unwrap();
                let named: BTreeSet<String> =
                    choices.split('|').map(|kind| format!("{before}{kind}")).collect();
                named.iter().map(String::as_str).eq(kinds())
                    && named.iter().all(|kind| fields().contains(&format!("{kind}{after}")))
            } else {
                fields().contains(value)
            };
            assert!(is_documented && matcher.starts_with("key="), "{file}: {value} is not documented");
            checked += 1;
        }
        assert!(checked > 4, "{file}: {checked} queries");
    }
}

/// Runs the script with other limits. Returns what it reports of filters, by name.
fn reported(client: &mut Client, limits: &str) -> BTreeMap<String, f64> {
    assert!(SCRIPT.contains(LIMITS));
    let script = SCRIPT.replace(LIMITS, limits);
    let pairs = client.array(&["EVAL", &script, "0"]);
    let text = |value| show(value).trim_matches('"').to_owned();
    let pairs = pairs.as_chunks::<2>().0.iter().map(|[name, value]| (text(name), text(value)));
    pairs
        .filter(|(name, _)| name.starts_with(OF_FILTERS))
        .map(|(name, value)| (name, value.parse().unwrap()))
        .collect()
}

/// Limits without one of time.
const PATIENT: &str = "local filters_max, keys_max, ms_max = 100, 10000, 100000\n";

/// Makes filters of several kinds: full, grown and nearly empty ones.
fn make_filters(client: &mut Client) {
    let items = |count: u32| (0..count).map(|item| format!(" {item}")).collect::<String>();
    for line in [
        "BF.RESERVE full 0.01 100 NONSCALING",
        "BF.RESERVE beyond 0.01 100 NONSCALING SATURATE",
        "BF.RESERVE window 0.01 100 WINDOW 1000",
        "BF.RESERVE redisbloom 0.01 100 FORMAT redisbloom",
        "BF.RESERVE valkey-bloom 0.01 100 FORMAT valkey-bloom",
        "BF.RESERVE quiet 0.01 1000",
        "BF.RESERVE grown 0.01 100 FORMAT redisbloom",
    ] {
        assert_eq!(client.say(line), "+OK");
    }
    // Some items seem to be present.
    for (key, count) in
        [("full", 130), ("beyond", 400), ("grown", 2600), ("unreserved", 2600), ("window", 10), ("quiet", 10)]
    {
        client.say(&format!("BF.MADD {key}{}", items(count)));
    }
}

fn the_script_reports_each_filter_with_the_documented_permissions(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    make_filters(&mut client);
    client.say("SET string x");
    client.ask(&["BF.ADD", "a key\\ \u{e9}", "item"]);
    let permissions = PAGE.split("Its user needs `").nth(1).unwrap().split('`').next().unwrap();
    client.say(&format!("ACL SETUSER exporter on nopass +time {permissions}"));
    let mut exporter = server.client();
    assert_eq!(exporter.say("AUTH exporter x"), "+OK");
    let found = reported(&mut exporter, PATIENT);
    let number = |client: &mut Client, key: &str, field: &str| -> f64 {
        let Some(value) = client.array(&["BF.INFO", key, field]).first().map(show) else { panic!("{field}") };
        value.trim_matches('"').parse().unwrap()
    };
    for key in ["full", "beyond", "grown", "unreserved", "window", "redisbloom", "valkey-bloom", "quiet"] {
        let rate = number(&mut client, key, "ERROR-RATE-NOW");
        assert_eq!(found[&format!("bf_filter_error_rate:{key}")], rate, "{key}");
        let layers = number(&mut client, key, "LAYERS");
        assert_eq!(found[&format!("bf_filter_layers:{key}")], layers, "{key}");
    }
    let of = |name: &str| -> Vec<&str> {
        found.keys().filter_map(|found| found.strip_prefix(name)?.strip_prefix(':')).collect()
    };
    let escaped = "a\\\\x20key\\\\x5C\\\\x20\\\\xC3\\\\xA9";
    assert_eq!(of("bf_filter_layers").first(), Some(&escaped));
    assert_eq!(
        of("bf_filter_capacity_used"),
        ["beyond", "full", "grown", "quiet", "redisbloom", "valkey-bloom"],
        "those with a capacity that can be used up"
    );
    assert!(!of("bf_filter_error_rate_ratio").contains(&"redisbloom"), "its rate is unknown");
    assert_eq!(found["bf_filter_capacity_used:full"], 1.0);
    assert_eq!(found["bf_filter_capacity_used:quiet"], 0.01);
    let ratio = found["bf_filter_error_rate_ratio:beyond"];
    assert_eq!(ratio, found["bf_filter_error_rate:beyond"] / 0.01, "{ratio}");
    assert_eq!(found["bf_filter_layers:grown"], 5.0);
    assert_eq!(found["bf_filter_reports"], 9.0);
    let kinds: BTreeSet<&str> = found.keys().map(|name| name.split(':').next().unwrap()).collect();
    assert_eq!(kinds, of_filters());
}

fn the_script_has_limits(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    for number in 0..150 {
        client.say(&format!("BF.ADD f{number} item"));
    }
    let reports = |client: &mut Client, limits: &str| reported(client, limits)["bf_filter_reports"];
    assert_eq!(reports(&mut client, PATIENT), 100.0);
    assert_eq!(reports(&mut client, "local filters_max, keys_max, ms_max = 100, 10000, -1\n"), 0.0);
    let named = SCRIPT.replace("local keys = {}\n", "local keys = { \"f149\", \"no filter\" }\n");
    let named = client.array(&["EVAL", &named.replace(LIMITS, PATIENT), "0"]);
    assert!(named.iter().any(|name| show(name) == "\"bf_filter_layers:f149\""));
    assert_eq!(show(named.last().unwrap()), "\"1\"");
    client.say("DEBUG POPULATE 30000");
    client.say("CONFIG RESETSTAT");
    reported(&mut client, PATIENT);
    let searches = client.info("cmdstat_scan").unwrap();
    assert!(searches.starts_with("calls=100,"), "{searches}");
}

/// The totals of one kind: filters, bytes, layers, items, capacity.
type Totals = [u64; 5];

/// Returns the totals of each kind from INFO.
fn totals(client: &mut Client) -> BTreeMap<String, Totals> {
    let text = String::from_utf8(client.bytes(&["INFO", "bf"])).unwrap();
    let number = |name: &str| -> u64 {
        let found = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        found.unwrap_or_else(|| panic!("no {name}")).parse().unwrap()
    };
    let suffixes = ["filters", "bytes", "layers", "items", "capacity"];
    let of = |kind: &str| suffixes.map(|suffix| number(&format!("{kind}_{suffix}")));
    let totals: BTreeMap<_, _> = kinds().iter().map(|kind| ((*kind).to_owned(), of(kind))).collect();
    let sums: Totals = std::array::from_fn(|place| totals.values().map(|totals| totals[place]).sum());
    assert_eq!(sums, of("bf"));
    let theirs = ["num_objects", "total_memory_bytes", "num_filters_across_objects"];
    let theirs = theirs.iter().chain(&["num_items_across_objects", "capacity_across_objects"]);
    let theirs: Vec<u64> = theirs.map(|name| number(&format!("bf_bloom_{name}"))).collect();
    assert_eq!(theirs, sums);
    totals
}

/// Returns the totals of each kind from BF.STATS of every key in databases 0 and 1.
fn counted(client: &mut Client) -> BTreeMap<String, Totals> {
    let mut totals: BTreeMap<String, Totals> =
        kinds().iter().map(|kind| ((*kind).to_owned(), [0; 5])).collect();
    for database in ["1", "0"] {
        client.call(&["SELECT", database]);
        for key in client.array(&["KEYS", "*"]) {
            let key = show(&key).replace('"', "");
            if client.say(&format!("TYPE {key}")) == "+string" {
                continue;
            }
            let Ok(Value::Array(stats)) = client.try_call(&["BF.STATS", &key]) else { continue };
            let field = |name: &str| -> &Value {
                let pairs = &mut stats.as_chunks::<2>().0.iter();
                &pairs.find(|pair| show(&pair[0]).trim_start_matches('+') == name).unwrap()[1]
            };
            let number = |name: &str| show(field(name)).parse::<u64>().unwrap();
            let kind = format!("bf_{}", show(field("kind")).replace('"', "").replace('-', "_"));
            let mut more = ["bytes", "layers", "items", "capacity"].map(number);
            // A table counts as a layer.
            more[1] += u64::from(*field("table-segments") != Value::Nil);
            // The expiry of an item raises no event.
            more[2] *= u64::from(kind != "bf_window");
            let sums = totals.get_mut(&kind).unwrap_or_else(|| panic!("{kind}"));
            let more = std::iter::once(1).chain(more);
            sums.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
        }
    }
    totals
}

/// Asserts that both totals agree. It retries, because filters may be freed in the background, and keys may expire
/// between two commands.
fn assert_totals(client: &mut Client, when: &str) {
    let mut last = (counted(client), totals(client));
    for _ in 0..200 {
        if last.0 == last.1 {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
        last = (counted(client), totals(client));
    }
    panic!("{when}: counted {:?}, in INFO {:?}", last.0, last.1);
}

/// Commands that create filters of every kind, with equal and different sizes and shapes for merges.
const MAKERS: [&str; 10] = [
    "BF.RESERVE {k} 0.01 20 EXPANSION 1",
    "BF.RESERVE {k} 0.001 100",
    "BF.RESERVE {k} 0.01 50 NONSCALING",
    "BF.RESERVE {k} 0.01 20 NONSCALING SATURATE",
    "BF.RESERVE {k} 0.01 20 FORMAT redisbloom",
    "BF.RESERVE {k} 0.01 20 FORMAT valkey-bloom",
    "BF.RESERVE {k} 0.01 10 COUNTING EXPANSION 1",
    "BF.RESERVE {k} 0.01 20 KEYED",
    "BF.RESERVE {k} 0.01 20 EXPANSION 1 PWINDOW 300",
    "BF.IMPORT {k} EMPTY SCHEME murmur3-salted BITS 1000 HASHES 5 CAPACITY 10",
];

/// Runs one random command; some are refused.
fn disturb(client: &mut Client, random: &mut Random) -> String {
    let key = |random: &mut Random| format!("{{k}}{}", random.below(10));
    let (one, other) = (key(random), key(random));
    let items = |random: &mut Random| {
        // Sometimes enough for a table to grow and shrink.
        let (count, most) = if random.below(6) == 0 { (500, 4000) } else { (30, 300) };
        let count = 1 + random.below(count);
        (0..count).map(|_| format!("i{}", random.below(most))).collect::<Vec<_>>().join(" ")
    };
    let line = match random.below(24) {
        0..4 => random.choose(&MAKERS).replace("{k}", &one),
        4..9 => format!("BF.MADD {one} {}", items(random)),
        9 | 10 => format!("BF.ADD {one} i{}", random.below(300)),
        11 => format!("BF.INSERT {one} CAPACITY 5 ITEMS {}", items(random)),
        12 | 13 => format!("BF.DEL {one} {}", items(random)),
        14 => format!("BF.CLEAR {one}"),
        15 => format!("BF.MERGE {one} {other}"),
        16 => format!("BF.MERGE {one} {other} {} FORCE", key(random)),
        17 => format!("COPY {one} {other} REPLACE"),
        18 => format!("COPY {one} {other} DB 1 REPLACE"),
        19 => format!("RENAME {one} {other}"),
        20 => format!("{} {one}", random.choose(&["DEL", "UNLINK"])),
        21 => {
            if let Value::BulkString(payload) = client.call(&["DUMP", &one]) {
                client.ask(&[b"RESTORE".as_slice(), other.as_bytes(), b"0", &payload, b"REPLACE"]);
            }
            format!("EXISTS {other}")
        }
        22 => match random.below(3) {
            0 => format!("SET {one} x"),
            1 => format!("PEXPIRE {one} 1"),
            _ => format!("MOVE {one} 1"),
        },
        _ => match random.below(8) {
            0 => "FLUSHDB".to_owned(),
            1 => "SWAPDB 0 1".to_owned(),
            2 => {
                expire(client);
                "DEBUG RELOAD".to_owned()
            }
            _ => {
                let count = *random.choose(&[1, usize::MAX]);
                chunks(client, &one, &other, count)
            }
        },
    };
    let _ = client.try_call(&line.split(' ').collect::<Vec<_>>());
    line
}

/// Reads every key, so that expired ones are deleted: a reload drops those too, without replicating it.
fn expire(client: &mut Client) {
    std::thread::sleep(std::time::Duration::from_millis(5));
    let keys: Vec<_> = (0..10).map(|key| format!("{{k}}{key}")).collect();
    for database in [1, 0] {
        client.say(&format!("SELECT {database}"));
        client.say(&format!("EXISTS {}", keys.join(" ")));
    }
}

/// Loads up to `count` chunks of a filter, the header first, under another key. Returns a command that changes
/// nothing.
fn chunks(client: &mut Client, from: &str, to: &str, count: usize) -> String {
    let mut iterator = "0".to_owned();
    for _ in 0..count {
        let Ok(Value::Array(chunk)) = client.try_call(&["BF.SCANDUMP", from, &iterator]) else { break };
        let [Value::Int(next), Value::BulkString(data)] = &chunk[..] else { break };
        if *next == 0 {
            break;
        }
        iterator = next.to_string();
        if client.try_call(&[b"BF.LOADCHUNK".as_slice(), to.as_bytes(), iterator.as_bytes(), data]).is_err() {
            break;
        }
    }
    format!("EXISTS {to}")
}

fn totals_are_the_sums_over_all_filters_after_random_commands(site: &Site) {
    let seed = std::process::id().into();
    eprintln!("seed {seed}");
    let mut random = Random(seed);
    let server = site.launch().with("appendonly yes").with("aof-use-rdb-preamble no").start();
    let replica = server.replica(site.launch());
    let mut client = server.client();
    let mut seen = BTreeSet::new();
    for (key, maker) in MAKERS.iter().enumerate() {
        assert_eq!(client.say(&maker.replace("{k}", &format!("{{k}}{key}"))), "+OK");
        assert_eq!(client.int(&format!("BF.ADD {{k}}{key} i{key}")), 1);
    }
    assert_eq!(client.say("BF.MERGE {k}union {k}0 {k}4 FORCE"), "+OK");
    for turn in 0..60 {
        let with_items = totals(&mut client)
            .into_iter()
            .filter(|(kind, totals)| totals[3] > 0 || kind == "bf_window" && totals[0] > 0);
        seen.extend(with_items.map(|(kind, _)| kind));
        let lines: Vec<_> = (0..20).map(|_| disturb(&mut client, &mut random)).collect();
        assert_totals(&mut client, &format!("seed {seed}, turn {turn}: {lines:#?}"));
    }
    assert!(seen.iter().map(String::as_str).eq(kinds()), "not all kinds in {seen:?}, seed {seed}");
    replica.wait_for_primary();
    let mut reader = replica.client();
    wait_until("the replica has counted all", || totals(&mut reader) == totals(&mut client));
    assert_totals(&mut reader, "replica");
    client.call(&["BGREWRITEAOF"]);
    wait_until("rewritten", || client.info_number("aof_rewrite_in_progress") == 0);
    let server: Server = server.restart();
    assert_totals(&mut server.client(), "restarted");
    let mut client = server.client();
    client.say("FLUSHALL");
    wait_until("all gone", || totals(&mut client).values().all(|totals| *totals == [0; 5]));
}

fn a_saturated_item_count_stops_at_its_limit(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    assert_eq!(client.say("BF.RESERVE full 0.01 1 NONSCALING SATURATE"), "+OK");
    for item in 0..300 {
        client.say(&format!("BF.ADD full {item}"));
    }
    assert_totals(&mut client, "saturated");
    // Without its chunks the copy adds items as new that its header counts already.
    let (iterator, header) = chunk(&mut client, "full", 0).unwrap();
    assert_eq!(load(&mut client, "copy", iterator, &header), "+OK");
    let from_header = client.int("BF.CARD copy");
    for item in 0..300 {
        client.say(&format!("BF.ADD copy {item}"));
        assert_totals(&mut client, &format!("the header and {item} items more"));
    }
    assert!(client.int("BF.CARD copy") > from_header);
    client.say("BF.CLEAR copy");
    assert_totals(&mut client, "cleared");
    client.say("FLUSHALL SYNC");
    wait_until("all gone", || totals(&mut client).values().all(|totals| *totals == [0; 5]));
}

fn evicted_and_expired_filters_are_not_counted(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    for number in 0..40 {
        client.say(&format!("BF.RESERVE {{k}}{number} 0.01 {}", 10_000 + number * 1000));
        client.say(&format!("BF.ADD {{k}}{number} item"));
    }
    // A time that has passed when a slow server checks it would delete the key at once, without counting it.
    client.say("PEXPIRE {k}0 200");
    // A command that reads it does not find it, even before the server deletes it.
    wait_until("expired", || client.say("EXISTS {k}0") == "0" && client.info_number("expired_keys") == 1);
    assert_totals(&mut client, "expired");
    client.say("CONFIG SET maxmemory-policy allkeys-random");
    let used = client.info_number("used_memory");
    client.say(&format!("CONFIG SET maxmemory {}", used - 300_000));
    wait_until("evicted", || client.info_number("evicted_keys") > 0);
    client.say("CONFIG SET maxmemory 0");
    assert!(client.info_number("bf_filters") < 39);
    assert_totals(&mut client, "evicted");
}
