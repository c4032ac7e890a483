//! The entry point of every command: borrows the arguments, catches panics, runs the command, and applies its
//! effects.

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

use redis_module::raw::{RedisModuleCmdFunc, RedisModuleString};

use super::api::{Context, OK};
use super::args::Argv;
use super::effects::{self, Strings};
use super::keyspace::ServerKeyspace;
use super::reply::ServerReply;
use everbloom_command::for_each_command;
use everbloom_command::{COMMANDS, Command, CommandError, end_after_panic, execute, refuse};

macro_rules! handlers {
    ($($command:ident => $spec:ident,)*) => {
        /// The handler of every command, in the order of the table.
        pub(super) const HANDLERS: [RedisModuleCmdFunc; COMMANDS.len()] =
            [$(Some(handle::<{ Command::$command as usize }>)),*];
    };
}
for_each_command!(handlers);

/// The command at `INDEX` of the table, as a constant.
struct At<const INDEX: usize>;

impl<const INDEX: usize> At<INDEX> {
    #[expect(clippy::indexing_slicing, reason = "evaluated by the compiler, which refuses an index outside")]
    const COMMAND: Command = COMMANDS[INDEX];
}

/// Runs the command at `INDEX` of the table.
///
/// Each command has a separate handler, including the reading of its arguments, so that the compiler removes the code
/// of all other commands. This saves many instructions of a short command.
///
/// # Safety
/// Called by the server only, with the context and the arguments of a command, which are unchanged until it returns.
unsafe extern "C" fn handle<const INDEX: usize>(
    context: Context,
    argv: *mut *mut RedisModuleString,
    argc: c_int,
) -> c_int {
    // SAFETY: these are the arguments of the running command, which do not change until the handler returns.
    let argv = unsafe { Argv::new(argv, argc) }.rest();
    // SAFETY: the context is that of the running command, to which nothing has replied yet.
    let mut reply = unsafe { ServerReply::new(context) };
    // SAFETY: context and arguments are those of the running command.
    let mut keyspace = unsafe { ServerKeyspace::new(context, argv) };
    let run = || {
        // SAFETY: context and arguments belong to the running command.
        unsafe { run::<INDEX>(context, argv, &mut keyspace, &mut reply) }
    };
    if catch_unwind(AssertUnwindSafe(run)).is_err() {
        end_after_panic(At::<INDEX>::COMMAND, &keyspace, &mut reply);
    }
    OK
}

/// Runs the command and applies its effects. Refuses it if there is no memory for its arguments.
///
/// # Safety
/// `context` and `argv` must be those of the running command.
#[inline(always)]
unsafe fn run<const INDEX: usize>(
    context: Context,
    argv: Argv<'_>,
    keyspace: &mut ServerKeyspace<'_>,
    reply: &mut ServerReply,
) {
    let command = At::<INDEX>::COMMAND;
    let mut strings = Strings::default();
    let has_memory = strings.reserve(command, argv.len())
        && argv.with_bytes(
            |arguments| {
                let effects = execute(command, arguments, keyspace, reply);
                // SAFETY: context and arguments are those of the running command, and `execute` has closed all keys.
                unsafe { effects::carry_out(command, effects, context, argv, &mut strings) };
                true
            },
            || false,
        );
    if !has_memory {
        refuse(command, &CommandError::OutOfMemory, keyspace, reply);
    }
}
