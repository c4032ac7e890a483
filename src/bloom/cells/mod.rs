//! The cells axis: what stands at a position.
//!
//! A kind of cells says what the mask of a spot is and how the spot is set; [`engine`](super::engine) does the rest. All
//! kinds are stored alike: [`Cells`].

mod bits;
mod columns;
mod counters;
mod occupancy;
mod storage;
mod timed;
mod unite;

use std::ops::BitAndAssign;

use super::layout::{PAGE_LINES, Spot};
use super::memory::{BlockMover, BlockVisitor};
use super::sizing::Shape;
use super::window::Moment;

pub use bits::{Bits, PAGE_BYTES, PAGE_WORDS, is_clear};
pub use columns::{Columns, ONE_PAGE_MAX_WORDS};
pub use counters::{COUNT_FULL, COUNTER_BITS, Counters, CountersState};
pub use occupancy::Occupancy;
pub use storage::{Cells, HEAD_BYTES, Segment};
pub use timed::{History, TimedState};

/// What stands at a position. The number of each is its id in the format: add, never edit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum CellType {
    /// A bit: [`Bits`].
    Bits = 1,
    /// A counter of four bits: [`Counters`].
    Counters = 2,
    /// A bit for each of sixteen generations: [`Columns`].
    Columns = 3,
    /// A bit, in a layer whose items are all of one generation: [`Bits`].
    Burst = 4,
}

/// What stands at a position, with what a layer keeps beside its cells.
#[derive(Clone, Debug, PartialEq)]
pub enum CellState {
    /// See [`CellType::Bits`].
    Bits,
    /// See [`CellType::Counters`].
    Counters(Box<CountersState>),
    /// See [`CellType::Columns`].
    Columns(Box<TimedState>),
    /// See [`CellType::Burst`].
    Burst(Box<TimedState>),
}

/// The same code for the kind of cells of a state, as the type `$cells`.
macro_rules! with_cells {
    ($state:expr, $cells:ident => $body:expr) => {
        match $state {
            $crate::bloom::cells::CellState::Bits | $crate::bloom::cells::CellState::Burst(_) => {
                type $cells = $crate::bloom::cells::Bits;
                $body
            }
            $crate::bloom::cells::CellState::Counters(_) => {
                type $cells = $crate::bloom::cells::Counters;
                $body
            }
            $crate::bloom::cells::CellState::Columns(_) => {
                type $cells = $crate::bloom::cells::Columns;
                $body
            }
        }
    };
}
pub(super) use with_cells;

impl CellType {
    /// Every type, by id.
    pub const ALL: [Self; 4] = [Self::Bits, Self::Counters, Self::Columns, Self::Burst];

    /// Returns the id in the format, never 0.
    #[must_use]
    pub const fn id(self) -> u8 {
        self as u8
    }

    /// Returns the type with an id.
    #[must_use]
    pub fn from_id(id: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|cells| cells.id() == id)
    }

    /// Returns how cells of the type lie in memory.
    #[must_use]
    pub const fn measures(self) -> Measures {
        match self {
            Self::Bits | Self::Burst => Bits::MEASURES,
            Self::Counters => Counters::MEASURES,
            Self::Columns => Columns::MEASURES,
        }
    }
}

/// How cells of a type lie in memory.
#[derive(Clone, Copy, Debug)]
pub struct Measures {
    /// Positions in a word of 64 bits, on average.
    pub word_positions: u64,
    /// Positions of a line.
    pub line_positions: u64,
    /// A layer without pages has a multiple of so many positions.
    pub unit_positions: u64,
    /// Words of a stamp behind the cells of each region.
    pub stamp_words: u64,
    /// Columns of a position, each a filter of its own: one for every generation, or a single one.
    pub columns: u64,
    /// Whether the positions of a line are split into runs, one for each probe; else a probe has any of them.
    pub has_runs: bool,
}

impl Measures {
    /// Returns the positions of a page.
    #[must_use]
    pub const fn page_positions(&self) -> u64 {
        self.line_positions * PAGE_LINES as u64
    }

    /// Returns the words of a page, its stamp included.
    #[must_use]
    pub const fn page_words(&self) -> u64 {
        self.page_positions() / self.word_positions + self.stamp_words
    }
}

impl CellState {
    /// Returns the state of an empty layer of that shape, which begins at `address` among the bytes of all layers.
    #[must_use]
    pub fn new(shape: &Shape, address: u64) -> Self {
        match shape.cells {
            CellType::Bits => Self::Bits,
            CellType::Counters => Self::Counters(Box::new(CountersState::new(shape))),
            CellType::Columns => Self::Columns(Box::new(TimedState::new(shape, address))),
            CellType::Burst => Self::Burst(Box::new(TimedState::new(shape, address))),
        }
    }

    /// Returns what stands at a position.
    #[must_use]
    #[inline(always)]
    pub const fn cell_type(&self) -> CellType {
        match self {
            Self::Bits => CellType::Bits,
            Self::Counters(_) => CellType::Counters,
            Self::Columns(_) => CellType::Columns,
            Self::Burst(_) => CellType::Burst,
        }
    }

    /// Visits the block of the allocator, if there is one.
    pub(super) fn visit_block(&self, visitor: &mut impl BlockVisitor) {
        match self {
            Self::Bits => {}
            Self::Counters(state) => visitor.visit(std::slice::from_ref(&**state)),
            Self::Columns(state) | Self::Burst(state) => visitor.visit(std::slice::from_ref(&**state)),
        }
    }

    /// Moves the block of the allocator, if there is one.
    pub(super) fn move_block(&mut self, mover: &impl BlockMover) {
        match self {
            Self::Bits => {}
            Self::Counters(state) => mover.move_box(state),
            Self::Columns(state) | Self::Burst(state) => mover.move_box(state),
        }
    }

    /// Returns the state of the same cells when they are clear.
    #[must_use]
    pub fn emptied(&self) -> Self {
        match self {
            Self::Bits => Self::Bits,
            Self::Counters(state) => Self::Counters(Box::new(state.emptied())),
            Self::Columns(state) => Self::Columns(Box::new(state.emptied())),
            Self::Burst(state) => Self::Burst(Box::new(state.emptied())),
        }
    }
}

/// What a change of an item is to do to its cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Look at them.
    Look,
    /// Set them.
    Add,
    /// Count them down.
    Remove,
}

/// A kind of cells.
pub trait Cell: Sized + 'static {
    /// What all spots of an item have in common.
    type Mask: Copy + BitAndAssign;
    /// What a spot is set to.
    type Mark: Copy;
    /// The words of a line.
    type Line;

    /// Words of a line.
    const LINE_WORDS: usize;
    /// How cells lie in memory.
    const MEASURES: Measures;
    /// Everything in common: the mask of no spot.
    const WHOLE: Self::Mask;
    /// Whether setting a spot that is set changes nothing, so that an item that is there need not be stored.
    const SETS_ONCE: bool;
    /// Whether items expire, so that an item that is there may be added once more.
    const IS_TIMED: bool;
    /// Whether a layer is full, too, when more cells are set than its capacity of items sets.
    const FILLS_BY_CELLS: bool = false;

    /// Returns whether a mask says that the item is there.
    fn is_set(mask: Self::Mask) -> bool;

    /// Returns what of a region is live at a moment.
    fn live(stamps: &[u64], region: usize, at: Moment) -> Self::Mask;

    /// Returns what a mask says of an item.
    fn found(mask: Self::Mask, stamps: &[u64], region: usize, at: Moment) -> Found;

    /// Returns what the spots of an item are set to that is added at a moment.
    fn mark(at: Moment) -> Self::Mark;

    /// Makes a region ready for an item that is added at a moment. Returns by how much the number of set cells has changed,
    /// wrapping; nothing where the region takes no item of that moment.
    fn open<S: Spot>(words: &mut [u64], stamps: &mut [u64], region: usize, at: Moment) -> Option<u64>;

    /// Returns the lines of so many words.
    fn lines(words: &[u64]) -> &[Self::Line];

    /// Returns the lines of so many words, to be changed.
    fn lines_mut(words: &mut [u64]) -> &mut [Self::Line];

    /// Returns how many words of a spot, a line apart, are needed for a purpose.
    fn planes(purpose: Purpose) -> u32;

    /// Returns the number of set cells whose first bit lies in `words`, the first of which is word `start` of all; stamps begin
    /// at word `stamps_from`. O(words).
    fn count_set(words: &[u64], start: usize, stamps_from: usize) -> u64;

    /// Sets what is set in a segment that begins at byte `offset`, and clears nothing that is live. Cells or stamps that are all
    /// clear may be empty. Returns false, changing nothing, where the segment does not fit or cannot be one of such cells.
    /// O(bytes).
    fn add_segment(cells: &mut Cells, offset: usize, bytes: &[u8], stamps: &[u8]) -> bool;

    /// Returns a rule that the cells break by themselves; nothing where they break none. O(bytes).
    fn broken_rule(cells: &Cells) -> Option<&'static str>;
}

/// How a kind of cells looks at a spot and sets it.
pub trait At<S: Spot>: Cell {
    /// Returns the mask of a spot: that of all its probes.
    fn look(region: &S::Region<Self>, spot: S) -> Self::Mask;

    /// Sets a spot. Returns how many cells were not set before.
    fn set(region: &mut S::Region<Self>, spot: S, mark: Self::Mark) -> u32;

    /// Counts a spot down. Returns how many cells are not set any more; nothing, and nothing has changed, where one of them was
    /// not set, or cannot be counted down.
    fn unset(_region: &mut S::Region<Self>, _spot: S) -> Option<u32> {
        None
    }

    /// Returns the first word of a spot in one of its planes.
    fn word(region: &S::Region<Self>, spot: S, plane: usize) -> Option<&u64>;
}

/// What a layer knows of an item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Whether the item is there, and has not expired.
    pub is_live: bool,
    /// Whether an add at that moment would change nothing.
    pub is_current: bool,
}
