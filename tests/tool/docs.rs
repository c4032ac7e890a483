//! Runs the examples of docs/tool.md and docs/bulk-loading.md.

use std::fs;
use std::process::{Command, Stdio};

use crate::harness::{Site, Test, tests};
use crate::tool::{Files, path, url};

pub(crate) const TESTS: &[Test] = tests![examples_print_what_the_page_shows];

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
        run(site, examples);
    }
}

/// Runs the examples of a page one after another, on two servers and in a folder of their own.
fn run(site: &Site, examples: Vec<Example>) {
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
