//! `everbloom man`: the man page, made from the help of all commands.

use std::io::{self, Write};

use clap::{Command, CommandFactory};
use clap_mangen::Man;
use serde_json::json;

use super::failure::Failure;
use super::output::Output;

/// Print the man page of this tool in roff, with all commands and their options
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Arguments {}

const EXAMPLE: &str = "\
Examples:
  everbloom man | man -l -
  everbloom man > /usr/local/share/man/man1/everbloom.1

Exit codes: 0 done; 1 failed; 2 wrong arguments.";

pub(crate) fn run(_: &Arguments, output: &Output) -> Result<(), Failure> {
    let page = page()?;
    output.result(&page, &json!({"man": page}))
}

/// Writes one section of a page.
type Section = fn(&Man, &mut dyn Write) -> io::Result<()>;

const BEFORE_COMMANDS: [Section; 5] = [
    Man::render_title,
    Man::render_name_section,
    Man::render_synopsis_section,
    Man::render_description_section,
    Man::render_options_section,
];
const OF_COMMAND: [Section; 4] = [
    Man::render_synopsis_section,
    Man::render_description_section,
    Man::render_options_section,
    Man::render_extra_section,
];

/// Returns the page. It has one section for each command, with the sections of the command's help as subsections.
fn page() -> io::Result<String> {
    let mut tool = crate::Arguments::command().disable_help_subcommand(true);
    tool.build();
    let whole = Man::new(tool.clone());
    let mut page = sections(&whole, &BEFORE_COMMANDS)?;
    for command in tool.get_subcommands() {
        page.push_str(&format!(".SH \"everbloom {}\"\n", command.get_name()));
        let of_command = sections(&Man::new(without_global_options(command)), &OF_COMMAND)?;
        page.push_str(&of_command.replace("\n.SH EXTRA", "\n.SS EXAMPLES").replace("\n.SH ", "\n.SS "));
    }
    let exit_codes = sections(&whole, &[Man::render_extra_section])?;
    page.push_str(&exit_codes.replace("\n.SH EXTRA", "\n.SH \"EXIT STATUS\""));
    // Every section was rendered with the same definitions; the page needs them once.
    let definitions = page.split(".TH").next().unwrap_or_default().to_owned();
    Ok(page.replace(&definitions, "").replacen(".TH", &format!("{definitions}.TH"), 1))
}

fn sections(man: &Man, sections: &[Section]) -> io::Result<String> {
    let mut roff = Vec::new();
    sections.iter().try_for_each(|section| section(man, &mut roff))?;
    Ok(String::from_utf8_lossy(&roff).into_owned())
}

/// Returns a command without the options that all commands have, since the page describes these once.
fn without_global_options(command: &Command) -> Command {
    command.clone().mut_args(|argument| {
        let is_global = argument.is_global_set() || argument.get_id() == "help";
        argument.hide(is_global)
    })
}
