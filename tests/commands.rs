//! The language without a server: grammar, replies, and what each change asks of its host.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a test fails by panicking"
)]

use std::collections::HashMap;

use everbloom::bloom::{Bits, ByteLimit, Filter, Format, NoPrefetch};
use everbloom::command::import::{Import, Sources, StringSlot};
use everbloom::command::{
    COMMANDS, Change, Command, Effects, Host, Line, Protocol, Query, Replication, Reply, Request, Settings,
    Slot,
};

use everbloom::format::filter::header;

/// A reply as a line of text, such as `*2 :1 -ERR no`.
struct Collected {
    protocol: Protocol,
    words: Vec<String>,
}

impl Collected {
    fn push(&mut self, word: impl Into<String>) {
        self.words.push(word.into());
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
        self.push(format!("${}", String::from_utf8_lossy(bytes)));
    }
    fn array(&mut self, length: usize) {
        self.push(format!("*{length}"));
    }
    fn map(&mut self, pairs: usize) {
        self.push(format!("%{pairs}"));
    }
}

/// A server of one database without types other than filters and, under the key `string`, something else.
struct Server {
    settings: Settings,
    must_obey: bool,
    protocol: Protocol,
    keys: HashMap<Vec<u8>, Filter>,
    /// What was replicated, one line per command.
    replicated: Vec<String>,
    /// Keyspace events.
    events: Vec<&'static str>,
}

struct Rules {
    settings: Settings,
    must_obey: bool,
}

impl ByteLimit for Rules {
    fn max_filter_bytes(&self) -> u64 {
        if self.must_obey { u64::MAX } else { self.settings.max_filter_bytes }
    }
}

impl Host for Rules {
    fn settings(&self) -> Settings {
        self.settings
    }
    fn must_obey(&self) -> bool {
        self.must_obey
    }
    fn random_seed(&self) -> [u8; 32] {
        [7; 32]
    }
}

impl Server {
    fn new() -> Self {
        Self {
            settings: Settings::DEFAULT,
            must_obey: false,
            protocol: Protocol::Resp2,
            keys: HashMap::new(),
            replicated: Vec::new(),
            events: Vec::new(),
        }
    }

    /// Runs a command line as the host room does and answers with its reply.
    fn run(&mut self, line: &str) -> String {
        let argv: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let host = Rules { settings: self.settings, must_obey: self.must_obey };
        let mut reply = Collected { protocol: self.protocol, words: Vec::new() };
        let command = named(argv[0]);
        let outcome = match Request::parse(command, &argv[1..], &host) {
            Ok(Request::Query(query)) => self.query(query, &argv, &mut reply),
            Ok(Request::Change(change)) => self.change(change, &argv, line, &host, &mut reply),
            Ok(Request::Import(import)) => self.import(*import, &argv, line, &host, &mut reply),
            Err(error) => Err(error),
        };
        match outcome {
            Ok(()) => reply.words.join(" "),
            Err(error) => {
                assert!(reply.words.is_empty(), "an error after a reply to {line}");
                format!("-{error}")
            }
        }
    }

    fn query(
        &mut self,
        query: Query<'_>,
        argv: &[&[u8]],
        reply: &mut Collected,
    ) -> Result<(), everbloom::command::CommandError> {
        let slot = match self.keys.get(argv[1]) {
            _ if argv[1] == b"string" => Slot::WrongType,
            Some(filter) => Slot::Filter(filter),
            None => Slot::Vacant,
        };
        query.run(slot, NoPrefetch, reply).map(|_| ())
    }

    fn change(
        &mut self,
        change: Change<'_>,
        argv: &[&[u8]],
        line: &str,
        host: &Rules,
        reply: &mut Collected,
    ) -> Result<(), everbloom::command::CommandError> {
        let slot = match self.keys.get_mut(argv[1]) {
            _ if argv[1] == b"string" => Slot::WrongType,
            Some(filter) => Slot::Filter(filter),
            None => Slot::Vacant,
        };
        let effects = change.run(slot, host, NoPrefetch, reply)?;
        self.carry_out(effects, argv, line);
        Ok(())
    }

    fn import(
        &mut self,
        import: Import<'_>,
        argv: &[&[u8]],
        line: &str,
        host: &Rules,
        reply: &mut Collected,
    ) -> Result<(), everbloom::command::CommandError> {
        let slot = match self.keys.get_mut(argv[1]) {
            _ if argv[1] == b"string" => Slot::WrongType,
            Some(filter) => Slot::Filter(filter),
            None => Slot::Vacant,
        };
        let effects = {
            let sources = Strings(import.source());
            import.run(&slot, &sources, host)?
        };
        reply.simple("OK");
        self.carry_out(effects, argv, line);
        Ok(())
    }

    fn carry_out(&mut self, effects: Effects<'_>, argv: &[&[u8]], line: &str) {
        let Effects { publish, replication, created, items_added } = effects;
        if let Some(filter) = publish {
            self.keys.insert(argv[1].to_vec(), *filter);
        }
        match replication {
            Replication::None => assert_eq!((created, items_added), (false, 0)),
            Replication::Verbatim => self.replicated.push(line.to_owned()),
            Replication::Rewritten(lines) => {
                for Line { command, arguments } in lines {
                    let words = arguments.iter().map(|word| String::from_utf8_lossy(word).into_owned());
                    let line = std::iter::once(command.to_owned()).chain(words).collect::<Vec<_>>().join(" ");
                    self.replicated.push(line);
                }
            }
        }
        self.events.extend(created.then_some("bloom.reserve"));
        self.events.extend((items_added > 0).then_some("bloom.add"));
    }
}

/// What lies at the keys beside filters: the string `4`, which has bits 2, 3 and 5, and the settings of `users`.
struct Strings<'a>(Option<&'a [u8]>);

impl Sources for Strings<'_> {
    fn string(&self) -> StringSlot<'_> {
        match self.0 {
            Some(b"string" | b"users") => StringSlot::Bytes(b"4"),
            Some(b"list") => StringSlot::WrongType,
            _ => StringSlot::Vacant,
        }
    }

    fn field(&self, key: &[u8], field: &str) -> Option<Vec<u8>> {
        assert_eq!(key, b"{users}:config");
        let fields = [("size", "700"), ("hashIterations", "5"), ("expectedInsertions", "50")];
        fields.iter().find(|(name, _)| *name == field).map(|(_, value)| value.as_bytes().to_vec())
    }
}

fn named(name: &[u8]) -> Command {
    let matches = |command: &Command| command.spec().name.as_bytes().eq_ignore_ascii_case(name);
    COMMANDS.into_iter().find(matches).expect("a known command")
}

/// Runs each line on one server and compares its reply.
fn assert_dialogue(server: &mut Server, dialogue: &[(&str, &str)]) {
    for (line, expected) in dialogue {
        assert_eq!(server.run(line), *expected, "{line}");
    }
}

#[test]
fn reserve_checks_in_redisblooms_order() {
    let dialogue = [
        ("BF.RESERVE k x y", "-ERR bad error rate"),
        ("BF.RESERVE k nan 0", "-ERR bad error rate"),
        ("BF.RESERVE k 0 y", "-ERR error rate must be in the range (0.000000, 1.000000)"),
        ("BF.RESERVE k inf y", "-ERR error rate must be in the range (0.000000, 1.000000)"),
        ("BF.RESERVE k 1 y", "-ERR error rate must be in the range (0.000000, 1.000000)"),
        ("BF.RESERVE k 0.01 1e3 FOO", "-ERR bad capacity"),
        ("BF.RESERVE k 0.01 0 FOO", "-ERR capacity must be in the range [1, 1099511627776]"),
        ("BF.RESERVE k 0.01 -5", "-ERR capacity must be in the range [1, 1099511627776]"),
        ("BF.RESERVE k 0.01 1099511627777", "-ERR capacity must be in the range [1, 1099511627776]"),
        ("BF.RESERVE k 0.01 100 FOO", "-ERR unknown argument 'FOO'"),
        ("BF.RESERVE k 0.01 100 EXPANSION", "-ERR no expansion"),
        ("BF.RESERVE k 0.01 100 NONSCALING EXPANSION", "-ERR no expansion"),
        ("BF.RESERVE k 0.01 100 EXPANSION NONSCALING", "-ERR bad expansion"),
        ("BF.RESERVE k 0.01 100 EXPANSION 1.5", "-ERR bad expansion"),
        ("BF.RESERVE k 0.01 100 EXPANSION -1", "-ERR expansion must be in the range [0, 32768]"),
        ("BF.RESERVE k 0.01 100 EXPANSION 32769", "-ERR expansion must be in the range [0, 32768]"),
        ("BF.RESERVE k 0.01 100 NONSCALING EXPANSION -1", "-Nonscaling filters cannot expand"),
        ("BF.RESERVE k 0.01", "-ERR wrong number of arguments for 'bf.reserve' command"),
        (
            "BF.RESERVE k 0.01 1 EXPANSION 1 EXPANSION 1 EXPANSION 1 EXPANSION 1",
            "-ERR wrong number of arguments for 'bf.reserve' command",
        ),
        ("BF.RESERVE string 0.01 100", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("BF.RESERVE string 0.01 100 FOO", "-ERR unknown argument 'FOO'"),
    ];
    let mut server = Server::new();
    assert_dialogue(&mut server, &dialogue);
    assert!(server.keys.is_empty() && server.replicated.is_empty());
}

#[test]
fn a_reserved_filter_is_replicated_with_every_parameter() {
    let mut server = Server::new();
    let dialogue = [
        ("BF.RESERVE a 1e-2 100", "+OK"),
        ("bf.reserve b 0.5 7 expansion 3", "+OK"),
        ("BF.RESERVE c 0x1p-3 1000 EXPANSION 0", "+OK"),
        ("BF.RESERVE d .001 5 NonScaling EXPANSION 0", "+OK"),
        ("BF.RESERVE NONSCALING 0.001 5", "+OK"),
        ("BF.RESERVE a 0.01 100", "-ERR item exists"),
        ("BF.INFO NONSCALING EXPANSION", "*1 :2"),
        ("BF.INFO c EXPANSION", "*1 _"),
    ];
    assert_dialogue(&mut server, &dialogue);
    let expected = [
        "BF.INSERT a CAPACITY 100 ERROR 0.01 EXPANSION 2 FORMAT everbloom",
        "BF.INSERT b CAPACITY 7 ERROR 0.5 EXPANSION 3 FORMAT everbloom",
        "BF.INSERT c CAPACITY 1000 ERROR 0.125 NONSCALING FORMAT everbloom",
        "BF.INSERT d CAPACITY 5 ERROR 0.001 NONSCALING FORMAT everbloom",
        "BF.INSERT NONSCALING CAPACITY 5 ERROR 0.001 EXPANSION 2 FORMAT everbloom",
    ];
    assert_eq!(server.replicated, expected);
    assert_eq!(server.events, ["bloom.reserve"; 5]);
}

#[test]
fn the_configured_defaults_are_spelt_out_for_replicas() {
    let mut server = Server::new();
    server.settings =
        Settings { error_rate: 0.003, initial_size_items: 7, expansion_factor: 0, ..Settings::DEFAULT };
    assert_eq!(server.run("BF.ADD k x"), "#t");
    assert_eq!(server.run("BF.RESERVE r 0.1 10 EXPANSION 2"), "-Nonscaling filters cannot expand");
    assert_eq!(server.replicated, ["BF.INSERT k CAPACITY 7 ERROR 0.003 NONSCALING FORMAT everbloom ITEMS x"]);
    server.must_obey = true;
    assert_eq!(server.run("BF.RESERVE r 0.1 10 EXPANSION 2"), "+OK");
}

#[test]
fn every_replicated_command_builds_the_same_filter_elsewhere() {
    let mut primary = Server::new();
    for line in [
        "BF.RESERVE a 0.001 3 EXPANSION 4",
        "BF.MADD a 1 2 3 4 5 1 2",
        "BF.ADD b only",
        "BF.INSERT c CAPACITY 2 NONSCALING ITEMS x y x z y",
        "BF.INSERT c ITEMS x y z",
        "BF.INSERT d CAPACITY 1 EXPANSION 1 ERROR 0.3 ITEMS p q r s t u v w",
        "BF.RESERVE e 0.01 50 FORMAT valkey-bloom EXPANSION 3",
        "BF.MADD e a b c",
        "BF.INSERT f FORMAT valkey-bloom TIGHTENING 0.25 NONSCALING ITEMS a b c",
    ] {
        primary.run(line);
    }
    let mut replica = Server::new();
    replica.settings = Settings {
        error_rate: 0.2,
        initial_size_items: 5,
        expansion_factor: 0,
        max_filter_bytes: 1,
        format: Format::RedisBloom,
        ..Settings::DEFAULT
    };
    replica.must_obey = true;
    for line in primary.replicated.clone() {
        assert!(!replica.run(&line).contains('-'), "{line}");
    }
    for (key, filter) in &primary.keys {
        let copy = &replica.keys[key];
        assert_eq!(header(copy), header(filter));
        assert!(filter.bit_arrays().map(Bits::bytes).eq(copy.bit_arrays().map(Bits::bytes)));
    }
}

#[test]
fn what_changes_nothing_is_neither_replicated_nor_notified() {
    let mut server = Server::new();
    server.run("BF.INSERT k CAPACITY 2 NONSCALING ITEMS a b");
    let (replicated, events) = (server.replicated.len(), server.events.len());
    let dialogue = [
        ("BF.ADD k a", "#f"),
        ("BF.MADD k a b a", "*3 #f #f #f"),
        ("BF.INSERT k NOCREATE ITEMS a", "*1 #f"),
        ("BF.ADD k c", "-ERR non scaling filter is full"),
        ("BF.MADD k a c b", "*2 #f -ERR non scaling filter is full"),
        ("BF.INSERT nothing NOCREATE ITEMS a", "-ERR not found"),
    ];
    assert_dialogue(&mut server, &dialogue);
    assert_eq!((server.replicated.len(), server.events.len()), (replicated, events));
}

#[test]
fn a_filter_that_fills_up_part_way_replicates_only_what_was_added() {
    let mut server = Server::new();
    server.run("BF.RESERVE k 0.0001 2 NONSCALING");
    assert_eq!(server.run("BF.MADD k a a b c d"), "*4 #t #f #t -ERR non scaling filter is full");
    assert_eq!(server.replicated.last().unwrap(), "BF.MADD k a b");
    assert_eq!(
        server.run("BF.INSERT n CAPACITY 1 NONSCALING ITEMS a b c"),
        "*2 #t -ERR non scaling filter is full"
    );
    assert_eq!(
        server.replicated.last().unwrap(),
        "BF.INSERT n CAPACITY 1 ERROR 0.01 NONSCALING FORMAT everbloom ITEMS a"
    );
}

#[test]
fn growth_past_the_byte_limit_refuses_the_item_and_goes_on() {
    let mut server = Server::new();
    server.settings.max_filter_bytes = 512;
    server.run("BF.INSERT k CAPACITY 10 ERROR 0.001 ITEMS a");
    let items: Vec<String> = (0..200).map(|item| format!("i{item}")).collect();
    let reply = server.run(&format!("BF.MADD k {}", items.join(" ")));
    assert!(reply.starts_with("*200 #t"), "{reply}");
    assert!(reply.contains("-ERR problem inserting into filter"), "{reply}");
    assert!(server.replicated.last().unwrap().starts_with("BF.MADD k i0 i1 "));
    assert_eq!(server.run("BF.MEXISTS k a i0 i1"), "*3 #t #t #t");
    let refusal = server.run("BF.RESERVE r 0.01 1000000");
    assert!(refusal.starts_with("-ERR filter would take "), "{refusal}");
    assert!(refusal.contains("bf.max-filter-bytes"), "{refusal}");
}

#[test]
fn insert_reads_whole_words_from_left_to_right() {
    let dialogue = [
        ("BF.INSERT k ITEMS", "-ERR wrong number of arguments for 'bf.insert' command"),
        ("BF.INSERT k CAPACITY 10", "-ERR wrong number of arguments for 'bf.insert' command"),
        ("BF.INSERT k NOCREATE NONSCALING", "-ERR wrong number of arguments for 'bf.insert' command"),
        ("BF.INSERT k I a", "-Unknown argument received"),
        ("BF.INSERT k NOPE ITEMS a", "-Unknown argument received"),
        ("BF.INSERT k CAPACITY 0 ITEMS a", "-Bad capacity"),
        ("BF.INSERT k CAPACITY x ITEMS a", "-Bad capacity"),
        ("BF.INSERT k ERROR 1 ITEMS a", "-Bad error rate"),
        ("BF.INSERT k ERROR nan ITEMS a", "-Bad error rate"),
        ("BF.INSERT k EXPANSION 32769 ITEMS a", "-Bad expansion"),
        ("BF.INSERT k EXPANSION -1 ITEMS a", "-Bad expansion"),
        ("BF.INSERT k ITEMS", "-ERR wrong number of arguments for 'bf.insert' command"),
        ("BF.INSERT string ITEMS a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("BF.INSERT k capacity 3 CAPACITY 5 error 0.1 nonscaling EXPANSION 7 items ITEMS a", "*2 #t #t"),
        ("BF.INFO k CAPACITY", "*1 :5"),
        ("BF.INFO k EXPANSION", "*1 _"),
        ("BF.INSERT f EXPANSION 0 ITEMS a", "*1 #t"),
        ("BF.INFO f EXPANSION", "*1 _"),
    ];
    assert_dialogue(&mut Server::new(), &dialogue);
}

#[test]
fn questions_about_nothing_and_about_other_types() {
    const WRONG: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value";
    let dialogue = [
        ("BF.EXISTS none a", "#f"),
        ("BF.MEXISTS none a b", "*2 #f #f"),
        ("BF.CARD none", ":0"),
        ("BF.INFO none", "-ERR not found"),
        ("BF.INFO none NONSENSE", "-ERR not found"),
        ("BF.DEBUG none", "-ERR not found"),
        ("BF.SCANDUMP none x", "-ERR not found"),
        ("BF.LOADCHUNK none x d", "-ERR Second argument must be numeric"),
        ("BF.LOADCHUNK none 2 d", "-ERR not found"),
        ("BF.LOADCHUNK none 1 d", "-ERR received bad data"),
        ("BF.EXISTS string a", WRONG),
        ("BF.MEXISTS string a", WRONG),
        ("BF.CARD string", WRONG),
        ("BF.INFO string", WRONG),
        ("BF.DEBUG string", WRONG),
        ("BF.SCANDUMP string 0", WRONG),
        ("BF.LOADCHUNK string 1 d", WRONG),
        ("BF.ADD string a", WRONG),
        ("BF.MADD string a", WRONG),
        ("BF.EXISTS none", "-ERR wrong number of arguments for 'bf.exists' command"),
        ("BF.CARD none none", "-ERR wrong number of arguments for 'bf.card' command"),
    ];
    assert_dialogue(&mut Server::new(), &dialogue);
}

#[test]
fn info_has_five_fields_in_both_protocols() {
    let mut server = Server::new();
    server.run("BF.MADD k a b c");
    let full = server.run("BF.INFO k");
    assert!(full.starts_with("%5 +Capacity :100 +Size :"), "{full}");
    assert!(
        full.ends_with(" +Number of filters :1 +Number of items inserted :3 +Expansion rate :2"),
        "{full}"
    );
    assert_eq!(server.run("BF.INFO k items"), "*1 :3");
    assert_eq!(server.run("BF.INFO k nothing"), "-Invalid information value");
    server.protocol = Protocol::Resp3;
    assert_eq!(server.run("BF.INFO k FILTERS"), "%1 +Number of filters :1");
}

#[test]
fn a_dump_travels_through_the_commands() {
    let mut server = Server::new();
    server.run("BF.MADD k a b c");
    assert_eq!(server.run("BF.SCANDUMP k x"), "-Second argument must be numeric");
    assert_eq!(server.run("BF.SCANDUMP k -1"), "*2 :0 $");
    assert_eq!(server.run("BF.SCANDUMP k 99999"), "*2 :0 $");
    assert!(server.run("BF.SCANDUMP k 0").starts_with("*2 :1 $evbl"));
    assert_eq!(server.run("BF.LOADCHUNK k 0 d"), "-ERR received bad data");
    assert_eq!(server.run("BF.LOADCHUNK k -1 d"), "-ERR received bad data");
    assert_eq!(server.run("BF.LOADCHUNK k 99999 0123456789abcdefg"), "-ERR invalid offset - no link found");
    assert_eq!(server.run("BF.LOADCHUNK k 1 0123456789abcdefg"), "-ERR received bad data");
    assert_eq!(server.run("BF.CARD k"), ":3");
}

#[test]
fn an_import_says_what_is_wrong_from_left_to_right_and_changes_nothing() {
    let dialogue = [
        ("BF.IMPORT k EMPTY", "-ERR wrong number of arguments for 'bf.import' command"),
        ("BF.IMPORT k FROM s x", "-ERR SOURCE key, GUAVA bytes or EMPTY must follow the key"),
        ("BF.IMPORT k SOURCE k SCHEME x", "-ERR source and destination are the same key"),
        ("BF.IMPORT k SOURCE string", "-ERR SCHEME is missing, and nothing else tells it"),
        ("BF.IMPORT k SOURCE string SCHEME", "-ERR wrong number of arguments for 'bf.import' command"),
        ("BF.IMPORT k SOURCE string SCHEME murmur", "-ERR unknown scheme 'murmur'"),
        ("BF.IMPORT k SOURCE string WHAT 1", "-ERR unknown argument 'WHAT'"),
        ("BF.IMPORT k EMPTY SCHEME go-zero", "-ERR BITS is missing, and nothing else tells it"),
        ("BF.IMPORT k EMPTY SCHEME redisson BITS 9", "-ERR HASHES is missing, and nothing else tells it"),
        (
            "BF.IMPORT k EMPTY SCHEME murmur3-salted BITS 9",
            "-ERR HASHES is missing, and nothing else tells it",
        ),
        ("BF.IMPORT k EMPTY SCHEME go-zero BITS 0", "-ERR bad value of BITS"),
        ("BF.IMPORT k EMPTY SCHEME go-zero BITS 1e6", "-ERR bad value of BITS"),
        ("BF.IMPORT k EMPTY HASHES 0 BITS x", "-ERR bad value of HASHES"),
        ("BF.IMPORT k EMPTY HASHES 4294967296", "-ERR bad value of HASHES"),
        ("BF.IMPORT k EMPTY CAPACITY 0", "-ERR bad value of CAPACITY"),
        ("BF.IMPORT k EMPTY CAPACITY 1099511627777", "-ERR bad value of CAPACITY"),
        ("BF.IMPORT k EMPTY SHIFT 256", "-ERR bad value of SHIFT"),
        ("BF.IMPORT k EMPTY ORDER guava", "-ERR bad value of ORDER"),
        ("BF.IMPORT k EMPTY ENCODING utf8", "-ERR bad value of ENCODING"),
        ("BF.IMPORT k EMPTY ERROR 1", "-ERR bad value of ERROR"),
        ("BF.IMPORT k EMPTY EXPANSION 32769", "-ERR bad value of EXPANSION"),
        ("BF.IMPORT k EMPTY SCHEME go-zero EXPANSION 2 NONSCALING", "-Nonscaling filters cannot expand"),
        ("BF.IMPORT k SOURCE list SCHEME go-zero BITS 9", WRONG_TYPE),
        ("BF.IMPORT string SOURCE users SCHEME go-zero BITS 9 REPLACE", WRONG_TYPE),
        ("BF.IMPORT k EMPTY SCHEME go-zero BITS 9 HASHES 3", "-ERR the scheme has 14 hashes, got 3"),
        (
            "BF.IMPORT k SOURCE string SCHEME go-zero BITS 5",
            "-ERR the string has bits set at byte 0, beyond a filter of 5 bits",
        ),
        ("BF.IMPORT k GUAVA x", "-ERR a Guava filter has at least 6 bytes"),
        ("BF.EXPORT k", "-ERR not found"),
    ];
    let mut server = Server::new();
    assert_dialogue(&mut server, &dialogue);
    for line in [
        "GUAVA x SCHEME go-zero",
        "GUAVA x BITS 64",
        "SOURCE string SCHEME guava ORDER lsb",
        "EMPTY SCHEME guava",
    ] {
        let reply = server.run(&format!("BF.IMPORT k {line}"));
        assert!(reply.starts_with("-ERR the bytes of a Guava filter tell scheme"), "{line}: {reply}");
    }
    server.settings.max_filter_bytes = 2000;
    let reply = server.run("BF.IMPORT k EMPTY SCHEME go-zero BITS 80000");
    assert!(reply.starts_with("-ERR filter would take 10"), "{reply}");
    assert!(server.keys.is_empty() && server.replicated.is_empty() && server.events.is_empty());
}

const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value";

#[test]
fn an_import_is_replicated_with_every_default_spelt_out_and_builds_the_same_filter() {
    let mut primary = Server::new();
    let dialogue = [
        ("BF.IMPORT a SOURCE string SCHEME murmur3-salted BITS 6 HASHES 1", "+OK"),
        ("bf.import b empty scheme GO-ZERO bits 2000 capacity 9 expansion 0 error 0.5", "+OK"),
        ("BF.IMPORT c SOURCE users SCHEME redisson", "+OK"),
        ("BF.IMPORT d SOURCE users SCHEME redisson HASHES 4 ENCODING json-string ORDER lsb", "+OK"),
        ("BF.IMPORT e EMPTY SCHEME guava-mitz64 BITS 4500 HASHES 5 SHIFT 6 CAPACITY 3 EXPANSION 4", "+OK"),
        ("BF.IMPORT a EMPTY SCHEME go-zero BITS 9", "-BUSYKEY Target key name already exists."),
        ("BF.EXPORT a", "$4"),
        ("BF.MADD e p q r s t u v", "*7 #t #t #t #t #t #t #t"),
        ("BF.ADD d \u{1}x", "#t"),
        ("BF.INFO e FILTERS", "*1 :2"),
        ("BF.EXPORT e", "-ERR the filter has grown to 2 layers, which no client's string can hold"),
    ];
    assert_dialogue(&mut primary, &dialogue);
    let common = "ERROR 0.01 EXPANSION 2";
    let expected = [
        format!("BF.IMPORT a SOURCE string SCHEME murmur3-salted BITS 6 HASHES 1 SHIFT 0 ORDER msb ENCODING raw CAPACITY 4 {common}"),
        "BF.IMPORT b EMPTY SCHEME go-zero BITS 2000 HASHES 14 SHIFT 0 ORDER msb ENCODING raw CAPACITY 9 ERROR 0.5 NONSCALING"
            .to_owned(),
        format!("BF.IMPORT c SOURCE users SCHEME redisson BITS 700 HASHES 5 SHIFT 0 ORDER msb ENCODING raw CAPACITY 50 {common}"),
        format!("BF.IMPORT d SOURCE users SCHEME redisson BITS 700 HASHES 4 SHIFT 0 ORDER lsb ENCODING json-string CAPACITY 50 {common}"),
        "BF.IMPORT e EMPTY SCHEME guava-mitz64 BITS 4500 HASHES 5 SHIFT 6 ORDER msb ENCODING raw CAPACITY 3 ERROR 0.01 EXPANSION 4"
            .to_owned(),
    ];
    assert_eq!(primary.replicated[..5], expected);
    assert_eq!(primary.events[..5], ["bloom.reserve"; 5]);
    let mut replica = Server::new();
    replica.settings =
        Settings { error_rate: 0.2, expansion_factor: 0, max_filter_bytes: 1, ..Settings::DEFAULT };
    replica.must_obey = true;
    for line in primary.replicated.clone() {
        assert!(!replica.run(&line).starts_with('-'), "{line}");
    }
    for (key, filter) in &primary.keys {
        let copy = &replica.keys[key];
        assert_eq!(header(copy), header(filter));
        assert!(filter.bit_arrays().map(Bits::bytes).eq(copy.bit_arrays().map(Bits::bytes)));
    }
}
