//! An open key: what it holds, and putting a filter there.

use std::ptr::NonNull;

use redis_module::raw;

use super::api::{Context, succeeded};
use super::datatype;
use super::stored::Stored;
use crate::bloom::Filter;
use crate::command::Slot;
use crate::command::table::KeyAccess;

/// A key of the selected database, open as long as this value lives.
pub(super) struct Key(NonNull<raw::RedisModuleKey>);

impl Key {
    /// Opens a key. `None` for a key that does not exist and was to be read only.
    ///
    /// # Safety
    /// `context` and `name` must be those of the running command, and no other `Key` of the same name may live. The
    /// value must not outlive the command.
    pub(super) unsafe fn open(
        context: Context,
        name: *mut raw::RedisModuleString,
        access: KeyAccess,
    ) -> Option<Self> {
        let open_key = api!(RedisModule_OpenKey)?;
        let mode = match access {
            KeyAccess::ReadOnly => raw::REDISMODULE_READ,
            KeyAccess::ReadWrite => raw::REDISMODULE_READ | raw::REDISMODULE_WRITE,
        };
        // SAFETY: context and name are alive by the caller's word; the mode is one the API defines.
        let key = unsafe { open_key(context, name, mode.cast_signed()) };
        NonNull::new(key).map(Self)
    }

    /// What the key holds. Where it was opened for reading, the filter is not to be changed but for what is kept only in
    /// memory: the server would not know of it.
    pub(super) fn slot(&mut self) -> Slot<&mut Filter> {
        match self.stored() {
            Slot::Vacant => Slot::Vacant,
            Slot::WrongType => Slot::WrongType,
            Slot::Filter(stored) => Slot::Filter(&mut stored.filter),
        }
    }

    /// As [`slot`](Self::slot), with what the host keeps beside the filter.
    pub(super) fn stored(&mut self) -> Slot<&mut Stored> {
        match self.value() {
            Slot::Vacant => Slot::Vacant,
            Slot::WrongType => Slot::WrongType,
            // SAFETY: the value of a key of our type is a living `Stored` (see `datatype`). Commands run one at a time
            // on the server's main thread and the key stays open for the borrow, so nothing else changes or frees it;
            // the key is borrowed exclusively, and it is the only open key of its name.
            Slot::Filter(mut stored) => Slot::Filter(unsafe { stored.as_mut() }),
        }
    }

    /// Puts a filter under the key, in place of what is there. Answers whether it is there now; the key must have
    /// been opened for writing, else it is not.
    pub(super) fn publish(&mut self, filter: Filter) -> bool {
        let (Some(set_value), Some(data_type)) =
            (api!(RedisModule_ModuleTypeSetValue), datatype::handle(filter.format()))
        else {
            return false;
        };
        let value = Box::into_raw(Stored::boxed(filter));
        // SAFETY: the key is open, and the value is what the callbacks of our type expect. Once set, the server owns
        // it and gives it back to `datatype::free`.
        let status = unsafe { set_value(self.0.as_ptr(), data_type.as_ptr(), value.cast()) };
        if !succeeded(status) {
            // SAFETY: the pointer comes from `Box::into_raw` above and the server did not take it.
            drop(unsafe { Box::from_raw(value) });
        }
        succeeded(status)
    }

    fn value(&self) -> Slot<NonNull<Stored>> {
        let (Some(key_type), Some(get_type), Some(get_value)) = (
            api!(RedisModule_KeyType),
            api!(RedisModule_ModuleTypeGetType),
            api!(RedisModule_ModuleTypeGetValue),
        ) else {
            return Slot::WrongType;
        };
        // SAFETY: the key is open.
        let data_type = unsafe { get_type(self.0.as_ptr()) };
        if !datatype::is_ours(data_type) {
            // SAFETY: the key is open.
            let key_type = unsafe { key_type(self.0.as_ptr()) };
            let is_empty = isize::try_from(key_type) == Ok(raw::REDISMODULE_KEYTYPE_EMPTY);
            return if is_empty { Slot::Vacant } else { Slot::WrongType };
        }
        // SAFETY: the key is open and holds a value of a module's type.
        let value = unsafe { get_value(self.0.as_ptr()) };
        NonNull::new(value.cast()).map_or(Slot::WrongType, Slot::Filter)
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        let Some(close_key) = api!(RedisModule_CloseKey) else { return };
        // SAFETY: the key is open and not used again.
        unsafe { close_key(self.0.as_ptr()) };
    }
}
