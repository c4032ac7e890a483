//! One filter from one server to another.

use everbloom::BloomFilter;
use redis::Value;

use crate::draft::{self, Draft};
use crate::failure::Failure;
use crate::fetching;
use crate::interrupt;
use crate::server::{Connection, Router, Site, Trouble, integer};

/// Filters larger than this go in pieces: a server may refuse so long an argument, and takes the time for one.
const DUMP_MAX_BYTES: u64 = 64 << 20;

/// What is done with keys that are on the other side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Existing {
    /// They are troubles.
    Refuse,
    /// They stay.
    Leave,
    /// They are overwritten.
    Replace,
}

/// How a filter came to the other side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// By DUMP and RESTORE.
    Dump,
    /// By BF.SCANDUMP and BF.LOADCHUNK, or what a DUMP holds by BF.LOADCHUNK.
    Pieces,
    /// It was there.
    There,
    /// It is not on this side any more.
    Gone,
}

/// How much was copied, and how.
pub(super) struct Copied {
    pub(super) way: Way,
    pub(super) bytes: u64,
}

/// Two servers.
pub(super) struct Copier {
    pub(super) from: Router,
    pub(super) to: Router,
    existing: Existing,
}

impl Copier {
    pub(super) fn new(from: &Site, to: &Site, existing: Existing) -> Result<Self, Failure> {
        Ok(Self { from: Router::new(from)?, to: Router::new(to)?, existing })
    }

    /// Copies a filter; once more from the start where a connection broke or its slot moved.
    pub(super) fn copy(&mut self, key: &[u8]) -> Result<Copied, Failure> {
        let copied = self.try_copy(key);
        let Err(failure) = &copied else { return copied };
        let text = failure.to_string();
        if !(text.starts_with("connection: ") || text.starts_with("MOVED ") || text.starts_with("ASK ")) {
            return copied;
        }
        self.from.refresh()?;
        self.to.refresh()?;
        self.try_copy(key)
    }

    fn try_copy(&mut self, key: &[u8]) -> Result<Copied, Failure> {
        interrupt::check()?;
        let nothing = |way| Ok(Copied { way, bytes: 0 });
        let is_there = self.to.connection_for(key)?.call(&[b"EXISTS", key])? != Value::Int(0);
        match self.existing {
            Existing::Leave if is_there => return nothing(Way::There),
            Existing::Refuse if is_there => {
                return Err(Failure::new("is on the other side already: --resume or --replace"));
            }
            _ => {}
        }
        let from = self.from.connection_for(key)?;
        let Some(expiry_ms) = expiry_ms(from, key)? else { return nothing(Way::Gone) };
        let size_bytes = from.call(&[b"MEMORY", b"USAGE", key]).ok().as_ref().and_then(integer);
        let is_small = size_bytes.is_none_or(|bytes| bytes <= DUMP_MAX_BYTES);
        let mut refused = None;
        if is_small {
            match from.call(&[b"DUMP", key])? {
                Value::BulkString(payload) => match self.restore(key, expiry_ms, &payload) {
                    Ok(()) => return Ok(Copied { way: Way::Dump, bytes: payload.len() as u64 }),
                    Err(trouble @ Trouble::Broken(_)) => return Err(trouble.into()),
                    Err(Trouble::Refused(text)) if text.starts_with("BUSYKEY") => {
                        return Err(Failure::new(text));
                    }
                    Err(trouble) => refused = Some((trouble, payload)),
                },
                _ => return nothing(Way::Gone),
            }
        }
        let by_pieces = self.in_pieces(key);
        match (by_pieces, refused) {
            (Ok(copied), _) => Ok(copied),
            // Where a server has no pieces to give, its dump may still be read here.
            (Err(failure), Some((trouble, payload))) => match fetching::of_dump(&payload) {
                Some(filter) => self.send(key, filter),
                None => Err(Failure::new(format!("{trouble}; in pieces: {failure}"))),
            },
            (Err(failure), None) => Err(failure),
        }
    }

    fn restore(&mut self, key: &[u8], expiry_ms: u64, payload: &[u8]) -> Result<(), Trouble> {
        let expiry = expiry_ms.to_string();
        let mut command: Vec<&[u8]> = vec![b"RESTORE", key, expiry.as_bytes(), payload];
        if self.existing == Existing::Replace {
            command.push(b"REPLACE");
        }
        let to = self.to.connection_for(key).map_err(|failure| Trouble::Broken(failure.to_string()))?;
        to.call(&command).map(drop)
    }

    fn in_pieces(&mut self, key: &[u8]) -> Result<Copied, Failure> {
        let from = self.from.connection_for(key)?;
        let pieces = fetching::Pieces::new(from, key);
        let (bytes, draft) = draft(&mut self.to, key, self.existing, pieces)?;
        self.publish(key, draft, bytes)
    }

    fn send(&mut self, key: &[u8], mut filter: BloomFilter) -> Result<Copied, Failure> {
        let pieces = filter.pieces().map(|piece| piece.map_err(|error| Failure::new(error.to_string())));
        let (bytes, draft) = draft(&mut self.to, key, self.existing, pieces)?;
        self.publish(key, draft, bytes)
    }

    fn publish(&mut self, key: &[u8], draft: Draft, bytes: u64) -> Result<Copied, Failure> {
        // What is left of its time at the end, not at the start.
        let expiry = expiry_ms(self.from.connection_for(key)?, key)?;
        let Some(expiry_ms) = expiry else { return Ok(Copied { way: Way::Gone, bytes: 0 }) };
        draft.publish(&mut self.to, Some(expiry_ms).filter(|ms| *ms > 0))?;
        Ok(Copied { way: Way::Pieces, bytes })
    }
}

fn draft(
    to: &mut Router,
    key: &[u8],
    existing: Existing,
    pieces: impl Iterator<Item = Result<(u64, Vec<u8>), Failure>>,
) -> Result<(u64, Draft), Failure> {
    let replace = existing == Existing::Replace;
    let existing = if replace { draft::Existing::Replace } else { draft::Existing::Refuse };
    let mut draft = Draft::new(to, key, existing)?;
    let mut bytes = 0;
    draft.fill(to, pieces, |sent| bytes = sent)?;
    Ok((bytes, draft))
}

/// Milliseconds that the key has left, 0 for one that stays; nothing where there is none.
fn expiry_ms(connection: &mut Connection, key: &[u8]) -> Result<Option<u64>, Failure> {
    match connection.call(&[b"PTTL", key])? {
        Value::Int(-2) => Ok(None),
        // Less than a millisecond is one: 0 would stand for ever.
        Value::Int(ms) if ms >= 0 => Ok(u64::try_from(ms).ok().map(|ms| ms.max(1))),
        _ => Ok(Some(0)),
    }
}
