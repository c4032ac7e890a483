//! One connection to one server.

use std::fmt;

use redis::{RedisError, Value};

use crate::failure::Failure;

/// Why there is no reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The server says no, in these words.
    Refused(String),
    /// The connection does not work, or what came is no reply.
    Broken(String),
}

impl Trouble {
    /// Whether the server does not know the command, or does not let this user give it.
    pub(crate) fn lacks_command(&self) -> bool {
        matches!(self, Self::Refused(text)
            if text.to_ascii_lowercase().contains("unknown command") || text.starts_with("NOPERM"))
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(text) => f.write_str(text),
            Self::Broken(text) => write!(f, "connection: {text}"),
        }
    }
}

impl From<Trouble> for Failure {
    fn from(trouble: Trouble) -> Self {
        Self::new(trouble.to_string())
    }
}

/// A connection that was greeted and let in.
pub(crate) struct Connection {
    inner: redis::Connection,
    /// What is to be sent next, kept for its memory.
    buffer: Vec<u8>,
}

impl Connection {
    pub(super) const fn new(inner: redis::Connection) -> Self {
        Self { inner, buffer: Vec::new() }
    }

    /// Sends one command; its reply is to be [received](Self::receive).
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

    /// The next reply.
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

    /// One command and its reply.
    pub(crate) fn call(&mut self, arguments: &[&[u8]]) -> Result<Value, Trouble> {
        self.send(arguments)?;
        self.receive()
    }

    /// Commands that are done together or not at all, as far as the server checks them before; answers their
    /// replies, or the first error among them.
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

/// An error of the server in its words, any other as the client's.
fn refused(error: &RedisError) -> Trouble {
    match (error.code(), error.detail()) {
        (Some(code), Some(detail)) => Trouble::Refused(format!("{code} {detail}")),
        (Some(code), None) => Trouble::Refused(code.to_owned()),
        (None, _) => Trouble::Broken(error.to_string()),
    }
}
