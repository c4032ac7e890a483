//! A filter with a table, while the chunks of its dump are loaded. It takes nothing but chunks: a lookup in a part of the
//! items could miss an item.

use std::collections::BTreeMap;
use std::ops::Range;

use super::Filter;
#[cfg(feature = "inspection")]
use super::Validation;
use super::dump_state::{ChunkChecksum, DumpId, LoadOrigin, is_of_still_filter};
use super::parts::Parts;
use super::policy::Policy;
use crate::growth_budget::GrowthBudget;
use crate::hash::Hash;
use crate::memory::{BlockMover, BlockVisitor, Blocks, Memory, OutOfMemory};
use crate::outcome::ByteLimit;
use crate::table::{DumpedSegment, LoadError, Table, TableLoad};

/// A filter that is being loaded.
#[derive(Debug)]
pub struct LoadingFilter {
    /// The filter that the header describes. Its table is empty, and its bits are those that have come.
    filter: Filter,
    /// The bytes of the header.
    header: Box<[u8]>,
    /// The dump that the chunks are from.
    id: DumpId,
    table: TableLoad,
    /// The parts of the dump that have come: for each its start, and its end. None overlaps or touches another.
    ranges: BTreeMap<u64, u64>,
}

/// A filter of everbloom's own format, complete or not.
#[derive(Debug)]
pub enum FilterValue {
    /// A filter.
    Complete(Filter),
    /// A filter that is being loaded.
    Loading(Box<LoadingFilter>),
}

impl FilterValue {
    /// Returns the filter; of one that is being loaded, the filter that the header describes.
    #[must_use]
    pub fn filter(&self) -> &Filter {
        match self {
            Self::Complete(filter) => filter,
            Self::Loading(loading) => &loading.filter,
        }
    }

    /// Returns whether there are items that a client must not bring at the time `now_ms`, in milliseconds of UNIX time. O(1);
    /// O(parts) for a filter that is being loaded.
    #[must_use]
    pub fn is_ahead_of(&self, now_ms: u64) -> bool {
        match self {
            Self::Complete(filter) => filter.is_ahead_of(now_ms),
            Self::Loading(loading) => loading.is_ahead_of(now_ms),
        }
    }

    /// Returns the memory of the filter in bytes. O(layers).
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        match self {
            Self::Complete(filter) => filter.size_bytes(),
            Self::Loading(loading) => loading.size_bytes(),
        }
    }

    /// Makes a copy with its own memory. A copy of a filter that is being loaded takes the same chunks. O(bytes).
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn try_clone(&self, memory: impl Memory) -> Result<Self, OutOfMemory> {
        Ok(match self {
            Self::Complete(filter) => Self::Complete(filter.try_clone(memory)?),
            Self::Loading(loading) => Self::Loading(Box::new(loading.try_clone(memory)?)),
        })
    }

    /// Checks every rule. Tests and fuzz targets call it after every step.
    ///
    /// # Errors
    /// The name of the part that breaks a rule.
    #[cfg(feature = "inspection")]
    pub fn internal_validate(&self, validation: Validation) -> Result<(), &'static str> {
        self.filter().internal_validate(validation)?;
        match (self, validation) {
            (Self::Complete(_), _) | (_, Validation::Parts) => Ok(()),
            (Self::Loading(loading), Validation::Contents) => loading.table.internal_validate(),
        }
    }

    /// Returns the mutable filter: see [`filter`](Self::filter).
    pub fn filter_mut(&mut self) -> &mut Filter {
        match self {
            Self::Complete(filter) => filter,
            Self::Loading(loading) => &mut loading.filter,
        }
    }
}

/// What a chunk did.
#[derive(Debug)]
pub enum Loaded {
    /// Nothing: the chunk has come before.
    Nothing,
    /// It was added to the parts that have come.
    Part,
    /// It was the last one that was missing. The filter is complete with this table.
    All(Table),
}

/// The content of a chunk.
#[derive(Debug)]
pub enum ChunkContent<'c> {
    /// The last bytes of bits before the end of the chunk. All other bits of the chunk are clear.
    Bits {
        /// The number of the layer, 0 being the oldest.
        layer: usize,
        /// The offset in the bytes of the layer.
        offset: usize,
        /// The bytes.
        bytes: &'c [u8],
    },
    /// Segments of the table.
    Segments(Vec<DumpedSegment>),
}

/// The number of parts of the table that are moved at once.
const MOVED_PARTS: usize = 256;

/// Bytes that are counted for a range.
const RANGE_BYTES: u64 = 32;

impl LoadingFilter {
    /// Returns the load of dump `id` of which these parts have come, in order. `filter` is the filter that `header`
    /// describes, with an empty table, and `table` is the load of its table.
    ///
    /// # Errors
    /// The name of what breaks a rule.
    pub fn from_parts(
        filter: Filter,
        header: &[u8],
        id: DumpId,
        table: TableLoad,
        parts: impl Iterator<Item = Range<u64>>,
    ) -> Result<Self, &'static str> {
        let (mut ranges, mut next) = (BTreeMap::new(), 0);
        for part in parts {
            // The parts do not touch, and something is missing.
            if part.start < next || part.is_empty() || part.end > filter.dump_end() {
                return Err("parts");
            }
            ranges.insert(part.start, part.end);
            next = part.end.saturating_add(1);
        }
        if ranges.get(&0) == Some(&filter.dump_end()) {
            return Err("parts");
        }
        let load = Self { filter, header: header.into(), id, table, ranges };
        // The filter that these parts make could not be loaded again.
        if load.is_ahead_of(u64::MAX) {
            return Err("the time of the newest item");
        }
        Ok(load)
    }

    /// Does [`Filter::is_ahead_of`] for the items of the header and of the parts. O(parts).
    #[must_use]
    pub fn is_ahead_of(&self, now_ms: u64) -> bool {
        self.filter.is_ahead_of(now_ms) || self.table.newest() > self.filter.latest_generation(now_ms)
    }

    /// Returns the filter that the header describes. Its table is empty, and its bits are those that have come.
    #[must_use]
    pub const fn filter(&self) -> &Filter {
        &self.filter
    }

    /// Returns the bytes of the header.
    #[must_use]
    pub const fn header(&self) -> &[u8] {
        &self.header
    }

    /// Returns the dump that the chunks are from.
    #[must_use]
    pub const fn id(&self) -> DumpId {
        self.id
    }

    /// Returns the load of the table.
    #[must_use]
    pub const fn table(&self) -> &TableLoad {
        &self.table
    }

    /// Returns the parts of the dump that have come, in order.
    pub fn ranges(&self) -> impl ExactSizeIterator<Item = Range<u64>> {
        self.ranges.iter().map(|(start, end)| *start..*end)
    }

    /// Returns the memory of the filter in bytes. O(layers).
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.bytes_besides_table().saturating_add(self.table.size_bytes())
    }

    fn bytes_besides_table(&self) -> u64 {
        let more_bytes = self.header.len() as u64 + self.ranges.len() as u64 * RANGE_BYTES;
        self.filter.size_bytes().saturating_add(more_bytes)
    }

    /// Adds the content of a chunk, which has this part of the dump, in positions. An entry may be
    /// at most a window newer than `now_ms`, the time of the caller in milliseconds of UNIX time. O(bytes). The last
    /// chunk: O(segments), or O(bytes of the filter) if the dumped table has changed during the dump, or could do so and has
    /// counted or timed entries.
    ///
    /// # Errors
    /// [`LoadError`]. Nothing has changed.
    pub fn add(
        &mut self,
        part: Range<u64>,
        content: ChunkContent<'_>,
        now_ms: u64,
        limit: &dyn ByteLimit,
    ) -> Result<Loaded, LoadError> {
        if part.is_empty() || part.end > self.filter.dump_end() {
            return Err(LoadError::Invalid("position"));
        }
        let room = GrowthBudget::new(limit);
        room.set_other_bytes(self.bytes_besides_table());
        let (segments, bits) = match content {
            ChunkContent::Bits { layer, offset, bytes } => {
                let bits = self.filter.layers().get(layer).ok_or(LoadError::Invalid("layer"))?.bits();
                if !bits.takes(offset, bytes) {
                    return Err(LoadError::Invalid("bits"));
                }
                (Vec::new(), Some((layer, offset, bytes)))
            }
            ChunkContent::Segments(segments) => (segments, None),
        };
        let replaced = self.table.add(segments, self.filter.latest_generation(now_ms), &room)?;
        let range = self.joined(&part);
        let was_still = is_of_still_filter(self.id);
        let is_all = range == (0, self.filter.dump_end());
        let made = if is_all { Some(self.table.make_table(was_still, &room)) } else { None };
        let table = match made.transpose() {
            Ok(table) => table,
            Err(error) => {
                self.table.take_back(replaced);
                return Err(error);
            }
        };
        let mut has_changed = !replaced.is_empty() || self.ranges.get(&range.0) != Some(&range.1);
        while let Some((first, _)) = self.ranges.range(range.0..range.1).next() {
            let first = *first;
            self.ranges.remove(&first);
        }
        self.ranges.insert(range.0, range.1);
        if let Some((layer, offset, bytes)) = bits {
            let added = self.filter.add_dumped_bytes(layer, offset, bytes, was_still);
            debug_assert!(added.is_some(), "the layer takes the bytes");
            has_changed |= added == Some(true);
        }
        Ok(match table {
            Some(table) => Loaded::All(table),
            None if has_changed => Loaded::Part,
            None => Loaded::Nothing,
        })
    }

    /// Returns the range that has come when a part has come too: with all ranges that overlap or touch it.
    fn joined(&self, part: &Range<u64>) -> (u64, u64) {
        let Range { start, end } = *part;
        let before = self.ranges.range(..=start).next_back().filter(|(_, last)| **last >= start);
        let last = self.ranges.range(..=end).next_back().map_or(end, |(_, last)| end.max(*last));
        (before.map_or(start, |(first, _)| *first), last)
    }

    /// Returns the complete filter, with the table that [`Loaded::All`] has. `last_chunk` is the checksum of the chunk that
    /// completed it. The load is of no use afterwards.
    pub fn complete(&mut self, table: Table, last_chunk: ChunkChecksum) -> Filter {
        let empty = Filter { parts: Parts::default(), policy: Policy::default(), origin: None };
        let mut filter = std::mem::replace(&mut self.filter, empty);
        let hash = filter.table_hash().copied().unwrap_or(Hash::Murmur3);
        filter.parts.set_table(Some((table, hash)));
        let last_chunk = Some(last_chunk);
        filter.origin = Some(Box::new(LoadOrigin { id: self.id, last_chunk }));
        filter
    }

    /// Makes a copy with its own memory, which takes the same chunks. O(bytes).
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn try_clone(&self, memory: impl Memory) -> Result<Self, OutOfMemory> {
        Ok(Self {
            filter: self.filter.try_clone(memory)?,
            header: self.header.clone(),
            id: self.id,
            table: self.table.try_clone()?,
            ranges: self.ranges.clone(),
        })
    }
}

impl Blocks for FilterValue {
    fn visit_blocks(&self, visitor: &mut impl BlockVisitor) {
        match self {
            Self::Complete(filter) => filter.visit_blocks(visitor),
            Self::Loading(loading) => {
                visitor.visit(std::slice::from_ref(&**loading));
                loading.visit_blocks(visitor);
            }
        }
    }

    fn block_count(&self) -> usize {
        match self {
            Self::Complete(filter) => filter.block_count(),
            Self::Loading(loading) => loading.block_count(),
        }
    }

    fn move_structs(&mut self, mover: &impl BlockMover) {
        match self {
            Self::Complete(filter) => filter.move_structs(mover),
            Self::Loading(loading) => {
                mover.move_box(loading);
                loading.move_structs(mover);
            }
        }
    }

    fn move_block(&mut self, number: usize, mover: &impl BlockMover) {
        match self {
            Self::Complete(filter) => filter.move_block(number, mover),
            Self::Loading(loading) => loading.move_block(number, mover),
        }
    }
}

impl Blocks for LoadingFilter {
    fn visit_blocks(&self, visitor: &mut impl BlockVisitor) {
        self.filter.visit_blocks(visitor);
        visitor.visit(&self.header);
        self.table.visit_blocks(visitor);
    }

    fn block_count(&self) -> usize {
        self.filter.layer_count() + self.table.part_count().div_ceil(MOVED_PARTS)
    }

    fn move_structs(&mut self, mover: &impl BlockMover) {
        self.filter.move_structs(mover);
    }

    fn move_block(&mut self, number: usize, mover: &impl BlockMover) {
        match number.checked_sub(self.filter.layer_count()) {
            None => self.filter.move_block(number, mover),
            Some(group) => self.table.move_parts(group * MOVED_PARTS, MOVED_PARTS, mover),
        }
    }
}
