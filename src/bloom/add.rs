//! Adding many items: a group at a time, with the same outcome as one after another.

use std::iter::repeat;

use super::batch::{PARTS_IN_CHAIN, contains_in_layer, in_steps, is_cached, items_per_step};
use super::cells::{CellType, Purpose};
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
use super::run::Run;
use super::window::Moment;

/// What is known of the items of a group on their way into a filter.
#[derive(Default)]
struct Adding {
    /// Those that no older layer has.
    wanted: ItemSet,
    /// Those that are live in an older layer.
    live: ItemSet,
    /// The layers, the oldest first, that have been looked at.
    layers_seen: usize,
    /// Whether the next item goes to the last layer, whatever room there is.
    is_forced: bool,
    /// Those that were not there before.
    new: ItemSet,
    /// Those that were there, and were counted or refreshed.
    again: ItemSet,
}

impl Filter {
    /// Adds the items in turn, with the same outcome as one [`add`](Self::add) after another. `reply` takes
    /// what came of them, a run at a time, and returns whether to go on. O(items * layers * probes).
    pub fn add_items(
        &mut self,
        items: &mut dyn Items<'_>,
        limit: &dyn ByteLimit,
        prefetch: impl Prefetch,
        reply: &mut dyn FnMut(Run) -> bool,
    ) {
        let mut digests = Digests::default();
        loop {
            let mut group = Group::new(items.next_few(), &mut digests, !self.policy.has_several_hashes());
            if group.len() == 0 || !self.add_group(&mut group, limit, prefetch, reply) {
                return;
            }
        }
    }

    /// Adds the items of a group. Returns whether to go on.
    fn add_group(
        &mut self,
        group: &mut Group<'_, '_>,
        limit: &dyn ByteLimit,
        prefetch: impl Prefetch,
        reply: &mut dyn FnMut(Run) -> bool,
    ) -> bool {
        let counts = self.cell_type() == CellType::Counters;
        if counts && self.layers.len() > 1 {
            return self.count_each(group, 0, Run::default(), limit, prefetch, reply);
        }
        let admitted = self.admitted(group);
        let is_past = self.window().is_some_and(super::window::Window::is_past);
        let mut adding = Adding { wanted: if is_past { 0 } else { admitted }, ..Adding::default() };
        let mut start = 0;
        while start < group.len() {
            // Up to the next item that cannot be added to such a filter.
            let end = first_of(!admitted & from(start)).min(group.len());
            let mut refused = (end < group.len()).then(|| (end, self.not_encodable()));
            while let Some(index) = self.add_until_full(group, group::all(end), &mut adding, prefetch) {
                if let Err(error) = self.grow(limit) {
                    refused = Some((index, error));
                    break;
                }
                adding.is_forced = true;
                if counts {
                    let run = adding.run(start, index, None);
                    return self.count_each(group, index, run, limit, prefetch, reply);
                }
            }
            let end = refused.map_or(end, |(index, _)| index);
            if !reply(adding.run(start, end, refused.map(|(_, error)| error))) {
                return false;
            }
            start = end + usize::from(refused.is_some());
            adding.wanted &= from(start);
        }
        true
    }

    /// Adds the wanted of these items as long as the last layer takes them. Returns the first that it does not take.
    #[inline(always)]
    fn add_until_full(
        &mut self,
        group: &mut Group<'_, '_>,
        items: ItemSet,
        adding: &mut Adding,
        prefetch: impl Prefetch,
    ) -> Option<usize> {
        let at = self.policy.moment();
        let older = self.layers.len().saturating_sub(1);
        // Layers that have been looked at are not looked at again after the filter has grown.
        for layer in self.layers.iter().take(older).skip(adding.layers_seen) {
            let FoundEach { live, current } = find_in_layer(layer, group, adding.wanted, at, prefetch);
            adding.live |= live;
            adding.wanted &= !current;
        }
        adding.layers_seen = older;
        let Taken { new, again, stopped_at, .. } = self.take(group, items, adding, prefetch);
        adding.is_forced = false;
        adding.new |= new;
        adding.again |= again;
        if new | again != 0 {
            self.note_change();
        }
        let stopped_at = stopped_at.map(|index| index as usize);
        adding.wanted &= stopped_at.map_or(!items, from);
        stopped_at
    }

    /// Adds the wanted of these items to the last layer, as long as it takes them.
    #[inline(always)]
    fn take(
        &mut self,
        group: &mut Group<'_, '_>,
        items: ItemSet,
        adding: &Adding,
        prefetch: impl Prefetch,
    ) -> Taken {
        let saturates = self.growth() == Growth::Saturating;
        let (at, mut room_items, no_refresh) = match &mut self.policy {
            Policy::Window(window) => {
                (window.moment(), window.room_items(&self.layers, adding.is_forced), window.no_refresh)
            }
            _ => (Moment::default(), if saturates { u64::MAX } else { self.room_items() }, false),
        };
        let mut taken = Taken::default();
        let Some(last) = self.layers.last_mut() else { return taken };
        let mut room_cells = if saturates { u64::MAX } else { last.room_cells() };
        let wanted = adding.wanted & items;
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
        let (new, again) = (u64::from(taken.new.count_ones()), u64::from(taken.again.count_ones()));
        match &mut self.policy {
            // Of the generation only what was added to it.
            Policy::Window(_) if new | again == 0 => {}
            Policy::Window(window) => window.count(last, new.saturating_add(again)),
            _ => last.count_occurrences(new, new.saturating_add(again)),
        }
        taken
    }

    /// Adds the items from `index` on one after another to cells that count, behind those of `run`. Returns whether to go on.
    fn count_each(
        &mut self,
        group: &mut Group<'_, '_>,
        index: usize,
        mut run: Run,
        limit: &dyn ByteLimit,
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
                    let outcome = filter.add(item, limit, NoPrefetch);
                    goes_on = run.push(outcome, reply);
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

/// Items that are asked for in one step where each is added by itself.
const COUNTED_STEP_ITEMS: usize = 4;

/// Returns what a layer knows of the `wanted` items.
fn find_in_layer(
    layer: &Layer,
    group: &mut Group<'_, '_>,
    wanted: ItemSet,
    at: Moment,
    prefetch: impl Prefetch,
) -> FoundEach {
    if layer.cells().columns().is_none() {
        // What is there is there for good.
        let found = contains_in_layer(layer, group, wanted, PARTS_IN_CHAIN, at, prefetch);
        return FoundEach { live: found, current: found };
    }
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
    /// Returns what came of the items from `start` to before `end`.
    fn run(&self, start: usize, end: usize, refused: Option<AddError>) -> Run {
        let taken = group::all(end) & from(start);
        let (new, again) = ((self.new & taken) >> start, (self.again & taken) >> start);
        Run { items: end.saturating_sub(start), new, again, refused }
    }
}

/// Returns the set of the items from `index` on.
fn from(index: usize) -> ItemSet {
    !group::all(index)
}

/// Returns the index of the first item of a set; beyond all where it is empty.
fn first_of(set: ItemSet) -> usize {
    set.trailing_zeros() as usize
}
