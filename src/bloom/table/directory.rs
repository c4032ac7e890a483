//! The segments of a table, by number.

use super::segment::Segment;
use super::size::{BLOCKS_LOG_MAX, TableSize};
use super::totals::MatchAllCounts;
use crate::bloom::memory::{BlockMover, BlockVisitor, OutOfMemory};
use crate::bloom::work::{count_bytes, count_slots};

/// Logarithm of the most segments of a piece, which is a list of segments. A piece takes up to 16 KiB.
const PIECE_LOG: u32 = 9;
/// The most segments of a piece.
const PIECE_SEGMENTS: usize = 1 << PIECE_LOG;
/// The share of the segments below which only those with entries are stored, as a divisor. In pieces, a stored segment
/// then takes at most 512 bytes, a third of the smallest segment with entries.
const FEW_SHARE: usize = 16;
/// Up to this number of segments, each is inserted into a list of few; more are appended, and the list is sorted.
const INSERTED_MAX: usize = 8;

/// The segments of a table. Most tables have one segment, which is stored in place.
#[derive(Debug)]
pub(super) enum Directory {
    One(Segment),
    Many(Box<Pieces>),
}

/// Several segments in pieces, so that growing never moves more than one piece, with sums over all of them.
///
/// A table that is being loaded has segments without entries. While less than [`FEW_SHARE`] of its segments have
/// entries, only these are stored, in a sorted list. So the memory follows the bytes that were loaded, whatever size a
/// header names.
#[derive(Debug)]
pub(super) struct Pieces {
    /// Empty while few segments are stored.
    pieces: Vec<Vec<Segment>>,
    /// The segments with their numbers, while few are stored.
    few: Vec<(usize, Segment)>,
    /// The number of segments.
    segments: usize,
    /// What is found in place of a segment that is not stored.
    blank: Segment,
    /// Slots in use.
    used: u64,
    /// Bytes of the segments.
    segment_bytes: u64,
    /// Bytes of this struct and the pieces.
    own_bytes: u64,
    match_all_counts: MatchAllCounts,
}

impl Default for Directory {
    fn default() -> Self {
        Self::One(Segment::blank(0))
    }
}

impl Directory {
    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Many(many) => many.segments,
        }
    }

    /// Returns the number of segments, and the logarithm of the number of blocks of a segment.
    #[inline(always)]
    pub(super) fn size(&self) -> TableSize {
        match self {
            Self::One(segment) => TableSize { segments: 1, blocks_log: segment.blocks_log() },
            Self::Many(many) => TableSize { segments: many.segments, blocks_log: BLOCKS_LOG_MAX },
        }
    }

    /// Returns the segment with this number, which must be below [`len`](Self::len).
    #[inline(always)]
    pub(super) fn get(&self, number: usize) -> &Segment {
        debug_assert!(number < self.len(), "segment {number}");
        match self {
            Self::One(segment) => segment,
            Self::Many(many) => {
                let piece = many.pieces.get(number >> PIECE_LOG);
                piece
                    .and_then(|piece| piece.get(number % PIECE_SEGMENTS))
                    .unwrap_or_else(|| many.one_of_few(number))
            }
        }
    }

    /// Changes a segment with entries, whose allocation must stay. The number of its used slots may change.
    pub(super) fn edit(&mut self, number: usize, edit: impl FnOnce(&mut Segment)) {
        let (segment, all_used) = self.stored_mut(number);
        let before = segment.used() as u64;
        edit(segment);
        if let Some(all_used) = all_used {
            *all_used = all_used.wrapping_add(segment.used() as u64).wrapping_sub(before);
        }
    }

    /// Returns a segment with entries, and the number of used slots of all segments if it is stored. The caller changes
    /// both.
    #[inline(always)]
    #[expect(clippy::expect_used, reason = "every segment with entries or with memory for them is stored")]
    pub(super) fn stored_mut(&mut self, number: usize) -> (&mut Segment, Option<&mut u64>) {
        match self {
            Self::One(segment) => (segment, None),
            Self::Many(many) => {
                let place = place(&mut many.pieces, &mut many.few, number);
                (place.expect("a stored segment"), Some(&mut many.used))
            }
        }
    }

    /// Returns the stored segments in order, with their numbers. All others have no entries.
    pub(super) fn stored(&self) -> impl Iterator<Item = (usize, &Segment)> {
        let (one, many) = match self {
            Self::One(segment) => (Some((0, segment)), None),
            Self::Many(many) => (None, Some(many)),
        };
        let pieces = many.into_iter().flat_map(|many| many.pieces.iter().enumerate());
        let in_pieces = pieces.flat_map(|(number, piece)| ((number << PIECE_LOG)..).zip(piece));
        let few = many.into_iter().flat_map(|many| &many.few).map(|(number, segment)| (*number, segment));
        one.into_iter().chain(in_pieces).chain(few)
    }

    /// Returns the number of stored segments, including those without entries that are stored between others. O(1).
    pub(super) fn stored_len(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Many(many) => {
                many.segments.min(many.pieces.len() << PIECE_LOG).saturating_add(many.few.len())
            }
        }
    }

    /// Returns the number of the first segment from `from` on that has memory; `None` if there is none. O(log segments)
    /// and the stored segments that are passed.
    pub(super) fn next_stored(&self, from: usize) -> Option<usize> {
        match self {
            Self::One(segment) => (from == 0 && !segment.words().is_empty()).then_some(0),
            Self::Many(many) => many.next_stored(from),
        }
    }

    /// Returns the stored segments with their numbers, if only these are in a list; `None` if most segments are stored.
    pub(super) fn few(&self) -> Option<&[(usize, Segment)]> {
        match self {
            Self::Many(many) if many.pieces.is_empty() => Some(&many.few),
            _ => None,
        }
    }

    /// Returns the slots in use in all segments. O(1).
    #[inline(always)]
    pub(super) fn used(&self) -> u64 {
        match self {
            Self::One(segment) => segment.used() as u64,
            Self::Many(many) => many.used,
        }
    }

    /// Returns the bytes of all segments and pieces. O(1).
    #[inline(always)]
    pub(super) fn bytes(&self) -> u64 {
        let own_bytes = if let Self::Many(many) = self { many.own_bytes } else { 0 };
        self.segment_bytes().wrapping_add(own_bytes)
    }

    /// Returns the bytes of all segments. O(1).
    #[inline(always)]
    pub(super) fn segment_bytes(&self) -> u64 {
        match self {
            Self::One(segment) => segment.shape().bytes(),
            Self::Many(many) => many.segment_bytes,
        }
    }

    /// Returns the bytes of the directory of a table that has grown to this many segments.
    pub(super) fn bytes_of(segments: usize) -> u64 {
        if segments == 1 {
            return 0;
        }
        let last = match segments % PIECE_SEGMENTS {
            0 => 0,
            last => last.next_power_of_two() * size_of::<Segment>(),
        };
        let full = segments / PIECE_SEGMENTS * PIECE_SEGMENTS * size_of::<Segment>();
        Self::blank_bytes(segments) + (full + last) as u64
    }

    /// Returns the bytes of the directory of a table of this many segments that has no entries.
    pub(super) fn blank_bytes(segments: usize) -> u64 {
        if segments == 1 {
            return 0;
        }
        let pieces = segments.div_ceil(PIECE_SEGMENTS).next_power_of_two();
        (size_of::<Pieces>() + pieces * size_of::<Vec<Segment>>()) as u64
    }

    /// Returns the numbers of void entries and saturated buckets, which are stored only for several segments.
    pub(super) fn match_all_counts(&self) -> Option<MatchAllCounts> {
        if let Self::Many(many) = self { Some(many.match_all_counts) } else { None }
    }

    /// Adds a change to the numbers of void entries and saturated buckets.
    pub(super) fn add_match_all_counts(&mut self, change: MatchAllCounts) {
        if let Self::Many(many) = self {
            many.match_all_counts.add(change);
        }
    }

    /// Returns by at most how many bytes the directory grows to this many segments.
    pub(super) fn growth_bytes(&self, segments: usize) -> u64 {
        let before = if let Self::Many(many) = self { many.own_bytes } else { 0 };
        Self::bytes_of(segments).saturating_sub(before)
    }

    /// Stores the only segment of a table in a list, so that the table can have more. `match_all_counts` are those of this
    /// segment.
    ///
    /// # Errors
    /// [`OutOfMemory`]. Nothing has changed.
    pub(super) fn try_extend(
        &mut self,
        match_all_counts: impl FnOnce() -> MatchAllCounts,
    ) -> Result<(), OutOfMemory> {
        let Self::One(first) = self else { return Ok(()) };
        let (pieces, few, blank) = (Vec::new(), Vec::new(), Segment::blank(BLOCKS_LOG_MAX));
        let (used, segment_bytes) = (first.used() as u64, first.shape().bytes());
        let (own_bytes, match_all_counts) = (size_of::<Pieces>() as u64, match_all_counts());
        let mut many =
            Pieces { pieces, few, segments: 1, blank, used, segment_bytes, own_bytes, match_all_counts };
        if !first.words().is_empty() {
            many.try_reserve(0)?;
            many.place(0).into_iter().for_each(|place| *place = std::mem::take(first));
        }
        *self = Self::Many(Box::new(many));
        Ok(())
    }

    /// Allocates memory for the segment with this number, which may be one that the table does not have yet.
    ///
    /// # Errors
    /// [`OutOfMemory`]. No segment has changed.
    pub(super) fn try_reserve(&mut self, number: usize) -> Result<(), OutOfMemory> {
        if let Self::Many(many) = self { many.try_reserve(number) } else { Ok(()) }
    }

    /// Does [`try_reserve`](Self::try_reserve) for several segments. The numbers are distinct. In a list of few, O(stored
    /// segments) for up to [`INSERTED_MAX`] of them, and O(n log n) for any number.
    pub(super) fn try_reserve_all(
        &mut self,
        numbers: impl Iterator<Item = usize> + Clone,
    ) -> Result<(), OutOfMemory> {
        if let Self::Many(many) = self { many.try_reserve_all(numbers) } else { Ok(()) }
    }

    /// Sets the number of segments, after [`try_extend`](Self::try_extend). New ones have no entries, and removed ones
    /// must have none.
    pub(super) fn set_len(&mut self, segments: usize) {
        if let Self::Many(many) = self {
            many.segments = segments;
        }
    }

    /// Replaces a segment, for which memory must have been [reserved](Self::try_reserve). Returns the former one.
    pub(super) fn replace(&mut self, number: usize, segment: Segment) -> Segment {
        match self {
            Self::One(first) => std::mem::replace(first, segment),
            Self::Many(many) => {
                let (used, bytes) = (segment.used() as u64, segment.shape().bytes());
                let Some(place) = many.place(number) else {
                    debug_assert!(segment.is_empty(), "segment {number}");
                    return Segment::blank(BLOCKS_LOG_MAX);
                };
                let before = std::mem::replace(place, segment);
                many.used = many.used.wrapping_add(used).wrapping_sub(before.used() as u64);
                let others = many.segment_bytes.saturating_sub(before.shape().bytes());
                many.segment_bytes = others.saturating_add(bytes);
                before
            }
        }
    }

    /// Frees memory that the directory does not need, if it can. If one segment remains, it is stored in place again.
    pub(super) fn trim(&mut self) {
        let Self::Many(many) = self else { return };
        if many.segments == 1 {
            let first = many.place(0).map(std::mem::take);
            *self = Self::One(first.unwrap_or_else(|| Segment::blank(BLOCKS_LOG_MAX)));
            return;
        }
        let last = many.segments.wrapping_sub(1);
        let (piece, stored) = (last >> PIECE_LOG, (last % PIECE_SEGMENTS).wrapping_add(1));
        while many.pieces.len() > piece.wrapping_add(1) {
            many.change_capacity(many.pieces.len().wrapping_sub(1), |many| many.pieces.pop());
        }
        many.change_capacity(piece, |many| {
            shrink(&mut many.pieces);
            if let Some(piece) = many.pieces.get_mut(piece) {
                piece.truncate(stored);
                shrink(piece);
            }
        });
        many.few.retain(|(number, _)| *number <= last);
        // Without memory for pieces, the list stays.
        _ = many.store_in_pieces_if_many();
    }

    /// Visits the blocks of the allocator, except those of the segments.
    pub(super) fn visit_blocks(&self, visitor: &mut impl BlockVisitor) {
        if let Self::Many(many) = self {
            visitor.visit(std::slice::from_ref(&**many));
            visitor.visit(&many.pieces);
            visitor.visit(&many.few);
            many.pieces.iter().for_each(|piece| visitor.visit(piece));
        }
    }

    /// Moves the blocks of the allocator, except those of the segments.
    pub(super) fn move_blocks(&mut self, mover: &impl BlockMover) {
        if let Self::Many(many) = self {
            mover.move_box(many);
            mover.move_vec(&mut many.pieces);
            mover.move_vec(&mut many.few);
            many.pieces.iter_mut().for_each(|piece| mover.move_vec(piece));
        }
    }
}

impl Pieces {
    fn place(&mut self, number: usize) -> Option<&mut Segment> {
        place(&mut self.pieces, &mut self.few, number)
    }

    /// Returns a segment that is in no piece.
    #[cold]
    fn one_of_few(&self, number: usize) -> &Segment {
        let stored = self.index_in_few(number).ok().and_then(|index| self.few.get(index));
        stored.map_or(&self.blank, |(_, segment)| segment)
    }

    /// Returns the number of the first segment from `from` on that has memory.
    fn next_stored(&self, from: usize) -> Option<usize> {
        let has_memory = |segment: &Segment| {
            count_slots(|| 0);
            !segment.words().is_empty()
        };
        let mut pieces = self.pieces.iter().enumerate().skip(from >> PIECE_LOG);
        let in_pieces = pieces.find_map(|(piece, segments)| {
            let first = from.saturating_sub(piece << PIECE_LOG);
            let passed = segments.get(first..)?.iter().position(has_memory)?;
            Some((piece << PIECE_LOG).saturating_add(first).saturating_add(passed))
        });
        let first = self.few.partition_point(|(number, _)| *number < from);
        let mut few = self.few.iter().skip(first);
        in_pieces.or_else(|| few.find(|(_, segment)| has_memory(segment)).map(|(number, _)| *number))
    }

    fn index_in_few(&self, number: usize) -> Result<usize, usize> {
        index_in(&self.few, number)
    }

    /// Allocates memory for the segment with this number.
    fn try_reserve(&mut self, number: usize) -> Result<(), OutOfMemory> {
        self.try_reserve_all(std::iter::once(number))
    }

    /// Allocates memory for segments. A list of few is sorted once for all of them.
    fn try_reserve_all(
        &mut self,
        mut numbers: impl Iterator<Item = usize> + Clone,
    ) -> Result<(), OutOfMemory> {
        self.store_in_pieces_if_many()?;
        if !self.pieces.is_empty() || self.are_many() {
            return numbers.try_for_each(|number| self.try_reserve_in_piece(number));
        }
        self.change_capacity(0, |many| {
            let few = &mut many.few;
            let sorted = few.len();
            few.try_reserve(numbers.clone().count()).map_err(|_| OutOfMemory)?;
            for number in numbers {
                if index_in(few.get(..sorted).unwrap_or_default(), number).is_err() {
                    few.push((number, Segment::blank(BLOCKS_LOG_MAX)));
                }
            }
            if few.len().saturating_sub(sorted) > INSERTED_MAX {
                few.sort_unstable_by_key(|(number, _)| *number);
                return Ok(());
            }
            for end in sorted..few.len() {
                let with_next = few.get_mut(..=end).unwrap_or_default();
                let next = with_next.last().map_or(0, |(number, _)| *number);
                let at = with_next.partition_point(|(number, _)| *number < next);
                with_next.get_mut(at..).unwrap_or_default().rotate_right(1);
            }
            Ok(())
        })
    }

    fn try_reserve_in_piece(&mut self, number: usize) -> Result<(), OutOfMemory> {
        let piece = number >> PIECE_LOG;
        self.change_capacity(piece, |many| {
            extend_to(&mut many.pieces, piece, Vec::new)?;
            let blank = || Segment::blank(BLOCKS_LOG_MAX);
            let piece = many.pieces.get_mut(piece);
            piece.map_or(Ok(()), |piece| extend_to(piece, number % PIECE_SEGMENTS, blank))
        })
    }

    fn are_many(&self) -> bool {
        self.few.len() >= self.segments / FEW_SHARE
    }

    /// Stores the segments of the list in pieces, if they are no longer few.
    ///
    /// # Errors
    /// [`OutOfMemory`]. No segment has changed.
    fn store_in_pieces_if_many(&mut self) -> Result<(), OutOfMemory> {
        if self.few.is_empty() || !self.are_many() {
            return Ok(());
        }
        let (few, own_bytes) = (std::mem::take(&mut self.few), self.own_bytes);
        let reserved = few.iter().try_for_each(|(number, _)| self.try_reserve_in_piece(*number));
        if reserved.is_err() {
            (self.pieces, self.few, self.own_bytes) = (Vec::new(), few, own_bytes);
            return reserved;
        }
        self.own_bytes = self.own_bytes.saturating_sub(list_bytes(&few));
        for (number, segment) in few {
            if let Some(place) = self.place(number) {
                *place = segment;
            }
        }
        Ok(())
    }

    /// Changes the capacity of the lists or of one piece, and counts the bytes.
    fn change_capacity<R>(&mut self, piece: usize, change: impl FnOnce(&mut Self) -> R) -> R {
        let capacity_bytes = |many: &Self| {
            let piece = many.pieces.get(piece).map_or(0, list_bytes);
            list_bytes(&many.pieces).saturating_add(list_bytes(&many.few)).saturating_add(piece)
        };
        let before = capacity_bytes(self);
        let result = change(self);
        let after = capacity_bytes(self);
        count_bytes(after.saturating_sub(before));
        self.own_bytes = self.own_bytes.saturating_add(after).saturating_sub(before);
        result
    }
}

fn index_in(few: &[(usize, Segment)], number: usize) -> Result<usize, usize> {
    few.binary_search_by_key(&number, |(number, _)| *number)
}

/// Returns the place of a stored segment.
#[inline(always)]
fn place<'p>(
    pieces: &'p mut [Vec<Segment>],
    few: &'p mut [(usize, Segment)],
    number: usize,
) -> Option<&'p mut Segment> {
    if few.is_empty() {
        return pieces.get_mut(number >> PIECE_LOG)?.get_mut(number % PIECE_SEGMENTS);
    }
    let index = index_in(few, number).ok()?;
    let (_, segment) = few.get_mut(index)?;
    Some(segment)
}

fn list_bytes<T>(list: &Vec<T>) -> u64 {
    (list.capacity() * size_of::<T>()) as u64
}

/// Appends blank elements up to this index. The capacity becomes a power of two.
fn extend_to<T>(values: &mut Vec<T>, index: usize, blank: impl FnMut() -> T) -> Result<(), OutOfMemory> {
    let wanted = index.saturating_add(1);
    if wanted > values.capacity() {
        let further = wanted.next_power_of_two().saturating_sub(values.len());
        values.try_reserve_exact(further).map_err(|_| OutOfMemory)?;
    }
    if wanted > values.len() {
        values.resize_with(wanted, blank);
    }
    Ok(())
}

/// Makes the capacity the least power of two again, if there is memory. So it follows from the number of elements.
fn shrink<T>(values: &mut Vec<T>) {
    let (mut smaller, wanted) = (Vec::new(), values.len().next_power_of_two());
    if wanted < values.capacity() && smaller.try_reserve_exact(wanted).is_ok() {
        smaller.append(values);
        *values = smaller;
    }
}
