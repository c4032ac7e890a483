//! Looks up many items: the memory of a group of items is prefetched before the first item is tested.
//!
//! On a large filter, nearly all of an item's cost is waiting for memory, and waits overlap only if they start
//! together. But a processor tracks only a few dozen outstanding lines; it delays or drops further prefetches. So a
//! group is prefetched in steps, each while the step before is tested (docs/decisions/0006).

use super::Filter;
use super::digest::{Digests, Group};
use super::items::ItemSource;
use crate::bloom::bits::Layer;
use crate::bloom::group::ItemSet;
use crate::bloom::limits::CACHED_MAX_WORDS;
use crate::bloom::prefetch::{Part, Prefetch};

/// Largest group for which the memory of all layers is prefetched at once, because one layer alone would not keep
/// memory busy.
const SMALL_GROUP_ITEMS: usize = 3;
/// Lines that are prefetched in one step. Together with the step before, up to twice as many are outstanding.
const STEP_LINES: usize = 16;
/// Least number of lines per item with which an item is tested in parts: the first two lines rule out most absent
/// items, so their other lines need not be fetched.
const IN_PARTS_LINES: u32 = 4;
/// The parts of a lookup in the only part, if most of the items before were found.
const PARTS_OF_PRESENT: &[Part] = &[Part::All];
/// The parts of a lookup in the only part, if most of the items before were absent.
const PARTS_IN_ONE: &[Part] = &[Part::First, Part::Rest];
/// The parts of a lookup in one of several layers, where most items are in another one.
pub(super) const PARTS_IN_CHAIN: &[Part] = &[Part::First, Part::Next, Part::Rest];

impl Filter {
    /// Looks up every item. For each group, in order, passes to `reply` the items that were found and the number of
    /// items that were looked up. O(items * layers * probes).
    pub fn contains_items(
        &self,
        items: &mut dyn ItemSource<'_>,
        prefetch: impl Prefetch,
        reply: &mut dyn FnMut(ItemSet, usize),
    ) {
        let (mut hits_expected, mut digests) = (false, Digests::default());
        loop {
            let mut group = Group::new(items.next_few(), &mut digests, !self.policy.has_several_hashes());
            if group.len() == 0 {
                return;
            }
            let parts = match (self.layers(), self.table()) {
                ([_], None) if hits_expected => PARTS_OF_PRESENT,
                ([_], None) => PARTS_IN_ONE,
                _ => PARTS_IN_CHAIN,
            };
            let found = self.contains_group(&mut group, parts, prefetch);
            hits_expected = found.count_ones() as usize * 2 >= group.len();
            reply(found, group.len());
        }
    }

    /// Returns the items of a group that may be in the filter. Searches the newest part first, and each part only for
    /// the items that are not found yet.
    fn contains_group(&self, group: &mut Group<'_, '_>, parts: &[Part], prefetch: impl Prefetch) -> ItemSet {
        let wanted = self.admitted(group);
        if group.len() <= SMALL_GROUP_ITEMS {
            for layer in self.layers().iter().rev().filter(|layer| !is_cached(layer)) {
                group.prefetch(layer, wanted, Part::All, prefetch);
            }
        }
        let mut found = 0;
        if let Some((table, hash)) = self.body.table() {
            found |= table.contains_each(group.pairs(hash), wanted, self.now(), prefetch);
        }
        for layer in self.layers().iter().rev() {
            if found == wanted {
                break;
            }
            found |= contains_in_layer(layer, group, wanted & !found, parts, prefetch);
        }
        found
    }
}

/// Returns the `wanted` items that a layer contains. Tests the parts of their probes in turn.
pub(super) fn contains_in_layer(
    layer: &Layer,
    group: &mut Group<'_, '_>,
    wanted: ItemSet,
    parts: &[Part],
    prefetch: impl Prefetch,
) -> ItemSet {
    let is_near = is_cached(layer) || group.len() <= SMALL_GROUP_ITEMS;
    let mut look = |wanted, part| {
        if is_near {
            return group.contains_each(layer, wanted, part);
        }
        let items_per_step = items_per_step(layer, part);
        group.contains_in_steps(layer, wanted, part, items_per_step, prefetch)
    };
    let parts = if layer.layout().lines() < IN_PARTS_LINES { PARTS_OF_PRESENT } else { parts };
    parts.iter().fold(wanted, |left, part| if left == 0 { 0 } else { look(left, *part) })
}

/// Returns how many items are prefetched in one step.
pub(super) fn items_per_step(layer: &Layer, part: Part) -> usize {
    let lines = part.of(layer.layout().lines()).len();
    (STEP_LINES / lines.max(1)).max(1)
}

/// Returns whether the layer is small enough for the processor's caches, so that a prefetch would take as long as a
/// read.
#[inline(always)]
pub(super) fn is_cached(layer: &Layer) -> bool {
    layer.bits().allocation().len() <= CACHED_MAX_WORDS
}
