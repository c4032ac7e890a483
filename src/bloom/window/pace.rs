//! Computes the layers of a sliding-window filter for a given traffic, without creating a filter.

use super::place::{AsTimed, Placing, Timed};
use super::{ColumnRate, Generation, WINDOW_GENERATIONS, is_live};
use crate::bloom::cells::{CellType, History};
use crate::bloom::limits::LAYERS_MAX;
use crate::bloom::outcome::{AddError, ReserveError};
use crate::bloom::policy::Promise;
use crate::bloom::sizing::Shape;

/// Generations after which an even pace adds no new layers: a larger base has replaced the first one, and the first
/// one has expired.
const SETTLED: u64 = 4 * WINDOW_GENERATIONS;

/// A computed layer, without cells.
struct Layer {
    shape: Shape,
    rate: ColumnRate,
    history: History,
}

impl AsTimed for Layer {
    fn as_timed(&self) -> Option<Timed<'_>> {
        let Shape { cells, capacity_items, .. } = self.shape;
        Some(Timed { cells, capacity_items, history: &self.history, rate: &self.rate })
    }
}

/// Returns the layers of a filter with this promise after four windows with `items` items each, at an even pace.
/// O(layers * generations), some milliseconds.
///
/// # Errors
/// [`ReserveError::TooLong`] if the filter refuses some of the items.
pub fn shapes_at_pace(promise: &Promise, items: u64) -> Result<Vec<Shape>, ReserveError> {
    let before = |generation: u64| {
        let part = u128::from(items) * u128::from(generation) / u128::from(WINDOW_GENERATIONS);
        u64::try_from(part).unwrap_or(u64::MAX)
    };
    shapes_for(
        promise,
        (1..=SETTLED).map(|generation| (generation, before(generation) - before(generation - 1))),
    )
}

/// Returns the layers of a filter with this promise after `items` items at one time. O(layers^2).
///
/// # Errors
/// [`ReserveError::TooLong`] if the filter refuses some of the items.
pub fn shapes_at_once(promise: &Promise, items: u64) -> Result<Vec<Shape>, ReserveError> {
    shapes_for(promise, std::iter::once((1, items)))
}

/// Returns the layers of a filter after these numbers of items, by generation.
fn shapes_for(
    promise: &Promise,
    traffic: impl Iterator<Item = (Generation, u64)>,
) -> Result<Vec<Shape>, ReserveError> {
    let (mut layers, mut newest) = (Vec::new(), 0);
    for (generation, mut rest) in traffic {
        let mut is_forced = false;
        while rest > 0 || layers.is_empty() {
            let placing = Placing { promise, layers: &layers, newest };
            let forced = placing
                .base()
                .filter(|_| is_forced)
                .map(|(index, base)| (index, base.history.items_of(generation) + 1));
            let place = placing.place(generation).map(|place| (place.layer, place.items)).or(forced);
            let Some((index, most)) = place else {
                if layers.len() >= LAYERS_MAX {
                    return Err(ReserveError::TooLong);
                }
                let shape = placing.next_shape(generation).map_err(|error| match error {
                    AddError::CannotGrow(error) => error,
                    AddError::Full | AddError::NotEncodable(_) => ReserveError::TooLong,
                })?;
                is_forced = shape.cells == CellType::Columns && !layers.is_empty();
                let newest = if shape.cells == CellType::Burst { generation } else { 0 };
                layers.push(Layer {
                    rate: ColumnRate::of(&shape),
                    shape,
                    history: History { newest, ..History::NONE },
                });
                continue;
            };
            is_forced = false;
            let Some(layer) = layers.get_mut(index) else { return Err(ReserveError::TooLong) };
            let taken = rest.min(most.saturating_sub(layer.history.items_of(generation)));
            layer.history.count(generation, taken, u64::MAX);
            rest -= taken;
            newest = newest.max(generation);
        }
        let base = Placing { promise, layers: &layers, newest }.base().map_or(0, |(index, _)| index);
        let mut index = 0;
        layers.retain(|layer| {
            index += 1;
            index == base + 1 || is_live(layer.history.newest, newest)
        });
    }
    Ok(layers.into_iter().map(|layer| layer.shape).collect())
}
