//! The fuzz targets of fuzz/ on any compiler: with their seeds, with random changes of the seeds, and with earlier
//! findings. `make fuzz T=name S=seconds` continues from here.

mod crafted;
#[path = "../../../fuzz/seeds.rs"]
mod seeds;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use crate::support::Random;
use crate::support::fuzz::{TARGETS, Target};

/// Changed inputs per target. FUZZED_ROUNDS overrides it.
const ROUNDS: u64 = 300;

/// Runs a target. If it fails, prints the input.
fn run((name, target): Target, data: &[u8], what: &str) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| target(data))) {
        eprintln!("{name} fails on {what}: {}", data_encoding::BASE64.encode(data));
        std::panic::resume_unwind(panic);
    }
}

fn run_seeds(name: &str) {
    let target = *TARGETS.iter().find(|(target, _)| *target == name).unwrap();
    let seeds = &seeds::seeds()[name];
    assert!(seeds.len() > 5, "{name} has {} seeds", seeds.len());
    for (number, seed) in seeds.iter().enumerate() {
        run(target, seed, &format!("seed {number}"));
    }
    let rounds = std::env::var("FUZZED_ROUNDS").map_or(ROUNDS, |rounds| rounds.parse().unwrap());
    for round in 0..rounds {
        let mut random = Random(round);
        let mut data = random.choose(seeds).clone();
        for _ in 0..=random.below(6) {
            let other: &Vec<u8> = random.choose(seeds);
            alter(&mut data, other, &mut random);
        }
        run(target, &data, &format!("round {round}"));
    }
}

/// Writes the seeds of every target to the directory in FUZZ_CORPUS, as `<target>/seed-<number>`.
#[test]
fn seeds_are_written() {
    let unused = tempfile::tempdir().unwrap();
    let corpus = std::env::var_os("FUZZ_CORPUS").map_or(unused.path().to_owned(), PathBuf::from);
    for (target, seeds) in seeds::seeds() {
        let directory = corpus.join(target);
        std::fs::create_dir_all(&directory).unwrap();
        for (number, seed) in seeds.iter().enumerate() {
            std::fs::write(directory.join(format!("seed-{number:03}")), seed).unwrap();
        }
    }
}

/// Changes a byte, a bit or a word, truncates the input, or appends a part of another seed.
fn alter(data: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    let end = data.len().max(1);
    data.resize(end, 0);
    // The first bytes matter most.
    let at = if random.below(2) == 0 { random.below(end) } else { random.below(end.min(120)) };
    match random.below(8) {
        0 | 1 => data[at] = random.next() as u8,
        2 | 3 => data[at] ^= 1 << random.below(8),
        4 => {
            let word = *random.choose(&[0, 1, u64::MAX, 1 << 63, 1 << 40, 63, 64, (1 << 40) + 1]);
            data.iter_mut().skip(at).zip(word.to_le_bytes()).for_each(|(byte, value)| *byte = value);
        }
        5 => data.truncate(at),
        6 => data.insert(at, random.next() as u8),
        _ => {
            data.truncate(at);
            data.extend_from_slice(&other[random.below(other.len())..]);
        }
    }
}

macro_rules! seeded {
    ($($target:ident),*) => {$(
        #[test]
        fn $target() {
            run_seeds(stringify!($target));
        }
    )*};
}
seeded!(snapshot, chunks, blob, client, grammar, commands, cuckoo, merges, packed, windows, table);

#[test]
fn every_target_is_run_here_and_by_cargo_fuzz() {
    let manifest = include_str!("../../../fuzz/Cargo.toml");
    let here = include_str!("mod.rs");
    let seeded = here.split("seeded!(").nth(1).unwrap().split(");").next().unwrap();
    for (name, _) in TARGETS {
        assert!(manifest.contains(&format!("[[bin]]\nname = \"{name}\"\n")), "{name}");
        assert!(seeded.split(", ").any(|other| other == name), "{name}");
    }
    assert_eq!(manifest.matches("[[bin]]").count(), TARGETS.len());
}
