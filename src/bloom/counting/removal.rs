//! Deleting items.
//!
//! An item is counted in the oldest layer that seems to contain it, else in the last. Only the last layer ever gets a
//! counter that was 0, so a layer older than that of an item does not come to contain it later: as long as an item is
//! there, the oldest layer that contains it is the one that has all its occurrences, and they are deleted from there.

use smallvec::SmallVec;

use super::family::Counting;
use super::line::PLANES;
use crate::bloom::chain::Chain;
use crate::bloom::everbloom::ItemHash;
use crate::bloom::family::Family;
use crate::bloom::group::GROUP_ITEMS;
use crate::bloom::layer::LayerCounts;
use crate::bloom::limits::CACHED_MAX_BYTES;
use crate::bloom::prefetch::{Part, Prefetch};
use crate::bloom::storage::Storage;

/// Items whose memory is asked for in one step.
const STEP_ITEMS: usize = 4;

impl Chain<Counting> {
    /// Returns the number of distinct items, over all layers; see [`Counters`](super::Counters). O(layers).
    #[must_use]
    pub fn distinct_items(&self) -> u64 {
        let layers = self.layers.iter().map(|layer| layer.storage().distinct_items);
        layers.fold(0, u64::saturating_add)
    }

    /// Deletes one occurrence of an item. Returns whether there was one: of an item that was not added true with the error
    /// rate of the filter, and then other items may be lost. O(layers * probes).
    pub fn remove(&mut self, item: ItemHash) -> bool {
        let mut layers = self.layers.iter_mut().enumerate();
        let Some((index, layer)) = layers.find(|(_, layer)| layer.contains(item)) else { return false };
        let is_removed = layer.placement().remove(layer.storage_mut(), item);
        let items = layer.counts().items.saturating_sub(is_removed.into());
        layer.set_items(items);
        // Every item that is there has an occurrence.
        let counters = layer.storage_mut();
        counters.distinct_items = counters.distinct_items.min(items);
        if layer.counts() == LayerCounts::default() {
            self.drop_emptied(index);
        }
        is_removed
    }

    /// Drops a layer whose items are all gone, unless it is the last, which takes the next ones. Else a filter whose items
    /// come and go would grow without end. The error rates of the layers that are left, and of those to come, are at most
    /// those of as many first layers, so the promise holds.
    #[cold]
    fn drop_emptied(&mut self, index: usize) {
        if index.saturating_add(1) < self.layers.len() {
            self.layers.remove(index);
            // What was dumped of the filter, and what made it, had other layers.
            self.marks = None;
        }
    }

    /// Deletes one occurrence of each of the items in turn; `answer` takes the answers in their order.
    /// O(items * layers * probes).
    pub fn remove_many(&mut self, items: &[&[u8]], prefetch: impl Prefetch, mut answer: impl FnMut(bool)) {
        for group in items.chunks(GROUP_ITEMS) {
            let digests: SmallVec<[ItemHash; GROUP_ITEMS]> =
                group.iter().map(|item| self.family.digest(item)).collect();
            let steps = digests.chunks(STEP_ITEMS);
            let mut ahead = steps.clone();
            self.prefetch_to_remove(ahead.next(), prefetch);
            for step in steps {
                self.prefetch_to_remove(ahead.next(), prefetch);
                step.iter().for_each(|digest| answer(self.remove(*digest)));
            }
        }
    }

    /// Asks for the memory of items that are to be deleted: all of it in a single layer, of several what tells whether
    /// they contain the items.
    fn prefetch_to_remove(&self, items: Option<&[ItemHash]>, prefetch: impl Prefetch) {
        let items = items.unwrap_or_default();
        for layer in self.layers.iter().filter(|layer| layer.storage().size_bytes() > CACHED_MAX_BYTES) {
            for item in items {
                if self.layers.len() == 1 {
                    layer.placement().prefetch_planes(layer.storage(), *item, PLANES, prefetch);
                } else {
                    layer.prefetch(*item, Part::First, prefetch);
                }
            }
        }
    }
}
