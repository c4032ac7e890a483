//! The part of the record for the table: a part of fixed size, the key of its hash, and for entries that expire the
//! items of each generation.

use serde::{Deserialize, Serialize};

use super::layer::{key_of, numbers_of, read_hash};
use crate::stream::{DecodeError, append, read};
use everbloom_filter::Hash;
use everbloom_filter::table::{EntryKind, History, Schedule, TableCounts};

/// Bytes of the part of fixed size.
pub const TABLE_BYTES: usize = 48;

/// The schedules by number. Numbers are only added; they never change their meaning.
const GROWING: u8 = 1;
const LEVEL: u8 = 2;

/// The part of fixed size. Unused fields are 0.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct TableFields {
    hash: u8,
    schedule: u8,
    /// Bits of a remainder: of a growing schedule at first, of a level one at the size that it is for.
    base_bits: u8,
    /// Logarithm of a number of blocks. Of a growing schedule: from which on remainders have a further bit. Of a level
    /// one: the size that it is for.
    size_log: u8,
    /// The logarithm of the number of blocks of a segment.
    blocks_log: u8,
    reserved: [u8; 11],
    segments: u64,
    used_slots: u64,
    items: u64,
    entries: u64,
}

/// What a record says of a table.
#[derive(Clone, Copy, Debug)]
pub struct TableRecord {
    /// The counts of the table.
    pub counts: TableCounts,
    /// The slots that were in use when the record was written.
    pub used_slots: u64,
}

impl TableFields {
    /// Appends the part for a table with entries of `kind`.
    pub(super) fn append(record: TableRecord, kind: EntryKind, hash: &Hash, bytes: &mut Vec<u8>) {
        let TableRecord { counts, used_slots } = record;
        let TableCounts { schedule, items, entries, history, segments, blocks_log } = counts;
        let (number, base_bits, size_log) = match schedule {
            Schedule::FromOneBlock { base, longer_from } => (GROWING, base, longer_from),
            Schedule::FromCapacity { base, size_log } => (LEVEL, base, size_log),
        };
        let part = Self {
            hash: numbers_of(hash).0,
            schedule: number,
            base_bits,
            size_log,
            blocks_log: u8::try_from(blocks_log).unwrap_or(u8::MAX),
            segments: segments as u64,
            used_slots,
            items,
            entries,
            ..Self::default()
        };
        append(bytes, &part);
        bytes.extend_from_slice(key_of(hash));
        if let EntryKind::Timed(steps) = kind {
            append(bytes, &history.newest);
            history.items.iter().zip(0..steps.codes()).for_each(|(items, _)| append(bytes, items));
        }
    }

    /// Reads the part for a table with entries of `kind` from the start of `rest`.
    pub(super) fn read(rest: &mut &[u8], kind: EntryKind) -> Result<(TableRecord, Hash), DecodeError> {
        let part: Self = read(rest)?;
        let Self { base_bits: base, size_log, used_slots, items, entries, .. } = part;
        let hash = read_hash(part.hash, 0, rest)?;
        let schedule = match part.schedule {
            GROWING => Schedule::FromOneBlock { base, longer_from: size_log },
            LEVEL => Schedule::FromCapacity { base, size_log },
            got => return Err(DecodeError::unsupported("schedule", got)),
        };
        let mut history: History = History::default();
        if let EntryKind::Timed(steps) = kind {
            history.newest = read(rest)?;
            for (items, _) in history.items.iter_mut().zip(0..steps.codes()) {
                *items = read(rest)?;
            }
        }
        let segments = usize::try_from(part.segments).map_err(|_| DecodeError::Invalid("segments"))?;
        let blocks_log = part.blocks_log.into();
        // The other one is unused.
        let (items, entries) = match kind {
            EntryKind::Plain => (items, 0),
            EntryKind::Counted => (items, entries),
            EntryKind::Timed(_) => (0, entries),
        };
        let counts = TableCounts { schedule, items, entries, history, segments, blocks_log };
        Ok((TableRecord { counts, used_slots }, hash))
    }
}
