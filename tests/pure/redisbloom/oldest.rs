//! Encoding 0, from before release 1.0. No server with it is available, so its data is built from the table of
//! fields.

use everbloom::bloom::hash::murmur2::Murmur2;
use everbloom::bloom::{AddError, ItemHash, NoPrefetch};

use super::{add, load, parameters};
use crate::support::make::{self, contains};
use crate::support::saved::saved;
use crate::support::{Field, Record};

/// Returns a filter of one layer for `entries` at 1 % with `items`.
fn record(entries: u64, items: &[&str]) -> Record {
    let bits_per_item = f64::abs(f64::ln(0.01) / 0.480453013918201);
    let bits = (entries as f64 * bits_per_item) as u64;
    let mut bytes = vec![0; bits.div_ceil(8) as usize];
    for item in items {
        let ItemHash { h1: a, h2: b } = Murmur2::Narrow.pair(item.as_bytes());
        for i in 0..7 {
            let position = (a + i * b) % bits;
            bytes[position as usize / 8] |= 1 << (position % 8);
        }
    }
    Record(vec![
        Field::Unsigned(items.len() as u64),
        Field::Unsigned(1),
        Field::Unsigned(entries),
        Field::Double(0.01),
        Field::Unsigned(7),
        Field::Double(bits_per_item),
        Field::Bytes(bytes),
        Field::Unsigned(items.len() as u64),
    ])
}

#[test]
fn the_bits_follow_from_the_capacity_and_need_not_fill_a_byte() {
    for (entries, bits) in [(100, 958), (1000, 9585), (83, 795), (1, 9)] {
        let mut chain = load(&record(entries, &["a", "b", "c"][..entries.min(3) as usize]), 0);
        assert_eq!(parameters(&chain.layers()[0]).size_bits, bits);
        assert_eq!(chain.layers()[0].bits().size_bytes(), bits.div_ceil(8));
        assert!(contains(&chain, b"a") && !contains(&chain, b"d"));
        // Saved in the newest encoding it keeps its bits, so its items are found again.
        assert_eq!(saved(&load(&saved(&chain), 4)), saved(&chain));
        let items: Vec<String> = (0..3 * entries).map(|i| i.to_string()).collect();
        for item in &items {
            add(&mut chain, item.as_bytes());
        }
        assert!(chain.layer_count() > 1 && items.iter().all(|item| contains(&chain, item.as_bytes())));
        assert!(parameters(&chain.layers()[1]).exponent > 0);
    }
}

#[test]
fn an_unusual_growth_is_kept_and_ends_on_overflow() {
    // Releases up to 2.4 accepted any EXPANSION.
    for (growth, next_capacity_items) in [(0u32, None), (u32::MAX, None), (40_000, Some(40_000))] {
        let mut record = saved(&load(&record(1, &["a"]), 0));
        record.0[3] = Field::Unsigned(growth.into());
        let mut chain = load(&record, 4);
        assert_eq!(saved(&chain), record);
        // A growth of 2^32 - 1 gives 5.5 GB, which the limit refuses.
        let outcome = chain.add(b"b", &(1u64 << 20), NoPrefetch);
        assert_eq!(outcome.is_ok(), next_capacity_items.is_some(), "{growth}");
        assert!(!matches!(outcome, Err(AddError::Full)));
        assert!(contains(&chain, b"a"));
        if let Some(capacity_items) = next_capacity_items {
            assert!(parameters(&chain.layers()[1]).capacity_items >= capacity_items);
        } else {
            assert_eq!(saved(&chain), record);
        }
    }
    // Capacity times growth beyond 64 bits, which wraps in RedisBloom.
    let mut record = saved(&load(&record(1, &["a"]), 0));
    record.0[3] = Field::Unsigned(4);
    record.0[4] = Field::Unsigned(1 << 62);
    let mut chain = load(&record, 4);
    chain.layers_mut()[0].set_items(1 << 62);
    assert!(matches!(make::add(&mut chain, b"b"), Err(AddError::CannotGrow(_))));
    chain.layers_mut()[0].set_items(1);
    assert_eq!(saved(&chain), record);
}
