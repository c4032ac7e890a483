//! Implements the traits through which a command uses the simulated server: the reply, the keys and the host.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;

use everbloom_command::rings::{FollowChanges, FollowPosition, RingId, RingLimits, Rings};
use everbloom_command::totals::{CountedFilter, FilterTotals};
use everbloom_command::{
    Command, CommandError, Found, Host, KeyName, KeyValue, Keyspace, MergedInto, Protocol, ReadKey, Reply,
    Settings, Value, ValueMut, ValueRef, WriteKey,
};
use everbloom_filter::cuckoo::filter::CuckooFilter;
use everbloom_filter::filter::dumps::Remembered;
use everbloom_filter::filter::loading::FilterValue;
use everbloom_filter::{
    AddLog, AddPlace, ByteLimit, Filter, FilterCounts, ItemHash, Kind, Limit, Log, Memory, Prefetch,
    UnknownMemory,
};

use super::Random;
use super::processors::BothProcessors;

/// Longer bulk replies are shown by their length, since their text would take three times the memory.
const LONGEST_SHOWN_BYTES: usize = 1 << 20;

thread_local! {
    /// The number of calls that a command can make into this server before one panics; `None` if none panics.
    pub static CALLS_LEFT: Cell<Option<u64>> = const { Cell::new(None) };
}

thread_local! {
    /// The limit that a command gets if it asks again before it refuses a filter; `None` if the limit stays.
    static RAISED_MAX_BYTES: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Raises the limit after the next command has asked for it.
pub fn raise_limit_to(max_bytes: u64) {
    RAISED_MAX_BYTES.set(Some(max_bytes));
}

/// Makes the next command panic when it calls into this server. Its calls are counted from 0, and number `call` panics.
pub fn panic_at(call: u64) {
    CALLS_LEFT.set(Some(call));
}

/// Counts a call of a command into this server, and panics if a test has chosen this call.
fn step() {
    let left = CALLS_LEFT.get();
    CALLS_LEFT.set(left.and_then(|left| left.checked_sub(1)));
    assert!(left != Some(0), "a panic that a test has requested");
}

/// A reply as a line of text, such as `*2 :1 -ERR no`.
pub struct Collected {
    pub protocol: Protocol,
    pub words: Vec<String>,
    /// The last bulk reply, byte for byte.
    pub bulk: Vec<u8>,
    /// The number of values that the reply has announced but not written yet.
    pub outstanding: usize,
    pub watch: fn(bool),
}

impl Collected {
    fn push(&mut self, word: impl Into<String>) {
        step();
        (self.watch)(false);
        self.words.push(word.into());
        (self.watch)(true);
        self.outstanding = self.outstanding.checked_sub(1).expect("a place for the reply");
    }
}

impl Reply for Collected {
    fn protocol(&self) -> Protocol {
        self.protocol
    }
    fn simple(&mut self, text: &'static str) {
        self.push(format!("+{text}"));
    }
    fn error(&mut self, text: &str) {
        self.push(format!("-{text}"));
    }
    fn integer(&mut self, number: u64) {
        self.push(format!(":{number}"));
    }
    fn signed(&mut self, number: i64) {
        self.push(format!(":{number}"));
    }
    fn boolean(&mut self, value: bool) {
        self.push(if value { "#t" } else { "#f" });
    }
    fn double(&mut self, number: f64) {
        self.push(format!(",{number}"));
    }
    fn null(&mut self) {
        self.push("_");
    }
    fn bulk(&mut self, bytes: &[u8]) {
        (self.watch)(false);
        let text = match bytes.len() {
            0..=LONGEST_SHOWN_BYTES => String::from_utf8_lossy(bytes).into_owned(),
            length_bytes => format!("{length_bytes} bytes"),
        };
        self.bulk = bytes.to_vec();
        self.push(format!("${text}"));
    }
    fn array(&mut self, length: usize) {
        self.push(format!("*{length}"));
        self.outstanding += length;
    }
    fn map(&mut self, pairs: usize) {
        self.push(format!("%{pairs}"));
        self.outstanding += 2 * pairs;
    }
    fn error_for_the_rest(&mut self, text: &str) {
        while self.outstanding > 0 {
            self.error(text);
        }
    }
}

/// The ring of a filter, which ends with this value.
pub struct TestRing {
    id: RingId,
    rings: Rc<RefCell<Rings>>,
    settings: Settings,
}

/// Returns the limits of the settings.
fn limits(settings: &Settings) -> RingLimits<'static> {
    RingLimits {
        ring_bytes: settings.follow_log_bytes,
        total_bytes: settings.follow_total_bytes,
        may_grow: &|| true,
    }
}

impl AddLog for TestRing {
    fn stored(&mut self, place: AddPlace, hashes: &mut dyn Iterator<Item = ItemHash>) {
        if !self.rings.borrow_mut().append(self.id, &place, hashes, limits(&self.settings)) {
            self.id = 0;
        }
    }

    fn changed(&mut self) {
        self.rings.borrow_mut().end(self.id);
        self.id = 0;
    }
}

impl Drop for TestRing {
    fn drop(&mut self) {
        self.rings.borrow_mut().end(self.id);
    }
}

/// The database during one command.
pub struct Database<'s> {
    pub expiries: RefCell<Vec<(String, u64)>>,
    pub settings: Settings,
    pub is_replicated: bool,
    pub now_ms: u64,
    /// The number of random numbers that were drawn so far.
    pub drawn: Cell<u64>,
    pub limit_asked: Cell<usize>,
    pub filters: RefCell<BTreeMap<Vec<u8>, FilterValue>>,
    pub cuckoos: RefCell<BTreeMap<Vec<u8>, CuckooFilter>>,
    pub strings: &'s BTreeMap<Vec<u8>, Vec<u8>>,
    /// The totals that INFO shows, and the part of each filter.
    pub totals: &'s FilterTotals,
    pub counted: RefCell<BTreeMap<Vec<u8>, CountedFilter>>,
    /// What reading commands remember about each filter.
    pub remembered: RefCell<BTreeMap<Vec<u8>, Remembered>>,
    /// The keys whose values are being saved.
    pub in_use: &'s BTreeSet<Vec<u8>>,
    pub rings: Rc<RefCell<Rings>>,
    pub followed: RefCell<BTreeMap<Vec<u8>, TestRing>>,
    /// Whether a filter was open for writing, or was published.
    pub may_have_changed: Cell<bool>,
    pub has_ended: Cell<bool>,
    /// Whether the value of a key was looked up.
    pub has_looked_up: Cell<bool>,
}

impl ByteLimit for Database<'_> {
    fn limit(&self) -> Limit {
        step();
        self.limit_asked.set(self.limit_asked.get() + 1);
        if self.is_replicated { u64::MAX.into() } else { self.settings.max_filter_bytes.into() }
    }
    fn limit_again(&self, limit: Limit) -> Limit {
        RAISED_MAX_BYTES.take().map_or(limit, Limit::from)
    }
}

impl Host for Database<'_> {
    fn settings(&self) -> Settings {
        step();
        self.settings
    }
    fn is_replicated(&self) -> bool {
        self.is_replicated
    }
    fn must_succeed(&self) -> bool {
        self.is_replicated
    }
    fn now_ms(&self) -> u64 {
        self.now_ms
    }
    fn random_seed(&self) -> [u8; 32] {
        std::array::from_fn(|index| if index < 16 { 7 } else { 8 })
    }
    fn random_number(&self) -> u64 {
        self.drawn.set(self.drawn.get() + 1);
        Random(self.drawn.get()).next()
    }
}

/// A key whose filter is taken out of the database while the key is open.
pub struct TestKey<'k> {
    database: &'k Database<'k>,
    name: Vec<u8>,
    filter: Option<FilterValue>,
    cuckoo: Option<CuckooFilter>,
    /// The counts of the filter when it was looked up; `None` if it was being loaded.
    before: Option<FilterCounts>,
    counted: Option<CountedFilter>,
    remembered: Remembered,
    ring: Option<TestRing>,
}

impl<'k> TestKey<'k> {
    fn open(database: &'k Database<'k>, name: KeyName<'_>) -> Self {
        step();
        // If an opened key has expired, other modules are notified. They may then free a value that was looked up
        // before.
        assert!(
            !database.has_looked_up.get(),
            "a key is opened after the value of another one was looked up"
        );
        let filter = database.filters.borrow_mut().remove(name.bytes);
        let cuckoo = database.cuckoos.borrow_mut().remove(name.bytes);
        let counted = database.counted.borrow_mut().remove(name.bytes);
        let remembered = database.remembered.borrow_mut().remove(name.bytes).unwrap_or_default();
        let ring = database.followed.borrow_mut().remove(name.bytes);
        TestKey {
            database,
            name: name.bytes.to_vec(),
            filter,
            cuckoo,
            before: None,
            counted,
            remembered,
            ring,
        }
    }

    /// Sets a new filter, as the module does: the former one is freed.
    fn set(&mut self, filter: FilterValue) {
        let totals = self.database.totals;
        self.ring = None;
        let counted = CountedFilter::count(totals, &filter);
        let former = (self.filter.replace(filter), self.counted.replace(counted));
        self.remembered = Remembered::default();
        if let (Some(filter), Some(counted)) = former {
            counted.uncount(totals, &filter);
        }
    }

    /// Asserts that the key has a filter.
    fn assert_changeable(&self) {
        step();
        assert!(self.filter.is_some() || self.cuckoo.is_some());
    }

    fn bytes(&self) -> u64 {
        self.filter.as_ref().map_or(0, |filter| filter.size_bytes() + 9)
    }
}

/// A key that is open for reading.
pub struct TestReadKey<'k>(TestKey<'k>);

impl ReadKey for TestReadKey<'_> {
    fn value(&self) -> KeyValue<ValueRef<'_>> {
        step();
        self.0.database.has_looked_up.set(true);
        match (&self.0.filter, &self.0.cuckoo) {
            // `string` has another type.
            _ if self.0.name == b"string" => KeyValue::WrongType,
            (_, Some(filter)) => KeyValue::Present(Found::Cuckoo(filter)),
            (Some(FilterValue::Complete(filter)), None) => KeyValue::Present(Found::Filter(filter)),
            (Some(FilterValue::Loading(_)), None) => KeyValue::Loading,
            (None, None) => KeyValue::Vacant,
        }
    }

    fn allocated_bytes(&self) -> u64 {
        self.0.bytes()
    }

    fn remember<T>(&mut self, update: impl FnOnce(&Filter, &mut Remembered) -> T) -> Option<T> {
        step();
        let Some(FilterValue::Complete(filter)) = &self.0.filter else { return None };
        Some(update(filter, &mut self.0.remembered))
    }

    fn position(&mut self) -> Result<FollowPosition, CommandError> {
        step();
        let database = self.0.database;
        if database.settings.follow_total_bytes == 0 {
            return Err(CommandError::FollowOff);
        }
        let (rings, settings) = (database.rings.clone(), database.settings);
        let ring = self.0.ring.get_or_insert_with(|| TestRing { id: 0, rings, settings });
        let mut rings = database.rings.borrow_mut();
        let position = rings.position(ring.id, database.random_number(), database.now_ms, limits(&settings));
        ring.id = position.id;
        Ok(position)
    }

    fn changes(
        &mut self,
        position: FollowPosition,
        most_records: usize,
    ) -> Result<FollowChanges, CommandError> {
        step();
        if self.0.ring.as_ref().is_none_or(|ring| ring.id != position.id) {
            return Ok(FollowChanges::Lost);
        }
        let mut rings = self.0.database.rings.borrow_mut();
        rings.changes(position, most_records, self.0.database.now_ms).map_err(|_| CommandError::OutOfMemory)
    }
}

impl WriteKey for TestKey<'_> {
    fn value(&mut self) -> KeyValue<ValueMut<'_>> {
        step();
        let database = self.database;
        if database.in_use.contains(&self.name) {
            return KeyValue::InUse;
        }
        database.has_looked_up.set(true);
        let is_writable = self.filter.is_some() || self.cuckoo.is_some();
        database.may_have_changed.set(database.may_have_changed.get() || is_writable);
        if let Some(FilterValue::Complete(filter)) = &mut self.filter {
            filter.set_time(|| database.now_ms, || database.is_replicated);
            self.before = Some(filter.counts_since(usize::MAX));
        }
        match (&mut self.filter, &mut self.cuckoo) {
            // `string` has another type.
            _ if self.name == b"string" => KeyValue::WrongType,
            (_, Some(filter)) => KeyValue::Present(Found::Cuckoo(filter)),
            (Some(FilterValue::Complete(filter)), None) => KeyValue::Present(Found::Filter(filter)),
            (Some(FilterValue::Loading(_)), None) => KeyValue::Loading,
            (None, None) => KeyValue::Vacant,
        }
    }

    fn filter_value(&mut self) -> Option<&mut FilterValue> {
        step();
        self.filter.as_mut()
    }

    fn slot_to_add(&mut self) -> KeyValue<(&mut Filter, Log<'_>)> {
        match self.slot() {
            KeyValue::Present(_) => {}
            KeyValue::Vacant => return KeyValue::Vacant,
            KeyValue::WrongType => return KeyValue::WrongType,
            KeyValue::Loading => return KeyValue::Loading,
            KeyValue::InUse => return KeyValue::InUse,
        }
        let Some(FilterValue::Complete(filter)) = &mut self.filter else { return KeyValue::Vacant };
        let log = self.ring.as_mut().filter(|ring| ring.id != 0).map(|ring| {
            ring.settings = self.database.settings;
            ring as &mut dyn AddLog
        });
        KeyValue::Present((filter, log))
    }

    fn changed(&mut self, items_added: u64, item: Option<&[u8]>) -> u32 {
        self.assert_changeable();
        self.remembered.note_change();
        let is_counting = self.filter.as_ref().is_some_and(|value| value.filter().kind() == Kind::Counting);
        if items_added == 0 || is_counting {
            self.ring = None;
        }
        if let (Some(item), Some(ring), Some(value)) = (item, &mut self.ring, &self.filter)
            && ring.id != 0
        {
            ring.settings = self.database.settings;
            value.filter().log_added(item, ring);
        }
        let (Some(filter), Some(counted)) = (&self.filter, &mut self.counted) else { return 0 };
        let Some(before) = &self.before else {
            counted.loaded(self.database.totals, filter);
            return 0;
        };
        counted.changed(self.database.totals, filter, before)
    }

    fn altered(&mut self, before: MergedInto) {
        self.assert_changeable();
        self.ring = None;
        let (Some(filter), Some(counted)) = (&self.filter, &mut self.counted) else { return };
        counted.altered(self.database.totals, filter, before.items, before.capacity_items);
        self.remembered.note_merge(filter.filter(), before.dump_end);
    }

    fn expire_at(&mut self, at_ms: u64) {
        self.assert_changeable();
        self.database.expiries.borrow_mut().push((String::from_utf8_lossy(&self.name).into_owned(), at_ms));
    }

    fn replace(&mut self, filter: Filter) {
        self.assert_changeable();
        self.set(FilterValue::Complete(filter));
    }

    fn publish(&mut self, value: Value) -> Result<(), CommandError> {
        step();
        assert!(!self.database.in_use.contains(&self.name), "a filter is made over one that is in use");
        self.database.may_have_changed.set(true);
        match value {
            Value::Filter(filter) => self.set(FilterValue::Complete(*filter)),
            Value::Loading(loading) => self.set(FilterValue::Loading(loading)),
            Value::Cuckoo(filter) => self.cuckoo = Some(*filter),
        }
        Ok(())
    }
}

impl Drop for TestKey<'_> {
    fn drop(&mut self) {
        if let Some(filter) = self.filter.take() {
            self.database.filters.borrow_mut().insert(self.name.clone(), filter);
            let ring = self.ring.take().map(|ring| (self.name.clone(), ring));
            self.database.followed.borrow_mut().extend(ring);
            let counted = self.counted.take().map(|counted| (self.name.clone(), counted));
            self.database.counted.borrow_mut().extend(counted);
            let remembered = std::mem::take(&mut self.remembered);
            self.database.remembered.borrow_mut().insert(self.name.clone(), remembered);
        }
        if let Some(cuckoo) = self.cuckoo.take() {
            self.database.cuckoos.borrow_mut().insert(std::mem::take(&mut self.name), cuckoo);
        }
    }
}

impl Keyspace for Database<'_> {
    type ReadKey<'k>
        = TestReadKey<'k>
    where
        Self: 'k;

    type WriteKey<'k>
        = TestKey<'k>
    where
        Self: 'k;

    fn open_to_read(&self, name: KeyName<'_>) -> TestReadKey<'_> {
        TestReadKey(TestKey::open(self, name))
    }

    fn open_to_write(&self, name: KeyName<'_>) -> TestKey<'_> {
        TestKey::open(self, name)
    }

    /// Returns an error for the key `secret`, which no client may read.
    fn may_read(&self, source: KeyName<'_>, _first: KeyName<'_>) -> Result<(), CommandError> {
        if source.bytes != b"secret" {
            return Ok(());
        }
        Err(CommandError::SourceDenied { permission: "read", key: "secret".to_owned() })
    }

    /// Returns whether the key or its hash tag begins with `migrating`. Such keys may be on another node.
    fn may_be_migrating(&self, key: &[u8], _first: KeyName<'_>) -> bool {
        key.starts_with(b"migrating") || key.starts_with(b"{migrating")
    }

    /// Passes the string of a key to `read`. Two keys have the string `4`, in which the bits 2, 3 and 5 are set.
    fn with_string<T>(&self, name: KeyName<'_>, read: impl FnOnce(KeyValue<&'_ [u8]>) -> T) -> T {
        step();
        read(match name.bytes {
            b"string" | b"users" => KeyValue::Present(b"4"),
            b"list" => KeyValue::WrongType,
            key => self.strings.get(key).map_or(KeyValue::Vacant, |bytes| KeyValue::Present(bytes)),
        })
    }

    /// Returns a setting of Redisson's filter `users`.
    fn field(&self, key: &[u8], field: &str) -> Option<Vec<u8>> {
        if key != b"{users}:config" {
            return None;
        }
        let fields = [("size", "700"), ("hashIterations", "5"), ("expectedInsertions", "50")];
        fields.iter().find(|(name, _)| *name == field).map(|(_, value)| value.as_bytes().to_vec())
    }

    fn prefetch(&self) -> impl Prefetch {
        BothProcessors
    }

    fn memory(&self) -> impl Memory {
        StepMemory
    }

    fn lost(&self, _command: Command, _error: &CommandError) {
        self.has_ended.set(true);
    }

    fn may_have_changed(&self) -> bool {
        self.may_have_changed.get()
    }

    fn abort(&self) {
        self.has_ended.set(true);
    }
}

/// Provides no information about memory, and counts the calls of a command.
#[derive(Clone, Copy)]
struct StepMemory;

impl Memory for StepMemory {
    fn written_ranges(self, words: &[u64], visit: &mut dyn FnMut(Range<usize>)) {
        step();
        UnknownMemory.written_ranges(words, visit);
    }
}
