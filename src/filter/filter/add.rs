//! Adds items to a filter: one, or many in groups. The rules are those of [`Filter::add_hashed`]. Deletes items from a
//! counting filter.

use super::Filter;
use super::hashed::{GroupHashes, HashedGroup, HashedItems, RANGES_IN_CHAIN, is_cached};
use super::lookup::ItemSource;
use super::parts::Parts;
use super::policy::Growth;
use super::repeat::Log;
use crate::bits::Layer;
use crate::bits::engine::AddRequest;
use crate::generation::AddTime;
use crate::group::{self, GROUP_ITEMS, ItemSet, first_of, from};
use crate::growth_budget::GrowthBudget;
use crate::hash::{Digest, Hash, ItemHash, murmur3};
use crate::memory::OutOfMemory;
use crate::outcome::{AddError, AddOutcomes, Added, ByteLimit};
use crate::prefetch::{NoPrefetch, Prefetch};
use crate::table::{Addition, EntryKind, Table, TableAdds};

impl Filter {
    /// Adds an item. An item that a full layer has is not added again; counting filters and windows have no layers.
    /// O(layers * probes).
    ///
    /// # Errors
    /// [`AddError`] if the item is refused; the filter is then unchanged.
    #[inline(always)]
    pub fn add(
        &mut self,
        item: &[u8],
        limit: &dyn ByteLimit,
        prefetch: impl Prefetch,
    ) -> Result<Added, AddError> {
        self.add_absent(item, false, limit, prefetch)
    }

    /// Does [`add`](Self::add). If `only_absent`, an item that is, or seems to be, present is not counted again, and its
    /// time stays. O(layers * probes).
    ///
    /// # Errors
    /// [`AddError`] if the item is refused; the filter is then unchanged.
    #[inline(always)]
    pub fn add_absent(
        &mut self,
        item: &[u8],
        only_absent: bool,
        limit: &dyn ByteLimit,
        prefetch: impl Prefetch,
    ) -> Result<Added, AddError> {
        // Shorter paths for most filters. They are inlined; the rules are those of `add_hashed`.
        if let Parts::Layer(only) = &mut self.parts
            && only.room_items() > 0
            && let Some(hash) = only.hash().pair(item)
        {
            let is_new = if is_cached(only) {
                only.insert(Digest::Pair(hash), NoPrefetch)
            } else {
                only.insert(Digest::Pair(hash), prefetch)
            };
            if !is_new {
                return Ok(Added::Present);
            }
            only.count_items(1);
            return Ok(Added::New);
        }
        self.add_beside_layer(item, only_absent, limit, prefetch)
    }

    /// Does [`add_absent`](Self::add_absent), without the shorter path for a filter of one layer. O(layers * probes).
    ///
    /// # Errors
    /// [`AddError`] if the item is refused; the filter is then unchanged.
    #[inline(always)]
    pub fn add_beside_layer(
        &mut self,
        item: &[u8],
        only_absent: bool,
        limit: &dyn ByteLimit,
        prefetch: impl Prefetch,
    ) -> Result<Added, AddError> {
        let room = GrowthBudget::new(limit);
        if matches!(self.parts, Parts::Table(_))
            && let Some(addition) = self.addition(&room, only_absent)
            && let Parts::Table(table) = &mut self.parts
        {
            return table.add(Addition { hash: murmur3::hash128(item), ..addition }, &room, prefetch);
        }
        self.add_to_parts(item, only_absent, &room, prefetch)
    }

    /// Does [`add_beside_layer`](Self::add_beside_layer) for a filter of any parts. Not inlined: it needs registers, which
    /// would cost instructions in the shorter paths.
    #[inline(never)]
    fn add_to_parts(
        &mut self,
        item: &[u8],
        only_absent: bool,
        room: &GrowthBudget<'_>,
        prefetch: impl Prefetch,
    ) -> Result<Added, AddError> {
        if !self.policy.has_several_hashes()
            && let Some(mut hash) = self.hash().pair(item)
        {
            return self.add_one(&mut hash, only_absent, room, prefetch);
        }
        let (items, mut digests) = ([item], GroupHashes::default());
        let mut group = HashedGroup::new(&items, &mut digests, false, RANGES_IN_CHAIN);
        self.add_one(&mut group, only_absent, room, prefetch)
    }

    /// Adds one item.
    #[inline(always)]
    fn add_one(
        &mut self,
        item: &mut impl HashedItems,
        only_absent: bool,
        room: &GrowthBudget<'_>,
        prefetch: impl Prefetch,
    ) -> Result<Added, AddError> {
        let mut added = Ok(Added::Present);
        self.add_hashed(item, only_absent, room, prefetch, &mut None, &mut |outcomes: AddOutcomes| {
            added = outcomes.first();
            true
        });
        added
    }

    /// Adds the items in order, with the same outcome as one [`add`](Self::add) after another, except that the filter
    /// does not grow any more after its growth was refused once. If `only_absent`, an item that is, or seems to be, present
    /// is not counted again. Passes the outcomes to `reply`; `reply` returns whether to continue. Passes what is stored to
    /// `log`.
    /// O(items * layers * probes).
    pub fn add_items(
        &mut self,
        items: &mut dyn ItemSource<'_>,
        only_absent: bool,
        limit: &dyn ByteLimit,
        prefetch: impl Prefetch,
        mut log: Log<'_>,
        reply: &mut dyn FnMut(AddOutcomes) -> bool,
    ) {
        let (mut digests, room) = (GroupHashes::default(), GrowthBudget::new(limit));
        let has_one_hash = !self.policy.has_several_hashes();
        loop {
            let mut group = HashedGroup::new(items.next_few(), &mut digests, has_one_hash, RANGES_IN_CHAIN);
            if group.len() == 0 || !self.add_hashed(&mut group, only_absent, &room, prefetch, &mut log, reply)
            {
                return;
            }
        }
    }

    /// Does [`add_items`](Self::add_items) with one reply per item. If an item is refused, `reply` returns whether to
    /// continue. O(items * layers * probes).
    #[inline]
    pub fn add_many(
        &mut self,
        mut items: &[&[u8]],
        limit: &dyn ByteLimit,
        prefetch: impl Prefetch,
        mut reply: impl FnMut(Result<Added, AddError>) -> bool,
    ) {
        self.add_items(&mut items, false, limit, prefetch, None, &mut |outcomes| {
            outcomes.each().all(&mut reply)
        });
    }

    /// Adds items in order. Refuses an item that the encoding of an imported filter cannot express. Does not add an
    /// item that a full layer has. Adds the others to the table, if there is one, or to the last layer. A full layer
    /// makes the filter grow.
    ///
    /// Passes the outcomes to `reply`, in several calls if necessary. The first item that is refused for a new reason
    /// is the last one of a call, so that `reply` can stop there: if it returns false, no more items are added. Returns
    /// whether to continue.
    #[inline(always)]
    fn add_hashed(
        &mut self,
        items: &mut impl HashedItems,
        only_absent: bool,
        room: &GrowthBudget<'_>,
        prefetch: impl Prefetch,
        log: &mut Log<'_>,
        reply: &mut (impl FnMut(AddOutcomes) -> bool + ?Sized),
    ) -> bool {
        let (had_table, possible) = (self.table().is_some(), self.possible(items));
        items.prefetch(self.full_layers(), prefetch);
        let mut absent = possible & !items.found_in_layers(self.full_layers(), possible, prefetch);
        let (mut start, mut reported) = (0, None);
        while start < items.len() {
            let impossible = first_of(!possible & from(start)).min(items.len());
            let wanted = absent & from(start) & group::all(impossible);
            let mut outcomes = if wanted == 0 {
                AddOutcomes { end: GROUP_ITEMS, ..AddOutcomes::default() }
            } else if self.table().is_some() {
                self.add_to_table(items, wanted, only_absent, room, prefetch, log)
            } else {
                self.add_to_last_layer(items, wanted, prefetch, log)
            };
            outcomes.start = start;
            if outcomes.error.is_some() {
                if !had_table && self.table().is_some_and(|table| table.used_slots() == 0) {
                    // A refused item leaves no table behind.
                    self.parts.set_table(None);
                }
            } else if outcomes.end < impossible {
                // The last layer is full and does not have item `outcomes.end`.
                let rest = absent & from(outcomes.end.saturating_add(1));
                absent &= !items.found_in_layers(self.last_layer(), rest, prefetch);
                if let Err(error) = self.grow(room) {
                    let refused = absent & from(outcomes.end) & group::all(impossible);
                    outcomes = AddOutcomes { end: impossible, refused, error: Some(error), ..outcomes };
                }
            } else if impossible < items.len() {
                let refused = ItemSet::from(true) << impossible;
                let (end, error) = (impossible.saturating_add(1), Some(self.not_encodable()));
                outcomes = AddOutcomes { end, refused, error, ..outcomes };
            } else {
                outcomes.end = impossible;
            }
            start = outcomes.end;
            if outcomes.error.is_some() && outcomes.error != reported {
                reported = outcomes.error;
                let (first, rest) = outcomes.split_after_refused();
                outcomes = rest;
                if !reply(first) {
                    return false;
                }
            }
            if outcomes.start < outcomes.end && !reply(outcomes) {
                return false;
            }
        }
        true
    }

    /// Returns the items that can be in the filter: the encoding of an imported filter may be unable to express some.
    #[inline(always)]
    fn possible(&self, items: &mut impl HashedItems) -> ItemSet {
        if self.policy.imported().is_some() { items.hashable(&self.hash()) } else { group::all(items.len()) }
    }

    /// Returns the error for an item that cannot be in the filter.
    #[cold]
    fn not_encodable(&self) -> AddError {
        match self.hash() {
            Hash::Client(_, encoding) => AddError::NotEncodable(encoding),
            _ => AddError::Full,
        }
    }

    /// Returns the layers that take no more items.
    #[inline(always)]
    fn full_layers(&self) -> &[Layer] {
        match self.layers() {
            layers if self.table().is_some() => layers,
            [full @ .., _] => full,
            [] => &[],
        }
    }

    /// Returns a slice of the last layer; empty if there are no layers.
    fn last_layer(&self) -> &[Layer] {
        self.layers().split_last().map_or(&[], |(last, _)| std::slice::from_ref(last))
    }

    /// Adds the `wanted` items to the last layer, up to the first one that the full layer refuses. The outcomes end
    /// before that item.
    #[inline(always)]
    #[expect(clippy::expect_used, reason = "a filter without a table has a layer")]
    fn add_to_last_layer(
        &mut self,
        items: &mut impl HashedItems,
        wanted: ItemSet,
        prefetch: impl Prefetch,
        log: &mut Log<'_>,
    ) -> AddOutcomes {
        let saturates = self.growth() == Growth::Saturating;
        let last = self.parts.layers_mut().last_mut().expect("a layer");
        let room_items = if saturates { u64::MAX } else { last.room_items() };
        let added = items.add_to_layer(last, AddRequest { wanted, room_items }, prefetch);
        last.count_items(added.new.count_ones().into());
        if added.new != 0
            && let Some(log) = log
        {
            items.log(self.add_place(), added.new, *log);
        }
        let end = added.first_refused.map_or(GROUP_ITEMS, |index| index as usize);
        AddOutcomes { end, new: added.new, ..AddOutcomes::default() }
    }

    /// Adds the `wanted` items to the table, up to the first one that it refuses. The outcomes end with that item.
    #[inline(always)]
    #[expect(clippy::expect_used, reason = "the caller has found a table")]
    fn add_to_table(
        &mut self,
        items: &mut impl HashedItems,
        wanted: ItemSet,
        only_absent: bool,
        room: &GrowthBudget<'_>,
        prefetch: impl Prefetch,
        log: &mut Log<'_>,
    ) -> AddOutcomes {
        let end = GROUP_ITEMS;
        let Some(addition) = self.addition(room, only_absent) else {
            return AddOutcomes { end, ..AddOutcomes::default() };
        };
        let table = self.parts.table_mut().expect("a table");
        let TableAdds { new, again, refused } = items.add_to_table(table, wanted, addition, room, prefetch);
        if new | again != 0
            && let Some(log) = log
        {
            items.log(self.add_place(), new | again, *log);
        }
        match refused {
            None => AddOutcomes { end, new, again, ..AddOutcomes::default() },
            Some((index, error)) => AddOutcomes {
                start: 0,
                end: (index as usize).saturating_add(1),
                new,
                again,
                refused: ItemSet::from(true) << index,
                error: Some(error),
            },
        }
    }

    /// Returns the parameters of an add to the table, which are the same for all items of a command but for the hash;
    /// `None` if the items would have expired already.
    #[inline(always)]
    fn addition(&self, room: &GrowthBudget<'_>, only_absent: bool) -> Option<Addition> {
        room.set_other_bytes(self.bytes_besides_table());
        let most_items = match self.policy.promise() {
            Some(promise) if promise.growth.is_fixed_size() => promise.capacity_items,
            _ => u64::MAX,
        };
        let AddTime { added, now } = self.policy.moment();
        let (only_absent, has_expired) = self.window().map_or((only_absent, false), |window| {
            (only_absent || window.no_refresh, !window.span.steps().is_live(added, now))
        });
        let addition =
            Addition { hash: ItemHash::default(), generation: added, now, only_absent, most_items };
        (!has_expired).then_some(addition)
    }

    /// Appends the next part to a filter whose layers are all full and that has no table.
    ///
    /// # Errors
    /// [`AddError`] if the filter cannot grow. It is then the same one for the rest of the command.
    #[cold]
    #[inline(never)]
    pub(super) fn grow(&mut self, room: &GrowthBudget<'_>) -> Result<(), AddError> {
        if self.growth().is_fixed_size() {
            return Err(AddError::Full);
        }
        if let Some(error) = room.refused() {
            return Err(AddError::CannotGrow(error));
        }
        let grown = self.policy.next_part(self.layers()).and_then(|part| self.push(part, room));
        grown.map_err(|error| {
            room.refuse(error);
            AddError::CannotGrow(error)
        })
    }
}

/// Deletion.
impl Filter {
    /// Does [`remove_many`](Self::remove_many) for one item. O(1).
    ///
    /// # Errors
    /// [`OutOfMemory`]; nothing has changed.
    pub fn remove(&mut self, item: &[u8], prefetch: impl Prefetch) -> Result<bool, OutOfMemory> {
        let Some((table, hash)) = self.counted() else { return Ok(false) };
        let Some(hash) = hash.pair(item) else { return Ok(false) };
        let is_deleted = table.remove(hash, prefetch)?;
        if let Some(counting) = self.policy.counting_mut() {
            counting.add_deletions(is_deleted.into());
        }
        Ok(is_deleted)
    }

    /// Returns the table of a counting filter, and the hash of its items.
    #[inline(always)]
    fn counted(&mut self) -> Option<(&mut Table, &Hash)> {
        self.parts.table_mut().filter(|(table, _)| table.kind() == EntryKind::Counted)
    }

    /// Deletes one occurrence of each item. Passes to `reply`, for each item in order, whether an occurrence was
    /// deleted. Stops when `reply` returns false. An item that was never added is found with the probability of the
    /// error rate, and its deletion may remove another item. A filter that does not count its items deletes nothing.
    /// O(items).
    ///
    /// If memory for a deletion cannot be allocated, the result of the item is [`OutOfMemory`], and its deletion has
    /// changed nothing.
    pub fn remove_many(
        &mut self,
        items: &[&[u8]],
        prefetch: impl Prefetch,
        mut reply: impl FnMut(Result<bool, OutOfMemory>) -> bool,
    ) {
        let mut digests = GroupHashes::default();
        for items in items.chunks(GROUP_ITEMS) {
            let mut group = HashedGroup::new(items, &mut digests, true, RANGES_IN_CHAIN);
            let (mut deletions, mut goes_on) = (0, true);
            let mut note = |removed| {
                deletions += u64::from(removed == Ok(true));
                goes_on = reply(removed);
                goes_on
            };
            match self.counted() {
                Some((table, hash)) => table.remove_each(group.pairs(hash), prefetch, note),
                None => _ = items.iter().all(|_| note(Ok(false))),
            }
            if let Some(counting) = self.policy.counting_mut() {
                counting.add_deletions(deletions);
            }
            if !goes_on {
                return;
            }
        }
    }
}
