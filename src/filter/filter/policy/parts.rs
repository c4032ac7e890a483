//! The parts of a filter: the first one, the next one when all are full, and their error rates.

use super::valkeybloom::ProbeRounding;
use super::{Policy, Rules, redisbloom, valkeybloom};
use crate::bits::{Layer, LayerSpec, Layout};
use crate::hash::Hash;
use crate::outcome::ReserveError;
use crate::table::{EntryKind, TableSpec};

/// A part that a filter gets for new items.
#[derive(Clone, Debug, PartialEq)]
pub enum PartSpec {
    /// A layer of bits.
    Layer(LayerSpec),
    /// A table whose items have this hash.
    Table(TableSpec, Hash),
}

impl Policy {
    /// Returns the first part of a filter.
    ///
    /// # Errors
    /// [`ReserveError`] if there can be no such filter.
    pub fn first_part(&self, hash: Hash) -> Result<PartSpec, ReserveError> {
        let table = self.table();
        if self.growth().is_unreserved() || table.kind != EntryKind::Plain {
            return Ok(PartSpec::Table(table, hash));
        }
        let layer = match self.promise() {
            Some(promise) => LayerSpec::sized(promise.capacity_items, promise.bits_error_rate(), hash),
            None => self.layers(hash).next().ok_or(ReserveError::TooLong)??,
        };
        Ok(PartSpec::Layer(layer))
    }

    /// Returns the part that a filter gets next when all these layers are full. The filter must not be fixed.
    pub(in crate::filter) fn next_part(&self, layers: &[Layer]) -> Result<PartSpec, ReserveError> {
        let hash = layers.first().map_or(Hash::Murmur3, |first| *first.hash());
        match self {
            Self::RedisBloom(policy) => policy.next_layer(layers).map(PartSpec::Layer),
            Self::ValkeyBloom(policy) => policy.next_layer(layers, hash).map(PartSpec::Layer),
            _ if self.has_several_hashes() => Ok(PartSpec::Table(self.table(), Hash::Murmur3)),
            _ => Ok(PartSpec::Table(self.table(), hash)),
        }
    }

    /// Returns the layers that a filter of another format gets while it grows, from the first one on. The first error
    /// is a layer that is impossible; what follows has no meaning. Returns nothing for everbloom's own format.
    pub fn layers(&self, hash: Hash) -> impl Iterator<Item = Result<LayerSpec, ReserveError>> {
        let mut before = None;
        (0usize..).map_while(move |index| {
            let layer = match self {
                Self::RedisBloom(policy) => policy.layer(index, before, hash),
                Self::ValkeyBloom(policy) => policy.layer(index, before, ProbeRounding::Nearest, hash),
                _ => return None,
            };
            before = layer.as_ref().ok().map(|layer| layer.capacity_items);
            Some(layer)
        })
    }

    /// Returns the parameters of the table of a filter. Other formats have no table: returns the parameters of the one
    /// that a merge adds.
    #[must_use]
    pub fn table(&self) -> TableSpec {
        let (error_rate, growth) = self.requested();
        let (error_rate, kind, items) = match (self, self.rules()) {
            (_, Some(Rules::Counting(_))) => (error_rate, EntryKind::Counted, 0),
            (Self::Promised(promised), Some(Rules::Window(window))) => {
                (error_rate, EntryKind::Timed(window.span.steps()), promised.promise.capacity_items)
            }
            // The client's bits get no share of the error rate.
            (Self::Imported(_), _) => (error_rate, EntryKind::Plain, 0),
            _ => (growth.table_error_rate(error_rate), EntryKind::Plain, 0),
        };
        TableSpec { error_rate, kind, items }
    }

    /// Returns the error rate that layer `index` was sized for; 0 is the oldest. It is unknown for merged and imported
    /// layers, which do not store it.
    #[must_use]
    pub fn sized_error_rate(&self, layers: &[Layer], index: usize) -> Option<f64> {
        match self {
            Self::Everbloom(promise) => Some(promise.bits_error_rate()),
            Self::RedisBloom(_) => match layers.get(index)?.layout() {
                Layout::Modulo(layout) => Some(layout.error_rate()),
                _ => None,
            },
            Self::ValkeyBloom(policy) => policy.layer_error_rate(index),
            _ => None,
        }
    }

    /// Returns the size in bytes that another module shows for a filter of its format with these layers. O(layers).
    #[must_use]
    pub fn reported_size_bytes(&self, layers: &[Layer]) -> Option<u64> {
        match self {
            Self::RedisBloom(_) => Some(redisbloom::reported_size_bytes(layers)),
            Self::ValkeyBloom(_) => {
                Some(valkeybloom::size_bytes(layers.iter().map(|layer| layer.bits().size_bytes())))
            }
            _ => None,
        }
    }
}
