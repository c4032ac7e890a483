//! Merging filters into a destination. A plan for all sources is made before anything changes.
//!
//! A source's layer is merged bit by bit into a layer of the same shape if that layer stays within its capacity. Any
//! other layer is appended. Tables are merged by their entries, into a copy. The plan depends only on the filters, so
//! a replica with the same filters gets the same bytes. So a release must not change the plan: its filters would differ
//! from those of a primary of an older release.
//!
//! The destination promises an error rate over its whole life. So [`budget`] counts what its layers have spent of the
//! promise, and what the items need that are added later.

mod budget;
mod contents;
mod error;
mod plan;
mod tables;

pub use error::MergeError;

use self::plan::{Appends, LastLayer, Planner};
use super::Filter;
use super::kind::Format;
use super::parts::Parts;
use crate::bits::Layer;
use crate::generation::Generation;
use crate::memory::{Memory, OutOfMemory};
use crate::outcome::ByteLimit;
use crate::table::{Table, Union};

impl Filter {
    /// Merges filters into this one, which then contains the items of all. Returns whether anything has changed. In a
    /// sliding window, items of a source that were added after the generation `latest` count as of `latest`, which must not
    /// be before the [newest](Self::newest_generation) one of this filter. With `is_forced` the result may exceed the
    /// promised error rate. O(bytes of all).
    ///
    /// # Errors
    /// [`MergeError`].
    pub fn merge(
        &mut self,
        sources: &[&Self],
        latest: Generation,
        is_forced: bool,
        limit: &dyn ByteLimit,
        memory: impl Memory,
    ) -> Result<bool, MergeError> {
        // With layers of another hash a keyed filter would no longer be keyed.
        let hash = self.hash();
        let appends = match self.format() {
            Format::Everbloom if !self.policy.has_several_hashes() && hash.is_secret() => {
                Appends::OfHash(hash)
            }
            Format::Everbloom => Appends::Any,
            _ => Appends::Nothing,
        };
        self.merge_with(appends, sources, latest, is_forced, limit, memory)
    }

    /// Returns a new filter: a copy of the first source, into which the others are merged. In a sliding window, items that
    /// were added after the generation `latest` count as of `latest`. O(bytes of all).
    ///
    /// # Errors
    /// [`MergeError`].
    pub fn merged_of(
        sources: &[&Self],
        latest: Generation,
        is_forced: bool,
        limit: &dyn ByteLimit,
        memory: impl Memory,
    ) -> Result<Self, MergeError> {
        let (first, others) = sources.split_first().ok_or(MergeError::Mismatch)?;
        if (!others.is_empty() || first.newest_generation() > latest)
            && let Some(spec) = Self::spec_of_tables(sources)
        {
            let mut made = Self::reserve(spec, limit)?;
            made.merge_with(Appends::Any, sources, latest, is_forced, limit, memory)?;
            return Ok(made);
        }
        first.footprint().check(limit)?;
        let mut made = first.try_clone(memory)?;
        made.merge_with(Appends::Any, others, latest, is_forced, limit, memory)?;
        Ok(made)
    }

    #[expect(clippy::expect_used, reason = "a plan names layers of the filter that it is made for")]
    fn merge_with(
        &mut self,
        appends: Appends,
        sources: &[&Self],
        latest: Generation,
        is_forced: bool,
        limit: &dyn ByteLimit,
        memory: impl Memory,
    ) -> Result<bool, MergeError> {
        if !sources.iter().all(|source| self.has_entries_for(source, appends)) {
            return Err(MergeError::Mismatch);
        }
        // The hash that the entries of the sources have. Appended layers of other hashes do not change it.
        let table_hash = self.next_table_hash();
        let mut planner = Planner::new(self, appends, is_forced);
        for source in sources {
            planner.plan_source(source, limit, memory)?;
        }
        let check = |of_table| planner.check_with_table(of_table);
        let layers = planner.footprint_with_last();
        let deletions = sources.iter().filter_map(|source| source.policy.counting());
        let deletions = deletions.map(|counting| counting.deletions).fold(0, u64::saturating_add);
        let united = self.united_table(sources, latest, layers, is_forced, limit, check)?;
        let table = match &united {
            Union::Unchanged if !planner.has_changes() && deletions == 0 => return Ok(false),
            Union::Unchanged => self.table(),
            Union::Made(table) => Some(table),
        };
        let table_rate = table.map(Table::error_rate_max);
        let plan = planner.finish(table_rate, limit)?;
        let mut layers = Vec::new();
        layers
            .try_reserve_exact(self.layer_count().saturating_add(plan.added.len()))
            .map_err(|_| OutOfMemory)?;
        // From here on nothing can fail.
        for (number, from) in plan.unions {
            self.layers_mut().get_mut(number).expect("a layer").unite(from, memory);
        }
        if !plan.added.is_empty() {
            self.insert_layers(plan.added, plan.last, layers);
        }
        if let Union::Made(table) = united {
            self.set_table(table, table_hash);
            sources.iter().for_each(|source| self.count_life_adds(source.life_adds()));
        }
        if let Some(counting) = self.policy.counting_mut().filter(|_| deletions > 0) {
            counting.add_deletions(deletions);
        }
        Ok(true)
    }

    /// Adds layers before, after or in place of the last one. The filter becomes a union unless all layers have its
    /// hash and one of everbloom's own layouts. `layers` has memory for all. O(layers).
    fn insert_layers(&mut self, added: Vec<Layer>, last: LastLayer, mut layers: Vec<Layer>) {
        let hash = self.hash();
        let is_alike = |layer: &Layer| *layer.hash() == hash && layer.shape().is_some();
        self.policy = self.policy.merged(self.layers(), added.iter().all(is_alike));
        // The new table has the hash of the layers, so it is made while they are here.
        let needs_table = last != LastLayer::Kept && !self.growth().is_fixed_size();
        let next_table = needs_table.then(|| self.next_table());
        let (before, table) = self.parts.take();
        layers.extend(before);
        let open = if last == LastLayer::Kept && table.is_none() { layers.pop() } else { None };
        if last == LastLayer::Replaced {
            layers.pop();
        }
        layers.extend(added);
        layers.extend(open);
        self.parts = Parts::of(layers, table.or(next_table));
        self.end_load();
    }
}
