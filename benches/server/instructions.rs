//! Instructions per command, counted by callgrind: no other load on the machine changes them.

use std::path::Path;
use std::rc::Rc;

use super::client::{Requests, pipeline};
use super::filters::{self, Scope, Series, Size};
use super::items::ABSENT;
use super::process::{Launch, Server, on_path};
use super::progress::Progress;
use super::{Failure, Plan, Programs};

/// What one command takes.
pub(crate) struct Instructions {
    /// The command.
    pub(crate) name: &'static str,
    /// The command that does nothing which it is compared with, by name.
    pub(crate) empty: Option<&'static str>,
    /// Instructions of the whole server per command.
    pub(crate) count: f64,
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
    let series = Series { name: "everbloom".to_owned(), server: 0, settings: Vec::new(), scope: Scope::All };
    let native = Launch::new(&programs.server, &[&programs.module])?.start()?;
    filters::make(&native, &series, &size)?;
    let key = size.key(&series);
    let payload = native.client()?.bytes(&["DUMP", &key])?;
    let mut counts = Vec::new();
    for (name, command, first, compared) in COMMANDS {
        progress.step(&format!("instructions of {name}"));
        // What the server does at its start and end, and for its clock, cancels out.
        let mut totals = [0u64; 2];
        for (total, times) in totals.iter_mut().zip([1, 2]) {
            let commands = plan.instruction_commands * times;
            let requests = filters::requests(command, &key, 1, first..first + commands);
            *total = count(programs, empty, &key, &payload, &requests)?;
        }
        let [once, twice] = totals;
        let count = (twice as f64 - once as f64) / plan.instruction_commands as f64;
        counts.push(Instructions { name, empty: compared, count });
    }
    Ok(Some(counts))
}

/// Instructions of a server from its start to its end, with these commands in between.
fn count(
    programs: &Programs,
    empty: &Path,
    key: &str,
    payload: &[u8],
    requests: &Requests,
) -> Result<u64, Failure> {
    let launch = Launch::new(&programs.server, &[&programs.module, empty])?;
    // Kept, with the profile in it, beyond the server's end.
    let directory = Rc::clone(&launch.directory);
    let profile = directory.path().join("profile");
    let option = format!("--callgrind-out-file={}", profile.display());
    let server: Server = launch.under(&["valgrind", "-q", "--tool=callgrind", &option]).start()?;
    server.client()?.call(&[b"RESTORE", key.as_bytes(), b"0", payload])?;
    pipeline(server.socket(), requests)?;
    server.shut_down()?;
    let profile = std::fs::read_to_string(profile)?;
    let totals = profile.lines().find_map(|line| line.strip_prefix("totals: "));
    Ok(totals.ok_or("a profile without totals")?.trim().parse()?)
}
