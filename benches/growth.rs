//! Measures the memory of filters at many numbers of items, and the error rate of filters that grow.

use super::filters::{ABSENT, Filter, pipelines};
use super::record::{Case, Progress, Record};
use super::server::Server;
use super::{Failure, Plan};

/// The default capacity of all modules: the number of items with which the curves begin.
const FIRST_ITEMS: f64 = 100.0;
/// How often the memory is measured while the number of items doubles. The error rate is measured once per doubling.
const STEPS_PER_DOUBLING: i32 = 4;

/// The extent of the measurement.
struct Extent {
    /// The largest number of items.
    items_max: u64,
    /// The largest number of items for which an error rate is measured. The error rate is the mean of several filters,
    /// of which only the first gets more items. Reserved filters that must be filled have at most this number of items
    /// too.
    others_items_max: u64,
    filters: u64,
    /// The number of absent items that are looked up for an error rate.
    probes: u64,
}

pub(crate) fn measure(
    plan: &Plan,
    servers: &mut [Server],
    filters: &[Filter],
    record: &mut Record,
) -> Result<(), Failure> {
    let extent = if plan.is_quick {
        Extent { items_max: 20_000, others_items_max: 10_000, filters: 2, probes: 10_000 }
    } else {
        Extent { items_max: 100_000_000, others_items_max: 1_000_000, filters: 10, probes: 100_000 }
    };
    let mut progress = Progress::new("growth", filters.iter().filter(|filter| filter.is_bloom()).count());
    for filter in filters.iter().filter(|filter| filter.is_bloom()) {
        let server = servers.get_mut(filter.server).ok_or("no such server")?;
        progress.step(&format!("{} {}", server.module, filter.name));
        if filter.is_reserved() {
            let items_max =
                if filter.has_all_bytes_at_once() { extent.items_max } else { extent.others_items_max };
            for items in steps(items_max) {
                server.say("FLUSHALL")?;
                filter.make(server, "filter", items)?;
                if !filter.has_all_bytes_at_once() {
                    for commands in pipelines("BF.MADD", |_| "filter".to_owned(), 1000, 0..items) {
                        server.send(&commands)?;
                    }
                }
                push_size(server, filter, items, record)?;
            }
        } else {
            for number in 0..extent.filters {
                grow(&extent, number, server, filter, record)?;
            }
        }
        server.say("FLUSHALL")?;
    }
    progress.end();
    Ok(())
}

/// Returns the numbers of items at which filters are measured.
fn steps(items_max: u64) -> impl Iterator<Item = u64> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most 10^8")]
    let items = |step| (FIRST_ITEMS * 2f64.powf(f64::from(step) / f64::from(STEPS_PER_DOUBLING))) as u64;
    (0..).map(items).take_while(move |items| *items <= items_max)
}

/// Adds items to a new filter, and measures it at each step.
fn grow(
    extent: &Extent,
    number: u64,
    server: &mut Server,
    filter: &Filter,
    record: &mut Record,
) -> Result<(), Failure> {
    let key = |_| "filter".to_owned();
    server.say("FLUSHALL")?;
    filter.make(server, "filter", 0)?;
    let items_max = if number == 0 { extent.items_max } else { extent.others_items_max };
    // Each filter has other items.
    let (first, absent) = (number << 32, ABSENT + (number << 32));
    let mut added = 0;
    for (step, items) in (0..).zip(steps(items_max)) {
        for commands in pipelines("BF.MADD", key, 1000, first + added..first + items) {
            server.send(&commands)?;
        }
        added = items;
        if number == 0 {
            push_size(server, filter, items, record)?;
        }
        if step % STEPS_PER_DOUBLING == 0 && items <= extent.others_items_max {
            let mut found = 0;
            for commands in pipelines("BF.MEXISTS", key, 1000, absent..absent + extent.probes) {
                found += server.send(&commands)?;
            }
            let case = Case::new(server, filter.name, items, "growth", "error rate");
            record.push(case, found as f64 / extent.probes as f64);
        }
    }
    Ok(())
}

fn push_size(server: &mut Server, filter: &Filter, items: u64, record: &mut Record) -> Result<(), Failure> {
    let item_bits = server.size_bytes("filter")? * 8.0 / items as f64;
    record.push(Case::new(server, filter.name, items, "growth", "bits per item"), item_bits);
    Ok(())
}
