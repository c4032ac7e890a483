//! Many items at once, for a filter of any kind.
//!
//! What takes the answers is told a group at a time, by a pointer: one copy of each kind's loops serves every command.

use super::filter::{Filter, each_kind, each_of_bits};
use super::group::ItemSet;
use super::items::Items;
use super::outcome::{AddError, Added, ByteLimit};
use super::prefetch::Prefetch;
use super::run::Run;

impl Filter {
    /// Asks for every item whether it may be in the filter; `answer` takes sets of items that are found, with
    /// how many were asked for, in the order of the items. O(items * layers * probes).
    pub fn contains_items(
        &self,
        items: &mut dyn Items<'_>,
        prefetch: impl Prefetch,
        answer: &mut dyn FnMut(ItemSet, usize),
    ) {
        each_kind!(self, chain => chain.contains_items(items, prefetch, answer));
    }

    /// Adds the items in turn; see [`Chain::add_items`](super::chain::Chain::add_items). O(items * layers *
    /// probes).
    pub fn add_items(
        &mut self,
        items: &mut dyn Items<'_>,
        limit: &dyn ByteLimit,
        prefetch: impl Prefetch,
        answer: &mut dyn FnMut(Run) -> bool,
    ) {
        each_kind!(self, chain => chain.add_items(items, limit, prefetch, answer));
    }

    /// [`contains_items`](Self::contains_items) with an answer for each. Answers how many may be in the filter. O(items *
    /// layers * probes).
    #[inline]
    pub fn contains_many(
        &self,
        mut items: &[&[u8]],
        prefetch: impl Prefetch,
        mut answer: impl FnMut(bool),
    ) -> u32 {
        let mut items_found = 0u32;
        self.contains_items(&mut items, prefetch, &mut |found, items| {
            items_found = items_found.wrapping_add(found.count_ones());
            (0..items).for_each(|index| answer(found >> index & 1 == 1));
        });
        items_found
    }

    /// [`add_items`](Self::add_items) with an answer for each; `answer` says, where an item is refused, whether to go on.
    /// O(items * layers * probes).
    #[inline]
    pub fn add_many(
        &mut self,
        mut items: &[&[u8]],
        limit: &dyn ByteLimit,
        prefetch: impl Prefetch,
        mut answer: impl FnMut(Result<Added, AddError>) -> bool,
    ) {
        self.add_items(&mut items, limit, prefetch, &mut |run| run.outcomes().all(&mut answer));
    }
}
