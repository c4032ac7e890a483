//! How the server learns of the data types: one for each format. A key keeps the one it was loaded with, so
//! that a server can go back to the other module.

use std::ffi::{c_int, c_void};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use redis_module::raw::{self, RedisModuleIO, RedisModuleType};

use super::{defrag, digest, memory, rewrite, snapshot};
use crate::bloom::Format;
use crate::format::filter::DataType;
use crate::redis::api::Context;
use crate::redis::log;

/// What tells one data type from another; the callbacks that are not here are the same for all.
struct Registered {
    format: Format,
    load: unsafe extern "C" fn(*mut RedisModuleIO, c_int) -> *mut c_void,
    /// The type as the server made it; null until then.
    handle: AtomicPtr<RedisModuleType>,
}

impl Registered {
    /// The type of the format with that place among all formats.
    const fn new<const PLACE: usize>() -> Self {
        Self {
            format: snapshot::nth_format::<PLACE>(),
            load: snapshot::load::<PLACE>,
            handle: AtomicPtr::new(ptr::null_mut()),
        }
    }
}

/// Every data type.
static TYPES: [Registered; Format::ALL.len()] =
    [Registered::new::<0>(), Registered::new::<1>(), Registered::new::<2>()];

/// The type of filters of a format, once the module is loaded.
pub(in crate::redis) fn handle(format: Format) -> Option<NonNull<RedisModuleType>> {
    let data_type = TYPES.iter().find(|data_type| data_type.format == format)?;
    NonNull::new(data_type.handle.load(Relaxed))
}

/// Whether values of a type are filters.
pub(in crate::redis) fn is_ours(data_type: *mut RedisModuleType) -> bool {
    !data_type.is_null() && TYPES.iter().any(|ours| ours.handle.load(Relaxed) == data_type)
}

/// Tells the server of the types. Answers false, with a line in the log, when it refuses one.
///
/// # Safety
/// `context` must be that of the running `RedisModule_OnLoad`.
pub(in crate::redis) unsafe fn register(context: Context) -> bool {
    let Some(create) = api!(RedisModule_CreateDataType) else { return false };
    TYPES.iter().all(|data_type| {
        let mut methods = raw::RedisModuleTypeMethods {
            version: raw::REDISMODULE_TYPE_METHOD_VERSION.into(),
            rdb_load: Some(data_type.load),
            rdb_save: Some(snapshot::save),
            aof_rewrite: Some(rewrite::rewrite),
            mem_usage: Some(memory::memory_usage),
            digest: Some(digest::digest),
            free: Some(memory::free),
            aux_load: None,
            aux_save: None,
            aux_save_triggers: 0,
            free_effort: Some(memory::free_effort),
            unlink: None,
            copy: Some(memory::copy),
            defrag: Some(defrag::defrag),
            mem_usage2: None,
            free_effort2: None,
            unlink2: None,
            copy2: None,
            aux_save2: None,
        };
        let DataType { name, encoding_version } = DataType::of(data_type.format);
        let c_name = log::c_text(name);
        // SAFETY: the context is OnLoad's by the caller's contract; name and methods are copied, and the
        // functions live as long as the module.
        let handle = unsafe { create(context, c_name.as_ptr(), encoding_version, &raw mut methods) };
        data_type.handle.store(handle, Relaxed);
        if handle.is_null() {
            log::warning(context, &format!("the server refused the data type {name}"));
        }
        !handle.is_null()
    })
}
