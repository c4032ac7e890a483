//! What a layer holds, by its cells and by its count, and how often it errs, now and when it is full.

use crate::bloom::estimate::{clients_items, deviation, whole};
use crate::bloom::layer::Layer;
use crate::bloom::sizing::{self, full_rate, full_rate_anywhere};

/// A layer without its cells, and how much is in it or will be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Holding<'f> {
    /// A layer of that shape.
    pub(super) shape: &'f Layer,
    /// Cells that are set, or will be.
    pub(super) set_cells: u64,
    /// Distinct items in it: counted where every one was, else estimated from the fill.
    pub(super) items: u64,
}

/// Standard deviations of the estimate within which a count is taken for exact.
const DEVIATIONS: f64 = 4.0;

impl<'f> Holding<'f> {
    /// Returns what a layer holds now. O(1).
    pub(super) fn of(layer: &'f Layer) -> Self {
        let counts = layer.counts();
        let holding = Self { shape: layer, set_cells: counts.set_cells, items: counts.items };
        // The count is exact unless cells came without being counted, which the fill tells.
        let by_fill = holding.items_by_fill(counts.set_cells);
        let noise = 1.0 + DEVIATIONS * deviation(by_fill as f64, layer.positions(), layer.layout().probes());
        let is_counted = counts.items.abs_diff(by_fill) as f64 <= noise;
        Self { items: if is_counted { counts.items } else { by_fill }, ..holding }
    }

    /// Returns the same of another layer of the same shape.
    pub(super) const fn of_shape<'s>(&self, shape: &'s Layer) -> Holding<'s> {
        Holding { shape, set_cells: self.set_cells, items: self.items }
    }

    /// Returns the items that it takes before it is full.
    pub(super) fn capacity_items(&self) -> u64 {
        self.shape.capacity_items()
    }

    /// Returns the distinct items that have set so many cells. O(1).
    pub(super) fn items_by_fill(&self, set_cells: u64) -> u64 {
        match self.shape.shape() {
            Some(shape) => whole(sizing::estimated_items(&shape, set_cells)),
            None => clients_items(set_cells, self.shape.positions(), self.shape.layout().probes()),
        }
    }

    /// Returns the most set cells that stand for no more items than it has capacity for. O(log cells).
    pub(super) fn most_set_cells(&self) -> u64 {
        let (mut fewest, mut most) = (0, self.shape.positions());
        while fewest < most {
            let middle = fewest + (most - fewest).div_ceil(2);
            if self.items_by_fill(middle) <= self.capacity_items() {
                fewest = middle;
            } else {
                most = middle - 1;
            }
        }
        fewest
    }

    /// Returns the share of absent items that it takes for present, by its fill. O(1).
    pub(super) fn error_rate(&self) -> f64 {
        self.shape.error_rate_at(self.set_cells.min(self.shape.positions()))
    }

    /// Returns the share of absent items that it takes for present once it has taken as many items as it has capacity for; no
    /// less than now. O(probes).
    pub(super) fn full_error_rate(&self) -> f64 {
        let full = match self.shape.shape() {
            Some(shape) => full_rate(&shape),
            None => {
                let (positions, probes) = (self.shape.positions(), self.shape.layout().probes());
                full_rate_anywhere(self.capacity_items(), positions, probes)
            }
        };
        full.max(self.error_rate())
    }

    /// Returns whether it holds more items than it was sized for.
    pub(super) fn is_overfull(&self) -> bool {
        self.items > self.capacity_items()
    }

    /// Returns whether there is room for the items of `other` too: by their counts, all of them taken for different ones, or
    /// by what the cells of both will be then.
    pub(super) fn has_room_for(&self, other: &Self) -> bool {
        self.items.saturating_add(other.items) <= self.capacity_items()
            || self.items_by_fill(self.set_cells_with(other)) <= self.capacity_items()
    }

    /// Returns the cells that are set once those of `other` are too, if the items of both are different ones. Items that are in
    /// both set fewer.
    pub(super) fn set_cells_with(&self, other: &Self) -> u64 {
        let cells = self.shape.positions().max(1) as f64;
        let clear = (1.0 - self.set_cells as f64 / cells) * (1.0 - other.set_cells as f64 / cells);
        whole(((1.0 - clear) * cells).ceil())
    }

    /// Returns what it holds with `other` too when so many cells are set.
    pub(super) fn with(&self, other: &Self, set_cells: u64) -> Self {
        Self { set_cells, items: self.items_with(other, set_cells), ..*self }
    }

    /// Returns the items of both together when so many cells are set: what the fill tells, between what must be and what can be.
    pub(super) fn items_with(&self, other: &Self, set_cells: u64) -> u64 {
        let least = self.items.max(other.items);
        let most = self.items.saturating_add(other.items);
        self.items_by_fill(set_cells).clamp(least, most.max(least))
    }
}

/// Returns the sum of the error rates of layers, that of the `open` one when it is full. O(layers).
pub(super) fn spent(layers: &[Holding<'_>], open: Option<usize>) -> f64 {
    let rate = |(number, layer): (usize, &Holding<'_>)| {
        if Some(number) == open { layer.full_error_rate() } else { layer.error_rate() }
    };
    layers.iter().enumerate().map(rate).sum()
}
