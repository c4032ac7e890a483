//! One connection to one server, and the values in its replies.

use redis::{RedisError, Value};
use thiserror::Error;

use crate::failure::Failure;

/// Why there is no reply.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum Trouble {
    /// The server replied with this error.
    #[error("{0}")]
    Refused(String),
    /// The connection does not work, or the reply is not of the protocol.
    #[error("connection: {0}")]
    Broken(String),
}

impl Trouble {
    /// Returns whether the server does not know the command, or does not permit it to this user.
    pub(crate) fn lacks_command(&self) -> bool {
        matches!(self, Self::Refused(text)
            if text.to_ascii_lowercase().contains("unknown command") || text.starts_with("NOPERM"))
    }
}

impl From<Trouble> for Failure {
    fn from(trouble: Trouble) -> Self {
        Self::new(trouble)
    }
}

/// A connection after its handshake.
pub(crate) struct Connection {
    inner: redis::Connection,
    /// The next command; reused for its memory.
    buffer: Vec<u8>,
}

impl Connection {
    pub(super) const fn new(inner: redis::Connection) -> Self {
        Self { inner, buffer: Vec::new() }
    }

    /// Sends one command, whose reply is to be [received](Self::receive).
    pub(crate) fn send(&mut self, arguments: &[&[u8]]) -> Result<(), Trouble> {
        self.buffer.clear();
        self.buffer.extend_from_slice(format!("*{}\r\n", arguments.len()).as_bytes());
        for argument in arguments {
            self.buffer.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
            self.buffer.extend_from_slice(argument);
            self.buffer.extend_from_slice(b"\r\n");
        }
        self.inner.send_packed_command(&self.buffer).map_err(|error| Trouble::Broken(error.to_string()))
    }

    /// Returns the next reply.
    pub(crate) fn receive(&mut self) -> Result<Value, Trouble> {
        loop {
            match self.inner.recv_response() {
                Ok(Value::Push { .. }) => {}
                Ok(Value::ServerError(error)) => return Err(refused(&error.into())),
                Ok(Value::Attribute { data, .. }) => return Ok(*data),
                Ok(value) => return Ok(value),
                Err(error) => return Err(refused(&error)),
            }
        }
    }

    /// Sends one command and returns its reply.
    pub(crate) fn call(&mut self, arguments: &[&[u8]]) -> Result<Value, Trouble> {
        self.send(arguments)?;
        self.receive()
    }

    /// Executes commands in a transaction. Returns their replies, or the first error among them.
    pub(crate) fn transact(&mut self, commands: &[Vec<&[u8]>]) -> Result<Vec<Value>, Trouble> {
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
                .map(|reply| reply.extract_error().map_err(|error| refused(&error)))
                .collect(),
            _ => Err(Trouble::Refused("the transaction was not done".to_owned())),
        }
    }
}

/// Returns the text of an error of the server, or an error of the client.
fn refused(error: &RedisError) -> Trouble {
    match (error.code(), error.detail()) {
        (Some(code), Some(detail)) => Trouble::Refused(format!("{code} {detail}")),
        (Some(code), None) => Trouble::Refused(code.to_owned()),
        (None, _) => Trouble::Broken(error.to_string()),
    }
}

/// Returns an integer: the value, its text, or the only element of an array or a map.
pub(crate) fn integer(value: &Value) -> Option<u64> {
    match value {
        Value::Int(number) => u64::try_from(*number).ok(),
        Value::Boolean(flag) => Some((*flag).into()),
        Value::Array(values) => values.first().filter(|_| values.len() == 1).and_then(integer),
        Value::Map(pairs) => pairs.first().filter(|_| pairs.len() == 1).and_then(|(_, value)| integer(value)),
        _ => text(value)?.parse().ok(),
    }
}

/// Returns a number that may have a fraction.
pub(crate) fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Int(number) => Some(*number as f64),
        Value::Double(number) => Some(*number),
        _ => text(value)?.parse().ok(),
    }
}

/// Returns the text of a string of any kind.
pub(crate) fn text(value: &Value) -> Option<String> {
    match value {
        Value::BulkString(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => Some(text.clone()),
        Value::Okay => Some("OK".to_owned()),
        _ => None,
    }
}

/// Returns the value of a field in a map, or in an array of alternating names and values. Names differ in case from
/// server to server.
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
