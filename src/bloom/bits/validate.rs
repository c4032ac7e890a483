//! The rules of a layer.

use super::estimate::clients_items;
use super::layer::Layer;
use super::layout::LayerParameters;
use super::placement::Layout;
use crate::bloom::hash::Hash;
use crate::bloom::limits::{CAPACITY_MAX_ITEMS, LAYER_MAX_BYTES, VALKEYBLOOM_CAPACITY_MAX_ITEMS};

impl Layer {
    /// Checks the rules of a layer with its hash, layout and bits. O(1).
    ///
    /// # Errors
    /// The name of the part that breaks a rule.
    pub fn validate(&self) -> Result<(), &'static str> {
        let (size_bits, capacity_items) = (self.bits().size_bits(), self.capacity_items());
        if size_bits == 0 || self.bits().size_bytes() > LAYER_MAX_BYTES {
            return Err("size in bits");
        }
        let counts = self.counts();
        if counts.set_bits > size_bits {
            return Err("set bits");
        }
        // Each counted item has set a clear bit.
        let mut most_items = size_bits;
        let hashes = match (self.layout(), self.hash()) {
            (Layout::Scattered(_) | Layout::Paged(_), hash) if hash.is_own() => {
                let shape = self.shape().ok_or("layout")?;
                shape.validate()?;
                most_items = shape.positions;
                if shape.positions == size_bits { Ok(()) } else { Err("size in bits") }
            }
            (Layout::Modulo(layout), Hash::RedisBloom(_)) => {
                let written = LayerParameters::of(&layout, size_bits, capacity_items);
                if written.layout(size_bits / 8)? == layout { Ok(()) } else { Err("size in bits") }
            }
            (Layout::Prime(layout), Hash::ValkeyBloom(_)) => {
                layout.check(size_bits)?;
                let is_possible = (1..=VALKEYBLOOM_CAPACITY_MAX_ITEMS).contains(&capacity_items);
                if is_possible { Ok(()) } else { Err("capacity") }
            }
            // The count may exceed the capacity because it begins with an estimate, which is at most that of a full
            // array. Every counted item has set a clear bit. The count can only be higher, up to the capacity, in an
            // array that chunks filled after items were added.
            (Layout::Scheme(layout), Hash::Client(..)) => {
                if capacity_items == 0 || capacity_items > CAPACITY_MAX_ITEMS {
                    return Err("capacity");
                }
                let estimated = clients_items(size_bits, size_bits, layout.parameters().probes);
                most_items = estimated.saturating_add(size_bits).max(capacity_items);
                if layout.array_bits() == size_bits { Ok(()) } else { Err("size in bits") }
            }
            _ => Err("hash"),
        };
        hashes?;
        if counts.items > most_items { Err("items") } else { Ok(()) }
    }
}
