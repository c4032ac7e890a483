//! A batch gives the same replies and bytes as its items one by one: in filters of every kind, in bits, in tables and
//! in both, with and without prefetching. A command asks for the limit once. After a refusal, the filter grows no more
//! for the other items of the command.

use crate::support::make::{
    ANY, CountedLimit, START_MS, add, add_within, contains, counting, keyed, keyed_counting, keyed_window,
    plain, promise, redisbloom, remove, saturating, set_time, unreserved, valkey, window, windowed,
};
use crate::support::saved::{assert_same, assert_valid};
use crate::support::{Random, effort, slices};
use everbloom_filter::filter::policy::redisbloom::RedisBloomOptions;
use everbloom_filter::generation::WindowLength;
use everbloom_filter::prefetch::NoPrefetch;
use everbloom_filter::{AddError, Added, Filter, Kind, UnknownMemory, Window};

const WINDOW_MS: u64 = 14_000;

/// Creates a filter of a kind for an error rate, a number of items, and an expansion or 0.
type Make = fn(f64, u64, u32) -> Filter;

const KINDS: [(&str, Make); 10] = [
    ("everbloom", |rate, items, expansion| plain(promise(rate, items, expansion))),
    ("keyed", |rate, items, expansion| keyed(promise(rate, items, expansion))),
    ("unreserved", |rate, items, expansion| plain(unreserved(rate, items, expansion))),
    ("keyed and unreserved", |rate, items, expansion| keyed(unreserved(rate, items, expansion))),
    ("redisbloom", |rate, items, expansion| {
        redisbloom(rate, items, RedisBloomOptions::SCALING, expansion.max(1))
    }),
    ("valkey-bloom", |rate, items, expansion| valkey(promise(rate, items, expansion))),
    ("counting", |rate, items, expansion| counting(promise(rate, items, expansion))),
    ("keyed counting", |rate, items, expansion| keyed_counting(promise(rate, items, expansion))),
    ("window", |rate, items, expansion| window(promise(rate, items, expansion), WINDOW_MS)),
    ("keyed window", |rate, items, expansion| keyed_window(promise(rate, items, expansion), WINDOW_MS)),
];

/// Returns cases for every kind of filter: name, what creates the filter, error rate, capacity, and number of items to
/// add. Layers of up to 1 MiB are not prefetched. Everbloom's own layers are paged from 1 MiB on. At 1e-6 an item has
/// six lines.
fn filters() -> impl Iterator<Item = (String, Make, f64, u64, u64)> {
    let paged = effort(15_000, 40_000);
    let sizes = [(100, 0.01, 3000), (900_000, 0.01, paged), (2_000_000, 0.01, paged), (700_000, 1e-6, paged)];
    sizes.into_iter().flat_map(|(capacity, rate, items)| {
        KINDS.map(|(kind, make)| (format!("{kind}, {capacity} items at {rate}"), make, rate, capacity, items))
    })
}

/// Returns different items of 2 to 36 bytes.
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

/// Splits items into slices of 1, 2, ... up to 100 items, repeatedly. So groups of every size occur, and full groups of
/// 64 with a rest.
pub(crate) fn commands<'s, 'i>(items: &'s [&'i [u8]]) -> impl Iterator<Item = &'s [&'i [u8]]> {
    let mut rest = items;
    (1..=100).cycle().map_while(move |size| {
        let (command, others) = rest.split_at(rest.len().min(size));
        rest = others;
        (!command.is_empty()).then_some(command)
    })
}

/// Adds items to one filter together and to another one by one. Asserts that both give the same replies.
pub(crate) fn add_both(batched: &mut Filter, single: &mut Filter, items: &[&[u8]], context: &str) {
    let mut outcomes = Vec::new();
    batched.add_many(items, &ANY, NoPrefetch, |outcome| {
        outcomes.push(outcome);
        true
    });
    let expected: Vec<_> = items.iter().map(|item| add(single, item)).collect();
    assert_eq!(outcomes, expected, "{context}");
}

/// Looks up items together and one by one. Asserts that the replies are equal, and returns them.
pub(crate) fn found_both(filter: &Filter, items: &[&[u8]], context: &str) -> Vec<bool> {
    let mut found = Vec::new();
    filter.contains_many(items, filter.now(), NoPrefetch, |is_in| found.push(is_in));
    assert!(items.iter().map(|item| contains(filter, item)).eq(found.iter().copied()), "{context}");
    found
}

#[test]
fn adding_many_makes_the_same_filter_as_adding_one_by_one() {
    for (name, make, rate, capacity, count) in filters() {
        // Every other item occurs twice, sometimes consecutively.
        let (mut stream, added) = (Vec::new(), items(b'a', count));
        for (index, item) in added.iter().enumerate() {
            stream.push(item.as_slice());
            if index % 2 == 0 {
                stream.push(&added[index - index % 60]);
            }
        }
        let (mut one_by_one, mut batched) = (make(rate, capacity, 2), make(rate, capacity, 2));
        for filter in [&mut one_by_one, &mut batched] {
            set_time(filter, START_MS);
        }
        for command in commands(&stream) {
            add_both(&mut batched, &mut one_by_one, command, &name);
        }
        assert_same(&batched, &one_by_one, &name);
        assert!(stream.iter().all(|item| contains(&batched, item)), "{name}: an added item is not found");
        // Runs of present items, of absent items, and of both alternately.
        let absent = items(b'b', count);
        let pairs = added.iter().zip(&absent).enumerate();
        let mixed = pairs.map(|(index, (added, absent))| match index / 500 % 3 {
            0 => added,
            1 => absent,
            _ if index % 2 == 0 => added,
            _ => absent,
        });
        let stream: Vec<&[u8]> = mixed.map(Vec::as_slice).collect();
        let found = commands(&stream).flat_map(|command| found_both(&batched, command, &name));
        let (found, half) = (found.filter(|is_in| *is_in).count(), stream.len() / 2);
        assert!(found.abs_diff(half) < half / 10, "{name}: {found} of {} found", stream.len());
    }
}

#[test]
fn every_item_is_found_in_chains_of_any_length() {
    for (name, make) in KINDS {
        let added = items(b'a', 400);
        // Layers of one item. The first layers have so few probes that these are tested in one part.
        let mut filter = make(0.3, 1, 1);
        set_time(&mut filter, START_MS);
        for (index, item) in added.iter().enumerate() {
            add(&mut filter, item).unwrap();
            let found = found_both(&filter, &slices(&added[..=index]), name);
            let layers = filter.layer_count();
            assert!(found.iter().all(|is_in| *is_in), "{name}: {index} items, {layers} layers");
        }
        let is_chain = name == "redisbloom" || name == "valkey-bloom";
        assert_eq!(is_chain, filter.layer_count() > 64, "{name}: {} layers", filter.layer_count());
        assert_eq!(is_chain, filter.table().is_none(), "{name}");
    }
}

/// Runs random commands in filters that grow, refuse and saturate, over time, with deletions.
#[test]
fn random_batches_equal_single_commands() {
    let seed = 0x0062_6174_6368;
    let saturates: (&str, Make) = ("saturating", |rate, items, _| plain(saturating(rate, items)));
    for (kind, make) in KINDS.into_iter().chain([saturates]) {
        for (rate, capacity, expansion) in [
            (0.01, 100, 2),
            (0.01, 300_000, 0),
            (0.01, 900_000, 2),
            (0.01, 2_500_000, 2),
            (1e-6, 700_000, 1),
            (0.05, 10, 1),
            (0.001, 1000, 0),
        ] {
            let mut random = Random(seed);
            let (mut batched, mut single) =
                (make(rate, capacity, expansion), make(rate, capacity, expansion));
            let mut now_ms = START_MS;
            for round in 0..150 {
                let context = format!("seed {seed}, {kind}, round {round}, {rate} at {capacity}");
                now_ms += random.next() % 300;
                set_time(&mut batched, now_ms);
                set_time(&mut single, now_ms);
                let items: Vec<Vec<u8>> =
                    (0..random.below(130)).map(|_| random.below(4000).to_string().into_bytes()).collect();
                let items = slices(&items);
                if round % 3 == 2 && batched.kind() == Kind::Counting {
                    let mut deleted = Vec::new();
                    batched.remove_many(&items, NoPrefetch, |is_deleted| {
                        deleted.push(is_deleted);
                        true
                    });
                    let expected = items.iter().map(|item| remove(&mut single, item));
                    assert!(expected.eq(deleted), "{context}");
                } else {
                    add_both(&mut batched, &mut single, &items, &context);
                }
                let later_ms = now_ms + random.next() % 15_000;
                set_time(&mut batched, later_ms);
                found_both(&batched, &items, &context);
            }
            set_time(&mut batched, now_ms);
            assert_same(&batched, &single, &format!("seed {seed}, {kind}, {rate} at {capacity}"));
        }
    }
}

fn no_refresh() -> Filter {
    windowed(promise(0.001, 100, 2), Window::new(WindowLength::new(14_000), true))
}

/// Returns a merged filter. Its layers have the same hash if `is_alike`, and different hashes otherwise.
fn merged(is_alike: bool) -> Filter {
    let mut into = plain(promise(0.01, 100, 2));
    let mut from = if is_alike { plain(promise(0.001, 50, 2)) } else { valkey(promise(0.001, 100, 2)) };
    for item in 0..30u64 {
        let _ = add(&mut from, &item.to_le_bytes());
    }
    assert_eq!(into.merge(&[&from], u64::MAX, true, &ANY, UnknownMemory), Ok(true));
    into
}

/// Returns filters of every kind that can grow, and one that is fixed.
fn growing() -> Vec<(&'static str, Filter)> {
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

/// Returns random items, some of them repeatedly. One in three is new, and the others were offered at `START_MS`.
fn known_items(random: &mut Random, known: u64, count: usize) -> Vec<Vec<u8>> {
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
    for (seed, (name, mut filter)) in (1..).zip(growing()) {
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
            (0..).map(|item| add_within(&mut filter, format!("fill-{item}").as_bytes(), size_bytes));
        assert!(fill.any(|outcome| outcome.is_err()));
        // The limit permits no growth, some growth, or much growth.
        for bytes in [size_bytes, size_bytes * 3 / 2, size_bytes * 5] {
            let (mut single, mut batched) =
                (filter.try_clone(UnknownMemory).unwrap(), filter.try_clone(UnknownMemory).unwrap());
            let items = known_items(&mut random, known, 1500);
            let limit = CountedLimit::new(bytes);
            let mut outcomes = Vec::new();
            batched.add_many(&slices(&items), &limit, NoPrefetch, |outcome| {
                outcomes.push(outcome);
                true
            });
            assert!(limit.asked.get() <= 1, "{name}: asked {} times", limit.asked.get());
            assert_valid(&batched, name);
            assert!(batched.size_bytes() <= bytes.max(size_bytes), "{name}");
            // Until the first refusal, all is as with one command for each item.
            let accepted = outcomes.iter().take_while(|outcome| outcome.is_ok()).count();
            let expected: Vec<_> =
                items.iter().take(accepted + 1).map(|item| add_within(&mut single, item, bytes)).collect();
            assert_eq!(outcomes[..expected.len()], expected, "{name}, seed {seed}");
            // After it, an item that is present is accepted unless its add must be stored. Any other item goes to a
            // free slot or gets the same refusal.
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
