//! The policy of sliding windows: an item is live for a window of time after it was last added.
//!
//! Generations are bit-sliced: a cell is a column for each of sixteen generations, one bit each. A generation is a
//! fourteenth of the window. An add sets the column of the current generation at the item's positions. A lookup takes
//! the columns that all positions have in common and masks the live ones. So it makes as many memory accesses as
//! without generations.

mod clock;
mod pace;
mod state;

pub use clock::{
    COLUMNS, COLUMNS_LEN, Generation, LIVE_GENERATIONS, Moment, Span, WINDOW_GENERATIONS, column_of,
    columns_between, columns_up_to, is_live, live_columns,
};
pub use pace::shapes_at_pace;
pub(super) use state::history;
pub use state::{ColumnRate, live_items, live_rate};

use crate::bloom::cells::CellType;
use crate::bloom::hash::Hash;
use crate::bloom::layer::{Layer, LayerSpec};
use crate::bloom::outcome::{AddError, ReserveError};
use crate::bloom::policy::Promise;
use crate::bloom::sizing::Shape;

/// The parameters of a sliding-window filter, and its time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    /// Error rate, items per window and growth.
    pub promise: Promise,
    /// How long an item is live.
    pub span: Span,
    /// Whether an item is live from its first add on, not from its last.
    pub no_refresh: bool,
    /// The newest generation that an item was added in; 0 before the first. The filter's time is never before it.
    newest: Generation,
    /// The current time. It is not part of the state.
    moment: Moment,
    /// The current time in milliseconds of UNIX time.
    now_ms: u64,
    /// The most items of one column. It follows from the state.
    quota: ColumnQuota,
}

/// Why items cannot be added at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MomentError {
    /// They have expired already.
    Past,
    /// The moment is more than a generation ahead.
    Ahead,
}

/// The most items that the newest layer may have in the column of a generation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ColumnQuota {
    generation: Generation,
    items: u64,
}

impl Window {
    /// Returns the policy with these parameters, which must be valid; its growth must not saturate.
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

    /// Sets the newest generation, for a decoder.
    pub const fn set_newest(&mut self, newest: Generation) {
        self.newest = newest;
    }

    /// Returns the current time.
    #[must_use]
    #[inline(always)]
    pub const fn moment(&self) -> Moment {
        self.moment
    }

    /// Returns the current time, or the moment set for the items, in milliseconds of UNIX time.
    #[must_use]
    pub const fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// Sets the current time, in milliseconds of UNIX time, for the following lookups and adds. It is never before
    /// the newest generation. O(1).
    pub fn set_now(&mut self, now_ms: u64) {
        let by_clock = self.span.generation_at(now_ms);
        let now = by_clock.max(self.newest);
        self.moment = Moment { added: now, now };
        // The start of a generation takes a long division, which most calls do not need.
        self.now_ms = if now == by_clock { now_ms } else { self.span.start_of(now) };
    }

    /// Returns whether an add at the current time would begin a new generation, and others exist. O(1).
    #[must_use]
    pub const fn is_newer(&self) -> bool {
        self.newest > 0 && self.moment.now > self.newest
    }

    /// Sets the time to the newest generation, for replayed adds; before the first add, to `now_ms`. O(1).
    pub fn set_to_newest(&mut self, now_ms: u64) {
        self.set_now(if self.newest == 0 { now_ms } else { 0 });
    }

    /// Sets the moment of the items that are added next, in milliseconds of UNIX time. It may be before that of other
    /// items. O(1).
    pub fn set_moment(&mut self, moment_ms: u64) {
        let added = self.span.generation_at(moment_ms);
        self.moment = Moment { added, now: added.max(self.newest) };
        self.now_ms = moment_ms;
    }

    /// Sets the moment of the items that are added next, if it is at most the window behind the current time and at
    /// most a generation ahead. A moment ahead becomes the current time, so that other items do not expire early.
    /// Returns whether the moment was set unchanged. O(1).
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
    pub(super) fn next_layer(&self, layers: &[Layer], hash: Hash) -> Result<LayerSpec, AddError> {
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

    /// Returns the error rate that the live columns of `older_layers` layers and the newest one may have together.
    /// Layers are sized for that of a single one. A fixed filter uses the whole promise. A scaling one leaves a
    /// reserve for a larger layer: the columns of the older layers expire one by one, and until then the reserve
    /// suffices for most of the larger layer's items, since the rate of a column rises with a high power of its
    /// items.
    fn rate_up_to(&self, older_layers: usize) -> f64 {
        rate_up_to(&self.promise, older_layers)
    }
}

/// Returns the shape of a layer behind one with a capacity of `before` items, in filters with this promise.
///
/// # Errors
/// [`ReserveError::TooLong`] if it would have more items than a layer may.
fn next_shape(promise: &Promise, before: Option<u64>) -> Result<Shape, ReserveError> {
    Ok(Shape::sized(CellType::Columns, promise.layer_capacity(before)?, rate_up_to(promise, 0)))
}

/// The largest address of a layer, in bytes of all layers that the filter ever had: more than any filter reaches, and
/// less than an iterator of BF.SCANDUMP can express.
pub(super) const ADDRESS_MAX: u64 = 1 << 62;

/// See [`Window::rate_up_to`].
fn rate_up_to(promise: &Promise, older_layers: usize) -> f64 {
    if promise.growth.is_fixed_size() {
        return promise.error_rate;
    }
    promise.error_rate * (1.0 - RESERVE / older_layers.saturating_add(1) as f64)
}

/// The share of the error rate that one layer of a scaling filter leaves to others; two layers leave a half of it,
/// three a third, and so on.
const RESERVE: f64 = 1.0 / 32.0;
/// The share of the error rate that any column may have, whatever the others have. It gives a column a sixth of the
/// items that it was sized for, and all possible layers together do not use up the reserve.
const COLUMN_LEAST_SHARE: f64 = 1.0 / (1u64 << 30) as f64;
const _: () = assert!(LIVE_GENERATIONS < COLUMNS);
