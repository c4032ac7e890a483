//! The changes of the filters that copies follow (BF.FOLLOW): one registry of rings, under a lock, because values end on
//! other threads too. It has no references to values.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Instant;

use super::api::Context;
use super::config::settings;
use super::memory::is_very_short;
use super::server::random_number;
use everbloom_command::CommandError;
use everbloom_command::rings::{FollowChanges, FollowPosition, IDLE_MS, RingId, RingLimits, Rings};
use everbloom_filter::{AddLog, AddPlace, ItemHash, Log, OutOfMemory};

static RINGS: Mutex<Rings> = Mutex::new(Rings::new());
/// The number of rings and their bytes, for INFO, which takes no lock.
static COUNTS: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];
/// Whether the timer runs that ends idle rings.
static HAS_TIMER: AtomicBool = AtomicBool::new(false);

/// Returns the number of rings and their bytes.
pub(super) fn counts() -> [u64; 2] {
    COUNTS.each_ref().map(|count| count.load(Relaxed))
}

/// Calls `act` with the rings and the time, in milliseconds of a clock that never goes back.
fn with_rings<T>(act: impl FnOnce(&mut Rings, u64) -> T) -> T {
    static START: OnceLock<Instant> = OnceLock::new();
    let now_ms = START.get_or_init(Instant::now).elapsed().as_millis();
    let mut rings = RINGS.lock().unwrap_or_else(PoisonError::into_inner);
    let result = act(&mut rings, u64::try_from(now_ms).unwrap_or(u64::MAX));
    COUNTS.iter().zip([rings.count(), rings.bytes()]).for_each(|(to, count)| to.store(count, Relaxed));
    result
}

/// Returns the limits of the settings. Above `maxmemory` no ring grows.
fn limits() -> RingLimits<'static> {
    let settings = settings();
    RingLimits {
        ring_bytes: settings.follow_log_bytes,
        total_bytes: settings.follow_total_bytes,
        may_grow: &|| !is_very_short(),
    }
}

/// The ring of a filter. It ends with this value.
#[derive(Default)]
pub(super) struct Followers {
    /// 0 if nobody follows the filter.
    ring: RingId,
}

impl Followers {
    /// Returns the log of changes; `None` if nobody follows the filter.
    #[inline(always)]
    pub(super) fn log(&mut self) -> Log<'_> {
        (self.ring != 0).then_some(self)
    }

    /// Returns the position after the last change. Begins the ring if there is none.
    ///
    /// # Safety
    /// `context` must be that of the running command.
    pub(super) unsafe fn position(&mut self, context: Context) -> Result<FollowPosition, CommandError> {
        let limits = limits();
        if limits.total_bytes == 0 {
            return Err(CommandError::FollowOff);
        }
        let position = with_rings(|rings, now_ms| rings.position(self.ring, random_number(), now_ms, limits));
        self.ring = position.id;
        // SAFETY: the context is that of the running command, by the caller's contract.
        unsafe { start_timer(context) };
        Ok(position)
    }

    /// Returns the changes since a position.
    pub(super) fn changes(
        &self,
        position: FollowPosition,
        most_records: usize,
    ) -> Result<FollowChanges, OutOfMemory> {
        if position.id != self.ring {
            return Ok(FollowChanges::Lost);
        }
        with_rings(|rings, now_ms| rings.changes(position, most_records, now_ms))
    }
}

impl AddLog for Followers {
    #[cold]
    fn stored(&mut self, place: AddPlace, hashes: &mut dyn Iterator<Item = ItemHash>) {
        let limits = limits();
        if !with_rings(|rings, _| rings.append(self.ring, &place, hashes, limits)) {
            self.ring = 0;
        }
    }

    #[cold]
    fn changed(&mut self) {
        *self = Self::default();
    }
}

impl Drop for Followers {
    fn drop(&mut self) {
        if self.ring != 0 {
            with_rings(|rings, _| rings.end(self.ring));
        }
    }
}

/// Starts the timer that ends idle rings, unless it runs.
///
/// # Safety
/// `context` must be alive.
unsafe fn start_timer(context: Context) {
    const PERIOD_MS: i64 = IDLE_MS.cast_signed() / 6;
    let Some(create) = api!(RedisModule_CreateTimer) else { return };
    if !HAS_TIMER.swap(true, Relaxed) {
        // SAFETY: the context is alive by the caller's contract. The function lives as long as the module.
        unsafe { create(context, PERIOD_MS, Some(on_timer), std::ptr::null_mut()) };
    }
}

/// Ends the rings that nobody has asked for. Runs again as long as there are others.
///
/// # Safety
/// Called by the server only.
unsafe extern "C" fn on_timer(context: Context, _data: *mut c_void) {
    HAS_TIMER.store(false, Relaxed);
    let left = with_rings(|rings, now_ms| {
        rings.end_idle(now_ms);
        rings.count()
    });
    if left > 0 {
        // SAFETY: the context is the server's, for this call.
        unsafe { start_timer(context) };
    }
}
