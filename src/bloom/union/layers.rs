//! Filters of every kind as layers of a union.

use super::facts::View;
use super::family::{Union, Unitable};
use super::placement::UnionPlacement;
use crate::bloom::chain::Chain;
use crate::bloom::everbloom::{Everbloom, Probing};
use crate::bloom::layer::Layer;
use crate::bloom::memory::OutOfMemory;
use crate::bloom::placement::Probes;

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

    /// The filter as a union with more layers. This one has none any more; on an error it is as it was. O(layers).
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub(in crate::bloom) fn united_with(
        &mut self,
        added: Vec<Layer<UnionPlacement>>,
        promise: Everbloom,
    ) -> Result<(Chain<Union>, Gained), OutOfMemory> {
        let mut layers = Vec::new();
        let count = self.layers.len().saturating_add(added.len());
        layers.try_reserve_exact(count).map_err(|_| OutOfMemory)?;
        let family = self.family;
        let own = std::mem::take(&mut self.layers).into_iter();
        layers.extend(own.map(|layer| layer.placed(|placement| family.told(placement))));
        let gained = insert(&mut layers, added, UnionPlacement::takes_all_items);
        Ok((Chain { layers, family: Union(promise), marks: None }, gained))
    }
}

impl Chain<Everbloom> {
    /// Takes layers of our own.
    ///
    /// # Errors
    /// [`OutOfMemory`]; nothing has changed then.
    pub(in crate::bloom) fn gain_own_layers(
        &mut self,
        added: Vec<Layer<UnionPlacement>>,
    ) -> Result<Gained, OutOfMemory> {
        self.layers.try_reserve_exact(added.len()).map_err(|_| OutOfMemory)?;
        let mut own: Vec<Layer<Probing>> = Vec::new();
        own.try_reserve_exact(added.len()).map_err(|_| OutOfMemory)?;
        own.extend(added.into_iter().filter_map(|layer| match layer.placement() {
            UnionPlacement::Own(probing) => Some(layer.placed(|_| probing)),
            _ => None,
        }));
        Ok(insert(&mut self.layers, own, |_| true))
    }
}

/// Puts layers, for which there is room, before the last one if that takes every item, else behind it.
fn insert<P: Probes>(
    layers: &mut Vec<Layer<P>>,
    added: Vec<Layer<P>>,
    takes_all_items: impl Fn(&P) -> bool,
) -> Gained {
    let stays_last = layers.last().is_some_and(|last| takes_all_items(&last.placement()));
    let at = layers.len().saturating_sub(usize::from(stays_last));
    let count = added.len();
    layers.splice(at..at, added);
    Gained { at, count }
}
