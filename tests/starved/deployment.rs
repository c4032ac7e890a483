//! A simulated deployment: a primary and two replicas with other settings and other clocks, whose links are late, which
//! save, restart, synchronise and fail over, under refused allocations and limits. No real server takes part.
//!
//! `DEPLOYMENT_HISTORIES=100000 cargo test -p everbloom-tests --test starved deployment` runs that many histories.
//! `DEPLOYMENT_SEED` chooses other ones.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use everbloom_command::{CuckooSettings, Settings};
use everbloom_filter::Format;

use crate::allocator::REFUSING;
use crate::support::Random;
use crate::support::server::Server;
use crate::support::world::{Adding, Form, WAYS, World};

/// Steps of a history.
const STEPS: usize = 50;
/// The window of filters with one.
const WINDOW_MS: u64 = 10_000;
const KEYS: [&[u8]; 4] = [b"a", b"b", b"c", b"d"];

/// Returns three servers. Their clocks differ by a little, or by up to two windows.
fn deployment(random: &mut Random) -> World {
    let server = |number: usize| {
        let mut server = Server::at(1_000_000);
        server.settings = Settings {
            error_rate: [0.01, 0.2, 0.001][number],
            initial_size_items: [100, 5, 1000][number],
            expansion_factor: [2, 0, 4][number],
            format: Format::ALL[number],
            keyed: number == 1,
            fixed_filters_saturate: number == 2,
            cuckoo: CuckooSettings { initial_size_items: [16, 4, 1024][number], ..CuckooSettings::DEFAULT },
            ..Settings::DEFAULT
        };
        server
    };
    let mut world = World::of((0..3).map(server).collect(), REFUSING);
    let skew_ms = *random.choose(&[50, 50, WINDOW_MS]);
    for (number, node) in world.nodes.iter_mut().enumerate() {
        node.server.now_ms += skew_ms * number as u64;
    }
    world.primary = random.below(3);
    world
}

fn item(random: &mut Random) -> Vec<u8> {
    (random.next() % 300).to_be_bytes().to_vec()
}

/// Creates a filter of a random kind, or replaces the one that is there.
fn create(world: &mut World, key: &[u8], random: &mut Random) {
    const OPTIONS: [&str; 10] = [
        "",
        "NONSCALING",
        "NONSCALING SATURATE",
        "KEYED",
        "COUNTING",
        "PWINDOW 10000",
        "PWINDOW 10000 NOREFRESH",
        "FORMAT redisbloom",
        "FORMAT valkey-bloom",
        "EXPANSION 1",
    ];
    let (name, capacity) = (String::from_utf8_lossy(key), [4, 40, 400, 4000][random.below(4)]);
    let line = if random.below(6) == 0 {
        format!("CF.RESERVE {name} {} EXPANSION {}", capacity.max(8), random.below(3))
    } else {
        format!("BF.RESERVE {name} 0.01 {capacity} {}", random.choose(&OPTIONS))
    };
    world.delete(key);
    world.make(&line.split_whitespace().collect::<Vec<_>>());
}

fn add(world: &mut World, key: &[u8], random: &mut Random) {
    let items: Vec<Vec<u8>> = (0..1 + random.below(30)).map(|_| item(random)).collect();
    let form = *random.choose(&[Form::Occurrences, Form::Insert, Form::Many, Form::Packed]);
    world.add(key, Adding { form, ..Adding::default() }, &items);
}

/// Deletes an item that is known to be there, or the oldest.
fn remove(world: &mut World, key: &[u8], random: &mut Random) {
    let chosen = item(random);
    let Some(known) = world.known.get(key) else { return };
    let oldest = known.oldest(1).pop();
    let chosen = if random.below(4) == 0 { oldest } else { known.pick(&chosen) };
    if let Some(chosen) = chosen {
        world.remove(key, random.below(2) == 0, &[chosen]);
    }
}

fn step(world: &mut World, choices: u64) {
    let random = &mut Random(choices);
    let (key, other) = (*random.choose(&KEYS), *random.choose(&KEYS));
    let node = random.below(3);
    match random.below(44) {
        0..10 => add(world, key, random),
        10..13 => create(world, key, random),
        13..16 => remove(world, key, random),
        16 => drop(world.clear(key)),
        17..20 => drop(world.merge(key, &[other], true)),
        20..28 => world.replicate(node, 1 + random.below(4)),
        28..30 => world.replicate(node, usize::MAX),
        30 => world.synchronise(node),
        31 => world.save(node),
        32 if node != world.primary => world.restart_replica(node),
        32 | 33 => world.restart(random.below(3)),
        34 => world.rewrite(),
        35 => world.fail_over(node),
        36 => {
            let most_ms = [10, WINDOW_MS / 3, 3 * WINDOW_MS][random.below(3)];
            world.wait(random.next() % most_ms);
        }
        37 => world.refuse(random.below(4) as i64),
        38 => {
            let size_bytes = world.size_bytes(key).max(1);
            let limits = [200, 1000, 10_000, size_bytes, size_bytes - 1, size_bytes / 2];
            world.limit(*random.choose(&limits));
        }
        39 | 40 => {
            let way = *random.choose(&WAYS);
            world.remake(key, other, way);
        }
        41 | 42 if key != other => drop(world.dump(key, other)),
        _ => world.limit(u64::MAX),
    }
    world.check();
}

/// Runs the steps. Returns the number of replicated commands and of acknowledged changes at the end, if all assertions
/// hold.
fn holds(seed: u64, steps: &[u64]) -> Option<(usize, usize)> {
    let run = || {
        let mut world = deployment(&mut Random(seed));
        steps.iter().for_each(|choices| step(&mut world, *choices));
        (world.history.len(), world.journal.len())
    };
    catch_unwind(AssertUnwindSafe(run)).ok()
}

#[test]
fn a_deployment_loses_nothing() {
    let number = |name: &str, default| std::env::var(name).map_or(default, |value| value.parse().unwrap());
    let (first, histories) = (number("DEPLOYMENT_SEED", 0), number("DEPLOYMENT_HISTORIES", 1000));
    let (mut commands, mut changes) = (0, 0);
    for seed in first..first + histories {
        let mut random = Random(seed);
        let mut steps: Vec<u64> = (0..STEPS).map(|_| random.next()).collect();
        if let Some(done) = holds(seed, &steps) {
            (commands, changes) = (commands + done.0, changes + done.1);
            continue;
        }
        // Leaves out every step without which the history still fails.
        for number in (0..steps.len()).rev() {
            let step = steps.remove(number);
            if holds(seed, &steps).is_some() {
                steps.insert(number, step);
            }
        }
        println!("DEPLOYMENT_SEED={seed} fails with the steps {steps:?}");
        let mut world = deployment(&mut Random(seed));
        let run = || steps.iter().for_each(|choices| step(&mut world, *choices));
        let panic = catch_unwind(AssertUnwindSafe(run)).unwrap_err();
        println!("after these replicated commands:");
        for call in &world.history {
            println!("{}", call.join(&b' ').escape_ascii());
        }
        resume_unwind(panic);
    }
    println!("{histories} histories of {STEPS} steps, {commands} replicated commands, {changes} changes");
    assert!(commands as u64 > 5 * histories && changes as u64 > 50 * histories);
}
