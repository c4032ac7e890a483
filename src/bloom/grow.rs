//! How a filter comes to be and how it grows.

use super::chain::{Chain, any_contains};
use super::extent::Extent;
use super::family::Family;
use super::growth::Growth;
use super::layer::Layer;
use super::outcome::{AddError, Added, ByteLimit, ReserveError};
use super::placement::{LayerPlan, Probes};
use super::validate::Depth;

impl<F: Family> Chain<F> {
    /// An empty filter of one layer.
    ///
    /// # Errors
    /// When the first layer is larger than `limit` allows or than the memory there is.
    pub fn try_new(family: F, limit: &dyn ByteLimit) -> Result<Self, ReserveError> {
        let mut chain = Self { layers: Vec::new(), family, marks: None };
        match chain.grow(limit) {
            Ok(()) => Ok(chain),
            Err(AddError::CannotGrow(error)) => Err(error),
            Err(AddError::Full | AddError::NotEncodable(_)) => Err(ReserveError::TooLong),
        }
    }

    /// Returns a filter of layers that a decoder has built. O(layers).
    ///
    /// # Errors
    /// What breaks a rule that filters keep: see [`internal_validate`](Self::internal_validate).
    pub fn from_layers(family: F, layers: Vec<Layer<F::Placement>>) -> Result<Self, &'static str> {
        let chain = Self { layers, family, marks: None };
        chain.internal_validate(Depth::Layers)?;
        Ok(chain)
    }

    /// Adds an item, growing the filter when its last layer is full. O(layers * probes).
    ///
    /// # Errors
    /// [`AddError`] when a new item finds no room; the filter is then as it was.
    #[inline(always)]
    pub fn add(&mut self, digest: F::Digest<'_>, limit: &dyn ByteLimit) -> Result<Added, AddError> {
        self.family.admit(digest)?;
        if F::COUNTS_OCCURRENCES {
            return self.count(digest, limit);
        }
        if F::KEEPS_TIME {
            return self.add_in_time(digest, limit);
        }
        let Some((last, older)) = self.layers.split_last_mut() else { return Err(AddError::Full) };
        if last.is_full() {
            if self.contains(digest) {
                return Ok(Added::Present);
            }
            self.make_room(limit)?;
        } else if any_contains(older, digest) {
            return Ok(Added::Present);
        }
        // One pass: setting the bits of an item that is there changes none.
        let is_new = self.layers.last_mut().is_some_and(|layer| layer.insert(digest));
        Ok(if is_new { Added::New } else { Added::Present })
    }

    /// Makes room for a new item where the last layer is full.
    fn make_room(&mut self, limit: &dyn ByteLimit) -> Result<(), AddError> {
        match self.layers.last_mut() {
            Some(last) if self.family.growth() == Growth::Saturating => {
                last.count_beyond_capacity();
                Ok(())
            }
            _ => self.grow(limit),
        }
    }

    /// Counts an occurrence of an item, in the oldest layer that seems to contain it, else in the last.
    fn count(&mut self, digest: F::Digest<'_>, limit: &dyn ByteLimit) -> Result<Added, AddError> {
        let Some((last, older)) = self.layers.split_last_mut() else { return Err(AddError::Full) };
        if let Some(layer) = older.iter_mut().find(|layer| layer.contains(digest)) {
            layer.count(digest);
            return Ok(Added::Again);
        }
        // Only what is new fills a layer.
        if last.is_full() && !last.contains(digest) {
            self.grow(limit)?;
        }
        let is_new = self.layers.last_mut().is_some_and(|layer| layer.count(digest));
        Ok(if is_new { Added::New } else { Added::Again })
    }

    /// Adds an item as of its time, which only what is remembered at that time fills a layer for.
    #[inline(always)]
    fn add_in_time(&mut self, digest: F::Digest<'_>, limit: &dyn ByteLimit) -> Result<Added, AddError> {
        if let Some(added) = self.family.add_in_time(&mut self.layers, digest, false) {
            return Ok(added);
        }
        self.grow(limit)?;
        self.family.add_in_time(&mut self.layers, digest, true).ok_or(AddError::Full)
    }

    /// Appends the layer that comes next.
    fn grow(&mut self, limit: &dyn ByteLimit) -> Result<(), AddError> {
        let plan = self.family.next_layer(&self.layers)?;
        self.push_layer(plan, limit).map_err(AddError::CannotGrow)
    }

    fn push_layer(
        &mut self,
        plan: LayerPlan<F::Placement>,
        limit: &dyn ByteLimit,
    ) -> Result<(), ReserveError> {
        let extent = Extent::of::<F>(&self.layers);
        extent.and_layer(plan.size_bits.div_ceil(8), plan.placement.probes()).check::<F>(limit)?;
        // Exactly one more: a growing vector would hold four layers for the one that most filters have.
        self.layers.try_reserve_exact(1).map_err(|_| ReserveError::OutOfMemory)?;
        self.layers.push(Layer::try_new(plan)?);
        Ok(())
    }
}
