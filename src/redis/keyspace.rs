//! Implements the keyspace and the host of a command with the server.

use redis_module::raw::RedisModuleString;

use super::api::Context;
use super::args::Argv;
use super::config;
use super::key::{Claim, Claims, Key};
use super::log;
use super::memory::client_limit;
use super::pagemap::ProcessMemory;
use super::server;
use super::source::{self, Source};
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

    /// Returns the name of a key, and the claim that no other open key of the command has this name.
    #[inline(always)]
    fn claim(&self, position: usize) -> Option<(*mut RedisModuleString, Claim<'_>)> {
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
            Some((source, first)) => unsafe { source::may_read(self.context, source, first) },
            None => Err(CommandError::Internal),
        }
    }

    fn may_be_migrating(&self, key: &[u8], first: KeyName<'_>) -> bool {
        // SAFETY: the context is that of the running command.
        !self.is_replicated() && unsafe { source::may_be_migrating(self.context, key, first.bytes) }
    }

    fn with_string<T>(&self, name: KeyName<'_>, read: impl FnOnce(KeyValue<&'_ [u8]>) -> T) -> T {
        let Some((string, _claim)) = self.claim(name.position) else { return read(KeyValue::WrongType) };
        // SAFETY: as in `open`; so nothing is written to the key while the source lives.
        let source = unsafe { Source::open(self.context, string) };
        read(source.string())
    }

    fn field(&self, key: &[u8], name: &str) -> Option<Vec<u8>> {
        // SAFETY: the context is that of the running command.
        unsafe { source::field(self.context, key, name) }
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
