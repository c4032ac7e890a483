//! The records of BF.FOLLOW: what the adds to a filter have stored. docs/formats.md specifies each byte.

use everbloom_filter::generation::AddTime;
use everbloom_filter::{AddPlace, ItemHash};

/// The length of every record in bytes.
pub const RECORD_BYTES: usize = 17;

/// The first byte of a record of parts. Those of items are the age, at most 120, and [`HAS_LIFE`].
const PARTS: u8 = 127;
/// Set in the first byte if the item has a life of its own.
const HAS_LIFE: u8 = 128;

/// The bytes of a record.
pub type ChangeRecord = [u8; RECORD_BYTES];

/// The parts of a filter, and its time, when it took the items of the following records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PartsState {
    layers: u32,
    has_table: bool,
    now: u64,
}

/// Writes records, or reads them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Records {
    /// The state after the last record; `None` if the next record must be one of parts.
    state: Option<PartsState>,
}

impl Records {
    /// Passes the records of an item that was stored at `place` to `write`: its own, after one of the parts if these
    /// are not those of the item before. O(1).
    pub fn write(&mut self, place: &AddPlace, hash: ItemHash, mut write: impl FnMut(ChangeRecord)) {
        let AddTime { added, now } = place.time;
        let layers = u32::try_from(place.layers).unwrap_or(u32::MAX);
        let state = PartsState { layers, has_table: place.has_table, now };
        if self.state.replace(state) != Some(state) {
            write(record(PARTS, u64::from(layers) | u64::from(state.has_table) << 32, now));
        }
        // An item is live when it is added, so it has at most the age of a window.
        let age = u8::try_from(now.saturating_sub(added)).unwrap_or(PARTS - 1);
        let life = if place.has_life { HAS_LIFE } else { 0 };
        write(record(age | life, hash.h1, hash.h2));
    }

    /// Reads a record. Returns the item and where it was stored; `None` for a record of parts. O(1).
    ///
    /// # Errors
    /// [`BadRecord`].
    pub fn read(&mut self, record: &ChangeRecord) -> Result<Option<(AddPlace, ItemHash)>, BadRecord> {
        let [tag, words @ ..] = record;
        let (words, _) = words.as_chunks::<8>();
        let [first, second] = words else { return Err(BadRecord) };
        let (first, second) = (u64::from_le_bytes(*first), u64::from_le_bytes(*second));
        if *tag == PARTS {
            let layers = u32::try_from(first & u64::from(u32::MAX)).map_err(|_| BadRecord)?;
            let has_table = match first >> 32 {
                0 => false,
                1 => true,
                _ => return Err(BadRecord),
            };
            self.state = Some(PartsState { layers, has_table, now: second });
            return Ok(None);
        }
        let PartsState { layers, has_table, now } = self.state.ok_or(BadRecord)?;
        let added = now.checked_sub((tag & !HAS_LIFE).into()).ok_or(BadRecord)?;
        let hash = ItemHash { h1: first, h2: second };
        let (layers, time) = (usize::try_from(layers).map_err(|_| BadRecord)?, AddTime { added, now });
        Ok(Some((AddPlace { layers, has_table, time, has_life: tag & HAS_LIFE != 0 }, hash)))
    }
}

/// Returns the record with this first byte and these words.
fn record(tag: u8, first: u64, second: u64) -> ChangeRecord {
    let mut record = [tag; RECORD_BYTES];
    let [_, words @ ..] = &mut record;
    let (words, _) = words.as_chunks_mut::<8>();
    words.iter_mut().zip([first, second]).for_each(|(to, word)| *to = word.to_le_bytes());
    record
}

/// A record that BF.FOLLOW does not write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a record is not one of BF.FOLLOW")]
pub struct BadRecord;
