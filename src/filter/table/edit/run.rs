//! What an add does to the run of its item.

use crate::generation::Generation;
use crate::group::ItemSet;
use crate::hash::ItemHash;
use crate::outcome::{AddError, Added};
use crate::table::entry::{
    COUNT_MAX, CountedEntry, Entry, EntryKind, RUN_MAX, RunSlots, matches, remainder_bits,
};
use crate::table::segment::{BucketRun, Segment};
use crate::table::state::{BucketAddress, Table};

/// The most bits by which the remainder of an entry may be shorter than that of a new entry, if the entry counts further
/// items. So after four doublings of the table an item that is added again gets a new entry.
///
/// With l remainder bits, an entry matches other items of its bucket with a probability of 2^-l. A short entry would count
/// many of them, and its item would still be found after its deletion. With more new entries, items that are added often
/// take more memory. Decision 30 has the measurements.
pub(crate) const LOST_BITS_MAX: u32 = 4;

/// The number of slots of a bucket from which on any entry that is not void counts further items. Only items that are
/// added often, at many sizes of the table, fill a bucket so far. So their entries never make a bucket full.
const SHARED_SLOTS: usize = RUN_MAX / 2 + 1;

/// An item to add, and the rules for adding it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addition {
    /// The hash of the item.
    pub hash: ItemHash,
    /// The generation of the entry, if entries are timed. It is at most `now`, and live at `now`.
    pub generation: Generation,
    /// The current generation, if entries are timed.
    pub now: Generation,
    /// Whether an item that is present is left as it is, instead of being counted or getting a newer generation. Plain
    /// entries ignore it.
    pub only_absent: bool,
    /// The largest value that [`Table::distinct_items`] may reach. Plain entries ignore it.
    pub most_items: u64,
}

/// The outcomes of adding the items of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableAdds {
    /// Items that are [`Added::New`].
    pub new: ItemSet,
    /// Items that are [`Added::Again`].
    pub again: ItemSet,
    /// The index of the first item that was refused, and the reason. The items after it were not added.
    pub refused: Option<(u32, AddError)>,
}

/// What an add does to the run of its item.
pub(super) enum Edit {
    /// The item is present, and nothing changes.
    Nothing,
    /// The item gets a new entry.
    Insert,
    /// The slots of the run have changed. An entry has left this generation, if entries are timed.
    Replace(Generation),
}

/// The change that an add makes to the run of its item.
pub(super) struct PlannedEdit {
    pub(super) address: BucketAddress,
    pub(super) run: BucketRun,
    /// The slots of the run, after the change if the edit replaces them.
    pub(super) slots: RunSlots,
    /// The number of slots before.
    pub(super) before: usize,
    pub(super) edit: Edit,
    /// Whether the item is, or seems to be, present.
    pub(super) is_found: bool,
    /// How many more slots come into use.
    pub(super) more: usize,
    /// Whether room must be made first.
    pub(super) needs_room: bool,
}

impl PlannedEdit {
    /// Returns whether the bucket will be [full](RUN_MAX).
    #[inline(always)]
    pub(super) const fn fills_bucket(&self) -> bool {
        self.more > 0 && self.before + self.more >= RUN_MAX
    }

    #[inline(always)]
    pub(super) const fn added(&self) -> Added {
        if self.is_found { Added::Again } else { Added::New }
    }
}

/// Returns what the add of a plain entry does, and whether the item is present.
pub(super) fn plain_edit(slots: &RunSlots, address: &BucketAddress) -> (Edit, bool) {
    let is_found = slots.iter().any(|slot| matches(*slot, address.key));
    (if is_found { Edit::Nothing } else { Edit::Insert }, is_found)
}

/// Counts an item on the longest entry that matches, if that is long enough. Changes nothing if only an absent item is
/// added and one matches. Returns what the add does, and whether the item is present. A new entry has `entry_bits` bits.
#[inline(always)]
pub(super) fn counted_edit(
    slots: &mut RunSlots,
    address: &BucketAddress,
    entry_bits: u32,
    only_absent: bool,
) -> Result<(Edit, bool), AddError> {
    let longest = longest_match(slots, address);
    if only_absent && longest.is_some() {
        return Ok((Edit::Nothing, true));
    }
    // The fewest bits of a remainder with which an entry counts the item. A segment without memory has no entry.
    let least_bits =
        if slots.len() < SHARED_SLOTS { entry_bits.saturating_sub(1 + LOST_BITS_MAX) } else { 1 };
    match longest.filter(|longest| remainder_bits(longest.entry.value) >= least_bits) {
        None => Ok((Edit::Insert, longest.is_some())),
        Some(found) if found.entry.number >= COUNT_MAX => Err(AddError::TooOften),
        Some(found) => {
            found.set_count(found.entry.number + 1, slots);
            Ok((Edit::Replace(0), true))
        }
    }
}

/// Returns the longest entry that matches an item. Of several void entries it is the one with the fewest copies, which
/// knows most bits of the hash.
#[inline(always)]
pub(super) fn longest_match(slots: &[u64], address: &BucketAddress) -> Option<CountedEntry> {
    let matching = CountedEntry::all(slots).filter(|found| matches(found.entry.value, address.key));
    matching.max_by_key(|found| (found.entry.value, std::cmp::Reverse(found.entry.copies)))
}

/// Gives the entry of an item a new generation, if it has one. Returns what the add does, and whether the item is
/// present.
#[inline(always)]
pub(super) fn timed_edit(
    kind: EntryKind,
    slots: &mut RunSlots,
    address: &BucketAddress,
    segment: &Segment,
    addition: &Addition,
) -> (Edit, bool) {
    let entry_bits = kind.entry_bits(segment);
    let (mut is_found, mut own) = (false, None);
    for slot in slots {
        let entry = Entry::of_slot(kind, entry_bits, segment.stamp, *slot);
        if matches(entry.value, address.key) {
            is_found |= !kind.has_expired(entry.number, addition.now);
            if remainder_bits(entry.value) + 1 == entry_bits {
                own = Some((slot, entry));
            }
        }
    }
    let edit = match own {
        _ if is_found && addition.only_absent => Edit::Nothing,
        Some((_, entry)) if entry.number >= addition.generation => Edit::Nothing,
        // A compaction is due, which removes the entry.
        Some((_, entry))
            if kind.has_expired(entry.number, addition.now)
                && Table::is_stale(kind, segment, addition.now) =>
        {
            Edit::Insert
        }
        // The slot of an entry that has expired is used again.
        Some((slot, entry)) => {
            let newer = Entry { number: addition.generation, ..entry };
            newer.write(kind, entry_bits, |value| *slot = value);
            Edit::Replace(entry.number)
        }
        None => Edit::Insert,
    };
    (edit, is_found)
}

/// Returns a slot of an item's own entry with the generation of an add, and the generation before; `None` if the entry
/// is not the item's own, has expired, or keeps its generation.
#[inline(always)]
pub(super) fn refreshed(
    kind: EntryKind,
    slot: u64,
    segment: &Segment,
    addition: &Addition,
) -> Option<(u64, Generation)> {
    let entry_bits = kind.entry_bits(segment);
    let entry = Entry::of_slot(kind, entry_bits, segment.stamp, slot);
    let is_own = remainder_bits(entry.value) + 1 == entry_bits;
    let is_older = entry.number < addition.generation && !addition.only_absent;
    (is_own && is_older && !kind.has_expired(entry.number, addition.now)).then(|| {
        let mut newer = 0;
        let refreshed = Entry { number: addition.generation, ..entry };
        refreshed.write(kind, entry_bits, |value| newer = value);
        (newer, entry.number)
    })
}
