//! What a filter that forgets is reserved with, and what time it is there.

use super::clock::{Generation, LIVE_GENERATIONS, Span, is_live};
use super::shape::WindowShape;
use crate::bloom::everbloom::{Everbloom, ItemHash};
use crate::bloom::outcome::ReserveError;

/// What a filter that forgets is reserved with, and its time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    /// Rate, items per window and growth.
    pub parameters: Everbloom,
    /// How long an item is remembered.
    pub span: Span,
    /// Whether an item counts from its first add, and not from its last.
    pub keeps_first: bool,
    /// The newest generation that an item was added in; 0 before the first. The filter's time never runs back behind it.
    pub(super) newest: Generation,
    /// What the filter was told last, and in milliseconds of UNIX time. No part of its state.
    pub(super) told: Moment,
    told_ms: u64,
    /// How many items one column may have. Follows from the state.
    pub(super) room: Room,
}

/// The time of a command, as generations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// That which items are added in.
    pub added: Generation,
    /// That at which the filter is asked.
    pub now: Generation,
}

/// Why items cannot be of a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MomentError {
    /// They would be forgotten already.
    Past,
    /// It lies more than a generation ahead.
    Ahead,
}

/// How many items the newest layer may have in the column of a generation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Room {
    pub(super) generation: Generation,
    pub(super) items: u64,
}

/// What is computed of an item, and the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimedHash {
    /// The hash.
    pub hash: ItemHash,
    /// The time.
    pub at: Moment,
}

impl Window {
    /// With a window and with parameters that are valid, growth that saturates excepted.
    #[must_use]
    pub fn new(parameters: Everbloom, span: Span, keeps_first: bool) -> Self {
        let (told, room) = (Moment::default(), Room::default());
        let mut window = Self { parameters, span, keeps_first, newest: 0, told, told_ms: 0, room };
        window.tell_time(0);
        window
    }

    /// The newest generation that an item was added in; 0 before the first.
    #[must_use]
    pub const fn newest(&self) -> Generation {
        self.newest
    }

    /// Says which generation that is, for a decoder. The time of the filter does not lie behind it.
    pub fn set_newest(&mut self, newest: Generation) {
        self.newest = newest;
        self.tell_time(self.told_ms);
    }

    /// The time that the filter was told.
    #[must_use]
    pub const fn told(&self) -> Moment {
        self.told
    }

    /// Tells it the time, in milliseconds of UNIX time: for what is asked and added until it is told another. Where the
    /// clock runs back, time stands still. O(1).
    pub fn tell_time(&mut self, now_ms: u64) {
        let by_clock = self.span.generation_at(now_ms);
        let now = by_clock.max(self.newest);
        self.told = Moment { added: now, now };
        // A moment lies behind the start of its own generation, which takes a long division.
        self.told_ms = if now == by_clock { now_ms } else { self.span.start_of(now) };
    }

    /// Whether by the time that it was told an add would begin a generation behind others. O(1).
    #[must_use]
    pub const fn is_newer(&self) -> bool {
        self.newest > 0 && self.told.now > self.newest
    }

    /// Tells it to take items into the newest generation again, as whoever replays adds does; before the first add
    /// it is told the time. O(1).
    pub fn tell_newest(&mut self, now_ms: u64) {
        self.tell_time(if self.newest == 0 { now_ms } else { 0 });
    }

    /// Tells it that items are of a moment, in milliseconds of UNIX time, which may lie behind others. O(1).
    pub fn tell_moment(&mut self, moment_ms: u64) {
        let added = self.span.generation_at(moment_ms);
        self.told = Moment { added, now: added.max(self.newest) };
        self.told_ms = moment_ms;
    }

    /// Tells it, once it knows the time, that items are of a moment, in milliseconds of UNIX time: one that lies at most
    /// the window behind and at most a generation ahead. A moment that is ahead counts as the present one, lest
    /// others be forgotten early; answers whether it is taken as it is. O(1).
    ///
    /// # Errors
    /// [`MomentError`]; the filter is told nothing then.
    pub fn tell_event(&mut self, moment_ms: u64) -> Result<bool, MomentError> {
        if moment_ms > self.told_ms.saturating_add(self.span.generation_ms()) {
            return Err(MomentError::Ahead);
        }
        let added = self.span.generation_at(moment_ms);
        if !is_live(added, self.told.now) {
            return Err(MomentError::Past);
        }
        let is_ahead = added > self.told.now;
        if !is_ahead {
            self.tell_moment(moment_ms);
        }
        Ok(!is_ahead)
    }

    /// The time or the moment that the filter was told last, in milliseconds of UNIX time.
    #[must_use]
    pub const fn told_ms(&self) -> u64 {
        self.told_ms
    }

    /// The error rate that layer after layer may have used up over all live columns; the first and those after it
    /// are sized for that of the first. A fixed filter uses it whole. One that grows goes on in a larger layer a
    /// little before: the old one's columns die one by one, and until then a small part of the rate is enough for
    /// most of the larger one's share, since the rate of a column goes with a high power of its items.
    pub(super) fn rate_up_to(&self, older_layers: usize) -> f64 {
        rate_up_to(&self.parameters, older_layers)
    }

    /// The shape of a layer behind one with a capacity of `before` items.
    pub(super) fn layer_shape(&self, before: Option<u64>) -> Result<WindowShape, ReserveError> {
        Self::next_shape(self.parameters, before)
    }

    /// The shape of a layer behind one with a capacity of `before` items, in filters with these parameters.
    ///
    /// # Errors
    /// [`ReserveError::TooLong`] where it would hold more items than a layer may.
    pub fn next_shape(parameters: Everbloom, before: Option<u64>) -> Result<WindowShape, ReserveError> {
        let index = usize::from(before.is_some());
        let (capacity_items, _) = parameters.layer_parameters(index, before)?;
        Ok(WindowShape::sized(capacity_items, rate_up_to(&parameters, 0)))
    }
}

pub(super) fn rate_up_to(parameters: &Everbloom, older_layers: usize) -> f64 {
    if parameters.growth.is_fixed_size() {
        return parameters.error_rate;
    }
    parameters.error_rate * (1.0 - RESERVE / older_layers.saturating_add(1) as f64)
}

/// The share of the error rate that the first layer of a filter that grows leaves to others; the next leaves a half of it,
/// then a third, and so on.
const RESERVE: f64 = 1.0 / 32.0;
/// The share of the error rate that any column may have, whatever the others have: so small that as many layers as there
/// may be do not use up what is left, and yet a sixth of the items that the column was sized for.
pub(super) const COLUMN_LEAST_SHARE: f64 = 1.0 / (1u64 << 30) as f64;
const _: () = assert!(LIVE_GENERATIONS < super::clock::COLUMNS);
