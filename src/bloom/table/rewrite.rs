//! Rewriting: the entries that belong to some addresses are read from segments of one or more tables, and written to a
//! new segment.
//!
//! A split, a join, a compaction, a merge and the load of a dumped segment are rewrites. They differ in the sources, in
//! the size of the result, and in how entries of several sources are united:
//!
//! * If the new blocks have longer addresses, an entry loses the lowest bits of its remainder, which have become
//!   address bits. An entry without enough bits is copied to each block that it matches.
//! * If they have shorter addresses, an entry gets the lost address bits back as the lowest bits of its remainder. The
//!   copies of a counted void entry become one again: see [`unite_copies`].
//! * A remainder that is too long for the new segment is cut.
//! * Entries that have expired are left out. So are plain and timed entries that a shorter one covers.
//! * A block of which one source has all entries is copied, if it has the same place in that source.
//!
//! The work is bounded by the blocks of the result: a block has at most [`SLOTS_MAX`](super::size::SLOTS_MAX) slots on
//! average. It is read once for each new segment that it has entries for, or for each of up to four new blocks.

use std::ops::Range;

use smallvec::SmallVec;

use super::entry::{
    COUNT_MAX, CountReader, Entry, EntryKind, EntryVisitor, RUN_MAX, generation_of, pass_entries,
    remainder_bits, visit_entries,
};
use super::schedule::Schedule;
use super::segment::{Segment, SlotList};
use super::size::{BLOCKS_MAX, BUCKETS, SegmentShape};
use super::source::{Address, EntrySource, Placed, Target};
use super::totals::{EntrySums, MatchAllCounts, Weight};
use crate::bloom::generation::{CODES, Generation, is_live};
use crate::bloom::memory::OutOfMemory;
use crate::bloom::words::low_bits;

/// Why a segment could not be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RewriteError {
    /// An allocation failed.
    OutOfMemory,
    /// The counted entries do not fit, which happens only if they are crafted. Other entries always fit, because
    /// buckets become saturated.
    TooFull,
}

impl From<OutOfMemory> for RewriteError {
    fn from(_: OutOfMemory) -> Self {
        Self::OutOfMemory
    }
}

/// How equal counted entries are united.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// The entries are of one table, whose segments are split, joined or compacted.
    Keep,
    /// The sources are tables whose counts are added.
    Sum,
    /// The sources are a table, and segments of a dump that may have entries of this table. The larger count remains.
    Larger,
}

/// An entry for a block of the new segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Gathered {
    bucket: u8,
    entry: Entry,
    /// Whether the entry is one of the copies of a void entry, which become one again.
    is_copy: bool,
    /// Whether the entry is not from the first source.
    is_other: bool,
}

impl Gathered {
    /// Returns whether both entries are of the same bucket and match the same items.
    fn is_same(&self, other: &Self) -> bool {
        let key = |one: &Self| (one.bucket, one.entry.value, one.entry.copies);
        key(self) == key(other)
    }
}

/// The entries that a source with fewer address bits has for a new segment, in the order of its blocks.
#[derive(Default)]
struct Spread {
    entries: Vec<SpreadEntry>,
    /// Whether this is the source, instead of the table or the segments themselves.
    is_used: bool,
}

/// An entry of a [`Spread`].
#[derive(Clone, Copy)]
struct SpreadEntry {
    /// The block of the new segment; [`ALL_BLOCKS`] if the entry is too short to choose one.
    block: u8,
    bucket: u8,
    entry: Entry,
    /// The address of the block that it was read from.
    from: Address,
}

/// The block of a [`SpreadEntry`] that has to be compared with the address of each block.
const ALL_BLOCKS: u8 = BLOCKS_MAX as u8;
/// The entries of a source are spread first if the new blocks have at least this number of further address bits.
const SPREAD_BITS: u32 = 3;

impl Spread {
    fn entries_of(&self, block: u8) -> &[SpreadEntry] {
        let range = Range {
            start: self.entries.partition_point(|one| one.block < block),
            end: self.entries.partition_point(|one| one.block <= block),
        };
        self.entries.get(range).unwrap_or_default()
    }
}

/// Where the entries of one block are gathered.
struct Gathering<'r> {
    kind: EntryKind,
    now: Generation,
    /// The longest remainder of the new block.
    longest: u32,
    address: Address,
    gathered: &'r mut Vec<Gathered>,
    change: &'r mut EntrySums,
    /// Whether the entries are settled: see [`Rewriter::gather`].
    is_settled: bool,
    /// The address of the block that is read.
    from: Address,
    /// Whether no other new block reads that block before this one.
    is_first_read: bool,
    /// Whether the block is not from the first source.
    is_other: bool,
}

impl EntryVisitor for Gathering<'_> {
    #[inline(always)]
    fn visit(&mut self, bucket: u32, read: Entry) {
        if read.value <= 1 && self.is_first_read {
            self.change.match_all_counts.uncount(self.kind, read);
        }
        self.add(bucket, read);
    }
}

impl Gathering<'_> {
    /// Adds an entry that was read, if it is live and belongs to the new block.
    #[inline(always)]
    fn add(&mut self, bucket: u32, read: Entry) {
        let (kind, from, to, is_other) = (self.kind, self.from, self.address, self.is_other);
        let Some((mut entry, is_copy)) = place(kind, read, from, to) else { return };
        // A remainder that gets bits back may have more than fit a word, so its weight is that of the entry that was read.
        let (bits, value) =
            if from.bits > to.bits { (from.bits, read.value) } else { (to.bits, entry.value) };
        if kind == EntryKind::Timed && !is_live(entry.number, self.now) {
            return self.change.remove_weight(bits, value);
        }
        self.is_settled &= entry.value > 1;
        if is_copy || remainder_bits(entry.value) > self.longest {
            self.change.remove_weight(bits, value);
            let bits = remainder_bits(entry.value).min(self.longest);
            entry.value = 1 << bits | entry.value & low_bits(bits);
            self.change.add_weight(to.bits, entry.value);
            self.is_settled = false;
        }
        self.gathered.push(Gathered { bucket: bucket as u8, entry, is_copy, is_other });
    }
}

/// Writes segments of a table.
pub(super) struct Rewriter {
    kind: EntryKind,
    schedule: Schedule,
    rule: Rule,
    /// Entries that have expired at this generation are left out.
    now: Generation,
    /// Whether blocks may be copied.
    copies_blocks: bool,
    sums: RewriteSums,
    /// The entries of the current block.
    gathered: Vec<Gathered>,
    /// The same entries, in the order of buckets.
    sorted: Vec<Gathered>,
    /// For each source, the entries for the current segment that were read first.
    spread: Vec<Spread>,
    /// The slots of the current segment.
    list: SlotList,
    /// The slots of the second half of its blocks, while they are read together with the first half.
    upper: SlotList,
}

/// What a [`Rewriter`] has read and written.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RewriteSums {
    /// The weight of the entries that were written, less that of those that were read; and less the void entries and
    /// saturated buckets that were read.
    change: EntrySums,
    /// The void entries and saturated buckets that were written.
    pub(super) written: MatchAllCounts,
    /// Whether an entry that was written is not from the first source.
    pub(super) has_others: bool,
    /// How many live entries of several sources the new blocks have, before equal and covered ones are left out. Of
    /// copied blocks, each slot counts.
    pub(super) read_entries: u64,
}

impl RewriteSums {
    /// Returns the sums of the entries that were written, less the sums of those that were read.
    pub(super) fn change(&self) -> EntrySums {
        self.change.plus(EntrySums { weight: Weight::default(), match_all_counts: self.written })
    }
}

impl Rewriter {
    /// Returns a writer of segments of tables with this kind of entries and this schedule.
    pub(super) fn new(kind: EntryKind, schedule: Schedule, rule: Rule, now: Generation) -> Self {
        Self {
            kind,
            schedule,
            rule,
            now,
            copies_blocks: true,
            sums: RewriteSums::default(),
            gathered: Vec::new(),
            sorted: Vec::new(),
            spread: Vec::new(),
            list: SlotList::new(),
            upper: SlotList::new(),
        }
    }

    /// Returns a writer that copies no block, so that it counts each void entry that it writes.
    pub(super) fn decoding(self) -> Self {
        Self { copies_blocks: false, ..self }
    }

    /// Returns the sums over all that was read and written.
    pub(super) const fn sums(&self) -> &RewriteSums {
        &self.sums
    }

    /// Returns whether an entry that was written since the last call is not from the first source.
    pub(super) fn take_has_others(&mut self) -> bool {
        std::mem::take(&mut self.sums.has_others)
    }

    /// Collects the entries of a segment, and returns the number of slots that they take. O(slots that are read).
    ///
    /// # Errors
    /// [`RewriteError`].
    pub(super) fn collect(
        &mut self,
        target: Target,
        sources: &[EntrySource<'_>],
    ) -> Result<usize, RewriteError> {
        self.gather_all(target, sources)?;
        if self.is_overfull(target) { Err(RewriteError::TooFull) } else { Ok(self.list.len()) }
    }

    /// Does [`collect`](Self::collect), but makes buckets saturated until the entries fit, unless they are counted.
    pub(super) fn collect_saturating(
        &mut self,
        target: Target,
        sources: &[EntrySource<'_>],
    ) -> Result<usize, RewriteError> {
        let before = self.sums;
        self.gather_all(target, sources)?;
        if self.is_overfull(target) && self.list.has_copies() {
            self.sums = before;
            let copies_blocks = std::mem::take(&mut self.copies_blocks);
            self.gather_all(target, sources)?;
            self.copies_blocks = copies_blocks;
        }
        while self.is_overfull(target) {
            self.saturate_fullest_block(target.address_bits())?;
        }
        Ok(self.list.len())
    }

    /// Returns whether the collected entries take more slots than a segment has.
    fn is_overfull(&self, target: Target) -> bool {
        self.list.len() > SegmentShape::most_slots(target.blocks_log)
    }

    /// Does [`collect`](Self::collect), but the entries may take more slots than a segment has.
    pub(super) fn gather_all(
        &mut self,
        target: Target,
        sources: &[EntrySource<'_>],
    ) -> Result<usize, RewriteError> {
        self.list.clear();
        let base = self.base(target, sources);
        // Timed entries of older segments may have expired.
        let whole = base.filter(|(_, base)| self.kind != EntryKind::Timed || base.stamp == self.now);
        if let ([source], Some((_, segment)), None) = (sources, base, whole) {
            self.sift_blocks(target, *source, segment)?;
        } else if let ([source], None) = (sources, base)
            && let Some(parent) = source.parent_segment(target)
        {
            self.divide_blocks(target, *source, parent)?;
        } else {
            self.spread_all(target, sources)?;
            for block in 0..1usize << target.blocks_log {
                self.write_block(target.address_of(block), block, sources, whole)?;
            }
        }
        Ok(self.list.len())
    }

    /// Returns the index of the source from which blocks can be copied, and its segment.
    fn base<'s>(&self, target: Target, sources: &[EntrySource<'s>]) -> Option<(usize, &'s Segment)> {
        let width = self.schedule.slot_width(self.kind, target.address_bits());
        let same =
            |(index, source): (usize, &EntrySource<'s>)| Some((index, source.same_segment(target, width)?));
        let largest = sources.iter().enumerate().filter_map(same).max_by_key(|(_, segment)| segment.used());
        largest.filter(|_| self.copies_blocks)
    }

    /// Writes one block to the list.
    fn write_block(
        &mut self,
        address: Address,
        block: usize,
        sources: &[EntrySource<'_>],
        base: Option<(usize, &Segment)>,
    ) -> Result<(), RewriteError> {
        self.gathered.clear();
        let mut is_settled = true;
        for (index, source) in sources.iter().enumerate() {
            if base.is_none_or(|(base, _)| base != index) {
                is_settled &= self.gather(address, block, index, *source)?;
            }
        }
        if let Some((index, segment)) = base {
            if self.gathered.is_empty() {
                let slots = segment.length(block);
                self.sums.has_others |= index > 0 && slots > 0;
                self.sums.read_entries = self.sums.read_entries.saturating_add(slots.into());
                self.list.copy_block(slots);
                return Ok(());
            }
            let source = sources.get(index..).unwrap_or_default().first();
            is_settled &= source.map_or(Ok(true), |source| self.gather(address, block, index, *source))?;
        }
        self.sums.read_entries = self.sums.read_entries.saturating_add(self.gathered.len() as u64);
        if is_settled {
            self.push_all(address.bits)?;
        } else {
            self.settle(address.bits)?;
        }
        self.list.end_block();
        Ok(())
    }

    /// Writes the blocks of a segment of timed entries without those that have expired. This is the rule of
    /// [`write_block`](Self::write_block), in less time.
    fn sift_blocks(
        &mut self,
        target: Target,
        source: EntrySource<'_>,
        segment: &Segment,
    ) -> Result<(), RewriteError> {
        self.spread.iter_mut().for_each(|spread| spread.is_used = false);
        for block in 0..segment.blocks() {
            let before = self.sums;
            self.list.try_reserve(segment.length(block).into())?;
            if !self.sift(segment, block, target.address_bits()) {
                self.sums = before;
                self.list.clear_block();
                self.write_block(target.address_of(block), block, &[source], None)?;
            }
        }
        Ok(())
    }

    /// Writes the blocks of a segment whose only source has blocks with one address bit less. Each of those is read once
    /// for both blocks that it becomes. This is the rule of [`write_block`](Self::write_block), in less time if all entries
    /// of a block are settled.
    fn divide_blocks(
        &mut self,
        target: Target,
        source: EntrySource<'_>,
        parent: Placed<'_>,
    ) -> Result<(), RewriteError> {
        let Placed { segment, depth, .. } = parent;
        let lower_blocks = (1usize << target.blocks_log) / 2;
        self.list.try_reserve(segment.used())?;
        self.upper.clear();
        self.upper.try_reserve(segment.used())?;
        self.spread.iter_mut().for_each(|spread| spread.is_used = false);
        for block in 0..lower_blocks {
            let address = target.address_of(block);
            let from = (address.value >> depth) as usize & segment.block_mask();
            let (before, slots) = (self.sums, usize::from(segment.length(from)));
            // The blocks before may have taken more slots than they had.
            self.list.try_reserve(slots)?;
            self.upper.try_reserve(slots)?;
            if !self.divide(segment, from, address.bits) {
                self.sums = before;
                self.list.clear_block();
                self.upper.clear_block();
                if self.kind == EntryKind::Counted {
                    self.divide_counted(segment, from, address.bits)?;
                } else {
                    let upper = block.wrapping_add(lower_blocks);
                    self.write_block(address, block, &[source], None)?;
                    std::mem::swap(&mut self.list, &mut self.upper);
                    let written = self.write_block(target.address_of(upper), upper, &[source], None);
                    std::mem::swap(&mut self.list, &mut self.upper);
                    written?;
                    continue;
                }
            }
            self.list.end_block();
            self.upper.end_block();
        }
        Ok(self.list.append(&self.upper)?)
    }

    /// Writes the entries of a block to the list, and those whose remainder has a set lowest bit to the upper list. The new
    /// blocks have `bits` address bits, one more than the block. A plain void entry goes to both: it is the only one of its
    /// bucket. Returns false if an entry becomes void, or another one is void.
    #[inline(always)]
    fn divide(&mut self, segment: &Segment, block: usize, bits: u32) -> bool {
        let Self { kind, now, list, upper, sums: RewriteSums { change, written, .. }, .. } = self;
        let (entry_bits, entry_bits_max) = (kind.entry_bits(segment), self.schedule.remainder_bits(bits));
        let live_codes = if *kind == EntryKind::Timed { live_codes(segment.stamp, *now) } else { u64::MAX };
        let (mut is_settled, mut counts, mut is_upper) = (true, CountReader::default(), false);
        segment.visit_block(block, |bucket, slot| {
            let mut slot = slot;
            if *kind != EntryKind::Counted || counts.is_entry(slot) {
                let (entry, code) =
                    (slot & low_bits(entry_bits), slot >> 1 >> (entry_bits.wrapping_sub(1) & 63));
                if live_codes >> code & 1 == 0 {
                    is_settled &= entry > 1;
                    return change.remove_weight(bits.wrapping_sub(1), entry);
                }
                if entry <= 1 && *kind == EntryKind::Plain {
                    let void = Entry { value: entry, copies: 0, number: 1 };
                    change.match_all_counts.uncount(*kind, void);
                    for list in [&mut *list, upper] {
                        written.count(*kind, void);
                        list.push(bucket, entry);
                    }
                    return;
                }
                let value = entry >> 1;
                debug_assert!(remainder_bits(value) <= entry_bits_max, "a remainder that is cut fits");
                is_settled &= value > 1;
                is_upper = entry & 1 == 1;
                slot = code << 1 << (entry_bits_max & 63) | value;
            }
            if is_upper { upper.push(bucket, slot) } else { list.push(bucket, slot) }
        });
        is_settled
    }

    /// Does [`divide`](Self::divide) for counted entries, of which some are or become void. A void entry goes to both
    /// lists, with one copy more. No two entries become equal: those that become void have no copies.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    fn divide_counted(&mut self, segment: &Segment, block: usize, bits: u32) -> Result<(), OutOfMemory> {
        let Self { kind, list, upper, sums: RewriteSums { change, written, .. }, .. } = self;
        let entry_bits = self.schedule.remainder_bits(bits).wrapping_add(1);
        // A copy has more slots than a void entry whose number was 0.
        let slots = usize::from(segment.length(block)).saturating_mul(kind.slots_max());
        list.try_reserve(slots)?;
        upper.try_reserve(slots)?;
        visit_entries(*kind, segment, block, |bucket, entry| {
            let mut put = |list: &mut SlotList, entry: Entry| {
                written.count(*kind, entry);
                entry.write(*kind, entry_bits, |slot| list.push(bucket, slot));
            };
            if entry.value > 1 {
                let divided = Entry { value: entry.value >> 1, ..entry };
                return put(if entry.value & 1 == 1 { upper } else { list }, divided);
            }
            change.match_all_counts.uncount(*kind, entry);
            let copy = Entry { copies: entry.copies.wrapping_add(1), ..entry };
            put(list, copy);
            put(upper, copy);
        });
        Ok(())
    }

    /// Copies a block of timed entries without those that have expired. Several slots are compared at once. Returns false
    /// if an entry is void.
    #[inline(always)]
    fn sift(&mut self, segment: &Segment, block: usize, bits: u32) -> bool {
        let (width, entry_bits, stamp) = (segment.width(), self.kind.entry_bits(segment), segment.stamp);
        // The lowest bit of each slot in a word.
        let ones = (0..64 / width).fold(0, |ones, slot| ones | 1u64.wrapping_shl(slot.wrapping_mul(width)));
        // At the stamp, every code stands for a live generation. Later, the oldest codes have expired, one per generation.
        let live = CODES.saturating_sub(self.now.saturating_sub(stamp));
        let oldest = stamp.wrapping_add(2) % CODES;
        let (ages, live) = (ones.wrapping_mul(CODES.wrapping_sub(oldest)), ones.wrapping_mul(live));
        let (all, entries) = (ones.wrapping_mul(CODES - 1), ones.wrapping_mul(low_bits(entry_bits)));
        let mark = |values: u64| {
            // Four bits of each slot become its code less the oldest one. The bit above them becomes set if it is live.
            let ages = (values >> (entry_bits & 63) & all).wrapping_add(ages) & all;
            let is_live = ages.wrapping_add(live) >> CODES.ilog2();
            // The bit above each entry becomes set if it is not void.
            let is_long = (values & entries).wrapping_add(entries.wrapping_sub(ones)) >> (entry_bits & 63);
            !(is_live & is_long) & ones
        };
        let Self { list, sums: RewriteSums { change, .. }, .. } = self;
        let (mut is_settled, mut left_out) = (true, 0u16);
        let slots = segment.visit_marked(block, mark, |index, slot| {
            let entry = slot & low_bits(entry_bits);
            is_settled &= entry > 1;
            change.remove_weight(bits, entry);
            list.push(0, index.into());
            left_out = left_out.wrapping_add(1);
        });
        if is_settled {
            list.copy_block(slots.wrapping_sub(left_out));
        }
        is_settled
    }

    /// Returns the segment of the entries that were collected last, from the same sources, in a shape with enough slots.
    /// O(slots).
    ///
    /// # Errors
    /// [`RewriteError`]. There is no shape if counted entries take too many slots.
    pub(super) fn write(
        &self,
        target: Target,
        sources: &[EntrySource<'_>],
        shape: Option<SegmentShape>,
    ) -> Result<Segment, RewriteError> {
        let shape = shape.ok_or(RewriteError::TooFull)?;
        if self.list.len() == 0 {
            return Ok(Segment::blank(shape.blocks_log));
        }
        let base = self.base(target, sources).map(|(_, segment)| segment);
        Ok(self.list.write(shape, if self.kind == EntryKind::Timed { self.now } else { 0 }, base)?)
    }

    /// Reads the entries for a segment from the sources whose blocks have far fewer address bits. Each of their blocks
    /// would otherwise be read for many blocks of the segment.
    fn spread_all(&mut self, target: Target, sources: &[EntrySource<'_>]) -> Result<(), RewriteError> {
        let Self { kind, spread, sums, .. } = self;
        let segment_address = Address { value: target.number as u64, bits: target.depth };
        let bits = target.address_bits();
        spread.resize_with(sources.len().max(spread.len()), Spread::default);
        for (source, Spread { entries, is_used }) in sources.iter().zip(spread) {
            *is_used = source.address_bits(target).wrapping_add(SPREAD_BITS) <= bits;
            entries.clear();
            if !*is_used {
                continue;
            }
            source.blocks_at(segment_address, |segment, block, from| {
                let is_first_read = is_first_read(from, segment_address);
                entries.try_reserve(segment.length(block).into()).map_err(|_| OutOfMemory)?;
                visit_entries(*kind, segment, block, |bucket, entry| {
                    if entry.value <= 1 && is_first_read {
                        sums.change.match_all_counts.uncount(*kind, entry);
                    }
                    // The bits of the new address that the entry knows.
                    let known = remainder_bits(entry.value).min(bits.wrapping_sub(from.bits));
                    let value = from.value | (entry.value & low_bits(known)) << from.bits;
                    let known = from.bits.wrapping_add(known);
                    if (value ^ segment_address.value) & low_bits(known.min(target.depth)) == 0 {
                        let block = if known == bits { (value >> target.depth) as u8 } else { ALL_BLOCKS };
                        entries.push(SpreadEntry { block, bucket: bucket as u8, entry, from });
                    }
                });
                Ok(())
            })?;
            entries.sort_unstable_by_key(|one| one.block);
        }
        Ok(())
    }

    /// Gathers the entries that a source has for one block. Returns whether they are settled: all are of one block, in the
    /// order of buckets, and none is void, or covers or equals another.
    #[inline(always)]
    fn gather(
        &mut self,
        address: Address,
        block: usize,
        index: usize,
        source: EntrySource<'_>,
    ) -> Result<bool, RewriteError> {
        let Self { kind, rule, now, gathered, sorted, sums: RewriteSums { change, .. }, .. } = self;
        let (kind, longest, first) = (*kind, self.schedule.remainder_bits(address.bits), gathered.len());
        let (mut blocks, mut is_finer) = (0u32, false);
        let mut gathering = Gathering {
            kind,
            now: *now,
            longest,
            address,
            gathered,
            change,
            is_settled: true,
            from: address,
            is_first_read: false,
            is_other: index > 0,
        };
        if let Some(spread) = self.spread.get(index).filter(|spread| spread.is_used) {
            let entries = [spread.entries_of(block as u8), spread.entries_of(ALL_BLOCKS)];
            gathering
                .gathered
                .try_reserve(entries.iter().map(|entries| entries.len()).sum())
                .map_err(|_| OutOfMemory)?;
            for SpreadEntry { bucket, entry, from, .. } in entries.into_iter().flatten() {
                if (from.value ^ address.value) & low_bits(from.bits) == 0 {
                    gathering.from = *from;
                    gathering.add((*bucket).into(), *entry);
                }
            }
            return Ok(first == 0 && gathering.gathered.is_empty());
        }
        source.blocks_at(address, |segment, block, from| {
            blocks = blocks.wrapping_add(1);
            is_finer |= from.bits > address.bits;
            (gathering.from, gathering.is_first_read) = (from, is_first_read(from, address));
            gathering.gathered.try_reserve(segment.length(block).into()).map_err(|_| OutOfMemory)?;
            pass_entries(kind, segment, block, &mut gathering);
            Ok(())
        })?;
        let is_settled = gathering.is_settled && blocks <= 1 && first == 0;
        if is_finer && kind == EntryKind::Counted {
            let leave_out = |one: &Gathered| change.remove_weight(address.bits, one.entry.value);
            unite_copies(gathered, first, sorted, *rule, leave_out)?;
            return Ok(false);
        }
        Ok(is_settled || first == gathered.len())
    }

    /// Writes the gathered entries to the list. They must be settled.
    fn push_all(&mut self, bits: u32) -> Result<(), OutOfMemory> {
        let Self { kind, gathered, list, .. } = self;
        let entry_bits = self.schedule.remainder_bits(bits).wrapping_add(1);
        list.try_reserve(gathered.len().saturating_mul(kind.slots_max()))?;
        self.sums.has_others |= gathered.first().is_some_and(|first| first.is_other);
        for Gathered { bucket, entry, .. } in gathered {
            entry.write(*kind, entry_bits, |slot| list.push((*bucket).into(), slot));
        }
        Ok(())
    }

    /// Settles the gathered entries and writes them to the list.
    fn settle(&mut self, bits: u32) -> Result<(), RewriteError> {
        sort_by_bucket(&self.gathered, &mut self.sorted)?;
        let Self { kind, rule, sorted, sums, list, .. } = self;
        let RewriteSums { change, written, has_others, .. } = sums;
        let entry_bits = self.schedule.remainder_bits(bits).wrapping_add(1);
        list.try_reserve(sorted.len().saturating_mul(kind.slots_max()))?;
        let mut kept = Run::new();
        for run in sorted.chunk_by_mut(|one, other| one.bucket == other.bucket) {
            kept.clear();
            run.sort_unstable();
            let mut leave_out = |one: &Gathered| change.remove_weight(bits, one.entry.value);
            if let [one] = run {
                kept.push(*one);
            } else if *kind == EntryKind::Counted {
                united(run, &mut kept, *rule, &mut leave_out)?;
                let slots = kept.iter().map(|kept| kept.entry.slots(*kind)).sum::<usize>();
                if *rule == Rule::Sum && slots > RUN_MAX {
                    return Err(RewriteError::TooFull);
                }
            } else {
                uncovered(run, &mut kept, &mut leave_out);
                if kept.len() > RUN_MAX {
                    kept.iter().for_each(leave_out);
                    let number = run.iter().map(|one| one.entry.number).max().unwrap_or(0);
                    kept.truncate(1);
                    for one in &mut kept {
                        one.entry = Entry { value: 0, copies: 0, number };
                        one.is_other = true;
                    }
                    change.add_weight(bits, 0);
                }
            }
            for Gathered { bucket, entry, is_other, .. } in &kept {
                *has_others |= *is_other;
                written.count(*kind, *entry);
                entry.write(*kind, entry_bits, |slot| list.push((*bucket).into(), slot));
            }
        }
        Ok(())
    }

    /// Makes the buckets of the block with most slots saturated. This happens only if items are crafted.
    ///
    /// # Errors
    /// [`RewriteError::TooFull`] if entries are counted, because no bucket of theirs is saturated, and unless tables are
    /// united.
    #[cold]
    fn saturate_fullest_block(&mut self, bits: u32) -> Result<(), RewriteError> {
        let Self { kind, sums: RewriteSums { change, written, .. }, list, now, .. } = self;
        if *kind == EntryKind::Counted {
            return Err(RewriteError::TooFull);
        }
        let entry_bits = self.schedule.remainder_bits(bits).wrapping_add(1);
        let is_shorter = list.unite_fullest_block(|slots| {
            let mut saturated = Entry::default();
            for (_, slot) in slots {
                let entry = Entry::of_slot(*kind, entry_bits, *now, *slot);
                change.remove_weight(bits, entry.value);
                written.uncount(*kind, entry);
                saturated.number = saturated.number.max(entry.number);
            }
            change.add_weight(bits, 0);
            written.count(*kind, saturated);
            let mut slot = 0;
            saturated.write(*kind, entry_bits, |written| slot = written);
            slot
        });
        if is_shorter { Ok(()) } else { Err(RewriteError::TooFull) }
    }
}

/// Returns which codes of a segment with this stamp stand for generations that are live: a bit per code.
fn live_codes(stamp: Generation, now: Generation) -> u64 {
    let live = (0..CODES).filter(|code| is_live(generation_of(*code, stamp), now));
    live.fold(0, |codes, code| codes | 1 << code)
}

/// Returns whether no other new block reads the block with the address `from` before the one at `to`.
#[inline(always)]
fn is_first_read(from: Address, to: Address) -> bool {
    from.bits >= to.bits || to.value >> from.bits == 0
}

/// Returns an entry as a block of the new segment has it, and whether it is one of several copies that become one.
/// Returns `None` if the entry matches no item of that block.
#[inline(always)]
fn place(kind: EntryKind, entry: Entry, from: Address, to: Address) -> Option<(Entry, bool)> {
    let bits = remainder_bits(entry.value);
    if from.bits <= to.bits {
        let further = to.bits.wrapping_sub(from.bits);
        let known = bits.min(further);
        if (entry.value ^ to.value >> from.bits) & low_bits(known) != 0 {
            return None;
        }
        let (value, unknown) = (entry.value >> known, further.wrapping_sub(known));
        let is_void = kind == EntryKind::Counted && value == 1;
        let copies = if is_void { entry.copies.wrapping_add(unknown) } else { 0 };
        return Some((Entry { value, copies, ..entry }, false));
    }
    let (back, low) = (from.bits.wrapping_sub(to.bits), from.value >> to.bits);
    // The remainder gets back the bits that no split has copied. A saturated bucket becomes an entry that matches the
    // items of its half only.
    let uncopied = back.saturating_sub(entry.copies);
    let bits = bits.wrapping_add(uncopied).min(63);
    let value =
        1u64.wrapping_shl(bits) | (entry.value << uncopied | low & low_bits(uncopied)) & low_bits(bits);
    let copies = entry.copies.saturating_sub(back);
    Some((Entry { value, copies, ..entry }, uncopied < back))
}

/// Unites the entries from index `first` on that are equal. They are counted, and were read from segments with longer
/// addresses than the new one. Calls `leave_out` with the others.
///
/// A split has copied a void entry into both halves, with its count. A removal takes from the copy of its item only.
/// Let `c` be the count at the split, and `c0` and `c1` the counts of the copies: `c - c0` items of one half and
/// `c - c1` of the other were removed. So at most the smaller of `c0` and `c1` are left, and none if a copy is missing.
fn unite_copies(
    gathered: &mut Vec<Gathered>,
    first: usize,
    united: &mut Vec<Gathered>,
    rule: Rule,
    mut leave_out: impl FnMut(&Gathered),
) -> Result<(), OutOfMemory> {
    let read = gathered.get_mut(first..).unwrap_or_default();
    read.sort_unstable();
    united.clear();
    united.try_reserve(read.len()).map_err(|_| OutOfMemory)?;
    for equal in read.chunk_by(Gathered::is_same) {
        let Some((one, others)) = equal.split_first() else { continue };
        let counts = equal.iter().map(|one| one.entry.number);
        let number = match rule {
            _ if !one.is_copy => Some(counts.fold(0, u64::saturating_add).min(COUNT_MAX)),
            // Segments of a dump may have been read at different times, and copies may come later.
            Rule::Larger => counts.max(),
            Rule::Keep | Rule::Sum => counts.min().filter(|_| !others.is_empty()),
        };
        others.iter().for_each(&mut leave_out);
        match number {
            Some(number) => united.push(Gathered { entry: Entry { number, ..one.entry }, ..*one }),
            None => leave_out(one),
        }
    }
    gathered.truncate(first);
    gathered.extend_from_slice(united);
    Ok(())
}

/// Sorts entries by their buckets into another list. O(entries).
fn sort_by_bucket(gathered: &[Gathered], sorted: &mut Vec<Gathered>) -> Result<(), OutOfMemory> {
    // The number of entries of lower buckets, and then the index after the entries that were placed.
    let mut ends = [0usize; BUCKETS as usize];
    for next in gathered {
        let later = ends.get_mut(usize::from(next.bucket).wrapping_add(1)..).unwrap_or_default();
        later.first_mut().into_iter().for_each(|end| *end = end.wrapping_add(1));
    }
    ends.iter_mut().fold(0, |sum, end| {
        *end = end.wrapping_add(sum);
        *end
    });
    sorted.clear();
    sorted.try_reserve(gathered.len()).map_err(|_| OutOfMemory)?;
    sorted.extend_from_slice(gathered);
    for next in gathered {
        let Some(end) = ends.get_mut(usize::from(next.bucket)) else { continue };
        if let Some(place) = sorted.get_mut(*end) {
            *place = *next;
        }
        *end = end.wrapping_add(1);
    }
    Ok(())
}

/// The entries of one bucket.
type Run = SmallVec<[Gathered; RUN_MAX + 1]>;

/// Appends the entries of a sorted run that no other covers to `kept`, but at most one more than [`RUN_MAX`]. Calls
/// `leave_out` with all others.
fn uncovered(run: &[Gathered], kept: &mut Run, mut leave_out: impl FnMut(&Gathered)) {
    for next in run {
        // Shorter entries come first, and of equal ones the newest comes last.
        if kept.len() <= RUN_MAX && !kept.iter().any(|kept| kept.entry.covers(next.entry)) {
            match kept.last_mut().filter(|last| last.entry.value == next.entry.value) {
                Some(older) => leave_out(&std::mem::replace(older, *next)),
                None => kept.push(*next),
            }
        } else {
            leave_out(next);
        }
    }
}

/// Appends the entries of a sorted run to `kept`. Equal ones become one. Calls `leave_out` with all others.
///
/// # Errors
/// [`RewriteError::TooFull`] if a sum of counts is too large.
fn united(
    run: &[Gathered],
    kept: &mut Run,
    rule: Rule,
    mut leave_out: impl FnMut(&Gathered),
) -> Result<(), RewriteError> {
    for next in run {
        let Some(last) = kept.last_mut().filter(|last| last.is_same(next)) else {
            kept.push(*next);
            continue;
        };
        let (one, other) = (last.entry.number, next.entry.number);
        last.entry.number = match rule {
            Rule::Larger => one.max(other),
            Rule::Keep | Rule::Sum => one.saturating_add(other),
        };
        if last.entry.number > COUNT_MAX {
            return Err(RewriteError::TooFull);
        }
        last.is_other |= next.is_other && last.entry.number > one;
        leave_out(next);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    //! Every rewrite and every edit of every small segment, compared with a list of what its entries match.

    use std::collections::BTreeMap;

    use super::*;
    use crate::bloom::hash::ItemHash;
    use crate::bloom::outcome::Added;
    use crate::bloom::prefetch::NoPrefetch;
    use crate::bloom::table::directory::Directory;
    use crate::bloom::table::state::Table;
    use crate::bloom::table::totals::{TableCounts, Tally};

    const SCHEDULE: Schedule = Schedule::FromOneBlock { base: 12, longer_from: 0 };
    const NOW: Generation = 40;
    const KINDS: [EntryKind; 3] = [EntryKind::Plain, EntryKind::Counted, EntryKind::Timed];
    /// The items of a bucket that are distinguished: those with different lowest bits of the hash.
    const KEYS: u64 = 16;

    /// An entry with its block and its bucket.
    type PlacedEntry = (usize, u8, Entry);

    /// Returns the entries that are combined: saturated, void, and with remainders of one and two bits.
    fn choices(kind: EntryKind, blocks: usize, buckets: u8) -> Vec<PlacedEntry> {
        let numbers: &[u64] = match kind {
            EntryKind::Plain => &[1],
            EntryKind::Counted => &[1, 2],
            // One has expired.
            EntryKind::Timed => &[NOW - 15, NOW - 3],
        };
        let mut choices = Vec::new();
        for (block, bucket) in (0..blocks).flat_map(|block| (0..buckets).map(move |bucket| (block, bucket))) {
            for (value, copies) in (0..8).map(|value| (value, 0)).chain([(1, 1)]) {
                let is_possible = if kind == EntryKind::Counted { value > 0 } else { copies == 0 };
                let entry = |number: &u64| (block, bucket, Entry { value, copies, number: *number });
                choices.extend(numbers.iter().filter(|_| is_possible).map(entry));
            }
        }
        choices
    }

    /// Calls `check` with all sets of up to `most` entries that a segment can have. Returns their number.
    fn for_each_set(
        kind: EntryKind,
        choices: &[PlacedEntry],
        most: usize,
        set: &mut Vec<PlacedEntry>,
        check: &mut impl FnMut(&[PlacedEntry]),
    ) -> u64 {
        check(set);
        let mut count = 1;
        let choices = if set.len() < most { choices } else { &[] };
        for (index, choice) in choices.iter().enumerate() {
            let is_refused = |other: &PlacedEntry| {
                let is_same = (choice.0, choice.1) == (other.0, other.1);
                let is_alone = kind == EntryKind::Plain && (choice.2.value <= 1 || other.2.value <= 1);
                is_same && (is_alone || choice.2.value == other.2.value && choice.2.copies == other.2.copies)
            };
            if !set.iter().any(is_refused) {
                set.push(*choice);
                count += for_each_set(kind, &choices[index + 1..], most, set, check);
                set.pop();
            }
        }
        count
    }

    fn sets(kind: EntryKind, choices: &[PlacedEntry], most: usize) -> Vec<Vec<PlacedEntry>> {
        let mut sets = Vec::new();
        for_each_set(kind, choices, most, &mut Vec::new(), &mut |set| sets.push(set.to_vec()));
        sets
    }

    fn segment_of(kind: EntryKind, blocks_log: u32, entries: &[PlacedEntry]) -> Segment {
        stamped(kind, blocks_log, entries, if kind == EntryKind::Timed { NOW - 2 } else { 0 })
    }

    fn stamped(kind: EntryKind, blocks_log: u32, entries: &[PlacedEntry], stamp: Generation) -> Segment {
        let (mut list, width) = (SlotList::new(), SCHEDULE.slot_width(kind, blocks_log));
        let mut sorted = entries.to_vec();
        sorted.sort_by_key(|(block, bucket, _)| (*block, *bucket));
        for block in 0..1 << blocks_log {
            for (_, bucket, entry) in sorted.iter().filter(|one| one.0 == block) {
                let entry_bits = width - kind.generation_bits();
                list.try_reserve(kind.slots_max()).unwrap();
                entry.write(kind, entry_bits, |slot| list.push((*bucket).into(), slot));
            }
            list.end_block();
        }
        let shape = SegmentShape::for_slots(blocks_log, width, list.len()).unwrap();
        list.write(shape, stamp, None).unwrap()
    }

    fn entries_of(kind: EntryKind, segment: &Segment) -> Vec<PlacedEntry> {
        let mut entries = Vec::new();
        for block in 0..segment.blocks() {
            visit_entries(kind, segment, block, |bucket, entry| entries.push((block, bucket as u8, entry)));
        }
        entries.sort_unstable();
        entries
    }

    /// Rewrites one-segment tables to a table of one segment. The sources are read as tables and as segments, which must
    /// give entries that match the same items, and the right sums.
    fn rewritten(kind: EntryKind, rule: Rule, sources: &[&Segment], blocks_log: u32) -> Vec<PlacedEntry> {
        let target = Target { number: 0, depth: 0, blocks_log };
        let directories = sources.iter().map(|segment| Directory::One(segment.try_clone().unwrap()));
        let directories: Vec<_> = directories.collect();
        let placed = sources.iter().map(|segment| [Placed { segment, number: 0, depth: 0 }]);
        let placed: Vec<_> = placed.collect();
        let tables: Vec<_> = directories.iter().map(EntrySource::Table).collect();
        let segments: Vec<_> = placed.iter().map(|placed| EntrySource::of_segments(placed)).collect();
        let [of_tables, of_segments] = [tables, segments].map(|sources| {
            let mut rewriter =
                Rewriter::new(kind, SCHEDULE, rule, if kind == EntryKind::Timed { NOW } else { 0 });
            let used = rewriter.collect(target, &sources).unwrap();
            let shape = SegmentShape::for_slots(blocks_log, SCHEDULE.slot_width(kind, blocks_log), used);
            let segment = rewriter.write(target, &sources, shape).unwrap();
            let before = sources_sums(kind, &directories);
            let after = EntrySums::of_segment(kind, blocks_log, &segment);
            assert_eq!(before.plus(rewriter.sums().change()), after, "{kind:?}, {rule:?}");
            entries_of(kind, &segment)
        });
        if kind == EntryKind::Counted {
            assert_eq!(of_tables, of_segments, "{rule:?}");
        } else {
            // A block that is copied keeps entries that a shorter one covers.
            let matched = [&of_tables, &of_segments].map(|entries| matched(kind, blocks_log, entries));
            assert_eq!(matched[0], matched[1], "{kind:?}, {rule:?}");
        }
        of_tables
    }

    fn sources_sums(kind: EntryKind, directories: &[Directory]) -> EntrySums {
        let sums = directories.iter().map(|directory| directory.get(0));
        sums.map(|segment| EntrySums::of_segment(kind, segment.blocks_log(), segment))
            .fold(EntrySums::default(), EntrySums::plus)
    }

    /// Returns the newest live number of the entries of each bucket that match each key, in blocks of 2^`blocks_log`.
    fn matched(kind: EntryKind, blocks_log: u32, entries: &[PlacedEntry]) -> BTreeMap<(u8, u64), u64> {
        let mut matched = BTreeMap::new();
        for (block, bucket, entry) in entries {
            let is_live = kind != EntryKind::Timed || is_live(entry.number, NOW);
            for key in (0..KEYS).filter(|key| is_live && *key & low_bits(blocks_log) == *block as u64) {
                if (key >> blocks_log ^ entry.value) & low_bits(remainder_bits(entry.value)) == 0 {
                    let number = matched.entry((*bucket, key)).or_insert(0);
                    *number = entry.number.max(*number);
                }
            }
        }
        matched
    }

    /// Returns what counted entries are in the halves of their bucket: each void entry is copied to both.
    fn halved(entries: &[PlacedEntry]) -> Vec<PlacedEntry> {
        let mut halved = Vec::new();
        for (_, bucket, entry) in entries {
            for block in 0..2u64 {
                if entry.value == 1 {
                    halved.push((block as usize, *bucket, Entry { copies: entry.copies + 1, ..*entry }));
                } else if entry.value & 1 == block {
                    halved.push((block as usize, *bucket, Entry { value: entry.value >> 1, ..*entry }));
                }
            }
        }
        halved.sort_unstable();
        halved
    }

    /// Returns what counted entries of two halves are in one bucket. Of the copies of a void entry the smaller count is
    /// left, and nothing if one is missing.
    fn joined(entries: &[PlacedEntry]) -> Vec<PlacedEntry> {
        let mut joined = Vec::new();
        for (block, bucket, entry) in entries {
            if entry.copies == 0 {
                let bits = remainder_bits(entry.value);
                let value = 2 << bits | (entry.value & low_bits(bits)) << 1 | *block as u64;
                joined.push((0, *bucket, Entry { value, ..*entry }));
            } else if *block == 0 {
                let is_copy = |other: &&PlacedEntry| {
                    (other.0, other.1, other.2.copies) == (1, *bucket, entry.copies) && other.2.value == 1
                };
                let other = entries.iter().find(is_copy).map(|other| other.2.number);
                let number = other.map(|other| other.min(entry.number));
                joined.extend(
                    number.map(|number| (0, *bucket, Entry { value: 1, copies: entry.copies - 1, number })),
                );
            }
        }
        joined.sort_unstable();
        joined
    }

    /// Returns counted entries of several tables, of which equal ones are counted together.
    fn summed(entries: &[PlacedEntry]) -> Vec<PlacedEntry> {
        let mut sums = BTreeMap::new();
        for (block, bucket, entry) in entries {
            *sums.entry((*block, *bucket, entry.value, entry.copies)).or_insert(0) += entry.number;
        }
        let entry =
            |((block, bucket, value, copies), number)| (block, bucket, Entry { value, copies, number });
        sums.into_iter().map(entry).collect()
    }

    #[test]
    fn every_small_segment_is_split_and_compacted() {
        for kind in KINDS {
            let mut check = |set: &[PlacedEntry]| {
                let segment = segment_of(kind, 0, set);
                let split = rewritten(kind, Rule::Keep, &[&segment], 1);
                let compacted = rewritten(kind, Rule::Keep, &[&segment], 0);
                if kind == EntryKind::Counted {
                    assert_eq!(split, halved(set), "{set:?}");
                    let mut sorted = set.to_vec();
                    sorted.sort_unstable();
                    assert_eq!(compacted, sorted);
                    // A join makes the same entries again.
                    let again = rewritten(kind, Rule::Keep, &[&segment_of(kind, 1, &split)], 0);
                    assert_eq!(again, sorted, "{set:?}");
                } else {
                    let expected = matched(kind, 0, set);
                    assert_eq!(matched(kind, 1, &split), expected, "{kind:?}, {set:?}");
                    assert_eq!(matched(kind, 0, &compacted), expected, "{kind:?}, {set:?}");
                    let has_expired =
                        |one: &PlacedEntry| kind == EntryKind::Timed && !is_live(one.2.number, NOW);
                    assert!(!split.iter().chain(&compacted).any(has_expired), "{kind:?}, {set:?}");
                }
            };
            let count = for_each_set(kind, &choices(kind, 1, 3), 4, &mut Vec::new(), &mut check);
            assert!(count > 5_000, "{count}");
        }
    }

    /// The copies of counted void entries take more slots than the entries, and blocks without void entries follow.
    #[test]
    fn memory_is_reserved_for_blocks_after_void_entries() {
        let kind = EntryKind::Counted;
        let void = (0..10).map(|bucket| (0, bucket, Entry { value: 1, copies: 0, number: 1 }));
        let blocks = (1..4).flat_map(|block| (0..40).map(move |bucket| (block, bucket)));
        let longer = blocks.map(|(block, bucket)| (block, bucket, Entry { value: 4, copies: 0, number: 1 }));
        let set: Vec<_> = void.chain(longer).collect();
        let split = rewritten(kind, Rule::Keep, &[&segment_of(kind, 2, &set)], 3);
        assert_eq!(split.len(), 2 * 10 + 3 * 40);
    }

    fn table_of(kind: EntryKind, segment: Segment) -> Table {
        let mut table = Table::of_counts(kind, TableCounts::initial(SCHEDULE));
        let mut tally = Tally::default();
        tally.count(kind, &segment, NOW);
        let sums = EntrySums::of_segment(kind, segment.blocks_log(), &segment);
        let is_empty = segment.is_empty();
        table.directory =
            Directory::One(if is_empty { Segment::blank(segment.blocks_log()) } else { segment });
        table.add_sums(EntrySums { match_all_counts: MatchAllCounts::default(), ..sums });
        table.counts.advance(if kind == EntryKind::Timed { NOW } else { 0 });
        table.counts.recount(&tally);
        table
    }

    fn assert_sums(table: &Table) {
        let segment = table.directory.get(0);
        assert_eq!(table.sums(), EntrySums::of_segment(table.kind(), segment.blocks_log(), segment));
        assert_eq!(table.used_slots(), segment.counted_slots() as u64);
    }

    fn hash_of(bucket: u8, key: u64) -> ItemHash {
        ItemHash { h1: key, h2: u64::from(bucket) << 58 }
    }

    /// Returns the index of the longest entry that matches an item. Of void entries it is the one with fewest copies.
    fn longest(entries: &[PlacedEntry], bucket: u8, key: u64) -> Option<usize> {
        let matches = |(_, entry): &(usize, &PlacedEntry)| {
            let bits = remainder_bits(entry.2.value);
            entry.1 == bucket && (entry.2.value ^ key) & low_bits(bits) == 0
        };
        let matching = entries.iter().enumerate().filter(matches);
        let length =
            |(_, one): &(usize, &PlacedEntry)| (remainder_bits(one.2.value), std::cmp::Reverse(one.2.copies));
        matching.max_by_key(length).map(|(index, _)| index)
    }

    #[test]
    fn every_item_is_added_to_every_small_segment() {
        for kind in KINDS {
            for set in sets(kind, &choices(kind, 1, 2), 3) {
                let segment = segment_of(kind, 0, &set);
                for (bucket, key) in (0..2).flat_map(|bucket| (0..4).map(move |key| (bucket, key))) {
                    let mut table = table_of(kind, segment.try_clone().unwrap());
                    let (before, items) = (matched(kind, 0, &set), table.items(NOW));
                    let known = before.contains_key(&(bucket, key));
                    let added = table.add_at(hash_of(bucket, key), NOW);
                    assert_sums(&table);
                    let after = entries_of(kind, table.directory.get(0));
                    let mut expected = before;
                    match kind {
                        EntryKind::Plain => {
                            assert_eq!(added, if known { Added::Present } else { Added::New });
                            expected.insert((bucket, key), 1);
                            assert_eq!(matched(kind, 0, &after), expected, "{set:?}, {bucket}, {key}");
                        }
                        EntryKind::Timed => {
                            assert_eq!(added, if known { Added::Again } else { Added::New });
                            expected.insert((bucket, key), NOW);
                            assert_eq!(matched(kind, 0, &after), expected, "{set:?}, {bucket}, {key}");
                            // An entry of the item itself gets the new generation.
                            assert_eq!(table.add_at(hash_of(bucket, key), NOW + 1), Added::Again);
                            let again = entries_of(kind, table.directory.get(0));
                            assert!(again.len() <= after.len(), "{set:?}, {bucket}, {key}");
                        }
                        EntryKind::Counted => {
                            assert_eq!(added, if known { Added::Again } else { Added::New });
                            let mut expected = set.clone();
                            match longest(&set, bucket, key).filter(|index| set[*index].2.value > 1) {
                                Some(index) => expected[index].2.number += 1,
                                None => expected.push((
                                    0,
                                    bucket,
                                    Entry {
                                        value: 1 << SCHEDULE.remainder_bits(0) | key,
                                        copies: 0,
                                        number: 1,
                                    },
                                )),
                            }
                            expected.sort_unstable();
                            assert_eq!(after, expected, "{set:?}, {bucket}, {key}");
                            assert_eq!(table.items(0), items + 1);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn every_item_is_removed_from_every_small_segment() {
        let kind = EntryKind::Counted;
        for set in sets(kind, &choices(kind, 1, 2), 3) {
            for (bucket, key) in (0..2).flat_map(|bucket| (0..4).map(move |key| (bucket, key))) {
                let mut table = table_of(kind, segment_of(kind, 0, &set));
                let items = table.items(0);
                let mut replies = Vec::new();
                table.remove_each(&[hash_of(bucket, key)], NoPrefetch, |reply| {
                    replies.push(reply);
                    true
                });
                let mut expected = set.clone();
                let found = longest(&set, bucket, key);
                if let Some(index) = found {
                    expected[index].2.number -= 1;
                    // The last item takes all that is left with it.
                    expected.retain(|one| one.2.number > 0 && items > 1);
                }
                expected.sort_unstable();
                assert_eq!(replies, [Ok(found.is_some())], "{set:?}, {bucket}, {key}");
                assert_eq!(entries_of(kind, table.directory.get(0)), expected, "{set:?}, {bucket}, {key}");
                assert_eq!(table.items(0), items.saturating_sub(found.is_some().into()));
                assert_sums(&table);
            }
        }
    }

    /// Segments that are full, or whose runs are in few blocks, are compacted with every residue of the stamp.
    #[test]
    fn full_segments_are_compacted() {
        let (kind, mut state) = (EntryKind::Timed, 1u64);
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for (blocks_log, stamp, later) in [0, 1, 3, 6].into_iter().flat_map(|blocks_log| {
            let times = (100..116).flat_map(|stamp| [1, 2, 7, 14, 15, 16, 40].map(|later| (stamp, later)));
            times.map(move |(stamp, later)| (blocks_log, stamp, later))
        }) {
            let (now, blocks, target) =
                (stamp + later, 1u64 << blocks_log, Target { number: 0, depth: 0, blocks_log });
            let longest = 1 << SCHEDULE.remainder_bits(blocks_log);
            let clustered = if random(2) == 0 { blocks } else { blocks.div_ceil(4) };
            let mut entries = Vec::new();
            for _ in 0..SegmentShape::most_slots(blocks_log) {
                let number = stamp - 14 + random(16);
                let entry = Entry { value: longest + random(longest), copies: 0, number };
                entries.push((random(clustered) as usize, random(64) as u8, entry));
            }
            let segment = stamped(kind, blocks_log, &entries, stamp);
            let directory = Directory::One(segment.try_clone().unwrap());
            let source = [EntrySource::Table(&directory)];
            let mut rewriter = Rewriter::new(kind, SCHEDULE, Rule::Keep, now);
            let used = rewriter.collect(target, &source).unwrap();
            let shape = SegmentShape::for_slots(blocks_log, segment.width(), used);
            let compacted = rewriter.write(target, &source, shape).unwrap();
            let after = EntrySums::of_segment(kind, blocks_log, &compacted);
            assert_eq!(sources_sums(kind, &[directory]).plus(rewriter.sums().change()), after);
            let is_live = |one: &PlacedEntry| is_live(one.2.number, now);
            let expected: Vec<_> = entries_of(kind, &segment).into_iter().filter(is_live).collect();
            assert_eq!(entries_of(kind, &compacted), expected, "{blocks_log}, {stamp}, {later}");
            assert_eq!((used, compacted.counted_slots()), (expected.len(), expected.len()));
        }
    }

    #[test]
    fn every_two_small_segments_are_joined_and_united() {
        for kind in KINDS {
            for set in sets(kind, &choices(kind, 2, 1), 4) {
                let united = rewritten(kind, Rule::Keep, &[&segment_of(kind, 1, &set)], 0);
                if kind == EntryKind::Counted {
                    assert_eq!(united, joined(&set), "{set:?}");
                } else {
                    assert_eq!(matched(kind, 0, &united), matched(kind, 1, &set), "{kind:?}, {set:?}");
                }
            }
            // The second table has one block, or two.
            let one_block = sets(kind, &choices(kind, 1, 2), 2);
            for (blocks_log, others) in [(0, one_block.clone()), (1, sets(kind, &choices(kind, 2, 1), 2))] {
                for set in &one_block {
                    let segment = segment_of(kind, 0, set);
                    for other in &others {
                        let sources = [&segment, &segment_of(kind, blocks_log, other)];
                        let united = rewritten(kind, Rule::Sum, &sources, blocks_log);
                        if kind == EntryKind::Counted {
                            let set = if blocks_log == 0 { set.clone() } else { halved(set) };
                            assert_eq!(united, summed(&[set, other.clone()].concat()), "{other:?}");
                        } else {
                            let mut expected = matched(kind, 0, set);
                            for (key, number) in matched(kind, blocks_log, other) {
                                let known = expected.entry(key).or_insert(0);
                                *known = number.max(*known);
                            }
                            assert_eq!(
                                matched(kind, blocks_log, &united),
                                expected,
                                "{kind:?}, {set:?}, {other:?}"
                            );
                        }
                    }
                }
            }
        }
    }

    /// A bucket that adds fill is rewritten without memory of the heap.
    #[test]
    fn the_entries_of_a_bucket_are_not_on_the_heap() {
        assert!(Run::new().inline_size() > RUN_MAX);
    }
}
