//! The rules that every filter keeps, whichever way it came to be.
//!
//! [`Chain::internal_validate`] is the one place that checks them: tests and fuzz targets after every step, decoders once
//! they have built a filter. What holds for one kind only is in [`Family::validate_layers`] of that kind, what holds for the
//! cells of a storage in [`Storage::broken_rule`].

use super::chain::Chain;
use super::extent::Extent;
use super::family::Family;
use super::layer::Layer;
use super::limits::LAYER_MAX_BYTES;
use super::placement::Probes;
use super::storage::Storage;

/// How much of a filter is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// All but the cells: O(layers).
    Layers,
    /// The cells too: O(bytes).
    Cells,
}

impl<F: Family> Chain<F> {
    /// Checks every rule of a filter.
    ///
    /// # Errors
    /// What breaks a rule.
    pub fn internal_validate(&self, depth: Depth) -> Result<(), &'static str> {
        if self.layers.is_empty() || !Extent::of::<F>(&self.layers).is_countable() {
            return Err("layer count");
        }
        self.layers.iter().try_for_each(check_counts)?;
        self.family.validate_layers(&self.layers)?;
        match depth {
            Depth::Layers => Ok(()),
            Depth::Cells => self.layers.iter().try_for_each(|layer| check_cells(layer.storage())),
        }
    }
}

fn check_counts<P: Probes>(layer: &Layer<P>) -> Result<(), &'static str> {
    let storage = layer.storage();
    if storage.size_bytes() == 0 || storage.size_bytes() > LAYER_MAX_BYTES {
        return Err("size in bits");
    }
    if storage.set_bits() > storage.size_bits() { Err("set bits") } else { Ok(()) }
}

fn check_cells(storage: &impl Storage) -> Result<(), &'static str> {
    if let Some(rule) = storage.broken_rule() {
        return Err(rule);
    }
    let is_counted = storage.set_cells_in(0..storage.words().len()) == storage.set_bits();
    if is_counted { Ok(()) } else { Err("set bits") }
}
