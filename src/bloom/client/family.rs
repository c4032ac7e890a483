//! A client's filter that was taken over: its own layer first, which goes on by the client's scheme, and
//! layers of everbloom's own behind it once that is full.
//!
//! The error rate of the first layer is what its scheme and its fill make of it; nobody promised one. The
//! layers behind it keep the promise of a filter of our own among themselves: together they add no more than
//! `error_rate`.

use super::estimate::estimated_items;
use super::form::StringForm;
use super::hash::SchemeHash;
use super::layers::{ClientPlacement, ItemDigest};
use super::parameters::SchemeParameters;
use super::placement::SchemePlacement;
use super::scheme::Scheme;
use crate::bloom::bits::Bits;
use crate::bloom::chain::Chain;
use crate::bloom::encoding::ItemEncoding;
use crate::bloom::everbloom::LayerShape;
use crate::bloom::everbloom::hash::Murmur3;
use crate::bloom::extent::Extent;
use crate::bloom::family::Family;
use crate::bloom::growth::Growth;
use crate::bloom::layer::Layer;
use crate::bloom::limits::{CAPACITY_MAX_ITEMS, EXPANSION_MAX};
use crate::bloom::outcome::{AddError, ByteLimit, ReserveError};
use crate::bloom::placement::LayerPlan;

/// What a taken-over filter knows beside its layers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Client {
    /// How the client places items.
    pub scheme: Scheme,
    /// How the client's library makes bytes of items.
    pub encoding: ItemEncoding,
    /// What the client's string tells beside its bits, for the way back.
    pub form: StringForm,
    /// Items that the count of the first layer started from: nobody counted them, the fill tells.
    pub estimated_items: u64,
    /// Promised share of false positives of all layers but the first together; strictly between 0 and 1.
    pub error_rate: f64,
    /// What happens when the last layer is full.
    pub growth: Growth,
}

impl Family for Client {
    type Digest<'i> = ItemDigest;
    type Placement = ClientPlacement;

    fn digest(&self, item: &[u8]) -> ItemDigest {
        let raw = Murmur3::of(item);
        ItemDigest { client: SchemeHash::of(self.scheme, self.encoding, item, raw), own: raw.finish() }
    }

    fn admit(&self, digest: ItemDigest) -> Result<(), AddError> {
        if digest.client.is_some() { Ok(()) } else { Err(AddError::NotEncodable(self.encoding)) }
    }

    fn growth(&self) -> Growth {
        self.growth
    }

    fn emptied(&self) -> Self {
        Self { estimated_items: 0, ..*self }
    }

    /// The first layer is the client's, and no other is.
    fn validate_layers(&self, layers: &[Layer<ClientPlacement>]) -> Result<(), &'static str> {
        if !(self.error_rate > 0.0 && self.error_rate < 1.0) {
            return Err("error rate");
        }
        if self.growth == Growth::Saturating || self.growth.expansion() > EXPANSION_MAX {
            return Err("expansion");
        }
        layers.iter().enumerate().try_for_each(|(index, layer)| {
            let (array_bits, capacity_items) = (layer.bits().len(), layer.capacity_items());
            let items = layer.counts().items;
            match layer.placement() {
                ClientPlacement::Client(placement) if index == 0 => {
                    let SchemeParameters { scheme, encoding, .. } = placement.parameters();
                    if (scheme, encoding) != (self.scheme, self.encoding) {
                        return Err("scheme");
                    }
                    placement.check(array_bits, capacity_items, items)?;
                    let most_estimated = placement.most_estimated_items().min(items);
                    if self.estimated_items > most_estimated { Err("items") } else { Ok(()) }
                }
                ClientPlacement::Own(probing) if index > 0 => {
                    probing.shape(array_bits, capacity_items).validate()?;
                    if items > capacity_items { Err("items") } else { Ok(()) }
                }
                _ => Err("layers"),
            }
        })
    }

    fn next_layer(&self, layers: &[Layer<ClientPlacement>]) -> Result<LayerPlan<ClientPlacement>, AddError> {
        let (Some(last), Growth::Scaling { expansion }) = (layers.last(), self.growth) else {
            return Err(AddError::Full);
        };
        let capacity_items = last
            .capacity_items()
            .checked_mul(expansion.into())
            .filter(|capacity| *capacity <= CAPACITY_MAX_ITEMS)
            .ok_or(AddError::CannotGrow(ReserveError::TooLong))?;
        // The client's layer has no part in the promise: the first of ours is the first that spends of it.
        let error_rate = self.growth.layer_error_rate(self.error_rate, layers.len().saturating_sub(1));
        Ok(own_plan(LayerShape::sized(capacity_items, error_rate)))
    }
}

/// A layer of our own in a taken-over filter.
#[must_use]
pub fn own_plan(shape: LayerShape) -> LayerPlan<ClientPlacement> {
    let LayerPlan { placement, size_bits, capacity_items, has_head } = shape.into();
    LayerPlan { placement: ClientPlacement::Own(placement), size_bits, capacity_items, has_head }
}

/// Checks that a client's array may be taken over, before it takes any memory. O(1).
///
/// # Errors
/// [`ReserveError::TooLarge`].
pub fn check_size(placement: &SchemePlacement, limit: &dyn ByteLimit) -> Result<(), ReserveError> {
    let array_bytes = placement.array_bits().div_ceil(8);
    Extent::default().and_layer(array_bytes, placement.parameters().probes).check::<Client>(limit)
}

impl Chain<Client> {
    /// A client's filter, taken over. `bits` must be as many as [`SchemePlacement::array_bits`] says. The
    /// count of items starts from the fill. `None` when there cannot be such a filter.
    #[must_use]
    pub fn take_over(
        placement: SchemePlacement,
        form: StringForm,
        bits: Bits,
        capacity_items: u64,
        error_rate: f64,
        growth: Growth,
    ) -> Option<Self> {
        let SchemeParameters { scheme, encoding, probes, .. } = placement.parameters();
        let estimated_items = estimated_items(bits.set_bits(), bits.len(), probes);
        let family = Client { scheme, encoding, form, estimated_items, error_rate, growth };
        let placement = ClientPlacement::Client(placement);
        let layer = Layer::of_bits(placement, bits, capacity_items, estimated_items);
        Self::from_layers(family, vec![layer]).ok()
    }

    /// The client's layer and its placement.
    #[must_use]
    pub fn client_layer(&self) -> Option<(SchemePlacement, &Layer<ClientPlacement>)> {
        let layer = self.layers().first()?;
        match layer.placement() {
            ClientPlacement::Client(placement) => Some((placement, layer)),
            ClientPlacement::Own(_) => None,
        }
    }

    /// The layers of our own, with their shapes.
    pub fn own_layers(&self) -> impl Iterator<Item = (LayerShape, &Layer<ClientPlacement>)> {
        self.layers().iter().filter_map(|layer| match layer.placement() {
            ClientPlacement::Own(probing) => {
                Some((probing.shape(layer.bits().len(), layer.capacity_items()), layer))
            }
            ClientPlacement::Client(_) => None,
        })
    }
}
