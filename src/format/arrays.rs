//! The arrays of a filter as this room sees them: rows of bytes. What is written the same way for several
//! kinds, a snapshot in chunks, pieces, a rewritten file, knows no more of a filter than this.

use crate::bloom::bits::is_clear;
use crate::bloom::{Chain, Family, Memory, Occupancy, Origin, Probes, StateMark, Storage};

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

    /// Adds bytes of a dump to an array, from its byte `offset` on; false, changing nothing, when they do not
    /// fit. O(bytes).
    fn add_bytes(&mut self, index: usize, offset: usize, bytes: &[u8]) -> bool;

    /// The mark of the state that the last header described; 0 when there was none.
    fn state_mark(&self) -> StateMark;

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
}

impl<F: Family> Arrays for Chain<F> {
    fn array(&self, index: usize) -> Option<Array<'_>> {
        let layer = self.layers().get(index)?;
        Some(Array {
            bytes: layer.storage().bytes(),
            size_bits: layer.storage().size_bits(),
            capacity_items: layer.capacity_items(),
            probes: layer.placement().probes(),
        })
    }

    fn occupancy(&self, index: usize, memory: impl Memory) -> Option<Occupancy> {
        Some(Occupancy::of(self.layers().get(index)?.storage(), memory))
    }

    fn add_bytes(&mut self, index: usize, offset: usize, bytes: &[u8]) -> bool {
        self.layers_mut().get_mut(index).is_some_and(|layer| layer.storage_mut().add_bytes(offset, bytes))
    }

    fn state_mark(&self) -> StateMark {
        Self::state_mark(self)
    }

    fn origin(&self) -> Origin {
        Self::origin(self)
    }
}

/// At most [`CHUNK_BYTES`] of one array.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chunk<'f> {
    /// Its array.
    pub(super) array: Array<'f>,
    /// Of its first byte, in all arrays laid end to end.
    pub(super) position: u64,
    /// Its bytes.
    pub(super) bytes: &'f [u8],
}

impl Chunk<'_> {
    /// Of the first byte behind it, in all arrays laid end to end.
    pub(super) const fn end(&self) -> u64 {
        self.position.saturating_add(self.bytes.len() as u64)
    }
}

/// All chunks, those of the oldest array first, each with whether it has no bit set. O(what may be set, as
/// far as is known): memory that was never written to is not touched.
pub(super) fn chunks<'f, A: Arrays, M: Memory + 'f>(
    arrays: &'f A,
    memory: M,
) -> impl Iterator<Item = (Chunk<'f>, bool)> {
    let mut end = 0u64;
    let rows = (0..).map_while(move |index| arrays.array(index).zip(arrays.occupancy(index, memory)));
    rows.flat_map(move |(array, occupancy)| {
        let start = end;
        end = end.saturating_add(array.bytes.len() as u64);
        array.bytes.chunks(CHUNK_BYTES).zip((0usize..).step_by(CHUNK_BYTES)).map(move |(bytes, offset)| {
            let is_clear = occupancy.is_clear(offset..offset.saturating_add(bytes.len())) || is_clear(bytes);
            (Chunk { array, position: start.saturating_add(offset as u64), bytes }, is_clear)
        })
    })
}

/// The array that holds byte `position` of all arrays laid end to end, and the byte's place in it. O(arrays).
pub(super) fn locate(arrays: &dyn Arrays, position: u64) -> Option<(usize, usize)> {
    let mut offset = usize::try_from(position).ok()?;
    for index in 0.. {
        match offset.checked_sub(arrays.array(index)?.bytes.len()) {
            None => return Some((index, offset)),
            Some(rest) => offset = rest,
        }
    }
    None
}

/// The chunk that begins at `position` and ends with its array or after [`CHUNK_BYTES`]; nothing past the
/// end. O(arrays).
pub(super) fn chunk_at(arrays: &dyn Arrays, position: u64) -> Option<Chunk<'_>> {
    let (index, offset) = locate(arrays, position)?;
    let array = arrays.array(index)?;
    let rest = array.bytes.get(offset..)?;
    let bytes = rest.get(..CHUNK_BYTES.min(rest.len()))?;
    Some(Chunk { array, position, bytes })
}
