//! Adding to a filter that forgets.
//!
//! What comes of adds is a function of the items and the generations that they are added in, in their order: so replicas
//! that are told the same come to the same columns.

use super::clock::{Generation, is_live};
use super::parameters::{COLUMN_LEAST_SHARE, Room, TimedHash, Window};
use super::placement::WindowProbing;
use crate::bloom::chain::Chain;
use crate::bloom::family::Family;
use crate::bloom::layer::Layer;
use crate::bloom::outcome::Added;

impl Window {
    /// Adds an item in a generation; nothing where the column of the newest layer is full, unless it is forced. An item
    /// that is remembered counts again, unless the filter keeps the first add. O(layers * probes).
    #[inline(always)]
    pub(super) fn add(
        &mut self,
        layers: &mut [Layer<WindowProbing>],
        item: TimedHash,
        is_forced: bool,
    ) -> Option<Added> {
        let (mut is_remembered, mut is_in_column) = (false, false);
        for layer in layers.iter().rev() {
            let found = layer.placement().find(layer.storage(), item);
            is_remembered |= found.is_live;
            is_in_column |= found.is_in_column;
        }
        let is_dead = !is_live(item.at.added, item.at.now);
        if is_in_column || is_dead || (is_remembered && self.keeps_first) {
            return Some(Added::Present);
        }
        if self.room.generation != item.at.added || is_forced {
            self.room = self.find_room(layers, item.at.added);
        }
        let last = layers.last_mut()?;
        if last.storage().history().items_of(item.at.added) >= self.room.items && !is_forced {
            return None;
        }
        last.insert(item);
        self.newest = self.newest.max(item.at.added);
        Some(if is_remembered { Added::Again } else { Added::New })
    }

    /// Returns how many items the newest layer may have in the column of a generation, so that the error rates of all
    /// columns that are live then do not add up to more than is promised. O(layers).
    #[cold]
    #[inline(never)]
    pub(super) fn find_room(&self, layers: &[Layer<WindowProbing>], generation: Generation) -> Room {
        let now = self.newest.max(generation);
        let Some((last, older)) = layers.split_last() else { return Room::default() };
        let older_layers = older.iter().filter(|layer| is_live(newest_of(layer), now)).count();
        let others = older.iter().map(|layer| live_rate(layer, now, 0)).sum::<f64>();
        let rest = self.rate_up_to(older_layers) - others - live_rate(last, now, generation);
        let rate = rest.max(self.parameters.error_rate * COLUMN_LEAST_SHARE);
        Room { generation, items: last.placement().column_rate().items(rate) }
    }
}

impl Chain<Window> {
    /// Whether the next new item is taken without another layer. O(layers).
    #[must_use]
    pub fn has_room_in_column(&self) -> bool {
        let generation = self.family.told().added;
        let room = self.family.find_room(&self.layers, generation);
        self.layers.last().is_some_and(|last| last.storage().history().items_of(generation) < room.items)
    }

    /// The estimated error rate at a generation: the sum of those of all live columns. O(layers).
    #[must_use]
    pub fn rate_at(&self, now: Generation) -> f64 {
        self.layers.iter().map(|layer| live_rate(layer, now, 0)).sum::<f64>().min(1.0)
    }

    /// Items that are remembered at a generation, each counted in every generation that it was added in. O(layers).
    #[must_use]
    pub fn items_at(&self, now: Generation) -> u64 {
        let items = self.layers.iter().flat_map(|layer| layer.storage().history().live(now));
        items.fold(0, |sum, (_, items)| sum.saturating_add(items))
    }

    /// Items that are remembered at the time that the filter was told. O(layers).
    #[must_use]
    pub fn items_told(&self) -> u64 {
        self.items_at(self.family.told().now)
    }

    /// Takes out the layers whose columns had all expired when the newest item was added, except for the newest layer. Returns
    /// them; `None` where there are none. Dumps and loads that are under way go on without them. O(layers).
    #[must_use]
    pub fn take_dead(&mut self) -> Option<Self> {
        let newest = self.family.newest;
        let last = self.layers.len().saturating_sub(1);
        let is_dead = |layer: &Layer<WindowProbing>| !is_live(newest_of(layer), newest);
        if !self.layers.iter().take(last).any(is_dead) {
            return None;
        }
        let mut index = 0;
        let dead: Vec<_> = self
            .layers
            .extract_if(.., |layer| {
                index += 1;
                index <= last && !is_live(newest_of(layer), newest)
            })
            .collect();
        self.marks.iter_mut().for_each(|marks| marks.lose_layers());
        Some(Self { layers: dead, family: self.family.emptied(), marks: None })
    }
}

/// The newest generation that a layer has taken an item of.
fn newest_of(layer: &Layer<WindowProbing>) -> Generation {
    layer.storage().history().newest
}

/// The sum of the error rates of a layer's live columns, that of one generation excepted.
pub(super) fn live_rate(layer: &Layer<WindowProbing>, now: Generation, except: Generation) -> f64 {
    let placement = layer.placement();
    let rate = placement.column_rate();
    let columns = layer.storage().history().live(now).filter(|(generation, _)| *generation != except);
    columns.map(|(_, items)| rate.rate(items as f64)).sum()
}
