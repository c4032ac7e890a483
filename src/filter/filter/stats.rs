//! The statistics of a filter, for operators.

use super::Filter;
use crate::bits::{BitsStats, Layer};
use crate::generation::Generation;
use crate::table::TableStats;

impl Filter {
    /// Returns the statistics of the layers, the oldest first, of the table at the generation `now`, and of the filter.
    /// O(layers).
    #[must_use]
    pub fn stats(&self, now: Generation) -> (Vec<BitsStats>, Option<TableStats>, FilterStats) {
        let layers: Vec<_> = self.layers().iter().map(Layer::stats).collect();
        let table = self.table().map(|table| table.stats(now));
        let whole = FilterStats::of(&layers, table.as_ref(), self.policy.has_merged_layers());
        (layers, table, whole)
    }
}

/// The statistics of a filter, from those of its parts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FilterStats {
    /// Distinct added items, estimated from the fill of all layers and the items of the table.
    ///
    /// An item that is found in an older layer is not added to a newer one or to the table. So the number of items of
    /// each part is divided by the share of absent items that the older layers do not find. The older layers were full
    /// before the newer one was created, so their error rates have not changed since.
    pub estimated_items: f64,
    /// Bits that probes can reach.
    pub positions: u64,
    /// Set bits among the positions.
    pub set_bits: u64,
    /// Bits of all layers.
    pub size_bits: u64,
    /// Probes of an item over all layers.
    pub probes: u64,
    /// The expected current error rate: `1 - product of (1 - rate of a part)`.
    pub error_rate: f64,
}

/// Smallest assumed share of absent items that older layers do not find. Below it, the estimate of a newer layer is
/// not meaningful.
const PASSING_MIN: f64 = 0.01;

impl FilterStats {
    /// Returns the statistics of a filter with these parts, the oldest layer first. If the layers `are_independent`, as
    /// after a merge, an item may be in several layers, and their estimates are added undivided. O(layers).
    #[must_use]
    pub fn of(layers: &[BitsStats], table: Option<&TableStats>, are_independent: bool) -> Self {
        let passing_min = if are_independent { 1.0 } else { PASSING_MIN };
        let mut stats = Self::default();
        // The logarithm of the share of absent items that no layer so far finds. It is exact for small rates.
        let mut ln_passing = 0.0;
        let passing = |ln_passing: f64| libm::exp(ln_passing).max(passing_min);
        for layer in layers {
            stats.estimated_items += layer.estimated_items / passing(ln_passing);
            stats.positions = stats.positions.saturating_add(layer.positions);
            stats.set_bits = stats.set_bits.saturating_add(layer.set_bits);
            stats.size_bits = stats.size_bits.saturating_add(layer.size_bits);
            stats.probes = stats.probes.saturating_add(layer.probes.into());
            ln_passing += libm::log1p(-layer.error_rate.clamp(0.0, 1.0));
        }
        if let Some(table) = table {
            stats.estimated_items += table.distinct_items as f64 / passing(ln_passing);
            ln_passing += libm::log1p(-table.error_rate);
        }
        stats.error_rate = -libm::expm1(ln_passing);
        stats
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layer(estimated_items: f64, error_rate: f64) -> BitsStats {
        let (size_bits, size_bytes, positions, set_bits) = (64, 8, 60, 30);
        let (probes, capacity_items, items) = (3, 10, 5);
        BitsStats {
            size_bits,
            size_bytes,
            probes,
            capacity_items,
            items,
            estimated_items,
            positions,
            set_bits,
            error_rate,
        }
    }

    #[test]
    fn rates_multiply_and_later_layers_have_fewer_items() {
        let stats = FilterStats::of(&[layer(100.0, 0.2), layer(80.0, 0.1)], None, false);
        assert!((stats.error_rate - 0.28).abs() < 1e-12, "{stats:?}");
        assert!((stats.estimated_items - 200.0).abs() < 1e-9, "{stats:?}");
        assert_eq!((stats.positions, stats.set_bits, stats.size_bits, stats.probes), (120, 60, 128, 6));
        let united = FilterStats::of(&[layer(100.0, 0.2), layer(80.0, 0.1)], None, true);
        assert_eq!(united, FilterStats { estimated_items: 180.0, ..stats });
        assert_eq!(FilterStats::of(&[], None, false), FilterStats::default());
        let full = FilterStats::of(&[layer(1.0, 1.0), layer(1.0, 0.5)], None, false);
        assert_eq!((full.error_rate, full.estimated_items), (1.0, 101.0));
        let small = FilterStats::of(&[layer(1.0, 1e-20), layer(1.0, 3e-20)], None, false);
        assert!((small.error_rate - 4e-20).abs() < 1e-30, "{small:?}");
    }

    #[test]
    fn the_items_and_the_rate_of_a_table_are_added() {
        let table = TableStats { distinct_items: 40, items: 50, error_rate: 0.1, ..TableStats::default() };
        let stats = FilterStats::of(&[layer(100.0, 0.2)], Some(&table), false);
        assert!((stats.error_rate - 0.28).abs() < 1e-12, "{stats:?}");
        // A fifth of the items is found in the layer, and so not added to the table.
        assert!((stats.estimated_items - 150.0).abs() < 1e-9, "{stats:?}");
    }
}
