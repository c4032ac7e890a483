//! What BF.IMPORT reads beside its own key: a plain string, and the hash in which Redisson keeps its
//! settings.

use std::ptr::NonNull;
use std::slice;

use redis_module::raw::{self, RedisModuleString};

use super::api::Context;
use super::call::CallReply;
use super::log;
use crate::command::StringSlot;

/// Bytes up to which a string is copied. Only above can all servers be trusted to keep it as a plain array of
/// bytes, which can be borrowed as it is: a shorter one may be stored as a number or together with its key,
/// and borrowing it through the module API would turn it into a plain one. Servers embed up to 128 bytes; a
/// page is far above that.
const COPIED_MAX_BYTES: usize = 4 << 10;

/// The source of an import, open for reading as long as this value lives.
pub(super) struct Source {
    key: Option<NonNull<raw::RedisModuleKey>>,
    /// The string, if it is short.
    copy: Option<Vec<u8>>,
}

impl Source {
    /// # Safety
    /// `context` and `name` must be those of the running command, and no key of that name be open. The value
    /// must not outlive the command, and nothing may be written to the key meanwhile.
    pub(super) unsafe fn open(context: Context, name: *mut RedisModuleString) -> Self {
        let key = api!(RedisModule_OpenKey).and_then(|open_key| {
            // SAFETY: context and name are alive by the caller's word.
            NonNull::new(unsafe { open_key(context, name, raw::REDISMODULE_READ.cast_signed()) })
        });
        let mut source = Self { key, copy: None };
        if source.is_short_string() {
            // SAFETY: context and name are alive by the caller's word.
            source.copy = unsafe { copy_of(context, name) };
        }
        source
    }

    /// What type the key is of; none when it does not exist.
    fn key_type(&self) -> Option<isize> {
        let (key, key_type) = (self.key?, api!(RedisModule_KeyType)?);
        // SAFETY: the key is open.
        let key_type = isize::try_from(unsafe { key_type(key.as_ptr()) }).unwrap_or(-1);
        (key_type != raw::REDISMODULE_KEYTYPE_EMPTY).then_some(key_type)
    }

    fn is_short_string(&self) -> bool {
        let (Some(key), Some(value_length)) = (self.key, api!(RedisModule_ValueLength)) else { return false };
        // SAFETY: the key is open; measuring a string does not change how it is stored.
        self.key_type() == Some(raw::REDISMODULE_KEYTYPE_STRING)
            && unsafe { value_length(key.as_ptr()) } <= COPIED_MAX_BYTES
    }

    /// What is under the key.
    pub(super) fn string(&self) -> StringSlot<'_> {
        match self.key_type() {
            None => StringSlot::Vacant,
            Some(raw::REDISMODULE_KEYTYPE_STRING) => {
                let bytes = self.copy.as_deref().or_else(|| self.borrowed());
                bytes.map_or(StringSlot::WrongType, StringSlot::Bytes)
            }
            Some(_) => StringSlot::WrongType,
        }
    }

    /// The bytes of a long string, in their place.
    fn borrowed(&self) -> Option<&[u8]> {
        let (key, string_dma) = (self.key?, api!(RedisModule_StringDMA)?);
        let mut length = 0;
        // SAFETY: the key is open and holds a string; `length` is a place for its length.
        let start = unsafe { string_dma(key.as_ptr(), &raw mut length, raw::REDISMODULE_READ.cast_signed()) };
        if start.is_null() {
            return None;
        }
        // SAFETY: the server answers with the start of `length` bytes of the value. They stay while the key
        // is open and nothing is written to it, by the contract of `open`: no longer than this borrow.
        Some(unsafe { slice::from_raw_parts(start.cast(), length) })
    }
}

/// A copy of the string under a key. Not as the client, which may read the key for this command and perhaps
/// not for any other.
///
/// # Safety
/// `context` and `name` must be those of the running command.
unsafe fn copy_of(context: Context, name: *mut RedisModuleString) -> Option<Vec<u8>> {
    let call = api!(RedisModule_Call)?;
    // SAFETY: context and name are alive by the caller's word; the format stands for a string of the server.
    let reply = unsafe { call(context, c"GET".as_ptr(), c"s".as_ptr(), name) };
    // SAFETY: the reply was just made, and its pointer is not used again.
    unsafe { CallReply::new(reply) }?.string()
}

/// A field of the hash at `key`, if there is one and the client may read it.
///
/// # Safety
/// `context` must be that of the running command.
pub(super) unsafe fn field(context: Context, key: &[u8], field: &str) -> Option<Vec<u8>> {
    let call = api!(RedisModule_Call)?;
    let field = log::c_text(field);
    // As the client, for it may not be allowed to read that key: `C`. Then a key with its length, and a C
    // string.
    // SAFETY: the context by the caller's contract; the format stands for what follows it.
    let reply =
        unsafe { call(context, c"HGET".as_ptr(), c"Cbc".as_ptr(), key.as_ptr(), key.len(), field.as_ptr()) };
    // SAFETY: the reply was just made, and its pointer is not used again.
    unsafe { CallReply::new(reply) }?.string()
}

impl Drop for Source {
    fn drop(&mut self) {
        if let (Some(close_key), Some(key)) = (api!(RedisModule_CloseKey), self.key) {
            // SAFETY: the key is open and not used again.
            unsafe { close_key(key.as_ptr()) };
        }
    }
}
