//! The one way of a command through the module: arguments, request, key, action, effects.

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

use redis_module::raw::{RedisModuleCmdFunc, RedisModuleString};

use super::api::{Context, OK};
use super::args::Argv;
use super::effects;
use super::key::Key;
use super::loss;
use super::memory::CommandHost;
use super::reply::{INTERNAL_ERROR, ServerReply};
use super::source::{self, Source};
use super::stats::{self, Footprint};
use crate::command::query::Checks;
use crate::command::table::KeyAccess;
use crate::command::{
    COMMANDS, Change, Command, CommandError, Host, Import, Query, Replication, Reply, Request, Slot,
};
use crate::prefetch::Processor;

/// The handler of every command, in the order of the table.
pub(super) const HANDLERS: [RedisModuleCmdFunc; COMMANDS.len()] = [
    Some(handle::<0>),
    Some(handle::<1>),
    Some(handle::<2>),
    Some(handle::<3>),
    Some(handle::<4>),
    Some(handle::<5>),
    Some(handle::<6>),
    Some(handle::<7>),
    Some(handle::<8>),
    Some(handle::<9>),
    Some(handle::<10>),
    Some(handle::<11>),
    Some(handle::<12>),
    Some(handle::<13>),
];

/// The command at `INDEX` of the table, as a constant.
struct At<const INDEX: usize>;

impl<const INDEX: usize> At<INDEX> {
    #[expect(clippy::indexing_slicing, reason = "evaluated by the compiler, which refuses an index outside")]
    const COMMAND: Command = COMMANDS[INDEX];
}

/// Runs the command at `INDEX` of the table.
///
/// Each command has a handler of its own, down to the reading of its arguments: the compiler leaves in it only what that
/// command needs, which spares a short one a good part of its instructions.
///
/// # Safety
/// Called by the server only, with the context and the arguments of a command, which stay as they are until it returns.
unsafe extern "C" fn handle<const INDEX: usize>(
    context: Context,
    argv: *mut *mut RedisModuleString,
    argc: c_int,
) -> c_int {
    // SAFETY: the vector of that command; its strings stay as they are until the handler returns.
    let argv = unsafe { Argv::new(argv, argc) }.rest();
    let spec = At::<INDEX>::COMMAND.spec();
    // SAFETY: the context of a command that has just begun.
    let mut reply = unsafe { ServerReply::new(context) };
    let run = || {
        // SAFETY: context and arguments are those of the handler.
        if spec.source_key.is_some() && unsafe { source::report_keys(spec, context, argv) } {
            return Ok(());
        }
        // SAFETY: context and arguments belong to the running command.
        unsafe { run::<INDEX>(context, argv, &mut reply) }
    };
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(())) => {}
        // SAFETY: context and arguments belong to the running command.
        Ok(Err(error)) => unsafe { refuse(&error, At::<INDEX>::COMMAND, context, argv, &mut reply) },
        Err(_) => reply.error_for_the_rest(INTERNAL_ERROR),
    }
    OK
}

/// Replies the error, unless this server ends with it.
///
/// # Safety
/// `context` and `argv` must be those of the running command.
#[cold]
unsafe fn refuse(
    error: &CommandError,
    command: Command,
    context: Context,
    argv: Argv<'_>,
    reply: &mut ServerReply,
) {
    // SAFETY: the context is that of the running command by the caller's word.
    let host = unsafe { CommandHost::new(context) };
    if error.is_loss(command) && host.must_succeed() {
        loss::end_server(error, command, argv);
    }
    reply.error(&error.to_string());
}

/// # Safety
/// `context` and `argv` must be those of the running command.
#[inline(always)]
unsafe fn run<const INDEX: usize>(
    context: Context,
    argv: Argv<'_>,
    reply: &mut ServerReply,
) -> Result<(), CommandError> {
    // SAFETY: the context is that of the running command by the caller's word.
    let host = unsafe { CommandHost::new(context) };
    let run = |arguments: &[&[u8]]| {
        let command = At::<INDEX>::COMMAND;
        let request = Request::parse(command, arguments, &host)?;
        let name = argv.key().ok_or(CommandError::WrongArity(command.spec().name))?;
        match request {
            // SAFETY: context and name are those of the running command.
            Request::Query(query) => unsafe { run_query(query, context, name, &host, reply) },
            // SAFETY: context and name are those of the running command.
            Request::Change(change) => unsafe { run_change(command, change, context, name, &host, reply) },
            Request::Import(import) => {
                let source = command.spec().source_key.and_then(|source| argv.source_key(source));
                // SAFETY: context and names are those of the running command; the two names differ, `Import` saw to
                // that.
                unsafe { run_import(*import, context, Names { key: name, source }, &host, reply) }
            }
        }
    };
    argv.with_bytes(run, || Err(CommandError::OutOfMemory))
}

/// # Safety
/// `context` and `name` must be those of the running command, and the key must not be open.
#[inline(always)]
unsafe fn run_query(
    query: Query<'_>,
    context: Context,
    name: *mut RedisModuleString,
    host: &CommandHost,
    reply: &mut ServerReply,
) -> Result<(), CommandError> {
    // SAFETY: by the caller's word; the key is closed when this function returns.
    let mut key = unsafe { Key::open(context, name, KeyAccess::ReadOnly) };
    let slot = key.as_mut().map_or(Slot::Vacant, Key::slot);
    let Checks(items) = query.run(slot, host, Processor, reply)?;
    if items > 0 {
        stats::items_checked(items);
    }
    Ok(())
}

/// # Safety
/// `context` and `name` must be those of the running command, and the key must not be open.
#[inline(always)]
unsafe fn run_change(
    command: Command,
    change: Change<'_>,
    context: Context,
    name: *mut RedisModuleString,
    host: &CommandHost,
    reply: &mut ServerReply,
) -> Result<(), CommandError> {
    // SAFETY: by the caller's word; the key is closed when this function returns.
    let Some(mut key) = (unsafe { Key::open(context, name, KeyAccess::ReadWrite) }) else {
        reply.error_for_the_rest(INTERNAL_ERROR);
        return Ok(());
    };
    let mut stored = key.stored();
    let before = match &stored {
        // Nothing but the number of items can change; counting layers would take a tenth of the whole command.
        Slot::Filter(stored) if matches!(change, Change::Add { .. }) && stored.filter.has_room() => None,
        Slot::Filter(stored) => Some(Footprint::of(&stored.filter)),
        Slot::Vacant | Slot::WrongType => None,
    };
    let slot = match &mut stored {
        Slot::Vacant => Slot::Vacant,
        Slot::WrongType => Slot::WrongType,
        Slot::Filter(stored) => Slot::Filter(&mut stored.filter),
    };
    let effects = change.run(slot, host, Processor, reply)?;
    if effects.publish.is_none() {
        if effects.replication == Replication::None {
            return Ok(());
        }
        if let Slot::Filter(stored) = &mut stored {
            stored.changed(before, effects.items_added);
        }
    }
    // SAFETY: context and name are those of the running command.
    unsafe { effects::carry_out(command, effects, &mut key, context, name) };
    Ok(())
}

/// The keys of an import.
#[derive(Clone, Copy)]
struct Names {
    key: *mut RedisModuleString,
    source: Option<*mut RedisModuleString>,
}

/// # Safety
/// `context` and `names` must be those of the running command, the names must differ, and no key be open.
unsafe fn run_import(
    import: Import<'_>,
    context: Context,
    names: Names,
    host: &CommandHost,
    reply: &mut ServerReply,
) -> Result<(), CommandError> {
    // SAFETY: by the caller's word; both keys are closed when this function returns.
    let Some(mut key) = (unsafe { Key::open(context, names.key, KeyAccess::ReadWrite) }) else {
        reply.error_for_the_rest(INTERNAL_ERROR);
        return Ok(());
    };
    // The source is closed before the filter is put in its place, when nothing points into it any more.
    let effects = {
        // SAFETY: by the caller's word; the destination is another key.
        let source = unsafe { Source::open(context, names.source) };
        import.run(&key.slot(), &source, host)?
    };
    reply.simple("OK");
    // SAFETY: context and name are those of the running command.
    unsafe { effects::carry_out(Command::Import, effects, &mut key, context, names.key) };
    Ok(())
}
