//! What the module costs in a server, beside what others cost, from one run. `make bench` builds what it needs and
//! starts it; docs/performance.md says how it measures.
//!
//! Reads from the environment: `MODULE` and, each optional, `BASELINE` (our module built with the feature of that
//! name), `NOOP` (the module of benches/noop.rs), `SERVER`, `PEERS` (`name=/path/to/module.so ...`), `QUICK=1` (small
//! filters and few rounds, to try the program itself: its results go to the build directory), `OUTPUT` (where the
//! results go otherwise; default: docs).

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

use filters::{Series, Size};
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
            instruction_commands: 20_000,
            first_adds: 200_000,
        }
    }

    /// The same with everything small.
    fn quick() -> Self {
        let full = Self::full();
        let shrink = |size: &Size| Size { bytes: size.bytes >> 6, known: size.known.min(20_000), ..*size };
        Self {
            is_quick: true,
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
            instruction_commands: 2_000,
            first_adds: 20_000,
        }
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
    let programs = Programs::from_environment()?;
    let (servers, series) = start(&programs)?;
    let is_there = |name: &str| series.iter().any(|one| one.name == name);
    let steps = series.len() * (plan.sizes.len() + 3) + plan.rounds * plan.sizes.len() + 7 + 6 + 5;
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
        full: cells::measure_full(&plan, &servers, &series, &mut progress)?,
        substitutes: substitutes::measure(&plan, first, &mut progress)?,
        cells: cells::measure(&plan, &servers, &series, &mut progress)?,
        instructions: instructions::measure(&plan, &programs, &mut progress)?,
        pure: pure::read(&target_directory().join("criterion")),
        facts: Vec::new(),
        series: series.iter().map(|one| one.name.clone()).collect(),
    };
    // They hold gigabytes, and the last measurements are of memory.
    drop(servers);
    results.facts = big::measure(&plan, &programs, &mut progress)?;
    progress.end();
    let output = std::env::var_os("OUTPUT").map(PathBuf::from);
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    let output = match output {
        Some(output) => output,
        None if plan.is_quick => target_directory().join("bench"),
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

/// One server per module, and the kinds of filter in them. Formats that a module cannot make are left out.
fn start(programs: &Programs) -> Result<(Vec<Server>, Vec<Series>), Failure> {
    let launch = |module: &Path| Launch::new(&programs.server, &[module])?.pinned().start();
    let can_make = |server: &Server, format: &str| {
        let choice = format!("CONFIG SET bf.format {format}");
        server.client().and_then(|mut client| client.say(&choice)).is_ok()
    };
    let mut servers = vec![launch(&programs.module)?];
    let series = |name: &str, server, format| Series { name: name.to_owned(), server, format };
    let mut all = Vec::new();
    if let Some(server) = servers.first() {
        let own = can_make(server, "everbloom").then_some("everbloom");
        all.push(series("everbloom", 0, own));
        let made = FORMATS.iter().filter(|format| can_make(server, format));
        all.extend(made.map(|format| series(&format!("{format} format"), 0, Some(*format))));
    }
    if let Some(baseline) = &programs.baseline {
        let server = launch(baseline)?;
        if can_make(&server, BASELINE_FORMAT) {
            all.push(series(targets::BASELINE, servers.len(), Some(BASELINE_FORMAT)));
        }
        servers.push(server);
    }
    for (name, module) in &programs.peers {
        all.push(series(name, servers.len(), None));
        servers.push(launch(module)?);
    }
    Ok((servers, all))
}
