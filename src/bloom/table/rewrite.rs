//! Rewriting: the entries that belong to some addresses are read from segments of one or more tables, and written to a
//! new segment.
//!
//! A split, a join, a compaction, a merge and the load of a dumped segment are rewrites. They differ in the sources, in
//! the size of the result, and in how entries of several sources are united:
//!
//! * If the new blocks have longer addresses, an entry loses the lowest bits of its remainder, which have become
//!   address bits. An entry without enough bits is copied to each block that it matches.
//! * If they have shorter addresses, an entry gets the lost address bits back as the lowest bits of its remainder. The
//!   copies of a counted void entry become one again: see [`Rewriter::unite_copies`].
//! * A remainder that is too long for the new segment is cut.
//! * Entries that have expired are left out. So are plain and timed entries that a shorter one covers.
//!
//! The work is bounded by the blocks of the result: a block has at most [`SLOTS_MAX`](super::size::SLOTS_MAX) slots on
//! average, and is read once for each new block that it has entries for.

use smallvec::SmallVec;

use super::directory::Directory;
use super::entry::{COUNT_MAX, Entry, EntryKind, RUN_MAX, remainder_bits, visit_entries};
use super::schedule::Schedule;
use super::segment::{Segment, SlotList};
use super::size::{BUCKETS, SegmentShape, TableSize};
use super::totals::{EntrySums, Leftovers};
use crate::bloom::generation::{Generation, is_live};
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

/// A segment with entries, with its place in its table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placed<'s> {
    pub(super) segment: &'s Segment,
    pub(super) number: usize,
    /// How many low bits of the hash choose the segment.
    pub(super) depth: u32,
}

/// Where a rewrite reads entries.
#[derive(Clone, Copy, Debug)]
pub(super) enum Source<'s> {
    /// The segments of a table. The new segments have at least as long addresses as to choose one of them.
    Table(&'s Directory),
    /// Segments in the order of their first [positions](Placed::position). None has items of another.
    Segments(&'s [Placed<'s>]),
}

/// Some low bits of the hash.
#[derive(Clone, Copy, Debug)]
pub(super) struct Address {
    value: u64,
    bits: u32,
}

impl<'s> Placed<'s> {
    /// Returns the segments of a table that have entries, in the order of their positions. O(segments log segments).
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub(super) fn all(directory: &'s Directory) -> Result<Vec<Self>, OutOfMemory> {
        let (size, mut placed) = (directory.size(), Vec::new());
        for (number, segment) in directory.stored().filter(|(_, segment)| !segment.is_empty()) {
            placed.try_reserve(1).map_err(|_| OutOfMemory)?;
            placed.push(Self { segment, number, depth: size.depth_of(number) });
        }
        placed.sort_unstable_by_key(Self::position);
        Ok(placed)
    }

    /// Returns the first position of the segment: the number of a segment in reverse order of bits. The items of a
    /// segment have consecutive positions.
    pub(super) const fn position(&self) -> u64 {
        (self.number as u64).reverse_bits()
    }

    /// Calls `visit` with each block that has entries for an address, and with the address of that block.
    #[inline(always)]
    fn blocks_at(
        self,
        address: Address,
        visit: &mut impl FnMut(&Segment, usize, Address) -> Result<(), RewriteError>,
    ) -> Result<(), RewriteError> {
        let Self { segment, number, depth } = self;
        let bits = depth.wrapping_add(segment.blocks_log());
        if segment.is_empty() || (number as u64 ^ address.value) & low_bits(depth.min(address.bits)) != 0 {
            return Ok(());
        }
        // The bits of the block's address that the given address does not have.
        let low = (address.value | number as u64) & low_bits(bits);
        let known = address.bits.max(depth);
        for high in 0..1u64 << bits.saturating_sub(known) {
            let value = low | high << known;
            visit(segment, (value >> depth) as usize & segment.block_mask(), Address { value, bits })?;
        }
        Ok(())
    }
}

impl Source<'_> {
    /// Calls `visit` with each block that has entries for an address, and with the address of that block.
    #[inline(always)]
    fn blocks_at(
        self,
        address: Address,
        mut visit: impl FnMut(&Segment, usize, Address) -> Result<(), RewriteError>,
    ) -> Result<(), RewriteError> {
        match self {
            Source::Table(directory) => {
                let number = address.value as usize;
                let depth = directory.size().depth_of(number);
                let number = number & low_bits(depth) as usize;
                Placed { segment: directory.get(number), number, depth }.blocks_at(address, &mut visit)
            }
            Source::Segments(segments) => {
                let first = address.value.reverse_bits();
                let start = segments.partition_point(|placed| placed.position() < first);
                // A segment with fewer address bits begins before the position of the address.
                let before = start.checked_sub(1).and_then(|index| segments.get(index));
                let from = segments.get(start..).unwrap_or_default().iter();
                let last = first | u64::MAX.checked_shr(address.bits).unwrap_or(0);
                let here = from.take_while(|placed| placed.position() <= last);
                before.into_iter().chain(here).try_for_each(|placed| placed.blocks_at(address, &mut visit))
            }
        }
    }
}

/// A segment to write: its number, its depth, and the logarithm of its number of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) number: usize,
    pub(super) depth: u32,
    pub(super) blocks_log: u32,
}

impl Target {
    /// Returns segment `number` of a table of this size.
    pub(super) fn of(size: TableSize, number: usize) -> Self {
        Self { number, depth: size.depth_of(number), blocks_log: size.blocks_log }
    }

    /// Returns how many bits of the hash choose one of the blocks.
    pub(super) const fn address_bits(self) -> u32 {
        self.depth + self.blocks_log
    }
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

/// Writes segments of a table.
pub(super) struct Rewriter {
    kind: EntryKind,
    schedule: Schedule,
    rule: Rule,
    /// Entries that have expired at this generation are left out.
    now: Generation,
    /// The weight of the entries that were written, less that of those that were read; and less the void entries and
    /// saturated buckets that were read.
    change: EntrySums,
    /// The void entries and saturated buckets that were written.
    pub(super) written: Leftovers,
    /// Whether an entry that was written is not from the first source.
    pub(super) has_others: bool,
    /// How many live entries of the sources the new blocks have, before equal and covered ones are left out.
    pub(super) read_entries: u64,
    /// The entries of the current block.
    gathered: Vec<Gathered>,
    /// The same entries, in the order of buckets.
    sorted: Vec<Gathered>,
    /// The slots of the current segment.
    list: SlotList,
}

impl Rewriter {
    /// Returns a writer of segments of tables with this kind of entries and this schedule.
    pub(super) fn new(kind: EntryKind, schedule: Schedule, rule: Rule, now: Generation) -> Self {
        Self {
            kind,
            schedule,
            rule,
            now,
            change: EntrySums::default(),
            written: Leftovers::default(),
            has_others: false,
            read_entries: 0,
            gathered: Vec::new(),
            sorted: Vec::new(),
            list: SlotList::new(),
        }
    }

    /// Returns the sums of the entries that were written, less the sums of those that were read.
    pub(super) fn change(&self) -> EntrySums {
        self.change.plus(EntrySums { weight: 0, leftovers: self.written })
    }

    /// Collects the entries of a segment, and returns the number of slots that they take. O(slots that are read).
    ///
    /// # Errors
    /// [`RewriteError`].
    pub(super) fn collect(&mut self, target: Target, sources: &[Source<'_>]) -> Result<usize, RewriteError> {
        self.gather_all(target, sources)?;
        if self.is_overfull(target) { Err(RewriteError::TooFull) } else { Ok(self.list.len()) }
    }

    /// Does [`collect`](Self::collect), but makes buckets saturated until the entries fit, unless they are counted.
    pub(super) fn collect_saturating(
        &mut self,
        target: Target,
        sources: &[Source<'_>],
    ) -> Result<usize, RewriteError> {
        self.gather_all(target, sources)?;
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
    pub(super) fn gather_all(&mut self, target: Target, sources: &[Source<'_>]) -> Result<(), RewriteError> {
        let bits = target.address_bits();
        self.list.clear();
        for block in 0..1u64 << target.blocks_log {
            let value = target.number as u64 | block << target.depth;
            if self.gather(Address { value, bits }, sources)? {
                self.push_all(bits)?;
            } else {
                self.settle(bits)?;
            }
            self.list.end_block();
        }
        Ok(())
    }

    /// Returns the segment of the entries that were collected last, in a shape with enough slots. O(slots).
    ///
    /// # Errors
    /// [`RewriteError`]. There is no shape if counted entries take too many slots.
    pub(super) fn write(&self, shape: Option<SegmentShape>) -> Result<Segment, RewriteError> {
        let shape = shape.ok_or(RewriteError::TooFull)?;
        if self.list.len() == 0 {
            return Ok(Segment::blank(shape.blocks_log));
        }
        Ok(self.list.write(shape, if self.kind == EntryKind::Timed { self.now } else { 0 })?)
    }

    /// Gathers the entries of one block. Returns whether they are settled: in the order of buckets, and none is void,
    /// or covers or equals another.
    fn gather(&mut self, address: Address, sources: &[Source<'_>]) -> Result<bool, RewriteError> {
        let Self { kind, rule, now, gathered, sorted, change, .. } = self;
        let (kind, longest) = (*kind, self.schedule.remainder_bits(address.bits));
        let (mut blocks, mut is_settled) = (0u32, true);
        gathered.clear();
        for (index, source) in sources.iter().enumerate() {
            let (first, is_other, mut is_finer) = (gathered.len(), index > 0, false);
            source.blocks_at(address, |segment, block, from| {
                blocks = blocks.wrapping_add(1);
                is_finer |= from.bits > address.bits;
                // A block is read for each new block that has some of its entries.
                let is_first_read = from.bits >= address.bits || address.value >> from.bits == 0;
                gathered.try_reserve(segment.length(block).into()).map_err(|_| OutOfMemory)?;
                visit_entries(kind, segment, block, |bucket, read| {
                    if read.value <= 1 && is_first_read {
                        change.leftovers.uncount(kind, read);
                    }
                    let Some((mut entry, is_copy)) = place(kind, read, from, address) else { return };
                    if kind == EntryKind::Timed && !is_live(entry.number, *now) {
                        return change.remove_weight(address.bits, entry.value);
                    }
                    is_settled &= entry.value > 1;
                    if is_copy || remainder_bits(entry.value) > longest {
                        if from.bits > address.bits {
                            change.remove_weight(from.bits, read.value);
                        } else {
                            change.remove_weight(address.bits, entry.value);
                        }
                        let bits = remainder_bits(entry.value).min(longest);
                        entry.value = 1 << bits | entry.value & low_bits(bits);
                        change.add_weight(address.bits, entry.value);
                        is_settled = false;
                    }
                    gathered.push(Gathered { bucket: bucket as u8, entry, is_copy, is_other });
                });
                Ok(())
            })?;
            if is_finer && kind == EntryKind::Counted {
                let leave_out = |one: &Gathered| change.remove_weight(address.bits, one.entry.value);
                unite_copies(gathered, first, sorted, *rule, leave_out)?;
                is_settled = false;
            }
        }
        self.read_entries = self.read_entries.saturating_add(gathered.len() as u64);
        Ok(is_settled && blocks <= 1)
    }

    /// Writes the gathered entries to the list. They must be settled.
    fn push_all(&mut self, bits: u32) -> Result<(), OutOfMemory> {
        let Self { kind, gathered, list, .. } = self;
        let entry_bits = self.schedule.remainder_bits(bits).wrapping_add(1);
        list.try_reserve(gathered.len().saturating_mul(kind.slots_max()))?;
        self.has_others |= gathered.first().is_some_and(|first| first.is_other);
        for Gathered { bucket, entry, .. } in gathered {
            entry.write(*kind, entry_bits, |slot| list.push((*bucket).into(), slot));
        }
        Ok(())
    }

    /// Settles the gathered entries and writes them to the list.
    fn settle(&mut self, bits: u32) -> Result<(), RewriteError> {
        sort_by_bucket(&self.gathered, &mut self.sorted)?;
        let Self { kind, rule, sorted, change, written, has_others, list, .. } = self;
        let entry_bits = self.schedule.remainder_bits(bits).wrapping_add(1);
        list.try_reserve(sorted.len().saturating_mul(kind.slots_max()))?;
        for run in sorted.chunk_by_mut(|one, other| one.bucket == other.bucket) {
            run.sort_unstable();
            let mut leave_out = |one: &Gathered| change.remove_weight(bits, one.entry.value);
            let mut kept = Run::new();
            if *kind == EntryKind::Counted {
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
            for Gathered { bucket, entry, is_other, .. } in kept {
                *has_others |= is_other;
                written.count(*kind, entry);
                entry.write(*kind, entry_bits, |slot| list.push(bucket.into(), slot));
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
        let Self { kind, change, written, list, now, .. } = self;
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
