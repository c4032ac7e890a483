//! The limits of a client's filter that was taken over: bytes, and what its counts may be.

use everbloom::bloom::client::check_size;
use everbloom::bloom::client::{
    BitOrder, ItemEncoding, Scheme, SchemeParameters, SchemePlacement, StringForm, estimated_items,
};
use everbloom::bloom::limits::{CAPACITY_MAX_ITEMS, EXPANSION_MAX};
use everbloom::bloom::{Bits, Chain, Growth, ReserveError};
use everbloom::format::DecodeError;
use everbloom::format::client::header::{ClientChain, decode, encode};

/// No limit.
const ANY: u64 = u64::MAX;

/// A client's filter of 1000 bits and one probe, empty.
fn taken_over(capacity_items: u64) -> (SchemePlacement, ClientChain) {
    let (scheme, encoding) = (Scheme::Murmur3Salted, ItemEncoding::Raw);
    let parameters = SchemeParameters { scheme, encoding, shift: 0, probes: 1, size_bits: 1000 };
    let placement = SchemePlacement::new(parameters).unwrap();
    let form = StringForm { order: BitOrder::Msb, length_bytes: 0 };
    let bits = Bits::try_zeroed(1000).unwrap();
    let growth = Growth::Scaling { expansion: 2 };
    (placement, Chain::take_over(placement, form, bits, capacity_items, 0.01, growth).unwrap())
}

fn built(header: &[u8], limit_bytes: u64) -> Result<ClientChain, DecodeError> {
    decode(header, &limit_bytes)?.build().map(|(chain, _)| chain)
}

#[test]
fn a_clients_filter_is_taken_over_within_the_limit_it_needs_and_not_a_byte_less() {
    let (placement, mut chain) = taken_over(10);
    let (needed_bytes, limit_bytes) = (chain.size_bytes(), chain.size_bytes() - 1);
    assert_eq!(check_size(&placement, &needed_bytes), Ok(()));
    let refused = Err(ReserveError::TooLarge { needed_bytes, limit_bytes });
    assert_eq!(check_size(&placement, &limit_bytes), refused);
    for _ in 0..3 {
        let header = encode(&chain);
        let (needed_bytes, limit_bytes) = (chain.size_bytes(), chain.size_bytes() - 1);
        assert!(built(&header, needed_bytes).is_ok());
        let refused = DecodeError::TooLarge { needed_bytes, limit_bytes };
        assert_eq!(built(&header, limit_bytes).unwrap_err(), refused);
        let layers = chain.layers().len();
        for item in 0.. {
            if chain.layers().len() > layers {
                break;
            }
            chain.add(chain.digest(format!("{layers} {item}").as_bytes()), &ANY).unwrap();
        }
    }
}

#[test]
fn a_clients_filter_counts_no_more_than_its_array_can_stand_for() {
    // Items estimated at offset 48, items at 64.
    let outcome = |capacity_items: u64, estimated_items: u64, items: u64| {
        let mut header = encode(&taken_over(capacity_items).1);
        header[48..56].copy_from_slice(&estimated_items.to_le_bytes());
        header[64..72].copy_from_slice(&items.to_le_bytes());
        built(&header, ANY)
    };
    let refused = Err(DecodeError::Invalid("items"));
    let most_estimated = estimated_items(1000, 1000, 1);
    assert_eq!(most_estimated, 6908);
    assert!(outcome(10, most_estimated, most_estimated).is_ok());
    assert_eq!(outcome(10, most_estimated + 1, most_estimated + 1).map(|_| ()), refused);
    assert_eq!(outcome(10, 11, 10).map(|_| ()), refused);
    assert!(outcome(10, 10, most_estimated + 1000).is_ok());
    assert_eq!(outcome(10, 10, most_estimated + 1001).map(|_| ()), refused);
    assert_eq!(outcome(10, 0, 1 << 63).map(|_| ()), refused);
    // Items that are added while the bits are still to come count up to the capacity, and no further.
    let mut chain = outcome(10_000, 0, 9_999).unwrap();
    for item in 0..100u8 {
        chain.add(chain.digest(&[item]), &ANY).unwrap();
        assert!(chain.layers()[0].counts().items <= 10_000 && built(&encode(&chain), ANY).is_ok());
    }
    assert_eq!(outcome(10_000, 0, 10_001).map(|_| ()), refused);
}

#[test]
fn every_wrong_field_of_a_clients_header_is_refused() {
    let good = encode(&taken_over(10).1);
    let with = |at: usize, value: &[u8]| {
        let mut header = good.clone();
        header[at..at + value.len()].copy_from_slice(value);
        built(&header, ANY).map(|_| ())
    };
    let invalid = |field| Err(DecodeError::Invalid(field));
    assert_eq!(with(12, &EXPANSION_MAX.to_le_bytes()), Ok(()));
    assert_eq!(with(12, &(EXPANSION_MAX + 1).to_le_bytes()), invalid("expansion"));
    for error_rate in [0.0, 1.0, -0.5, f64::NAN, f64::INFINITY] {
        assert_eq!(with(16, &error_rate.to_le_bytes()), invalid("error rate"), "{error_rate}");
    }
    for (at, what) in [(24, "scheme"), (25, "encoding"), (26, "bit order")] {
        assert_eq!(with(at, &[200]), Err(DecodeError::Unsupported { what, got: 200 }));
    }
    assert_eq!(with(28, &0u32.to_le_bytes()), invalid("scheme"));
    assert_eq!(with(32, &0u64.to_le_bytes()), invalid("scheme"));
    assert_eq!(with(40, &u64::MAX.to_le_bytes()), invalid("string length"));
    assert_eq!(with(56, &CAPACITY_MAX_ITEMS.to_le_bytes()), Ok(()));
    for capacity_items in [0, CAPACITY_MAX_ITEMS + 1, u64::MAX] {
        assert_eq!(with(56, &capacity_items.to_le_bytes()), invalid("capacity"), "{capacity_items}");
    }
    assert_eq!(with(72, &1000u64.to_le_bytes()), Ok(()));
    assert_eq!(with(72, &1001u64.to_le_bytes()), invalid("set bits"));
}
