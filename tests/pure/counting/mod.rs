//! Filters that items can be deleted from, against a multiset.


mod batches;
mod bytes;
mod hostile;
mod oracle;
mod positions;

use everbloom::bloom::{Blueprint, Chain, Counting, Everbloom, Filter, Growth};

const ANY: u64 = u64::MAX;

fn parameters(error_rate: f64, capacity_items: u64, expansion: u32) -> Counting {
    Counting(Everbloom { error_rate, capacity_items, growth: Growth::from_expansion(expansion) })
}

/// An empty filter that scales with `expansion`; 0 for a fixed one.
fn chain(error_rate: f64, capacity_items: u64, expansion: u32) -> Chain<Counting> {
    match reserve(error_rate, capacity_items, expansion) {
        Filter::Counting(chain) => *chain,
        other => panic!("{other:?}"),
    }
}

fn reserve(error_rate: f64, capacity_items: u64, expansion: u32) -> Filter {
    Filter::reserve(Blueprint::Counting(parameters(error_rate, capacity_items, expansion)), &ANY).unwrap()
}
