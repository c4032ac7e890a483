//! `--help`, the man page and the completions of shells.

use std::process::{Command, Stdio};

use crate::harness::{Site, Test, tests};
use crate::tool::{Files, run};

pub(crate) const TESTS: &[Test] = tests![
    every_command_has_help_with_an_example,
    the_man_page_has_every_command_and_option,
    shells_complete_every_command_and_option,
];

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

/// The long options in the help of a command.
fn options(command: &str) -> Vec<String> {
    let help = run(&[command, "--help"]);
    let lines = help.out.lines().map(str::trim_start).filter(|line| line.starts_with('-'));
    let words = lines.filter_map(|line| line.split([' ', ',', '=']).find(|word| word.starts_with("--")));
    words.map(str::to_owned).collect()
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

fn the_man_page_has_every_command_and_option(_: &Site) {
    let page = run(&["man"]);
    assert!(page.code == Some(0) && page.out.contains(".TH everbloom 1"), "{}", page.err);
    let text = page.out.replace("\\-", "-");
    for command in commands() {
        let section = text.split(&format!(".SH \"everbloom {command}\"")).nth(1).unwrap_or_default();
        let section = section.split("\n.SH ").next().unwrap();
        assert!(section.contains(&format!("  everbloom {command} ")), "{command}: {section}");
        for option in options(&command).iter().filter(|option| option.as_str() != "--help") {
            let is_global = ["--json", "--quiet"].contains(&option.as_str());
            let place = if is_global { &text } else { section };
            assert!(place.contains(option.as_str()), "{command}: no {option}");
        }
    }
    // If groff is installed, it must format the page without a warning.
    let files = Files::new();
    let path = files.write("everbloom.1", &page.out);
    if let Ok(formatted) = Command::new("groff").args(["-man", "-ww", "-z", "-Tutf8", &path]).output() {
        assert!(formatted.status.success(), "{formatted:?}");
        assert_eq!(String::from_utf8_lossy(&formatted.stderr), "");
    }
}

fn shells_complete_every_command_and_option(_: &Site) {
    let files = Files::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = run(&["completions", shell]);
        assert_eq!(script.code, Some(0), "{shell}: {}", script.err);
        for command in commands() {
            for option in options(&command) {
                let option = option.trim_start_matches('-');
                assert!(script.out.contains(&command) && script.out.contains(option), "{shell}: {option}");
            }
        }
        // If the shell is installed, it must be able to read the script.
        let path = files.write(shell, &script.out);
        if let Ok(read) = Command::new(shell).args(["-n", &path]).stdin(Stdio::null()).output() {
            assert!(read.status.success(), "{shell}: {read:?}");
        }
    }
    for (typed, completed) in [("everbloom lo", "load"), ("everbloom load --keye", "--keyed")] {
        let words: Vec<&str> = typed.split(' ').collect();
        let (current, previous) = (words[words.len() - 1], words[words.len() - 2]);
        let last = words.len() - 1;
        let ask = format!(
            "source {}; COMP_WORDS=({typed}); COMP_CWORD={last}; _everbloom everbloom '{current}' '{previous}'; echo \"${{COMPREPLY[*]}}\"",
            files.path("bash")
        );
        let Ok(replied) = Command::new("bash").args(["-c", &ask]).output() else { return };
        assert_eq!(String::from_utf8_lossy(&replied.stdout).trim(), completed, "{typed}: {replied:?}");
    }
    assert_eq!(run(&["completions", "abacus"]).code, Some(2));
}
