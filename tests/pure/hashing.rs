//! Hashes and positions. An independent implementation of docs/formats.md checks which bits are set in every layout of
//! everbloom's own. Items that are crafted without the key of a keyed filter do not collide in it.

use std::collections::HashSet;

use everbloom_filter::bits::sizing::LayerShape;
use everbloom_filter::generation::WindowLength;
use everbloom_filter::hash::murmur3::hash128;
use everbloom_filter::hash::siphash::HashKey;
use everbloom_filter::{Filter, FilterSpec, Hash, ItemHash, Policy, Rules, Window};

use crate::support::Random;
use crate::support::make::{
    self, ANY, START_MS, add, contains, promise, saturating, set_bits, set_time, unreserved,
};

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

/// Returns the bits and the segments of a filter.
fn contents(filter: &Filter) -> Vec<Vec<u8>> {
    let layers = filter.layers().iter().map(|layer| layer.bits().bytes().to_vec());
    let segments = filter.table().into_iter().flat_map(|table| table.segments());
    let table = segments
        .map(|(_, words, stamp)| words.iter().chain([&stamp]).flat_map(|word| word.to_le_bytes()).collect());
    layers.chain(table).collect()
}

/// Returns the item of 16 bytes whose MurmurHash3 x64_128 with seed 0 is `hash`. Inverts every step of the hash.
pub(crate) fn preimage(hash: ItemHash) -> [u8; 16] {
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
fn a_keyed_filter_differs_from_a_plain_one_only_by_its_hash() {
    let window = Window::new(WindowLength::new(60_000), false);
    for policy in [
        Policy::Everbloom(promise(0.01, 100, 2)),
        Policy::Everbloom(promise(0.001, 10, 2)),
        Policy::Everbloom(saturating(0.01, 60)),
        Policy::Everbloom(promise(0.01, 3_000_000, 0)),
        Policy::Everbloom(unreserved(0.01, 100, 2)),
        Policy::promised(promise(0.01, 20, 2), Rules::Counting(Default::default())),
        Policy::promised(promise(0.01, 20, 2), Rules::Window(window)),
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

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
/// The initial hash value of SHA-512 (FIPS 180-4, section 5.3.5).
const SHA_512_INITIAL: [u64; 8] = [
    0x6a09_e667_f3bc_c908,
    0xbb67_ae85_84ca_a73b,
    0x3c6e_f372_fe94_f82b,
    0xa54f_f53a_5f1d_36f1,
    0x510e_527f_ade6_82d1,
    0x9b05_688c_2b3e_6c1f,
    0x1f83_d9ab_fb41_bd6b,
    0x5be0_cd19_137e_2179,
];

fn high(a: u64, b: u64) -> u64 {
    ((u128::from(a) * u128::from(b)) >> 64) as u64
}

/// Returns the positions of an item as docs/formats.md specifies them.
fn positions(shape: &LayerShape, item: &[u8]) -> Vec<u64> {
    let hash = hash128(item);
    let probes = u64::from(shape.probes);
    if shape.lines == 0 {
        let mut x = hash.h1 ^ hash.h2.rotate_left(29) ^ GOLDEN;
        return (0..probes)
            .map(|_| {
                let position = high(x, shape.positions);
                x = x.wrapping_mul(GOLDEN);
                position
            })
            .collect();
    }
    let lines = u64::from(shape.lines);
    let page = high(hash.h1, shape.positions / (64 * 512));
    let of_line = |role: u64| {
        let line = hash.h2.wrapping_add(role.wrapping_mul(hash.h2 >> 6 | 1)) % 64;
        let x = (hash.h2 ^ hash.h2 >> 29 ^ GOLDEN).wrapping_mul(SHA_512_INITIAL[role as usize] | 1);
        let count = probes / lines + u64::from(role < probes % lines);
        (0..count).map(move |probe| (page * 64 + line) * 512 + (x << (9 * probe) >> 55))
    };
    (0..lines).flat_map(of_line).collect()
}

#[test]
fn every_item_sets_the_bits_at_its_positions_and_no_other() {
    let seed = 0x706f_7369;
    // Scattered and paged, with one to eight lines.
    for (error_rate, capacity) in [
        (0.01, 100),
        (1e-9, 5),
        (0.01, 50_000),
        (0.4, 5_000_000),
        (0.01, 2_000_000),
        (1e-3, 1_500_000),
        (1e-6, 900_000),
        (1e-9, 600_000),
    ] {
        let (mut filter, mut random) = (make::plain(promise(error_rate, capacity, 0)), Random(seed));
        let shape = filter.layers()[0].shape().unwrap();
        let mut expected = HashSet::new();
        for _ in 0..capacity.min(300) {
            let item = random.next().to_le_bytes();
            if add(&mut filter, &item).is_ok() {
                assert!(contains(&filter, &item), "seed {seed}, {shape:?}");
                expected.extend(positions(&shape, &item));
            }
        }
        let bits = filter.layers()[0].bits();
        let bytes = bits.bytes();
        let is_set = |position: &u64| bytes[(position / 8) as usize] >> (position % 8) & 1 == 1;
        assert!(expected.iter().all(is_set), "seed {seed}, {shape:?}");
        let ones: u32 = bits.words().map(|word| word.count_ones()).sum();
        assert_eq!(ones as usize, expected.len(), "seed {seed}, {shape:?}");
        assert_eq!(set_bits(&filter), expected.len() as u64, "seed {seed}, {shape:?}");
    }
}
