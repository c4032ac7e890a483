//! The counts for INFO. Filters are also freed on background threads, so every count is atomic.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::bloom::filter::kind::KIND_COUNT;
use crate::bloom::limits::LAYERS_MAX;
use crate::bloom::{Filter, FilterCounts};
use crate::command::table::KeyAccess;
use crate::command::{Command, Effects};

/// A count.
pub(super) struct Count(AtomicU64);

impl Count {
    const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Adds to the count. Counts wrap, so that subtraction is possible too.
    #[inline(always)]
    fn add(&self, more: u64) {
        self.0.fetch_add(more, Relaxed);
    }

    /// Adds to the count unless `more` is 0, because an atomic addition of 0 costs as much as any other.
    #[inline(always)]
    fn add_some(&self, more: u64) {
        if more > 0 {
            self.add(more);
        }
    }

    fn subtract(&self, less: u64) {
        self.0.fetch_sub(less, Relaxed);
    }

    /// Returns the count.
    pub(super) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// The totals over all filters of a kind, in all databases: counters, or their values at one time.
pub(super) struct Totals<T = Count> {
    pub(super) filters: T,
    /// Memory of their structs, bits and tables.
    pub(super) bytes: T,
    /// Their layers of bits and their tables.
    pub(super) layers: T,
    /// Items added to them.
    pub(super) items: T,
    /// Their capacity.
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

/// Returns the current totals, in the order of [`KINDS`](crate::bloom::filter::kind::KINDS).
pub(super) fn now() -> [Totals<u64>; KIND_COUNT] {
    TOTALS.each_ref().map(Totals::now)
}

/// The totals, in the order of [`KINDS`](crate::bloom::filter::kind::KINDS).
static TOTALS: [Totals; KIND_COUNT] = [const { Totals::new() }; KIND_COUNT];

/// Numbers of events since the module was loaded.
pub(super) struct Events {
    /// Items that were new to their filter.
    pub(super) adds_new: Count,
    /// Items to be added that were, or seemed to be, in their filter.
    pub(super) adds_known: Count,
    /// Items to be added that their filter refused.
    pub(super) adds_refused: Count,
    /// Items checked that may be in their filter.
    pub(super) checks_found: Count,
    /// Items checked that are not in their filter.
    pub(super) checks_missed: Count,
    /// Layers and tables that filters have grown by.
    pub(super) growths: Count,
    /// Values that could not be loaded.
    pub(super) load_errors: Count,
    /// Blocks that active defragmentation has moved.
    pub(super) defrag_hits: Count,
    /// Blocks that it has not moved.
    pub(super) defrag_misses: Count,
}

/// The counts of events.
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

/// The part of the totals that one filter contributed at its last change, except its items and capacity. It is
/// subtracted when the filter changes or is freed, so the totals are always the sums over all filters.
pub(super) struct Footprint {
    /// The bytes of memory in the lowest bits, then the number of parts, then the kind. It is one word, because
    /// every filter has one.
    packed: u64,
}

/// Number of bits for the bytes: those of an address.
const BYTES_BITS: u32 = 48;
/// Number of bits for the parts: layers and a table.
const LAYERS_BITS: u32 = 13;
const _: () = assert!(LAYERS_MAX + 1 < 1 << LAYERS_BITS);
const _: () = assert!(KIND_COUNT <= 1 << (u64::BITS - BYTES_BITS - LAYERS_BITS));

impl Footprint {
    /// Adds a new filter to the totals. O(layers).
    pub(super) fn count(filter: &Filter) -> Self {
        let layers = filter.part_count() as u64;
        let kind = filter.kind() as u64;
        let footprint = Self {
            packed: low_bits(filter.size_bytes(), BYTES_BITS)
                | low_bits(layers, LAYERS_BITS) << BYTES_BITS
                | kind << (BYTES_BITS + LAYERS_BITS),
        };
        let totals = footprint.totals();
        totals.filters.add(1);
        totals.bytes.add(footprint.bytes());
        totals.layers.add(layers);
        totals.items.add(filter.counted_items());
        totals.capacity_items.add(filter.capacity_items());
        footprint
    }

    /// Updates the totals for a changed filter, which had `items_before` and `capacity_before_items` before.
    /// O(layers).
    #[cold]
    pub(super) fn recount(&mut self, filter: &Filter, items_before: u64, capacity_before_items: u64) {
        self.uncount(items_before, capacity_before_items);
        *self = Self::count(filter);
    }

    /// Adds the difference of the items and of the capacity of some parts of the filter.
    #[inline(always)]
    pub(super) fn recount_items(&self, before: &FilterCounts, after: &FilterCounts) {
        let totals = self.totals();
        totals.items.add(after.items.wrapping_sub(before.items));
        totals.capacity_items.add_some(after.capacity_items.wrapping_sub(before.capacity_items));
    }

    /// Removes the filter, which was counted with `items` and `capacity_items`, from the totals.
    pub(super) fn uncount(&self, items: u64, capacity_items: u64) {
        let totals = self.totals();
        totals.filters.subtract(1);
        totals.bytes.subtract(self.bytes());
        totals.layers.subtract(self.parts() as u64);
        totals.items.subtract(items);
        totals.capacity_items.subtract(capacity_items);
    }

    /// Returns the number of parts with which the filter was counted.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "a number of 13 bits")]
    pub(super) const fn parts(&self) -> usize {
        low_bits(self.packed >> BYTES_BITS, LAYERS_BITS) as usize
    }

    const fn bytes(&self) -> u64 {
        low_bits(self.packed, BYTES_BITS)
    }

    /// Returns the totals of the kind with which the filter was counted.
    #[inline(always)]
    #[expect(clippy::indexing_slicing, reason = "the number of a kind")]
    fn totals(&self) -> &'static Totals {
        &TOTALS[(self.packed >> (BYTES_BITS + LAYERS_BITS)) as usize % KIND_COUNT]
    }
}

/// Returns the lowest `bits` bits of a number.
const fn low_bits(number: u64, bits: u32) -> u64 {
    number & ((1 << bits) - 1)
}

/// Counts the items of a command. The compiler knows the command, so only one arm remains.
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

/// Counts parts that a filter has gained.
pub(super) fn count_growth(layers: u32) {
    EVENTS.growths.add(layers.into());
}

/// Counts a value that could not be loaded.
pub(super) fn count_load_error() {
    EVENTS.load_errors.add(1);
}

/// Counts a block that active defragmentation has moved or has not moved.
pub(super) fn count_defrag(was_moved: bool) {
    if was_moved { &EVENTS.defrag_hits } else { &EVENTS.defrag_misses }.add(1);
}
