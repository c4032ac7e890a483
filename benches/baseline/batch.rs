//! Checks batches as RedisBloom does: one item after another, without prefetching. Replaces src/bloom/batch.rs in the
//! baseline that `make bench` builds.

use super::filter::Filter;
use super::group::ItemSet;
use super::items::Items;
use super::layer::Layer;
use super::prefetch::{NoPrefetch, Prefetch};

impl Filter {
    /// Looks up every item.
    pub fn contains_items(
        &self,
        items: &mut dyn Items<'_>,
        _: impl Prefetch,
        reply: &mut dyn FnMut(ItemSet, usize),
    ) {
        loop {
            let group = items.next_few();
            if group.is_empty() {
                return;
            }
            let found = |item: &&[u8]| ItemSet::from(self.contains(item, NoPrefetch));
            let set = group.iter().rev().fold(0, |set, item| set << 1 | found(item));
            reply(set, group.len());
        }
    }
}

/// Calls the function with all items.
pub(super) fn in_steps<T>(
    target: &mut T,
    wanted: ItemSet,
    _: usize,
    _: impl Fn(&mut T, ItemSet),
    mut act: impl FnMut(&mut T, ItemSet) -> bool,
) {
    act(target, wanted);
}

/// Returns true: this module never prefetches.
#[inline(always)]
pub(super) fn is_cached(_: &Layer) -> bool {
    true
}
