//! One segment of a table: a rank-and-select quotient filter in one allocation.
//!
//! A segment has a power of two of *blocks*, and a block has 64 *buckets*. The entries of a bucket are its *run*:
//! consecutive slots. A block is, bit by bit:
//!
//! | bits | content |
//! |---|---|
//! | 64 | occupied: bit `b` is set if bucket `b` has a run |
//! | 16 | offset: how many slots, from the start of this block on, the runs of earlier blocks take |
//! | `C` | run ends: bit `s` is set if slot `s` is the last of its run |
//! | `C` times the width | the slots |
//!
//! Clear bits fill the rest of the last word. All blocks of a segment have the same number of slots `C`. The runs
//! of a block are stored without gaps, in the order of their buckets. Runs that do not fit their block continue in the
//! next block, and those of the last block in the first one. To find the run of a bucket, skip `offset` slots from the
//! start of its block, and then one run for each lower bucket that is occupied.
//!
//! A block in which buckets 1, 3 and 4 have 2, 1 and 3 entries, after a run of the block before that takes one slot of it:
//!
//! ```text
//! occupied   0 1 0 1 1 0 0 ... 0     a bit for each of the 64 buckets
//! offset     1                       the run x is of the block before
//! run ends   1 0 1 1 0 0 1 0 ... 0   a bit for each of the C slots
//! slots      x a a b c c c - ... -   a: bucket 1, b: bucket 3, c: bucket 4, -: free
//! ```
//!
//! A split writes the entries of a segment to two. The lowest bit of each remainder says to which, and the other bits stay:
//!
//! ```text
//!                             lower segment            upper segment
//! remainders of bucket 4:
//! 1011  0010  1101     ->     001                      101  110
//! ```
//!
//! Source: Pandey, Bender, Johnson, Patro, "A general-purpose counting filter: making every bit count" (SIGMOD 2017).

mod edit;
mod read;
mod write;

pub(crate) use read::{BucketRun, Segment};
pub(crate) use write::RewriteError;
pub(super) use write::SlotList;
