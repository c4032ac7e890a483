//! The cells axis: what is stored at a position.
//!
//! A cell type defines the mask of a spot and how the spot is set; [`engine`](super::engine) does the rest. [`Cells`]
//! stores all cell types.

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

/// What is stored at a position. The number of each type is its id in the format: add, never edit.
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

/// The cell type of a layer, with the state that the layer has besides its cells.
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

/// Compiles the same code for the cell type of a state, as the type `$cells`.
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

    /// Returns the memory layout of cells of this type.
    #[must_use]
    pub const fn measures(self) -> Measures {
        match self {
            Self::Bits | Self::Burst => Bits::MEASURES,
            Self::Counters => Counters::MEASURES,
            Self::Columns => Columns::MEASURES,
        }
    }
}

/// The memory layout of cells of a type.
#[derive(Clone, Copy, Debug)]
pub struct Measures {
    /// Positions in a word of 64 bits, on average.
    pub word_positions: u64,
    /// Positions of a line.
    pub line_positions: u64,
    /// The number of positions of a layer without pages is a multiple of this.
    pub unit_positions: u64,
    /// Words of the stamp after the cells of each region.
    pub stamp_words: u64,
    /// Columns per position. Each is a filter: one per generation, or a single one.
    pub columns: u64,
    /// Whether the positions of a line are split into runs, one per probe. Otherwise a probe may have any position.
    pub has_runs: bool,
}

impl Measures {
    /// Returns the positions of a page.
    #[must_use]
    pub const fn page_positions(&self) -> u64 {
        self.line_positions * PAGE_LINES as u64
    }

    /// Returns the words of a page, including its stamp.
    #[must_use]
    pub const fn page_words(&self) -> u64 {
        self.page_positions() / self.word_positions + self.stamp_words
    }
}

impl CellState {
    /// Returns the state of an empty layer of this shape, which begins at `address` among the bytes of all layers.
    #[must_use]
    pub fn new(shape: &Shape, address: u64) -> Self {
        match shape.cells {
            CellType::Bits => Self::Bits,
            CellType::Counters => Self::Counters(Box::new(CountersState::new(shape))),
            CellType::Columns => Self::Columns(Box::new(TimedState::new(shape, address))),
            CellType::Burst => Self::Burst(Box::new(TimedState::new(shape, address))),
        }
    }

    /// Returns the cell type.
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

    /// Visits the block of the allocator, if the state has one.
    pub(super) fn visit_block(&self, visitor: &mut impl BlockVisitor) {
        match self {
            Self::Bits => {}
            Self::Counters(state) => visitor.visit(std::slice::from_ref(&**state)),
            Self::Columns(state) | Self::Burst(state) => visitor.visit(std::slice::from_ref(&**state)),
        }
    }

    /// Moves the block of the allocator, if the state has one.
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

/// What a change of an item does to its cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Read them.
    Look,
    /// Set them.
    Add,
    /// Count them down.
    Remove,
}

/// A cell type.
pub trait Cell: Sized + 'static {
    /// What all spots of an item have in common.
    type Mask: Copy + BitAndAssign;
    /// What a spot is set to.
    type Mark: Copy;
    /// The words of a line.
    type Line;

    /// Words of a line.
    const LINE_WORDS: usize;
    /// The memory layout of the cells.
    const MEASURES: Measures;
    /// The mask of an item without spots.
    const WHOLE: Self::Mask;
    /// Whether setting a set spot changes nothing, so that an item that is present need not be stored.
    const SETS_ONCE: bool;
    /// Whether items expire, so that an item that is present may be added again.
    const IS_TIMED: bool;
    /// Whether a layer is also full when more cells are set than its capacity of items sets.
    const FILLS_BY_CELLS: bool = false;

    /// Returns whether an item with this mask is present.
    fn is_set(mask: Self::Mask) -> bool;

    /// Returns the mask of what is live in a region.
    fn live(stamps: &[u64], region: usize, at: Moment) -> Self::Mask;

    /// Returns what a mask says about an item.
    fn found(mask: Self::Mask, stamps: &[u64], region: usize, at: Moment) -> Found;

    /// Returns the value that the spots of an item added at this moment are set to.
    fn mark(at: Moment) -> Self::Mark;

    /// Prepares a region for an item that is added at this moment. Returns the change of the number of set cells,
    /// wrapping; `None` if the region takes no item of that moment.
    fn open<S: Spot>(words: &mut [u64], stamps: &mut [u64], region: usize, at: Moment) -> Option<u64>;

    /// Returns these words as lines.
    fn lines(words: &[u64]) -> &[Self::Line];

    /// Returns these words as mutable lines.
    fn lines_mut(words: &mut [u64]) -> &mut [Self::Line];

    /// Returns how many words of a spot, one line apart, a purpose needs.
    fn planes(purpose: Purpose) -> u32;

    /// Returns the number of set cells whose first bit is in `words`. The first of them is word `start` of the layer;
    /// stamps begin at word `stamps_from`. O(words).
    fn count_set(words: &[u64], start: usize, stamps_from: usize) -> u64;

    /// Sets what is set in a segment that begins at byte `offset`, and clears nothing that is live. Cells or stamps
    /// may be empty if they are all clear. Returns false, and changes nothing, if the segment does not fit or is not
    /// valid for this cell type. O(bytes).
    fn add_segment(cells: &mut Cells, offset: usize, bytes: &[u8], stamps: &[u8]) -> bool;

    /// Returns the rule that the cells break, if any. O(bytes).
    fn broken_rule(cells: &Cells) -> Option<&'static str>;
}

/// Reads and sets cells at a spot.
pub trait At<S: Spot>: Cell {
    /// Returns the mask of a spot, over all its probes.
    fn look(region: &S::Region<Self>, spot: S) -> Self::Mask;

    /// Sets a spot. Returns how many of its cells were clear.
    fn set(region: &mut S::Region<Self>, spot: S, mark: Self::Mark) -> u32;

    /// Counts a spot down. Returns how many of its cells became clear. If one of them was not set or cannot be
    /// counted down, returns `None` and changes nothing.
    fn unset(_region: &mut S::Region<Self>, _spot: S) -> Option<u32> {
        None
    }

    /// Returns the first word of a spot in a plane.
    fn word(region: &S::Region<Self>, spot: S, plane: usize) -> Option<&u64>;
}

/// The result of a lookup in a layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Whether the item is present and has not expired.
    pub is_live: bool,
    /// Whether an add at this moment would change nothing.
    pub is_current: bool,
}
