//! The expandable table alone: what tests/pure/oracles and the fuzz target `table` do not see, because it shows only in
//! rates, memory and bytes, or needs crafted items.

mod counts;
mod crafted;
mod entries;
mod forged;
mod frozen;
mod live_rates;
mod loading;
mod prefetch;
mod rates;
mod replicas;
pub(crate) mod segments;
mod unions;

use everbloom_filter::hash::murmur3::hash128;
use everbloom_filter::prefetch::NoPrefetch;
use everbloom_filter::table::{Addition, EntryKind, Table, TableSpec, Union};
use everbloom_filter::{AddError, Added, GrowthBudget, ItemHash, OutOfMemory, Prefetch};

use crate::support::make::insert;

/// Every kind of entries.
const KINDS: [EntryKind; 3] =
    [EntryKind::Plain, EntryKind::Counted, EntryKind::Timed(everbloom::Steps::Fourteen)];

/// Returns the room of a command without a limit.
fn any() -> GrowthBudget<'static> {
    GrowthBudget::new(&u64::MAX)
}

/// Returns an addition without a hash, in generation `now`.
fn addition(now: u64) -> Addition {
    Addition { hash: ItemHash::default(), generation: now, now, only_absent: false, most_items: u64::MAX }
}

/// Returns an empty table of plain entries.
fn plain(error_rate: f64) -> Table {
    of_kind(EntryKind::Plain, error_rate, 0)
}

/// Returns an empty table of counted entries.
fn counted(error_rate: f64) -> Table {
    of_kind(EntryKind::Counted, error_rate, 0)
}

/// Returns an empty table of timed entries for `items` live items.
fn timed(error_rate: f64, items: u64) -> Table {
    of_kind(EntryKind::Timed(everbloom::Steps::Fourteen), error_rate, items)
}

/// Returns an empty table of a kind. A table of timed entries is sized for `items` live items.
fn of_kind(kind: EntryKind, error_rate: f64, items: u64) -> Table {
    let items = if kind.is_timed() { items } else { 0 };
    Table::new(TableSpec { error_rate, kind, items })
}

/// Returns the table of a union; `None` if the first table stays as it is.
fn made(union: Union) -> Option<Table> {
    if let Union::Made(table) = union { Some(table) } else { None }
}

/// Returns the hash of an item that is a number.
fn hash(item: u64) -> ItemHash {
    hash128(&item.to_le_bytes())
}

/// Adds an item to plain or counted entries.
fn add(table: &mut Table, item: u64) -> Result<Added, AddError> {
    insert(table, Addition { hash: hash(item), ..addition(0) }, &any())
}

/// Adds an item to entries of any kind. Timed entries get the generation `now`.
fn add_kind(table: &mut Table, item: u64, now: u64) -> Added {
    insert(table, Addition { hash: hash(item), ..addition(now) }, &any()).unwrap()
}

/// Removes an item once from counted entries.
fn remove(table: &mut Table, item: u64, prefetch: impl Prefetch) -> Result<bool, OutOfMemory> {
    let mut removed = None;
    table.remove_each(&[hash(item)], prefetch, |result| {
        removed = Some(result);
        true
    });
    removed.unwrap()
}

/// Returns whether a table has an item at `now`.
fn has_at(table: &Table, item: u64, now: u64) -> bool {
    table.contains(hash(item), now, NoPrefetch)
}

/// Returns whether a table without generations has an item.
fn has(table: &Table, item: u64) -> bool {
    table.contains(hash(item), 0, NoPrefetch)
}

/// Returns the share of `probes` absent items that are found at `now`.
fn measured_rate(table: &Table, now: u64, probes: u64) -> f64 {
    let found = (0..probes).filter(|probe| table.contains(hash(probe + (1 << 60)), now, NoPrefetch)).count();
    found as f64 / probes as f64
}

/// Returns the table that is loaded from the saved bytes of a table.
fn reloaded(table: &Table) -> Table {
    let mut loaded = Table::try_of_counts(table.kind(), table.counts(), table.used_slots(), &any()).unwrap();
    for (number, words, stamp) in table.segments() {
        loaded.set_segment(number, words.into(), stamp).unwrap();
    }
    loaded
}

/// Returns the bytes of all segments.
fn bytes(table: &Table) -> Vec<u64> {
    table.segments().flat_map(|(number, words, stamp)| [&[number as u64, stamp], words].concat()).collect()
}
