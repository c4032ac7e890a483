//! Changes are announced to watchers, subscribers to keyspace events and clients with a cache. Commands that change
//! nothing are not announced.

use crate::harness::{Raw, Server, Site, Test, tests, wait_until};
use crate::support::dialogues::replicated;

pub(crate) const TESTS: &[Test] = tests![
    creation_and_adds_notify,
    commands_that_change_nothing_raise_no_event,
    events_are_of_the_generic_class,
    only_changes_abort_watch,
    only_changes_invalidate_client_caches,
    items_that_expire_do_not_invalidate_client_caches,
];

/// Returns a subscriber to the key events of database 0.
fn subscribe(server: &Server, classes: &str) -> Raw {
    server.client().say(&format!("CONFIG SET notify-keyspace-events {classes}"));
    let mut raw = server.raw();
    assert!(raw.say("PSUBSCRIBE __keyevent@0__:*").contains("psubscribe"));
    raw
}

/// Returns the events of `commands`, as `event key`, without the server's own event `new`.
fn events(server: &Server, subscriber: &mut Raw, commands: &[&str]) -> Vec<String> {
    let mut client = server.client();
    for command in commands {
        client.say(command);
    }
    // The marker ends the loop below. It raises `set` in the class of strings, and `del` in the generic class.
    client.say("SET marker x");
    client.say("DEL marker");
    let mut seen = Vec::new();
    loop {
        let message = String::from_utf8_lossy(&subscriber.next()).into_owned();
        let lines: Vec<&str> = message.split("\r\n").collect();
        let [event, key] = [lines[lines.len() - 4], lines[lines.len() - 2]];
        let event = event.rsplit("__:").next().unwrap();
        match (event, key) {
            ("del", "marker") => return seen,
            ("set", "marker") | ("new", _) => {}
            _ => seen.push(format!("{event} {key}")),
        }
    }
}

fn creation_and_adds_notify(site: &Site) {
    let server = site.start();
    let mut subscriber = subscribe(&server, "KEA");
    let cases: [(&str, &[&str]); 16] = [
        ("BF.RESERVE r 0.01 2 NONSCALING", &["bloom.reserve r"]),
        ("BF.ADD r a", &["bloom.add r"]),
        ("BF.ADD a x", &["bloom.reserve a", "bloom.add a"]),
        ("BF.MADD m x y z", &["bloom.reserve m", "bloom.add m"]),
        ("BF.MADD m z w", &["bloom.add m"]),
        ("BF.INSERT i ITEMS x y", &["bloom.reserve i", "bloom.add i"]),
        ("BF.INSERT i ITEMS v", &["bloom.add i"]),
        // Partly accepted: one item is added, then the filter is full.
        ("BF.MADD r b c", &["bloom.add r"]),
        ("BF.BULKADD r FIXED 1 ab", &[]),
        ("BF.BULKADD m FIXED 1 zu", &["bloom.add m"]),
        ("BF.INSERT c COUNTING ITEMS x", &["bloom.reserve c", "bloom.add c"]),
        ("BF.DEL c y", &[]),
        ("BF.DEL c x y", &["bloom.del c"]),
        ("BF.CLEAR r", &["bloom.clear r"]),
        ("BF.CLEAR r", &[]),
        ("DEL r", &["del r"]),
    ];
    for (command, expected) in cases {
        assert_eq!(events(&server, &mut subscriber, &[command]), expected, "{command}");
    }
}

fn commands_that_change_nothing_raise_no_event(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    client.say("SET string text");
    let sent = replicated();
    sent.iter().for_each(|(command, _)| drop(client.say(command)));
    let mut subscriber = subscribe(&server, "KEA");
    let unchanged = sent.iter().filter(|(_, replicated)| replicated.is_empty());
    let commands: Vec<&str> = unchanged.map(|(command, _)| command.as_str()).collect();
    assert_eq!(events(&server, &mut subscriber, &commands), Vec::<String>::new());
}

fn events_are_of_the_generic_class(site: &Site) {
    let server = site.start();
    let mut subscriber = subscribe(&server, "Eg");
    assert_eq!(events(&server, &mut subscriber, &["BF.ADD k a"]), ["bloom.reserve k", "bloom.add k"]);
    // An add raises no event while only those of strings and modules are enabled.
    let mut client = server.client();
    client.say("CONFIG SET notify-keyspace-events E$d");
    client.say("BF.ADD k b");
    client.say("CONFIG SET notify-keyspace-events Eg");
    assert_eq!(events(&server, &mut subscriber, &[]), Vec::<String>::new());
}

fn only_changes_abort_watch(site: &Site) {
    let server = site.start();
    let mut other = server.client();
    other.say("BF.MADD k a b");
    other.say("BF.INSERT full CAPACITY 1 NONSCALING ITEMS a");
    other.say("BF.INSERT counts COUNTING ITEMS a");
    let (_, data) = crate::dump::chunk(&mut other, "k", 0).unwrap();
    let mut client = server.client();
    let cases = [
        ("k", "BF.ADD k a", false),
        ("k", "BF.MADD k a b", false),
        ("k", "BF.INSERT k CAPACITY 9 ITEMS b", false),
        ("k", "BF.RESERVE k 0.01 100", false),
        ("k", "BF.EXISTS k a", false),
        ("k", "BF.SCANDUMP k 0", false),
        ("k", "BF.LOADCHUNK k 1 rubbish", false),
        ("none", "BF.INSERT none NOCREATE ITEMS b", false),
        ("none", "BF.RESERVE none 0 100", false),
        ("full", "BF.ADD full b", false),
        ("counts", "BF.DEL counts x", false),
        ("counts", "BF.DEL counts a x", true),
        // The number of deletions is cleared too.
        ("counts", "BF.CLEAR counts", true),
        ("counts", "BF.CLEAR counts", false),
        ("k", "BF.BULKADD k FIXED 1 ab", false),
        ("full", "BF.CLEAR full", true),
        ("k", "BF.ADD k c", true),
        ("k", "BF.MADD k a d", true),
        ("new", "BF.ADD new a", true),
        ("new2", "BF.RESERVE new2 0.01 10", true),
        ("k", "DEL k", true),
    ];
    for (key, command, aborts) in cases {
        client.say(&format!("WATCH {key}"));
        other.say(command);
        client.say("MULTI");
        client.say("PING");
        let expected = if aborts { "nil" } else { "[+PONG]" };
        assert_eq!(client.say("EXEC"), expected, "{command}");
    }
    client.say("WATCH k");
    assert_eq!(crate::dump::load(&mut other, "k", 1, &data), "+OK");
    client.say("MULTI");
    assert_eq!(client.say("EXEC"), "nil", "a loaded header is a change");
}

fn only_changes_invalidate_client_caches(site: &Site) {
    let server = site.start();
    let mut other = server.client();
    other.say("BF.MADD k a b");
    let mut raw = server.raw3();
    assert_eq!(raw.say("CLIENT TRACKING ON"), "+OK\r\n");
    raw.say("BF.EXISTS k c");
    other.say("BF.ADD k a");
    // The next message on the connection is the reply, not an invalidation.
    assert_eq!(raw.say("BF.EXISTS k c"), "#f\r\n");
    other.say("BF.ADD k c");
    let push = raw.raw(b"PING\r\n");
    assert!(push.starts_with(b">2\r\n$10\r\ninvalidate\r\n"), "{}", push.escape_ascii());
    assert_eq!(raw.next(), b"+PONG\r\n");
    assert_eq!(raw.say("BF.EXISTS k c"), "#t\r\n");
}

fn items_that_expire_do_not_invalidate_client_caches(site: &Site) {
    let server = site.start();
    let mut other = server.client();
    other.say("BF.RESERVE k 0.0001 10 PWINDOW 700");
    other.say("BF.ADD k a");
    let mut raw = server.raw3();
    assert_eq!(raw.say("CLIENT TRACKING ON"), "+OK\r\n");
    raw.say("BF.EXISTS k a");
    wait_until("the item expires", || other.int("BF.EXISTS k a") == 0);
    // The next message on the connection is the reply, not an invalidation.
    assert_eq!(raw.say("PING"), "+PONG\r\n");
    other.say("BF.ADD k b");
    let push = raw.raw(b"PING\r\n");
    assert!(push.starts_with(b">2\r\n$10\r\ninvalidate\r\n"), "{}", push.escape_ascii());
}
