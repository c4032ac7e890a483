//! Filters as a release of everbloom wrote them: tests/fixtures/everbloom-*.json, read and written.
//!
//! tests/fixtures/README.md describes the fields; tests/recorder writes the files.

use std::collections::HashMap;
use std::path::PathBuf;

use data_encoding::BASE64;
use serde_json::{Value, json};

/// The words of a command, its name first.
pub type Command = Vec<Vec<u8>>;

/// One recorded filter. Its name is its key, too.
#[derive(Debug, PartialEq)]
pub struct Recorded {
    pub name: String,
    /// What it must hold.
    pub items: Items,
    /// What was asked of it besides, and the answers as digits.
    pub probes: Items,
    pub answers: String,
    /// Replies of BF.CARD, BF.DEBUG and DEBUG DIGEST-VALUE.
    pub cardinality: u64,
    pub debug: Vec<String>,
    pub digest: String,
    /// Reply of DUMP.
    pub dump: Vec<u8>,
    /// Replies of BF.SCANDUMP: iterator and data.
    pub pieces: Vec<(u64, Vec<u8>)>,
    /// The append-only file that made it.
    pub grown: Vec<Command>,
    /// The same file after it was rewritten as commands.
    pub rewritten: Vec<Command>,
}

/// Items by a rule, or one by one.
#[derive(Clone, Debug, PartialEq)]
pub enum Items {
    /// `format` with `%d` from 0 to `count` - 1.
    Numbered { format: String, count: u64 },
    /// Any bytes.
    Listed(Vec<Vec<u8>>),
}

impl Items {
    pub fn numbered(format: &str, count: u64) -> Self {
        Self::Numbered { format: format.to_owned(), count }
    }

    /// The item of a number, which may be beyond those that there are.
    pub fn item(&self, number: u64) -> Vec<u8> {
        match self {
            Self::Numbered { format, .. } => format.replace("%d", &number.to_string()).into_bytes(),
            Self::Listed(items) => items[number as usize].clone(),
        }
    }

    pub fn all(&self) -> Vec<Vec<u8>> {
        match self {
            Self::Numbered { count, .. } => (0..*count).map(|number| self.item(number)).collect(),
            Self::Listed(items) => items.clone(),
        }
    }

    fn to_json(&self) -> Value {
        match self {
            Self::Numbered { format, count } => json!({ "format": format, "count": count }),
            Self::Listed(items) => {
                json!({ "base64": items.iter().map(|i| BASE64.encode(i)).collect::<Vec<_>>() })
            }
        }
    }

    pub fn from_json(json: &Value) -> Self {
        match json["base64"].as_array() {
            Some(items) => Self::Listed(items.iter().map(literal).collect()),
            None => Self::numbered(text(&json["format"]), number(&json["count"])),
        }
    }
}

/// Recorded releases and how many filters each file holds.
const RELEASES: [(&str, usize); 1] = [("0.1.0", 79)];

/// Every filter of every recorded release, unpacked one at a time: together they are large.
pub fn recordings() -> impl Iterator<Item = Recorded> {
    RELEASES.into_iter().flat_map(|(release, filters)| {
        let path = fixture(release);
        let mut file: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!(text(&file["producer"]), format!("everbloom {release}"));
        let Value::Array(cases) = file["cases"].take() else { panic!("{}", path.display()) };
        assert_eq!(cases.len(), filters, "{}", path.display());
        cases.into_iter().map(|json| Recorded::from_json(&json))
    })
}

/// The filter of a name.
pub fn recording(name: &str) -> Recorded {
    recordings().find(|filter| filter.name == name).unwrap()
}

fn fixture(release: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/everbloom-{release}.json"))
}

/// The file of a release, one filter a line.
pub fn file_of(release: &str, server: &str, filters: &[Recorded]) -> String {
    let lines: Vec<String> = filters.iter().map(|filter| filter.to_json().to_string()).collect();
    let [producer, server] = [format!("everbloom {release}"), server.to_owned()].map(Value::from);
    format!("{{\"producer\":{producer},\"server\":{server},\"cases\":[\n{}\n]}}\n", lines.join(",\n"))
}

impl Recorded {
    /// The kind of filter, from the front of its name.
    pub fn kind(&self) -> &str {
        self.name.split('-').next().unwrap()
    }

    pub fn to_json(&self) -> Value {
        let pieces = self.pieces.iter().map(|(iterator, data)| json!([iterator, packed(data)]));
        let commands =
            |commands: &[Command]| commands.iter().map(|words| self.words_to_json(words)).collect::<Vec<_>>();
        json!({
            "case": self.name,
            "items": self.items.to_json(),
            "probes": self.probes.to_json(),
            "probe_answers": self.answers,
            "card": self.cardinality,
            "debug": self.debug,
            "digest": self.digest,
            "dump": packed(&self.dump),
            "scandump": pieces.collect::<Vec<_>>(),
            "grown": commands(&self.grown),
            "rewritten": commands(&self.rewritten),
        })
    }

    pub fn from_json(json: &Value) -> Self {
        let list = |field: &str| json[field].as_array().unwrap().iter();
        let mut recorded = Self {
            name: text(&json["case"]).to_owned(),
            items: Items::from_json(&json["items"]),
            probes: Items::from_json(&json["probes"]),
            answers: text(&json["probe_answers"]).to_owned(),
            cardinality: number(&json["card"]),
            debug: list("debug").map(|line| text(line).to_owned()).collect(),
            digest: text(&json["digest"]).to_owned(),
            dump: unpacked(&json["dump"]),
            pieces: list("scandump").map(|piece| (number(&piece[0]), unpacked(&piece[1]))).collect(),
            grown: Vec::new(),
            rewritten: Vec::new(),
        };
        recorded.grown = list("grown").map(|words| recorded.words_from_json(words)).collect();
        recorded.rewritten = list("rewritten").map(|words| recorded.words_from_json(words)).collect();
        recorded
    }

    /// Text as it is, items that follow one another by their numbers, pieces by theirs, other bytes packed.
    fn words_to_json(&self, words: &[Vec<u8>]) -> Value {
        const RUN_MIN: u64 = 3;
        let Items::Numbered { count, .. } = self.items else { return self.plain_words(words) };
        // A few beyond the last, which were refused or are in the filter by mistake.
        let numbers: HashMap<_, _> =
            (0..count + 100).map(|number| (self.items.item(number), number)).collect();
        let mut rest = words;
        let mut json = Vec::new();
        while let Some(word) = rest.first() {
            let first = numbers.get(word).copied().unwrap_or(0);
            let is_next = |(word, number): &(&Vec<u8>, u64)| numbers.get(*word) == Some(number);
            let run = rest.iter().zip(first..).take_while(is_next).count();
            if run as u64 >= RUN_MIN {
                json.push(json!({ "items": [first, first + run as u64 - 1] }));
                rest = &rest[run..];
            } else {
                json.push(self.word_to_json(word));
                rest = &rest[1..];
            }
        }
        json.into()
    }

    fn plain_words(&self, words: &[Vec<u8>]) -> Value {
        words.iter().map(|word| self.word_to_json(word)).collect()
    }

    fn word_to_json(&self, word: &[u8]) -> Value {
        if let Some(piece) = self.pieces.iter().position(|(_, data)| data == word) {
            return json!({ "piece": piece });
        }
        match std::str::from_utf8(word) {
            Ok(text) if !text.contains(|letter: char| letter.is_control()) => text.into(),
            _ => json!({ "bytes": packed(word) }),
        }
    }

    fn words_from_json(&self, words: &Value) -> Command {
        let mut command = Vec::new();
        for word in words.as_array().unwrap() {
            if let Some(text) = word.as_str() {
                command.push(text.as_bytes().to_vec());
            } else if let Some(run) = word.get("items") {
                command.extend((number(&run[0])..=number(&run[1])).map(|number| self.items.item(number)));
            } else if let Some(piece) = word.get("piece") {
                command.push(self.pieces[number(piece) as usize].1.clone());
            } else {
                command.push(unpacked(&word["bytes"]));
            }
        }
        command
    }
}

/// Shorter runs of zeros are not worth telling.
const ZEROS_MIN: usize = 24;

/// Bytes as base64, with a number in place of so many zeros: filters are mostly empty.
fn packed(bytes: &[u8]) -> Value {
    let mut parts: Vec<Value> = Vec::new();
    let (mut start, mut at) = (0, 0);
    while at < bytes.len() {
        let zeros = bytes[at..].iter().take_while(|byte| **byte == 0).count();
        if zeros >= ZEROS_MIN {
            if start < at {
                parts.push(BASE64.encode(&bytes[start..at]).into());
            }
            parts.push(zeros.into());
            start = at + zeros;
        }
        at += zeros.max(1);
    }
    if start < bytes.len() || parts.is_empty() {
        parts.push(BASE64.encode(&bytes[start..]).into());
    }
    if let [Value::String(only)] = parts.as_slice() { only.clone().into() } else { parts.into() }
}

fn unpacked(json: &Value) -> Vec<u8> {
    let Some(parts) = json.as_array() else { return literal(json) };
    let mut bytes = Vec::new();
    for part in parts {
        match part.as_u64() {
            Some(zeros) => bytes.resize(bytes.len() + zeros as usize, 0),
            None => bytes.extend(literal(part)),
        }
    }
    bytes
}

fn literal(json: &Value) -> Vec<u8> {
    BASE64.decode(text(json).as_bytes()).unwrap()
}

fn text(json: &Value) -> &str {
    json.as_str().unwrap()
}

fn number(json: &Value) -> u64 {
    json.as_u64().unwrap()
}
