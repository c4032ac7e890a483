//! Random adds and deletions compared with a multiset.

use std::collections::HashMap;

use everbloom::bloom::cells::COUNT_FULL;
use everbloom::bloom::{AddError, Added, Depth, Filter, Layer};

use crate::support::Random;
use crate::support::make::{add, contains, counting, promise};

/// Returns an empty filter with an expansion; 0 for a fixed one.
fn chain(error_rate: f64, capacity_items: u64, expansion: u32) -> Filter {
    counting(promise(error_rate, capacity_items, expansion))
}

/// Returns the adds minus the deletions of a layer.
fn occurrences(layer: &Layer) -> u64 {
    layer.cells().counters().unwrap().occurrences
}

/// A multiset from which a random item can be drawn.
#[derive(Default)]
struct Multiset {
    occurrences: Vec<u32>,
    counts: HashMap<u32, u32>,
}

impl Multiset {
    fn add(&mut self, item: u32) {
        self.occurrences.push(item);
        *self.counts.entry(item).or_default() += 1;
    }

    fn take(&mut self, random: &mut Random) -> Option<u32> {
        if self.occurrences.is_empty() {
            return None;
        }
        let item = self.occurrences.swap_remove(random.below(self.occurrences.len()));
        let count = self.counts.get_mut(&item).unwrap();
        *count -= 1;
        if *count == 0 {
            self.counts.remove(&item);
        }
        Some(item)
    }
}

fn is_in(filter: &Filter, item: u32) -> bool {
    contains(filter, &item.to_le_bytes())
}

fn assert_all_there(filter: &Filter, oracle: &Multiset, seed: u64) {
    for item in oracle.counts.keys() {
        assert!(is_in(filter, *item), "seed {seed}: {item} is there and was not found");
    }
    assert_eq!(filter.items(), oracle.occurrences.len() as u64, "seed {seed}");
    assert_eq!(filter.internal_validate(Depth::Cells), Ok(()), "seed {seed}");
}

/// Returns the share of `asked` absent items that are found.
fn measured_rate(filter: &Filter, asked: u32) -> f64 {
    let found = (0..asked).filter(|number| is_in(filter, u32::MAX - number)).count();
    found as f64 / f64::from(asked)
}

/// Runs random adds and deletions, half of them each after there are `items`. Some items are added several times.
fn churn(filter: &mut Filter, items: usize, operations: u32, seed: u64) -> Multiset {
    let (mut random, mut oracle) = (Random(seed), Multiset::default());
    for operation in 0..operations {
        let adds = random.below(items) >= oracle.occurrences.len() || random.below(8) == 0;
        if adds {
            let item = random.below(items * 3) as u32;
            let was_there = is_in(filter, item);
            let added = add(filter, &item.to_le_bytes()).unwrap();
            assert_eq!(added, if was_there { Added::Again } else { Added::New }, "seed {seed}");
            oracle.add(item);
        } else if random.below(10) == 0 {
            // An item that is certainly absent is not deleted.
            let item = u32::MAX - random.below(1 << 20) as u32;
            if !is_in(filter, item) {
                assert!(!filter.remove(&item.to_le_bytes()), "seed {seed}");
            }
        } else if let Some(item) = oracle.take(&mut random) {
            assert!(filter.remove(&item.to_le_bytes()), "seed {seed}: {item} was there");
        }
        if operation % 50_000 == 0 {
            assert_all_there(filter, &oracle, seed);
        }
    }
    assert_all_there(filter, &oracle, seed);
    oracle
}

#[test]
fn a_million_adds_and_deletes_lose_nothing_and_keep_the_rate() {
    let seed = 0x006d_696c_6c69_6f6e;
    // Scattered in one layer, paged in one layer, and grown from a small one.
    for (error_rate, capacity, expansion, items) in [
        (0.01, 40_000, 0, 30_000),
        (0.001, 2_000_000, 0, 100_000),
        (0.01, 500, 2, 30_000),
        (0.0001, 50, 1, 1000),
    ] {
        let mut filter = chain(error_rate, capacity, expansion);
        churn(&mut filter, items, 1_000_000, seed);
        assert_eq!(filter.layer_count() > 1, expansion > 0);
        // Layers without items are dropped.
        assert!(filter.layer_count() < 1000, "{} layers", filter.layer_count());
        let asked = 400_000;
        let (rate, sigma) = (measured_rate(&filter, asked), (error_rate / f64::from(asked)).sqrt());
        println!("seed {seed}: {error_rate} asked, {rate} measured, {} layers", filter.layer_count());
        assert!(rate <= error_rate + 3.0 * sigma, "seed {seed}: {rate} for {error_rate}");
    }
}

#[test]
fn a_full_filter_keeps_its_rate_after_many_exchanges() {
    for (error_rate, capacity) in [(0.01, 1000u32), (0.01, 2_500_000), (1e-4, 20_000)] {
        let mut filter = chain(error_rate, capacity.into(), 0);
        let rounds = if capacity > 100_000 { 1 } else { 100 };
        (0..capacity).for_each(|item| {
            assert!(add(&mut filter, &item.to_le_bytes()).is_ok());
        });
        // Items that were false positives when they were added took no capacity.
        if add(&mut filter, &[0xff; 4]).is_ok() {
            assert!(filter.remove(&[0xff; 4]));
        }
        for item in 0..capacity.min(100_000) * rounds {
            assert!(filter.remove(&item.to_le_bytes()));
            assert!(add(&mut filter, &(item + capacity).to_le_bytes()).is_ok());
        }
        let asked = 400_000;
        let (rate, sigma) = (measured_rate(&filter, asked), (error_rate / f64::from(asked)).sqrt());
        println!("{error_rate} asked, {rate} measured at {capacity} items");
        // Small filters vary by more than their samples.
        assert!(rate <= error_rate * 1.15 + 3.0 * sigma, "{rate} for {error_rate} at {capacity}");
    }
}

#[test]
fn deleting_every_item_clears_the_filter() {
    let seed = 0x0065_6d70_7479;
    // So few positions that the positions of one item coincide.
    for (error_rate, capacity, expansion) in
        [(1e-6, 4, 0), (1e-9, 10, 1), (0.5, 100, 0), (0.01, 3000, 2), (1e-5, 900_000, 0)]
    {
        let mut filter = chain(error_rate, capacity, expansion);
        let mut random = Random(seed);
        for _ in 0..20 {
            let items: Vec<u32> = (0..4).map(|_| random.next() as u32).collect();
            for item in &items {
                add(&mut filter, &item.to_le_bytes()).unwrap();
            }
            assert_eq!(filter.items(), items.len() as u64, "seed {seed}");
            for (index, item) in items.iter().enumerate() {
                assert!(filter.remove(&item.to_le_bytes()), "seed {seed}");
                assert!(items[index + 1..].iter().all(|item| is_in(&filter, *item)), "seed {seed}");
            }
            assert!(items.iter().all(|item| !filter.remove(&item.to_le_bytes())));
            assert_eq!((filter.items(), filter.set_cells()), (0, 0), "seed {seed}, {error_rate}");
            assert!(filter.layers().iter().all(|layer| layer.cells().words().iter().all(|word| *word == 0)));
        }
    }
}

#[test]
fn an_item_with_full_counters_is_never_lost() {
    let mut filter = chain(0.01, 1000, 0);
    let item = b"often";
    for count in 0..COUNT_FULL {
        assert_eq!(add(&mut filter, item), Ok(if count == 0 { Added::New } else { Added::Again }));
    }
    let bytes = filter.layers()[0].cells().bytes().to_vec();
    assert_eq!(add(&mut filter, item), Ok(Added::Again));
    assert!((0..100).all(|_| filter.remove(item)));
    assert_eq!(filter.layers()[0].cells().bytes(), bytes);
    assert!(contains(&filter, item));
    assert_eq!(filter.items(), 0);
}

#[test]
fn a_refused_deletion_changes_nothing() {
    let mut filter = chain(0.2, 100, 0);
    (0..60u32).for_each(|item| {
        add(&mut filter, &item.to_le_bytes()).unwrap();
    });
    let mut refused = 0;
    for item in 100..200_000u32 {
        let item = item.to_le_bytes();
        if contains(&filter, &item) {
            let (bytes, before) = (filter.layers()[0].cells().bytes().to_vec(), filter.layers()[0].counts());
            if filter.remove(&item) {
                // A false positive, whose deletion is undone.
                add(&mut filter, &item).unwrap();
            } else {
                refused += 1;
            }
            assert_eq!(
                (filter.layers()[0].cells().bytes(), filter.layers()[0].counts()),
                (&bytes[..], before)
            );
        }
    }
    assert!(refused > 0);
}

#[test]
fn a_full_filter_takes_present_items_again_and_new_ones_after_a_delete() {
    let mut filter = chain(0.001, 10, 0);
    let item = |number: u32| number.to_le_bytes();
    (0..10).for_each(|number| assert_eq!(add(&mut filter, &item(number)), Ok(Added::New)));
    assert_eq!(add(&mut filter, &item(10)), Err(AddError::Full));
    assert_eq!(add(&mut filter, &item(3)), Ok(Added::Again));
    assert_eq!(filter.items(), 11);
    assert!(filter.remove(&item(3)) && filter.remove(&item(4)));
    assert_eq!(add(&mut filter, &item(10)), Ok(Added::New));
    let there: Vec<bool> = (0..11).map(|number| contains(&filter, &item(number))).collect();
    assert_eq!(there, [true, true, true, true, false, true, true, true, true, true, true]);
}

#[test]
fn a_fixed_filter_is_full_exactly_when_it_has_its_capacity_of_distinct_items() {
    let seed = 0x0064_6973_7469;
    // At these rates there are no false positives.
    for (error_rate, capacity) in [(1e-9, 1), (1e-9, 5), (1e-10, 40), (1e-9, 300)] {
        let (mut filter, mut random) = (chain(error_rate, capacity, 0), Random(seed));
        let mut oracle = Multiset::default();
        let (mut refused, mut taken_again) = (0, 0);
        for _ in 0..60_000 {
            let item = random.below(capacity as usize * 2) as u32;
            let occurrences = oracle.counts.get(&item).copied().unwrap_or(0);
            if random.below(3) == 0 {
                if let Some(item) = oracle.take(&mut random) {
                    assert!(filter.remove(&item.to_le_bytes()), "seed {seed}");
                }
            } else if occurrences < 3 {
                // Fewer than a counter can count.
                let expected = match occurrences {
                    1.. => Ok(Added::Again),
                    0 if oracle.counts.len() as u64 == capacity => Err(AddError::Full),
                    0 => Ok(Added::New),
                };
                let outcome = add(&mut filter, &item.to_le_bytes());
                assert_eq!(outcome, expected, "seed {seed}, {error_rate} at {capacity}");
                refused += u32::from(outcome.is_err());
                taken_again += u32::from(outcome == Ok(Added::Again));
                if outcome.is_ok() {
                    oracle.add(item);
                }
            }
        }
        assert_all_there(&filter, &oracle, seed);
        println!("seed {seed}: {capacity} items, {refused} refused, {taken_again} added again");
        assert!(refused > 0 && taken_again > 0);
    }
}

#[test]
fn a_fixed_filter_takes_its_capacity_of_new_items_at_every_rate_and_size() {
    for (error_rate, capacity) in [
        (0.5, 3),
        (0.5, 10_000),
        (0.9, 1000),
        (0.999, 20_000),
        (0.9999, 1_000_000),
        (0.999_999, 300_000),
        (0.97, 1),
        (0.25, 50_000),
        (0.25, 4_000_000),
        (0.6, 2_000_000),
        (0.01, 1),
        (0.01, 6_000_000),
        (1e-6, 700_000),
    ] {
        let mut filter = chain(error_rate, capacity, 0);
        let (mut new_items, mut item) = (0, 0u32);
        let outcome = loop {
            match add(&mut filter, &item.to_le_bytes()) {
                Ok(added) => new_items += u64::from(added == Added::New),
                Err(error) => break error,
            }
            item += 1;
        };
        assert_eq!(
            (outcome, new_items),
            (AddError::Full, capacity),
            "{error_rate} at {capacity}, item {item}"
        );
    }
}

/// Clients add items until they are refused, and so rely on the filter to be full at the right time. New items that
/// are false positives are neither refused nor counted.
#[test]
fn a_constantly_full_filter_keeps_its_rate_after_many_exchanges() {
    let seed = 0x6675_6c6c;
    for (error_rate, capacity, rounds, copies) in [
        (0.01, 1000u32, 100, 1),
        (0.01, 20_000, 5, 1),
        (1e-3, 5000, 40, 1),
        (0.01, 5000, 10, 2),
        (0.01, 600_000, 1, 1),
    ] {
        let (mut filter, mut random) = (chain(error_rate, capacity.into(), 0), Random(seed));
        let (mut there, mut next) = (Vec::new(), 0u32);
        for _ in 0..u64::from(capacity) * (rounds + 1) {
            // Two attempts for each deleted item.
            for _ in 0..2 {
                let item = next.to_le_bytes();
                if (0..copies).all(|_| add(&mut filter, &item).is_ok()) {
                    there.push(next);
                }
                next += 1;
            }
            if there.len() >= capacity as usize {
                let gone = there.swap_remove(random.below(there.len()));
                assert!((0..copies).all(|_| filter.remove(&gone.to_le_bytes())), "seed {seed}");
            }
        }
        assert!(there.iter().all(|item| is_in(&filter, *item)), "seed {seed}");
        let asked = 400_000;
        let (rate, sigma) = (measured_rate(&filter, asked), (error_rate / f64::from(asked)).sqrt());
        println!(
            "seed {seed}: {error_rate} asked, {rate} measured, {} items for {capacity}, {copies} of each",
            there.len()
        );
        // Small filters vary by more than their samples.
        let allowed = error_rate * (1.0 + 15.0 / f64::from(capacity).sqrt()) + 3.0 * sigma;
        assert!(rate <= allowed, "seed {seed}: {rate} for {error_rate} at {capacity}");
    }
}

#[test]
fn occurrences_in_older_layers_are_deleted_from_there() {
    let mut filter = chain(0.01, 20, 1);
    let item = |number: u32| number.to_le_bytes();
    (0..200).for_each(|number| {
        add(&mut filter, &item(number)).unwrap();
    });
    let layers = filter.layer_count();
    let before: Vec<u64> = filter.layers().iter().map(occurrences).collect();
    (0..5).for_each(|number| assert_eq!(add(&mut filter, &item(number)), Ok(Added::Again)));
    let after: Vec<u64> = filter.layers().iter().map(occurrences).collect();
    assert_eq!((filter.layer_count(), after[0], &after[1..]), (layers, before[0] + 5, &before[1..]));
    (0..5).for_each(|number| assert!(filter.remove(&item(number))));
    assert_eq!(filter.items(), 200);
    (0..200).for_each(|number| assert!(filter.remove(&item(number)), "{number}"));
    assert_eq!((filter.items(), filter.set_cells()), (0, 0));
}

#[test]
fn layers_without_items_are_dropped() {
    let mut filter = chain(0.01, 20, 1);
    let item = |number: u32| number.to_le_bytes();
    let size_bytes = filter.size_bytes();
    for number in 0..10_000 {
        add(&mut filter, &item(number)).unwrap();
        if let Some(old) = number.checked_sub(100) {
            assert!(filter.remove(&item(old)));
            assert!(filter.layer_count() <= 8, "{} layers at {number}", filter.layer_count());
        }
    }
    (9_900..10_000).for_each(|number| assert!(filter.remove(&item(number)), "{number}"));
    assert_eq!((filter.layer_count(), filter.items(), filter.set_cells()), (1, 0, 0));
    // The new layer has the rate of a later one, so it may be larger than the first.
    assert!(filter.size_bytes() < 3 * size_bytes);
}
