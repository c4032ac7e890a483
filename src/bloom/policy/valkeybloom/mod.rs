//! The policy of valkey-bloom's filters: its sizes and growth, bit for bit.
//!
//! Two generations of it exist. The first (0.1.0, 2024) keeps the error rate in single precision, always
//! hashes with its fixed seed and rounds the probes up; 1.0 (2025) keeps it in double precision, seeds every
//! filter at random unless told otherwise, and rounds the probes to the nearest number.

mod reported;
pub mod sizing;

pub use reported::{max_scaled_capacity, size_bytes};
pub use sizing::layer_error_rate;

use self::sizing::Rounding;
use crate::bloom::cells::CellState;
use crate::bloom::growth::Growth;
use crate::bloom::hash::Hash;
use crate::bloom::layer::{Layer, LayerSpec};
use crate::bloom::layout::Prime;
use crate::bloom::limits::LAYER_MAX_BYTES;
use crate::bloom::outcome::{AddError, ReserveError};
use crate::bloom::placement::{Layout, Placement};

/// Error rate of a filter that is created without one (valkey-bloom's `bloom-fp-rate`).
pub const ERROR_RATE_DEFAULT: f64 = 0.01;
/// Tightening ratio of a filter that is created without one (`bloom-tightening-ratio`), and of every filter
/// of 0.1.0.
pub const TIGHTENING_RATIO_DEFAULT: f64 = 0.5;

/// Largest capacity, in items: it is kept as a signed number of 64 bits.
pub const CAPACITY_MAX_ITEMS: u64 = i64::MAX.unsigned_abs();

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
}

impl ValkeyBloom {
    /// Checks every field.
    ///
    /// # Errors
    /// The name of the first field that is out of its range.
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

    /// Returns items and error rate of layer `index`, 0 being the first. O(index).
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

    /// Returns the layer that comes after `layers`.
    ///
    /// # Errors
    /// [`AddError`] when the filter cannot grow.
    pub fn next_layer(&self, layers: &[Layer], hash: Hash) -> Result<LayerSpec, AddError> {
        let before = layers.last().map(Layer::capacity_items);
        if before.is_some() && self.growth.is_fixed_size() {
            return Err(AddError::Full);
        }
        let parameters = self.layer_parameters(layers.len(), before).map_err(AddError::CannotGrow)?;
        let (capacity_items, error_rate) = parameters;
        layer_spec(capacity_items, error_rate, rounding_of(layers), hash).map_err(AddError::CannotGrow)
    }
}

/// Returns the layer for so many items at an error rate.
///
/// # Errors
/// [`ReserveError`] when there can be no such layer.
pub(super) fn layer_spec(
    capacity_items: u64,
    error_rate: f64,
    rounding: Rounding,
    hash: Hash,
) -> Result<LayerSpec, ReserveError> {
    let size_bytes = sizing::layer_size_bytes(capacity_items, error_rate);
    // More bits than this there is no layout for either.
    if size_bytes > LAYER_MAX_BYTES {
        return Err(ReserveError::TooLarge { needed_bytes: size_bytes, limit_bytes: LAYER_MAX_BYTES });
    }
    let size_bits = size_bytes.saturating_mul(8);
    let probes = sizing::probes(size_bits, capacity_items, rounding);
    // No rate above the smallest double asks for more probes than there may be, unless the parameters are
    // not valid.
    let layout = Prime::new(probes, size_bits).ok_or(ReserveError::ErrorRateVanishes)?;
    let placement = Placement::new(hash, Layout::Prime(layout));
    Ok(LayerSpec { placement, cells: CellState::Bits, size_bits, capacity_items, has_head: true })
}

/// Returns the rounding of the generation that made the layers, by their probes: up if one of them has as
/// many as only that gives. Where both generations agree on all layers, as for most error rates, it is the
/// newer one's.
///
/// The encoding has no field for it. A rule that depends on nothing but what is saved makes a filter
/// of the older generation grow the same on a primary that loaded the old encoding and on a replica that got
/// the new one, and never touches a filter that 1.0 made.
fn rounding_of(layers: &[Layer]) -> Rounding {
    let is_rounded_up = |layer: &Layer| {
        let probes_by =
            |rounding| sizing::probes(layer.cells().size_bits(), layer.capacity_items(), rounding);
        let probes = layer.layout().probes();
        probes == probes_by(Rounding::Up) && probes != probes_by(Rounding::Nearest)
    };
    if layers.iter().any(is_rounded_up) { Rounding::Up } else { Rounding::Nearest }
}
