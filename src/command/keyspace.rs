//! The server from a command's view: its settings, its keys, the source of the command, and the reply to the client.
//! The server implements [`Host`], [`Keyspace`], [`ReadKey`], [`WriteKey`] and [`Reply`]; the tests have another implementation.

use super::error::CommandError;
use super::rings::{FollowChanges, FollowPosition};
use super::table::Command;
use everbloom_filter::cuckoo::filter::CuckooFilter;
use everbloom_filter::filter::dumps::Remembered;
use everbloom_filter::filter::loading::{FilterValue, LoadingFilter};
use everbloom_filter::hash::siphash::SEED_BYTES;
use everbloom_filter::limits::{
    CAPACITY_DEFAULT_ITEMS, ERROR_RATE_DEFAULT, EXPANSION_DEFAULT, FILTER_DEFAULT_MAX_BYTES,
    FOLLOW_LOG_DEFAULT_BYTES, FOLLOW_TOTAL_DEFAULT_BYTES,
};
use everbloom_filter::{ByteLimit, Filter, Format, Log, Memory, Prefetch};

/// The configuration of the module.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// `bf.error-rate`: error rate of filters created without one, strictly between 0 and 1.
    pub error_rate: f64,
    /// `bf.initial-size`: capacity in items of filters created without one.
    pub initial_size_items: u64,
    /// `bf.expansion-factor`: expansion of filters created without one; 0 makes them fixed.
    pub expansion_factor: u32,
    /// `bf.max-filter-bytes`: largest filter that a client may create, grow or load.
    pub max_filter_bytes: u64,
    /// `bf.format`: format of filters created without one.
    pub format: Format,
    /// `bf.missing-filter`: whether BF.EXISTS, BF.MEXISTS, BF.BULKEXISTS, BF.TTL and BF.PTTL return an error for a key that
    /// does not exist.
    pub missing_filter_is_error: bool,
    /// `bf.auto-create`: whether BF.ADD and BF.MADD create the filter.
    pub auto_create: bool,
    /// `bf.on-full`: whether fixed filters created without SATURATE accept items when they are full.
    pub fixed_filters_saturate: bool,
    /// `bf.keyed`: whether filters created in everbloom's format are keyed.
    pub keyed: bool,
    /// `bf.assume-redisbloom-1-1`: whether loaded filters that RedisBloom 1.1 may have written are read as such.
    pub assume_redisbloom_1_1: bool,
    /// `bf.follow-log-bytes`: most bytes of the records of a filter that somebody follows.
    pub follow_log_bytes: u64,
    /// `bf.follow-total-bytes`: most bytes of these records of all filters; 0 switches BF.FOLLOW off.
    pub follow_total_bytes: u64,
    /// The settings of cuckoo filters of RedisBloom.
    pub cuckoo: CuckooSettings,
}

/// The settings of cuckoo filters of RedisBloom. Counting filters do not have them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CuckooSettings {
    /// `bf.cuckoo-bucket-size`: slots of a bucket of filters created without BUCKETSIZE, 1 to 255.
    pub bucket_size_slots: u8,
    /// `bf.cuckoo-initial-size`: capacity in items of filters created without one.
    pub initial_size_items: u64,
    /// `bf.cuckoo-max-iterations`: most fingerprints that an add moves, in filters created without MAXITERATIONS.
    pub max_iterations: u16,
    /// `bf.cuckoo-expansion-factor`: expansion of filters created without one; 0 makes them fixed.
    pub expansion_factor: u32,
    /// `bf.cuckoo-max-expansions`: a filter with this many arrays refuses adds.
    pub max_expansions: usize,
}

impl CuckooSettings {
    /// The defaults, which are those of RedisBloom.
    pub const DEFAULT: Self = Self {
        bucket_size_slots: 2,
        initial_size_items: 1024,
        max_iterations: 20,
        expansion_factor: 1,
        max_expansions: 32,
    };
}

impl Settings {
    /// The defaults.
    pub const DEFAULT: Self = Self {
        error_rate: ERROR_RATE_DEFAULT,
        initial_size_items: CAPACITY_DEFAULT_ITEMS,
        expansion_factor: EXPANSION_DEFAULT,
        max_filter_bytes: FILTER_DEFAULT_MAX_BYTES,
        format: Format::Everbloom,
        missing_filter_is_error: false,
        auto_create: true,
        fixed_filters_saturate: false,
        keyed: false,
        assume_redisbloom_1_1: false,
        follow_log_bytes: FOLLOW_LOG_DEFAULT_BYTES,
        follow_total_bytes: FOLLOW_TOTAL_DEFAULT_BYTES,
        cuckoo: CuckooSettings::DEFAULT,
    };
}

/// The server that runs a command. Its [`ByteLimit`] is the smaller of `bf.max-filter-bytes` and the memory of the
/// server. Replicated commands have no limit.
pub trait Host: ByteLimit {
    /// Returns the configuration.
    fn settings(&self) -> Settings;
    /// Returns whether the command is replicated: from the primary, the append-only file, or the node that a slot
    /// migrates from. The settings do not restrict such a command.
    fn is_replicated(&self) -> bool;
    /// Returns the smallest capacity of a cuckoo filter created without BUCKETSIZE, in items: two buckets, as in
    /// RedisBloom. The settings of the server that replicates the command are unknown.
    fn cuckoo_capacity_min_items(&self) -> u64 {
        let slots = if self.is_replicated() { 1 } else { self.settings().cuckoo.bucket_size_slots };
        u64::from(slots).saturating_mul(2)
    }
    /// Returns whether the command is from the primary or the append-only file. If such a command fails, this server
    /// lacks data that the primary or the file has, and must not continue.
    fn must_succeed(&self) -> bool;
    /// Returns the current time in milliseconds of UNIX time.
    fn now_ms(&self) -> u64;
    /// Returns unpredictable bytes, for the seed of a filter in valkey-bloom's format or the key of a keyed filter.
    fn random_seed(&self) -> [u8; SEED_BYTES];
    /// Returns an unpredictable number.
    fn random_number(&self) -> u64 {
        let seed = self.random_seed();
        seed.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
    }
}

/// The name of a key, and its position among the arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyName<'a> {
    /// The bytes of the name.
    pub bytes: &'a [u8],
    /// The position among the arguments after the command's name, from 0.
    pub position: usize,
}

/// The value of a key. The expected type is a filter, or the string that BF.IMPORT reads.
#[derive(Debug)]
pub enum KeyValue<V> {
    /// No such key.
    Vacant,
    /// A value of the expected type.
    Present(V),
    /// A value of another type.
    WrongType,
    /// A filter that is being loaded. It takes chunks only.
    Loading,
    /// A value that the server is saving without a fork. It can be read but not be written to, so it is unknown here what it
    /// is. Only a key that is opened for writing has this value, and not in a command that the server runs for a client: the
    /// server lets those wait.
    InUse,
}

impl<V> KeyValue<V> {
    /// Returns what `next` makes of the value, if there is one.
    #[inline(always)]
    pub fn and_then<N>(self, next: impl FnOnce(V) -> KeyValue<N>) -> KeyValue<N> {
        match self {
            Self::Present(value) => next(value),
            Self::Vacant => KeyValue::Vacant,
            Self::WrongType => KeyValue::WrongType,
            Self::Loading => KeyValue::Loading,
            Self::InUse => KeyValue::InUse,
        }
    }

    /// Returns the value, if there is one.
    ///
    /// # Errors
    /// [`CommandError::WrongType`], [`CommandError::Loading`] and [`CommandError::InUse`].
    #[inline(always)]
    pub fn present(self) -> Result<Option<V>, CommandError> {
        match self {
            Self::Vacant => Ok(None),
            Self::Present(value) => Ok(Some(value)),
            Self::WrongType => Err(CommandError::WrongType),
            Self::Loading => Err(CommandError::Loading),
            Self::InUse => Err(CommandError::InUse),
        }
    }

    /// Returns the value, which must exist.
    ///
    /// # Errors
    /// Those of [`present`](Self::present), and [`CommandError::NotFound`].
    #[inline(always)]
    pub fn required(self) -> Result<V, CommandError> {
        self.present()?.ok_or(CommandError::NotFound)
    }

    /// Checks that there is no value.
    ///
    /// # Errors
    /// Those of [`present`](Self::present), and `taken` if there is a value.
    pub fn vacant(self, taken: CommandError) -> Result<(), CommandError> {
        if self.present()?.is_none() { Ok(()) } else { Err(taken) }
    }
}

impl<F, C> KeyValue<Found<F, C>> {
    /// Returns the filter. A cuckoo filter is of another type.
    #[inline(always)]
    pub fn filter(self) -> KeyValue<F> {
        self.and_then(|value| match value {
            Found::Filter(filter) => KeyValue::Present(filter),
            Found::Cuckoo(_) => KeyValue::WrongType,
        })
    }
}

/// A value to put under a key.
#[derive(Debug)]
pub enum Value {
    /// A filter with bits, a table, or both.
    Filter(Box<Filter>),
    /// A cuckoo filter of RedisBloom.
    Cuckoo(Box<CuckooFilter>),
    /// A filter that is being loaded.
    Loading(Box<LoadingFilter>),
}

/// The value of an open key.
#[derive(Clone, Copy, Debug)]
pub enum Found<F, C> {
    /// A filter with bits, a table, or both.
    Filter(F),
    /// A cuckoo filter of RedisBloom.
    Cuckoo(C),
}

/// The value of a key that is open for reading.
pub type ValueRef<'v> = Found<&'v Filter, &'v CuckooFilter>;
/// The value of a key that is open for writing.
pub type ValueMut<'v> = Found<&'v mut Filter, &'v mut CuckooFilter>;

/// The keys of the selected database, and the server.
pub trait Keyspace: Host {
    /// A key that is open for reading.
    type ReadKey<'k>: ReadKey
    where
        Self: 'k;

    /// A key that is open for writing.
    type WriteKey<'k>: WriteKey
    where
        Self: 'k;

    /// Opens a key for reading, until the returned value is dropped. All keys of a command must be opened before the value of
    /// one is looked up.
    fn open_to_read(&self, name: KeyName<'_>) -> Self::ReadKey<'_>;

    /// Opens a key for writing, as [`open_to_read`](Self::open_to_read). It must not be opened again.
    fn open_to_write(&self, name: KeyName<'_>) -> Self::WriteKey<'_>;

    /// Checks that the client may read `source`. The server itself checks only `first`, the first key of a command.
    /// This must be called before `source` is opened.
    ///
    /// # Errors
    /// [`CommandError::SourceDenied`], [`CommandError::SourceSlot`] and [`CommandError::SourceMoving`].
    fn may_read(&self, source: KeyName<'_>, first: KeyName<'_>) -> Result<(), CommandError>;

    /// Returns whether `key`, which was not found, may be on another node because the slot of `first` is migrating. No
    /// key may be open.
    fn may_be_migrating(&self, key: &[u8], first: KeyName<'_>) -> bool;

    /// Calls `read` with the string under a key, and returns its result. The key must not be open.
    fn with_string<T>(&self, name: KeyName<'_>, read: impl FnOnce(KeyValue<&'_ [u8]>) -> T) -> T;

    /// Returns a field of the hash under a key, if it exists and the client may read it.
    fn field(&self, key: &[u8], field: &str) -> Option<Vec<u8>>;

    /// Returns the prefetch instruction.
    fn prefetch(&self) -> impl Prefetch;

    /// Returns information about memory that was never written to.
    fn memory(&self) -> impl Memory;

    /// Exits the server after a failed command from the primary or the append-only file, because this server lacks the
    /// data of the command. The implementation for tests returns.
    fn lost(&self, command: Command, error: &CommandError);

    /// Returns whether the command may have changed a key: it has looked up a filter that is open for writing, or has
    /// published one.
    fn may_have_changed(&self) -> bool;

    /// Aborts the server after a panic that left a filter in an unknown state. The implementation for tests returns.
    fn abort(&self);
}

/// A key that is open for reading. Its value is borrowed shared, because the server may save it on another thread at the same
/// time. The time of a lookup is an argument of the lookup: see [`Filter::generation_at`].
pub trait ReadKey {
    /// Returns the value of the key.
    fn value(&self) -> KeyValue<ValueRef<'_>>;

    /// Returns the filter under the key. A cuckoo filter is of another type.
    #[inline(always)]
    fn slot(&self) -> KeyValue<&Filter> {
        self.value().filter()
    }

    /// Returns the bytes that the allocator has set aside for the filter that [`slot`](Self::slot) returned. O(layers).
    fn allocated_bytes(&self) -> u64;

    /// Calls `update` with the filter under the key, and what reading commands remember about it. Returns its result; `None`
    /// if there is no filter.
    fn remember<T>(&mut self, update: impl FnOnce(&Filter, &mut Remembered) -> T) -> Option<T>;

    /// Returns the position after the last change of the filter that [`slot`](Self::slot) returned. From now on its
    /// changes are kept for followers.
    ///
    /// # Errors
    /// [`CommandError::FollowOff`].
    fn position(&mut self) -> Result<FollowPosition, CommandError>;

    /// Returns the changes of the filter that [`slot`](Self::slot) returned since a position, at most `most_records`.
    ///
    /// # Errors
    /// [`CommandError::OutOfMemory`].
    fn changes(
        &mut self,
        position: FollowPosition,
        most_records: usize,
    ) -> Result<FollowChanges, CommandError>;
}

/// A key that is open for writing.
pub trait WriteKey {
    /// Returns the value of the key. Sets the time of a sliding-window filter ([`Filter::set_time`]): to the time of
    /// the command, or to the newest generation if the command is replicated.
    fn value(&mut self) -> KeyValue<ValueMut<'_>>;

    /// Returns the filter under the key, complete or not, after [`value`](Self::value). Only BF.LOADCHUNK uses it.
    fn filter_value(&mut self) -> Option<&mut FilterValue>;

    /// Returns the filter under the key. A cuckoo filter is of another type.
    #[inline(always)]
    fn slot(&mut self) -> KeyValue<&mut Filter> {
        self.value().filter()
    }

    /// Returns the filter under the key to add items, as [`slot`](Self::slot) does, with the log of what they store.
    fn slot_to_add(&mut self) -> KeyValue<(&mut Filter, Log<'_>)>;

    /// Updates the statistics after a change of the filter that added `items_added` items, which may be 0. After a
    /// merge, [`altered`](Self::altered) does this. `item` is the item of an [`add`](Filter::add), which no log has yet.
    /// Returns the number of layers and tables that the filter has gained.
    fn changed(&mut self, items_added: u64, item: Option<&[u8]>) -> u32;

    /// Updates the statistics after a merge into the filter. `before` is what the filter was before the merge.
    fn altered(&mut self, before: MergedInto);

    /// Puts a value under the key, in place of its value.
    ///
    /// # Errors
    /// [`CommandError::Internal`] if the server refuses it. The key is unchanged.
    fn publish(&mut self, value: Value) -> Result<(), CommandError>;

    /// Replaces the filter that [`slot`](Self::slot) returned by another one of the same format. The key keeps its
    /// time to live. The old filter is freed, in the background if it is large.
    fn replace(&mut self, filter: Filter);

    /// Sets the time at which the key, which has a filter, expires, in milliseconds of UNIX time.
    fn expire_at(&mut self, at_ms: u64);
}

/// What a filter was before other filters were merged into it.
#[derive(Clone, Copy, Debug)]
pub struct MergedInto {
    /// Its items.
    pub items: u64,
    /// Its [capacity](Filter::counted_capacity_items).
    pub capacity_items: u64,
    /// The [end](Filter::dump_end) of its dumps. A merge that moves positions changes it, which ends the last dump.
    pub dump_end: u64,
}

impl MergedInto {
    /// Returns what the filter is. O(layers).
    #[must_use]
    pub fn of(filter: &Filter) -> Self {
        let (items, capacity_items) = (filter.items(), filter.counted_capacity_items());
        Self { items, capacity_items, dump_end: filter.dump_end() }
    }
}

/// The protocol version of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// RESP2: no booleans, no maps.
    Resp2,
    /// RESP3.
    Resp3,
}

/// A writer of replies. The length of an aggregate comes first, followed by that many replies.
pub trait Reply {
    /// Returns the protocol of the client, for replies whose form depends on it.
    fn protocol(&self) -> Protocol;
    /// Writes a simple string: `+text`.
    fn simple(&mut self, text: &'static str);
    /// Writes an error: `-text`. The text begins with its code.
    fn error(&mut self, text: &str);
    /// Writes `:number`.
    fn integer(&mut self, number: u64);
    /// Writes `:number`, which may be negative.
    fn signed(&mut self, number: i64);
    /// Writes `#t` or `#f`; in RESP2 `:1` or `:0`.
    fn boolean(&mut self, value: bool);
    /// Writes `,number`; in RESP2 a bulk string of the shortest text that parses to the same number.
    fn double(&mut self, number: f64);
    /// Writes `_`; in RESP2 `$-1`.
    fn null(&mut self);
    /// Writes `$length bytes`.
    fn bulk(&mut self, bytes: &[u8]);
    /// Writes `*length`.
    fn array(&mut self, length: usize);
    /// Writes `%pairs`; in RESP2 `*` with twice that number. Keys and values follow alternately.
    fn map(&mut self, pairs: usize);
    /// Writes the error in place of every announced reply that is missing, so that the client stays in sync after a
    /// command that failed in the middle.
    fn error_for_the_rest(&mut self, text: &str);
}
