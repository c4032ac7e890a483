//! Snapshots: DUMP and RDB files.

use everbloom::bloom::{AddError, Growth, NoPrefetch, UnknownMemory};
use everbloom::format::filter::header;

use crate::support::Field;
use crate::support::rdb::Payload;
use crate::support::recording::{recording, recordings};
use crate::{ANY, assert_answers, assert_same, restored, saved};

/// Bytes behind the header in the first piece; RedisBloom's has none.
const CHECK_BYTES: usize = 16;

#[test]
fn every_filter_answers_as_its_release_did() {
    recordings().for_each(|recorded| assert_answers(&restored(&recorded), &recorded));
}

#[test]
fn every_filter_is_written_as_its_release_wrote_it() {
    for recorded in recordings() {
        let filter = restored(&recorded);
        assert_eq!(saved(&filter), Payload::read(&recorded.dump).record, "{}", recorded.name);
        let (_, first) = &recorded.pieces[0];
        let check_bytes = if recorded.kind() == "redisbloom" { 0 } else { CHECK_BYTES };
        assert_eq!(header(&filter), first[..first.len() - check_bytes], "{}", recorded.name);
    }
}

#[test]
fn every_copy_is_written_as_the_original() {
    for recorded in recordings() {
        let filter = restored(&recorded);
        let copy = filter.try_clone(UnknownMemory).unwrap();
        assert_same(&copy, &filter, &recorded.name);
        // Counts decide what is written: an array without set bits is an empty string.
        assert_eq!(saved(&copy), saved(&filter), "{}", recorded.name);
        assert_answers(&copy, &recorded);
    }
}

#[test]
fn every_filter_goes_on() {
    const NEW_ITEMS: u32 = 300;
    for recorded in recordings() {
        let mut filter = restored(&recorded);
        let mut held = recorded.items.all();
        for number in 0..NEW_ITEMS {
            // Any encoding takes a number.
            let item = format!("88{number}").into_bytes();
            match filter.add(&item, &ANY, NoPrefetch) {
                Ok(_) => held.push(item),
                Err(error) => assert_eq!((error, filter.growth()), (AddError::Full, Growth::Fixed)),
            }
        }
        // One of valkey-bloom's, of 16 bits for 50 items, says yes to everything.
        let is_saturated = !recorded.answers.contains('0');
        let may_stay = filter.growth() == Growth::Fixed || is_saturated;
        assert!(filter.items() > recorded.cardinality || may_stay, "{}", recorded.name);
        assert!(held.iter().all(|item| filter.contains(item, NoPrefetch)), "{}", recorded.name);
    }
}

/// The recordings are what they are meant to be: strings of every length, and empty ones for clear chunks.
#[test]
fn arrays_of_every_size_are_among_the_recordings() {
    let fields = |name: &str| {
        let record = Payload::read(&recording(name).dump).record;
        record.0.into_iter().map(|field| if let Field::Bytes(bytes) = field { bytes.len() } else { panic!() })
    };
    const CHUNK: usize = 16 << 20;
    assert!(fields("everbloom-paged-chunks").eq([72, 0, CHUNK, 0]));
    assert!(fields("everbloom-paged-0.9").eq([72, CHUNK, 20_836_352 - CHUNK]));
    assert!(fields("everbloom-empty-paged").eq([72, 0]));
    assert!(fields("everbloom-paged-behind-scattered").eq([112, 128, 5_746_688]));
    assert!(fields("imported-with-paged-behind").eq([120, 150, 4_210_688]));
    assert!(fields("everbloom-grown-by-1").len() == 41);
}
