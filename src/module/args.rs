//! The arguments of a command, borrowed from the server. Nothing is copied or retained, and for up to 64 arguments
//! nothing is allocated.

use std::ffi::c_int;
use std::slice;

use redis_module::raw;

/// Largest number of arguments for which a command allocates nothing.
const MANY: usize = 64;

/// The argument vector of one command.
#[derive(Clone, Copy)]
pub(super) struct Argv<'a>(&'a [*mut raw::RedisModuleString]);

impl<'a> Argv<'a> {
    /// # Safety
    /// `argv` must point to `argc` strings of the server that are alive and do not change for `'a`. This holds for the
    /// arguments of a command handler until it returns.
    pub(super) unsafe fn new(argv: *mut *mut raw::RedisModuleString, argc: c_int) -> Self {
        let length = usize::try_from(argc).unwrap_or(0);
        if argv.is_null() || length == 0 {
            return Self(&[]);
        }
        // SAFETY: `argv` is not null. By the caller's contract it points to `length` strings, unchanged for `'a`.
        Self(unsafe { slice::from_raw_parts(argv, length) })
    }

    /// Returns the arguments without the first, which is the name of a command.
    pub(super) fn rest(self) -> Self {
        Self(self.0.get(1..).unwrap_or_default())
    }

    /// Calls `body` with the bytes of all arguments and returns its result. If there is no memory for the list of
    /// slices, calls `no_memory` instead. O(arguments).
    #[inline(always)]
    pub(super) fn with_bytes<T>(
        self,
        body: impl FnOnce(&[&'a [u8]]) -> T,
        no_memory: impl FnOnce() -> T,
    ) -> T {
        // The slices are written in place, because copying the result of a function takes longer than a probe. Most
        // commands have two arguments. These have a separate array, because clearing 64 elements takes time.
        let (two, mut few, mut many);
        body(match self.0 {
            [first, second] => {
                two = [self.bytes_of(*first), self.bytes_of(*second)];
                &two
            }
            all if all.len() <= MANY => {
                few = [&[][..]; MANY];
                self.fill(&mut few)
            }
            all => {
                many = Vec::new();
                if many.try_reserve_exact(all.len()).is_err() {
                    return no_memory();
                }
                many.extend(all.iter().map(|string| self.bytes_of(*string)));
                &many
            }
        })
    }

    /// Writes a slice for every argument to the front of `places`, which is long enough. Returns the written slices.
    fn fill<'p>(self, places: &'p mut [&'a [u8]]) -> &'p [&'a [u8]] {
        for (place, string) in places.iter_mut().zip(self.0) {
            *place = self.bytes_of(*string);
        }
        places.get(..self.0.len()).unwrap_or(places)
    }

    pub(super) fn string(self, position: usize) -> Option<*mut raw::RedisModuleString> {
        self.0.get(position).copied()
    }

    pub(super) fn len(self) -> usize {
        self.0.len()
    }

    /// Returns the argument whose memory is `bytes`, and the arguments after it. Compares addresses, not contents.
    /// O(arguments before it).
    pub(super) fn find(self, bytes: &[u8]) -> Option<(*mut raw::RedisModuleString, Self)> {
        let position = self.0.iter().position(|string| std::ptr::eq(self.bytes_of(*string), bytes))?;
        let (string, rest) = self.0.get(position..)?.split_first()?;
        Some((*string, Self(rest)))
    }

    pub(super) fn bytes(self, position: usize) -> Option<&'a [u8]> {
        self.string(position).map(|string| self.bytes_of(string))
    }

    fn bytes_of(self, string: *mut raw::RedisModuleString) -> &'a [u8] {
        // SAFETY: the string is an element of the vector, so it is alive and does not change for `'a`.
        unsafe { string_bytes(string) }
    }
}

/// Returns the bytes of a string of the server.
///
/// # Safety
/// `string` must be a living string that is neither freed nor changed for `'a`.
pub(super) unsafe fn string_bytes<'a>(string: *const raw::RedisModuleString) -> &'a [u8] {
    let Some(string_ptr_len) = api!(RedisModule_StringPtrLen) else { return &[] };
    let mut length = 0;
    // SAFETY: the string is alive by the caller's contract, and `length` is a place for its length.
    let start = unsafe { string_ptr_len(string, &raw mut length) };
    if start.is_null() {
        return &[];
    }
    // SAFETY: the server returns the start of `length` bytes, which do not change by the caller's contract.
    unsafe { slice::from_raw_parts(start.cast(), length) }
}
