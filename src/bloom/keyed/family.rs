//! What a keyed filter is reserved with, how it hashes and how it grows.

use super::key::HashKey;
use crate::bloom::everbloom::{Everbloom, ItemHash, Probing};
use crate::bloom::family::Family;
use crate::bloom::growth::Growth;
use crate::bloom::layer::Layer;
use crate::bloom::outcome::AddError;
use crate::bloom::placement::LayerPlan;

/// What a filter is reserved with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Keyed {
    /// All but the hash.
    pub parameters: Everbloom,
    /// What the items' hashes are keyed with.
    pub key: HashKey,
}

impl Family for Keyed {
    type Digest<'i> = ItemHash;
    type Placement = Probing;

    #[inline]
    fn digest(&self, item: &[u8]) -> ItemHash {
        self.key.hash128(item)
    }

    fn growth(&self) -> Growth {
        self.parameters.growth
    }

    fn are_layers_united(&self, layers: &[Layer<Probing>]) -> bool {
        self.parameters.are_layers_united(layers)
    }

    fn validate_layers(&self, layers: &[Layer<Probing>]) -> Result<(), &'static str> {
        self.parameters.validate_layers(layers)
    }

    fn next_layer(&self, layers: &[Layer<Probing>]) -> Result<LayerPlan<Probing>, AddError> {
        self.parameters.next_layer(layers)
    }
}
