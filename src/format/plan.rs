//! A filter that a header describes: found possible, its arrays not made yet.

use super::record::DecodeError;
use crate::bloom::{
    ByteLimit, Chain, Extent, Family, Layer, LayerCounts, LayerPlan, Origin, OutOfMemory, Probes, Storage,
};

/// A layer that is to be made, and what its header says of its items and bits.
pub type PlannedLayer<P> = (LayerPlan<P>, LayerCounts);

/// A filter that is to be made. It is within the limit, and no memory has been taken for its arrays.
#[derive(Debug)]
pub struct FilterPlan<F: Family> {
    family: F,
    layers: Vec<PlannedLayer<F::Placement>>,
}

impl<F: Family> FilterPlan<F> {
    /// Of a family and layers that are each possible. O(layers).
    ///
    /// # Errors
    /// [`DecodeError::TooLarge`] when the filter breaks the limit, [`DecodeError::Invalid`] when no filter
    /// has so many probes.
    pub(super) fn new(
        family: F,
        layers: Vec<PlannedLayer<F::Placement>>,
        limit: &dyn ByteLimit,
    ) -> Result<Self, DecodeError> {
        let extent = layers.iter().fold(Extent::default(), |extent, (plan, _)| {
            extent.and_layer(plan.size_bits.div_ceil(8), plan.placement.probes())
        });
        extent.check::<F>(limit)?;
        Ok(Self { family, layers })
    }

    /// Makes the layers, all bits clear, one at a time, and hands each to `fill` with the counts that its
    /// header gave. O(layers), for memory is zeroed when it is first used.
    ///
    /// # Errors
    /// [`DecodeError::OutOfMemory`], or what `fill` says.
    pub fn build(
        self,
        mut fill: impl FnMut(&mut Layer<F::Placement>, LayerCounts) -> Result<(), DecodeError>,
    ) -> Result<Chain<F>, DecodeError> {
        let mut layers = Vec::with_capacity(self.layers.len());
        for (plan, counts) in self.layers {
            let mut layer = Layer::try_new(plan).map_err(|OutOfMemory| DecodeError::OutOfMemory)?;
            layer.set_items(counts.items);
            fill(&mut layer, counts)?;
            layers.push(layer);
        }
        Chain::from_layers(self.family, layers).ok_or(DecodeError::Invalid("filter"))
    }

    /// The filter with all bits clear, for the chunks of a dump that follow its header. O(layers).
    ///
    /// # Errors
    /// [`DecodeError::OutOfMemory`].
    pub(super) fn build_empty(self, origin: Origin) -> Result<Chain<F>, DecodeError> {
        let state = self.layers.iter().try_fold(0u64, |sum, (_, counts)| {
            let state = <F::Placement as Probes>::Storage::state_of(counts.set_bits)?;
            Some(sum.saturating_add(state))
        });
        let mut chain = self.build(|_, _| Ok(()))?;
        chain.set_origin(origin, state);
        Ok(chain)
    }
}
