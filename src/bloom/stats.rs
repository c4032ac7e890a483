//! Statistics of layers and of filters, for the people who run them.

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

/// The statistics of a layer, whatever its kind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LayerStats {
    /// Bits of its cells.
    pub size_bits: u64,
    /// Bytes of its cells.
    pub size_bytes: u64,
    /// Probes per item.
    pub probes: u32,
    /// Items it was sized for.
    pub capacity_items: u64,
    /// Items it counts: those that were new to the filter when they were added.
    pub items: u64,
    /// Distinct items that it has met, estimated from its fill.
    pub estimated_items: f64,
    /// Cells, mostly bits, that its probes can reach.
    pub cells: u64,
    /// Those of them that are set.
    pub set_cells: u64,
    /// Expected share of absent items that it takes for present now.
    pub error_rate: f64,
}

impl Layer {
    /// Returns the distinct items that the layer has met, as estimated from its set cells. O(probes).
    #[must_use]
    pub fn estimated_items(&self) -> f64 {
        let set_cells = self.counts().set_cells;
        match self.shape() {
            Some(shape) => sizing::estimated_items(&shape, set_cells),
            None => {
                // Of equal hashes the first two probes are one.
                let probes = self.layout().probes().saturating_sub(self.has_equal_hashes().into());
                estimate::estimated_items(set_cells, self.positions(), probes)
            }
        }
    }

    /// Returns the expected share of absent items that the layer takes for present now. O(1): a few microseconds where probes are
    /// confined to pages.
    #[must_use]
    pub fn error_rate_now(&self) -> f64 {
        let set_cells = self.counts().set_cells;
        // Equal hashes depend on each other in ways that the fill does not show, so their rate is measured.
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

    /// Returns the share of items that are taken for present, of items that look random and are the same each time.
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

    /// Returns the share of absent items that the layer would take for present with so many set cells. O(1).
    #[must_use]
    pub fn error_rate_at(&self, set_cells: u64) -> f64 {
        match self.shape() {
            Some(shape) => sizing::error_rate_now(&shape, set_cells),
            None => estimate::error_rate_now(fill(set_cells, self.positions()), self.layout().probes()),
        }
    }
}

/// Probes that the error rate is measured by where the hashes are equal. Among some thousand absent items are enough false
/// positives: even at a promised rate of 1e-6 a full layer has 5 in a thousand.
const MEASURED_PROBES: u64 = 1 << 16;

impl Filter {
    /// Returns the statistics of the layers, the oldest first, and of all together; of a sliding window of what is live, with items
    /// counted in every generation in which they were added. O(layers).
    #[must_use]
    pub fn stats(&self) -> (Vec<LayerStats>, FilterStats) {
        let layers: Vec<_> = self.layers.iter().map(|layer| self.layer_stats(layer)).collect();
        // What is live in a sliding window is counted, not estimated.
        let are_united =
            self.policy.are_layers_united(&self.layers) || matches!(self.policy, Policy::Window(_));
        let whole = if are_united { FilterStats::of_united(&layers) } else { FilterStats::of(&layers) };
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
            (CellState::Columns(_), Some(window)) => {
                let (now, items) = (window.moment().now, self.distinct_items_of(layer));
                let error_rate = live_rate(layer, now, 0).min(1.0);
                LayerStats {
                    items,
                    estimated_items: items as f64,
                    cells: stats.size_bits,
                    error_rate,
                    ..stats
                }
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

/// The statistics of a filter: what those of its layers come to together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FilterStats {
    /// Distinct items that were added, estimated from the fill of all layers.
    ///
    /// An item that an older layer takes for present does not reach a newer one, whose own estimate is
    /// therefore divided by the share of items that get past the older ones: they were full before it was
    /// made, and have erred since as they do now.
    pub estimated_items: f64,
    /// Cells that probes can reach.
    pub cells: u64,
    /// Those of them that are set.
    pub set_cells: u64,
    /// Bits of all cells.
    pub size_bits: u64,
    /// Probes of an item over all layers.
    pub probes: u64,
    /// Expected share of absent items that the filter takes for present now: `1 - product of (1 - rate of a
    /// layer)`.
    pub error_rate: f64,
}

/// Least share of items that is taken to get past the older layers: where they take nearly everything for
/// present, what got past them says little.
const PASSING_MIN: f64 = 0.01;

impl FilterStats {
    /// Returns those of a filter with these layers, the oldest first. O(layers).
    #[must_use]
    pub fn of(layers: &[LayerStats]) -> Self {
        Self::of_layers(layers, PASSING_MIN)
    }

    /// Returns those of a filter whose layers were united: what is in one layer did not have to get past another, so
    /// their estimates are added up. An item that is in several counts as often. O(layers).
    #[must_use]
    pub fn of_united(layers: &[LayerStats]) -> Self {
        Self::of_layers(layers, 1.0)
    }

    fn of_layers(layers: &[LayerStats], passing_min: f64) -> Self {
        let mut stats = Self::default();
        // The logarithm of the share of absent items that all layers so far find absent: no digits are lost
        // where rates are small.
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
    fn rates_multiply_and_later_layers_have_seen_less() {
        let stats = FilterStats::of(&[layer(100.0, 0.2), layer(80.0, 0.1)]);
        assert!((stats.error_rate - 0.28).abs() < 1e-12, "{stats:?}");
        assert!((stats.estimated_items - 200.0).abs() < 1e-9, "{stats:?}");
        assert_eq!((stats.cells, stats.set_cells, stats.size_bits, stats.probes), (120, 60, 128, 6));
        let united = FilterStats::of_united(&[layer(100.0, 0.2), layer(80.0, 0.1)]);
        assert_eq!(united, FilterStats { estimated_items: 180.0, ..stats });
        assert_eq!(FilterStats::of(&[]), FilterStats::default());
        let full = FilterStats::of(&[layer(1.0, 1.0), layer(1.0, 0.5)]);
        assert_eq!((full.error_rate, full.estimated_items), (1.0, 101.0));
        let small = FilterStats::of(&[layer(1.0, 1e-20), layer(1.0, 3e-20)]);
        assert!((small.error_rate - 4e-20).abs() < 1e-30, "{small:?}");
    }
}
