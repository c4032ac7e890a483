//! Tests that docs/monitoring.md documents the fields of INFO, that the dashboard and the alerts use only documented
//! names, and that the exporter's script reports the fields.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use crate::harness::{Client, ROOT, Site, Test, numbered, show, skip, tests};

pub(crate) const TESTS: &[Test] = tests![
    every_documented_field_is_shown_and_every_field_is_documented,
    the_dashboard_and_the_alerts_use_documented_names,
    the_script_reports_each_filter_with_the_documented_permissions,
    alerts_fire_for_filters_that_need_a_larger_one_only,
    the_script_has_limits,
    redis_cli_shows_filters_by_their_memory_only,
];

const SCRIPT: &str = include_str!("../../docs/redis-exporter.lua");
/// The line with the limits of the script. Tests change it: they must not depend on the load of the machine.
const LIMITS: &str = "local filters_max, keys_max, ms_max = 100, 10000, 10\n";

const PAGE: &str = include_str!("../../docs/monitoring.md");

/// Returns the texts in backquotes outside of code blocks, in the order of the page.
fn quoted() -> impl Iterator<Item = &'static str> {
    let prose = PAGE.split("```").step_by(2);
    prose.flat_map(|text| text.split('`').skip(1).step_by(2))
}

/// Returns the prefix of the fields of each kind of filter, such as `bf_window`.
pub(crate) fn kinds() -> BTreeSet<&'static str> {
    quoted().filter_map(|word| word.strip_suffix("_...")).collect()
}

/// The prefix of the names under which the exporter's script reports single filters.
const OF_FILTERS: &str = "bf_filter_";

/// Returns the documented names with this prefix, without the keys of filters.
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
        let path = format!("{}/docs/{file}", ROOT);
        let text = std::fs::read_to_string(path).unwrap().replace("\\\"", "\"");
        let mut checked = 0;
        for query in text.split("redis_script_values{").skip(1) {
            let (matcher, value) = query.split_once('"').unwrap();
            let value = value.split('"').next().unwrap();
            // A pattern `NAME:.+` matches a value of each filter. A pattern with `(` and `|` matches a field of each
            // kind.
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

/// Runs the script with other limits. Returns the values that it reports of single filters, by name.
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

/// Limits with a time that no run exceeds.
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
        "BF.RESERVE quiet-fixed 0.01 1000 NONSCALING",
        // As `everbloom load` reserves a filter: for exactly the items that it gets.
        "BF.RESERVE loaded 0.01 2600",
        "BF.RESERVE grown 0.01 100 FORMAT redisbloom",
    ] {
        assert_eq!(client.say(line), "+OK");
    }
    // More items than are counted: some are false positives.
    for (key, count) in [
        ("full", 130),
        ("beyond", 400),
        ("grown", 2600),
        ("unreserved", 2600),
        ("window", 10),
        ("quiet", 10),
        ("quiet-fixed", 10),
        ("loaded", 2600),
    ] {
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
    let more = PAGE.split("The rules `").nth(1).unwrap().split('`').next().unwrap();
    for (rules, is_permitted) in [("+time", false), (more, true)] {
        client.say(&format!("ACL SETUSER exporter {rules}"));
        for command in ["CLIENT SETNAME exporter", "LATENCY LATEST"] {
            assert_eq!(!exporter.say(command).starts_with("-NOPERM"), is_permitted, "{rules}: {command}");
        }
    }
    let number = |client: &mut Client, key: &str, field: &str| -> f64 {
        let Some(value) = client.array(&["BF.INFO", key, field]).first().map(show) else { panic!("{field}") };
        value.trim_matches('"').parse().unwrap()
    };
    for key in ["full", "beyond", "grown", "unreserved", "window", "redisbloom", "valkey-bloom", "loaded"] {
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
    assert_eq!(of("bf_filter_capacity_used"), ["beyond", "full", "quiet-fixed"], "those that cannot grow");
    assert!(!of("bf_filter_error_rate_ratio").contains(&"redisbloom"), "its rate is unknown");
    assert_eq!(found["bf_filter_capacity_used:full"], 1.0);
    assert_eq!(found["bf_filter_capacity_used:quiet-fixed"], 0.01);
    let ratio = found["bf_filter_error_rate_ratio:beyond"];
    assert_eq!(ratio, found["bf_filter_error_rate:beyond"] / 0.01, "{ratio}");
    assert_eq!(found["bf_filter_layers:grown"], 5.0);
    assert_eq!(found["bf_filter_reports"], 11.0);
    let kinds: BTreeSet<&str> = found.keys().map(|name| name.split(':').next().unwrap()).collect();
    assert_eq!(kinds, of_filters());
}

const ALERTS: &str = include_str!("../../docs/prometheus-alerts.yaml");

/// Returns the alerts about single filters, each with the keys of the filters for which it fires.
fn fired(found: &BTreeMap<String, f64>) -> BTreeMap<&'static str, Vec<&str>> {
    let mut fired = BTreeMap::new();
    for alert in ALERTS.split("- alert: ").skip(1) {
        let Some((_, expression)) = alert.split_once("redis_script_values{key=~\"") else { continue };
        let (name, rest) = expression.split_once(":.+\"}").unwrap();
        let threshold = rest.lines().next().unwrap().rsplit_once("> ").unwrap().1;
        let threshold: f64 = threshold.parse().unwrap();
        let above = found.iter().filter(|(_, value)| **value > threshold);
        let keys = above.filter_map(|(key, _)| key.strip_prefix(name)?.strip_prefix(':')).collect();
        fired.insert(alert.lines().next().unwrap(), keys);
    }
    fired
}

fn alerts_fire_for_filters_that_need_a_larger_one_only(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    make_filters(&mut client);
    let found = reported(&mut client, PATIENT);
    let expected = [
        ("BloomFilterAboveErrorRate", vec!["beyond"]),
        ("BloomFilterGrownFourTimes", vec!["grown"]),
        ("BloomFilterNearlyFull", vec!["beyond", "full"]),
    ];
    assert_eq!(fired(&found), BTreeMap::from(expected));
    // A filter that has far outgrown its capacity keeps its error rate.
    client.many("BF.MADD loaded", &numbered("more", 0..20_000));
    assert_eq!(fired(&reported(&mut client, PATIENT)), fired(&found));
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

fn redis_cli_shows_filters_by_their_memory_only(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    client.say("BF.ADD small item");
    assert_eq!(client.say("BF.RESERVE large 0.01 100000"), "+OK");
    let port = server.port().to_string();
    let mut shown = Vec::new();
    for cli in ["redis-cli", "valkey-cli"] {
        let run = |option: &str| Command::new(cli).args(["-p", &port, option]).output();
        if let (Ok(big), Ok(heavy)) = (run("--bigkeys"), run("--memkeys")) {
            shown.push([big, heavy].map(|output| String::from_utf8(output.stdout).unwrap()));
        }
    }
    if shown.is_empty() {
        return skip("neither redis-cli nor valkey-cli is installed");
    }
    for [big, heavy] in shown {
        assert!(big.contains("2 everblooms with 0 ?"), "{big}");
        assert!(heavy.contains("everbloom found '\"large\"' has "), "{heavy}");
    }
}
