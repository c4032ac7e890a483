//! Properties of the scripts that can be tested without a build.
#![cfg(unix)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Returns a directory of programs: some of the machine's, and shell scripts in place of others.
fn programs(real: &[&str], pretended: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for name in real {
        let path =
            ["/usr/bin", "/bin"].map(|dir| Path::new(dir).join(name)).into_iter().find(|path| path.exists());
        std::os::unix::fs::symlink(path.unwrap(), dir.path().join(name)).unwrap();
    }
    for (name, body) in pretended {
        let path = dir.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    dir
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
}

#[test]
fn setup_lists_everything_that_is_missing() {
    let path = programs(
        &["bash", "sh", "dirname", "cut", "sed", "env"],
        &[("id", "echo 1000"), ("apt-get", "echo apt was called; exit 1")],
    );
    let output = Command::new(Path::new(ROOT).join("scripts/setup"))
        .args(["build", "server"])
        .env_clear()
        .env("PATH", path.path())
        .output()
        .unwrap();
    let said = text(&output);
    assert!(!output.status.success(), "{said}");
    for missing in ["Rust 1.", "a C compiler", "redis-server 7.0 or later", "valkey-server 7.2 or later"] {
        assert!(said.contains(missing), "{missing} is not in: {said}");
    }
    let command = said.lines().find(|line| line.contains("sudo apt-get install")).unwrap();
    for package in ["gcc", "libc6-dev", "redis-server"] {
        assert!(command.contains(package), "{package} is not in: {command}");
    }
    assert!(!said.contains("apt was called"), "{said}");
}

#[test]
fn make_checks_for_a_server_before_it_builds() {
    for (goal, wanted) in [
        ("run", true),
        ("test", true),
        ("test-server", true),
        ("test-tool", true),
        ("soak", true),
        ("sanitize", true),
        ("build", false),
    ] {
        let output = Command::new("make")
            .args(["--dry-run", goal])
            .current_dir(ROOT)
            .env_remove("SERVERS")
            .output()
            .unwrap();
        let said = text(&output);
        let setup = said.lines().find(|line| line.contains("scripts/setup build")).unwrap();
        assert_eq!(setup.contains("server"), wanted, "{goal}: {setup}");
        let before = said.split("cargo build").next().unwrap();
        assert!(before.contains("scripts/setup"), "{goal}: {said}");
    }
}

/// Runs the Zig wrapper of `make dist` with a shell script in place of Zig. Returns the current directory of that
/// script.
fn zig_runs_in(arguments: &[&str]) -> String {
    let zig = programs(&[], &[("zig", "pwd")]);
    fs::create_dir(zig.path().join("lib")).unwrap();
    let output = Command::new(Path::new(ROOT).join("scripts/dist-zig"))
        .args(arguments)
        .current_dir(ROOT)
        .env("DIST_ZIG", zig.path())
        .env("DIST_ZIG_CACHE", zig.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output));
    text(&output).trim_end().to_owned()
}

#[test]
fn zig_prints_absolute_paths_of_headers() {
    // cargo-zigbuild runs these commands, and passes the output to a program that runs in another directory.
    assert_eq!(zig_runs_in(&["env"]), "/");
    for compiler in ["cc", "c++"] {
        assert_eq!(
            zig_runs_in(&[compiler, "-E", "/tmp/empty.c", "-v", "-target", "x86_64-linux-gnu.2.17"]),
            "/"
        );
        // Paths of sources may be relative.
        let here = fs::canonicalize(ROOT).unwrap();
        for step in ["-c", "-E", "-S"] {
            assert_eq!(Path::new(&zig_runs_in(&[compiler, step, "source.c"])), here, "{compiler} {step}");
        }
    }
}

/// Returns the arguments with which the container image starts its server, one per line.
fn entry(arguments: &[&str], variables: &[(&str, &str)]) -> String {
    let path = programs(&["sh", "sed", "tr", "env", "echo"], &[("valkey-server", r#"printf '%s\n' "$@""#)]);
    let output = Command::new(Path::new(ROOT).join("packaging/container/entrypoint"))
        .args(arguments)
        .env_clear()
        .env("PATH", path.path())
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output));
    text(&output)
}

#[test]
fn the_image_starts_a_server_with_the_module() {
    let words = entry(&[], &[]);
    assert_eq!(
        words, "--dir\n/data\n--bind\n* -::*\n--loadmodule\n/usr/lib/redis/modules/everbloom.so\n",
        "nothing else is set"
    );
}

#[test]
fn the_image_takes_options_from_its_environment() {
    let words = entry(
        &["--maxmemory", "3gb"],
        &[
            ("MAXMEMORY", "2gb"),
            ("APPENDONLY", "yes"),
            ("SAVE", "3600 1 300 100"),
            ("REQUIREPASS", "two words $(false) `x` \"q\""),
            ("BF_ERROR_RATE", "0.001"),
            ("BF_ASSUME_REDISBLOOM_1_1", "yes"),
            ("BF_FORMAT", ""),
            ("DATA_DIR", "/elsewhere"),
        ],
    );
    for pair in [
        "--appendonly\nyes\n",
        "--save\n3600 1 300 100\n",
        "--requirepass\ntwo words $(false) `x` \"q\"\n",
        "--bf.error-rate\n0.001\n",
        "--bf.assume-redisbloom-1-1\nyes\n",
        "--dir\n/elsewhere\n",
    ] {
        assert!(words.contains(pair), "{pair} is not in: {words}");
    }
    assert!(!words.contains("bf.format"), "an empty variable sets nothing: {words}");
    // The server uses the last one.
    assert!(words.find("--maxmemory\n2gb\n").unwrap() < words.find("--maxmemory\n3gb\n").unwrap(), "{words}");
}

#[test]
fn the_image_runs_other_commands_too() {
    assert_eq!(entry(&["echo", "hello", "--there"], &[("MAXMEMORY", "2gb")]), "hello --there\n");
}

#[test]
fn workflows_use_existing_make_targets() {
    let makefile = fs::read_to_string(Path::new(ROOT).join("Makefile")).unwrap();
    let targets: Vec<&str> = makefile
        .lines()
        .filter_map(|line| line.split_once(':'))
        .filter(|(name, _)| !name.contains(['\t', ' ', '#']))
        .map(|(name, _)| name)
        .collect();
    let mut steps = 0;
    for entry in fs::read_dir(Path::new(ROOT).join(".github/workflows")).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        for line in text.lines() {
            let words = line.split_once("run: make ").map(|(_, words)| words);
            let Some(words) = words.or_else(|| line.split_once("target: [").map(|(_, words)| words)) else {
                continue;
            };
            for word in words
                .trim_end_matches(']')
                .split([',', ' '])
                .filter(|word| !word.is_empty())
                .take_while(|word| !word.contains(['=', '$', '>']))
            {
                steps += 1;
                assert!(targets.contains(&word), "{word} is no target of the Makefile: {line}");
            }
        }
    }
    assert!(steps >= 4, "{steps} steps found");
}

#[test]
fn explained_mutants_are_of_existing_functions() {
    let page = fs::read_to_string(Path::new(ROOT).join("docs/reliability.md")).unwrap();
    let mut names = 0;
    for line in page.lines().filter(|line| line.starts_with("* `src/")) {
        let (name, reason) = line.trim_start_matches("* `").split_once("`: ").unwrap();
        assert!(reason.len() > 20, "{line}");
        let (file, alteration) = name.split_once(": ").unwrap();
        let code = fs::read_to_string(Path::new(ROOT).join(file)).unwrap();
        let place = alteration.rsplit_once(" in ").map_or(alteration, |(_, place)| place);
        let function = place.split(" -> ").next().unwrap().rsplit([':', ' ']).next().unwrap();
        assert!(code.contains(&format!("fn {function}")), "no {function} in {file}");
        names += 1;
    }
    assert!(names > 0);
}
