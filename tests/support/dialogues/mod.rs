//! Dialogues: commands with their replies, in text files. Two kinds of tests run the same dialogues: the tests of commands
//! with a simulated server, and the tests of servers with real servers in both protocols.
//!
//! A dialogue begins with a head: `== NAME`, `== NAME: SETTING VALUE, SETTING VALUE`, or `== NAME, simulated: ...` if only
//! the simulated server can run it, because it sets the clock, speaks as a primary, or names keys of other users or nodes. There are no filters then, and the
//! key `string` has another type. Its lines are `COMMAND => REPLY`, where `\n`, `\r`, `\0` and `\x7f` are bytes. The words
//! of a command are separated by one space. The replies have the notation of `server::Server`: `#t` and `#f` are booleans,
//! `*2` an array of two, `$` a bulk string, `_` null, `,` a double. `CONFIG SET` changes a setting until the end of the
//! dialogue. Lines that begin with `#` are comments.
//!
//! Lines that begin with `@` are for the simulated server:
//!
//! * `@ sent => LINES`: what was replicated since the last such line, separated by `|`. A real server ignores the line.
//! * `@ 5000`: the clock shows 5000 ms after the start of the dialogue.
//! * `@ primary`, `@ client`: the next commands come from a primary, or from a client.
//!
//! `<5000>` in a line is the time 5000 ms after the start, in milliseconds.

pub mod arity;
pub mod simulated;

const FILES: [&str; 4] = [
    include_str!("errors.txt"),
    include_str!("replies.txt"),
    include_str!("settings.txt"),
    include_str!("times.txt"),
];

/// Commands with their replies.
pub type Lines = Vec<(String, String)>;

/// A dialogue.
pub struct Dialogue {
    pub name: &'static str,
    /// Whether only the simulated server can run it.
    pub is_simulated: bool,
    /// The settings at its start, as `CONFIG SET` gets them.
    pub settings: Vec<&'static str>,
    pub lines: Lines,
}

/// Returns every dialogue.
pub fn dialogues() -> Vec<Dialogue> {
    let mut dialogues: Vec<Dialogue> = Vec::new();
    for line in FILES.into_iter().flat_map(commands) {
        if let Some(head) = line.strip_prefix("== ") {
            let (name, settings) = head.split_once(": ").unwrap_or((head, ""));
            let (name, is_simulated) =
                name.strip_suffix(", simulated").map_or((name, false), |name| (name, true));
            let settings = settings.split_terminator(", ").collect();
            dialogues.push(Dialogue { name, is_simulated, settings, lines: Vec::new() });
        } else {
            dialogues.last_mut().expect("a head").lines.push(pair(line));
        }
    }
    dialogues
}

/// Returns commands, each with the command that replicates it; an empty string if nothing is replicated. The replicated
/// command has every parameter of a new filter, and only the changes of an existing filter. The commands are run in order
/// on one server.
pub fn replicated() -> Lines {
    commands(include_str!("replicated.txt")).map(pair).collect()
}

/// Returns the lines of a file without its comments.
fn commands(file: &'static str) -> impl Iterator<Item = &'static str> {
    file.lines().filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// Returns a command and its reply.
fn pair(line: &str) -> (String, String) {
    let (command, reply) = match line.split_once(" =>") {
        Some((command, reply)) => (command, reply.strip_prefix(' ').unwrap_or(reply)),
        None if line.starts_with("@ ") => (line, ""),
        None => panic!("no reply: {line}"),
    };
    (text(command), text(reply))
}

/// Returns a command or a reply with the bytes that are written as in Rust.
fn text(line: &str) -> String {
    let text = line.replace("\\n", "\n").replace("\\r", "\r").replace("\\0", "\0");
    let mut parts = text.split("\\x");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        let byte = u8::from_str_radix(&part[..2], 16).expect("two digits");
        format!("{text}{}{}", char::from(byte), &part[2..])
    })
}
