//! Filters that hold as many items as they were reserved for keep their error rate.
//!
//! The rate is measured, not computed: filters are filled through the same calls as in a server, then queried for
//! absent items. Seven of eight items are 128 random bits; every eighth is the next of consecutive numbers. A measured
//! rate passes if it is at most the promised one plus three standard deviations. The standard deviation is the larger
//! of that of the binomial distribution and that of the mean over the filters.
//!
//! The default run takes some 20 seconds of processor time. It finds gross faults at the lowest rates and small ones
//! at higher rates. `EVERBLOOM_TESTS=full cargo test -p everbloom-measured-tests accuracy -- --nocapture`
//! measures large tables too, makes 20 to 140 times as many probes per case and takes about 25 minutes of processor
//! time. tests/measured/sizing.rs computes rates from the fill of the arrays, which is far more precise than probes.

use everbloom_filter::Filter;

use crate::support::effort;
use crate::support::make::{add, contains, plain, promise, unreserved};

/// The items of a filter that has grown, as a multiple of its capacity.
const GROWN: u64 = 63;
/// The first absent item of a filter: far above the number of any added item.
const ABSENT: u64 = 1 << 48;

/// Promised rates, with the probes per case of the default and the full run: enough for 3 and 400 false positives at
/// the lowest rate.
const RATES: [(f64, u64, u64); 4] = [
    (1e-2, 600_000, 20_000_000),
    (1e-3, 1_000_000, 100_000_000),
    (1e-4, 1_500_000, 200_000_000),
    (1e-6, 1_000_000, 400_000_000),
];

/// Numbers of items, with the number of filters over which the probes are spread.
const SIZES: [(u64, u64); 6] =
    [(10, 4_000), (100, 1_000), (1_000, 200), (10_000, 16), (100_000, 4), (10_000_000, 1)];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Shape {
    /// Bits that have as many items as they were reserved for.
    Fixed,
    /// Bits, and a table with 62 times as many items.
    Outgrown,
    /// A table.
    Unreserved,
}

impl Shape {
    /// Returns the reserved capacity and the number of items. Outgrown filters and tables get [`GROWN`] times `items`,
    /// except the largest, to save time.
    fn reserved_and_total(self, items: u64) -> (u64, u64) {
        match self {
            Self::Fixed => (items, items),
            Self::Outgrown | Self::Unreserved if items <= 100_000 => (items, items * GROWN),
            Self::Outgrown | Self::Unreserved => (items / GROWN, items),
        }
    }
}

/// Returns an item of an endless sequence. Different seeds give different items.
fn item(seed: u64, index: u64) -> [u8; 16] {
    if index.is_multiple_of(8) {
        // Consecutive numbers.
        return (u128::from(seed) << 64 | u128::from(index)).to_le_bytes();
    }
    let start = mix(seed).wrapping_add(index.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    (u128::from(mix(start)) << 64 | u128::from(mix(start ^ 0x5851_f42d_4c95_7f2d))).to_le_bytes()
}

/// Returns the word after the finalizer of splitmix64 (Steele, Lea and Flood, 2014).
fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// Returns a filter of this shape that has counted the total of [`Shape::reserved_and_total`].
fn full_filter(rate: f64, items: u64, shape: Shape, seed: u64) -> Filter {
    let (capacity_items, total) = shape.reserved_and_total(items);
    let mut filter = plain(match shape {
        Shape::Fixed => promise(rate, capacity_items, 0),
        Shape::Outgrown => promise(rate, capacity_items, 2),
        Shape::Unreserved => unreserved(rate, capacity_items, 2),
    });
    let mut offered = 0;
    while filter.items() < total {
        add(&mut filter, &item(seed, offered)).unwrap();
        offered += 1;
    }
    let parts = (filter.layer_count(), filter.table().is_some());
    let expected = match shape {
        Shape::Fixed => (1, false),
        Shape::Outgrown => (1, true),
        Shape::Unreserved => (0, true),
    };
    assert_eq!(parts, expected, "{items} items at {rate}");
    let is_full = shape != Shape::Fixed || filter.capacity_items() == total;
    assert!(is_full && filter.items() == total, "a full filter, or the measurement is of another one");
    filter
}

/// Measures every case of one promised rate.
fn keeps(rate: f64) {
    let full_run = effort(false, true);
    let &(_, default_probes, full_probes) = RATES.iter().find(|(asked, ..)| *asked == rate).unwrap();
    let probes = if full_run { full_probes } else { default_probes };
    let mut broken = Vec::new();
    for shape in [Shape::Fixed, Shape::Outgrown, Shape::Unreserved] {
        for (items, filters) in SIZES {
            // The largest filters take as much time as all others together.
            let most_items = match shape {
                Shape::Fixed => 100_000,
                Shape::Outgrown | Shape::Unreserved => 1_000,
            };
            if !full_run && items > most_items {
                continue;
            }
            let filters = if full_run || shape == Shape::Fixed { filters } else { filters.div_ceil(8) };
            let probes = if full_run || shape == Shape::Fixed { probes } else { probes / 5 };
            let per_filter = probes / filters;
            let mut measured = Vec::new();
            for number in 0..filters {
                let seed = items * 1_000_003 + number;
                let filter = full_filter(rate, items, shape, seed);
                let hits = (0..per_filter).filter(|i| contains(&filter, &item(seed, ABSENT + i))).count();
                measured.push(hits as f64 / per_filter as f64);
            }
            let count = filters as f64;
            let mean = measured.iter().sum::<f64>() / count;
            let spread = measured.iter().map(|one| (one - mean).powi(2)).sum::<f64>();
            let spread_of_mean = if filters > 1 { (spread / (count - 1.0) / count).sqrt() } else { 0.0 };
            let binomial = (rate * (1.0 - rate) / (count * per_filter as f64)).sqrt();
            let sigma = spread_of_mean.max(binomial);
            let line = format!(
                "asked {rate:e}  {shape:?}  {items} items  seeds {}..  {filters} filters x {per_filter} probes  \
                 measured/asked {:.4}  sigma {:.4}",
                items * 1_000_003,
                mean / rate,
                sigma / rate
            );
            println!("{line}");
            if mean > rate + 3.0 * sigma {
                broken.push(line);
            }
        }
    }
    assert!(broken.is_empty(), "more false positives than promised:\n{}", broken.join("\n"));
}

#[test]
fn full_filters_keep_one_per_cent() {
    keeps(1e-2);
}

#[test]
fn full_filters_keep_one_in_a_thousand() {
    keeps(1e-3);
}

#[test]
fn full_filters_keep_one_in_ten_thousand() {
    keeps(1e-4);
}

#[test]
fn full_filters_keep_one_in_a_million() {
    keeps(1e-6);
}
