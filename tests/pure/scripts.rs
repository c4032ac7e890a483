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

/// Runs scripts/setup with only these programs.
fn setup(parts: &[&str], path: &tempfile::TempDir, variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(Path::new(ROOT).join("scripts/setup"));
    command.args(parts).env_clear().env("PATH", path.path()).envs(variables.iter().copied());
    command.output().unwrap()
}

#[test]
fn setup_lists_everything_that_is_missing() {
    let commands = [("id", "echo 1000"), ("apt-get", "echo apt was called; exit 1"), ("curl", "")];
    for has_curl in [false, true] {
        let pretended = if has_curl { &commands[..] } else { &commands[..2] };
        let path = programs(&["bash", "sh", "dirname", "cut", "sed", "env"], pretended);
        let output = setup(&["build", "server"], &path, &[]);
        let said = text(&output);
        assert!(!output.status.success() && !said.contains("apt was called"), "{said}");
        for missing in ["Rust 1.", "a C compiler", "redis-server 7.0 or later", "valkey-server 7.2 or later"]
        {
            assert!(said.contains(missing), "{missing} is not in: {said}");
        }
        // Each command is a line of its own, so that it can be copied.
        let lines: Vec<&str> = said.lines().filter_map(|line| line.strip_prefix("    ")).collect();
        let [apt, rust] = lines[..] else { panic!("{said}") };
        assert!(apt.starts_with("sudo apt-get update && sudo apt-get install "), "{apt}");
        let words: Vec<&str> = apt.split(' ').collect();
        for package in ["gcc", "libc6-dev", "redis-server"] {
            assert!(words.contains(&package), "{package} is not in: {apt}");
        }
        assert_eq!(words.contains(&"curl"), !has_curl, "{apt}");
        assert!(rust.starts_with("curl "), "{rust}");
    }
}

/// Rust's installer changes the PATH of later logins only.
#[test]
fn make_finds_rust_where_its_installer_puts_it() {
    let output = Command::new("make")
        .args(["--eval", "show: ; @echo $$PATH", "show"])
        .current_dir(ROOT)
        .env("HOME", "/home/newcomer")
        .env("PATH", "/usr/bin:/bin")
        .env_remove("CARGO_HOME")
        .output()
        .unwrap();
    assert_eq!(text(&output).trim_end(), "/usr/bin:/bin:/home/newcomer/.cargo/bin");
}

/// Runs `scripts/setup dist` on a machine without Rust for other targets than its own. Returns the arguments of the
/// calls of cargo too.
fn setup_dist(targets: Option<&str>, installed: &[&str]) -> (Output, String) {
    let dir = tempfile::tempdir().unwrap();
    let sysroot = dir.path().join("rust");
    fs::create_dir_all(sysroot.join("lib/rustlib/x86_64-unknown-linux-gnu")).unwrap();
    let (root, calls) = (dir.path().join("target/tools"), dir.path().join("calls"));
    fs::create_dir_all(&root).unwrap();
    fs::write(root.join(".crates.toml"), installed.join("\n")).unwrap();
    let path = programs(
        &["bash", "sh", "dirname", "cut", "sed", "env", "grep", "rm"],
        &[
            ("rustc", &format!("echo {}", sysroot.display())),
            ("rustup", "echo the network was used; exit 1"),
            ("cargo", &format!("echo \"$*\" >>{}", calls.display())),
            ("python3", ""),
            ("objdump", ""),
            ("dpkg-deb", ""),
            ("rpmbuild", ""),
        ],
    );
    let target_dir = dir.path().join("target");
    let mut variables = vec![("CARGO_TARGET_DIR", target_dir.to_str().unwrap())];
    variables.extend(targets.map(|targets| ("TARGETS", targets)));
    // The Python of the tools lists no packages, and installs them without a network.
    let python = root.join("python/bin/python3");
    fs::create_dir_all(python.parent().unwrap()).unwrap();
    fs::copy(path.path().join("python3"), &python).unwrap();
    let output = setup(&["dist"], &path, &variables);
    (output, fs::read_to_string(calls).unwrap_or_default())
}

#[test]
fn setup_needs_only_the_targets_that_are_built() {
    let (output, _) = setup_dist(Some("x86_64-unknown-linux-gnu"), &[]);
    assert!(output.status.success() && !text(&output).contains("network"), "{}", text(&output));
    let (output, _) = setup_dist(None, &[]);
    let said = text(&output);
    assert!(!output.status.success(), "{said}");
    assert!(said.contains("rustup target add aarch64-unknown-linux-gnu"), "{said}");
}

/// With optimization, a first `make dist` spends most of its time on tools that run for a second.
#[test]
fn setup_builds_tools_without_optimization() {
    let (output, calls) = setup_dist(Some("x86_64-unknown-linux-gnu"), &[]);
    assert!(output.status.success(), "{}", text(&output));
    let installs: Vec<&str> = calls.lines().filter(|line| line.starts_with("install ")).collect();
    assert!(!installs.is_empty() && installs.iter().all(|line| line.contains(" --profile dev ")), "{calls}");
    let pins = read("scripts/lib.sh");
    let installed: Vec<String> = installs
        .iter()
        .map(|line| {
            let version = line.split("--version ").nth(1).unwrap().split(' ').next().unwrap();
            let name = line.rsplit(' ').next().unwrap();
            assert!(pins.contains(&format!("[{name}]={version}")), "{line}");
            format!("\"{name} {version} (registry)\" = []")
        })
        .collect();
    let installed: Vec<&str> = installed.iter().map(String::as_str).collect();
    let (_, calls) = setup_dist(Some("x86_64-unknown-linux-gnu"), &installed);
    assert!(!calls.contains("install"), "{calls}");
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

#[test]
fn make_checks_the_port_before_it_builds() {
    for (port, is_valid) in
        [("6399", true), ("0", false), ("99999", false), ("65536", false), ("6379x", false)]
    {
        let output = Command::new(Path::new(ROOT).join("scripts/run"))
            .arg("check")
            .env("PORT", port)
            .output()
            .unwrap();
        let said = text(&output);
        assert_eq!(output.status.success(), is_valid, "{port}: {said}");
        assert!(is_valid || said.contains("1 to 65535"), "{said}");
    }
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let output =
        Command::new(Path::new(ROOT).join("scripts/run")).arg("check").env("PORT", &port).output().unwrap();
    assert!(!output.status.success() && text(&output).contains("is taken"), "{}", text(&output));
    let output = Command::new("make").args(["--dry-run", "run"]).current_dir(ROOT).output().unwrap();
    let said = text(&output);
    let before = said.split("cargo build").next().unwrap();
    assert!(before.contains("scripts/run check"), "{said}");
}

#[test]
fn a_silent_build_shows_that_it_runs() {
    let script = ". scripts/lib.sh; { echo first; sleep 1; printf par; sleep 1; printf 'tial\\nend'; } | with_progress";
    let output = Command::new("bash")
        .args(["-c", script])
        .current_dir(ROOT)
        .env("QUIET_SECONDS", "0.2")
        .output()
        .unwrap();
    let said = text(&output);
    let (progress, rest): (Vec<&str>, Vec<&str>) = said.lines().partition(|line| line.starts_with("... "));
    assert_eq!(rest, ["first", "partial", "end"], "{said}");
    assert!(progress.len() > 1 && progress.iter().all(|line| line.contains("still running")), "{said}");
    assert!(read("scripts/test").contains("| with_progress |"));
}

#[test]
fn an_install_without_permission_names_the_command() {
    for target in ["install", "install-tool"] {
        let output = Command::new("make")
            .args([target, "MODULE=Makefile", "TOOL=Makefile", "DESTDIR=/dev/null"])
            .current_dir(ROOT)
            .output()
            .unwrap();
        let said = text(&output);
        assert!(!output.status.success() && said.contains(&format!("sudo make {target}")), "{said}");
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

/// The files of the package are deleted right after its removal script has run.
#[test]
fn the_warning_of_a_removal_is_complete_without_the_package() {
    let script = ". packaging/instructions.sh; lines_that_need_it() { echo FILE:7:loadmodule; }; removing";
    let output = Command::new("sh").args(["-ec", script]).current_dir(ROOT).output().unwrap();
    let said = text(&output);
    assert!(said.contains("FILE:7:loadmodule") && said.contains("SCAN 0 TYPE everbloom"), "{said}");
    assert!(!said.contains("/usr/share"), "{said}");
}
