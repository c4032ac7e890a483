//! What the sections of INFO count, all of it. Filters are freed on background threads too, so every count
//! is atomic.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::bloom::{Filter, Kind};
use crate::command::table::KeyAccess;
use crate::command::{Command, Effects};

/// A number that only this module changes.
pub(super) struct Count(AtomicU64);

impl Count {
    const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Counts wrap, so that a difference in either direction is one addition.
    #[inline(always)]
    fn add(&self, more: u64) {
        self.0.fetch_add(more, Relaxed);
    }

    /// Spares the addition of nothing, which costs as much as one of something.
    #[inline(always)]
    fn add_some(&self, more: u64) {
        if more > 0 {
            self.add(more);
        }
    }

    fn subtract(&self, less: u64) {
        self.0.fetch_sub(less, Relaxed);
    }

    /// The number now.
    pub(super) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// What there is of one kind of filter, in all databases: counts that go on, or numbers of one moment.
pub(super) struct Totals<T = Count> {
    pub(super) filters: T,
    /// Memory of their structs and bit arrays.
    pub(super) bytes: T,
    pub(super) layers: T,
    /// Items added to them.
    pub(super) items: T,
    /// Items that they were sized for.
    pub(super) capacity_items: T,
}

impl Totals {
    const fn new() -> Self {
        Self {
            filters: Count::new(),
            bytes: Count::new(),
            layers: Count::new(),
            items: Count::new(),
            capacity_items: Count::new(),
        }
    }

    fn now(&self) -> Totals<u64> {
        Totals {
            filters: self.filters.get(),
            bytes: self.bytes.get(),
            layers: self.layers.get(),
            items: self.items.get(),
            capacity_items: self.capacity_items.get(),
        }
    }
}

/// What there is now, in the order of [`Kind::ALL`].
pub(super) fn now() -> [Totals<u64>; Kind::ALL.len()] {
    TOTALS.each_ref().map(Totals::now)
}

/// In the order of [`Kind::ALL`].
static TOTALS: [Totals; Kind::ALL.len()] = [const { Totals::new() }; Kind::ALL.len()];

/// The totals of a kind.
#[inline(always)]
#[expect(clippy::indexing_slicing, reason = "as many as there are kinds")]
pub(super) fn totals(kind: Kind) -> &'static Totals {
    &TOTALS[kind as usize]
}

/// What commands and the server have done with filters since the module was loaded.
pub(super) struct Events {
    /// Items that were new to their filter.
    pub(super) adds_new: Count,
    /// Items to be added that were there already, or seemed to be.
    pub(super) adds_known: Count,
    /// Items to be added that their filter did not take.
    pub(super) adds_refused: Count,
    /// Items asked for that may be there.
    pub(super) checks_found: Count,
    /// Items asked for that are not.
    pub(super) checks_missed: Count,
    /// Layers that filters have grown by.
    pub(super) growths: Count,
    /// Values that could not be loaded.
    pub(super) load_errors: Count,
    /// Blocks that active defragmentation has moved.
    pub(super) defrag_hits: Count,
    /// Blocks that it has left where they are.
    pub(super) defrag_misses: Count,
}

/// All of them.
pub(super) static EVENTS: Events = Events {
    adds_new: Count::new(),
    adds_known: Count::new(),
    adds_refused: Count::new(),
    checks_found: Count::new(),
    checks_missed: Count::new(),
    growths: Count::new(),
    load_errors: Count::new(),
    defrag_hits: Count::new(),
    defrag_misses: Count::new(),
};

/// What one filter is counted for: its bytes of memory and, above them, its kind. One word, for every
/// filter has it.
pub(super) struct Footprint(u64);

/// Bits of the bytes: more than any memory has.
const BYTES_BITS: u32 = 56;

impl Footprint {
    fn of(filter: &Filter) -> Self {
        let bytes = filter.size_bytes() & ((1 << BYTES_BITS) - 1);
        Self(bytes | (filter.kind() as u64) << BYTES_BITS)
    }

    fn bytes(&self) -> u64 {
        self.0 & ((1 << BYTES_BITS) - 1)
    }

    fn totals(&self) -> &'static Totals {
        let kinds = Kind::ALL.into_iter();
        totals(
            kinds
                .zip(0u64..)
                .find(|(_, number)| *number == self.0 >> BYTES_BITS)
                .map_or(Kind::Everbloom, |(kind, _)| kind),
        )
    }

    /// Counts a filter that now exists. O(layers).
    pub(super) fn count(filter: &Filter) -> Self {
        let footprint = Self::of(filter);
        let totals = footprint.totals();
        totals.filters.add(1);
        totals.bytes.add(footprint.bytes());
        totals.layers.add(filter.layer_count() as u64);
        totals.items.add(filter.counted_items());
        totals.capacity_items.add(filter.capacity_items());
        footprint
    }

    /// Counts a filter anew that was counted with so many layers and items and so much capacity, and may
    /// have been of another kind. O(layers).
    #[cold]
    pub(super) fn recount(
        &mut self,
        filter: &Filter,
        layers_before: usize,
        items_before: u64,
        capacity_before_items: u64,
    ) {
        self.uncount(layers_before, items_before, capacity_before_items);
        *self = Self::count(filter);
    }

    fn uncount(&self, layers: usize, items: u64, capacity_items: u64) {
        let totals = self.totals();
        totals.filters.subtract(1);
        totals.bytes.subtract(self.bytes());
        totals.layers.subtract(layers as u64);
        totals.items.subtract(items);
        totals.capacity_items.subtract(capacity_items);
    }

    /// The filter does not exist any more.
    pub(super) fn forget(&self, filter: &Filter) {
        self.uncount(filter.layer_count(), filter.counted_items(), filter.capacity_items());
    }
}

/// Counts a filter of the kind as having `items` where it had `items_before`. So the total is the sum of what the filters
/// count, whatever a command says that it added.
#[inline(always)]
pub(super) fn recount_items(kind: Kind, items_before: u64, items: u64) {
    totals(kind).items.add(items.wrapping_sub(items_before));
}

/// Counts what a command did with items. Which kind of command it is the compiler knows.
#[inline(always)]
pub(super) fn count_items(command: Command, effects: &Effects<'_>) {
    match command.spec().key_access {
        KeyAccess::ReadOnly => {
            EVENTS.checks_found.add_some(effects.items_found.into());
            EVENTS.checks_missed.add_some(effects.items_missed.into());
        }
        KeyAccess::ReadWrite => {
            EVENTS.adds_new.add_some(effects.items_added);
            EVENTS.adds_known.add_some(effects.items_known.into());
            EVENTS.adds_refused.add_some(effects.items_refused.into());
        }
    }
}

/// Counts layers that a filter has grown by.
pub(super) fn count_growth(layers: u32) {
    EVENTS.growths.add(layers.into());
}

/// Counts a value that could not be loaded.
pub(super) fn count_load_error() {
    EVENTS.load_errors.add(1);
}

/// Counts a block that active defragmentation has looked at.
pub(super) fn count_defrag(was_moved: bool) {
    if was_moved { &EVENTS.defrag_hits } else { &EVENTS.defrag_misses }.add(1);
}
