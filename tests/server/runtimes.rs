//! Runs what is in examples/ by its own runtime with its own client library.
//!
//! `scripts/setup-examples` installs the libraries. Where a runtime or its library is missing the test says so and is
//! skipped: a machine without the internet must be able to run the rest.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::{Server, Site, skip};

pub(crate) fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Where `scripts/setup-examples` puts client libraries.
fn libraries() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    target.join("examples-clients")
}

/// Python, with the libraries if they are installed.
fn python() -> Command {
    let own = libraries().join("venv/bin/python3");
    Command::new(if own.exists() { own.as_path() } else { Path::new("python3") })
}

fn node() -> Command {
    let mut node = Command::new("node");
    node.env("NODE_PATH", libraries().join("node_modules"));
    node
}

/// A command that runs a script of examples/, whose ending tells its runtime; nothing where `library` cannot be had.
pub(crate) fn command(script: &str, library: &str) -> Option<Command> {
    let runtime = || if script.ends_with(".py") { python() } else { node() };
    let mut probe = runtime();
    if script.ends_with(".py") {
        probe.arg("-c").arg(format!("import {library}"));
    } else {
        probe.arg("-e").arg(format!("require('{library}')"));
    }
    if !probe.output().is_ok_and(|output| output.status.success()) {
        skip(format!(
            "the runtime or the client library of examples/{script} is missing (scripts/setup-examples)"
        ));
        return None;
    }
    let mut example = runtime();
    example.arg(root().join("examples").join(script));
    Some(example)
}

/// Runs a script of examples/ against a server of its own and answers that server and what it printed; nothing as for
/// [`command`].
pub(crate) fn run(site: &Site, script: &str, library: &str) -> Option<(Server, String)> {
    let mut example = command(script, library)?;
    let server = site.start();
    let output = example.arg(url(&server)).output().expect("start the example");
    let (told, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{script}: {told}{errors}");
    Some((server, told.into_owned()))
}

pub(crate) fn url(server: &Server) -> String {
    format!("redis://127.0.0.1:{}", server.port())
}
