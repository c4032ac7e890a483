//! The recorded filters in tests/fixtures; its README describes the files.

use super::ROOT;
use data_encoding::BASE64;
use serde_json::Value;

/// The recordings, the oldest first, and the number of filters in each.
pub const PRODUCERS: [(&str, usize); 10] = [
    ("redisbloom-1.0.3", 6),
    ("redisbloom-1.1.1", 6),
    ("redisbloom-2.0.3", 6),
    ("redisbloom-2.2.0", 9),
    ("redisbloom-2.2.18", 9),
    ("redisbloom-8.10-dev", 9),
    ("valkey-bloom-0.1.0", 9),
    ("valkey-bloom-1.0-fixed-seed", 9),
    ("valkey-bloom-1.0-random-seed", 9),
    ("everbloom-1.0.0", 20),
];

/// The producer whose filters do not show their hash.
pub const AMBIGUOUS: &str = "redisbloom-1.1.1";

/// Returns the releases of this module with recordings, the oldest first.
pub fn releases() -> impl Iterator<Item = &'static str> {
    PRODUCERS.iter().map(|(producer, _)| *producer).filter(|producer| producer.starts_with("everbloom"))
}

/// Returns a file that a server with this release has saved. `field` names the snapshot or an append-only file.
pub fn server_file(release: &str, field: &str) -> Vec<u8> {
    decoded(&read(release)[field])
}

fn read(producer: &str) -> Value {
    let path = format!("{}/tests/fixtures/{producer}.json", ROOT);
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// One recorded filter.
pub struct Case {
    pub producer: &'static str,
    /// Producer and name: the key of the filter in server tests.
    pub key: String,
    pub json: Value,
    /// The reply of DUMP.
    pub payload: Vec<u8>,
    pub members: Vec<Vec<u8>>,
    pub probes: Vec<Vec<u8>>,
}

/// Returns every recorded filter of the producers whose names begin with `prefix`.
pub fn cases(prefix: &str) -> Vec<Case> {
    let mut cases = Vec::new();
    for (producer, count) in PRODUCERS.iter().filter(|(producer, _)| producer.starts_with(prefix)) {
        let file = read(producer);
        let recorded = file["cases"].as_array().unwrap();
        assert_eq!(recorded.len(), *count, "{producer}");
        cases.extend(recorded.iter().map(|json| Case {
            producer,
            key: format!("{producer}:{}", json["case"].as_str().unwrap()),
            json: json.clone(),
            payload: decoded(&json["dump_b64"]),
            members: items(&json["items"]),
            probes: items(&json["probes"]),
        }));
    }
    cases
}

impl Case {
    pub fn is_redisbloom(&self) -> bool {
        self.producer.starts_with("redisbloom")
    }

    pub fn type_name(&self) -> &'static str {
        if self.is_redisbloom() { "MBbloom--" } else { "bloomfltr" }
    }

    /// Returns whether the filter was recorded in the current encoding of its module.
    pub fn is_newest_encoding(&self) -> bool {
        let older = ["redisbloom-1.0.3", AMBIGUOUS, "redisbloom-2.0.3", "valkey-bloom-0.1.0"];
        !older.contains(&self.producer)
    }

    /// Returns the words of BF.RESERVE after the key.
    pub fn reserve_words(&self) -> Vec<&str> {
        let words = self.json["reserve"].as_array();
        words.map_or(Vec::new(), |words| words.iter().map(|word| word.as_str().unwrap()).collect())
    }

    /// Returns the replies of BF.SCANDUMP; valkey-bloom has none.
    pub fn chunks(&self) -> Vec<(u64, Vec<u8>)> {
        let chunks = self.json["scandump"].as_array().into_iter().flatten();
        chunks.map(|chunk| (chunk[0].as_u64().unwrap(), decoded(&chunk[1]))).collect()
    }

    /// Returns the blob of BF.LOAD, which valkey-bloom 1.0 writes.
    pub fn blob(&self) -> Option<Vec<u8>> {
        self.json["bf_load_b64"].as_str().map(|_| decoded(&self.json["bf_load_b64"]))
    }

    /// Returns the value after a name in the reply of BF.INFO.
    pub fn info(&self, name: &str) -> Option<&Value> {
        let info = self.json["info"].as_array()?;
        info.get(info.iter().position(|word| word == name)? + 1)
    }

    /// Returns the replies of BF.EXISTS for the probes: one digit each.
    pub fn probe_replies(&self) -> &str {
        self.json["probe_replies"].as_str().unwrap()
    }
}

fn decoded(text: &Value) -> Vec<u8> {
    BASE64.decode(text.as_str().unwrap().as_bytes()).unwrap()
}

fn items(json: &Value) -> Vec<Vec<u8>> {
    match json["base64"].as_array() {
        Some(items) => items.iter().map(decoded).collect(),
        None => (0..json["count"].as_u64().unwrap())
            .map(|i| json["format"].as_str().unwrap().replace("%d", &i.to_string()).into_bytes())
            .collect(),
    }
}

/// Returns the recorded cuckoo filters: their names and the replies of DUMP.
pub fn cuckoo_cases() -> Vec<(String, Vec<u8>)> {
    let file = read("redisbloom-cuckoo");
    let cases = file["cases"].as_array().unwrap().iter().filter(|case| case["dump_b64"].is_string());
    cases.map(|case| (case["case"].as_str().unwrap().to_owned(), decoded(&case["dump_b64"]))).collect()
}

/// Returns the reply of DUMP for a cuckoo filter of RedisBloom 2.0.3, whose hash later releases do not have.
pub fn old_cuckoo_payload() -> Vec<u8> {
    decoded(&read("redisbloom-cuckoo-2.0.3")["cases"][0]["dump_b64"])
}

/// A recorded value of one of RedisBloom's types that are only carried.
pub struct CarriedCase {
    /// Producer and name: the key of the value in server tests.
    pub key: String,
    pub type_name: String,
    /// The reply of DUMP.
    pub payload: Vec<u8>,
}

/// Returns every recorded value of a carried type.
pub fn carried_cases() -> Vec<CarriedCase> {
    let file = read("redisbloom-carried");
    let text = |case: &Value, field: &str| case[field].as_str().unwrap().to_owned();
    let cases = file["cases"].as_array().unwrap().iter().map(|case| CarriedCase {
        key: format!("{}:{}", text(case, "producer"), text(case, "case")),
        type_name: text(case, "type"),
        payload: decoded(&case["dump_b64"]),
    });
    cases.collect()
}
