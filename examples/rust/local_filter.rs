//! Keeps a copy of a server's filter in this program. Lookups use the copy, or the server if there is no recent copy.

use std::error::Error;
use std::sync::{Arc, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use everbloom::{BloomFilter, ChunkError, Loader};
use redis::{Client, Connection, RedisResult, cmd};

/// A local copy of a filter. Its results are those of the server at a moment within the last `max_age`.
pub(crate) struct LocalFilter {
    key: String,
    max_age: Duration,
    copy: RwLock<Option<Copy>>,
}

struct Copy {
    filter: BloomFilter,
    /// The first chunk of BF.SCANDUMP. It holds the number that BF.CARD returns, and a dump id that changes with the
    /// filter. While the header is the same, the filter is the same.
    header: Vec<u8>,
    as_of: Instant,
}

impl LocalFilter {
    /// Returns a filter without a copy. Lookups go to the server until [`refresh`](Self::refresh) has loaded one.
    pub(crate) fn new(key: &str, max_age: Duration) -> Self {
        Self { key: key.to_owned(), max_age, copy: RwLock::new(None) }
    }

    /// Returns the result of the copy; `None` if there is no recent copy.
    pub(crate) fn check(&self, item: &[u8]) -> Option<bool> {
        let copy = self.copy.read().unwrap_or_else(PoisonError::into_inner);
        let fresh = copy.as_ref().filter(|copy| copy.as_of.elapsed() <= self.max_age)?;
        // A sliding-window filter uses the clock of this machine.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Some(fresh.filter.contains_at(item, now.as_millis().try_into().unwrap_or(u64::MAX)))
    }

    /// Returns whether the item may have been added, according to the copy or else the server.
    pub(crate) fn contains(&self, item: &[u8], server: &mut Connection) -> RedisResult<bool> {
        match self.check(item) {
            Some(is_there) => Ok(is_there),
            None => cmd("BF.EXISTS").arg(&self.key).arg(item).query(server),
        }
    }

    /// Loads the header, and the rest only if the header has changed. Returns whether it has changed. If the server
    /// does not reply, or has no filter that this program can read, the copy stays and becomes older.
    pub(crate) fn refresh(&self, server: &mut Connection) -> Result<bool, Box<dyn Error>> {
        let as_of = Instant::now();
        let (mut iterator, header) = self.chunk(0, server)?;
        if self.confirm(&header, as_of) {
            return Ok(false);
        }
        let mut loader = Loader::new(&header)?;
        loop {
            let (next, chunk) = self.chunk(iterator, server)?;
            match loader.load(next, &chunk) {
                // The copy is complete. In the format redisbloom, a layer that is newer than the header may follow.
                _ if next == 0 => break,
                Err(ChunkError::BeyondEnd) => break,
                outcome => outcome?,
            }
            iterator = next;
        }
        self.publish(Copy { filter: loader.finish()?, header, as_of });
        Ok(true)
    }

    fn chunk(&self, iterator: u64, server: &mut Connection) -> RedisResult<(u64, Vec<u8>)> {
        cmd("BF.SCANDUMP").arg(&self.key).arg(iterator).query(server)
    }

    /// Sets the time of the copy if the copy has this header. Returns whether it has.
    fn confirm(&self, header: &[u8], as_of: Instant) -> bool {
        let mut copy = self.copy.write().unwrap_or_else(PoisonError::into_inner);
        let same = copy.as_mut().filter(|copy| copy.header == header);
        same.map(|copy| copy.as_of = as_of).is_some()
    }

    /// Replaces the copy. Frees the old copy after releasing the lock, so that readers do not wait for it.
    fn publish(&self, copy: Copy) {
        let mut place = self.copy.write().unwrap_or_else(PoisonError::into_inner);
        let old = place.replace(copy);
        drop(place);
        drop(old);
    }
}

/// Refreshes the filter on a thread of its own, as long as another reference exists. `every` should be a fraction of
/// `max_age`.
pub(crate) fn keep(filter: &Arc<LocalFilter>, client: Client, every: Duration) -> JoinHandle<()> {
    let filter = Arc::downgrade(filter);
    std::thread::spawn(move || {
        let mut connection = None;
        while let Some(filter) = filter.upgrade() {
            connection = connection.or_else(|| {
                let connection = client.get_connection_with_timeout(every).ok()?;
                connection.set_read_timeout(Some(filter.max_age)).ok()?;
                Some(connection)
            });
            if let Some(server) = &mut connection
                && filter.refresh(server).is_err()
                && !redis::ConnectionLike::is_open(server)
            {
                connection = None;
            }
            drop(filter);
            std::thread::sleep(every);
        }
    })
}
