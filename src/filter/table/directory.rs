//! The segments of a table, by number.

use super::segment::Segment;
use super::size::{BLOCKS_LOG_MAX, TableSize};
use super::totals::MatchAllCounts;
use crate::memory::{BlockMover, BlockVisitor, OutOfMemory};
use crate::work::count_bytes;

/// Logarithm of the most segments of a piece, which is a list of segments. A piece takes up to 16 KiB.
const PIECE_LOG: u32 = 9;
/// The most segments of a piece.
const PIECE_SEGMENTS: usize = 1 << PIECE_LOG;

/// The segments of a table. Most tables have one segment, which is stored in place.
#[derive(Debug)]
pub(super) enum Directory {
    One(Segment),
    Many(Box<Pieces>),
}

/// Several segments in pieces, so that growing never moves more than one piece, with sums over all of them.
///
/// All pieces but the last one have [`PIECE_SEGMENTS`] segments. While a change can be taken back, there may be more
/// segments than the table has.
#[derive(Debug)]
pub(super) struct Pieces {
    pieces: Vec<Vec<Segment>>,
    /// The number of segments.
    segments: usize,
    /// Slots in use.
    used: u64,
    /// Bytes of the segments.
    segment_bytes: u64,
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
    #[expect(clippy::indexing_slicing, reason = "every segment below the number of segments is stored")]
    pub(super) fn get(&self, number: usize) -> &Segment {
        match self {
            Self::One(segment) => segment,
            Self::Many(many) => &many.pieces[number >> PIECE_LOG][number % PIECE_SEGMENTS],
        }
    }

    /// Changes a segment, whose allocation must stay. The number of its used slots may change. Returns what `edit` returns.
    pub(super) fn edit<R>(&mut self, number: usize, edit: impl FnOnce(&mut Segment) -> R) -> R {
        let (segment, all_used) = self.get_mut(number);
        let before = segment.used() as u64;
        let result = edit(segment);
        if let Some(all_used) = all_used {
            *all_used = *all_used - before + segment.used() as u64;
        }
        result
    }

    /// Returns the segment with this number, and the number of used slots of all segments if it is stored. The caller
    /// changes both.
    #[inline(always)]
    #[expect(clippy::indexing_slicing, reason = "every segment below the number of segments is stored")]
    pub(super) fn get_mut(&mut self, number: usize) -> (&mut Segment, Option<&mut u64>) {
        match self {
            Self::One(segment) => (segment, None),
            Self::Many(many) => {
                (&mut many.pieces[number >> PIECE_LOG][number % PIECE_SEGMENTS], Some(&mut many.used))
            }
        }
    }

    /// Returns the segments in order, with their numbers.
    pub(super) fn segments(&self) -> impl Iterator<Item = (usize, &Segment)> {
        let (one, many) = match self {
            Self::One(segment) => (Some(segment), None),
            Self::Many(many) => (None, Some(many)),
        };
        let in_pieces = many.into_iter().flat_map(|many| many.pieces.iter().flatten().take(many.segments));
        one.into_iter().chain(in_pieces).enumerate()
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
        match self {
            Self::One(segment) => segment.shape().bytes(),
            Self::Many(many) => many.segment_bytes + Self::bytes_of(many.segments),
        }
    }

    /// Returns the bytes of the directory of a table of this many segments, without those of the segments.
    #[inline]
    pub(super) const fn bytes_of(segments: usize) -> u64 {
        if segments == 1 {
            return 0;
        }
        let pieces = segments.div_ceil(PIECE_SEGMENTS).next_power_of_two();
        let last = match segments % PIECE_SEGMENTS {
            0 => 0,
            last => last.next_power_of_two(),
        };
        let stored = segments / PIECE_SEGMENTS * PIECE_SEGMENTS + last;
        (size_of::<Pieces>() + pieces * size_of::<Vec<Segment>>() + stored * size_of::<Segment>()) as u64
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

    /// Allocates memory for this many segments. The number of segments stays. `match_all_counts` are those of the entries,
    /// which a table of one segment does not store.
    pub(super) fn try_reserve(
        &mut self,
        segments: usize,
        match_all_counts: MatchAllCounts,
    ) -> Result<(), OutOfMemory> {
        match self {
            Self::One(_) if segments <= 1 => Ok(()),
            Self::One(first) => {
                let (used, segment_bytes) = (first.used() as u64, first.shape().bytes());
                let mut many =
                    Pieces { pieces: Vec::new(), segments: 1, used, segment_bytes, match_all_counts };
                many.try_reserve(segments)?;
                if let Some(place) = many.pieces.first_mut().and_then(|piece| piece.first_mut()) {
                    *place = std::mem::take(first);
                }
                *self = Self::Many(Box::new(many));
                Ok(())
            }
            Self::Many(many) => many.try_reserve(segments),
        }
    }

    /// Sets the number of segments, for which memory must have been [reserved](Self::try_reserve). New ones have no
    /// entries, and removed ones must have none.
    pub(super) fn set_len(&mut self, segments: usize) {
        if let Self::Many(many) = self {
            many.segments = segments;
        }
    }

    /// Replaces a segment. Returns the former one.
    pub(super) fn replace(&mut self, number: usize, segment: Segment) -> Segment {
        let (used, bytes) = (segment.used() as u64, segment.shape().bytes());
        let (place, _) = self.get_mut(number);
        let before = std::mem::replace(place, segment);
        if let Self::Many(many) = self {
            many.used = many.used - before.used() as u64 + used;
            many.segment_bytes = many.segment_bytes - before.shape().bytes() + bytes;
        }
        before
    }

    /// Frees memory that the directory does not need, if it can. If one segment remains, it is stored in place again.
    pub(super) fn trim(&mut self) {
        let Self::Many(many) = self else { return };
        if many.segments == 1 {
            let (first, _) = self.get_mut(0);
            *self = Self::One(std::mem::take(first));
            return;
        }
        let pieces = many.segments.div_ceil(PIECE_SEGMENTS);
        let in_last = many.segments - (pieces - 1) * PIECE_SEGMENTS;
        many.pieces.truncate(pieces);
        shrink(&mut many.pieces);
        if let Some(last) = many.pieces.last_mut() {
            last.truncate(in_last);
            shrink(last);
        }
    }

    /// Visits the blocks of the allocator, except those of the segments.
    pub(super) fn visit_blocks(&self, visitor: &mut impl BlockVisitor) {
        if let Self::Many(many) = self {
            visitor.visit(std::slice::from_ref(&**many));
            visitor.visit(&many.pieces);
            many.pieces.iter().for_each(|piece| visitor.visit(piece));
        }
    }

    /// Moves the blocks of the allocator, except those of the segments.
    pub(super) fn move_blocks(&mut self, mover: &impl BlockMover) {
        if let Self::Many(many) = self {
            mover.move_box(many);
            mover.move_vec(&mut many.pieces);
            many.pieces.iter_mut().for_each(|piece| mover.move_vec(piece));
        }
    }
}

impl Pieces {
    /// Allocates memory for this many segments. New ones are blank.
    fn try_reserve(&mut self, segments: usize) -> Result<(), OutOfMemory> {
        let last = segments - 1;
        extend_to(&mut self.pieces, last >> PIECE_LOG, Vec::new)?;
        // There may be more pieces than are needed, which keep their segments.
        for (number, piece) in self.pieces.iter_mut().enumerate().take(segments.div_ceil(PIECE_SEGMENTS)) {
            let stored = (segments - (number << PIECE_LOG)).min(PIECE_SEGMENTS);
            if stored > piece.len() {
                extend_to(piece, stored - 1, || Segment::blank(BLOCKS_LOG_MAX))?;
            }
        }
        Ok(())
    }
}

/// Appends blank elements up to this index. The capacity becomes a power of two.
fn extend_to<T>(values: &mut Vec<T>, index: usize, blank: impl FnMut() -> T) -> Result<(), OutOfMemory> {
    let wanted = index + 1;
    if wanted > values.capacity() {
        let capacity = wanted.next_power_of_two();
        values.try_reserve_exact(capacity - values.len()).map_err(|_| OutOfMemory)?;
        count_bytes((capacity * size_of::<T>()) as u64);
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
