//! The expandable table: a quotient filter whose memory follows its items, at any number of items.
//!
//! An add stores an *entry*: some bits of the item's hash. The lowest bits of the hash choose a segment and a block,
//! and six other bits choose a bucket in the block. The bits above the lowest ones, the *remainder*, are stored in a
//! slot of the bucket. A [segment] is one compact allocation. As entries are added, one segment after another is split
//! into two (linear hashing). As entries are removed, segments are joined in the reverse order. A split takes the
//! lowest bit of each remainder as a further address bit, so entries get shorter while the table grows. This does not
//! increase the error rate: see the [schedule]. docs/architecture.md has a picture.
//!
//! [`EntryKind`] says what an entry has besides its remainder: nothing, a count, or the generation in which its item
//! was added.
//!
//! Numbers that follow from the table itself are computed with plain operators, whose overflow is an error in released
//! builds too. What a decoder reads may be anything, so reading a segment gives some result for all words, and
//! [`validate`] compares. Where a number wraps around, stays at a bound or has a default, a comment says why;
//! scripts/structure counts these places.
//!
//! The state of a table depends only on the sequence of operations, so primaries and replicas have the same bytes.
//!
//! Each file imports only the ones above it in this list:
//!
//! * [`size`]: how large segments and tables are, and when a table grows. [`segment`]: one segment, its bits.
//!   [`entry`]: what the slots of a bucket mean. [`schedule`]: how many bits of the hash an entry has.
//! * [`totals`]: sums over the entries, and counts of the items. [`directory`]: the segments by number. [`state`]: the
//!   table of all these.
//! * [`lookup`]: finding items. [`changes`]: making a change as a whole. [`source`]: where entries are read. [`rewrite`]: reading entries from some segments and
//!   writing them to others, the only way in which a table changes its form. [`reshape`]: when it does: splits, joins,
//!   and compactions that free expired entries. [`edit`]: adding and removing items.
//! * [`union`]: one table with the entries of several. [`validate`]: the rules of a table. [`dump`]: saving, dumping and
//!   reading segments. [`load`]: the table of the segments of a dump.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "words are cut to their lowest bits; numbers of blocks, buckets, slots and bits are small, rates positive"
)]

mod changes;
mod directory;
mod dump;
mod edit;
mod entry;
mod load;
mod lookup;
mod reshape;
mod rewrite;
mod schedule;
mod segment;
mod size;
mod source;
mod state;
mod totals;
mod union;
mod validate;

pub use dump::{DumpedSegment, POSITIONS};
pub use edit::{Addition, TableAdds};
pub use entry::{COUNT_MAX, EntryKind};
#[cfg(feature = "inspection")]
pub use load::Replaced;
pub use load::TableLoad;
pub use schedule::Schedule;
pub use state::{Table, TableSpec, TableStats};
pub use totals::{History, TableCounts};
pub use union::{Union, UnionError};
pub use validate::LoadError;
