//! `everbloom`, the command-line tool: loads, builds, copies, checks and inspects filters. docs/tool.md describes it.
//!
//! The tool is a client of servers, and uses the public API of this crate.
#![forbid(unsafe_code)]

mod build;
mod check;
mod chunks;
mod completions;
mod copying;
mod draft;
mod existing;
mod failure;
mod input;
mod inspect;
mod load;
mod manual;
mod options;
mod output;
mod packing;
mod partitions;
mod rdb;
mod restore;
mod sending;
mod server;
mod size;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use output::Output;

/// Work with Bloom filters in Redis and Valkey: load files, build without a server, copy, check, inspect, compute sizes
#[derive(Parser)]
#[command(name = "everbloom", version, arg_required_else_help = true, after_help = failure::EXIT_CODES)]
struct Arguments {
    /// Print the result as one JSON object on one line
    #[arg(long, global = true, display_order = 900)]
    json: bool,
    /// Print no progress and no notes
    #[arg(long, short, global = true, display_order = 900)]
    quiet: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Load(load::Arguments),
    Build(build::Arguments),
    Restore(restore::Arguments),
    Copy(copying::Arguments),
    Check(check::Arguments),
    Size(size::Arguments),
    Inspect(inspect::Arguments),
    Man(manual::Arguments),
    Completions(completions::Arguments),
}

fn main() -> ExitCode {
    let Arguments { json, quiet, command } = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return refuse(&error),
    };
    let output = Output::new(json, quiet);
    failure::handle_signals();
    let outcome = match command {
        Command::Load(arguments) => load::run(arguments, &output),
        Command::Build(arguments) => build::run(arguments, &output),
        Command::Copy(arguments) => copying::run(arguments, &output),
        Command::Check(arguments) => check::run(arguments, &output),
        Command::Size(arguments) => size::run(arguments, &output),
        Command::Inspect(arguments) => inspect::run(arguments, &output),
        Command::Restore(arguments) => restore::run(arguments, &output),
        Command::Man(arguments) => manual::run(&arguments, &output),
        Command::Completions(arguments) => completions::run(&arguments, &output),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => output.fail(&failure),
    }
}

/// Prints the error of the arguments, or the help.
fn refuse(error: &clap::Error) -> ExitCode {
    if error.exit_code() != 0 && std::env::args_os().any(|argument| argument == "--json") {
        return Output::new(true, false).fail(&failure::Failure::usage(error.to_string().trim_end()));
    }
    error.exit()
}
