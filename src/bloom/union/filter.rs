//! What BF.MERGE does with filters of any kind.

use super::{Gained, LastLayer, UnionPlacement, View, set_in};
use crate::bloom::everbloom::Everbloom;
use crate::bloom::family::Family;
use crate::bloom::filter::{Filter, each_kind, each_of_bits};
use crate::bloom::layer::Layer;
use crate::bloom::memory::{Memory, OutOfMemory};

impl Filter {
    /// Returns whether it can be part of a union. A counting filter and one with a window cannot: a union has bits only.
    #[must_use]
    pub const fn is_unitable(&self) -> bool {
        !matches!(self, Self::Counting(_) | Self::Window(_))
    }

    /// Returns the layers as those of a union, the oldest first; none of a filter that cannot be part of one. O(layers).
    #[must_use]
    pub fn views(&self) -> Vec<View<'_>> {
        each_of_bits!(self, chain => chain.views(), _ => Vec::new(), _ => Vec::new())
    }

    /// Returns whether some of its layers came by a merge, as far as they tell. O(layers).
    #[must_use]
    pub fn is_united(&self) -> bool {
        each_kind!(self, chain => chain.family().are_layers_united(chain.layers()))
    }

    /// Returns what a union that is made of this filter promises.
    #[must_use]
    pub fn promise(&self) -> Everbloom {
        each_of_bits!(self, chain => chain.promise(), chain => chain.family().0, chain => chain.family().parameters)
    }

    /// Sets the bits of a layer of another filter in one of this that has its shape; see [`set_in`].
    pub fn unite_layer(&mut self, layer: usize, from: &View<'_>, memory: impl Memory) {
        each_of_bits!(self, chain => {
            if let Some(layer) = chain.layers_mut().get_mut(layer) {
                set_in(layer, from, memory);
            }
        }, _ => {}, _ => {});
    }

    /// Adds layers. The filter becomes a union unless all of its layers are our own. Returns where they are now. O(layers).
    ///
    /// # Errors
    /// [`OutOfMemory`]; nothing has changed then.
    pub fn gain_layers(
        &mut self,
        added: Vec<Layer<UnionPlacement>>,
        last: LastLayer,
    ) -> Result<Gained, OutOfMemory> {
        if added.is_empty() {
            return Ok(Gained::default());
        }
        let promise = self.promise();
        if let Self::Everbloom(chain) = self
            && added.iter().all(|layer| matches!(layer.placement(), UnionPlacement::Own(_)))
        {
            return chain.gain_own_layers(added, last);
        }
        let (chain, gained) = each_of_bits!(self, chain => chain.united_with(added, last, promise), _ => Err(OutOfMemory), _ => Err(OutOfMemory))?;
        *self = Self::Union(Box::new(chain));
        Ok(gained)
    }
}
