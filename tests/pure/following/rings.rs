//! The registry of rings: positions, limits, and which ring ends.

use everbloom_command::rings::{
    FollowChanges, FollowPosition, IDLE_MS, POSITION_END, RING_BYTES, RingLimits, Rings,
};
use everbloom_filter::generation::AddTime;
use everbloom_filter::{AddPlace, ItemHash};
use everbloom_format::changes::{BadRecord, RECORD_BYTES, Records};

const PLACE: AddPlace =
    AddPlace { layers: 1, has_table: false, time: AddTime { added: 0, now: 0 }, has_life: false };
const WIDE: RingLimits<'_> = RingLimits { ring_bytes: 1 << 20, total_bytes: 64 << 20, may_grow: &|| true };

fn add(rings: &mut Rings, id: u64, numbers: std::ops::Range<u64>, limits: RingLimits<'_>) -> bool {
    rings.append(id, &PLACE, &mut numbers.map(|number| ItemHash { h1: number, h2: !number }), limits)
}

/// Returns the numbers of the items after a position, and the next position; `None` if it is lost.
fn read(rings: &mut Rings, position: FollowPosition, most: usize) -> Option<(Vec<u64>, FollowPosition)> {
    let FollowChanges::Since(offset, bytes) = rings.changes(position, most, 0).unwrap() else { return None };
    let mut reader = Records::default();
    let (records, rest) = bytes.as_chunks::<RECORD_BYTES>();
    assert!(rest.is_empty() && records.len() as u64 == offset - position.offset);
    let items = records.iter().filter_map(|record| match reader.read(record) {
        Ok(item) => item.map(|(_, hash)| hash.h1),
        // A reply after the first may begin without the parts.
        Err(BadRecord) => Some(u64::from_le_bytes(record[1..9].try_into().unwrap())),
    });
    Some((items.collect(), FollowPosition { offset, ..position }))
}

#[test]
fn records_come_once_and_in_order() {
    let mut rings = Rings::new();
    let start = rings.position(0, 5, 0, WIDE);
    assert_eq!(start, FollowPosition { id: 5, offset: 0 });
    assert_eq!(read(&mut rings, start, 10), Some((vec![], start)));
    assert!(add(&mut rings, 5, 0..1000, WIDE));
    let (items, next) = read(&mut rings, start, 400).unwrap();
    assert_eq!(items, (0..399).collect::<Vec<_>>());
    let (items, next) = read(&mut rings, next, usize::MAX).unwrap();
    assert_eq!(items, (399..1000).collect::<Vec<_>>());
    assert_eq!(read(&mut rings, next, 1), Some((vec![], next)));
    // A second follower learns the parts, although the first knows them.
    let second = rings.position(5, 9, 0, WIDE);
    assert_eq!(second, next);
    assert!(add(&mut rings, 5, 0..1, WIDE));
    assert_eq!(read(&mut rings, second, 10).unwrap().0, [0]);
    assert_eq!(rings.bytes() % 17, (RING_BYTES) % 17);
}

#[test]
fn unknown_positions_are_lost() {
    let mut rings = Rings::new();
    let start = rings.position(0, u64::MAX, 0, WIDE);
    assert!(start.id < POSITION_END && start.id > 0);
    add(&mut rings, start.id, 0..10, WIDE);
    for position in [
        FollowPosition { id: start.id, offset: 12 },
        FollowPosition { id: start.id, offset: POSITION_END - 1 },
        FollowPosition { id: start.id, offset: u64::MAX },
        FollowPosition { id: 0, offset: 0 },
        FollowPosition { id: start.id - 1, offset: 0 },
    ] {
        assert_eq!(read(&mut rings, position, usize::MAX), None, "{position:?}");
    }
    rings.end(start.id);
    assert_eq!((read(&mut rings, start, 1), rings.bytes(), rings.count()), (None, 0, 0));
    assert!(!add(&mut rings, start.id, 0..1, WIDE));
}

#[test]
fn a_full_ring_drops_its_oldest_records() {
    for ring_bytes in [17, 34, 100, 5000, 100_000] {
        let limits = RingLimits { ring_bytes, ..WIDE };
        let mut rings = Rings::new();
        let start = rings.position(0, 1, 0, limits);
        add(&mut rings, 1, 0..10_000, limits);
        assert_eq!(read(&mut rings, start, 1), None);
        let kept = ring_bytes / 17;
        let position = FollowPosition { offset: 10_001 - kept, ..start };
        assert_eq!(
            read(&mut rings, position, usize::MAX).unwrap().0,
            (10_000 - kept..10_000).collect::<Vec<_>>()
        );
        assert_eq!(read(&mut rings, FollowPosition { offset: position.offset - 1, ..position }, 1), None);
        assert_eq!(rings.bytes(), RING_BYTES + kept * 17);
    }
}

#[test]
fn a_ring_that_may_not_grow_keeps_its_newest_records() {
    let mut rings = Rings::new();
    rings.position(0, 1, 0, WIDE);
    add(&mut rings, 1, 0..50, WIDE);
    let bytes = rings.bytes();
    let short = RingLimits { may_grow: &|| false, ..WIDE };
    assert!(add(&mut rings, 1, 50..5000, short));
    assert_eq!(rings.bytes(), bytes);
    let kept = (bytes - RING_BYTES) / 17;
    let position = FollowPosition { id: 1, offset: 5001 - kept };
    assert_eq!(read(&mut rings, position, usize::MAX).unwrap().0.last(), Some(&4999));
    // The first records get memory always: a server that evicts is above its limit again and again.
    let start = rings.position(0, 2, 0, short);
    assert!(add(&mut rings, 2, 0..59, short));
    assert_eq!(read(&mut rings, start, usize::MAX).unwrap().0.len(), 59);
}

#[test]
fn idle_rings_end() {
    let mut rings = Rings::new();
    for id in 1..=3 {
        rings.position(0, id, id, WIDE);
    }
    rings.changes(FollowPosition { id: 1, offset: 0 }, 1, 1000).unwrap();
    rings.end_idle(IDLE_MS + 2);
    assert_eq!(rings.count(), 2);
    rings.end_idle(IDLE_MS + 3);
    assert_eq!(rings.count(), 1);
    assert!(add(&mut rings, 1, 0..1, WIDE) && !add(&mut rings, 2, 0..1, WIDE));
    // A clock that goes back ends nothing.
    rings.end_idle(0);
    assert_eq!(rings.count(), 1);
}

#[test]
fn all_rings_stay_within_the_total() {
    let limits = RingLimits { total_bytes: 1 << 20, ..WIDE };
    let mut rings = Rings::new();
    for round in 0..3 {
        for id in 1..=2000 {
            rings.position(id, id, round * 2000 + id, limits);
            add(&mut rings, id, 0..200, limits);
            assert!(rings.bytes() <= limits.total_bytes, "{} at {id}", rings.bytes());
        }
    }
    assert!(rings.count() > 200 && rings.bytes() > limits.total_bytes / 2);
    // The ring that was asked for last is there.
    assert!(rings.changes(FollowPosition { id: 2000, offset: 0 }, 1, 9000).is_ok());
    // Rings in use of about one size do not end each other.
    let mut rings = Rings::new();
    for id in 1..=100 {
        rings.position(0, id, 0, limits);
    }
    for round in 0..500 {
        for id in 1..=100 {
            assert!(add(&mut rings, id, round * 10..round * 10 + 10, limits));
        }
    }
    assert_eq!(rings.count(), 100);
    // A smaller total ends the rings that were idle the longest.
    add(&mut rings, 100, 0..1, RingLimits { total_bytes: 50_000, ..limits });
    assert!(rings.bytes() <= 50_000 && rings.count() < 100);
}

#[test]
fn a_record_says_where_an_item_was_stored() {
    let place = |layers, has_table, added, now, has_life| AddPlace {
        layers,
        has_table,
        time: AddTime { added, now },
        has_life,
    };
    let places = [
        place(1, false, 0, 0, false),
        place(4096, true, 0, 0, false),
        place(0, true, 880, 1000, true),
        place(0, true, 1000, 1000, false),
        place(0, true, 1001, 1001, true),
    ];
    let (mut writer, mut reader, mut read) = (Records::default(), Records::default(), Vec::new());
    for (number, place) in (0..).zip(&places) {
        let hash = ItemHash { h1: number, h2: u64::MAX - number };
        writer.write(place, hash, |record| read.extend(reader.read(&record).unwrap()));
        assert_eq!(read.last(), Some(&(*place, hash)));
    }
    assert_eq!(read.len(), places.len());
    let mut reader = Records::default();
    assert_eq!(reader.read(&[0; 17]), Err(BadRecord));
    assert_eq!(reader.read(&[127; 17]), Err(BadRecord));
    reader.read(&[127, 1, 0, 0, 0, 1, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0]).unwrap();
    assert_eq!(reader.read(&[10; 17]), Err(BadRecord));
    assert!(reader.read(&[9; 17]).is_ok());
}
