//! Tests the help, the man page, the completions of shells, and the examples of docs/tool.md and docs/bulk-loading.md.

use std::fs;
use std::process::{Command, Stdio};

use crate::harness::{ROOT, Site, Test, tests};
use crate::tool::{Ended, Files, command, fail, pass, path, run, url};

pub(crate) const TESTS: &[Test] = tests![
    every_command_has_help_with_an_example,
    a_closed_pipe_is_no_failure,
    the_man_page_and_the_completions_have_every_command_and_option,
    examples_print_what_the_page_shows,
];

/// Returns the names of the commands in the help.
fn commands() -> Vec<String> {
    let help = pass("Exit codes:", &["--help"]);
    let listed = help.out.split("Commands:").nth(1).unwrap().lines().skip(1);
    let words = listed.take_while(|line| !line.is_empty()).filter_map(|line| line.split_whitespace().next());
    let names: Vec<String> = words.filter(|name| *name != "help").map(str::to_owned).collect();
    assert!(names.len() >= 6, "{names:?}");
    names
}

/// Returns the long options in the help of a command.
fn options(command: &str) -> Vec<String> {
    let help = run(&[command, "--help"]);
    let lines = help.out.lines().map(str::trim_start).filter(|line| line.starts_with('-'));
    let words = lines.filter_map(|line| line.split([' ', ',', '=']).find(|word| word.starts_with("--")));
    words.map(str::to_owned).collect()
}

fn every_command_has_help_with_an_example(_: &Site) {
    for name in commands() {
        let help = pass("Exit codes:", &[&name, "--help"]);
        assert!(help.out.contains("Example") && help.out.contains(&format!("  everbloom {name} ")), "{name}");
        fail(2, "Usage: ", &[&name, "--no-such-option"]);
        let failed = fail(2, "Usage: ", &[&name, "--no-such-option", "--json"]);
        let error: serde_json::Value = serde_json::from_str(&failed.err).unwrap();
        assert_eq!(error["code"], 2, "{name} {error}");
    }
}

/// `everbloom size ... | head -3` closes the pipe before the tool has written everything.
fn a_closed_pipe_is_no_failure(_: &Site) {
    for arguments in [&["man"][..], &["completions", "bash"], &["size", "--items", "1e6"], &["man", "--json"]]
    {
        let mut child = command(arguments).spawn().expect("run the tool");
        drop(child.stdout.take());
        let ended = Ended::of(child.wait_with_output().expect("its end"));
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{arguments:?}");
    }
}

fn the_man_page_and_the_completions_have_every_command_and_option(_: &Site) {
    let page = pass(".TH everbloom 1", &["man"]);
    let scripts = ["bash", "zsh", "fish"].map(|shell| (shell, pass("", &["completions", shell])));
    let text = page.out.replace("\\-", "-");
    for command in commands() {
        let section = text.split(&format!(".SH \"everbloom {command}\"")).nth(1).unwrap_or_default();
        let section = section.split("\n.SH ").next().unwrap();
        assert!(section.contains(&format!("  everbloom {command} ")), "{command}: {section}");
        for option in options(&command).iter().filter(|option| option.as_str() != "--help") {
            let is_global = ["--json", "--quiet"].contains(&option.as_str());
            let place = if is_global { &text } else { section };
            assert!(place.contains(option.as_str()), "{command}: no {option}");
            for (shell, script) in &scripts {
                let option = option.trim_start_matches('-');
                assert!(script.out.contains(&command) && script.out.contains(option), "{shell}: {option}");
            }
        }
    }
    // If groff and the shells are installed, they must read the page and the scripts without a warning.
    let files = Files::new();
    let written = files.write("everbloom.1", &page.out);
    let checks = [("groff", vec!["-man", "-ww", "-z", "-Tutf8"], written)]
        .into_iter()
        .chain(scripts.iter().map(|(shell, script)| (*shell, vec!["-n"], files.write(shell, &script.out))));
    for (program, words, file) in checks {
        if let Ok(read) = Command::new(program).args(words).arg(file).stdin(Stdio::null()).output() {
            assert!(read.status.success() && read.stderr.is_empty(), "{program}: {read:?}");
        }
    }
    fail(2, "abacus", &["completions", "abacus"]);
}

/// Returns the commands after `$ ` in the blocks marked `console`, each with its output.
fn examples(page: &str) -> Vec<(String, String)> {
    let mut examples: Vec<(String, String)> = Vec::new();
    let mut is_inside = false;
    for line in page.lines() {
        match (line.strip_prefix("```"), line.strip_prefix("$ "), examples.last_mut()) {
            (Some(mark), ..) => is_inside = mark == "console",
            _ if !is_inside => {}
            (None, Some(command), _) => examples.push((command.to_owned(), String::new())),
            (None, None, Some((_, output))) => output.push_str(&format!("{line}\n")),
            (None, None, None) => panic!("output before the first command: {line}"),
        }
    }
    examples
}

/// Returns the text without times and rates, which vary.
fn steady(text: &str) -> String {
    let mut words: Vec<String> = Vec::new();
    for line in text.lines() {
        for word in line.split_whitespace() {
            if ["s", "items/s"].contains(&word.trim_end_matches([',', ';'])) {
                words.pop();
                words.push("#".to_owned());
            }
            words.push(word.to_owned());
        }
        words.push("\n".to_owned());
    }
    words.join(" ")
}

fn examples_print_what_the_page_shows(site: &Site) {
    let folder = path().parent().unwrap().to_str().unwrap().to_owned();
    for name in ["tool.md", "bulk-loading.md"] {
        let page = fs::read_to_string(format!("{}/docs/{name}", ROOT)).unwrap();
        let examples = examples(&page);
        assert!(examples.len() > 6, "{name} has {} examples", examples.len());
        // The two servers of the page, and a folder for its files.
        let [server, other] = [site.start(), site.start()];
        let files = Files::new();
        let address = |server| url(server).trim_start_matches("redis://").to_owned();
        for (command, output) in examples {
            let here = command
                .replace("127.0.0.1:6379", &address(&server))
                .replace("127.0.0.1:6380", &address(&other));
            let mut shell = Command::new("sh");
            shell.args(["-c", &here]).current_dir(files.path("")).stdin(Stdio::null());
            shell.env("PATH", format!("{folder}:{}", std::env::var("PATH").unwrap()));
            let ran = Ended::of(shell.output().unwrap());
            assert_eq!(ran.code, Some(0), "{command}: {}", ran.err);
            assert_eq!(steady(&ran.out), steady(&output), "{command}");
        }
    }
}
