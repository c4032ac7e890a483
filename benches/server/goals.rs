//! Compares measured times, memory and instructions with goals: the largest values that are accepted.

use std::fmt::Write as _;

use super::cells::{Place, Work};
use super::results::Results;

/// The baseline: this module with filters in RedisBloom's format, a division per probe, no prefetch, small pages.
pub(crate) const BASELINE: &str = "baseline";
/// The baseline with large pages.
pub(crate) const BASELINE_LARGE_PAGES: &str = "baseline, large pages";
/// everbloom's filters with small pages.
pub(crate) const SMALL_PAGES: &str = "everbloom, small pages";
/// Commands that only reply.
pub(crate) const EMPTY: &str = "empty command";
/// Commands that only hash every item and reply.
pub(crate) const HASH: &str = "hash and reply";

/// One goal.
pub(crate) struct Goal {
    /// What is measured.
    pub(crate) what: String,
    /// The measured value, if there is one.
    pub(crate) measured: Option<f64>,
    /// The largest value that meets the goal.
    pub(crate) limit: f64,
    /// Unit of value and limit.
    pub(crate) unit: &'static str,
}

impl Goal {
    /// Returns the result in words.
    pub(crate) fn verdict(&self) -> &'static str {
        match self.measured {
            None => "not measured",
            Some(value) if value <= self.limit => "met",
            Some(_) => "missed",
        }
    }
}

/// Returns all goals.
pub(crate) fn all(results: &Results) -> Vec<Goal> {
    let check = |hits_percent| Work::Check { hits_percent };
    let checks = [check(0), check(50), check(100)];
    let mut goals = Vec::new();
    let mut compare = |[series, base]: [&str; 2], size: &'static str, per_command, works: &[Work], limit| {
        for work in works {
            let place = |series: &str| Place { size, work: *work, per_command, series: series.to_owned() };
            let cells = (results.cells.get(&place(series)), results.cells.get(&place(base)));
            let measured = match cells {
                (Some(cell), Some(base)) => Some(cell.item_ns.ratio(&base.item_ns)),
                _ => None,
            };
            let what = format!("{series} / {base}: {size}, {per_command} per command, {}", work.name());
            goals.push(Goal { what, measured, limit, unit: "time" });
        }
    };
    // First compares with RedisBloom's algorithm as it is, then with small pages on both sides, then with large pages
    // on both sides.
    for pair in [["everbloom", BASELINE], [SMALL_PAGES, BASELINE], ["everbloom", BASELINE_LARGE_PAGES]] {
        compare(pair, "1 GB", 100, &[Work::Add], 1.0 / 4.0);
        compare(pair, "1 GB", 100, &checks, 1.0 / 3.0);
        compare(pair, "1 GB at 1e-6", 100, &[Work::Add], 1.0 / 6.0);
        compare(pair, "1 GB", 1, &Work::ALL, 0.8);
    }
    compare(["everbloom", BASELINE], "1 MB", 100, &Work::ALL, 0.45);
    // The part of this time that needs no filter.
    compare([HASH, BASELINE], "1 MB", 100, &Work::ALL, 0.45);
    compare(["everbloom", BASELINE], "1 MB", 1, &Work::ALL, 1.0);
    for base in [BASELINE, BASELINE_LARGE_PAGES] {
        compare(["redisbloom format", base], "1 GB", 100, &[Work::Add], 0.5);
        compare(["redisbloom format", base], "1 GB", 100, &checks, 0.65);
    }
    let own = |full: &&super::cells::Full| full.series == "everbloom";
    for full in results.full.iter().filter(own) {
        // -log2(p) / ln 2: Bloom, "Space/time trade-offs in hash coding with allowable errors", 1970.
        let classic_bits = -full.error_rate.log2() / std::f64::consts::LN_2;
        let measured = Some(full.item_bits / classic_bits);
        let what = format!("everbloom, bits per item at {}", full.error_rate);
        // 1 % at an error rate of 1 %, 1.2 % at smaller ones.
        let limit = if full.error_rate == 0.01 { 1.01 } else { 1.012 };
        goals.push(Goal { what, measured, limit, unit: "of the classic formula" });
        let what = format!("everbloom, error rate when full at {}", full.error_rate);
        let measured = Some(full.measured_rate / full.error_rate);
        // Three standard deviations of the number of false positives.
        let limit = 1.0 + 3.0 / (full.probes as f64 * full.error_rate).sqrt();
        goals.push(Goal { what, measured, limit, unit: "of the reserved rate" });
    }
    for one in results.instructions.iter().flatten() {
        let empty = results.instructions.iter().flatten().find(|other| Some(other.name) == one.empty);
        if let Some(empty) = empty {
            let ways = [
                ("in a pipeline", one.pipelined / empty.pipelined),
                ("one by one", one.one_by_one / empty.one_by_one),
            ];
            for (way, share) in ways {
                let what = format!("instructions of {}, {way}", one.name);
                goals.push(Goal { what, measured: Some(share), limit: 1.25, unit: "of an empty command's" });
            }
        }
    }
    if let Some(lua) = results.substitutes.first() {
        let works = [(Work::Add, &lua.add_ns, "add"), (check(50), &lua.check_ns, "look up")];
        for (work, lua, verb) in works {
            let place = Place { size: "1 MB", work, per_command: 1, series: "everbloom".to_owned() };
            let measured = results.cells.get(&place).map(|cell| cell.item_ns.median() / lua.median());
            let what = format!("one BF command to {verb} an item, against go-zero's script");
            goals.push(Goal { what, measured, limit: 1.0 / 15.0, unit: "of its time" });
        }
    }
    for fact in results.facts.iter().chain(&results.merge) {
        if let Some((measured, limit, unit)) = fact.limit {
            let what = fact.what.to_owned();
            goals.push(Goal { what, measured: Some(measured), limit, unit });
        }
    }
    goals
}

/// Returns one line per goal.
pub(crate) fn text(results: &Results) -> String {
    let mut text = String::new();
    for goal in all(results) {
        let verdict = goal.verdict();
        let measured = goal.measured.map_or("-".to_owned(), |value| format!("{value:.3}"));
        // Writing to a string cannot fail.
        let _ =
            writeln!(text, "{verdict:12} {measured:>8} <= {:.3} {}: {}", goal.limit, goal.unit, goal.what);
    }
    text
}
