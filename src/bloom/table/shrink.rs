//! Giving memory back: two segments become one, a segment gets half as many blocks, or blocks get fewer slots.
//!
//! A table shrinks when it has less than 0.7 of the slots in use with which it grew to its size, so that adds and
//! removals at the boundary do not make it grow and shrink in turn.

use smallvec::SmallVec;

use super::add::weight;
use super::build::{Lengths, rebuilt, sum, with_lengths};
use super::directory::Leftovers;
use super::grow::used_before_growth;
use super::lookup::{Counts, depth, remainder_bits};
use super::plan::Plan;
use super::segment::{BLOCKS_LOG_MAX, BLOCKS_MAX, Segment, Shape, USED_MAX, low_bits};
use super::{EntryKind, Table};
use crate::bloom::memory::OutOfMemory;

impl Table {
    /// Gives memory back before `slots` slots of a segment become free, if that is due. Returns whether anything
    /// changed. O(slots of a segment).
    ///
    /// # Errors
    /// [`OutOfMemory`]; nothing changed.
    pub(super) fn make_smaller(&mut self, number: usize, slots: usize) -> Result<bool, OutOfMemory> {
        if self.is_too_large(self.used_slots().saturating_sub(slots as u64)) {
            let mut plan = Plan::new(self);
            let is_joined = self.plan_join(&mut plan)?;
            if is_joined {
                plan.commit(self)?;
            }
            return Ok(is_joined);
        }
        let Some(segment) = self.directory.get(number) else { return Ok(false) };
        let used = segment.used();
        let Some(shape) = segment.smaller_shape(used.saturating_sub(slots), used) else { return Ok(false) };
        let mut plan = Plan::new(self);
        plan.replace(self, number, rebuilt(segment, shape)?);
        plan.commit(self)?;
        Ok(true)
    }

    /// Returns whether the table is larger than it must be for this number of slots in use.
    pub(super) fn is_too_large(&self, used: u64) -> bool {
        let (segments, blocks_log) =
            (self.directory.len(), self.directory.get(0).map_or(0, Segment::blocks_log));
        if self.is_loading()
            || segments <= self.schedule.initial_segments()
                && blocks_log <= self.schedule.initial_blocks_log()
        {
            return false;
        }
        let (segments, blocks_log) = if segments > 1 {
            (segments.wrapping_sub(1), blocks_log)
        } else {
            (1, blocks_log.wrapping_sub(1))
        };
        used < used_before_growth(segments, blocks_log) / 10 * 7
    }

    /// Plans to join the last segment with the one that it was split from, or to halve the blocks of the only segment.
    /// Returns false if the result would be too full, which happens only to items that were crafted.
    pub(super) fn plan_join(&self, plan: &mut Plan) -> Result<bool, OutOfMemory> {
        let last = self.directory.len().wrapping_sub(1);
        let Some(high) = plan.segment(self, last) else { return Ok(false) };
        if last == 0 {
            let blocks_log = high.blocks_log().wrapping_sub(1);
            let (joined, gained, leftovers) =
                self.joined((blocks_log, blocks_log), |block, bit| (high, block | bit << blocks_log))?;
            plan.replace(self, 0, joined);
            plan.mass = plan.mass.wrapping_add(gained);
            plan.leftovers.add(leftovers);
            return Ok(true);
        }
        let depth = depth(last);
        let number = last.wrapping_sub(1 << depth);
        let Some(low) = plan.segment(self, number) else { return Ok(false) };
        if low.used().saturating_add(high.used()) > USED_MAX {
            return Ok(false);
        }
        let sizes = (depth.wrapping_add(BLOCKS_LOG_MAX), BLOCKS_LOG_MAX);
        let (joined, gained, leftovers) = self.joined(sizes, |block, bit| {
            (if block & 1 == 0 { low } else { high }, block >> 1 | bit << (BLOCKS_LOG_MAX - 1))
        })?;
        plan.replace(self, number, joined);
        plan.pop(self);
        plan.mass = plan.mass.wrapping_add(gained);
        plan.leftovers.add(leftovers);
        Ok(true)
    }

    /// Returns a segment of 2^`blocks_log` blocks with the entries of others, the weight that they gain because
    /// remainders are cut to the length of the new segment, and the change of the leftovers. 2^`address_bits` blocks
    /// make up the table then. `source` returns where the entries of a block are whose next bit of the hash is 0 or 1;
    /// it becomes the lowest bit of their remainders.
    fn joined<'s>(
        &self,
        (address_bits, blocks_log): (u32, u32),
        source: impl Fn(usize, usize) -> (&'s Segment, usize),
    ) -> Result<(Segment, u128, Leftovers), OutOfMemory> {
        let longest = self.schedule.remainder_bits(address_bits);
        let width = longest.wrapping_add(1).wrapping_add(self.kind().generation_bits());
        let mut lengths: Lengths = [0; BLOCKS_MAX];
        for (block, length) in lengths.iter_mut().enumerate().take(1 << blocks_log) {
            let [zeros, ones] = [0, 1].map(|bit| {
                let (segment, block) = source(block, bit);
                segment.length(block)
            });
            *length = zeros.saturating_add(ones);
        }
        let used = sum(&lengths);
        let shape = Shape::for_slots(blocks_log, width, used.saturating_add(used / 16))
            .or_else(|| Shape::for_slots(blocks_log, width, used))
            .ok_or(OutOfMemory)?;
        let mut joined = with_lengths(shape, &lengths)?;
        // Timed entries of both were compacted in this generation or the one before: the older stamp is right for all.
        let stamps = (0..1 << blocks_log).flat_map(|block| [0, 1].map(|bit| source(block, bit).0.stamp));
        joined.stamp = stamps.min().unwrap_or(0);
        let (mut gained, mut leftovers) = (0u128, Leftovers::default());
        for block in 0..1 << blocks_log {
            let [zeros, ones] = [0, 1].map(|bit| {
                let (segment, block) = source(block, bit);
                let entry_bits = self.entry_bits(segment);
                let (mut slots, mut counts) = (Slots::new(), Counts::default());
                segment.visit_block(block, |bucket, value| {
                    if self.kind() == EntryKind::Counted && !counts.is_entry(value) {
                        slots.push((bucket as u8, value));
                        return;
                    }
                    let (entry, code) = (value & low_bits(entry_bits), value >> (entry_bits & 63));
                    leftovers.count(entry, u64::MAX);
                    // A saturated bucket becomes an entry that matches the items of its half.
                    let entry = entry.max(1) << 1 | bit as u64;
                    let bits = remainder_bits(entry);
                    let cut = bits.min(longest);
                    gained = gained
                        .wrapping_add(weight(address_bits, cut))
                        .wrapping_sub(weight(address_bits, bits));
                    let entry = 1 << cut | entry & low_bits(cut);
                    slots.push((bucket as u8, code << (longest + 1) | entry));
                });
                slots
            });
            joined.write_block(block, &merged(&zeros, &ones));
        }
        Ok((joined, gained, leftovers))
    }
}

/// Slots with their buckets, in the order of the buckets. A block of items that nobody crafted has fewer.
type Slots = SmallVec<[(u8, u64); 128]>;

/// Returns the slots of both, in the order of buckets.
fn merged(zeros: &[(u8, u64)], ones: &[(u8, u64)]) -> Slots {
    let (mut zeros, mut ones) = (zeros.iter().peekable(), ones.iter().peekable());
    std::iter::from_fn(|| match (zeros.peek(), ones.peek()) {
        (Some(zero), Some(one)) if one.0 < zero.0 => ones.next(),
        (Some(_), _) => zeros.next(),
        (None, _) => ones.next(),
    })
    .copied()
    .collect()
}

impl Segment {
    /// Returns a shape of fewer words for `used` slots and some more, if there is one that takes `least` slots.
    pub(super) fn smaller_shape(&self, used: usize, least: usize) -> Option<Shape> {
        let wanted = used.saturating_add(used / 16).saturating_add(1).max(least);
        // Most of the time the next smaller shape is too small.
        if wanted > self.used_max() / 16 * 15 {
            return None;
        }
        self.shape_for(wanted).filter(|shape| shape.words < self.words().len())
    }

    /// Returns the smallest shape with as many blocks, and slots as wide, that takes `used` slots.
    pub(super) fn shape_for(&self, used: usize) -> Option<Shape> {
        Shape::for_slots(self.blocks_log(), self.width(), used)
    }
}
