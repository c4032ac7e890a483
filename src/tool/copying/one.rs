//! Copies one filter from one server to another.

use redis::Value;

use crate::chunks::{Chunk, chunks, dump, of_dump};
use crate::draft::Draft;
use crate::failure::{Failure, check_interruption};
use crate::server::{Connection, Router, Site, Trouble, integer};

/// Filters larger than this are copied in chunks: a server may refuse a longer argument, and is blocked while it reads
/// it.
const DUMP_MAX_BYTES: u64 = 64 << 20;

/// What is done with keys that exist on the other side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Existing {
    /// They are errors.
    Refuse,
    /// They stay.
    Leave,
    /// They are overwritten.
    Replace,
}

/// How a filter was copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// By DUMP and RESTORE.
    Dump,
    /// By BF.LOADCHUNK, from BF.SCANDUMP or from a DUMP that the other side refused.
    Chunks,
    /// It was on the other side before.
    There,
    /// It is no longer on this side.
    Gone,
}

/// How much was copied, and how.
pub(super) struct Copied {
    pub(super) way: Way,
    pub(super) bytes: u64,
}

/// The two servers.
pub(super) struct Copier {
    pub(super) from: Router,
    pub(super) to: Router,
    existing: Existing,
}

impl Copier {
    pub(super) fn new(from: &Site, to: &Site, existing: Existing) -> Result<Self, Failure> {
        Ok(Self { from: Router::new(from)?, to: Router::new(to)?, existing })
    }

    /// Copies a filter, and again from the start if a connection broke or its slot moved.
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
        check_interruption()?;
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
        let Some(expiry_ms) = ttl_ms(from, key)? else { return nothing(Way::Gone) };
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
        let from = self.from.connection_for(key)?;
        let drafted = draft(&mut self.to, key, self.existing, dump(from, key));
        let (bytes, draft) = match (drafted, refused) {
            (Ok(drafted), _) => drafted,
            // The tool may read the dump of a server that has no chunks.
            (Err(failure), Some((trouble, payload))) => match of_dump(&payload) {
                Some(mut filter) => draft(&mut self.to, key, self.existing, chunks(&mut filter))?,
                None => return Err(Failure::new(format!("{trouble}; in pieces: {failure}"))),
            },
            (Err(failure), None) => return Err(failure),
        };
        // The time to live is read at the end.
        let Some(expiry_ms) = ttl_ms(self.from.connection_for(key)?, key)? else {
            return nothing(Way::Gone);
        };
        draft.publish(&mut self.to, Some(expiry_ms).filter(|ms| *ms > 0))?;
        Ok(Copied { way: Way::Chunks, bytes })
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
}

/// Makes a draft on the other side from chunks. Returns the bytes sent, too.
fn draft(
    to: &mut Router,
    key: &[u8],
    existing: Existing,
    chunks: impl Iterator<Item = Chunk>,
) -> Result<(u64, Draft), Failure> {
    let mut draft = Draft::new(to, key, existing == Existing::Replace)?;
    let mut bytes = 0;
    draft.fill(to, chunks, |sent| bytes = sent)?;
    Ok((bytes, draft))
}

/// Returns the milliseconds to live of a key, 0 without an expiry; `None` if there is no key.
fn ttl_ms(connection: &mut Connection, key: &[u8]) -> Result<Option<u64>, Failure> {
    match connection.call(&[b"PTTL", key])? {
        Value::Int(-2) => Ok(None),
        // Less than a millisecond counts as one: 0 means no expiry.
        Value::Int(ms) if ms >= 0 => Ok(u64::try_from(ms).ok().map(|ms| ms.max(1))),
        _ => Ok(Some(0)),
    }
}
