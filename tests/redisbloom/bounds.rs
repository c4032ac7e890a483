//! Fields at and past their bounds: refused by name, or taken and kept as older releases wrote them.

use everbloom::bloom::limits::LAYERS_MAX;
use everbloom::format::DecodeError;
use everbloom::format::redisbloom::{dump, rdb};

use super::hostile::{LIMIT_BYTES, bases};
use super::support::Field;
use super::{ANY, add, contains, load, saved};

#[test]
fn what_redisbloom_takes_and_breaks_on_is_refused_by_name() {
    let (_, record) = bases().swap_remove(0);
    let refused = |changes: &[(usize, Field)]| {
        let mut altered = record.clone();
        for (index, field) in changes {
            altered.0[*index] = field.clone();
        }
        rdb::load(&mut altered.reader(), 4, &LIMIT_BYTES).map(|_| ()).unwrap_err()
    };
    let unsigned = |index, value| (index, Field::Unsigned(value));
    let double = |index, value| (index, Field::Double(value));
    // Chain: items, layers, options, growth. Layer: capacity, error rate, probes, bits per item, bits, exponent, array, items.
    for (changes, field) in [
        (&[unsigned(1, 0)][..], "layer count"),
        (&[unsigned(1, LAYERS_MAX as u64 + 1)], "layer count"),
        (&[unsigned(3, 1 << 32)], "growth"),
        (&[unsigned(4, 0)], "capacity"),
        (&[unsigned(4, u64::MAX)], "capacity"),
        (&[double(5, f64::NAN)], "error rate"),
        (&[double(5, 0.0)], "error rate"),
        (&[double(5, 1.0)], "error rate"),
        // The 2^31 probes that keep a server busy for seconds per item.
        (&[unsigned(6, 1 << 31), double(7, f64::NAN)], "bits per item"),
        (&[unsigned(6, 1 << 31), double(7, 3.1e9)], "bits per item"),
        // One more than there may be, and a number that RedisBloom cuts to the right one.
        (&[unsigned(6, 2049), double(7, 2955.0)], "bits per item"),
        (&[unsigned(6, (1 << 32) + 5)], "probes"),
        (&[unsigned(6, 0), double(7, 0.0)], "bits per item"),
        (&[unsigned(8, 0)], "size in bits"),
        (&[unsigned(8, 128)], "size of the bit array"),
        (&[unsigned(8, 56)], "size of the bit array"),
        (&[unsigned(9, 64)], "binary logarithm of the bits"),
        (&[unsigned(9, 256)], "binary logarithm of the bits"),
        (&[unsigned(9, 7)], "size in bits"),
        (&[unsigned(8, 0), unsigned(9, 7)], "size of the bit array"),
        (&[(10, Field::Bytes(vec![0; 7]))], "size of the bit array"),
        (&[(10, Field::Bytes(vec![]))], "size of the bit array"),
        (&[unsigned(0, 41)], "items"),
        (&[unsigned(11, u64::MAX)], "items of the layers"),
    ] {
        assert_eq!(refused(changes), DecodeError::Invalid(field), "{changes:?}");
    }
    assert_eq!(refused(&[unsigned(2, 16)]), DecodeError::Unsupported { what: "options", got: 16 });
    assert_eq!(refused(&[unsigned(2, 261)]), DecodeError::Unsupported { what: "options", got: 261 });
    assert_eq!(
        refused(&[unsigned(8, 1 << 40)]),
        DecodeError::TooLarge { needed_bytes: 1 << 37, limit_bytes: LIMIT_BYTES }
    );
    assert_eq!(
        rdb::load(&mut record.reader(), 5, &ANY).map(|_| ()).unwrap_err(),
        DecodeError::Unsupported { what: "encoding version", got: 5 }
    );
}

#[test]
fn what_only_older_releases_wrote_is_taken_and_kept() {
    let (_, record) = bases().swap_remove(0);
    let Field::Bytes(bytes) = &record.0[10] else { panic!("the array") };
    assert_eq!(bytes.len(), 8);
    for changes in [
        // A power of two without its bits, also in an array that is longer.
        &[(8, Field::Unsigned(0)), (9, Field::Unsigned(6))][..],
        &[(8, Field::Unsigned(0)), (9, Field::Unsigned(5))],
        &[(9, Field::Unsigned(6))],
        &[(9, Field::Unsigned(3))],
        // Bits that do not fill the last byte, or the last word.
        &[(8, Field::Unsigned(57))],
        &[(8, Field::Unsigned(40)), (10, Field::Bytes(vec![1; 5]))],
        // Capacities and rates that today's commands refuse.
        &[(4, Field::Unsigned(1 << 31))],
        &[(5, Field::Double(0.9))],
        // As many probes as there may be.
        &[(6, Field::Unsigned(2048)), (7, Field::Double(2954.0))],
        // More items than the capacity: the layer is full.
        &[(4, Field::Unsigned(1))],
        &[(3, Field::Unsigned(0))],
        &[(3, Field::Unsigned(u64::from(u32::MAX)))],
    ] {
        let mut altered = record.clone();
        for (index, field) in changes {
            altered.0[*index] = field.clone();
        }
        let mut chain = load(&altered, 4);
        assert_eq!(saved(&chain), altered, "{changes:?}");
        let from_header = dump::chain_from_header(&dump::piece(&chain, 0).unwrap().data, &ANY).unwrap();
        assert_eq!(dump::piece(&from_header, 0), dump::piece(&chain, 0), "{changes:?}");
        if altered.0[3] == record.0[3] {
            add(&mut chain, b"one more");
            assert!(contains(&chain, b"one more"), "{changes:?}");
        }
    }
}
