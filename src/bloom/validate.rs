//! The rules of every filter.
//!
//! [`Filter::internal_validate`] is the only place that checks them. Tests and fuzz targets call it after every step,
//! decoders after they have built a filter. The rules of a cell type are in
//! [`Cell::broken_rule`](super::cells::Cell::broken_rule).

use super::cells::{CellState, CellType};
use super::estimate::clients_items;
use super::extent::Extent;
use super::filter::Filter;
use super::growth::Growth;
use super::hash::Hash;
use super::layer::Layer;
use super::layout::{LayerParameters, Modulo};
use super::limits::{CAPACITY_MAX_ITEMS, EXPANSION_MAX, LAYER_MAX_BYTES, LAYER_OCCURRENCES_MAX};
use super::placement::Layout;
use super::policy::{Imported, Policy, valkeybloom};

/// How much of a filter is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// All but the cells: O(layers).
    Layers,
    /// The cells too: O(bytes).
    Cells,
}

impl Filter {
    /// Checks every rule of a filter.
    ///
    /// # Errors
    /// The name of the part that breaks a rule.
    pub fn internal_validate(&self, depth: Depth) -> Result<(), &'static str> {
        if self.layers.is_empty() || !Extent::of(&self.layers).is_countable() {
            return Err("layer count");
        }
        self.layers.iter().try_for_each(Layer::validate)?;
        self.validate_policy()?;
        match depth {
            Depth::Layers => Ok(()),
            Depth::Cells => self.layers.iter().try_for_each(|layer| layer.cells().validate()),
        }
    }

    fn validate_policy(&self) -> Result<(), &'static str> {
        let (layers, growth) = (self.layers(), self.growth());
        if let Some(promise) = self.policy.promise() {
            promise.validate()?;
        }
        let have_cells =
            |cells: CellType| layers.iter().all(|layer| layer.cells().state().cell_type() == cells);
        match &self.policy {
            // Only a saturating filter counts beyond the capacity of a layer.
            Policy::Promise(_) | Policy::Merged(_) => {
                let hash = layers.first().map(Layer::hash);
                let is_own = |layer: &Layer| layer.shape().is_some() && Some(layer.hash()) == hash;
                // A merge appends no layers of counters.
                let is_merged = matches!(self.policy, Policy::Merged(_));
                let can_have = |cells| cells == CellType::Bits || (cells == CellType::Counters && !is_merged);
                if !layers.iter().all(is_own) || !have_cells(self.cell_type()) || !can_have(self.cell_type())
                {
                    return Err("layers");
                }
                if growth == Growth::Saturating { Ok(()) } else { within_capacity(layers) }
            }
            // The layer that takes new items must be able to hash all of them.
            Policy::United(_) => {
                let takes_items = layers.last().is_some_and(|last| last.hash().takes_all_items());
                let are_bits = have_cells(CellType::Bits);
                if takes_items && are_bits { Ok(()) } else { Err("last layer") }
            }
            Policy::Window(window) => {
                let hash = layers.first().map(Layer::hash);
                let is_own = |layer: &Layer| layer.cells().timed().is_some() && Some(layer.hash()) == hash;
                if !layers.iter().all(is_own) {
                    return Err("layers");
                }
                window.validate(layers)
            }
            Policy::RedisBloom(_) => {
                let is_own = |layer: &Layer| matches!(layer.hash(), Hash::RedisBloom(_));
                let items = layers.iter().fold(0u64, |sum, layer| sum.saturating_add(layer.counts().items));
                if !layers.iter().all(is_own) {
                    return Err("layers");
                }
                if items > Modulo::ITEMS_MAX { Err("items of the layers") } else { Ok(()) }
            }
            Policy::ValkeyBloom(policy) => {
                policy.validate()?;
                let hash = layers.first().map(Layer::hash);
                let has_head = |layer: &Layer| layer.cells().has_head() && Some(layer.hash()) == hash;
                if !layers.iter().all(has_head) || !matches!(hash, Some(Hash::ValkeyBloom(_))) {
                    return Err("layers");
                }
                // The format saves only the capacity of the first layer.
                if layers.first().map(Layer::capacity_items) != Some(policy.capacity_items) {
                    return Err("capacity");
                }
                // The format does not save the items of older layers, which are full.
                let older = layers.iter().rev().skip(1);
                let are_full = older.clone().all(Layer::is_full);
                within_capacity(layers)?;
                if are_full { Ok(()) } else { Err("items") }
            }
            Policy::Imported(policy) => validate_imported(policy, layers),
        }
    }
}

/// Checks an imported filter: only the first layer is the client's.
fn validate_imported(policy: &Imported, layers: &[Layer]) -> Result<(), &'static str> {
    if !(policy.error_rate > 0.0 && policy.error_rate < 1.0) {
        return Err("error rate");
    }
    if policy.growth == Growth::Saturating || policy.growth.expansion() > EXPANSION_MAX {
        return Err("expansion");
    }
    let Some((first, rest)) = layers.split_first() else { return Err("layers") };
    let Layout::Scheme(layout) = first.layout() else { return Err("layers") };
    if !policy.form.is_valid(first.cells().size_bits()) {
        return Err("string length");
    }
    let probes = layout.parameters().probes;
    let most_estimated = clients_items(u64::MAX, first.cells().size_bits(), probes).min(first.counts().items);
    if policy.estimated_items > most_estimated {
        return Err("items");
    }
    let is_own = |layer: &Layer| layer.shape().is_some() && *layer.hash() == Hash::Murmur3;
    if !rest.iter().all(is_own) {
        return Err("layers");
    }
    within_capacity(rest)
}

fn within_capacity(layers: &[Layer]) -> Result<(), &'static str> {
    let is_within = |layer: &Layer| layer.counts().items <= layer.capacity_items();
    if layers.iter().all(is_within) { Ok(()) } else { Err("items") }
}

impl Layer {
    /// Checks the rules of a layer with its hash, layout and cells. O(1).
    ///
    /// # Errors
    /// The name of the part that breaks a rule.
    pub fn validate(&self) -> Result<(), &'static str> {
        let (cells, size_bits, capacity_items) =
            (self.cells(), self.cells().size_bits(), self.capacity_items());
        if size_bits == 0 || cells.size_bytes() > LAYER_MAX_BYTES {
            return Err("size in bits");
        }
        let counts = self.counts();
        if counts.set_cells > size_bits {
            return Err("set bits");
        }
        // Each counted item has set a clear cell.
        let mut most_items = size_bits;
        let hashes = match (self.layout(), self.hash()) {
            (Layout::Scattered(_) | Layout::Paged(_), hash) if hash.is_own() => {
                let shape = self.shape().ok_or("layout")?;
                shape.validate()?;
                most_items = shape.positions;
                if shape.size_bits() == size_bits { Ok(()) } else { Err("size in bits") }
            }
            (Layout::Modulo(layout), Hash::RedisBloom(_)) => {
                let written = LayerParameters::of(&layout, size_bits, capacity_items);
                if written.layout(size_bits / 8)? == layout { Ok(()) } else { Err("size in bits") }
            }
            (Layout::Prime(layout), Hash::ValkeyBloom(_)) => {
                layout.check(size_bits)?;
                let is_possible = (1..=valkeybloom::CAPACITY_MAX_ITEMS).contains(&capacity_items);
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
        if counts.items > most_items {
            return Err("items");
        }
        match cells.state() {
            CellState::Counters(state) if counts.items > state.occurrences => Err("distinct items"),
            CellState::Counters(state) if state.occurrences > LAYER_OCCURRENCES_MAX => Err("items"),
            // These cells count items by generation.
            CellState::Columns(_) | CellState::Burst(_) if counts.items > 0 => Err("items"),
            _ => Ok(()),
        }
    }
}
