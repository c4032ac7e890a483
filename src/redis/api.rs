//! The module API's functions. The server fills in a table of function pointers while it loads the module;
//! servers differ in what they have, so every call copies its pointer out first and says what happens without
//! it.

use std::ffi::{CStr, c_int};

use redis_module::raw;

/// The function of the module API with this name, if the server has it.
macro_rules! api {
    ($name:ident) => {{
        // SAFETY: the table is written by `Export_RedisModule_Init` before the server can call anything else of
        // this module and before any other thread can hold anything of it. MODULE LOAD of the same file writes it
        // again, while threads of the module may read it: the same pointers, each whole and where they were.
        unsafe { redis_module::raw::$name }
    }};
}

/// The API's word for success.
pub(super) const OK: c_int = 0;
/// The API's word for failure.
pub(super) const ERR: c_int = 1;

macro_rules! names_of_missing {
    ($($name:ident)*) => {
        [$(api!($name).is_none().then_some(stringify!($name))),*].into_iter().flatten().next()
    };
}

/// The first function that the module uses and the server does not have. All of them are in Redis 7.0 and
/// Valkey 7.2; the few that are newer, and that the module does without, are not asked for here.
pub(super) fn first_missing() -> Option<&'static str> {
    names_of_missing!(
        RedisModule_Alloc RedisModule_TryAlloc RedisModule_Calloc RedisModule_Free RedisModule_MallocSize
        RedisModule_Log RedisModule_LogIOError
        RedisModule_CreateCommand RedisModule_GetCommand RedisModule_SetCommandInfo
        RedisModule_CreateDataType RedisModule_SetModuleOptions RedisModule_RegisterInfoFunc
        RedisModule_RegisterNumericConfig RedisModule_RegisterStringConfig RedisModule_LoadConfigs
        RedisModule_SubscribeToServerEvent
        RedisModule_GetServerInfo RedisModule_FreeServerInfo
        RedisModule_ServerInfoGetFieldUnsigned RedisModule_GetContextFlags
        RedisModule_GetUsedMemoryRatio RedisModule_GetRandomBytes
        RedisModule_StringPtrLen RedisModule_CreateString RedisModule_RetainString RedisModule_FreeString
        RedisModule_OpenKey RedisModule_CloseKey RedisModule_KeyType RedisModule_SetAbsExpire
        RedisModule_Milliseconds
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

/// A function of the API that the bindings do not know, as the server gave its address.
///
/// # Safety
/// `F` must be the type of a pointer to the function of this name.
pub(super) unsafe fn by_name<F: Copy>(name: &CStr) -> Option<F> {
    let get_api = api!(RedisModule_GetApi)?;
    let mut function: Option<F> = None;
    // SAFETY: the server writes the address of the function, one pointer, to the place it is given, and
    // nothing when it has no such function; `Option` of a function pointer is one nullable pointer.
    let status = unsafe { get_api(name.as_ptr(), std::ptr::from_mut(&mut function).cast()) };
    function.filter(|_| status == OK)
}

/// What the server says of the command and of itself, as `REDISMODULE_CTX_FLAGS_...`; nothing where it cannot be asked.
///
/// # Safety
/// `context` must be that of the running command, or null.
pub(super) unsafe fn context_flags(context: Context) -> u32 {
    // SAFETY: by the caller's word; a null context is taken too.
    api!(RedisModule_GetContextFlags).map_or(0, |flags| unsafe { flags(context) }.cast_unsigned())
}

/// What the server says of itself alone, whoever the client.
pub(super) fn server_flags() -> u32 {
    // SAFETY: the function takes a null context, and leaves out what it would say of a client.
    unsafe { context_flags(std::ptr::null_mut()) }
}

/// The status as a result.
pub(super) fn succeeded(status: c_int) -> bool {
    status == OK
}

/// A command's context; null where there is none.
pub(super) type Context = *mut raw::RedisModuleCtx;
