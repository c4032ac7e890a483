//! Runs the tool, and writes files for it.

use std::fs;
use std::io::Write;
use std::ops::Range;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use redis::from_redis_value;
use serde_json::Value;
use tempfile::TempDir;

use crate::harness::{Client, ROOT, Server, Site, wait_until};

/// Returns the path of the tool, which is in `TOOL`.
pub(crate) fn path() -> PathBuf {
    std::env::var_os("TOOL").map(PathBuf::from).expect("TOOL names the tool to test")
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

/// Runs the tool, which must succeed and print a text.
pub(crate) fn pass(text: &str, arguments: &[&str]) -> Ended {
    let ended = run(arguments);
    assert!(ended.code == Some(0) && ended.out.contains(text), "{arguments:?}: {}{}", ended.out, ended.err);
    ended
}

/// Runs the tool, which must fail with an exit code and with a text in its message. Returns what it printed.
pub(crate) fn fail(code: i32, trouble: &str, arguments: &[&str]) -> Ended {
    let ended = run(arguments);
    let is_told = ended.err.contains(trouble);
    assert!(ended.code == Some(code) && is_told, "{arguments:?}: {:?} {}", ended.code, ended.err);
    ended
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

    /// Writes a file with the lines `item-0`, `item-1` and so on. Returns its path.
    pub(crate) fn items(&self, name: &str, number: u32) -> String {
        self.write(name, items(0..number).join("\n") + "\n")
    }
}

/// Returns the items that [`Files::items`] and [`Loading::next`] write.
pub(crate) fn items(range: Range<u32>) -> Vec<String> {
    range.map(|item| format!("item-{item}")).collect()
}

/// Starts a server. Returns it with a client and a directory.
pub(crate) fn start(site: &Site) -> (Server, Client, Files) {
    let server = site.start();
    let client = server.client();
    (server, client, Files::new())
}

/// A load into the key `k` from a pipe. `next` writes more items.
pub(crate) struct Loading {
    pub(crate) child: Child,
    pub(crate) items: Vec<String>,
}

impl Loading {
    pub(crate) fn begin(server: &Server, arguments: &[&str]) -> Self {
        Self::add(server, &[&["--capacity", "2e6", "--json"], arguments].concat())
    }

    /// Begins a load without a capacity, as `--add` needs it.
    pub(crate) fn add(server: &Server, arguments: &[&str]) -> Self {
        let address = url(server);
        let load = ["load", &address, "k", "-"];
        Self { child: spawn(&[&load, arguments].concat()), items: Vec::new() }
    }

    /// Writes enough items for the tool to send some of them and wait for more.
    pub(crate) fn next(&mut self) {
        let from = u32::try_from(self.items.len()).unwrap();
        let more = items(from..from + 300_000);
        let written = self.child.stdin.as_mut().unwrap().write_all((more.join("\n") + "\n").as_bytes());
        if let Err(error) = written {
            drop(self.child.stdin.take());
            let said = std::io::read_to_string(self.child.stderr.take().unwrap());
            panic!("the tool ended: {error}: {said:?}");
        }
        self.items.extend(more);
    }

    /// Ends the input and waits for the tool to end. Returns its output and all items that were written.
    pub(crate) fn end(self) -> (Ended, Vec<String>) {
        (Ended::of(self.child.wait_with_output().unwrap()), self.items)
    }
}

/// Returns the path of a file of tests/fixtures/tool.
pub(crate) fn fixture(name: &str) -> String {
    format!("{}/tests/fixtures/tool/{name}", ROOT)
}

/// Returns how many of the items are in the filter.
pub(crate) fn present(client: &mut Client, key: &str, items: &[&[u8]]) -> usize {
    let found: Vec<bool> =
        from_redis_value(client.call(&[&[b"BF.MEXISTS", key.as_bytes()], items].concat())).unwrap();
    found.into_iter().filter(|found| *found).count()
}

/// Returns the keys of the server in order.
pub(crate) fn keys(client: &mut Client) -> Vec<String> {
    let mut keys: Vec<String> = from_redis_value(client.call(&["KEYS", "*"])).unwrap();
    keys.sort();
    keys
}

/// Slots of a cluster.
const SLOTS: usize = 16_384;

/// Starts the primaries of a cluster, with equal shares of the slots.
pub(crate) fn primaries<const N: usize>(site: &Site) -> [Server; N] {
    cluster(std::array::from_fn(|_| site.launch().in_cluster().start()))
}

/// Joins servers to a cluster, with equal shares of the slots.
pub(crate) fn cluster<const N: usize>(nodes: [Server; N]) -> [Server; N] {
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
