//! Measures the module in a server, and other modules in the same run. `make bench` builds what this program needs and
//! starts it. docs/performance.md describes the method.
//!
//! Environment variables, of which only `MODULE` is required:
//!
//! * `MODULE`: our module.
//! * `BASELINE`: a module to compare with, whose filters have the format `redisbloom`. Optional.
//! * `NOOP`: the module of benches/noop.rs.
//! * `SERVER`: the server.
//! * `PEERS`: other modules, as `name=/path/to/module.so argument ... name=...`.
//! * `QUICK=1`: small filters and few rounds, to test this program.
//! * `ONLY=1-GB,unreserved,instructions,merge,packed,grown`: only these parts. They are filters of the named sizes,
//!   filters that were not reserved, instructions of single commands, BF.MERGE of two large filters, packed batches,
//!   and error rates of grown filters.
//! * `OUTPUT`: the directory of the results; by default docs, or the build directory with `ONLY`.
//!
//! With `--render` the program measures nothing. It renders the pages and the pictures from docs/performance-*.csv.

#![expect(
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a program that prints, and counts that are far below 2^53"
)]

mod bars;
mod big;
mod canvas;
mod cells;
mod client;
mod failure;
mod filters;
mod goals;
mod grown;
mod instructions;
mod items;
mod lines;
mod merging;
mod packed;
mod page;
mod pictures;
mod plan;
mod process;
mod progress;
mod pure;
mod record;
mod recording;
mod report;
mod results;
mod sample;
mod series;
mod substitutes;
mod text;
mod versus;

use std::path::{Path, PathBuf};

use failure::Failure;
use plan::{Plan, Programs};
use process::{Launch, Server};
use progress::Progress;
use results::Results;
use series::{Scope, Series};

fn main() -> Result<(), Failure> {
    let documents = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    if std::env::args().any(|argument| argument == "--render") {
        return report::render_again(&documents);
    }
    // Cargo passes this flag to benchmarks. When cargo runs this program as a test, it does nothing.
    if !std::env::args().any(|argument| argument == "--bench") {
        return Ok(());
    }
    let plan =
        if std::env::var("QUICK").is_ok_and(|value| value == "1") { Plan::quick() } else { Plan::full() };
    let plan = match std::env::var("ONLY") {
        Ok(names) if !names.is_empty() => plan.only(&names),
        _ => plan,
    };
    let programs = Programs::from_environment()?;
    let (servers, series) = start(&programs)?;
    let is_there = |name: &str| series.iter().any(|one| one.name == name);
    let filters = plan.sizes.iter().flat_map(|size| {
        series.iter().filter(|one| one.is_measured_on(size, plan.big.bytes)).map(|one| &one.name)
    });
    let full = series.iter().filter(|one| one.scope == Scope::All).count() * 3;
    let rest =
        if plan.is_whole { full + 7 + 5 } else { 0 } + if plan.has_instructions { plan.rounds } else { 0 };
    let rest = rest + usize::from(plan.has_grown) + if plan.has_merge { plan.rounds + 1 } else { 0 };
    let rest = rest + if plan.has_packed { packed::steps(&plan) } else { 0 };
    let steps = filters.count() + plan.rounds * plan.sizes.len() + rest;
    let mut progress = Progress::new(steps);
    if !is_there(&format!("{BASELINE_FORMAT} format")) {
        progress.say("skipped: the formats of other modules, which this module cannot make");
    }
    if !is_there(goals::BASELINE) {
        progress
            .say("skipped: the baseline, which needs BASELINE=/path/to/module.so with the format redisbloom");
    }
    let first = servers.first().ok_or("no server")?;
    let mut results = Results {
        machine: report::machine(first)?,
        series: series.iter().map(|one| one.name.clone()).collect(),
        peers: programs.peers.iter().map(|peer| (peer.name.clone(), peer.shown())).collect(),
        ..Results::default()
    };
    if plan.is_whole {
        results.full = cells::measure_full(&plan, &servers, &series, &mut progress)?;
        results.substitutes = substitutes::measure(&plan, first, &mut progress)?;
    }
    (results.cells, results.memory) = cells::measure(&plan, &servers, &series, &mut progress)?;
    // Stops the servers, which hold gigabytes, since the last measurements are about memory.
    drop(servers);
    if plan.has_instructions {
        results.instructions = instructions::measure(&plan, &programs, &mut progress)?;
    }
    if plan.is_whole {
        results.pure = pure::read(&target_directory().join("criterion"));
        results.facts = big::measure(&plan, &programs, &mut progress)?;
    }
    if plan.has_merge {
        results.merge = merging::measure(&plan, &programs, &mut progress)?;
    }
    if plan.has_grown {
        progress.step("error rates of grown filters");
        results.grown = grown::error_rates(plan.grown_items, plan.grown_filters, plan.grown_probes)?;
    }
    if plan.has_packed {
        results.facts.extend(packed::measure(&plan, &programs, &mut progress)?);
    }
    progress.end();
    let output = std::env::var_os("OUTPUT").map(PathBuf::from);
    let output = match output {
        Some(output) => output,
        None if plan.is_quick || !plan.is_whole => target_directory().join("bench"),
        None => documents.clone(),
    };
    report::write(&plan, &results, &documents, &output)?;
    println!("{}", goals::text(&results));
    results.facts.iter().chain(&results.merge).for_each(|fact| println!("{}: {}", fact.what, fact.value));
    println!("written: {}", output.join(report::CELLS).display());
    Ok(())
}

/// Returns the directory in which cargo builds.
fn target_directory() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("target"), PathBuf::from)
}

/// Name of our filters that are reserved for the same items as the filters that were not reserved.
pub(crate) const RESERVED: &str = "everbloom, reserved";
/// Formats of other modules in which our module can make filters, as values of `bf.format`.
const FORMATS: [&str; 2] = ["redisbloom", "valkey-bloom"];
/// The format of the baseline.
const BASELINE_FORMAT: &str = "redisbloom";

/// Starts one server per module and returns them with their kinds of filter. A kind that a module cannot make is
/// omitted.
fn start(programs: &Programs) -> Result<(Vec<Server>, Vec<Series>), Failure> {
    let launch = |modules: &[&Path]| Launch::new(&programs.server, modules)?.pinned().start();
    let own_modules: Vec<&Path> = [Some(&programs.module), programs.empty_module.as_ref()]
        .into_iter()
        .flatten()
        .map(PathBuf::as_path)
        .collect();
    let mut servers = vec![launch(&own_modules)?];
    let mut all = Vec::new();
    let mut wanted = vec![Series::new("everbloom", 0, &[FORMAT_OWN, LARGE_PAGES], Scope::All)];
    wanted.extend(FORMATS.map(|format| {
        Series::new(&format!("{format} format"), 0, &[("bf.format", format), LARGE_PAGES], Scope::All)
    }));
    wanted.push(Series::new(RESERVED, 0, &[FORMAT_OWN, LARGE_PAGES], Scope::Reserved));
    wanted.push(Series::new(goals::SMALL_PAGES, 0, &[FORMAT_OWN, SMALL_PAGES], Scope::Largest));
    if programs.empty_module.is_some() {
        all.push(Series::new(goals::HASH, 0, &[], Scope::Nothing("HA")));
        all.push(Series::new(goals::EMPTY, 0, &[], Scope::Nothing("NO")));
    }
    if let Some(baseline) = &programs.baseline {
        // The baseline stands for RedisBloom, which does not request large pages.
        let format = ("bf.format", BASELINE_FORMAT);
        wanted.push(Series::new(goals::BASELINE, servers.len(), &[format, SMALL_PAGES], Scope::All));
        let large =
            Series::new(goals::BASELINE_LARGE_PAGES, servers.len(), &[format, LARGE_PAGES], Scope::Largest);
        wanted.push(large);
        servers.push(launch(&[baseline])?);
    }
    let can_make = |one: &Series| {
        let client = servers.get(one.server).ok_or_else(|| "no such server".into()).and_then(Server::client);
        client.and_then(|mut client| filters::configure(&mut client, one)).is_ok()
    };
    wanted.retain(can_make);
    if wanted.is_empty() {
        // `MODULE` may be another module than ours.
        wanted.push(Series::new("everbloom", 0, &[], Scope::All));
    }
    all.splice(0..0, wanted);
    for peer in &programs.peers {
        if all.iter().any(|one: &Series| one.name == peer.name) {
            return Err(format!("PEERS: the name {} is taken", peer.name).into());
        }
        all.push(Series::new(&peer.name, servers.len(), &[], Scope::All));
        let launch = Launch::new(&programs.server, &[&peer.module])?;
        servers.push(launch.with_arguments(&peer.arguments).pinned().start()?);
    }
    Ok((servers, all))
}

const FORMAT_OWN: (&str, &str) = ("bf.format", "everbloom");
const LARGE_PAGES: (&str, &str) = ("bf.huge-pages", "yes");
const SMALL_PAGES: (&str, &str) = ("bf.huge-pages", "no");
