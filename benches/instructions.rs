//! Counts the instructions of a whole server per item with callgrind, so that other load on the machine does not change
//! the result.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use super::filters::{ABSENT, Filter, pipelines};
use super::record::{Case, Progress, Record};
use super::server::Server;
use super::{Failure, Module, Plan};

/// The measured commands: name, items per command, kind of items, and the number of the first item.
const COMMANDS: [(&str, u64, &str, u64); 7] = [
    ("BF.ADD", 1, "new", 2 * ABSENT),
    ("BF.EXISTS", 1, "present", 0),
    ("BF.EXISTS", 1, "absent", ABSENT),
    ("BF.MADD", 100, "new", 3 * ABSENT),
    ("BF.MEXISTS", 100, "present", 0),
    ("BF.MEXISTS", 100, "absent", ABSENT),
    ("BF.DEL", 100, "present", 0),
];

/// The largest number of servers that are measured for each module.
const SERVERS_MAX: usize = 3;

pub(crate) fn measure(plan: &Plan, modules: &[Module], record: &mut Record) -> Result<(), Failure> {
    let (items, counted) = if plan.is_quick { (10_000, 500) } else { (100_000, 2000) };
    // The number of instructions varies a little between processes, because the hash table of commands has another seed
    // in each.
    let servers = plan.rounds.min(SERVERS_MAX);
    let mut progress = Progress::new("instructions", servers * modules.len());
    for _ in 0..servers {
        for module in modules {
            progress.step(&module.file);
            let mut counter = Counter::start(module)?;
            let filters = Filter::all(0, &mut counter.server);
            for (place, filter) in filters.iter().filter(|filter| filter.is_bloom()).enumerate() {
                let key = |_| format!("filter:{place}");
                // Reserved filters are large enough for the new items too.
                filter.make(&mut counter.server, &key(0), 2 * items)?;
                for commands in pipelines("BF.MADD", key, 1000, 0..items) {
                    counter.server.send(&commands)?;
                }
                counter.control(&["--instr=on"])?;
                for (command, per_command, what, first) in COMMANDS {
                    if command == "BF.DEL" && filter.name != "counting" {
                        continue;
                    }
                    let numbers = first..first + counted;
                    let instructions = counter.count(|server| {
                        pipelines(command, key, per_command, numbers)
                            .try_for_each(|commands| server.send(&commands).map(drop))
                    })?;
                    let many = if per_command == 1 { String::new() } else { format!(" of {per_command}") };
                    let case = format!("{command}{many}, {what}");
                    let case = Case::new(&counter.server, filter.name, items, &case, "instructions per item");
                    record.push(case, instructions / counted as f64);
                }
                counter.control(&["--instr=off"])?;
            }
        }
    }
    progress.end();
    Ok(())
}

/// A server whose instructions are counted.
struct Counter {
    server: Server,
    profile: PathBuf,
    dumps: u32,
    _directory: TempDir,
}

impl Counter {
    fn start(module: &Module) -> Result<Self, Failure> {
        let directory = tempfile::tempdir()?;
        let profile = directory.path().join("profile");
        let option = format!("--callgrind-out-file={}", profile.display());
        let mut program = vec!["valgrind", "-q", "--tool=callgrind", "--instr-atstart=no", &option];
        program.extend(module.programs.iter().map(String::as_str));
        Ok(Self { server: Server::start(&program, module)?, profile, dumps: 0, _directory: directory })
    }

    /// Returns the instructions of the server while it does some work.
    fn count(&mut self, work: impl FnOnce(&mut Server) -> Result<(), Failure>) -> Result<f64, Failure> {
        self.control(&["--zero"])?;
        work(&mut self.server)?;
        self.control(&["--dump"])?;
        // Callgrind numbers the dumps from 1.
        self.dumps += 1;
        let profile = fs::read_to_string(self.profile.with_extension(self.dumps.to_string()))?;
        let total = profile.lines().find_map(|line| line.strip_prefix("totals: "));
        Ok(total.ok_or("a profile without totals")?.trim().parse()?)
    }

    fn control(&self, actions: &[&str]) -> Result<(), Failure> {
        let id = self.server.process().to_string();
        let output = Command::new("callgrind_control").args(actions).arg(id).output()?;
        if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into()) }
    }
}
