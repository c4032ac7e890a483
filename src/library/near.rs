//! A copy of a server's filter in this program that follows it: [`NearCopy`] over the crate `redis`.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use redis::{Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisError, Value};
use thiserror::Error;

use crate::BloomFilter;
use crate::follower::{CommandReply, FollowError};
use crate::near_copy::{NearCopy, NearLookup, NearProgress};

/// How a [`NearFilter`] follows, and what it does without a recent copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NearOptions {
    /// How often the copy asks for changes: 250 ms. It must be less than `max_age`.
    pub interval: Duration,
    /// The age from which on the copy is not used: 10 s. The clock of lookups may count a copy as up to 22 ms older than it is.
    /// It does not count the time in which the machine sleeps.
    pub max_age: Duration,
    /// How often a copy is loaded again of a filter whose changes the server does not keep: 10 s.
    pub reload_interval: Duration,
    /// How long a connection, or a part of a reply, may take: 5 s.
    pub timeout: Duration,
    /// What a lookup does without a copy that is recent enough.
    pub when_stale: WhenStale,
    /// Whether a lookup is an error if there is no filter under the key. Otherwise it returns false, as BF.EXISTS does.
    pub missing_is_error: bool,
}

impl Default for NearOptions {
    fn default() -> Self {
        Self {
            interval: Duration::from_millis(250),
            max_age: Duration::from_secs(10),
            reload_interval: Duration::from_secs(10),
            timeout: Duration::from_secs(5),
            when_stale: WhenStale::Ask,
            missing_is_error: false,
        }
    }
}

/// What a lookup does without a copy that is recent enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenStale {
    /// It asks the server.
    Ask,
    /// It returns [`NearError::Stale`].
    Fail,
}

/// Why a lookup or an add has no result.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum NearError {
    /// The interval of the options is not less than their `max_age`.
    #[error("interval must be less than max_age")]
    Interval,
    /// There is no copy that is recent enough. Holds the last error of the copy, if there was one.
    #[error("there is no recent copy of the filter{}", reason(.0))]
    Stale(String),
    /// There is no filter under the key.
    #[error("there is no filter under the key")]
    Missing,
    /// The server has refused the command, or its reply cannot be read.
    #[error(transparent)]
    Refused(#[from] FollowError),
    /// The server cannot be reached.
    #[error("connection: {0}")]
    Connection(String),
}

fn reason(last_error: &str) -> String {
    if last_error.is_empty() { String::new() } else { format!(": {last_error}") }
}

impl From<RedisError> for NearError {
    fn from(error: RedisError) -> Self {
        Self::Connection(error.to_string())
    }
}

/// What a copy has done so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NearStats {
    /// Copies that were loaded.
    pub loads: u64,
    /// How often the server did not know what had changed.
    pub losses: u64,
    /// Bytes of the records that came after the loads.
    pub record_bytes: u64,
    /// Errors of the connection and of the server.
    pub errors: u64,
    /// The last of them; empty if there was none.
    pub last_error: String,
}

/// A copy of a filter of a server. A thread of its own follows the filter over a connection of its own, until the value
/// is dropped. All methods may be called from several threads.
///
/// ```no_run
/// use everbloom::{NearFilter, NearOptions};
///
/// let seen = NearFilter::open("redis://127.0.0.1:6379", "seen", NearOptions::default())?;
/// if !seen.contains(b"alice")? {
///     seen.add(b"alice")?;
/// }
/// # Ok::<(), everbloom::NearError>(())
/// ```
pub struct NearFilter(Arc<Shared>);

impl fmt::Debug for NearFilter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("NearFilter").field("lag", &self.lag()).finish_non_exhaustive()
    }
}

impl NearFilter {
    /// Begins to follow the filter under `key` of the server at `url`: `redis://`, `rediss://` or `unix://`. Does not
    /// wait for the server: see [`wait`](Self::wait).
    ///
    /// # Errors
    /// [`NearError::Interval`], and [`NearError::Connection`] if the address is not one, or no thread can be started.
    pub fn open(url: &str, key: impl Into<Vec<u8>>, options: NearOptions) -> Result<Self, NearError> {
        if options.interval >= options.max_age {
            return Err(NearError::Interval);
        }
        let info = url.into_connection_info()?;
        // An error only means that the program has chosen another provider.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let key = key.into();
        let (own, server) = (Link::new(info.clone(), options.timeout), Link::new(info, options.timeout));
        let shared = Arc::new(Shared {
            copy: NearCopy::new(key.clone()),
            key,
            options,
            stats: Mutex::default(),
            has_ended: Mutex::new(false),
            wake: Condvar::new(),
            server: Mutex::new(server),
        });
        let follower = Arc::clone(&shared);
        let thread =
            thread::Builder::new().name("near-filter".to_owned()).spawn(move || follower.follow(own));
        thread.map_err(|error| NearError::Connection(error.to_string()))?;
        Ok(Self(shared))
    }

    /// Returns whether the item may have been added, as the server would have at some time within the last `max_age`.
    ///
    /// # Errors
    /// [`NearError`].
    pub fn contains(&self, item: &[u8]) -> Result<bool, NearError> {
        match self.0.look_up(|| false, |filter, now_ms| filter.contains_at(item, now_ms))? {
            Some(found) => Ok(found),
            None => Ok(self.0.ask("BF.EXISTS", &[item])?.contains(&true)),
        }
    }

    /// Returns whether each item may have been added: [`contains`](Self::contains) in less time.
    ///
    /// # Errors
    /// [`NearError`].
    pub fn contains_many(&self, items: &[&[u8]]) -> Result<Vec<bool>, NearError> {
        let absent = || vec![false; items.len()];
        match self.0.look_up(absent, |filter, now_ms| filter.contains_many_at(items, now_ms))? {
            Some(found) => Ok(found),
            None => {
                // The server runs other commands between these.
                let results = items.chunks(ASKED_ITEMS).map(|items| self.0.ask("BF.MEXISTS", items));
                Ok(results.collect::<Result<Vec<_>, _>>()?.concat())
            }
        }
    }

    /// Adds an item on the server with BF.ADD, and to the copy, so that this program finds it at once. Returns whether
    /// it was new to the server.
    ///
    /// # Errors
    /// [`NearError`]. If the connection breaks, the item may have been added.
    pub fn add(&self, item: &[u8]) -> Result<bool, NearError> {
        let is_new = self.0.ask("BF.ADD", &[item])?.contains(&true);
        self.0.copy.added(item, is_new);
        Ok(is_new)
    }

    /// Returns the age of the copy: every item that was added earlier is found. `None` without a copy, if it is known
    /// that there is no filter, it is the age of this knowledge.
    #[must_use]
    pub fn lag(&self) -> Option<Duration> {
        self.0.copy.age_ms().map(Duration::from_millis)
    }

    /// Returns what the copy has done so far.
    #[must_use]
    pub fn stats(&self) -> NearStats {
        lock(&self.0.stats).clone()
    }

    /// Waits until there is a copy, or it is known that there is no filter. Returns whether this was so in time.
    #[must_use]
    pub fn wait(&self, timeout: Duration) -> bool {
        // No clock shows an end that does not fit.
        let end = Instant::now().checked_add(timeout);
        while self.lag().is_none() && end.is_none_or(|end| Instant::now() < end) {
            thread::sleep(Duration::from_millis(1));
        }
        self.lag().is_some()
    }

    /// Calls `read` with the filter of the copy, of whatever age; returns `None` without a copy. Changes wait meanwhile.
    pub fn with_copy<T>(&self, read: impl FnOnce(&BloomFilter) -> T) -> Option<T> {
        self.0.copy.with_copy(read)
    }
}

impl Drop for NearFilter {
    fn drop(&mut self) {
        *lock(&self.0.has_ended) = true;
        self.0.wake.notify_all();
    }
}

/// The most items of a lookup on the server.
const ASKED_ITEMS: usize = 1000;
/// The longest wait before a load.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// The wait after an error, and the shortest wait before another load.
const WAIT_MIN: Duration = Duration::from_secs(1);

struct Shared {
    key: Vec<u8>,
    options: NearOptions,
    copy: NearCopy,
    stats: Mutex<NearStats>,
    has_ended: Mutex<bool>,
    /// Notified when `has_ended` is set.
    wake: Condvar,
    /// The connection for commands of the program.
    server: Mutex<Link>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Calls `in_copy` with the filter and, for a sliding window, the time of the server. Returns its result, `absent`
    /// if there is no filter, and `None` if the server is to be asked.
    fn look_up<T>(
        &self,
        absent: impl FnOnce() -> T,
        in_copy: impl FnOnce(&BloomFilter, u64) -> T,
    ) -> Result<Option<T>, NearError> {
        let max_age_ms = u64::try_from(self.options.max_age.as_millis()).unwrap_or(u64::MAX);
        match self.copy.look_up(max_age_ms, in_copy) {
            NearLookup::Copy(found) => Ok(Some(found)),
            NearLookup::Missing if self.options.missing_is_error => Err(NearError::Missing),
            NearLookup::Missing => Ok(Some(absent())),
            NearLookup::Stale if self.options.when_stale == WhenStale::Fail => {
                Err(NearError::Stale(lock(&self.stats).last_error.clone()))
            }
            NearLookup::Stale => Ok(None),
        }
    }

    /// Sends a command of the program with the key and items. Returns the result of each item.
    fn ask(&self, name: &'static str, items: &[&[u8]]) -> Result<Vec<bool>, NearError> {
        let words = [name.as_bytes(), &self.key];
        let command: Vec<Vec<u8>> = words.iter().chain(items).map(|word| word.to_vec()).collect();
        let flag = |reply: &CommandReply| match reply {
            CommandReply::Integer(number) => Ok(*number != 0),
            _ => Err(FollowError::Reply(name).into()),
        };
        match lock(&self.server).call(&command)? {
            CommandReply::Error(text) => Err(FollowError::Refused(text).into()),
            CommandReply::Array(replies) if replies.len() == items.len() => {
                replies.iter().map(flag).collect()
            }
            reply if items.len() == 1 => Ok(vec![flag(&reply)?]),
            _ => Err(FollowError::Reply(name).into()),
        }
    }

    /// Follows the filter until the copy is dropped.
    fn follow(&self, mut link: Link) {
        let mut backoff = Backoff::new();
        loop {
            let wait = self.step(&mut link, &mut backoff).unwrap_or_else(|error| {
                let mut stats = lock(&self.stats);
                stats.errors = stats.errors.saturating_add(1);
                stats.last_error = error.to_string();
                if self.copy.is_loading() { backoff.wait() } else { jittered(WAIT_MIN) }
            });
            let has_ended = lock(&self.has_ended);
            if *has_ended {
                return;
            }
            let (has_ended, _) = self
                .wake
                .wait_timeout_while(has_ended, wait, |has_ended| !*has_ended)
                .unwrap_or_else(PoisonError::into_inner);
            if *has_ended {
                return;
            }
        }
    }

    /// Sends one command and takes its reply. Returns how long to wait before the next.
    fn step(&self, link: &mut Link, backoff: &mut Backoff) -> Result<Duration, NearError> {
        let (progress, record_bytes) = self.copy.take(link.call(&self.copy.command())?)?;
        let mut stats = lock(&self.stats);
        stats.record_bytes = stats.record_bytes.saturating_add(record_bytes as u64);
        let wait = match progress {
            NearProgress::Part => return Ok(Duration::ZERO),
            NearProgress::Loaded => {
                stats.loads = stats.loads.saturating_add(1);
                backoff.loaded();
                Duration::ZERO
            }
            NearProgress::Current => self.options.interval,
            NearProgress::Lost | NearProgress::Changed => {
                stats.losses = stats.losses.saturating_add(1);
                let has_log = progress == NearProgress::Lost;
                return Ok(if has_log { backoff.wait() } else { self.options.reload_interval });
            }
        };
        drop(stats);
        if self.copy.needs_time() {
            self.ask_time(link)?;
        }
        Ok(wait)
    }

    /// Asks for the time of the server, for a sliding window.
    fn ask_time(&self, link: &mut Link) -> Result<(), NearError> {
        let reply = link.call(&[b"TIME".to_vec()])?;
        let server_ms = match reply {
            CommandReply::Error(text) => return Err(FollowError::Refused(text).into()),
            CommandReply::Array(parts) => time_ms(&parts).ok_or(FollowError::Reply("TIME"))?,
            _ => return Err(FollowError::Reply("TIME").into()),
        };
        self.copy.set_server_time(server_ms);
        Ok(())
    }
}

/// Returns the time that a reply of TIME states, in milliseconds.
fn time_ms(parts: &[CommandReply]) -> Option<u64> {
    let number = |part: &CommandReply| match part {
        CommandReply::Bytes(text) => std::str::from_utf8(text).ok()?.parse::<u64>().ok(),
        _ => None,
    };
    let [seconds, micros] = parts else { return None };
    number(seconds)?.checked_mul(1000)?.checked_add(number(micros)? / 1000)
}

/// The waits before loads: each is up to twice as long as the one before.
struct Backoff {
    next: Duration,
    /// When a copy was loaded after the last reset.
    loaded_at: Option<Instant>,
}

impl Backoff {
    fn new() -> Self {
        Self { next: WAIT_MIN, loaded_at: None }
    }

    fn loaded(&mut self) {
        self.loaded_at = Some(Instant::now());
    }

    /// Returns the wait before the next load. A copy that has followed for a minute begins anew.
    fn wait(&mut self) -> Duration {
        if self.loaded_at.take_if(|at| at.elapsed() > WAIT_MAX).is_some() {
            self.next = WAIT_MIN;
        }
        let wait = jittered(self.next);
        self.next = self.next.saturating_mul(2).min(WAIT_MAX);
        wait.clamp(WAIT_MIN, WAIT_MAX)
    }
}

/// Returns a random time between half and one and a half of this one.
fn jittered(time: Duration) -> Duration {
    let random = RandomState::new().hash_one(0) as f64 / u64::MAX as f64;
    time.mul_f64(0.5 + random)
}

/// A connection that is made when it is needed.
struct Link {
    /// The address that the program has given.
    own: ConnectionInfo,
    /// The node of the cluster that a reply has named, until a call to it fails; `None` for the own address.
    moved: Option<ConnectionInfo>,
    timeout: Duration,
    connection: Option<redis::Connection>,
}

impl Link {
    const fn new(own: ConnectionInfo, timeout: Duration) -> Self {
        Self { own, moved: None, timeout, connection: None }
    }

    /// Returns the address of the connection.
    fn info(&self) -> &ConnectionInfo {
        self.moved.as_ref().unwrap_or(&self.own)
    }

    /// Sends a command and returns its reply. After an error, the next call goes to the own address again, because
    /// the other node may have left the cluster.
    fn call(&mut self, command: &[Vec<u8>]) -> Result<CommandReply, NearError> {
        let reply = self.call_redirected(command);
        if reply.is_err() {
            self.moved = None;
        }
        reply
    }

    /// Sends a command and returns its reply, of another node of the cluster if this one says so.
    fn call_redirected(&mut self, command: &[Vec<u8>]) -> Result<CommandReply, NearError> {
        let reply = self.call_here(command)?;
        let CommandReply::Error(text) = &reply else { return Ok(reply) };
        let (has_moved, rest) = match (text.strip_prefix("MOVED "), text.strip_prefix("ASK ")) {
            (Some(rest), _) => (true, rest),
            (_, Some(rest)) => (false, rest),
            (None, None) => return Ok(reply),
        };
        let Some(address) = rest.split(' ').nth(1).and_then(|node| self.address_of(node)) else {
            return Ok(reply);
        };
        let other = self.own.clone().set_addr(address);
        if has_moved {
            (self.moved, self.connection) = (Some(other), None);
            return self.call_here(command);
        }
        // While a slot moves, its keys are at either node.
        let mut connection = Self::new(other, self.timeout).open()?;
        redis::cmd("ASKING").query::<()>(&mut connection)?;
        exchange(&mut connection, command)?
    }

    /// Returns the address of a node that a reply has named as `host:port`.
    fn address_of(&self, node: &str) -> Option<ConnectionAddr> {
        let (host, port) = node.rsplit_once(':')?;
        let port = port.parse().ok()?;
        Some(match self.info().addr().clone() {
            ConnectionAddr::TcpTls { host: here, insecure, tls_params, .. } => {
                let host = if host.is_empty() { here } else { host.to_owned() };
                ConnectionAddr::TcpTls { host, port, insecure, tls_params }
            }
            // A node that does not know its own address means that of this connection.
            ConnectionAddr::Tcp(here, _) if host.is_empty() => ConnectionAddr::Tcp(here, port),
            _ => ConnectionAddr::Tcp(host.to_owned(), port),
        })
    }

    fn open(&self) -> Result<redis::Connection, NearError> {
        let connection = Client::open(self.info().clone())?.get_connection_with_timeout(self.timeout)?;
        connection.set_read_timeout(Some(self.timeout))?;
        connection.set_write_timeout(Some(self.timeout))?;
        Ok(connection)
    }

    fn call_here(&mut self, command: &[Vec<u8>]) -> Result<CommandReply, NearError> {
        let used = self.connection.take();
        // The server may have closed an idle connection. All commands but an add can be repeated.
        let is_repeatable = used.is_some() && command.first().is_none_or(|name| name != b"BF.ADD");
        let mut connection = used.map_or_else(|| self.open(), Ok)?;
        let reply = match exchange(&mut connection, command) {
            Ok(reply) => reply?,
            Err(error) if is_repeatable && !error.is_timeout() => return self.call_here(command),
            Err(error) => return Err(error.into()),
        };
        self.connection = Some(connection);
        Ok(reply)
    }
}

/// Sends a command and returns its reply, or that the reply is unreadable. After an error the connection must not be used
/// again.
///
/// # Errors
/// The connection has failed.
fn exchange(
    connection: &mut redis::Connection,
    command: &[Vec<u8>],
) -> Result<Result<CommandReply, NearError>, RedisError> {
    let mut packed = redis::Cmd::new();
    packed.arg(command);
    match packed.query::<Value>(connection) {
        Ok(value) => Ok(reply_of(value)),
        Err(error) => match (error.code(), error.detail()) {
            (Some(code), detail) => {
                Ok(Ok(CommandReply::Error(format!("{code} {}", detail.unwrap_or_default()))))
            }
            (None, _) => Err(error),
        },
    }
}

/// Returns the reply that a value of the crate `redis` is.
fn reply_of(value: Value) -> Result<CommandReply, NearError> {
    Ok(match value {
        Value::Nil => CommandReply::Nil,
        Value::Int(number) => CommandReply::Integer(u64::try_from(number).map_err(|_| unreadable())?),
        Value::Boolean(flag) => CommandReply::Integer(flag.into()),
        Value::BulkString(bytes) => CommandReply::Bytes(bytes),
        Value::SimpleString(text) => CommandReply::Bytes(text.into_bytes()),
        Value::Array(values) => {
            CommandReply::Array(values.into_iter().map(reply_of).collect::<Result<_, _>>()?)
        }
        Value::ServerError(error) => CommandReply::Error(RedisError::from(error).to_string()),
        _ => return Err(unreadable()),
    })
}

fn unreadable() -> NearError {
    NearError::Connection("the reply is not one of these commands".to_owned())
}
