//! Filters whose pages several threads fill at once.

use super::Filter;
use super::body::Body;
use crate::bloom::bits::{Layer, PagePart, PartAdded, Partition};
use crate::bloom::hash::{Digest, ItemHash};
use crate::bloom::outcome::{AddError, Added, ByteLimit};
use crate::bloom::prefetch::Prefetch;
use crate::bloom::room::Room;

impl Filter {
    /// Returns a partition of the pages into at most `parts` parts; `None` unless the filter is a single, paged layer.
    /// O(1).
    #[must_use]
    pub fn partition(&self, parts: usize) -> Option<Partition> {
        if let Body::Layer(only) = &self.body { only.partition(parts) } else { None }
    }

    /// Returns how many new items such a filter takes before it is full. O(1).
    #[must_use]
    pub fn room_items(&self) -> u64 {
        self.layers().last().map_or(0, Layer::room_items)
    }

    /// Returns the hash of an item in such a filter. O(length).
    #[must_use]
    pub fn item_hash(&self, item: &[u8]) -> Option<ItemHash> {
        ItemHash::of(&self.hash(), item)
    }

    /// Adds an item by its [hash](Self::item_hash). O(layers * probes).
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub fn add_item_hash(
        &mut self,
        item: ItemHash,
        limit: &dyn ByteLimit,
        prefetch: impl Prefetch,
    ) -> Result<Added, AddError> {
        self.add_hashed(item, &Room::new(limit), prefetch)
    }

    /// Does [`Layer::add_in_parts`](crate::bloom::Layer::add_in_parts) in the first layer.
    pub fn add_in_parts(&mut self, partition: Partition, add: impl FnOnce(&mut [PagePart<'_>])) -> PartAdded {
        self.note_change();
        self.layers_mut()
            .first_mut()
            .map_or_else(PartAdded::default, |layer| layer.add_in_parts(partition, add))
    }
}
