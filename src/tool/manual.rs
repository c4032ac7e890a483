//! The man page and the completions of shells, made from the help of all commands.

use std::io::{self, Write};

use clap::CommandFactory;
use clap_complete::{Shell, generate};
use clap_mangen::Man;
use serde_json::json;

use super::ToolArguments;
use super::failure::Failure;
use super::output::Printer;

pub(crate) const MAN_EXAMPLES: &str = "\
Examples:
  everbloom man | man -l -
  everbloom man > /usr/local/share/man/man1/everbloom.1

Exit codes: 0 done; 1 failed; 2 wrong arguments.";

pub(crate) const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  everbloom completions bash > ~/.local/share/bash-completion/completions/everbloom
  everbloom completions zsh > /usr/local/share/zsh/site-functions/_everbloom
  everbloom completions fish > ~/.config/fish/completions/everbloom.fish

Exit codes: 0 done; 1 failed; 2 wrong arguments.";

/// Prints the script with which a shell completes commands and options.
pub(crate) fn print_completions(shell: Shell, printer: &Printer) -> Result<(), Failure> {
    let mut script = Vec::new();
    generate(shell, &mut ToolArguments::command(), "everbloom", &mut script);
    let script = String::from_utf8_lossy(&script);
    printer.result(&script, &json!({"script": script}))
}

/// Prints the man page. It has one section for each command, with the sections of the command's help as subsections.
pub(crate) fn print_page(printer: &Printer) -> Result<(), Failure> {
    let mut tool = ToolArguments::command().disable_help_subcommand(true);
    tool.build();
    let whole = Man::new(tool.clone());
    let mut page = sections(&whole, &BEFORE_COMMANDS)?;
    for command in tool.get_subcommands() {
        page.push_str(&format!(".SH \"everbloom {}\"\n", command.get_name()));
        // Options that all commands have are hidden here: the page has described them before.
        let command = command.clone().mut_args(|argument| {
            let is_global = argument.is_global_set() || argument.get_id() == "help";
            argument.hide(is_global)
        });
        let of_command = sections(&Man::new(command), &OF_COMMAND)?;
        page.push_str(&of_command.replace("\n.SH EXTRA", "\n.SS EXAMPLES").replace("\n.SH ", "\n.SS "));
    }
    let exit_codes = sections(&whole, &[Man::render_extra_section])?;
    page.push_str(&exit_codes.replace("\n.SH EXTRA", "\n.SH \"EXIT STATUS\""));
    // Each call of `sections` has rendered the same roff definitions. The page needs them once, before its title.
    let definitions = page.split(".TH").next().unwrap_or_default().to_owned();
    let page = page.replace(&definitions, "").replacen(".TH", &format!("{definitions}.TH"), 1);
    printer.result(&page, &json!({"man": page}))
}

/// Writes one section of a page.
type PageSection = fn(&Man, &mut dyn Write) -> io::Result<()>;

const BEFORE_COMMANDS: [PageSection; 5] = [
    Man::render_title,
    Man::render_name_section,
    Man::render_synopsis_section,
    Man::render_description_section,
    Man::render_options_section,
];
const OF_COMMAND: [PageSection; 4] = [
    Man::render_synopsis_section,
    Man::render_description_section,
    Man::render_options_section,
    Man::render_extra_section,
];

fn sections(man: &Man, sections: &[PageSection]) -> io::Result<String> {
    let mut roff = Vec::new();
    sections.iter().try_for_each(|section| section(man, &mut roff))?;
    Ok(String::from_utf8_lossy(&roff).into_owned())
}
