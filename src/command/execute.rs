//! The one way of a command: arguments, keys, action, a new filter in its place, reply, effects.

use super::arguments::Arguments;
use super::effects::Effects;
use super::error::CommandError;
use super::keyspace::Keyspace;
use super::reply::Reply;
use super::table::Command;
use super::{
    add, bulk, card, clear, debug, delete, exists, export, import, info, insert, load, load_chunk, merge,
    reserve, scan_dump, statistics,
};

/// Runs a command; `argv` is what follows its name. Replies, also where it is refused, and answers what the
/// host has to carry out afterwards. O(arguments) beside what the command itself takes.
#[inline(always)]
pub fn execute<'a>(
    command: Command,
    argv: &'a [&'a [u8]],
    keyspace: &mut impl Keyspace,
    reply: &mut impl Reply,
) -> Effects<'a> {
    match run(command, argv, keyspace, reply) {
        Ok(effects) => effects,
        Err(error) => {
            refuse(command, &error, keyspace, reply);
            Effects::default()
        }
    }
}

#[inline(always)]
fn run<'a>(
    command: Command,
    argv: &'a [&'a [u8]],
    keyspace: &impl Keyspace,
    reply: &mut impl Reply,
) -> Result<Effects<'a>, CommandError> {
    let arguments = Arguments::new(argv, command)?;
    match command {
        Command::Reserve => reserve::run(arguments, keyspace, reply),
        Command::Add => add::run_one(arguments, keyspace, reply),
        Command::MAdd => add::run_many(arguments, keyspace, reply),
        Command::Insert => insert::run(arguments, keyspace, reply),
        Command::Del => delete::run(arguments, keyspace, reply),
        Command::Exists => exists::run_one(arguments, keyspace, reply),
        Command::MExists => exists::run_many(arguments, keyspace, reply),
        Command::BulkAdd => bulk::add(arguments, keyspace, reply),
        Command::BulkExists => bulk::exists(arguments, keyspace, reply),
        Command::Info => info::run(arguments, keyspace, reply),
        Command::Stats => statistics::run(arguments, keyspace, reply),
        Command::Card => card::run(arguments, keyspace, reply),
        Command::Debug => debug::run(arguments, keyspace, reply),
        Command::Clear => clear::run(arguments, keyspace, reply),
        Command::ScanDump => scan_dump::run(arguments, keyspace, reply),
        Command::LoadChunk => load_chunk::run(arguments, keyspace, reply),
        Command::Load => load::run(arguments, keyspace, reply),
        Command::Import => import::run(arguments, keyspace, reply),
        Command::Export => export::run(arguments, keyspace, reply),
        Command::Merge => merge::run(arguments, keyspace, reply),
    }
}

/// Refuses a command: replies the error, unless no server goes on after it.
#[cold]
pub fn refuse(command: Command, error: &CommandError, keyspace: &impl Keyspace, reply: &mut impl Reply) {
    if error.is_loss(command) && keyspace.must_succeed() {
        keyspace.lost(command, error);
    }
    reply.error(&error.to_string());
}
