//! `everbloom size`: what a filter will take, before there is one.

use everbloom::{Format, Growth, LayerSize, Options, layer_sizes};
use serde_json::json;

use super::failure::Failure;
use super::options;
use super::output::{Output, bytes, table};

/// Capacity of a filter that nobody reserved, in all three modules.
const CAPACITY_DEFAULT_ITEMS: u64 = 100;

/// Tell what a filter will take in everbloom, RedisBloom and valkey-bloom
///
/// For each module a filter that is reserved for all items, one that may not grow, and one that nobody reserved and
/// that grew from 100 items on. `memory` are the bit arrays, `allocated` what jemalloc rounds them up to, and
/// `lines` the lines of 64 bytes that a check of an item that is there touches at most.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Arguments {
    /// Different items that it will hold
    #[arg(long, value_name = "ITEMS", value_parser = options::items)]
    items: u64,
    /// Share of absent items that may be taken for present, strictly between 0 and 1
    #[arg(long, value_name = "RATE", default_value_t = 0.01)]
    error: f64,
    /// How many times larger each further layer is than the one before
    #[arg(long, value_name = "FACTOR", default_value_t = 2)]
    expansion: u32,
}

const EXAMPLE: &str = "\
Example:
  everbloom size --items 1e8 --error 0.001

Exit codes: 0 done; 2 wrong arguments.";

pub(crate) fn run(arguments: Arguments, output: &Output) -> Result<(), Failure> {
    let Arguments { items, error: error_rate, expansion } = arguments;
    if items == 0 || expansion == 0 {
        return Err(Failure::usage("--items and --expansion must be at least 1"));
    }
    let growing = Growth::Scaling { expansion };
    let mut rows = vec![
        ["module", "filter", "layers", "bits per item", "memory", "allocated", "probes", "lines", "command"]
            .map(str::to_owned)
            .to_vec(),
    ];
    let mut listed = Vec::new();
    for (module, format) in [
        ("everbloom", Format::Everbloom),
        ("RedisBloom", Format::RedisBloom),
        ("valkey-bloom", Format::ValkeyBloom),
    ] {
        for (filter, capacity_items, growth, words) in [
            ("reserved", items, growing, expansion_words(expansion)),
            ("fixed", items, Growth::Fixed, " NONSCALING".to_owned()),
            ("grown", CAPACITY_DEFAULT_ITEMS, growing, String::new()),
        ] {
            let options = Options { error_rate, capacity_items, growth };
            let command = if filter == "grown" {
                "BF.ADD key item".to_owned()
            } else {
                format!("BF.RESERVE key {error_rate} {items}{words}")
            };
            match layer_sizes(format, options, items) {
                Ok(layers) => {
                    let sum = Sum::of(&layers);
                    let bits_per_item = sum.bits as f64 / items as f64;
                    listed.push(json!({
                        "module": module, "filter": filter, "layers": layers.len(), "bits": sum.bits,
                        "bits_per_item": bits_per_item, "bytes": sum.bits.div_ceil(8),
                        "allocated_bytes": sum.allocated_bytes, "probes": sum.probes, "lines": sum.lines,
                        "command": command,
                    }));
                    rows.push(vec![
                        module.to_owned(),
                        filter.to_owned(),
                        layers.len().to_string(),
                        format!("{bits_per_item:.2}"),
                        bytes(sum.bits.div_ceil(8)),
                        bytes(sum.allocated_bytes),
                        sum.probes.to_string(),
                        sum.lines.to_string(),
                        command,
                    ]);
                }
                // What is wrong with the numbers themselves, every format says.
                Err(error) if format == Format::Everbloom && filter == "reserved" => {
                    return Err(Failure::usage(error.to_string()));
                }
                Err(error) => {
                    listed.push(json!({"module": module, "filter": filter, "error": error.to_string()}));
                    let mut row = vec![module.to_owned(), filter.to_owned()];
                    row.extend((0..6).map(|_| "-".to_owned()));
                    row.push(error.to_string());
                    rows.push(row);
                }
            }
        }
    }
    let text = format!("{items} items at {error_rate}\n{}", table(&rows));
    output.result(&text, &json!({"items": items, "error_rate": error_rate, "filters": listed}))
}

/// The words of BF.RESERVE where the factor is not the default one.
fn expansion_words(expansion: u32) -> String {
    if expansion == 2 { String::new() } else { format!(" EXPANSION {expansion}") }
}

/// All layers together.
#[derive(Default)]
struct Sum {
    bits: u64,
    allocated_bytes: u64,
    probes: u64,
    lines: u64,
}

impl Sum {
    fn of(layers: &[LayerSize]) -> Self {
        layers.iter().fold(Self::default(), |sum, layer| Self {
            bits: sum.bits.saturating_add(layer.size_bits),
            allocated_bytes: sum.allocated_bytes.saturating_add(allocated_bytes(layer.size_bits.div_ceil(8))),
            probes: sum.probes.saturating_add(layer.probes.into()),
            lines: sum.lines.saturating_add(layer.lines.into()),
        })
    }
}

/// What jemalloc 5 gives for so many bytes: sizes come in steps of 16 bytes up to 128, from there on four to each
/// doubling.
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
