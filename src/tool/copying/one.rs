//! Copies one filter from one server to another.

use redis::Value;

use crate::chunks::{ChunkResult, check_complete, chunks, dump, of_dump};
use crate::draft::{Draft, ReplaceArguments};
use crate::failure::{Failure, FailureKind, check_interruption};
use crate::options::MILLISECONDS_MAX;
use crate::server::{CallError, Connection, Family, Router, integer};

/// The largest filter that is copied by DUMP. Servers refuse very long arguments, and block while they read long ones.
const DUMP_MAX_BYTES: u64 = 64 << 20;

/// The options that the error about an existing key names.
const CHOICES: &str = "--replace, or --resume to skip it";

/// How a filter was copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// By DUMP and RESTORE.
    Dump,
    /// By BF.LOADCHUNK, from BF.SCANDUMP or from a DUMP that the target refused.
    Chunks,
    /// The key was on the target already.
    Present,
    /// The filter no longer exists on the source.
    Vanished,
}

/// How much was copied, and how.
pub(super) struct Copied {
    pub(super) way: Way,
    pub(super) bytes: u64,
}

/// Copies filters between two servers.
pub(super) struct Copier {
    pub(super) from: Router,
    pub(super) to: Router,
    /// Whether keys that exist on the target are skipped.
    pub(super) resumes: bool,
    pub(super) replacing: ReplaceArguments,
}

impl Copier {
    /// Copies a filter. Repeats the copy once if a connection failed or the slot has moved. A cuckoo filter is not copied
    /// in chunks.
    pub(super) fn copy(&mut self, key: &[u8], family: Family) -> Result<Copied, Failure> {
        let copied = self.try_copy(key, family);
        let Err(failure) = &copied else { return copied };
        let text = failure.to_string();
        // If the filter may be complete, a repetition would find it there.
        let is_done = failure.kind == FailureKind::Partly;
        if is_done
            || !(text.starts_with("connection: ") || text.starts_with("MOVED ") || text.starts_with("ASK "))
        {
            return copied;
        }
        self.from.refresh()?;
        self.to.refresh()?;
        self.try_copy(key, family)
    }

    fn try_copy(&mut self, key: &[u8], family: Family) -> Result<Copied, Failure> {
        check_interruption()?;
        let nothing = |way| Ok(Copied { way, bytes: 0 });
        check_complete(self.from.connection_for(key)?, key)?;
        if self.resumes {
            if self.to.call(key, &[b"EXISTS", key])? != Value::Int(0) {
                check_complete(self.to.connection_for(key)?, key)?;
                return nothing(Way::Present);
            }
        } else {
            self.replacing.check(&mut self.to, key, CHOICES)?;
        }
        let from = self.from.connection_for(key)?;
        let Some(expiry_ms) = ttl_ms(from, key)? else { return nothing(Way::Vanished) };
        let size_bytes = from.call(&[b"MEMORY", b"USAGE", key]).ok().as_ref().and_then(integer);
        let is_cuckoo = family == Family::Cuckoo;
        let is_small = is_cuckoo || size_bytes.is_none_or(|bytes| bytes <= DUMP_MAX_BYTES);
        let mut refused = None;
        if is_small {
            match from.call(&[b"DUMP", key])? {
                Value::BulkString(payload) => match self.restore(key, expiry_ms, &payload) {
                    Ok(()) => return Ok(Copied { way: Way::Dump, bytes: payload.len() as u64 }),
                    Err(error @ CallError::Broken(_)) => return Err(self.failure_of_restore(error, key)),
                    Err(error @ CallError::Unrouted(_)) => return Err(error.into()),
                    Err(CallError::Refused(text)) if text.starts_with("BUSYKEY") => {
                        return Err(Failure::new(text));
                    }
                    Err(error) if is_cuckoo => return Err(Failure::new(format!("RESTORE failed: {error}"))),
                    Err(error) => refused = Some((error, payload)),
                },
                _ => return nothing(Way::Vanished),
            }
        }
        let from = self.from.connection_for(key)?;
        let drafted = draft(&mut self.to, key, self.replacing, dump(from, key));
        let (bytes, draft) = match (drafted, refused) {
            // The source may lack BF.SCANDUMP, so the tool makes the chunks from the reply of DUMP.
            (Err(failure), Some((error, payload))) => {
                let failed =
                    || Failure::new(format!("RESTORE failed: {error}; BF.LOADCHUNK failed: {failure}"));
                let mut filter = of_dump(&payload).ok_or_else(failed)?;
                draft(&mut self.to, key, self.replacing, chunks(&mut filter))?
            }
            (drafted, _) => drafted?,
        };
        // The time to live is read again, because sending the chunks took time.
        let Some(expiry_ms) = ttl_ms(self.from.connection_for(key)?, key)? else {
            return nothing(Way::Vanished);
        };
        draft.publish(&mut self.to, Some(expiry_ms).filter(|ms| *ms > 0))?;
        Ok(Copied { way: Way::Chunks, bytes })
    }

    /// Returns the failure of a RESTORE without a reply, which the server may have executed. A copy that may replace the key or
    /// leave it can be repeated in any case.
    fn failure_of_restore(&mut self, error: CallError, key: &[u8]) -> Failure {
        if self.replacing.replace || self.resumes {
            return error.into();
        }
        // Closes the connections in any case. If it cannot read the slots, the router uses the nodes that it knows.
        let _ = self.to.refresh();
        match self.to.call(key, &[b"EXISTS", key]) {
            Ok(Value::Int(0)) => error.into(),
            _ => Failure::partly(format!(
                "{error}; the filter may be complete: repeat with --replace or --resume"
            )),
        }
    }

    fn restore(&mut self, key: &[u8], expiry_ms: u64, payload: &[u8]) -> Result<(), CallError> {
        let expiry = expiry_ms.to_string();
        let mut command: Vec<&[u8]> = vec![b"RESTORE", key, expiry.as_bytes(), payload];
        if self.replacing.replace {
            command.push(b"REPLACE");
        }
        self.to.call(key, &command).map(drop)
    }
}

/// Sends chunks to a draft on the target. Returns the bytes sent and the draft.
fn draft(
    to: &mut Router,
    key: &[u8],
    replacing: ReplaceArguments,
    chunks: impl Iterator<Item = ChunkResult>,
) -> Result<(u64, Draft), Failure> {
    let mut draft = Draft::new(to, key, replacing, CHOICES)?;
    Ok((draft.fill(to, chunks)?, draft))
}

/// Returns the time to live of a key in milliseconds, 0 without one; `None` if the key does not exist.
fn ttl_ms(connection: &mut Connection, key: &[u8]) -> Result<Option<u64>, Failure> {
    match connection.call(&[b"PTTL", key])? {
        Value::Int(-2) => Ok(None),
        // Less than a millisecond counts as one, since 0 means no time to live. The longest times are shortened, because a server
        // whose clock is ahead would refuse them.
        Value::Int(ms) if ms >= 0 => Ok(u64::try_from(ms).ok().map(|ms| ms.clamp(1, MILLISECONDS_MAX))),
        _ => Ok(Some(0)),
    }
}
