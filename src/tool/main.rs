//! `everbloom`, the command-line tool: loads, copies and checks filters, and computes sizes. docs/tool.md describes it.
//!
//! The tool is a client of servers, and uses the public API of this crate.
#![forbid(unsafe_code)]

mod check;
mod chunks;
mod copying;
mod draft;
mod failure;
mod input;
mod load;
mod manual;
mod options;
mod output;
mod packing;
mod partitions;
mod sending;
mod server;
mod size;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use clap_complete::Shell;

use failure::Failure;
use output::Printer;

/// Work with Bloom filters in Redis and Valkey: load files, copy, check, compute sizes
#[derive(Parser)]
#[command(name = "everbloom", version, arg_required_else_help = true, after_help = failure::EXIT_CODES)]
struct ToolArguments {
    /// Print the result as one JSON object on one line
    #[arg(long, global = true, display_order = 900)]
    json: bool,
    /// Print no progress and no notes
    #[arg(long, short, global = true, display_order = 900)]
    quiet: bool,
    #[command(subcommand)]
    command: ToolCommand,
}

#[derive(Subcommand)]
enum ToolCommand {
    Load(load::LoadArguments),
    Copy(copying::CopyArguments),
    Check(check::CheckArguments),
    Size(size::SizeArguments),
    /// Print the man page of this tool in roff, with all commands and their options
    #[command(after_help = manual::MAN_EXAMPLES)]
    Man,
    /// Print a script with which a shell completes the commands and options of this tool
    #[command(after_help = manual::COMPLETIONS_EXAMPLES)]
    Completions {
        /// Shell that reads the script
        #[arg(value_name = "SHELL")]
        shell: Shell,
    },
}

fn main() -> ExitCode {
    let ToolArguments { json, quiet, command } = match ToolArguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return refuse(&error),
    };
    let printer = Printer::new(json, quiet);
    failure::handle_signals();
    let outcome = match command {
        ToolCommand::Load(arguments) => load::run(arguments, &printer),
        ToolCommand::Copy(arguments) => copying::run(arguments, &printer),
        ToolCommand::Check(arguments) => check::run(arguments, &printer),
        ToolCommand::Size(arguments) => size::run(arguments, &printer),
        ToolCommand::Man => manual::print_page(&printer),
        ToolCommand::Completions { shell } => manual::print_completions(shell, &printer),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => printer.fail(&failure),
    }
}

/// Prints the error, or the requested help, that clap returned instead of arguments. Returns the exit code, or exits.
fn refuse(error: &clap::Error) -> ExitCode {
    if error.exit_code() != 0 && std::env::args_os().any(|argument| argument == "--json") {
        return Printer::new(true, false).fail(&Failure::usage(error.to_string().trim_end()));
    }
    error.exit()
}
