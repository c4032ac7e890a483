//! A change of segments: planned and allocated first, then made as a whole.

use smallvec::SmallVec;

use super::Table;
use super::directory::Leftovers;
use super::segment::{Segment, Shape};
use crate::bloom::memory::OutOfMemory;

/// Segments that will replace others, and how the table is then.
#[derive(Debug)]
pub(super) struct Plan {
    /// Segments with their numbers.
    replaced: SmallVec<[(usize, Segment); 2]>,
    /// A further segment.
    pushed: Option<Segment>,
    /// Whether the last segment is removed.
    pops: bool,
    /// Slots in use.
    pub(super) used: u64,
    /// Bytes of the table.
    pub(super) bytes: u64,
    /// The sum of all weights.
    pub(super) mass: u128,
    /// How many more void entries and saturated buckets there are.
    pub(super) leftovers: Leftovers,
}

impl Plan {
    /// Returns the plan that changes nothing.
    pub(super) fn new(table: &Table) -> Self {
        let (used, bytes, mass) = (table.directory.used(), table.size_bytes(), table.mass());
        let (replaced, leftovers) = (SmallVec::new(), Leftovers::default());
        Self { replaced, pushed: None, pops: false, used, bytes, mass, leftovers }
    }

    /// Returns a segment as it is planned.
    pub(super) fn segment<'p>(&'p self, table: &'p Table, number: usize) -> Option<&'p Segment> {
        let planned = self.replaced.iter().find(|(replaced, _)| *replaced == number);
        planned.map(|(_, segment)| segment).or_else(|| table.directory.get(number))
    }

    /// Replaces a segment.
    pub(super) fn replace(&mut self, table: &Table, number: usize, segment: Segment) {
        self.count(&segment, self.segment(table, number).map(sizes));
        self.replaced.retain(|(replaced, _)| *replaced != number);
        self.replaced.push((number, segment));
    }

    /// Adds a segment after the last.
    pub(super) fn push(&mut self, table: &Table, segment: Segment) {
        self.count(&segment, None);
        self.bytes = self.bytes.saturating_add(table.directory.push_bytes());
        self.pushed = Some(segment);
    }

    /// Removes the last segment.
    pub(super) fn pop(&mut self, table: &Table) {
        let last = table.directory.len().wrapping_sub(1);
        if let Some((used, bytes)) = self.segment(table, last).map(sizes) {
            self.used = self.used.saturating_sub(used);
            self.bytes = self.bytes.saturating_sub(bytes);
        }
        self.pops = true;
    }

    /// Returns the bytes of the table if others of these shapes replace a segment.
    pub(super) fn bytes_with(&self, segment: &Segment, shapes: &[Shape]) -> u64 {
        let more = shapes.iter().map(|shape| shape.bytes()).sum::<u64>();
        self.bytes.saturating_sub(segment.shape().bytes()).saturating_add(more)
    }

    fn count(&mut self, segment: &Segment, before: Option<(u64, u64)>) {
        let ((used, bytes), (used_before, bytes_before)) = (sizes(segment), before.unwrap_or_default());
        self.used = self.used.saturating_add(used).saturating_sub(used_before);
        self.bytes = self.bytes.saturating_add(bytes).saturating_sub(bytes_before);
    }

    /// Makes the change.
    ///
    /// # Errors
    /// [`OutOfMemory`]; nothing changed.
    pub(super) fn commit(self, table: &mut Table) -> Result<(), OutOfMemory> {
        if self.pushed.is_some() {
            // Of one segment they are not counted.
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
        table.set_mass(self.mass);
        table.directory.count_leftovers(self.leftovers);
        Ok(())
    }
}

/// Returns the used slots and the bytes of a segment.
fn sizes(segment: &Segment) -> (u64, u64) {
    (segment.used() as u64, segment.shape().bytes())
}
