//! The segments of a table, by number.

use super::segment::Segment;
use crate::bloom::memory::{BlockMover, BlockVisitor, OutOfMemory};

/// Logarithm of the segments of a piece, which has up to 64 KiB.
const PIECE_LOG: u32 = 11;
/// Segments of a piece.
const PIECE_SEGMENTS: usize = 1 << PIECE_LOG;
/// Segments for which a piece has memory at first.
const PIECE_FIRST_SEGMENTS: usize = 4;

/// The segments of a table. Most tables have one, which is stored in place. The others are in pieces: a table that
/// grows never moves more than one piece.
#[derive(Debug)]
pub(super) enum Directory {
    One(Segment),
    Many(Box<Pieces>),
}

/// What entries leave behind that know no more of an item than its bucket. As a change, the numbers wrap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leftovers {
    /// Entries without a remainder.
    pub void_entries: u64,
    /// Buckets that match every item.
    pub saturated_buckets: u64,
}

impl Leftovers {
    /// Counts an entry `times` more, if it is one of them.
    #[inline(always)]
    pub(super) fn count(&mut self, entry: u64, times: u64) {
        match entry {
            0 => self.saturated_buckets = self.saturated_buckets.wrapping_add(times),
            1 => self.void_entries = self.void_entries.wrapping_add(times),
            _ => {}
        }
    }

    /// Counts those of a change, or of another segment.
    pub(super) fn add(&mut self, other: Self) {
        self.void_entries = self.void_entries.wrapping_add(other.void_entries);
        self.saturated_buckets = self.saturated_buckets.wrapping_add(other.saturated_buckets);
    }
}

/// Segments in pieces.
#[derive(Debug)]
pub(super) struct Pieces {
    pieces: Vec<Vec<Segment>>,
    leftovers: Leftovers,
    /// Slots in use in all segments.
    used: u64,
    /// Bytes of all segments.
    segment_bytes: u64,
}

impl Directory {
    /// Returns the number of segments.
    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Many(many) => match many.pieces.last() {
                Some(last) => (many.pieces.len().wrapping_sub(1) << PIECE_LOG).wrapping_add(last.len()),
                None => 0,
            },
        }
    }

    /// Returns the segment with this number.
    #[inline(always)]
    pub(super) fn get(&self, number: usize) -> Option<&Segment> {
        match self {
            Self::One(segment) => (number == 0).then_some(segment),
            Self::Many(many) => many.pieces.get(number >> PIECE_LOG)?.get(number % PIECE_SEGMENTS),
        }
    }

    /// Returns the segment with this number, to change it. Its used slots must be
    /// [counted](Self::count_used) and its allocation must stay.
    #[inline(always)]
    pub(super) fn get_mut(&mut self, number: usize) -> Option<&mut Segment> {
        match self {
            Self::One(segment) => (number == 0).then_some(segment),
            Self::Many(many) => many.pieces.get_mut(number >> PIECE_LOG)?.get_mut(number % PIECE_SEGMENTS),
        }
    }

    /// Returns the segments in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Segment> {
        let (one, many) = match self {
            Self::One(segment) => (std::slice::from_ref(segment), &[][..]),
            Self::Many(many) => (&[][..], many.pieces.as_slice()),
        };
        one.iter().chain(many.iter().flatten())
    }

    /// Returns the slots in use in all segments. O(1).
    #[inline(always)]
    pub(super) fn used(&self) -> u64 {
        match self {
            Self::One(segment) => segment.used() as u64,
            Self::Many(many) => many.used,
        }
    }

    /// Returns the bytes of all segments and pieces. O(pieces).
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::One(_) => self.segment_bytes(),
            Self::Many(many) => {
                let pieces =
                    many.pieces.iter().map(|piece| piece.capacity() * size_of::<Segment>()).sum::<usize>();
                let lists = size_of::<Pieces>() + many.pieces.capacity() * size_of::<Vec<Segment>>();
                many.segment_bytes.saturating_add((pieces + lists) as u64)
            }
        }
    }

    /// Returns the bytes of all segments. O(1).
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
        let (pieces, last) = (segments.div_ceil(PIECE_SEGMENTS), segments % PIECE_SEGMENTS);
        let full = segments / PIECE_SEGMENTS * PIECE_SEGMENTS;
        let last = if last == 0 { 0 } else { last.next_power_of_two().max(PIECE_FIRST_SEGMENTS) };
        let lists = pieces.next_power_of_two() * size_of::<Vec<Segment>>();
        (size_of::<Pieces>() + lists + (full + last) * size_of::<Segment>()) as u64
    }

    /// Counts slots that an entry took in a segment.
    #[inline(always)]
    pub(super) fn count_used(&mut self, slots: u64) {
        if let Self::Many(many) = self {
            many.used = many.used.wrapping_add(slots);
        }
    }

    /// Counts slots that became free in a segment.
    #[inline(always)]
    pub(super) fn count_freed(&mut self, slots: u64) {
        self.count_used(slots.wrapping_neg());
    }

    /// Returns what entries have left behind; `None` if that is not counted because there is one segment.
    pub(super) fn leftovers(&self) -> Option<Leftovers> {
        if let Self::Many(many) = self { Some(many.leftovers) } else { None }
    }

    /// Counts what entries leave behind.
    pub(super) fn count_leftovers(&mut self, change: Leftovers) {
        if let Self::Many(many) = self {
            many.leftovers.add(change);
        }
    }

    /// Returns the bytes that the directory will take more for one more segment.
    pub(super) fn push_bytes(&self) -> u64 {
        const SEGMENT_BYTES: usize = size_of::<Segment>();
        let bytes = match self {
            Self::One(_) => {
                size_of::<Pieces>() + size_of::<Vec<Segment>>() + PIECE_FIRST_SEGMENTS * SEGMENT_BYTES
            }
            Self::Many(many) => match many.pieces.last() {
                Some(last) if last.len() < last.capacity() => 0,
                Some(last) if last.len() < PIECE_SEGMENTS => last.len() * SEGMENT_BYTES,
                _ if many.pieces.len() < many.pieces.capacity() => PIECE_FIRST_SEGMENTS * SEGMENT_BYTES,
                _ => PIECE_FIRST_SEGMENTS * SEGMENT_BYTES + many.pieces.len() * size_of::<Vec<Segment>>(),
            },
        };
        bytes as u64
    }

    /// Makes room for one more segment.
    ///
    /// # Errors
    /// [`OutOfMemory`]; nothing changed.
    pub(super) fn try_reserve(&mut self) -> Result<(), OutOfMemory> {
        if let Self::One(first) = self {
            let mut pieces = Vec::new();
            pieces.try_reserve_exact(1).map_err(|_| OutOfMemory)?;
            let mut piece = new_piece()?;
            let first = std::mem::take(first);
            let (used, segment_bytes) = (first.used() as u64, first.shape().bytes());
            piece.push(first);
            pieces.push(piece);
            let leftovers = Leftovers::default();
            *self = Self::Many(Box::new(Pieces { pieces, leftovers, used, segment_bytes }));
        }
        let Self::Many(many) = self else { return Ok(()) };
        let pieces = &mut many.pieces;
        match pieces.last_mut() {
            Some(last) if last.len() < PIECE_SEGMENTS => {
                let more = if last.len() < last.capacity() { 0 } else { last.len() };
                last.try_reserve_exact(more).map_err(|_| OutOfMemory)
            }
            _ => {
                let piece = new_piece()?;
                let more = if pieces.len() < pieces.capacity() { 0 } else { pieces.len() };
                pieces.try_reserve_exact(more).map_err(|_| OutOfMemory)?;
                pieces.push(piece);
                Ok(())
            }
        }
    }

    /// Appends a segment.
    ///
    /// # Errors
    /// [`OutOfMemory`]; nothing changed.
    pub(super) fn try_push(&mut self, segment: Segment) -> Result<(), OutOfMemory> {
        self.try_reserve()?;
        self.push(segment);
        Ok(())
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

    /// Replaces a segment.
    pub(super) fn replace(&mut self, number: usize, segment: Segment) {
        let (used, bytes) = (segment.used() as u64, segment.shape().bytes());
        let Some(place) = self.get_mut(number) else { return };
        let old = std::mem::replace(place, segment);
        if let Self::Many(many) = self {
            many.used = many.used.wrapping_add(used).wrapping_sub(old.used() as u64);
            many.segment_bytes = many.segment_bytes.wrapping_add(bytes).wrapping_sub(old.shape().bytes());
        }
    }

    /// Appends a segment, after [`try_reserve`](Self::try_reserve).
    pub(super) fn push(&mut self, segment: Segment) {
        let Self::Many(many) = self else { return };
        many.used = many.used.wrapping_add(segment.used() as u64);
        many.segment_bytes = many.segment_bytes.wrapping_add(segment.shape().bytes());
        if let Some(last) = many.pieces.last_mut() {
            last.push(segment);
        }
    }

    /// Removes the last segment of several. The first is stored in place again if it remains alone.
    pub(super) fn pop(&mut self) {
        let Self::Many(many) = self else { return };
        let Some(last) = many.pieces.last_mut() else { return };
        if let Some(segment) = last.pop() {
            many.used = many.used.wrapping_sub(segment.used() as u64);
            many.segment_bytes = many.segment_bytes.wrapping_sub(segment.shape().bytes());
        }
        if last.is_empty() {
            many.pieces.pop();
        } else if last.len() < last.capacity() / 4 {
            last.shrink_to(last.len() * 2);
        }
        if self.len() == 1
            && let Some(first) = self.get_mut(0)
        {
            *self = Self::One(std::mem::take(first));
        }
    }
}

fn new_piece() -> Result<Vec<Segment>, OutOfMemory> {
    let mut piece = Vec::new();
    piece.try_reserve_exact(PIECE_FIRST_SEGMENTS).map_err(|_| OutOfMemory)?;
    Ok(piece)
}
