//! The rules that the layers and the table of a filter keep under its policy.

use super::{Growth, Policy, Rules, redisbloom};
use crate::bits::Layer;
use crate::hash::Hash;
use crate::table::EntryKind;

impl Policy {
    /// Checks the parameters, and that a filter may have these layers and this table. The table is given by the kind of
    /// its entries and the hash of its items.
    pub(in crate::filter) fn validate(
        &self,
        layers: &[Layer],
        table: Option<(EntryKind, &Hash)>,
    ) -> Result<(), &'static str> {
        if let Some(promise) = self.promise() {
            promise.validate()?;
        }
        self.window().map_or(Ok(()), |window| window.validate(self.growth()))?;
        let (growth, hash) = (self.growth(), layers.first().map(Layer::hash));
        let (kind, of_table) = (self.table().kind, table.map(|(_, hash)| hash));
        if table.is_some_and(|(of_entries, hash)| of_entries != kind || !hash.is_own()) {
            return Err("table");
        }
        if kind != EntryKind::Plain {
            return match growth {
                Growth::Saturating => Err("growth"),
                _ if layers.is_empty() && table.is_some() => Ok(()),
                _ => Err("table"),
            };
        }
        if table.is_some() && growth.is_fixed_size() {
            return Err("table");
        }
        if layers.is_empty() && !(growth.is_unreserved() && table.is_some()) {
            return Err("layer count");
        }
        match (self, self.rules()) {
            (Self::Everbloom(_), _) | (_, Some(Rules::Merged)) => {
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
            (_, Some(Rules::Union)) => {
                let last = of_table.or(layers.last().map(Layer::hash));
                if last.is_some_and(Hash::takes_all_items) { Ok(()) } else { Err("last layer") }
            }
            (Self::Imported(policy), _) => {
                policy.validate(layers)?;
                if of_table.is_some_and(|hash| *hash != Hash::Murmur3) { Err("table") } else { Ok(()) }
            }
            (Self::RedisBloom(_), _) if table.is_some() => Err("layers"),
            (Self::RedisBloom(_), _) => redisbloom::validate_layers(layers),
            (Self::ValkeyBloom(policy), _) => {
                policy.validate()?;
                if table.is_some() {
                    return Err("layers");
                }
                policy.validate_layers(layers)?;
                within_capacity(layers)
            }
            (Self::Promised(_), _) => Ok(()),
        }
    }
}

/// Checks that no layer has more items than its capacity.
fn within_capacity(layers: &[Layer]) -> Result<(), &'static str> {
    let is_within = |layer: &Layer| layer.counts().items <= layer.capacity_items();
    if layers.iter().all(is_within) { Ok(()) } else { Err("items") }
}
