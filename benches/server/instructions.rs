//! Instructions per command, counted by callgrind: no other load on the machine changes them.

use std::ops::Range;
use std::path::Path;
use std::rc::Rc;

use super::client::pipeline;
use super::filters::{self, Scope, Series, Size};
use super::items::{self, ABSENT};
use super::process::{Launch, Server, on_path};
use super::progress::Progress;
use super::{Failure, Plan, Programs};

/// What one command takes.
pub(crate) struct Instructions {
    /// The command.
    pub(crate) name: &'static str,
    /// The command that does nothing which it is compared with, by name.
    pub(crate) empty: Option<&'static str>,
    /// Instructions of the whole server per command, many of which come at once.
    pub(crate) pipelined: f64,
    /// The same when each comes after the answer to the one before.
    pub(crate) one_by_one: f64,
}

/// Label, command, first item, and what it is compared with.
const COMMANDS: [(&str, &str, u64, Option<&str>); 6] = [
    ("NO.ADD", "NO.ADD", 0, None),
    ("NO.EXISTS", "NO.EXISTS", 0, None),
    ("BF.ADD, known", "BF.ADD", 0, Some("NO.ADD")),
    ("BF.ADD, new", "BF.ADD", 2 * ABSENT, Some("NO.ADD")),
    ("BF.EXISTS, there", "BF.EXISTS", 0, Some("NO.EXISTS")),
    ("BF.EXISTS, not there", "BF.EXISTS", ABSENT, Some("NO.EXISTS")),
];

/// Counts for a filter of that size, or nothing where callgrind or the module that does nothing is missing.
pub(crate) fn measure(
    plan: &Plan,
    programs: &Programs,
    progress: &mut Progress,
) -> Result<Option<Vec<Instructions>>, Failure> {
    let (Some(_), Some(empty)) = (on_path("valgrind"), &programs.empty_module) else {
        progress.say("skipped: instructions per command need valgrind and NOOP=/path/to/libnoop.so");
        return Ok(None);
    };
    let size = Size { known: plan.instruction_commands * 2, ..super::SMALL };
    let series = Series::new("everbloom", 0, &[], Scope::All);
    let native = Launch::new(&programs.server, &[&programs.module])?.start()?;
    filters::make(&native, &series, &size)?;
    let key = size.key(&series);
    let payload = native.client()?.bytes(&["DUMP", &key])?;
    let mut counts = Vec::new();
    for (name, command, first, compared) in COMMANDS {
        progress.step(&format!("instructions of {name}"));
        let per_command = |sending, commands: u64| -> Result<f64, Failure> {
            // What the server does at its start and end, and for its clock, cancels out.
            let count = |commands| {
                let load = Load { command, key: &key, numbers: first..first + commands, sending };
                count(programs, empty, &payload, &load)
            };
            Ok((count(2 * commands)? as f64 - count(commands)? as f64) / commands as f64)
        };
        counts.push(Instructions {
            name,
            empty: compared,
            pipelined: per_command(Sending::Pipelined, plan.instruction_commands)?,
            one_by_one: per_command(Sending::OneByOne, plan.instruction_commands / 4)?,
        });
    }
    Ok(Some(counts))
}

/// How commands follow each other.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sending {
    Pipelined,
    OneByOne,
}

/// Commands with one item each.
struct Load<'a> {
    command: &'a str,
    key: &'a str,
    numbers: Range<u64>,
    sending: Sending,
}

impl Load<'_> {
    fn send(&self, server: &Server) -> Result<(), Failure> {
        if self.sending == Sending::Pipelined {
            let requests = filters::requests(self.command, self.key, 1, self.numbers.clone());
            pipeline(server.socket(), &requests)?;
            return Ok(());
        }
        let (mut client, mut item) = (server.client()?, Vec::new());
        for number in self.numbers.clone() {
            items::write(&mut item, number);
            client.call(&[self.command.as_bytes(), self.key.as_bytes(), &item])?;
        }
        Ok(())
    }
}

/// Instructions of a server from its start to its end, with these commands in between.
fn count(programs: &Programs, empty: &Path, payload: &[u8], load: &Load<'_>) -> Result<u64, Failure> {
    let launch = Launch::new(&programs.server, &[&programs.module, empty])?;
    // Kept, with the profile in it, beyond the server's end.
    let directory = Rc::clone(&launch.directory);
    let profile = directory.path().join("profile");
    let option = format!("--callgrind-out-file={}", profile.display());
    let server: Server = launch.under(&["valgrind", "-q", "--tool=callgrind", &option]).start()?;
    server.client()?.call(&[b"RESTORE", load.key.as_bytes(), b"0", payload])?;
    load.send(&server)?;
    server.shut_down()?;
    let profile = std::fs::read_to_string(profile)?;
    let totals = profile.lines().find_map(|line| line.strip_prefix("totals: "));
    Ok(totals.ok_or("a profile without totals")?.trim().parse()?)
}
