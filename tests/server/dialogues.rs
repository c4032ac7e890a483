//! Runs the dialogues on a real server in RESP2 and RESP3, and tests items, keys and chunks that no dialogue can
//! contain.

use crate::harness::{Raw, Server, Site, Test, tests};
use crate::support::dialogues::arity::{arity_error, wrong_arity};
use crate::support::dialogues::dialogues;

pub(crate) const TESTS: &[Test] = tests![
    every_dialogue_has_its_replies,
    too_few_and_too_many_words_are_an_error,
    items_and_keys_may_be_empty_or_binary,
    chunks_have_the_same_form_in_both_protocols,
];

/// The keys that exist at the start of a dialogue.
const KEYS: &[&str] = &[
    "FLUSHALL",
    "SET string 4",
    "SET users 4",
    "RPUSH list a",
    "HSET {users}:config size 700 hashIterations 5 expectedInsertions 50",
];

/// Returns a client in RESP2 and a client in RESP3.
fn clients(server: &Server) -> [Raw; 2] {
    [server.raw(), server.raw3()]
}

fn every_dialogue_has_its_replies(site: &Site) {
    let server = site.start();
    for (mut client, is_resp3) in clients(&server).into_iter().zip([false, true]) {
        for dialogue in dialogues().iter().filter(|dialogue| !dialogue.is_simulated) {
            let name = dialogue.name;
            KEYS.iter().for_each(|line| drop(client.say(line)));
            let mut changed = Vec::new();
            let mut set = |client: &mut Raw, setting: &str| {
                let (name, _) = setting.split_once(' ').unwrap();
                let former = shown(&client.ask(&["CONFIG", "GET", name]));
                changed.push(format!("{name} {}", former.rsplit('$').next().unwrap()));
                assert_eq!(client.say(&format!("CONFIG SET {setting}")), "+OK\r\n", "{setting}");
            };
            dialogue.settings.iter().for_each(|setting| set(&mut client, setting));
            for (line, reply) in dialogue.lines.iter().filter(|(line, _)| !line.starts_with('@')) {
                if let Some(setting) = line.strip_prefix("CONFIG SET ") {
                    set(&mut client, setting);
                    continue;
                }
                let words: Vec<&str> = line.split(' ').collect();
                let expected = if is_resp3 { in_resp3(line, reply) } else { in_resp2(reply) };
                assert_eq!(shown(&client.ask(&words)), expected, "{name}, RESP3 {is_resp3}: {line}");
            }
            for setting in changed.iter().rev() {
                assert_eq!(client.say(&format!("CONFIG SET {setting}")), "+OK\r\n", "{setting}");
            }
        }
    }
}

fn too_few_and_too_many_words_are_an_error(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    for line in wrong_arity() {
        let name = line.split(' ').next().unwrap();
        for line in [line.clone(), line.replace(name, &name.to_uppercase())] {
            assert_eq!(client.say(&line), arity_error(&line), "{line}");
        }
    }
    assert_eq!(client.int("DBSIZE"), 0);
}

fn items_and_keys_may_be_empty_or_binary(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    let words: [&[u8]; 5] = [b"", b"\0", b"\0\0", b"a\r\nb", b"\xff\xfe\0\x80"];
    for key in words {
        for item in words {
            for (command, reply) in [("BF.EXISTS", "0"), ("BF.ADD", "1"), ("BF.EXISTS", "1")] {
                let asked = client.ask(&[command.as_bytes(), key, item]);
                assert_eq!(asked, reply, "{command} {} {}", key.escape_ascii(), item.escape_ascii());
            }
        }
    }
}

fn chunks_have_the_same_form_in_both_protocols(site: &Site) {
    let server = site.start();
    for (mut client, copy) in clients(&server).into_iter().zip(["resp2", "resp3"]) {
        client.say("BF.ADD k a");
        let mut iterator = "0".to_owned();
        for _ in 0..2 {
            let reply = client.raw(format!("BF.SCANDUMP k {iterator}\r\n").as_bytes());
            let start = reply.strip_prefix(b"*2\r\n:").expect("an array that begins with an integer");
            let next = start.split(|byte| *byte == b'\r').next().unwrap();
            let bulk = start[next.len()..].strip_prefix(b"\r\n$").expect("a bulk string");
            let data = &bulk[bulk.iter().position(|byte| *byte == b'\n').unwrap() + 1..bulk.len() - 2];
            assert_eq!(client.ask(&[b"BF.LOADCHUNK", copy.as_bytes(), next, data]), "+OK\r\n");
            iterator = String::from_utf8_lossy(next).into_owned();
        }
        assert_eq!(client.say(&format!("BF.SCANDUMP k {iterator}")), "*2\r\n:0\r\n$0\r\n\r\n");
        assert!(client.say(&format!("BF.EXISTS {copy} a")).contains(['1', 't']));
    }
}

/// Returns a reply in the notation of the dialogues: a line of text, without the lengths of strings.
fn shown(reply: &str) -> String {
    let mut lines = reply.split("\r\n");
    let mut words = Vec::new();
    while let Some(line) = lines.next().filter(|line| !line.is_empty()) {
        words.push(match line.split_at(1) {
            ("$", "-1") => "_".to_owned(),
            ("$", _) => format!("${}", lines.next().unwrap_or_default()),
            _ => line.to_owned(),
        });
    }
    words.join(" ")
}

/// Returns a reply of a dialogue in RESP2, which has no booleans, doubles and maps.
fn in_resp2(reply: &str) -> String {
    let word = |word: &str| match word {
        "#t" => ":1".to_owned(),
        "#f" => ":0".to_owned(),
        _ => word.strip_prefix(',').map_or(word.to_owned(), |number| format!("${number}")),
    };
    reply.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

/// Returns a reply of a dialogue in RESP3, where the reply to one field of BF.INFO is a map with the field's name.
fn in_resp3(line: &str, reply: &str) -> String {
    let Some(value) = reply.strip_prefix("*1 ").filter(|_| line.to_uppercase().starts_with("BF.INFO "))
    else {
        return reply.to_owned();
    };
    let field = line.rsplit(' ').next().unwrap_or_default().to_uppercase();
    let names = [
        ("CAPACITY", "Capacity"),
        ("FILTERS", "Number of filters"),
        ("ITEMS", "Number of items inserted"),
        ("EXPANSION", "Expansion rate"),
        ("MAXSCALEDCAPACITY", "Max scaled capacity"),
        ("ERROR", "Error rate"),
        ("TIGHTENING", "Tightening ratio"),
        ("WINDOW", "Window milliseconds"),
    ];
    let known = names.iter().find(|(word, _)| *word == field).map(|(_, name)| (*name).to_owned());
    format!("%1 +{} {value}", known.unwrap_or(field.to_lowercase()))
}
