//! A server process of one test: its configuration, its directory, its log, its exit.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;

use redis::Value;
use tempfile::TempDir;

use super::{Client, Raw, Site, wait_until};

/// Number of attempts to start a server, for the case that another process takes its port first.
const PORT_ATTEMPTS: u32 = 10;

/// Texts that the log of a working server must not contain.
const ALARMS: &[&str] = &["BUG REPORT", "=== ", "panicked", "CRITICAL", "ASSERTION FAILED"];

/// A server before its start.
#[derive(Clone)]
pub(crate) struct Launch {
    site: Site,
    dir: Arc<TempDir>,
    /// Lines of the configuration file before `loadmodule`.
    lines: Vec<String>,
    module: Option<Vec<String>>,
    /// Lines after `loadmodule`: the module's own settings.
    module_lines: Vec<String>,
    cluster: bool,
    /// Limit of the address space, in KiB.
    address_space_kib: Option<u64>,
    /// Alarms that the log may contain.
    expected_alarms: Vec<&'static str>,
}

impl Launch {
    pub(super) fn new(site: &Site) -> Self {
        Self {
            site: site.clone(),
            dir: Arc::new(tempfile::tempdir().expect("temporary directory")),
            lines: Vec::new(),
            module: Some(Vec::new()),
            module_lines: Vec::new(),
            cluster: false,
            address_space_kib: None,
            expected_alarms: Vec::new(),
        }
    }

    /// Returns the server binary and the module file that this server uses.
    pub(crate) fn site(&self) -> &Site {
        &self.site
    }

    /// Allows one kind of alarm in the log.
    pub(crate) fn expecting(mut self, alarm: &'static str) -> Self {
        self.expected_alarms.push(alarm);
        self
    }

    /// Adds a line to the configuration file.
    pub(crate) fn with(mut self, line: impl Into<String>) -> Self {
        self.lines.push(line.into());
        self
    }

    /// Adds a setting of the module, which must follow the line that loads it.
    pub(crate) fn with_option(mut self, line: impl Into<String>) -> Self {
        self.module_lines.push(line.into());
        self
    }

    /// Loads the module with arguments.
    pub(crate) fn with_module_args(mut self, args: &[&str]) -> Self {
        self.module = Some(args.iter().map(|&arg| arg.to_owned()).collect());
        self
    }

    /// Does not load the module.
    pub(crate) fn without_module(mut self) -> Self {
        self.module = None;
        self
    }

    /// Limits the address space of the process: beyond it every allocation fails.
    pub(crate) fn with_address_space_mib(mut self, mib: u64) -> Self {
        self.address_space_kib = Some(mib << 10);
        self
    }

    /// Makes the server a node of a cluster.
    pub(crate) fn in_cluster(mut self) -> Self {
        self.cluster = true;
        self
    }

    /// Returns the directory that it will run in, to put files there before the start.
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Starts the server and waits until it replies and has loaded its data.
    pub(crate) fn start(self) -> Server {
        match self.try_start() {
            Ok(server) => server,
            Err((status, log)) => panic!("server ended at start with {status}; its log:\n{}", tail(&log)),
        }
    }

    /// Starts the server and expects it to exit. Returns its log.
    pub(crate) fn expect_dead_at_start(self) -> String {
        match self.try_start() {
            Ok(_) => panic!("the server started although it should have refused"),
            Err((_, log)) => log,
        }
    }

    fn try_start(self) -> Result<Server, (ExitStatus, String)> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let (port, bus_port) = free_ports();
            let log = self.path("server.log");
            // A restart keeps the directory and begins a new log.
            let _ = fs::remove_file(&log);
            let conf = self.path("server.conf");
            fs::write(&conf, self.configuration(port, bus_port)).expect("configuration file");
            let mut child = self
                .command(&conf)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("start server");
            match wait_for_start(&mut child, port, self.dir.path()) {
                None => {
                    return Ok(Server { launch: self, child, port, bus_port, has_ended: false });
                }
                Some(status) => {
                    let text = read_log(&log);
                    if attempts == PORT_ATTEMPTS || !text.contains("Address already in use") {
                        return Err((status, text));
                    }
                }
            }
        }
    }

    fn command(&self, conf: &Path) -> Command {
        let Some(kib) = self.address_space_kib else {
            let mut command = Command::new(&self.site.binary);
            command.arg(conf);
            return command;
        };
        // The shell sets its limit and then becomes the server, with the same process id.
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -v \"$1\" && exec \"$2\" \"$3\"", "sh"]);
        command.arg(kib.to_string()).arg(&self.site.binary).arg(conf);
        command
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn configuration(&self, port: u16, bus_port: u16) -> String {
        let mut lines = vec![
            "bind 127.0.0.1".to_owned(),
            format!("port {port}"),
            format!("dir {}", self.dir.path().display()),
            format!("logfile {}", self.path("server.log").display()),
            "save \"\"".to_owned(),
            // The server writes to the append-only file before it replies, so a killed server loses no acknowledged
            // write. With `everysec`, the default, a slow disk delays the writes.
            "appendfsync no".to_owned(),
            "daemonize no".to_owned(),
            "enable-debug-command yes".to_owned(),
            "enable-module-command yes".to_owned(),
            // A replica is served immediately, and pings do not change the replication offset.
            "repl-diskless-sync-delay 0".to_owned(),
            "repl-ping-replica-period 3600".to_owned(),
        ];
        if self.cluster {
            lines.push("cluster-enabled yes".to_owned());
            lines.push(format!("cluster-port {bus_port}"));
            lines.push("cluster-node-timeout 60000".to_owned());
        }
        lines.extend(self.lines.iter().cloned());
        if let Some(args) = &self.module {
            let quoted: String = args.iter().map(|arg| format!(" \"{arg}\"")).collect();
            lines.push(format!("loadmodule {}{quoted}", self.site.module.display()));
        }
        lines.extend(self.module_lines.iter().cloned());
        lines.join("\n") + "\n"
    }
}

/// A running server. Dropping it kills the process. Unless the test has failed already, the test fails if the server
/// had exited or its log reports a crash.
pub(crate) struct Server {
    launch: Launch,
    child: Child,
    port: u16,
    bus_port: u16,
    /// Whether the test has seen it exit.
    has_ended: bool,
}

impl Server {
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Returns the port of the cluster bus.
    pub(crate) fn bus_port(&self) -> u16 {
        self.bus_port
    }

    pub(crate) fn dir(&self) -> &Path {
        self.launch.dir()
    }

    /// Returns a client in RESP2.
    pub(crate) fn client(&self) -> Client {
        Client::connect(self.port, false).expect("connect in RESP2")
    }

    /// Returns a client in RESP3.
    pub(crate) fn client3(&self) -> Client {
        Client::connect(self.port, true).expect("connect in RESP3")
    }

    /// Returns a client that keeps the bytes, in RESP2.
    pub(crate) fn raw(&self) -> Raw {
        Raw::connect(self.port, false).expect("connect in RESP2")
    }

    /// Returns a client that keeps the bytes, in RESP3.
    pub(crate) fn raw3(&self) -> Raw {
        Raw::connect(self.port, true).expect("connect in RESP3")
    }

    /// Returns the log so far.
    pub(crate) fn log(&self) -> String {
        read_log(&self.launch.path("server.log"))
    }

    /// Returns the id of the process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the resident memory of the process, in bytes.
    pub(crate) fn resident_bytes(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("process status");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("VmRSS");
        let kib: u64 = line.trim().trim_end_matches(" kB").parse().expect("VmRSS in kB");
        kib * 1024
    }

    /// Waits until the process exits. Returns its status and its log.
    pub(crate) fn expect_end(mut self) -> (ExitStatus, String) {
        let mut status = None;
        wait_until("the server ends", || {
            status = self.child.try_wait().expect("state of the server");
            status.is_some()
        });
        let log = self.log();
        self.has_ended = true;
        (status.expect("status"), log)
    }

    /// Kills the process and starts another one in the same directory.
    pub(crate) fn restart(self) -> Self {
        self.restart_as(|launch| launch)
    }

    /// Kills the process and starts another one in the same directory, configured differently.
    pub(crate) fn restart_as(self, change: impl FnOnce(Launch) -> Launch) -> Self {
        let launch = change(self.launch.clone());
        drop(self);
        launch.start()
    }

    /// Starts a replica of this server and waits until it is in sync.
    pub(crate) fn replica(&self, launch: Launch) -> Self {
        let replica = launch.with(format!("replicaof 127.0.0.1 {}", self.port)).start();
        replica.wait_for_primary();
        replica
    }

    /// Waits until the link to the primary is up.
    pub(crate) fn wait_for_primary(&self) {
        let mut client = self.client();
        wait_until("replica in step", || client.info("master_link_status").as_deref() == Some("up"));
    }

    fn ensure_well(&mut self) -> Result<(), String> {
        let status = self.child.try_wait().map_err(|error| error.to_string())?;
        let log = self.log();
        if let Some(status) = status {
            return Err(format!("server died with {status}; its log:\n{}", tail(&log)));
        }
        let expected = &self.launch.expected_alarms;
        let alarm = ALARMS.iter().find(|&alarm| log.contains(alarm) && !expected.contains(alarm));
        alarm.map_or(Ok(()), |alarm| Err(format!("'{alarm}' in the log:\n{}", tail(&log))))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.has_ended {
            return;
        }
        let health = self.ensure_well();
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("--- log of {} on port {}\n{}", self.launch.site.name, self.port, tail(&self.log()));
        } else if let Err(trouble) = health {
            panic!("{trouble}");
        }
    }
}

/// Waits until the server is ready and returns `None`. Returns its status if it exits first.
fn wait_for_start(child: &mut Child, port: u16, dir: &Path) -> Option<ExitStatus> {
    let dir = dir.canonicalize().expect("directory of the server");
    let mut status = None;
    wait_until("server replies", || {
        status = child.try_wait().expect("state of the server");
        status.is_some() || is_ready(port, &dir)
    });
    status
}

/// Returns whether the server on that port has loaded its data and is ours: another test may have the port now.
fn is_ready(port: u16, dir: &Path) -> bool {
    let Ok(mut client) = Client::connect(port, false) else { return false };
    // A server that is loading runs CONFIG, but not PING.
    let Ok(Value::SimpleString(_)) = client.try_call(&["PING"]) else { return false };
    let Ok(Value::Array(pair)) = client.try_call(&["CONFIG", "GET", "dir"]) else { return false };
    pair.get(1) == Some(&Value::BulkString(dir.display().to_string().into_bytes()))
}

/// Returns two free ports: for clients, and for the bus of a cluster.
fn free_ports() -> (u16, u16) {
    let listeners = [(); 2].map(|()| TcpListener::bind(("127.0.0.1", 0)).expect("free port"));
    let [first, second] = listeners.map(|listener| listener.local_addr().expect("address").port());
    (first, second)
}

/// Returns the append-only file in a server's directory whose name contains `part`.
pub(crate) fn append_only_file(dir: &Path, part: &str) -> PathBuf {
    let files = fs::read_dir(dir.join("appendonlydir")).expect("append-only files");
    let mut paths = files.map(|file| file.expect("a file").path());
    paths.find(|path| path.to_string_lossy().contains(part)).expect("such a file")
}

fn read_log(path: &Path) -> String {
    // A server that exits immediately may not have written a log.
    fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(30)..].join("\n")
}
