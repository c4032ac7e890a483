//! The union of tables, by their entries.

use super::MergeError;
use super::plan::Appends;
use crate::filter::kind::Format;
use crate::filter::policy::{Growth, Promise, Window};
use crate::filter::size::Footprint;
use crate::filter::{Filter, FilterSpec};
use crate::generation::Generation;
use crate::growth_budget::GrowthBudget;
use crate::hash::Hash;
use crate::limits::CAPACITY_MAX_ITEMS;
use crate::memory::try_collect;
use crate::outcome::ByteLimit;
use crate::table::{Table, Union};

/// Largest error rate of a new filter that has the entries of several.
const TABLES_ERROR_RATE_MAX: f64 = 0.25;

impl Filter {
    /// Returns whether the entries of a source can be added to this filter: they must have the hash of its table and be
    /// of the same kind. A filter that is fixed has no table, unless its items are counted or expire.
    pub(super) fn has_entries_for(&self, source: &Self, appends: Appends) -> bool {
        if !self.policy.has_entries_of(&source.policy) {
            return false;
        }
        source.table_hash().is_none_or(|hash| {
            let may_have_table =
                self.table().is_some() || appends != Appends::Nothing && !self.growth().is_fixed_size();
            may_have_table && self.next_table_hash() == *hash
        })
    }

    /// Returns the hash of the table that the filter has, or will get.
    pub(super) fn next_table_hash(&self) -> Hash {
        let is_own = !self.policy.has_several_hashes() && self.hash().is_own();
        self.table_hash().copied().unwrap_or(if is_own { self.hash() } else { Hash::Murmur3 })
    }

    /// Returns an empty table for the next items of a filter without one.
    pub(super) fn next_table(&self) -> (Table, Hash) {
        (Table::new(self.policy.table()), self.next_table_hash())
    }

    /// Returns the parameters of a new filter for the entries of all sources; `None` unless all sources are tables. The
    /// filter promises the sum of their error rates, at most [`TABLES_ERROR_RATE_MAX`] unless the first source promises
    /// more.
    pub(super) fn spec_of_tables(sources: &[&Self]) -> Option<FilterSpec> {
        let first = sources.first()?;
        let (mut error_rate, mut capacity_items) = (0.0, 0u64);
        for source in sources {
            let is_table = source.layers().is_empty() && first.has_entries_for(source, Appends::Any);
            let promise = source.policy.promise().filter(|_| is_table)?;
            error_rate += promise.error_rate;
            capacity_items = capacity_items.saturating_add(promise.capacity_items);
        }
        let own = first.promise();
        let promise = Promise {
            error_rate: error_rate.min(TABLES_ERROR_RATE_MAX).max(own.error_rate),
            capacity_items: if own.growth.is_unreserved() {
                own.capacity_items
            } else {
                capacity_items.min(CAPACITY_MAX_ITEMS)
            },
            growth: own.growth,
        };
        Some(FilterSpec { policy: first.policy.with_promise(promise), hash: first.hash() })
    }

    /// Unites the tables of this filter and of all sources. Entries of a source after the generation `latest` count as of
    /// `latest`, which must not be before the newest item of this filter. `layers` is the footprint of the layers beside
    /// the table. `check` gets error rates that the table can reach. O(entries).
    pub(super) fn united_table(
        &self,
        sources: &[&Self],
        latest: Generation,
        layers: Footprint,
        is_forced: bool,
        limit: &dyn ByteLimit,
        check: impl Fn(f64) -> Result<(), MergeError>,
    ) -> Result<Union, MergeError> {
        let tables = try_collect(sources.iter().filter_map(|source| source.table()))?;
        let newest = sources.iter().map(|source| source.newest_generation()).fold(0, u64::max);
        let now = newest.min(latest).max(self.newest_generation());
        let room = GrowthBudget::new(limit);
        room.set_other_bytes(layers.with_table(0).needed_bytes());
        let next = if self.table().is_none() { Some(self.next_table().0) } else { None };
        let Some(table) = self.table().or(next.as_ref()) else { return Ok(Union::Unchanged) };
        let united = table.union_with(&tables, now, &room, check)?;
        // Items that have expired by the clock are not live, although the newest item of the union is as old.
        let live_at = now.max(self.now());
        let is_full = |table: &Table| {
            self.growth() == Growth::Fixed && table.distinct_items(live_at) > self.promise().capacity_items
        };
        match &united {
            Union::Made(table) if !is_forced && is_full(table) => Err(MergeError::TooFull),
            _ => Ok(united),
        }
    }

    /// Sets the table, which has entries of other filters, and their hash. The last layer then takes no more items, and a
    /// filter of another format becomes a union.
    pub(super) fn set_table(&mut self, table: Table, hash: Hash) {
        if self.format() != Format::Everbloom {
            self.policy = self.policy.merged(self.layers(), false);
        }
        if self.table().is_none() {
            self.end_load();
        }
        self.parts.set_table(Some((table, hash)));
        // The time is never before the newest item.
        let now_ms = self.window().map_or(0, Window::now_ms);
        self.set_now(now_ms);
    }
}
