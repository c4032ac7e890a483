//! A client's filter that was taken over: its own layer first, which goes on by the client's scheme, and layers of
//! everbloom's own behind it once that is full.
//!
//! The error rate of the first layer is what its scheme and its fill make of it; nobody promised one. The layers behind
//! it keep the promise of a filter of our own among themselves: together they add no more than `error_rate`.

use super::bits::Bits;
use super::chain::{AddError, ByteLimit, Chain, ReserveError};
use super::extent::Extent;
use super::family::{Family, LayerPlan, Placement};
use super::group::{ItemSet, subset};
use super::growth::Growth;
use super::hash::{ItemHash, hash128};
use super::layer::{Layer, LayerShape, Probing};
use super::limits::CAPACITY_MAX_ITEMS;
use super::prefetch::{Part, Prefetch};
use super::scheme::{ClientPlacement, ItemEncoding, StringForm, estimated_items};

/// What a taken-over filter knows beside its layers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Imported {
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

/// An item, once per command.
#[derive(Clone, Copy, Debug)]
pub struct ItemDigest<'i> {
    /// Its bytes, for the client's scheme.
    item: &'i [u8],
    /// Its hash, for our own layers.
    hash: ItemHash,
    /// Whether the encoding can express it. No client can have added it otherwise.
    is_encodable: bool,
}

/// How a layer of a taken-over filter places probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportedPlacement {
    /// As the client does.
    Client(ClientPlacement),
    /// As a filter of our own does.
    Own(Probing),
}

impl Placement<ItemDigest<'_>> for ImportedPlacement {
    fn contains(&self, bits: &Bits, digest: ItemDigest<'_>) -> bool {
        digest.is_encodable
            && match self {
                Self::Client(placement) => placement.contains(bits, digest.item),
                Self::Own(probing) => probing.contains(bits, digest.hash),
            }
    }

    fn contained(&self, bits: &Bits, digests: &[ItemDigest<'_>], wanted: ItemSet) -> ItemSet {
        subset(digests, wanted, |digest| match self {
            // Positions come one by one out of the client's loop, so it ends with the first that is clear.
            Self::Client(_) => self.contains(bits, digest),
            Self::Own(probing) => digest.is_encodable && probing.contained(bits, &[digest.hash], 1) == 1,
        })
    }

    fn begun(&self, bits: &Bits, digests: &[ItemDigest<'_>], wanted: ItemSet) -> ItemSet {
        subset(digests, wanted, |digest| match self {
            Self::Client(_) => self.contains(bits, digest),
            Self::Own(probing) => digest.is_encodable && probing.begun(bits, &[digest.hash], 1) == 1,
        })
    }

    fn insert(&self, bits: &mut Bits, digest: ItemDigest<'_>) -> u32 {
        match self {
            // What is not encodable was refused before, by `admit`.
            Self::Client(placement) => placement.insert(bits, digest.item).unwrap_or(0),
            Self::Own(probing) => probing.insert(bits, digest.hash),
        }
    }

    fn prefetch(&self, bits: &Bits, digest: ItemDigest<'_>, part: Part, prefetch: impl Prefetch) {
        match self {
            // Finding the positions is the cost of a small filter, and would be paid twice.
            Self::Client(_) if bits.size_bytes() < PREFETCH_MIN_BYTES => {}
            Self::Client(placement) => {
                let visit = |position| {
                    bits.prefetch(position, prefetch);
                    true
                };
                // An item without positions needs no memory.
                let _ = placement.positions(digest.item, visit);
            }
            Self::Own(probing) => probing.prefetch(bits, digest.hash, part, prefetch),
        }
    }

    fn probes(&self) -> u32 {
        match self {
            Self::Client(placement) => placement.parameters().probes,
            Self::Own(probing) => probing.probes(),
        }
    }

    fn touched_lines(&self) -> u32 {
        match self {
            // One step: the two parts of a client's probes are the same.
            Self::Client(_) => 1,
            Self::Own(probing) => probing.touched_lines(),
        }
    }
}

/// Array of a client's layer from which on memory is asked for ahead, in bytes: smaller ones mostly fit a cache.
const PREFETCH_MIN_BYTES: u64 = 2 << 20;

impl Family for Imported {
    type Digest<'i> = ItemDigest<'i>;
    type Placement = ImportedPlacement;

    fn digest<'i>(&self, item: &'i [u8]) -> ItemDigest<'i> {
        ItemDigest { item, hash: hash128(item), is_encodable: self.encoding.encode(item).is_some() }
    }

    fn admit(&self, digest: ItemDigest<'_>) -> Result<(), AddError> {
        if digest.is_encodable { Ok(()) } else { Err(AddError::NotEncodable(self.encoding)) }
    }

    fn next_layer(
        &self,
        layers: &[Layer<ImportedPlacement>],
    ) -> Result<LayerPlan<ImportedPlacement>, AddError> {
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
pub fn own_plan(shape: LayerShape) -> LayerPlan<ImportedPlacement> {
    let LayerPlan { placement, size_bits, capacity_items } = shape.into();
    LayerPlan { placement: ImportedPlacement::Own(placement), size_bits, capacity_items }
}

/// Checks that a client's array may be taken over, before it takes any memory. O(1).
///
/// # Errors
/// [`ReserveError::TooLarge`].
pub fn check_size(placement: &ClientPlacement, limit: &dyn ByteLimit) -> Result<(), ReserveError> {
    let array_bytes = placement.array_bits().div_ceil(8);
    Extent::default().and_layer(array_bytes, placement.parameters().probes).check::<Imported>(limit)
}

impl Chain<Imported> {
    /// A client's filter, taken over. `bits` must be as many as [`ClientPlacement::array_bits`] says. The count of items
    /// starts from the fill. `None` when there cannot be such a filter.
    #[must_use]
    pub fn take_over(
        placement: ClientPlacement,
        form: StringForm,
        bits: Bits,
        capacity_items: u64,
        error_rate: f64,
        growth: Growth,
    ) -> Option<Self> {
        let estimated_items = estimated_items(bits.set_bits(), bits.len(), placement.parameters().probes);
        let encoding = placement.parameters().encoding;
        let family = Imported { encoding, form, estimated_items, error_rate, growth };
        let placement = ImportedPlacement::Client(placement);
        Self::from_layers(family, vec![Layer::of_bits(placement, bits, capacity_items, estimated_items)])
    }

    /// The client's layer and its placement.
    #[must_use]
    pub fn client_layer(&self) -> Option<(ClientPlacement, &Layer<ImportedPlacement>)> {
        let layer = self.layers().first()?;
        match layer.placement() {
            ImportedPlacement::Client(placement) => Some((placement, layer)),
            ImportedPlacement::Own(_) => None,
        }
    }

    /// The layers of our own, with their shapes.
    pub fn own_layers(&self) -> impl Iterator<Item = (LayerShape, &Layer<ImportedPlacement>)> {
        self.layers().iter().filter_map(|layer| match layer.placement() {
            ImportedPlacement::Own(probing) => {
                Some((probing.shape(layer.bits().len(), layer.capacity_items()), layer))
            }
            ImportedPlacement::Client(_) => None,
        })
    }
}
