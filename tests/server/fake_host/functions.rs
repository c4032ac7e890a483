//! The functions of the module API that loading the module and running its smaller commands need.
//!
//! The API has variadic functions, which cannot be written in Rust. Here they have the number of arguments that the
//! module passes. On Linux on x86-64 and AArch64 the first pointers and integers are passed in registers for variadic
//! and other functions alike, so the call is the same. So is a call with more arguments than a function here reads.

use std::ffi::{CStr, c_char, c_void};
use std::ptr;

use super::{loading, memory, moving, running};

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
        "SetModuleAttribs" => loading::set_module_attributes as *const c_void,
        "IsModuleNameBusy" => loading::is_module_name_busy as *const c_void,
        "Log" => loading::log as *const c_void,
        "LogIOError" => loading::log as *const c_void,
        "GetServerVersion" => loading::get_server_version as *const c_void,
        "GetServerInfo" => loading::get_server_info as *const c_void,
        "FreeServerInfo" => loading::free_server_info as *const c_void,
        "ServerInfoGetFieldUnsigned" => loading::server_info_number as *const c_void,
        "GetContextFlags" => loading::get_context_flags as *const c_void,
        "RegisterNumericConfig" => loading::register_numeric_config as *const c_void,
        "RegisterStringConfig" => loading::register_string_config as *const c_void,
        "LoadConfigs" => loading::load_configs as *const c_void,
        "CreateDataType" => loading::create_data_type as *const c_void,
        "CreateCommand" => loading::create_command as *const c_void,
        "GetCommand" => loading::get_command as *const c_void,
        "SetCommandInfo" => loading::set_command_info as *const c_void,
        "AddACLCategory" => loading::add_acl_category as *const c_void,
        "SetCommandACLCategories" => loading::set_acl_categories as *const c_void,
        "RegisterInfoFunc" => loading::register_info_func as *const c_void,
        "SetModuleOptions" => loading::set_module_options as *const c_void,
        "GetModuleOptionsAll" => loading::get_module_options_all as *const c_void,
        "SubscribeToServerEvent" => loading::subscribe as *const c_void,
        "DefragAlloc" => moving::defrag_alloc as *const c_void,
        "DefragCursorGet" => moving::defrag_cursor_get as *const c_void,
        "DefragCursorSet" => moving::defrag_cursor_set as *const c_void,
        "DefragShouldStop" => moving::defrag_should_stop as *const c_void,
        "GetRandomBytes" => running::get_random_bytes as *const c_void,
        "GetSelectedDb" => running::get_selected_db as *const c_void,
        "Milliseconds" => running::milliseconds as *const c_void,
        "Call" => running::call as *const c_void,
        "FreeCallReply" => running::free_call_reply as *const c_void,
        "CreateString" => running::create_string as *const c_void,
        "FreeString" => running::free_string as *const c_void,
        "RetainString" => running::retain_string as *const c_void,
        "StringPtrLen" => running::string_ptr_len as *const c_void,
        "OpenKey" => running::open_key as *const c_void,
        "CloseKey" => running::close_key as *const c_void,
        "KeyType" => running::key_type as *const c_void,
        "ModuleTypeGetType" => running::module_type_of as *const c_void,
        "ModuleTypeGetValue" => running::get_value as *const c_void,
        "ModuleTypeSetValue" => running::set_value as *const c_void,
        "Replicate" => running::replicate as *const c_void,
        "ReplicateVerbatim" => running::replicate_verbatim as *const c_void,
        "SignalModifiedKey" => running::signal_modified_key as *const c_void,
        "NotifyKeyspaceEvent" => running::notify_keyspace_event as *const c_void,
        "ReplyWithLongLong" => running::reply_with_long_long as *const c_void,
        "ReplyWithBool" => running::reply_with_bool as *const c_void,
        "ReplyWithSimpleString" => running::reply_with_simple_string as *const c_void,
        "ReplyWithError" => running::reply_with_error as *const c_void,
        "ReplyWithStringBuffer" => running::reply_with_string_buffer as *const c_void,
        "ReplyWithArray" => running::reply_with_array as *const c_void,
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
        "CallReplyInteger"
        "CallReplyStringPtr"
        "CallReplyType"
        "DigestAddStringBuffer"
        "DigestEndSequence"
        "EmitAOF"
        "FreeThreadSafeContext"
        "GetKeyNameFromIO"
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
        "ReplyWithDouble"
        "ReplyWithMap"
        "ReplyWithNull"
        "SaveDouble"
        "SaveStringBuffer"
        "SaveUnsigned"
        "StringDMA"
        "SetAbsExpire"
        "ValueLength"
    )
}
