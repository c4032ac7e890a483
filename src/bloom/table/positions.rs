//! The segments of a table in the order of a dump.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::dump::{DumpedSegment, POSITIONS};
use super::state::Table;
use crate::bloom::memory::OutOfMemory;
use crate::bloom::work::count_slots;

/// The segments of a table from a position of a dump on, each with the position after it. Segments that are not stored
/// are passed over without a visit, however many there are.
#[derive(Debug)]
pub struct SegmentsFrom<'t> {
    table: &'t Table,
    next: u64,
    /// The first positions of the stored segments, if only few of all segments are stored.
    few: Option<BinaryHeap<Reverse<u32>>>,
}

impl Table {
    /// Returns the stored segments from a position of a dump on. Each is what [`segment_at`](Self::segment_at) returns. O(1);
    /// O(stored segments) if only few of all segments are stored.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn segments_from(&self, position: u64) -> Result<SegmentsFrom<'_>, OutOfMemory> {
        let few = self.directory.few().map(|few| {
            let mut firsts = Vec::new();
            firsts.try_reserve_exact(few.len()).map_err(|_| OutOfMemory)?;
            for (number, _) in few {
                count_slots(|| 0);
                let first = (*number as u32).reverse_bits();
                let end = u64::from(first).saturating_add(POSITIONS >> self.size().depth_of(*number));
                if end > position {
                    firsts.push(Reverse(first));
                }
            }
            Ok(firsts.into())
        });
        Ok(SegmentsFrom { table: self, next: position, few: few.transpose()? })
    }
}

impl Iterator for SegmentsFrom<'_> {
    type Item = Result<(DumpedSegment, u64), OutOfMemory>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(few) = &mut self.few {
            let Reverse(first) = few.pop()?;
            // The dump may already have the first part of this segment.
            self.next = self.next.max(first.into());
        }
        let (segment, end) = match self.table.segment_at(self.next).transpose()? {
            Ok(segment) => segment,
            Err(error) => return Some(Err(error)),
        };
        self.next = end;
        Some(Ok((segment, end)))
    }
}
