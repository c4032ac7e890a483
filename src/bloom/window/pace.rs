//! The layers of a sliding-window filter at an even pace: with the same number of items in every window.

use super::{COLUMN_LEAST_SHARE, ColumnRate, WINDOW_GENERATIONS, is_live, next_shape, rate_up_to};
use crate::bloom::outcome::ReserveError;
use crate::bloom::policy::Promise;
use crate::bloom::sizing::Shape;

/// Generations after which an even pace adds no new layers: the items of the first ones have expired by then.
const SETTLED: u64 = 3 * WINDOW_GENERATIONS;

/// Most layers: only a filter has more that was reserved for very few items and does not double.
const LAYERS_MAX: usize = 128;

/// A layer, and the items of its columns by their generations.
struct Layer {
    shape: Shape,
    rate: ColumnRate,
    columns: Vec<(u64, u64)>,
}

impl Layer {
    /// Returns the sum of the error rates of all live columns but that of generation `except`.
    fn live_rate(&self, now: u64, except: u64) -> f64 {
        let columns = self.columns.iter().filter(|(generation, _)| is_live(*generation, now));
        columns
            .filter(|(generation, _)| *generation != except)
            .map(|(_, items)| self.rate.rate(*items as f64))
            .sum()
    }

    fn is_live(&self, now: u64) -> bool {
        self.columns.last().is_some_and(|(generation, _)| is_live(*generation, now))
    }
}

/// Returns the layers of a filter with this promise after three windows with `items` items each, at an even pace,
/// without expired layers. O(layers^2), some milliseconds.
///
/// # Errors
/// [`ReserveError::TooLong`] if it refuses some of the items.
pub fn shapes_at_pace(promise: &Promise, items: u64) -> Result<Vec<Shape>, ReserveError> {
    let layer = |before: Option<u64>| -> Result<Layer, ReserveError> {
        let shape = next_shape(promise, before)?;
        Ok(Layer { rate: ColumnRate::of(&shape), shape, columns: Vec::new() })
    };
    let mut layers = vec![layer(None)?];
    for now in 1..=SETTLED {
        let part =
            |generation: u64| u128::from(items) * u128::from(generation) / u128::from(WINDOW_GENERATIONS);
        let mut rest: u64 = u64::try_from(part(now) - part(now - 1)).unwrap_or(u64::MAX);
        loop {
            rest -= fill(promise, &mut layers, now, rest);
            if rest == 0 {
                break;
            }
            if promise.growth.is_fixed_size() || layers.len() >= LAYERS_MAX {
                return Err(ReserveError::TooLong);
            }
            let before = layers.last().map(|layer| layer.shape.capacity_items);
            layers.push(layer(before)?);
        }
        let last = layers.len().saturating_sub(1);
        let mut index = 0;
        layers.retain(|layer| {
            index += 1;
            index > last || layer.is_live(now)
        });
    }
    Ok(layers.into_iter().map(|layer| layer.shape).collect())
}

/// Adds items to the newest layer in generation `now`, up to its quota. Returns the number of added items. O(layers).
fn fill(promise: &Promise, layers: &mut [Layer], now: u64, items: u64) -> u64 {
    let Some((last, older)) = layers.split_last_mut() else { return 0 };
    let live = older.iter().filter(|layer| layer.is_live(now)).count();
    let others: f64 = older.iter().map(|layer| layer.live_rate(now, 0)).sum();
    let left = rate_up_to(promise, live) - others - last.live_rate(now, now);
    let quota = last.rate.items(left.max(promise.error_rate * COLUMN_LEAST_SHARE));
    let taken = quota.min(items);
    if taken > 0 {
        last.columns.push((now, taken));
    }
    taken
}
