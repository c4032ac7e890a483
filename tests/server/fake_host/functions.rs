//! The functions of the module API that the module needs in these tests.
//!
//! The API has variadic functions, which cannot be written in Rust. Here they have the number of arguments that the
//! module passes. On Linux on x86-64 and AArch64 the first pointers and integers are passed in registers for variadic
//! and other functions alike, so the call is the same. Arguments that a function here does not declare are ignored.

use std::ffi::{CStr, c_char, c_void};
use std::ptr;

use super::{callbacks, forkless, memory, moving};

/// Stands for values that the module only passes back: keys, commands, data types, the text of INFO.
static TOKEN: u8 = 0;

/// Returns the function with a name without `RedisModule_`.
pub(super) fn address_of(name: &str) -> *const c_void {
    match name {
        "TryAlloc" => memory::allocate as *const c_void,
        "TryCalloc" => memory::allocate_zeroed as *const c_void,
        "TryRealloc" => memory::reallocate as *const c_void,
        // These abort a server that has no memory.
        "Alloc" | "Calloc" | "Realloc" => memory::allocate_or_abort as *const c_void,
        "Free" => memory::free as *const c_void,
        "MallocSize" => memory::malloc_size as *const c_void,
        "SetModuleAttribs" => callbacks::set_module_attributes as *const c_void,
        "IsModuleNameBusy" => callbacks::is_module_name_busy as *const c_void,
        "Log" => callbacks::log as *const c_void,
        "LogIOError" => callbacks::log as *const c_void,
        "GetServerVersion" => callbacks::get_server_version as *const c_void,
        "GetServerInfo" => callbacks::get_server_info as *const c_void,
        "FreeServerInfo" => callbacks::free_server_info as *const c_void,
        "ServerInfoGetFieldUnsigned" => callbacks::server_info_number as *const c_void,
        "GetContextFlags" => callbacks::get_context_flags as *const c_void,
        "RegisterNumericConfig" => callbacks::register_numeric_config as *const c_void,
        "RegisterStringConfig" => callbacks::register_string_config as *const c_void,
        "LoadConfigs" => callbacks::load_configs as *const c_void,
        "CreateDataType" => callbacks::create_data_type as *const c_void,
        "CreateCommand" => callbacks::create_command as *const c_void,
        "GetCommand" => callbacks::get_command as *const c_void,
        "SetCommandInfo" => callbacks::set_command_info as *const c_void,
        "AddACLCategory" => callbacks::add_acl_category as *const c_void,
        "SetCommandACLCategories" => callbacks::set_acl_categories as *const c_void,
        "RegisterInfoFunc" => callbacks::register_info_func as *const c_void,
        "SetModuleOptions" => callbacks::set_module_options as *const c_void,
        "GetModuleOptionsAll" => callbacks::get_module_options_all as *const c_void,
        "SubscribeToServerEvent" => callbacks::subscribe as *const c_void,
        "DefragAlloc" => moving::defrag_alloc as *const c_void,
        "DefragCursorGet" => moving::defrag_cursor_get as *const c_void,
        "DefragCursorSet" => moving::defrag_cursor_set as *const c_void,
        "DefragShouldStop" => moving::defrag_should_stop as *const c_void,
        "GetRandomBytes" => callbacks::get_random_bytes as *const c_void,
        "GetSelectedDb" => callbacks::get_selected_db as *const c_void,
        "Milliseconds" => callbacks::milliseconds as *const c_void,
        "Call" => callbacks::call as *const c_void,
        "FreeCallReply" => callbacks::free_call_reply as *const c_void,
        "CreateString" => callbacks::create_string as *const c_void,
        "FreeString" => callbacks::free_string as *const c_void,
        "RetainString" => callbacks::retain_string as *const c_void,
        "StringPtrLen" => callbacks::string_ptr_len as *const c_void,
        "OpenKey" => callbacks::open_key as *const c_void,
        "CloseKey" => callbacks::close_key as *const c_void,
        "KeyType" => callbacks::key_type as *const c_void,
        "ModuleTypeGetType" => callbacks::module_type_of as *const c_void,
        "ModuleTypeGetValue" => callbacks::get_value as *const c_void,
        "ModuleTypeSetValue" => callbacks::set_value as *const c_void,
        "Replicate" => callbacks::replicate as *const c_void,
        "ReplicateVerbatim" => callbacks::replicate_verbatim as *const c_void,
        "SignalModifiedKey" => callbacks::signal_modified_key as *const c_void,
        "NotifyKeyspaceEvent" => callbacks::notify_keyspace_event as *const c_void,
        "ReplyWithLongLong" => callbacks::reply_with_long_long as *const c_void,
        "ReplyWithBool" => callbacks::reply_with_bool as *const c_void,
        "ReplyWithSimpleString" => callbacks::reply_with_simple_string as *const c_void,
        "ReplyWithError" => callbacks::reply_with_error as *const c_void,
        "ReplyWithStringBuffer" => callbacks::reply_with_string_buffer as *const c_void,
        "ReplyWithArray" => callbacks::reply_with_array as *const c_void,
        "ReplyWithMap" => callbacks::reply_with_map as *const c_void,
        "ReplyWithDouble" => callbacks::reply_with_double as *const c_void,
        "ReplyWithNull" => callbacks::reply_with_null as *const c_void,
        "SaveUnsigned" => forkless::save_unsigned as *const c_void,
        "SaveDouble" => forkless::save_double as *const c_void,
        "SaveStringBuffer" => forkless::save_bytes as *const c_void,
        "DigestAddStringBuffer" => forkless::digest_bytes as *const c_void,
        "DigestEndSequence" => forkless::digest_end as *const c_void,
        _ => pretended(name),
    }
}

pub(super) fn token<T>() -> *mut T {
    ptr::from_ref(&TOKEN).cast_mut().cast()
}

/// # Safety
/// `text` must be a C string.
pub(super) unsafe fn text_of(text: *const c_char) -> String {
    // SAFETY: by the caller's contract.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

macro_rules! pretended {
    ($name:ident: $($function:literal)*) => {
        match $name {
            $($function => {
                extern "C" fn stub() {
                    panic!("this host only pretends to have RedisModule_{}", $function);
                }
                stub as *const c_void
            })*
            _ => ptr::null(),
        }
    };
}

/// Returns a placeholder for a function that the module needs to load but that no test calls; null for other names.
fn pretended(name: &str) -> *const c_void {
    pretended!(name:
        "ACLCheckKeyPermissions"
        "CallReplyInteger"
        "CallReplyStringPtr"
        "CallReplyType"
        "ClusterKeySlot"
        "CreateTimer"
        "EmitAOF"
        "FreeModuleUser"
        "FreeThreadSafeContext"
        "GetCurrentUserName"
        "GetKeyNameFromIO"
        "GetModuleUserFromUserName"
        "GetThreadSafeContext"
        "GetUsedMemoryRatio"
        "InfoAddFieldULongLong"
        "InfoAddFieldCString"
        "InfoAddSection"
        "IsIOError"
        "LoadDouble"
        "LoadFloat"
        "LoadStringBuffer"
        "LoadUnsigned"
        "RegisterDefragCallbacks"
        "StringDMA"
        "SetAbsExpire"
        "ValueLength"
    )
}
