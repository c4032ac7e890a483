//! A copy of a filter that follows its server. Lookups take a read lock. The thread that follows takes the write lock,
//! and never while it has or awaits the global interpreter lock (GIL): so a lookup may wait for it with the GIL.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use everbloom::{BloomFilter, CommandReply, FollowError, NearCopy, NearLookup, NearProgress};
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyList};

use crate::items::Encoder;

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

/// What the lookups and the thread that follows share, in one process.
struct Shared {
    forks: u64,
    max_age_ms: u64,
    copy: NearCopy,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn error(error: FollowError) -> PyErr {
    PyRuntimeError::new_err(error.to_string())
}

impl Shared {
    fn new(key: &[u8], max_age_ms: u64) -> Self {
        Self { forks: FORKS.load(Relaxed), max_age_ms, copy: NearCopy::new(key) }
    }

    /// Calls `in_copy` with the filter and the time. Returns its result, `absent` if there is no filter, or `None`
    /// without a copy that is recent enough.
    fn look_up<T>(&self, absent: T, in_copy: impl FnOnce(&BloomFilter, u64) -> T) -> Option<T> {
        match self.copy.look_up(self.max_age_ms, in_copy) {
            NearLookup::Copy(found) => Some(found),
            NearLookup::Missing => Some(absent),
            NearLookup::Stale => None,
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
        let max_age_ms = u64::try_from(max_age.as_millis()).unwrap_or(u64::MAX);
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
    /// Other threads run during more than 1,000 items.
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
    fn _added(slf: &Bound<'_, Self>, item: &[u8], is_new: bool) -> PyResult<()> {
        let shared = Self::shared(slf)?;
        slf.py().detach(|| shared.copy.added(item, is_new));
        Ok(())
    }

    /// Returns the age of the copy in seconds, or more by up to 1 ms.
    fn _age(slf: &Bound<'_, Self>) -> PyResult<Option<f64>> {
        let shared = Self::shared(slf)?;
        Ok(shared.copy.age_ms().map(|age_ms| age_ms as f64 / 1000.0))
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
        let command = py.detach(|| self.shared.copy.command());
        command.iter().map(|word| PyBytes::new(py, word)).collect()
    }

    /// Takes the reply to the command: a list of numbers, bytes and None, or the text of an error. Returns what it has
    /// brought, and the bytes of its records.
    fn take(&self, py: Python<'_>, reply: &Bound<'_, PyAny>) -> PyResult<(&'static str, usize)> {
        let copy = &self.shared.copy;
        let taken = if let Ok(text) = reply.extract::<String>() {
            py.detach(|| copy.take(CommandReply::Error(text)))
        } else {
            let parts =
                reply.cast::<PyList>().map_err(|_| PyTypeError::new_err("the reply is not a list"))?;
            let parts: Vec<Part> = parts.iter().map(|part| Part::new(&part)).collect::<PyResult<_>>()?;
            py.detach(|| copy.take(CommandReply::Array(parts.into_iter().map(Part::reply).collect())))
        };
        let (progress, record_bytes) = taken.map_err(error)?;
        let word = match progress {
            NearProgress::Part => "part",
            NearProgress::Loaded => "loaded",
            NearProgress::Current => "current",
            NearProgress::Lost => "lost",
            NearProgress::Changed => "changed",
        };
        Ok((word, record_bytes))
    }

    /// Returns whether the filter has a window, so that the time of the server is needed.
    fn needs_time(&self, py: Python<'_>) -> bool {
        py.detach(|| self.shared.copy.needs_time())
    }

    /// Sets the time of the server.
    fn set_server_time(&self, server_ms: u64) {
        self.shared.copy.set_server_time(server_ms);
    }

    /// Returns whether a load is under way, or comes next.
    fn is_loading(&self) -> bool {
        self.shared.copy.is_loading()
    }
}
