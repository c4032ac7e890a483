//! The changes of the filters that somebody follows: a ring of records for each, within limits on their bytes.
//!
//! The rings belong to this registry, not to the filters. A value has only the id of its ring, so a ring can end at any
//! time, and values can end on other threads.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use everbloom_filter::{AddPlace, ItemHash, OutOfMemory};
use everbloom_format::changes::{ChangeRecord, RECORD_BYTES, Records};

/// Ids and offsets are below this number, so that every client can read them.
pub const POSITION_END: u64 = 1 << 53;
/// A ring that nobody has asked for in this time ends, in milliseconds.
pub const IDLE_MS: u64 = 60_000;
/// The bytes that count for a ring besides its records: its struct, and its places in the maps.
pub const RING_BYTES: u64 = 256;
/// The number of records for which a ring first gets memory.
const FIRST_RECORDS: usize = 60;

/// The id of a ring. It is random, and not 0.
pub type RingId = u64;

/// The limits on rings.
#[derive(Clone, Copy)]
pub struct RingLimits<'l> {
    /// The most bytes of the records of one ring.
    pub ring_bytes: u64,
    /// The most bytes of all rings.
    pub total_bytes: u64,
    /// Whether more memory may be taken now. It is asked only before a ring grows beyond its first records.
    pub may_grow: &'l dyn Fn() -> bool,
}

/// A place among the records of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FollowPosition {
    /// The id of the ring.
    pub id: RingId,
    /// The number of records before the place.
    pub offset: u64,
}

/// The records after a position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FollowChanges {
    /// These records, which end at this offset.
    Since(u64, Vec<u8>),
    /// The ring does not have the position.
    Lost,
}

#[derive(Debug, Default)]
struct Ring {
    records: VecDeque<ChangeRecord>,
    /// The number of records that the ring had and has no more.
    dropped: u64,
    writer: Records,
    /// When somebody asked for the ring last, in milliseconds of a clock that never goes back.
    asked_ms: u64,
}

impl Ring {
    fn end(&self) -> u64 {
        self.dropped.saturating_add(self.records.len() as u64)
    }

    fn bytes(&self) -> u64 {
        RING_BYTES.saturating_add(record_bytes(self.records.capacity()))
    }

    fn push(&mut self, record: ChangeRecord) {
        if self.records.len() == self.records.capacity() {
            self.records.pop_front();
            self.dropped = self.dropped.saturating_add(1);
        }
        // A ring without memory drops the record itself.
        if self.records.capacity() > 0 {
            self.records.push_back(record);
        }
    }
}

/// Returns the bytes of this number of records.
const fn record_bytes(records: usize) -> u64 {
    (records as u64).saturating_mul(RECORD_BYTES as u64)
}

/// All rings.
#[derive(Debug, Default)]
pub struct Rings {
    rings: BTreeMap<RingId, Ring>,
    /// The same rings by the time when they were asked for.
    by_time: BTreeSet<(u64, RingId)>,
    bytes: u64,
}

impl Rings {
    /// Returns a registry without rings.
    #[must_use]
    pub const fn new() -> Self {
        Self { rings: BTreeMap::new(), by_time: BTreeSet::new(), bytes: 0 }
    }

    /// Returns the number of rings.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.rings.len() as u64
    }

    /// Returns the bytes of all rings.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the position after the last record of the ring `id`, for a follower that has no record yet. Begins a
    /// ring with the id `fresh` if there is none: 0 is the id of no ring. O(log rings), and the rings that end.
    pub fn position(
        &mut self,
        id: RingId,
        fresh: u64,
        now_ms: u64,
        limits: RingLimits<'_>,
    ) -> FollowPosition {
        self.end_idle(now_ms);
        let id = if self.rings.contains_key(&id) { id } else { (fresh % POSITION_END).max(1) };
        if !self.rings.contains_key(&id) {
            self.end_until(limits.total_bytes.saturating_sub(RING_BYTES), 0);
            self.rings.insert(id, Ring { asked_ms: now_ms, ..Ring::default() });
            self.by_time.insert((now_ms, id));
            self.bytes = self.bytes.saturating_add(RING_BYTES);
        }
        self.ask(id, now_ms);
        let offset = self.rings.get_mut(&id).map_or(0, |ring| {
            // The new follower does not know the parts of the filter.
            ring.writer = Records::default();
            ring.end()
        });
        FollowPosition { id, offset }
    }

    /// Returns the records from a position on, at most `most_records`. O(log rings + records), and the rings that end.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn changes(
        &mut self,
        position: FollowPosition,
        most_records: usize,
        now_ms: u64,
    ) -> Result<FollowChanges, OutOfMemory> {
        let FollowPosition { id, offset } = position;
        self.end_idle(now_ms);
        self.ask(id, now_ms);
        let Some(ring) = self.rings.get(&id) else { return Ok(FollowChanges::Lost) };
        let start = offset.checked_sub(ring.dropped).and_then(|start| usize::try_from(start).ok());
        let Some(start) = start.filter(|start| *start <= ring.records.len()) else {
            return Ok(FollowChanges::Lost);
        };
        let count = ring.records.len().saturating_sub(start).min(most_records);
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(count.saturating_mul(RECORD_BYTES)).map_err(|_| OutOfMemory)?;
        ring.records.range(start..start + count).for_each(|record| bytes.extend_from_slice(record));
        Ok(FollowChanges::Since(offset.saturating_add(count as u64), bytes))
    }

    /// Appends the records of items that were stored at `place` to a ring. The ring grows, or drops its oldest records.
    /// Returns false if the ring has ended. O(log rings + items), and the rings that end.
    pub fn append(
        &mut self,
        id: RingId,
        place: &AddPlace,
        hashes: &mut dyn Iterator<Item = ItemHash>,
        limits: RingLimits<'_>,
    ) -> bool {
        self.end_until(limits.total_bytes, 0);
        for hash in hashes {
            let Some(ring) = self.rings.get_mut(&id) else { return false };
            // An item has at most two records.
            if ring.records.capacity().saturating_sub(ring.records.len()) < 2 {
                self.grow(id, limits);
            }
            let Some(ring) = self.rings.get_mut(&id) else { return false };
            let mut writer = ring.writer;
            writer.write(place, hash, |record| ring.push(record));
            ring.writer = writer;
        }
        self.rings.contains_key(&id)
    }

    /// Ends a ring, if it has not ended yet. O(log rings).
    pub fn end(&mut self, id: RingId) {
        if let Some(ring) = self.rings.remove(&id) {
            self.by_time.remove(&(ring.asked_ms, id));
            self.bytes = self.bytes.saturating_sub(ring.bytes());
        }
    }

    /// Ends the rings that nobody has asked for in [`IDLE_MS`]. O(log rings) for each.
    pub fn end_idle(&mut self, now_ms: u64) {
        while let Some((_, id)) = self.by_time.first().filter(|(asked_ms, _)| is_idle(*asked_ms, now_ms)) {
            self.end(*id);
        }
    }

    /// Ends the rings that were idle the longest, except `kept`, until all have at most `most_bytes`.
    fn end_until(&mut self, most_bytes: u64, kept: RingId) {
        while self.bytes > most_bytes
            && let Some((_, id)) = self.by_time.iter().find(|(_, id)| *id != kept)
        {
            self.end(*id);
        }
    }

    /// Notes that somebody has asked for a ring.
    fn ask(&mut self, id: RingId, now_ms: u64) {
        if let Some(ring) = self.rings.get_mut(&id) {
            self.by_time.remove(&(ring.asked_ms, id));
            ring.asked_ms = now_ms;
            self.by_time.insert((now_ms, id));
        }
    }

    /// Doubles the memory of a ring, within the limits. At the total, only a ring that has less than its share makes
    /// others end, so that rings in use do not end each other in turn.
    fn grow(&mut self, id: RingId, limits: RingLimits<'_>) {
        let share_bytes = limits.total_bytes / self.count().max(1);
        let Some(ring) = self.rings.get(&id) else { return };
        let (capacity, bytes) = (ring.records.capacity(), ring.bytes());
        let most = usize::try_from(limits.ring_bytes / RECORD_BYTES as u64).unwrap_or(usize::MAX);
        let wanted = capacity.saturating_mul(2).max(FIRST_RECORDS).min(most);
        let more_bytes = record_bytes(wanted.saturating_sub(capacity));
        let is_full = self.bytes.saturating_add(more_bytes) > limits.total_bytes;
        let exceeds_share = bytes.saturating_add(more_bytes) > share_bytes;
        if wanted <= capacity || is_full && exceeds_share || capacity > 0 && !(limits.may_grow)() {
            return;
        }
        self.end_until(limits.total_bytes.saturating_sub(more_bytes), id);
        let Some(ring) = self.rings.get_mut(&id) else { return };
        let is_refused = ring.records.try_reserve_exact(wanted.saturating_sub(ring.records.len())).is_err();
        self.bytes = self.bytes.saturating_sub(bytes).saturating_add(ring.bytes());
        if is_refused {
            self.end_until(self.bytes.saturating_sub(1), id);
        }
    }
}

/// Returns whether a ring is idle that was asked for at `asked_ms`.
const fn is_idle(asked_ms: u64, now_ms: u64) -> bool {
    now_ms.saturating_sub(asked_ms) >= IDLE_MS
}
