//! Many items in one command against the same items one by one: the same answers and the same bits, for every kind of
//! filter, in arrays that fit the caches and in those that are asked for ahead, in one layer and in several.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

use everbloom::bloom::redisbloom::Options;
use everbloom::bloom::valkeybloom::{Seed, ValkeyBloom};
use everbloom::bloom::{Added, Blueprint, Everbloom, Filter, Growth, NoPrefetch, RedisBloom};

const ANY: u64 = u64::MAX;
const GROWTH: Growth = Growth::Scaling { expansion: 2 };

/// Filters of every kind: name, first layer, items to add. Arrays of up to 1 MiB are not asked for ahead, those of
/// everbloom are paged from 2 MiB on; at 1e-6 an item has six lines.
fn blueprints() -> Vec<(String, Blueprint, u64)> {
    let sizes =
        [(100, 0.01, 3000), (900_000, 0.01, 40_000), (2_000_000, 0.01, 40_000), (700_000, 1e-6, 40_000)];
    let mut blueprints = Vec::new();
    for (capacity_items, error_rate, items) in sizes {
        let name = |kind: &str| format!("{kind}, {capacity_items} items at {error_rate}");
        let parameters = Everbloom { error_rate, capacity_items, growth: GROWTH };
        blueprints.push((name("everbloom"), Blueprint::Everbloom(parameters), items));
        let parameters = RedisBloom::new(error_rate, capacity_items, Options::SCALING, 2);
        blueprints.push((name("redisbloom"), Blueprint::RedisBloom(parameters), items));
        let (growth, tightening_ratio, seed) = (GROWTH, 0.5, Seed::FIXED);
        let parameters = ValkeyBloom { error_rate, tightening_ratio, capacity_items, growth, seed };
        blueprints.push((name("valkey-bloom"), Blueprint::ValkeyBloom(parameters), items));
    }
    blueprints
}

/// Items of 1 to 40 bytes, all of them different.
fn items(kind: u8, count: u64) -> Vec<Vec<u8>> {
    (0..count)
        .map(|number| {
            let padding = usize::try_from(number % 32).unwrap();
            let mut item = format!("{number:x}").into_bytes();
            item.resize(item.len() + padding, kind);
            item.push(kind);
            item
        })
        .collect()
}

fn borrowed(items: &[Vec<u8>]) -> Vec<&[u8]> {
    items.iter().map(Vec::as_slice).collect()
}

/// Slices of 1, 2, ... up to 100 items, and again: every size of a group and of what is left over.
fn commands<'s, 'i>(items: &'s [&'i [u8]]) -> impl Iterator<Item = &'s [&'i [u8]]> {
    let mut rest = items;
    (1..=100).cycle().map_while(move |size| {
        let (command, others) = rest.split_at(rest.len().min(size));
        rest = others;
        (!command.is_empty()).then_some(command)
    })
}

fn arrays(filter: &Filter) -> Vec<(u64, &[u8])> {
    filter.storages().map(|bits| (bits.set_bits(), bits.bytes())).collect()
}

#[test]
fn adding_many_sets_the_bits_that_adding_one_by_one_sets() {
    for (name, blueprint, count) in blueprints() {
        // Every other item comes twice, some right after each other.
        let (mut stream, added) = (Vec::new(), items(b'a', count));
        for (index, item) in added.iter().enumerate() {
            stream.push(item.as_slice());
            if index % 2 == 0 {
                stream.push(&added[index - index % 60]);
            }
        }
        let mut one_by_one = Filter::reserve(blueprint, &ANY).unwrap();
        let mut batched = Filter::reserve(blueprint, &ANY).unwrap();
        for command in commands(&stream) {
            let mut outcomes = Vec::new();
            batched.add_many(command, &ANY, NoPrefetch, |outcome| {
                outcomes.push(outcome);
                true
            });
            let expected: Vec<_> =
                command.iter().map(|item| one_by_one.add(item, &ANY, NoPrefetch)).collect();
            assert_eq!(outcomes, expected, "{name}");
        }
        assert_eq!((batched.items(), arrays(&batched)), (one_by_one.items(), arrays(&one_by_one)), "{name}");
        let known = |item: &&[u8]| batched.add(item, &ANY, NoPrefetch) == Ok(Added::Present);
        assert!(stream.iter().all(known), "{name}: an item that was added is not found");
    }
}

#[test]
fn asking_for_many_has_the_answers_of_asking_one_by_one() {
    for (name, blueprint, count) in blueprints() {
        let (added, absent) = (items(b'a', count), items(b'b', count));
        let mut filter = Filter::reserve(blueprint, &ANY).unwrap();
        filter.add_many(&borrowed(&added), &ANY, NoPrefetch, |outcome| outcome.is_ok());
        // Stretches of items that are there, of items that are not, and of both in turn.
        let mixed =
            added.iter().zip(&absent).enumerate().map(|(index, (added, absent))| match index / 500 % 3 {
                0 => added,
                1 => absent,
                _ if index % 2 == 0 => added,
                _ => absent,
            });
        let stream: Vec<&[u8]> = mixed.map(Vec::as_slice).collect();
        let mut found = 0;
        for command in commands(&stream) {
            let mut answers = Vec::new();
            filter.contains_many(command, NoPrefetch, |answer| answers.push(answer));
            let expected: Vec<bool> = command.iter().map(|item| filter.contains(item, NoPrefetch)).collect();
            assert_eq!(answers, expected, "{name}");
            found += answers.into_iter().filter(|answer| *answer).count();
        }
        let half = stream.len() / 2;
        assert!(found.abs_diff(half) < half / 10, "{name}: {found} of {} found", stream.len());
    }
}
