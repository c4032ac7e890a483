//! The error rates of a merge: what layers have spent of the promise, and what is left for the items that come later.

use super::MergeError;
use super::contents::Contents;
use crate::filter::Filter;
use crate::filter::policy::{BITS_SHARE, Growth, Promise};
use crate::table::Table;

/// The factor by which a computed error rate may exceed the promise, because it comes from expected numbers of entries
/// and from rounded numbers.
const TOLERANCE: f64 = 1.0 + 1.0 / 64.0;

/// Returns the sum of the error rates of layers. Layer `open` still takes items, so it counts with its rate when full; the
/// others count with their current rate. O(layers).
pub(super) fn spent(layers: &[Contents<'_>], open: Option<usize>) -> f64 {
    let rate = |(number, layer): (usize, &Contents<'_>)| {
        if Some(number) == open { layer.full_error_rate() } else { layer.error_rate() }
    };
    layers.iter().enumerate().map(rate).sum()
}

/// The division of a promise between the layers of a filter and the part that follows them.
impl Promise {
    /// Returns whether a filter with this error rate keeps the promise.
    pub(super) fn permits(&self, rate: f64) -> bool {
        rate <= self.error_rate * TOLERANCE
    }

    /// Returns the highest error rate over the whole life of a filter whose layers have spent `spent`. It includes the
    /// rate of the table that follows if the filter can grow.
    pub(super) fn rate_with_growth(&self, spent: f64) -> f64 {
        if self.growth.is_fixed_size() { spent } else { spent + self.table_error_rate() }
    }

    /// Returns the highest error rate over the whole life of a filter whose layers have spent `spent`, if another part
    /// takes all new items: a table, or a layer with a quarter of the promise.
    pub(super) fn rate_with_next_part(&self, spent: f64) -> f64 {
        spent + self.error_rate * (1.0 - BITS_SHARE)
    }

    /// Returns the error rate of a new last layer: the rest of the promise, at least a quarter of it.
    pub(super) fn next_layer_error_rate(&self, spent: f64) -> f64 {
        (self.error_rate - spent).max(self.error_rate * (1.0 - BITS_SHARE))
    }

    /// Returns the error for a merged filter with this rate. The merge would be accepted with a promise of `needed`.
    pub(super) const fn refusal(&self, rate: f64, needed: f64) -> MergeError {
        MergeError::ErrorRate { rate, promised: self.error_rate, needed }
    }
}

impl Filter {
    /// Returns the highest error rate over the whole life of the filter: the promised one, unless a merge was forced;
    /// `None` if there is no bound. O(layers).
    #[must_use]
    pub fn error_rate_max(&self) -> Option<f64> {
        let promise = self.policy.promise()?;
        if promise.growth == Growth::Saturating {
            return None;
        }
        let layers: Vec<Contents<'_>> = self.layers().iter().map(Contents::of).collect();
        let of_bits = if self.policy.has_merged_layers() {
            let last = if self.table().is_none() { layers.len().checked_sub(1) } else { None };
            spent(&layers, last)
        } else {
            let sized = promise.bits_error_rate();
            let of_layer = |layer: &Contents<'_>| match layer.error_rate() {
                rate if layer.items > layer.shape.capacity_items() => rate.max(sized),
                // A layer before a table takes no more items.
                rate if self.table().is_some() => rate.min(sized),
                _ => sized,
            };
            layers.iter().map(of_layer).sum()
        };
        let of_table = self.table().map(Table::error_rate_max);
        let rate = of_table.map_or_else(|| promise.rate_with_growth(of_bits), |rate| of_bits + rate);
        Some(if promise.permits(rate) { promise.error_rate } else { rate })
    }

    /// Returns whether `rate` exceeds the highest error rate that the filter can reach without the merge; true if that
    /// has no bound. O(layers).
    pub(super) fn is_worse_with(&self, rate: f64) -> bool {
        self.error_rate_max().is_none_or(|before| rate > before * TOLERANCE)
    }
}
