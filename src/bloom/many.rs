//! Many items at once, for a filter of any kind.

use super::filter::{Filter, each_kind, each_of_bits};
use super::group::ItemSet;
use super::items::Items;
use super::outcome::{AddError, Added, ByteLimit};
use super::prefetch::Prefetch;

impl Filter {
    /// Asks for every item whether it may be in the filter; `answer` takes the answers in the order of the
    /// items. Answers how many may be. O(items * layers * probes).
    pub fn contains_many(&self, items: &[&[u8]], prefetch: impl Prefetch, answer: impl FnMut(bool)) -> u32 {
        each_kind!(self, chain => chain.contains_many(items, prefetch, answer))
    }

    /// Adds the items in turn; see [`Chain::add_many`](super::chain::Chain::add_many). O(items * layers *
    /// probes).
    pub fn add_many(
        &mut self,
        items: &[&[u8]],
        limit: &dyn ByteLimit,
        prefetch: impl Prefetch,
        answer: impl FnMut(Result<Added, AddError>) -> bool,
    ) {
        each_kind!(self, chain => chain.add_many(items, limit, prefetch, answer));
    }

    /// Asks for every item whether it may be in the filter; `answer` takes sets of items that are found, with
    /// how many were asked for, in the order of the items. O(items * layers * probes).
    pub fn contains_stream(
        &self,
        items: &mut dyn Items<'_>,
        prefetch: impl Prefetch,
        answer: impl FnMut(ItemSet, usize),
    ) {
        each_kind!(self, chain => chain.contains_stream(items, prefetch, answer));
    }

    /// Adds the items in turn; see [`Chain::add_many`](super::chain::Chain::add_many). O(items * layers *
    /// probes).
    pub fn add_stream(
        &mut self,
        items: &mut dyn Items<'_>,
        limit: &dyn ByteLimit,
        prefetch: impl Prefetch,
        answer: impl FnMut(Result<Added, AddError>) -> bool,
    ) {
        each_kind!(self, chain => chain.add_stream(items, limit, prefetch, answer));
    }
}
