//! Keyed filters: without the key nobody can craft items that collide. Also their bytes.

use everbloom::bloom::generation::Span;
use everbloom::bloom::hash::murmur3::hash128;
use everbloom::bloom::hash::siphash::HashKey;
use everbloom::bloom::{Filter, FilterSpec, Hash, ItemHash, Policy, Promise, Window};

use crate::support::make::{self, ANY, START_MS, add, contains, promise, saturating, set_time, unreserved};

const KEY: [u8; 16] = *b"0123456789abcdef";

/// Returns an empty filter that is keyed, and one that is not.
fn both(policy: Policy) -> (Filter, Filter) {
    let made = |hash| {
        let mut filter = Filter::reserve(FilterSpec { policy: policy.clone(), hash }, &ANY).unwrap();
        set_time(&mut filter, START_MS);
        filter
    };
    (made(Hash::Keyed(HashKey::new(KEY))), made(Hash::Murmur3))
}

fn keyed(promise: Promise, key: [u8; 16], items: u64) -> Filter {
    let mut filter = make::own(promise, Hash::Keyed(HashKey::new(key)));
    for item in 0..items {
        add(&mut filter, format!("item-{item}").as_bytes()).unwrap();
    }
    filter
}

/// Returns the bits and the segments of a filter.
fn contents(filter: &Filter) -> Vec<Vec<u8>> {
    let layers = filter.layers().iter().map(|layer| layer.bits().bytes().to_vec());
    let table = filter.table().into_iter().flat_map(|table| {
        (0..table.segment_count())
            .filter_map(|number| table.segment(number))
            .map(|(words, stamp)| words.iter().chain([&stamp]).flat_map(|word| word.to_le_bytes()).collect())
    });
    layers.chain(table).collect()
}

/// Returns the item of 16 bytes with this MurmurHash3 x64_128 with seed 0: it inverts every step of the hash.
fn preimage(hash: ItemHash) -> [u8; 16] {
    const C1: u64 = 0x87c3_7b91_1142_53d5;
    const C2: u64 = 0x4cf5_ad43_2745_937f;
    // Newton's iteration doubles the correct bits of an inverse modulo 2^64.
    let inverse = |odd: u64| (0..6).fold(odd, |x, _| x.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(x))));
    let unmix = |mut k: u64| {
        k ^= k >> 33;
        k = k.wrapping_mul(inverse(0xc4ce_b9fe_1a85_ec53));
        k ^= k >> 33;
        k = k.wrapping_mul(inverse(0xff51_afd7_ed55_8ccd));
        k ^ (k >> 33)
    };
    let ItemHash { mut h1, mut h2 } = hash;
    h2 = h2.wrapping_sub(h1);
    h1 = h1.wrapping_sub(h2);
    (h1, h2) = (unmix(h1), unmix(h2));
    h2 = h2.wrapping_sub(h1);
    h1 = h1.wrapping_sub(h2);
    (h1, h2) = (h1 ^ 16, h2 ^ 16);
    let k2 = h2.wrapping_sub(0x3849_5ab5).wrapping_mul(inverse(5)).wrapping_sub(h1).rotate_right(31);
    let k1 = h1.wrapping_sub(0x52dc_e729).wrapping_mul(inverse(5)).rotate_right(27);
    let k2 = k2.wrapping_mul(inverse(C1)).rotate_right(33).wrapping_mul(inverse(C2));
    let k1 = k1.wrapping_mul(inverse(C2)).rotate_right(31).wrapping_mul(inverse(C1));
    [k1.to_le_bytes(), k2.to_le_bytes()].concat().try_into().unwrap()
}

#[test]
fn crafted_items_do_not_collide_in_a_keyed_filter() {
    // Scattered bits, paged bits, and a table.
    let promises = [promise(1e-6, 1000, 2), promise(1e-6, 3_000_000, 2), unreserved(1e-6, 100, 2)];
    for (kind, promise) in promises.into_iter().enumerate() {
        let (mut secret, mut plain) = both(Policy::Everbloom(promise));
        for filter in [&mut plain, &mut secret] {
            add(filter, b"victim").unwrap();
        }
        let victim = hash128(b"victim");
        let crafted: Vec<_> = (1..=2000u64)
            .map(|number| {
                let h2 = victim.h2 ^ number;
                preimage(match kind {
                    // Layout 1 depends only on `h1 XOR rotate_left(h2, 29)`.
                    0 => ItemHash { h1: victim.h1 ^ victim.h2.rotate_left(29) ^ h2.rotate_left(29), h2 },
                    // The page of layout 2 depends on the high bits of h1.
                    1 => ItemHash { h1: victim.h1 ^ number, ..victim },
                    // The entry of a small table depends on h1 and the high bits of h2.
                    _ => ItemHash { h2, ..victim },
                })
            })
            .collect();
        assert!(crafted.iter().all(|item| item.as_slice() != b"victim"));
        let hits = |filter: &Filter| crafted.iter().filter(|item| contains(filter, *item)).count();
        assert_eq!((hits(&plain), hits(&secret)), (2000, 0), "{promise:?}");
        assert!(contains(&secret, b"victim"));
    }
}

#[test]
fn two_keys_have_different_false_positives() {
    // Filled far above the capacity, so that nearly every third absent item is a false positive.
    let make = |key| keyed(saturating(0.1, 100), key, 200);
    let (one, other, same) = (make([1; 16]), make([2; 16]), make([1; 16]));
    let absent: Vec<String> = (0..2000).map(|item| format!("absent-{item}")).collect();
    let hits = |filter: &Filter| -> Vec<bool> {
        absent.iter().map(|item| contains(filter, item.as_bytes())).collect()
    };
    assert_eq!(hits(&one), hits(&same));
    let both = hits(&one).iter().zip(hits(&other)).filter(|(one, other)| **one && *other).count();
    let alone = hits(&one).iter().filter(|hit| **hit).count();
    assert!(alone > 300 && both < alone * 2 / 3, "{both} of {alone}");
}

#[test]
fn a_keyed_filter_differs_from_a_plain_one_only_by_its_hash() {
    let window = Window::new(promise(0.01, 20, 2), Span::new(60_000), false);
    for policy in [
        Policy::Everbloom(promise(0.01, 100, 2)),
        Policy::Everbloom(promise(0.001, 10, 2)),
        Policy::Everbloom(saturating(0.01, 60)),
        Policy::Everbloom(promise(0.01, 3_000_000, 0)),
        Policy::Everbloom(unreserved(0.01, 100, 2)),
        Policy::Counting(Box::new(promise(0.01, 20, 2))),
        Policy::Window(Box::new(window)),
    ] {
        // An item whose plain hash is the keyed hash of another item leaves the same bytes.
        let (mut filter, mut plain) = both(policy.clone());
        for item in 0..50u64 {
            let item = item.to_le_bytes();
            add(&mut filter, &item).unwrap();
            add(&mut plain, &preimage(HashKey::new(KEY).hash128(&item))).unwrap();
        }
        assert!(contents(&filter) == contents(&plain), "{policy:?}");
    }
}
