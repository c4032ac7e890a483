//! `everbloom completions`: prints a script with which a shell completes commands and options.

use clap::CommandFactory;
use clap_complete::{Shell, generate};
use serde_json::json;

use super::failure::Failure;
use super::output::Output;

/// Print a script with which a shell completes the commands and options of this tool
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Arguments {
    /// Shell that reads the script
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

const EXAMPLE: &str = "\
Examples:
  everbloom completions bash > ~/.local/share/bash-completion/completions/everbloom
  everbloom completions zsh > /usr/local/share/zsh/site-functions/_everbloom
  everbloom completions fish > ~/.config/fish/completions/everbloom.fish

Exit codes: 0 done; 1 failed; 2 wrong arguments.";

pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<(), Failure> {
    let mut script = Vec::new();
    generate(arguments.shell, &mut crate::Arguments::command(), "everbloom", &mut script);
    let script = String::from_utf8_lossy(&script);
    output.result(&script, &json!({"script": script}))
}
