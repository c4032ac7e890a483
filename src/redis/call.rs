//! What the server replies to a command that this module has it run.

use std::ptr::{self, NonNull};
use std::slice;

use redis_module::raw::{self, RedisModuleCallReply};

/// A reply, which is freed with this value.
pub(super) struct CallReply(NonNull<RedisModuleCallReply>);

impl CallReply {
    /// None where the server did not run the command.
    ///
    /// # Safety
    /// `reply` must be what `RedisModule_Call` answered, and be used by nobody else.
    pub(super) unsafe fn new(reply: *mut RedisModuleCallReply) -> Option<Self> {
        NonNull::new(reply).map(Self)
    }

    /// The number, if it is one.
    pub(super) fn integer(&self) -> Option<i64> {
        let integer =
            api!(RedisModule_CallReplyInteger).filter(|_| self.is(raw::REDISMODULE_REPLY_INTEGER))?;
        // SAFETY: the reply is alive, and a number.
        Some(unsafe { integer(self.0.as_ptr()) })
    }

    /// A copy of the bytes, if it is a string, and there is memory for one.
    pub(super) fn string(&self) -> Option<Vec<u8>> {
        let string_ptr =
            api!(RedisModule_CallReplyStringPtr).filter(|_| self.is(raw::REDISMODULE_REPLY_STRING))?;
        let mut length = 0;
        // SAFETY: the reply is alive, and a string; `length` is a place for its length.
        let start = unsafe { string_ptr(self.0.as_ptr(), ptr::from_mut(&mut length)) };
        if start.is_null() {
            return None;
        }
        // SAFETY: the server answers with the start of `length` bytes that live as long as the reply.
        let bytes = unsafe { slice::from_raw_parts(start.cast(), length) };
        let mut copy = Vec::new();
        copy.try_reserve_exact(length).ok()?;
        copy.extend_from_slice(bytes);
        Some(copy)
    }

    fn is(&self, wanted: isize) -> bool {
        // SAFETY: the reply is alive.
        let reply_type =
            api!(RedisModule_CallReplyType).map(|reply_type| unsafe { reply_type(self.0.as_ptr()) });
        reply_type.and_then(|reply_type| isize::try_from(reply_type).ok()) == Some(wanted)
    }
}

impl Drop for CallReply {
    fn drop(&mut self) {
        if let Some(free) = api!(RedisModule_FreeCallReply) {
            // SAFETY: the reply is alive, and nobody else uses it.
            unsafe { free(self.0.as_ptr()) };
        }
    }
}
