//! Tests connections: credentials, certificates, clusters, and errors.

use std::io::Write;
use std::net::TcpListener;
use std::thread::sleep;
use std::time::Duration;

use crate::harness::{Site, Test, show, skip, tests, wait_until};
use crate::interrupting::{end_by, send};
use crate::tool::{
    Ended, Files, cluster, command, fail, fixture, json, keys, present, run, spawn, start, url,
};

pub(crate) const TESTS: &[Test] = tests![
    credentials_come_from_the_address_or_the_environment_and_are_not_shown,
    certificates_are_checked,
    missing_files_servers_and_modules_are_errors,
    a_node_without_the_module_is_named,
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
    fail(1, "certificate", &[&["load", &address, "k", &file], &shown[..]].concat());
    // The server requires a client certificate.
    fail(1, "", &["load", &address, "k", &file, "--cacert", &certificate]);
    json(&[&["load", &address, "k", &file, "--cacert", &certificate], &shown[..]].concat());
    assert_eq!(present(&mut client, "k", &[b"item-0", b"item-99"]), 2);
}

fn missing_files_servers_and_modules_are_errors(site: &Site) {
    let (server, _, files) = start(site);
    let file = files.items("items", 10);
    for arguments in [
        &["load", &url(&server), "k", "/no/such/file"][..],
        &["load", &url(&server), "k", "/"],
        &["load", "redis://127.0.0.1:1", "k", &file],
        &["copy", "redis://127.0.0.1:1", &url(&server)],
        &["copy", &url(&server), "redis://127.0.0.1:1"],
    ] {
        fail(1, "everbloom: ", arguments);
        let ended = run(&[arguments, &["--json"]].concat());
        let last: serde_json::Value = serde_json::from_str(ended.err.lines().last().unwrap()).unwrap();
        assert_eq!(last["code"], 1, "{last}");
    }
    fail(1, "create it first", &["load", &url(&server), "none", &file, "--add"]);
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
        let ended = fail(1, hint, &["load", &format!("{scheme}://{address}"), "k", &file]);
        assert!(ended.err.contains("check the address") && ended.err.lines().count() == 1, "{}", ended.err);
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
        fail(1, "everbloom is not loaded. Add the line `loadmodule", arguments);
    }
    assert_eq!(keys(&mut bare.client()), [""; 0]);
}

fn a_node_without_the_module_is_named(site: &Site) {
    let launch = || site.launch().in_cluster();
    let nodes = cluster([launch().start(), launch().without_module().start()]);
    let files = Files::new();
    let (file, address) = (files.items("items", 10), url(&nodes[0]));
    // The key `foo` is on the second node.
    for arguments in [
        &["load", &address, "foo", &file][..],
        &["load", &address, "k", &file, "--partitions", "24"],
        &["check", &address],
        &["copy", &address, &address],
    ] {
        let ended = fail(1, "everbloom is not loaded", &[arguments, &["-c"]].concat());
        let named = format!("everbloom: 127.0.0.1:{}: ", nodes[1].port());
        assert!(ended.err.contains(&named), "{}", ended.err);
    }
    json(&["load", &address, "bar", &file, "-c"]);
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
