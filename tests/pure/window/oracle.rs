//! Random clocks, bursts, idle times and steps backwards, compared with a map of each item's last add.

use std::collections::HashMap;

use everbloom::bloom::Window;
use everbloom::bloom::window::Span;
use everbloom::bloom::{AddError, Added, Depth};

use super::{DAY_MS, add, is_in, rate_now};
use crate::support::Random;
use crate::support::make::{self, START_MS, promise, windowed};

/// The items of a filter.
#[derive(Default)]
struct Oracle {
    /// The time of the last add of each item.
    last: HashMap<u64, u64>,
    /// The newest of these times.
    newest_ms: u64,
}

impl Oracle {
    /// Returns the time of the filter if the clock is at `now_ms`.
    fn time(&self, now_ms: u64) -> u64 {
        now_ms.max(self.newest_ms)
    }

    fn add(&mut self, item: u64, now_ms: u64) {
        let at_ms = self.time(now_ms);
        self.last.insert(item, at_ms);
        self.newest_ms = at_ms;
    }
}

/// Returns the next time of the clock: mostly a small part of the window later, sometimes far later, sometimes
/// earlier.
fn step(random: &mut Random, window_ms: u64, now_ms: u64) -> u64 {
    let part = |random: &mut Random, of: u64| random.next() % (of + 1);
    match random.below(40) {
        0 => now_ms + 49 * DAY_MS,
        1 => now_ms + part(random, window_ms * 20),
        2 => now_ms - part(random, window_ms / 7).min(now_ms / 2),
        3 => now_ms - part(random, window_ms * 2).min(now_ms / 2),
        4 | 5 => now_ms + part(random, window_ms * 2),
        6..=15 => now_ms,
        _ => now_ms + part(random, window_ms / 20),
    }
}

/// Runs commands at random times. Returns the number of expired items that were found, and of those that were looked
/// up.
fn run(window_ms: u64, capacity: u64, expansion: u32, seed: u64) -> (u64, u64) {
    let mut random = Random(seed);
    let (mut filter, mut oracle) = (super::filter(0.01, capacity, expansion, window_ms), Oracle::default());
    let generation_ms = Span::new(window_ms).generation_ms();
    let mut now_ms = START_MS;
    let (mut kept, mut dead) = (0, 0);
    for round in 0..600 {
        now_ms = step(&mut random, window_ms, now_ms);
        let context = format!("seed {seed}, {window_ms} ms, round {round}, at {now_ms}");
        let items = if random.below(20) == 0 { capacity } else { 1 + random.next() % (capacity / 20 + 1) };
        for _ in 0..items {
            let item = random.next() % (capacity * 8);
            let was_in = is_in(&mut filter, item, now_ms);
            match add(&mut filter, item, now_ms) {
                Ok(Added::New) => assert!(!was_in, "{context}"),
                Ok(_) => assert!(was_in, "{context}"),
                Err(error) => {
                    assert_eq!((error, expansion), (AddError::Full, 0), "{context}");
                    continue;
                }
            }
            oracle.add(item, now_ms);
        }
        assert_eq!(filter.internal_validate(Depth::Cells), Ok(()), "{context}");
        // A lookup at any time changes nothing.
        let later_ms = now_ms + random.next() % (window_ms * 2);
        for ask_ms in [now_ms, later_ms, now_ms - now_ms / 3] {
            let time = oracle.time(ask_ms);
            for _ in 0..40 {
                let item = random.next() % (capacity * 8);
                let found = is_in(&mut filter, item, ask_ms);
                let age_ms = oracle.last.get(&item).map_or(u64::MAX, |last| time - last);
                if age_ms <= window_ms {
                    assert!(found, "{context}: {item} expired after {age_ms} ms");
                } else if age_ms > window_ms + generation_ms + 1 {
                    dead += 1;
                    kept += u64::from(found);
                }
            }
        }
    }
    for (item, last) in &oracle.last {
        let age_ms = oracle.time(now_ms) - last;
        assert!(age_ms > window_ms || is_in(&mut filter, *item, now_ms), "seed {seed}: {item}");
    }
    assert!(filter.layer_count() < 60, "seed {seed}: {} layers", filter.layer_count());
    (kept, dead)
}

#[test]
fn items_are_found_for_their_window_and_not_long_after() {
    let ten_years_ms = 3653 * DAY_MS;
    let (mut kept, mut dead) = (0, 0);
    for (index, window_ms) in
        [100, 101, 1000, 3 * 3_600_000, DAY_MS, 49 * DAY_MS, ten_years_ms].into_iter().enumerate()
    {
        for (capacity, expansion) in [(20, 2), (300, 2), (300, 0), (2000, 1)] {
            let seed = 0x006f_7261_636c_6500 + index as u64;
            let (more_kept, more_dead) = run(window_ms, capacity, expansion, seed);
            println!("seed {seed}, {window_ms} ms, {capacity} items: {more_kept} of {more_dead} kept");
            kept += more_kept;
            dead += more_dead;
        }
    }
    assert!(dead > 10_000);
    assert!((kept as f64) < 0.01 * dead as f64, "{kept} of {dead}");
}

#[test]
fn items_of_a_paged_filter_expire_in_time() {
    let seed = 0x0070_6167_6573;
    let mut random = Random(seed);
    let window_ms = DAY_MS;
    let (mut filter, mut oracle) = (super::filter(0.01, 1_500_000, 0, window_ms), Oracle::default());
    assert!(filter.layers()[0].shape().unwrap().regions() > 100);
    let (mut now_ms, mut kept) = (START_MS, 0);
    for _ in 0..200 {
        now_ms = step(&mut random, window_ms, now_ms);
        for _ in 0..3000 {
            let item = random.next() % 100_000;
            add(&mut filter, item, now_ms).unwrap();
            oracle.add(item, now_ms);
        }
        for _ in 0..3000 {
            let item = random.next() % 100_000;
            let age_ms = oracle.last.get(&item).map_or(u64::MAX, |last| oracle.time(now_ms) - last);
            let found = is_in(&mut filter, item, now_ms);
            assert!(found || age_ms > window_ms, "seed {seed}: {item} after {age_ms} ms");
            kept += u32::from(found && age_ms > window_ms + window_ms / 14 + 1);
        }
        assert_eq!(filter.internal_validate(Depth::Cells), Ok(()), "seed {seed}");
    }
    assert!(kept < 60, "seed {seed}: {kept} of 600000");
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
    let mut filter = super::filter(0.01, 1000, 2, 14_000);
    assert_eq!(add(&mut filter, 1, start), Ok(Added::New));
    assert_eq!(add(&mut filter, 1, start + 999), Ok(Added::Present));
    for step in 1..=40 {
        assert_eq!(add(&mut filter, 1, start + step * 1000), Ok(Added::Again), "{step}");
    }
    assert_eq!(filter.items(), 15);
    assert!(is_in(&mut filter, 1, start + 54_999) && !is_in(&mut filter, 1, start + 55_000));
}

#[test]
fn an_item_added_at_an_earlier_time_expires_a_window_after_that_time() {
    for (capacity, seed) in [(1000, 1u64), (600_000, 2)] {
        let mut filter = super::filter(0.01, capacity, 2, 14_000);
        let start = START_MS / 14_000 * 14_000;
        add(&mut filter, 1, start).unwrap();
        for back in 0..20u64 {
            filter.window_mut().unwrap().set_moment(start - back * 1000);
            let added = make::add(&mut filter, &(seed << 32 | back).to_le_bytes());
            assert_eq!(added, Ok(if back < 15 { Added::New } else { Added::Present }), "{back}");
        }
        assert_eq!(filter.items(), 16);
        for back in 0..15u64 {
            let (item, end) = (seed << 32 | back, start + 15_000 - back * 1000);
            assert!(is_in(&mut filter, item, end - 1) && !is_in(&mut filter, item, end), "{back}");
        }
    }
}

/// A fixed filter refuses items beyond the share of one generation, and accepts items again in the next one.
#[test]
fn a_filter_of_fixed_size_refuses_a_burst() {
    let (window_ms, capacity) = (14_000, 1400);
    let start = START_MS / window_ms * window_ms;
    let mut filter = super::filter(0.01, capacity, 0, window_ms);
    let taken = (0..capacity).take_while(|item| add(&mut filter, *item, start).is_ok()).count();
    println!("{taken} of {capacity} items at once");
    assert!((100..300).contains(&taken), "{taken}");
    assert_eq!(add(&mut filter, u64::MAX, start), Err(AddError::Full));
    assert_eq!(add(&mut filter, u64::MAX, start + 1000), Ok(Added::New));
    assert!(rate_now(&filter) <= 0.0101);
}

/// Thirty windows of items at once, with the smallest expansion: the remaining error rate suffices for all layers.
#[test]
fn a_filter_with_little_growth_keeps_its_rate_in_a_burst() {
    let mut filter = super::filter(0.01, 100, 1, 14_000);
    (0..3000).for_each(|item| {
        add(&mut filter, item, START_MS).unwrap();
    });
    let layers = filter.layer_count();
    println!("{layers} layers");
    assert!(layers < 30, "{layers}");
    assert!(rate_now(&filter) <= 0.01);
}
