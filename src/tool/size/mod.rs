//! `everbloom size`: what a filter will take, before there is one.

mod memory;
mod plan;

use serde_json::json;

use super::failure::Failure;
use super::options;
use super::output::{Output, bytes, table};
use super::partitions;
use memory::Sum;
use plan::{Plan, Wanted};

/// Tell what a filter will take in everbloom, RedisBloom and valkey-bloom
///
/// For each module a filter that is reserved for all items, one that may not grow, and one that nobody reserved and
/// that grew from 100 items on. `memory` are the bit arrays, `allocated` what jemalloc rounds them up to, and
/// `lines` the lines of 64 bytes that a check of an item that is there touches at most.
///
/// With --window the items are those of each window. The other modules have no such filters: `rotating` are a
/// filter for each seventh of the window and the current one, all of which are asked.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Arguments {
    /// Different items that it will hold
    #[arg(long, visible_alias = "capacity", value_name = "ITEMS", value_parser = options::items)]
    items: u64,
    /// Share of absent items that may be taken for present, strictly between 0 and 1
    #[arg(long, value_name = "RATE", default_value_t = 0.01)]
    error: f64,
    /// How many times larger each further layer is than the one before
    #[arg(long, value_name = "FACTOR", default_value_t = 2)]
    expansion: u32,
    /// Forget items after this time: seconds, or with a unit (500ms, 30s, 15m, 12h, 7d, 2w)
    #[arg(long, value_name = "TIME", value_parser = options::milliseconds)]
    window: Option<u64>,
    /// Spread the items over so many filters of a cluster
    #[arg(long, value_name = "NUMBER", value_parser = partitions::count)]
    partitions: Option<u32>,
}

const EXAMPLE: &str = "\
Examples:
  everbloom size --items 1e8 --error 0.001
  everbloom size --items 1e6 --error 0.001 --window 7d
  everbloom size --items 2e9 --partitions 24

Exit codes: 0 done; 2 wrong arguments.";

pub(crate) fn run(arguments: Arguments, output: &Output) -> Result<(), Failure> {
    let Arguments { items, error: error_rate, expansion, window: window_ms, partitions } = arguments;
    if items == 0 || expansion == 0 {
        return Err(Failure::usage("--items and --expansion must be at least 1"));
    }
    if window_ms.is_some_and(|ms| !options::WINDOW_MS.contains(&ms)) {
        return Err(Failure::usage("--window must be from 100 ms to 34 years"));
    }
    let wanted = Wanted { items, error_rate, expansion, window_ms, partitions };
    let plans = wanted.plans();
    let has_keys = plans.iter().any(|plan| plan.keys > 1);
    let mut names = vec![
        "module",
        "filter",
        "layers",
        "bits per item",
        "memory",
        "allocated",
        "probes",
        "lines",
        "command",
    ];
    if has_keys {
        names.insert(2, "keys");
    }
    let mut rows: Vec<Vec<String>> = vec![names.into_iter().map(str::to_owned).collect()];
    let mut listed = Vec::new();
    for (plan, index) in plans.iter().zip(0..) {
        let Plan { module, filter, keys, command, .. } = plan;
        let mut row = vec![(*module).to_owned(), (*filter).to_owned()];
        if has_keys {
            row.push(keys.to_string());
        }
        match &plan.layers {
            Ok(layers) => {
                let sum = Sum::of(layers).of_all(plan);
                let bits_per_item = sum.bits as f64 / items as f64;
                let size_bytes = sum.bits.div_ceil(8);
                listed.push(json!({
                    "module": module, "filter": filter, "keys": keys, "layers": layers.len(), "bits": sum.bits,
                    "bits_per_item": bits_per_item, "bytes": size_bytes, "allocated_bytes": sum.allocated_bytes,
                    "probes": sum.probes, "lines": sum.lines, "command": command,
                }));
                row.extend([layers.len().to_string(), format!("{bits_per_item:.2}")]);
                row.extend([size_bytes, sum.allocated_bytes].map(bytes));
                row.extend([sum.probes.to_string(), sum.lines.to_string(), command.clone()]);
            }
            // What is wrong with the numbers themselves, the first says.
            Err(error) if index == 0 => return Err(Failure::usage(error.to_string())),
            Err(error) => {
                listed.push(
                    json!({"module": module, "filter": filter, "keys": keys, "error": error.to_string()}),
                );
                row.extend((0..6).map(|_| "-".to_owned()));
                row.push(error.to_string());
            }
        }
        rows.push(row);
    }
    let text = format!("{}\n{}{}", title(&wanted), table(&rows), further(&wanted));
    let json = json!({
        "items": items, "error_rate": error_rate, "window_ms": window_ms, "partitions": partitions,
        "items_per_key": wanted.items_per_key(), "filters": listed,
    });
    output.result(&text, &json)
}

fn title(wanted: &Wanted) -> String {
    let mut text = format!("{} items", wanted.items);
    if let Some(ms) = wanted.window_ms {
        text.push_str(&format!(" in every {} s", ms as f64 / 1000.0));
    }
    text.push_str(&format!(" at {}", wanted.error_rate));
    if let Some(count) = wanted.partitions {
        text.push_str(&format!(", over {count} partitions of {}", wanted.items_per_key()));
    }
    text
}

/// Which further keys the commands are to be given for.
fn further(wanted: &Wanted) -> String {
    let mut text = String::new();
    if wanted.window_ms.is_some() {
        let (first, last) = match wanted.partitions {
            Some(_) => ("key:2:{0}", "key:8:{0}"),
            None => ("key:2", "key:8"),
        };
        text.push_str(&format!(
            "`rotating`: the same for {first} to {last}, and another key for the oldest in turn\n"
        ));
    }
    if let Some(count) = wanted.partitions
        && count > 1
    {
        text.push_str(&format!(
            "the same for {{1}} to {{{}}}, as `everbloom load --partitions {count}` does\n",
            count - 1
        ));
    }
    text
}

impl Sum {
    /// All filters of a plan: the bits of all, and the probes in those that are asked.
    const fn of_all(self, plan: &Plan) -> Self {
        Self {
            bits: self.bits.saturating_mul(plan.keys),
            allocated_bytes: self.allocated_bytes.saturating_mul(plan.keys),
            probes: self.probes.saturating_mul(plan.asked),
            lines: self.lines.saturating_mul(plan.asked),
        }
    }
}
