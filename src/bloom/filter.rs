//! A filter: layers and a policy.

use smallvec::SmallVec;

use super::cells::{CellState, CellType};
use super::digest::Group;
use super::dump::{Dump, DumpId, Dumps};
use super::extent::Extent;
use super::group::ItemSet;
use super::growth::Growth;
use super::hash::Hash;
use super::hash::murmur2::Murmur2;
use super::layer::{Layer, LayerSpec};
use super::memory::{Memory, OutOfMemory};
use super::outcome::{AddError, ByteLimit, ReserveError};
use super::policy::Policy;
use super::validate::Depth;
use super::window::{Window, live_items};

/// A filter of one or more layers, oldest first.
///
/// A single layer is stored in the struct itself: most filters have one, and a server may have millions of filters.
#[derive(Debug)]
pub struct Filter {
    pub(super) layers: SmallVec<[Layer; 1]>,
    pub(super) policy: Policy,
    /// `None` for filters that were never dumped or loaded in chunks, which are most.
    pub(super) dumps: Option<Box<Dumps>>,
}

// A server may have millions of small filters.
const _: () = assert!(size_of::<Layer>() == 72 && size_of::<Filter>() == 112);

/// The parameters of a filter to create.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// The promise of the filter and its growth.
    pub policy: Policy,
    /// The hash of its layers.
    pub hash: Hash,
    /// The cell type of its layers.
    pub cells: CellType,
}

impl Filter {
    /// Creates an empty filter. The spec must be valid.
    ///
    /// # Errors
    /// If the first layer is larger than `limit` or than the available memory.
    pub fn reserve(spec: Spec, limit: &dyn ByteLimit) -> Result<Self, ReserveError> {
        let Spec { policy, hash, cells } = spec;
        let first = policy.next_layer(&[], hash, cells).map_err(|error| match error {
            AddError::CannotGrow(error) => error,
            AddError::Full | AddError::NotEncodable(_) => ReserveError::TooLong,
        })?;
        let mut filter = Self { layers: SmallVec::new(), policy, dumps: None };
        filter.push_layer(first, limit)?;
        Ok(filter)
    }

    /// Creates a filter from layers that a decoder has built. O(layers).
    ///
    /// # Errors
    /// The rule of filters that is broken: see [`internal_validate`](Self::internal_validate).
    pub fn from_layers(policy: Policy, layers: Vec<Layer>) -> Result<Self, &'static str> {
        // A single layer moves into the struct.
        let layers = if layers.len() > 1 { layers.into() } else { layers.into_iter().collect() };
        let mut filter = Self { layers, policy, dumps: None };
        if let Policy::Window(window) = &mut filter.policy {
            window.find_newest(&filter.layers);
        }
        filter.internal_validate(Depth::Layers)?;
        Ok(filter)
    }

    /// Returns the parameters of the filter.
    #[must_use]
    pub fn spec(&self) -> Spec {
        let hash = self.layers.first().map_or(Hash::Murmur3, |first| *first.hash());
        Spec { policy: self.policy.emptied(), hash, cells: self.cell_type() }
    }

    /// Returns the policy: the promise of the filter and its growth.
    #[must_use]
    pub const fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Returns the layers, oldest first; at least one.
    #[must_use]
    #[inline(always)]
    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// Returns the mutable layers, for a decoder that fills them.
    pub fn layers_mut(&mut self) -> &mut [Layer] {
        &mut self.layers
    }

    /// Returns the cell type, the same in all layers.
    #[must_use]
    #[inline(always)]
    pub fn cell_type(&self) -> CellType {
        cell_type(&self.layers)
    }

    /// Returns the number of layers.
    #[must_use]
    #[inline(always)]
    pub fn layer_count(&self) -> usize {
        self.layers.len()
    }

    /// Returns the number of added items. In counters it is less by the deleted items; in a window only live items
    /// count. O(layers).
    #[must_use]
    #[inline]
    pub fn items(&self) -> u64 {
        match self.layers.as_slice() {
            [only] if matches!(only.cells().state(), CellState::Bits) => only.counts().items,
            layers if self.cell_type() == CellType::Bits => {
                layers.iter().fold(0, |sum, layer| sum.saturating_add(layer.counts().items))
            }
            layers => self.sum(layers, |state, layer| match state {
                CellState::Counters(state) => state.occurrences,
                _ => self.distinct_items_of(layer),
            }),
        }
    }

    /// Returns the number of items that only commands change, over all layers. It is 0 for a window, whose items
    /// expire without a command. O(layers).
    #[must_use]
    pub fn counted_items(&self) -> u64 {
        if self.window().is_some() { 0 } else { self.items() }
    }

    /// Returns the number of layers, and the part of the [counted items](Self::counted_items) that adds can have
    /// changed since the filter had `layers` layers. A larger `layers` than the current number means the current
    /// number. Adds change the count of the last layer, adds to counters that of any. O(1) if no layer was added
    /// since; O(layers) for counters.
    #[must_use]
    #[inline(always)]
    pub fn counts_since(&self, layers: usize) -> (usize, u64) {
        let all = self.layers.as_slice();
        let (count, Some(last)) = (all.len(), all.last()) else { return (0, 0) };
        let items = match (&self.policy, last.cells().state()) {
            (Policy::Window(_), _) => 0,
            (_, CellState::Bits) if layers >= count => last.counts().items,
            (_, CellState::Bits) => {
                let layers = all.iter().skip(layers.saturating_sub(1));
                layers.fold(0u64, |sum, layer| sum.saturating_add(layer.counts().items))
            }
            (_, CellState::Counters(state)) if count == 1 => state.occurrences,
            _ => self.items(),
        };
        (count, items)
    }

    /// Returns the number of items that count towards the capacity: as [`items`](Self::items), but counters count
    /// each item once. O(layers).
    #[must_use]
    pub fn distinct_items(&self) -> u64 {
        self.sum(&self.layers, |_, layer| self.distinct_items_of(layer))
    }

    /// Returns the number of items of a layer that count towards its capacity.
    #[must_use]
    pub fn distinct_items_of(&self, layer: &Layer) -> u64 {
        match &self.policy {
            Policy::Window(window) => live_items(layer, window.moment().now),
            _ => layer.counts().items,
        }
    }

    #[inline(never)]
    fn sum(&self, layers: &[Layer], items: impl Fn(&CellState, &Layer) -> u64) -> u64 {
        layers.iter().fold(0, |sum, layer| sum.saturating_add(items(layer.cells().state(), layer)))
    }

    /// Returns the sum of the capacities of all layers. O(layers).
    #[must_use]
    pub fn capacity_items(&self) -> u64 {
        self.layers.iter().fold(0, |sum, layer| sum.saturating_add(layer.capacity_items()))
    }

    /// Returns how many new items the last layer takes before it is full. O(1).
    #[must_use]
    #[inline(always)]
    pub fn room_items(&self) -> u64 {
        self.layers.last().map_or(0, Layer::room_items)
    }

    /// Returns the number of set cells over all layers. O(layers).
    #[must_use]
    pub fn set_cells(&self) -> u64 {
        self.layers.iter().fold(0, |sum, layer| sum.saturating_add(layer.counts().set_cells))
    }

    /// Returns the memory of the filter in bytes: its structs and cells. O(layers).
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        Extent::of(&self.layers).needed_bytes()
    }

    /// Returns what happens when the last layer is full.
    #[must_use]
    #[inline(always)]
    pub fn growth(&self) -> Growth {
        self.policy.growth()
    }

    /// Returns whether the next new item fits without another layer. O(1); O(layers) for a window.
    #[must_use]
    #[inline(always)]
    pub fn has_room(&self) -> bool {
        if let Policy::Window(window) = &self.policy {
            return window.has_room(&self.layers);
        }
        self.layers.last().is_some_and(|layer| !layer.is_full()) || self.growth() == Growth::Saturating
    }

    /// Returns whether the filter equals the result of [`try_emptied`](Self::try_emptied): one layer without items
    /// and set cells, and no dump whose chunks it takes. O(1).
    #[must_use]
    pub fn is_empty(&self) -> bool {
        matches!(self.layers.as_slice(), [only] if only.is_empty()) && self.origin().is_none()
    }

    /// Creates an empty filter with the parameters of this one. O(1).
    ///
    /// # Errors
    /// If it is larger than `limit`, which is possible for parameters from a header, or than the available memory.
    pub fn try_emptied(&self, limit: &dyn ByteLimit) -> Result<Self, ReserveError> {
        match &self.policy {
            // The first layer may have been freed, or may be from a filter that was merged into this one.
            Policy::Promise(_) | Policy::Merged(_) | Policy::Window(_) => Self::reserve(self.spec(), limit),
            Policy::United(_) => Self::reserve(Spec { hash: Hash::Murmur3, ..self.spec() }, limit),
            // A loaded layer may have parameters that no new layer would have.
            Policy::RedisBloom(_) | Policy::ValkeyBloom(_) | Policy::Imported(_) => {
                let first = self.layers.first().ok_or(ReserveError::TooLong)?;
                let layers = std::iter::once(Layer::try_new(first.spec())?).collect();
                Ok(Self { layers, policy: self.policy.emptied(), dumps: None })
            }
        }
    }

    /// Makes a copy with its own memory.
    ///
    /// # Errors
    /// [`OutOfMemory`] if an allocation fails.
    pub fn try_clone(&self, memory: impl Memory) -> Result<Self, OutOfMemory> {
        let mut layers = SmallVec::new();
        layers.try_reserve_exact(self.layers.len()).map_err(|_| OutOfMemory)?;
        for layer in &self.layers {
            layers.push(layer.try_clone(memory)?);
        }
        Ok(Self { layers, policy: self.policy.clone(), dumps: None })
    }

    /// Returns the window of a sliding-window filter, with its current time.
    #[must_use]
    #[inline(always)]
    pub fn window(&self) -> Option<&Window> {
        if let Policy::Window(window) = &self.policy { Some(window) } else { None }
    }

    /// Returns the mutable window of a sliding-window filter.
    #[inline(always)]
    pub fn window_mut(&mut self) -> Option<&mut Window> {
        if let Policy::Window(window) = &mut self.policy { Some(window) } else { None }
    }

    /// Sets the hash of RedisBloom 1.1 if that release may have written the filter, which the bytes do not show.
    pub fn assume_redisbloom_1_1(&mut self) {
        let Policy::RedisBloom(policy) = &self.policy else { return };
        if policy.may_be_of_release_1_1() {
            let hash = Hash::RedisBloom(Murmur2::WideCutSeeds);
            self.layers.iter_mut().for_each(|layer| layer.set_hash(hash));
        }
    }

    /// Checks that an item can be in the filter: the encoding of an imported filter may not be able to express it.
    ///
    /// # Errors
    /// [`AddError::NotEncodable`].
    #[inline(always)]
    pub(super) fn admit(&self, item: &[u8]) -> Result<(), AddError> {
        match &self.policy {
            Policy::Imported(_) => self.admit_encodable(item),
            _ => Ok(()),
        }
    }

    #[inline(never)]
    fn admit_encodable(&self, item: &[u8]) -> Result<(), AddError> {
        let checked = self.layers.first().map_or(Ok(()), |first| first.hash().check(item));
        checked.map_err(|error| AddError::NotEncodable(error.0))
    }

    /// Returns the items of a group that can be in the filter.
    #[inline(always)]
    pub(super) fn admitted(&self, group: &mut Group<'_, '_>) -> ItemSet {
        match (&self.policy, self.layers.first()) {
            (Policy::Imported(_), Some(first)) => group.hashable(first.hash()),
            _ => group.all(),
        }
    }

    /// Returns the error for an item that cannot be in the filter.
    #[cold]
    pub(super) fn not_encodable(&self) -> AddError {
        match self.layers.first().map(Layer::hash) {
            Some(Hash::Client(_, encoding)) => AddError::NotEncodable(*encoding),
            _ => AddError::Full,
        }
    }

    /// Appends a layer.
    pub(super) fn push_layer(&mut self, layer: LayerSpec, limit: &dyn ByteLimit) -> Result<(), ReserveError> {
        Extent::of(&self.layers).with_spec(&layer).check(limit)?;
        // Reserves exactly one more: a growing vector would hold four layers for the two that most filters grow to.
        self.layers.try_reserve_exact(1).map_err(|_| ReserveError::OutOfMemory)?;
        self.layers.push(Layer::try_new(layer)?);
        if let Policy::Window(window) = &mut self.policy {
            window.set_end(window.end(), &self.layers);
        }
        Ok(())
    }

    /// Begins a dump of the current state. If nothing has changed since the last dump began, that one continues;
    /// otherwise it has ended, and the new one has the id `fresh`, a random number. O(layers).
    pub fn begin_dump(&mut self, fresh: DumpId) {
        let end = self.layers.iter().fold(0, |end, layer| layer.dump_range(end).end);
        self.dumps.get_or_insert_default().begin(end, fresh);
        self.layers.iter_mut().for_each(|layer| layer.cells_mut().begin_dump());
    }

    /// Returns the last dump that began and has not ended.
    #[must_use]
    pub fn dump(&self) -> Option<Dump> {
        self.dumps.as_ref().and_then(|dumps| dumps.last)
    }

    /// Returns the dump whose header created the filter and whose chunks the filter accepts.
    #[must_use]
    pub fn origin(&self) -> Option<DumpId> {
        self.dumps.as_ref().and_then(|dumps| dumps.origin)
    }

    /// Sets the dump whose header created the filter.
    pub fn set_origin(&mut self, id: DumpId) {
        self.dumps = Some(Box::new(Dumps::of_header(id)));
    }

    /// Records that the filter has changed since the last dump began.
    #[inline(always)]
    pub(super) fn note_change(&mut self) {
        if let Some(dumps) = &mut self.dumps {
            dumps.has_changed = true;
        }
    }

    /// Ends the last dump, and the load of chunks into the filter: its layers are no longer those of the headers.
    pub(super) fn end_dumps(&mut self) {
        self.dumps = None;
    }

    /// Adds a segment of a dump to layer `layer`, 0 being the oldest, at byte `offset`; see
    /// [`Cells::add_segment`](super::cells::Cells::add_segment). O(bytes).
    #[must_use]
    pub fn add_segment(&mut self, layer: usize, offset: usize, segment: &[u8]) -> bool {
        self.note_change();
        self.layers.get_mut(layer).is_some_and(|layer| layer.cells_mut().add_segment(offset, segment))
    }
}

/// Returns the cell type of the layers of a filter, the same in all of them.
#[inline(always)]
pub(super) fn cell_type(layers: &[Layer]) -> CellType {
    match layers.first().map_or(CellType::Bits, |first| first.cells().state().cell_type()) {
        // Only sliding-window filters have burst layers, besides layers of columns.
        CellType::Burst => CellType::Columns,
        cells => cells,
    }
}
