//! The table: its segments, the counts of its items, and the sums over its entries.

use super::directory::Directory;
use super::entry::{Entry, EntryKind, visit_entries};
use super::schedule::Schedule;
use super::segment::Segment;
use super::size::{BUCKET_BITS, TableSize, depth_of};
use super::totals::{EntrySums, History, ItemCounts, MatchAllCounts, TableCounts, Tally, Weight, weight};
use crate::generation::{Generation, Steps};
use crate::growth_budget::GrowthBudget;
use crate::hash::ItemHash;
use crate::memory::{BlockMover, BlockVisitor, OutOfMemory};
use crate::outcome::ReserveError;
use crate::words::low_bits;

/// The number of segments of which the entries are read to estimate which share of them is live.
const RATED_SEGMENTS: usize = 8;

/// The parameters of a table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TableSpec {
    /// The error rate that the table keeps, above 0.
    pub error_rate: f64,
    /// What the entries store besides a remainder.
    pub kind: EntryKind,
    /// The number of live items that a table of timed entries is made for. Other tables ignore it.
    pub items: u64,
}

impl TableSpec {
    /// Returns the bytes of an empty table: [`Table::size_bytes`] after [`Table::new`].
    #[must_use]
    pub fn empty_bytes(&self) -> u64 {
        History::bytes(self.kind)
    }

    /// Returns the expected bytes of a table that has grown to `items` items. If entries are timed, `items` is the
    /// number of live items, and the bytes are those at steady traffic. O(log items).
    #[must_use]
    pub fn expected_bytes(&self, items: u64) -> u64 {
        let schedule = Schedule::new(self.kind, self.error_rate, self.items);
        let (size, segment_bytes) = schedule.expected(self.kind, items);
        let directory_bytes = Directory::bytes_of(size.segments);
        (segment_bytes + (directory_bytes + History::bytes(self.kind)) as f64) as u64
    }
}

/// The statistics of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TableStats {
    /// The number of items: [`Table::items`].
    pub items: u64,
    /// The number of items, each counted once: [`Table::distinct_items`].
    pub distinct_items: u64,
    /// Bytes of the segments, the directory and the history: [`Table::size_bytes`].
    pub size_bytes: u64,
    /// The number of segments.
    pub segments: u64,
    /// The numbers of void entries and saturated buckets.
    pub match_all_counts: MatchAllCounts,
    /// Expired entries that still take memory.
    pub expired_entries: u64,
    /// An upper bound of the current error rate.
    pub error_rate: f64,
}

impl TableStats {
    /// Returns an estimate of the bytes that expired entries take.
    #[must_use]
    pub fn expired_bytes(&self) -> u64 {
        let share = self.expired_entries as f64 / (self.items as f64 + self.expired_entries as f64).max(1.0);
        (self.size_bytes as f64 * share) as u64
    }
}

/// An expandable table.
#[derive(Debug)]
pub struct Table {
    pub(super) directory: Directory,
    pub(super) counts: ItemCounts,
    /// The sum of the weights of all entries, an upper bound of the error rate.
    weight: Weight,
    pub(super) schedule: Schedule,
}

// A server may have millions of small filters.
const _: () = assert!(size_of::<Table>() == 80);

/// The bucket of an item, and the bits of the hash with which its entries are compared.
#[derive(Clone, Copy, Debug)]
pub(super) struct BucketAddress {
    /// The number of the segment.
    pub(super) segment: usize,
    /// The number of bits of the hash that choose the segment and the block.
    pub(super) address_bits: u32,
    pub(super) block: usize,
    pub(super) bucket: u32,
    /// The bits of the hash above the address. A remainder is the lowest bits of the key.
    pub(super) key: u64,
}

impl Table {
    /// Returns an empty table.
    #[must_use]
    pub fn new(spec: TableSpec) -> Self {
        let schedule = Schedule::new(spec.kind, spec.error_rate, spec.items);
        Self::of_counts(spec.kind, TableCounts::initial(schedule))
    }

    /// Returns an empty table with the parameters of this one.
    #[must_use]
    pub fn emptied(&self) -> Self {
        Self::of_counts(self.kind(), TableCounts::initial(self.schedule))
    }

    /// Returns a table of one segment with the counts of `counts`, but without entries.
    pub(super) fn of_counts(kind: EntryKind, counts: TableCounts) -> Self {
        let TableCounts { schedule, blocks_log, .. } = counts;
        let counts = ItemCounts::of(kind, &counts);
        Self {
            directory: Directory::One(Segment::blank(blocks_log)),
            counts,
            weight: Weight::default(),
            schedule,
        }
    }

    /// Creates a table of the size and the counts of `counts`, but without entries, if it is within the limit with
    /// segments of at least `segment_bytes`. O(segments).
    pub(super) fn try_blank(
        kind: EntryKind,
        counts: TableCounts,
        segment_bytes: u64,
        room: &GrowthBudget<'_>,
    ) -> Result<Self, ReserveError> {
        room.check(Directory::bytes_of(counts.segments) + History::bytes(kind) + segment_bytes)?;
        let mut table = Self::of_counts(kind, counts);
        table.directory.try_reserve(counts.segments, MatchAllCounts::default())?;
        table.directory.set_len(counts.segments);
        Ok(table)
    }

    /// Puts a segment of a [blank table](Self::try_blank) at its place, with the sums over its entries, if the table is then
    /// within the limit.
    pub(super) fn try_put(
        &mut self,
        number: usize,
        segment: Segment,
        sums: EntrySums,
        room: &GrowthBudget<'_>,
    ) -> Result<(), ReserveError> {
        self.directory.replace(number, segment);
        self.add_sums(sums);
        room.check(self.size_bytes())
    }

    /// Returns what the entries store besides a remainder.
    #[must_use]
    #[inline(always)]
    pub const fn kind(&self) -> EntryKind {
        match self.counts {
            ItemCounts::Plain { .. } => EntryKind::Plain,
            ItemCounts::Counted { .. } => EntryKind::Counted,
            ItemCounts::Timed { .. } => EntryKind::Timed(Steps::Fourteen),
            ItemCounts::Fine { .. } => EntryKind::Timed(Steps::Fine),
        }
    }

    /// Returns the number of items in the table. A counted item counts as often as it was added. A timed item counts
    /// until it has expired at `now`.
    #[must_use]
    #[inline(always)]
    pub fn items(&self, now: Generation) -> u64 {
        match &self.counts {
            ItemCounts::Plain { items, .. } | ItemCounts::Counted { items, .. } => *items,
            ItemCounts::Timed { history, .. } => history.live_items(now),
            ItemCounts::Fine { history, .. } => history.live_items(now),
        }
    }

    /// Returns the number of items that count towards a capacity. This is [`items`](Self::items), but a counted item
    /// counts once, however often it was added.
    #[must_use]
    pub fn distinct_items(&self, now: Generation) -> u64 {
        if let ItemCounts::Counted { entries, .. } = self.counts { entries } else { self.items(now) }
    }

    /// Returns the number of items at which the current doubling of the table ends, if all further items are new. Each
    /// item counts once. Of timed entries, all count. O(1).
    #[must_use]
    #[inline(always)]
    pub fn capacity_items(&self) -> u64 {
        let used = self.used_slots();
        let items = match &self.counts {
            ItemCounts::Plain { items, .. } => *items,
            ItemCounts::Counted { entries, .. } => *entries,
            ItemCounts::Timed { .. } | ItemCounts::Fine { .. } => used,
        };
        // Crafted entries may use more slots.
        items.saturating_add(self.size().slots_before_doubling().saturating_sub(used))
    }

    /// Returns the newest generation in which an item was added; 0 if entries are not timed, or before the first.
    #[must_use]
    #[inline(always)]
    pub fn newest(&self) -> Generation {
        match &self.counts {
            ItemCounts::Timed { history, .. } => history.newest,
            ItemCounts::Fine { history, .. } => history.newest,
            ItemCounts::Plain { .. } | ItemCounts::Counted { .. } => 0,
        }
    }

    /// Returns the number of slots in use.
    #[must_use]
    #[inline(always)]
    pub fn used_slots(&self) -> u64 {
        self.directory.used()
    }

    /// Returns the numbers of void entries and saturated buckets. O(1): a table of one segment counts them in its
    /// slots, and larger tables store the numbers.
    #[must_use]
    pub fn match_all_counts(&self) -> MatchAllCounts {
        let of_only = || {
            let size = self.size();
            EntrySums::of_segment(self.kind(), size.address_bits(0), self.directory.get(0)).match_all_counts
        };
        self.directory.match_all_counts().unwrap_or_else(of_only)
    }

    /// Returns whether the table is as [`emptied`](Self::emptied) makes it: it has no entries, its segments have no
    /// memory, and its counts are those of a new table. O(1).
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.directory.bytes() == 0 && self.counts() == TableCounts::initial(self.schedule)
    }

    #[inline(always)]
    pub(super) fn size(&self) -> TableSize {
        self.directory.size()
    }

    /// Returns the number of segments.
    #[must_use]
    pub fn segment_count(&self) -> usize {
        self.directory.len()
    }

    /// Returns the bytes of the segments, the directory and the history. O(1).
    #[must_use]
    #[inline(always)]
    pub fn size_bytes(&self) -> u64 {
        self.directory.bytes() + History::bytes(self.kind())
    }

    /// Returns an upper bound of the error rate at `now`: the sum of the weights of all entries. If entries are timed,
    /// the sum is multiplied by the share of the live ones. This share is estimated from [`RATED_SEGMENTS`] segments of a
    /// larger table, and three standard deviations are added. O(1), but O(slots of these segments) for timed entries.
    #[must_use]
    pub fn error_rate(&self, now: Generation) -> f64 {
        let live = if self.kind().is_timed() { self.live_share(now) } else { 1.0 };
        (EntrySums::error_rate(self.weight()) * live).min(1.0)
    }

    /// Returns an upper bound of the share of the error rate that entries have which are live at `now`.
    fn live_share(&self, now: Generation) -> f64 {
        if self.items(now) == 0 {
            return 0.0;
        }
        let (size, step) = (self.size(), self.segment_count().div_ceil(RATED_SEGMENTS));
        let (mut live, mut all, mut entries) = (0u128, 0u128, 0.0);
        for number in (0..size.segments).step_by(step) {
            let segment = self.directory.get(number);
            for block in 0..segment.blocks() {
                visit_entries(self.kind(), segment, block, |_, entry| {
                    let weight = weight(size.address_bits(number), entry.value);
                    all += weight;
                    let has_expired = self.kind().has_expired(entry.number, now);
                    live += if has_expired { 0 } else { weight };
                    entries += 1.0;
                });
            }
        }
        let share = live as f64 / all.max(1) as f64;
        let error = if step > 1 { 3.0 * (share / entries).sqrt() + 3.0 / entries } else { 0.0 };
        // Without entries in these segments, nothing is known.
        if entries > 0.0 { (share + error).min(1.0) } else { 1.0 }
    }

    /// Returns an upper bound of the error rate that the table can reach while it grows to 10^12 items.
    #[must_use]
    pub fn error_rate_max(&self) -> f64 {
        EntrySums::error_rate(self.weight())
            + self.schedule.rate_of_growth(self.kind(), self.used_slots(), self.size())
    }

    #[inline(always)]
    pub(super) fn weight(&self) -> u128 {
        self.weight.get()
    }

    /// Returns the sums over all entries. O(1), but O(slots) for a table of one segment.
    pub(super) fn sums(&self) -> EntrySums {
        EntrySums { weight: self.weight, match_all_counts: self.match_all_counts() }
    }

    /// Returns the sums that are stored: those over all entries, but a table of one segment does not store the numbers of
    /// void entries and saturated buckets. O(1).
    pub(super) fn stored_sums(&self) -> EntrySums {
        // They stay 0 in a table of one segment.
        let match_all_counts = self.directory.match_all_counts().unwrap_or_default();
        EntrySums { weight: self.weight, match_all_counts }
    }

    /// Adds a change to the sum of the weights of all entries. The change wraps around.
    #[inline(always)]
    pub(super) fn add_weight(&mut self, change: u128) {
        self.weight.add(change);
    }

    /// Adds a change to the sums over all entries.
    pub(super) fn add_sums(&mut self, change: EntrySums) {
        self.add_weight(change.weight.get());
        self.directory.add_match_all_counts(change.match_all_counts);
    }

    /// Returns the state of the table without its segments.
    #[must_use]
    pub fn counts(&self) -> TableCounts {
        let (items, entries, history) = match &self.counts {
            ItemCounts::Plain { items, .. } => (*items, 0, History::default()),
            ItemCounts::Counted { items, entries, .. } => (*items, *entries, History::default()),
            ItemCounts::Timed { history, adds } => (0, *adds, history.resized()),
            ItemCounts::Fine { history, adds } => (0, *adds, **history),
        };
        let schedule = self.schedule;
        let TableSize { blocks_log, segments } = self.size();
        TableCounts { schedule, items, entries, history, segments, blocks_log }
    }

    /// Sets the counts to those of the entries. O(slots).
    pub(super) fn recount(&mut self) {
        let (kind, newest, mut tally) = (self.kind(), self.newest(), Tally::default());
        self.directory.segments().for_each(|(_, segment)| tally.count(kind, segment, newest));
        self.counts.recount(&tally);
    }

    /// Returns whether the entries can have these counts. This is not so in some forged tables, in those that are loaded
    /// from a dump during which only counts or times have changed, and if entries are counted and removals have left
    /// copies of void entries. Of timed entries it is not known which are copies, so void ones are left out. O(slots);
    /// O(1) for plain entries.
    #[must_use]
    pub fn has_counts_of_entries(&self) -> bool {
        let (kind, newest, mut tally) = (self.kind(), self.newest(), Tally::default());
        if kind == EntryKind::Plain {
            return true;
        }
        let is_counted = |entry: Entry| !kind.is_timed() || entry.value > 1;
        let segments = self.directory.segments();
        segments.for_each(|(_, segment)| tally.count_those(kind, segment, newest, is_counted));
        self.counts.agree_with(&tally)
    }

    #[inline(always)]
    pub(super) fn locate(&self, hash: ItemHash) -> (BucketAddress, &Segment) {
        let depth = depth_of(self.directory.len(), hash.h1 as usize);
        let number = (hash.h1 & low_bits(depth)) as usize;
        let segment = self.directory.get(number);
        let address_bits = depth + segment.blocks_log();
        let address = BucketAddress {
            segment: number,
            address_bits,
            block: (hash.h1 >> (depth & 63)) as usize & segment.block_mask(),
            bucket: (hash.h2 >> (64 - BUCKET_BITS)) as u32,
            key: bits_above(hash, address_bits),
        };
        (address, segment)
    }

    /// Makes a copy with its own memory. O(bytes).
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn try_clone(&self) -> Result<Self, OutOfMemory> {
        let size = self.size();
        let mut directory = Directory::One(Segment::blank(size.blocks_log));
        directory.try_reserve(size.segments, self.match_all_counts())?;
        directory.set_len(size.segments);
        for (number, segment) in self.directory.segments() {
            directory.replace(number, segment.try_clone()?);
        }
        Ok(Self { directory, counts: self.counts.clone(), ..*self })
    }

    /// Visits all blocks of the allocator that the table owns. O(segments).
    pub fn visit_blocks(&self, visitor: &mut impl BlockVisitor) {
        match &self.counts {
            ItemCounts::Timed { history, .. } => visitor.visit(std::slice::from_ref(&**history)),
            ItemCounts::Fine { history, .. } => visitor.visit(std::slice::from_ref(&**history)),
            ItemCounts::Plain { .. } | ItemCounts::Counted { .. } => {}
        }
        self.directory.visit_blocks(visitor);
        self.directory.segments().for_each(|(_, segment)| visitor.visit(segment.words()));
    }

    /// Moves the history and the blocks of the directory. O(pieces).
    pub fn move_structs(&mut self, mover: &impl BlockMover) {
        match &mut self.counts {
            ItemCounts::Timed { history, .. } => mover.move_box(history),
            ItemCounts::Fine { history, .. } => mover.move_box(history),
            ItemCounts::Plain { .. } | ItemCounts::Counted { .. } => {}
        }
        self.directory.move_blocks(mover);
    }

    /// Moves the allocation of a segment.
    pub fn move_segment(&mut self, number: usize, mover: &impl BlockMover) {
        if number < self.segment_count() && !self.directory.get(number).words().is_empty() {
            self.directory.edit(number, |segment| segment.relocate(|words| mover.move_vec(words)));
        }
    }

    /// Returns the statistics at `now`. O(1).
    #[must_use]
    pub fn stats(&self, now: Generation) -> TableStats {
        let items = self.items(now);
        let is_timed = self.kind().is_timed();
        TableStats {
            items,
            distinct_items: self.distinct_items(now),
            size_bytes: self.size_bytes(),
            segments: self.segment_count() as u64,
            match_all_counts: self.match_all_counts(),
            // A header may say more items than there are entries.
            expired_entries: if is_timed { self.used_slots().saturating_sub(items) } else { 0 },
            error_rate: self.error_rate(now),
        }
    }
}

#[inline(always)]
fn bits_above(hash: ItemHash, address_bits: u32) -> u64 {
    let bits = address_bits & 63;
    hash.h1 >> bits | hash.h2 << 1 << (63 - bits)
}
