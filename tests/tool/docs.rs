//! The examples of docs/tool.md and docs/bulk-loading.md, `--help`, the man page and the completions of shells.

use std::fs;
use std::process::{Command, Stdio};

use crate::harness::{Site, Test, tests};
use crate::tool::{Files, path, run, url};

pub(crate) const TESTS: &[Test] = tests![
    examples_print_what_the_page_shows,
    every_command_has_help_with_an_example,
    the_man_page_and_the_completions_have_every_command,
];

/// A command after `$ `, and its output.
struct Example {
    command: String,
    output: String,
}

/// Returns the examples in the blocks marked `console`.
fn examples(page: &str) -> Vec<Example> {
    let mut examples: Vec<Example> = Vec::new();
    let mut is_inside = false;
    for line in page.lines() {
        match line.strip_prefix("```") {
            Some(mark) => is_inside = mark == "console",
            None if !is_inside => {}
            None => match (line.strip_prefix("$ "), examples.last_mut()) {
                (Some(command), _) => {
                    examples.push(Example { command: command.to_owned(), output: String::new() });
                }
                (None, Some(example)) => example.output.push_str(&format!("{line}\n")),
                (None, None) => panic!("output before the first command: {line}"),
            },
        }
    }
    examples
}

/// Returns the text without times and rates, which vary.
fn steady(text: &str) -> String {
    let mut words: Vec<String> = Vec::new();
    for line in text.lines() {
        for word in line.split_whitespace() {
            let unit = word.trim_end_matches([',', ';']);
            if ["s", "items/s"].contains(&unit) {
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
    for name in ["tool.md", "bulk-loading.md"] {
        let path = format!("{}/docs/{name}", env!("CARGO_MANIFEST_DIR"));
        let examples = examples(&fs::read_to_string(path).unwrap());
        assert!(examples.len() > 6, "{name} has {} examples", examples.len());
        run_all(site, examples);
    }
}

/// Runs the examples of a page one after another, on two servers and in a folder of their own.
fn run_all(site: &Site, examples: Vec<Example>) {
    let [server, other] = [site.start(), site.start()];
    let files = Files::new();
    let tool = path();
    let folder = tool.parent().unwrap().to_str().unwrap().to_owned();
    for Example { command, output } in examples {
        // The two servers of the page.
        let address = |server| url(server).trim_start_matches("redis://").to_owned();
        let here =
            command.replace("127.0.0.1:6379", &address(&server)).replace("127.0.0.1:6380", &address(&other));
        let ran = Command::new("sh")
            .args(["-c", &here])
            .current_dir(files.path(""))
            .env("PATH", format!("{folder}:{}", std::env::var("PATH").unwrap()))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let (out, err) = (String::from_utf8(ran.stdout).unwrap(), String::from_utf8(ran.stderr).unwrap());
        assert!(ran.status.success(), "{command}: {err}");
        assert_eq!(steady(&out), steady(&output), "{command}");
    }
}

/// The commands in the help.
fn commands() -> Vec<String> {
    let help = run(&["--help"]);
    assert!(help.code == Some(0) && help.out.contains("Exit codes:"), "{}", help.out);
    let listed = help.out.split("Commands:").nth(1).unwrap().lines().skip(1);
    let names: Vec<String> = listed
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect();
    assert!(names.len() >= 6, "{names:?}");
    names
}

fn every_command_has_help_with_an_example(_: &Site) {
    for name in commands() {
        let help = run(&[&name, "--help"]);
        assert_eq!(help.code, Some(0), "{name}");
        assert!(help.out.contains("Example") && help.out.contains(&format!("  everbloom {name} ")), "{name}");
        assert!(help.out.contains("Exit codes:"), "{name}");
        let wrong = run(&[&name, "--no-such-option"]);
        assert!(wrong.code == Some(2) && wrong.err.contains("Usage: "), "{name} {}", wrong.err);
        let failed = run(&[&name, "--no-such-option", "--json"]);
        let error: serde_json::Value = serde_json::from_str(&failed.err).unwrap();
        assert_eq!((failed.code, &error["code"]), (Some(2), &2.into()), "{name} {error}");
    }
}

fn the_man_page_and_the_completions_have_every_command(_: &Site) {
    let files = Files::new();
    let page = run(&["man"]);
    assert!(page.code == Some(0) && page.out.contains(".TH everbloom 1"), "{}", page.err);
    let text = page.out.replace("\\-", "-");
    for command in commands() {
        assert!(text.contains(&format!(".SH \"everbloom {command}\"")), "{command}");
    }
    // If groff is installed, it must format the page without a warning, and each shell must be able to read its script.
    let path = files.write("everbloom.1", &page.out);
    reads("groff", &["-man", "-ww", "-z", "-Tutf8", &path]);
    for shell in ["bash", "zsh", "fish"] {
        let script = run(&["completions", shell]);
        assert_eq!(script.code, Some(0), "{shell}: {}", script.err);
        assert!(commands().iter().all(|command| script.out.contains(command)), "{shell}");
        reads(shell, &["-n", &files.write(shell, &script.out)]);
    }
    assert_eq!(run(&["completions", "abacus"]).code, Some(2));
}

/// Asserts that a program, if it is installed, succeeds without a message.
fn reads(program: &str, arguments: &[&str]) {
    if let Ok(output) = Command::new(program).args(arguments).stdin(Stdio::null()).output() {
        assert!(output.status.success() && output.stderr.is_empty(), "{program}: {output:?}");
    }
}
