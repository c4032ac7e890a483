//! Cells are where docs/formats.md specifies: an independent implementation for every layout of everbloom's own and
//! all cell types.

use std::collections::HashMap;

use everbloom::bloom::cells::{COUNT_FULL, CellState};
use everbloom::bloom::hash::murmur3::hash128;
use everbloom::bloom::sizing::Shape;
use everbloom::bloom::{CellType, Layer};

use crate::support::Random;
use crate::support::make::{START_MS, add, contains, counting, plain, promise, set_time, window};

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
const WINDOW_MS: u64 = 14_000;

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
    let line_positions = if shape.cells == CellType::Columns { 32 } else { 512 };
    let page_positions = 64 * line_positions;
    let page = high(hash.h1, shape.positions / page_positions);
    let of_line = |role: u64| {
        let line = hash.h2.wrapping_add(role.wrapping_mul(hash.h2 >> 6 | 1)) % 64;
        let x = (hash.h2 ^ hash.h2 >> 29 ^ GOLDEN).wrapping_mul(SHA_512_INITIAL[role as usize] | 1);
        let count = probes / lines + u64::from(role < probes % lines);
        let in_line = move |probe: u64| {
            if line_positions == 512 {
                return x << (9 * probe) >> 55;
            }
            let (start, end) = (32 * probe / count, 32 * (probe + 1) / count);
            start + (x >> (56 - 8 * probe) & 255) * (end - start) / 256
        };
        (0..count).map(move |probe| page * page_positions + line * line_positions + in_line(probe))
    };
    (0..lines).flat_map(of_line).collect()
}

/// Returns the cell at a position as the document specifies it, from the bytes; for columns the mask of generations.
fn cell(layer: &Layer, position: u64) -> u32 {
    let bytes = layer.cells().bytes();
    let bit = |bit: u64| u32::from(bytes[(bit / 8) as usize] >> (bit % 8) & 1);
    match layer.cells().state() {
        CellState::Bits | CellState::Burst(_) => bit(position),
        CellState::Counters(_) => {
            let plane = |plane: u64| bit(position / 512 * 2048 + plane * 512 + position % 512);
            if plane(0) == 0 { 0 } else { 1 + plane(1) + 2 * plane(2) + 4 * plane(3) }
        }
        CellState::Columns(_) => (0..16).map(|column| bit(position * 16 + column) << column).sum(),
    }
}

#[test]
fn every_item_sets_the_cells_at_its_positions_and_no_other() {
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
        let promise = promise(error_rate, capacity, 0);
        for mut filter in [plain(promise), counting(promise), window(promise, WINDOW_MS)] {
            let mut random = Random(seed);
            let mut expected: HashMap<u64, u32> = HashMap::new();
            let shape = filter.layers()[0].shape().unwrap();
            let context = format!("seed {seed}, {shape:?}");
            for generation in 0..20 {
                set_time(&mut filter, START_MS + generation * 1000);
                let column = (START_MS * 14 / WINDOW_MS + 1 + generation) % 16;
                for _ in 0..capacity.min(300) / 20 + 1 {
                    let item = random.next().to_le_bytes();
                    for _ in 0..1 + random.below(3) {
                        if add(&mut filter, &item).is_err() {
                            continue;
                        }
                        assert!(contains(&filter, &item), "{context}");
                        for position in positions(&shape, &item) {
                            let cell = expected.entry(position).or_default();
                            *cell = match shape.cells {
                                CellType::Bits | CellType::Burst => 1,
                                CellType::Counters => (*cell + 1).min(COUNT_FULL),
                                CellType::Columns => *cell | 1 << column,
                            };
                        }
                    }
                }
                if shape.cells == CellType::Columns && generation == 0 {
                    // Later items overwrite columns page by page, which another test covers.
                    break;
                }
            }
            let layer = &filter.layers()[0];
            for (position, expected) in &expected {
                assert_eq!(cell(layer, *position), *expected, "{context}, {position}");
            }
            let ones: u32 = layer.cells().words().iter().map(|word| word.count_ones()).sum();
            let ones_of = |cell: &u32| match shape.cells {
                CellType::Bits | CellType::Burst | CellType::Columns => cell.count_ones(),
                CellType::Counters => 1 + (cell - 1).count_ones(),
            };
            let stamps = layer.cells().words().iter().rev().take(if shape.cells == CellType::Columns {
                shape.regions() as usize
            } else {
                0
            });
            let stamp_ones: u32 = stamps.map(|stamp| stamp.count_ones()).sum();
            assert_eq!(ones - stamp_ones, expected.values().map(ones_of).sum::<u32>(), "{context}");
            if shape.cells != CellType::Columns {
                assert_eq!(layer.counts().set_cells, expected.len() as u64, "{context}");
            }
        }
    }
}
