//! A server that is none: it runs command lines as the host room does and keeps what they ask for.

use std::collections::HashMap;

use everbloom::bloom::{ByteLimit, Filter, NoPrefetch};
use everbloom::command::import::{Import, Sources, StringSlot};
use everbloom::command::{
    COMMANDS, Change, Command, Effects, Host, Line, Protocol, Query, Replication, Reply, Request, Settings,
    Slot,
};

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
pub(crate) struct Server {
    pub(crate) settings: Settings,
    pub(crate) must_obey: bool,
    pub(crate) protocol: Protocol,
    pub(crate) keys: HashMap<Vec<u8>, Filter>,
    /// Strings, for imports.
    pub(crate) strings: HashMap<Vec<u8>, Vec<u8>>,
    /// What was replicated, one line per command.
    pub(crate) replicated: Vec<String>,
    /// Keyspace events.
    pub(crate) events: Vec<&'static str>,
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
    fn must_succeed(&self) -> bool {
        self.must_obey
    }
    fn random_seed(&self) -> [u8; 32] {
        [7; 32]
    }
}

impl Server {
    pub(crate) fn new() -> Self {
        Self {
            settings: Settings::DEFAULT,
            must_obey: false,
            protocol: Protocol::Resp2,
            keys: HashMap::new(),
            strings: HashMap::new(),
            replicated: Vec::new(),
            events: Vec::new(),
        }
    }

    /// Runs a command line as the host room does and answers with its reply.
    pub(crate) fn run(&mut self, line: &str) -> String {
        self.call(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>())
    }

    /// As [`Self::run`], for words that are empty, binary or contain spaces.
    pub(crate) fn call(&mut self, argv: &[&[u8]]) -> String {
        let words: Vec<_> = argv.iter().map(|word| String::from_utf8_lossy(word)).collect();
        let line = words.join(" ");
        let host = Rules { settings: self.settings, must_obey: self.must_obey };
        let mut reply = Collected { protocol: self.protocol, words: Vec::new() };
        let command = named(argv[0]);
        let outcome = match Request::parse(command, &argv[1..], &host) {
            Ok(Request::Query(query)) => self.query(query, argv, &host, &mut reply),
            Ok(Request::Change(change)) => self.change(change, argv, &line, &host, &mut reply),
            Ok(Request::Import(import)) => self.import(*import, argv, &line, &host, &mut reply),
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
        host: &Rules,
        reply: &mut Collected,
    ) -> Result<(), everbloom::command::CommandError> {
        let slot = slot(argv[1], self.keys.get_mut(argv[1]));
        query.run(slot, host, NoPrefetch, reply).map(|_| ())
    }

    fn change(
        &mut self,
        change: Change<'_>,
        argv: &[&[u8]],
        line: &str,
        host: &Rules,
        reply: &mut Collected,
    ) -> Result<(), everbloom::command::CommandError> {
        let slot = slot(argv[1], self.keys.get_mut(argv[1]));
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
        let slot = slot(argv[1], self.keys.get_mut(argv[1]));
        let effects = {
            let sources = Strings { key: import.source(), more: &self.strings };
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

/// What lies at the keys beside filters: the string `4`, which has bits 2, 3 and 5, the settings of `users`, and more.
struct Strings<'a> {
    key: Option<&'a [u8]>,
    more: &'a HashMap<Vec<u8>, Vec<u8>>,
}

impl Sources for Strings<'_> {
    fn string(&self) -> StringSlot<'_> {
        match self.key {
            Some(b"string" | b"users") => StringSlot::Bytes(b"4"),
            Some(b"list") => StringSlot::WrongType,
            key => key
                .and_then(|key| self.more.get(key))
                .map_or(StringSlot::Vacant, |bytes| StringSlot::Bytes(bytes)),
        }
    }

    fn field(&self, key: &[u8], field: &str) -> Option<Vec<u8>> {
        assert_eq!(key, b"{users}:config");
        let fields = [("size", "700"), ("hashIterations", "5"), ("expectedInsertions", "50")];
        fields.iter().find(|(name, _)| *name == field).map(|(_, value)| value.as_bytes().to_vec())
    }
}

/// What a command finds at a key: `string` holds no filter.
fn slot<F>(key: &[u8], filter: Option<F>) -> Slot<F> {
    match filter {
        _ if key == b"string" => Slot::WrongType,
        Some(filter) => Slot::Filter(filter),
        None => Slot::Vacant,
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
