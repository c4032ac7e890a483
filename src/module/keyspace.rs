//! Implements the keyspace and the host of a command with the server.
//!
//! The server checks permission and slot of the first key only. So the module checks permission and slot of the other
//! keys, the sources of BF.MERGE and BF.IMPORT. The flag `getkeys-api` would declare these keys. But then Valkey 8 and
//! later in a cluster call the module from I/O threads as if they were the main thread (decision 13).

use std::cell::Cell;
use std::ptr::NonNull;

use redis_module::raw::{self, RedisModuleString};

use super::api::{CallReply, Context, Refusal, server_flags, succeeded};
use super::args::Argv;
use super::claims::Claims;
use super::config;
use super::key::{KeyToRead, KeyToWrite};
use super::log;
use super::memory::{client_limit, was_read_again};
use super::pagemap::ProcessMemory;
use super::server;
use everbloom_command::error::quotable;
use everbloom_command::{Command, CommandError, Host, KeyName, KeyValue, Keyspace, Settings};
use everbloom_filter::hash::siphash::SEED_BYTES;
use everbloom_filter::{ByteLimit, Limit, Memory, Prefetch};
use everbloom_processor::Processor;

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

    /// Claims the key that the argument at `position` names. Returns its name and the flag to set if it may have
    /// changed; `None` if a key with that name is claimed already.
    #[inline(always)]
    fn claim(&self, position: usize) -> Option<(*mut RedisModuleString, &Cell<bool>)> {
        Some((self.argv.string(position)?, self.claims.claim(self.argv, position)?))
    }
}

impl ServerKeyspace<'_> {
    /// Returns the slot of a key that an argument names; `None` if the server does not say it.
    fn slot_of(&self, name: KeyName<'_>) -> Option<i64> {
        let string = self.argv.string(name.position)?;
        if let Some(slot) = api!(RedisModule_ClusterKeySlot) {
            // SAFETY: the string is an argument of the running command.
            return Some(unsafe { slot(string) }.into());
        }
        // Redis before 7.4 and Valkey 7.2 have no such function.
        let call = api!(RedisModule_Call)?;
        let (name, format, subcommand) = (c"CLUSTER".as_ptr(), c"cs".as_ptr(), c"KEYSLOT".as_ptr());
        // SAFETY: the context is that of the running command. The format stands for a C string and a string of the
        // server, and the string is an argument of the command.
        let reply = unsafe { call(self.context, name, format, subcommand, string) };
        // SAFETY: the reply was just made, and its pointer is not used again.
        unsafe { CallReply::new(reply) }?.integer()
    }

    /// Checks that two keys of a client's command are in one slot if the server is a node of a cluster.
    fn check_slots(&self, source: KeyName<'_>, first: KeyName<'_>) -> Result<(), CommandError> {
        if !is_cluster_node() {
            return Ok(());
        }
        let (Some(source), Some(first)) = (self.slot_of(source), self.slot_of(first)) else {
            return Err(CommandError::Internal);
        };
        if source == first { Ok(()) } else { Err(CommandError::SourceSlot) }
    }

    /// Returns whether the client may read `source` with any command; `None` if this is unknown, because a module has
    /// made the user.
    ///
    /// # Safety
    /// The server must have refused a call as the client with [`Refusal::Denied`]. Then the client has a user. Redis 7.0
    /// does not check this.
    unsafe fn has_read_access(&self, source: KeyName<'_>) -> Option<bool> {
        let source = self.argv.string(source.position)?;
        let (name_of, by_name) =
            (api!(RedisModule_GetCurrentUserName)?, api!(RedisModule_GetModuleUserFromUserName)?);
        let (check, free_user) =
            (api!(RedisModule_ACLCheckKeyPermissions)?, api!(RedisModule_FreeModuleUser)?);
        let free_string = api!(RedisModule_FreeString)?;
        let reads = i32::try_from(raw::REDISMODULE_CMD_KEY_ACCESS).ok()?;
        // SAFETY: the context is that of the running command. Its client has a user by the caller's contract.
        let name = NonNull::new(unsafe { name_of(self.context) })?;
        // SAFETY: the name is alive.
        let user = unsafe { by_name(name.as_ptr()) };
        // SAFETY: the name was made with this context and is not used again.
        unsafe { free_string(self.context, name.as_ptr()) };
        let user = NonNull::new(user)?;
        // SAFETY: the user is alive, and the source is an argument of the command.
        let may_read = succeeded(unsafe { check(user.as_ptr(), source, reads) });
        // SAFETY: the user was made here and is not used again. This does not free the server's user of this name.
        unsafe { free_user(user.as_ptr()) };
        Some(may_read)
    }

    /// Returns a copy of the string of a key that an argument names. The call is not made as the client, who may not
    /// have permission for GET.
    fn copy_of(&self, name: KeyName<'_>) -> Option<Vec<u8>> {
        let (string, call) = (self.argv.string(name.position)?, api!(RedisModule_Call)?);
        // SAFETY: the context is that of the running command. The format stands for a string of the server, and the
        // string is an argument of the command.
        let reply = unsafe { call(self.context, c"GET".as_ptr(), c"s".as_ptr(), string) };
        // SAFETY: the reply was just made, and its pointer is not used again.
        unsafe { CallReply::new(reply) }?.string()
    }
}

impl Keyspace for ServerKeyspace<'_> {
    type ReadKey<'k>
        = KeyToRead
    where
        Self: 'k;

    type WriteKey<'k>
        = KeyToWrite<'k>
    where
        Self: 'k;

    #[inline(always)]
    fn open_to_read(&self, name: KeyName<'_>) -> KeyToRead {
        match self.claim(name.position) {
            // SAFETY: the context is that of the running command, which no key of a command outlives. The name is one of its
            // arguments, and the claim ensures that no other key of that name is open.
            Some((string, _)) => unsafe { KeyToRead::open(self.context, string) },
            None => KeyToRead::none(),
        }
    }

    #[inline(always)]
    fn open_to_write(&self, name: KeyName<'_>) -> KeyToWrite<'_> {
        match self.claim(name.position) {
            // SAFETY: the keyspace does not outlive its context, which is that of the running command. The name is
            // one of its arguments, and the claim ensures that no other key of that name is open.
            Some((string, claim)) => unsafe { KeyToWrite::open(self.context, string, claim) },
            None => KeyToWrite::none(),
        }
    }

    fn may_read(&self, source: KeyName<'_>, first: KeyName<'_>) -> Result<(), CommandError> {
        // The primary has checked the permission.
        if self.is_replicated() {
            return Ok(());
        }
        self.check_slots(source, first)?;
        let (Some(string), Some(call)) = (self.argv.string(source.position), api!(RedisModule_Call)) else {
            return Err(CommandError::Internal);
        };
        // `C` makes the call as the client. BF.CARD is cheap for keys of any type. The server first checks whether the
        // client may read the key with this command, and then whether the key is on this node.
        // SAFETY: the context is that of the running command. The format stands for a string of the server, and the
        // name is an argument of the command.
        let reply = unsafe { call(self.context, c"BF.CARD".as_ptr(), c"Cs".as_ptr(), string) };
        // SAFETY: the context is alive. The reply was just made, and its pointer is not used again.
        match unsafe { CallReply::or_refusal(self.context, reply) } {
            Ok(_) | Err(Refusal::NoClient | Refusal::AllCalls) => Ok(()),
            Err(Refusal::Denied) => {
                // SAFETY: the server has just refused a call as the client with this reason.
                let has_access = unsafe { self.has_read_access(source) };
                let permission = if has_access == Some(false) { "read" } else { "run BF.CARD on" };
                Err(CommandError::SourceDenied { permission, key: quotable(source.bytes) })
            }
            Err(Refusal::Elsewhere) => Err(CommandError::SourceMoving),
            Err(Refusal::Unknown) => Err(CommandError::Internal),
        }
    }

    /// Returns whether the server refuses to run a command that reads both keys. It refuses if the slot is migrating
    /// and one of the keys is not on this node.
    fn may_be_migrating(&self, key: &[u8], first: KeyName<'_>) -> bool {
        if self.is_replicated() || !is_cluster_node() {
            return false;
        }
        let Some(call) = api!(RedisModule_Call) else { return false };
        let (name, format, first) = (c"EXISTS".as_ptr(), c"bb".as_ptr(), first.bytes);
        // The server checks the slot for the client, with its ASKING. It does not check permissions, because without
        // `C` the call is not made as the client, who may lack the permission for EXISTS.
        // SAFETY: the context is that of the running command. The format stands for two strings with their lengths.
        let reply =
            unsafe { call(self.context, name, format, first.as_ptr(), first.len(), key.as_ptr(), key.len()) };
        // SAFETY: the context is alive. The reply was just made, and its pointer is not used again.
        unsafe { CallReply::or_refusal(self.context, reply) }.err() == Some(Refusal::Elsewhere)
    }

    fn with_string<T>(&self, name: KeyName<'_>, read: impl FnOnce(KeyValue<&'_ [u8]>) -> T) -> T {
        let Some((string, _)) = self.claim(name.position) else { return read(KeyValue::WrongType) };
        // SAFETY: the context is that of the running command, and the name is one of its arguments. The claim ensures
        // that no other key of that name is open. Nothing writes to the key while it is open.
        let key = unsafe { KeyToRead::open(self.context, string) };
        let copy = if key.is_short_string() { self.copy_of(name) } else { None };
        read(key.string(copy.as_deref()))
    }

    fn field(&self, key: &[u8], field: &str) -> Option<Vec<u8>> {
        let call = api!(RedisModule_Call)?;
        let (field, name) = (log::c_text(field), c"HGET".as_ptr());
        // `C` makes the call as the client, who must be allowed to read the key.
        // SAFETY: the context is that of the running command. The format stands for a string with its length, and a C
        // string.
        let reply =
            unsafe { call(self.context, name, c"Cbc".as_ptr(), key.as_ptr(), key.len(), field.as_ptr()) };
        // SAFETY: the reply was just made, and its pointer is not used again.
        unsafe { CallReply::new(reply) }?.string()
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
        client_limit()
    }

    fn limit_again(&self, limit: Limit) -> Limit {
        if was_read_again(limit) { self.limit() } else { limit }
    }
}

fn is_cluster_node() -> bool {
    server_flags() & raw::REDISMODULE_CTX_FLAGS_CLUSTER != 0
}
