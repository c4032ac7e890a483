//! The memory of filters under uneven traffic, as a multiple of the memory at an even pace, and their error rate.

use everbloom::bloom::sizing::Shape;
use everbloom::bloom::window::{Span, shapes_at_once, shapes_at_pace};
use everbloom::bloom::{Depth, Filter};

use super::{is_in, measured_rate, rate_now};
use crate::support::make::{self, START_MS, promise, set_time};

/// The window. A generation is a second.
const WINDOW_MS: u64 = 14_000;
const SECOND: u64 = 1000;

/// A filter, the number of its next item, and the largest memory so far.
struct Traffic {
    filter: Filter,
    start_ms: u64,
    error_rate: f64,
    reserved_bytes: f64,
    next: u64,
    most: f64,
}

impl Traffic {
    fn new(error_rate: f64, capacity: u64, expansion: u32) -> Self {
        let filter = super::filter(error_rate, capacity, expansion, WINDOW_MS);
        let start_ms = START_MS / WINDOW_MS * WINDOW_MS;
        let reserved_bytes = filter.size_bytes() as f64;
        Self { filter, start_ms, error_rate, reserved_bytes, next: 0, most: 0.0 }
    }

    /// Adds items evenly over the time `from_ms..to_ms` after the start.
    fn add(&mut self, items: u64, from_ms: u64, to_ms: u64) {
        for index in 0..items {
            let at_ms = self.start_ms + from_ms + (to_ms - from_ms) * index / items;
            set_time(&mut self.filter, at_ms);
            make::add(&mut self.filter, &self.next.to_le_bytes()).unwrap();
            drop(self.filter.take_expired());
            self.next += 1;
            if index % 256 == 0 || index + 1 == items {
                self.look();
            }
        }
    }

    fn look(&mut self) {
        assert_eq!(self.filter.internal_validate(Depth::Layers), Ok(()));
        self.most = self.most.max(self.memory());
        let rate = rate_now(&self.filter);
        assert!(rate <= self.error_rate * 1.0001, "{rate} of {}, {} items", self.error_rate, self.next);
    }

    /// Returns the memory as a multiple of that of an even pace.
    fn memory(&self) -> f64 {
        self.filter.size_bytes() as f64 / self.reserved_bytes
    }

    /// Asserts the measured rate, and that the newest `items` are found, some time after the start.
    fn measure(&mut self, items: u64, at_ms: u64) {
        let now_ms = self.start_ms + at_ms;
        let rate = measured_rate(&mut self.filter, now_ms, 200_000);
        assert!(rate <= self.error_rate + 4.0 * (self.error_rate / 200_000.0).sqrt(), "{rate}");
        let newest = self.next - items..self.next;
        assert!(newest.step_by(7).all(|item| is_in(&mut self.filter, item, now_ms)));
    }
}

/// Error rates and capacities.
const FILTERS: [(f64, u64); 3] = [(0.01, 14_000), (0.001, 14_000), (0.01, 140_000)];
/// The same for tests with the items of many windows.
const SMALL_FILTERS: [(f64, u64); 2] = [(0.01, 14_000), (0.001, 14_000)];

#[test]
fn the_whole_capacity_in_one_instant_takes_two_and_a_half_times_the_memory() {
    for (error_rate, capacity) in FILTERS {
        let mut traffic = Traffic::new(error_rate, capacity, 2);
        traffic.add(capacity, 0, 1);
        println!("{error_rate} {capacity}: {:.2}, {} layers", traffic.most, traffic.filter.layer_count());
        assert!(traffic.most <= 2.5);
        traffic.measure(capacity, 0);
        traffic.measure(capacity, WINDOW_MS);
        // The first add after the burst has expired frees its memory.
        traffic.add(1, 15 * SECOND, 15 * SECOND);
        assert!(traffic.memory() <= 1.1, "{}", traffic.memory());
    }
}

#[test]
fn memory_rises_evenly_with_the_burst() {
    for (error_rate, capacity) in FILTERS {
        let mut traffic = Traffic::new(error_rate, capacity, 2);
        let mut text = String::new();
        for step in 1..=160 {
            traffic.add(capacity / 40, 0, 1);
            let x = f64::from(step) / 40.0;
            let memory = traffic.memory();
            if step % 4 == 0 {
                text += &format!(
                    " {x}:{memory:.2}/{:.2}{}",
                    0.7 + 1.9 * x,
                    if memory > 0.7 + 1.9 * x { "!" } else { "" }
                );
            }
            // The layer for an even pace alone counts as 1.
            assert!(memory <= (0.8 + 1.9 * x).max(1.05 + 1.1 * x), "{x}: {memory}");
        }
        println!("{error_rate} {capacity}, {} layers:{text}", traffic.filter.layer_count());
        traffic.measure(4 * capacity, 0);
    }
}

/// Adds batches of items at given times after the start of every window, for some windows.
fn periodic(error_rate: f64, capacity: u64, batches: &[(u64, u64, u64)], windows: u64) -> Traffic {
    let mut traffic = Traffic::new(error_rate, capacity, 2);
    for window in 0..windows {
        for (items, from_ms, to_ms) in batches {
            traffic.add(*items, window * WINDOW_MS + from_ms, window * WINDOW_MS + to_ms);
        }
    }
    traffic
}

#[test]
fn periodic_bursts_take_little_more_than_their_items() {
    for (error_rate, capacity) in SMALL_FILTERS {
        let quarter = capacity / 4;
        let quarters: Vec<_> = (0..4).map(|part| (quarter, part * 3500, part * 3500 + 1)).collect();
        let days: Vec<_> = (0..7).map(|day| (capacity / 7, day * 2000, day * 2000 + 1)).collect();
        for (what, batches, most) in [
            ("capacity every window", vec![(capacity, 0, 1)], 3.3),
            ("a quarter four times", quarters, 2.5),
            ("a seventh every day of a week", days, 2.5),
            ("all within 8 of 24 hours", vec![(capacity, 0, WINDOW_MS / 3)], 2.2),
            ("all within 8 of 24 hours, later", vec![(capacity, 5500, 5500 + WINDOW_MS / 3)], 2.2),
        ] {
            let mut traffic = periodic(error_rate, capacity, &batches, 6);
            let layers = traffic.filter.layer_count();
            println!("{error_rate} {capacity}, {what}: {:.2} of {most}, {layers} layers", traffic.most);
            assert!(traffic.most <= most, "{what}: {}", traffic.most);
            traffic.measure(capacity / 4, 6 * WINDOW_MS - 1);
        }
    }
}

#[test]
fn memory_follows_the_pace_up_and_down() {
    for (error_rate, capacity) in SMALL_FILTERS {
        for pace in [2, 3] {
            let mut traffic = Traffic::new(error_rate, capacity, 2);
            traffic.add(4 * pace * capacity, 0, 4 * WINDOW_MS);
            println!("{error_rate} {capacity}, {pace}: {:.2}, at most {:.2}", traffic.memory(), traffic.most);
            let settled = pace.next_power_of_two() as f64 * 1.1;
            assert!(traffic.memory() <= settled, "{}", traffic.memory());
            traffic.measure(pace * capacity, 4 * WINDOW_MS - 1);
            traffic.most = 0.0;
            traffic.add(4 * capacity, 4 * WINDOW_MS, 8 * WINDOW_MS);
            println!("afterwards {:.2}, at most {:.2}", traffic.memory(), traffic.most);
            assert!(traffic.memory() <= 1.1, "{}", traffic.memory());
            traffic.measure(capacity, 8 * WINDOW_MS - 1);
        }
    }
}

#[test]
fn an_even_pace_after_a_burst_takes_no_more_memory_than_the_burst() {
    for (error_rate, capacity) in FILTERS {
        let mut traffic = Traffic::new(error_rate, capacity, 2);
        traffic.add(capacity, 0, 1);
        let memory = traffic.memory();
        traffic.add(capacity, SECOND, SECOND + WINDOW_MS);
        traffic.measure(capacity, SECOND + WINDOW_MS);
        println!("{error_rate} {capacity}: {memory:.2}, {:.2}", traffic.most);
        assert!(traffic.most <= memory + 0.01, "{memory} {}", traffic.most);
        traffic.add(1, SECOND + WINDOW_MS, SECOND + WINDOW_MS);
        assert!(traffic.memory() <= 1.1, "{}", traffic.memory());
    }
}

#[test]
fn computed_memory_equals_that_of_filters() {
    for (error_rate, capacity) in SMALL_FILTERS {
        let reserved = promise(error_rate, capacity, 2);
        for times in [1, 2, 3] {
            let mut traffic = Traffic::new(error_rate, capacity, 2);
            traffic.add(times * capacity, 0, 1);
            let shapes = shapes_at_once(&reserved, times * capacity).unwrap();
            let bits =
                |filter: &Filter| filter.layers().iter().map(|layer| layer.cells().size_bits()).sum::<u64>();
            // Items of a burst that are false positives are not added.
            assert_eq!(shapes.iter().map(Shape::size_bits).sum::<u64>(), bits(&traffic.filter));
            let mut traffic = Traffic::new(error_rate, capacity, 2);
            traffic.add(4 * times * capacity, 0, 4 * WINDOW_MS);
            let shapes = shapes_at_pace(&reserved, times * capacity).unwrap();
            assert_eq!(shapes.iter().map(Shape::size_bits).sum::<u64>(), bits(&traffic.filter), "{times}");
        }
    }
    assert_eq!(Span::new(WINDOW_MS).generation_ms(), SECOND);
}
