//! Filters that forget, against a map of each item's last add.


mod bytes;
mod hostile;
mod oracle;
mod rates;

use everbloom::bloom::window::Span;
use everbloom::bloom::{AddError, Added, Blueprint, Chain, Depth, Everbloom, Filter, Growth, Window};

const ANY: u64 = u64::MAX;
const DAY_MS: u64 = 86_400_000;
/// A moment in 2027, in milliseconds of UNIX time.
const START_MS: u64 = 1_800_000_000_000;

fn parameters(error_rate: f64, capacity_items: u64, expansion: u32) -> Everbloom {
    Everbloom { error_rate, capacity_items, growth: Growth::from_expansion(expansion) }
}

/// An empty filter that scales with `expansion`; 0 for a fixed one.
fn chain(error_rate: f64, capacity_items: u64, expansion: u32, window_ms: u64) -> Chain<Window> {
    of(Window::new(parameters(error_rate, capacity_items, expansion), Span::new(window_ms), false))
}

fn of(window: Window) -> Chain<Window> {
    match Filter::reserve(Blueprint::Window(window), &ANY).unwrap() {
        Filter::Window(chain) => *chain,
        other => panic!("{other:?}"),
    }
}

/// Adds an item at a moment, in milliseconds of UNIX time.
fn add(chain: &mut Chain<Window>, item: u64, at_ms: u64) -> Result<Added, AddError> {
    chain.family_mut().tell_time(at_ms);
    let added = chain.add(chain.digest(&item.to_le_bytes()), &ANY);
    drop(chain.take_dead());
    assert_eq!(chain.internal_validate(Depth::Layers), Ok(()));
    added
}

/// Whether an item seems to be there at a moment.
fn is_in(chain: &mut Chain<Window>, item: u64, at_ms: u64) -> bool {
    chain.family_mut().tell_time(at_ms);
    chain.contains(chain.digest(&item.to_le_bytes()))
}

/// Share of items that were never added and are found all the same, of so many.
fn measured_rate(chain: &mut Chain<Window>, at_ms: u64, asked: u64) -> f64 {
    chain.family_mut().tell_time(at_ms);
    let found =
        (0..asked).filter(|number| chain.contains(chain.digest(&(u64::MAX - number).to_le_bytes()))).count();
    found as f64 / asked as f64
}
