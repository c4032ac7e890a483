//! The totals over all filters of a server, which INFO shows. A server frees filters on background threads too, so every
//! count is atomic.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use everbloom_filter::FilterCounts;
use everbloom_filter::filter::kind::KIND_COUNT;
use everbloom_filter::filter::loading::FilterValue;
use everbloom_filter::limits::LAYERS_MAX;

/// A count that wraps, so that adding a wrapped negative difference lowers it.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Returns 0.
    #[must_use]
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Adds to the count, unless `more` is 0, because an atomic addition of 0 costs as much as any other.
    #[inline(always)]
    pub fn add(&self, more: u64) {
        if more > 0 {
            self.0.fetch_add(more, Relaxed);
        }
    }

    /// Subtracts from the count.
    pub fn subtract(&self, less: u64) {
        self.0.fetch_sub(less, Relaxed);
    }

    /// Returns the count.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// The totals over all filters of a kind: their number, the bytes of their structs, bits and tables, the number of their
/// layers and tables, their items, and their capacity.
pub type KindTotals<T = u64> = [T; 5];

/// The suffixes of the fields of INFO with the totals of a kind.
pub const TOTAL_NAMES: KindTotals<&str> = ["_filters", "_bytes", "_layers", "_items", "_capacity"];

/// The totals of each kind, in the order of [`KINDS`](everbloom_filter::filter::kind::KINDS).
#[derive(Debug, Default)]
pub struct FilterTotals([KindTotals<Count>; KIND_COUNT]);

impl FilterTotals {
    /// Returns the totals over no filters.
    #[must_use]
    pub const fn new() -> Self {
        Self([const { [const { Count::new() }; 5] }; KIND_COUNT])
    }

    /// Returns the numbers.
    pub fn numbers(&self) -> [KindTotals; KIND_COUNT] {
        self.0.each_ref().map(|totals| totals.each_ref().map(Count::get))
    }
}

/// The part of the totals that one filter contributed at its last change, except its items and capacity. It is
/// subtracted when the filter changes or is freed, so the totals are always the sums over all filters.
#[derive(Debug)]
pub struct CountedFilter {
    /// The bytes of memory in the lowest bits, then the number of parts, then the kind. It is one word, because
    /// every filter has one.
    packed: u64,
}

/// The number of bits for the bytes. An address has as many.
const BYTES_BITS: u32 = 48;
/// The number of bits for the number of parts. A part is a layer or a table.
const PARTS_BITS: u32 = 13;
const _: () = assert!(LAYERS_MAX + 1 < 1 << PARTS_BITS);
const _: () = assert!(KIND_COUNT <= 1 << (u64::BITS - BYTES_BITS - PARTS_BITS));

impl CountedFilter {
    /// Adds a new filter to the totals. One that is being loaded has no items and no capacity yet. O(layers).
    pub fn count(totals: &FilterTotals, value: &FilterValue) -> Self {
        let filter = value.filter();
        let parts = filter.part_count() as u64;
        let kind = filter.kind() as u64;
        let counted = Self {
            packed: low_bits(value.size_bytes(), BYTES_BITS)
                | low_bits(parts, PARTS_BITS) << BYTES_BITS
                | kind << (BYTES_BITS + PARTS_BITS),
        };
        let [items, capacity_items] = items_of(value);
        let amounts = [1, counted.bytes(), parts, items, capacity_items];
        counted.totals(totals).iter().zip(amounts).for_each(|(total, amount)| total.add(amount));
        counted
    }

    /// Updates the totals after a command has changed a filter that was complete before, except by a merge. Returns the
    /// number of parts that the filter has gained. `before` is from [`Filter::counts_since`](everbloom_filter::Filter::counts_since) before the command. O(1);
    /// O(layers) for a filter whose memory has changed.
    #[inline(always)]
    pub fn changed(&mut self, totals: &FilterTotals, value: &FilterValue, before: &FilterCounts) -> u32 {
        let (filter, parts_before) = (value.filter(), self.parts());
        let counts = filter.counts_since(parts_before);
        let [_, _, _, items, capacity_items] = self.totals(totals);
        items.add(counts.items.wrapping_sub(before.items));
        capacity_items.add(counts.capacity_items.wrapping_sub(before.capacity_items));
        if counts.parts != parts_before || counts.table_bytes != before.table_bytes {
            self.recount(totals, value, items_of(value));
        }
        u32::try_from(counts.parts.saturating_sub(parts_before)).unwrap_or(u32::MAX)
    }

    /// Updates the totals after a command has merged other filters into this one. Before, this filter had
    /// `items_before` items and a capacity of `capacity_before_items`. O(layers).
    pub fn altered(
        &mut self,
        totals: &FilterTotals,
        value: &FilterValue,
        items_before: u64,
        capacity_before_items: u64,
    ) {
        let items_before = if value.filter().window().is_some() { 0 } else { items_before };
        self.recount(totals, value, [items_before, capacity_before_items]);
    }

    /// Updates the totals after a chunk was added to a filter that was being loaded. O(layers).
    pub fn loaded(&mut self, totals: &FilterTotals, value: &FilterValue) {
        self.recount(totals, value, [0, 0]);
    }

    /// Counts a filter again that was counted with these items and this capacity.
    #[cold]
    fn recount(&mut self, totals: &FilterTotals, value: &FilterValue, before: [u64; 2]) {
        self.subtract(totals, before);
        *self = Self::count(totals, value);
    }

    /// Removes the filter, which has not changed since it was counted, from the totals.
    pub fn uncount(&self, totals: &FilterTotals, value: &FilterValue) {
        self.subtract(totals, items_of(value));
    }

    fn subtract(&self, totals: &FilterTotals, [items, capacity_items]: [u64; 2]) {
        let amounts = [1, self.bytes(), self.parts() as u64, items, capacity_items];
        self.totals(totals).iter().zip(amounts).for_each(|(total, amount)| total.subtract(amount));
    }

    /// Returns the number of parts with which the filter was counted.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "a number of 13 bits")]
    pub const fn parts(&self) -> usize {
        low_bits(self.packed >> BYTES_BITS, PARTS_BITS) as usize
    }

    const fn bytes(&self) -> u64 {
        low_bits(self.packed, BYTES_BITS)
    }

    /// Returns the totals of the kind with which the filter was counted.
    #[inline(always)]
    #[expect(clippy::indexing_slicing, reason = "the number of a kind")]
    fn totals<'t>(&self, totals: &'t FilterTotals) -> &'t KindTotals<Count> {
        &totals.0[(self.packed >> (BYTES_BITS + PARTS_BITS)) as usize % KIND_COUNT]
    }
}

/// Returns the items and the capacity of a filter that are counted: none while it is being loaded.
#[inline(always)]
fn items_of(value: &FilterValue) -> [u64; 2] {
    match value {
        FilterValue::Complete(filter) => [filter.counted_items(), filter.counted_capacity_items()],
        FilterValue::Loading(_) => [0, 0],
    }
}

const fn low_bits(number: u64, bits: u32) -> u64 {
    number & ((1 << bits) - 1)
}
