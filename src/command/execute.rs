//! The steps of every command: arguments, keys, action, publication of a new filter, reply, effects.

use super::arguments::Arguments;
use super::effects::Effects;
use super::error::{CommandError, CuckooError, INTERNAL_ERROR};
use super::keyspace::{Keyspace, Reply};
use super::outcomes::loses_item;
use super::table::Command;
use super::{bulk, chunks, cuckoo, debug, follow, import, info, items, merge, reserve};

/// Runs a command, whose arguments after the name are `argv`, and replies. Returns what the host must do afterwards,
/// which is nothing after a refusal. O(arguments), plus the command's own complexity.
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
        Command::Reserve => reserve::reserve(arguments, keyspace, reply),
        Command::Add => items::add(arguments, keyspace, reply),
        Command::MAdd => items::madd(arguments, keyspace, reply),
        Command::Insert => items::insert(arguments, keyspace, reply),
        Command::Del => items::del(arguments, keyspace, reply),
        Command::Exists => items::exists(arguments, keyspace, reply),
        Command::MExists => items::mexists(arguments, keyspace, reply),
        Command::Ttl | Command::PTtl => items::ttl(arguments, keyspace, reply),
        Command::BulkAdd => bulk::add(arguments, keyspace, reply),
        Command::BulkExists => bulk::exists(arguments, keyspace, reply),
        Command::Info => info::info(arguments, keyspace, reply),
        Command::Stats => info::stats(arguments, keyspace, reply),
        Command::Card => info::card(arguments, keyspace, reply),
        Command::Debug => debug::debug(arguments, keyspace, reply),
        Command::Clear => reserve::clear(arguments, keyspace, reply),
        Command::ScanDump => chunks::scan_dump(arguments, keyspace, reply),
        Command::Follow => follow::follow(arguments, keyspace, reply),
        Command::LoadChunk => chunks::load_chunk(arguments, keyspace, reply),
        Command::Load => chunks::load(arguments, keyspace, reply),
        Command::Import => import::import(arguments, keyspace, reply),
        Command::Export => import::export(arguments, keyspace, reply),
        Command::Merge => merge::merge(arguments, keyspace, reply),
        Command::CfReserve => cuckoo::reserve(arguments, keyspace, reply),
        Command::CfAdd | Command::CfAddNx => cuckoo::add(arguments, keyspace, reply),
        Command::CfInsert | Command::CfInsertNx => cuckoo::insert(arguments, keyspace, reply),
        Command::CfExists => cuckoo::exists(arguments, keyspace, reply),
        Command::CfMExists => cuckoo::mexists(arguments, keyspace, reply),
        Command::CfCount => cuckoo::count(arguments, keyspace, reply),
        Command::CfDel => cuckoo::del(arguments, keyspace, reply),
        Command::CfInfo => cuckoo::info(arguments, keyspace, reply),
        Command::CfDebug => cuckoo::debug(arguments, keyspace, reply),
        Command::CfCompact => cuckoo::compact(arguments, keyspace, reply),
        Command::CfScanDump => cuckoo::scan_dump(arguments, keyspace, reply),
        Command::CfLoadChunk => cuckoo::load_chunk(arguments, keyspace, reply),
    }
}

/// Replies the error of a command that is refused. A server that must not continue after the error exits instead.
#[cold]
pub fn refuse(command: Command, error: &CommandError, keyspace: &impl Keyspace, reply: &mut impl Reply) {
    check_loss(command, error, keyspace);
    reply.error(&error.to_string());
}

/// Ends a command that panicked. If no key has changed, replies the error in place of every missing reply. If a key may
/// have changed, aborts the server, because the change may be incomplete and was not replicated.
#[cold]
pub fn end_after_panic(command: Command, keyspace: &impl Keyspace, reply: &mut impl Reply) {
    if keyspace.may_have_changed() {
        keyspace.abort();
    }
    check_loss(command, &CommandError::Internal, keyspace);
    reply.error_for_the_rest(INTERNAL_ERROR);
}

/// Exits a server that must not continue after the error.
fn check_loss(command: Command, error: &CommandError, keyspace: &impl Keyspace) {
    if is_loss(command, error) && keyspace.must_succeed() {
        keyspace.lost(command, error);
    }
}

/// Returns whether a replicated command that fails with this error loses data: the primary or the append-only file has
/// a filter, or items, that this server then does not have.
fn is_loss(command: Command, error: &CommandError) -> bool {
    match error {
        CommandError::Reserve(_)
        | CommandError::BadData
        | CommandError::OtherDump
        | CommandError::Loading
        | CommandError::InUse
        | CommandError::LoadIsComplete
        | CommandError::ChunksDiffer
        | CommandError::InvalidOffset
        | CommandError::ChunkTooBig
        | CommandError::BadBlob
        | CommandError::BadBlobVersion
        | CommandError::OutOfMemory
        | CommandError::Internal
        | CommandError::Import(_)
        | CommandError::SourceNotFound(_)
        | CommandError::Merge(_) => true,
        CommandError::Add(error) => loses_item(*error),
        CommandError::Cuckoo(error) => {
            matches!(error, CuckooError::Header | CuckooError::Create | CuckooError::Chunk)
        }
        CommandError::NotFound => matches!(command, Command::LoadChunk | Command::CfLoadChunk),
        _ => false,
    }
}
