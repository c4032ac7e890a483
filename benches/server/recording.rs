//! Converts the results of a run to cells.

use super::cells::{Place, work_on};
use super::goals;
use super::plan::Plan;
use super::record::{MACHINE, Record, Row};
use super::results::Results;
use super::sample::Samples;

/// Part of the rows that say which other modules were measured, and their load arguments.
pub(crate) const PEERS: &str = "peers";
/// Part of the rows that compare measurements with their goals.
pub(crate) const GOALS: &str = "goals";

/// Returns all cells of a run.
pub(crate) fn record(plan: &Plan, results: &Results) -> Record {
    let mut rows = Vec::new();
    for (name, module) in &results.peers {
        rows.push(Row { value: module.clone(), ..row(PEERS, name, "module") });
    }
    work(plan, results, &mut rows);
    for full in &results.full {
        let row = |quantity: &str, value, unit: &str| Row {
            kind: full.series.clone(),
            value: digits(value),
            unit: unit.to_owned(),
            ..row("full", &full.error_rate.to_string(), quantity)
        };
        rows.push(row("error rate", full.measured_rate, ""));
        rows.push(row("memory", full.item_bits, "bits per item"));
        rows.push(row("memory with the allocator's rounding", full.memory_bits, "bits per item"));
    }
    for curve in &results.grown {
        rows.extend(curve.points.iter().map(|(items, rate)| Row {
            kind: curve.kind.to_owned(),
            value: digits(*rate),
            ..row("grown", &items.to_string(), "error rate")
        }));
    }
    for one in &results.substitutes {
        let row = |quantity: &str, value, unit: &str| Row {
            per_command: Some(one.per_command),
            value: digits(value),
            unit: unit.to_owned(),
            ..row("substitutes", one.name, quantity)
        };
        for (quantity, samples) in [("time to add", &one.add_ns), ("time to look up", &one.check_ns)] {
            let deviation = Some(rounded(samples.deviation()));
            rows.push(Row { deviation, ..row(quantity, samples.median(), "ns") });
        }
        rows.push(row("memory", one.item_bits / 8.0, "bytes per item"));
        rows.push(row("error rate", one.measured_rate, ""));
    }
    for one in results.instructions.iter().flatten() {
        for (quantity, value) in [("in a pipeline", one.pipelined), ("one by one", one.one_by_one)] {
            let (value, unit) = (digits(value), "instructions".to_owned());
            rows.push(Row { value, unit, ..row("instructions", one.name, quantity) });
        }
    }
    for (part, facts) in [("large filter", &results.facts), ("merge", &results.merge)] {
        rows.extend(facts.iter().map(|fact| Row { value: fact.value.clone(), ..row(part, fact.what, "") }));
    }
    for one in &results.pure {
        let (median, deviation) = one.item_ns;
        rows.push(Row {
            value: digits(median),
            deviation: Some(rounded(deviation)),
            unit: "ns".to_owned(),
            ..row("pure", &one.what, "time")
        });
    }
    for goal in goals::all(results) {
        // A run of some parts does not change the cells of the others.
        if goal.measured.is_some() || plan.is_whole {
            rows.push(Row {
                value: goal.measured.map(digits).unwrap_or_default(),
                unit: goal.unit.to_owned(),
                at_most: Some(rounded(goal.limit)),
                ..row(GOALS, &goal.what, "")
            });
        }
    }
    let mut record = Record::default();
    let mut parts: Vec<&str> = Vec::new();
    for row in &rows {
        // Error rates are the same everywhere; the goals are about the other parts.
        if !parts.contains(&row.part.as_str()) && !["grown", GOALS, PEERS].contains(&row.part.as_str()) {
            parts.push(&row.part);
        }
    }
    let warning =
        if plan.is_quick { "; QUICK: all filters but the smallest are 64 times smaller" } else { "" };
    for part in parts {
        let value = format!("{}; {} rounds{warning}", results.machine, plan.rounds);
        record.push(Row { value, ..row(MACHINE, part, "") });
    }
    rows.into_iter().for_each(|row| record.push(row));
    record
}

/// Adds the rows of the work on filters, in the order of the plan.
fn work(plan: &Plan, results: &Results, rows: &mut Vec<Row>) {
    for size in &plan.sizes {
        rows.extend(results.memory.iter().filter(|memory| memory.size == size.name).map(|memory| Row {
            kind: memory.series.clone(),
            value: digits(memory.item_bits),
            unit: "bits per item".to_owned(),
            ..row(size.name, "memory", "memory")
        }));
        for (work, per_command) in work_on(size) {
            for series in &results.series {
                let place = Place { size: size.name, work, per_command, series: series.clone() };
                let Some(cell) = results.cells.get(&place) else { continue };
                let row = |quantity: &str, samples: &Samples, scale: f64, unit: &str| Row {
                    per_command: Some(per_command),
                    kind: series.clone(),
                    value: digits(samples.median() * scale),
                    deviation: Some(rounded(samples.deviation() * scale)),
                    unit: unit.to_owned(),
                    ..row(size.name, work.name(), quantity)
                };
                rows.push(row("time", &cell.item_ns, 1.0, "ns"));
                rows.push(row("throughput", &cell.items_per_second, 1e-6, "M/s"));
            }
        }
    }
}

fn row(part: &str, what: &str, quantity: &str) -> Row {
    Row { part: part.to_owned(), what: what.to_owned(), quantity: quantity.to_owned(), ..Row::default() }
}

/// Returns the value rounded to five digits. No measurement here is more precise.
fn rounded(value: f64) -> f64 {
    format!("{value:.4e}").parse().unwrap_or(value)
}

fn digits(value: f64) -> String {
    rounded(value).to_string()
}

#[cfg(test)]
mod tests {
    #[test]
    fn five_digits_are_kept_of_large_and_small_numbers() {
        use super::*;
        let kept = [123_456.0, 0.000_123_456, 0.5, 9.0].map(digits);
        assert_eq!(kept, ["123460", "0.00012346", "0.5", "9"]);
    }
}
