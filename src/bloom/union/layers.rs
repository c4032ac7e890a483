//! Filters of every kind as layers of a union.

use super::facts::{Holding, View, spent};
use super::family::{Union, Unitable};
use super::placement::UnionPlacement;
use crate::bloom::chain::Chain;
use crate::bloom::everbloom::{Everbloom, Probing};
use crate::bloom::growth::Growth;
use crate::bloom::layer::Layer;
use crate::bloom::memory::OutOfMemory;
use crate::bloom::placement::Probes;

/// What becomes of the last layer of a filter that gains layers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LastLayer {
    /// It stays the last one, which takes new items.
    #[default]
    Stays,
    /// The layers follow it; it takes no more items.
    Closes,
    /// It is empty, and the layers replace it.
    Leaves,
}

/// Where a filter has gained layers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gained {
    at: usize,
    count: usize,
}

impl Gained {
    /// Where a layer is now that was at that place before.
    #[must_use]
    pub const fn place_of(self, layer: usize) -> usize {
        if layer < self.at { layer } else { layer.saturating_add(self.count) }
    }
}

impl<F: Unitable> Chain<F> {
    /// The layers as those of a union, the oldest first. O(layers).
    #[must_use]
    pub fn views(&self) -> Vec<View<'_>> {
        let told = |layer: &Layer<F::Placement>| self.family.told(layer.placement());
        self.layers.iter().map(|layer| View::of(layer, told(layer))).collect()
    }

    /// What a union that is made of this filter promises.
    #[must_use]
    pub fn promise(&self) -> Everbloom {
        self.layers.first().map_or_else(Everbloom::default, |first| self.family.promise(first))
    }

    /// Returns the most that the error rate comes to over the whole life of the filter: what it promises, but for a merge that was
    /// forced. Nothing where it has no bound. O(layers).
    #[must_use]
    pub fn error_rate_max(&self) -> Option<f64> {
        let promise = self.promise();
        if promise.growth == Growth::Saturating {
            return None;
        }
        let layers: Vec<Holding> = self.views().iter().map(View::holding).collect();
        if self.family.are_layers_united(&self.layers) {
            let spent = spent(&layers, layers.len().checked_sub(1));
            return Some(promise.budget(layers.len(), spent).most());
        }
        let beyond = |(index, layer): (usize, &Holding)| {
            layer.error_rate() - promise.growth.layer_error_rate(promise.error_rate, index)
        };
        let overfull = layers.iter().enumerate().filter(|(_, layer)| layer.is_overfull());
        Some(overfull.map(beyond).fold(promise.error_rate, |most, beyond| most + beyond.max(0.0)))
    }

    /// Returns the filter as a union with more layers. This one has none any more; on an error it is as it was. O(layers).
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub(in crate::bloom) fn united_with(
        &mut self,
        added: Vec<Layer<UnionPlacement>>,
        last: LastLayer,
        promise: Everbloom,
    ) -> Result<(Chain<Union>, Gained), OutOfMemory> {
        let mut layers = Vec::new();
        let count = self.layers.len().saturating_add(added.len());
        layers.try_reserve_exact(count).map_err(|_| OutOfMemory)?;
        let family = self.family;
        let own = std::mem::take(&mut self.layers).into_iter();
        layers.extend(own.map(|layer| layer.placed(|placement| family.told(placement))));
        let gained = insert(&mut layers, added, last);
        Ok((Chain { layers, family: Union(promise), marks: None }, gained))
    }
}

impl Chain<Everbloom> {
    /// Takes layers of our own. Dumps and loads that are under way end, for layers lie elsewhere afterwards.
    ///
    /// # Errors
    /// [`OutOfMemory`]; nothing has changed then.
    pub(in crate::bloom) fn gain_own_layers(
        &mut self,
        added: Vec<Layer<UnionPlacement>>,
        last: LastLayer,
    ) -> Result<Gained, OutOfMemory> {
        self.layers.try_reserve_exact(added.len()).map_err(|_| OutOfMemory)?;
        let mut own: Vec<Layer<Probing>> = Vec::new();
        own.try_reserve_exact(added.len()).map_err(|_| OutOfMemory)?;
        own.extend(added.into_iter().filter_map(|layer| match layer.placement() {
            UnionPlacement::Own(probing) => Some(layer.placed(|_| probing)),
            _ => None,
        }));
        self.marks = None;
        Ok(insert(&mut self.layers, own, last))
    }
}

/// Puts layers, for which there is room, before, behind or in place of the last one.
fn insert<P: Probes>(layers: &mut Vec<Layer<P>>, added: Vec<Layer<P>>, last: LastLayer) -> Gained {
    let (count, before_last) = (added.len(), layers.len().saturating_sub(1));
    let replaced = match last {
        LastLayer::Stays => before_last..before_last,
        LastLayer::Closes => layers.len()..layers.len(),
        LastLayer::Leaves => before_last..layers.len(),
    };
    let at = replaced.start;
    layers.splice(replaced, added);
    Gained { at, count }
}
