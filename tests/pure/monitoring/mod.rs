//! The dashboard and the alerts of the documentation are well formed, and use only documented names.

mod names;

use std::collections::BTreeSet;

use serde_json::Value;
use yaml_rust2::YamlLoader;

const DASHBOARD: &str = include_str!("../../../docs/grafana-dashboard.json");
const ALERTS: &str = include_str!("../../../docs/prometheus-alerts.yaml");

/// The metrics that redis_exporter derives from commands, without the script.
const OF_COMMANDS: [&str; 2] = ["redis_commands_duration_seconds_total", "redis_commands_total"];

/// Checks every name in a query against the page. Returns the fields of INFO in it, and the names of single filters.
fn checked(query: &str) -> BTreeSet<String> {
    let documented = names::fields();
    let (mut fields, mut filters) = (BTreeSet::new(), BTreeSet::new());
    for part in query.split("redis_script_values{").skip(1) {
        let (matcher, value) = part.split_once('"').unwrap();
        let (value, _) = value.split_once('"').unwrap();
        match matcher {
            "key=" => drop(fields.insert(value.to_owned())),
            "key=~" if value.starts_with(names::OF_FILTERS) => {
                let name = value.strip_suffix(":.+").unwrap();
                assert!(names::of_filters().contains(name), "{name} is not documented: {query}");
                filters.insert(name.to_owned());
            }
            "key=~" => {
                let (before, rest) = value.split_once('(').unwrap();
                let (choices, after) = rest.split_once(')').unwrap();
                let kinds: BTreeSet<String> =
                    choices.split('|').map(|choice| format!("{before}{choice}")).collect();
                assert!(kinds.iter().map(String::as_str).eq(names::kinds()), "every kind: {query}");
                fields.extend(kinds.iter().map(|kind| format!("{kind}{after}")));
            }
            other => unreachable!("{other} in {query}"),
        }
    }
    for field in &fields {
        assert!(documented.contains(field), "{field} is not documented: {query}");
    }
    let is_of_commands = OF_COMMANDS.iter().any(|name| query.contains(&format!("{name}{{cmd=~")));
    fields.append(&mut filters);
    assert!(!fields.is_empty() || is_of_commands, "{query}");
    let opened = |open: char, close: char| query.matches(open).count() == query.matches(close).count();
    assert!(opened('(', ')') && opened('{', '}') && opened('[', ']'), "{query}");
    fields
}

#[test]
fn the_page_names_its_kinds_and_fields() {
    assert_eq!(names::kinds().len(), everbloom::bloom::filter::kind::KIND_COUNT, "{:?}", names::kinds());
    assert!(names::fields().contains("bf_keyed_capacity") && names::fields().contains("bf_load_errors"));
    for file in ["grafana-dashboard.json", "prometheus-alerts.yaml", "redis-exporter.lua"] {
        assert!(names::PAGE.contains(&format!("]({file})")), "{file}");
    }
}

#[test]
fn the_dashboard_shows_names_that_are_documented() {
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    assert!(dashboard["title"].is_string() && dashboard["schemaVersion"].is_u64());
    let panels = dashboard["panels"].as_array().unwrap();
    let mut fields = BTreeSet::new();
    for panel in panels {
        assert!(panel["title"].is_string() && panel["type"].is_string(), "{panel}");
        let targets = panel["targets"].as_array().unwrap();
        assert!(!targets.is_empty(), "{panel}");
        targets.iter().for_each(|target| fields.extend(checked(target["expr"].as_str().unwrap())));
    }
    let ids: BTreeSet<u64> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len(), "panels have numbers of their own");
    for field in [
        "bf_filter_layers",
        "bf_filter_capacity_used",
        "bf_filter_error_rate_ratio",
        "bf_growths",
        "bf_load_errors",
        "bf_adds_refused",
        "bf_checks_missed",
        "bf_union_bytes",
    ] {
        assert!(fields.contains(field), "{field}");
    }
}

#[test]
fn the_alerts_are_rules_of_prometheus_on_names_that_are_documented() {
    let documents = YamlLoader::load_from_str(ALERTS).unwrap();
    let [document] = documents.as_slice() else { unreachable!("one document") };
    let mut alerts = BTreeSet::new();
    for group in document["groups"].as_vec().unwrap() {
        assert!(group["name"].as_str().is_some());
        for rule in group["rules"].as_vec().unwrap() {
            let name = rule["alert"].as_str().unwrap();
            assert!(alerts.insert(name), "{name} twice");
            let severity = rule["labels"]["severity"].as_str().unwrap();
            assert!(["critical", "warning", "info"].contains(&severity), "{name}: {severity}");
            let row = format!("| {name} | {severity} |");
            assert!(names::PAGE.contains(&row), "docs/monitoring.md lacks {row}");
            let keys: Vec<_> =
                rule.as_hash().unwrap().keys().map(|key| key.as_str().unwrap_or_default()).collect();
            assert!(
                keys.iter().all(|key| ["alert", "expr", "for", "labels", "annotations"].contains(key)),
                "{keys:?}"
            );
            assert!(!checked(rule["expr"].as_str().unwrap()).is_empty(), "{name}");
            assert!(rule["annotations"]["summary"].as_str().is_some_and(|text| text.len() > 20), "{name}");
        }
    }
    assert!(alerts.len() >= 4, "{alerts:?}");
}
