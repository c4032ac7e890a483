//! Entries on their way from the blocks of the sources to a block of the new segment.

use smallvec::SmallVec;

use crate::memory::OutOfMemory;
use crate::table::entry::{COUNT_MAX, Entry, EntryKind, RUN_MAX, matches, remainder_bits};
use crate::table::segment::RewriteError;
use crate::table::size::{BLOCKS_MAX, BUCKETS};
use crate::table::source::Address;
use crate::words::low_bits;

/// How equal counted entries are united.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// The entries are of one table, whose segments are split, joined or compacted.
    Keep,
    /// The sources are tables whose counts are added.
    Sum,
    /// The sources are a table, and segments of a dump that may have entries of this table. The larger count remains.
    Larger,
}

/// An entry for a block of the new segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Gathered {
    pub(super) bucket: u8,
    pub(super) entry: Entry,
    /// Whether the entry is one of the copies of a void entry, which become one again.
    pub(super) is_copy: bool,
    /// Whether the entry is not from the first source.
    pub(super) is_other: bool,
}

impl Gathered {
    /// Returns whether both entries are of the same bucket and match the same items.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let key = |one: &Self| (one.bucket, one.entry.value, one.entry.copies);
        key(self) == key(other)
    }
}

/// The entries that a source with fewer address bits has for a new segment, in the order of its blocks.
#[derive(Default)]
pub(super) struct Spread {
    pub(super) entries: Vec<SpreadEntry>,
    /// Whether this is the source, instead of the table or the segments themselves.
    pub(super) is_used: bool,
}

/// An entry of a [`Spread`].
#[derive(Clone, Copy)]
pub(super) struct SpreadEntry {
    /// The block of the new segment; [`ALL_BLOCKS`] if the entry is too short to choose one.
    pub(super) block: usize,
    pub(super) bucket: u8,
    pub(super) entry: Entry,
    /// The address of the block that it was read from.
    pub(super) from: Address,
}

/// The block of a [`SpreadEntry`] that has to be compared with the address of each block.
pub(super) const ALL_BLOCKS: usize = BLOCKS_MAX;

impl Spread {
    pub(super) fn entries_of(&self, block: usize) -> &[SpreadEntry] {
        let start = self.entries.partition_point(|one| one.block < block);
        let from = self.entries.split_at(start).1;
        from.split_at(from.partition_point(|one| one.block == block)).0
    }
}

/// Returns whether no other new block reads the block with the address `from` before the one at `to`.
#[inline(always)]
pub(super) fn is_first_read(from: Address, to: Address) -> bool {
    from.bits >= to.bits || to.value >> from.bits == 0
}

/// Returns an entry as a block of the new segment has it, and whether it is one of several copies that become one.
/// Returns `None` if the entry matches no item of that block.
#[inline(always)]
pub(super) fn place(kind: EntryKind, entry: Entry, from: Address, to: Address) -> Option<(Entry, bool)> {
    let bits = remainder_bits(entry.value);
    if from.bits <= to.bits {
        let further = to.bits - from.bits;
        let known = bits.min(further);
        if (entry.value ^ to.value >> from.bits) & low_bits(known) != 0 {
            return None;
        }
        let (value, unknown) = (entry.value >> known, further - known);
        let is_void = kind == EntryKind::Counted && value == 1;
        let copies = if is_void { entry.copies + unknown } else { 0 };
        return Some((Entry { value, copies, ..entry }, false));
    }
    let (back, low) = (from.bits - to.bits, from.value >> to.bits);
    // The remainder gets back the bits that no split has copied: none if all were. A saturated bucket becomes an entry that matches the
    // items of its half only.
    let uncopied = back.saturating_sub(entry.copies);
    let bits = (bits + uncopied).min(63);
    let value = 1 << bits | (entry.value << uncopied | low & low_bits(uncopied)) & low_bits(bits);
    let copies = entry.copies.saturating_sub(back);
    Some((Entry { value, copies, ..entry }, uncopied < back))
}

/// Unites the entries from index `first` on that are equal. They are counted, and were read from segments with longer
/// addresses than the new one. Calls `leave_out` with the others.
///
/// A split has copied a void entry into both halves, with its count. A removal takes from the copy of its item only.
/// Let `c` be the count at the split, and `c0` and `c1` the counts of the copies: `c - c0` items of one half and
/// `c - c1` of the other were removed. So at most the smaller of `c0` and `c1` are left, and none if a copy is missing.
pub(super) fn unite_copies(
    gathered: &mut Vec<Gathered>,
    first: usize,
    united: &mut Vec<Gathered>,
    rule: Rule,
    mut leave_out: impl FnMut(&Gathered),
) -> Result<(), OutOfMemory> {
    let read = gathered.split_at_mut(first).1;
    read.sort_unstable();
    united.clear();
    united.try_reserve(read.len()).map_err(|_| OutOfMemory)?;
    for equal in read.chunk_by(Gathered::is_same) {
        let Some((one, others)) = equal.split_first() else { continue };
        let counts = equal.iter().map(|one| one.entry.number);
        let number = match rule {
            // Crafted counts may have a larger sum.
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
pub(super) fn sort_by_bucket(gathered: &[Gathered], sorted: &mut Vec<Gathered>) -> Result<(), OutOfMemory> {
    // The number of entries of lower buckets, and then the index after the entries that were placed.
    let mut ends = [0usize; BUCKETS as usize];
    for next in gathered {
        // No bucket is after the last one.
        ends.get_mut(usize::from(next.bucket) + 1).into_iter().for_each(|end| *end += 1);
    }
    ends.iter_mut().fold(0, |sum, end| {
        *end += sum;
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
        *end += 1;
    }
    Ok(())
}

/// The most entries of a bucket that [`fold`] takes.
const FOLDED_MAX: usize = 2 * RUN_MAX;

/// The entries of one bucket.
pub(super) type Run = SmallVec<[Gathered; RUN_MAX + 1]>;

/// Appends the entries of a sorted run that no other covers to `kept`, but at most one more than [`RUN_MAX`]. Calls
/// `leave_out` with all others.
pub(super) fn uncovered(run: &[Gathered], kept: &mut Run, mut leave_out: impl FnMut(&Gathered)) {
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

/// Appends the entries of a sorted run to `kept`. Equal ones become one. Calls `leave_out` with all others. Fails if a sum of
/// counts is too large.
pub(super) fn united(
    run: &[Gathered],
    kept: &mut Run,
    rule: Rule,
    mut leave_out: impl FnMut(&Gathered),
) -> Result<(), RewriteError> {
    for next in run {
        let Some(last) = kept.last_mut().filter(|last| last.is_same(next)) else {
            // `fold` would refuse this many entries, and the list of them would grow without a check of the memory.
            if rule == Rule::Sum && kept.len() > FOLDED_MAX {
                return Err(RewriteError::TooFull);
            }
            kept.push(*next);
            continue;
        };
        let (one, other) = (last.entry.number, next.entry.number);
        last.entry.number = match rule {
            Rule::Larger => one.max(other),
            Rule::Keep | Rule::Sum => one + other,
        };
        if last.entry.number > COUNT_MAX {
            return Err(RewriteError::TooFull);
        }
        last.is_other |= next.is_other && last.entry.number > one;
        leave_out(next);
    }
    Ok(())
}

/// Makes the counted entries of a sorted run take at most [`RUN_MAX`] slots: counts the items of the longest entries on the
/// next shorter ones that match them. An item that is added often has entries of several lengths, which are others in each
/// source. Calls `leave_out` with the entries that no longer exist.
///
/// No void entry counts the items of others, because its copies in other buckets do not.
///
/// # Errors
/// [`RewriteError::TooFull`] if this is not enough, which happens only if items are crafted, or if a sum of counts is too
/// large.
pub(super) fn fold(run: &mut Run, mut leave_out: impl FnMut(&Gathered)) -> Result<(), RewriteError> {
    let slots = |run: &Run| run.iter().map(|one| one.entry.slots(EntryKind::Counted)).sum::<usize>();
    while slots(run) > RUN_MAX {
        if run.len() > FOLDED_MAX {
            return Err(RewriteError::TooFull);
        }
        // Shorter entries come first.
        let (shorter, index) = (0..run.len())
            .rev()
            .find_map(|index| {
                let (shorter, rest) = run.split_at(index);
                let value = rest.first()?.entry.value;
                let is_match = |one: &Gathered| one.entry.value > 1 && matches(one.entry.value, value);
                Some((shorter.iter().rposition(is_match)?, index))
            })
            .ok_or(RewriteError::TooFull)?;
        let longer = run.remove(index);
        leave_out(&longer);
        if let Some(one) = run.get_mut(shorter) {
            one.entry.number += longer.entry.number;
            one.is_other |= longer.is_other;
            if one.entry.number > COUNT_MAX {
                return Err(RewriteError::TooFull);
            }
        }
    }
    Ok(())
}
