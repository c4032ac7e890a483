//! A copy of a filter that follows its server. Lookups take a read lock. The thread that follows takes the write lock,
//! and never while it has or awaits the global interpreter lock (GIL): so a lookup may wait for it with the GIL.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use everbloom::{BloomFilter, CommandReply, FilterCopy, FollowError, FollowProgress, Follower};
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyList};

use crate::items::Encoder;

/// The time of a copy that never was up to date.
const NEVER: u64 = u64::MAX;
/// The difference of clocks that were not compared.
const UNKNOWN: i64 = i64::MAX;
/// The most bytes of records that are applied while lookups wait: 1024 records, some 0.1 ms.
const STEP_BYTES: usize = 17 << 10;
/// The most items that are looked up while records wait, and that are looked up with the GIL.
const STEP_ITEMS: usize = 1000;

/// How often this process is the child of a fork. A system call for its id takes longer than a lookup.
static FORKS: AtomicU64 = AtomicU64::new(0);

extern "C" fn forked() {
    FORKS.fetch_add(1, Relaxed);
}

/// Counts forks from now on.
pub(crate) fn watch_forks() -> PyResult<()> {
    // SAFETY: the handler is a function of this library, which Python never unloads. It only adds to an atomic number, which
    // is permitted in the child of a fork of a program with threads.
    let code = unsafe { libc::pthread_atfork(None, None, Some(forked)) };
    if code == 0 { Ok(()) } else { Err(PyOSError::new_err((code, "forks cannot be noticed"))) }
}

enum CopyState {
    /// Nothing is known yet.
    Unknown,
    /// There is no filter.
    Missing,
    Copy(FilterCopy),
}

/// What the commands of the follower are about.
struct Following {
    follower: Follower,
    /// When the last command was asked for, and when the last load began, in milliseconds since `start`.
    asked_ms: u64,
    load_began_ms: u64,
}

/// What the lookups and the thread that follows share, in one process.
struct Shared {
    forks: u64,
    start: Instant,
    max_age_ms: u64,
    state: RwLock<CopyState>,
    /// When the state was that of the server, in milliseconds since `start`; [`NEVER`] if it never was.
    as_of_ms: AtomicU64,
    /// By how many milliseconds the server's clock is ahead of this one's, or [`UNKNOWN`].
    ahead_ms: AtomicI64,
    following: Mutex<Following>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the time of this machine's clock in milliseconds of UNIX time.
fn clock_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map(|now| now.as_millis());
    now.ok().and_then(|now_ms| u64::try_from(now_ms).ok()).unwrap_or(0)
}

fn error(error: FollowError) -> PyErr {
    PyRuntimeError::new_err(error.to_string())
}

impl Shared {
    fn new(key: &[u8], max_age_ms: u64) -> Self {
        Self {
            forks: FORKS.load(Relaxed),
            start: Instant::now(),
            max_age_ms,
            state: RwLock::new(CopyState::Unknown),
            as_of_ms: AtomicU64::new(NEVER),
            ahead_ms: AtomicI64::new(UNKNOWN),
            following: Mutex::new(Following { follower: Follower::new(key), asked_ms: 0, load_began_ms: 0 }),
        }
    }

    fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(NEVER - 1)
    }

    fn age_ms(&self) -> Option<u64> {
        let as_of_ms = self.as_of_ms.load(Relaxed);
        (as_of_ms != NEVER).then(|| self.elapsed_ms().saturating_sub(as_of_ms))
    }

    /// Returns the time for a lookup in the filter: that of the server, if it has a window. `None` if it is not known.
    fn time_for(&self, filter: &BloomFilter) -> Option<u64> {
        if filter.window_ms().is_none() {
            return Some(0);
        }
        let ahead_ms = self.ahead_ms.load(Relaxed);
        (ahead_ms != UNKNOWN).then(|| clock_ms().saturating_add_signed(ahead_ms))
    }

    /// Calls `in_copy` with the filter and the time. Returns its result, `absent` if there is no filter, or `None`
    /// without a copy that is recent enough.
    fn look_up<T>(&self, absent: T, in_copy: impl FnOnce(&BloomFilter, u64) -> T) -> Option<T> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        if self.age_ms().is_none_or(|age_ms| age_ms >= self.max_age_ms) {
            return None;
        }
        match &*state {
            CopyState::Copy(copy) => {
                let now_ms = self.time_for(copy.filter())?;
                Some(in_copy(copy.filter(), now_ms))
            }
            CopyState::Missing => Some(absent),
            CopyState::Unknown => None,
        }
    }

    /// Returns whether each item may have been added, or `None` without a copy that is recent enough.
    fn look_up_all(&self, items: &[&[u8]]) -> Option<Vec<bool>> {
        let mut found = Vec::with_capacity(items.len());
        for items in items.chunks(STEP_ITEMS) {
            let absent = vec![false; items.len()];
            found.extend(self.look_up(absent, |filter, now_ms| filter.contains_many_at(items, now_ms))?);
        }
        // The copy must be recent for no items too.
        if items.is_empty() { self.look_up(found, |_, _| Vec::new()) } else { Some(found) }
    }

    /// Calls `change` with the copy, if there is one. Lookups wait meanwhile.
    fn change_copy<T>(&self, change: impl FnOnce(&mut FilterCopy) -> T) -> Option<T> {
        match &mut *self.state.write().unwrap_or_else(PoisonError::into_inner) {
            CopyState::Copy(copy) => Some(change(copy)),
            CopyState::Unknown | CopyState::Missing => None,
        }
    }

    /// Replaces the state. Frees the old one after the lock, so that lookups do not wait for it.
    fn publish(&self, state: CopyState, as_of_ms: u64) {
        let mut place = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let old = std::mem::replace(&mut *place, state);
        self.as_of_ms.store(as_of_ms, Relaxed);
        drop(place);
        drop(old);
    }

    /// Takes the reply to the last command. Returns what it has brought, and the bytes of its records.
    fn take(&self, reply: CommandReply) -> Result<(&'static str, usize), FollowError> {
        let mut following = lock(&self.following);
        match following.follower.take(reply)? {
            FollowProgress::Part => return Ok(("part", 0)),
            FollowProgress::Loaded(copy) => {
                self.publish(CopyState::Copy(copy), following.load_began_ms);
                return Ok(("loaded", 0));
            }
            FollowProgress::Lost => {
                following.follower.restart();
                let has_log = self.change_copy(|copy| copy.has_log()).unwrap_or(true);
                return Ok((if has_log { "lost" } else { "changed" }, 0));
            }
            FollowProgress::Missing => {
                self.publish(CopyState::Missing, following.asked_ms);
                return Ok(("current", 0));
            }
            FollowProgress::Changes { records, more } => {
                let applied = records
                    .chunks(STEP_BYTES)
                    .try_for_each(|records| self.change_copy(|copy| copy.apply(records)).unwrap_or(Ok(())));
                if let Err(error) = applied {
                    // The copy may lack items.
                    self.publish(CopyState::Unknown, NEVER);
                    following.follower.restart();
                    return Err(error);
                }
                if !more {
                    self.as_of_ms.store(following.asked_ms, Relaxed);
                }
                return Ok((if more { "part" } else { "current" }, records.len()));
            }
            FollowProgress::Current => {}
        }
        self.as_of_ms.store(following.asked_ms, Relaxed);
        Ok(("current", 0))
    }
}

/// A part of a reply, whose bytes are still Python's.
enum Part {
    Nil,
    Integer(u64),
    Bytes(PyBackedBytes),
}

impl Part {
    fn new(reply: &Bound<'_, PyAny>) -> PyResult<Self> {
        if reply.is_none() {
            Ok(Self::Nil)
        } else if let Ok(bytes) = reply.cast::<PyBytes>() {
            Ok(Self::Bytes(bytes.clone().into()))
        } else {
            reply.extract().map(Self::Integer)
        }
    }

    fn reply(self) -> CommandReply {
        match self {
            Self::Nil => CommandReply::Nil,
            Self::Integer(number) => CommandReply::Integer(number),
            Self::Bytes(bytes) => CommandReply::Bytes(bytes.to_vec()),
        }
    }
}

/// A copy of a filter, without its connection. The class `NearFilter` of the package is made of it, and has the methods
/// `_restart` and `_ask`.
#[pyclass(frozen, subclass, weakref, module = "everbloom._native")]
pub(crate) struct Copy {
    key: Vec<u8>,
    max_age_ms: u64,
    encoder: Encoder,
    /// Locked only with the GIL, so no other thread has it locked while this process forks.
    shared: Mutex<Arc<Shared>>,
}

impl Copy {
    /// Returns what this process shares. After a fork it is made anew, with its thread, before the first answer.
    fn shared(slf: &Bound<'_, Self>) -> PyResult<Arc<Shared>> {
        let shared = Arc::clone(&lock(&slf.get().shared));
        if shared.forks == FORKS.load(Relaxed) {
            return Ok(shared);
        }
        // Another thread of the parent may have held its locks, or been amid a change. So it is neither read nor freed; its
        // memory is the parent's until that changes.
        std::mem::forget(shared);
        slf.call_method0("_restart")?;
        Ok(Arc::clone(&lock(&slf.get().shared)))
    }
}

#[pymethods]
impl Copy {
    #[new]
    #[pyo3(signature = (key, max_age, encoding, errors))]
    fn new(key: Vec<u8>, max_age: f64, encoding: &str, errors: &str) -> PyResult<Self> {
        let max_age = std::time::Duration::try_from_secs_f64(max_age)
            .map_err(|_| PyValueError::new_err("max_age must be a number of seconds, not negative"))?;
        let max_age_ms = u64::try_from(max_age.as_millis()).unwrap_or(NEVER - 1);
        let shared = Mutex::new(Arc::new(Shared::new(&key, max_age_ms)));
        Ok(Self { key, max_age_ms, encoder: Encoder::new(encoding, errors), shared })
    }

    /// Begins anew, without a copy. If `only_after_fork`, returns false in the process that began last.
    fn _renew(&self, only_after_fork: bool) -> bool {
        let mut place = lock(&self.shared);
        let is_of_parent = place.forks != FORKS.load(Relaxed);
        if only_after_fork && !is_of_parent {
            return false;
        }
        let old = std::mem::replace(&mut *place, Arc::new(Shared::new(&self.key, self.max_age_ms)));
        if is_of_parent {
            std::mem::forget(old);
        }
        true
    }

    fn __contains__(slf: &Bound<'_, Self>, item: &Bound<'_, PyAny>) -> PyResult<bool> {
        let copy = slf.get();
        let bytes = copy.encoder.encode(item)?;
        let shared = Self::shared(slf)?;
        let item = bytes.as_bytes();
        match shared.look_up(false, |filter, now_ms| filter.contains_at(item, now_ms)) {
            Some(found) => Ok(found),
            None => slf.call_method1("_ask", (PyList::new(slf.py(), [bytes])?,))?.get_item(0)?.extract(),
        }
    }

    /// Return for each item of an iterable whether it may have been added.
    ///
    /// In less time per item than ``in``. Other threads run during more than 1,000 items.
    fn contains_many<'py>(slf: &Bound<'py, Self>, items: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let items = slf.get().encoder.encode_all(items)?;
        let shared = Self::shared(slf)?;
        let slices: Vec<&[u8]> = items.iter().map(|item| item.as_bytes()).collect();
        let found = if slices.len() > STEP_ITEMS {
            slf.py().detach(|| shared.look_up_all(&slices))
        } else {
            shared.look_up_all(&slices)
        };
        match found {
            Some(found) => Ok(PyList::new(slf.py(), found)?.into_any()),
            None => slf.call_method1("_ask", (PyList::new(slf.py(), items)?,)),
        }
    }

    /// Returns an item as the client encodes it.
    fn _encode<'py>(&self, item: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
        self.encoder.encode(item)
    }

    /// Adds an item that was added on the server.
    fn _added(slf: &Bound<'_, Self>, item: &[u8]) -> PyResult<()> {
        let shared = Self::shared(slf)?;
        slf.py().detach(|| {
            shared.change_copy(|copy| {
                // A copy whose time is not known yet gets the item by its record.
                shared.time_for(copy.filter()).map(|now_ms| copy.add(item, now_ms))
            })
        });
        Ok(())
    }

    /// Returns the age of the copy in seconds, or more by up to 1 ms.
    fn _age(slf: &Bound<'_, Self>) -> PyResult<Option<f64>> {
        let shared = Self::shared(slf)?;
        let is_usable = match &*shared.state.read().unwrap_or_else(PoisonError::into_inner) {
            CopyState::Copy(copy) => shared.time_for(copy.filter()).is_some(),
            CopyState::Missing => true,
            CopyState::Unknown => false,
        };
        // The age is a difference of whole milliseconds, so it may be a part of one more.
        Ok(shared.age_ms().filter(|_| is_usable).map(|age_ms| (age_ms as f64 + 1.0) / 1000.0))
    }

    /// Returns what the thread that follows works on.
    fn _follower(&self) -> Steps {
        Steps { shared: Arc::clone(&lock(&self.shared)) }
    }
}

/// The steps of a follower. It does not keep the copy alive.
#[pyclass(frozen, module = "everbloom._native")]
pub(crate) struct Steps {
    shared: Arc<Shared>,
}

#[pymethods]
impl Steps {
    /// Returns the next command, and that it was asked for now.
    fn command<'py>(&self, py: Python<'py>) -> Vec<Bound<'py, PyBytes>> {
        let mut following = lock(&self.shared.following);
        let command = following.follower.command();
        following.asked_ms = self.shared.elapsed_ms();
        // A load begins with a command without a position.
        if command.len() == 2 {
            following.load_began_ms = following.asked_ms;
        }
        command.iter().map(|word| PyBytes::new(py, word)).collect()
    }

    /// Takes the reply to the command: a list of numbers, bytes and None, or the text of an error. Returns what it has
    /// brought, and the bytes of its records.
    fn take(&self, py: Python<'_>, reply: &Bound<'_, PyAny>) -> PyResult<(&'static str, usize)> {
        let shared = &self.shared;
        if let Ok(text) = reply.extract::<String>() {
            return py.detach(|| shared.take(CommandReply::Error(text))).map_err(error);
        }
        let parts = reply.cast::<PyList>().map_err(|_| PyTypeError::new_err("the reply is not a list"))?;
        let parts: Vec<Part> = parts.iter().map(|part| Part::new(&part)).collect::<PyResult<_>>()?;
        let take = || shared.take(CommandReply::Array(parts.into_iter().map(Part::reply).collect()));
        py.detach(take).map_err(error)
    }

    /// Returns whether the filter has a window, so that the time of the server is needed.
    fn needs_time(&self, py: Python<'_>) -> bool {
        py.detach(|| match &*self.shared.state.read().unwrap_or_else(PoisonError::into_inner) {
            CopyState::Copy(copy) => copy.filter().window_ms().is_some(),
            CopyState::Missing | CopyState::Unknown => false,
        })
    }

    /// Sets by how many milliseconds the server's clock is ahead.
    fn set_ahead_ms(&self, ahead_ms: i64) {
        self.shared.ahead_ms.store(ahead_ms, Relaxed);
    }

    /// Returns whether a load is under way, or comes next.
    fn is_loading(&self) -> bool {
        lock(&self.shared.following).follower.is_loading()
    }
}
