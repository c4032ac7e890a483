//! Writes segments from the entries of others.

use super::segment::{BLOCKS_MAX, Segment, Shape};
use crate::bloom::memory::OutOfMemory;

/// The number of slots of each block's runs.
pub(super) type Lengths = [u16; BLOCKS_MAX];

/// Returns the sum of lengths.
pub(super) fn sum(lengths: &Lengths) -> usize {
    lengths.iter().map(|length| usize::from(*length)).sum()
}

/// Returns the lengths of the blocks of a segment. O(blocks).
pub(super) fn lengths_of(segment: &Segment) -> Lengths {
    std::array::from_fn(|block| if block < segment.blocks() { segment.length(block) } else { 0 })
}

/// Makes an empty segment whose blocks will have runs of these lengths.
///
/// # Errors
/// [`OutOfMemory`].
pub(super) fn with_lengths(shape: Shape, lengths: &Lengths) -> Result<Segment, OutOfMemory> {
    let mut segment = Segment::try_new(shape)?;
    let mut over = 0usize;
    // What the last blocks leave over goes into the first ones, so the first turn only finds how much that is.
    for turn in 0..2 {
        for (block, length) in lengths.iter().enumerate().take(segment.blocks()) {
            if turn == 1 {
                segment.set_offset(block, over);
            }
            over = over.saturating_add((*length).into()).saturating_sub(shape.slots as usize);
        }
    }
    segment.set_used(sum(lengths));
    Ok(segment)
}

/// Makes a segment with the same entries in another shape, of as many blocks and with slots as wide. O(words).
///
/// # Errors
/// [`OutOfMemory`].
pub(super) fn rebuilt(source: &Segment, shape: Shape) -> Result<Segment, OutOfMemory> {
    let lengths = lengths_of(source);
    let mut segment = with_lengths(shape, &lengths)?;
    for (block, length) in lengths.iter().enumerate().take(source.blocks()) {
        segment.copy_runs(source, block, (*length).into());
    }
    segment.stamp = source.stamp;
    Ok(segment)
}

/// Makes a segment of the slots for which `stays` holds, with as many blocks and slots as wide. `shape` returns its
/// shape from the number of these slots. `stays` gets the block and the value of each slot. O(slots).
///
/// # Errors
/// [`OutOfMemory`].
pub(super) fn selected(
    source: &Segment,
    shape: impl FnOnce(usize) -> Shape,
    mut stays: impl FnMut(usize, u64) -> bool,
) -> Result<Segment, OutOfMemory> {
    let (mut lengths, mut slots): (Lengths, _) = ([0; BLOCKS_MAX], Vec::new());
    slots.try_reserve_exact(source.used()).map_err(|_| OutOfMemory)?;
    for (block, length) in lengths.iter_mut().enumerate().take(source.blocks()) {
        let before = slots.len();
        source.visit_block(block, |bucket, value| {
            if stays(block, value) {
                slots.push((bucket as u8, value));
            }
        });
        *length = slots.len().wrapping_sub(before) as u16;
    }
    let mut segment = with_lengths(shape(slots.len()), &lengths)?;
    let mut left = slots.as_slice();
    for (block, length) in lengths.iter().enumerate().take(source.blocks()) {
        let (here, after) = left.split_at_checked((*length).into()).unwrap_or_default();
        segment.write_block(block, here);
        left = after;
    }
    Ok(segment)
}
