//! Half-way: what is under the key, and beside it.

use std::io::Write;
use std::process::{Child, Command};

use crate::harness::{Client, Server, Site, Test, tests, wait_until};
use crate::tool::{Ended, Files, json, keys, run, spawn, url};

pub(crate) const TESTS: &[Test] = tests![
    ctrl_c_leaves_what_was_there,
    a_tool_that_is_killed_leaves_nothing_under_the_key,
    a_draft_that_goes_is_not_made_again,
    a_key_that_appears_meanwhile_stays,
];

/// Items enough that some were sent and the tool waits for more.
fn half(child: &mut Child) {
    let mut lines = String::new();
    for item in 0..200_000 {
        lines.push_str(&format!("item-{item}\n"));
    }
    child.stdin.as_mut().unwrap().write_all(lines.as_bytes()).unwrap();
}

/// A load from a pipe that does not end, once some of it has come to the server under another name.
fn begin(server: &Server, more: &[&str]) -> (Child, String) {
    let mut client = server.client();
    let before = keys(&mut client);
    let address = url(server);
    let mut child = spawn(&[&["load", &address, "k", "-", "--capacity", "1e6"], more].concat());
    half(&mut child);
    let mut draft = None;
    wait_until("a draft with items", || {
        draft = keys(&mut client).into_iter().find(|key| !before.contains(key));
        draft.as_ref().is_some_and(|draft| client.int(&format!("BF.CARD {draft}")) > 1000)
    });
    (child, draft.unwrap())
}

/// Sends a signal and waits for what comes of it, with the pipe open: the end of the input would end the load.
pub(crate) fn end_by(mut child: Child, name: &str) -> Ended {
    let input = child.stdin.take();
    let status = Command::new("sh").args(["-c", &format!("kill -{name} {}", child.id())]).status().unwrap();
    assert!(status.success());
    let ended = Ended::of(child.wait_with_output().unwrap());
    drop(input);
    ended
}

fn ctrl_c_leaves_what_was_there(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    for name in ["INT", "TERM"] {
        let (child, _) = begin(&server, &[]);
        let ended = end_by(child, name);
        assert_eq!((ended.code, keys(&mut client)), (Some(130), vec![]), "{name}: {}", ended.err);
    }
    let files = Files::new();
    json(&["load", &url(&server), "k", &files.items("items", 10)]);
    let before = client.digest("k");
    let (child, draft) = begin(&server, &["--replace"]);
    assert!(draft.starts_with("{k}:everbloom:"), "{draft}");
    assert_eq!(end_by(child, "INT").code, Some(130));
    assert_eq!((client.digest("k"), keys(&mut client)), (before, vec!["k".to_owned()]));
    // Nothing is left of a file either.
    let path = files.path("k.bloom");
    let mut child = spawn(&["build", "-", "-o", &path, "--capacity", "1e6"]);
    half(&mut child);
    assert_eq!(end_by(child, "INT").code, Some(130));
    assert!(!std::path::Path::new(&path).exists());
}

fn a_tool_that_is_killed_leaves_nothing_under_the_key(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    let (mut child, draft) = begin(&server, &[]);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(keys(&mut client), std::slice::from_ref(&draft));
    assert_expires(&mut client, &draft);
    // The next one does not mind.
    let files = Files::new();
    json(&["load", &url(&server), "k", &files.items("items", 10)]);
    assert_eq!(client.int("BF.CARD k"), 10);
}

fn assert_expires(client: &mut Client, draft: &str) {
    let seconds = client.int(&format!("TTL {draft}"));
    assert!((1..=600).contains(&seconds), "{seconds}");
}

fn a_draft_that_goes_is_not_made_again(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    let (mut child, draft) = begin(&server, &[]);
    assert_expires(&mut client, &draft);
    assert_eq!(client.int(&format!("DEL {draft}")), 1);
    // More items, more than are read ahead.
    for _ in 0..10 {
        if let Some(input) = child.stdin.as_mut() {
            let _ = input.write_all("again\n".repeat(200_000).as_bytes());
        }
    }
    let ended = Ended::of(child.wait_with_output().unwrap());
    assert_eq!((ended.code, keys(&mut client)), (Some(1), vec![]), "{}", ended.err);
}

fn a_key_that_appears_meanwhile_stays(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    let (child, _) = begin(&server, &[]);
    client.say("SET k mine");
    // The end of its input ends the load.
    let ended = Ended::of(child.wait_with_output().unwrap());
    assert!(ended.code == Some(1) && ended.err.contains("meanwhile"), "{}", ended.err);
    assert_eq!((client.say("GET k"), keys(&mut client)), ("\"mine\"".to_owned(), vec!["k".to_owned()]));
    assert_eq!(run(&["load", &url(&server), "k", "/dev/null", "--replace", "--capacity", "1"]).code, Some(0));
}
