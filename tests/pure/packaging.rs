//! The container image, the packages and the workflows agree with the files that they use.

use crate::support::ROOT;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(ROOT).join(path)).unwrap()
}

/// Returns a directory for the PATH, with links to the `real` programs of this machine and with shell scripts in place
/// of others.
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
            // Those that Kubernetes sets for the Services bf and bf-cache.
            ("BF_SERVICE_HOST", "10.0.0.1"),
            ("BF_SERVICE_PORT", "6379"),
            ("BF_SERVICE_PORT_REDIS", "6379"),
            ("BF_PORT", "tcp://10.0.0.1:6379"),
            ("BF_PORT_6379_TCP", "tcp://10.0.0.1:6379"),
            ("BF_PORT_6379_TCP_ADDR", "10.0.0.1"),
            ("BF_CACHE_SERVICE_HOST", "10.0.0.2"),
            ("BF_CACHE_PORT_6379_TCP_PROTO", "tcp"),
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
    assert_eq!(words.matches("--bf.").count(), 2, "{words}");
    // The server uses the last of repeated options.
    assert!(words.find("--maxmemory\n2gb\n").unwrap() < words.find("--maxmemory\n3gb\n").unwrap(), "{words}");
}

#[test]
fn an_empty_save_turns_snapshots_off() {
    assert!(entry(&[], &[("SAVE", "")]).contains("--save\n\n"), "{}", entry(&[], &[("SAVE", "")]));
    assert!(!entry(&[], &[("REQUIREPASS", ""), ("MAXMEMORY", "")]).contains("--re"));
    assert!(!entry(&[], &[]).contains("--save"));
}

#[test]
fn the_image_runs_other_commands_too() {
    assert_eq!(entry(&["echo", "hello", "--there"], &[("MAXMEMORY", "2gb")]), "hello --there\n");
}

#[test]
fn workflows_run_targets_of_the_makefile() {
    let makefile = read("Makefile");
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
                assert!(targets.contains(&word), "the Makefile has no target {word}: {line}");
            }
        }
    }
    assert!(steps >= 4, "{steps} steps found");
}

#[test]
fn packages_hold_every_file_that_a_page_links_to() {
    let packages = read("scripts/packages.sh");
    let documents = packages.split("\nDOCUMENTS=(").nth(1).unwrap().split(')').next().unwrap();
    let root = fs::canonicalize(ROOT).unwrap();
    let held: Vec<_> = documents.split_whitespace().map(|name| root.join(name)).collect();
    let folders = held.iter().cloned().chain([root.join("docs/decisions")]);
    let pages = folders.flat_map(|path| {
        let below = path.read_dir().into_iter().flatten().map(|entry| entry.unwrap().path());
        below.chain([path.clone()]).collect::<Vec<_>>()
    });
    let mut checked = 0;
    for document in pages.filter(|path| path.extension().is_some_and(|name| name == "md")) {
        let text = fs::read_to_string(&document).unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next()) {
            let Ok(target) = fs::canonicalize(document.parent().unwrap().join(link)) else { continue };
            assert!(held.iter().any(|path| target.starts_with(path)), "{}: {link}", document.display());
            checked += 1;
        }
    }
    assert!(checked > 100, "{checked} links found");
}

/// A second loadmodule line would keep the server from starting.
#[test]
fn the_commands_for_debian_can_be_repeated() {
    let text = read("README.md");
    let block = text
        .split("\nDebian and Ubuntu, ")
        .nth(1)
        .unwrap()
        .lines()
        .skip(1)
        .skip_while(|line| line.is_empty());
    let commands: Vec<&str> = block.map_while(|line| line.strip_prefix("    ")).collect();
    let dir = tempfile::tempdir().unwrap();
    let configuration = dir.path().join("redis.conf");
    fs::write(&configuration, "port 6379\n").unwrap();
    let script = commands.join("\n").replace("/etc/redis/redis.conf", configuration.to_str().unwrap());
    assert!(script.contains("loadmodule") && !script.contains("/etc/"), "{script}");
    let path = programs(
        &["sh", "grep", "tee", "dpkg", "env"],
        &[("sudo", "exec env \"$@\""), ("apt", ""), ("systemctl", "")],
    );
    for _ in 0..2 {
        let output =
            Command::new("/bin/sh").args(["-ec", &script]).env("PATH", path.path()).output().unwrap();
        assert!(output.status.success(), "{}", self::text(&output));
        let lines = fs::read_to_string(&configuration).unwrap();
        assert_eq!(lines, "port 6379\nloadmodule /usr/lib/redis/modules/everbloom.so\n", "{script}");
    }
}

#[test]
fn the_setup_of_the_examples_names_missing_runtimes() {
    let setup = |pretended: &[(&str, &str)]| {
        let path = programs(&["bash", "dirname", "mkdir"], pretended);
        let target = tempfile::tempdir().unwrap();
        let mut command = Command::new(Path::new(ROOT).join("scripts/setup-examples"));
        let output = command
            .env_clear()
            .env("PATH", path.path())
            .env("CARGO_TARGET_DIR", target.path())
            .output()
            .unwrap();
        (output.status.success(), text(&output))
    };
    let python = "python3 is not installed: the examples in Python are not tested\n";
    let node = "node is not installed: the examples in Node are not tested\n";
    assert_eq!(setup(&[]), (true, format!("{python}{node}")));
    let npm = node.replace("node is", "npm is");
    assert_eq!(setup(&[("node", "")]), (true, format!("{python}{npm}")));
    // A runtime whose client library cannot be installed.
    let (is_success, said) = setup(&[("python3", "exit 1")]);
    assert!(!is_success && said.starts_with(node) && said.contains("no client library for Python"), "{said}");
}

/// The files of the package are deleted right after its removal script has run.
#[test]
fn the_warning_of_a_removal_is_complete_without_the_package() {
    let script = ". packaging/instructions.sh; lines_that_need_it() { echo FILE:7:loadmodule; }; removing";
    let output = Command::new("sh").args(["-ec", script]).current_dir(ROOT).output().unwrap();
    let said = text(&output);
    assert!(said.contains("FILE:7:loadmodule") && said.contains("SCAN 0 TYPE everbloom"), "{said}");
    assert!(!said.contains("/usr/share"), "{said}");
    let page = read("docs/operations.md");
    let steps = page.split("\n## Removing\n").nth(1).unwrap().split("\n## ").next().unwrap();
    for kind in ["everbloom", "MBbloom--", "bloomfltr", "MBbloomCF", "CMSk-TYPE", "TopK-TYPE", "TDIS-TYPE"] {
        assert!(said.contains(kind) && steps.contains(&format!("`{kind}`")), "{kind}: {said}{steps}");
    }
}

#[test]
fn the_packages_find_the_lines_that_need_the_module() {
    let dir = tempfile::tempdir().unwrap();
    let script = read("packaging/instructions.sh").replace("/etc/", &format!("{}/", dir.path().display()));
    fs::write(dir.path().join("instructions.sh"), script).unwrap();
    let needed = [
        "loadmodule /usr/lib/redis/modules/everbloom.so",
        "  include /etc/everbloom/everbloom.conf",
        "bf.error-rate 0.01",
        "bf-error-rate 0.01",
        "cf-bucket-size 4",
    ];
    let lines = format!("port 6379\n# bf.format everbloom\n{}\nappendonly yes\n", needed.join("\n"));
    fs::write(dir.path().join("redis.conf"), lines).unwrap();
    let script = ". ./instructions.sh; lines_that_need_it";
    let output = Command::new("sh").args(["-ec", script]).current_dir(dir.path()).output().unwrap();
    let said = text(&output);
    assert_eq!(said.lines().count(), needed.len(), "{said}");
    assert!(needed.iter().all(|line| said.contains(line)), "{said}");
}

/// Returns the version in the first line of a file that begins with `version`.
fn version(file: &str) -> String {
    let line = file.lines().find(|line| line.starts_with("version = ")).unwrap();
    line.trim_start_matches("version = ").trim_matches('"').to_owned()
}

/// Builds use `--locked`.
#[test]
fn all_files_have_the_version_of_the_release() {
    let release = version(&read("Cargo.toml"));
    for path in ["clients/python/Cargo.toml", "clients/python/pyproject.toml"] {
        assert_eq!(version(&read(path)), release, "{path}");
    }
    for path in ["Cargo.lock", "clients/python/Cargo.lock", "fuzz/Cargo.lock"] {
        let text = read(path);
        // Packages of a registry have a source. That of the fuzz targets is never released.
        let own = text.split("[[package]]\n").skip(1).filter(|package| {
            !package.contains("\nsource = ") && !package.starts_with("name = \"everbloom-fuzz\"\n")
        });
        let versions: Vec<String> = own.map(version).collect();
        assert!(
            versions.len() > 3 && versions.iter().all(|version| *version == release),
            "{path}: {versions:?}"
        );
    }
}
