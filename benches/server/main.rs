//! What the module costs in a server, beside what others cost, from one run. `make bench` builds what it needs and
//! starts it; docs/performance.md says how it measures.
//!
//! Reads from the environment: `MODULE` and, each optional, `BASELINE` (our module built with the feature of that
//! name), `NOOP` (the module of benches/noop.rs), `SERVER`, `PEERS` (`name=/path/to/module.so ...`), `QUICK=1` (small
//! filters and few rounds, to try the program itself), `ONLY=1-GB,instructions` (the work on filters of these sizes, or
//! the instructions of single commands, and nothing else), `OUTPUT` (where the results go; default: docs, for a part of the run the build directory).

#![expect(
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a program that prints, and counts that are far below 2^53"
)]

mod big;
mod cells;
mod chart;
mod client;
mod filters;
mod instructions;
mod items;
mod process;
mod progress;
mod pure;
mod report;
mod sample;
mod substitutes;
mod targets;

use std::error::Error;
use std::path::{Path, PathBuf};

use filters::{Scope, Series, Size};
use process::{Launch, Server};
use progress::Progress;

/// Why the run ends early.
pub(crate) type Failure = Box<dyn Error + Send + Sync>;

/// A filter that fits into the processor's cache.
pub(crate) const SMALL: Size = Size { name: "1 MB", error_rate: 0.01, bytes: 1 << 20, known: 100_000 };

/// How much is measured.
pub(crate) struct Plan {
    /// Whether this only tries the program.
    pub(crate) is_quick: bool,
    /// Whether all is measured, and not only some of the work on filters.
    pub(crate) is_whole: bool,
    /// Whether instructions are counted.
    pub(crate) has_instructions: bool,
    /// Times that everything is measured, in turns.
    pub(crate) rounds: usize,
    /// The filters.
    pub(crate) sizes: Vec<Size>,
    /// The filter of the measurements of saving and loading.
    pub(crate) big: Size,
    /// Items of filters that are filled to their capacity.
    pub(crate) full_items: u64,
    /// False positives that an error rate is measured by, at least.
    pub(crate) full_mistakes: f64,
    /// Items asked for, at most, to measure an error rate.
    pub(crate) full_probes_max: u64,
    /// Items that the ways without a module hold, at most.
    pub(crate) substitute_items_max: u64,
    /// Absent items that they are asked for.
    pub(crate) substitute_probes: u64,
    /// Commands whose instructions are counted.
    pub(crate) instruction_commands: u64,
    /// Items added to a large empty filter.
    pub(crate) first_adds: u64,
}

impl Plan {
    fn full() -> Self {
        let size = |name, error_rate, bytes, known| Size { name, error_rate, bytes, known };
        let big = size("1 GB", 0.01, 1 << 30, 2_000_000);
        Self {
            is_quick: false,
            is_whole: true,
            has_instructions: true,
            rounds: 9,
            sizes: vec![
                SMALL,
                size("64 MB", 0.01, 64 << 20, 1_000_000),
                big,
                size("1 GB at 1e-6", 1e-6, 1 << 30, 2_000_000),
                size("12 layers", 0.01, 0, filters::CHAIN_ITEMS),
            ],
            big,
            full_items: 1_000_000,
            full_mistakes: 10_000.0,
            full_probes_max: 20_000_000,
            substitute_items_max: u64::MAX,
            substitute_probes: 200_000,
            instruction_commands: 1000,
            first_adds: 200_000,
        }
    }

    /// The same with everything small.
    fn quick() -> Self {
        let full = Self::full();
        let shrink = |size: &Size| Size { bytes: size.bytes >> 6, known: size.known.min(20_000), ..*size };
        Self {
            is_quick: true,
            is_whole: true,
            has_instructions: true,
            rounds: 2,
            sizes: full
                .sizes
                .iter()
                .map(|size| if *size == SMALL || size.is_chain() { *size } else { shrink(size) })
                .collect(),
            big: shrink(&full.big),
            full_items: 100_000,
            full_mistakes: 100.0,
            full_probes_max: 200_000,
            substitute_items_max: 50_000,
            substitute_probes: 20_000,
            instruction_commands: 200,
            first_adds: 20_000,
        }
    }

    /// Only the work on filters of these sizes, or only the `instructions`.
    fn only(mut self, names: &str) -> Self {
        let is_named = |part: &str| names.split(',').any(|name| name == part);
        self.is_whole = false;
        self.has_instructions = is_named("instructions");
        self.sizes.retain(|size| is_named(&size.name.replace(' ', "-")));
        self
    }

    /// Items per measurement with so many per command.
    pub(crate) fn items(&self, per_command: usize) -> u64 {
        let items = if per_command == 1 { 30_000 } else { 100_000 };
        if self.is_quick { items / 20 } else { items }
    }
}

/// The programs and modules of this run.
pub(crate) struct Programs {
    /// The server.
    pub(crate) server: String,
    /// Our module.
    pub(crate) module: PathBuf,
    /// Our module with filters of RedisBloom's kind probed as RedisBloom does.
    pub(crate) baseline: Option<PathBuf>,
    /// A module whose commands do nothing.
    pub(crate) empty_module: Option<PathBuf>,
    /// Other modules with BF commands, by name.
    pub(crate) peers: Vec<(String, PathBuf)>,
}

impl Programs {
    fn from_environment() -> Result<Self, Failure> {
        let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let file = |name| variable(name).map(PathBuf::from).filter(|path| path.is_file());
        let server = variable("SERVER").or_else(|| {
            let found =
                ["redis-server", "valkey-server"].into_iter().find(|name| process::on_path(name).is_some());
            found.map(str::to_owned)
        });
        let peers = variable("PEERS").unwrap_or_default();
        let peers = peers.split_whitespace().map(|peer| {
            let (name, path) = peer.split_once('=').ok_or("PEERS wants name=/path/to/module.so ...")?;
            Ok((name.to_owned(), Path::new(path).canonicalize().map_err(|error| format!("{path}: {error}"))?))
        });
        Ok(Self {
            server: server.ok_or("neither redis-server nor valkey-server found")?,
            module: file("MODULE").ok_or("MODULE names no module file: start this by `make bench`")?,
            baseline: file("BASELINE"),
            empty_module: file("NOOP"),
            peers: peers.collect::<Result<_, Failure>>()?,
        })
    }
}

fn main() -> Result<(), Failure> {
    // Cargo's flag for benchmarks: as a test this program has nothing to do.
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
    let steps = filters.count() + plan.rounds * plan.sizes.len() + rest;
    let mut progress = Progress::new(steps);
    if !is_there(&format!("{BASELINE_FORMAT} format")) {
        progress.say("skipped: the formats of others, which this module cannot make");
    }
    if !is_there(targets::BASELINE) {
        progress.say(
            "skipped: the baseline, which needs BASELINE=/path/to/module.so, with the format it stands for",
        );
    }
    let first = servers.first().ok_or("no server")?;
    let mut results = report::Results {
        machine: report::machine(first)?,
        series: series.iter().map(|one| one.name.clone()).collect(),
        ..report::Results::default()
    };
    if plan.is_whole {
        results.full = cells::measure_full(&plan, &servers, &series, &mut progress)?;
        results.substitutes = substitutes::measure(&plan, first, &mut progress)?;
    }
    results.cells = cells::measure(&plan, &servers, &series, &mut progress)?;
    // They hold gigabytes, and the last measurements are of memory.
    drop(servers);
    if plan.has_instructions {
        results.instructions = instructions::measure(&plan, &programs, &mut progress)?;
    }
    if plan.is_whole {
        results.pure = pure::read(&target_directory().join("criterion"));
        results.facts = big::measure(&plan, &programs, &mut progress)?;
    }
    progress.end();
    let output = std::env::var_os("OUTPUT").map(PathBuf::from);
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    let output = match output {
        Some(output) => output,
        None if plan.is_quick || !plan.is_whole => target_directory().join("bench"),
        None => manifest.clone(),
    };
    report::write(&plan, &results, &manifest.join("performance.md"), &output)?;
    println!("{}", targets::text(&results));
    println!("written: {}", output.join("performance.md").display());
    Ok(())
}

/// Where cargo builds.
fn target_directory() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("target"), PathBuf::from)
}

/// Formats of others that our module can make, by the words of `bf.format`.
const FORMATS: [&str; 2] = ["redisbloom", "valkey-bloom"];
/// The format of the baseline.
const BASELINE_FORMAT: &str = "redisbloom";

/// One server per module, and the kinds of filter in them. What a module cannot make is left out.
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
    wanted.push(Series::new(targets::SMALL_PAGES, 0, &[FORMAT_OWN, SMALL_PAGES], Scope::Largest));
    if programs.empty_module.is_some() {
        all.push(Series::new(targets::HASH, 0, &[], Scope::Nothing("HA")));
        all.push(Series::new(targets::EMPTY, 0, &[], Scope::Nothing("NO")));
    }
    if let Some(baseline) = &programs.baseline {
        // RedisBloom, whose way it goes, knows nothing of large pages.
        let format = ("bf.format", BASELINE_FORMAT);
        wanted.push(Series::new(targets::BASELINE, servers.len(), &[format, SMALL_PAGES], Scope::All));
        let large =
            Series::new(targets::BASELINE_LARGE_PAGES, servers.len(), &[format, LARGE_PAGES], Scope::Largest);
        wanted.push(large);
        servers.push(launch(&[baseline])?);
    }
    let can_make = |one: &Series| {
        let client = servers.get(one.server).ok_or_else(|| "no such server".into()).and_then(Server::client);
        client.and_then(|mut client| filters::configure(&mut client, one)).is_ok()
    };
    wanted.retain(can_make);
    if wanted.is_empty() {
        // Somebody else's module in the place of ours.
        wanted.push(Series::new("everbloom", 0, &[], Scope::All));
    }
    all.splice(0..0, wanted);
    for (name, module) in &programs.peers {
        all.push(Series::new(name, servers.len(), &[], Scope::All));
        servers.push(launch(&[module])?);
    }
    Ok((servers, all))
}

const FORMAT_OWN: (&str, &str) = ("bf.format", "everbloom");
const LARGE_PAGES: (&str, &str) = ("bf.huge-pages", "yes");
const SMALL_PAGES: (&str, &str) = ("bf.huge-pages", "no");
