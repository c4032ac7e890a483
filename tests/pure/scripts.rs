//! Tests of the scripts, the Dockerfile and the workflows that need no build.
#![cfg(unix)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

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

/// Returns the directory in which the Zig wrapper of `make dist` runs Zig.
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
    // cargo-zigbuild runs these commands and passes their output to a program in another directory, so relative paths
    // would be wrong there.
    assert_eq!(zig_runs_in(&["env"]), "/");
    for compiler in ["cc", "c++"] {
        assert_eq!(
            zig_runs_in(&[compiler, "-E", "/tmp/empty.c", "-v", "-target", "x86_64-linux-gnu.2.17"]),
            "/"
        );
        // When it compiles, the paths of sources may be relative, so the current directory stays.
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

/// Returns the words after each instruction of that name in the Dockerfile.
fn instructions<'a>(dockerfile: &'a str, name: &str) -> Vec<Vec<&'a str>> {
    let lines = dockerfile.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    lines.map(|rest| rest.split_whitespace().collect()).collect()
}

#[test]
fn the_dockerfile_builds_with_the_makefile_and_the_compiler_of_releases() {
    let (dockerfile, makefile) = (read("Dockerfile"), read("Makefile"));
    let runs = instructions(&dockerfile, "RUN");
    assert_eq!(runs.len(), 1, "packages are installed by scripts/setup only: {runs:?}");
    assert_eq!(runs[0][..3], ["make", "build", "tool"], "these targets call scripts/setup");
    for target in ["build", "tool"] {
        let rule = makefile.split(&format!("\n{target}: ##")).nth(1).unwrap();
        assert!(rule.lines().nth(1).unwrap().contains("scripts/setup $(NEEDS)"), "{target}");
    }
    let image = dockerfile.split("ARG RUST=").nth(1).unwrap().lines().next().unwrap();
    for workflow in ["ci", "packages", "weekly"] {
        let text = read(&format!(".github/workflows/{workflow}.yml"));
        assert!(text.contains(&format!(" {image}\n")), "{workflow}.yml has another compiler than {image}");
    }
    let minor = |version: &str| version.split('.').nth(1).unwrap().parse::<u32>().unwrap();
    let declared = read("Cargo.toml");
    let declared = declared.split("rust-version = \"").nth(1).unwrap().split('"').next().unwrap();
    assert!(minor(image) >= minor(declared), "{image} is older than {declared}");
}

#[test]
fn the_dockerfile_puts_files_where_the_image_looks_for_them() {
    let dockerfile = read("Dockerfile");
    let copies = instructions(&dockerfile, "COPY");
    let place_of = |file: &str| {
        let copy = copies.iter().find(|words| words.iter().any(|word| word.ends_with(file)));
        *copy.unwrap_or_else(|| panic!("{file} is not copied")).last().unwrap()
    };
    let makefile = read("Makefile");
    for file in ["release/libeverbloom.so", "release/everbloom"] {
        assert!(makefile.contains(&format!(":= $(CARGO_TARGET_DIR)/{file}\n")), "make builds no {file}");
    }
    let module = place_of("/target/release/libeverbloom.so");
    assert!(entry(&[], &[]).contains(&format!("--loadmodule\n{module}\n")), "{module}");
    assert!(place_of("/target/release/everbloom").starts_with("/usr/local/bin/"));
    let program = place_of("packaging/container/entrypoint").rsplit('/').next().unwrap();
    assert_eq!(instructions(&dockerfile, "ENTRYPOINT"), [[format!("[\"{program}\"]")]]);
    for volume in ["VOLUME", "WORKDIR"] {
        assert!(instructions(&dockerfile, volume).contains(&vec!["/data"]), "{volume}");
    }
    assert!(read("compose.yaml").contains("\n    build: .\n"));
    let server = dockerfile.split("ARG SERVER=").nth(1).unwrap().lines().next().unwrap();
    assert!(read("docs/getting-started.md").contains(server), "the pages have another image than {server}");
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

#[test]
fn listed_mutants_are_in_code_that_exists() {
    let page = read("docs/reliability.md");
    let mut names = 0;
    for line in page.lines().filter(|line| line.starts_with("* `src/")) {
        let (name, reason) = line.trim_start_matches("* `").split_once("`: ").unwrap();
        assert!(reason.len() > 20, "{line}");
        let (file, alteration) = name.split_once(": ").unwrap();
        let code = read(file);
        let place = alteration.rsplit_once(" in ").map_or(alteration, |(_, place)| place);
        let function = place.split(" -> ").next().unwrap().rsplit([':', ' ']).next().unwrap();
        let field = alteration.strip_prefix("delete field ").and_then(|rest| rest.split(' ').next());
        let text = field.map_or(format!("fn {function}"), |field| format!("{field}: "));
        assert!(code.contains(&text), "no {text} in {file}");
        names += 1;
    }
    assert!(names > 0);
}
