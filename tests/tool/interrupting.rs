//! Interrupts loads, and checks the key and the temporary key.

use std::io::Write;
use std::process::{Child, Command};

use crate::harness::{Server, Site, Test, tests, wait_until};
use crate::tool::{Ended, Files, Loading, json, keys, present, url};

pub(crate) const TESTS: &[Test] = tests![
    a_signal_leaves_the_key_unchanged,
    an_interrupted_addition_says_how_many_items_are_in,
    a_killed_load_leaves_only_a_temporary_key_that_expires,
    a_load_fails_if_its_temporary_key_is_deleted,
    a_key_that_another_client_creates_is_unchanged,
];

/// Starts a load. Returns it with the temporary key, which has some of the items.
fn begin(server: &Server, more: &[&str]) -> (Loading, String) {
    let mut client = server.client();
    let before = keys(&mut client);
    let mut loading = Loading::begin(server, more);
    loading.next();
    let mut draft = None;
    wait_until("a draft with items", || {
        draft = keys(&mut client).into_iter().find(|key| !before.contains(key));
        draft.as_ref().is_some_and(|draft| client.int(&format!("BF.CARD {draft}")) > 1000)
    });
    (loading, draft.unwrap())
}

/// Sends a signal to the tool.
pub(crate) fn send(child: &Child, name: &str) {
    let status = Command::new("sh").args(["-c", &format!("kill -{name} {}", child.id())]).status().unwrap();
    assert!(status.success());
}

/// Sends a signal and waits for the end of the tool. The pipe stays open, since the end of the input ends the load.
pub(crate) fn end_by(mut child: Child, name: &str) -> Ended {
    let input = child.stdin.take();
    send(&child, name);
    let ended = Ended::of(child.wait_with_output().unwrap());
    drop(input);
    ended
}

fn a_signal_leaves_the_key_unchanged(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    for name in ["INT", "TERM"] {
        let (loading, _) = begin(&server, &[]);
        let ended = end_by(loading.child, name);
        assert_eq!((ended.code, keys(&mut client)), (Some(130), vec![]), "{name}: {}", ended.err);
    }
    let files = Files::new();
    json(&["load", &url(&server), "k", &files.items("items", 10)]);
    let before = client.digest("k");
    let (loading, draft) = begin(&server, &["--replace"]);
    assert!(draft.starts_with("{k}:everbloom:"), "{draft}");
    assert_eq!(end_by(loading.child, "INT").code, Some(130));
    assert_eq!((client.digest("k"), keys(&mut client)), (before, vec!["k".to_owned()]));
}

fn an_interrupted_addition_says_how_many_items_are_in(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    for (how, arguments) in [
        ("INT", &["--add"][..]),
        ("TERM", &["--add", "--json"]),
        ("OOM", &["--add"]),
        // The user has no permission for BF.BULKADD, so the tool uses BF.INSERT.
        ("INT", &["--add", "--resp3"]),
    ] {
        if arguments.contains(&"--resp3") {
            client.say("ACL SETUSER default -bf.bulkadd");
        }
        client.say("DEL k");
        assert_eq!(client.say("BF.RESERVE k 0.0001 2000000"), "+OK");
        let mut loading = Loading::add(&server, arguments);
        loading.next();
        wait_until("some items", || client.int("BF.CARD k") > 1000);
        let items = loading.items.clone();
        let ended = if how == "OOM" {
            client.say("CONFIG SET maxmemory 1");
            // Until the tool ends, which closes the pipe.
            let input = loading.child.stdin.as_mut().unwrap();
            while input.write_all("another item\n".repeat(100_000).as_bytes()).is_ok() {}
            let ended = loading.end().0;
            client.say("CONFIG SET maxmemory 0");
            ended
        } else {
            end_by(loading.child, how)
        };
        assert_eq!(ended.code, Some(if how == "OOM" { 1 } else { 130 }), "{}", ended.err);
        let has = if how == "OOM" { "; the filter has at least " } else { "interrupted; the filter has " };
        assert!(ended.err.contains(has), "{}", ended.err);
        let (before, _) = ended.err.split_once(" items of the input").expect(&ended.err);
        let number: usize = before.rsplit(' ').next().unwrap().parse().unwrap();
        assert!(number > 1000 && number < items.len(), "{number}");
        let mut found = |items: &[String]| {
            let bytes: Vec<&[u8]> = items.iter().map(|item| item.as_bytes()).collect();
            bytes.chunks(10_000).map(|items| present(&mut client, "k", items)).sum::<usize>()
        };
        assert_eq!(found(&items[..number]), number);
        // 0.01 % of the other items are found by chance.
        assert!(how == "OOM" || found(&items[number..]) < 100, "{}", ended.err);
    }
}

fn a_killed_load_leaves_only_a_temporary_key_that_expires(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    let (mut loading, draft) = begin(&server, &[]);
    loading.child.kill().unwrap();
    loading.child.wait().unwrap();
    assert_eq!(keys(&mut client), std::slice::from_ref(&draft));
    assert!((1..=600).contains(&client.int(&format!("TTL {draft}"))));
    // The next load succeeds.
    let files = Files::new();
    json(&["load", &url(&server), "k", &files.items("items", 10)]);
    assert_eq!(client.int("BF.CARD k"), 10);
}

fn a_load_fails_if_its_temporary_key_is_deleted(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    let (mut loading, draft) = begin(&server, &[]);
    assert!((1..=600).contains(&client.int(&format!("TTL {draft}"))));
    assert_eq!(client.int(&format!("DEL {draft}")), 1);
    // Writes more items than the tool reads ahead.
    for _ in 0..10 {
        if let Some(input) = loading.child.stdin.as_mut() {
            let _ = input.write_all("again\n".repeat(200_000).as_bytes());
        }
    }
    let (ended, _) = loading.end();
    assert_eq!((ended.code, keys(&mut client)), (Some(1), vec![]), "{}", ended.err);
}

fn a_key_that_another_client_creates_is_unchanged(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    let (loading, _) = begin(&server, &[]);
    client.say("SET k mine");
    let (ended, _) = loading.end();
    assert!(ended.code == Some(1) && ended.err.contains("in the meantime"), "{}", ended.err);
    assert_eq!((client.say("GET k"), keys(&mut client)), ("\"mine\"".to_owned(), vec!["k".to_owned()]));
    // If the key is not a filter, --replace replaces it only together with --force.
    let (loading, _) = begin(&server, &["--replace", "--force"]);
    client.say("SET k other");
    assert_eq!(loading.end().0.code, Some(0));
    let (loading, _) = begin(&server, &["--replace"]);
    client.say("SET k mine");
    let (ended, _) = loading.end();
    assert!(ended.code == Some(1) && ended.err.contains("a string, not a filter"), "{}", ended.err);
    assert_eq!((client.say("GET k"), keys(&mut client)), ("\"mine\"".to_owned(), vec!["k".to_owned()]));
}
