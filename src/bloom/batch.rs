//! Lookups of many items: the memory of a group of items is prefetched before the first item is tested.
//!
//! On a large filter, nearly all of an item's cost is waiting for memory, and waits overlap only if they start
//! together. But a processor tracks only a few dozen outstanding lines; it delays or drops further prefetches. So a
//! group is prefetched in steps, each while the step before is tested (docs/decisions/0006).

use super::cells::Purpose;
use super::digest::{Digests, Group};
use super::filter::Filter;
use super::group::{self, ItemSet};
use super::items::Items;
use super::layer::Layer;
use super::limits::CACHED_MAX_WORDS;
use super::prefetch::{Part, Prefetch};
use super::window::Moment;

/// Largest group for which the memory of all layers is prefetched at once, because one layer alone would not keep
/// memory busy.
const SMALL_GROUP_ITEMS: usize = 3;
/// Lines that are prefetched in one step. Together with the step before, up to twice as many are outstanding.
const STEP_LINES: usize = 16;
/// Least number of lines per item with which an item is tested in parts: the first two lines rule out most absent
/// items, so their other lines need not be fetched.
const IN_PARTS_LINES: u32 = 4;
/// The parts of a lookup in the only layer, if most of the items before were found.
const PARTS_OF_PRESENT: &[Part] = &[Part::All];
/// The parts of a lookup in the only layer, if most of the items before were absent.
const PARTS_IN_ONE: &[Part] = &[Part::First, Part::Rest];
/// The parts of a lookup in one of several layers, where most items are in another layer.
pub(super) const PARTS_IN_CHAIN: &[Part] = &[Part::First, Part::Next, Part::Rest];

impl Filter {
    /// Looks up every item. For each group, in order, passes to `reply` the items that were found and the number of
    /// items that were looked up. O(items * layers * probes).
    pub fn contains_items(
        &self,
        items: &mut dyn Items<'_>,
        prefetch: impl Prefetch,
        reply: &mut dyn FnMut(ItemSet, usize),
    ) {
        let (mut hits_expected, mut digests) = (false, Digests::default());
        loop {
            let mut group = Group::new(items.next_few(), &mut digests, !self.policy.has_several_hashes());
            if group.len() == 0 {
                return;
            }
            let parts = match self.layers.len() {
                1 if hits_expected => PARTS_OF_PRESENT,
                1 => PARTS_IN_ONE,
                _ => PARTS_IN_CHAIN,
            };
            let found = self.contains_group(&mut group, parts, prefetch);
            hits_expected = found.count_ones() as usize * 2 >= group.len();
            reply(found, group.len());
        }
    }

    /// Returns the items of a group that may be in the filter. Searches the newest layer first, and each layer only
    /// for the items that are not found yet.
    fn contains_group(&self, group: &mut Group<'_, '_>, parts: &[Part], prefetch: impl Prefetch) -> ItemSet {
        let at = self.policy.moment();
        let wanted = self.admitted(group);
        if group.len() <= SMALL_GROUP_ITEMS {
            for layer in self.layers.iter().rev().filter(|layer| !is_cached(layer)) {
                group.prefetch(layer, wanted, Part::All, Purpose::Look, prefetch);
            }
        }
        let mut found = 0;
        for layer in self.layers.iter().rev() {
            found |= contains_in_layer(layer, group, wanted & !found, parts, at, prefetch);
            if found == wanted {
                break;
            }
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
    at: Moment,
    prefetch: impl Prefetch,
) -> ItemSet {
    let is_near = is_cached(layer) || group.len() <= SMALL_GROUP_ITEMS;
    let mut look = |wanted, part| {
        if is_near {
            return group.contains_each(layer, wanted, part, at);
        }
        let items_per_step = items_per_step(layer, part, Purpose::Look);
        group.contains_in_steps(layer, wanted, part, at, items_per_step, prefetch)
    };
    let parts = if layer.layout().lines() < IN_PARTS_LINES { PARTS_OF_PRESENT } else { parts };
    parts.iter().fold(wanted, |left, part| if left == 0 { 0 } else { look(left, *part) })
}

/// Processes the `wanted` items in steps until `act` returns false. Each step is prefetched while the step before is
/// processed.
#[inline(always)]
pub(super) fn in_steps<T>(
    target: &mut T,
    wanted: ItemSet,
    items_per_step: usize,
    ask: impl Fn(&mut T, ItemSet),
    mut act: impl FnMut(&mut T, ItemSet) -> bool,
) {
    let (mut rest, mut asked) = (wanted, 0);
    loop {
        let step = group::take_first(&mut rest, items_per_step);
        ask(target, step);
        if asked != 0 && !act(target, asked) {
            return;
        }
        if step == 0 {
            return;
        }
        asked = step;
    }
}

/// Returns how many items are prefetched in one step.
pub(super) fn items_per_step(layer: &Layer, part: Part, purpose: Purpose) -> usize {
    let lines = part.of(layer.layout().lines()).len() * layer.cells().planes(purpose) as usize;
    (STEP_LINES / lines.max(1)).max(1)
}

/// Returns whether the layer is small enough for the processor's caches, so that a prefetch would take as long as a
/// read.
#[inline(always)]
pub(super) fn is_cached(layer: &Layer) -> bool {
    layer.cells().allocation().len() <= CACHED_MAX_WORDS
}
