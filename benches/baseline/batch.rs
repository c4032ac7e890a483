//! The way of RedisBloom, in place of src/bloom/batch.rs: items one by one, no memory asked for ahead of its
//! use, a check before every add. The module that `make bench` builds with it is the baseline that measured
//! figures are ratios of.

use super::chain::Chain;
use super::family::Family;
use super::group::ItemSet;
use super::items::Items;
use super::outcome::{AddError, Added, ByteLimit};
use super::prefetch::Prefetch;
use super::run::Run;

impl<F: Family> Chain<F> {
    /// Whether one item may be in the filter.
    #[must_use]
    pub fn contains_prefetched(&self, digest: F::Digest<'_>, _: impl Prefetch) -> bool {
        self.contains(digest)
    }

    /// Adds one item.
    ///
    /// # Errors
    /// [`AddError`] when a new item finds no room; the filter is then as it was.
    pub fn add_prefetched(
        &mut self,
        digest: F::Digest<'_>,
        limit: &dyn ByteLimit,
        _: impl Prefetch,
    ) -> Result<Added, AddError> {
        if self.contains(digest) { Ok(Added::Present) } else { self.add(digest, limit) }
    }

    /// Asks for every item whether it may be in the filter.
    pub fn contains_items(
        &self,
        items: &mut dyn Items<'_>,
        _: impl Prefetch,
        answer: &mut dyn FnMut(ItemSet, usize),
    ) {
        loop {
            let group = items.next_few();
            if group.is_empty() {
                return;
            }
            let found = |item: &&[u8]| ItemSet::from(self.contains(self.digest(item)));
            let set = group.iter().rev().fold(0, |set, item| set << 1 | found(item));
            answer(set, group.len());
        }
    }

    /// Adds the items in turn.
    pub fn add_items(
        &mut self,
        items: &mut dyn Items<'_>,
        limit: &dyn ByteLimit,
        prefetch: impl Prefetch,
        answer: &mut dyn FnMut(Run) -> bool,
    ) {
        loop {
            let group = items.next_few();
            if group.is_empty() {
                return;
            }
            let mut run = Run::default();
            let outcomes = group.iter().map(|item| self.add_prefetched(self.digest(item), limit, prefetch));
            if !run.extend(outcomes, answer) {
                return;
            }
            if !answer(run) {
                return;
            }
        }
    }
}
