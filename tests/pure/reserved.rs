//! The total of the memory that filters have reserved and not written to.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::support::Random;
use crate::support::reserved::ReservedBlocks;

/// Blocks whose reserved bytes the test knows.
#[derive(Default)]
struct Memory(BTreeMap<usize, (usize, usize)>);

impl Memory {
    fn reserved_bytes(&self) -> u64 {
        self.0.values().map(|(_, reserved)| *reserved as u64).sum()
    }

    /// Measures until at most `wanted_bytes` are reserved. Returns the number of measured blocks.
    fn measure(&self, blocks: &mut ReservedBlocks, wanted_bytes: u64) -> usize {
        let mut measured = 0;
        blocks.measure(wanted_bytes, |Range { start, end }| {
            measured += 1;
            let (size, reserved) = self.0[&start];
            assert_eq!(end - start, size);
            reserved
        });
        measured
    }
}

#[test]
fn a_measured_total_is_exact_and_never_too_low() {
    for seed in 0..200 {
        let (mut random, mut memory, mut blocks) =
            (Random(seed), Memory::default(), ReservedBlocks::default());
        for step in 0..200 {
            let at = 1000 * random.below(40);
            match random.below(5) {
                0 | 1 => {
                    let size = 1 + random.below(900);
                    memory.0.insert(at, (size, size));
                    blocks.add(at, size);
                }
                2 => {
                    memory.0.remove(&at);
                    blocks.remove(at);
                }
                3 => {
                    // Some of a block is written to.
                    if let Some((_, reserved)) = memory.0.get_mut(&at) {
                        *reserved = random.below(*reserved + 1);
                    }
                }
                _ => {
                    let wanted = random.below(5000) as u64;
                    memory.measure(&mut blocks, wanted);
                    let total = blocks.total_bytes();
                    assert!(total <= wanted || total == memory.reserved_bytes(), "seed {seed}, step {step}");
                }
            }
            assert!(blocks.total_bytes() >= memory.reserved_bytes(), "seed {seed}, step {step}");
        }
        memory.measure(&mut blocks, 0);
        assert_eq!(blocks.total_bytes(), memory.reserved_bytes(), "seed {seed}");
        memory.0.keys().for_each(|at| blocks.remove(*at));
        assert_eq!(blocks.total_bytes(), 0, "seed {seed}");
    }
}

#[test]
fn only_blocks_that_may_be_reserved_are_measured() {
    let (mut memory, mut blocks) = (Memory::default(), ReservedBlocks::new());
    for at in 1..=10 {
        memory.0.insert(at * 100, (50, 50));
        blocks.add(at * 100, 50);
    }
    assert_eq!((blocks.total_bytes(), memory.measure(&mut blocks, 500)), (500, 0));
    // Four blocks are filled. Measuring ends when little enough is reserved.
    (1..=4).for_each(|at| memory.0.get_mut(&(at * 100)).unwrap().1 = 0);
    assert_eq!((memory.measure(&mut blocks, 400), blocks.total_bytes()), (2, 400));
    assert_eq!((memory.measure(&mut blocks, 10), blocks.total_bytes()), (8, 300));
    // Full blocks are never measured again.
    assert_eq!((memory.measure(&mut blocks, 0), blocks.total_bytes()), (6, 300));
    // Pages that a child shares look reserved, but nothing becomes reserved again.
    memory.0.get_mut(&500).unwrap().1 = 20;
    assert_eq!((memory.measure(&mut blocks, 0), blocks.total_bytes()), (6, 270));
    memory.0.get_mut(&500).unwrap().1 = 50;
    assert_eq!((memory.measure(&mut blocks, 0), blocks.total_bytes()), (6, 270));
    // An address is used again.
    blocks.add(500, 80);
    assert_eq!(blocks.total_bytes(), 330);
    blocks.remove(12_345);
    blocks.remove(500);
    assert_eq!(blocks.total_bytes(), 250);
}
