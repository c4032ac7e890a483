//! Black-box tests: real servers with the module loaded, tested over the wire.
//!
//! Every test is a function that runs once per server, with a name like `redis-7.0.15::persistence::...`. It starts the
//! servers that it needs, each in a separate directory on a free port. After each test the servers must be running and
//! their logs free of crash reports. A test that cannot run on the server prints the reason and is ignored. Tests named
//! `fake-host::...` run once: they need no server but only the module file, see `fake_host`. `harness::Site` describes
//! which servers and which module file are used, and servers that run through an emulator.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "tests fail by panicking"
)]

mod carried;
#[cfg(target_os = "linux")]
mod cgroup;
mod clients;
mod cluster;
mod config;
#[cfg(unix)]
mod container;
mod cuckoo;
mod cuckoo_data;
mod dialogues;
mod drills;
mod dump;
mod events;
mod examples;
#[cfg(target_os = "linux")]
mod fake_host;
mod foreign;
mod harness;
mod hostile;
mod import;
mod journeys;
mod keys;
mod kinds;
mod limits;
mod load_arguments;
mod memory;
mod monitoring;
mod near;
#[cfg(target_os = "linux")]
mod pages;
mod partitions;
mod persistence;
mod replication;
mod scripting;
mod statistics;
mod surface;
mod totals;
#[path = "../pure/schemes/vectors.rs"]
#[allow(dead_code, reason = "shared with the tests of the schemes")]
mod vectors;
mod window;

use std::process::ExitCode;

use everbloom_test_support as support;
use harness::{Site, Test};
use libtest_mimic::Trial;

/// The tests of each file, except those of `foreign`, `drills` and `fake_host`.
const SUBJECTS: &[(&str, &[Test])] = &[
    ("dialogues", dialogues::TESTS),
    #[cfg(target_os = "linux")]
    ("pages", pages::TESTS),
    ("statistics", statistics::TESTS),
    ("monitoring", monitoring::TESTS),
    ("totals", totals::TESTS),
    ("dump", dump::TESTS),
    ("partitions", partitions::TESTS),
    ("journeys", journeys::TESTS),
    ("import", import::TESTS),
    ("persistence", persistence::TESTS),
    ("hostile", hostile::TESTS),
    ("replication", replication::TESTS),
    ("events", events::TESTS),
    ("keys", keys::TESTS),
    ("scripting", scripting::TESTS),
    ("limits", limits::TESTS),
    #[cfg(target_os = "linux")]
    ("cgroup", cgroup::TESTS),
    ("near", near::TESTS),
    ("memory", memory::TESTS),
    ("config", config::TESTS),
    ("carried", carried::TESTS),
    ("cuckoo", cuckoo::TESTS),
    ("cuckoo-data", cuckoo_data::TESTS),
    #[cfg(unix)]
    ("container", container::TESTS),
    ("load-arguments", load_arguments::TESTS),
    ("surface", surface::TESTS),
    ("window", window::TESTS),
    ("cluster", cluster::TESTS),
    ("clients", clients::TESTS),
    ("examples", examples::TESTS),
];

fn main() -> ExitCode {
    let subjects = SUBJECTS.iter().chain(foreign::SUBJECTS).chain(drills::SUBJECTS);
    harness::run_all(subjects, in_this_process)
}

/// Returns the tests that load the module into the process of the tests. They run once.
#[cfg(target_os = "linux")]
fn in_this_process(site: &Site) -> Vec<Trial> {
    if site.elsewhere.is_some() {
        return Vec::new();
    }
    let trial = |(name, body): &(&str, fn(&Site))| {
        let (site, body) = (site.clone(), *body);
        Trial::test(format!("fake-host::{name}"), move || {
            body(&site);
            Ok(())
        })
    };
    fake_host::TESTS.iter().map(trial).collect()
}

/// Returns no tests, because only Linux has the functions that these need.
#[cfg(not(target_os = "linux"))]
fn in_this_process(_site: &Site) -> Vec<Trial> {
    Vec::new()
}
