//! Merges filters of any kind. Checks that the destination holds the items of all filters, that the sources do not
//! change, that a refused merge changes nothing, that a replica gets the same filter, and that later adds keep the
//! promised error rate.

use std::collections::HashSet;

use everbloom_filter::hash::murmur3::hash128;
use everbloom_filter::prefetch::NoPrefetch;

use everbloom_command::Settings;
use everbloom_filter::{BitsStats, Filter};

use super::exercise::exercise;
use super::input::Input;
use super::model::Pair;
use super::words::creation;
use crate::support::saved::digested;
use crate::support::slices;

const NAMES: [&[u8]; 4] = [b"p", b"q", b"r", b"s"];
const DESTINATIONS: [&[u8]; 4] = [b"p", b"q", b"new", b"other"];

/// Makes up to four filters and merges some of them several times.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let limit = input.limit_bytes();
    let mut pair = Pair::new(Settings { max_filter_bytes: limit, ..Settings::DEFAULT });
    for key in &NAMES[..2 + input.below(3)] {
        make(&mut pair, key, &mut input);
    }
    let mut forced = HashSet::new();
    for _ in 0..6 {
        if input.is_empty() {
            break;
        }
        if input.below(3) == 0 {
            let size_bytes = pair.filter(b"p").map_or(0, Filter::size_bytes);
            pair.primary.settings.max_filter_bytes = input.tight_limit_bytes(size_bytes);
        }
        merge(&mut pair, &mut input, &mut forced);
        let items = input.items(10);
        pair.call_with(&[b"BF.MADD", b"p"], &items);
    }
    pair.assert_in_step();
    for key in DESTINATIONS {
        fill(&mut pair, key, forced.contains(key));
    }
    let largest = pair.primary.keys.values().max_by_key(|value| value.filter().layer_count());
    if let Some(value) = largest {
        exercise(value.try_clone(everbloom_filter::UnknownMemory).unwrap(), &mut Input::new(data), limit);
    }
}

/// Largest number of items that are added to fill a filter.
const FILL_MAX_ITEMS: u64 = 4000;

/// Adds twice as many items as the filter's capacity. Asserts that the error rate is at most the promised one. After a
/// forced merge, the limit is the highest error rate that BF.STATS reports.
fn fill(pair: &mut Pair, key: &[u8], is_forced: bool) {
    // Skips sliding-window filters, since this function adds all items at the same time.
    let Some(filter) = pair.filter(key).filter(|filter| filter.window().is_none()) else { return };
    let items = filter.capacity_items().saturating_mul(2);
    let mut rate =
        |field: &[u8]| pair.call(&[b"BF.INFO", key, field]).strip_prefix("*1 ,")?.parse::<f64>().ok();
    let rates = [&b"ERROR-RATE"[..], b"ERROR-RATE-MAX"].map(&mut rate);
    let [Some(promised), Some(most)] = rates else { return };
    if items > FILL_MAX_ITEMS {
        return;
    }
    let most = if is_forced { most } else { promised };
    add(pair, key, b"fill", items);
    let (layers, _, whole) = pair.filter(key).unwrap().stats(0);
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
fn add(pair: &mut Pair, key: &[u8], prefix: &[u8], items: u64) {
    for batch in 0..items.div_ceil(100) {
        let names: Vec<Vec<u8>> =
            (0..100).map(|number| [prefix, format!("-{batch}-{number}").as_bytes()].concat()).collect();
        pair.call_with(&[b"BF.MADD", key], &names);
    }
}

/// Returns the standard deviation of the error rate of a layer: the number of its set bits varies. A full layer counts
/// as one with a clear bit.
fn deviation(layer: &BitsStats) -> f64 {
    let fill = layer.set_bits.min(layer.positions - 1) as f64 / layer.positions as f64;
    let of_fill = (fill * (1.0 - fill) / layer.positions as f64).sqrt();
    if fill > 0.0 { layer.error_rate * f64::from(layer.probes) * of_fill / fill } else { 0.0 }
}

fn make(pair: &mut Pair, key: &[u8], input: &mut Input<'_>) {
    if input.below(6) == 0 {
        let (hashes, bits) = (1 + input.below(12), 1 + u64::from(input.u16()));
        let scheme = *input.choose(&["murmur3-salted", "guava-mitz32", "csharp-netfx-mitz64"]);
        let words = format!("EMPTY SCHEME {scheme} BITS {bits} HASHES {hashes}");
        pair.call(&[&[&b"BF.IMPORT"[..], key], &slices(&words.split(' ').collect::<Vec<_>>())[..]].concat());
    } else {
        let words = creation(input, true);
        let mut argv: Vec<&[u8]> = vec![b"BF.INSERT", key];
        argv.extend(slices(&words));
        argv.extend([&b"ITEMS"[..], b"i0"]);
        pair.call(&argv);
    }
    let capacity = pair.filter(key).map_or(0, Filter::capacity_items);
    if capacity <= FILL_MAX_ITEMS && input.flag() {
        add(pair, key, key, capacity);
    }
    for _ in 0..input.below(4) {
        let items = input.items(60);
        pair.call_with(&[b"BF.MADD", key], &items);
    }
}

/// Merges filters. `forced` has the keys of filters with a forced merge, and of copies of such filters.
fn merge(pair: &mut Pair, input: &mut Input<'_>, forced: &mut HashSet<&'static [u8]>) {
    let dest = *input.choose(&DESTINATIONS);
    let sources: Vec<&'static [u8]> = (0..1 + input.below(4)).map(|_| *input.choose(&NAMES)).collect();
    let force = (input.byte() & 1 != 0).then_some(&b"FORCE"[..]);
    let argv: Vec<&[u8]> =
        [&b"BF.MERGE"[..], dest].into_iter().chain(sources.iter().copied()).chain(force).collect();
    let keys: Vec<&[u8]> = sources.iter().copied().chain([dest]).collect();
    let asked: Vec<String> = (0..200).map(|number| format!("i{number}")).collect();
    let held = |filter: &Filter| {
        asked
            .iter()
            .filter(|item| filter.contains(item.as_bytes(), NoPrefetch))
            .cloned()
            .collect::<HashSet<_>>()
    };
    let before: Vec<_> = keys
        .iter()
        .map(|key| pair.filter(key).map(|filter| (hash128(&digested(filter)), held(filter))))
        .collect();
    let is_made = pair.filter(dest).is_none();
    let reply = pair.call(&argv);
    if reply == "+OK" && (force.is_some() || (is_made && forced.contains(sources[0]))) {
        forced.insert(dest);
    }
    for (key, before) in keys.iter().zip(&before) {
        let after = pair.filter(key).map(|filter| hash128(&digested(filter)));
        if **key != *dest || reply != "+OK" {
            assert_eq!(after, before.as_ref().map(|(print, _)| *print), "{reply}");
        }
    }
    if reply == "+OK" {
        let now = held(pair.filter(dest).unwrap());
        for (_, held) in before.iter().flatten() {
            assert!(held.is_subset(&now), "lost {:?}", held.difference(&now).next());
        }
    }
}
