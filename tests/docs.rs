//! docs/commands.md says what the table of commands says.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use everbloom::command::COMMANDS;
use everbloom::command::docs::section_head;

#[test]
fn every_command_has_its_section_written_from_the_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/commands.md");
    let text = std::fs::read_to_string(path).unwrap();
    for command in COMMANDS {
        let head = section_head(command.spec());
        assert!(text.contains(&head), "docs/commands.md lacks, to the letter:\n{head}");
    }
    assert_eq!(text.matches("\n## BF.").count(), COMMANDS.len(), "a section without a command");
}
