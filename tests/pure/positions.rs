//! Bits are where docs/formats.md specifies: an independent implementation for every layout of everbloom's own.

use std::collections::HashSet;

use everbloom::bloom::bits::sizing::Shape;
use everbloom::bloom::hash::murmur3::hash128;

use crate::support::Random;
use crate::support::make::{add, contains, plain, promise};

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

/// Returns the positions of an item as the document specifies them.
fn positions(shape: &Shape, item: &[u8]) -> Vec<u64> {
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
        let (mut filter, mut random) = (plain(promise(error_rate, capacity, 0)), Random(seed));
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
        let is_set = |position: &u64| bits.bytes()[(position / 8) as usize] >> (position % 8) & 1 == 1;
        assert!(expected.iter().all(is_set), "seed {seed}, {shape:?}");
        let ones: u32 = bits.words().iter().map(|word| word.count_ones()).sum();
        assert_eq!(ones as usize, expected.len(), "seed {seed}, {shape:?}");
        assert_eq!(filter.set_bits(), expected.len() as u64, "seed {seed}, {shape:?}");
    }
}
