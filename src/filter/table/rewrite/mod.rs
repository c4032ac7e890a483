//! Rewriting: the entries that belong to some addresses are read from segments of one or more tables, and written to a
//! new segment.
//!
//! A split, a join, a compaction, a merge and the load of a dumped segment are rewrites. They differ in the sources, in
//! the size of the result, and in how entries of several sources are united:
//!
//! * If the new blocks have longer addresses, an entry loses the lowest bits of its remainder, which have become
//!   address bits. An entry without enough bits is copied to each block that it matches.
//! * If they have shorter addresses, an entry gets the lost address bits back as the lowest bits of its remainder. The
//!   copies of a counted void entry become one again: see [`unite_copies`](entries::unite_copies).
//! * A remainder that is too long for the new segment is cut.
//! * Entries that have expired are left out. So are plain and timed entries that a shorter one covers.
//! * A block of which one source has all entries is copied, if it has the same place in that source.
//!
//! The work is bounded by the blocks of the result: a block has at most [`SLOTS_MAX`](super::size::SLOTS_MAX) slots on
//! average. It is read once for each new segment that it has entries for, or for each of up to four new blocks.
//!
//! Each file imports only the ones above it in this list:
//!
//! * [`entries`]: entries between the blocks of the sources and those of the result. [`rewriter`]: the state of a rewrite.
//! * [`gather`]: reading the entries for a block. [`settle`]: uniting them. [`divide`]: the same in less time, if a block
//!   of one source only loses its expired entries, or is divided into two. Without it a compaction takes 6.4 times as
//!   long, and a split 2.1 to 2.6 times.
//! * [`collect`]: all blocks of a segment.

mod collect;
mod divide;
mod entries;
mod gather;
mod rewriter;
mod settle;

pub(crate) use entries::Rule;
pub(crate) use rewriter::Rewriter;
