//! A copy of a filter that threads look up while another one follows the server, without I/O: [`Follower`], the copy that
//! it has loaded, and what is known about its age.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

use crate::clock::{Stopwatch, TICK_MS};
use crate::follower::{CommandReply, FilterCopy, FollowError, FollowProgress, Follower};
use crate::{BloomFilter, Options};

/// The time of a copy that never was up to date.
const NEVER: u64 = u64::MAX;
/// The difference to a clock that was not read.
const UNKNOWN: i64 = i64::MAX;
/// The most bytes of records that are applied while lookups wait: 1024 records, some 0.1 ms.
const STEP_BYTES: usize = 17 << 10;
/// The error rate of a filter of the program's own items.
const OWN_ERROR_RATE: f64 = 1e-6;

/// What a reply has brought to a [`NearCopy`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NearProgress {
    /// A part of a load or of the changes. The next command can be sent at once.
    Part,
    /// A whole filter. The next command can be sent at once.
    Loaded,
    /// The copy is up to date, or there is no filter.
    Current,
    /// The server does not know any more what has changed. The next command begins a load.
    Lost,
    /// The filter has changed, and the server does not keep its changes. The next command begins a load.
    Changed,
}

/// The result of a lookup in a [`NearCopy`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NearLookup<T> {
    /// The copy has this result.
    Copy(T),
    /// There is no filter.
    Missing,
    /// There is no copy that is recent enough.
    Stale,
}

enum Known {
    /// Nothing is known yet.
    Nothing,
    /// There is no filter.
    Missing,
    /// There was no filter, and the program has added these items since.
    Own(BloomFilter),
    Copy(FilterCopy),
}

impl Known {
    /// Returns what is known after the program has added the first item where there was no filter.
    fn own(item: &[u8]) -> Self {
        let options = Options { error_rate: OWN_ERROR_RATE, ..Options::unreserved() };
        let filter = BloomFilter::new(options).ok();
        let filter = filter.and_then(|mut filter| filter.add(item).is_ok().then_some(filter));
        // Without memory nothing is known, so lookups ask the server.
        filter.map_or(Self::Nothing, Self::Own)
    }
}

struct CopyState {
    /// What lookups use.
    known: Known,
    /// A loaded copy that takes the place of `known` when it has all changes up to a time after its load. Items that the
    /// program adds are added to both, so that lookups find them without a gap.
    next: Option<FilterCopy>,
    /// The items that the program has added since the refresh under way began; `None` between refreshes. The refresh may
    /// lack them, so they are added to what it brings. Their memory follows from what the program adds in that time.
    own: Option<Vec<Vec<u8>>>,
}

/// The commands of the follower, and their times in milliseconds since the start.
struct Following {
    follower: Follower,
    asked_ms: u64,
    load_began_ms: u64,
}

/// A copy of a server's filter that several threads may look up while one of them follows the server:
///
/// 1. It sends [`command`](Self::command), and passes the reply to [`take`](Self::take).
/// 2. If that was more than a part and the filter [`needs_time`](Self::needs_time), it sends TIME, and passes the time to
///    [`set_server_time`](Self::set_server_time).
/// 3. It waits as the [`NearProgress`] says, and sends the next command.
pub struct NearCopy {
    watch: Stopwatch,
    state: RwLock<CopyState>,
    /// When the state was that of the server, in milliseconds since `start`; [`NEVER`] if it never was.
    as_of_ms: AtomicU64,
    /// By how many milliseconds the server's clock is ahead of `watch`, or [`UNKNOWN`]. The clock of this machine is not
    /// used, because it can be set: an item that was added at a later time would make the others expire.
    ahead_ms: AtomicI64,
    following: Mutex<Following>,
}

impl std::fmt::Debug for NearCopy {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("NearCopy").field("as_of_ms", &self.as_of_ms).finish_non_exhaustive()
    }
}

impl NearCopy {
    /// Returns a copy of the filter under `key`, of which nothing is known yet.
    #[must_use]
    pub fn new(key: impl Into<Vec<u8>>) -> Self {
        let following = Following { follower: Follower::new(key), asked_ms: 0, load_began_ms: 0 };
        Self {
            watch: Stopwatch::new(),
            state: RwLock::new(CopyState { known: Known::Nothing, next: None, own: None }),
            as_of_ms: AtomicU64::new(NEVER),
            ahead_ms: AtomicI64::new(UNKNOWN),
            following: Mutex::new(following),
        }
    }

    /// Returns the next command for the server, which is sent now.
    #[must_use]
    pub fn command(&self) -> Vec<Vec<u8>> {
        let mut following = lock(&self.following);
        let command = following.follower.command();
        following.asked_ms = self.watch.elapsed_ms();
        // A load begins with a command without a position.
        if command.len() == 2 {
            following.load_began_ms = following.asked_ms;
        }
        // The later commands of a load belong to the refresh that began with it.
        if command.len() == 2 || !following.follower.is_loading() {
            self.change_state(|state| state.own = Some(Vec::new()));
        }
        command
    }

    /// Takes the reply to the last [`command`](Self::command). Returns what it has brought, and the bytes of its records.
    /// Lookups wait while up to 1024 of the records are applied. O(bytes).
    ///
    /// # Errors
    /// [`FollowError`]. After a wait, the next command asks again, or begins a load.
    pub fn take(&self, reply: CommandReply) -> Result<(NearProgress, usize), FollowError> {
        let mut following = lock(&self.following);
        match following.follower.take(reply)? {
            FollowProgress::Part => Ok((NearProgress::Part, 0)),
            FollowProgress::Loaded(copy) => {
                if copy.has_log() {
                    self.change_state(|state| state.next = Some(copy));
                } else {
                    self.publish(Known::Copy(copy), following.load_began_ms);
                }
                Ok((NearProgress::Loaded, 0))
            }
            FollowProgress::Lost => {
                following.follower.restart();
                let has_log = self.change_state(|state| {
                    state.own = None;
                    let next = state.next.take();
                    match (&next, &state.known) {
                        (Some(copy), _) | (None, Known::Copy(copy)) => copy.has_log(),
                        (None, Known::Nothing | Known::Missing | Known::Own(_)) => true,
                    }
                });
                Ok((if has_log { NearProgress::Lost } else { NearProgress::Changed }, 0))
            }
            FollowProgress::Missing => {
                self.publish(Known::Missing, following.asked_ms);
                Ok((NearProgress::Current, 0))
            }
            FollowProgress::Changes { records, more } => {
                let mut steps = records.chunks(STEP_BYTES);
                let applied = steps.try_for_each(|records| {
                    self.change_state(|state| match (&mut state.next, &mut state.known) {
                        (Some(copy), _) | (None, Known::Copy(copy)) => copy.apply(records),
                        (None, Known::Nothing | Known::Missing | Known::Own(_)) => Ok(()),
                    })
                });
                if let Err(error) = applied {
                    // The copy may lack items.
                    self.publish(Known::Nothing, NEVER);
                    following.follower.restart();
                    return Err(error);
                }
                if more {
                    return Ok((NearProgress::Part, records.len()));
                }
                self.note_current(following.asked_ms);
                Ok((NearProgress::Current, records.len()))
            }
            FollowProgress::Current => {
                self.note_current(following.asked_ms);
                Ok((NearProgress::Current, 0))
            }
        }
    }

    /// Returns whether a load is under way, or comes next.
    #[must_use]
    pub fn is_loading(&self) -> bool {
        lock(&self.following).follower.is_loading()
    }

    /// Returns whether the filter has a window, so that lookups need the time of the server.
    #[must_use]
    pub fn needs_time(&self) -> bool {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        let has_window = |copy: &FilterCopy| copy.filter().window_ms().is_some();
        state.next.as_ref().is_some_and(has_window)
            || matches!(&state.known, Known::Copy(copy) if has_window(copy))
    }

    /// Sets the time of the server: what TIME has just replied, in milliseconds of UNIX time. It is late by the way of the
    /// reply, and so is the copy. So no item expires in the copy before it does on the server.
    pub fn set_server_time(&self, server_ms: u64) {
        // No clock shows a time that does not fit.
        let ahead_ms = i64::try_from(server_ms)
            .map_or(UNKNOWN, |server_ms| server_ms.saturating_sub_unsigned(self.watch.elapsed_ms()));
        self.ahead_ms.store(ahead_ms, Relaxed);
    }

    /// Returns the age of the copy in milliseconds, rounded up: every item that was added earlier is found. `None` without a
    /// copy that can be used. If it is known that there is no filter, it is the age of this knowledge.
    #[must_use]
    pub fn age_ms(&self) -> Option<u64> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        let is_usable = match &state.known {
            Known::Copy(copy) => self.time_for(copy).is_some(),
            Known::Missing | Known::Own(_) => true,
            Known::Nothing => false,
        };
        self.age_at_ms(self.watch.elapsed_ms()).filter(|_| is_usable)
    }

    /// Calls `in_copy` with the filter and, for a sliding window, the time of the server, if the copy has at most an age of
    /// `max_age_ms`.
    pub fn look_up<T>(&self, max_age_ms: u64, in_copy: impl FnOnce(&BloomFilter, u64) -> T) -> NearLookup<T> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        // This time may be a tick early.
        let age_ms = self.age_at_ms(self.watch.about_ms().saturating_add(TICK_MS));
        if age_ms.is_none_or(|age_ms| age_ms > max_age_ms) {
            return NearLookup::Stale;
        }
        match &state.known {
            Known::Copy(copy) => match self.time_for(copy) {
                Some(now_ms) => NearLookup::Copy(in_copy(copy.filter(), now_ms)),
                None => NearLookup::Stale,
            },
            Known::Own(filter) => NearLookup::Copy(in_copy(filter, 0)),
            Known::Missing => NearLookup::Missing,
            Known::Nothing => NearLookup::Stale,
        }
    }

    /// Adds an item that was added on the server, so that lookups find it from now on. `is_new` is the server's reply. If
    /// there was no filter, lookups find the program's own items alone until the filter is loaded.
    pub fn added(&self, item: &[u8], is_new: bool) {
        self.change_state(|state| {
            self.add_own(&mut state.known, item, is_new);
            if let Some(copy) = &mut state.next {
                self.add_to(copy, item, is_new);
            }
            if let Some(own) = &mut state.own {
                own.push(item.to_vec());
            }
        });
    }

    /// Calls `read` with the filter of the copy, of whatever age; returns `None` without a copy. Changes wait meanwhile.
    pub fn with_copy<T>(&self, read: impl FnOnce(&BloomFilter) -> T) -> Option<T> {
        match &self.state.read().unwrap_or_else(PoisonError::into_inner).known {
            Known::Copy(copy) => Some(read(copy.filter())),
            Known::Nothing | Known::Missing | Known::Own(_) => None,
        }
    }

    /// Adds an item of the program to what is known.
    fn add_own(&self, known: &mut Known, item: &[u8], is_new: bool) {
        match known {
            Known::Nothing => {}
            Known::Missing => *known = Known::own(item),
            Known::Own(filter) => {
                if filter.add(item).is_err() {
                    *known = Known::Nothing;
                }
            }
            Known::Copy(copy) => self.add_to(copy, item, is_new),
        }
    }

    /// Adds an item to a copy. A copy without the time is not used yet, and gets the item by its record.
    fn add_to(&self, copy: &mut FilterCopy, item: &[u8], is_new: bool) {
        if let Some(now_ms) = self.time_for(copy) {
            copy.add(item, now_ms, is_new);
        }
    }

    /// Returns the age of what is known, at a time of the watch. The difference of whole milliseconds may be a part of one too
    /// small.
    fn age_at_ms(&self, now_ms: u64) -> Option<u64> {
        let as_of_ms = self.as_of_ms.load(Relaxed);
        (as_of_ms != NEVER).then(|| now_ms.saturating_sub(as_of_ms).saturating_add(1))
    }

    /// Returns the time for a filter: that of the server, if it has a window. `None` if it is not known.
    fn time_for(&self, copy: &FilterCopy) -> Option<u64> {
        if copy.filter().window_ms().is_none() {
            return Some(0);
        }
        let ahead_ms = self.ahead_ms.load(Relaxed);
        // The time of the watch may be a tick early.
        let now_ms = || self.watch.about_ms().saturating_add_signed(ahead_ms).saturating_sub(TICK_MS);
        (ahead_ms != UNKNOWN).then(now_ms)
    }

    /// Calls `change` with the state. Lookups wait meanwhile.
    fn change_state<T>(&self, change: impl FnOnce(&mut CopyState) -> T) -> T {
        change(&mut self.state.write().unwrap_or_else(PoisonError::into_inner))
    }

    /// Notes that the copy has all changes up to the time of the last command. A loaded copy takes the place of the former. It
    /// has the own items: it was loaded before the command, and [`added`](Self::added) has added later ones to it.
    fn note_current(&self, asked_ms: u64) {
        let old = self.change_state(|state| {
            state.own = None;
            // A copy without the time could not be used. It waits, and what is known stays.
            if state.next.as_ref().is_some_and(|copy| self.time_for(copy).is_none()) {
                return None;
            }
            self.as_of_ms.store(asked_ms, Relaxed);
            state.next.take().map(|copy| std::mem::replace(&mut state.known, Known::Copy(copy)))
        });
        // After the lock, so that lookups do not wait for it.
        drop(old);
    }

    /// Replaces what is known, and adds the own items that it may lack. Frees the old copy after the lock, so that lookups do
    /// not wait for it. O(own items).
    fn publish(&self, mut known: Known, as_of_ms: u64) {
        // Lookups wait only for the items that are added in the meantime.
        let early = self.change_state(|state| state.own.as_mut().map(std::mem::take));
        for item in early.into_iter().flatten() {
            self.add_own(&mut known, &item, true);
        }
        let old = self.change_state(|state| {
            self.as_of_ms.store(as_of_ms, Relaxed);
            for item in state.own.take().into_iter().flatten() {
                self.add_own(&mut known, &item, true);
            }
            (std::mem::replace(&mut state.known, known), state.next.take())
        });
        drop(old);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
