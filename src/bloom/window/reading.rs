//! What can be read off a filter that forgets, at the time that it was told.

use super::adding::live_rate;
use super::parameters::Window;
use crate::bloom::chain::Chain;
use crate::bloom::placement::Probes;
use crate::bloom::reading::{FilterReading, LayerReading};
use crate::bloom::storage::Storage;

impl Chain<Window> {
    /// What can be read off the layers, the oldest first, and off all together: of what is live. Items are
    /// counted in every generation in which they were added. O(layers).
    #[must_use]
    pub fn reading_told(&self) -> (Vec<LayerReading>, FilterReading) {
        let now = self.family().told().now;
        let layers = self.layers().iter().map(|layer| {
            let storage = layer.storage();
            let items = storage.history().live(now).fold(0u64, |sum, (_, items)| sum.saturating_add(items));
            LayerReading {
                size_bits: storage.size_bits(),
                size_bytes: storage.size_bytes(),
                probes: layer.placement().probes(),
                capacity_items: layer.capacity_items(),
                items,
                estimated_items: items as f64,
                cells: storage.size_bits(),
                set_cells: storage.set_bits(),
                error_rate: live_rate(layer, now, 0).min(1.0),
            }
        });
        let layers: Vec<_> = layers.collect();
        let whole = FilterReading::of_united(&layers);
        (layers, whole)
    }
}
