//! Two clients: one that parses replies (RESP2 or RESP3), and one that keeps their exact bytes.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use redis::Value;

/// Time limit for a reply. Exceeding it means that the server hangs.
const REPLY_TIMEOUT: Duration = Duration::from_secs(60);

/// A connection whose replies are values. An error reply is a value too.
pub(crate) struct Client {
    raw: Raw,
}

impl Client {
    pub(crate) fn connect(port: u16, resp3: bool) -> io::Result<Self> {
        Ok(Self { raw: Raw::connect(port, resp3)? })
    }

    /// Sends one command of binary arguments. Panics if the connection breaks.
    pub(crate) fn call<A: AsRef<[u8]>>(&mut self, args: &[A]) -> Value {
        self.try_call(args).unwrap_or_else(|error| {
            let shown: Vec<String> = args.iter().take(4).map(|arg| escaped(arg.as_ref(), 40)).collect();
            panic!("connection lost in {}: {error}", shown.join(" "))
        })
    }

    /// Sends one command and returns its reply, which may be an error reply. Fails only if the connection does.
    pub(crate) fn try_call<A: AsRef<[u8]>>(&mut self, args: &[A]) -> redis::RedisResult<Value> {
        self.raw.send(&packed(args))?;
        self.receive()
    }

    /// Returns the next reply. Skips push messages.
    fn receive(&mut self) -> redis::RedisResult<Value> {
        loop {
            match redis::parse_redis_value(&self.raw.receive()?)? {
                Value::Push { .. } => {}
                reply => return Ok(reply),
            }
        }
    }

    /// Sends a command of words without spaces and returns the reply as [`show`] does.
    pub(crate) fn say(&mut self, line: &str) -> String {
        let words: Vec<&str> = line.split_whitespace().collect();
        show(&self.call(&words))
    }

    /// As [`Self::say`], for arguments that are empty, binary or contain spaces.
    pub(crate) fn ask<A: AsRef<[u8]>>(&mut self, args: &[A]) -> String {
        show(&self.call(args))
    }

    /// Sends commands of words without spaces in one pipeline and waits for all replies, which it ignores.
    pub(crate) fn pipeline(&mut self, lines: &[&str]) {
        let packed: Vec<u8> =
            lines.iter().flat_map(|line| packed(&line.split_whitespace().collect::<Vec<_>>())).collect();
        self.raw.send(&packed).expect("send");
        lines.iter().for_each(|_| drop(self.receive().expect("reply")));
    }

    /// Sends a command that must return an integer.
    pub(crate) fn int(&mut self, line: &str) -> i64 {
        let words: Vec<&str> = line.split_whitespace().collect();
        match self.call(&words) {
            Value::Int(number) => number,
            other => panic!("{line}: expected an integer, got {}", show(&other)),
        }
    }

    /// Sends a command of words, followed by items, that must return an array.
    pub(crate) fn many<A: AsRef<[u8]>>(&mut self, line: &str, items: &[A]) -> Vec<Value> {
        let words: Vec<&[u8]> =
            line.split(' ').map(str::as_bytes).chain(items.iter().map(AsRef::as_ref)).collect();
        self.array(&words)
    }

    /// Sends a command as [`Self::many`] does. Returns how many of its replies are 1.
    pub(crate) fn ones<A: AsRef<[u8]>>(&mut self, line: &str, items: &[A]) -> usize {
        self.many(line, items).iter().filter(|reply| **reply == Value::Int(1)).count()
    }

    /// Returns a field of BF.INFO that is a number.
    pub(crate) fn field(&mut self, key: &str, name: &str) -> u64 {
        let reply = self.say(&format!("BF.INFO {key} {name}"));
        reply.trim_matches(['[', ']']).parse().unwrap_or_else(|_| panic!("{name} of {key}: {reply}"))
    }

    /// Sends a command that must return text or bytes.
    pub(crate) fn bytes<A: AsRef<[u8]>>(&mut self, args: &[A]) -> Vec<u8> {
        match self.call(args) {
            Value::BulkString(bytes) => bytes,
            Value::SimpleString(text) | Value::VerbatimString { text, .. } => text.into_bytes(),
            other => panic!("expected a string, got {}", show(&other)),
        }
    }

    /// Sends a command that must return an array.
    pub(crate) fn array<A: AsRef<[u8]>>(&mut self, args: &[A]) -> Vec<Value> {
        match self.call(args) {
            Value::Array(values) | Value::Set(values) => values,
            other => panic!("expected an array, got {}", show(&other)),
        }
    }

    /// Returns a field of INFO, from all of its sections.
    pub(crate) fn info(&mut self, field: &str) -> Option<String> {
        let text = String::from_utf8(self.bytes(&["INFO", "everything"])).unwrap();
        text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':').map(str::to_owned))
    }

    /// Returns a field of INFO that is a number.
    pub(crate) fn info_number(&mut self, field: &str) -> u64 {
        let value = self.info(field).unwrap_or_else(|| panic!("INFO has no field {field}"));
        value.parse().unwrap_or_else(|_| panic!("INFO {field}:{value} is no number"))
    }

    /// Returns the digest of a key's value. Panics if the digest is empty.
    pub(crate) fn digest(&mut self, key: &str) -> String {
        let digests = self.array(&["DEBUG", "DIGEST-VALUE", key]);
        let [digest] = digests.as_slice() else { panic!("one digest expected for {key}") };
        let digest = show(digest);
        assert!(digest.chars().any(|c| !"+\"0".contains(c)), "{key} has an empty digest: {digest}");
        digest
    }
}

/// A connection that returns the exact bytes of each reply. If this process is stopped and continued, the system
/// interrupts a read that has a time limit. `read_until` and `read_exact` retry such a read.
pub(crate) struct Raw {
    stream: BufReader<TcpStream>,
}

impl Raw {
    pub(crate) fn connect(port: u16, resp3: bool) -> io::Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(REPLY_TIMEOUT))?;
        stream.set_nodelay(true)?;
        let mut raw = Self::over(stream);
        if resp3 {
            raw.send(&packed(&["HELLO", "3"]))?;
            let reply = raw.receive()?;
            assert!(reply.starts_with(b"%"), "HELLO 3 refused: {}", escaped(&reply, 200));
        }
        Ok(raw)
    }

    /// Returns a connection over a stream.
    pub(crate) fn over(stream: TcpStream) -> Self {
        Self { stream: BufReader::new(stream) }
    }

    pub(crate) fn send(&mut self, request: &[u8]) -> io::Result<()> {
        self.stream.get_mut().write_all(request)
    }

    /// Returns the bytes of the next reply or push message.
    pub(crate) fn receive(&mut self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.read_value(&mut bytes)?;
        Ok(bytes)
    }

    /// Sends bytes as they are and returns the bytes of one reply.
    pub(crate) fn raw(&mut self, request: &[u8]) -> Vec<u8> {
        self.send(request).expect("send");
        self.next()
    }

    /// Sends a command of words and returns the exact reply, as text.
    pub(crate) fn say(&mut self, line: &str) -> String {
        let words: Vec<&str> = line.split_whitespace().collect();
        self.ask(&words)
    }

    /// As [`Self::say`] for arguments that are empty, binary or contain spaces.
    pub(crate) fn ask<A: AsRef<[u8]>>(&mut self, args: &[A]) -> String {
        String::from_utf8_lossy(&self.raw(&packed(args))).into_owned()
    }

    /// As [`Self::receive`]. Panics if the connection breaks.
    pub(crate) fn next(&mut self) -> Vec<u8> {
        self.receive().expect("reply")
    }

    fn read_value(&mut self, bytes: &mut Vec<u8>) -> io::Result<()> {
        let start = bytes.len();
        self.stream.read_until(b'\n', bytes)?;
        let Some(line) = bytes[start..].strip_suffix(b"\r\n") else {
            return Err(io::ErrorKind::UnexpectedEof.into());
        };
        let line = String::from_utf8_lossy(line).into_owned();
        let count = || line[1..].parse::<i64>().unwrap_or_else(|_| panic!("bad length in reply: {line}"));
        match bytes[start] {
            b'+' | b'-' | b':' | b'_' | b'#' | b',' | b'(' => Ok(()),
            b'$' | b'!' | b'=' => match usize::try_from(count()) {
                Ok(length) => {
                    let at = bytes.len();
                    bytes.resize(at + length + 2, 0);
                    self.stream.read_exact(&mut bytes[at..])
                }
                Err(_) => Ok(()),
            },
            b'*' | b'~' | b'>' => (0..count()).try_for_each(|_| self.read_value(bytes)),
            b'%' => (0..2 * count()).try_for_each(|_| self.read_value(bytes)),
            b'|' => (0..=2 * count()).try_for_each(|_| self.read_value(bytes)),
            other => panic!("unknown reply type {}", char::from(other)),
        }
    }
}

/// Returns a command in RESP, as a client sends it.
pub(crate) fn packed<A: AsRef<[u8]>>(args: &[A]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        let arg = arg.as_ref();
        bytes.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        bytes.extend_from_slice(arg);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// Returns a reply as one line: `7`, `"bulk"`, `+simple`, `-error text`, `nil`, `#t`, `[array]`, `{map: value}`.
pub(crate) fn show(value: &Value) -> String {
    let list = |values: &[Value]| values.iter().map(show).collect::<Vec<_>>().join(", ");
    match value {
        Value::Nil => "nil".to_owned(),
        Value::Int(number) => number.to_string(),
        Value::BulkString(bytes) => format!("\"{}\"", escaped(bytes, 4096)),
        Value::Array(values) => format!("[{}]", list(values)),
        Value::SimpleString(text) => format!("+{text}"),
        Value::Okay => "+OK".to_owned(),
        Value::Map(pairs) => {
            let pairs: Vec<String> =
                pairs.iter().map(|(key, value)| format!("{}: {}", show(key), show(value))).collect();
            format!("{{{}}}", pairs.join(", "))
        }
        Value::Set(values) => format!("~[{}]", list(values)),
        Value::Double(number) => format!(",{number}"),
        Value::Boolean(flag) => if *flag { "#t" } else { "#f" }.to_owned(),
        Value::VerbatimString { text, .. } => format!("={text}"),
        // The `redis` crate splits an error at its first space. Joining the parts restores the text.
        Value::ServerError(error) => match error.details() {
            Some(details) => format!("-{} {details}", error.code()),
            None => format!("-{}", error.code()),
        },
        other => format!("{other:?}"),
    }
}

/// Returns bytes as ASCII with escapes, truncated after `limit` bytes.
fn escaped(bytes: &[u8], limit: usize) -> String {
    let cut = &bytes[..bytes.len().min(limit)];
    let dots = if cut.len() < bytes.len() { "..." } else { "" };
    format!("{}{dots}", cut.escape_ascii())
}
