//! Computes the memory of reserved filters and of filters that nobody reserved, and measures the error rates of the
//! latter, for all modules. Needs no server. The results are the same on every machine.

use std::collections::BTreeMap;

use everbloom::bloom::filter::policy::redisbloom;
use everbloom::bloom::filter::policy::valkeybloom::TIGHTENING_RATIO_DEFAULT;
use everbloom::bloom::filter::policy::{RedisBloom, ValkeyBloom};
use everbloom::bloom::hash::siphash::Seed;
use everbloom::bloom::{Added, Filter, FilterSpec, Growth, Hash, NoPrefetch, Policy, Promise};
use everbloom::{Format, Options, filter_size};

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

/// The values of one kind of filter, at the numbers of items at which a chain of layers is full.
pub(crate) struct Curve {
    /// Kind.
    pub(crate) kind: &'static str,
    /// Numbers of items, and the value at each.
    pub(crate) points: Vec<(u64, f64)>,
}

/// The kinds, in the order of [`FORMATS`].
pub(crate) const KINDS: [&str; 3] = ["everbloom", "RedisBloom", "valkey-bloom"];
const FORMATS: [Format; 3] = [Format::Everbloom, Format::RedisBloom, Format::ValkeyBloom];

/// Returns the numbers of items at which a chain of layers is full, each layer twice as large as the one before.
fn full_chains() -> impl Iterator<Item = u64> {
    (1..64).map(|layers| CAPACITY_ITEMS * ((1u64 << layers) - 1))
}

/// Returns the spec of an unreserved filter of each kind.
fn unreserved() -> [FilterSpec; 3] {
    let (error_rate, capacity_items) = (ERROR_RATE, CAPACITY_ITEMS);
    let own = Promise { error_rate, capacity_items, growth: GROWTH.unreserved() };
    let tightening_ratio = TIGHTENING_RATIO_DEFAULT;
    let valkeybloom = ValkeyBloom { error_rate, tightening_ratio, capacity_items, growth: GROWTH };
    let redisbloom =
        RedisBloom::new(error_rate, capacity_items, redisbloom::RedisBloomOptions::SCALING, EXPANSION);
    let hash = Hash::RedisBloom(redisbloom.hash());
    [
        FilterSpec { policy: Policy::Everbloom(own), hash: Hash::Murmur3 },
        FilterSpec { policy: Policy::RedisBloom(Box::new(redisbloom)), hash },
        FilterSpec {
            policy: Policy::ValkeyBloom(Box::new(valkeybloom)),
            hash: Hash::ValkeyBloom(Seed::FIXED),
        },
    ]
}

fn bits_per_item(format: Format, capacity_items: u64, growth: Growth, items: u64) -> Result<f64, Failure> {
    let options = Options { error_rate: ERROR_RATE, capacity_items, growth };
    Ok(filter_size(format, options, items)?.size_bits() as f64 / items as f64)
}

/// Returns the bits per item of filters of each kind that nobody reserved.
pub(crate) fn sizes() -> Result<Vec<Curve>, Failure> {
    let growth = GROWTH.unreserved();
    let curve = |(kind, format)| {
        let items = full_chains().take_while(|items| *items <= SIZE_ITEMS_MAX);
        let point = |items| Ok((items, bits_per_item(format, CAPACITY_ITEMS, growth, items)?));
        Ok(Curve { kind, points: items.map(point).collect::<Result<_, Failure>>()? })
    };
    KINDS.into_iter().zip(FORMATS).map(curve).collect()
}

/// Returns the bits per item of a filter of each kind that is reserved for this number of items.
pub(crate) fn reserved(items: u64) -> Result<[f64; 3], Failure> {
    let mut bits = [0.0; 3];
    for (bits, format) in bits.iter_mut().zip(FORMATS) {
        *bits = bits_per_item(format, items, GROWTH, items)?;
    }
    Ok(bits)
}

/// Returns the error rate of filters that nobody reserved, up to `items_max` items. It is the mean of `filters` filters
/// with different items, since a single filter may deviate by chance. `probes` absent items are looked up in each
/// filter.
pub(crate) fn error_rates(items_max: u64, filters: u64, probes: u64) -> Result<Vec<Curve>, Failure> {
    let curves = KINDS.into_iter().zip(unreserved());
    curves
        .map(|(kind, spec)| Ok(Curve { kind, points: measured(&spec, items_max, filters, probes)? }))
        .collect()
}

fn measured(
    spec: &FilterSpec,
    items_max: u64,
    filters: u64,
    probes: u64,
) -> Result<Vec<(u64, f64)>, Failure> {
    let mut found: BTreeMap<u64, u64> = BTreeMap::new();
    for number_of_filter in 0..filters {
        let item = |number: u64| mix(mix(number_of_filter) ^ number).to_le_bytes();
        let mut filter = Filter::reserve(spec.clone(), &u64::MAX).map_err(|error| format!("{error:?}"))?;
        let (mut number, mut full) = (0, full_chains().peekable());
        while filter.items() < items_max {
            let new = item(number);
            let added = filter.add(&new, &u64::MAX, NoPrefetch).map_err(|error| format!("{error:?}"))?;
            number += 1;
            // A false positive does not change the number of items.
            if added == Added::New && full.next_if_eq(&filter.items()).is_some() {
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
    fn unreserved_filters_keep_their_rate_and_take_less_than_chains() {
        use super::*;
        let sizes = sizes().unwrap();
        let [own, others @ ..] = &sizes[..] else { panic!("no kinds") };
        for (index, (items, bits)) in own.points.iter().enumerate().filter(|(_, (items, _))| *items > 12_700)
        {
            assert!(*bits < 20.0, "docs/performance.md: {items} items take {bits} bits");
            assert!(others.iter().all(|other| other.points[index].1 > *bits), "docs/performance.md: {items}");
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
