//! The segments of a table, by number.

use super::segment::Segment;
use super::size::{BLOCKS_LOG_MAX, TableSize};
use super::totals::Leftovers;
use crate::bloom::memory::{BlockMover, BlockVisitor, OutOfMemory};
use crate::bloom::work::count_bytes;

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
/// A table that is being loaded has segments without entries. A piece does not store those after its last other
/// segment. So a table of any size that has no entries yet takes some bytes per piece.
#[derive(Debug)]
pub(super) struct Pieces {
    pieces: Vec<Vec<Segment>>,
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
    leftovers: Leftovers,
}

impl Default for Directory {
    fn default() -> Self {
        Self::One(Segment::blank(0))
    }
}

impl Directory {
    /// Returns the number of segments.
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
                piece.and_then(|piece| piece.get(number % PIECE_SEGMENTS)).unwrap_or(&many.blank)
            }
        }
    }

    /// Changes a segment with entries, whose allocation must stay. The number of its used slots may change.
    #[inline(always)]
    pub(super) fn edit(&mut self, number: usize, edit: impl FnOnce(&mut Segment)) {
        match self {
            Self::One(segment) => edit(segment),
            Self::Many(many) => {
                let Some(segment) = many.place(number) else {
                    debug_assert!(false, "segment {number} is not stored");
                    return;
                };
                let before = segment.used() as u64;
                edit(segment);
                let used = segment.used() as u64;
                many.used = many.used.wrapping_add(used).wrapping_sub(before);
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
        one.into_iter().chain(pieces.flat_map(|(number, piece)| ((number << PIECE_LOG)..).zip(piece)))
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
            Self::Many(many) => many.segment_bytes.wrapping_add(many.own_bytes),
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
    pub(super) fn leftovers(&self) -> Option<Leftovers> {
        if let Self::Many(many) = self { Some(many.leftovers) } else { None }
    }

    /// Adds a change to the numbers of void entries and saturated buckets.
    pub(super) fn count_leftovers(&mut self, change: Leftovers) {
        if let Self::Many(many) = self {
            many.leftovers.add(change);
        }
    }

    /// Returns by at most how many bytes the directory grows to this many segments.
    pub(super) fn growth_bytes(&self, segments: usize) -> u64 {
        let before = if let Self::Many(many) = self { many.own_bytes } else { 0 };
        Self::bytes_of(segments).saturating_sub(before)
    }

    /// Stores the only segment of a table in a list, so that the table can have more. `leftovers` are those of this
    /// segment.
    ///
    /// # Errors
    /// [`OutOfMemory`]. Nothing has changed.
    pub(super) fn try_extend(&mut self, leftovers: impl FnOnce() -> Leftovers) -> Result<(), OutOfMemory> {
        let Self::One(first) = self else { return Ok(()) };
        let (pieces, blank) = (Vec::new(), Segment::blank(BLOCKS_LOG_MAX));
        let (used, segment_bytes) = (first.used() as u64, first.shape().bytes());
        let (own_bytes, leftovers) = (size_of::<Pieces>() as u64, leftovers());
        let mut many = Pieces { pieces, segments: 1, blank, used, segment_bytes, own_bytes, leftovers };
        many.try_reserve(0)?;
        many.place(0).into_iter().for_each(|place| *place = std::mem::take(first));
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
            many.change_capacity(many.pieces.len().wrapping_sub(1), Vec::pop);
        }
        many.change_capacity(piece, |pieces| {
            shrink(pieces);
            if let Some(piece) = pieces.get_mut(piece) {
                piece.truncate(stored);
                shrink(piece);
            }
        });
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
    /// Returns the place of a stored segment.
    #[inline(always)]
    fn place(&mut self, number: usize) -> Option<&mut Segment> {
        self.pieces.get_mut(number >> PIECE_LOG)?.get_mut(number % PIECE_SEGMENTS)
    }

    /// Allocates memory for the segment with this number.
    fn try_reserve(&mut self, number: usize) -> Result<(), OutOfMemory> {
        let piece = number >> PIECE_LOG;
        self.change_capacity(piece, |pieces| {
            extend_to(pieces, piece, Vec::new)?;
            let blank = || Segment::blank(BLOCKS_LOG_MAX);
            pieces.get_mut(piece).map_or(Ok(()), |piece| extend_to(piece, number % PIECE_SEGMENTS, blank))
        })
    }

    /// Changes the list of pieces or one of them, and counts the bytes.
    fn change_capacity<R>(&mut self, piece: usize, change: impl FnOnce(&mut Vec<Vec<Segment>>) -> R) -> R {
        let capacity_bytes = |pieces: &Vec<Vec<Segment>>| {
            let piece = pieces.get(piece).map_or(0, Vec::capacity);
            (pieces.capacity() * size_of::<Vec<Segment>>() + piece * size_of::<Segment>()) as u64
        };
        let before = capacity_bytes(&self.pieces);
        let result = change(&mut self.pieces);
        let after = capacity_bytes(&self.pieces);
        count_bytes(after.saturating_sub(before));
        self.own_bytes = self.own_bytes.saturating_add(after).saturating_sub(before);
        result
    }
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

/// Moves the elements to a smaller allocation, if they take less than a quarter of this one and there is memory.
fn shrink<T>(values: &mut Vec<T>) {
    let mut smaller = Vec::new();
    if values.len() < values.capacity() / 4 && smaller.try_reserve_exact(values.len() * 2).is_ok() {
        smaller.append(values);
        *values = smaller;
    }
}
