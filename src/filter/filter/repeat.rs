//! What adds have stored, and repeating it in a copy of the filter.

use thiserror::Error;

use super::Filter;
use super::policy::Growth;
use crate::bits::Layer;
use crate::generation::AddTime;
use crate::growth_budget::GrowthBudget;
use crate::hash::{Digest, Hash, ItemHash};
use crate::limits::LAYERS_MAX;
use crate::outcome::{AddError, Added};
use crate::prefetch::Prefetch;
use crate::table::{Addition, EntryKind};

/// Where and when an add has stored items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddPlace {
    /// The number of layers of the filter.
    pub layers: usize,
    /// Whether the filter has a table, which then takes the items. Otherwise the last layer takes them.
    pub has_table: bool,
    /// The time of the add, in a sliding window.
    pub time: AddTime,
    /// Whether the items have a life of their own.
    pub has_life: bool,
}

/// What follows the changes of a filter.
pub trait AddLog {
    /// Takes the items that an add has stored in one part: their hashes by that part, in order.
    fn stored(&mut self, place: AddPlace, hashes: &mut dyn Iterator<Item = ItemHash>);

    /// Takes note of a change that a copy cannot repeat.
    fn changed(&mut self);
}

/// The log of an add; `None` for a filter that nobody follows.
pub type Log<'l> = Option<&'l mut (dyn AddLog + 'l)>;

/// Why a copy cannot repeat an add: the place is not one of the filter of which this is a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RepeatError {
    /// The filter cannot have these parts, or this time.
    #[error("the filter has no such part")]
    Place,
    /// The part cannot be made, or cannot take the item.
    #[error("the part cannot take the item")]
    Refused(#[source] AddError),
}

impl Filter {
    /// Returns the place where an add of now stores items.
    #[must_use]
    pub fn add_place(&self) -> AddPlace {
        AddPlace {
            layers: self.layer_count(),
            has_table: self.table().is_some(),
            time: self.policy.moment(),
            has_life: self.window().is_some_and(|window| window.has_life),
        }
    }

    /// Returns the hash of the part that takes new items.
    #[must_use]
    pub fn add_hash(&self) -> Hash {
        let of_layer = self.layers().last().map(Layer::hash);
        *self.table_hash().or(of_layer).unwrap_or(&Hash::Murmur3)
    }

    /// Passes an item to the log that the last [`add`](Self::add) has stored. O(length).
    #[cold]
    pub fn log_added(&self, item: &[u8], log: &mut dyn AddLog) {
        match self.add_hash().pair(item) {
            Some(hash) => log.stored(self.add_place(), &mut std::iter::once(hash)),
            None => log.changed(),
        }
    }

    /// Repeats the add of an item in the place where the filter of which this is a copy has stored it. Makes the parts
    /// that this filter lacks. In a filter in the same state, the result is the same state. Does nothing if the filter
    /// has the item, or the item has expired. O(1) unless a part is made.
    ///
    /// # Errors
    /// [`RepeatError`].
    pub fn repeat(
        &mut self,
        place: &AddPlace,
        hash: ItemHash,
        prefetch: impl Prefetch,
    ) -> Result<(), RepeatError> {
        let room = GrowthBudget::new(&u64::MAX);
        if place.layers > LAYERS_MAX {
            return Err(RepeatError::Place);
        }
        while self.layer_count() < place.layers || place.has_table && self.table().is_none() {
            // The table is the last part.
            if self.table().is_some() {
                return Err(RepeatError::Place);
            }
            let last = self.layer_count().saturating_sub(1);
            self.grow(&room).map_err(RepeatError::Refused)?;
            // The layer before was full. A copy that was loaded while items were added has counted fewer. The estimate of a
            // client's layer may be above its capacity.
            if let Some(full) = self.parts.layers_mut().get_mut(last) {
                full.set_items(full.counts().items.max(full.capacity_items()));
            }
        }
        if place.has_table {
            return self.repeat_in_table(place, hash, &room, prefetch);
        }
        let saturates = self.growth() == Growth::Saturating;
        let index = place.layers.checked_sub(1).ok_or(RepeatError::Place)?;
        let layer = self.parts.layers_mut().get_mut(index).ok_or(RepeatError::Place)?;
        if !layer.hash().takes_all_items() {
            return Err(RepeatError::Place);
        }
        let has_room = saturates || layer.room_items() > 0;
        if layer.insert(Digest::Pair(hash), prefetch) {
            // A full layer has no room for items that this copy has added by itself besides.
            layer.count_items(has_room.into());
        }
        Ok(())
    }

    fn repeat_in_table(
        &mut self,
        place: &AddPlace,
        hash: ItemHash,
        room: &GrowthBudget<'_>,
        prefetch: impl Prefetch,
    ) -> Result<(), RepeatError> {
        let AddTime { added, now } = place.time;
        // A repeated add may be older than others.
        let now = now.max(self.newest_generation());
        let steps = self.window().map(|window| window.span.steps());
        if added > now || now > self.latest_generation(u64::MAX) {
            return Err(RepeatError::Place);
        }
        if steps.is_some_and(|steps| !steps.is_live(added, now)) {
            return Ok(());
        }
        let (table, _) = self.parts.table_mut().ok_or(RepeatError::Place)?;
        if table.kind() == EntryKind::Counted || table.kind().is_timed() != steps.is_some() {
            return Err(RepeatError::Place);
        }
        let addition = Addition { hash, generation: added, now, only_absent: false, most_items: u64::MAX };
        let outcome = table.add(addition, room, prefetch).map_err(RepeatError::Refused)?;
        if outcome != Added::Present {
            self.count_life_adds(place.has_life.into());
        }
        let now_ms = self.window().map_or(0, |window| window.now_ms());
        self.set_now(now_ms);
        Ok(())
    }
}
