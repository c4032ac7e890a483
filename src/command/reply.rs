//! Replies of commands. The server writes them to the client; tests collect them.

/// The protocol version a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// RESP2: no booleans, no maps.
    Resp2,
    /// RESP3.
    Resp3,
}

/// A writer of replies. Aggregates are announced with their length and followed by that many replies.
pub trait Reply {
    /// Returns the protocol of the client; only for replies whose shape depends on it.
    fn protocol(&self) -> Protocol;
    /// `+text`.
    fn simple(&mut self, text: &'static str);
    /// `-text`; the text contains its code.
    fn error(&mut self, text: &str);
    /// `:number`.
    fn integer(&mut self, number: u64);
    /// `#t` or `#f`, in RESP2 `:1` or `:0`.
    fn boolean(&mut self, value: bool);
    /// `,number`, in RESP2 a bulk string of the shortest text that reads back as the same number.
    fn double(&mut self, number: f64);
    /// `_`, in RESP2 `$-1`.
    fn null(&mut self);
    /// `$length bytes`.
    fn bulk(&mut self, bytes: &[u8]);
    /// `*length`.
    fn array(&mut self, length: usize);
    /// `%pairs`, in RESP2 `*` of twice that number; keys and values follow alternately.
    fn map(&mut self, pairs: usize);
}
