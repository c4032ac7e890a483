//! What can be read off a layer and off a filter, for the people who run it.

use super::chain::Chain;
use super::family::Family;
use super::layer::Layer;
use super::placement::Probes;
use super::storage::Storage;

/// What can be read off a layer, whatever its kind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LayerReading {
    /// Bits of its storage.
    pub size_bits: u64,
    /// Bytes of its storage.
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

impl<P: Probes> Layer<P> {
    /// What can be read off the layer. O(1): a few microseconds where probes are confined to pages.
    #[must_use]
    pub fn reading(&self) -> LayerReading {
        let (placement, storage) = (self.placement(), self.storage());
        LayerReading {
            size_bits: storage.size_bits(),
            size_bytes: storage.size_bytes(),
            probes: placement.probes(),
            capacity_items: self.capacity_items(),
            items: self.counts().items,
            estimated_items: placement.estimated_items(storage),
            cells: placement.cells(storage),
            set_cells: storage.set_bits(),
            error_rate: placement.error_rate_now(storage),
        }
    }
}

impl<F: Family> Chain<F> {
    /// What can be read off the layers, the oldest first, and off all together. O(layers).
    #[must_use]
    pub fn reading(&self) -> (Vec<LayerReading>, FilterReading) {
        let layers: Vec<_> = self.layers().iter().map(Layer::reading).collect();
        let whole = if self.family().are_layers_united(self.layers()) {
            FilterReading::of_united(&layers)
        } else {
            FilterReading::of(&layers)
        };
        (layers, whole)
    }
}

/// What the layers of a filter say together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FilterReading {
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
    /// Bits of all storages.
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

impl FilterReading {
    /// Of the layers of a filter, the oldest first. O(layers).
    #[must_use]
    pub fn of(layers: &[LayerReading]) -> Self {
        Self::of_layers(layers, PASSING_MIN)
    }

    /// Of the layers of filters that were united: what is in one layer did not have to get past another, so
    /// their estimates are added up. An item that is in several counts as often. O(layers).
    #[must_use]
    pub fn of_united(layers: &[LayerReading]) -> Self {
        Self::of_layers(layers, 1.0)
    }

    fn of_layers(layers: &[LayerReading], passing_min: f64) -> Self {
        let mut reading = Self::default();
        // The logarithm of the share of absent items that all layers so far find absent: no digits are lost
        // where rates are small.
        let mut ln_passing = 0.0;
        for layer in layers {
            reading.estimated_items += layer.estimated_items / libm::exp(ln_passing).max(passing_min);
            reading.cells = reading.cells.saturating_add(layer.cells);
            reading.set_cells = reading.set_cells.saturating_add(layer.set_cells);
            reading.size_bits = reading.size_bits.saturating_add(layer.size_bits);
            reading.probes = reading.probes.saturating_add(layer.probes.into());
            ln_passing += libm::log1p(-layer.error_rate.clamp(0.0, 1.0));
        }
        reading.error_rate = -libm::expm1(ln_passing);
        reading
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layer(estimated_items: f64, error_rate: f64) -> LayerReading {
        let (size_bits, size_bytes, cells, set_cells) = (64, 8, 60, 30);
        let (probes, capacity_items, items) = (3, 10, 5);
        LayerReading {
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
    fn rates_multiply_and_later_layers_are_known_to_have_seen_less() {
        let reading = FilterReading::of(&[layer(100.0, 0.2), layer(80.0, 0.1)]);
        assert!((reading.error_rate - 0.28).abs() < 1e-12, "{reading:?}");
        assert!((reading.estimated_items - 200.0).abs() < 1e-9, "{reading:?}");
        assert_eq!((reading.cells, reading.set_cells, reading.size_bits, reading.probes), (120, 60, 128, 6));
        let united = FilterReading::of_united(&[layer(100.0, 0.2), layer(80.0, 0.1)]);
        assert_eq!(united, FilterReading { estimated_items: 180.0, ..reading });
        assert_eq!(FilterReading::of(&[]), FilterReading::default());
        let full = FilterReading::of(&[layer(1.0, 1.0), layer(1.0, 0.5)]);
        assert_eq!((full.error_rate, full.estimated_items), (1.0, 101.0));
        let small = FilterReading::of(&[layer(1.0, 1e-20), layer(1.0, 3e-20)]);
        assert!((small.error_rate - 4e-20).abs() < 1e-30, "{small:?}");
    }
}
