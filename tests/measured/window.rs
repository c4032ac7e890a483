//! Sliding windows: the error rate and memory of millions of items at every phase of a generation, and memory that
//! expired items give back. tests/pure/oracles has the rates of all other traffic.

use crate::support::{ROOT, effort};
use everbloom::Steps;
use everbloom_filter::generation::WindowLength;
use everbloom_filter::{AddError, Added, Filter, UnknownMemory, Window};

use crate::support::make::{self, START_MS, add_within, contains, promise, set_time, windowed};
use crate::support::saved::assert_valid;

const DAY_MS: u64 = 86_400_000;

/// Returns an empty filter with an expansion; 0 for a fixed one.
fn filter(error_rate: f64, capacity_items: u64, expansion: u32, window_ms: u64) -> Filter {
    windowed(promise(error_rate, capacity_items, expansion), Window::new(WindowLength::new(window_ms), false))
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

/// A filter that gets items at an even pace: as many in a day as its capacity.
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
        // Only the sample is random: the pace is even, and the table has thousands of blocks.
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
    // Live items are those of up to fifteen fourteenths of the window.
    let filter = filter(error_rate, capacity, 2, DAY_MS);
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
    let bits = pace.filter.size_bytes() as f64 * 8.0 / pace.filter.items() as f64;
    println!("{error_rate}, {capacity} items: {bits:.2} bits per live item");
    assert!(bits <= most_bits, "{bits}");
}

// In generation 14 after the first, fourteen full generations are before the current one. In generation 16, the code of
// the first one is reused.

#[test]
fn an_even_pace_of_many_items_keeps_one_per_cent_at_every_phase() {
    assert_an_even_pace_keeps(0.01, 19.7, effort(750_000, 3_000_000), &[14, 16]);
}

#[test]
fn an_even_pace_of_many_items_keeps_one_in_a_thousand_at_every_phase() {
    assert_an_even_pace_keeps(0.001, 23.9, effort(750_000, 3_000_000), &[14]);
}

/// Returns the average and the most bits per live item of a window of 1 % at an even pace, in the third window.
fn bits_per_live_item(capacity: u64, steps: Steps) -> (f64, f64) {
    let span = WindowLength::new(DAY_MS).with_steps(steps);
    let filter = windowed(promise(0.01, capacity, 2), Window::new(span, false));
    let mut pace = Pace { filter, capacity, next: 0 };
    let (mut sum, mut most, samples) = (0.0, 0.0f64, 240);
    for sample in 0..samples {
        pace.go(START_MS + 2 * DAY_MS + sample * DAY_MS / samples);
        let bits = pace.filter.size_bytes() as f64 * 8.0 / pace.filter.items() as f64;
        (sum, most) = (sum + bits, most.max(bits));
    }
    assert_valid(&pace.filter, "an even pace");
    (sum / samples as f64, most)
}

#[test]
fn a_hundred_and_twenty_steps_take_six_more_bits() {
    let capacities = [100_000, 119_000, 141_000, 168_000];
    let of_steps = |steps| {
        let sum = capacities.iter().map(|capacity| {
            let (average, most) = bits_per_live_item(*capacity, steps);
            println!(
                "{capacity} items, {steps:?}: {average:.2} bits per live item on average, {most:.2} at most"
            );
            assert!(most <= if steps == Steps::Fine { 27.0 } else { 20.5 }, "{most}");
            average
        });
        sum.sum::<f64>() / capacities.len() as f64
    };
    let (coarse, fine) = (of_steps(Steps::Fourteen), of_steps(Steps::Fine));
    println!("{coarse:.2} and {fine:.2} bits per live item");
    assert!(fine <= coarse + 6.2, "{coarse} and {fine}");
}

#[test]
fn the_bits_of_an_item_are_those_of_the_page_for_each_capacity() {
    let page = std::fs::read_to_string(format!("{ROOT}/docs/window.md")).unwrap();
    for &(name, error_rate) in effort(&[("1 %", 0.01)][..], &[("1 %", 0.01), ("0.1 %", 0.001)]) {
        let bits = [1_000_000, 100_000, 10_000, 1000, 100].map(|capacity| {
            let mut filter = filter(error_rate, capacity, 2, DAY_MS);
            (0..1_000_000).for_each(|item| assert!(add(&mut filter, item, START_MS).is_ok()));
            format!("{:.1}", filter.size_bytes() as f64 * 8.0 / 1e6)
        });
        let row = format!("| {name} | {} |", bits.join(" | "));
        assert!(page.contains(&row), "docs/window.md lacks {row}");
    }
}

/// Two faults that windows once had. A window near its limit refused every add forever, although all its items had
/// expired. And a batch was refused after an earlier batch of the same size had fitted and expired.
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
        (first..*next).filter(|item| add_within(filter, &item.to_le_bytes(), limit).is_err()).count()
    };
    // For four windows, items come at two and a half times the pace of the capacity. The limit is 1.2 times the bytes
    // of a filter with the reserved number of items.
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
    // A batch of the same size fits again in every window, with a limit of 1/32 more than the bytes that it takes.
    let mut batches = self::filter(0.01, capacity, 2, window_ms);
    assert_eq!(fill(&mut batches, capacity, start, make::ANY, &mut next), 0);
    let limit = batches.size_bytes() + batches.size_bytes() / 32;
    for window in 1..20 {
        let at_ms = start + window * (window_ms + 100);
        assert_eq!(fill(&mut batches, capacity, at_ms, limit, &mut next), 0, "window {window}");
    }
    assert_valid(&batches, "batches");
}

/// Without expired entries, a merge needs no more memory than the items of its source.
#[test]
fn a_merge_removes_the_expired_entries_of_the_destination() {
    let filled = |items: std::ops::Range<u64>, at_ms| {
        let mut filter = filter(0.01, 1000, 2, DAY_MS);
        items.for_each(|item| _ = add(&mut filter, item, at_ms).unwrap());
        filter
    };
    let (mut destination, later_ms) = (filled(0..20_000, START_MS), START_MS + 2 * DAY_MS);
    let source = filled(20_000..40_000, later_ms);
    set_time(&mut destination, later_ms);
    destination.merge(&[&source], u64::MAX, true, &u64::MAX, UnknownMemory).unwrap();
    let [merged, alone] = [&destination, &source].map(|filter| filter.table().unwrap());
    assert!(merged.used_slots() <= alone.used_slots());
    assert!(merged.size_bytes() <= alone.size_bytes() / 100 * 105, "{}", merged.size_bytes());
    assert!((20_000..40_000).all(|item| is_in(&mut destination, item, later_ms)));
}
