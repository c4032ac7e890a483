//! Measures every kind of work on every filter repeatedly, with the kinds of filter in turn.

use std::collections::HashMap;

use super::client::pipeline;
use super::failure::Failure;
use super::filters;
use super::items::{self, ABSENT, mix};
use super::plan::Plan;
use super::process::Server;
use super::progress::Progress;
use super::sample::Samples;
use super::series::{Scope, Series, Size};

/// What is done with the items.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Work {
    /// New items are added.
    Add,
    /// Items are looked up, and a share of them was added.
    Check {
        /// Share of the items that were added, in percent.
        hits_percent: u64,
    },
}

/// Lookups of which half find an added item.
pub(crate) const HALF_PRESENT: Work = Work::Check { hits_percent: 50 };

impl Work {
    /// All kinds.
    pub(crate) const ALL: [Self; 4] =
        [Self::Add, Self::Check { hits_percent: 0 }, HALF_PRESENT, Self::Check { hits_percent: 100 }];

    /// Returns its name in the tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Add => "add, new items",
            Self::Check { hits_percent: 0 } => "lookup, absent items",
            Self::Check { hits_percent: 100 } => "lookup, present items",
            Self::Check { .. } => "lookup, half present",
        }
    }

    fn command(self, per_command: usize) -> &'static str {
        match (self, per_command) {
            (Self::Add, 1) => "ADD",
            (Self::Add, _) => "MADD",
            (Self::Check { .. }, 1) => "EXISTS",
            (Self::Check { .. }, _) => "MEXISTS",
        }
    }
}

/// One place in the tables.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    /// Name of the size.
    pub(crate) size: &'static str,
    /// Kind of work.
    pub(crate) work: Work,
    /// Items per command.
    pub(crate) per_command: usize,
    /// Name of the series.
    pub(crate) series: String,
}

/// The measurements of one place, round by round.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cell {
    /// Time of the command per item, in nanoseconds, as the server reports it.
    pub(crate) item_ns: Samples,
    /// Items per second through one pipelined connection.
    pub(crate) items_per_second: Samples,
}

/// Memory of a filter that was not reserved, or of a filter reserved for the same items.
pub(crate) struct Memory {
    /// Name of the size.
    pub(crate) size: &'static str,
    /// Name of the series.
    pub(crate) series: String,
    /// Bits per item by BF.INFO.
    pub(crate) item_bits: f64,
}

/// All cells.
pub(crate) type BitArray = HashMap<Place, Cell>;

/// Measures every cell in every round.
pub(crate) fn measure(
    plan: &Plan,
    servers: &[Server],
    series: &[Series],
    progress: &mut Progress,
) -> Result<(BitArray, Vec<Memory>), Failure> {
    let (mut cells, mut memory) = (BitArray::new(), Vec::new());
    let mut bench = Bench { servers, restored: HashMap::new(), used: 0 };
    for size in &plan.sizes {
        for one in series.iter().filter(|one| one.is_measured_on(size, plan.big.bytes)) {
            progress.step(&format!("filling {}, {}", size.name, one.name));
            let server = servers.get(one.server).ok_or("no such server")?;
            filters::make(server, one, size).map_err(|failure| format!("{}: {failure}", one.name))?;
            if size.is_unreserved() {
                let size_bytes = filters::information(&mut server.client()?, &size.key(one), "SIZE")?;
                let item_bits = size_bytes as f64 * 8.0 / size.known as f64;
                memory.push(Memory { size: size.name, series: one.name.clone(), item_bits });
            }
        }
    }
    for round in 0..plan.rounds {
        for size in &plan.sizes {
            progress.step(&format!("round {} of {}, {}", round + 1, plan.rounds, size.name));
            let measured: Vec<&Series> =
                series.iter().filter(|one| one.is_measured_on(size, plan.big.bytes)).collect();
            for (work, per_command) in work_on(size) {
                for turn in 0..measured.len() {
                    // The order changes in every round, since a measurement depends on what the one before has left in
                    // the caches.
                    let Some(one) = measured.get((turn + round) % measured.len()) else { continue };
                    let (item_ns, items_per_second) = bench
                        .one(size, work, per_command, one, plan.items(per_command))
                        .map_err(|failure| {
                            format!("{}, {}, {work:?} x {per_command}: {failure}", one.name, size.name)
                        })?;
                    let series = one.name.clone();
                    let cell = cells.entry(Place { size: size.name, work, per_command, series }).or_default();
                    cell.item_ns.push(item_ns);
                    cell.items_per_second.push(items_per_second);
                }
            }
        }
    }
    Ok((cells, memory))
}

/// Returns the kinds of work on filters of one size, with items per command.
pub(crate) fn work_on(size: &Size) -> Vec<(Work, usize)> {
    // Filters that were not reserved, and filters with very small error rates, are measured with fewer batch sizes.
    let is_special = size.is_unreserved() || size.error_rate < 0.01;
    let per_command: &[usize] = if is_special { &[1, 100] } else { &[1, 10, 100, 1000] };
    // Adding the items of a measurement would make a small filter grow several times.
    let works = Work::ALL
        .into_iter()
        .filter(|work| *work != Work::Add || !size.is_unreserved() || size.known > 10_000);
    works.flat_map(|work| per_command.iter().map(move |count| (work, *count))).collect()
}

struct Bench<'a> {
    servers: &'a [Server],
    /// Dumps of filters that added items would fill. They are restored before each measurement.
    restored: HashMap<String, Vec<u8>>,
    /// New items added so far, to all filters.
    used: u64,
}

impl Bench<'_> {
    /// Returns nanoseconds per item and items per second.
    fn one(
        &mut self,
        size: &Size,
        work: Work,
        per_command: usize,
        series: &Series,
        count: u64,
    ) -> Result<(f64, f64), Failure> {
        let server = self.servers.get(series.server).ok_or("no such server")?;
        let mut client = server.client()?;
        let mut key = size.key(series);
        if series.has_filter()
            && work == Work::Add
            && (size.is_unreserved() || size.capacity_items() < count * 100)
        {
            if !self.restored.contains_key(&key) {
                let payload = client.bytes(&["DUMP", &key])?;
                self.restored.insert(key.clone(), payload);
            }
            let payload = self.restored.get(&key).ok_or("no dump")?;
            key.push_str(":copy");
            client.call(&[b"RESTORE", key.as_bytes(), b"0", payload, b"REPLACE"])?;
        }
        self.used += count;
        let start = self.used;
        let known = size.known;
        let numbers = (0..usize::try_from(count)?).map(|index| {
            let chance = mix(start + index as u64);
            match work {
                Work::Add => 2 * ABSENT + start + index as u64,
                Work::Check { hits_percent } if chance % 100 < hits_percent => mix(chance) % known,
                Work::Check { .. } => ABSENT + chance % ABSENT,
            }
        });
        let hits = numbers.clone().filter(|number| *number < ABSENT).count();
        let command = series.command(work.command(per_command));
        let requests = filters::requests(&command, &key, per_command, numbers);
        client.say("CONFIG RESETSTAT")?;
        let replies = pipeline(server.socket(), &requests)?;
        let stats = client.info("commandstats")?;
        // The server lists commands by their registered names.
        let usec = [command.to_ascii_lowercase(), command]
            .iter()
            .find_map(|name| stats.part(&format!("cmdstat_{name}"), "usec").ok())
            .ok_or("INFO commandstats lacks the command")?;
        if series.has_filter() {
            verify(work, count, hits, replies.sum)?;
        }
        let count = count as f64;
        Ok((usec * 1000.0 / count, count / replies.elapsed.as_secs_f64()))
    }
}

/// Checks that the replies are those of a Bloom filter: no added item is missing, and there are few false positives.
fn verify(work: Work, count: u64, hits: usize, sum: i64) -> Result<(), Failure> {
    let (hits, sum) = (u64::try_from(hits)?, u64::try_from(sum)?);
    let mistakes = count / 10 + 20;
    let (from, to) = match work {
        Work::Add => (count.saturating_sub(mistakes), count),
        Work::Check { .. } => (hits, hits + mistakes),
    };
    if (from..=to).contains(&sum) {
        Ok(())
    } else {
        Err(format!("{sum} of {from} to {to} replies are 1").into())
    }
}

/// Memory and measured error rate of filters at their capacity.
pub(crate) struct Full {
    /// Name of the series.
    pub(crate) series: String,
    /// Requested error rate.
    pub(crate) error_rate: f64,
    /// Bits per item by BF.INFO: the memory that the filter requested from the allocator.
    pub(crate) item_bits: f64,
    /// Bits per item by MEMORY USAGE: the memory that the allocator used for it.
    pub(crate) memory_bits: f64,
    /// Share of absent items that were found.
    pub(crate) measured_rate: f64,
    /// Absent items that were looked up.
    pub(crate) probes: u64,
}

/// Fills filters to their capacity and counts false positives.
pub(crate) fn measure_full(
    plan: &Plan,
    servers: &[Server],
    series: &[Series],
    progress: &mut Progress,
) -> Result<Vec<Full>, Failure> {
    let mut full = Vec::new();
    for error_rate in [0.01, 0.001, 0.0001] {
        for one in series.iter().filter(|one| one.scope == Scope::All) {
            progress.step(&format!("error rate of {} at {error_rate}", one.name));
            let server = servers.get(one.server).ok_or("no such server")?;
            let mut client = server.client()?;
            let key = "full";
            client.call(&["DEL", key])?;
            filters::reserve(&mut client, one, key, error_rate, plan.full_items)?;
            filters::add(server.socket(), key, 0, plan.full_items)?;
            let memory_bytes = client.number(&format!("MEMORY USAGE {key}"))?;
            let size_bytes = filters::information(&mut client, key, "SIZE")?;
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most 10^8")]
            let probes = ((plan.full_mistakes / error_rate) as u64).min(plan.full_probes_max);
            let found = filters::check(server.socket(), key, items::ABSENT, probes)?;
            full.push(Full {
                series: one.name.clone(),
                error_rate,
                item_bits: size_bytes as f64 * 8.0 / plan.full_items as f64,
                memory_bits: memory_bytes as f64 * 8.0 / plan.full_items as f64,
                measured_rate: found as f64 / probes as f64,
                probes,
            });
            client.call(&["UNLINK", key])?;
        }
    }
    Ok(full)
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_missing_item_fails_the_run() {
        use super::*;
        let half = HALF_PRESENT;
        assert!(verify(half, 1000, 500, 500).is_ok() && verify(half, 1000, 500, 505).is_ok());
        assert!(verify(half, 1000, 500, 499).is_err() && verify(half, 1000, 500, 900).is_err());
        assert!(verify(Work::Add, 1000, 0, 995).is_ok() && verify(Work::Add, 1000, 0, 100).is_err());
    }
}
