//! The recorded commands give the same replies and the same bytes.

use data_encoding::BASE64;
use everbloom_format::redisbloom::cuckoo::load;
use serde_json::{Value, json};

use super::{cases, saved, server};
use crate::support::rdb::Payload;
use crate::support::server::Server;
use crate::support::slices;

/// Returns the reply of the last command as the recordings write it.
fn reply_of(server: &Server, words: &mut impl Iterator<Item = String>) -> Value {
    let word = words.next().unwrap();
    let (mark, rest) = word.split_at(1);
    match (mark, rest) {
        ("#", "t") => json!(1),
        ("#", _) => json!(0),
        (":", number) => json!(number.parse::<i64>().unwrap()),
        ("+", text) => json!(text),
        ("-", text) => json!({ "error": text }),
        ("_", _) => Value::Null,
        ("*", count) => (0..count.parse().unwrap()).map(|_| reply_of(server, words)).collect(),
        ("%", count) => (0..2 * count.parse::<usize>().unwrap()).map(|_| reply_of(server, words)).collect(),
        ("$", _) => json!({ "base64": BASE64.encode(&server.bulk) }),
        _ => panic!("{word}"),
    }
}

/// A server, and a replica that RedisBloom would feed: it gets each write whose reply is no error, word for word.
struct Deployment {
    server: Server,
    replica: Server,
}

impl Deployment {
    /// The replica has limits that it must not apply.
    fn new() -> Self {
        let mut replica = server();
        replica.is_replicated = true;
        replica.settings.max_filter_bytes = 1024;
        replica.settings.cuckoo.max_expansions = 1;
        Self { server: server(), replica }
    }

    fn call(&mut self, words: &[Vec<u8>]) -> Value {
        const WRITES: [&[u8]; 8] = [
            b"CF.RESERVE",
            b"CF.ADD",
            b"CF.ADDNX",
            b"CF.INSERT",
            b"CF.INSERTNX",
            b"CF.DEL",
            b"CF.COMPACT",
            b"CF.LOADCHUNK",
        ];
        let reply = call(&mut self.server, words);
        if WRITES.contains(&words[0].as_slice()) && reply["error"].is_null() {
            assert_eq!(call(&mut self.replica, words), reply);
        }
        reply
    }

    fn assert_state(&mut self, name: &str, recorded: &Value) {
        assert_state(&mut self.server, name, recorded);
        assert_state(&mut self.replica, name, recorded);
    }
}

fn call(server: &mut Server, words: &[Vec<u8>]) -> Value {
    server.call(&slices(words));
    let mut words = server.reply.clone().into_iter();
    reply_of(server, &mut words)
}

fn bytes_of(word: &Value) -> Vec<u8> {
    match word {
        Value::String(text) => text.as_bytes().to_vec(),
        Value::Number(number) => number.to_string().into_bytes(),
        other => BASE64.decode(other["base64"].as_str().unwrap().as_bytes()).unwrap(),
    }
}

/// Returns whether a reply is the recorded one. Of long strings only the length is recorded here.
fn is_as_recorded(got: &Value, recorded: &Value) -> bool {
    match (got, recorded) {
        (Value::Array(got), Value::Array(recorded)) => {
            got.len() == recorded.len()
                && got.iter().zip(recorded).all(|(got, recorded)| is_as_recorded(got, recorded))
        }
        (got, recorded) if recorded["len"].is_number() => bytes_of(got).len() as u64 == recorded["len"],
        (got, recorded) => got == recorded,
    }
}

/// Returns the letter with which the recordings write a reply to one item.
fn letter(reply: &Value) -> char {
    match reply {
        Value::Number(number) if number.as_i64() == Some(-1) => '-',
        Value::Number(number) if number.as_i64() == Some(0) => '0',
        Value::Number(_) => '1',
        reply if reply["error"] == "Filter is full" => 'F',
        reply if reply["error"] == "Maximum expansions reached" => 'M',
        _ => 'E',
    }
}

/// Returns the items of a step.
fn items(step: &Value) -> Vec<Vec<u8>> {
    if let Some(items) = step["base64"].as_array() {
        return items.iter().map(|item| BASE64.decode(item.as_str().unwrap().as_bytes()).unwrap()).collect();
    }
    let number = |field: &str, default| step[field].as_u64().unwrap_or(default);
    let (from, count, step_size) = (number("from", 0), number("count", 0), number("step", 1));
    let format = step["format"].as_str().unwrap();
    let item = |index: u64| format.replace("%d", &(from + index * step_size).to_string()).into_bytes();
    (0..count).map(item).collect()
}

/// Runs a step. Returns its reply as the recordings write it.
fn run(site: &mut Deployment, key: &[u8], step: &Value) -> Value {
    if let Some(words) = step.as_array() {
        let mut words: Vec<Vec<u8>> = words.iter().map(bytes_of).collect();
        words.insert(1, key.to_vec());
        return site.call(&words);
    }
    if let Some(chunk) = step["chunk"].as_array() {
        let data = BASE64.decode(chunk[1].as_str().unwrap().as_bytes()).unwrap();
        return site.call(&[b"CF.LOADCHUNK".to_vec(), key.to_vec(), bytes_of(&chunk[0]), data]);
    }
    let items = items(step);
    let letters: String = if let Some(name) = step["each"].as_str() {
        let one =
            |item: &Vec<u8>| letter(&site.call(&[name.as_bytes().to_vec(), key.to_vec(), item.clone()]));
        items.iter().map(one).collect()
    } else {
        let name = step["batch"].as_str().unwrap().as_bytes().to_vec();
        let batches = items.chunks(step["size"].as_u64().unwrap() as usize).map(|items| {
            let mut words = vec![name.clone(), key.to_vec(), b"ITEMS".to_vec()];
            words.extend(items.iter().cloned());
            match site.call(&words) {
                Value::Array(replies) => replies.iter().map(letter).collect::<String>(),
                reply => letter(&reply).to_string(),
            }
        });
        batches.collect()
    };
    json!(letters)
}

fn assert_state(server: &mut Server, name: &str, recorded: &Value) {
    let key = name.as_bytes().to_vec();
    if let Some(payload) = recorded["dump_b64"].as_str() {
        let payload = Payload::read(&BASE64.decode(payload.as_bytes()).unwrap());
        let filter = &server.cuckoos[&key];
        assert_eq!((payload.type_name.as_str(), payload.encoding_version), ("MBbloomCF", 4));
        assert!(saved(filter) == payload.record, "{name}: other bytes");
        let loaded = load(4, &mut payload.record.reader(), &u64::MAX).unwrap();
        assert!(saved(&loaded) == payload.record, "{name}: other bytes after a load");
    }
    assert_eq!(call(server, &[b"CF.INFO".to_vec(), key.clone()]), recorded["info"], "{name}");
    call(server, &[b"CF.DEBUG".to_vec(), key]);
    assert_eq!(server.bulk, recorded["debug"].as_str().unwrap().as_bytes(), "{name}");
}

#[test]
fn recorded_commands_give_the_recorded_replies_and_bytes() {
    let cases = cases("redisbloom-cuckoo");
    assert_eq!(cases.len(), 31);
    for case in cases {
        let name = case["case"].as_str().unwrap();
        let (mut site, key) = (Deployment::new(), name.as_bytes().to_vec());
        let steps = case["steps"].as_array().unwrap().iter().zip(case["step_replies"].as_array().unwrap());
        for (step, reply) in steps {
            assert_eq!(
                run(&mut site, &key, step),
                *reply,
                "{name}: {}",
                step.to_string().chars().take(200).collect::<String>()
            );
        }
        site.assert_state(name, &case);
        for count in case["counts"].as_array().unwrap() {
            let words = [b"CF.COUNT".to_vec(), key.clone(), bytes_of(&count[0])];
            assert_eq!(site.call(&words), count[1], "{name}: {count}");
        }
        let probes = items(&case["probes"]);
        let answers: String = probes
            .iter()
            .map(|item| letter(&site.call(&[b"CF.EXISTS".to_vec(), key.clone(), item.clone()])))
            .collect();
        assert_eq!(answers, case["probe_answers"].as_str().unwrap(), "{name}");
        let mut iterator = b"0".to_vec();
        for chunk in case["scandump"].as_array().unwrap() {
            let reply = site.call(&[b"CF.SCANDUMP".to_vec(), key.clone(), iterator]);
            let expected =
                if chunk[1].is_string() { json!({ "base64": chunk[1] }) } else { chunk[1].clone() };
            assert!(reply[0] == chunk[0] && is_as_recorded(&reply[1], &expected), "{name}");
            iterator = bytes_of(&chunk[0]);
        }
        let continuation = &case["continuation"];
        let commands = continuation["commands"].as_array().unwrap().iter();
        for (words, reply) in commands.zip(continuation["replies"].as_array().unwrap()) {
            let command: Vec<Vec<u8>> = words.as_array().unwrap().iter().map(bytes_of).collect();
            let got = site.call(&command);
            assert!(is_as_recorded(&got, reply), "{name}: {words}: {got}, {reply}");
        }
        site.assert_state(name, continuation);
    }
}
