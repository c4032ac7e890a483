//! Measures the commands on filled filters: the time per item, the error rate and the memory.
//!
//! Each round creates every filter again, one kind after another, in an order that changes with the round.

use std::time::Duration;

use super::filters::{ABSENT, ERROR_RATE, Filter, mix, pipelines};
use super::record::{Case, Progress, Record};
use super::server::Server;
use super::{Failure, Plan};

/// The number of items that all copies of a small filter have together. Several copies of it are measured, because the
/// server measures the time of a command in microseconds, which is too coarse for one small filter.
const ITEMS_TOGETHER: u64 = 100_000;
/// Only filters of up to this number of items are merged and filled with one item per command.
const ITEMS_MAX_FILLED_ONE_BY_ONE: u64 = 1_000_000;
/// The difference between the numbers of items in two successive copies.
const OTHER_COPY: u64 = 1 << 32;
/// The number of items in a measurement of commands with one item.
const SINGLE_ITEMS: u64 = 20_000;
/// The number of items in a measurement of batches.
const BATCH_ITEMS: u64 = 100_000;
/// The size above which this program waits for the module to collapse the memory of a filter into huge pages in the
/// background.
const LARGE_PAGES_MIN_BYTES: f64 = 4e6;
/// How long this program waits for the background thread to collapse the memory.
const LARGE_PAGES_TIME: Duration = Duration::from_secs(2);

pub(crate) fn measure(
    plan: &Plan,
    servers: &mut [Server],
    filters: &[Filter],
    record: &mut Record,
) -> Result<(), Failure> {
    let mut progress = Progress::new("commands", plan.rounds * plan.items.len() * filters.len());
    for round in 0..plan.rounds {
        for items in &plan.items {
            for turn in 0..filters.len() {
                let Some(filter) = filters.get((turn + round) % filters.len()) else { continue };
                let server = servers.get_mut(filter.server).ok_or("no such server")?;
                progress.step(&format!(
                    "{} {}, {items} items, round {}",
                    server.module,
                    filter.name,
                    round + 1
                ));
                let quick = if plan.is_quick { 10 } else { 1 };
                let copies = (ITEMS_TOGETHER / quick / items).max(1);
                let mut bench =
                    Bench { server, filter, record, items: *items, copies, quick, round: round as u64 };
                bench.run().map_err(|failure| format!("{}, {items} items: {failure}", filter.name))?;
            }
        }
    }
    progress.end();
    Ok(())
}

/// The work on the filters of one kind and size in one round.
struct Bench<'a> {
    server: &'a mut Server,
    filter: &'a Filter,
    record: &'a mut Record,
    items: u64,
    /// Number of filters of this kind and size.
    copies: u64,
    /// The numbers of items in measurements are divided by this, for quick runs.
    quick: u64,
    round: u64,
}

impl Bench<'_> {
    fn run(&mut self) -> Result<(), Failure> {
        if self.items <= ITEMS_MAX_FILLED_ONE_BY_ONE {
            self.fill_one_by_one()?;
        }
        self.server.say("FLUSHALL")?;
        let empty_bytes = self.server.used_bytes()?;
        self.fill()?;
        let used_bytes = (self.server.used_bytes()? - empty_bytes) / self.copies as f64;
        self.push("used_memory", "bits per item", used_bytes * 8.0 / self.items as f64);
        if self.filter.is_bloom() {
            let size_bytes = self.server.size_bytes("filter:0")?;
            self.push("BF.INFO SIZE", "bits per item", size_bytes * 8.0 / self.items as f64);
        }
        if used_bytes > LARGE_PAGES_MIN_BYTES {
            std::thread::sleep(LARGE_PAGES_TIME);
        }
        self.look_up()?;
        if self.filter.can_merge() && self.items <= ITEMS_MAX_FILLED_ONE_BY_ONE {
            self.merge()?;
        }
        if self.filter.can_delete() {
            self.delete()?;
        }
        self.server.say("FLUSHALL")
    }

    fn push(&mut self, case: &str, measure: &'static str, value: f64) {
        self.record.push(Case::new(self.server, self.filter.name, self.items, case, measure), value);
    }

    /// Sends commands with `count` items in total, distributed over the copies. `number` returns the number of the item
    /// at a place among the items of its copy. Returns how many items were new, found or deleted.
    fn send(
        &mut self,
        command: &str,
        per_command: u64,
        what: &str,
        count: u64,
        number: impl Fn(u64) -> u64,
    ) -> Result<u64, Failure> {
        let copies = self.copies;
        let numbers = (0..count).map(|index| {
            let (place, rest) = (index / per_command, index % per_command);
            place % copies * OTHER_COPY + number(place / copies * per_command + rest)
        });
        let key = |place| format!("filter:{}", place % copies);
        let measured = self.server.measure(command, pipelines(command, key, per_command, numbers))?;
        let many = if per_command == 1 { String::new() } else { format!(" of {per_command}") };
        let case = format!("{command}{many}, {what}");
        self.push(&case, "ns per item", measured.command_ns / count as f64);
        self.push(&case, "thread ns per item", measured.thread_ns / count as f64);
        Ok(measured.hits)
    }

    /// Fills a filter with one item per command, for the times of the slowest adds.
    fn fill_one_by_one(&mut self) -> Result<(), Failure> {
        self.server.say("FLUSHALL")?;
        self.filter.make(self.server, "filter:0", self.items)?;
        let (numbers, add) = (0..self.items, self.filter.commands.add);
        self.server.measure(add, pipelines(add, |_| "filter:0".to_owned(), 1, numbers))?;
        for (percentile, measure) in [("p99.9", "us of the 1000th slowest"), ("p100", "us of the slowest")] {
            let field = format!("latency_percentiles_usec_{add}");
            let value = self.server.stat("latencystats", &field, percentile)?;
            self.push(&format!("{add} while the filter fills"), measure, value);
        }
        Ok(())
    }

    /// Creates and fills the copies. Most items are added in batches, then up to a tenth in packed batches, and at last
    /// up to a tenth one by one.
    fn fill(&mut self) -> Result<(), Failure> {
        for copy in 0..self.copies {
            self.filter.make(self.server, &format!("filter:{copy}"), self.items)?;
        }
        let singles = (self.items / 10).min(SINGLE_ITEMS / self.quick);
        let packed = if self.filter.is_own() { self.items / 10 / 1000 * 1000 } else { 0 };
        let mut first = 0;
        for (command, per_command, items) in [
            (self.filter.commands.add_many, 100, self.items - singles - packed),
            ("BF.BULKADD", 1000, packed),
            (self.filter.commands.add, 1, singles),
        ] {
            let count = items * self.copies;
            if count > 0 {
                let new = self.send(command, per_command, "new", count, |place| first + place)?;
                require(new >= count - count / 10, "new", new, count)?;
                first += items;
            }
        }
        Ok(())
    }

    /// Looks up absent and present items.
    fn look_up(&mut self) -> Result<(), Failure> {
        let commands = self.filter.commands;
        let mut ways = vec![(commands.exists, 1, SINGLE_ITEMS), (commands.exists_many, 100, BATCH_ITEMS)];
        if self.filter.is_own() {
            ways.push(("BF.BULKEXISTS", 1000, BATCH_ITEMS));
        }
        let (mut asked, mut mistakes) = (0, 0);
        for (command, per_command, count) in ways {
            let (count, items) = (count / self.quick, self.items);
            // Each round and each command has other items.
            let chance = mix(self.round << 32 | per_command);
            mistakes += self
                .send(command, per_command, "absent", count, |place| ABSENT + (mix(chance ^ place) >> 24))?;
            asked += count;
            let found =
                self.send(command, per_command, "present", count, |place| mix(chance ^ place) % items)?;
            require(found == count, "found", found, count)?;
        }
        let rate = mistakes as f64 / asked as f64;
        self.push(&format!("{}, absent", commands.exists), "error rate", rate);
        // valkey-bloom promises twice the rate for filters that grow, cuckoo filters of RedisBloom have about three
        // times the rate. Small filters vary more by chance.
        if rate < ERROR_RATE * 5.0 { Ok(()) } else { Err(format!("error rate {rate}").into()) }
    }

    /// Deletes a tenth of the items, half of them one by one. CF.DEL takes one item only.
    fn delete(&mut self) -> Result<(), Failure> {
        let each = (self.items / 20).min(SINGLE_ITEMS / self.quick) / 100 * 100;
        let ways: &[_] = if self.filter.is_bloom() {
            &[("BF.DEL", 0, 1), ("BF.DEL", each, 100)]
        } else {
            &[("CF.DEL", 0, 1)]
        };
        for &(command, first, per_command) in ways {
            let count = each * self.copies;
            if count > 0 {
                let deleted = self.send(command, per_command, "present", count, |place| first + place)?;
                require(deleted == count, "deleted", deleted, count)?;
            }
        }
        Ok(())
    }

    /// Merges a filter and another one with as many other items into a new filter.
    fn merge(&mut self) -> Result<(), Failure> {
        self.filter.make(self.server, "other", self.items)?;
        let first = self.copies * OTHER_COPY;
        for commands in pipelines("BF.MADD", |_| "other".to_owned(), 1000, first..first + self.items) {
            self.server.send(&commands)?;
        }
        self.server.say("CONFIG RESETSTAT")?;
        // Only with FORCE may a merge exceed the capacity of a reserved filter.
        self.server.say("BF.MERGE merged filter:0 other FORCE")?;
        let usec = self.server.stat("commandstats", "cmdstat_BF.MERGE", "usec")?;
        self.push("BF.MERGE of two", "ms", usec / 1000.0);
        Ok(())
    }
}

/// Returns an error if the condition does not hold: then the replies cannot be those of a Bloom filter.
fn require(holds: bool, what: &str, hits: u64, count: u64) -> Result<(), Failure> {
    if holds { Ok(()) } else { Err(format!("{hits} of {count} items were {what}").into()) }
}
