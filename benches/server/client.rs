//! Sends commands to a server in two ways: one at a time, or many in a pipeline whose replies are counted.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use super::failure::Failure;

/// One reply, in RESP2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    /// `+text` or `$bytes`.
    Bytes(Vec<u8>),
    /// `:number`.
    Integer(i64),
    /// `*values`.
    Array(Vec<Value>),
    /// A null.
    Null,
}

/// A connection for one command at a time.
pub(crate) struct Client {
    stream: BufReader<UnixStream>,
}

impl Client {
    /// Connects to the socket of a server.
    pub(crate) fn connect(socket: &Path) -> Result<Self, Failure> {
        Ok(Self { stream: BufReader::with_capacity(1 << 20, UnixStream::connect(socket)?) })
    }

    /// Returns the reply to a command. An error reply is a failure.
    pub(crate) fn call<A: AsRef<[u8]>>(&mut self, arguments: &[A]) -> Result<Value, Failure> {
        let mut request = Vec::new();
        encode(&mut request, arguments);
        self.stream.get_mut().write_all(&request)?;
        self.read()
    }

    /// Sends commands and reads one reply for each. An error reply is a failure.
    pub(crate) fn send(&mut self, requests: &Requests) -> Result<(), Failure> {
        self.stream.get_mut().write_all(&requests.bytes)?;
        (0..requests.replies).try_for_each(|_| self.read().map(drop))
    }

    /// Returns the reply to a command, given as words in one string.
    pub(crate) fn say(&mut self, line: &str) -> Result<Value, Failure> {
        let words: Vec<&str> = line.split_whitespace().collect();
        self.call(&words).map_err(|failure| format!("{line}: {failure}").into())
    }

    /// Returns the number that a command replies, given as words in one string.
    pub(crate) fn number(&mut self, line: &str) -> Result<u64, Failure> {
        match self.say(line)? {
            Value::Integer(number) => Ok(u64::try_from(number)?),
            other => Err(format!("{line}: {other:?} is no number").into()),
        }
    }

    /// Returns the text or bytes that a command replies.
    pub(crate) fn bytes<A: AsRef<[u8]>>(&mut self, arguments: &[A]) -> Result<Vec<u8>, Failure> {
        match self.call(arguments)? {
            Value::Bytes(bytes) => Ok(bytes),
            other => Err(format!("{other:?} is no string").into()),
        }
    }

    /// Returns the fields of a section of INFO.
    pub(crate) fn info(&mut self, section: &str) -> Result<Info, Failure> {
        Ok(Info(String::from_utf8(self.bytes(&["INFO", section])?)?))
    }

    fn line(&mut self) -> Result<String, Failure> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err("the server closed the connection".into());
        }
        Ok(line.trim_end_matches(['\r', '\n']).to_owned())
    }

    fn read(&mut self) -> Result<Value, Failure> {
        let line = self.line()?;
        let Some((kind, rest)) = line.split_at_checked(1) else { return Err("an empty reply".into()) };
        Ok(match kind {
            "+" => Value::Bytes(rest.as_bytes().to_vec()),
            ":" => Value::Integer(rest.parse()?),
            "$" if rest == "-1" => Value::Null,
            "$" => {
                let length: usize = rest.parse()?;
                let mut bytes = vec![0; length];
                self.stream.read_exact(&mut bytes)?;
                self.line()?;
                Value::Bytes(bytes)
            }
            "*" => {
                let length: usize = rest.parse()?;
                Value::Array((0..length).map(|_| self.read()).collect::<Result<_, _>>()?)
            }
            _ => return Err(line.into()),
        })
    }
}

/// The text of INFO.
pub(crate) struct Info(String);

impl Info {
    /// Returns a field's value.
    pub(crate) fn field(&self, name: &str) -> Result<&str, Failure> {
        self.0
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
            .ok_or_else(|| format!("INFO has no field {name}").into())
    }

    /// Returns a field that is a number.
    pub(crate) fn number(&self, name: &str) -> Result<u64, Failure> {
        Ok(self.field(name)?.parse()?)
    }

    /// Returns the value of a part `name=number` of a field.
    pub(crate) fn part(&self, field: &str, name: &str) -> Result<f64, Failure> {
        let value = self.field(field)?;
        let part = value.split(',').find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
        Ok(part.ok_or_else(|| format!("{field} has no {name}: {value}"))?.parse()?)
    }
}

/// Appends a command in the protocol's encoding.
pub(crate) fn encode<A: AsRef<[u8]>>(request: &mut Vec<u8>, arguments: &[A]) {
    encode_head(request, arguments.len());
    arguments.iter().for_each(|argument| encode_argument(request, argument.as_ref()));
}

/// Appends the start of a command with `arguments` arguments.
pub(crate) fn encode_head(request: &mut Vec<u8>, arguments: usize) {
    let mut head = String::new();
    // Writing to a string cannot fail.
    let _ = write!(head, "*{arguments}\r\n");
    request.extend_from_slice(head.as_bytes());
}

/// Appends one argument of a command.
pub(crate) fn encode_argument(request: &mut Vec<u8>, argument: &[u8]) {
    let mut head = String::new();
    // Writing to a string cannot fail.
    let _ = write!(head, "${}\r\n", argument.len());
    request.extend_from_slice(head.as_bytes());
    request.extend_from_slice(argument);
    request.extend_from_slice(b"\r\n");
}

/// Encoded requests. They are prepared before the measurement begins.
#[derive(Clone, Debug, Default)]
pub(crate) struct Requests {
    /// The encoded commands.
    pub(crate) bytes: Vec<u8>,
    /// Number of single replies. An array of ten elements counts as ten.
    pub(crate) replies: u64,
}

/// A count of replies.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Replies {
    /// The sum of all integers: the number of items that were new or found.
    pub(crate) sum: i64,
    /// Time from the first byte sent to the last byte received.
    pub(crate) elapsed: Duration,
}

/// Sends the requests in one pipeline and counts the replies. An error reply is a failure.
pub(crate) fn pipeline(socket: &Path, requests: &Requests) -> Result<Replies, Failure> {
    exchange(socket, requests, Counter::default())
}

/// Does the same as [`pipeline`] for commands that return a string of one character per item.
pub(crate) fn packed_pipeline(socket: &Path, requests: &Requests) -> Result<Replies, Failure> {
    exchange(socket, requests, Counter { is_packed: true, ..Counter::default() })
}

fn exchange(socket: &Path, requests: &Requests, mut counter: Counter) -> Result<Replies, Failure> {
    let mut reader = UnixStream::connect(socket)?;
    let mut writer = reader.try_clone()?;
    let start = Instant::now();
    std::thread::scope(|scope| -> Result<(), Failure> {
        let sender = scope.spawn(move || writer.write_all(&requests.bytes));
        let mut buffer = vec![0; 1 << 16];
        while counter.replies < requests.replies {
            let length = reader.read(&mut buffer)?;
            if length == 0 {
                return Err("the server closed the connection".into());
            }
            counter.take(buffer.get(..length).unwrap_or_default())?;
        }
        sender.join().map_err(|_| "the sender panicked")?.map_err(Failure::from)
    })?;
    let elapsed = start.elapsed();
    if counter.replies != requests.replies {
        return Err(format!("{} replies to {} lookups", counter.replies, requests.replies).into());
    }
    Ok(Replies { sum: counter.sum, elapsed })
}

/// Counts replies in a stream of RESP2 that arrives in parts of any size.
#[derive(Default)]
struct Counter {
    line: Vec<u8>,
    replies: u64,
    sum: i64,
    /// Whether every character of a string counts as a reply.
    is_packed: bool,
}

impl Counter {
    fn take(&mut self, mut bytes: &[u8]) -> Result<(), Failure> {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            let (line, rest) = bytes.split_at(end + 1);
            bytes = rest;
            if self.line.is_empty() {
                self.count(line)?;
            } else {
                let mut whole = std::mem::take(&mut self.line);
                whole.extend_from_slice(line);
                self.count(&whole)?;
            }
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    /// Counts one line: an integer, a status, a null, or the bytes of a string. Strings have no line ends here.
    fn count(&mut self, line: &[u8]) -> Result<(), Failure> {
        let text = line.trim_ascii_end();
        match text.split_first() {
            Some((b'-', _)) => return Err(String::from_utf8_lossy(text).into()),
            Some((b'*', _)) => return Ok(()),
            Some((b'$', length)) if length != b"-1" => return Ok(()),
            Some((b':', [digit @ (b'0' | b'1')])) => self.sum += i64::from(digit - b'0'),
            Some((b'0' | b'1' | b'!', _)) if self.is_packed => {
                self.replies += text.len() as u64;
                self.sum += i64::try_from(text.iter().filter(|reply| **reply == b'1').count())?;
                return Ok(());
            }
            Some((b':', digits)) => self.sum += std::str::from_utf8(digits)?.parse::<i64>()?,
            None if self.is_packed => return Ok(()),
            _ => {}
        }
        self.replies += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn replies_are_counted_in_a_stream_cut_anywhere() {
        use super::*;
        let stream = b":1\r\n*3\r\n:0\r\n:1\r\n:12\r\n+OK\r\n$-1\r\n$1\r\n1\r\n";
        for cut in 0..stream.len() {
            let mut counter = Counter::default();
            counter.take(&stream[..cut]).unwrap();
            counter.take(&stream[cut..]).unwrap();
            assert_eq!((counter.replies, counter.sum), (7, 14), "cut at {cut}");
        }
        let mut counter = Counter { is_packed: true, ..Counter::default() };
        counter.take(b"$4\r\n01!1\r\n$0\r\n\r\n$1\r\n0\r\n").unwrap();
        assert_eq!((counter.replies, counter.sum), (5, 2));
        assert!(Counter::default().take(b"-ERR no\r\n").is_err());
    }
}
