//! Starts the measured servers and sends commands to them.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use redis::{Client, Connection, ConnectionLike, FromRedisValue, Pipeline, Value};
use tempfile::TempDir;

use super::{Failure, Module};

/// The longest time from the start of a server to its first reply. Under valgrind it takes some seconds.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// A running server with one module. Its process is killed when it is dropped.
pub(crate) struct Server {
    child: Child,
    client: Client,
    connection: Connection,
    /// The name and version of the module, such as `everbloom 1.0.0`.
    pub(crate) module: String,
    /// The name and version of the server, such as `Redis 7.0.15`.
    pub(crate) name: String,
    _directory: TempDir,
}

/// The times and results of a pipeline of commands.
#[derive(Clone, Copy, Default)]
pub(crate) struct Measured {
    /// Sum of the integers in the replies: the number of items that were new, found or deleted.
    pub(crate) hits: u64,
    /// Time of the commands in the server, which excludes parsing and the socket.
    pub(crate) command_ns: f64,
    /// Processor time of the server's main thread, which includes parsing and the socket.
    pub(crate) thread_ns: f64,
}

impl Server {
    /// Starts a server with a module, and returns when it replies. `program` is the server. A program that runs the
    /// server, such as valgrind, may come before it.
    pub(crate) fn start(program: &[&str], module: &Module) -> Result<Self, Failure> {
        let Module { file, suffix, .. } = module;
        let directory = tempfile::tempdir()?;
        let socket = directory.path().join("socket").display().to_string();
        let log = directory.path().join("log").display().to_string();
        let (wrapped, rest) = program.split_first().ok_or("no server")?;
        let mut command = Command::new(wrapped);
        command.args(rest).args(["--port", "0", "--unixsocket", &socket, "--save", "", "--logfile", &log]);
        // Blocking commands save; without a directory of its own, another server would load that.
        command.arg("--dir").arg(directory.path());
        command.args(["--enable-debug-command", "yes", "--latency-tracking-info-percentiles", "99.9 100"]);
        command.arg("--loadmodule").args(file.split_whitespace());
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let started = Instant::now();
        let client = Client::open(format!("unix://{socket}"))?;
        let connection = loop {
            if let Ok(connection) = client.get_connection() {
                break connection;
            }
            if child.try_wait()?.is_some() || started.elapsed() > START_TIMEOUT {
                let _ = child.kill();
                let log = fs::read_to_string(&log).unwrap_or_default();
                return Err(format!("{} did not start with {file}:\n{log}", program.join(" ")).into());
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        let mut server = Self {
            child,
            client,
            connection,
            module: String::new(),
            name: String::new(),
            _directory: directory,
        };
        // Valkey also reports the version of Redis with which it is compatible.
        server.name = match server.info("server", "valkey_version") {
            Ok(version) => format!("Valkey {version}"),
            Err(_) => format!("Redis {}", server.info("server", "redis_version")?),
        };
        let file =
            file.split_whitespace().next().and_then(|path| path.rsplit('/').next()).unwrap_or_default();
        server.module = match server.info("bf", "bf_release") {
            Ok(release) => format!("everbloom {release}{suffix}"),
            Err(_) => {
                let name = file.trim_end_matches(".so").replace("redisbloom", "RedisBloom");
                format!("{name} {}{suffix}", server.module_version()?)
            }
        };
        // The server runs on the second processor only, so that the client can run on another one.
        if std::thread::available_parallelism().is_ok_and(|count| count.get() > 1) && on_path("taskset") {
            let id = server.process().to_string();
            Command::new("taskset").args(["-acp", "1", &id]).stdout(Stdio::null()).status()?;
        }
        Ok(server)
    }

    /// Returns the version of the module, for its name in the results. The server has the number 20802 for 2.8.2.
    fn module_version(&mut self) -> Result<String, Failure> {
        let modules: Vec<Vec<Value>> = self.query("MODULE LIST")?;
        let fields = modules.first().ok_or("no module")?;
        let is_version = |value: &Value| String::from_redis_value_ref(value).is_ok_and(|name| name == "ver");
        let place = fields.iter().position(is_version).ok_or("a module without version")?;
        let version = u64::from_redis_value_ref(fields.get(place + 1).ok_or("a module without version")?)?;
        Ok(format!("{}.{}.{}", version / 10_000, version / 100 % 100, version % 100))
    }

    /// Returns the id of the process.
    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    /// Returns the reply to a command, whose words are separated by spaces.
    pub(crate) fn query<T: FromRedisValue>(&mut self, line: &str) -> Result<T, Failure> {
        let mut words = line.split_whitespace();
        let mut command = redis::cmd(words.next().unwrap_or_default());
        command.arg(words.collect::<Vec<_>>());
        command.query(&mut self.connection).map_err(|error| format!("{line}: {error}").into())
    }

    /// Sends a command, whose words are separated by spaces. Ignores its reply unless it is an error.
    pub(crate) fn say(&mut self, line: &str) -> Result<(), Failure> {
        self.query::<Value>(line).map(drop)
    }

    /// Returns a field of INFO. Ignores the case of the name, because modules register the names of commands in
    /// different cases.
    pub(crate) fn info(&mut self, section: &str, field: &str) -> Result<String, Failure> {
        let text: String = self.query(&format!("INFO {section}"))?;
        let mut fields = text.lines().filter_map(|line| line.split_once(':'));
        let found = fields.find(|(name, _)| name.eq_ignore_ascii_case(field));
        found.map(|(_, value)| value.to_owned()).ok_or_else(|| format!("INFO has no field {field}").into())
    }

    /// Returns the number in the part `name=number` of a field of INFO about a command.
    pub(crate) fn stat(&mut self, section: &str, field: &str, name: &str) -> Result<f64, Failure> {
        let value = self.info(section, field)?;
        let part = value.split(',').find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
        Ok(part.ok_or_else(|| format!("{field} has no {name}: {value}"))?.parse()?)
    }

    /// Returns the bytes that the server has allocated, without the buffers of this program's connection and without the
    /// statistics of commands.
    pub(crate) fn used_bytes(&mut self) -> Result<f64, Failure> {
        self.connection = self.client.get_connection()?;
        self.say("CONFIG RESETSTAT")?;
        Ok(self.info("memory", "used_memory")?.parse()?)
    }

    /// Returns the bytes of a filter by BF.INFO.
    pub(crate) fn size_bytes(&mut self, key: &str) -> Result<f64, Failure> {
        // RedisBloom replies an array with one element, valkey-bloom the number itself.
        let line = format!("BF.INFO {key} SIZE");
        let number = match self.query(&line)? {
            Value::Array(values) => values.last().cloned(),
            value => Some(value),
        };
        Ok(f64::from_redis_value(number.ok_or("BF.INFO without SIZE")?)?)
    }

    /// Sends commands in one pipeline and returns the sum of their replies.
    pub(crate) fn send(&mut self, commands: &Pipeline) -> Result<u64, Failure> {
        let count = commands.len();
        if count == 0 {
            return Ok(0);
        }
        let replies = self.connection.req_packed_commands(&commands.get_packed_pipeline(), 0, count)?;
        replies.iter().map(hits).sum()
    }

    /// Sends pipelines of one command and measures them.
    pub(crate) fn measure(
        &mut self,
        command: &str,
        pipelines: impl Iterator<Item = Pipeline>,
    ) -> Result<Measured, Failure> {
        self.say("CONFIG RESETSTAT")?;
        let before = self.thread_ns()?;
        let mut measured = Measured::default();
        for commands in pipelines {
            measured.hits += self.send(&commands)?;
        }
        measured.thread_ns = self.thread_ns()? - before;
        measured.command_ns = self.stat("commandstats", &format!("cmdstat_{command}"), "usec")? * 1000.0;
        Ok(measured)
    }

    fn thread_ns(&self) -> Result<f64, Failure> {
        let id = self.process();
        let text = fs::read_to_string(format!("/proc/{id}/task/{id}/schedstat"))?;
        Ok(text.split_whitespace().next().ok_or("an empty schedstat")?.parse()?)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the sum of the integers in a reply. In a string, each character is the reply for an item.
fn hits(reply: &Value) -> Result<u64, Failure> {
    Ok(match reply {
        Value::Int(number) => u64::try_from(*number)?,
        Value::Boolean(is_hit) => u64::from(*is_hit),
        Value::Array(replies) => replies.iter().map(hits).sum::<Result<_, _>>()?,
        Value::BulkString(replies) => replies.iter().filter(|reply| **reply == b'1').count() as u64,
        Value::SimpleString(_) | Value::Okay => 0,
        other => return Err(format!("unexpected reply: {other:?}").into()),
    })
}

/// Returns whether a program is on the PATH.
pub(crate) fn on_path(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|folder: PathBuf| folder.join(name)).any(|file| file.is_file())
}
