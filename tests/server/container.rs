//! Tests the health check of compose.yaml: it fails if the server does not serve filters to its clients.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::harness::{Server, Site, Test, skip, tests};

pub(crate) const TESTS: &[Test] = tests![the_health_check_fails_without_the_module_or_the_password];

/// Returns the shell command of the health check.
fn health_check() -> String {
    let file = include_str!("../../compose.yaml");
    let line = file.lines().find_map(|line| line.trim().strip_prefix("test: ")).unwrap();
    // This list in YAML is also valid JSON.
    let test: Vec<String> = serde_json::from_str(line).unwrap();
    assert_eq!(test[0], "CMD-SHELL");
    // Compose replaces $VARIABLE in the file, and $$ by a dollar sign.
    let command = test[1].replace("$$", "\0");
    assert!(!command.contains('$'), "{command}");
    command.replace('\0', "$")
}

/// The command-line clients in the images of Valkey and Redis.
const CLIENTS: [&str; 2] = ["valkey-cli", "redis-cli"];

/// Runs the health check as in a container that has only the client `name`, and `password` in REQUIREPASS. Returns
/// whether it succeeds, and its output.
fn run_check(cli: &Path, name: &str, server: &Server, password: Option<&str>) -> (bool, String) {
    let dir = tempfile::tempdir().unwrap();
    let wrapper = dir.path().join(name);
    // The health check uses the default port, so the wrapper adds the port of this server.
    let script = format!("#!/bin/sh\nexec {} -p {} \"$@\"\n", cli.display(), server.port());
    fs::write(&wrapper, script).unwrap();
    fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new("/bin/sh");
    command.args(["-c", &health_check()]).env_clear().env("PATH", dir.path());
    let output = command.envs(password.map(|password| ("REQUIREPASS", password))).output().unwrap();
    (output.status.success(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

/// Runs the health check with each client, which must not make a difference. Returns whether it succeeds, and its
/// output.
fn health(cli: &Path, server: &Server, password: Option<&str>) -> (bool, String) {
    let [valkey, redis] = CLIENTS.map(|name| run_check(cli, name, server, password));
    assert_eq!(valkey, redis);
    valkey
}

fn the_health_check_fails_without_the_module_or_the_password(site: &Site) {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut candidates = std::env::split_paths(&path).flat_map(|dir| CLIENTS.map(|name| dir.join(name)));
    let Some(cli) = candidates.find(|candidate| candidate.exists()) else {
        return skip("neither redis-cli nor valkey-cli is installed");
    };
    let server = site.start();
    assert!(health(&cli, &server, None).0, "{:?}", health(&cli, &server, None));
    // An empty variable sets no password.
    assert!(health(&cli, &server, Some("")).0, "{:?}", health(&cli, &server, Some("")));
    server.client().say("CONFIG SET bf.missing-filter error");
    assert!(health(&cli, &server, None).0, "{:?}", health(&cli, &server, None));
    let password = "two words 'q' $x";
    server.client().call(&["CONFIG", "SET", "requirepass", password]);
    assert!(!health(&cli, &server, None).0);
    assert!(!health(&cli, &server, Some("another")).0);
    let (is_healthy, said) = health(&cli, &server, Some(password));
    assert!(is_healthy && !said.contains("Warning"), "{said}");
    assert!(!health(&cli, &site.launch().without_module().start(), None).0);
}
