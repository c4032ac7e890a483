//! The arrays of a filter as they are written: rows of bytes. Snapshots, chunks of dumps and rewritten files, which are
//! written the same way for several kinds, know no more of a filter than this.

use std::ops::Range;

use crate::bloom::bits::is_clear;
use crate::bloom::{Chain, Family, Memory, Occupancy, Origin, Probes, Segment, StateMark, Storage};

/// Most bytes of an array that are one string of a snapshot or one piece of a dump: 16 MiB. It bounds the
/// memory that saving, dumping and loading take beside the filter. Snapshots are read in strings of this
/// length, so it is part of the format and stays.
pub const CHUNK_BYTES: usize = 16 << 20;

/// A filter as rows of bytes.
pub trait Arrays {
    /// The array with this index; nothing past the last.
    fn array(&self, index: usize) -> Option<Array<'_>>;

    /// Which parts of an array have a bit set; nothing past the last. O(what was written to of it).
    fn occupancy(&self, index: usize, memory: impl Memory) -> Option<Occupancy>
    where
        Self: Sized;

    /// Returns the segment of an array that byte `offset` of it lies in, of at most [`CHUNK_BYTES`]; `None` past the end.
    fn segment(&self, index: usize, offset: usize) -> Option<Segment<'_>>;

    /// Adds a segment of a dump, its stamps behind its cells, to an array from its byte `offset` on. Returns false, changing
    /// nothing, when it cannot be one of that array. O(bytes).
    fn add_segment(&mut self, index: usize, offset: usize, segment: &[u8]) -> bool;

    /// Takes out of a segment of an array what is newer than the last header says. O(bytes).
    fn cut_to_dump(&self, index: usize, segment: &mut [u8]);

    /// Returns the mark of the state that the last header described; 0 when there was none.
    fn state_mark(&self) -> StateMark;

    /// Returns where the dump that the last header began ends; `u64::MAX` when there was none.
    fn marked_end(&self) -> u64;

    /// The header that made the filter.
    fn origin(&self) -> Origin;
}

/// One array, and what tells it from others of the same length.
#[derive(Clone, Copy, Debug)]
pub struct Array<'f> {
    /// Its bytes.
    pub bytes: &'f [u8],
    /// Its bits: fewer than its bytes have where the last one is not used whole.
    pub size_bits: u64,
    /// Items that its layer takes before it is full.
    pub capacity_items: u64,
    /// Probes of an item in it.
    pub probes: u32,
    /// Where it begins in a dump, where that does not follow from the arrays before it.
    pub address: Option<u64>,
}

impl Array<'_> {
    /// Returns where the array lies in a dump, behind arrays that end at `end`.
    pub(super) fn range_behind(&self, end: u64) -> Range<u64> {
        let start = self.address.unwrap_or(end);
        start..start.saturating_add(self.bytes.len() as u64)
    }
}

impl<F: Family> Arrays for Chain<F> {
    fn array(&self, index: usize) -> Option<Array<'_>> {
        let layer = self.layers().get(index)?;
        Some(Array {
            bytes: layer.storage().bytes(),
            size_bits: layer.storage().size_bits(),
            capacity_items: layer.capacity_items(),
            probes: layer.placement().probes(),
            address: layer.placement().address(),
        })
    }

    fn occupancy(&self, index: usize, memory: impl Memory) -> Option<Occupancy> {
        Some(Occupancy::of(self.layers().get(index)?.storage(), memory))
    }

    fn segment(&self, index: usize, offset: usize) -> Option<Segment<'_>> {
        self.layers().get(index)?.storage().segment(offset, CHUNK_BYTES)
    }

    fn add_segment(&mut self, index: usize, offset: usize, segment: &[u8]) -> bool {
        let Some(layer) = self.layers_mut().get_mut(index) else { return false };
        let storage = layer.storage_mut();
        let cells_bytes = segment.len().saturating_sub(storage.stamp_bytes(segment.len()));
        let (cells, stamps) = segment.split_at_checked(cells_bytes).unwrap_or_default();
        storage.add_segment(offset, cells, stamps)
    }

    fn cut_to_dump(&self, index: usize, segment: &mut [u8]) {
        if let Some(layer) = self.layers().get(index) {
            layer.storage().cut_to_dump(segment);
        }
    }

    fn state_mark(&self) -> StateMark {
        Self::state_mark(self)
    }

    fn marked_end(&self) -> u64 {
        Self::marked_end(self)
    }

    fn origin(&self) -> Origin {
        Self::origin(self)
    }
}

/// At most [`CHUNK_BYTES`] of one array.
#[derive(Clone, Debug)]
pub(super) struct Chunk<'f> {
    /// Its array.
    pub(super) array: Array<'f>,
    /// The number of its array.
    pub(super) index: usize,
    /// Where it begins in a dump.
    pub(super) position: u64,
    /// Its cells and stamps.
    pub(super) segment: Segment<'f>,
}

impl Chunk<'_> {
    /// Returns where the byte behind it is in a dump.
    pub(super) const fn end(&self) -> u64 {
        let Segment { cells, stamps, .. } = self.segment;
        self.position.saturating_add(cells.len() as u64).saturating_add(stamps.len() as u64)
    }
}

/// Returns the segments of an array, each with whether nothing is set in it. O(what may be set, as far as is known): memory
/// that was never written to is not touched.
pub(super) fn segments<'f, A: Arrays, M: Memory + 'f>(
    arrays: &'f A,
    index: usize,
    memory: M,
) -> impl Iterator<Item = (Segment<'f>, bool)> {
    let occupancy = arrays.occupancy(index, memory);
    let mut offset = 0usize;
    let next = move || {
        let segment = arrays.segment(index, offset)?;
        offset = offset.saturating_add(segment.cells.len()).saturating_add(segment.stamps.len());
        Some(segment)
    };
    std::iter::from_fn(next).map(move |segment| {
        let is_known_clear = || occupancy.as_ref().is_some_and(|known| known.is_clear(segment.range.clone()));
        let is_clear = is_clear(segment.stamps) && (is_known_clear() || is_clear(segment.cells));
        (segment, is_clear)
    })
}

/// Returns all chunks, those of the oldest array first, each with whether nothing is set in it. O(what may be set, as far
/// as is known).
pub(super) fn chunks<'f, A: Arrays, M: Memory + 'f>(
    arrays: &'f A,
    memory: M,
) -> impl Iterator<Item = (Chunk<'f>, bool)> {
    let mut end = 0;
    let rows = (0..).map_while(move |index| {
        let array = arrays.array(index)?;
        let range = array.range_behind(end);
        end = range.end;
        Some((index, array, range.start))
    });
    rows.flat_map(move |(index, array, start)| {
        segments(arrays, index, memory).map(move |(segment, is_clear)| {
            let position = start.saturating_add(segment.offset as u64);
            (Chunk { array, index, position, segment }, is_clear)
        })
    })
}

/// An array and where it lies in a dump.
#[derive(Clone, Copy, Debug)]
pub(super) struct Located<'f> {
    /// The array.
    pub(super) array: Array<'f>,
    /// Its number.
    pub(super) index: usize,
    /// Where it begins in a dump.
    pub(super) start: u64,
}

impl Located<'_> {
    /// Returns how far into the array a position of a dump is; `None` for one before it, where the filter had an array that
    /// it has lost.
    pub(super) fn offset_of(&self, position: u64) -> Option<usize> {
        position.checked_sub(self.start).and_then(|offset| usize::try_from(offset).ok())
    }
}

/// Returns the first array that ends behind a position of a dump; `None` past the end. O(arrays).
pub(super) fn locate(arrays: &dyn Arrays, position: u64) -> Option<Located<'_>> {
    let mut end = 0;
    for index in 0.. {
        let array = arrays.array(index)?;
        let Range { start, end: its_end } = array.range_behind(end);
        if position < its_end {
            return Some(Located { array, index, start });
        }
        end = its_end;
    }
    None
}

/// Returns the chunk that a position of a dump lies in, or the first one behind it; `None` past the end. O(arrays).
pub(super) fn chunk_at(arrays: &dyn Arrays, position: u64) -> Option<Chunk<'_>> {
    let located = locate(arrays, position)?;
    let Located { array, index, start } = located;
    let segment = arrays.segment(index, located.offset_of(position).unwrap_or(0))?;
    Some(Chunk { array, index, position: start.saturating_add(segment.offset as u64), segment })
}
