//! Computes the memory of reserved filters and of filters that have grown from 100 items, and measures the error rates
//! of grown filters each time they are full, for all modules. Needs no server. The results are the same on every
//! machine.

use std::collections::BTreeMap;

use everbloom::bloom::hash::siphash::Seed;
use everbloom::bloom::policy::redisbloom::Options;
use everbloom::bloom::policy::valkeybloom::TIGHTENING_RATIO_DEFAULT;
use everbloom::bloom::policy::{RedisBloom, ValkeyBloom};
use everbloom::bloom::{Added, CellType, Filter, Growth, Hash, Layer, NoPrefetch, Policy, Promise, Spec};

use super::failure::Failure;
use super::items::{ABSENT, mix};

/// The error rate and the first capacity of all grown filters: the defaults of BF.ADD in all modules.
const ERROR_RATE: f64 = 0.01;
const CAPACITY_ITEMS: u64 = 100;
const EXPANSION: u32 = 2;
/// The growth of filters of other modules, and of everbloom's reserved filters.
const GROWTH: Growth = Growth::Scaling { expansion: EXPANSION };
/// The largest number of items for which sizes are computed. This allocates no filters.
const SIZE_ITEMS_MAX: u64 = 120_000_000;

/// The values of one kind of filter: one for each time that a filter of this kind is full.
pub(crate) struct Curve {
    /// Kind.
    pub(crate) kind: &'static str,
    /// Numbers of items, and the value at each.
    pub(crate) points: Vec<(u64, f64)>,
}

/// The kinds, in the order of [`specs`].
pub(crate) const KINDS: [&str; 3] = ["everbloom", "RedisBloom", "valkey-bloom"];

/// Returns the spec of each kind. `growth` is the growth of everbloom's filter.
fn specs(capacity_items: u64, growth: Growth) -> [Spec; 3] {
    let valkeybloom = ValkeyBloom {
        error_rate: ERROR_RATE,
        tightening_ratio: TIGHTENING_RATIO_DEFAULT,
        capacity_items,
        growth: GROWTH,
    };
    let redisbloom = RedisBloom::new(ERROR_RATE, capacity_items, Options::SCALING, EXPANSION);
    let hashes = [Hash::Murmur3, Hash::RedisBloom(redisbloom.hash()), Hash::ValkeyBloom(Seed::FIXED)];
    let policies = [
        Policy::Promise(Promise { error_rate: ERROR_RATE, capacity_items, growth }),
        Policy::RedisBloom(Box::new(redisbloom)),
        Policy::ValkeyBloom(Box::new(valkeybloom)),
    ];
    let mut hashes = hashes.into_iter();
    policies.map(|policy| Spec {
        policy,
        hash: hashes.next().unwrap_or(Hash::Murmur3),
        cells: CellType::Bits,
    })
}

/// Returns the spec of an unreserved filter of each kind.
fn unreserved() -> [Spec; 3] {
    specs(CAPACITY_ITEMS, Growth::Unreserved { expansion: EXPANSION })
}

/// Returns the bits per item of grown filters of each kind, from the sizes of their layers.
pub(crate) fn sizes() -> Result<Vec<Curve>, Failure> {
    let curves = KINDS.into_iter().zip(unreserved());
    curves.map(|(kind, spec)| Ok(Curve { kind, points: grown(&spec)? })).collect()
}

/// Returns the bits per item of a filter of each kind that is reserved for this number of items.
pub(crate) fn reserved(items: u64) -> Result<[f64; 3], Failure> {
    let mut bits = [0.0; 3];
    for (bits, spec) in bits.iter_mut().zip(specs(items, GROWTH)) {
        let layer = spec.policy.next_layer(&[], spec.hash, spec.cells);
        *bits = layer.map_err(|error| format!("{error:?}"))?.size_bits as f64 / items as f64;
    }
    Ok(bits)
}

fn grown(spec: &Spec) -> Result<Vec<(u64, f64)>, Failure> {
    let (mut layers, mut points) = (Vec::new(), Vec::new());
    let (mut items, mut bits) = (0, 0);
    loop {
        let next = spec.policy.next_layer(&layers, spec.hash, spec.cells);
        let layer = next.map_err(|error| format!("{error:?}"))?;
        items += layer.capacity_items;
        bits += layer.size_bits;
        if items > SIZE_ITEMS_MAX {
            return Ok(points);
        }
        points.push((items, bits as f64 / items as f64));
        layers.push(Layer::try_new(layer).map_err(|error| format!("{error:?}"))?);
    }
}

/// Returns the error rate of grown filters each time they are full, up to `items_max` items. It is the mean of
/// `filters` filters with different items, since the small first layers of a single filter may deviate by chance.
/// `probes` absent items are looked up in each filter.
pub(crate) fn error_rates(items_max: u64, filters: u64, probes: u64) -> Result<Vec<Curve>, Failure> {
    let curves = KINDS.into_iter().zip(unreserved());
    curves
        .map(|(kind, spec)| Ok(Curve { kind, points: measured(&spec, items_max, filters, probes)? }))
        .collect()
}

fn measured(spec: &Spec, items_max: u64, filters: u64, probes: u64) -> Result<Vec<(u64, f64)>, Failure> {
    let mut found: BTreeMap<u64, u64> = BTreeMap::new();
    for number_of_filter in 0..filters {
        let item = |number: u64| mix(mix(number_of_filter) ^ number).to_le_bytes();
        let mut filter = Filter::reserve(spec.clone(), &u64::MAX).map_err(|error| format!("{error:?}"))?;
        let mut number = 0;
        while filter.items() < items_max {
            let new = item(number);
            let added = filter.add(&new, &u64::MAX, NoPrefetch).map_err(|error| format!("{error:?}"))?;
            number += 1;
            // A false positive does not change a full filter.
            if added == Added::New && filter.items() == filter.capacity_items() {
                let absent = (0..probes).map(|probe| item(ABSENT + probe));
                let hits = absent.filter(|absent| filter.contains(absent, NoPrefetch)).count();
                *found.entry(filter.items()).or_default() += u64::try_from(hits)?;
            }
        }
    }
    let asked = (filters * probes) as f64;
    Ok(found.into_iter().map(|(items, hits)| (items, hits as f64 / asked)).collect())
}

#[cfg(test)]
mod tests {
    #[test]
    fn grown_filters_keep_their_rate_and_take_more_than_reserved_ones() {
        use super::*;
        let sizes = sizes().unwrap();
        for (kind, curve) in sizes.iter().enumerate() {
            let ends = (curve.points.first().copied(), curve.points.last().copied());
            let (Some((100, first)), Some((last_items, last))) = ends else { panic!("{ends:?}") };
            assert!(last_items > 100_000_000 && last > first, "{}: {ends:?}", curve.kind);
            let mut points = curve.points.iter().skip(4);
            assert!(points.all(|(items, bits)| *bits > reserved(*items).unwrap()[kind]), "{}", curve.kind);
        }
        let [own, others @ ..] = &sizes[..] else { panic!("no kinds") };
        for (items, bits) in own.points.iter().filter(|(items, _)| *items > 12_700) {
            let is_larger =
                |other: &Curve| other.points.iter().any(|point| point.0 == *items && point.1 > *bits);
            assert!(others.iter().all(is_larger), "docs/performance.md: {items} items");
        }
        // In valkey-bloom the first layer has the whole error rate, and each further layer half of the one before.
        for (curve, promised) in error_rates(25_500, 10, 20_000).unwrap().iter().zip([0.01_f64, 0.01, 0.02]) {
            assert_eq!(curve.points.len(), 8, "{}", curve.kind);
            // Five standard deviations of the number of false positives among 200 000 probes.
            let most = promised * (1.0 + 5.0 / (200_000.0 * promised).sqrt());
            assert!(curve.points.iter().all(|(_, rate)| *rate <= most), "{}: {:?}", curve.kind, curve.points);
        }
    }
}
