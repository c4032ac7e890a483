//! Builds a filter under a temporary key, in the same slot as its final key. The filter is renamed when it is complete.
//!
//! If a load is interrupted or fails, the final key is unchanged. The temporary key is removed, or expires if the
//! process is killed.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use redis::Value;

use super::chunks::ChunkResult;
use super::failure::{Failure, check_interruption};
use super::output::shown;
use super::server::{CallError, Family, Router, Site, sibling, text};

/// Milliseconds after which a temporary key expires.
const EXPIRY_MS: &[u8] = b"600000";
/// Time after which the expiry of a temporary key is set again.
const KEEP_EVERY: Duration = Duration::from_secs(60);

/// The options that replace existing keys.
#[derive(Clone, Copy, Debug, clap::Args)]
#[group(skip)]
pub(crate) struct ReplaceArguments {
    /// Replace the filter that is under the key
    #[arg(long)]
    pub(crate) replace: bool,
    /// With --replace: replace a key of any type, such as a string, also by a filter without items
    #[arg(long, requires = "replace")]
    force: bool,
}

impl ReplaceArguments {
    /// Returns an error if the key exists and must not be replaced. `choices` are the options that the error names.
    pub(crate) fn check(self, router: &mut Router, key: &[u8], choices: &str) -> Result<(), Failure> {
        let data_type = text(&router.call(key, &[b"TYPE", key])?).unwrap_or_default();
        match data_type.as_str() {
            "none" => Ok(()),
            name if self.replace && (self.force || Family::of(name).is_some()) => Ok(()),
            name if self.replace => Err(Failure::new(format!(
                "the key is a {name}, not a filter: use --replace --force to replace it"
            ))),
            _ => Err(Failure::new(format!("the key already exists: use {choices}"))),
        }
    }

    /// Returns an error if there are no items, because the file may come from an export that failed. An empty filter is
    /// accepted with --force, or without --replace if the user has chosen a capacity (`has_capacity`).
    pub(crate) fn check_items(self, items: u64, has_capacity: bool) -> Result<(), Failure> {
        match (self.replace, has_capacity) {
            _ if items > 0 || self.force => Ok(()),
            (true, _) => Err(Failure::new(
                "there are no items to add: use --replace --force to replace the filter by an empty one",
            )),
            (false, true) => Ok(()),
            (false, false) => {
                Err(Failure::new("there are no items to add: give --capacity to create an empty filter"))
            }
        }
    }
}

/// A filter under construction.
pub(crate) struct Draft {
    site: Site,
    key: Vec<u8>,
    /// The temporary key.
    pub(crate) name: Vec<u8>,
    replacing: ReplaceArguments,
    /// When the expiry of the temporary key was last set.
    kept: Instant,
    /// Whether the temporary key exists.
    exists: bool,
}

impl Draft {
    /// Returns a draft for a key, or an error if the key exists and must not be replaced. `choices` are the options
    /// that the error names. Changes nothing on the server.
    pub(crate) fn new(
        router: &mut Router,
        key: &[u8],
        replacing: ReplaceArguments,
        choices: &str,
    ) -> Result<Self, Failure> {
        replacing.check(router, key, choices).map_err(|failure| failure.about(shown(key)))?;
        let mark = format!("everbloom:{:016x}", RandomState::new().hash_one(0));
        let (site, key, name) = (router.site.clone(), key.to_owned(), sibling(key, &mark));
        Ok(Self { site, key, name, replacing, kept: Instant::now(), exists: false })
    }

    /// Creates the filter under the temporary key with a command, and sets the expiry of that key.
    pub(crate) fn create(&mut self, router: &mut Router, command: Vec<&[u8]>) -> Result<(), CallError> {
        let name = self.name.clone();
        // Even if `transact` returns an error, the server may have executed the transaction.
        self.exists = true;
        router.transact(&name, &[command, vec![b"PEXPIRE", &name, EXPIRY_MS]])?;
        Ok(())
    }

    /// Creates the filter from chunks, the header first. Returns the bytes sent.
    pub(crate) fn fill(
        &mut self,
        router: &mut Router,
        chunks: impl Iterator<Item = ChunkResult>,
    ) -> Result<u64, Failure> {
        let name = self.name.clone();
        let mut sent_bytes = 0;
        for chunk in chunks {
            check_interruption()?;
            let (iterator, data) = chunk?;
            let iterator = iterator.to_string();
            let command: Vec<&[u8]> = vec![b"BF.LOADCHUNK", &name, iterator.as_bytes(), &data];
            if self.exists {
                router.call(&name, &command)?;
            } else {
                self.create(router, command).map_err(of_header)?;
            }
            sent_bytes += data.len() as u64;
            if self.is_to_be_kept() {
                self.keep(router)?;
            }
        }
        if self.exists { Ok(sent_bytes) } else { Err(Failure::new("the filter has no chunks")) }
    }

    /// Returns whether it is time to call [`Self::keep`], which must not be called while a reply is outstanding.
    pub(crate) fn is_to_be_kept(&self) -> bool {
        self.exists && self.kept.elapsed() >= KEEP_EVERY
    }

    /// Sets the expiry of the temporary key again.
    pub(crate) fn keep(&mut self, router: &mut Router) -> Result<(), Failure> {
        self.kept = Instant::now();
        match router.call(&self.name, &[b"PEXPIRE", &self.name, EXPIRY_MS])? {
            Value::Int(1) => Ok(()),
            _ => Err(Failure::new(
                "the temporary key of the load has expired, was evicted or was deleted: load again",
            )),
        }
    }

    /// Renames the temporary key to the final key, with an expiry in milliseconds or without one.
    pub(crate) fn publish(mut self, router: &mut Router, expiry_ms: Option<u64>) -> Result<(), Failure> {
        let expiry = expiry_ms.map(|ms| ms.to_string());
        let expire = match &expiry {
            Some(ms) => vec![b"PEXPIRE", self.name.as_slice(), ms.as_bytes()],
            None => vec![b"PERSIST", self.name.as_slice()],
        };
        let rename: &[u8] = if self.replacing.replace {
            // Another client may have replaced the filter since the check in `new`.
            let checked = self.replacing.check(router, &self.key, "--replace");
            checked.map_err(|failure| failure.about(shown(&self.key)))?;
            b"RENAME"
        } else {
            b"RENAMENX"
        };
        let renamed = router.transact(&self.name, &[expire, vec![rename, &self.name, &self.key]]);
        let replies = renamed.map_err(|error| self.failure_of_rename(error, router))?;
        if replies.last() == Some(&Value::Int(0)) {
            return Err(Failure::of(
                shown(&self.key),
                "another client created the key in the meantime: use another key, or --replace",
            ));
        }
        self.exists = false;
        Ok(())
    }

    /// Returns the failure of the transaction that renames the temporary key. If the connection broke, the server may have
    /// executed it: nothing has changed only if the temporary key is still there.
    fn failure_of_rename(&self, error: CallError, router: &mut Router) -> Failure {
        if !matches!(error, CallError::Broken(_)) {
            return error.into();
        }
        // Closes the connections in any case. If it cannot read the slots, the router uses the nodes that it knows.
        let _ = router.refresh();
        match router.call(&self.name, &[b"EXISTS", &self.name]) {
            Ok(Value::Int(1)) => error.into(),
            _ => Failure::partly(format!(
                "{error}; the filter may be complete under {}: compare its BF.CARD",
                shown(&self.key)
            )),
        }
    }
}

/// Returns the failure of the first chunk of a filter. RedisBloom looks for a filter under the key unless the iterator
/// is 1, which it is in RedisBloom's own format only.
fn of_header(error: CallError) -> Failure {
    match error {
        CallError::Refused(text) if text.trim_start_matches("ERR ").starts_with("not found") => {
            Failure::new(format!(
                "{text}; the server cannot read filters of the format everbloom: check with MODULE LIST that everbloom \
                 is loaded"
            ))
        }
        error => error.into(),
    }
}

impl Drop for Draft {
    /// Removes the temporary key. Uses a new connection, because replies may be outstanding on the existing ones.
    fn drop(&mut self) {
        if self.exists
            && let Ok(mut router) = Router::new(&self.site)
        {
            let _ = router.call(&self.name, &[b"UNLINK", &self.name]);
        }
    }
}

/// Renames all drafts of one filter to their final keys. If one rename fails, returns its failure and removes the
/// renamed filters, except those that replaced a key.
pub(crate) fn publish_all(
    drafts: Vec<Draft>,
    router: &mut Router,
    expiry_ms: Option<u64>,
) -> Result<(), Failure> {
    check_interruption()?;
    let mut published: Vec<Vec<u8>> = Vec::new();
    for draft in drafts {
        let (key, replaces) = (draft.key.clone(), draft.replacing.replace);
        let Err(failure) = draft.publish(router, expiry_ms) else {
            published.push(key);
            continue;
        };
        if replaces && !published.is_empty() {
            let number = published.len();
            let message =
                format!("{failure}; {number} partitions were replaced, the others were not: load again");
            return Err(Failure::partly(message));
        }
        return Err(match remove(&published, router) {
            Ok(()) => failure,
            Err(error) => {
                Failure::partly(format!("{failure}; the new partitions could not all be removed: {error}"))
            }
        });
    }
    Ok(())
}

/// Removes the filters under the keys, after a failure that may be one of the connections. Tries all of them, and
/// returns the first error.
fn remove(keys: &[Vec<u8>], router: &mut Router) -> Result<(), CallError> {
    if keys.is_empty() {
        return Ok(());
    }
    // Closes the connections in any case. If it cannot read the slots, the router uses the nodes that it knows.
    let _ = router.refresh();
    let removed = keys.iter().map(|key| router.call(key, &[b"UNLINK", key]).map(drop));
    removed.fold(Ok(()), Result::and)
}
