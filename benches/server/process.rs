//! Starts and stops the measured server processes, and reads their memory from the system.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::client::Client;
use super::failure::Failure;

/// Longest time from the start to the first reply, including the time to load gigabytes of data.
const START_TIMEOUT: Duration = Duration::from_secs(120);

/// The settings of a server before its start.
#[derive(Clone)]
pub(crate) struct Launch {
    /// The command that starts the server: its program, or another program that runs it.
    pub(crate) command: Vec<String>,
    /// Modules to load.
    pub(crate) modules: Vec<PathBuf>,
    /// Load arguments of the last module.
    pub(crate) arguments: Vec<String>,
    /// The directory of its data and its log.
    pub(crate) directory: Rc<TempDir>,
}

impl Launch {
    /// Returns the settings of a server with one module in its own directory.
    pub(crate) fn new(server: &str, modules: &[&Path]) -> Result<Self, Failure> {
        Ok(Self {
            command: vec![server.to_owned()],
            modules: modules.iter().map(|path| path.to_path_buf()).collect(),
            arguments: Vec::new(),
            directory: Rc::new(tempfile::tempdir()?),
        })
    }

    /// Sets the load arguments of the last module.
    pub(crate) fn with_arguments(mut self, arguments: &[String]) -> Self {
        self.arguments = arguments.to_vec();
        self
    }

    /// Runs the server under another program, such as callgrind.
    pub(crate) fn under(mut self, program: &[&str]) -> Self {
        let wrapper = program.iter().map(|word| (*word).to_owned());
        self.command.splice(0..0, wrapper);
        self
    }

    /// Pins the server to the second processor, if there are two and `taskset` is installed.
    pub(crate) fn pinned(self) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        if processors > 1 && on_path("taskset").is_some() {
            self.under(&["taskset", "-c", "1"])
        } else {
            self
        }
    }

    /// Starts the server and waits until it has loaded its data and replies.
    pub(crate) fn start(&self) -> Result<Server, Failure> {
        let directory = self.directory.path();
        let socket = directory.join("socket");
        // After a restart in the same directory the socket of the previous server must not be used.
        let _ = fs::remove_file(&socket);
        let (program, arguments) = self.command.split_first().ok_or("no server")?;
        let mut command = Command::new(program);
        command.args(arguments).args(["--port", "0", "--save", "", "--daemonize", "no", "--hz", "1"]);
        command.args(["--unixsocket", text(&socket)?, "--dir", text(directory)?]);
        command.args(["--logfile", text(&directory.join("log"))?]);
        // A large filter is one long string.
        command.args(["--proto-max-bulk-len", "8gb", "--client-query-buffer-limit", "16gb"]);
        command.args(["--rdbcompression", "no", "--enable-debug-command", "yes"]);
        for module in &self.modules {
            command.args(["--loadmodule", text(module)?]);
        }
        command.args(&self.arguments);
        let started = Instant::now();
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let mut server = Server { child, socket, start_time: Duration::ZERO, launch: self.clone() };
        while server.client().and_then(|mut client| client.say("PING")).is_err() {
            if server.child.try_wait()?.is_some() || started.elapsed() > START_TIMEOUT {
                return Err(format!("{program} did not start:\n{}", server.log()).into());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        server.start_time = started.elapsed();
        Ok(server)
    }
}

/// A running server; its process is killed when it is dropped.
pub(crate) struct Server {
    child: Child,
    socket: PathBuf,
    /// Time from its start to its first reply.
    pub(crate) start_time: Duration,
    launch: Launch,
}

impl Server {
    /// Returns the path of its socket.
    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Opens a new connection.
    pub(crate) fn client(&self) -> Result<Client, Failure> {
        Client::connect(&self.socket)
    }

    /// Returns its process number.
    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    /// Returns the number of a child process that is still running.
    pub(crate) fn forked(&self) -> Option<u32> {
        let id = self.process();
        let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).ok()?;
        children.split_whitespace().next()?.parse().ok()
    }

    /// Returns the end of its log.
    pub(crate) fn log(&self) -> String {
        let log = fs::read_to_string(self.launch.directory.path().join("log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines.get(lines.len().saturating_sub(15)..).unwrap_or_default().join("\n")
    }

    /// Sends SHUTDOWN and waits for the end of the server.
    pub(crate) fn shut_down(mut self) -> Result<(), Failure> {
        // The server closes the connection instead of replying.
        let _ = self.client()?.say("SHUTDOWN NOSAVE");
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns a field of the memory of a process, in bytes: `VmHWM` and `VmRSS` from its status, `Private_Dirty` from
/// the list of its pages.
pub(crate) fn memory_bytes(process: u32, field: &str) -> Option<u64> {
    let file = if field.starts_with("Vm") { "status" } else { "smaps_rollup" };
    let text = fs::read_to_string(format!("/proc/{process}/{file}")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib * 1024)
}

/// Resets the peak of the resident memory, `VmHWM`, to the present value.
pub(crate) fn reset_peak(process: u32) -> Result<(), Failure> {
    Ok(fs::write(format!("/proc/{process}/clear_refs"), "5")?)
}

/// Returns the path of a program on the PATH.
pub(crate) fn on_path(name: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?).map(|dir| dir.join(name)).find(|path| path.is_file())
}

fn text(path: &Path) -> Result<&str, Failure> {
    path.to_str().ok_or_else(|| format!("{} is no text", path.display()).into())
}
