//! Every migration of examples/ does what it says, run by its own runtime with its own client library.
//!
//! `scripts/setup-examples` installs the libraries. Where a runtime or its library is missing the test says so and is
//! skipped: a machine without the internet must be able to run the rest.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::{Site, Test, skip, tests};

pub(crate) const TESTS: &[Test] =
    tests![a_filter_of_go_zero_moves_with_python, a_filter_of_fnv_moves_with_node];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Where `scripts/setup-examples` puts client libraries.
fn libraries() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    target.join("examples-clients")
}

/// Whether a command runs and succeeds.
fn succeeds(command: &mut Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}

/// Runs an example against a server of its own; `probe` finds out whether its library is there.
fn run(site: &Site, mut probe: Command, mut example: Command, script: &str) {
    if !succeeds(&mut probe) {
        return skip(format!(
            "the runtime or the client library of examples/{script} is missing (scripts/setup-examples)"
        ));
    }
    let server = site.start();
    example.arg(root().join("examples").join(script)).arg(format!("redis://127.0.0.1:{}", server.port()));
    let output = example.output().expect("start the example");
    let (told, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{script}: {told}{errors}");
    assert!(told.contains("moved: 1001 items"), "{script}: {told}{errors}");
    assert_eq!(server.client().int("DBSIZE"), 1, "{script} leaves the new filter and nothing else");
}

fn a_filter_of_go_zero_moves_with_python(site: &Site) {
    let own = libraries().join("venv/bin/python3");
    let python = if own.exists() { own.as_path() } else { Path::new("python3") };
    let mut probe = Command::new(python);
    probe.args(["-c", "import redis"]);
    run(site, probe, Command::new(python), "python/migrate.py");
}

fn a_filter_of_fnv_moves_with_node(site: &Site) {
    let node = || {
        let mut node = Command::new("node");
        node.env("NODE_PATH", libraries().join("node_modules"));
        node
    };
    let mut probe = node();
    probe.args(["-e", "require('ioredis')"]);
    run(site, probe, node(), "node/migrate.js");
}
