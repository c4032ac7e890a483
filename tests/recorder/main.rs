//! Records how a release of everbloom writes filters down, for tests/fixtures/everbloom-<release>.json:
//!
//! ```text
//! MODULE_SO=/path/of/a/release/libeverbloom.so SERVERS=redis-server \
//!     cargo run --locked --no-default-features --example record > tests/fixtures/everbloom-0.1.0.json
//! ```
//!
//! The first server of SERVERS, or else on the PATH, is taken; redis-server 7.0 writes DUMPs that every other one
//! reads. The same module and server give the same file.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    dead_code,
    unused_imports,
    unused_macros,
    missing_docs,
    unreachable_pub,
    reason = "as the tests, of which it shares the harness; what fails ends it"
)]

#[path = "../server/harness/mod.rs"]
mod harness;
mod imported;
mod plans;
#[path = "../support/recording.rs"]
mod recording;

use std::fs;

use data_encoding::BASE64;
use harness::{Client, Launch, Server, Site, show, wait_until};
use plans::{Plan, Word, other_recording, plans};
use recording::{Command, Items, Recorded, file_of};
use redis::Value;

/// How many items are asked for beside the members.
const PROBES: u64 = 150;

fn main() {
    let site = Site::find_all().unwrap().swap_remove(0);
    let plans = plans();
    let mut filters = Vec::new();
    for plan in &plans {
        eprintln!("{} of {}: {}", filters.len() + 1, plans.len(), plan.name);
        let filter = record(&site, plan);
        assert_eq!(Recorded::from_json(&filter.to_json()), filter, "what was written reads otherwise");
        filters.push(filter);
    }
    print!("{}", file_of(&release(&site), &site.name.replace('-', "-server "), &filters));
}

/// The version of the module: 100 is 0.1.0.
fn release(site: &Site) -> String {
    let info = String::from_utf8(site.start().client().bytes(&["INFO", "modules"])).unwrap();
    let (_, rest) = info.split_once("name=bf,ver=").expect("the module's line");
    let number: u32 = rest.split(',').next().unwrap().parse().unwrap();
    format!("{}.{}.{}", number / 10_000, number / 100 % 100, number % 100)
}

fn record(site: &Site, plan: &Plan) -> Recorded {
    let server = launch(site, plan).start();
    let mut client = server.client();
    carry_out(site, plan, &mut client);

    let key = plan.name;
    let items = plan.items.all();
    let members = answers(&mut client, key, &items);
    assert!(members.bytes().all(|answer| answer == b'1'), "{key}: {members}");
    let probes = match &plan.items {
        Items::Numbered { format, .. } if format == "%d" => Items::numbered("77%d", PROBES),
        _ => Items::numbered("absent-%d", PROBES),
    };
    let asked = probes.all();
    let debug = client.array(&["BF.DEBUG", key]);
    let debug = debug.iter().map(|line| show(line).trim_matches(['"', '+']).to_owned()).collect();
    let recorded = Recorded {
        name: key.to_owned(),
        items: plan.items.clone(),
        answers: answers(&mut client, key, &asked),
        probes,
        cardinality: client.int(&format!("BF.CARD {key}")).try_into().unwrap(),
        debug,
        digest: client.digest(key),
        dump: client.bytes(&["DUMP", key]),
        pieces: pieces(&mut client, key),
        grown: append_only_file(&server),
        rewritten: {
            rewrite(&mut client);
            let mut commands = append_only_file(&server);
            // Keys come in an order that differs from run to run.
            commands.retain(|words| words[1] == key.as_bytes());
            commands
        },
    };
    assert!(!recorded.grown.is_empty() && !recorded.rewritten.is_empty());
    recorded
}

/// An append-only file of commands; and strings as they are, which the fixture packs better than the server.
fn launch(site: &Site, plan: &Plan) -> Launch {
    let launch = site
        .launch()
        .with("appendonly yes")
        .with("appendfsync always")
        .with("aof-use-rdb-preamble no")
        .with("auto-aof-rewrite-percentage 0")
        .with("rdbcompression no");
    plan.options.iter().fold(launch, |launch, option| launch.with_option(*option))
}

/// Sends the lines of a plan; what it needs from a client's own filter comes from another server.
fn carry_out(site: &Site, plan: &Plan, client: &mut Client) {
    let string = plan.string.map(|lines| {
        let scratch = site.start();
        let mut client = scratch.client();
        for line in lines {
            send(&mut client, plan, line, None);
        }
        client.bytes(&["BF.EXPORT", plan.name])
    });
    for line in plan.lines {
        send(client, plan, line, string.as_deref());
    }
}

fn send(client: &mut Client, plan: &Plan, line: &str, string: Option<&[u8]>) {
    let mut command: Command = Vec::new();
    for word in line.split(' ').map(Word::of) {
        match word {
            Word::Key => command.push(plan.name.as_bytes().to_vec()),
            Word::StringKey => command.push(format!("{}:string", plan.name).into_bytes()),
            Word::String => command.push(string.expect("a string").to_vec()),
            Word::Dump => {
                let (file, case) = plan.other.expect("another module's recording");
                let dump = other_recording(file, case)["dump_b64"].as_str().unwrap().to_owned();
                command.push(BASE64.decode(dump.as_bytes()).unwrap());
            }
            Word::Items(range) => command.extend(range.map(|number| plan.items.item(number))),
            Word::Bytes(bytes) => command.push(bytes),
            Word::Text(text) => command.push(text.as_bytes().to_vec()),
        }
    }
    let reply = client.call(&command);
    let refusals = match &reply {
        Value::Array(replies) => {
            replies.iter().filter(|reply| matches!(reply, Value::ServerError(_))).count()
        }
        reply => usize::from(matches!(reply, Value::ServerError(_))),
    };
    assert!(refusals == 0 || plan.fills_up, "{}: {line}: {}", plan.name, show(&reply));
}

/// The answers of BF.MEXISTS as digits.
fn answers(client: &mut Client, key: &str, items: &[Vec<u8>]) -> String {
    if items.is_empty() {
        return String::new();
    }
    let command: Vec<&[u8]> =
        [b"BF.MEXISTS", key.as_bytes()].into_iter().chain(items.iter().map(Vec::as_slice)).collect();
    client.array(&command).iter().map(show).collect()
}

fn pieces(client: &mut Client, key: &str) -> Vec<(u64, Vec<u8>)> {
    let mut pieces = Vec::new();
    let mut iterator = 0;
    loop {
        let reply = client.array(&["BF.SCANDUMP", key, &iterator.to_string()]);
        let [Value::Int(next), Value::BulkString(data)] = reply.as_slice() else {
            panic!("{key}: {reply:?}")
        };
        if *next == 0 {
            return pieces;
        }
        iterator = u64::try_from(*next).unwrap();
        pieces.push((iterator, data.clone()));
    }
}

fn rewrite(client: &mut Client) {
    client.say("BGREWRITEAOF");
    wait_until("rewrite", || {
        client.info_number("aof_rewrite_in_progress") == 0 && client.info_number("aof_rewrite_scheduled") == 0
    });
    assert_eq!(client.info("aof_last_bgrewrite_status").as_deref(), Some("ok"));
}

/// The commands of the append-only file, those of its parts in their order, without SELECT.
fn append_only_file(server: &Server) -> Vec<Command> {
    let folder = server.dir().join("appendonlydir");
    let manifest = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let manifest =
        manifest.into_iter().find(|path| path.extension().is_some_and(|it| it == "manifest")).unwrap();
    let mut commands = Vec::new();
    for line in fs::read_to_string(manifest).unwrap().lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let ["file", name, "seq", _, "type", "b" | "i", ..] = words.as_slice() else { continue };
        commands.extend(parsed(&fs::read(folder.join(name)).unwrap()));
    }
    commands.retain(|words| words[0] != b"SELECT");
    commands
}

fn parsed(mut bytes: &[u8]) -> Vec<Command> {
    let mut commands = Vec::new();
    while !bytes.is_empty() {
        let words = number(&mut bytes, b'*');
        let mut command = Vec::new();
        for _ in 0..words {
            let (word, rest) = {
                let length = number(&mut bytes, b'$');
                bytes.split_at(length)
            };
            command.push(word.to_vec());
            bytes = rest.strip_prefix(b"\r\n").expect("the end of a word");
        }
        commands.push(command);
    }
    commands
}

fn number(bytes: &mut &[u8], mark: u8) -> usize {
    let at = bytes.windows(2).position(|window| window == b"\r\n").expect("the end of a line");
    let (line, rest) = bytes.split_at(at);
    *bytes = &rest[2..];
    assert_eq!(line[0], mark, "not a file of commands");
    std::str::from_utf8(&line[1..]).unwrap().parse().unwrap()
}
