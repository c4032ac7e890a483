//! docs/redis-exporter.lua, docs/prometheus-alerts.yaml: what the script reports, and alerts of a real Prometheus.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use crate::harness::{Client, Site, Test, show, skip, tests, wait_until};
use crate::names;

pub(crate) const TESTS: &[Test] = tests![
    the_script_reports_each_filter_with_the_documented_permissions,
    the_script_has_limits,
    alerts_fire_for_filters_that_need_attention,
];

const SCRIPT: &str = include_str!("../../docs/redis-exporter.lua");
const ALERTS: &str = include_str!("../../docs/prometheus-alerts.yaml");
/// The line with the limits of the script. Tests change it: they must not depend on the load of the machine.
const LIMITS: &str = "local filters_max, keys_max, ms_max = 100, 10000, 10\n";

/// Runs the script with other limits. Returns what it reports of filters, by name.
fn reported(client: &mut Client, limits: &str) -> BTreeMap<String, f64> {
    assert!(SCRIPT.contains(LIMITS));
    let script = SCRIPT.replace(LIMITS, limits);
    let pairs = client.array(&["EVAL", &script, "0"]);
    let text = |value| show(value).trim_matches('"').to_owned();
    let pairs = pairs.as_chunks::<2>().0.iter().map(|[name, value]| (text(name), text(value)));
    pairs
        .filter(|(name, _)| name.starts_with(names::OF_FILTERS))
        .map(|(name, value)| (name, value.parse().unwrap()))
        .collect()
}

/// Limits without one of time.
const PATIENT: &str = "local filters_max, keys_max, ms_max = 100, 10000, 100000\n";

/// A filter for each alert, one of each other sort, and one that needs no attention.
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
    let permissions = names::PAGE.split("Its user needs `").nth(1).unwrap().split('`').next().unwrap();
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
    assert_eq!(kinds, names::of_filters());
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

/// A program that ends with the test.
struct Program(Child);

impl Program {
    fn start(command: &mut Command) -> Self {
        Self(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the first of the programs that runs here.
fn installed(names: &[&'static str]) -> Option<&'static str> {
    let runs = |name: &&str| Command::new(name).arg("--version").output().is_ok();
    names.iter().copied().find(|name| runs(name))
}

fn free_address() -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    listener.local_addr().unwrap().to_string()
}

/// Returns the body that a program replies to a request with.
fn get(address: &str, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n").ok()?;
    let mut reply = String::new();
    stream.read_to_string(&mut reply).ok()?;
    Some(reply.split_once("\r\n\r\n")?.1.to_owned())
}

/// Returns the names of the alerts that fire, each with the filter.
fn firing(address: &str) -> BTreeSet<(String, String)> {
    let Some(body) = get(address, "/api/v1/alerts") else { return BTreeSet::new() };
    let Ok(reply) = serde_json::from_str::<serde_json::Value>(&body) else { return BTreeSet::new() };
    let alerts = reply["data"]["alerts"].as_array().cloned().unwrap_or_default();
    let label =
        |alert: &serde_json::Value, name: &str| alert["labels"][name].as_str().unwrap_or_default().to_owned();
    let firing = alerts.iter().filter(|alert| alert["state"] == "firing");
    firing.map(|alert| (label(alert, "alertname"), label(alert, "filter"))).collect()
}

fn alerts_fire_for_filters_that_need_attention(site: &Site) {
    let programs = (
        installed(&["prometheus-redis-exporter", "redis_exporter"]),
        installed(&["prometheus"]),
        installed(&["promtool"]),
    );
    let (Some(exporter), Some(prometheus), Some(promtool)) = programs else {
        return skip("Prometheus, promtool or redis_exporter is missing");
    };
    let server = site.start();
    let mut client = server.client();
    make_filters(&mut client);
    let write = |name: &str, text: &str| {
        let path = server.dir().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let checked = Command::new(promtool).args(["check", "rules"]).arg(write("alerts.yaml", ALERTS)).output();
    let checked = checked.unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    // The same at once.
    let rules: Vec<&str> = ALERTS.lines().filter(|line| !line.trim().starts_with("for: ")).collect();
    write("rules.yaml", &(rules.join("\n") + "\n"));
    let (exporter_address, address) = (free_address(), free_address());
    let configuration = format!(
        "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: [rules.yaml]\n\
         scrape_configs: [{{job_name: redis, static_configs: [{{targets: ['{exporter_address}']}}]}}]\n"
    );
    let configuration = write("prometheus.yaml", &configuration);
    let script = write("script.lua", &SCRIPT.replace(LIMITS, PATIENT));
    let _exporter = Program::start(
        Command::new(exporter)
            .args(["-redis.addr", &format!("redis://127.0.0.1:{}", server.port())])
            .args(["-web.listen-address", &exporter_address, "-script"])
            .arg(script),
    );
    let _prometheus = Program::start(
        Command::new(prometheus)
            .arg(format!("--config.file={}", configuration.display()))
            .arg(format!("--storage.tsdb.path={}", server.dir().join("prometheus").display()))
            .arg(format!("--web.listen-address={address}")),
    );
    let expected = [
        ("BloomFilterAboveErrorRate", "beyond"),
        ("BloomFilterGrownFourTimes", "grown"),
        ("BloomFilterNearlyFull", "beyond"),
        ("BloomFilterNearlyFull", "full"),
        ("BloomFilterRefusesItems", ""),
    ];
    let expected: BTreeSet<_> = expected.map(|(alert, filter)| (alert.to_owned(), filter.to_owned())).into();
    let mut last = BTreeSet::new();
    wait_until("the alerts fire", || {
        client.say("BF.ADD full another");
        last = firing(&address);
        last.is_superset(&expected)
    });
    assert_eq!(last, expected, "no others");
}
