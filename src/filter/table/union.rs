//! The union of tables: one table with the entries of several.

use super::entry::EntryKind;
use super::reshape::load_of;
use super::rewrite::{Rewriter, Rule};
use super::schedule::Schedule;
use super::segment::RewriteError;
use super::size::{SegmentShape, TableSize};
use super::source::{EntrySource, Placed, Target};
use super::state::Table;
use super::totals::{EntrySums, ItemCounts, TableCounts, Tally};
use crate::generation::Generation;
use crate::growth_budget::GrowthBudget;
use crate::memory::{OutOfMemory, try_collect};
use crate::outcome::ReserveError;

/// The number of segments in which the entries of a union are counted before its size is chosen. They have some twenty
/// thousand entries, so the estimate is right within a percent.
const SAMPLED_SEGMENTS: usize = 4;
/// If several tables are smaller than the union by this factor, they are united first. A block of a small table is read
/// once for each block of the union that has its items.
const SMALLER: u64 = 4;
/// The most tables that are united first at once.
const UNITED_FIRST: usize = 4;
/// The error rate of a large union is within this share of its estimate, which comes from a few early entries.
const ESTIMATE_ERROR: f64 = 0.25;

/// Why there is no union of tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnionError {
    /// There is no room for the table.
    NoRoom(ReserveError),
    /// An item would be counted too often, or too many counted items were crafted to have the same bucket.
    TooOften,
}

/// A union of tables.
#[derive(Debug)]
pub enum Union {
    /// The first table stays as it is: the others have no live entry that it lacks.
    Unchanged,
    /// A whole table with the entries of all. If the others add nothing, it has another size than the first one: the first
    /// one is too small or far too large for its entries, or smaller than another table.
    Made(Table),
}

impl From<ReserveError> for UnionError {
    fn from(error: ReserveError) -> Self {
        Self::NoRoom(error)
    }
}

impl From<OutOfMemory> for UnionError {
    fn from(_: OutOfMemory) -> Self {
        Self::NoRoom(ReserveError::OutOfMemory)
    }
}

impl From<RewriteError> for UnionError {
    fn from(error: RewriteError) -> Self {
        match error {
            RewriteError::OutOfMemory => Self::NoRoom(ReserveError::OutOfMemory),
            RewriteError::TooFull => Self::TooOften,
        }
    }
}

impl Table {
    /// Returns a table with the parameters of this one, and with the entries of this one and of `others` that are live
    /// at `now`. Entries of later generations count as of `now`, which must not be before the newest entry of this table.
    /// Its size, its items and its error rate do not depend on the order of `others`. O(bytes of all tables and of the
    /// result).
    ///
    /// Before the work of a large union, `check` gets a lower bound of the error rate that the table can reach. If it
    /// refuses this, it gets an upper bound, whose error is returned. The limit of `room` does not refuse a union that
    /// adds nothing.
    ///
    /// # Errors
    /// [`UnionError`], or the error of `check`.
    pub fn union_with<E: From<UnionError>>(
        &self,
        others: &[&Self],
        now: Generation,
        room: &GrowthBudget<'_>,
        check: impl Fn(f64) -> Result<(), E>,
    ) -> Result<Union, E> {
        let others = others.iter().filter(|table| table.used_slots() > 0);
        let inputs = try_collect(others.map(|table| Input::Borrowed(table)).enumerate());
        let mut inputs = inputs.map_err(UnionError::from)?;
        if inputs.is_empty() {
            return Ok(Union::Unchanged);
        }
        let has_later = inputs.iter().any(|(_, input)| input.table().newest() > now);
        let union = Uniting { kind: self.kind(), schedule: self.schedule, now, has_later };
        union.unite_small(&mut inputs, self.size())?;
        let tables = try_collect(std::iter::once(self).chain(inputs.iter().map(|(_, input)| input.table())));
        let tables = tables.map_err(UnionError::from)?;
        let estimate = union.estimate(&tables)?;
        // The error rate of a union that adds nothing is that of this table, whatever the estimate is.
        if estimate.is_sampled && estimate.has_others {
            let rate = estimate.error_rate_max;
            check(rate * (1.0 - ESTIMATE_ERROR)).or_else(|error| {
                check(rate * (1.0 + ESTIMATE_ERROR))?;
                Err(error)
            })?;
        }
        let United { table, has_others } = union.make(&tables, &estimate, room)?;
        // The estimate of a size alone changes nothing.
        let needs_size = !estimate.is_sampled || estimate.least != self.size();
        match table {
            Err(error) if has_others => Err(UnionError::from(error).into()),
            Ok(made) if has_others || needs_size && made.size() != self.size() => Ok(Union::Made(made)),
            Ok(_) | Err(_) => Ok(Union::Unchanged),
        }
    }
}

/// A table that is united with others.
enum Input<'t> {
    Borrowed(&'t Table),
    /// The union of several tables.
    Made(Table),
}

impl Input<'_> {
    const fn table(&self) -> &Table {
        match self {
            Input::Borrowed(table) => table,
            Input::Made(table) => table,
        }
    }
}

/// What is known of a union before it is made.
struct Estimate {
    size: TableSize,
    /// The size that the tables need, whatever the union has.
    least: TableSize,
    used_slots: u64,
    error_rate_max: f64,
    /// Whether only some segments were read.
    is_sampled: bool,
    /// Whether an entry that was read is not from the first table.
    has_others: bool,
}

/// What became of a union.
struct United {
    /// The whole table, or why there is no room for it.
    table: Result<Table, ReserveError>,
    /// Whether the union has entries that the first table does not have.
    has_others: bool,
}

/// The parameters of a union.
struct Uniting {
    kind: EntryKind,
    schedule: Schedule,
    now: Generation,
    /// Whether a table has entries of generations after `now`, which count as of `now`.
    has_later: bool,
}

impl Uniting {
    /// Unites tables that are much smaller than the union of all, the smallest ones first. Such a table would be read
    /// once for each segment of the union. `least` is a lower bound of the size of the union.
    fn unite_small(&self, inputs: &mut Vec<(usize, Input<'_>)>, least: TableSize) -> Result<(), UnionError> {
        for next in inputs.len().. {
            // A stable sort allocates memory, and ends the server if there is none.
            inputs.sort_unstable_by_key(|(number, input)| (input.table().size().buckets(), *number));
            let total = inputs.iter().fold(0u64, |sum, (_, input)| sum + load(input.table()));
            let buckets = TableSize::for_slots(total).max(least).buckets();
            let small =
                inputs.iter().take_while(|(_, input)| input.table().size().buckets() < buckets / SMALLER);
            let count = small.count().min(UNITED_FIRST);
            if count < 2 {
                return Ok(());
            }
            let united = {
                let tables: Vec<&Table> = inputs.iter().take(count).map(|(_, input)| input.table()).collect();
                // With the longest remainders, no entry loses bits here that it would not lose later.
                let schedule = tables
                    .iter()
                    .map(|table| table.schedule)
                    .max_by_key(|one| one.remainder_bits(self.kind, 0));
                let union = Self { schedule: schedule.unwrap_or(self.schedule), ..*self };
                union.make(&tables, &union.largest(&tables), &GrowthBudget::new(&u64::MAX))?.table?
            };
            inputs.drain(..count);
            inputs.push((next, Input::Made(united)));
        }
        Ok(())
    }

    fn rewriter(&self) -> Rewriter {
        let rewriter = Rewriter::new(self.kind, self.schedule, Rule::Sum, self.now);
        // A block that is copied keeps its generations.
        if self.has_later { rewriter.decoding() } else { rewriter }
    }

    /// Returns the estimate of a union that has all entries of the tables.
    fn largest(&self, tables: &[&Table]) -> Estimate {
        let slots = tables.iter().fold(0u64, |sum, table| sum + load(table));
        // Two equal entries that are counted once take two slots, and their union takes three.
        let used_slots = if self.kind == EntryKind::Counted { slots + slots / 2 } else { slots };
        let least = least_size(tables);
        let size = TableSize::for_slots(used_slots).max(least);
        let sum = tables.iter().map(|table| EntrySums::error_rate(table.weight())).sum::<f64>();
        let error_rate_max = sum + self.schedule.rate_of_growth(self.kind, used_slots, size);
        Estimate { size, least, used_slots, error_rate_max, is_sampled: true, has_others: true }
    }

    /// Chooses the size of a union from the entries that a part of it has.
    fn estimate(&self, tables: &[&Table]) -> Result<Estimate, UnionError> {
        let largest = self.largest(tables).size;
        let least = least_size(tables);
        let step = (largest.segments / SAMPLED_SEGMENTS).max(1);
        let placed = Sources::of(tables, largest)?;
        let sources = placed.sources()?;
        let (mut rewriter, mut used, mut share) = (self.rewriter().decoding(), 0u64, 0.0);
        for number in (0..largest.segments).step_by(step) {
            let target = Target::of(largest, number);
            used += rewriter.gather_all(target, &sources)? as u64;
            share += 1.0 / (1u64 << target.depth) as f64;
        }
        let of_all = |number: u64| (number as f64 / share) as u64;
        let used_slots = of_all(used);
        let void_slots = of_all(rewriter.sums().written.void_slots);
        let size = TableSize::for_slots(load_of(used_slots, void_slots)).max(least);
        // Early entries weigh most, and there are few of them. So only the change is estimated.
        let change = EntrySums::error_rate_change(rewriter.sums().change().weight.get()) / share;
        let sum = tables.iter().map(|table| EntrySums::error_rate(table.weight())).sum::<f64>();
        let error_rate_max = sum + change + self.schedule.rate_of_growth(self.kind, used_slots, size);
        let has_others = rewriter.sums().has_others;
        Ok(Estimate { size, least, used_slots, error_rate_max, is_sampled: step > 1, has_others })
    }

    /// Makes the union.
    fn make(
        &self,
        tables: &[&Table],
        estimate: &Estimate,
        room: &GrowthBudget<'_>,
    ) -> Result<United, UnionError> {
        let size = estimate.size;
        let TableSize { blocks_log, segments } = size;
        let counts = TableCounts { blocks_log, segments, ..TableCounts::initial(self.schedule) };
        let width = self.schedule.slot_width(self.kind, size.address_bits(0));
        // The limit is checked before the work, with a size that is slightly too small.
        let mean = (estimate.used_slots / size.segments as u64) as usize;
        let mean = SegmentShape::for_slots(size.blocks_log, width, mean);
        let mean_bytes = mean.map_or(0, |mean| mean.bytes());
        let least_bytes = mean_bytes * size.segments as u64 / 8 * 7;
        let mut table = match Table::try_blank(self.kind, counts, least_bytes, room) {
            Err(error @ ReserveError::OutOfMemory) => return Err(error.into()),
            table => table,
        };
        let (placed, mut rewriter) = (Sources::of(tables, size)?, self.rewriter());
        let sources = placed.sources()?;
        for number in 0..size.segments {
            let target = Target::of(size, number);
            let used = rewriter.collect_saturating(target, &sources)?;
            // After a refusal, the rest is only read, until an entry of another table is found.
            let Ok(made) = &mut table else {
                if rewriter.sums().has_others {
                    break;
                }
                continue;
            };
            if used == 0 {
                continue;
            }
            let segment = rewriter.write_smallest(target, &sources, used)?;
            // The sums follow from those of the tables, at the end.
            if let Err(error) = made.try_put(number, segment, EntrySums::default(), room) {
                table = Err(error);
            }
        }
        if let Ok(made) = &mut table {
            let read = tables.iter().map(|table| table.sums()).fold(EntrySums::default(), EntrySums::plus);
            made.add_sums(read.plus(rewriter.sums().change()));
            self.count(made, tables, rewriter.sums().read_entries);
        }
        Ok(United { table, has_others: rewriter.sums().has_others })
    }

    /// Counts the items of a union. The sources had `read_entries` entries for its segments.
    fn count(&self, made: &mut Table, tables: &[&Table], read_entries: u64) {
        made.counts.advance(self.now);
        let mut tally = Tally::default();
        if self.kind != EntryKind::Plain {
            made.directory.segments().for_each(|(_, segment)| tally.count(self.kind, segment, self.now));
            made.counts.recount(&tally);
        }
        // Headers may say any numbers of items.
        let items = tables.iter().fold(0u64, |sum, table| sum.saturating_add(table.items(self.now)));
        let first = tables.first().map(|first| &first.counts);
        let used = made.used_slots();
        match (&mut made.counts, first) {
            // Some entries stand for no item, or for several. Those that are left out are like the others.
            (ItemCounts::Plain { items: count }, _) => {
                let share = u128::from(items) * u128::from(used) / u128::from(read_entries.max(1));
                *count = u64::try_from(share).unwrap_or(u64::MAX);
            }
            (ItemCounts::Counted { items: count, .. }, _) => *count = items,
            (ItemCounts::Timed { adds, .. } | ItemCounts::Fine { adds, .. }, first) => {
                *adds = first.and_then(ItemCounts::timed_adds).unwrap_or(*adds);
            }
        }
        made.counts.settle(used);
    }
}

fn load(table: &Table) -> u64 {
    load_of(table.used_slots(), table.match_all_counts().void_slots)
}

/// Returns the smallest size of a union of tables.
fn least_size(tables: &[&Table]) -> TableSize {
    let sizes = tables.iter().map(|table| table.size().at_most_for(load(table)));
    sizes.fold(TableSize::of_blocks(0), TableSize::max)
}

/// The segments of tables with entries, if the tables are larger than the union.
struct Sources<'t> {
    tables: Vec<(&'t Table, Option<Vec<Placed<'t>>>)>,
}

impl<'t> Sources<'t> {
    fn of(tables: &[&'t Table], size: TableSize) -> Result<Self, OutOfMemory> {
        let placed = |table: &'t Table| {
            if table.size() <= size {
                return Ok((table, None));
            }
            Ok((table, Some(Placed::all(&table.directory)?)))
        };
        let mut all = Vec::new();
        all.try_reserve_exact(tables.len()).map_err(|_| OutOfMemory)?;
        for table in tables {
            all.push(placed(table)?);
        }
        Ok(Self { tables: all })
    }

    fn sources(&self) -> Result<Vec<EntrySource<'_>>, OutOfMemory> {
        try_collect(self.tables.iter().map(|(table, placed)| match placed {
            Some(placed) => EntrySource::of_segments(placed),
            None => EntrySource::Table(&table.directory),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::murmur3::hash128;
    use crate::table::state::TableSpec;

    /// The estimate of a union with all entries has the error rate of the tables and of further growth.
    #[test]
    fn the_largest_union_has_the_error_rates_of_all() {
        let spec = TableSpec { error_rate: 0.01, kind: EntryKind::Plain, items: 0 };
        let mut tables = [Table::new(spec), Table::new(spec)];
        for item in 0..1_000u64 {
            tables[item as usize % 2].add_at(hash128(&item.to_le_bytes()), 0);
        }
        let [one, other] = &tables;
        let union = Uniting { kind: EntryKind::Plain, schedule: one.schedule, now: 0, has_later: false };
        let estimate = union.largest(&[one, other]);
        let growth = one.schedule.rate_of_growth(EntryKind::Plain, estimate.used_slots, estimate.size);
        let rates = [one.error_rate(0), other.error_rate(0), growth];
        assert!(rates.iter().all(|rate| *rate > 1e-5), "{rates:?}");
        let ratio = estimate.error_rate_max / rates.iter().sum::<f64>();
        assert!((0.999..1.001).contains(&ratio), "{rates:?}, {ratio}");
    }
}
