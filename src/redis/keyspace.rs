//! The keys of the selected database, and the server around them, as a command sees them.

use std::ffi::c_int;

use redis_module::raw::{self, RedisModuleString};

use super::api::{self, Context};
use super::args::Argv;
use super::claim::{Claim, Claims};
use super::config;
use super::key::Key;
use super::loss;
use super::memory::client_limit_bytes;
use super::pagemap::ProcessMemory;
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
        type MustObeyClient = unsafe extern "C" fn(Context) -> c_int;
        if self.must_succeed() {
            return true;
        }
        // Valkey also has commands that import slots, which only this function knows.
        // SAFETY: this is the type of the function in Valkey's module API, the only one that has it.
        let must_obey = unsafe { api::by_name::<MustObeyClient>(c"RedisModule_MustObeyClient") };
        // SAFETY: the context is that of the running command.
        must_obey.is_some_and(|must_obey| unsafe { must_obey(self.context) } != 0)
    }

    fn must_succeed(&self) -> bool {
        const OBEYED: u32 = raw::REDISMODULE_CTX_FLAGS_REPLICATED | raw::REDISMODULE_CTX_FLAGS_LOADING;
        let Some(context_flags) = api!(RedisModule_GetContextFlags) else { return false };
        // SAFETY: the context is that of the running command.
        let flags = unsafe { context_flags(self.context) };
        flags & OBEYED.cast_signed() != 0
    }

    fn now_ms(&self) -> u64 {
        // SAFETY: no precondition.
        let now_ms = api!(RedisModule_Milliseconds).map(|milliseconds| unsafe { milliseconds() });
        now_ms.and_then(|now_ms| u64::try_from(now_ms).ok()).unwrap_or(0)
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
