//! The arguments of a command, borrowed from the server: nothing is copied, retained or, up to 32 of them, allocated.

use std::ffi::c_int;
use std::slice;

use redis_module::raw;
use smallvec::SmallVec;

/// The arguments as bytes.
pub(super) type Arguments<'a> = SmallVec<[&'a [u8]; 32]>;

/// The argument vector of one command.
#[derive(Clone, Copy)]
pub(super) struct Argv<'a>(&'a [*mut raw::RedisModuleString]);

impl<'a> Argv<'a> {
    /// # Safety
    /// `argv` must point to `argc` living strings of the server that stay as they are for `'a`: the vector that a
    /// command handler was given, for no longer than the handler runs.
    pub(super) unsafe fn new(argv: *mut *mut raw::RedisModuleString, argc: c_int) -> Self {
        let length = usize::try_from(argc).unwrap_or(0);
        if argv.is_null() || length == 0 {
            return Self(&[]);
        }
        // SAFETY: not null and `length` long by the caller's word, and unchanged for 'a.
        Self(unsafe { slice::from_raw_parts(argv, length) })
    }

    /// The bytes of every argument. O(arguments).
    pub(super) fn bytes(self) -> Arguments<'a> {
        self.0.iter().map(|string| self.bytes_of(*string)).collect()
    }

    /// The string of the key: the first argument after the command's name.
    pub(super) fn key(self) -> Option<*mut raw::RedisModuleString> {
        self.0.get(1).copied()
    }

    fn bytes_of(self, string: *mut raw::RedisModuleString) -> &'a [u8] {
        // SAFETY: an element of the vector, so a living string that does not change for 'a.
        unsafe { string_bytes(string) }
    }
}

/// The bytes of a string of the server.
///
/// # Safety
/// `string` must be a living string that is neither freed nor changed for `'a`.
pub(super) unsafe fn string_bytes<'a>(string: *const raw::RedisModuleString) -> &'a [u8] {
    let Some(string_ptr_len) = api!(RedisModule_StringPtrLen) else { return &[] };
    let mut length = 0;
    // SAFETY: the string is alive by the caller's word, and `length` is a place for its length.
    let start = unsafe { string_ptr_len(string, &raw mut length) };
    if start.is_null() {
        return &[];
    }
    // SAFETY: the server answers with the start of `length` bytes, which stay as they are by the caller's word.
    unsafe { slice::from_raw_parts(start.cast(), length) }
}
