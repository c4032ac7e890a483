//! The rules of every filter.
//!
//! [`Filter::internal_validate`] is the only place that checks them. Tests and fuzz targets call it after every step,
//! decoders after they have built a filter.

use super::Filter;
use super::growth::Growth;
use super::policy::{Imported, Policy};
use super::size::Footprint;
use crate::bloom::bits::estimate::clients_items;
use crate::bloom::bits::layout::Modulo;
use crate::bloom::bits::{Layer, Layout};
use crate::bloom::hash::Hash;
use crate::bloom::limits::EXPANSION_MAX;
use crate::bloom::table::{EntryKind, Table};

/// How much of a filter is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validation {
    /// All but bits and entries: O(layers).
    Parts,
    /// Bits and entries too: O(bytes).
    Contents,
}

impl Filter {
    /// Checks every rule of a filter.
    ///
    /// # Errors
    /// The name of the part that breaks a rule.
    pub fn internal_validate(&self, depth: Validation) -> Result<(), &'static str> {
        if !Footprint::of(self.layers()).is_countable() {
            return Err("layer count");
        }
        self.layers().iter().try_for_each(Layer::validate)?;
        if let Some(promise) = self.policy.promise() {
            promise.validate()?;
        }
        match (&self.policy, self.table()) {
            (Policy::Counting(_) | Policy::Window(_), Some(table)) => self.validate_table_alone(table)?,
            (Policy::Counting(_) | Policy::Window(_), None) => return Err("table"),
            _ => self.validate_bits()?,
        }
        match depth {
            Validation::Parts => Ok(()),
            Validation::Contents => {
                self.layers().iter().try_for_each(|layer| layer.bits().validate())?;
                self.table().map_or(Ok(()), Table::internal_validate)
            }
        }
    }

    /// Checks a counting filter or a window, whose entries are in a table.
    fn validate_table_alone(&self, table: &Table) -> Result<(), &'static str> {
        let kind = match &self.policy {
            Policy::Window(window) => {
                window.validate()?;
                EntryKind::Timed
            }
            _ if self.growth() == Growth::Saturating => return Err("growth"),
            _ => EntryKind::Counted,
        };
        let is_own = self.layers().is_empty() && table.kind() == kind && self.hash().is_own();
        if is_own { Ok(()) } else { Err("table") }
    }

    /// Checks a filter of bits, which may have a table of further items, or of such a table alone.
    fn validate_bits(&self) -> Result<(), &'static str> {
        let (layers, growth) = (self.layers(), self.growth());
        if self.table().is_some_and(|table| table.kind() != EntryKind::Plain || growth.is_fixed_size()) {
            return Err("table");
        }
        let (hash, of_table) = (layers.first().map(Layer::hash), self.table_hash());
        if of_table.is_some_and(|of_table| !of_table.is_own()) {
            return Err("table");
        }
        if layers.is_empty() && !(growth.is_unreserved() && of_table.is_some()) {
            return Err("layer count");
        }
        match &self.policy {
            Policy::Everbloom(_) | Policy::Merged(_) => {
                let is_own = |layer: &Layer| layer.shape().is_some() && Some(layer.hash()) == hash;
                if !layers.iter().all(is_own) {
                    return Err("layers");
                }
                if of_table.is_some_and(|of_table| hash.is_some_and(|hash| hash != of_table)) {
                    return Err("table");
                }
                // Only a saturating filter counts beyond the capacity of a layer.
                if growth == Growth::Saturating { Ok(()) } else { within_capacity(layers) }
            }
            // The part that takes new items must be able to hash all of them.
            Policy::Union(_) => {
                let last = of_table.or(layers.last().map(Layer::hash));
                if last.is_some_and(Hash::takes_all_items) { Ok(()) } else { Err("last layer") }
            }
            Policy::RedisBloom(_) => {
                let is_own = |layer: &Layer| matches!(layer.hash(), Hash::RedisBloom(_));
                let items = layers.iter().fold(0u64, |sum, layer| sum.saturating_add(layer.counts().items));
                if !layers.iter().all(is_own) || of_table.is_some() {
                    return Err("layers");
                }
                if items > Modulo::ITEMS_MAX { Err("items of the layers") } else { Ok(()) }
            }
            Policy::ValkeyBloom(policy) => {
                policy.validate()?;
                let has_head = |layer: &Layer| layer.bits().has_head() && Some(layer.hash()) == hash;
                let is_own = matches!(hash, Some(Hash::ValkeyBloom(_))) && of_table.is_none();
                if !layers.iter().all(has_head) || !is_own {
                    return Err("layers");
                }
                // The format saves only the capacity of the first layer.
                if layers.first().map(Layer::capacity_items) != Some(policy.capacity_items) {
                    return Err("capacity");
                }
                // The format does not save the items of older layers, which are full.
                let are_full = layers.iter().rev().skip(1).all(Layer::is_full);
                within_capacity(layers)?;
                if are_full { Ok(()) } else { Err("items") }
            }
            Policy::Imported(policy) => validate_imported(policy, layers, of_table),
            Policy::Counting(_) | Policy::Window(_) => Ok(()),
        }
    }
}

/// Checks an imported filter: its only layer is the client's.
fn validate_imported(
    policy: &Imported,
    layers: &[Layer],
    of_table: Option<&Hash>,
) -> Result<(), &'static str> {
    if !(policy.error_rate > 0.0 && policy.error_rate < 1.0) {
        return Err("error rate");
    }
    let growth = policy.growth;
    if growth == Growth::Saturating || growth.is_unreserved() || growth.expansion() > EXPANSION_MAX {
        return Err("expansion");
    }
    let [only] = layers else { return Err("layers") };
    let Layout::Scheme(layout) = only.layout() else { return Err("layers") };
    if !policy.form.is_valid(only.bits().size_bits()) {
        return Err("string length");
    }
    let probes = layout.parameters().probes;
    let most_estimated = clients_items(u64::MAX, only.bits().size_bits(), probes).min(only.counts().items);
    if policy.estimated_items > most_estimated {
        return Err("items");
    }
    if of_table.is_some_and(|hash| *hash != Hash::Murmur3) { Err("table") } else { Ok(()) }
}

fn within_capacity(layers: &[Layer]) -> Result<(), &'static str> {
    let is_within = |layer: &Layer| layer.counts().items <= layer.capacity_items();
    if layers.iter().all(is_within) { Ok(()) } else { Err("items") }
}
