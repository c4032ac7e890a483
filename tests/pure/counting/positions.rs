//! Counters are where docs/formats.md says.

use std::collections::HashMap;

use everbloom::bloom::counting::{COUNT_FULL, COUNTER_BITS, CountedProbing};
use everbloom::bloom::everbloom::{LayerShape, Layout};
use everbloom::bloom::layer::Layer;
use everbloom::bloom::{Storage, hash128};

use crate::support::Random;
use super::{ANY, chain};

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

/// The positions of an item by the words of the document.
fn positions(shape: &LayerShape, item: &[u8]) -> Vec<u64> {
    let hash = hash128(item);
    match shape.layout {
        Layout::Scattered => {
            let mut x = hash.h1 ^ hash.h2.rotate_left(29) ^ GOLDEN;
            (0..shape.probes)
                .map(|_| {
                    let position = high(x, shape.size_bits);
                    x = x.wrapping_mul(GOLDEN);
                    position
                })
                .collect()
        }
        Layout::Paged { lines } => {
            let (lines, probes) = (u64::from(lines), u64::from(shape.probes));
            let page = high(hash.h1, shape.size_bits / 32_768);
            let line_positions = |role: u64| {
                let line = hash.h2.wrapping_add(role.wrapping_mul(hash.h2 >> 6 | 1)) % 64;
                let x = (hash.h2 ^ hash.h2 >> 29 ^ GOLDEN).wrapping_mul(SHA_512_INITIAL[role as usize] | 1);
                let few = probes / lines + u64::from(role < probes % lines);
                (0..few).map(move |probe| page * 32_768 + line * 512 + (x << (9 * probe) >> 55))
            };
            (0..lines).flat_map(line_positions).collect()
        }
    }
}

/// The count at a position by the words of the document, from the bytes.
fn count(layer: &Layer<CountedProbing>, position: u64) -> u32 {
    let bytes = layer.storage().bytes();
    let plane = |plane: u64| {
        let bit = position / 512 * 2048 + plane * 512 + position % 512;
        u32::from(bytes[(bit / 8) as usize] >> (bit % 8) & 1)
    };
    if plane(0) == 0 { 0 } else { 1 + plane(1) + 2 * plane(2) + 4 * plane(3) }
}

#[test]
fn every_item_is_counted_at_its_positions_in_four_planes() {
    let seed = 0x706f_7369;
    let mut random = Random(seed);
    for (error_rate, capacity) in [(0.01, 100), (1e-9, 5), (0.01, 50_000), (0.01, 2_000_000), (1e-6, 900_000)]
    {
        let mut chain = chain(error_rate, capacity, 0);
        let mut expected: HashMap<u64, u32> = HashMap::new();
        let shape = chain.layers()[0].shape();
        assert_eq!(chain.layers()[0].storage().size_bits(), shape.size_bits * COUNTER_BITS);
        assert!(shape.size_bits.is_multiple_of(512));
        for _ in 0..capacity.min(300) {
            let item = random.next().to_le_bytes();
            for _ in 0..random.below(3) {
                // Of a new item only: what is there already is the business of other tests.
                if chain.add(chain.digest(&item), &ANY).is_ok() {
                    for position in positions(&shape, &item) {
                        let count = expected.entry(position).or_default();
                        *count = (*count + 1).min(COUNT_FULL);
                    }
                }
            }
        }
        let layer = &chain.layers()[0];
        for (position, expected) in &expected {
            assert_eq!(
                (count(layer, *position), layer.storage().count(*position)),
                (*expected, *expected),
                "seed {seed}"
            );
        }
        assert_eq!(layer.counts().set_bits, expected.len() as u64, "seed {seed}");
        let ones: u32 = layer.storage().words().iter().map(|word| word.count_ones()).sum();
        let by_count: u32 = expected.values().map(|count| 1 + (count - 1).count_ones()).sum();
        assert_eq!(ones, by_count, "seed {seed}");
    }
}
