//! Replies, written to the client's output buffer.

use std::ffi::{c_int, c_long};

use redis_module::raw;
use smallvec::SmallVec;

use super::api::{Context, context_flags};
use everbloom_command::number::shortest;
use everbloom_command::{Protocol, Reply};

/// Largest length of an error text in bytes. It may quote a client's bytes.
const ERROR_MAX_BYTES: usize = 256;

/// The reply to one command.
pub(super) struct ServerReply {
    context: Context,
    /// Number of replies that are announced but not written yet.
    outstanding: usize,
}

impl ServerReply {
    /// # Safety
    /// `context` must be that of a running command to which nothing has replied yet. The reply must not outlive it.
    pub(super) unsafe fn new(context: Context) -> Self {
        Self { context, outstanding: 1 }
    }

    /// Counts a reply that is written and announces no others.
    fn written(&mut self) {
        self.outstanding = self.outstanding.saturating_sub(1);
    }

    /// Counts an aggregate that is written, and the replies that it announces.
    fn announced(&mut self, replies: usize) {
        self.outstanding = self.outstanding.saturating_sub(1).saturating_add(replies);
    }
}

impl Reply for ServerReply {
    fn protocol(&self) -> Protocol {
        // SAFETY: the context is that of the running command.
        let flags = unsafe { context_flags(self.context) };
        if flags & raw::REDISMODULE_CTX_FLAGS_RESP3 != 0 { Protocol::Resp3 } else { Protocol::Resp2 }
    }

    fn simple(&mut self, text: &'static str) {
        self.written();
        let Some(reply) = api!(RedisModule_ReplyWithSimpleString) else { return };
        let text = terminated(text);
        // SAFETY: the context is that of the running command. The text ends with its only NUL, and the server copies
        // it.
        unsafe { reply(self.context, text.as_ptr().cast()) };
    }

    fn error(&mut self, text: &str) {
        self.written();
        let Some(reply) = api!(RedisModule_ReplyWithError) else { return };
        let text = terminated(text);
        // SAFETY: the context is that of the running command. The text ends with its only NUL, and the server copies
        // it.
        unsafe { reply(self.context, text.as_ptr().cast()) };
    }

    fn integer(&mut self, number: u64) {
        self.signed(i64::try_from(number).unwrap_or(i64::MAX));
    }

    fn signed(&mut self, number: i64) {
        self.written();
        let Some(reply) = api!(RedisModule_ReplyWithLongLong) else { return };
        // SAFETY: the context is that of the running command.
        unsafe { reply(self.context, number) };
    }
    fn boolean(&mut self, value: bool) {
        self.written();
        let Some(reply) = api!(RedisModule_ReplyWithBool) else { return };
        // SAFETY: the context is that of the running command.
        unsafe { reply(self.context, c_int::from(value)) };
    }

    fn double(&mut self, number: f64) {
        // Redis 7.0 writes doubles for RESP2 with 17 digits.
        if self.protocol() == Protocol::Resp2 {
            return self.bulk(shortest(number).as_bytes());
        }
        self.written();
        let Some(reply) = api!(RedisModule_ReplyWithDouble) else { return };
        // SAFETY: the context is that of the running command.
        unsafe { reply(self.context, number) };
    }

    fn null(&mut self) {
        self.written();
        let Some(reply) = api!(RedisModule_ReplyWithNull) else { return };
        // SAFETY: the context is that of the running command.
        unsafe { reply(self.context) };
    }

    fn bulk(&mut self, bytes: &[u8]) {
        self.written();
        let Some(reply) = api!(RedisModule_ReplyWithStringBuffer) else { return };
        // SAFETY: the context is that of the running command. The server copies the bytes.
        unsafe { reply(self.context, bytes.as_ptr().cast(), bytes.len()) };
    }

    fn array(&mut self, length: usize) {
        self.announced(length);
        let Some(reply) = api!(RedisModule_ReplyWithArray) else { return };
        let length = c_long::try_from(length).unwrap_or(c_long::MAX);
        // SAFETY: the context is that of the running command.
        unsafe { reply(self.context, length) };
    }

    fn map(&mut self, pairs: usize) {
        self.announced(pairs.saturating_mul(2));
        let Some(reply) = api!(RedisModule_ReplyWithMap) else { return };
        let pairs = c_long::try_from(pairs).unwrap_or(c_long::MAX);
        // SAFETY: the context is that of the running command.
        unsafe { reply(self.context, pairs) };
    }

    fn error_for_the_rest(&mut self, text: &str) {
        while self.outstanding > 0 {
            self.error(text);
        }
    }
}

/// Returns the text as one line of limited length, with a single NUL at the end. It is never cut within a character,
/// because some clients close the connection if an error text is not valid UTF-8.
fn terminated(text: &str) -> SmallVec<[u8; 128]> {
    let end = (0..=text.len().min(ERROR_MAX_BYTES)).rev().find(|end| text.is_char_boundary(*end));
    let mut line = SmallVec::from_slice(text.as_bytes().get(..end.unwrap_or(0)).unwrap_or_default());
    line.iter_mut().filter(|byte| **byte < b' ').for_each(|byte| *byte = b' ');
    line.push(0);
    line
}
