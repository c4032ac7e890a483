//! The module API: its functions, and the replies of commands that the module calls. The server fills in a table of
//! function pointers while it loads the module. Not every server has all functions, so every call reads its pointer
//! first, and handles a missing function.

use std::ffi::{CStr, c_int};
use std::io;
use std::ptr::{self, NonNull};
use std::slice;

use redis_module::raw::{self, RedisModuleCallReply};

/// Returns the function of the module API with this name, if the server has it.
macro_rules! api {
    ($name:ident) => {{
        // SAFETY: only `onload` writes the table, on the server's main thread and until the module is loaded. The
        // module starts a thread only after that, for a command or a callback. So no other thread reads the table
        // while it is written.
        unsafe { redis_module::raw::$name }
    }};
}

/// The status of success.
pub(super) const OK: c_int = 0;
/// The status of failure.
pub(super) const ERR: c_int = 1;

macro_rules! names_of_missing {
    ($($name:ident)*) => {
        [$(api!($name).is_none().then_some(stringify!($name))),*].into_iter().flatten().next()
    };
}

/// Returns the first required function that the server does not have. Redis 7.0 and Valkey 7.2 have all of them.
/// Newer functions are optional and not in the list.
pub(super) fn first_missing() -> Option<&'static str> {
    names_of_missing!(
        RedisModule_TryAlloc RedisModule_Free RedisModule_MallocSize
        RedisModule_Log RedisModule_LogIOError
        RedisModule_CreateCommand RedisModule_GetCommand RedisModule_SetCommandInfo
        RedisModule_CreateDataType RedisModule_SetModuleOptions RedisModule_RegisterInfoFunc
        RedisModule_RegisterNumericConfig RedisModule_RegisterStringConfig RedisModule_LoadConfigs
        RedisModule_SubscribeToServerEvent
        RedisModule_GetServerInfo RedisModule_FreeServerInfo
        RedisModule_ServerInfoGetFieldUnsigned RedisModule_GetContextFlags
        RedisModule_GetUsedMemoryRatio RedisModule_GetRandomBytes RedisModule_GetSelectedDb
        RedisModule_StringPtrLen RedisModule_CreateString RedisModule_RetainString RedisModule_FreeString
        RedisModule_GetCurrentUserName RedisModule_GetModuleUserFromUserName RedisModule_FreeModuleUser
        RedisModule_ACLCheckKeyPermissions
        RedisModule_OpenKey RedisModule_CloseKey RedisModule_KeyType RedisModule_SetAbsExpire
        RedisModule_Milliseconds RedisModule_CreateTimer
        RedisModule_StringDMA RedisModule_ValueLength
        RedisModule_Call RedisModule_FreeCallReply RedisModule_CallReplyType RedisModule_CallReplyStringPtr
        RedisModule_CallReplyInteger
        RedisModule_ModuleTypeGetType RedisModule_ModuleTypeGetValue RedisModule_ModuleTypeSetValue
        RedisModule_ReplyWithLongLong RedisModule_ReplyWithDouble RedisModule_ReplyWithBool RedisModule_ReplyWithNull
        RedisModule_ReplyWithArray RedisModule_ReplyWithMap RedisModule_ReplyWithStringBuffer
        RedisModule_ReplyWithSimpleString RedisModule_ReplyWithError
        RedisModule_Replicate RedisModule_ReplicateVerbatim RedisModule_SignalModifiedKey
        RedisModule_NotifyKeyspaceEvent
        RedisModule_SaveUnsigned RedisModule_SaveDouble RedisModule_SaveStringBuffer
        RedisModule_LoadUnsigned RedisModule_LoadDouble RedisModule_LoadFloat RedisModule_LoadStringBuffer
        RedisModule_IsIOError RedisModule_EmitAOF
        RedisModule_DefragAlloc RedisModule_DefragShouldStop RedisModule_DefragCursorGet RedisModule_DefragCursorSet
        RedisModule_GetKeyNameFromIO RedisModule_GetThreadSafeContext RedisModule_FreeThreadSafeContext
        RedisModule_DigestAddStringBuffer RedisModule_DigestEndSequence
        RedisModule_InfoAddSection RedisModule_InfoAddFieldULongLong RedisModule_InfoAddFieldCString
    )
}

/// Returns a function of the API that the bindings do not have.
///
/// # Safety
/// `F` must be the type of a pointer to the function of this name.
pub(super) unsafe fn by_name<F: Copy>(name: &CStr) -> Option<F> {
    let get_api = api!(RedisModule_GetApi)?;
    let mut function: Option<F> = None;
    // SAFETY: the server writes the address of the function, one pointer, to the place that it is given. It writes
    // nothing if it has no such function. `Option` of a function pointer is one nullable pointer.
    let status = unsafe { get_api(name.as_ptr(), std::ptr::from_mut(&mut function).cast()) };
    function.filter(|_| status == OK)
}

/// Returns the flags `REDISMODULE_CTX_FLAGS_...` of the running command and of the server; 0 if the server does not
/// have the function.
///
/// # Safety
/// `context` must be that of the running command, or null.
pub(super) unsafe fn context_flags(context: Context) -> u32 {
    // SAFETY: the context is alive or null by the caller's contract, and the function allows null.
    api!(RedisModule_GetContextFlags).map_or(0, |flags| unsafe { flags(context) }.cast_unsigned())
}

pub(super) fn server_flags() -> u32 {
    // SAFETY: the function accepts a null context, and then omits the flags of a client.
    unsafe { context_flags(std::ptr::null_mut()) }
}

pub(super) fn succeeded(status: c_int) -> bool {
    status == OK
}

/// Subscribes to an event of the server.
///
/// # Safety
/// `context` must be that of the running `RedisModule_OnLoad`, and `callback` fit the event.
pub(super) unsafe fn subscribe(context: Context, event_id: u64, callback: raw::RedisModuleEventCallback) {
    let Some(subscribe) = api!(RedisModule_SubscribeToServerEvent) else { return };
    let event = raw::RedisModuleEvent { id: event_id, dataver: 1 };
    // SAFETY: the context is OnLoad's and the callback fits the event, by the caller's contract. The callback is a
    // function of the module, which stays loaded.
    unsafe { subscribe(context, event, callback) };
}

/// The context of a command; null without a command.
pub(super) type Context = *mut raw::RedisModuleCtx;

/// Why the server did not run a command that the module has called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// There is no client to call as, because another module or its timer runs the command.
    NoClient,
    /// The client lacks a permission. The server checks this before the keys.
    Denied,
    /// A key is not on this node of the cluster.
    Elsewhere,
    /// The server refuses all calls, after it has checked the permission: see [`refuses_all_calls`].
    AllCalls,
    /// Another reason.
    Unknown,
}

/// The reply of a command that the module has called. It is freed with this value.
pub(super) struct CallReply(NonNull<RedisModuleCallReply>);

impl CallReply {
    /// Returns the reply; `None` if the server did not run the command.
    ///
    /// # Safety
    /// `reply` must be what `RedisModule_Call` returned, and not be used elsewhere.
    pub(super) unsafe fn new(reply: *mut RedisModuleCallReply) -> Option<Self> {
        NonNull::new(reply).map(Self)
    }

    /// Returns the reply, or why the server did not run the command.
    ///
    /// # Safety
    /// `reply` must be what `RedisModule_Call` has just returned for `context`, and not be used elsewhere. The context
    /// must be alive.
    pub(super) unsafe fn or_refusal(
        context: Context,
        reply: *mut RedisModuleCallReply,
    ) -> Result<Self, Refusal> {
        // `errno` must be read before any other call that can fail. The documentation of `RedisModule_Call` lists its
        // values.
        let error = io::Error::last_os_error();
        // SAFETY: by the caller's contract.
        unsafe { Self::new(reply) }.ok_or_else(|| match error.raw_os_error() {
            Some(libc::ENOTSUP) => Refusal::NoClient,
            Some(libc::EACCES) => Refusal::Denied,
            // SAFETY: the context is alive by the caller's contract.
            Some(libc::EPERM) if unsafe { refuses_all_calls(context) } => Refusal::AllCalls,
            Some(libc::EPERM) => Refusal::Elsewhere,
            _ => Refusal::Unknown,
        })
    }

    pub(super) fn integer(&self) -> Option<i64> {
        let integer =
            api!(RedisModule_CallReplyInteger).filter(|_| self.is(raw::REDISMODULE_REPLY_INTEGER))?;
        // SAFETY: the reply is alive, and a number.
        Some(unsafe { integer(self.0.as_ptr()) })
    }

    /// Returns a copy of the reply if it is a string and there is memory for the copy.
    pub(super) fn string(&self) -> Option<Vec<u8>> {
        let string_ptr =
            api!(RedisModule_CallReplyStringPtr).filter(|_| self.is(raw::REDISMODULE_REPLY_STRING))?;
        let mut length = 0;
        // SAFETY: the reply is alive, and a string. `length` is a place for its length.
        let start = unsafe { string_ptr(self.0.as_ptr(), ptr::from_mut(&mut length)) };
        if start.is_null() {
            return None;
        }
        // SAFETY: the server returns the start of `length` bytes that live as long as the reply.
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
            // SAFETY: the reply is alive, and is not used elsewhere.
            unsafe { free(self.0.as_ptr()) };
        }
    }
}

/// Returns whether the server refuses also a command without keys because of their slots. Valkey 9.1 does so for all
/// commands after a script has run a command with keys in two slots: the client that it uses for calls stays marked.
///
/// # Safety
/// `context` must be alive.
unsafe fn refuses_all_calls(context: Context) -> bool {
    let Some(call) = api!(RedisModule_Call) else { return true };
    // SAFETY: the context is alive by the caller's contract. An empty format stands for no arguments.
    let reply = unsafe { call(context, c"PING".as_ptr(), c"".as_ptr()) };
    // `errno` must be read before any other call that can fail.
    let error = io::Error::last_os_error();
    // SAFETY: the reply was just made, and its pointer is not used again.
    unsafe { CallReply::new(reply) }.is_none() && error.raw_os_error() == Some(libc::EPERM)
}
