//! Runs the tool, and writes files for it.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::harness::{Client, Server, Site, wait_until};

/// Returns the path of the tool: `TOOL`, or the tool that was built with the tests.
pub(crate) fn path() -> PathBuf {
    let built = option_env!("CARGO_BIN_EXE_everbloom").map(PathBuf::from);
    let path = std::env::var_os("TOOL").map(PathBuf::from).or(built);
    path.expect("TOOL names the tool to test, or the tests are built with --features tool")
}

/// Returns a call of the tool without credentials in its environment.
pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(path());
    for name in ["USERNAME", "PASSWORD", "TO_USERNAME", "TO_PASSWORD"] {
        command.env_remove(format!("EVERBLOOM_{name}"));
    }
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The exit code and the output of a call.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ended {
    pub(crate) fn of(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("the tool speaks UTF-8");
        Self { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }

    /// Returns the result of a call with `--json`.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out)
            .unwrap_or_else(|error| panic!("{error}: '{}' '{}'", self.out, self.err))
    }
}

/// Runs the tool.
pub(crate) fn run(arguments: &[&str]) -> Ended {
    Ended::of(command(arguments).output().expect("run the tool"))
}

/// Runs the tool with standard input.
pub(crate) fn run_with(arguments: &[&str], input: &[u8]) -> Ended {
    let mut child = spawn(arguments);
    // If the arguments are wrong, the tool reads nothing.
    let _ = child.stdin.take().expect("standard input").write_all(input);
    Ended::of(child.wait_with_output().expect("end of the tool"))
}

/// Starts the tool with a pipe as standard input.
pub(crate) fn spawn(arguments: &[&str]) -> Child {
    command(arguments).stdin(Stdio::piped()).spawn().expect("run the tool")
}

/// Runs the tool, which must succeed. Returns its JSON.
pub(crate) fn json(arguments: &[&str]) -> Value {
    let ended = run(&[arguments, &["--json"]].concat());
    assert_eq!(ended.code, Some(0), "{arguments:?}: {}{}", ended.out, ended.err);
    ended.json()
}

/// Returns the address of a server.
pub(crate) fn url(server: &Server) -> String {
    format!("redis://127.0.0.1:{}", server.port())
}

/// A directory with files for one test.
pub(crate) struct Files(TempDir);

impl Files {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("temporary directory"))
    }

    /// Returns the path of a file, which need not exist.
    pub(crate) fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().expect("a path in UTF-8").to_owned()
    }

    /// Writes a file. Returns its path.
    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        fs::write(&path, bytes).expect("write a file");
        path
    }

    /// Writes lines `item-0` and so on.
    pub(crate) fn items(&self, name: &str, items: u32) -> String {
        let mut text = String::new();
        for item in 0..items {
            text.push_str(&format!("item-{item}\n"));
        }
        self.write(name, text)
    }
}

/// Returns the path of a file of tests/fixtures/tool.
pub(crate) fn fixture(name: &str) -> String {
    format!("{}/tests/fixtures/tool/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Returns how many of the items are in the filter.
pub(crate) fn present(client: &mut Client, key: &str, items: &[&[u8]]) -> usize {
    let mut command: Vec<&[u8]> = vec![b"BF.MEXISTS", key.as_bytes()];
    command.extend(items);
    client.array(&command).iter().filter(|reply| **reply == redis::Value::Int(1)).count()
}

/// Returns the keys of the server in order.
pub(crate) fn keys(client: &mut Client) -> Vec<String> {
    let mut keys: Vec<String> = client
        .array(&["KEYS", "*"])
        .iter()
        .map(|key| match key {
            redis::Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            other => panic!("{other:?} is no key"),
        })
        .collect();
    keys.sort();
    keys
}

/// Starts two primaries of a cluster, each with half of the slots.
pub(crate) fn two_nodes(site: &Site) -> [Server; 2] {
    primaries(site)
}

/// Slots of a cluster.
const SLOTS: usize = 16_384;

/// Starts the primaries of a cluster, with equal shares of the slots.
pub(crate) fn primaries<const N: usize>(site: &Site) -> [Server; N] {
    let nodes: [Server; N] = std::array::from_fn(|_| site.launch().in_cluster().start());
    for (number, node) in nodes.iter().enumerate() {
        let (first, end) = (SLOTS * number / N, SLOTS * (number + 1) / N);
        assert_eq!(node.client().say(&format!("CLUSTER ADDSLOTSRANGE {first} {}", end - 1)), "+OK");
        // Nodes with equal configuration epochs would first have to resolve the conflict.
        assert_eq!(node.client().say(&format!("CLUSTER SET-CONFIG-EPOCH {}", number + 1)), "+OK");
    }
    for node in &nodes[1..] {
        let meet = format!("CLUSTER MEET 127.0.0.1 {} {}", node.port(), node.bus_port());
        assert_eq!(nodes[0].client().say(&meet), "+OK");
    }
    for node in &nodes {
        wait_until("cluster up", || {
            let info = String::from_utf8(node.client().bytes(&["CLUSTER", "INFO"])).unwrap();
            info.contains("cluster_state:ok") && info.contains("cluster_slots_assigned:16384")
        });
    }
    nodes
}
