//! Runs the listings of docs/clients.md, the programs of docs/window.md and the migrations of
//! docs/migrating-from-setbit.md, which are files of examples/.
//!
//! `scripts/setup-examples` installs the libraries in the target directory, and no others are used, because this
//! machine may have other versions. A test whose runtime or library is missing is skipped with a message, so that the
//! other tests run on a machine without internet access.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;

use crate::harness::{ROOT, Server, Site, Test, skip, tests};

#[path = "../../examples/rust/use_redis_rs.rs"]
#[expect(dead_code, reason = "the test calls `run`, not `main`")]
mod use_redis_rs;

pub(crate) const TESTS: &[Test] = tests![
    redis_py_is_used_as_its_page_says,
    valkey_glide_is_used_as_its_page_says,
    redis_py_deletes_items_with_its_methods_for_cuckoo_filters,
    node_redis_deletes_items_with_its_methods_for_cuckoo_filters,
    node_redis_is_used_as_its_page_says,
    ioredis_is_used_as_its_page_says,
    redis_rs_is_used_as_its_page_says,
    redis_py_loads_packed_batches_as_their_page_says,
    node_redis_loads_packed_batches_as_their_page_says,
    the_page_names_the_tested_versions,
    the_orders_example_accepts_each_order_once,
    the_webhooks_example_processes_each_event_once,
    the_tokens_example_refuses_revoked_tokens,
    the_limits_example_sends_one_message_an_hour,
    the_notifications_example_suppresses_repeats,
    the_crawler_example_revisits_pages_after_a_window,
    a_filter_of_go_zero_moves_with_python,
    a_filter_of_fnv_moves_with_node,
];

pub(crate) fn root() -> PathBuf {
    PathBuf::from(ROOT)
}

/// Returns the directory of the client libraries of `scripts/setup-examples`.
fn libraries() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    target.join("examples-clients")
}

/// Returns a command that starts Python or Node with the libraries of the examples. A library in the directory `older`
/// takes precedence.
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

/// A command that runs a script of examples/ with one version of its library.
pub(crate) struct Program {
    /// The script, and the directory of the library if that is an older version.
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
                // The newest clients need Node 20, and node/partitions.js needs this function of Node 20.15.
                ["-e".to_owned(), format!("require('node:zlib').crc32(''); require('{library}')")]
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
                "the runtime or the client library of examples/{script} is missing or too old (scripts/setup-examples)"
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

fn is_done(site: &Site, script: &str, library: &str) {
    for program in Program::find(script, library) {
        let (name, server) = (program.name.clone(), site.start());
        let printed = program.run(&[url(&server)]);
        assert!(printed.ends_with("done\n"), "{name}: {printed}");
    }
}

fn redis_py_is_used_as_its_page_says(site: &Site) {
    is_done(site, "python/use_redis_py.py", "redis");
}

fn valkey_glide_is_used_as_its_page_says(site: &Site) {
    is_done(site, "python/use_valkey_glide.py", "glide_sync");
}

fn node_redis_is_used_as_its_page_says(site: &Site) {
    is_done(site, "node/use_node_redis.js", "redis");
}

fn redis_py_deletes_items_with_its_methods_for_cuckoo_filters(site: &Site) {
    is_done(site, "python/delete_items.py", "redis");
}

fn node_redis_deletes_items_with_its_methods_for_cuckoo_filters(site: &Site) {
    is_done(site, "node/delete_items.js", "redis");
}

fn ioredis_is_used_as_its_page_says(site: &Site) {
    is_done(site, "node/use_ioredis.js", "ioredis");
}

fn the_orders_example_accepts_each_order_once(site: &Site) {
    is_done(site, "python/window_orders.py", "redis");
}

fn the_webhooks_example_processes_each_event_once(site: &Site) {
    is_done(site, "python/window_webhooks.py", "redis");
}

fn the_tokens_example_refuses_revoked_tokens(site: &Site) {
    is_done(site, "python/window_tokens.py", "redis");
}

fn the_limits_example_sends_one_message_an_hour(site: &Site) {
    is_done(site, "python/window_limits.py", "redis");
}

fn the_notifications_example_suppresses_repeats(site: &Site) {
    is_done(site, "python/window_notifications.py", "redis");
}

fn the_crawler_example_revisits_pages_after_a_window(site: &Site) {
    is_done(site, "python/window_crawler.py", "redis");
}

fn redis_rs_is_used_as_its_page_says(site: &Site) {
    for protocol in ["resp2", "resp3"] {
        let server = site.start();
        let url = format!("redis://127.0.0.1:{}/?protocol={protocol}", server.port());
        use_redis_rs::run(&url).expect("the example");
    }
}

/// Loads a file that has more lines than fit a batch, and some duplicates.
fn loads_packed_batches(site: &Site, script: &str) {
    for program in Program::find(script, "redis") {
        let (name, server) = (program.name.clone(), site.start());
        let mut client = server.client();
        client.say("BF.RESERVE ids 0.000001 30000");
        let ids = server.dir().join("ids.txt");
        let lines: String = (0..25_000).map(|number| format!("id-{}\n", number % 22_000)).collect();
        std::fs::write(&ids, lines).expect("write the ids");
        let printed = program.run(&[url(&server).as_ref(), ids.as_os_str()]);
        let items = client.int("BF.CARD ids");
        assert_eq!(printed, format!("{items} new\nid-1 found\nnobody absent\n2 new\n"), "{name}");
        assert!((21_990..=22_000).contains(&items), "{name}: {items}");
        assert_eq!(client.ask(&["BF.MEXISTS", "ids", "id-21999", "id-21999\n"]), "[1, 0]", "{name}");
        assert_eq!(client.ask(&["BF.MEXISTS", "any", "a\nb", "", "a"]), "[1, 1, 0]", "{name}");
    }
    // The programs load any file.
    for program in Program::find(script, "redis") {
        let (name, server) = (program.name.clone(), site.start());
        let others = server.dir().join("others.txt");
        std::fs::write(&others, "one\ntwo\nthree\n").expect("write the items");
        let printed = program.run(&[url(&server).as_ref(), others.as_os_str()]);
        assert_eq!(printed, "3 new\nid-1 absent\nnobody absent\n2 new\n", "{name}");
    }
}

fn redis_py_loads_packed_batches_as_their_page_says(site: &Site) {
    loads_packed_batches(site, "python/bulk.py");
}

fn node_redis_loads_packed_batches_as_their_page_says(site: &Site) {
    loads_packed_batches(site, "node/bulk.js");
}

fn moves(site: &Site, script: &str, library: &str) {
    for program in Program::find(script, library) {
        let (name, server) = (program.name.clone(), site.start());
        let printed = program.run(&[url(&server)]);
        assert!(printed.contains("moved: 1001 items"), "{name}: {printed}");
        assert_eq!(server.client().int("DBSIZE"), 1, "{name} leaves the new filter and nothing else");
    }
}

fn a_filter_of_go_zero_moves_with_python(site: &Site) {
    moves(site, "python/migrate.py", "redis");
}

fn a_filter_of_fnv_moves_with_node(site: &Site) {
    moves(site, "node/migrate.js", "ioredis");
}

fn the_page_names_the_tested_versions(_: &Site) {
    let read = |file: &str| std::fs::read_to_string(root().join(file)).expect(file);
    let (page, older) = (read("docs/clients.md"), read("scripts/setup-examples"));
    let (python, node) = (read("examples/python/requirements.txt"), read("examples/node/package.json"));
    let rows = page.lines().filter_map(|line| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        (cells.len() == 5).then(|| (cells[1].to_owned(), cells[2].to_owned(), cells[3].to_owned()))
    });
    let mut compared = 0;
    for (client, oldest, newest) in rows {
        let (oldest, newest, pins) = match client.as_str() {
            "redis-py" => (format!("redis redis=={oldest}"), format!("redis=={newest}"), &python),
            "valkey-glide-sync" => (format!("{client}=={oldest}"), format!("{client}=={newest}"), &python),
            "node-redis" => (format!("redis redis@{oldest}"), format!("\"redis\": \"{newest}\""), &node),
            "ioredis" => (format!("{client}@{oldest}"), format!("\"{client}\": \"{newest}\""), &node),
            _ => continue,
        };
        assert!(older.contains(&oldest) && pins.contains(&newest), "{client}");
        compared += 1;
    }
    assert_eq!(compared, 4);
}
