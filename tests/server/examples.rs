//! Runs every `redis` block of the documentation and compares the printed replies. Also checks sentences of the
//! documentation that no other test covers.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use redis::Value;

use crate::harness::{Client, ROOT, Site, Test, skip, tests, wait_until};

pub(crate) const TESTS: &[Test] = tests![
    every_example_replies_as_printed,
    the_documented_section_of_info_exists,
    redis_7_0_has_no_category_for_our_commands,
    a_reserved_filter_counts_towards_maxmemory,
    the_greeting_of_make_run_has_commands_for_every_shell_and_the_next_page,
];

fn every_example_replies_as_printed(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    let mut blocks = 0;
    for page in pages() {
        let text = std::fs::read_to_string(&page).expect("read a page");
        for block in text.split("```redis\n").skip(1) {
            let block = block.split("```").next().expect("the end of a block");
            client.say("FLUSHALL");
            run(&mut client, block, &page.display().to_string());
            blocks += 1;
        }
    }
    assert!(blocks >= 10, "only {blocks} examples found");
}

/// Returns README.md and all pages in docs/.
fn pages() -> Vec<PathBuf> {
    let root = PathBuf::from(ROOT);
    let docs = std::fs::read_dir(root.join("docs")).expect("docs/");
    let mut pages: Vec<PathBuf> = docs.map(|entry| entry.expect("an entry of docs/").path()).collect();
    pages.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    pages.push(root.join("README.md"));
    pages
}

/// Runs a block. A line that begins with `> ` is a command; the lines up to the next one are its reply.
fn run(client: &mut Client, block: &str, page: &str) {
    let mut lines = block.lines().peekable();
    while let Some(line) = lines.next() {
        let command = line.strip_prefix("> ").unwrap_or_else(|| panic!("{page}: no command: {line}"));
        let mut expected = Vec::new();
        while let Some(reply) = lines.next_if(|line| !line.starts_with("> ")) {
            expected.push(reply);
        }
        let words: Vec<&str> = command.split_whitespace().map(|word| word.trim_matches('"')).collect();
        let reply = printed(&client.call(&words), "");
        assert_eq!(reply, expected.join("\n"), "{page}: {command}");
    }
}

/// Returns a reply as redis-cli prints it.
fn printed(value: &Value, indent: &str) -> String {
    match value {
        Value::Nil => "(nil)".to_owned(),
        Value::Int(number) => format!("(integer) {number}"),
        Value::BulkString(bytes) => format!("\"{}\"", bytes.escape_ascii()),
        Value::SimpleString(text) => text.clone(),
        Value::Okay => "OK".to_owned(),
        Value::ServerError(error) => {
            format!("(error) {} {}", error.code(), error.details().unwrap_or_default()).trim_end().to_owned()
        }
        Value::Array(values) if values.is_empty() => "(empty array)".to_owned(),
        Value::Array(values) => {
            let width = values.len().to_string().len();
            let deeper = format!("{indent}{}", " ".repeat(width + 2));
            let lines = values.iter().enumerate().map(|(index, value)| {
                let margin = if index == 0 { "" } else { indent };
                format!("{margin}{:>width$}) {}", index + 1, printed(value, &deeper))
            });
            lines.collect::<Vec<_>>().join("\n")
        }
        other => panic!("an example with a reply of this kind: {other:?}"),
    }
}

fn the_documented_section_of_info_exists(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    client.say("BF.MADD k a b");
    for (words, is_there) in [
        ("INFO bf", true),
        ("INFO modules", true),
        ("INFO everything", true),
        ("INFO", false),
        ("INFO all", false),
    ] {
        let words: Vec<&str> = words.split(' ').collect();
        let text = String::from_utf8(client.bytes(&words)).expect("text");
        for field in ["bf_release:", "bf_filters:", "bf_items:", "bf_bytes:", "bf_adds:", "bf_checks:"] {
            assert_eq!(text.contains(field), is_there, "{words:?}: {field}");
        }
    }
    let text = String::from_utf8(client.bytes(&["INFO", "commandstats"])).expect("text");
    assert!(text.contains("cmdstat_bf.madd:"), "{text}");
    let adds = client.info_number("bf_adds");
    client.say("CONFIG RESETSTAT");
    assert_eq!(client.info_number("bf_adds"), adds);
}

fn redis_7_0_has_no_category_for_our_commands(site: &Site) {
    if site.from(Some((7, 2)), Some((7, 2))) {
        return skip("only Redis 7.0 has no categories for the commands of modules");
    }
    let server = site.start();
    let mut client = server.client();
    client.say("ACL SETUSER u reset on nopass ~* +@all -@write");
    assert_eq!(client.say("ACL DRYRUN u BF.ADD k a"), "+OK");
    client.say("ACL SETUSER u reset on nopass ~* +@read +@write +@fast");
    assert!(!client.say("ACL DRYRUN u BF.EXISTS k a").contains("OK"));
    client.say("ACL SETUSER u reset on nopass ~* +@all -bf.add");
    assert!(!client.say("ACL DRYRUN u BF.ADD k a").contains("OK"));
}

fn a_reserved_filter_counts_towards_maxmemory(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    let limit = client.info_number("used_memory") + 8_000_000;
    client.say(&format!("CONFIG SET maxmemory {limit}"));
    assert!(client.say("BF.RESERVE larger 0.01 10000000").starts_with("-ERR filter would take"));
    assert_eq!(client.say("BF.RESERVE first 0.01 5000000"), "+OK");
    assert_eq!(client.say("BF.RESERVE above 0.01 5000000"), "+OK");
    assert!(client.say("SET s x").starts_with("-OOM"));
    client.say("CONFIG SET maxmemory-policy allkeys-random");
    assert_eq!(client.say("SET s x"), "+OK");
    assert!(client.int("EXISTS first above") < 2);
}

fn the_greeting_of_make_run_has_commands_for_every_shell_and_the_next_page(site: &Site) {
    if site.elsewhere.is_some() {
        return skip("`make run` starts a server of this system");
    }
    let root = Path::new(ROOT);
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let directory = tempfile::tempdir().unwrap();
    let make_run = Command::new(root.join("scripts/run"))
        .env("PORT", port.to_string())
        .env("SERVER", &site.binary)
        .env("MODULE", &site.module)
        .env("CARGO_TARGET_DIR", directory.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut make_run = Killed(make_run);
    let said: Arc<Mutex<String>> = Arc::default();
    let (output, said_so_far) = (make_run.0.stdout.take().unwrap(), Arc::clone(&said));
    thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            said_so_far.lock().unwrap().push_str(&format!("{line}\n"));
        }
    });
    let greeting = || {
        let said = said.lock().unwrap();
        let (_, greeting) = said.split_once("everbloom is ready")?;
        let (commands, next) = greeting.split_once("\nNext: ")?;
        Some((commands.to_owned(), next.lines().next()?.to_owned()))
    };
    wait_until("the greeting", || greeting().is_some());
    let (commands, next) = greeting().unwrap();
    let mut replies = Vec::new();
    for command in commands.lines().filter_map(|line| line.strip_prefix("  ")) {
        // `#` begins a comment in some shells, and is an argument in others.
        assert!(command.chars().all(|c| c.is_ascii_alphanumeric() || " -.".contains(c)), "{command}");
        let (_, words) = command.split_once(&format!("-cli -p {port} ")).expect(command);
        replies.push(Client::connect(port, false).unwrap().say(words));
    }
    assert_eq!(replies[..3], ["1", "1", "0"], "{commands}");
    assert!(commands.contains("The first three replies are 1, 1 and 0"), "{commands}");
    let (page, section) = (next.split(',').next().unwrap(), next.split('"').nth(1).unwrap());
    let page = std::fs::read_to_string(root.join(page)).expect(&next);
    assert!(page.contains(&format!("\n## {section}\n")), "{next}");
}

/// A process that is killed when the test ends.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
