//! The policy of imported filters: the client's own layer first, which goes on by the client's scheme, and
//! layers of everbloom's own behind it once that is full.
//!
//! The error rate of the first layer is what its scheme and its fill make of it; nobody promised one. The
//! layers behind it keep a promise among themselves: together they add no more than `error_rate`.

use crate::bloom::cells::{CellState, CellType, Cells};
use crate::bloom::estimate::clients_items;
use crate::bloom::extent::Extent;
use crate::bloom::filter::Filter;
use crate::bloom::growth::Growth;
use crate::bloom::hash::Hash;
use crate::bloom::layer::{Layer, LayerSpec};
use crate::bloom::layout::SchemeLayout;
use crate::bloom::limits::CAPACITY_MAX_ITEMS;
use crate::bloom::outcome::{AddError, ByteLimit, ReserveError};
use crate::bloom::placement::{Layout, Placement};
use crate::bloom::policy::{Policy, StringForm};
use crate::bloom::sizing::Shape;

/// What an imported filter knows beside its layers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Imported {
    /// What the client's string says beside its bits, for the way back.
    pub form: StringForm,
    /// Items that the count of the first layer started from, by its fill: nobody counted them.
    pub estimated_items: u64,
    /// Promised share of false positives of all layers but the first together; strictly between 0 and 1.
    pub error_rate: f64,
    /// What happens when the last layer is full.
    pub growth: Growth,
}

impl Imported {
    /// Returns the policy of the same filter without items.
    #[must_use]
    pub(super) const fn emptied(&self) -> Self {
        Self { estimated_items: 0, ..*self }
    }

    /// Returns the layer that comes after `layers`.
    ///
    /// # Errors
    /// [`AddError`] when the filter cannot grow.
    pub(super) fn next_layer(&self, layers: &[Layer]) -> Result<LayerSpec, AddError> {
        let (Some(last), Growth::Scaling { expansion }) = (layers.last(), self.growth) else {
            return Err(AddError::Full);
        };
        let capacity_items = last
            .capacity_items()
            .checked_mul(expansion.into())
            .filter(|capacity| *capacity <= CAPACITY_MAX_ITEMS)
            .ok_or(AddError::CannotGrow(ReserveError::TooLong))?;
        // The client's layer has no part in the promise: the first of our own is the first that spends of it.
        let error_rate = self.growth.layer_error_rate(self.error_rate, layers.len().saturating_sub(1));
        Ok(Shape::sized(CellType::Bits, capacity_items, error_rate).spec(Hash::Murmur3, 0))
    }
}

/// Returns the client's layer of an imported filter, whose layout has been checked.
#[must_use]
pub fn clients_layer(layout: SchemeLayout, capacity_items: u64) -> LayerSpec {
    let parameters = layout.parameters();
    let hash = Hash::Client(parameters.scheme, parameters.encoding);
    let placement = Placement::new(hash, Layout::Scheme(layout));
    LayerSpec {
        placement,
        cells: CellState::Bits,
        size_bits: layout.array_bits(),
        capacity_items,
        has_head: false,
    }
}

/// Checks that a client's array may be imported, before it takes any memory. O(1).
///
/// # Errors
/// [`ReserveError::TooLarge`].
pub fn check_size(layout: &SchemeLayout, limit: &dyn ByteLimit) -> Result<(), ReserveError> {
    let array_bytes = layout.array_bits().div_ceil(8);
    Extent::default().and_layer(array_bytes, layout.parameters().probes).check(limit)
}

impl Filter {
    /// Makes a filter of a client's array. `bits` must be as many as [`SchemeLayout::array_bits`] says. The
    /// count of items starts from the fill, that of `policy` is not used. Returns nothing when there cannot be such a filter.
    #[must_use]
    pub fn import(layout: SchemeLayout, bits: Cells, capacity_items: u64, policy: Imported) -> Option<Self> {
        let estimated_items = clients_items(bits.set_cells(), bits.size_bits(), layout.parameters().probes);
        let mut layer = Layer::of_cells(clients_layer(layout, capacity_items), bits);
        layer.set_items(estimated_items);
        Self::from_layers(Policy::Imported(Box::new(Imported { estimated_items, ..policy })), vec![layer])
            .ok()
    }

    /// Returns the client's layer of an imported filter and its layout.
    #[must_use]
    pub fn clients_layer(&self) -> Option<(SchemeLayout, &Layer)> {
        let layer = self.layers.first().filter(|_| matches!(self.policy, Policy::Imported(_)))?;
        if let Layout::Scheme(layout) = layer.layout() { Some((layout, layer)) } else { None }
    }
}
