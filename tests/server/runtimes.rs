//! Runs the programs of examples/ in their runtimes with their client libraries.
//!
//! `scripts/setup-examples` installs the libraries in the target directory, and no others are used, because this
//! machine may have other versions. A test whose runtime or library is missing is skipped with a message, so that the
//! other tests run on a machine without internet access.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;

use crate::harness::{Server, skip};

pub(crate) fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the directory of the client libraries of `scripts/setup-examples`.
fn libraries() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    target.join("examples-clients")
}

/// Returns the runtime of a script with the libraries of the examples, or with the older library of a directory.
fn runtime(is_python: bool, older: Option<&PathBuf>) -> Command {
    if is_python {
        let mut python = Command::new(libraries().join("venv/bin/python3"));
        python.env_remove("PYTHONHOME").env_remove("PYTHONPATH").envs(older.map(|dir| ("PYTHONPATH", dir)));
        python
    } else {
        let mut node = Command::new("node");
        node.env("NODE_PATH", older.unwrap_or(&libraries()).join("node_modules"));
        node
    }
}

/// Returns the directory of every older version of a library that `scripts/setup-examples` has installed.
fn older(is_python: bool, library: &str) -> Vec<PathBuf> {
    let dir = libraries().join("older").join(if is_python { "python" } else { "node" }).join(library);
    let entries = std::fs::read_dir(dir).into_iter().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths
}

/// A script of examples/ with the libraries that it runs with.
pub(crate) struct Program {
    /// The script, and the older library if it runs with one.
    pub(crate) name: String,
    pub(crate) command: Command,
}

impl Program {
    /// Returns a script that uses `library`, in Python or Node depending on its extension, once for each version of the
    /// library. Without the runtime or the library, returns nothing and skips the test.
    pub(crate) fn find(script: &str, library: &str) -> Vec<Self> {
        let is_python = script.ends_with(".py");
        let older = older(is_python, library);
        let programs = older.iter().map(Some).chain([None]).filter_map(|older| {
            let probe = if is_python {
                ["-c".to_owned(), format!("import {library}")]
            } else {
                ["-e".to_owned(), format!("require('{library}')")]
            };
            let output = runtime(is_python, older).args(probe).output().ok()?;
            let mut command = runtime(is_python, older);
            command.arg(root().join("examples").join(script));
            let older = older.map(|dir| format!(" with {}", dir.display()));
            let name = format!("{script}{}", older.unwrap_or_default());
            output.status.success().then_some(Self { name, command })
        });
        let programs: Vec<Self> = programs.collect();
        if programs.is_empty() {
            skip(format!(
                "the runtime or the client library of examples/{script} is missing (scripts/setup-examples)"
            ));
        }
        programs
    }

    /// Runs the program and returns what it printed.
    pub(crate) fn run<A: AsRef<OsStr>>(mut self, arguments: &[A]) -> String {
        let output = self.command.args(arguments).output().expect("start the example");
        let (printed, errors) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{}: {printed}{errors}", self.name);
        printed.into_owned()
    }
}

pub(crate) fn url(server: &Server) -> String {
    format!("redis://127.0.0.1:{}", server.port())
}
