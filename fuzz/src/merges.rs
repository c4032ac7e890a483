//! Merges filters of any kind. Checks that the destination holds the items of all filters, that the sources do not
//! change, that a refused merge changes nothing, that a replica gets the same filter, and that later adds keep the
//! promised error rate.

use std::collections::HashSet;

use everbloom_command::Settings;
use everbloom_filter::{BitsStats, Filter};

use super::exercise::exercise;
use super::input::Input;
use super::words::creation;
use crate::server::NOW_MS;
use crate::world::{Adding, Form, World};

const NAMES: [&[u8]; 4] = [b"p", b"q", b"r", b"s"];
const DESTINATIONS: [&[u8]; 4] = [b"p", b"q", b"new", b"other"];

/// Makes up to four filters and merges some of them several times.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let limit = input.limit_bytes();
    let mut world = World::pair(Settings { max_filter_bytes: limit, ..Settings::DEFAULT }, NOW_MS);
    for key in &NAMES[..2 + input.below(3)] {
        make(&mut world, key, &mut input);
    }
    let mut forced = HashSet::new();
    for _ in 0..6 {
        if input.is_empty() {
            break;
        }
        if input.below(3) == 0 {
            let size_bytes = world.filter(b"p").map_or(0, Filter::size_bytes);
            world.limit(input.tight_limit_bytes(size_bytes));
        }
        merge(&mut world, &mut input, &mut forced);
        world.add(b"p", Adding::default(), &input.items(10));
        world.check();
    }
    world.check_all();
    for key in DESTINATIONS {
        fill(&mut world, key, forced.contains(key));
    }
    let largest = world.server().keys.values().max_by_key(|value| value.filter().layer_count());
    if let Some(value) = largest {
        exercise(value.try_clone(everbloom_filter::UnknownMemory).unwrap(), &mut Input::new(data), limit);
    }
}

/// Largest number of items that are added to fill a filter.
const FILL_MAX_ITEMS: u64 = 4000;

/// Adds twice as many items as the filter's capacity. Asserts that the error rate is at most the promised one. After a
/// forced merge, the limit is the highest error rate that BF.STATS reports.
fn fill(world: &mut World, key: &[u8], is_forced: bool) {
    // Skips sliding-window filters, since this function adds all items at the same time.
    let Some(filter) = world.filter(key).filter(|filter| filter.window().is_none()) else { return };
    let items = filter.capacity_items().saturating_mul(2);
    let mut rate =
        |field: &[u8]| world.call(&[b"BF.INFO", key, field]).strip_prefix("*1 ,")?.parse::<f64>().ok();
    let rates = [&b"ERROR-RATE"[..], b"ERROR-RATE-MAX"].map(&mut rate);
    let [Some(promised), Some(most)] = rates else { return };
    if items > FILL_MAX_ITEMS {
        return;
    }
    let most = if is_forced { most } else { promised };
    add(world, key, b"fill", items);
    let (layers, _, whole) = world.filter(key).unwrap().stats(0);
    let deviation = layers.iter().map(|layer| deviation(layer).powi(2)).sum::<f64>().sqrt();
    let within = most * (1.0 + 1e-5) + 6.0 * deviation;
    assert!(
        whole.error_rate <= within,
        "{} of {}: {most} at most, {layers:?}",
        whole.error_rate,
        key.escape_ascii()
    );
}

/// Adds at least `items` items with this prefix, in complete batches.
fn add(world: &mut World, key: &[u8], prefix: &[u8], items: u64) {
    for batch in 0..items.div_ceil(100) {
        let names: Vec<Vec<u8>> =
            (0..100).map(|number| [prefix, format!("-{batch}-{number}").as_bytes()].concat()).collect();
        world.add(key, Adding::default(), &names);
    }
}

/// Returns the standard deviation of the error rate of a layer: the number of its set bits varies. A full layer counts
/// as one with a clear bit.
fn deviation(layer: &BitsStats) -> f64 {
    let fill = layer.set_bits.min(layer.positions - 1) as f64 / layer.positions as f64;
    let of_fill = (fill * (1.0 - fill) / layer.positions as f64).sqrt();
    if fill > 0.0 { layer.error_rate * f64::from(layer.probes) * of_fill / fill } else { 0.0 }
}

fn make(world: &mut World, key: &[u8], input: &mut Input<'_>) {
    if input.below(6) == 0 {
        let (hashes, bits) = (1 + input.below(12), 1 + u64::from(input.u16()));
        let scheme = *input.choose(&["murmur3-salted", "guava-mitz32", "csharp-netfx-mitz64"]);
        let words = format!("EMPTY SCHEME {scheme} BITS {bits} HASHES {hashes}");
        world.make(
            &[&["BF.IMPORT", str::from_utf8(key).unwrap()], &words.split(' ').collect::<Vec<_>>()[..]]
                .concat(),
        );
        world.recount(key, false);
    } else {
        let mut words = creation(input, true);
        // The words after it would be items.
        words.retain(|word| !word.eq_ignore_ascii_case(b"ITEMS"));
        world.add(key, Adding { form: Form::Insert, words: &words, ..Adding::default() }, &[b"i0".to_vec()]);
    }
    let capacity = world.filter(key).map_or(0, Filter::capacity_items);
    if capacity <= FILL_MAX_ITEMS && input.flag() {
        add(world, key, key, capacity);
    }
    for _ in 0..input.below(4) {
        let items = input.items(60);
        world.add(key, Adding::default(), &items);
    }
}

/// Merges filters. `forced` has the keys of filters with a forced merge, and of copies of such filters.
fn merge(world: &mut World, input: &mut Input<'_>, forced: &mut HashSet<&'static [u8]>) {
    let dest = *input.choose(&DESTINATIONS);
    let sources: Vec<&'static [u8]> = (0..1 + input.below(4)).map(|_| *input.choose(&NAMES)).collect();
    let (is_forced, is_made) = (input.byte() & 1 != 0, world.filter(dest).is_none());
    let reply = world.merge(dest, &sources, is_forced);
    if reply == "+OK" && (is_forced || (is_made && forced.contains(sources[0]))) {
        forced.insert(dest);
    }
}
