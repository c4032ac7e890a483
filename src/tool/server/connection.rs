//! A connection to one server, its errors with advice, and functions that read values in its replies.

use redis::{Cmd, ErrorKind, FromRedisValue, RedisError, Value};
use thiserror::Error;

use crate::failure::Failure;

/// Why a command failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum CallError {
    /// The server replied with this error.
    #[error("{}", with_remedy(.0))]
    Refused(String),
    /// The connection failed, or the reply is unexpected.
    #[error("connection: {0}")]
    Broken(String),
    /// The command was not sent to the node with the key's slot: no node serves the slot, connecting failed, the
    /// retries took too long, or the user interrupted the tool.
    #[error(transparent)]
    Unrouted(#[from] Failure),
}

impl CallError {
    /// Returns the error for an unexpected reply.
    pub(crate) fn unexpected_reply(command: &str) -> Self {
        Self::Broken(format!(
            "unexpected reply to {command}: is this the address of a Redis or Valkey server?"
        ))
    }

    /// Returns whether the server does not know the command, or does not permit it to this user.
    pub(crate) fn lacks_command(&self) -> bool {
        matches!(self, Self::Refused(text) if unknown_command(text).is_some() || text.starts_with("NOPERM"))
    }

    /// Returns whether the command was refused because there is no filter under the key, or no filter of its family.
    pub(crate) fn is_of_no_filter(&self) -> bool {
        let is_said = |text: &str| text.starts_with("not found") || text.starts_with("WRONGTYPE");
        matches!(self, Self::Refused(text) if is_said(text.trim_start_matches("ERR ")))
    }

    /// Returns whether the server does not know the command.
    pub(crate) fn is_of_unknown_command(&self) -> bool {
        matches!(self, Self::Refused(text) if unknown_command(text).is_some())
    }

    /// Returns whether the command was refused because a client is loading the chunks of the filter.
    pub(crate) fn is_of_load(&self) -> bool {
        matches!(self, Self::Refused(text) if text.starts_with("ERR the filter is being loaded"))
    }
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Unrouted(failure) => failure,
            error => Self::new(error),
        }
    }
}

/// The text that replaces the error of the client library if the server refuses the credentials.
const WRONG_PASSWORD: &str = "the server refused the user or the password";

/// Advice for errors of a server, by the beginning of their text.
const REMEDIES: [(&str, &str); 10] = [
    ("NOAUTH", "give the password in the address, or in EVERBLOOM_PASSWORD"),
    (WRONG_PASSWORD, "check the address, EVERBLOOM_USERNAME and EVERBLOOM_PASSWORD"),
    ("NOPERM", "give the user the permission with ACL SETUSER: docs/tool.md lists what each command needs"),
    ("MOVED", "the server is a node of a cluster: use -c"),
    ("READONLY", "the server is a replica: use the address of its primary"),
    ("WRONGTYPE", "the key is not a filter: use another key"),
    ("ERR not found", "there is no filter under the key: create it first"),
    ("OOM", "free memory on the server, or raise its maxmemory"),
    (
        "ERR the dump of this iterator has ended",
        "another client has changed the filter and dumped it again, or emptied or deleted it: copy it again with --resume",
    ),
    (
        "ERR received bad data",
        "the server cannot read this filter: check with MODULE LIST that everbloom is loaded",
    ),
];

/// Returns the text of an error of a server with advice.
fn with_remedy(text: &str) -> String {
    if let Some(command) = unknown_command(text) {
        return format!(
            "the server does not know {command}: everbloom is not loaded. Add the line `loadmodule \
             /path/to/everbloom.so` to the configuration of the server and restart it"
        );
    }
    match REMEDIES.iter().find(|(beginning, _)| text.starts_with(beginning)) {
        Some((_, remedy)) => format!("{}; {remedy}", text.trim_end_matches('.')),
        None => text.to_owned(),
    }
}

/// Returns the name of the command if the text is the error of a server that does not know it.
fn unknown_command(text: &str) -> Option<&str> {
    let (_, name) = text.split_once("unknown command ")?;
    name.trim_start_matches(['\'', '`']).split(['\'', '`', ',']).next()
}

/// A connection after its handshake.
pub(crate) struct Connection {
    inner: redis::Connection,
    /// The command that is sent, and its encoding. They are fields so that their memory is reused.
    command: Cmd,
    buffer: Vec<u8>,
}

impl Connection {
    pub(super) fn new(inner: redis::Connection) -> Self {
        Self { inner, command: Cmd::new(), buffer: Vec::new() }
    }

    /// Sends one command. [`receive`](Self::receive) returns its reply.
    pub(crate) fn send(&mut self, arguments: &[&[u8]]) -> Result<(), CallError> {
        self.command.clear();
        self.command.arg(arguments);
        self.buffer.clear();
        self.command.write_packed_command(&mut self.buffer);
        self.inner.send_packed_command(&self.buffer).map_err(|error| CallError::Broken(error.to_string()))
    }

    /// Returns the next reply.
    pub(crate) fn receive(&mut self) -> Result<Value, CallError> {
        loop {
            match self.inner.recv_response() {
                Ok(Value::Push { .. }) => {}
                Ok(Value::ServerError(error)) => return Err(call_error(&error.into())),
                Ok(Value::Attribute { data, .. }) => return Ok(*data),
                Ok(value) => return Ok(value),
                Err(error) => return Err(call_error(&error)),
            }
        }
    }

    /// Sends one command and returns its reply.
    pub(crate) fn call(&mut self, arguments: &[&[u8]]) -> Result<Value, CallError> {
        self.send(arguments)?;
        self.receive()
    }

    /// Returns an error if the server does not know a command. Sends the command without arguments, which changes
    /// nothing.
    pub(super) fn require(&mut self, command: &str) -> Result<(), Failure> {
        match self.call(&[command.as_bytes()]) {
            Err(CallError::Refused(text)) if unknown_command(&text).is_none() => Ok(()),
            outcome => Ok(outcome.map(drop)?),
        }
    }

    /// Returns whether the server is a node of a cluster.
    pub(super) fn is_in_cluster(&mut self) -> Result<bool, CallError> {
        let info = self.call(&[b"INFO", b"cluster"])?;
        Ok(text(&info).is_some_and(|info| info.lines().any(|line| line == "cluster_enabled:1")))
    }

    /// Executes commands in a transaction. Returns their replies, or the first error.
    pub(crate) fn transact(&mut self, commands: &[Vec<&[u8]>]) -> Result<Vec<Value>, CallError> {
        self.call(&[b"MULTI"])?;
        for command in commands {
            if let Err(trouble) = self.call(command) {
                let _ = self.call(&[b"DISCARD"]);
                return Err(trouble);
            }
        }
        match self.call(&[b"EXEC"])? {
            Value::Array(replies) => replies
                .into_iter()
                .map(|reply| reply.extract_error().map_err(|error| call_error(&error)))
                .collect(),
            _ => Err(CallError::Refused("the server did not execute the transaction: load again".to_owned())),
        }
    }
}

/// Converts an error of the client library.
pub(super) fn call_error(error: &RedisError) -> CallError {
    match (error.code(), error.detail()) {
        (Some(code), Some(detail)) => CallError::Refused(format!("{code} {detail}")),
        (Some(code), None) => CallError::Refused(code.to_owned()),
        (None, _) if error.kind() == ErrorKind::AuthenticationFailed => {
            CallError::Refused(WRONG_PASSWORD.to_owned())
        }
        (None, _) => CallError::Broken(match error.kind() {
            ErrorKind::Parse => "the reply is not in the protocol of Redis".to_owned(),
            _ if error.is_timeout() => "no reply in time".to_owned(),
            _ => error.to_string(),
        }),
    }
}

/// Returns the integer in a reply: an integer, the text of an integer, or an array or map with a single such value.
pub(crate) fn integer(value: &Value) -> Option<u64> {
    match value {
        Value::Array(values) => values.first().filter(|_| values.len() == 1).and_then(integer),
        Value::Map(pairs) => pairs.first().filter(|_| pairs.len() == 1).and_then(|(_, value)| integer(value)),
        _ => text(value)?.parse().ok(),
    }
}

/// Returns the text of a string of any kind.
pub(crate) fn text(value: &Value) -> Option<String> {
    String::from_redis_value_ref(value).ok()
}

/// Returns the value of a field in a map, or in an array of alternating names and values. Ignores the case of names,
/// which differs between servers.
pub(crate) fn field<'v>(reply: &'v Value, name: &str) -> Option<&'v Value> {
    let is_named = |value: &Value| text(value).is_some_and(|text| text.eq_ignore_ascii_case(name));
    match reply {
        Value::Map(pairs) => pairs.iter().find(|(key, _)| is_named(key)).map(|(_, value)| value),
        Value::Array(values) => {
            let (pairs, _) = values.as_chunks::<2>();
            pairs.iter().find(|[key, _]| is_named(key)).map(|[_, value]| value)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::{CallError, call_error};

    #[test]
    fn errors_of_servers_have_a_remedy() {
        for (text, shown) in [
            (
                "ERR unknown command 'BF.RESERVE', with args beginning with: 'k' '0.01' ",
                "know BF.RESERVE: everbloom",
            ),
            (
                "ERR unknown command `BF.LOADCHUNK`, with args beginning with: `k`, ",
                "know BF.LOADCHUNK: everbloom",
            ),
            ("ERR received bad data", "ERR received bad data; the server cannot read this filter"),
            ("MOVED 3999 127.0.0.1:6381", "6381; the server is a node of a cluster: use -c"),
            ("NOAUTH Authentication required.", "required; give the password"),
            ("ERR item exists", "ERR item exists"),
        ] {
            let error = CallError::Refused(text.to_owned());
            assert!(error.to_string().contains(shown), "{error}");
            assert_eq!(error.lacks_command(), text.contains("unknown command"), "{error}");
        }
    }

    #[test]
    fn a_reply_that_does_not_arrive_is_named() {
        for kind in [io::ErrorKind::WouldBlock, io::ErrorKind::TimedOut] {
            let error = call_error(&io::Error::from(kind).into());
            assert_eq!(error, CallError::Broken("no reply in time".to_owned()));
        }
    }
}
