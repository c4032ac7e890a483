//! The fake host: its properties, its records of the module's calls, and the loaded module file.

use std::alloc::Layout;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap};
use std::ffi::{CStr, c_char, c_int, c_uint, c_ulong, c_void};
use std::ptr;

use libloading::Library;
use tempfile::TempDir;

use super::callbacks::Event;
use super::functions;
use crate::harness::Site;

pub(super) const OK: c_int = 0;
pub(super) const ERR: c_int = 1;

/// The handler of a command.
pub(super) type Handler = unsafe extern "C" fn(*mut Context, *mut *mut Text, c_int) -> c_int;

/// The callback of the module for an event.
pub(super) type OnEvent = unsafe extern "C" fn(*mut Context, Event, u64, *mut c_void);

/// The callbacks of a data type that the tests call.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct TypeMethods {
    version: u64,
    load: unsafe extern "C" fn(*mut c_void, c_int) -> *mut c_void,
    /// Called with a place for the fields, here a [`Saved`](super::forkless::Saved), and a value.
    pub(super) save: unsafe extern "C" fn(*mut c_void, *mut c_void),
    _aof_rewrite: *const c_void,
    pub(super) memory_usage: unsafe extern "C" fn(*const c_void) -> usize,
    /// Called with a place for the digest, here the number of its bytes, and a value.
    pub(super) digest: unsafe extern "C" fn(*mut c_void, *mut c_void),
    /// `free` to `aux_save`.
    _others: [*const c_void; 3],
    _aux_save_triggers: c_int,
    /// `free_effort` to `copy`.
    _more: [*const c_void; 3],
    /// Called with a context, the key's name and a pointer to the value.
    pub(super) defrag: unsafe extern "C" fn(*mut c_void, *mut c_void, *mut *mut c_void) -> c_int,
}

/// A string of the host. The module knows only its address.
pub(super) struct Text {
    pub(super) bytes: Vec<u8>,
    pub(super) references: Cell<u32>,
}

impl Text {
    pub(super) fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, references: Cell::new(1) }
    }
}

/// A context. The module reads its first pointer when it is loaded: the function that returns all others.
#[repr(C)]
pub(super) struct Context {
    get_api: unsafe extern "C" fn(*const c_char, *mut *const c_void) -> c_int,
}

/// The state of the host. The API functions have no host argument, so the state is thread-local.
#[derive(Default)]
pub(super) struct State {
    /// Functions that the host does not have.
    pub(super) missing: BTreeSet<&'static str>,
    /// Functions that fail.
    pub(super) failing: BTreeSet<&'static str>,
    /// Whether a module with the same name is loaded already.
    pub(super) is_busy: bool,
    /// The version of the host: major, minor and patch in a byte each.
    pub(super) version: c_int,
    /// Whether the host is a Valkey, which has every function under a second name, `ValkeyModule_...`.
    pub(super) is_valkey: bool,
    /// The flags of settings that the host refuses.
    pub(super) refused_flags: c_uint,
    /// Every attempt to register a setting: its name and flags.
    pub(super) settings: Vec<(String, c_uint)>,
    /// The module options that the host supports.
    pub(super) known_options: c_int,
    /// The options that the module has set.
    pub(super) options: c_int,
    pub(super) log: Vec<String>,
    pub(super) replies: Vec<String>,
    pub(super) commands: HashMap<String, Handler>,
    pub(super) data_types: HashMap<String, TypeMethods>,
    /// The callbacks by the number of their event.
    pub(super) events: HashMap<u64, OnEvent>,
    /// The value of the only key.
    pub(super) value: Option<*mut c_void>,
    /// The type of that value.
    pub(super) value_type: Option<*mut c_void>,
    /// Whether the host is saving that value on another thread, so that the key cannot be opened for writing.
    pub(super) is_in_use: bool,
    /// Whether the host is loading its data.
    pub(super) is_loading: bool,
    /// Defaults of the settings, as text.
    pub(super) defaults: HashMap<String, String>,
    /// Bytes that the host keeps before every block.
    pub(super) front_bytes: usize,
    /// Whether blocks whose size is an odd multiple of 8 bytes are aligned to 8 bytes only.
    pub(super) has_quanta: bool,
    /// Allocated blocks, with their layouts including the front.
    pub(super) blocks: HashMap<usize, Layout>,
    /// Blocks that the host has moved.
    pub(super) moved_blocks: usize,
    /// The position at which the module wants to continue moving; 0 is the start.
    pub(super) defrag_cursor: c_ulong,
    /// How often the module freed or measured a block that the host had not allocated.
    pub(super) strange_blocks: u32,
    /// The maximum of `memory_bytes`; `None` means no limit.
    pub(super) memory_max_bytes: Option<usize>,
    /// Bytes of the large blocks of the module, and of the host's copies for it.
    pub(super) memory_bytes: usize,
    /// The largest value of `memory_bytes` since the last [`Host::limit_memory`].
    pub(super) memory_peak_bytes: usize,
    /// How often a server would have aborted: it had no memory for a copy, or for a block that the module requested
    /// with a function that cannot fail.
    pub(super) aborts: u32,
    /// How often the module has looked up a function of the API.
    pub(super) lookups: usize,
    /// The lengths of the arguments of every replicated command.
    pub(super) replicated: Vec<Vec<usize>>,
}

thread_local! {
    static STATE: RefCell<State> = RefCell::default();
}

/// Runs `body` with the state of this thread's host. Returns `None` when the thread is ending: a module may still free
/// blocks then.
pub(super) fn try_with<T>(body: impl FnOnce(&mut State) -> T) -> Option<T> {
    STATE.try_with(|state| body(&mut state.borrow_mut())).ok()
}

pub(super) fn with<T>(body: impl FnOnce(&mut State) -> T) -> T {
    try_with(body).expect("a host on this thread")
}

/// Returns the status of a function: [`ERR`] if the test makes it fail, else [`OK`].
pub(super) fn status_of(name: &str) -> c_int {
    if with(|state| state.failing.contains(name)) { ERR } else { OK }
}

/// # Safety
/// Called by the module only, with a C string and a place for an address.
unsafe extern "C" fn get_api(name: *const c_char, place: *mut *const c_void) -> c_int {
    // SAFETY: by the module's contract.
    let name = unsafe { CStr::from_ptr(name) }.to_str().expect("a name in ASCII");
    let valkey_name = name.strip_prefix("ValkeyModule_").filter(|_| with(|state| state.is_valkey));
    let name = valkey_name.or(name.strip_prefix("RedisModule_")).unwrap_or(name);
    with(|state| state.lookups += 1);
    let function = functions::address_of(name);
    if function.is_null() || with(|state| state.missing.contains(name)) {
        return ERR;
    }
    // SAFETY: by the module's contract.
    unsafe { place.write(function) };
    OK
}

/// A host, and the module file that [`Self::load`] loads into it.
pub(crate) struct Host {
    library: Library,
    context: Box<Context>,
    /// The directory of this host's copy of the module file. Hosts that open the same file would share one module and
    /// its state.
    _dir: TempDir,
}

impl Host {
    /// Returns a host that has every function. The module is not loaded yet.
    pub(crate) fn new(site: &Site) -> Self {
        Self::with(site, |_| ())
    }

    /// Returns a host with every function, whose state `change` has changed. The module is not loaded yet.
    pub(crate) fn with(site: &Site, change: impl FnOnce(&mut State)) -> Self {
        with(|state| {
            *state = State::default();
            change(state);
        });
        let dir = tempfile::tempdir().expect("temporary directory");
        let copy = dir.path().join("module.so");
        std::fs::copy(&site.module, &copy).expect("copy of the module");
        // SAFETY: mapping and unmapping the module only runs Rust's runtime.
        let library = unsafe { Library::new(copy) }.expect("a shared library");
        Self { library, context: Box::new(Context { get_api }), _dir: dir }
    }

    /// Limits the memory for large blocks to `more_bytes` above the current bytes; `None` removes the limit. Returns
    /// the current bytes.
    pub(crate) fn limit_memory(&self, more_bytes: Option<usize>) -> usize {
        with(|state| {
            state.memory_peak_bytes = state.memory_bytes;
            state.memory_max_bytes = more_bytes.map(|more| state.memory_bytes + more);
            state.memory_bytes
        })
    }

    /// Returns the lengths of the arguments of the commands that were replicated since the last call.
    pub(crate) fn take_replicated(&self) -> Vec<Vec<usize>> {
        with(|state| std::mem::take(&mut state.replicated))
    }

    /// Loads the module. Returns whether it succeeded.
    pub(crate) fn load(&mut self, args: &[&str]) -> bool {
        // SAFETY: this symbol has this type in every module.
        let on_load = unsafe { self.library.get::<Handler>(b"RedisModule_OnLoad\0") }.expect("OnLoad");
        let on_load = *on_load;
        self.run(on_load, args) == OK
    }

    /// Runs a command of the module and returns its replies, one after the other.
    pub(crate) fn call<A: AsRef<[u8]>>(&mut self, args: &[A]) -> String {
        let name = std::str::from_utf8(args[0].as_ref()).unwrap();
        let handler = with(|state| {
            state.replies.clear();
            *state.commands.get(name).unwrap_or_else(|| panic!("no command {name}"))
        });
        assert_eq!(self.run(handler, args), OK);
        with(|state| state.replies.join(" "))
    }

    fn run<A: AsRef<[u8]>>(&mut self, function: Handler, args: &[A]) -> c_int {
        let mut texts: Vec<Text> = args.iter().map(|arg| Text::new(arg.as_ref().to_vec())).collect();
        let mut argv: Vec<*mut Text> = texts.iter_mut().map(ptr::from_mut).collect();
        let argc = c_int::try_from(argv.len()).expect("few arguments");
        // SAFETY: context and strings outlive the call, as in a server.
        unsafe { function(&raw mut *self.context, argv.as_mut_ptr(), argc) }
    }

    /// Makes the module load a value with an unknown version.
    pub(crate) fn load_unknown_value(&self, while_loading: bool) {
        let methods = with(|state| {
            state.is_loading = while_loading;
            state.data_types["everbloom"]
        });
        // SAFETY: the module reads nothing of a value with an unknown version.
        let value = unsafe { (methods.load)(ptr::null_mut(), 99) };
        assert!(value.is_null());
    }

    /// Raises the timer event, which a server raises several times per second.
    pub(crate) fn tick(&self) {
        const CRON_LOOP: u64 = 8;
        let on_event = with(|state| state.events[&CRON_LOOP]);
        // SAFETY: the module has registered this callback for this event.
        unsafe { on_event(ptr::null_mut(), Event { id: CRON_LOOP, version: 1 }, 0, ptr::null_mut()) };
    }

    /// Returns the lines of the log so far.
    pub(crate) fn log(&self) -> String {
        with(|state| state.log.join("\n"))
    }

    /// Returns the default of a setting as it was registered.
    pub(crate) fn default_of(&self, setting: &str) -> String {
        with(|state| state.defaults[setting].clone())
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let strange = with(|state| state.strange_blocks);
            assert_eq!(strange, 0, "blocks that this host never handed out were given to it");
            assert_eq!(with(|state| state.aborts), 0, "a server would have aborted");
        }
    }
}
