//! Open keys: the value of a key, and setting a filter.

use std::cell::Cell;
use std::convert::Infallible;
use std::ptr::{self, NonNull};
use std::slice;

use redis_module::raw;

use super::api::Context;
use super::datatype::value::FilterState;
use super::datatype::{self, ValueFamily};
use super::log;
use super::server;
use super::stored::{self, Stored, StoredFilter};
use everbloom_command::rings::{FollowChanges, FollowPosition};
use everbloom_command::table::KeyAccess;
use everbloom_command::{self, CommandError, Found, KeyValue, MergedInto, Value, ValueMut, ValueRef};
use everbloom_filter::cuckoo::filter::CuckooFilter;
use everbloom_filter::filter::dumps::Remembered;
use everbloom_filter::filter::loading::FilterValue;
use everbloom_filter::{Filter, FilterCounts, Log};

/// Strings of up to this many bytes are copied. A short string may be stored as a number or together with its key, and
/// borrowing it through the module API would convert it. Servers embed strings of up to 128 bytes in their keys. All
/// servers store longer strings as plain arrays of bytes, which can be borrowed.
const COPIED_MAX_BYTES: usize = 4 << 10;

/// Where the value of a key is, of one of the types that commands work with.
type ValuePlace = Found<NonNull<StoredFilter>, NonNull<Stored<CuckooFilter>>>;

/// A key of the selected database, open while this value lives. If there is no open key, says what commands see instead.
struct Handle(Result<NonNull<raw::RedisModuleKey>, KeyValue<Infallible>>);

impl Handle {
    /// Opens a key.
    ///
    /// # Safety
    /// `context` and `name` must be those of the running command.
    #[inline(always)]
    unsafe fn open(context: Context, name: *mut raw::RedisModuleString, access: KeyAccess) -> Self {
        // The server returns null for a key that does not exist only if the key is only read. For a key that would be written
        // to, null means that the server is saving the value on another thread.
        let (mode, without) = match access {
            KeyAccess::ReadOnly => (raw::REDISMODULE_READ, KeyValue::Vacant),
            KeyAccess::ReadWrite => (raw::REDISMODULE_READ | raw::REDISMODULE_WRITE, KeyValue::InUse),
        };
        let key = api!(RedisModule_OpenKey)
            // SAFETY: context and name are alive by the caller's contract. The mode is one the API defines.
            .and_then(|open_key| NonNull::new(unsafe { open_key(context, name, mode.cast_signed()) }));
        Self(key.ok_or(without))
    }

    /// Returns a key that could not be opened. It behaves like a key of another type.
    const fn none() -> Self {
        Self(Err(KeyValue::WrongType))
    }

    /// Returns the place of the value.
    #[inline(always)]
    fn place(&self) -> KeyValue<ValuePlace> {
        let key = match self.0 {
            Ok(key) => key,
            Err(KeyValue::Vacant) => return KeyValue::Vacant,
            Err(KeyValue::InUse) => return KeyValue::InUse,
            Err(_) => return KeyValue::WrongType,
        };
        let (Some(get_type), Some(get_value)) =
            (api!(RedisModule_ModuleTypeGetType), api!(RedisModule_ModuleTypeGetValue))
        else {
            return KeyValue::WrongType;
        };
        // SAFETY: the key is open.
        let data_type = unsafe { get_type(key.as_ptr()) };
        let Some(family) = datatype::family_of(data_type) else {
            return if self.key_type().is_none() { KeyValue::Vacant } else { KeyValue::WrongType };
        };
        // SAFETY: the key is open and holds a value of a module's type.
        let Some(value) = NonNull::new(unsafe { get_value(key.as_ptr()) }) else {
            return KeyValue::WrongType;
        };
        KeyValue::Present(match family {
            ValueFamily::Filter => Found::Filter(value.cast()),
            ValueFamily::Cuckoo => Found::Cuckoo(value.cast()),
        })
    }

    /// Returns the type of the key; `None` if it does not exist.
    fn key_type(&self) -> Option<isize> {
        let (key, key_type) = (self.0.as_ref().ok()?, api!(RedisModule_KeyType)?);
        // SAFETY: the key is open.
        let key_type = isize::try_from(unsafe { key_type(key.as_ptr()) }).unwrap_or(-1);
        (key_type != raw::REDISMODULE_KEYTYPE_EMPTY).then_some(key_type)
    }
}

impl Drop for Handle {
    #[inline(always)]
    fn drop(&mut self) {
        let (Ok(key), Some(close_key)) = (&self.0, api!(RedisModule_CloseKey)) else { return };
        // SAFETY: the key is open and not used again.
        unsafe { close_key(key.as_ptr()) };
    }
}

// The value of a key of our types is a `Stored` (see `datatype`). It must be alive while it is borrowed, and not be changed
// elsewhere. Commands run one at a time on the server's main thread, and no key of a name that is open for writing is open
// twice. Another thread of the server may save the value, but it reads only the field `value`, and the server does not let a
// key be opened for writing meanwhile. Other modules can write to a key only when they are notified. They are notified when a
// key expires while it is opened, but all keys of the command were opened before the value was looked up. Only BF.IMPORT
// opens its source later, and does not use the value after that. They are also notified of the change, but after all keys
// are closed (`effects`).

/// A key that is open for reading.
pub(super) struct KeyToRead(Handle, Context);

impl KeyToRead {
    /// Opens a key.
    ///
    /// # Safety
    /// `context` and `name` must be those of the running command. While the value lives, which must not outlive the
    /// command, no `KeyToWrite` of the same name may live, and nothing else may write to the key.
    #[inline(always)]
    pub(super) unsafe fn open(context: Context, name: *mut raw::RedisModuleString) -> Self {
        // SAFETY: the caller's contract.
        Self(unsafe { Handle::open(context, name, KeyAccess::ReadOnly) }, context)
    }

    /// Returns a key that could not be opened. It behaves like a key of another type.
    pub(super) const fn none() -> Self {
        Self(Handle::none(), ptr::null_mut())
    }

    /// Returns whether the value is a string that must be copied: see [`COPIED_MAX_BYTES`].
    pub(super) fn is_short_string(&self) -> bool {
        let (Ok(key), Some(value_length)) = (&self.0.0, api!(RedisModule_ValueLength)) else { return false };
        // SAFETY: the key is open. Measuring a string does not change how it is stored.
        self.0.key_type() == Some(raw::REDISMODULE_KEYTYPE_STRING)
            && unsafe { value_length(key.as_ptr()) } <= COPIED_MAX_BYTES
    }

    /// Returns the string under the key: `copy`, a copy of it, if there is one, otherwise the borrowed bytes.
    pub(super) fn string<'s>(&'s self, copy: Option<&'s [u8]>) -> KeyValue<&'s [u8]> {
        match self.0.key_type() {
            None if matches!(self.0.0, Ok(_) | Err(KeyValue::Vacant)) => KeyValue::Vacant,
            Some(raw::REDISMODULE_KEYTYPE_STRING) => {
                copy.or_else(|| self.long_string()).map_or(KeyValue::WrongType, KeyValue::Present)
            }
            _ => KeyValue::WrongType,
        }
    }

    /// Returns the bytes of a long string, borrowed.
    fn long_string(&self) -> Option<&[u8]> {
        let (key, string_dma) = (self.0.0.as_ref().ok()?, api!(RedisModule_StringDMA)?);
        let mut length = 0;
        // SAFETY: the key is open and holds a string. `length` is a place for its length.
        let start = unsafe { string_dma(key.as_ptr(), &raw mut length, raw::REDISMODULE_READ.cast_signed()) };
        if start.is_null() {
            return None;
        }
        // SAFETY: the server returns the start of `length` bytes of the value. They do not change while the key is open
        // and nothing is written to it. The contract of `open` ensures both for longer than this borrow.
        Some(unsafe { slice::from_raw_parts(start.cast(), length) })
    }

    /// Returns the place of the filter under the key.
    fn filter_place(&self) -> Option<NonNull<StoredFilter>> {
        if let KeyValue::Present(Found::Filter(place)) = self.0.place() { Some(place) } else { None }
    }

    /// Returns what is kept beside the filter under the key.
    fn state(&mut self) -> Option<&mut FilterState> {
        let place = self.filter_place()?;
        // SAFETY: see above. Nothing else uses this field during this call: saving reads the value only, and this key is
        // borrowed exclusively.
        Some(unsafe { &mut (*place.as_ptr()).state })
    }
}

impl everbloom_command::ReadKey for KeyToRead {
    #[inline(always)]
    fn value(&self) -> KeyValue<ValueRef<'_>> {
        self.0.place().and_then(|place| match place {
            // SAFETY: see above. The reference is to the field that is only read meanwhile.
            Found::Filter(place) => match unsafe { &(*place.as_ptr()).value } {
                FilterValue::Complete(filter) => KeyValue::Present(Found::Filter(filter)),
                FilterValue::Loading(_) => KeyValue::Loading,
            },
            // SAFETY: see above. The reference is to the field that is only read meanwhile.
            Found::Cuckoo(place) => KeyValue::Present(Found::Cuckoo(unsafe { &(*place.as_ptr()).value })),
        })
    }

    fn allocated_bytes(&self) -> u64 {
        // SAFETY: see above. Nothing changes the other fields during this call.
        self.filter_place().map_or(0, |place| unsafe { place.as_ref() }.allocated_bytes() as u64)
    }

    fn remember<T>(&mut self, update: impl FnOnce(&Filter, &mut Remembered) -> T) -> Option<T> {
        let place = self.filter_place()?;
        // SAFETY: see above. The reference is to the field that is only read meanwhile.
        let FilterValue::Complete(filter) = (unsafe { &(*place.as_ptr()).value }) else { return None };
        // SAFETY: see above. Nothing else uses this field during this call: saving reads the value only, and this key is
        // borrowed exclusively.
        let state = unsafe { &mut (*place.as_ptr()).state };
        Some(update(filter, state.remembered_mut()))
    }

    fn position(&mut self) -> Result<FollowPosition, CommandError> {
        let context = self.1;
        let state = self.state().ok_or(CommandError::WrongType)?;
        // SAFETY: the context is that of the running command.
        unsafe { state.rare.get_or_insert_default().followers.position(context) }
    }

    fn changes(
        &mut self,
        position: FollowPosition,
        most_records: usize,
    ) -> Result<FollowChanges, CommandError> {
        let rare = self.state().ok_or(CommandError::WrongType)?.rare.as_ref();
        let changes =
            rare.map_or(Ok(FollowChanges::Lost), |rare| rare.followers.changes(position, most_records));
        changes.map_err(|_| CommandError::OutOfMemory)
    }
}

/// A key that is open for writing.
pub(super) struct KeyToWrite<'k> {
    handle: Handle,
    /// Set to true when the key may have changed. `None` for a key that could not be opened.
    may_have_changed: Option<&'k Cell<bool>>,
    /// The place of the value, after it was looked up.
    place: Option<ValuePlace>,
    /// For a filter: the result of [`Filter::counts_since`] at the lookup; `None` if it was being loaded.
    counts: Option<FilterCounts>,
    context: Context,
}

impl<'k> KeyToWrite<'k> {
    /// Opens a key. Sets `may_have_changed` if the key may have changed.
    ///
    /// # Safety
    /// `context` and `name` must be those of the running command. While the value lives, which must not outlive the
    /// command, no other key of the same name may be open, and nothing else may write to the key.
    #[inline(always)]
    pub(super) unsafe fn open(
        context: Context,
        name: *mut raw::RedisModuleString,
        may_have_changed: &'k Cell<bool>,
    ) -> Self {
        // SAFETY: the caller's contract.
        let handle = unsafe { Handle::open(context, name, KeyAccess::ReadWrite) };
        Self { handle, may_have_changed: Some(may_have_changed), place: None, counts: None, context }
    }

    /// Returns a key that could not be opened. It behaves like a key of another type.
    pub(super) fn none() -> Self {
        let (handle, context) = (Handle::none(), ptr::null_mut());
        Self { handle, may_have_changed: None, place: None, counts: None, context }
    }

    /// Records that the key may have changed.
    #[inline(always)]
    fn note_change(&self) {
        if let Some(may_have_changed) = self.may_have_changed {
            may_have_changed.set(true);
        }
    }

    /// Returns the filter that was found under the key.
    #[inline(always)]
    fn stored_filter(&mut self) -> Option<&mut StoredFilter> {
        match self.place? {
            // SAFETY: see above. This key is borrowed exclusively. Only `publish` sets another value, and it resets `place`.
            Found::Filter(mut place) => Some(unsafe { place.as_mut() }),
            Found::Cuckoo(_) => None,
        }
    }
}

impl everbloom_command::WriteKey for KeyToWrite<'_> {
    #[inline(always)]
    fn value(&mut self) -> KeyValue<ValueMut<'_>> {
        self.handle.place().and_then(|place| {
            self.place = Some(place);
            self.note_change();
            match place {
                // SAFETY: see above. This key is borrowed exclusively.
                Found::Filter(mut place) => match &mut unsafe { place.as_mut() }.value {
                    FilterValue::Complete(filter) => {
                        let context = self.context;
                        // SAFETY: the context is that of the running command.
                        filter.set_time(server::now_ms, || unsafe { server::is_replicated(context) });
                        self.counts = Some(filter.counts_since(usize::MAX));
                        KeyValue::Present(Found::Filter(filter))
                    }
                    FilterValue::Loading(_) => KeyValue::Loading,
                },
                Found::Cuckoo(mut place) => {
                    // SAFETY: see above. This key is borrowed exclusively.
                    KeyValue::Present(Found::Cuckoo(&mut unsafe { place.as_mut() }.value))
                }
            }
        })
    }

    #[inline(always)]
    fn filter_value(&mut self) -> Option<&mut FilterValue> {
        self.stored_filter().map(|stored| &mut stored.value)
    }

    #[inline(always)]
    fn slot_to_add(&mut self) -> KeyValue<(&mut Filter, Log<'_>)> {
        match self.slot() {
            KeyValue::Vacant => return KeyValue::Vacant,
            KeyValue::WrongType => return KeyValue::WrongType,
            KeyValue::Loading => return KeyValue::Loading,
            KeyValue::InUse => return KeyValue::InUse,
            KeyValue::Present(_) => {}
        }
        match self.stored_filter().map(StoredFilter::value_and_log) {
            Some((FilterValue::Complete(filter), log)) => KeyValue::Present((filter, log)),
            Some((FilterValue::Loading(_), _)) => KeyValue::Loading,
            None => KeyValue::WrongType,
        }
    }

    #[inline(always)]
    fn changed(&mut self, items_added: u64, item: Option<&[u8]>) -> u32 {
        let before = self.counts;
        match self.place {
            Some(Found::Filter(mut place)) => {
                // SAFETY: see above. This key is borrowed exclusively.
                unsafe { place.as_mut() }.changed(before.as_ref(), items_added, item)
            }
            Some(Found::Cuckoo(mut place)) => {
                // SAFETY: see above. This key is borrowed exclusively.
                unsafe { place.as_mut() }.changed();
                0
            }
            None => 0,
        }
    }

    fn altered(&mut self, before: MergedInto) {
        if let Some(stored) = self.stored_filter() {
            stored.altered(before);
        }
    }

    fn publish(&mut self, value: Value) -> Result<(), CommandError> {
        self.place = None;
        self.note_change();
        let is_set = self.handle.0.as_ref().is_ok_and(|key| match value {
            Value::Filter(filter) => {
                let data_type = datatype::filter_type(filter.format());
                // SAFETY: the key is open, and this is the type of the filter.
                unsafe { datatype::set_value(*key, data_type, FilterValue::Complete(*filter)) }
            }
            Value::Loading(loading) => {
                let data_type = datatype::filter_type(loading.filter().format());
                // SAFETY: the key is open, and this is the type of the filter.
                unsafe { datatype::set_value(*key, data_type, FilterValue::Loading(loading)) }
            }
            // SAFETY: the key is open, and this is the type of the filter.
            Value::Cuckoo(filter) => unsafe { datatype::set_value(*key, datatype::cuckoo_type(), *filter) },
        });
        if is_set {
            return Ok(());
        }
        log::throttled(&log::PUBLISHING, ptr::null_mut(), "the key cannot be set");
        Err(CommandError::Internal)
    }

    fn replace(&mut self, filter: Filter) {
        if let Some(stored) = self.stored_filter() {
            let replaced = std::mem::replace(stored, StoredFilter::new(FilterValue::Complete(filter)));
            stored::free(replaced);
        }
    }

    fn expire_at(&mut self, at_ms: u64) {
        let (Ok(key), Some(set_expire)) = (&self.handle.0, api!(RedisModule_SetAbsExpire)) else { return };
        // SAFETY: the key is open. The server refuses a key that is open for reading only, or has no value.
        unsafe { set_expire(key.as_ptr(), at_ms.cast_signed()) };
    }
}
