//! A simulated server for tests. It runs commands with the same function as the module and records their effects.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use everbloom::bloom::prefetch::NoPrefetch;

use everbloom::bloom::{ByteLimit, Filter, ItemHash, Limit, Memory, Prefetch, UnknownMemory, Validation};
use everbloom::command::table::KeyAccess;
use everbloom::command::{
    COMMANDS, Command, CommandError, Effects, Host, KeyName, KeyValue, Keyspace, OpenKey, Protocol, Refusals,
    ReplicatedCommand, Replication, Reply, Settings, end_after_panic, execute, growth_line,
};

use super::saved::{digested, fingerprint};
use super::{Random, slices};

/// The initial time of the clock.
pub(crate) const NOW_MS: u64 = 1_000_000;

/// Longer bulk replies are shown by their length, since their text would take three times the memory.
const LONGEST_SHOWN_BYTES: usize = 1 << 20;

/// Filters up to this size are fully validated after every command, larger ones without their contents.
const VALIDATED_MAX_BYTES: u64 = 4 << 20;

thread_local! {
    /// The number of calls of commands into this server until one panics; `None` if none does.
    static CALLS_LEFT: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Makes a call of the next command into this server panic: the one with this number, from 0.
pub(crate) fn panic_at(call: u64) {
    CALLS_LEFT.set(Some(call));
}

/// Counts a call of a command into this server.
fn step() {
    let left = CALLS_LEFT.get();
    CALLS_LEFT.set(left.and_then(|left| left.checked_sub(1)));
    assert!(left != Some(0), "a panic that a test has requested");
}

/// A reply as a line of text, such as `*2 :1 -ERR no`.
struct Collected {
    protocol: Protocol,
    words: Vec<String>,
    /// The last bulk reply, byte for byte.
    bulk: Vec<u8>,
    /// Number of replies that are announced but not written yet.
    outstanding: usize,
    watch: fn(bool),
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

/// A server with one database. It has filters only, and a value of another type under the key `string`.
pub(crate) struct Server {
    pub(crate) settings: Settings,
    pub(crate) is_replicated: bool,
    /// The time of the clock.
    pub(crate) now_ms: u64,
    pub(crate) protocol: Protocol,
    drawn: u64,
    /// How often the last command asked for the limit of bytes.
    pub(crate) limit_asked: usize,
    /// The parts of the filter that the last command created, or that its items made a filter gain.
    pub(crate) layers_gained: usize,
    pub(crate) keys: HashMap<Vec<u8>, Filter>,
    /// Strings, for imports.
    pub(crate) strings: HashMap<Vec<u8>, Vec<u8>>,
    /// The replicated commands, one line each.
    pub(crate) replicated: Vec<String>,
    /// The same commands, argument by argument, for arguments that are not text.
    pub(crate) replicated_calls: Vec<Vec<Vec<u8>>>,
    /// The last reply, value by value.
    pub(crate) reply: Vec<String>,
    /// The last bulk reply, byte for byte: values are text.
    pub(crate) bulk: Vec<u8>,
    /// The expiry times of keys, in milliseconds of UNIX time.
    pub(crate) expiries: Vec<(String, u64)>,
    /// Keyspace events.
    pub(crate) events: Vec<&'static str>,
    /// Called when a command begins and when it ends, so that a test can measure the command without this server.
    pub(crate) watch: fn(bool),
    /// Lines for the log.
    pub(crate) log: Vec<String>,
    refusals: Refusals,
    /// Whether the last command panicked as a test has requested.
    pub(crate) has_panicked: bool,
    /// Whether the server has ended: it has aborted or exited.
    pub(crate) has_ended: bool,
}

/// The database during one command.
struct Database<'s> {
    expiries: RefCell<Vec<(String, u64)>>,
    settings: Settings,
    is_replicated: bool,
    now_ms: u64,
    /// The number of random numbers that were drawn so far.
    drawn: Cell<u64>,
    limit_asked: Cell<usize>,
    filters: RefCell<HashMap<Vec<u8>, Filter>>,
    strings: &'s HashMap<Vec<u8>, Vec<u8>>,
    /// Whether a filter was open for writing, or was published.
    may_have_changed: Cell<bool>,
    has_ended: Cell<bool>,
    /// Whether the value of a key was looked up.
    has_looked_up: Cell<bool>,
}

impl ByteLimit for Database<'_> {
    fn limit(&self) -> Limit {
        step();
        self.limit_asked.set(self.limit_asked.get() + 1);
        if self.is_replicated { u64::MAX.into() } else { self.settings.max_filter_bytes.into() }
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
struct TestKey<'k> {
    expiries: &'k RefCell<Vec<(String, u64)>>,
    filters: &'k RefCell<HashMap<Vec<u8>, Filter>>,
    may_have_changed: &'k Cell<bool>,
    has_looked_up: &'k Cell<bool>,
    name: Vec<u8>,
    filter: Option<Filter>,
    parts: usize,
    access: KeyAccess,
    now_ms: u64,
    is_replicated: bool,
}

impl OpenKey for TestKey<'_> {
    fn slot(&mut self) -> KeyValue<&mut Filter> {
        step();
        self.has_looked_up.set(true);
        let is_writable = self.access == KeyAccess::ReadWrite && self.filter.is_some();
        self.may_have_changed.set(self.may_have_changed.get() || is_writable);
        self.parts = self.filter.as_ref().map_or(0, Filter::part_count);
        let (now_ms, is_replayed) = (self.now_ms, self.is_replicated && self.access == KeyAccess::ReadWrite);
        if let Some(filter) = &mut self.filter {
            filter.set_time(|| now_ms, || is_replayed);
        }
        match &mut self.filter {
            // `string` has another type.
            _ if self.name == b"string" => KeyValue::WrongType,
            Some(filter) => KeyValue::Present(filter),
            None => KeyValue::Vacant,
        }
    }

    fn allocated_bytes(&mut self) -> u64 {
        self.filter.as_ref().map_or(0, |filter| filter.size_bytes() + 9)
    }

    fn changed(&mut self, _items_added: u64) -> u32 {
        step();
        assert!(self.access == KeyAccess::ReadWrite && self.filter.is_some());
        (self.filter.as_ref().map_or(0, Filter::part_count) - self.parts) as u32
    }

    fn altered(&mut self, _items_before: u64, _capacity_before_items: u64) {
        step();
        assert!(self.access == KeyAccess::ReadWrite && self.filter.is_some());
    }

    fn expire_at(&mut self, at_ms: u64) {
        step();
        assert!(self.access == KeyAccess::ReadWrite && self.filter.is_some());
        self.expiries.borrow_mut().push((String::from_utf8_lossy(&self.name).into_owned(), at_ms));
    }

    fn replace(&mut self, filter: Filter) {
        step();
        assert!(self.access == KeyAccess::ReadWrite && self.filter.is_some());
        self.filter = Some(filter);
    }

    fn publish(&mut self, filter: Box<Filter>) -> Result<(), CommandError> {
        step();
        assert_eq!(self.access, KeyAccess::ReadWrite);
        self.may_have_changed.set(true);
        self.filter = Some(*filter);
        Ok(())
    }
}

impl Drop for TestKey<'_> {
    fn drop(&mut self) {
        if let Some(filter) = self.filter.take() {
            self.filters.borrow_mut().insert(std::mem::take(&mut self.name), filter);
        }
    }
}

impl Keyspace for Database<'_> {
    type Key<'k>
        = TestKey<'k>
    where
        Self: 'k;

    fn open(&self, name: KeyName<'_>, access: KeyAccess) -> TestKey<'_> {
        step();
        // Other modules are notified of a key that expires when it is opened, and may free a value.
        assert!(!self.has_looked_up.get(), "a key is opened after the value of another one was looked up");
        let filter = self.filters.borrow_mut().remove(name.bytes);
        TestKey {
            expiries: &self.expiries,
            filters: &self.filters,
            may_have_changed: &self.may_have_changed,
            has_looked_up: &self.has_looked_up,
            name: name.bytes.to_vec(),
            filter,
            parts: 0,
            access,
            now_ms: self.now_ms,
            is_replicated: self.is_replicated,
        }
    }

    /// Returns an error for the key `secret`, which no client may read.
    fn may_read(&self, source: KeyName<'_>, _first: KeyName<'_>) -> Result<(), CommandError> {
        if source.bytes == b"secret" { Err(CommandError::SourceDenied) } else { Ok(()) }
    }

    /// Returns whether the key begins with `migrating`. Such keys are on another node.
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

    /// The settings of `users`.
    fn field(&self, key: &[u8], field: &str) -> Option<Vec<u8>> {
        if key != b"{users}:config" {
            return None;
        }
        let fields = [("size", "700"), ("hashIterations", "5"), ("expectedInsertions", "50")];
        fields.iter().find(|(name, _)| *name == field).map(|(_, value)| value.as_bytes().to_vec())
    }

    fn prefetch(&self) -> impl Prefetch {
        NoPrefetch
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

/// No information about memory; counts the calls.
#[derive(Clone, Copy)]
struct StepMemory;

impl Memory for StepMemory {
    fn written_parts(self, words: &[u64], visit: &mut dyn FnMut(Range<usize>)) {
        step();
        UnknownMemory.written_parts(words, visit);
    }
}

impl Server {
    pub(crate) fn new() -> Self {
        Self {
            settings: Settings::DEFAULT,
            is_replicated: false,
            now_ms: NOW_MS,
            protocol: Protocol::Resp2,
            drawn: 0,
            limit_asked: 0,
            layers_gained: 0,
            keys: HashMap::new(),
            strings: HashMap::new(),
            replicated: Vec::new(),
            replicated_calls: Vec::new(),
            reply: Vec::new(),
            bulk: Vec::new(),
            expiries: Vec::new(),
            events: Vec::new(),
            watch: |_| {},
            log: Vec::new(),
            refusals: Refusals::new(),
            has_panicked: false,
            has_ended: false,
        }
    }

    /// Returns a server whose clock shows this time.
    pub(crate) fn at(now_ms: u64) -> Self {
        Self { now_ms, ..Self::new() }
    }

    /// Returns the filter under a key, which must be there.
    pub(crate) fn filter(&self, key: &str) -> &Filter {
        &self.keys[key.as_bytes()]
    }

    /// Stores a copy of a filter under another key, without its dumps.
    pub(crate) fn copy(&mut self, from: &str, to: &str) {
        let copy = self.filter(from).try_clone(UnknownMemory).unwrap();
        self.keys.insert(to.as_bytes().to_vec(), copy);
    }

    /// Returns everything in which the filters under a key can differ.
    pub(crate) fn digested(&self, key: &str) -> Vec<u8> {
        digested(self.filter(key))
    }

    /// Returns a hash of everything in which each filter can differ.
    pub(crate) fn state(&self) -> BTreeMap<Vec<u8>, ItemHash> {
        self.keys.iter().map(|(key, filter)| (key.clone(), fingerprint(filter))).collect()
    }

    /// Runs the replicated commands on a replica with these settings, and checks that it has the same filters.
    pub(crate) fn assert_replicated(&self, settings: Settings) {
        let mut replica = Self { settings, ..Self::at(self.now_ms) };
        replica.replay(&self.replicated_calls);
        assert_eq!(replica.state(), self.state());
    }

    /// Runs replicated commands as a replica does.
    pub(crate) fn replay(&mut self, calls: &[Vec<Vec<u8>>]) {
        self.is_replicated = true;
        for call in calls {
            let reply = self.call(&slices(call));
            assert!(!reply.contains("-ERR"), "{reply} to {}", call.join(&b' ').escape_ascii());
        }
    }

    /// Runs a command line, which must have no error. Returns its reply.
    pub(crate) fn must(&mut self, line: &str) -> String {
        let reply = self.run(line);
        assert!(!reply.starts_with('-') && !reply.contains(" -"), "{line}: {reply}");
        reply
    }

    /// Runs a command on items of this name with these numbers, in batches. Returns all replies.
    pub(crate) fn batches(&mut self, command: &str, name: &str, numbers: Range<u64>) -> String {
        let mut replies = String::new();
        for first in numbers.clone().step_by(1000) {
            let items = (first..numbers.end.min(first + 1000)).map(|number| format!(" {name}{number}"));
            replies += &self.run(&format!("{command}{}", items.collect::<String>()));
        }
        replies
    }

    /// Adds items of this name with these numbers, which must be accepted.
    pub(crate) fn add(&mut self, key: &str, name: &str, numbers: Range<u64>) {
        let replies = self.batches(&format!("BF.MADD {key}"), name, numbers);
        assert!(!replies.contains("-ERR"), "{key}: {replies}");
    }

    /// Returns how many items of this name with these numbers are found.
    pub(crate) fn found(&mut self, key: &str, name: &str, numbers: Range<u64>) -> u64 {
        self.batches(&format!("BF.MEXISTS {key}"), name, numbers).matches("#t").count() as u64
    }

    /// Returns a number of BF.INFO.
    pub(crate) fn number(&mut self, key: &str, field: &str) -> f64 {
        let reply = self.run(&format!("BF.INFO {key} {field}"));
        let text = reply.trim_start_matches("*1 ").trim_start_matches([':', ',']);
        text.parse().unwrap_or_else(|_| panic!("{field} of {key}: {reply}"))
    }

    /// Runs a command line as the module does. Returns its reply.
    pub(crate) fn run(&mut self, line: &str) -> String {
        self.call(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>())
    }

    /// Runs a command like [`Self::run`]. Its arguments may be empty, binary or contain spaces.
    pub(crate) fn call(&mut self, argv: &[&[u8]]) -> String {
        let words: Vec<_> = argv.iter().map(|word| String::from_utf8_lossy(word)).collect();
        let line = words.join(" ");
        let mut keyspace = Database {
            expiries: RefCell::default(),
            settings: self.settings,
            is_replicated: self.is_replicated,
            now_ms: self.now_ms,
            drawn: Cell::new(self.drawn),
            limit_asked: Cell::new(0),
            filters: RefCell::new(std::mem::take(&mut self.keys)),
            strings: &self.strings,
            may_have_changed: Cell::new(false),
            has_ended: Cell::new(false),
            has_looked_up: Cell::new(false),
        };
        let mut reply = Collected {
            protocol: self.protocol,
            words: Vec::new(),
            bulk: Vec::new(),
            outstanding: 1,
            watch: self.watch,
        };
        let command = named(argv[0]);
        (self.watch)(true);
        let is_requested = CALLS_LEFT.get().is_some();
        let run = || execute(command, &argv[1..], &mut keyspace, &mut reply);
        let outcome = catch_unwind(AssertUnwindSafe(run));
        (self.watch)(false);
        self.has_panicked = is_requested && CALLS_LEFT.take().is_none();
        let effects = match outcome {
            Ok(effects) => effects,
            Err(_) if self.has_panicked => {
                end_after_panic(command, &keyspace, &mut reply);
                Effects::default()
            }
            Err(panic) => resume_unwind(panic),
        };
        self.has_ended |= keyspace.has_ended.get();
        assert_eq!(reply.outstanding, 0, "one whole reply to {line}");
        self.drawn = keyspace.drawn.get();
        self.limit_asked = keyspace.limit_asked.get();
        self.keys = keyspace.filters.into_inner();
        for (key, filter) in argv.iter().filter_map(|key| Some((key, self.keys.get(*key)?))) {
            let is_small = filter.size_bytes() <= VALIDATED_MAX_BYTES;
            let depth = if is_small { Validation::Contents } else { Validation::Parts };
            assert_eq!(filter.internal_validate(depth), Ok(()), "{} after {line}", key.escape_ascii());
        }
        self.expiries.extend(keyspace.expiries.into_inner());
        self.carry_out(effects, &line, argv);
        self.reply = reply.words;
        self.bulk = reply.bulk;
        self.reply.join(" ")
    }

    fn carry_out(&mut self, effects: Effects<'_>, line: &str, argv: &[&[u8]]) {
        let Effects {
            replication,
            created,
            cleared,
            expires,
            merged,
            items_added,
            items_deleted,
            layers_added,
            refused,
            ..
        } = effects;
        self.layers_gained = layers_added as usize + usize::from(created);
        if let Some(error) = refused {
            self.log.extend(self.refusals.line(0, argv[1], error, self.now_ms));
        }
        match replication {
            Replication::None => {
                assert_eq!((created, cleared, items_added, items_deleted), (false, false, 0, 0));
            }
            Replication::Verbatim => {
                self.replicated.push(line.to_owned());
                self.replicated_calls.push(argv.iter().map(|word| word.to_vec()).collect());
            }
            Replication::Rewritten(lines) => {
                for ReplicatedCommand { command, arguments } in lines {
                    let words = arguments.iter().map(|word| word.to_vec());
                    let call = std::iter::once(command.as_bytes().to_vec()).chain(words).collect();
                    self.replicated_calls.push(call);
                    let words = arguments.iter().map(|word| String::from_utf8_lossy(word).into_owned());
                    let line = std::iter::once(command.to_owned()).chain(words).collect::<Vec<_>>().join(" ");
                    self.replicated.push(line);
                }
            }
        }
        self.events.extend(created.then_some("bloom.reserve"));
        self.events.extend(merged.then_some("bloom.merge"));
        self.events.extend(expires.then_some("expire"));
        self.events.extend(cleared.then_some("bloom.clear"));
        self.events.extend((items_added > 0).then_some("bloom.add"));
        self.events.extend((items_deleted > 0).then_some("bloom.del"));
        if layers_added > 0 {
            self.events.push("bloom.grow");
            let key = argv[1];
            self.log.extend(growth_line(key, &self.keys[key], layers_added));
        }
    }
}

fn named(name: &[u8]) -> Command {
    let matches = |command: &Command| command.spec().name.as_bytes().eq_ignore_ascii_case(name);
    COMMANDS.into_iter().find(matches).expect("a known command")
}

/// Runs each line on one server and compares its reply.
pub(crate) fn assert_dialogue(server: &mut Server, dialogue: &[(&str, &str)]) {
    for (line, expected) in dialogue {
        assert_eq!(server.run(line), *expected, "{line}");
    }
}
