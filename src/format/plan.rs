//! A filter that a header describes: found possible, its arrays not made yet.

use super::record::DecodeError;
use crate::bloom::{
    ByteLimit, Chain, Extent, Family, Layer, LayerCounts, LayerPlan, Origin, OutOfMemory, Probes, Storage,
};

/// A layer that is to be made, and what its header says of its items and set bits.
pub type PlannedLayer<P> = (LayerPlan<P>, LayerCounts);

/// Tells a storage, by the number of its layer, what the header says of it beside its cells.
type Prepare<P> = dyn Fn(usize, &mut <P as Probes>::Storage);

/// A filter that is to be made. It is within the limit, and no memory has been taken for its arrays.
pub struct FilterPlan<F: Family> {
    family: F,
    layers: Vec<PlannedLayer<F::Placement>>,
    prepare: Box<Prepare<F::Placement>>,
}

impl<F: Family> FilterPlan<F> {
    /// Returns the plan of a filter with these layers, the shape of each of which is possible. O(layers).
    ///
    /// # Errors
    /// [`DecodeError::TooLarge`] when the filter breaks the limit, [`DecodeError::Invalid`] when no filter
    /// has so many probes, or a layer has fewer bits than are said to be set.
    pub(super) fn new(
        family: F,
        layers: Vec<PlannedLayer<F::Placement>>,
        limit: &dyn ByteLimit,
    ) -> Result<Self, DecodeError> {
        let extent = layers.iter().fold(Extent::default(), |extent, (plan, _)| {
            extent.and_layer(plan.size_bits.div_ceil(8), plan.placement.probes())
        });
        extent.check::<F>(limit)?;
        if layers.iter().any(|(plan, counts)| counts.set_bits > plan.size_bits) {
            return Err(DecodeError::Invalid("set bits"));
        }
        Ok(Self { family, layers, prepare: Box::new(|_, _| {}) })
    }

    /// Returns the same plan, whose storages are told more than their size.
    pub(super) fn prepared(self, prepare: Box<Prepare<F::Placement>>) -> Self {
        Self { prepare, ..self }
    }

    /// Returns the filter with all bits clear, and how many are set in each layer by its header. O(layers), for memory is
    /// zeroed when it is first used.
    ///
    /// # Errors
    /// [`DecodeError::Invalid`] when it breaks a rule that filters keep, [`DecodeError::OutOfMemory`].
    pub fn build(self) -> Result<(Chain<F>, Vec<u64>), DecodeError> {
        let (mut layers, mut set_bits) = (Vec::with_capacity(self.layers.len()), Vec::new());
        for (index, (plan, counts)) in self.layers.into_iter().enumerate() {
            let mut layer = Layer::try_new(plan).map_err(|OutOfMemory| DecodeError::OutOfMemory)?;
            layer.set_items(counts.items);
            (self.prepare)(index, layer.storage_mut());
            layers.push(layer);
            set_bits.push(counts.set_bits);
        }
        let chain = Chain::from_layers(self.family, layers).map_err(DecodeError::Invalid)?;
        Ok((chain, set_bits))
    }

    /// Returns the filter with all bits clear, for the chunks of a dump that follow its header. O(layers).
    ///
    /// # Errors
    /// As [`build`](Self::build).
    pub(super) fn build_empty(self, origin: Origin) -> Result<Chain<F>, DecodeError> {
        let (mut chain, set_bits) = self.build()?;
        let state = set_bits.into_iter().try_fold(0u64, |sum, set_bits| {
            let state = <F::Placement as Probes>::Storage::state_of(set_bits)?;
            Some(sum.saturating_add(state))
        });
        chain.set_origin(origin, state);
        Ok(chain)
    }
}
