//! The bytes of Guava's `writeTo`: read, written, and changed by hostile input.

use everbloom_filter::bits::layout::SchemeLayout;
use everbloom_filter::encoding::ItemEncoding;
use everbloom_filter::filter::policy::BitOrder;
use everbloom_filter::hash::scheme::{Scheme, SchemeParameters};
use everbloom_format::client::bitmap;
use everbloom_format::client::guava::{GUAVA_HEADER_BYTES, GuavaError, GuavaHeader};

use super::vectors::{Array, system};

const GUAVA: [&str; 2] = ["guava-mitz32", "guava-mitz64"];

#[test]
fn guavas_bytes_are_read_and_written_unchanged() {
    for name in GUAVA {
        let system = system(name);
        let blob = system.string("/guava_writeTo_b64");
        let (parameters, form, bits) = GuavaHeader::read(&blob, ItemEncoding::Raw).unwrap();
        let expected = system.layout_of(&system.json["bitmap"]);
        assert_eq!(SchemeLayout::new(parameters), Ok(expected));
        let (_, from_redis) =
            bitmap::read(&system.string("/bitmap/redis_string_b64"), BitOrder::Msb, expected.array_bits())
                .unwrap();
        assert_eq!(bits.bytes(), from_redis.bytes());
        assert_eq!(GuavaHeader::of(&parameters).unwrap().write(&bits).unwrap(), blob);
        assert_eq!(bitmap::write(form, &bits).unwrap(), blob[GUAVA_HEADER_BYTES..]);
        // Rebuilt from its items.
        let (_, _, bits) = GuavaHeader::read(&cleared(&blob), ItemEncoding::Raw).unwrap();
        let mut array = Array::new(expected, bits);
        for member in system.items("members") {
            array.insert(&member).unwrap();
        }
        assert_eq!(GuavaHeader::of(&parameters).unwrap().write(array.bits()).unwrap(), blob);
    }
}

/// Returns the blob with all bits clear.
fn cleared(blob: &[u8]) -> Vec<u8> {
    let mut blob = blob.to_vec();
    blob[GUAVA_HEADER_BYTES..].fill(0);
    blob
}

#[test]
fn a_truncated_blob_or_one_with_more_bytes_is_refused() {
    for name in GUAVA {
        let mut blob = system(name).string("/guava_writeTo_b64");
        for length in 0..blob.len() {
            let error = if length < GUAVA_HEADER_BYTES {
                GuavaError::Truncated
            } else {
                GuavaError::Length { expected_bytes: blob.len() as u64, got_bytes: length as u64 }
            };
            assert_eq!(GuavaHeader::read(&blob[..length], ItemEncoding::Raw).unwrap_err(), error);
        }
        blob.push(0);
        assert!(GuavaHeader::decode(&blob).is_err());
    }
}

#[test]
fn every_value_at_the_edge_of_a_field_is_refused_or_valid() {
    let blob = system("guava-mitz64").string("/guava_writeTo_b64");
    for strategy in 2..=255 {
        let altered = with(&blob, 0, &[strategy]);
        assert_eq!(GuavaHeader::decode(&altered), Err(GuavaError::Strategy(strategy)));
    }
    assert_eq!(GuavaHeader::decode(&with(&blob, 1, &[0])), Err(GuavaError::Probes));
    for probes in 1..=255 {
        let header = GuavaHeader::decode(&with(&blob, 1, &[probes])).unwrap();
        assert!(SchemeLayout::new(header.parameters(ItemEncoding::Raw)).is_ok());
    }
    for longs in [0, -1, i32::MIN] {
        assert_eq!(GuavaHeader::decode(&with(&blob, 2, &longs.to_be_bytes())), Err(GuavaError::Longs));
    }
    // A length that the bytes do not have takes no memory, however large it is.
    for longs in [1, 109, 111, 1 << 24, i32::MAX] {
        let expected_bytes = longs as u64 * 8 + 6;
        let error = GuavaError::Length { expected_bytes, got_bytes: 886 };
        assert_eq!(GuavaHeader::decode(&with(&blob, 2, &longs.to_be_bytes())), Err(error));
    }
}

/// Returns the blob with other bytes at an offset.
fn with(blob: &[u8], offset: usize, bytes: &[u8]) -> Vec<u8> {
    let mut blob = blob.to_vec();
    blob[offset..offset + bytes.len()].copy_from_slice(bytes);
    blob
}

#[test]
fn only_guavas_filters_are_written_in_its_form() {
    let guava = |scheme, size_bits, probes, shift| {
        let encoding = ItemEncoding::Raw;
        GuavaHeader::of(&SchemeParameters { scheme, encoding, shift, probes, size_bits }).is_some()
    };
    let longs_max = u64::from(u32::MAX >> 1);
    assert!(guava(Scheme::GuavaMitz32, 64, 1, 0) && guava(Scheme::GuavaMitz64, longs_max * 64, 255, 0));
    assert!(!guava(Scheme::GuavaMitz64, (longs_max + 1) * 64, 255, 0));
    assert!(!guava(Scheme::GuavaMitz64, 7001, 5, 0) && !guava(Scheme::GuavaMitz64, 0, 5, 0));
    assert!(!guava(Scheme::GuavaMitz64, 64, 5, 6) && !guava(Scheme::CsharpNetfxMitz64, 64, 5, 0));
    assert!(!guava(Scheme::GuavaMitz64, 64, 0, 0) && !guava(Scheme::GuavaMitz64, 64, 256, 0));
}
