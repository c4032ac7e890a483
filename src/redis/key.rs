//! Open keys: which keys a command has opened, the value of a key, and setting a filter.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::ptr::{self, NonNull};
use std::slice;

use redis_module::raw;

use super::api::Context;
use super::args::Argv;
use super::datatype::{self, ValueFamily};
use super::log;
use super::server;
use super::stored::{self, Stored, StoredFilter};
use crate::bloom::cuckoo::filter::CuckooFilter;
use crate::bloom::filter::loading::FilterValue;
use crate::bloom::{Filter, FilterCounts, Log};
use crate::command::rings::{FollowChanges, FollowPosition};
use crate::command::table::KeyAccess;
use crate::command::{CommandError, KeyValue, OpenKey, Value, ValueRef};

/// Strings of up to this many bytes are copied. A short string may be stored as a number or together with its key, and
/// borrowing it through the module API would convert it. Servers embed strings of up to 128 bytes in their keys. All
/// servers store longer strings as plain arrays of bytes, which can be borrowed.
const COPIED_MAX_BYTES: usize = 4 << 10;

/// The value of [`Claims::first`] as long as no key was opened.
const NONE: usize = usize::MAX;

/// The keys that the running command has opened, and whether it may have changed one. No key is opened twice, because
/// its filter could then be changed through two [`Key`]s.
pub(super) struct Claims<'a> {
    /// The position of the first key among the arguments. Most commands have one key.
    first: Cell<usize>,
    /// The names of the other keys, if any.
    #[expect(clippy::box_collection, reason = "a null pointer is dropped without a call")]
    others: RefCell<Option<Box<BTreeSet<&'a [u8]>>>>,
    /// Whether a filter was open for writing, or was published.
    may_have_changed: Cell<bool>,
}

impl<'a> Claims<'a> {
    /// Returns the claims of a command that has opened no key.
    pub(super) const fn none() -> Self {
        Self { first: Cell::new(NONE), others: RefCell::new(None), may_have_changed: Cell::new(false) }
    }

    /// Returns whether the command may have changed a key.
    pub(super) const fn may_have_changed(&self) -> bool {
        self.may_have_changed.get()
    }

    /// Claims the key that the argument at `position` names, for [`Key::open`]. Returns `None` if a key with that name
    /// is claimed already.
    #[inline(always)]
    pub(super) fn claim(&self, argv: Argv<'a>, position: usize) -> Option<&Cell<bool>> {
        if self.first.get() == NONE {
            self.first.set(position);
            return Some(&self.may_have_changed);
        }
        self.claim_beside(argv, position)
    }

    /// Claims a key after the first one.
    #[cold]
    fn claim_beside(&self, argv: Argv<'a>, position: usize) -> Option<&Cell<bool>> {
        let name = argv.bytes(position)?;
        let is_new = argv.bytes(self.first.get()) != Some(name)
            && self.others.borrow_mut().get_or_insert_default().insert(name);
        is_new.then_some(&self.may_have_changed)
    }
}

/// The value of a key, of one of the types that commands work with.
#[derive(Clone, Copy)]
enum Found {
    Filter(NonNull<StoredFilter>),
    Cuckoo(NonNull<Stored<CuckooFilter>>),
}

/// [`Found`], borrowed.
enum FoundRef<'k> {
    Filter(&'k mut StoredFilter),
    Cuckoo(&'k mut Stored<CuckooFilter>),
}

/// A key of the selected database, open while this value lives.
pub(super) struct Key<'k> {
    /// `None` for a key that does not exist and is only read.
    key: Option<NonNull<raw::RedisModuleKey>>,
    /// Set to true when the key may have changed. `None` for a key that could not be opened.
    may_have_changed: Option<&'k Cell<bool>>,
    /// The value, after it was looked up.
    found: Option<Found>,
    /// For a filter under a key that is open for writing: the result of [`Filter::counts_since`] at the lookup; `None` if it
    /// was being loaded.
    counts: Option<FilterCounts>,
    context: Context,
    access: KeyAccess,
}

impl<'k> Key<'k> {
    /// Opens a key. Sets `may_have_changed` if the key may have changed.
    ///
    /// # Safety
    /// `context` and `name` must be those of the running command. While the value lives, which must not outlive the
    /// command, no other `Key` of the same name may live, and nothing else may write to the key.
    #[inline(always)]
    pub(super) unsafe fn open(
        context: Context,
        name: *mut raw::RedisModuleString,
        access: KeyAccess,
        may_have_changed: &'k Cell<bool>,
    ) -> Self {
        let mode = match access {
            KeyAccess::ReadOnly => raw::REDISMODULE_READ,
            KeyAccess::ReadWrite => raw::REDISMODULE_READ | raw::REDISMODULE_WRITE,
        };
        let key = api!(RedisModule_OpenKey)
            // SAFETY: context and name are alive by the caller's contract. The mode is one the API defines.
            .and_then(|open_key| NonNull::new(unsafe { open_key(context, name, mode.cast_signed()) }));
        let may_have_changed = Some(may_have_changed);
        Self { key, may_have_changed, found: None, counts: None, context, access }
    }

    /// Returns a key that could not be opened. It behaves like a key of another type.
    pub(super) fn none() -> Self {
        let (context, access) = (ptr::null_mut(), KeyAccess::ReadOnly);
        Self { key: None, may_have_changed: None, found: None, counts: None, context, access }
    }

    /// Records that the key may have changed.
    #[inline(always)]
    fn note_change(&self) {
        if let Some(may_have_changed) = self.may_have_changed {
            may_have_changed.set(true);
        }
    }

    /// Returns the value.
    #[inline(always)]
    fn found(&self) -> KeyValue<Found> {
        let Some(key) = self.key else {
            return if self.may_have_changed.is_some() { KeyValue::Vacant } else { KeyValue::WrongType };
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
        let (key, key_type) = (self.key?, api!(RedisModule_KeyType)?);
        // SAFETY: the key is open.
        let key_type = isize::try_from(unsafe { key_type(key.as_ptr()) }).unwrap_or(-1);
        (key_type != raw::REDISMODULE_KEYTYPE_EMPTY).then_some(key_type)
    }

    /// Returns whether the value is a string that must be copied: see [`COPIED_MAX_BYTES`].
    pub(super) fn is_short_string(&self) -> bool {
        let (Some(key), Some(value_length)) = (self.key, api!(RedisModule_ValueLength)) else { return false };
        // SAFETY: the key is open. Measuring a string does not change how it is stored.
        self.key_type() == Some(raw::REDISMODULE_KEYTYPE_STRING)
            && unsafe { value_length(key.as_ptr()) } <= COPIED_MAX_BYTES
    }

    /// Returns the string under the key: `copy`, a copy of it, if there is one, otherwise the borrowed bytes.
    pub(super) fn string<'s>(&'s self, copy: Option<&'s [u8]>) -> KeyValue<&'s [u8]> {
        match self.key_type() {
            None if self.may_have_changed.is_some() => KeyValue::Vacant,
            Some(raw::REDISMODULE_KEYTYPE_STRING) => {
                copy.or_else(|| self.long_string()).map_or(KeyValue::WrongType, KeyValue::Present)
            }
            _ => KeyValue::WrongType,
        }
    }

    /// Returns the bytes of a long string, borrowed.
    fn long_string(&self) -> Option<&[u8]> {
        let (key, string_dma) = (self.key?, api!(RedisModule_StringDMA)?);
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

    /// Returns the value that was found under the key.
    #[inline(always)]
    fn stored(&mut self) -> Option<FoundRef<'_>> {
        // The value of a key of our types is a `Stored` (see `datatype`). It must be alive and not be used elsewhere during
        // the borrow. This key is borrowed exclusively, and it is the only open key of its name. Commands run one at a
        // time on the server's main thread. Other modules can write to this key only when they are notified. They are
        // notified when a key expires while it is opened, but all keys of the command were opened before the value was
        // looked up. Only BF.IMPORT opens its source later, and does not use the value after that. They are also notified
        // of the change, but after all keys are closed (`effects`). Only `publish` sets another value, and it resets
        // `found`.
        match self.found? {
            // SAFETY: see above; `found` has looked at the type.
            Found::Filter(mut stored) => Some(FoundRef::Filter(unsafe { stored.as_mut() })),
            // SAFETY: see above; `found` has looked at the type.
            Found::Cuckoo(mut stored) => Some(FoundRef::Cuckoo(unsafe { stored.as_mut() })),
        }
    }

    /// Returns the filter that was found under the key.
    #[inline(always)]
    fn stored_filter(&mut self) -> Option<&mut StoredFilter> {
        match self.stored()? {
            FoundRef::Filter(stored) => Some(stored),
            FoundRef::Cuckoo(_) => None,
        }
    }
}

impl OpenKey for Key<'_> {
    #[inline(always)]
    fn value(&mut self) -> KeyValue<ValueRef<'_>> {
        let found = match self.found() {
            KeyValue::Vacant => return KeyValue::Vacant,
            KeyValue::WrongType => return KeyValue::WrongType,
            KeyValue::Loading => return KeyValue::Loading,
            KeyValue::Present(found) => found,
        };
        self.found = Some(found);
        let (context, access) = (self.context, self.access);
        if access == KeyAccess::ReadWrite {
            self.note_change();
        }
        if let Some(FilterValue::Complete(filter)) = self.filter_value() {
            // SAFETY: the context is that of the running command.
            let is_replicated =
                || access == KeyAccess::ReadWrite && unsafe { server::is_replicated(context) };
            filter.set_time(server::now_ms, is_replicated);
            if access == KeyAccess::ReadWrite {
                self.counts = Some(filter.counts_since(usize::MAX));
            }
        }
        match self.stored() {
            Some(FoundRef::Filter(stored)) => match &mut stored.value {
                FilterValue::Complete(filter) => KeyValue::Present(ValueRef::Filter(filter)),
                FilterValue::Loading(_) => KeyValue::Loading,
            },
            Some(FoundRef::Cuckoo(stored)) => KeyValue::Present(ValueRef::Cuckoo(&mut stored.value)),
            None => KeyValue::WrongType,
        }
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
            KeyValue::Present(_) => {}
        }
        match self.stored_filter().map(StoredFilter::to_add) {
            Some((FilterValue::Complete(filter), log)) => KeyValue::Present((filter, log)),
            Some((FilterValue::Loading(_), _)) => KeyValue::Loading,
            None => KeyValue::WrongType,
        }
    }

    fn position(&mut self) -> Result<FollowPosition, CommandError> {
        let context = self.context;
        let stored = self.stored_filter().ok_or(CommandError::WrongType)?;
        let rare = stored.state.rare.get_or_insert_default();
        // SAFETY: the context is that of the running command.
        unsafe { rare.followers.position(context) }
    }

    fn changes(
        &mut self,
        position: FollowPosition,
        most_records: usize,
    ) -> Result<FollowChanges, CommandError> {
        let stored = self.stored_filter().ok_or(CommandError::WrongType)?;
        let rare = stored.state.rare.as_ref();
        let changes =
            rare.map_or(Ok(FollowChanges::Lost), |rare| rare.followers.changes(position, most_records));
        changes.map_err(|_| CommandError::OutOfMemory)
    }

    fn allocated_bytes(&mut self) -> u64 {
        self.stored_filter().map_or(0, |stored| stored.allocated_bytes() as u64)
    }

    #[inline(always)]
    fn changed(&mut self, items_added: u64, item: Option<&[u8]>) -> u32 {
        let before = self.counts;
        match self.stored() {
            Some(FoundRef::Filter(stored)) => stored.changed(before.as_ref(), items_added, item),
            Some(FoundRef::Cuckoo(stored)) => {
                stored.changed();
                0
            }
            None => 0,
        }
    }

    fn altered(&mut self, items_before: u64, capacity_before_items: u64) {
        if let Some(stored) = self.stored_filter() {
            stored.altered(items_before, capacity_before_items);
        }
    }

    fn publish(&mut self, value: Value) -> Result<(), CommandError> {
        self.found = None;
        self.note_change();
        let is_set = self.key.is_some_and(|key| match value {
            Value::Filter(filter) => {
                let data_type = datatype::filter_type(filter.format());
                // SAFETY: the key is open, and this is the type of the filter.
                unsafe { datatype::set_value(key, data_type, FilterValue::Complete(*filter)) }
            }
            Value::Loading(loading) => {
                let data_type = datatype::filter_type(loading.filter().format());
                // SAFETY: the key is open, and this is the type of the filter.
                unsafe { datatype::set_value(key, data_type, FilterValue::Loading(loading)) }
            }
            // SAFETY: the key is open, and this is the type of the filter.
            Value::Cuckoo(filter) => unsafe { datatype::set_value(key, datatype::cuckoo_type(), *filter) },
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
        let (Some(key), Some(set_expire)) = (self.key, api!(RedisModule_SetAbsExpire)) else { return };
        // SAFETY: the key is open. The server refuses a key that is open for reading only, or has no value.
        unsafe { set_expire(key.as_ptr(), at_ms.cast_signed()) };
    }
}

impl Drop for Key<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        let (Some(key), Some(close_key)) = (self.key, api!(RedisModule_CloseKey)) else { return };
        // SAFETY: the key is open and not used again.
        unsafe { close_key(key.as_ptr()) };
    }
}
