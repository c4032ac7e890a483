//! Statistics of layers and of filters, for operators.

use super::cells::CellState;
use super::estimate::{self, fill};
use super::filter::Filter;
use super::hash::murmur3::hash128;
use super::hash::{Hash, ItemHash};
use super::layer::Layer;
use super::policy::Policy;
use super::prefetch::NoPrefetch;
use super::sizing;
use super::window::{Moment, live_rate};

/// The statistics of a layer of any kind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LayerStats {
    /// Bits of its cells.
    pub size_bits: u64,
    /// Bytes of its cells.
    pub size_bytes: u64,
    /// Probes per item.
    pub probes: u32,
    /// Its capacity.
    pub capacity_items: u64,
    /// Counted items: those that were new to the filter when they were added.
    pub items: u64,
    /// Distinct added items, estimated from its fill.
    pub estimated_items: f64,
    /// Cells that the layer's probes can reach.
    pub cells: u64,
    /// Set cells among them.
    pub set_cells: u64,
    /// Its expected current error rate.
    pub error_rate: f64,
}

impl Layer {
    /// Returns the estimated number of distinct added items, from the set cells. O(probes).
    #[must_use]
    pub fn estimated_items(&self) -> f64 {
        let set_cells = self.counts().set_cells;
        match self.shape() {
            Some(shape) => sizing::estimated_items(&shape, set_cells),
            None => {
                // With equal hashes the first two probes coincide.
                let probes = self.layout().probes().saturating_sub(self.has_equal_hashes().into());
                estimate::estimated_items(set_cells, self.positions(), probes)
            }
        }
    }

    /// Returns the expected current error rate. O(1); a few microseconds in a paged layout.
    #[must_use]
    pub fn error_rate_now(&self) -> f64 {
        let set_cells = self.counts().set_cells;
        // With equal hashes the rate does not follow from the fill, so it is measured.
        if self.has_equal_hashes() && set_cells > 0 {
            self.measured_rate()
        } else {
            self.error_rate_at(set_cells)
        }
    }

    /// Returns whether the two hashes of every item are equal.
    fn has_equal_hashes(&self) -> bool {
        matches!(self.hash(), Hash::ValkeyBloom(seed) if seed.has_equal_halves())
    }

    /// Returns the share of pseudo-random items that are found. The items are always the same.
    /// O([`MEASURED_PROBES`]).
    fn measured_rate(&self) -> f64 {
        let probes = u64::from(self.layout().probes());
        let items = (MEASURED_PROBES / probes.max(1)).max(1);
        let is_found = |number: &u64| {
            let h1 = hash128(&number.to_le_bytes()).h1;
            self.contains(ItemHash { h1, h2: h1 }, Moment::default(), NoPrefetch)
        };
        (0..items).filter(is_found).count() as f64 / items as f64
    }

    /// Returns the error rate of the layer with `set_cells` set cells. O(1).
    #[must_use]
    pub fn error_rate_at(&self, set_cells: u64) -> f64 {
        match self.shape() {
            Some(shape) => sizing::error_rate_now(&shape, set_cells),
            None => estimate::error_rate_now(fill(set_cells, self.positions()), self.layout().probes()),
        }
    }
}

/// Probes with which the error rate of equal hashes is measured. A few thousand absent items give enough false
/// positives: a full layer with a promised rate of 1e-6 has 5 in a thousand.
const MEASURED_PROBES: u64 = 1 << 16;

impl Filter {
    /// Returns the statistics of the layers, the oldest first, and of the filter. In a sliding window they are those
    /// of the live items, each counted in every generation in which it was added. O(layers).
    #[must_use]
    pub fn stats(&self) -> (Vec<LayerStats>, FilterStats) {
        let layers: Vec<_> = self.layers.iter().map(|layer| self.layer_stats(layer)).collect();
        // The live items of a sliding window are counted, not estimated.
        let are_independent = self.policy.has_merged_layers() || matches!(self.policy, Policy::Window(_));
        let whole = FilterStats::of(&layers, are_independent);
        (layers, whole)
    }

    fn layer_stats(&self, layer: &Layer) -> LayerStats {
        let (counts, cells) = (layer.counts(), layer.cells());
        let stats = LayerStats {
            size_bits: cells.size_bits(),
            size_bytes: cells.size_bytes(),
            probes: layer.layout().probes(),
            capacity_items: layer.capacity_items(),
            items: counts.items,
            estimated_items: 0.0,
            cells: layer.positions(),
            set_cells: counts.set_cells,
            error_rate: 0.0,
        };
        match (cells.state(), self.window()) {
            (CellState::Columns(_) | CellState::Burst(_), Some(window)) => {
                let (now, items) = (window.moment().now, self.distinct_items_of(layer));
                let error_rate = live_rate(layer, now).min(1.0);
                let (estimated_items, cells) = (items as f64, stats.size_bits);
                LayerStats { items, estimated_items, cells, error_rate, ..stats }
            }
            (state, _) => {
                let items =
                    if let CellState::Counters(state) = state { state.occurrences } else { counts.items };
                let (estimated_items, error_rate) = (layer.estimated_items(), layer.error_rate_now());
                LayerStats { items, estimated_items, error_rate, ..stats }
            }
        }
    }
}

/// The statistics of a filter, from those of its layers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FilterStats {
    /// Distinct added items, estimated from the fill of all layers.
    ///
    /// An item that is found in an older layer is not added to a newer one. So the estimate of a newer layer is
    /// divided by the share of absent items that the older layers do not find. The older layers were full before the
    /// newer one was created, so their error rates have not changed since.
    pub estimated_items: f64,
    /// Cells that probes can reach.
    pub cells: u64,
    /// Set cells among them.
    pub set_cells: u64,
    /// Bits of all cells.
    pub size_bits: u64,
    /// Probes of an item over all layers.
    pub probes: u64,
    /// Its expected current error rate: `1 - product of (1 - rate of a layer)`.
    pub error_rate: f64,
}

/// Smallest assumed share of absent items that older layers do not find. Below it, the estimate of a newer layer is
/// not meaningful.
const PASSING_MIN: f64 = 0.01;

impl FilterStats {
    /// Returns the statistics of a filter with these layers, the oldest first. If the layers `are_independent`, as
    /// after a merge, an item may be in several layers, and their estimates are added. O(layers).
    #[must_use]
    pub fn of(layers: &[LayerStats], are_independent: bool) -> Self {
        let passing_min = if are_independent { 1.0 } else { PASSING_MIN };
        let mut stats = Self::default();
        // The logarithm of the share of absent items that no layer so far finds. It is exact for small rates.
        let mut ln_passing = 0.0;
        for layer in layers {
            stats.estimated_items += layer.estimated_items / libm::exp(ln_passing).max(passing_min);
            stats.cells = stats.cells.saturating_add(layer.cells);
            stats.set_cells = stats.set_cells.saturating_add(layer.set_cells);
            stats.size_bits = stats.size_bits.saturating_add(layer.size_bits);
            stats.probes = stats.probes.saturating_add(layer.probes.into());
            ln_passing += libm::log1p(-layer.error_rate.clamp(0.0, 1.0));
        }
        stats.error_rate = -libm::expm1(ln_passing);
        stats
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layer(estimated_items: f64, error_rate: f64) -> LayerStats {
        let (size_bits, size_bytes, cells, set_cells) = (64, 8, 60, 30);
        let (probes, capacity_items, items) = (3, 10, 5);
        LayerStats {
            size_bits,
            size_bytes,
            probes,
            capacity_items,
            items,
            estimated_items,
            cells,
            set_cells,
            error_rate,
        }
    }

    #[test]
    fn rates_multiply_and_later_layers_have_fewer_items() {
        let stats = FilterStats::of(&[layer(100.0, 0.2), layer(80.0, 0.1)], false);
        assert!((stats.error_rate - 0.28).abs() < 1e-12, "{stats:?}");
        assert!((stats.estimated_items - 200.0).abs() < 1e-9, "{stats:?}");
        assert_eq!((stats.cells, stats.set_cells, stats.size_bits, stats.probes), (120, 60, 128, 6));
        let united = FilterStats::of(&[layer(100.0, 0.2), layer(80.0, 0.1)], true);
        assert_eq!(united, FilterStats { estimated_items: 180.0, ..stats });
        assert_eq!(FilterStats::of(&[], false), FilterStats::default());
        let full = FilterStats::of(&[layer(1.0, 1.0), layer(1.0, 0.5)], false);
        assert_eq!((full.error_rate, full.estimated_items), (1.0, 101.0));
        let small = FilterStats::of(&[layer(1.0, 1e-20), layer(1.0, 3e-20)], false);
        assert!((small.error_rate - 4e-20).abs() < 1e-30, "{small:?}");
    }
}
