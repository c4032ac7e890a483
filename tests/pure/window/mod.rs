//! Sliding windows: when items expire, how many a fixed filter takes, and the error rate and memory of all traffic.

mod rates;

use everbloom::bloom::generation::Span;
use everbloom::bloom::{AddError, Added, Filter, NoPrefetch, UnknownMemory, Validation, Window};

use crate::support::make::{self, START_MS, contains, promise, set_time, windowed};

const DAY_MS: u64 = 86_400_000;

/// Returns an empty filter with an expansion; 0 for a fixed one.
fn filter(error_rate: f64, capacity_items: u64, expansion: u32, window_ms: u64) -> Filter {
    windowed(Window::new(promise(error_rate, capacity_items, expansion), Span::new(window_ms), false))
}

/// Adds an item at a time in milliseconds of UNIX time.
fn add(filter: &mut Filter, item: u64, at_ms: u64) -> Result<Added, AddError> {
    set_time(filter, at_ms);
    make::add(filter, &item.to_le_bytes())
}

/// Returns whether an item is found at a time.
fn is_in(filter: &mut Filter, item: u64, at_ms: u64) -> bool {
    set_time(filter, at_ms);
    contains(filter, &item.to_le_bytes())
}

/// Returns the share of `asked` absent items that are found.
fn measured_rate(filter: &mut Filter, at_ms: u64, asked: u64) -> f64 {
    set_time(filter, at_ms);
    let found = (0..asked).filter(|number| contains(filter, &(u64::MAX - number).to_le_bytes())).count();
    found as f64 / asked as f64
}

#[test]
fn an_item_counts_from_its_first_add_if_requested() {
    let mut filter = windowed(Window::new(promise(0.01, 1000, 2), Span::new(14_000), true));
    let start = START_MS / 14_000 * 14_000;
    assert_eq!(add(&mut filter, 1, start), Ok(Added::New));
    for step in 1..=14 {
        assert_eq!(add(&mut filter, 1, start + step * 1000), Ok(Added::Present), "{step}");
    }
    assert_eq!(filter.items(), 1);
    assert_eq!(add(&mut filter, 1, start + 15_000), Ok(Added::New));
    // Without the option, it expires after its last add.
    let mut filter = self::filter(0.01, 1000, 2, 14_000);
    assert_eq!(add(&mut filter, 1, start), Ok(Added::New));
    assert_eq!(add(&mut filter, 1, start + 999), Ok(Added::Present));
    for step in 1..=40 {
        assert_eq!(add(&mut filter, 1, start + step * 1000), Ok(Added::Again), "{step}");
    }
    // It is one live item, however often it was added.
    assert_eq!(filter.items(), 1);
    assert!(is_in(&mut filter, 1, start + 54_999) && !is_in(&mut filter, 1, start + 55_000));
}

#[test]
fn an_item_added_at_an_earlier_time_expires_a_window_after_that_time() {
    for capacity in [1000, 600_000] {
        let mut filter = filter(0.01, capacity, 2, 14_000);
        let start = START_MS / 14_000 * 14_000;
        add(&mut filter, u64::MAX, start).unwrap();
        for back in 0..20u64 {
            filter.set_moment(start - back * 1000);
            let added = make::add(&mut filter, &back.to_le_bytes());
            assert_eq!(added, Ok(if back < 15 { Added::New } else { Added::Present }), "{back}");
        }
        assert_eq!(filter.items(), 16);
        for back in 0..15u64 {
            let end = start + 15_000 - back * 1000;
            assert!(is_in(&mut filter, back, end - 1) && !is_in(&mut filter, back, end), "{back}");
        }
        // It does not take time back from an item that was added later.
        let mut filter = self::filter(0.01, capacity, 2, 14_000);
        add(&mut filter, 1, start).unwrap();
        filter.set_moment(start - 5_000);
        assert_eq!(make::add(&mut filter, &1u64.to_le_bytes()), Ok(Added::Present));
        assert!(is_in(&mut filter, 1, start + 14_999) && !is_in(&mut filter, 1, start + 15_000));
    }
}

/// A fixed filter refuses new items while as many are live as were reserved, and only then.
#[test]
fn a_filter_of_fixed_size_takes_its_capacity_at_once_or_at_any_pace() {
    let (window_ms, capacity) = (14_000, 1400);
    let start = START_MS / window_ms * window_ms;
    let mut filter = filter(0.001, capacity, 0, window_ms);
    let mut next = 0..;
    let mut add_new = |filter: &mut Filter, at_ms: u64| loop {
        let outcome = add(filter, next.next().unwrap(), at_ms);
        if outcome != Ok(Added::Present) && outcome != Ok(Added::Again) {
            return outcome;
        }
    };
    for _ in 0..capacity {
        assert_eq!(add_new(&mut filter, start), Ok(Added::New));
    }
    assert_eq!(filter.items(), capacity);
    assert_eq!(add_new(&mut filter, start + 14_999), Err(AddError::Full));
    // A live item is still refreshed, and makes no room.
    assert_eq!(add(&mut filter, 1, start + 14_999), Ok(Added::Again));
    assert_eq!(add_new(&mut filter, start + 14_999), Err(AddError::Full));
    // Then all others expire. The next ones come evenly.
    for item in 1..capacity {
        assert_eq!(add_new(&mut filter, start + 15_000 + item * 10), Ok(Added::New));
    }
    assert_eq!(add_new(&mut filter, start + 28_999), Err(AddError::Full));
    // The first of them expire a generation at a time; the refreshed one too.
    let mut added = 0;
    while add_new(&mut filter, start + 30_000) == Ok(Added::New) {
        added += 1;
    }
    assert_eq!(added, 100);
    assert!(measured_rate(&mut filter, start + 30_000, 100_000) <= 0.0013);
}

/// Three faults that windows once had: a window whose limit is close refused every add for ever while it was empty, a
/// batch that fitted before was refused after it had expired, and the limit was asked for each item.
#[test]
fn expired_items_take_no_room_from_new_ones() {
    let (window_ms, capacity) = (1400, 20_000u64);
    let mut filter = filter(0.01, capacity, 2, window_ms);
    let start = START_MS / window_ms * window_ms;
    let mut next = 0;
    let fill = |filter: &mut Filter, items: u64, at_ms: u64, limit: u64, next: &mut u64| {
        set_time(filter, at_ms);
        let first = *next;
        *next += items;
        (first..*next).filter(|item| filter.add(&item.to_le_bytes(), &limit, NoPrefetch).is_err()).count()
    };
    // Two and a half times the pace for four windows, at 1.2 times the bytes of the reserved number of items.
    let mut reserved = filter.try_clone(UnknownMemory).unwrap();
    assert_eq!(fill(&mut reserved, capacity, start, make::ANY, &mut next), 0);
    let limit = reserved.size_bytes() * 6 / 5;
    let mut refused = 0;
    for generation in 0..56 {
        refused += fill(&mut filter, capacity * 5 / 2 / 14, start + generation * 100, limit, &mut next);
        assert!(filter.size_bytes() <= limit);
    }
    assert!(refused > 0, "the limit is reached");
    // After a pause of one window and a generation nothing is refused.
    let later = start + 56 * 100 + window_ms + 100;
    assert_eq!(fill(&mut filter, capacity, later, limit, &mut next), 0);
    // The same batch fits again in every window, at exactly the bytes that it takes.
    let mut batches = self::filter(0.01, capacity, 2, window_ms);
    assert_eq!(fill(&mut batches, capacity, start, make::ANY, &mut next), 0);
    let limit = batches.size_bytes() + batches.size_bytes() / 32;
    for window in 1..20 {
        let at_ms = start + window * (window_ms + 100);
        assert_eq!(fill(&mut batches, capacity, at_ms, limit, &mut next), 0, "window {window}");
    }
    assert_eq!(batches.internal_validate(Validation::Contents), Ok(()));
}
