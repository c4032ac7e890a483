//! What a sliding-window filter is reserved with, and what time it is there.

use super::clock::{Generation, LIVE_GENERATIONS, Moment, Span, is_live};
use crate::bloom::cells::CellType;
use crate::bloom::hash::Hash;
use crate::bloom::layer::{Layer, LayerSpec};
use crate::bloom::outcome::{AddError, ReserveError};
use crate::bloom::policy::Promise;
use crate::bloom::sizing::Shape;

/// What a sliding-window filter is reserved with, and its time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    /// Error rate, items per window and growth.
    pub promise: Promise,
    /// How long an item is live.
    pub span: Span,
    /// Whether an item is live from its first add on, not from its last.
    pub no_refresh: bool,
    /// The newest generation that an item was added in; 0 before the first. The filter's time never runs back behind it.
    pub(super) newest: Generation,
    /// The current time. No part of the state.
    pub(super) moment: Moment,
    /// The current time in milliseconds of UNIX time.
    now_ms: u64,
    /// How many items one column may have. Follows from the state.
    pub(super) quota: ColumnQuota,
}

/// Why items cannot be of a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MomentError {
    /// They have expired already.
    Past,
    /// It lies more than a generation ahead.
    Ahead,
}

/// How many items the newest layer may have in the column of a generation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ColumnQuota {
    pub(super) generation: Generation,
    pub(super) items: u64,
}

impl Window {
    /// Returns the policy with these parameters, which must be valid, and growth that does not saturate.
    #[must_use]
    pub fn new(promise: Promise, span: Span, no_refresh: bool) -> Self {
        let (moment, quota) = (Moment::default(), ColumnQuota::default());
        Self { promise, span, no_refresh, newest: 0, moment, now_ms: 0, quota }
    }

    /// Returns the policy of the same filter without items.
    #[must_use]
    pub fn emptied(&self) -> Self {
        Self::new(self.promise, self.span, self.no_refresh)
    }

    /// Returns the newest generation that an item was added in; 0 before the first.
    #[must_use]
    pub const fn newest(&self) -> Generation {
        self.newest
    }

    /// Sets that generation, for a decoder.
    pub const fn set_newest(&mut self, newest: Generation) {
        self.newest = newest;
    }

    /// Returns the current time.
    #[must_use]
    #[inline(always)]
    pub const fn moment(&self) -> Moment {
        self.moment
    }

    /// Returns the current time, or the moment of the items, in milliseconds of UNIX time.
    #[must_use]
    pub const fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// Sets the current time, in milliseconds of UNIX time, for lookups and adds until it is set again. It never runs back behind
    /// the newest generation. O(1).
    pub fn set_now(&mut self, now_ms: u64) {
        let by_clock = self.span.generation_at(now_ms);
        let now = by_clock.max(self.newest);
        self.moment = Moment { added: now, now };
        // A moment lies behind the start of its own generation, which takes a long division.
        self.now_ms = if now == by_clock { now_ms } else { self.span.start_of(now) };
    }

    /// Returns whether at the current time an add would begin a generation behind others. O(1).
    #[must_use]
    pub const fn is_newer(&self) -> bool {
        self.newest > 0 && self.moment.now > self.newest
    }

    /// Sets the time to the newest generation again, for adds that are replayed; before the first add, to `now_ms`. O(1).
    pub fn set_to_newest(&mut self, now_ms: u64) {
        self.set_now(if self.newest == 0 { now_ms } else { 0 });
    }

    /// Sets the moment of the items that are added next, in milliseconds of UNIX time, which may lie behind others. O(1).
    pub fn set_moment(&mut self, moment_ms: u64) {
        let added = self.span.generation_at(moment_ms);
        self.moment = Moment { added, now: added.max(self.newest) };
        self.now_ms = moment_ms;
    }

    /// Sets that moment where the current time allows it: at most the window behind and at most a generation ahead. A moment that is
    /// ahead counts as the present one, lest others expire early. Returns whether it was taken as it is. O(1).
    ///
    /// # Errors
    /// [`MomentError`]; nothing has changed then.
    pub fn set_event(&mut self, moment_ms: u64) -> Result<bool, MomentError> {
        if moment_ms > self.now_ms.saturating_add(self.span.generation_ms()) {
            return Err(MomentError::Ahead);
        }
        let added = self.span.generation_at(moment_ms);
        if !is_live(added, self.moment.now) {
            return Err(MomentError::Past);
        }
        let is_ahead = added > self.moment.now;
        if !is_ahead {
            self.set_moment(moment_ms);
        }
        Ok(!is_ahead)
    }

    /// Returns the error rate that every layer is sized for.
    #[must_use]
    pub fn layer_error_rate(&self) -> f64 {
        rate_up_to(&self.promise, 0)
    }

    /// Returns the layer that comes after `layers`.
    ///
    /// # Errors
    /// [`AddError`] when the filter cannot grow.
    pub(in crate::bloom) fn next_layer(&self, layers: &[Layer], hash: Hash) -> Result<LayerSpec, AddError> {
        if !layers.is_empty() && self.promise.growth.is_fixed_size() {
            return Err(AddError::Full);
        }
        let before = layers.last().map(Layer::capacity_items);
        let shape = next_shape(&self.promise, before).map_err(AddError::CannotGrow)?;
        let address = layers.last().map_or(0, |last| last.dump_range(0).end);
        if address > ADDRESS_MAX {
            return Err(AddError::CannotGrow(ReserveError::TooLong));
        }
        Ok(shape.spec(hash, address))
    }

    /// Returns the error rate that the live columns of so many older layers and the newest one may use together. Layers are sized
    /// for that of the first. A fixed filter uses it whole. One that grows goes on in a larger layer a
    /// little before: the columns of the old one expire one by one, and until then a small part of the rate is enough for
    /// most of the larger one's share, since the rate of a column rises with a high power of its items.
    pub(super) fn rate_up_to(&self, older_layers: usize) -> f64 {
        rate_up_to(&self.promise, older_layers)
    }
}

/// Returns the shape of a layer behind one with a capacity of `before` items, in filters with this promise.
///
/// # Errors
/// [`ReserveError::TooLong`] where it would hold more items than a layer may.
pub(super) fn next_shape(promise: &Promise, before: Option<u64>) -> Result<Shape, ReserveError> {
    Ok(Shape::sized(CellType::Columns, promise.layer_capacity(before)?, rate_up_to(promise, 0)))
}

/// Where the last layer of a filter begins at most, in bytes of all layers that it ever had: more than it ever comes to, and
/// less than an iterator of BF.SCANDUMP can say.
pub(in crate::bloom) const ADDRESS_MAX: u64 = 1 << 62;

/// See [`Window::rate_up_to`].
pub(super) fn rate_up_to(promise: &Promise, older_layers: usize) -> f64 {
    if promise.growth.is_fixed_size() {
        return promise.error_rate;
    }
    promise.error_rate * (1.0 - RESERVE / older_layers.saturating_add(1) as f64)
}

/// The share of the error rate that the first layer of a filter that grows leaves to others; the next leaves a half of it,
/// then a third, and so on.
const RESERVE: f64 = 1.0 / 32.0;
/// The share of the error rate that any column may have, whatever the others have: so small that as many layers as there
/// may be do not use up what is left, and yet a sixth of the items that the column was sized for.
pub(super) const COLUMN_LEAST_SHARE: f64 = 1.0 / (1u64 << 30) as f64;
const _: () = assert!(LIVE_GENERATIONS < super::clock::COLUMNS);
