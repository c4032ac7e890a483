//! Starts real servers with the module and communicates with them. It does not depend on filters.

mod client;
mod payload;
mod server;
mod site;

pub(crate) use client::{Client, Raw, show};
pub(crate) use payload::{crc64, reseal};
pub(crate) use server::{Launch, Server};
pub(crate) use site::Site;

use std::cell::RefCell;
use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Completion, Trial};

/// One test: its name, which states what holds, and its function.
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
pub(crate) fn trials<'t>(
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

/// Runs the tests of the command line, with twice as many threads as processors, because tests wait for servers half
/// of the time.
pub(crate) fn run_trials(mut arguments: Arguments, trials: Vec<Trial>) -> ExitCode {
    let processors = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    arguments.test_threads.get_or_insert(2 * processors);
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
