//! `everbloom check`: shows all filters of a server.

use std::collections::BTreeMap;

use everbloom::Format;
use redis::{Value, from_redis_value_ref};
use serde::Serialize;
use serde_json::json;

use super::failure::{Failure, check_interruption};
use super::output::{Printer, bytes, counted, shown, table};
use super::partitions;
use super::server::{
    ConnectionArguments, DatabaseArguments, Family, Router, Site, field, integer, other_databases, scan, text,
};

/// Filters with at least this number of layers get advice. They have grown at least four times.
const MANY_LAYERS: u64 = 5;

/// Show all filters of a server, with advice
///
/// Shows the kind, layers, items, capacity, fill, current error rate and memory of each filter. The kind of a sliding
/// window has its steps, and "lives" if items were added with a life of their own. A table counts as a layer, and has no
/// fill. If the server does not have BF.STATS, the fill and the error rate are missing. Also lists
/// keys of RedisBloom's types that everbloom only keeps: no command works on them.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct CheckArguments {
    /// Address of the server: redis://[user[:password]@]host[:port][/db], rediss://..., unix://path or host:port
    #[arg(value_name = "ADDRESS")]
    url: String,
    /// Only keys that match this pattern, as in SCAN
    #[arg(long = "match", value_name = "PATTERN")]
    pattern: Option<String>,
    #[command(flatten)]
    databases: DatabaseArguments,
    #[command(flatten)]
    connection: ConnectionArguments,
}

const EXAMPLE: &str = "\
Examples:
  everbloom check redis://127.0.0.1:6379
  everbloom check 127.0.0.1:6379 --match seen

Exit codes: 0 done; 1 failed; 2 wrong arguments; 3 done, but there are filters that are being loaded or lack
chunks, or keys that everbloom only keeps; 130 interrupted.";

/// The statistics of a filter. A statistic that the server does not have is `None`.
#[derive(Default, Serialize)]
struct CheckedFilter {
    database: i64,
    key: String,
    #[serde(rename = "type")]
    data_type: String,
    kind: Option<String>,
    /// The steps of a window.
    steps: Option<u64>,
    /// Adds to a window with a life of their own.
    life_adds: Option<u64>,
    layers: Option<u64>,
    items: Option<u64>,
    capacity: Option<u64>,
    fill: Option<f64>,
    error_rate: Option<f64>,
    error_rate_now: Option<f64>,
    bytes: Option<u64>,
    advice: Option<String>,
    /// Whether a layer has items but no set bit: only a dump whose chunks have not all come leaves this.
    lacks_chunks: bool,
}

impl CheckedFilter {
    /// Returns the kind, with the steps of a window and whether its items have lives of their own.
    fn shown_kind(&self) -> String {
        let kind = self.kind.as_ref().unwrap_or(&self.data_type);
        let steps = self.steps.map_or_else(String::new, |steps| format!(", {steps} steps"));
        let lives = if self.life_adds.is_some_and(|adds| adds > 0) { ", lives" } else { "" };
        format!("{kind}{steps}{lives}")
    }
}

pub(crate) fn run(arguments: CheckArguments, printer: &Printer) -> Result<(), Failure> {
    let site = Site::new(&arguments.url, &arguments.connection, "EVERBLOOM")?;
    arguments.databases.check(&[&site])?;
    let (chosen, others) = arguments.databases.choose(&mut Router::to_all_keys(&site, "BF.INFO")?)?;
    let mut checked = Checked { others, is_of_all: arguments.databases.all_databases, ..Checked::default() };
    printer.note("looking for filters");
    for database in chosen {
        let site = if checked.is_of_all { site.with_database(database) } else { site.clone() };
        checked.add(&mut Router::new(&site)?, arguments.pattern.as_deref(), printer)?;
    }
    match &arguments.pattern {
        Some(pattern) if checked.is_empty() => Err(nothing_matches(&site, pattern, &checked.others)),
        _ => report(&checked, printer),
    }
}

/// Returns the failure of a check without a key. A job that checks one filter would otherwise succeed with a mistyped key.
fn nothing_matches(site: &Site, pattern: &str, others: &BTreeMap<i64, u64>) -> Failure {
    let failure = Failure::new(format!("no filter of {site} matches {pattern}: check the pattern"));
    let others = other_databases(others);
    if others.is_empty() { failure } else { failure.with(others.trim_end()) }
}

/// What was found in the databases that were looked at.
#[derive(Default)]
struct Checked {
    filters: Vec<CheckedFilter>,
    /// The keys of filters that clients are loading.
    loading: Vec<String>,
    kept: Vec<KeptKey>,
    /// The databases with keys that were not looked at, with the numbers of their keys.
    others: BTreeMap<i64, u64>,
    /// Whether all databases were looked at.
    is_of_all: bool,
}

impl Checked {
    /// Looks at the keys of a database that match the pattern.
    fn add(&mut self, router: &mut Router, pattern: Option<&str>, printer: &Printer) -> Result<(), Failure> {
        let (found, database) = (scan(router, pattern)?, router.site.database());
        let progress = printer.progress("checking", Some(found.filters.len() as u64));
        for ((key, (family, data_type)), done) in found.filters.into_iter().zip(0u64..) {
            check_interruption()?;
            match query(router, &key, family, data_type)? {
                Queried::Filter(filter) => self.filters.push(*filter),
                Queried::Loading => self.loading.push(self.named(database, &shown(&key))),
                Queried::Vanished => {}
            }
            progress.set(done, shown(&key));
        }
        progress.finish();
        for (key, data_type) in found.only_kept {
            let bytes = memory_bytes(router, &key);
            self.kept.push(KeptKey { database, key: shown(&key), data_type, bytes });
        }
        Ok(())
    }

    /// Returns whether no key was found.
    fn is_empty(&self) -> bool {
        self.filters.is_empty() && self.loading.is_empty() && self.kept.is_empty()
    }

    /// Returns a key with its database, if all databases were looked at.
    fn named(&self, database: i64, key: &str) -> String {
        if self.is_of_all { format!("database {database}, {key}") } else { key.to_owned() }
    }
}

/// A key of a type that everbloom only keeps.
#[derive(Serialize)]
struct KeptKey {
    database: i64,
    key: String,
    #[serde(rename = "type")]
    data_type: String,
    bytes: Option<u64>,
}

/// Returns the memory of a key, if the server tells it.
fn memory_bytes(router: &mut Router, key: &[u8]) -> Option<u64> {
    router.call(key, &[b"MEMORY", b"USAGE", key]).ok().as_ref().and_then(integer)
}

/// What was found under the key of a filter.
enum Queried {
    Filter(Box<CheckedFilter>),
    /// A filter that a client is loading.
    Loading,
    /// No filter of the family: it no longer exists.
    Vanished,
}

/// Returns the statistics of the filter under a key.
fn query(router: &mut Router, key: &[u8], family: Family, data_type: String) -> Result<Queried, Failure> {
    let database = router.site.database();
    let filter = CheckedFilter { database, key: shown(key), data_type, ..CheckedFilter::default() };
    let queried = match family {
        Family::Cuckoo => router.call(key, &[b"CF.INFO", key]).map(|info| {
            let count = |name: &str| field(&info, name).and_then(integer);
            let (layers, items) = (count("Number of filters"), count("Number of items inserted"));
            let bytes = memory_bytes(router, key).or_else(|| count("Size"));
            CheckedFilter { kind: Some("cuckoo".to_owned()), layers, items, bytes, ..filter }
        }),
        Family::Bloom(_) => match router.call(key, &[b"BF.STATS", key]) {
            Err(error) if error.lacks_command() => router.call(key, &[b"BF.INFO", key]).map(|info| {
                let memory = memory_bytes(router, key);
                of_info(filter, &info, memory)
            }),
            stats => stats.map(|stats| of_stats(filter, &stats)),
        },
    };
    match queried {
        Ok(filter) => Ok(Queried::Filter(Box::new(filter))),
        Err(error) if error.is_of_load() => Ok(Queried::Loading),
        Err(error) if error.is_of_no_filter() => Ok(Queried::Vanished),
        Err(error) => Err(Failure::from(error).about(shown(key))),
    }
}

fn of_stats(filter: CheckedFilter, stats: &Value) -> CheckedFilter {
    let count = |name: &str| field(stats, name).and_then(integer);
    let share = |name: &str| field(stats, name).and_then(|value| from_redis_value_ref(value).ok());
    let words = |name: &str| field(stats, name).and_then(text);
    let empty_items = items_without_bits(stats);
    let lacks = (empty_items > 0)
        .then(|| format!("{}, but no bits: chunks are missing", counted(empty_items, "item")));
    CheckedFilter {
        kind: words("kind"),
        steps: count("steps"),
        life_adds: count("life-adds"),
        // As in BF.INFO, a table counts as a layer.
        layers: count("layers").map(|layers| layers + u64::from(count("table-segments").is_some())),
        items: count("items"),
        capacity: count("capacity"),
        fill: share("fill"),
        error_rate: share("error-rate"),
        error_rate_now: share("error-rate-now"),
        bytes: count("allocated-bytes").or_else(|| count("bytes")),
        advice: lacks.or_else(|| words("advice")),
        lacks_chunks: empty_items > 0,
        ..filter
    }
}

/// Returns the number of items in layers without a set bit. Such a layer finds none of them.
fn items_without_bits(stats: &Value) -> u64 {
    let Some(Value::Array(layers)) = field(stats, "per-layer") else { return 0 };
    let empty = layers.iter().filter(|layer| field(layer, "set-bits").and_then(integer) == Some(0));
    empty.filter_map(|layer| field(layer, "items").and_then(integer)).fold(0, u64::saturating_add)
}

fn of_info(filter: CheckedFilter, info: &Value, memory: Option<u64>) -> CheckedFilter {
    let count = |name: &str| field(info, name).and_then(integer);
    let (layers, items, capacity) =
        (count("Number of filters"), count("Number of items inserted"), count("Capacity"));
    let advice = layers.filter(|layers| *layers >= MANY_LAYERS).map(|layers| {
        let capacity = capacity.unwrap_or_default();
        format!("each lookup reads {layers} layers: reserve a capacity of {capacity}")
    });
    let bytes = memory.or_else(|| count("Size"));
    CheckedFilter { layers, items, capacity, bytes, advice, ..filter }
}

/// The sums over the partitions of one filter.
#[derive(Serialize)]
struct CheckedPartitions<'f> {
    database: i64,
    name: &'f str,
    partitions: usize,
    items: u64,
    capacity: u64,
    bytes: u64,
}

/// Returns the sums for each filter that has at least two partitions and lacks none.
fn partitioned(filters: &[CheckedFilter]) -> Vec<CheckedPartitions<'_>> {
    let mut names: BTreeMap<(i64, &str), BTreeMap<u32, &CheckedFilter>> = BTreeMap::new();
    for filter in filters {
        if let Some((name, number)) = partitions::of_key(&filter.key) {
            names.entry((filter.database, name)).or_default().insert(number, filter);
        }
    }
    names.retain(|_, filters| partitions::are_all(&filters.keys().copied().collect()));
    let sums = names.into_iter().map(|((database, name), filters)| {
        let sum = |fact: fn(&CheckedFilter) -> Option<u64>| {
            filters.values().filter_map(|filter| fact(filter)).fold(0u64, u64::saturating_add)
        };
        CheckedPartitions {
            database,
            name,
            partitions: filters.len(),
            items: sum(|filter| filter.items),
            capacity: sum(|filter| filter.capacity),
            bytes: sum(|filter| filter.bytes),
        }
    });
    sums.collect()
}

fn report(checked: &Checked, printer: &Printer) -> Result<(), Failure> {
    let Checked { filters, loading, kept, others, is_of_all } = checked;
    let mut rows = vec![
        ["key", "kind", "layers", "items", "capacity", "fill", "error now", "memory", "advice"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for filter in filters {
        let shown = |number: Option<u64>| number.map_or_else(|| "?".to_owned(), |number| number.to_string());
        rows.push(vec![
            filter.key.clone(),
            filter.shown_kind(),
            shown(filter.layers),
            shown(filter.items),
            shown(filter.capacity),
            filter.fill.map_or_else(|| "-".to_owned(), |fill| format!("{:.1} %", fill * 100.0)),
            filter.error_rate_now.map_or_else(|| "?".to_owned(), |rate| format!("{rate:.2e}")),
            filter.bytes.map_or_else(|| "?".to_owned(), bytes),
            filter.advice.clone().unwrap_or_default(),
        ]);
    }
    if *is_of_all {
        let databases = filters.iter().map(|filter| filter.database.to_string());
        let column = ["database".to_owned()].into_iter().chain(databases);
        rows.iter_mut().zip(column).for_each(|(row, cell)| row.insert(0, cell));
    }
    let total = filters.iter().filter_map(|filter| filter.bytes).fold(0u64, u64::saturating_add);
    let mut text = if filters.is_empty() { String::new() } else { table(&rows) };
    text.push_str(&format!("{}, {}\n", counted(filters.len() as u64, "filter"), bytes(total)));
    let is_own =
        |filter: &&CheckedFilter| Family::of(&filter.data_type) == Some(Family::Bloom(Format::Everbloom));
    let own = filters.iter().filter(is_own).count();
    if own > 0 {
        text.push_str(&format!(
            "{} of the type everbloom, which RedisBloom cannot load\n",
            counted(own as u64, "filter")
        ));
    }
    let partitioned = partitioned(filters);
    for CheckedPartitions { database, name, partitions, items, capacity, bytes: size } in &partitioned {
        text.push_str(&format!(
            "{}: {partitions} partitions with {items} of {capacity} items, {}\n",
            checked.named(*database, name),
            bytes(*size)
        ));
    }
    for key in loading {
        text.push_str(&format!("{key}: a filter that is being loaded\n"));
    }
    for KeptKey { database, key, data_type, bytes: size } in kept {
        let size = size.map_or_else(String::new, |size| format!(", {}", bytes(size)));
        let key = checked.named(*database, key);
        text.push_str(&format!("{key}: type {data_type}{size}, which everbloom only keeps\n"));
    }
    text.push_str(&other_databases(others));
    let json = json!({
        "filters": filters, "partitioned": partitioned, "bytes": total, "loading": loading, "only_kept": kept,
        "other_databases": others,
    });
    printer.result(&text, &json)?;
    let mut faults = Vec::new();
    if !loading.is_empty() {
        faults.push(format!(
            "{} being loaded: load the missing chunks, or delete the key",
            counted(loading.len() as u64, "filter")
        ));
    }
    let lacking = filters.iter().filter(|filter| filter.lacks_chunks).count();
    if lacking > 0 {
        faults.push(format!(
            "{} without some of their chunks: copy them again to keys that do not exist",
            counted(lacking as u64, "filter")
        ));
    }
    if !kept.is_empty() {
        faults.push(format!(
            "no command of everbloom works on {}: move or delete them if applications use them",
            counted(kept.len() as u64, "key")
        ));
    }
    if faults.is_empty() { Ok(()) } else { Err(Failure::partly(faults.join("; "))) }
}
