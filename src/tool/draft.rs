//! A filter that is being made: under a temporary name in the slot of the key, and renamed to the key when it is whole.
//!
//! A load that ends half-way, by Ctrl-C, by a lost connection or because the process is killed, leaves nothing under
//! the key: an orderly end removes the draft, and after any other it expires.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use redis::Value;

use super::chunks::Chunk;
use super::failure::{Failure, check_interruption};
use super::output::shown;
use super::server::{Router, Site, sibling};

/// Milliseconds after which a draft expires.
const EXPIRY_MS: &[u8] = b"600000";
/// How often the expiry is set again.
const KEEP_EVERY: Duration = Duration::from_secs(60);

/// A filter that is not under its key yet.
pub(crate) struct Draft {
    site: Site,
    key: Vec<u8>,
    name: Vec<u8>,
    /// Whether it replaces an existing key.
    replaces: bool,
    kept: Instant,
    is_there: bool,
}

impl Draft {
    /// Returns a draft for a key. Nothing is on the server yet.
    pub(crate) fn new(router: &mut Router, key: &[u8], replaces: bool) -> Result<Self, Failure> {
        if !replaces && router.call(key, &[b"EXISTS", key])? != Value::Int(0) {
            return Err(Failure::of(
                shown(key),
                "there is such a key; --replace puts a new filter in its place",
            ));
        }
        let mark = format!("everbloom:{:016x}", RandomState::new().hash_one(0));
        let name = sibling(key, &mark);
        Ok(Self {
            site: router.site().clone(),
            key: key.to_owned(),
            name,
            replaces,
            kept: Instant::now(),
            is_there: false,
        })
    }

    /// Returns its temporary name.
    pub(crate) fn name(&self) -> &[u8] {
        &self.name
    }

    /// Makes it by a command, with its expiry.
    pub(crate) fn create(&mut self, router: &mut Router, command: Vec<&[u8]>) -> Result<(), Failure> {
        let name = self.name.clone();
        // Even if the transaction fails, there may now be a draft to remove.
        self.is_there = true;
        router.transact(&name, &[command, vec![b"PEXPIRE", &name, EXPIRY_MS]])?;
        Ok(())
    }

    /// Makes it from chunks, the header first. Calls `progress` with the bytes sent so far.
    pub(crate) fn fill(
        &mut self,
        router: &mut Router,
        chunks: impl Iterator<Item = Chunk>,
        mut progress: impl FnMut(u64),
    ) -> Result<(), Failure> {
        let name = self.name.clone();
        let mut sent_bytes = 0;
        for chunk in chunks {
            check_interruption()?;
            let (iterator, data) = chunk?;
            let iterator = iterator.to_string();
            let command: Vec<&[u8]> = vec![b"BF.LOADCHUNK", &name, iterator.as_bytes(), &data];
            if self.is_there {
                router.call(&name, &command)?;
            } else {
                self.create(router, command)?;
            }
            sent_bytes += data.len() as u64;
            progress(sent_bytes);
            if self.is_to_be_kept() {
                self.keep(router)?;
            }
        }
        if self.is_there { Ok(()) } else { Err(Failure::new("the filter has no pieces")) }
    }

    /// Returns whether it is time to set the expiry again, with [`Self::keep`], while no reply is outstanding.
    pub(crate) fn is_to_be_kept(&self) -> bool {
        self.is_there && self.kept.elapsed() >= KEEP_EVERY
    }

    /// Sets its expiry again.
    pub(crate) fn keep(&mut self, router: &mut Router) -> Result<(), Failure> {
        self.kept = Instant::now();
        match router.call(&self.name, &[b"PEXPIRE", &self.name, EXPIRY_MS])? {
            Value::Int(1) => Ok(()),
            _ => {
                Err(Failure::new("the filter in the making is gone: it expired, was evicted, or was deleted"))
            }
        }
    }

    /// Renames it to its key, with an expiry in milliseconds or none.
    pub(crate) fn publish(mut self, router: &mut Router, expiry_ms: Option<u64>) -> Result<(), Failure> {
        let expiry = expiry_ms.map(|ms| ms.to_string());
        let expire = match &expiry {
            Some(ms) => vec![b"PEXPIRE", self.name.as_slice(), ms.as_bytes()],
            None => vec![b"PERSIST", self.name.as_slice()],
        };
        let rename: &[u8] = if self.replaces { b"RENAME" } else { b"RENAMENX" };
        let replies = router.transact(&self.name, &[expire, vec![rename, &self.name, &self.key]])?;
        if replies.last() == Some(&Value::Int(0)) {
            return Err(Failure::of(shown(&self.key), "somebody made such a key meanwhile"));
        }
        self.is_there = false;
        Ok(())
    }
}

impl Drop for Draft {
    /// Removes it over a new connection: replies may be outstanding on the other.
    fn drop(&mut self) {
        if self.is_there
            && let Ok(mut router) = Router::new(&self.site)
        {
            let _ = router.call(&self.name, &[b"UNLINK", &self.name]);
        }
    }
}

/// Renames all drafts of one filter to their keys. If that fails half-way, keys that did not exist before are removed
/// again.
pub(crate) fn publish_all(
    drafts: Vec<Draft>,
    router: &mut Router,
    expiry_ms: Option<u64>,
) -> Result<(), Failure> {
    check_interruption()?;
    let mut published: Vec<Vec<u8>> = Vec::new();
    for draft in drafts {
        let (key, replaces) = (draft.key.clone(), draft.replaces);
        let Err(failure) = draft.publish(router, expiry_ms) else {
            published.push(key);
            continue;
        };
        if replaces && !published.is_empty() {
            let number = published.len();
            let message = format!("{failure}; {number} partitions are new, the others as they were");
            return Err(Failure::partly(message));
        }
        for key in &published {
            router.call(key, &[b"UNLINK", key])?;
        }
        return Err(failure);
    }
    Ok(())
}
