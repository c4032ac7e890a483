//! Implements the keyspace and the host of a command with the server.
//!
//! The server checks permission and slot of the first key only. So the module checks those of the others, the sources
//! of BF.MERGE and BF.IMPORT. The flag `getkeys-api` would declare these keys. But the server then calls the module
//! from I/O threads (Valkey 8 and later in a cluster) as if they were the main thread, which crashes the server.

use std::cell::Cell;
use std::io;

use redis_module::raw::{self, RedisModuleString};

use super::api::{CallReply, Context, server_flags};
use super::args::Argv;
use super::config;
use super::key::{Claims, Key};
use super::log;
use super::memory::client_limit;
use super::pagemap::ProcessMemory;
use super::server;
use crate::bloom::hash::siphash::SEED_BYTES;
use crate::bloom::{ByteLimit, Limit, Memory, Prefetch};
use crate::command::table::KeyAccess;
use crate::command::{Command, CommandError, Host, KeyName, KeyValue, Keyspace, Settings};
use crate::prefetch::Processor;

/// The server during one command.
pub(super) struct ServerKeyspace<'a> {
    context: Context,
    argv: Argv<'a>,
    claims: Claims<'a>,
}

impl<'a> ServerKeyspace<'a> {
    /// # Safety
    /// Context and arguments must be those of the running command, for as long as the value lives.
    pub(super) unsafe fn new(context: Context, argv: Argv<'a>) -> Self {
        Self { context, argv, claims: Claims::none() }
    }

    /// Returns the name of a key, which no other open key of the command has, and where to note its changes.
    #[inline(always)]
    fn claim(&self, position: usize) -> Option<(*mut RedisModuleString, &Cell<bool>)> {
        Some((self.argv.string(position)?, self.claims.claim(self.argv, position)?))
    }
}

impl Keyspace for ServerKeyspace<'_> {
    type Key<'k>
        = Key<'k>
    where
        Self: 'k;

    #[inline(always)]
    fn open(&self, name: KeyName<'_>, access: KeyAccess) -> Key<'_> {
        match self.claim(name.position) {
            // SAFETY: the keyspace does not outlive its context, which is that of the running command. The name is
            // one of its arguments, and the claim ensures that no other key of that name is open.
            Some((string, claim)) => unsafe { Key::open(self.context, string, access, claim) },
            None => Key::none(),
        }
    }

    fn may_read(&self, source: KeyName<'_>, first: KeyName<'_>) -> Result<(), CommandError> {
        let keys = self.argv.string(source.position).zip(self.argv.string(first.position));
        match keys {
            // The primary has checked the permission.
            Some(_) if self.is_replicated() => Ok(()),
            // SAFETY: the context is that of the running command, and the names are arguments of it.
            Some((source, first)) => unsafe { may_read(self.context, source, first) },
            None => Err(CommandError::Internal),
        }
    }

    fn may_be_migrating(&self, key: &[u8], first: KeyName<'_>) -> bool {
        // SAFETY: the context is that of the running command.
        !self.is_replicated() && unsafe { may_be_migrating(self.context, key, first.bytes) }
    }

    fn with_string<T>(&self, name: KeyName<'_>, read: impl FnOnce(KeyValue<&'_ [u8]>) -> T) -> T {
        let Some((string, claim)) = self.claim(name.position) else { return read(KeyValue::WrongType) };
        // SAFETY: as in `open`; so nothing is written to the key while it is open.
        let key = unsafe { Key::open(self.context, string, KeyAccess::ReadOnly, claim) };
        let is_copied = key.is_short_string();
        // SAFETY: the context is that of the running command, and the name is an argument of it.
        let copy = if is_copied { unsafe { copy_of(self.context, string) } } else { None };
        read(key.string(copy.as_deref()))
    }

    fn field(&self, key: &[u8], name: &str) -> Option<Vec<u8>> {
        // SAFETY: the context is that of the running command.
        unsafe { field(self.context, key, name) }
    }

    #[inline(always)]
    fn prefetch(&self) -> impl Prefetch {
        Processor
    }

    fn memory(&self) -> impl Memory {
        ProcessMemory
    }

    fn lost(&self, command: Command, error: &CommandError) {
        server::exit_after(error, command, self.argv);
    }

    fn may_have_changed(&self) -> bool {
        self.claims.may_have_changed()
    }

    fn abort(&self) {
        log::abort("changing a filter");
    }
}

impl Host for ServerKeyspace<'_> {
    fn settings(&self) -> Settings {
        config::settings()
    }

    fn is_replicated(&self) -> bool {
        // SAFETY: the context is that of the running command.
        unsafe { server::is_replicated(self.context) }
    }

    fn must_succeed(&self) -> bool {
        // SAFETY: the context is that of the running command.
        unsafe { server::must_succeed(self.context) }
    }

    fn now_ms(&self) -> u64 {
        server::now_ms()
    }

    fn random_seed(&self) -> [u8; SEED_BYTES] {
        server::random_seed()
    }
}

impl ByteLimit for ServerKeyspace<'_> {
    fn limit(&self) -> Limit {
        if self.is_replicated() {
            return u64::MAX.into();
        }
        // SAFETY: the context is that of the running command.
        unsafe { client_limit(self.context) }
    }
}

/// Checks that the client may read `source`, and that it is in the slot of `first`.
///
/// # Errors
/// As [`Keyspace::may_read`].
///
/// # Safety
/// The context and both names must be those of the running command.
unsafe fn may_read(
    context: Context,
    source: *mut RedisModuleString,
    first: *mut RedisModuleString,
) -> Result<(), CommandError> {
    // SAFETY: by the caller's contract.
    let first_slot = unsafe { slot_of(context, first) };
    // SAFETY: by the caller's contract.
    if unsafe { slot_of(context, source) } != first_slot {
        return Err(CommandError::SourceSlot);
    }
    let call = api!(RedisModule_Call).ok_or(CommandError::Internal)?;
    // `C`: as the client. The command is cheap for keys of any type, and the server first checks whether the client
    // may read the key with this command, and whether the key is on this node. SAFETY: by the caller's contract; the
    // format stands for a string of the server.
    let reply = unsafe { call(context, c"BF.CARD".as_ptr(), c"Cs".as_ptr(), source) };
    // This must come before any other call that can fail.
    let refusal = io::Error::last_os_error();
    // SAFETY: the reply was just made, and its pointer is not used again.
    if unsafe { CallReply::new(reply) }.is_some() {
        return Ok(());
    }
    // The reason, as documented for `RedisModule_Call`.
    match refusal.raw_os_error() {
        // There is no client: another module, or its timer, runs the command.
        Some(libc::ENOTSUP) => Ok(()),
        Some(libc::EACCES) => Err(CommandError::SourceDenied),
        Some(libc::EPERM) => Err(CommandError::SourceMoving),
        _ => Err(CommandError::Internal),
    }
}

/// Returns whether a key that was not found may be on another node, because the slot of `first` is migrating: the
/// server then refuses to run a command that reads both keys.
///
/// # Safety
/// The context must be that of the running command, and no key be open.
unsafe fn may_be_migrating(context: Context, key: &[u8], first: &[u8]) -> bool {
    let Some(call) = api!(RedisModule_Call).filter(|_| is_cluster_node()) else { return false };
    let (name, format) = (c"EXISTS".as_ptr(), c"bb".as_ptr());
    // The server checks the slot for the client, with its ASKING. It does not check permissions, since the client may
    // lack EXISTS. SAFETY: the context by the caller's contract; the format stands for two strings with their lengths.
    let reply = unsafe { call(context, name, format, first.as_ptr(), first.len(), key.as_ptr(), key.len()) };
    // This must come before any other call that can fail.
    let refusal = io::Error::last_os_error();
    // SAFETY: the reply was just made, and its pointer is not used again.
    unsafe { CallReply::new(reply) }.is_none() && refusal.raw_os_error() == Some(libc::EPERM)
}

fn is_cluster_node() -> bool {
    server_flags() & raw::REDISMODULE_CTX_FLAGS_CLUSTER != 0
}

/// Returns the slot of a key; `None` if the server is not a node of a cluster.
///
/// # Safety
/// The context and the name must be those of the running command.
unsafe fn slot_of(context: Context, name: *mut RedisModuleString) -> Option<i64> {
    if !is_cluster_node() {
        return None;
    }
    let call = api!(RedisModule_Call)?;
    // SAFETY: by the caller's contract; the format stands for a C string and a string of the server.
    let reply = unsafe { call(context, c"CLUSTER".as_ptr(), c"cs".as_ptr(), c"KEYSLOT".as_ptr(), name) };
    // SAFETY: the reply was just made, and its pointer is not used again.
    unsafe { CallReply::new(reply) }?.integer()
}

/// Returns a copy of the string of a key. The call is not made as the client, which may not have permission for GET.
///
/// # Safety
/// `context` and `name` must be those of the running command.
unsafe fn copy_of(context: Context, name: *mut RedisModuleString) -> Option<Vec<u8>> {
    let call = api!(RedisModule_Call)?;
    // SAFETY: context and name are alive by the caller's contract; the format stands for a string of the server.
    let reply = unsafe { call(context, c"GET".as_ptr(), c"s".as_ptr(), name) };
    // SAFETY: the reply was just made, and its pointer is not used again.
    unsafe { CallReply::new(reply) }?.string()
}

/// Returns a field of the hash at `key`, if it exists and the client may read it.
///
/// # Safety
/// `context` must be that of the running command.
unsafe fn field(context: Context, key: &[u8], field: &str) -> Option<Vec<u8>> {
    let call = api!(RedisModule_Call)?;
    let field = log::c_text(field);
    // `C`: as the client, which must be allowed to read that key.
    // SAFETY: the context by the caller's contract; the format stands for what follows it.
    let reply =
        unsafe { call(context, c"HGET".as_ptr(), c"Cbc".as_ptr(), key.as_ptr(), key.len(), field.as_ptr()) };
    // SAFETY: the reply was just made, and its pointer is not used again.
    unsafe { CallReply::new(reply) }?.string()
}
