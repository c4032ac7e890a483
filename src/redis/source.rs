//! What BF.IMPORT reads beside its own key: a plain string, and the hash in which Redisson keeps its settings.

use std::ptr::{self, NonNull};
use std::slice;

use redis_module::raw::{self, RedisModuleCallReply, RedisModuleString};

use super::api::Context;
use super::args::Argv;
use super::log;
use crate::command::import::{Sources, StringSlot};
use crate::command::table::CommandSpec;

/// Answers the server when it only wants to know where the keys of a command are. It asks where its own search finds
/// less than it was told of: here, an import without a second key.
///
/// # Safety
/// `context` and `argv` must be those of the running handler.
pub(super) unsafe fn report_keys(spec: &CommandSpec, context: Context, argv: Argv<'_>) -> bool {
    let (Some(is_request), Some(key_at)) =
        (api!(RedisModule_IsKeysPositionRequest), api!(RedisModule_KeyAtPosWithFlags))
    else {
        return false;
    };
    // SAFETY: the context is the handler's.
    if unsafe { is_request(context) } == 0 {
        return false;
    }
    let written =
        raw::REDISMODULE_CMD_KEY_RW | raw::REDISMODULE_CMD_KEY_ACCESS | raw::REDISMODULE_CMD_KEY_UPDATE;
    // SAFETY: the context is the handler's; position 1 is the key, which the arity asks for.
    unsafe { key_at(context, 1, written.cast_signed()) };
    if let Some(source) = spec.source_key
        && argv.source_key(source).is_some()
    {
        let position = i32::try_from(source.word_position.saturating_add(1)).unwrap_or(i32::MAX);
        let read = raw::REDISMODULE_CMD_KEY_RO | raw::REDISMODULE_CMD_KEY_ACCESS;
        // SAFETY: the context is the handler's, and there is an argument at that position.
        unsafe { key_at(context, position, read.cast_signed()) };
    }
    true
}

/// The source of an import, open for reading as long as this value lives.
pub(super) struct Source {
    context: Context,
    key: Option<NonNull<raw::RedisModuleKey>>,
}

impl Source {
    /// # Safety
    /// `context` and `name` must be those of the running command, and no key of that name be open. The value must not
    /// outlive the command, and nothing may be written to the key meanwhile.
    pub(super) unsafe fn open(context: Context, name: Option<*mut RedisModuleString>) -> Self {
        let key = api!(RedisModule_OpenKey).zip(name).and_then(|(open_key, name)| {
            // SAFETY: context and name are alive by the caller's word.
            NonNull::new(unsafe { open_key(context, name, raw::REDISMODULE_READ.cast_signed()) })
        });
        Self { context, key }
    }
}

impl Sources for Source {
    fn string(&self) -> StringSlot<'_> {
        let Some(key) = self.key else { return StringSlot::Vacant };
        let (Some(key_type), Some(string_dma)) = (api!(RedisModule_KeyType), api!(RedisModule_StringDMA))
        else {
            return StringSlot::WrongType;
        };
        // SAFETY: the key is open.
        let key_type = isize::try_from(unsafe { key_type(key.as_ptr()) }).unwrap_or(-1);
        if key_type == raw::REDISMODULE_KEYTYPE_EMPTY {
            return StringSlot::Vacant;
        }
        if key_type != raw::REDISMODULE_KEYTYPE_STRING {
            return StringSlot::WrongType;
        }
        let mut length = 0;
        // SAFETY: the key is open and holds a string; `length` is a place for its length.
        let start = unsafe { string_dma(key.as_ptr(), &raw mut length, raw::REDISMODULE_READ.cast_signed()) };
        if start.is_null() {
            return StringSlot::WrongType;
        }
        // SAFETY: the server answers with the start of `length` bytes of the value. They stay while the key is open and
        // nothing is written to it, by the contract of `open`: no longer than this borrow.
        StringSlot::Bytes(unsafe { slice::from_raw_parts(start.cast(), length) })
    }

    fn field(&self, key: &[u8], field: &str) -> Option<Vec<u8>> {
        let (Some(call), Some(free)) = (api!(RedisModule_Call), api!(RedisModule_FreeCallReply)) else {
            return None;
        };
        let field = log::c_text(field);
        // As the client, for it may not be allowed to read that key: `C`. Then a key with its length, and a C string.
        // SAFETY: the context is that of the running command; the format stands for what follows it.
        let reply = unsafe {
            call(self.context, c"HGET".as_ptr(), c"Cbc".as_ptr(), key.as_ptr(), key.len(), field.as_ptr())
        };
        if reply.is_null() {
            return None;
        }
        // SAFETY: the reply was just made.
        let value = unsafe { string_of(reply) };
        // SAFETY: the reply was just made and is not used again.
        unsafe { free(reply) };
        value
    }
}

/// The bytes of a reply, if it is a string.
///
/// # Safety
/// The reply must be alive.
unsafe fn string_of(reply: *mut RedisModuleCallReply) -> Option<Vec<u8>> {
    let (reply_type, string_ptr) = (api!(RedisModule_CallReplyType)?, api!(RedisModule_CallReplyStringPtr)?);
    // SAFETY: the reply is alive by the caller's word.
    if isize::try_from(unsafe { reply_type(reply) }) != Ok(raw::REDISMODULE_REPLY_STRING) {
        return None;
    }
    let mut length = 0;
    // SAFETY: the reply is a string; `length` is a place for its length.
    let start = unsafe { string_ptr(reply, ptr::from_mut(&mut length)) };
    if start.is_null() {
        return None;
    }
    // SAFETY: the server answers with the start of `length` bytes that live as long as the reply.
    Some(unsafe { slice::from_raw_parts(start.cast(), length) }.to_vec())
}

impl Drop for Source {
    fn drop(&mut self) {
        if let (Some(close_key), Some(key)) = (api!(RedisModule_CloseKey), self.key) {
            // SAFETY: the key is open and not used again.
            unsafe { close_key(key.as_ptr()) };
        }
    }
}
