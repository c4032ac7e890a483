//! The policy of sliding windows: an item is live for a window of time after its last add.
//!
//! Generations are bit-sliced: a cell has a column of one bit for each of sixteen generations. A generation is a
//! fourteenth of the window. An add sets the column of the current generation at the item's positions. A lookup
//! intersects the columns of all positions and masks the live ones. So it makes as many memory accesses as a filter
//! without generations.

mod clock;
mod pace;
mod place;
mod rate;
mod state;

pub use clock::{
    COLUMNS, COLUMNS_LEN, Generation, LIVE_GENERATIONS, Moment, Span, WINDOW_GENERATIONS, column_of,
    columns_between, columns_up_to, is_live, live_columns,
};
pub use pace::{shapes_at_once, shapes_at_pace};
pub use rate::ColumnRate;
pub(super) use rate::column_items;
pub(super) use state::history;
pub use state::{WindowLayers, live_items, live_rate};

use place::{Place, Placing, columns_rate};

use crate::bloom::cells::CellState;
use crate::bloom::hash::Hash;
use crate::bloom::layer::{Layer, LayerSpec};
use crate::bloom::outcome::{AddError, ReserveError};
use crate::bloom::policy::Promise;

/// The parameters of a sliding-window filter, and its current time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    /// Error rate, items per window and growth.
    pub promise: Promise,
    /// How long an item is live.
    pub span: Span,
    /// Whether an item is live from its first add, instead of its last.
    pub no_refresh: bool,
    /// The newest generation in which an item was added; 0 before the first. The filter's time is never before it.
    newest: Generation,
    /// Bytes of all layers that the filter ever had: the address of the next one.
    end: u64,
    /// The current time. It is not saved.
    moment: Moment,
    /// The current time in milliseconds of UNIX time.
    now_ms: u64,
    /// The layer that takes new items. It is derived from the state.
    place: Place,
}

/// Why items cannot be added at a given time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MomentError {
    /// The items have expired already.
    Past,
    /// The time is more than a generation ahead.
    Ahead,
}

impl Window {
    /// Returns a policy with these parameters, which must be valid. Its growth must not saturate.
    #[must_use]
    pub fn new(promise: Promise, span: Span, no_refresh: bool) -> Self {
        let (moment, place) = (Moment::default(), Place::default());
        Self { promise, span, no_refresh, newest: 0, end: 0, moment, now_ms: 0, place }
    }

    /// Returns the policy of the same filter without items.
    #[must_use]
    pub fn emptied(&self) -> Self {
        Self::new(self.promise, self.span, self.no_refresh)
    }

    /// Returns the newest generation in which an item was added; 0 before the first.
    #[must_use]
    pub const fn newest(&self) -> Generation {
        self.newest
    }

    /// Returns the bytes of all layers that the filter ever had.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.end
    }

    /// Sets the bytes of all layers that the filter ever had, to at least those of `layers`. O(layers).
    pub fn set_end(&mut self, end: u64, layers: &[Layer]) {
        self.end = layers.iter().fold(end, |end, layer| end.max(layer.dump_range(0).end));
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

    /// Returns the current time, or the time set for the items, in milliseconds of UNIX time.
    #[must_use]
    pub const fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// Sets the current time for the following lookups and adds, in milliseconds of UNIX time. It is never before the
    /// newest generation. O(1).
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

    /// Sets the time to the newest generation, for replayed adds. Before the first add, sets it to `now_ms`. O(1).
    pub fn set_to_newest(&mut self, now_ms: u64) {
        self.set_now(if self.newest == 0 { now_ms } else { 0 });
    }

    /// Sets the time of the items that are added next, in milliseconds of UNIX time. It may be before that of other
    /// items. O(1).
    pub fn set_moment(&mut self, moment_ms: u64) {
        let added = self.span.generation_at(moment_ms);
        self.moment = Moment { added, now: added.max(self.newest) };
        self.now_ms = moment_ms;
    }

    /// Sets the time of the items that are added next, if it is at most the window behind the current time and at
    /// most a generation ahead. A time ahead becomes the current time, so that other items do not expire early.
    /// Returns whether the time was set unchanged. O(1).
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

    /// Returns the error rate that layers of columns are sized for.
    #[must_use]
    pub fn layer_error_rate(&self) -> f64 {
        columns_rate(&self.promise)
    }

    /// Returns the next layer after `layers`, for an item that is added at the current time.
    ///
    /// # Errors
    /// [`AddError`] if the filter cannot grow.
    pub(super) fn next_layer(&self, layers: &[Layer], hash: Hash) -> Result<LayerSpec, AddError> {
        let generation = self.moment.added;
        let shape = self.placing(layers).next_shape(generation)?;
        if self.end > ADDRESS_MAX {
            return Err(AddError::CannotGrow(ReserveError::TooLong));
        }
        let mut spec = shape.spec(hash, self.end);
        if let CellState::Burst(state) = &mut spec.cells {
            state.history.newest = generation;
        }
        Ok(spec)
    }

    fn placing<'f>(&'f self, layers: &'f [Layer]) -> Placing<'f, Layer> {
        Placing { promise: &self.promise, layers, newest: self.newest }
    }
}

/// The largest address of a layer, in bytes of all layers that the filter ever had: 1 PiB. A filter that creates a
/// layer of 100 MB every minute reaches it after 20 years. The iterators of BF.SCANDUMP have 51 bits for positions.
pub(super) const ADDRESS_MAX: u64 = 1 << 50;

/// The share of the error rate that the columns of a scaling filter leave to bursts.
const RESERVE: f64 = 1.0 / 20.0;
/// The smallest share of the error rate of a column, whatever the other columns use. It gives a column a sixth of the
/// items that it was sized for. All possible layers together do not use up the reserve.
const COLUMN_LEAST_SHARE: f64 = 1.0 / (1u64 << 30) as f64;
const _: () = assert!(LIVE_GENERATIONS < COLUMNS);
