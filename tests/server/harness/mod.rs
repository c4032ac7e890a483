//! Starts real servers with the module and communicates with them.

mod client;
mod cluster;
mod imitation;
mod server;
mod site;

pub(crate) use client::{Client, Raw, packed, show};
pub(crate) use cluster::Cluster;
pub(crate) use imitation::imitate;
pub(crate) use server::{Launch, Server, append_only_file};
pub(crate) use site::Site;

/// The directory of the repository.
pub(crate) const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

use std::cell::RefCell;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use libtest_mimic::{Arguments, Completion, Trial};

/// A test: its name, which states the behaviour that it checks, and its function.
pub(crate) type Test = (&'static str, fn(&Site));

/// Lists tests with the names of their functions, so that writing a name once registers a test. A function that is
/// not listed is dead code and a compiler warning.
macro_rules! tests {
    ($($name:ident),* $(,)?) => { &[$((stringify!($name), $name)),*] };
}
pub(crate) use tests;

thread_local! {
    static SKIPPED: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Skips the running test because something that it needs is missing. The test must then return. It is counted as
/// ignored, not as passed.
pub(crate) fn skip(reason: impl Into<String>) {
    SKIPPED.set(Some(reason.into()));
}

/// Runs a test on this thread. Returns why it was skipped, if it was.
fn run(body: fn(&Site), site: &Site) -> Option<String> {
    SKIPPED.take();
    body(site);
    SKIPPED.take()
}

/// Returns every test of some files, once for each server.
fn trials<'t>(
    sites: &[Site],
    subjects: impl Iterator<Item = &'t (&'static str, &'static [Test])> + Clone,
) -> Vec<Trial> {
    let mut trials = Vec::new();
    for site in sites {
        for (subject, tests) in subjects.clone() {
            for (name, body) in *tests {
                let site = site.clone();
                let body = *body;
                trials.push(Trial::ignorable_test(format!("{}::{subject}::{name}", site.name), move || {
                    Ok(run(body, &site).map_or(Completion::Completed, Completion::ignored_with))
                }));
            }
        }
    }
    trials
}

/// Runs the tests that the command line selects, once for each server, and those that `once` returns. There are twice as
/// many threads as processors, because tests wait for servers half of the time.
pub(crate) fn run_all<'t>(
    subjects: impl Iterator<Item = &'t (&'static str, &'static [Test])> + Clone,
    once: impl FnOnce(&Site) -> Vec<Trial>,
) -> ExitCode {
    let mut arguments = Arguments::from_args();
    let sites = match Site::find_all() {
        Ok(sites) => sites,
        Err(trouble) => {
            eprintln!("error: {trouble}");
            return ExitCode::FAILURE;
        }
    };
    let processors = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    arguments.test_threads.get_or_insert(2 * processors);
    let mut trials = trials(&sites, subjects);
    trials.extend(sites.first().map(once).into_iter().flatten());
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Time limit for a condition. Exceeding it means a hang; it is not a measurement.
const PATIENCE: Duration = Duration::from_secs(60);

/// Polls until the condition holds.
pub(crate) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let give_up = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < give_up, "waited {PATIENCE:?} in vain: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Returns one item per number: `{name}-{number}`.
pub(crate) fn numbered(name: &str, numbers: Range<usize>) -> Vec<String> {
    numbers.map(|number| format!("{name}-{number}")).collect()
}

/// Returns the time of the clock, in milliseconds of UNIX time.
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock");
    u64::try_from(since.as_millis()).expect("a time in milliseconds")
}

/// Returns the CRC-64 as the servers compute it (polynomial 0xad93d23594c935a9, reflected, no initial or final
/// inversion), bit by bit, because the payloads of the tests are small.
pub(crate) fn crc64(bytes: &[u8]) -> u64 {
    const REFLECTED: u64 = 0x95ac_9329_ac4b_c9b5;
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ u64::from(*byte), |crc, _| (crc >> 1) ^ if crc & 1 == 1 { REFLECTED } else { 0 })
    })
}

/// Replaces the checksum at the end of a changed payload of DUMP with the correct one, as an attacker would.
pub(crate) fn reseal(payload: &mut [u8]) {
    let at = payload.len() - 8;
    let crc = crc64(&payload[..at]);
    payload[at..].copy_from_slice(&crc.to_le_bytes());
}
