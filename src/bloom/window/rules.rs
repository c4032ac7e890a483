//! The rules of a sliding-window filter.

use super::clock::columns_up_to;
use super::columns::History;
use super::parameters::{Room, Window};
use super::placement::WindowProbing;
use crate::bloom::growth::Growth;
use crate::bloom::layer::Layer;
use crate::bloom::limits::{WINDOW_MAX_MS, WINDOW_MIN_MS};

/// Where the last layer of a filter begins at most, in bytes of all layers that it ever had: more than it ever comes to, and
/// less than an iterator of BF.SCANDUMP can say.
pub(super) const ADDRESS_MAX: u64 = 1 << 62;

impl Window {
    /// Checks the parameters and the layers. O(layers).
    pub(super) fn validate(&self, layers: &[Layer<WindowProbing>]) -> Result<(), &'static str> {
        self.parameters.validate()?;
        if !(WINDOW_MIN_MS..=WINDOW_MAX_MS).contains(&self.span.ms()) {
            return Err("window");
        }
        if self.parameters.growth == Growth::Saturating {
            return Err("growth");
        }
        let mut end = 0;
        for layer in layers {
            layer.shape().validate()?;
            validate_history(layer.storage().history(), layer.storage().positions())?;
            let range = layer.dump_range(end);
            if range.start < end || range.start > ADDRESS_MAX {
                return Err("address");
            }
            end = range.end;
        }
        if layers.iter().map(|layer| layer.storage().history().newest).max() != Some(self.newest) {
            return Err("newest generation");
        }
        // It is kept from one add to the next of the same generation, and follows from the layers.
        let is_known =
            self.room == Room::default() || self.room == self.find_room(layers, self.room.generation);
        if is_known { Ok(()) } else { Err("items of a column") }
    }
}

/// Checks that only generations that the layer can have a column of have items, and none more than positions: every item
/// sets a bit of its column that was clear.
fn validate_history(history: &History, positions: u64) -> Result<(), &'static str> {
    let columns = columns_up_to(history.newest, history.newest);
    let is_possible =
        |(column, items): (usize, &u64)| *items == 0 || (columns >> column & 1 == 1 && *items <= positions);
    if history.items.iter().enumerate().all(is_possible) { Ok(()) } else { Err("items") }
}
