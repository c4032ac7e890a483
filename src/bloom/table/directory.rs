//! The segments of a table, by number, and planned changes of several segments.

use smallvec::SmallVec;

use super::Table;
use super::segment::Segment;
use super::size::{SegmentShape, TableSize};
use super::totals::{EntrySums, Leftovers};
use crate::bloom::memory::{BlockMover, BlockVisitor, OutOfMemory};

/// Logarithm of the most segments of a piece, which is a list of segments. A piece takes up to 64 KiB.
const PIECE_LOG: u32 = 11;
/// The most segments of a piece.
const PIECE_SEGMENTS: usize = 1 << PIECE_LOG;
/// The number of segments for which a new piece has memory.
const PIECE_FIRST_SEGMENTS: usize = 4;

/// The segments of a table. Most tables have one segment, which is stored in place. Larger tables have a list of
/// pieces, each a list of segments, so that growing never moves more than one piece.
#[derive(Debug)]
pub(super) enum Directory {
    One(Segment),
    Many(Box<Pieces>),
}

/// Several segments in pieces, with sums over all of them.
#[derive(Debug)]
pub(super) struct Pieces {
    pieces: Vec<Vec<Segment>>,
    leftovers: Leftovers,
    totals: SegmentTotals,
}

/// Sums over segments.
#[derive(Clone, Copy, Debug, Default)]
struct SegmentTotals {
    /// Slots in use.
    used: u64,
    bytes: u64,
}

impl SegmentTotals {
    fn add(&mut self, segment: &Segment) {
        self.used = self.used.wrapping_add(segment.used() as u64);
        self.bytes = self.bytes.wrapping_add(segment.shape().bytes());
    }

    fn remove(&mut self, segment: &Segment) {
        self.used = self.used.wrapping_sub(segment.used() as u64);
        self.bytes = self.bytes.wrapping_sub(segment.shape().bytes());
    }
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

    /// Returns the number of segments, and the logarithm of the number of blocks of a segment.
    pub(super) fn size(&self) -> TableSize {
        TableSize { segments: self.len(), blocks_log: self.get(0).map_or(0, Segment::blocks_log) }
    }

    /// Returns the segment with this number.
    #[inline(always)]
    pub(super) fn get(&self, number: usize) -> Option<&Segment> {
        match self {
            Self::One(segment) => (number == 0).then_some(segment),
            Self::Many(many) => many.pieces.get(number >> PIECE_LOG)?.get(number % PIECE_SEGMENTS),
        }
    }

    /// Returns the segment with this number, to change it. The caller must report a change of its used slots with
    /// [`count_used`](Self::count_used), and must not replace its allocation.
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
            Self::Many(many) => many.totals.used,
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
                many.totals.bytes.saturating_add((pieces + lists) as u64)
            }
        }
    }

    /// Returns the bytes of all segments. O(1).
    pub(super) fn segment_bytes(&self) -> u64 {
        match self {
            Self::One(segment) => segment.shape().bytes(),
            Self::Many(many) => many.totals.bytes,
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

    /// Adds a change of the number of used slots to the total. A negative change is passed modulo 2^64.
    #[inline(always)]
    pub(super) fn count_used(&mut self, slots: u64) {
        if let Self::Many(many) = self {
            many.totals.used = many.totals.used.wrapping_add(slots);
        }
    }

    /// Returns the numbers of void entries and saturated buckets. Returns `None` if there is one segment: the numbers
    /// are stored only for several.
    pub(super) fn leftovers(&self) -> Option<Leftovers> {
        if let Self::Many(many) = self { Some(many.leftovers) } else { None }
    }

    /// Adds a change to the numbers of void entries and saturated buckets.
    pub(super) fn count_leftovers(&mut self, change: Leftovers) {
        if let Self::Many(many) = self {
            many.leftovers.add(change);
        }
    }

    /// Returns by how many bytes the directory grows for one more segment.
    pub(super) fn push_bytes(&self) -> u64 {
        const SEGMENT_BYTES: usize = size_of::<Segment>();
        const LIST_BYTES: usize = size_of::<Vec<Segment>>();
        let bytes = match self {
            Self::One(_) => size_of::<Pieces>() + LIST_BYTES + PIECE_FIRST_SEGMENTS * SEGMENT_BYTES,
            Self::Many(many) => match many.pieces.last() {
                Some(last) if last.len() < PIECE_SEGMENTS => further(last) * SEGMENT_BYTES,
                _ => PIECE_FIRST_SEGMENTS * SEGMENT_BYTES + further(&many.pieces) * LIST_BYTES,
            },
        };
        bytes as u64
    }

    /// Allocates memory for one more segment.
    ///
    /// # Errors
    /// [`OutOfMemory`]. Nothing has changed.
    fn try_reserve(&mut self) -> Result<(), OutOfMemory> {
        if let Self::One(first) = self {
            let (mut pieces, mut piece) = (try_with_capacity(1)?, try_with_capacity(PIECE_FIRST_SEGMENTS)?);
            let (mut totals, leftovers) = (SegmentTotals::default(), Leftovers::default());
            totals.add(first);
            piece.push(std::mem::take(first));
            pieces.push(piece);
            *self = Self::Many(Box::new(Pieces { pieces, leftovers, totals }));
        }
        let Self::Many(many) = self else { return Ok(()) };
        let pieces = &mut many.pieces;
        match pieces.last_mut() {
            Some(last) if last.len() < PIECE_SEGMENTS => {
                last.try_reserve_exact(further(last)).map_err(|_| OutOfMemory)
            }
            _ => {
                let piece = try_with_capacity(PIECE_FIRST_SEGMENTS)?;
                pieces.try_reserve_exact(further(pieces)).map_err(|_| OutOfMemory)?;
                pieces.push(piece);
                Ok(())
            }
        }
    }

    /// Appends a segment.
    ///
    /// # Errors
    /// [`OutOfMemory`]. Nothing has changed.
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
        if let Self::Many(many) = self {
            many.totals.add(&segment);
        }
        let Some(place) = self.get_mut(number) else { return };
        let before = std::mem::replace(place, segment);
        if let Self::Many(many) = self {
            many.totals.remove(&before);
        }
    }

    /// Appends a segment, after [`try_reserve`](Self::try_reserve).
    pub(super) fn push(&mut self, segment: Segment) {
        let Self::Many(many) = self else { return };
        many.totals.add(&segment);
        if let Some(last) = many.pieces.last_mut() {
            last.push(segment);
        }
    }

    /// Removes the last segment, if there are several. If one remains, it is stored in place again.
    pub(super) fn pop(&mut self) {
        let Self::Many(many) = self else { return };
        let Some(last) = many.pieces.last_mut() else { return };
        if let Some(segment) = last.pop() {
            many.totals.remove(&segment);
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

/// Returns by how many elements the capacity of a vector grows when an element is pushed. A full vector doubles its
/// capacity.
fn further<T>(values: &Vec<T>) -> usize {
    if values.len() < values.capacity() { 0 } else { values.len() }
}

fn try_with_capacity<T>(capacity: usize) -> Result<Vec<T>, OutOfMemory> {
    let mut values = Vec::new();
    values.try_reserve_exact(capacity).map_err(|_| OutOfMemory)?;
    Ok(values)
}

/// A planned change of several segments, with the totals of the table after it.
#[derive(Debug)]
pub(super) struct SegmentChanges {
    /// The new segments, with the numbers of the segments that they replace.
    replaced: SmallVec<[(usize, Segment); 2]>,
    /// A new segment after the last one.
    pushed: Option<Segment>,
    /// Whether the last segment is removed.
    pops: bool,
    /// The totals of the table after the change. The bytes include the directory.
    totals: SegmentTotals,
    /// The change of the sums over all entries.
    pub(super) sums: EntrySums,
}

impl SegmentChanges {
    /// Returns a plan that changes nothing.
    pub(super) fn new(table: &Table) -> Self {
        let totals = SegmentTotals { used: table.directory.used(), bytes: table.size_bytes() };
        Self { replaced: SmallVec::new(), pushed: None, pops: false, totals, sums: EntrySums::default() }
    }

    /// Returns the slots in use after the change.
    pub(super) fn used(&self) -> u64 {
        self.totals.used
    }

    /// Returns a segment as it will be after the change.
    pub(super) fn segment<'p>(&'p self, table: &'p Table, number: usize) -> Option<&'p Segment> {
        let planned = self.replaced.iter().find(|(replaced, _)| *replaced == number);
        planned.map(|(_, segment)| segment).or_else(|| table.directory.get(number))
    }

    /// Plans to replace a segment.
    pub(super) fn replace(&mut self, table: &Table, number: usize, segment: Segment) {
        self.totals.add(&segment);
        self.discount(table, number);
        self.replaced.retain(|(replaced, _)| *replaced != number);
        self.replaced.push((number, segment));
    }

    /// Plans to add a segment after the last one.
    pub(super) fn push(&mut self, table: &Table, segment: Segment) {
        self.totals.add(&segment);
        self.totals.bytes = self.totals.bytes.saturating_add(table.directory.push_bytes());
        self.pushed = Some(segment);
    }

    /// Plans to remove the last segment.
    pub(super) fn pop(&mut self, table: &Table) {
        self.discount(table, table.directory.len().wrapping_sub(1));
        self.pops = true;
    }

    /// Returns the bytes that the table has after the change if segments of these shapes then replace `segment`.
    pub(super) fn bytes_with(&self, segment: &Segment, shapes: &[SegmentShape]) -> u64 {
        let more = shapes.iter().map(|shape| shape.bytes()).sum::<u64>();
        self.totals.bytes.saturating_sub(segment.shape().bytes()).saturating_add(more)
    }

    /// Subtracts a segment from the totals.
    fn discount(&mut self, table: &Table, number: usize) {
        let mut totals = self.totals;
        self.segment(table, number).into_iter().for_each(|segment| totals.remove(segment));
        self.totals = totals;
    }

    /// Makes the change.
    ///
    /// # Errors
    /// [`OutOfMemory`]. Nothing has changed.
    pub(super) fn commit(self, table: &mut Table) -> Result<(), OutOfMemory> {
        if self.pushed.is_some() {
            // A directory of one segment does not store these numbers, so they are counted before the first push.
            let before = table.leftovers();
            let is_first = table.directory.leftovers().is_none();
            table.directory.try_reserve()?;
            if is_first {
                table.directory.count_leftovers(before);
            }
        }
        for (number, segment) in self.replaced {
            table.directory.replace(number, segment);
        }
        if let Some(segment) = self.pushed {
            table.directory.push(segment);
        }
        if self.pops {
            table.directory.pop();
        }
        table.apply(self.sums);
        Ok(())
    }
}
