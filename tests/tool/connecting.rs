//! Tests connections: credentials, certificates, clusters, and errors.

use std::io::Write;
use std::net::TcpListener;
use std::thread::sleep;
use std::time::Duration;

use crate::harness::{Site, Test, show, skip, tests, wait_until};
use crate::interrupting::{end_by, send};
use crate::tool::{Ended, Files, command, fixture, json, keys, present, run, spawn, two_nodes, url};

pub(crate) const TESTS: &[Test] = tests![
    credentials_come_from_the_address_or_the_environment_and_are_not_shown,
    the_tool_finds_the_node_with_the_slot,
    certificates_are_checked,
    missing_files_servers_and_modules_are_errors,
    a_signal_ends_the_tool_while_it_connects_but_a_stop_does_not,
];

fn credentials_come_from_the_address_or_the_environment_and_are_not_shown(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    client.say("ACL SETUSER loader on >s3cret-word ~* +@all");
    client.say("ACL SETUSER default resetpass >other-word");
    let files = Files::new();
    let file = files.items("items", 10);
    let with = |user: &str| format!("redis://{user}@127.0.0.1:{}", server.port());
    json(&["load", &with("loader:s3cret-word"), "k", &file]);
    json(&["load", &with(":other-word"), "k", &file, "--replace", "--resp3"]);
    let from_environment = |user: Option<&str>, password: &str| {
        let mut command = command(&["load", &url(&server), "k", &file, "--replace", "--json"]);
        command.env("EVERBLOOM_PASSWORD", password);
        user.map(|user| command.env("EVERBLOOM_USERNAME", user));
        Ended::of(command.output().unwrap())
    };
    assert_eq!(from_environment(Some("loader"), "s3cret-word").code, Some(0));
    assert_eq!(from_environment(None, "other-word").code, Some(0));
    let wrong = [
        from_environment(Some("loader"), "wr0ng-word"),
        run(&["load", &with("loader:wr0ng-word"), "k", &file]),
        run(&["load", "redis://loader:wr0ng-word@127.0.0.1:port/x", "k", &file]),
        run(&["load", "http://loader:wr0ng-word@127.0.0.1", "k", &file]),
    ];
    assert!(wrong[1].err.contains("refused the user or the password"), "{}", wrong[1].err);
    for ended in wrong {
        assert!(matches!(ended.code, Some(1 | 2)) && !ended.err.is_empty());
        assert!(!(ended.out + &ended.err).contains("wr0ng-word"));
    }
}

fn the_tool_finds_the_node_with_the_slot(site: &Site) {
    let nodes = two_nodes(site);
    let files = Files::new();
    let file = files.items("items", 1000);
    // Keys in the slots 12182 and 5061, a key with a hash tag, and a key that cannot be a hash tag itself.
    for key in ["foo", "bar", "x{foo}y", "a}b"] {
        for node in &nodes {
            json(&["load", &url(node), key, &file, "-c", "--replace"]);
        }
        let found = nodes.iter().filter(|node| keys(&mut node.client()).contains(&key.to_owned())).count();
        assert_eq!(found, 1, "{key}");
    }
    let all: usize = nodes.iter().map(|node| keys(&mut node.client()).len()).sum();
    assert_eq!(all, 4);
    // Without the option, the error says which node serves the slot.
    let refused = nodes.iter().map(|node| run(&["load", &url(node), "new", &file]));
    assert_eq!(refused.filter(|ended| ended.code == Some(1) && ended.err.contains("MOVED")).count(), 1);
}

fn certificates_are_checked(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    let (certificate, key) = (fixture("tls.crt"), fixture("tls.key"));
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let settings = ["tls-cert-file", &certificate, "tls-key-file", &key, "tls-ca-cert-file", &certificate];
    let set = [&["CONFIG", "SET"], &settings[..], &["tls-port", &port]].concat();
    let reply = show(&client.call(&set));
    if reply.contains("Unknown option") || reply.contains("Unsupported CONFIG parameter") {
        return skip("the server was built without TLS");
    }
    assert_eq!(reply, "+OK");
    let files = Files::new();
    let file = files.items("items", 100);
    let address = format!("rediss://127.0.0.1:{port}");
    let shown = ["--cert", &certificate, "--key", &key];
    // The system does not trust the certificate of the server.
    assert_eq!(run(&[&["load", &address, "k", &file], &shown[..]].concat()).code, Some(1));
    // The server requires a client certificate.
    assert_eq!(run(&["load", &address, "k", &file, "--cacert", &certificate]).code, Some(1));
    json(&[&["load", &address, "k", &file, "--cacert", &certificate], &shown[..]].concat());
    assert_eq!(present(&mut client, "k", &[b"item-0", b"item-99"]), 2);
}

fn missing_files_servers_and_modules_are_errors(site: &Site) {
    let server = site.start();
    let files = Files::new();
    let file = files.items("items", 10);
    for arguments in [
        &["load", &url(&server), "k", "/no/such/file"][..],
        &["load", &url(&server), "k", "/"],
        &["load", "redis://127.0.0.1:1", "k", &file],
    ] {
        let ended = run(arguments);
        assert!(
            ended.code == Some(1) && ended.err.starts_with("everbloom: "),
            "{arguments:?}: {}",
            ended.err
        );
        let ended = run(&[arguments, &["--json"]].concat());
        let last: serde_json::Value = serde_json::from_str(ended.err.lines().last().unwrap()).unwrap();
        assert_eq!(last["code"], 1, "{last}");
    }
    let ended = run(&["load", &url(&server), "none", &file, "--add"]);
    assert!(ended.code == Some(1) && ended.err.contains("create it first"), "{}", ended.err);
    // A server of another protocol.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let web_server = std::thread::spawn(move || {
        for _ in 0..2 {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n").unwrap();
        }
    });
    for (scheme, hint) in
        [("redis", "is not in the protocol of Redis"), ("rediss", "speaks TLS at this port")]
    {
        let ended = run(&["load", &format!("{scheme}://{address}"), "k", &file]);
        let is_clear = ended.err.contains(hint) && ended.err.contains("check the address");
        assert!(ended.code == Some(1) && is_clear && ended.err.lines().count() == 1, "{}", ended.err);
    }
    web_server.join().unwrap();
    // A server without the module.
    let bare = site.launch().without_module().start();
    for arguments in [
        // The tool must connect before it counts the items.
        &["load", &url(&bare), "k", "/no/such/file"][..],
        &["load", &url(&bare), "k", &file, "--add"],
        &["check", &url(&bare)],
        &["copy", &url(&bare), &url(&server)],
        &["copy", &url(&server), &url(&bare)],
    ] {
        let ended = run(arguments);
        assert!(
            ended.code == Some(1) && ended.err.contains("everbloom is not loaded. Add the line `loadmodule"),
            "{arguments:?}: {}",
            ended.err
        );
    }
    assert_eq!(keys(&mut bare.client()), [""; 0]);
}

fn a_signal_ends_the_tool_while_it_connects_but_a_stop_does_not(_: &Site) {
    // A server that never replies.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let tool = spawn(&["check", &format!("redis://{}", listener.local_addr().unwrap())]);
    let mut connections = Vec::new();
    wait_until("the tool's connection", || {
        listener.accept().map(|accepted| connections.push(accepted)).is_ok()
    });
    wait_until("its next connection after a stop", || {
        send(&tool, "STOP");
        send(&tool, "CONT");
        listener.accept().map(|accepted| connections.push(accepted)).is_ok()
    });
    sleep(Duration::from_millis(300));
    let ended = end_by(tool, "INT");
    assert!(ended.code == Some(130) && ended.err.contains("interrupted"), "{}", ended.err);
}
