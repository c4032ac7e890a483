//! The way of RedisBloom, in place of src/bloom/batch.rs: items one by one, no memory asked for ahead of its
//! use, a check before every add. The module that `make bench` builds with it is the baseline that measured
//! figures are ratios of.

use super::chain::Chain;
use super::family::Family;
use super::group::ItemSet;
use super::items::Items;
use super::outcome::{AddError, Added, ByteLimit};
use super::prefetch::Prefetch;

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
    pub fn contains_many(&self, items: &[&[u8]], _: impl Prefetch, mut answer: impl FnMut(bool)) -> u32 {
        let mut items_found = 0;
        for item in items {
            let found = self.contains(self.digest(item));
            items_found += u32::from(found);
            answer(found);
        }
        items_found
    }

    /// Adds the items in turn.
    pub fn add_many(
        &mut self,
        items: &[&[u8]],
        limit: &dyn ByteLimit,
        prefetch: impl Prefetch,
        mut answer: impl FnMut(Result<Added, AddError>) -> bool,
    ) {
        for item in items {
            let digest = self.digest(item);
            if !answer(self.add_prefetched(digest, limit, prefetch)) {
                return;
            }
        }
    }

    /// [`contains_many`](Self::contains_many) for items that are told a few at a time.
    pub fn contains_stream(
        &self,
        items: &mut dyn Items<'_>,
        _: impl Prefetch,
        mut answer: impl FnMut(ItemSet, usize),
    ) {
        let mut item: [&[u8]; 1] = [&[]];
        while items.next_few(&mut item) > 0 {
            item.iter().for_each(|item| answer(self.contains(self.digest(item)).into(), 1));
        }
    }

    /// [`add_many`](Self::add_many) for items that are told a few at a time.
    pub fn add_stream(
        &mut self,
        items: &mut dyn Items<'_>,
        limit: &dyn ByteLimit,
        prefetch: impl Prefetch,
        mut answer: impl FnMut(Result<Added, AddError>) -> bool,
    ) {
        let mut item: [&[u8]; 1] = [&[]];
        while items.next_few(&mut item) > 0 {
            if !item.iter().all(|item| answer(self.add_prefetched(self.digest(item), limit, prefetch))) {
                return;
            }
        }
    }
}
