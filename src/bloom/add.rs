//! Adds many items in groups, with the same outcome as if they were added one after another.

use std::iter::repeat;

use super::batch::{PARTS_IN_CHAIN, contains_in_layer, in_steps, is_cached, items_per_step};
use super::cells::{CellState, CellType, Purpose};
use super::digest::{Digests, Group};
use super::engine::{FoundEach, Taken, Taking};
use super::filter::Filter;
use super::group::{self, ItemSet};
use super::growth::Growth;
use super::items::Items;
use super::layer::Layer;
use super::outcome::{AddError, ByteLimit};
use super::policy::Policy;
use super::prefetch::{NoPrefetch, Part, Prefetch};
use super::room::Room;
use super::run::Run;
use super::window::Moment;

/// The state of a group of items while it is added to a filter.
#[derive(Default)]
struct Adding {
    /// Items that no other layer has.
    wanted: ItemSet,
    /// Items that are live in another layer.
    live: ItemSet,
    /// The layer that takes new items. All other layers have been searched.
    layer: Option<usize>,
    /// Whether the layer that takes new items accepts the next item even if it has no room.
    is_forced: bool,
    /// Items that were not in the filter before.
    new: ItemSet,
    /// Items that were in the filter, and were counted or refreshed.
    again: ItemSet,
}

impl Filter {
    /// Adds the items in order, with the same outcome as one [`add`](Self::add) after another. Passes the outcomes to
    /// `reply` in runs; `reply` returns whether to continue. O(items * layers * probes).
    pub fn add_items(
        &mut self,
        items: &mut dyn Items<'_>,
        limit: &dyn ByteLimit,
        prefetch: impl Prefetch,
        reply: &mut dyn FnMut(Run) -> bool,
    ) {
        let (mut digests, mut room) = (Digests::default(), Room::new(limit));
        loop {
            let mut group = Group::new(items.next_few(), &mut digests, !self.policy.has_several_hashes());
            if group.len() == 0 || !self.add_group(&mut group, &mut room, prefetch, reply) {
                return;
            }
        }
    }

    /// Adds the items of a group. Returns whether to continue.
    fn add_group(
        &mut self,
        group: &mut Group<'_, '_>,
        room: &mut Room<'_>,
        prefetch: impl Prefetch,
        reply: &mut dyn FnMut(Run) -> bool,
    ) -> bool {
        let counts = self.cell_type() == CellType::Counters;
        if counts && (self.layers.len() > 1 || room.refused().is_some()) {
            return self.count_each(group, 0, Run::default(), room, prefetch, reply);
        }
        let admitted = self.admitted(group);
        let is_past = self.window().is_some_and(super::window::Window::is_past);
        let mut adding = Adding { wanted: if is_past { 0 } else { admitted }, ..Adding::default() };
        if room.refused().is_some() {
            self.drop_known(group, &mut adding, prefetch);
        }
        let mut start = 0;
        while start < group.len() {
            // The run ends before the next item that this filter cannot take.
            let end = first_of(!admitted & from(start)).min(group.len());
            while room.refused().is_none() {
                let stopped_at = self.add_until_full(group, group::all(end), &mut adding, prefetch);
                let Some(index) = stopped_at else { break };
                if counts {
                    let run = adding.run(start, index, None);
                    return self.count_each(group, index, run, room, prefetch, reply);
                }
                adding.is_forced = room.make(self).is_ok();
                if !adding.is_forced {
                    self.drop_known(group, &mut adding, prefetch);
                }
            }
            if !reply(adding.run(start, end, room.refused())) {
                return false;
            }
            if end < group.len() && !reply(Run::refusal(self.not_encodable())) {
                return false;
            }
            start = end + 1;
            adding.wanted &= from(start);
        }
        true
    }

    /// Leaves only the wanted items that need room: those whose add would change a cell. No layer takes another item.
    #[inline(never)]
    fn drop_known(&self, group: &mut Group<'_, '_>, adding: &mut Adding, prefetch: impl Prefetch) {
        let at = self.policy.moment();
        for (number, layer) in self.layers.iter().enumerate() {
            if adding.layer.is_none_or(|taking| taking == number) {
                adding.search(layer, group, at, prefetch);
            }
        }
        if self.window().is_some_and(|window| window.no_refresh) {
            adding.wanted &= !adding.live;
        }
    }

    /// Adds the wanted items until no layer takes one. Returns the index of the first item that was not taken.
    #[inline(always)]
    fn add_until_full(
        &mut self,
        group: &mut Group<'_, '_>,
        items: ItemSet,
        adding: &mut Adding,
        prefetch: impl Prefetch,
    ) -> Option<usize> {
        let at = self.policy.moment();
        loop {
            let (index, room_items) = self.room(adding.is_forced);
            // A layer that was searched is not searched again when another layer takes over.
            let seen = adding.layer.replace(index);
            for (number, layer) in self.layers.iter().enumerate() {
                if seen.map_or(number != index, |seen| number == seen && seen != index) {
                    adding.search(layer, group, at, prefetch);
                }
            }
            let Taken { new, again, stopped_at, .. } =
                self.take(group, items, adding, (index, room_items), prefetch);
            adding.is_forced = false;
            adding.new |= new;
            adding.again |= again;
            if new | again != 0 {
                self.note_change();
            }
            let stopped_at = stopped_at.map(|index| index as usize);
            adding.wanted &= stopped_at.map_or(!items, from);
            // Another layer may take the remaining items.
            if stopped_at.is_none() || self.window().is_none() || self.room(false).1 == 0 {
                return stopped_at;
            }
        }
    }

    /// Returns the index of the layer that takes new items, and how many more it takes.
    #[inline(always)]
    fn room(&mut self, is_forced: bool) -> (usize, u64) {
        match &mut self.policy {
            Policy::Window(window) => window.room(&self.layers, is_forced),
            _ => {
                let saturates = self.growth() == Growth::Saturating;
                let room_items = if saturates { u64::MAX } else { self.room_items() };
                (self.layers.len().saturating_sub(1), room_items)
            }
        }
    }

    /// Adds the wanted items to a layer until the layer is full or refuses one.
    #[inline(always)]
    fn take(
        &mut self,
        group: &mut Group<'_, '_>,
        items: ItemSet,
        adding: &Adding,
        (index, mut room_items): (usize, u64),
        prefetch: impl Prefetch,
    ) -> Taken {
        let saturates = self.growth() == Growth::Saturating;
        let (at, no_refresh) = match &self.policy {
            Policy::Window(window) => (window.moment(), window.no_refresh),
            _ => (Moment::default(), false),
        };
        let mut taken = Taken::default();
        let Some(last) = self.layers.get_mut(index) else { return taken };
        let mut room_cells = if saturates { u64::MAX } else { last.room_cells() };
        let is_burst = last.is_burst();
        // Columns detect a live item. Bits add every item that they are given.
        let known = if is_burst && no_refresh { adding.live } else { 0 };
        let wanted = adding.wanted & items & !known;
        let mut take = |group: &mut Group<'_, '_>, last: &mut Layer, wanted| {
            let taking =
                Taking { wanted, live_elsewhere: adding.live, no_refresh, room_items, room_cells, at };
            let step = group.take_each(last, taking);
            taken.new |= step.new;
            taken.again |= step.again;
            taken.stopped_at = step.stopped_at;
            room_items = room_items.saturating_sub(step.filled);
            room_cells = room_cells.saturating_sub(step.set_cells);
            step.stopped_at.is_none()
        };
        if is_cached(last) {
            take(group, last, wanted);
        } else {
            let step_items = items_per_step(last, Part::All, Purpose::Add);
            in_steps(
                &mut (group, &mut *last),
                wanted,
                step_items,
                |(group, last), step| group.prefetch(last, step, Part::All, Purpose::Add, prefetch),
                |(group, last), step| take(group, last, step),
            );
        }
        if is_burst {
            taken.again = taken.new & adding.live;
            taken.new &= !adding.live;
        }
        let (new, again) = (u64::from(taken.new.count_ones()), u64::from(taken.again.count_ones()));
        match &mut self.policy {
            // A window counts an add only if it changed the generation.
            Policy::Window(_) if new | again == 0 => {}
            Policy::Window(window) => window.count(last, new.saturating_add(again)),
            _ => last.count_occurrences(new, new.saturating_add(again)),
        }
        taken
    }

    /// Adds the items from `index` on to counters, one after another. Their outcomes follow those of `run`. Returns
    /// whether to continue.
    fn count_each(
        &mut self,
        group: &mut Group<'_, '_>,
        index: usize,
        mut run: Run,
        room: &mut Room<'_>,
        prefetch: impl Prefetch,
        reply: &mut dyn FnMut(Run) -> bool,
    ) -> bool {
        let (mut goes_on, wanted) = (true, group.all() & from(index));
        in_steps(
            &mut (self, group),
            wanted,
            COUNTED_STEP_ITEMS,
            |(filter, group), step| {
                for (layer, part) in
                    filter.layers.iter().rev().zip([Part::All].into_iter().chain(repeat(Part::First)))
                {
                    if !is_cached(layer) {
                        group.prefetch(layer, step, part, Purpose::Add, prefetch);
                    }
                }
            },
            |(filter, group), step| {
                for (_, item) in group::members(group.items(), step) {
                    let was_refused = room.refused().is_some();
                    let outcome = filter.add_in(item, room, NoPrefetch);
                    goes_on = run.push(outcome, was_refused, reply);
                    if !goes_on {
                        break;
                    }
                }
                goes_on
            },
        );
        goes_on && (run.items == 0 || reply(run))
    }
}

/// Items that are prefetched in one step if each is added separately.
const COUNTED_STEP_ITEMS: usize = 4;

/// Returns which of the `wanted` items a layer has.
fn find_in_layer(
    layer: &Layer,
    group: &mut Group<'_, '_>,
    wanted: ItemSet,
    at: Moment,
    prefetch: impl Prefetch,
) -> FoundEach {
    let is_current = match layer.cells().state() {
        // Items in these cells never expire.
        CellState::Bits | CellState::Counters(_) => true,
        CellState::Burst(state) => state.history.newest == at.added,
        CellState::Columns(_) => return find_in_columns(layer, group, wanted, at, prefetch),
    };
    let found = contains_in_layer(layer, group, wanted, PARTS_IN_CHAIN, at, prefetch);
    FoundEach { live: found, current: if is_current { found } else { 0 } }
}

/// Returns the same as [`find_in_layer`] for a layer of columns.
fn find_in_columns(
    layer: &Layer,
    group: &mut Group<'_, '_>,
    wanted: ItemSet,
    at: Moment,
    prefetch: impl Prefetch,
) -> FoundEach {
    if is_cached(layer) {
        return group.find_each(layer, wanted, at);
    }
    let mut found = FoundEach::default();
    in_steps(
        group,
        wanted,
        items_per_step(layer, Part::All, Purpose::Look),
        |group, step| group.prefetch(layer, step, Part::All, Purpose::Look, prefetch),
        |group, step| {
            let FoundEach { live, current } = group.find_each(layer, step, at);
            found.live |= live;
            found.current |= current;
            true
        },
    );
    found
}

impl Adding {
    /// Removes the wanted items that a layer has and whose add would change nothing.
    #[inline(always)]
    fn search(&mut self, layer: &Layer, group: &mut Group<'_, '_>, at: Moment, prefetch: impl Prefetch) {
        let FoundEach { live, current } = find_in_layer(layer, group, self.wanted, at, prefetch);
        self.live |= live;
        self.wanted &= !current;
    }

    /// Returns the outcome of the items from `start` to before `end`. After an `error`, all items that are still wanted
    /// were refused.
    fn run(&self, start: usize, end: usize, error: Option<AddError>) -> Run {
        let items = end.saturating_sub(start);
        if items == 0 {
            return Run::default();
        }
        let of = |set: ItemSet| (set & group::all(end)) >> start;
        let refused = if error.is_some() { of(self.wanted) } else { 0 };
        let error = error.filter(|_| refused != 0);
        Run { items, new: of(self.new), again: of(self.again), refused, error }
    }
}

/// Returns the set of the items from `index` on.
fn from(index: usize) -> ItemSet {
    !group::all(index)
}

/// Returns the index of the first item of a set, or an index beyond all items if the set is empty.
fn first_of(set: ItemSet) -> usize {
    set.trailing_zeros() as usize
}
