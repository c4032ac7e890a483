//! Measures filters in real servers and writes one CSV file. `make bench` builds the module and starts this program;
//! docs/performance.md describes the method.
//!
//! Environment variables, of which only `MODULE` is required:
//!
//! * `MODULE`: our module.
//! * `BEFORE`: our module of an earlier version.
//! * `PEERS`: other modules, separated by commas. Each may be followed by its load arguments.
//! * `SERVER`: the server. By default each module runs in redis-server, or in valkey-server if redis-server cannot load
//!   it.
//! * `ONLY`: parts of the run, separated by commas: `commands`, `growth`, `window`, `blocking`, `instructions`.
//! * `ITEMS`: numbers of items for `commands`, multiples of 1000, separated by commas.
//! * `QUICK=1`: small filters and few rounds, to test this program.
//! * `OUTPUT`: the file of the results. By default it is docs/performance.csv after a whole run, and a file in the
//!   build directory otherwise.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::cast_precision_loss,
    reason = "a program that prints, and counts that are far below 2^53"
)]

mod blocking;
mod commands;
mod filters;
mod growth;
mod instructions;
mod record;
mod server;
mod window;

use std::path::{Path, PathBuf};

use filters::Filter;
use record::Record;
use server::{Server, on_path};

/// Why a run ends early.
type Failure = Box<dyn std::error::Error>;

/// A module that is measured.
struct Module {
    /// The path of its file and its load arguments, separated by spaces.
    file: String,
    /// The suffix of its name in the results.
    suffix: &'static str,
    /// The servers to try. After the start of the module, only the one that has loaded it.
    programs: Vec<String>,
}

impl Module {
    /// Starts the first server that loads the module.
    fn start(&mut self) -> Result<Server, Failure> {
        let mut failures = Vec::new();
        for program in &self.programs {
            match Server::start(&[program], self) {
                Ok(server) => {
                    self.programs = vec![program.clone()];
                    return Ok(server);
                }
                Err(failure) => failures.push(failure.to_string()),
            }
        }
        Err(failures.join("\n").into())
    }
}

/// Returns the value of an environment variable that is set and not empty.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Returns our module and those to compare it with.
fn modules() -> Result<Vec<Module>, Failure> {
    let programs = match variable("SERVER") {
        Some(program) => vec![program],
        None => ["redis-server", "valkey-server"]
            .into_iter()
            .filter(|name| on_path(name))
            .map(str::to_owned)
            .collect(),
    };
    if programs.is_empty() {
        return Err("neither redis-server nor valkey-server found".into());
    }
    let module = |file: &str, suffix| Module { file: file.to_owned(), suffix, programs: programs.clone() };
    let own = variable("MODULE").ok_or("MODULE is not set: run `make bench`")?;
    let mut modules = vec![module(&own, "")];
    modules.extend(variable("BEFORE").map(|file| module(&file, " before")));
    let peers = variable("PEERS").unwrap_or_default();
    modules.extend(peers.split(',').filter(|file| !file.is_empty()).map(|file| module(file, "")));
    Ok(modules)
}

/// The extent of a run.
struct Plan {
    is_quick: bool,
    /// The number of rounds. Each measures every filter once.
    rounds: usize,
    /// Numbers of items in the filters whose commands are measured.
    items: Vec<u64>,
}

fn main() -> Result<(), Failure> {
    // Cargo passes this flag to benchmarks. When cargo runs this program as a test, it does nothing.
    if !std::env::args().any(|argument| argument == "--bench") {
        return Ok(());
    }
    let is_quick = variable("QUICK").is_some_and(|value| value == "1");
    let mut items: Vec<u64> =
        if is_quick { vec![1000, 20_000] } else { vec![1000, 10_000, 100_000, 1_000_000, 10_000_000] };
    if let Some(named) = variable("ITEMS") {
        items = named.split(',').map(str::parse).collect::<Result<_, _>>()?;
    }
    if items.iter().any(|items| *items == 0 || items % 1000 != 0) {
        return Err("ITEMS: multiples of 1000".into());
    }
    let plan = Plan { is_quick, rounds: if is_quick { 2 } else { 5 }, items };
    let only = variable("ONLY");
    let is_wanted = |part: &str| only.as_ref().is_none_or(|named| named.split(',').any(|name| name == part));

    let mut modules = modules()?;
    let mut servers: Vec<Server> = Vec::new();
    for module in &mut modules {
        let server = module.start()?;
        if servers.iter().any(|other| other.module == server.module) {
            return Err(format!("{} is measured twice", server.module).into());
        }
        servers.push(server);
    }
    let mut filters = Vec::new();
    for (index, server) in servers.iter_mut().enumerate() {
        filters.extend(Filter::all(index, server));
    }

    let is_whole = !is_quick && only.is_none() && variable("ITEMS").is_none();
    let output = match variable("OUTPUT") {
        Some(path) => PathBuf::from(path),
        None if is_whole => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/performance.csv"),
        None => {
            let target = variable("CARGO_TARGET_DIR").unwrap_or_else(|| "target".to_owned());
            Path::new(&target).join("bench/performance.csv")
        }
    };
    let mut record = Record::new()?;
    // Written after each part, so that a failure in a later one loses nothing.
    if is_wanted("commands") {
        commands::measure(&plan, &mut servers, &filters, &mut record)?;
        record.write(&output)?;
    }
    if is_wanted("growth") {
        growth::measure(&plan, &mut servers, &filters, &mut record)?;
        record.write(&output)?;
    }
    if is_wanted("window") {
        window::measure(&plan, servers.first_mut().ok_or("no server")?, &mut record)?;
        record.write(&output)?;
    }
    if is_wanted("blocking") {
        blocking::measure(&plan, &mut servers, &filters, &mut record)?;
        record.write(&output)?;
    }
    drop(servers);
    if is_wanted("instructions") {
        if on_path("callgrind_control") {
            instructions::measure(&plan, &modules, &mut record)?;
        } else {
            eprintln!("skipped: instructions, which need valgrind");
        }
    }
    println!("{}", record.table());
    record.write(&output)?;
    println!("written: {}", output.display());
    Ok(())
}
