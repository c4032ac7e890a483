//! BF.IMPORT and BF.EXPORT: filters that clients keep in strings, imported, used, copied and exported.

mod access;
mod lengths;
mod origins;
mod recordings;
mod uses;

use everbloom::command::words::Word;
use redis::Value;

use crate::harness::{Client, Test};
use crate::vectors::{System, system};

/// Tests of one area, in several files.
pub(crate) const SUBJECTS: &[(&str, &[Test])] = &[
    ("import", recordings::TESTS),
    ("import", uses::TESTS),
    ("import", origins::TESTS),
    ("import", access::TESTS),
    ("import", lengths::TESTS),
];

const STRING: &str = "/bitmap/redis_string_b64";

/// Returns the options that describe a system's bitmap.
fn description(system: &System, size_bits: u64, probes: u64) -> String {
    format!(
        "SCHEME {} BITS {size_bits} HASHES {probes} SHIFT {} ENCODING {}",
        system.scheme.word(),
        system.shift,
        system.encoding.word()
    )
}

fn description_of(system: &System) -> String {
    let bitmap = &system.json["bitmap"];
    description(system, bitmap["m"].as_u64().unwrap(), bitmap["k"].as_u64().unwrap())
}

/// Puts the recorded string under `{x}:string` and imports it under `{x}`.
pub(crate) fn import(client: &mut Client, system: &System) {
    let name = system.name;
    client.ask(&[b"SET", format!("{name}:string").as_bytes(), system.string(STRING).as_slice()]);
    let line = format!("BF.IMPORT {name} SOURCE {name}:string {}", description_of(system));
    assert_eq!(client.say(&line), "+OK", "{line}");
}

/// Returns the replies to a command over many items.
fn many(client: &mut Client, command: &str, key: &str, items: &[Vec<u8>]) -> Vec<Value> {
    let mut args = vec![command.as_bytes(), key.as_bytes()];
    args.extend(items.iter().map(Vec::as_slice));
    client.array(&args)
}

/// Asserts that every lookup has the result of the client's own code.
fn assert_replies(client: &mut Client, system: &System, key: &str) {
    let digit = |reply: &Value| if *reply == Value::Int(1) { '1' } else { '0' };
    let replies: String =
        many(client, "BF.MEXISTS", key, &system.items("queries")).iter().map(digit).collect();
    assert_eq!(replies, system.json["bitmap"]["expected"].as_str().unwrap(), "{key}");
    let members = many(client, "BF.MEXISTS", key, &system.items("members"));
    assert!(members.len() == 1000 && members.iter().all(|reply| *reply == Value::Int(1)), "{key}");
    for item in system.items("queries").iter().take(20) {
        let one = client.call(&[b"BF.EXISTS", key.as_bytes(), item]);
        assert_eq!(vec![one], many(client, "BF.MEXISTS", key, std::slice::from_ref(item)));
    }
}

fn state(client: &mut Client, key: &str) -> [String; 2] {
    [client.digest(key), client.say(&format!("BF.DEBUG {key}"))]
}

/// Creates a Redisson filter with its settings, as Redisson does.
fn redisson(client: &mut Client, name: &str) {
    let system = system("redisson-kryo5-codec");
    client.ask(&[b"SET", name.as_bytes(), system.string(STRING).as_slice()]);
    let config = if name.contains('{') { format!("{name}:config") } else { format!("{{{name}}}:config") };
    let bitmap = &system.json["bitmap"];
    let (size, probes) = (&bitmap["m"], &bitmap["k"]);
    client.say(&format!(
        "HSET {config} size {size} hashIterations {probes} expectedInsertions 1000 falseProbability 0.03"
    ));
}
