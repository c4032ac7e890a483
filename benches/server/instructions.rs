//! Counts instructions per command with callgrind, so that other load on the machine does not change the result.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::client::Requests;
use super::failure::Failure;
use super::filters;
use super::items::ABSENT;
use super::plan::{Plan, Programs};
use super::process::{Launch, Server, on_path};
use super::progress::Progress;
use super::sample::Samples;
use super::series::{SMALL, Scope, Series, Size};

/// The instructions of one command.
pub(crate) struct Instructions {
    /// The command.
    pub(crate) name: &'static str,
    /// Name of the empty command to which it is compared.
    pub(crate) empty: Option<&'static str>,
    /// Instructions of the whole server per command, if [`PIPELINED`] commands are sent at once.
    pub(crate) pipelined: f64,
    /// The same if each command is sent after the reply to the one before.
    pub(crate) one_by_one: f64,
}

/// Commands of a pipeline; the server reads all of them at once.
const PIPELINED: u64 = 100;

/// Label, command, first item, and the command to which it is compared.
const COMMANDS: [(&str, &str, u64, Option<&str>); 6] = [
    ("NO.ADD", "NO.ADD", 0, None),
    ("NO.EXISTS", "NO.EXISTS", 0, None),
    ("BF.ADD, known", "BF.ADD", 0, Some("NO.ADD")),
    ("BF.ADD, new", "BF.ADD", 2 * ABSENT, Some("NO.ADD")),
    ("BF.EXISTS, present", "BF.EXISTS", 0, Some("NO.EXISTS")),
    ("BF.EXISTS, absent", "BF.EXISTS", ABSENT, Some("NO.EXISTS")),
];

/// Counts the instructions on a filter of that size. Returns an empty list if callgrind or the module with empty
/// commands is missing.
pub(crate) fn measure(
    plan: &Plan,
    programs: &Programs,
    progress: &mut Progress,
) -> Result<Option<Vec<Instructions>>, Failure> {
    let (Some(_), Some(empty)) = (on_path("callgrind_control"), &programs.empty_module) else {
        progress.say("skipped: instructions per command need valgrind and NOOP=/path/to/libnoop.so");
        return Ok(None);
    };
    let commands = plan.instruction_commands;
    let size = Size { known: commands * 2, ..SMALL };
    let series = Series::new("everbloom", 0, &[], Scope::All);
    let native = Launch::new(&programs.server, &[&programs.module])?.start()?;
    filters::make(&native, &series, &size)?;
    let key = size.key(&series);
    let payload = native.client()?.bytes(&["DUMP", &key])?;
    drop(native);
    let mut pipelined = vec![Samples::default(); COMMANDS.len()];
    let mut one_by_one = pipelined.clone();
    for round in 1..=plan.rounds {
        progress.step(&format!("instructions per command, server {round} of {}", plan.rounds));
        let mut server = Counted::start(programs, empty)?;
        server.server.client()?.call(&[b"RESTORE", key.as_bytes(), b"0", &payload])?;
        let counts = pipelined.iter_mut().zip(&mut one_by_one);
        for ((_, command, first, _), (pipelined, one_by_one)) in COMMANDS.iter().zip(counts) {
            let rest = first + commands;
            pipelined.push(server.count(command, &key, *first..rest, PIPELINED)?);
            one_by_one.push(server.count(command, &key, rest..rest + commands, 1)?);
        }
        server.server.shut_down()?;
    }
    let counts = COMMANDS.iter().zip(pipelined.iter().zip(&one_by_one));
    Ok(Some(
        counts
            .map(|((name, _, _, empty), (pipelined, one_by_one))| Instructions {
                name,
                empty: *empty,
                pipelined: pipelined.median(),
                one_by_one: one_by_one.median(),
            })
            .collect(),
    ))
}

/// A server whose instructions are counted. The number per command depends a little on the place of its name in the
/// server's command table. This place differs in each server process, so several are measured.
struct Counted {
    server: Server,
    profile: PathBuf,
    dumps: u32,
}

impl Counted {
    fn start(programs: &Programs, empty: &Path) -> Result<Self, Failure> {
        let launch = Launch::new(&programs.server, &[&programs.module, empty])?;
        let profile = launch.directory.path().join("profile");
        let option = format!("--callgrind-out-file={}", profile.display());
        let server = launch.under(&["valgrind", "-q", "--tool=callgrind", &option]).start()?;
        Ok(Self { server, profile, dumps: 0 })
    }

    /// Returns the instructions per command, for commands with one item each. Sends `together` commands at once and
    /// waits for their replies before the next ones, so that the server reads the same number of commands each time.
    fn count(&mut self, command: &str, key: &str, items: Range<u64>, together: u64) -> Result<f64, Failure> {
        let mut client = self.server.client()?;
        let requests: Vec<Requests> = items
            .clone()
            .step_by(usize::try_from(together)?)
            .map(|first| filters::requests(command, key, 1, first..items.end.min(first + together)))
            .collect();
        self.control("--zero")?;
        requests.iter().try_for_each(|requests| client.send(requests))?;
        self.control("--dump")?;
        Ok(self.next_total()? as f64 / (items.end - items.start) as f64)
    }

    fn control(&self, action: &str) -> Result<(), Failure> {
        let mut command = Command::new("callgrind_control");
        let output = command.args([action, &self.server.process().to_string()]).output()?;
        if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into()) }
    }

    /// Returns the instructions in the newest dump; callgrind numbers the dumps from 1.
    fn next_total(&mut self) -> Result<u64, Failure> {
        self.dumps += 1;
        let profile = fs::read_to_string(self.profile.with_extension(self.dumps.to_string()))?;
        let total = profile.lines().find_map(|line| line.strip_prefix("totals: "));
        Ok(total.ok_or("a profile without totals")?.trim().parse()?)
    }
}
