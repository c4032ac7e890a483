//! Error rates and sizes over simulated days.

use everbloom::bloom::hash::murmur3::hash128;
use everbloom::bloom::sizing::Shape;
use everbloom::bloom::window::{ColumnRate, shapes_at_once, shapes_at_pace};
use everbloom::bloom::{CellType, Filter, ItemHash};

use super::{DAY_MS, add, is_in, measured_rate, rate_now};
use crate::support::Random;
use crate::support::make::{START_MS, promise};

/// Returns the shape of a layer of columns.
fn sized(capacity: u64, rate: f64) -> Shape {
    Shape::sized(CellType::Columns, capacity, rate)
}

/// Returns a random time between two arrivals, with a mean of 1.
fn pause(random: &mut Random) -> f64 {
    let uniform = (random.next() >> 11) as f64 / (1u64 << 53) as f64;
    -(1.0 - uniform).ln()
}

/// Adds items at random times, at the pace of the capacity, for a number of windows, and measures the rate four times
/// in every generation of the last window. Returns the highest rate, the mean rate, and the bits per item.
fn simulate(error_rate: f64, capacity: u64, expansion: u32, windows: f64, seed: u64) -> (f64, f64, f64) {
    let window_ms = DAY_MS;
    let mut random = Random(seed);
    let mut filter = super::filter(error_rate, capacity, expansion, window_ms);
    let size_bytes = filter.size_bytes();
    let mean_ms = window_ms as f64 / capacity as f64;
    let (mut clock_ms, mut item) = (START_MS as f64, 0u64);
    let end_ms = START_MS as f64 + windows * window_ms as f64;
    let phases = 14 * 4 + 1;
    let mut next_look = end_ms - window_ms as f64;
    let (mut highest, mut sum, mut looks) = (0.0f64, 0.0, 0.0);
    let asked = if capacity > 1_000_000 { 100_000 } else { 200_000 };
    while clock_ms < end_ms {
        clock_ms += mean_ms * pause(&mut random);
        if clock_ms >= next_look {
            let rate = measured_rate(&mut filter, next_look as u64, asked);
            highest = highest.max(rate);
            sum += rate;
            looks += 1.0;
            next_look += window_ms as f64 / f64::from(phases);
        }
        assert!(add(&mut filter, item, clock_ms as u64).is_ok(), "seed {seed}: item {item} of {capacity}");
        item += 1;
    }
    assert_eq!(filter.layer_count(), 1, "seed {seed}");
    let now = clock_ms as u64;
    assert!((1..=capacity.min(10_000)).all(|back| is_in(&mut filter, item - back, now)), "seed {seed}");
    // Expired items are found no more often than items that were never added.
    let dead = item - capacity * 6 / 5;
    let (step, mut kept, mut asked) = ((dead / 20_000).max(1), 0u32, 0u32);
    for old in (0..dead).step_by(usize::try_from(step).unwrap()) {
        kept += u32::from(is_in(&mut filter, old, now));
        asked += 1;
    }
    let most = f64::from(asked) * error_rate;
    assert!(f64::from(kept) <= most + 5.0 * most.sqrt() + 3.0, "seed {seed}: {kept} of {asked} kept");
    (highest, sum / looks, size_bytes as f64 * 8.0 / capacity as f64)
}

/// Asserts the rate of filters for a hundred to a million items.
fn assert_random_arrivals_keep(error_rate: f64, most_bits: f64) {
    let seed = 0x0077_696e_646f_7773;
    for (capacity, windows) in [(100, 12.0), (1000, 6.0), (10_000, 4.0), (100_000, 2.3), (1_000_000, 2.2)] {
        for expansion in [0, 2] {
            let (highest, mean, bits) = simulate(error_rate, capacity, expansion, windows, seed);
            println!(
                "seed {seed}, {error_rate}, {capacity} items, expansion {expansion}: highest {highest}, \
                 mean {mean}, {bits} bits per item"
            );
            // Two causes of variance: the same items are looked up each time, and pages are unevenly loaded.
            let sigma = (error_rate / 200_000.0).sqrt();
            assert!(highest <= error_rate * 1.03 + 5.0 * sigma, "{highest} for {error_rate}");
            assert!(mean <= error_rate + 3.0 * sigma, "{mean} for {error_rate}");
            assert!(capacity < 100_000 || bits <= most_bits);
        }
    }
}

#[test]
fn random_arrivals_keep_one_per_cent_at_every_phase() {
    assert_random_arrivals_keep(0.01, 19.0);
}

#[test]
fn random_arrivals_keep_one_in_a_thousand_at_every_phase() {
    assert_random_arrivals_keep(0.001, 25.0);
}

/// A filter that gets items at the even pace of its capacity.
struct Pace {
    filter: Filter,
    capacity: u64,
    next: u64,
}

impl Pace {
    fn moment_ms(&self, item: u64) -> u64 {
        START_MS + item * DAY_MS / self.capacity
    }

    /// Adds all items up to a time.
    fn go(&mut self, until_ms: u64) {
        while self.moment_ms(self.next) < until_ms {
            let at_ms = self.moment_ms(self.next);
            add(&mut self.filter, self.next, at_ms).unwrap();
            self.next += 1;
        }
    }

    /// Asserts that the rate is kept at a time, and that a sample of the items of the window before it is found.
    /// Returns the rate.
    fn look(&mut self, at_ms: u64, error_rate: f64) -> f64 {
        let asked = 1_000_000;
        let rate = measured_rate(&mut self.filter, at_ms, asked);
        // Only the sample is random: the pace is even, and there are thousands of pages.
        let sigma = (error_rate / asked as f64).sqrt();
        assert!(rate <= error_rate + 4.0 * sigma, "{rate} for {error_rate} of {}, at {at_ms}", self.capacity);
        let first = (at_ms - DAY_MS - START_MS) * self.capacity / DAY_MS + 1;
        let mut sample =
            (first..self.next).step_by(997).chain(first..first + 100).chain(self.next - 100..self.next);
        assert!(sample.all(|item| is_in(&mut self.filter, item, at_ms)), "{at_ms}");
        rate
    }
}

/// Asserts the rate of a filter for millions of items, in these generations after the first.
fn assert_an_even_pace_keeps(error_rate: f64, most_bits: f64, capacity: u64, generations: &[u64]) {
    let filter = super::filter(error_rate, capacity, 0, DAY_MS);
    assert!(filter.size_bytes() as f64 * 8.0 / capacity as f64 <= most_bits);
    let span = filter.window().unwrap().span;
    let first = span.generation_at(START_MS) + 1;
    let mut pace = Pace { filter, capacity, next: 0 };
    for generation in generations.iter().map(|after| first + after) {
        let (start_ms, end_ms) = (span.start_of(generation), span.start_of(generation + 1));
        let middle_ms = start_ms.midpoint(end_ms);
        for (phase, add_until_ms, at_ms) in [
            ("start", start_ms, start_ms),
            ("middle", middle_ms, middle_ms),
            ("end", end_ms, end_ms - 1),
            ("start of the next", end_ms, end_ms),
        ] {
            pace.go(add_until_ms);
            println!("{error_rate}, {capacity} items, {phase}: {}", pace.look(at_ms, error_rate));
        }
    }
    assert_eq!(pace.filter.layer_count(), 1);
}

// Fourteen full generations are before the current one; after two more, the column of the first one is reused.

#[test]
fn an_even_pace_of_three_million_items_keeps_one_per_cent_at_every_phase() {
    assert_an_even_pace_keeps(0.01, 19.0, 3_000_000, &[14, 16]);
}

#[test]
fn an_even_pace_of_ten_million_items_keeps_one_in_a_thousand_at_every_phase() {
    assert_an_even_pace_keeps(0.001, 25.0, 10_000_000, &[14]);
}

#[test]
fn sizes_are_those_promised() {
    for (error_rate, most) in [(0.01, 19.0), (0.001, 25.0)] {
        for capacity in
            [100_000u64, 200_000, 333_333, 400_000, 500_000, 700_000, 1_000_000, 10_000_000, 1_000_000_000]
        {
            for rate in [error_rate, error_rate * 31.0 / 32.0] {
                let shape = sized(capacity, rate);
                let bits = shape.size_bits() as f64 / capacity as f64;
                assert!(bits <= most && shape.validate().is_ok(), "{rate} {capacity}: {bits}");
                assert!(shape.lines > 0 || shape.size_bits() <= 8 << 20);
            }
        }
    }
}

#[test]
fn sizes_are_the_same_on_every_machine_and_in_every_version() {
    // A primary and its replica each compute the size of a layer.
    let mut random = Random(17);
    let (mut sizes, mut paged) = (Vec::new(), 0);
    for _ in 0..1000 {
        let mut power_of_two =
            |most: f64| libm::exp2((random.next() >> 11) as f64 / (1u64 << 53) as f64 * most);
        let capacity_items = power_of_two(40.0) as u64;
        let shape = sized(capacity_items, power_of_two(-30.0));
        paged += u32::from(shape.lines > 0);
        sizes.extend([&[shape.lines, shape.probes as u8][..], &shape.positions.to_le_bytes()].concat());
    }
    assert!((400..800).contains(&paged), "{paged} of 1000 are paged");
    assert_eq!(hash128(&sizes), ItemHash { h1: 0x2a06_ea49_d7af_3815, h2: 0x684f_95d3_c94c_3d41 });
}

/// All fifteen live columns of a layer have as many items as they are sized for.
#[test]
fn a_full_layer_has_the_rate_it_was_sized_for() {
    for (error_rate, capacity) in [
        (0.01, 600_000u64),
        (0.001, 600_000),
        (1e-4, 400_000),
        // One of the lines has one probe more than the others.
        (1e-5, 400_000),
        (0.05, 700_000),
        (0.01, 20_000),
        (1e-3, 20_000),
    ] {
        let (mut sum, filters, asked) = (0.0, 3u64, 2_000_000);
        let mut estimate = 0.0;
        for round in 0..filters {
            let mut filter = super::filter(error_rate, capacity, 0, DAY_MS);
            let share = capacity / 14 + (4.0 * (capacity as f64 / 14.0 / 15.0).sqrt()) as u64;
            let generation_ms = DAY_MS / 14;
            for generation in 0..15 {
                for item in 0..share {
                    let at = START_MS + generation * (generation_ms + 1);
                    add(&mut filter, round << 48 | generation << 32 | item, at).unwrap();
                }
            }
            sum += measured_rate(&mut filter, START_MS + 14 * (generation_ms + 1), asked);
            estimate = rate_now(&filter);
        }
        let rate = sum / filters as f64;
        println!("{error_rate}, {capacity} items: {rate}, estimated {estimate}");
        let sigma = (error_rate / (filters * asked) as f64).sqrt();
        assert!(rate <= error_rate * 1.03 + 4.0 * sigma, "{rate} for {error_rate}");
        assert!((estimate / error_rate - 1.0).abs() < 0.03, "{estimate} for {error_rate}");
    }
}

#[test]
fn the_table_of_sizes_in_the_documentation_is_right() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/window.md")).unwrap();
    let table = page.split("| items per window |").nth(1).unwrap().split("\n\n").next().unwrap();
    let rows: Vec<Vec<&str>> =
        table.lines().skip(2).map(|row| row.split('|').map(str::trim).collect()).collect();
    assert_eq!(rows.len(), 5);
    for row in rows {
        let capacity: u64 = row[1].replace(' ', "").parse().unwrap();
        for (rate, written) in [(0.01, &row[2..4]), (0.001, &row[4..6])] {
            let reserved = promise(rate, capacity, 2);
            let bits = |shapes: Vec<Shape>| {
                let bits: u64 = shapes.iter().map(Shape::size_bits).sum();
                format!("{:.1}", bits as f64 / capacity as f64)
            };
            let even = bits(shapes_at_pace(&reserved, capacity).unwrap());
            let at_once = bits(shapes_at_once(&reserved, capacity).unwrap());
            assert_eq!(written, [even, at_once], "{capacity} at {rate}");
        }
    }
    // The items that one generation of a fixed filter takes if the others are empty.
    for capacity in [10_000u64, 1_000_000, 100_000_000] {
        for (rate, share) in [(0.01, 0.107), (0.001, 0.095)] {
            let shape = sized(capacity, rate);
            let items = ColumnRate::of(&shape).items(rate) as f64;
            assert!((share * capacity as f64..1.06 * share * capacity as f64).contains(&items), "{items}");
            let text = format!("{share} of the capacity at {} %", rate * 100.0);
            assert!(page.contains(&text) || page.contains(&format!("{share} at {} %", rate * 100.0)));
        }
    }
}

#[test]
fn the_figures_in_the_documentation_are_those_of_the_cells() {
    let read =
        |name: &str| std::fs::read_to_string(format!("{}/docs/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let (page, cells) = (read("window.md"), read("performance-elsewhere.csv"));
    let cell = |what: &str, kind: &str, quantity: &str| -> f64 {
        let row = cells.lines().find(|row| row.starts_with(&format!("window,{what},,{kind},{quantity},")));
        let value = row.and_then(|row| row.split(',').nth(5)).unwrap_or_else(|| panic!("{what}, {kind}"));
        value.parse().unwrap()
    };
    let table = page.split("| what | rate |").nth(1).unwrap().split("\n\n").next().unwrap();
    let rows: Vec<Vec<&str>> =
        table.lines().skip(2).map(|row| row.split('|').map(str::trim).collect()).collect();
    assert_eq!(rows.len(), 6);
    for row in rows {
        let what = if row[2] == "exact" { row[2].to_owned() } else { format!("at {}", row[2]) };
        let (bits, time) = (cell(&what, row[1], "memory"), cell(&what, row[1], "time per lookup"));
        assert_eq!(row[3], format!("{:.1}", bits / 8.0), "{row:?}");
        assert!(row[4].starts_with(&format!("{:.2} us", time / 1000.0)), "{row:?}, {time}");
    }
}
