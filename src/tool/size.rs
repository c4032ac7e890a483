//! `everbloom size`: computes the memory of a filter in each module.

use clap::value_parser;
use everbloom::{
    CreateError, FilterSize, Format, Growth, LayerSize, Options, Steps, counting_size, filter_size,
    window_size_with_steps,
};
use serde_json::{Value, json};

use super::failure::Failure;
use super::options::{self, FilterArguments};
use super::output::{Printer, bytes, counted, table};
use super::partitions;

/// The capacity of a filter that BF.ADD creates, in all three modules.
const CAPACITY_DEFAULT_ITEMS: u64 = 100;
/// The number of parts into which `rotating` filters divide a window. Each part has its own filter.
const ROTATING: u64 = 7;

/// Compute the memory of a filter in everbloom, RedisBloom and valkey-bloom
///
/// For each module, `reserved` is a filter that is reserved for all items and may grow, `fixed` one that may not grow,
/// and `grown` one that BF.ADD created and that grew from 100 items on. `memory` is the size of the bits or of the
/// table, `allocated` the size after jemalloc's rounding. `probes` and `lines` are the bits and the cache lines that a
/// lookup of a present item reads at most; `-` for a table, whose lookups read one or two lines.
///
/// With --window, the items are those of each window, at any pace. The other modules have no sliding windows:
/// `rotating` is one filter for each seventh of the window and one for the current seventh, and a lookup reads all of
/// them.
///
/// With --counting, each item is added once. The Bloom filters of the other modules cannot count.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct SizeArguments {
    /// Number of different items: 5000, 500k, 5M or 5e6
    #[arg(long, visible_alias = "capacity", value_name = "ITEMS", value_parser = options::items)]
    items: u64,
    /// False-positive rate, between 0 and 1: 0.01 is 1 %
    #[arg(long, value_name = "RATE", default_value_t = 0.01, value_parser = options::error_rate)]
    error: f64,
    /// How many times larger each new layer of the other modules is than the one before
    #[arg(
        long,
        value_name = "FACTOR",
        default_value_t = 2,
        value_parser = value_parser!(u32).range(1..=options::EXPANSION_MAX)
    )]
    expansion: u32,
    /// Sliding window: each item expires after this time (500ms, 30s, 15m, 12h, 7d, 2w)
    #[arg(long, value_name = "TIME", value_parser = options::window)]
    window: Option<u64>,
    /// Steps of the window: an item expires at most a step late
    #[arg(long, value_name = "NUMBER", requires = "window", value_parser = options::steps)]
    steps: Option<Steps>,
    /// Count items, so that they can be deleted
    #[arg(long, conflicts_with = "window")]
    counting: bool,
    /// Distribute the items over this number of filters, as load --partitions does
    #[arg(long, value_name = "NUMBER", value_parser = partitions::count)]
    partitions: Option<u32>,
}

const EXAMPLE: &str = "\
Examples:
  everbloom size --items 1e8 --error 0.001
  everbloom size --items 1e6 --error 0.001 --window 7d
  everbloom size --items 1e6 --window 1d --steps 120
  everbloom size --items 1e6 --counting
  everbloom size --items 2G --partitions 24

Exit codes: 0 done; 2 wrong arguments.";

pub(crate) fn run(arguments: SizeArguments, printer: &Printer) -> Result<(), Failure> {
    options::check_capacity(arguments.items_per_key())?;
    let choices = arguments.choices();
    let names =
        ["module", "filter", "keys", "layers", "bits per item", "memory", "allocated", "probes", "lines"];
    let mut rows = vec![names.into_iter().chain(["command"]).map(str::to_owned).collect::<Vec<_>>()];
    let mut listed = Vec::new();
    for (choice, index) in choices.iter().zip(0..) {
        let (module, filter, keys) = (choice.module, choice.filter, choice.keys);
        let mut row = vec![module.to_owned(), filter.to_owned(), keys.to_string()];
        match &choice.size {
            Ok(size) => {
                let (cells, json) = choice.show(size, arguments.items);
                row.extend(cells);
                listed.push(json);
            }
            // If the first filter cannot be reserved, the arguments are wrong.
            Err(error) if index == 0 => return Err(Failure::usage(error.to_string())),
            Err(error) => {
                row.extend((0..6).map(|_| "-".to_owned()).chain([error.to_string()]));
                listed.push(
                    json!({"module": module, "filter": filter, "keys": keys, "error": error.to_string()}),
                );
            }
        }
        rows.push(row);
    }
    if choices.iter().all(|choice| choice.keys == 1) {
        // Removes the column of the keys.
        rows.iter_mut().for_each(|row| drop(row.remove(2)));
    }
    let text = format!("{}\n{}{}", arguments.title(), table(&rows), arguments.further());
    let SizeArguments { items, error, window, steps, counting, partitions, .. } = arguments;
    let json = json!({
        "items": items, "error_rate": error, "window_ms": window, "steps": window.map(|_| steps.unwrap_or_default().count()), "counting": counting, "partitions": partitions,
        "items_per_key": arguments.items_per_key(), "filters": listed,
    });
    printer.result(&text, &json)
}

/// A filter, or several filters that together hold the items.
struct FilterChoice {
    module: &'static str,
    filter: &'static str,
    /// The number of filters, all with the same options.
    keys: u64,
    /// The number of filters that a lookup queries.
    queried: u64,
    /// The size of each filter.
    size: Result<FilterSize, CreateError>,
    /// The command that creates the filter.
    command: String,
}

impl FilterChoice {
    /// Returns the sums over all filters, as the cells of a row and as JSON. Only the filters that a lookup queries
    /// count for the probes and lines.
    fn show(&self, size: &FilterSize, items: u64) -> (Vec<String>, Value) {
        let Self { module, filter, keys, queried, command, .. } = self;
        let sum = |fact: fn(&LayerSize) -> u64| size.layers.iter().map(fact).fold(0, u64::saturating_add);
        let table_bytes = size.table_bytes;
        let bits = sum(|layer| layer.size_bits).saturating_add(table_bytes.saturating_mul(8));
        // The sizes of a table's allocations are not rounded up, because they are size classes of the allocator.
        let allocated =
            sum(|layer| layer.blocks_bytes.map(allocated_bytes).into_iter().fold(0, u64::saturating_add))
                .saturating_add(table_bytes);
        let [bits, allocated] = [bits, allocated].map(|sum| sum.saturating_mul(*keys));
        let bits_per_item = bits as f64 / items as f64;
        let size_bytes = bits.div_ceil(8);
        // As in BF.INFO, a table counts as a layer.
        let layers = size.layers.len() + usize::from(table_bytes > 0);
        // A lookup in a table makes no probes.
        let [probes, lines] = [sum(|layer| layer.probes.into()), sum(|layer| layer.lines.into())]
            .map(|sum| (table_bytes == 0).then_some(sum.saturating_mul(*queried)));
        let mut cells = vec![layers.to_string(), format!("{bits_per_item:.2}")];
        cells.extend([size_bytes, allocated].map(bytes));
        cells.extend([probes, lines].map(|count| count.map_or("-".to_owned(), |count| count.to_string())));
        cells.push(command.clone());
        let json = json!({
            "module": module, "filter": filter, "keys": keys, "layers": layers, "bits": bits,
            "bits_per_item": bits_per_item, "bytes": size_bytes, "allocated_bytes": allocated,
            "table_bytes": table_bytes, "probes": probes, "lines": lines, "command": command,
        });
        (cells, json)
    }
}

const MODULES: [(&str, Format); 3] = [
    ("everbloom", Format::Everbloom),
    ("RedisBloom", Format::RedisBloom),
    ("valkey-bloom", Format::ValkeyBloom),
];

impl SizeArguments {
    /// Returns the first line of the output as text.
    fn title(&self) -> String {
        let mut text = counted(self.items, "item");
        if let Some(ms) = self.window {
            let step_ms = ms.div_ceil(self.steps.unwrap_or_default().count());
            text.push_str(&format!(
                " in every {} s, a step of {} s",
                ms as f64 / 1000.0,
                step_ms as f64 / 1000.0
            ));
        }
        text.push_str(&format!(" at {}", self.error));
        if self.counting {
            text.push_str(", each added once");
        }
        if let Some(count) = self.partitions {
            text.push_str(&format!(", over {count} partitions of {}", self.items_per_key()));
        }
        text
    }

    /// Returns a note about the keys that the listed commands do not create; empty if there are none.
    fn further(&self) -> String {
        let mut text = String::new();
        if self.window.is_some() {
            let [first, last] = ["key:2", "key:8"].map(|name| self.key(name));
            text.push_str(&format!(
                "`rotating`: create {first} to {last} in the same way, and replace the oldest at each seventh of the \
                 window\n"
            ));
        }
        if let Some(count) = self.partitions.filter(|count| *count > 1) {
            let others: Vec<String> = partitions::numbers(count).iter().skip(1).map(u32::to_string).collect();
            text.push_str(&format!(
                "create key:{{n}} in the same way for n = {}; `everbloom load --partitions {count}` creates all of them\n",
                others.join(", ")
            ));
        }
        text
    }

    /// Returns the rows of the comparison, those of everbloom first.
    fn choices(&self) -> Vec<FilterChoice> {
        let filters = |(module, format): (&'static str, Format)| match (self.window, format) {
            (_, Format::RedisBloom | Format::ValkeyBloom) if self.counting => Vec::new(),
            (Some(_), Format::RedisBloom | Format::ValkeyBloom) => vec![self.rotating(module, format)],
            _ => ["reserved", "fixed", "grown"].map(|filter| self.filter(module, format, filter)).into(),
        };
        MODULES.into_iter().flat_map(filters).collect()
    }

    /// Returns the number of items of one partition, or of all items.
    fn items_per_key(&self) -> u64 {
        self.partitions.map_or(self.items, |count| partitions::capacity_items(self.items, count))
    }

    fn filter(&self, module: &'static str, format: Format, filter: &'static str) -> FilterChoice {
        let items = self.items_per_key();
        let growing = Growth::Scaling { expansion: self.expansion };
        let (capacity_items, growth) = match filter {
            "fixed" => (items, Growth::Fixed),
            "grown" => (CAPACITY_DEFAULT_ITEMS, growing.unreserved()),
            _ => (items, growing),
        };
        let options = Options { error_rate: self.error, capacity_items, growth };
        let size = match self.window {
            Some(_) => window_size_with_steps(options, items, self.steps.unwrap_or_default()),
            None if self.counting => counting_size(options, items),
            None => filter_size(format, options, items),
        };
        let nonscaling = growth == Growth::Fixed;
        let expansion = Some(self.expansion).filter(|expansion| *expansion != 2 && !nonscaling);
        let key = self.key("key");
        let command = if filter == "grown" && self.window.is_none() && !self.counting {
            format!("BF.ADD {key} item")
        } else {
            let Self { error, window, steps, counting, .. } = *self;
            let options = FilterArguments {
                error,
                expansion,
                nonscaling,
                window,
                steps,
                counting,
                ..FilterArguments::default()
            };
            reserve(&key, &options, capacity_items)
        };
        FilterChoice { module, filter, keys: self.partitions.unwrap_or(1).into(), queried: 1, size, command }
    }

    /// Returns eight fixed filters for a window: one for each seventh of it, and one for the current seventh. A lookup
    /// queries all eight, so each has an eighth of the error rate.
    fn rotating(&self, module: &'static str, format: Format) -> FilterChoice {
        let filters = ROTATING + 1;
        let error_rate = self.error / filters as f64;
        let capacity_items = self.items_per_key().div_ceil(ROTATING);
        let options = Options { error_rate, capacity_items, growth: Growth::Fixed };
        let arguments = FilterArguments { error: error_rate, nonscaling: true, ..FilterArguments::default() };
        FilterChoice {
            module,
            filter: "rotating",
            keys: filters * u64::from(self.partitions.unwrap_or(1)),
            queried: filters,
            size: filter_size(format, options, capacity_items),
            command: reserve(&self.key("key:1"), &arguments, capacity_items),
        }
    }

    /// Returns the key of the first partition, or the name itself without partitions.
    fn key(&self, name: &str) -> String {
        let first = self.partitions.and_then(|count| partitions::numbers(count).first().copied());
        first.map_or_else(|| name.to_owned(), |number| partitions::key(name, number))
    }
}

fn reserve(key: &str, options: &FilterArguments, capacity_items: u64) -> String {
    format!("BF.RESERVE {key} {}", options.words(capacity_items).join(" "))
}

/// Returns the bytes of the block that jemalloc 5 allocates for `size` bytes. Its size classes are 8, multiples of 16 up to 128,
/// then four classes per doubling.
fn allocated_bytes(size: u64) -> u64 {
    match size {
        0 => 0,
        1..=8 => 8,
        9..=128 => size.next_multiple_of(16),
        _ => {
            let step = 1 << (size - 1).ilog2().saturating_sub(2);
            size.checked_next_multiple_of(step).unwrap_or(u64::MAX)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::allocated_bytes;

    #[test]
    fn sizes_are_those_of_jemalloc() {
        for (size, allocated) in [
            (1, 8),
            (9, 16),
            (100, 112),
            (128, 128),
            (129, 160),
            (1000, 1024),
            (1025, 1280),
            (14_337, 16_384),
        ] {
            assert_eq!(allocated_bytes(size), allocated, "{size}");
        }
        assert_eq!(allocated_bytes((5 << 20) + 1), 6 << 20);
        assert_eq!(allocated_bytes(u64::MAX), u64::MAX);
    }
}
