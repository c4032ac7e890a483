//! Replies of commands. The server writes them to the client; tests collect them.

/// The protocol version of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// RESP2: no booleans, no maps.
    Resp2,
    /// RESP3.
    Resp3,
}

/// A writer of replies. The length of an aggregate comes first, followed by that many replies.
pub trait Reply {
    /// Returns the protocol of the client, for replies whose form depends on it.
    fn protocol(&self) -> Protocol;
    /// Writes `+text`.
    fn simple(&mut self, text: &'static str);
    /// Writes `-text`; the text contains its code.
    fn error(&mut self, text: &str);
    /// Writes `:number`.
    fn integer(&mut self, number: u64);
    /// Writes `#t` or `#f`; in RESP2 `:1` or `:0`.
    fn boolean(&mut self, value: bool);
    /// Writes `,number`; in RESP2 a bulk string of the shortest text that parses to the same number.
    fn double(&mut self, number: f64);
    /// Writes `_`; in RESP2 `$-1`.
    fn null(&mut self);
    /// Writes `$length bytes`.
    fn bulk(&mut self, bytes: &[u8]);
    /// Writes `*length`.
    fn array(&mut self, length: usize);
    /// Writes `%pairs`; in RESP2 `*` with twice that number. Keys and values follow alternately.
    fn map(&mut self, pairs: usize);
    /// Writes the error in place of every announced reply that is missing, so that the client stays in sync after a
    /// command that failed in the middle.
    fn error_for_the_rest(&mut self, text: &str);
}
