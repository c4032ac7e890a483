//! Bytes that are no filter.

use everbloom::bloom::limits::LAYER_OCCURRENCES_MAX;
use everbloom::bloom::{Filter, NoPrefetch};
use everbloom::format::DecodeError;
use everbloom::format::filter::from_header;

use super::bytes::samples;
use crate::support::saved::{loaded, saved, string};
use crate::support::{Field, Random};
use super::{ANY, reserve};

/// The most that a hostile filter may take.
const LIMIT_BYTES: u64 = 64 << 20;

#[test]
fn every_wrong_field_is_refused() {
    let mut filter = reserve(0.01, 100, 2);
    filter.add(b"hello", &ANY, NoPrefetch).unwrap();
    let good = saved(&mut filter);
    assert!(loaded(&good, LIMIT_BYTES).is_ok());
    let wrong = |at: usize, value: &[u8]| {
        let mut record = good.clone();
        string(&mut record, 0)[at..at + value.len()].copy_from_slice(value);
        loaded(&record, LIMIT_BYTES).err().unwrap_or_else(|| panic!("{value:?} at {at}"))
    };
    assert_eq!(wrong(6, &[99, 0]), DecodeError::Unsupported { what: "kind", got: 99 });
    assert_eq!(wrong(6, &[1, 0]), DecodeError::Invalid("header length"));
    assert_eq!(wrong(40, &1088u64.to_le_bytes()), DecodeError::Invalid("size in bits"));
    assert_eq!(wrong(40, &0u64.to_le_bytes()), DecodeError::Invalid("size in bits"));
    assert_eq!(wrong(40, &2048u64.to_le_bytes()), DecodeError::Invalid("chunk length"));
    assert!(matches!(wrong(40, &(1u64 << 43).to_le_bytes()), DecodeError::TooLarge { .. }));
    assert_eq!(wrong(40, &u64::MAX.to_le_bytes()), DecodeError::Invalid("size in bits"));
    assert_eq!(wrong(48, &0u64.to_le_bytes()), DecodeError::Invalid("capacity"));
    assert_eq!(wrong(56, &(LAYER_OCCURRENCES_MAX + 1).to_le_bytes()), DecodeError::Invalid("items"));
    assert_eq!(wrong(64, &8u64.to_le_bytes()), DecodeError::Invalid("set bits"));
    // One item was added once.
    assert_eq!(wrong(72, &2u64.to_le_bytes()), DecodeError::Invalid("distinct items"));
    assert_eq!(wrong(72, &u64::MAX.to_le_bytes()), DecodeError::Invalid("distinct items"));
    assert_eq!(wrong(32, &[3]), DecodeError::Unsupported { what: "layout", got: 3 });
    // More occurrences than the capacity are no mistake.
    let mut record = good.clone();
    string(&mut record, 0)[56..64].copy_from_slice(&LAYER_OCCURRENCES_MAX.to_le_bytes());
    let mut filter = loaded(&record, LIMIT_BYTES).unwrap();
    assert_eq!(filter.items(), LAYER_OCCURRENCES_MAX);
    filter.add(b"hello", &ANY, NoPrefetch).unwrap();
    assert_eq!(filter.items(), LAYER_OCCURRENCES_MAX);
    // More distinct items are.
    string(&mut record, 0)[72..80].copy_from_slice(&101u64.to_le_bytes());
    assert_eq!(loaded(&record, LIMIT_BYTES).err(), Some(DecodeError::Invalid("distinct items")));
}

#[test]
fn a_counter_that_is_clear_and_has_other_bits_is_refused() {
    let mut filter = reserve(0.01, 100, 2);
    filter.add(b"hello", &ANY, NoPrefetch).unwrap();
    let good = saved(&mut filter);
    let clear = match &good.0[1] {
        Field::Bytes(bytes) => (0..512).find(|bit| bytes[bit / 8] >> (bit % 8) & 1 == 0).unwrap(),
        other => panic!("{other:?}"),
    };
    for plane in 1..4 {
        let mut record = good.clone();
        string(&mut record, 1)[plane * 64 + clear / 8] |= 1 << (clear % 8);
        assert_eq!(loaded(&record, LIMIT_BYTES).err(), Some(DecodeError::Invalid("chunk")));
    }
}

#[test]
fn bytes_that_are_cut_or_changed_anywhere_never_panic() {
    let seed = 0x0068_6f73;
    let mut random = Random(seed);
    for mut filter in samples() {
        let good = saved(&mut filter);
        let header_bytes = string(&mut good.clone(), 0).len();
        for cut in 0..header_bytes.min(400) {
            let mut record = good.clone();
            string(&mut record, 0).truncate(cut);
            assert!(loaded(&record, LIMIT_BYTES).is_err(), "cut at {cut}");
            assert!(from_header(string(&mut record, 0), &LIMIT_BYTES).is_err());
        }
        for _ in 0..300 {
            let mut record = good.clone();
            let at = random.below(header_bytes);
            string(&mut record, 0)[at] ^= 1 << random.below(8);
            if let Ok(Filter::Counting(mut chain)) = loaded(&record, LIMIT_BYTES) {
                // Whatever it is, it can be used.
                let item = chain.digest(b"anything");
                let _ = chain.add(item, &LIMIT_BYTES);
                let _ = chain.remove(item);
                let _ = chain.remove(item);
            }
        }
    }
}
