//! Adds many items in groups, with the same outcome as if they were added one after another.

use super::Filter;
use super::digest::{Digests, Group};
use super::items::ItemSource;
use super::lookup::{PARTS_IN_CHAIN, contains_in_layer, is_cached, items_per_step};
use super::policy::Growth;
use super::run::AddOutcomes;
use crate::bloom::bits::Layer;
use crate::bloom::bits::engine::AddRequest;
use crate::bloom::group::{self, ItemSet, first_of, from, in_steps};
use crate::bloom::outcome::{AddError, ByteLimit};
use crate::bloom::prefetch::{Part, Prefetch};
use crate::bloom::room::Room;

/// What became of the items of a group that were added at once.
#[derive(Clone, Copy, Debug, Default)]
struct Bulk {
    /// Items that were not in the filter before.
    new: ItemSet,
    /// Items that were in the filter and were counted or refreshed.
    again: ItemSet,
    /// The first item that was not taken; those after it were not tested. With an error it was refused, without one the
    /// layer is full.
    stopped: Option<(usize, Option<AddError>)>,
}

impl Filter {
    /// Adds the items in order, with the same outcome as one [`add`](Self::add) after another, except that nothing
    /// grows after a first item was refused. Passes the outcomes to `reply` in runs; `reply` returns whether to
    /// continue. O(items * layers * probes).
    pub fn add_items(
        &mut self,
        items: &mut dyn ItemSource<'_>,
        limit: &dyn ByteLimit,
        prefetch: impl Prefetch,
        reply: &mut dyn FnMut(AddOutcomes) -> bool,
    ) {
        let (mut digests, room) = (Digests::default(), Room::new(limit));
        loop {
            let mut group = Group::new(items.next_few(), &mut digests, !self.policy.has_several_hashes());
            if group.len() == 0 || !self.add_group(&mut group, &room, prefetch, reply) {
                return;
            }
        }
    }

    /// Adds the items of a group. Returns whether to continue.
    fn add_group(
        &mut self,
        group: &mut Group<'_, '_>,
        room: &Room<'_>,
        prefetch: impl Prefetch,
        reply: &mut dyn FnMut(AddOutcomes) -> bool,
    ) -> bool {
        let admitted = self.admitted(group);
        let mut wanted = admitted & !self.known(group, admitted, prefetch);
        let (mut run, mut start, mut next) = (AddOutcomes::default(), 0, 0);
        while next < group.len() {
            // The next item that this filter cannot take.
            let end = first_of(!admitted & from(next)).min(group.len());
            let Bulk { new, again, stopped } =
                self.add_bulk(group, wanted & from(next) & group::all(end), room, prefetch);
            run.new |= new >> start;
            run.again |= again >> start;
            let (index, outcome) = match stopped {
                Some((index, Some(error))) => (index, Err(error)),
                Some((index, None)) => {
                    let parts = self.part_count();
                    let outcome = self.add_in(group.item(index), room, prefetch);
                    if self.part_count() > parts {
                        // What the full layer has is not added to the next part.
                        wanted &= !self.known(group, wanted & from(index), prefetch);
                    }
                    (index, outcome)
                }
                None if end < group.len() => (end, Err(self.not_encodable())),
                None => break,
            };
            next = index.saturating_add(1);
            let is_known_error = run.error.is_some() && run.error == outcome.err();
            run.set(index - start, outcome);
            // The first refusal ends a run, so that a caller can stop there.
            if outcome.is_err() && !is_known_error {
                run.items = next - start;
                if !reply(std::mem::take(&mut run)) {
                    return false;
                }
                run.error = outcome.err();
                start = next;
            }
        }
        run.items = group.len().saturating_sub(start);
        run.items == 0 || reply(run)
    }

    /// Returns the items that are not added because a full layer has them.
    #[inline(always)]
    fn known(&self, group: &mut Group<'_, '_>, wanted: ItemSet, prefetch: impl Prefetch) -> ItemSet {
        let mut known = 0;
        for layer in self.full_layers() {
            known |= contains_in_layer(layer, group, wanted & !known, PARTS_IN_CHAIN, prefetch);
        }
        known
    }

    /// Adds the wanted items, which no full layer has, to the part that takes new ones, until it does not take one.
    #[inline(always)]
    fn add_bulk(
        &mut self,
        group: &mut Group<'_, '_>,
        wanted: ItemSet,
        room: &Room<'_>,
        prefetch: impl Prefetch,
    ) -> Bulk {
        if self.table().is_some() {
            return self.add_to_table_in_bulk(group, wanted, room, prefetch);
        }
        let saturates = self.growth() == Growth::Saturating;
        let Some(last) = self.layers_mut().last_mut() else { return Bulk::default() };
        let mut room_items = if saturates { u64::MAX } else { last.room_items() };
        let mut bulk = Bulk::default();
        let mut insert = |group: &mut Group<'_, '_>, last: &mut Layer, wanted| {
            let step = group.insert_each(last, AddRequest { wanted, room_items });
            bulk.new |= step.new;
            bulk.stopped = step.stopped_at.map(|index| (index as usize, None));
            room_items = room_items.saturating_sub(step.new.count_ones().into());
            step.stopped_at.is_none()
        };
        if is_cached(last) {
            insert(group, last, wanted);
        } else {
            let step_items = items_per_step(last, Part::All);
            in_steps(
                &mut (group, &mut *last),
                wanted,
                step_items,
                |(group, last), step| group.prefetch(last, step, Part::All, prefetch),
                |(group, last), step| insert(group, last, step),
            );
        }
        last.count_items(bulk.new.count_ones().into());
        if bulk.new != 0 {
            self.note_change();
        }
        bulk
    }

    #[inline(always)]
    fn add_to_table_in_bulk(
        &mut self,
        group: &mut Group<'_, '_>,
        wanted: ItemSet,
        room: &Room<'_>,
        prefetch: impl Prefetch,
    ) -> Bulk {
        let Some(addition) = self.addition(room) else { return Bulk::default() };
        let Some((table, hash)) = self.body.hashed_table_mut() else { return Bulk::default() };
        let outcomes = table.add_each(group.pairs(hash), wanted, addition, room, prefetch);
        if outcomes.new | outcomes.again != 0 {
            self.note_change();
        }
        let stopped = outcomes.refused.map(|(index, error)| (index as usize, Some(error)));
        Bulk { new: outcomes.new, again: outcomes.again, stopped }
    }

    /// Appends the next part to a filter whose layers are all full and that has no table.
    ///
    /// # Errors
    /// [`AddError`] if the filter cannot grow; the same one for the rest of the command.
    #[cold]
    #[inline(never)]
    pub(super) fn grow(&mut self, room: &Room<'_>) -> Result<(), AddError> {
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
