//! Making room: a command asks for the limit once, and after a refusal the filter grows no more for its other items.

use everbloom::bloom::filter::policy::redisbloom::RedisBloomOptions;
use everbloom::bloom::generation::Span;
use everbloom::bloom::{
    AddError, Added, Filter, Kind, NoPrefetch, ReserveError, UnknownMemory, Validation, Window,
};

use crate::support::make::{
    ANY, CountedLimit, START_MS, add, contains, counting, keyed, keyed_counting, plain, promise, redisbloom,
    set_time, unreserved, valkey, window, windowed,
};
use crate::support::{Random, slices};

fn no_refresh() -> Filter {
    windowed(Window::new(promise(0.001, 100, 2), Span::new(14_000), true))
}

/// Returns a filter with layers of several kinds, or of one hash if `is_alike`.
fn merged(is_alike: bool) -> Filter {
    let mut into = plain(promise(0.01, 100, 2));
    let mut from = if is_alike { plain(promise(0.001, 50, 2)) } else { valkey(promise(0.001, 100, 2)) };
    for item in 0..30u64 {
        let _ = add(&mut from, &item.to_le_bytes());
    }
    assert_eq!(into.merge(&[&from], true, &ANY, UnknownMemory), Ok(true));
    into
}

/// Returns filters of every kind that can grow, and one that is fixed.
fn filters() -> Vec<(&'static str, Filter)> {
    vec![
        ("everbloom", plain(promise(0.001, 100, 2))),
        ("unreserved", plain(unreserved(0.001, 100, 2))),
        ("fixed", plain(promise(0.001, 300, 0))),
        ("keyed", keyed(promise(0.001, 100, 2))),
        ("counting", counting(promise(0.001, 100, 2))),
        ("keyed counting", keyed_counting(promise(0.001, 100, 2))),
        ("window", window(promise(0.001, 100, 2), 14_000)),
        ("window without refresh", no_refresh()),
        ("redisbloom", redisbloom(0.001, 100, RedisBloomOptions::SCALING, 2)),
        ("valkey-bloom", valkey(promise(0.001, 100, 2))),
        ("merged", merged(true)),
        ("united", merged(false)),
    ]
}

/// Returns items: new ones, repeated ones, and ones that were added at `START_MS`.
fn items(random: &mut Random, known: u64, count: usize) -> Vec<Vec<u8>> {
    (0..count)
        .map(|_| match random.below(3) {
            0 => format!("new-{}", random.below(count)),
            _ => format!("known-{}", random.next() % known),
        })
        .map(String::into_bytes)
        .collect()
}

#[test]
fn a_command_asks_for_the_limit_once_and_grows_no_more_after_a_refusal() {
    for (seed, (name, mut filter)) in (1..).zip(filters()) {
        let mut random = Random(seed);
        set_time(&mut filter, START_MS);
        let known = 1000;
        for item in 0..known {
            let _ = add(&mut filter, format!("known-{item}").as_bytes());
        }
        // In a window, the known items are live but not of the newest generation.
        set_time(&mut filter, START_MS + 3000);
        let size_bytes = filter.size_bytes();
        let mut fill =
            (0..).map(|item| filter.add(format!("fill-{item}").as_bytes(), &size_bytes, NoPrefetch));
        assert!(fill.any(|outcome| outcome.is_err()));
        // No growth, some, or much.
        for bytes in [size_bytes, size_bytes * 3 / 2, size_bytes * 5] {
            let (mut single, mut batched) =
                (filter.try_clone(UnknownMemory).unwrap(), filter.try_clone(UnknownMemory).unwrap());
            let items = items(&mut random, known, 1500);
            let limit = CountedLimit::new(bytes);
            let mut outcomes = Vec::new();
            batched.add_many(&slices(&items), &limit, NoPrefetch, |outcome| {
                outcomes.push(outcome);
                true
            });
            assert!(limit.asked.get() <= 1, "{name}: asked {} times", limit.asked.get());
            assert_eq!(batched.internal_validate(Validation::Contents), Ok(()), "{name}");
            assert!(batched.size_bytes() <= bytes.max(size_bytes), "{name}");
            // Until the first refusal, all is as with one command for each item.
            let accepted = outcomes.iter().take_while(|outcome| outcome.is_ok()).count();
            let expected: Vec<_> =
                items.iter().take(accepted + 1).map(|item| single.add(item, &bytes, NoPrefetch)).collect();
            assert_eq!(outcomes[..expected.len()], expected, "{name}, seed {seed}");
            // Then present items are found, and others are refused unless there is a free slot for them.
            for (item, outcome) in items.iter().zip(&outcomes).skip(accepted) {
                let changes_present = matches!(single.kind(), Kind::Counting | Kind::Window);
                assert!(!contains(&single, item) || outcome.is_ok() || changes_present, "{name}");
                assert!(outcome.is_ok() || *outcome == outcomes[accepted], "{name}: {outcome:?}");
            }
            assert!(batched.size_bytes() <= single.size_bytes(), "{name} grew after a refusal");
            let refused = outcomes.iter().filter(|outcome| outcome.is_err()).count();
            assert!(bytes > size_bytes || refused > 100, "{name}: {refused} refused");
            let is_known =
                |outcome: &&Result<Added, AddError>| matches!(outcome, Ok(Added::Present | Added::Again));
            assert!(
                outcomes.iter().any(|outcome| is_known(&outcome)) || batched.kind() == Kind::Counting,
                "{name}"
            );
        }
    }
}

/// A refusal ends with the command: the limit may be raised before the next one.
#[test]
fn the_next_command_asks_again() {
    for (name, mut filter) in filters().into_iter().filter(|(name, _)| *name != "fixed") {
        set_time(&mut filter, START_MS);
        let mut number = 0u64;
        let mut add_until = |filter: &mut Filter, limit: u64, is_refused: bool| {
            for _ in 0..10_000 {
                number += 1;
                let outcome = filter.add(&number.to_le_bytes(), &limit, NoPrefetch);
                if outcome.is_err() == is_refused && outcome != Ok(Added::Present) {
                    return outcome;
                }
            }
            panic!("{name}: no such outcome");
        };
        let size_bytes = filter.size_bytes();
        let refused = add_until(&mut filter, size_bytes, true);
        assert!(
            matches!(refused, Err(AddError::CannotGrow(ReserveError::TooLarge { .. }))),
            "{name}: {refused:?}"
        );
        let size_bytes = filter.size_bytes();
        assert!(add_until(&mut filter, ANY, false).is_ok(), "{name}");
        assert!(filter.size_bytes() > size_bytes, "{name}");
    }
}
