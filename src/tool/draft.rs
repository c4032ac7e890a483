//! A filter in the making: under a name of its own beside the key, and under the key once it is whole.
//!
//! Whoever ends a load half-way, by Ctrl-C, by a lost connection or by killing the process, leaves nothing under the
//! key: an orderly end removes the draft, and after any other it expires by itself.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use redis::Value;

use super::failure::Failure;
use super::interrupt;
use super::output::shown;
use super::server::{Router, Site, sibling};

/// What becomes of a key that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Existing {
    /// It stays, and there is no draft.
    Refuse,
    /// The draft takes its place.
    Replace,
}

/// Milliseconds that a draft stays after its maker was heard of last.
const EXPIRY_MS: &[u8] = b"600000";
/// How often its maker says that it is still there.
const KEEP_EVERY: Duration = Duration::from_secs(60);

/// A filter that is not under its key yet.
pub(crate) struct Draft {
    site: Site,
    key: Vec<u8>,
    name: Vec<u8>,
    existing: Existing,
    kept: Instant,
    is_there: bool,
}

impl Draft {
    /// Prepares a draft for a key; nothing is on the server yet.
    pub(crate) fn new(router: &mut Router, key: &[u8], existing: Existing) -> Result<Self, Failure> {
        if existing == Existing::Refuse && router.call(key, &[b"EXISTS", key])? != Value::Int(0) {
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
            existing,
            kept: Instant::now(),
            is_there: false,
        })
    }

    /// Under which name it is made.
    pub(crate) fn name(&self) -> &[u8] {
        &self.name
    }

    /// Makes it by a command, together with its expiry.
    pub(crate) fn create(&mut self, router: &mut Router, command: Vec<&[u8]>) -> Result<(), Failure> {
        let name = self.name.clone();
        // From here on there may be something to remove, whatever comes of it.
        self.is_there = true;
        router.transact(&name, &[command, vec![b"PEXPIRE", &name, EXPIRY_MS]])?;
        Ok(())
    }

    /// Makes it of the pieces of a filter, the header first; `tell` is told how many bytes were sent so far.
    pub(crate) fn fill(
        &mut self,
        router: &mut Router,
        pieces: impl Iterator<Item = Result<(u64, Vec<u8>), Failure>>,
        mut tell: impl FnMut(u64),
    ) -> Result<(), Failure> {
        let name = self.name.clone();
        let mut sent_bytes = 0;
        for piece in pieces {
            interrupt::check()?;
            let (iterator, data) = piece?;
            let iterator = iterator.to_string();
            let command: Vec<&[u8]> = vec![b"BF.LOADCHUNK", &name, iterator.as_bytes(), &data];
            if self.is_there {
                router.call(&name, &command)?;
            } else {
                self.create(router, command)?;
            }
            sent_bytes += data.len() as u64;
            tell(sent_bytes);
            if self.is_to_be_kept() {
                self.keep(router)?;
            }
        }
        if self.is_there { Ok(()) } else { Err(Failure::new("the filter has no pieces")) }
    }

    /// Whether it is time to say that its maker is still there; to be called between any two steps, with no reply outstanding.
    pub(crate) fn is_to_be_kept(&self) -> bool {
        self.is_there && self.kept.elapsed() >= KEEP_EVERY
    }

    /// Puts off its expiry.
    pub(crate) fn keep(&mut self, router: &mut Router) -> Result<(), Failure> {
        self.kept = Instant::now();
        match router.call(&self.name, &[b"PEXPIRE", &self.name, EXPIRY_MS])? {
            Value::Int(1) => Ok(()),
            _ => {
                Err(Failure::new("the filter in the making is gone: it expired, was evicted, or was deleted"))
            }
        }
    }

    /// Puts it under its key, with an expiry in milliseconds or for ever.
    pub(crate) fn publish(mut self, router: &mut Router, expiry_ms: Option<u64>) -> Result<(), Failure> {
        let expiry = expiry_ms.map(|ms| ms.to_string());
        let expire = match &expiry {
            Some(ms) => vec![b"PEXPIRE", self.name.as_slice(), ms.as_bytes()],
            None => vec![b"PERSIST", self.name.as_slice()],
        };
        let rename: &[u8] = if self.existing == Existing::Replace { b"RENAME" } else { b"RENAMENX" };
        let replies = router.transact(&self.name, &[expire, vec![rename, &self.name, &self.key]])?;
        if replies.last() == Some(&Value::Int(0)) {
            return Err(Failure::of(shown(&self.key), "somebody made such a key meanwhile"));
        }
        self.is_there = false;
        Ok(())
    }
}

impl Drop for Draft {
    /// Removes it, over a connection of its own: replies may be outstanding on the other.
    fn drop(&mut self) {
        if self.is_there
            && let Ok(mut router) = Router::new(&self.site)
        {
            let _ = router.call(&self.name, &[b"UNLINK", &self.name]);
        }
    }
}

/// Puts all drafts of one filter under their keys. Where that fails half-way, what had no filter before has none again.
pub(crate) fn publish_all(
    drafts: Vec<Draft>,
    router: &mut Router,
    expiry_ms: Option<u64>,
) -> Result<(), Failure> {
    interrupt::check()?;
    let mut published: Vec<Vec<u8>> = Vec::new();
    for draft in drafts {
        let (key, existing) = (draft.key.clone(), draft.existing);
        let Err(failure) = draft.publish(router, expiry_ms) else {
            published.push(key);
            continue;
        };
        return Err(match existing {
            _ if published.is_empty() => failure,
            Existing::Refuse => {
                for key in &published {
                    router.call(key, &[b"UNLINK", key])?;
                }
                failure
            }
            Existing::Replace => {
                let number = published.len();
                Failure::partly(format!("{failure}; {number} partitions are new, the others as they were"))
            }
        });
    }
    Ok(())
}
