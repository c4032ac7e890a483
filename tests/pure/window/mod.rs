//! Sliding windows compared with a map of each item's last add.

mod bursts;
mod oracle;
mod rates;

use everbloom::bloom::window::{Span, live_rate};
use everbloom::bloom::{AddError, Added, Depth, Filter, Window};

use crate::support::make::{self, contains, promise, set_time, windowed};

const DAY_MS: u64 = 86_400_000;

/// Returns an empty filter with an expansion; 0 for a fixed one.
fn filter(error_rate: f64, capacity_items: u64, expansion: u32, window_ms: u64) -> Filter {
    windowed(Window::new(promise(error_rate, capacity_items, expansion), Span::new(window_ms), false))
}

/// Adds an item at a time in milliseconds of UNIX time.
fn add(filter: &mut Filter, item: u64, at_ms: u64) -> Result<Added, AddError> {
    set_time(filter, at_ms);
    let added = make::add(filter, &item.to_le_bytes());
    drop(filter.take_expired());
    assert_eq!(filter.internal_validate(Depth::Layers), Ok(()));
    added
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

/// Returns the sum of the error rates of all live generations.
fn rate_now(filter: &Filter) -> f64 {
    let now = filter.window().unwrap().moment().now;
    filter.layers().iter().map(|layer| live_rate(layer, now)).sum()
}
