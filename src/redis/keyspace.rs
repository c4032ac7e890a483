//! The keys of the selected database, and the server around them, as a command sees them.

use redis_module::raw::RedisModuleString;

use super::api::Context;
use super::args::Argv;
use super::claim::{Claim, Claims};
use super::config;
use super::key::Key;
use super::loss;
use super::memory::client_limit_bytes;
use super::moment;
use super::pagemap::ProcessMemory;
use super::permission;
use super::random::random_seed;
use super::source::{Source, field};
use crate::bloom::valkeybloom::SEED_BYTES;
use crate::bloom::{ByteLimit, Memory, Prefetch};
use crate::command::table::KeyAccess;
use crate::command::{Command, CommandError, Host, Keyspace, Name, Settings, StringSlot};
use crate::prefetch::Processor;

/// The server as one command sees it.
pub(super) struct ServerKeyspace<'a> {
    context: Context,
    argv: Argv<'a>,
    open: Claims,
}

impl<'a> ServerKeyspace<'a> {
    /// # Safety
    /// Context and arguments must be those of the running command, for as long as the value lives.
    pub(super) unsafe fn new(context: Context, argv: Argv<'a>) -> Self {
        Self { context, argv, open: Claims::none() }
    }

    /// The string that names a key, which is open from now on as long as the claim lives.
    #[inline(always)]
    fn claim(&self, position: usize) -> Option<(*mut RedisModuleString, Claim<'_>)> {
        Some((self.argv.string(position)?, self.open.claim(self.argv, position)?))
    }
}

impl Keyspace for ServerKeyspace<'_> {
    type Key<'k>
        = Key<'k>
    where
        Self: 'k;

    #[inline(always)]
    fn open(&self, name: Name<'_>, access: KeyAccess) -> Key<'_> {
        match self.claim(name.position) {
            // SAFETY: the context is that of the running command, which the keyspace does not outlive, the
            // name one of its arguments, and no other key of that name is open by the claim.
            Some((string, claim)) => unsafe { Key::open(self.context, string, access, claim) },
            None => Key::none(),
        }
    }

    fn may_read(&self, source: Name<'_>, first: Name<'_>) -> Result<(), CommandError> {
        let keys = self.argv.string(source.position).zip(self.argv.string(first.position));
        match keys {
            // A primary has asked.
            Some(_) if self.must_obey() => Ok(()),
            // SAFETY: the context is that of the running command, and the names are arguments of it.
            Some((source, first)) => unsafe { permission::may_read(self.context, source, first) },
            None => Err(CommandError::Internal),
        }
    }

    fn may_be_migrating(&self, key: &[u8], first: Name<'_>) -> bool {
        // SAFETY: the context is that of the running command.
        !self.must_obey() && unsafe { permission::may_be_migrating(self.context, key, first.bytes) }
    }

    fn with_string<T>(&self, name: Name<'_>, read: impl FnOnce(StringSlot<'_>) -> T) -> T {
        let Some((string, _claim)) = self.claim(name.position) else { return read(StringSlot::WrongType) };
        // SAFETY: as in `open`; so nothing is written to the key while the source lives.
        let source = unsafe { Source::open(self.context, string) };
        read(source.string())
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
        loss::end_server(error, command, self.argv);
    }
}

impl Host for ServerKeyspace<'_> {
    fn settings(&self) -> Settings {
        config::settings()
    }

    fn must_obey(&self) -> bool {
        // SAFETY: the context is that of the running command.
        unsafe { moment::must_obey(self.context) }
    }

    fn must_succeed(&self) -> bool {
        // SAFETY: the context is that of the running command.
        unsafe { moment::must_succeed(self.context) }
    }

    fn now_ms(&self) -> u64 {
        moment::now_ms()
    }

    fn random_seed(&self) -> [u8; SEED_BYTES] {
        random_seed()
    }
}

impl ByteLimit for ServerKeyspace<'_> {
    fn max_filter_bytes(&self) -> u64 {
        if self.must_obey() {
            return u64::MAX;
        }
        // SAFETY: the context is that of the running command.
        unsafe { client_limit_bytes(self.context) }
    }
}
