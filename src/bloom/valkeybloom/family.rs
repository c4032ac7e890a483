//! How a filter of valkey-bloom grows.

use super::placement::{CAPACITY_MAX_ITEMS, SipPair, SipProbing};
use super::seed::Seed;
use super::sizing::{self, Rounding};
use crate::bloom::family::Family;
use crate::bloom::growth::Growth;
use crate::bloom::layer::Layer;
use crate::bloom::limits::LAYER_MAX_BYTES;
use crate::bloom::outcome::{AddError, ReserveError};
use crate::bloom::placement::{LayerPlan, Probes};
use crate::bloom::storage::Storage;

/// Error rate of a filter that is created without one (valkey-bloom's `bloom-fp-rate`).
pub const ERROR_RATE_DEFAULT: f64 = 0.01;
/// Tightening ratio of a filter that is created without one (`bloom-tightening-ratio`), and of every filter
/// of 0.1.0.
pub const TIGHTENING_RATIO_DEFAULT: f64 = 0.5;

/// What a filter is reserved with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ValkeyBloom {
    /// Share of false positives among absent items in the first layer; strictly between 0 and 1.
    pub error_rate: f64,
    /// Factor from one layer's error rate to the next one's; strictly between 0 and 1.
    pub tightening_ratio: f64,
    /// Items of the first layer, 1 to `i64::MAX`.
    pub capacity_items: u64,
    /// What happens when it is full. The growth factor may be any number.
    pub growth: Growth,
    /// What the items' hashes are keyed with.
    pub seed: Seed,
}

impl ValkeyBloom {
    /// The first rule that the parameters break, if they break one.
    ///
    /// # Errors
    /// The name of the field that is out of its range.
    pub fn validate(&self) -> Result<(), &'static str> {
        // The comparisons are false for NaN.
        if !(self.error_rate > 0.0 && self.error_rate < 1.0) {
            return Err("error rate");
        }
        if !(self.tightening_ratio > 0.0 && self.tightening_ratio < 1.0) {
            return Err("tightening ratio");
        }
        if !(1..=CAPACITY_MAX_ITEMS).contains(&self.capacity_items) {
            return Err("capacity");
        }
        Ok(())
    }

    /// Items and error rate of layer `index`, 0 being the first. O(index).
    pub(super) fn layer_parameters(
        &self,
        index: usize,
        before: Option<u64>,
    ) -> Result<(u64, f64), ReserveError> {
        let capacity_items = match before {
            None => Some(self.capacity_items),
            Some(capacity) => capacity.checked_mul(self.growth.expansion().into()),
        };
        let capacity_items =
            capacity_items.filter(|capacity| *capacity <= CAPACITY_MAX_ITEMS).ok_or(ReserveError::TooLong)?;
        let error_rate = sizing::layer_error_rate(self.error_rate, self.tightening_ratio, index)
            .ok_or(ReserveError::ErrorRateVanishes)?;
        Ok((capacity_items, error_rate))
    }

    /// Layer `index`, behind one with a capacity of `before` items.
    pub(super) fn plan(
        &self,
        index: usize,
        before: Option<u64>,
        rounding: Rounding,
    ) -> Result<LayerPlan<SipProbing>, ReserveError> {
        let (capacity_items, error_rate) = self.layer_parameters(index, before)?;
        let size_bytes = sizing::layer_size_bytes(capacity_items, error_rate);
        // More bits than this there is no placement for either.
        if size_bytes > LAYER_MAX_BYTES {
            return Err(ReserveError::TooLarge { needed_bytes: size_bytes, limit_bytes: LAYER_MAX_BYTES });
        }
        let size_bits = size_bytes.saturating_mul(8);
        let probes = sizing::probes(size_bits, capacity_items, rounding);
        // No rate above the smallest double asks for more probes than there may be, unless the parameters are
        // not valid.
        let placement = SipProbing::new(probes, size_bits).ok_or(ReserveError::ErrorRateVanishes)?;
        let placement = placement.with_equal_hashes(self.seed.has_equal_halves());
        Ok(LayerPlan { placement, size_bits, capacity_items, has_head: true })
    }
}

/// The generation's rounding that the layers were made with, told from their probes: up if one of them has as
/// many as only that gives. Where both generations agree on all layers, as for most error rates, it is the
/// newer one's.
///
/// The encoding has no field that would tell. A rule that depends on nothing but what is saved makes a filter
/// of the older generation grow the same on a primary that loaded the old encoding and on a replica that got
/// the new one, and never touches a filter that 1.0 made.
fn rounding_of(layers: &[Layer<SipProbing>]) -> Rounding {
    let is_rounded_up = |layer: &Layer<SipProbing>| {
        let probes_by = |rounding| sizing::probes(layer.bits().len(), layer.capacity_items(), rounding);
        let probes = layer.placement().probes();
        probes == probes_by(Rounding::Up) && probes != probes_by(Rounding::Nearest)
    };
    if layers.iter().any(is_rounded_up) { Rounding::Up } else { Rounding::Nearest }
}

impl Family for ValkeyBloom {
    type Digest<'i> = SipPair;
    type Placement = SipProbing;

    fn digest(&self, item: &[u8]) -> SipPair {
        self.seed.digest(item)
    }

    fn growth(&self) -> Growth {
        self.growth
    }

    /// Each item has set a bit that was clear. All layers but the last are full, which is not written down of them.
    fn validate_layers(&self, layers: &[Layer<SipProbing>]) -> Result<(), &'static str> {
        self.validate()?;
        let last = layers.len().saturating_sub(1);
        layers.iter().enumerate().try_for_each(|(index, layer)| {
            let (bits, capacity_items) = (layer.bits(), layer.capacity_items());
            layer.placement().check(bits.len(), capacity_items)?;
            if !bits.has_head() {
                return Err("head of the array");
            }
            let items = layer.counts().items;
            let is_possible = items <= capacity_items.min(bits.len()) && (index == last || layer.is_full());
            if is_possible { Ok(()) } else { Err("items") }
        })
    }

    fn next_layer(&self, layers: &[Layer<SipProbing>]) -> Result<LayerPlan<SipProbing>, AddError> {
        let before = layers.last().map(Layer::capacity_items);
        if before.is_some() && self.growth.is_fixed_size() {
            return Err(AddError::Full);
        }
        self.plan(layers.len(), before, rounding_of(layers)).map_err(AddError::CannotGrow)
    }
}
