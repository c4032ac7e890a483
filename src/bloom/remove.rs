//! Deleting items from counters.

use super::batch::{in_steps, is_cached};
use super::cells::{CellType, Purpose};
use super::digest::{Digests, Group};
use super::filter::Filter;
use super::group::{self, GROUP_ITEMS};
use super::hash::{Digest, ItemHash};
use super::prefetch::NoPrefetch;
use super::prefetch::{Part, Prefetch};

/// Items whose memory is prefetched in one step.
const STEP_ITEMS: usize = 4;

impl Filter {
    /// Deletes one occurrence of an item from the oldest layer that seems to contain it. Returns whether there was
    /// one. For an item that was not added this is true with the error rate of the filter, and then other items may
    /// be lost. Always false if the cells are not counters. O(layers * probes).
    pub fn remove(&mut self, item: &[u8]) -> bool {
        let at = self.policy.moment();
        let Some(first) = self.layers.first().filter(|_| self.cell_type() == CellType::Counters) else {
            return false;
        };
        let Some(item) = ItemHash::of(first.hash(), item) else { return false };
        let mut layers = self.layers.iter_mut().enumerate();
        let Some((index, layer)) = layers.find(|(_, layer)| layer.contains(item, at, NoPrefetch)) else {
            return false;
        };
        let is_removed = layer.remove(item);
        let is_emptied = layer.is_empty();
        if is_removed {
            self.note_change();
        }
        // Drops a layer whose items are all deleted, unless it is the last one, which takes new items. Otherwise a
        // filter with constantly changing items would grow without bound. The error rates of the remaining and later
        // layers are at most those of the same number of first layers, so the promise holds.
        if is_emptied && index.saturating_add(1) < self.layers.len() {
            self.layers.remove(index);
            self.end_dumps();
        }
        is_removed
    }

    /// Does [`remove`](Self::remove) for each item, and passes the results to `reply` in order. O(items * layers *
    /// probes).
    pub fn remove_many(&mut self, items: &[&[u8]], prefetch: impl Prefetch, mut reply: impl FnMut(bool)) {
        let mut digests = Digests::default();
        for items in items.chunks(GROUP_ITEMS) {
            let mut group = Group::new(items, &mut digests, true);
            let all = group.all();
            in_steps(
                &mut (&mut *self, &mut group),
                all,
                STEP_ITEMS,
                |(filter, group), step| {
                    // In a single layer all memory of the items is prefetched. In several layers only the probes that
                    // show whether a layer has the items.
                    let part = if filter.layers.len() == 1 { Part::All } else { Part::First };
                    for layer in filter.layers.iter().filter(|layer| !is_cached(layer)) {
                        group.prefetch(layer, step, part, Purpose::Remove, prefetch);
                    }
                },
                |(filter, group), step| {
                    group::members(group.items(), step).for_each(|(_, item)| reply(filter.remove(item)));
                    true
                },
            );
        }
    }
}
