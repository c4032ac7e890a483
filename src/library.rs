//! A Bloom filter for other Rust programs: what a server has, without the server.
//!
//! It is made here or read from a server, in every format that the module knows, and written back. A program
//! that asks often can so keep a filter beside itself, and ask the server only about what may be in it.

mod forgetting;
mod parallel;
mod sizes;

pub use parallel::Tally;
pub use sizes::{LayerSize, layer_sizes, window_layer_sizes};
use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};

use thiserror::Error;

use crate::bloom::{
    AddError, Added, CellType, Depth, Filter, Format, Growth, Layer, OutOfMemory, Policy, Promise,
    ReserveError, Spec, UnknownMemory,
};
use crate::format::filter as encoding;
use crate::format::pieces::{ChunkError, Trust};
use crate::format::{DecodeError, Sink, Source};

#[cfg(not(feature = "prefetch"))]
use crate::bloom::NoPrefetch as Processor;
#[cfg(feature = "prefetch")]
use crate::prefetch::Processor;

/// No limit but the memory there is and what the format can express.
const NO_LIMIT: u64 = u64::MAX;

/// What a new filter shall be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Promised share of false positives among items that were never added, over the whole life of the
    /// filter; strictly between 0 and 1.
    pub error_rate: f64,
    /// Items that the filter holds before it grows, 1 to 2^40.
    pub capacity_items: u64,
    /// What happens then: [`Growth::Fixed`] refuses further items, [`Growth::Scaling`] adds a layer.
    pub growth: Growth,
}

impl Default for Options {
    /// What BF.ADD makes: 100 items at 1 %, each further layer twice as large.
    fn default() -> Self {
        let Promise { error_rate, capacity_items, growth } = Promise::default();
        Self { error_rate, capacity_items, growth }
    }
}

impl Options {
    /// Returns what such a filter promises.
    fn promise(self) -> Result<Promise, CreateError> {
        let Self { error_rate, capacity_items, growth } = self;
        let promise = Promise { error_rate, capacity_items, growth };
        promise.validate().map_err(CreateError::Option)?;
        Ok(promise)
    }
}

/// Why a filter was not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CreateError {
    /// An option is out of its range; holds its name.
    #[error("{0} is out of its range")]
    Option(&'static str),
    /// The filter does not fit the memory there is, or is larger than a filter may be.
    #[error("{0}")]
    Reserve(ReserveError),
}

/// What there is to say of one layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerFacts {
    /// Bits of the array.
    pub size_bits: u64,
    /// Bits that are set.
    pub set_bits: u64,
}

/// A Bloom filter: tells whether an item was never added, or probably was.
///
/// ```
/// use everbloom::{BloomFilter, Options};
///
/// let options = Options { error_rate: 0.001, capacity_items: 10_000, ..Options::default() };
/// let mut visited = BloomFilter::new(options)?;
/// assert!(visited.add(b"https://example.org/")?);
/// assert!(visited.contains(b"https://example.org/"));
/// assert!(!visited.contains(b"https://example.com/"));
/// // An item that is there already, or a false positive, changes nothing.
/// assert!(!visited.add(b"https://example.org/")?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct BloomFilter(Filter);

impl BloomFilter {
    /// An empty filter of everbloom's own format. O(1): the system gives the memory when bits are set.
    ///
    /// # Errors
    /// [`CreateError`].
    pub fn new(options: Options) -> Result<Self, CreateError> {
        let policy = Policy::Promise(options.promise()?);
        let spec = Spec { policy, hash: crate::bloom::Hash::Murmur3, cells: CellType::Bits };
        Filter::reserve(spec, &NO_LIMIT).map(Self).map_err(CreateError::Reserve)
    }

    /// Adds an item; true if it was not there before. O(layers * probes).
    ///
    /// # Errors
    /// [`AddError`] where a new item finds no room; the filter is then as it was.
    pub fn add(&mut self, item: &[u8]) -> Result<bool, AddError> {
        self.0.add(item, &NO_LIMIT, Processor).map(|added| added == Added::New)
    }

    /// Whether the item may have been added: never false for one that was. O(layers * probes).
    #[must_use]
    pub fn contains(&self, item: &[u8]) -> bool {
        self.0.contains(item, Processor)
    }

    /// Adds many items, as one [`add`](Self::add) after another would, in a fraction of the time where the
    /// filter is larger than the processor's caches. One answer per item; a full fixed filter ends the run,
    /// and the answers are then fewer than the items. O(items * layers * probes).
    ///
    /// ```
    /// use everbloom::{BloomFilter, Options};
    ///
    /// let mut filter = BloomFilter::new(Options::default())?;
    /// let added = filter.add_many(&[b"alice", b"bob", b"alice"]).into_iter();
    /// assert_eq!(added.collect::<Result<Vec<bool>, _>>()?, [true, true, false]);
    /// assert_eq!(filter.contains_many(&[b"bob", b"carol"]), [true, false]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn add_many(&mut self, items: &[&[u8]]) -> Vec<Result<bool, AddError>> {
        let mut answers = Vec::with_capacity(items.len());
        self.0.add_many(items, &NO_LIMIT, Processor, |outcome| {
            answers.push(outcome.map(|added| added == Added::New));
            outcome != Err(AddError::Full)
        });
        answers
    }

    /// Whether each item may have been added. O(items * layers * probes).
    #[must_use]
    pub fn contains_many(&self, items: &[&[u8]]) -> Vec<bool> {
        let mut answers = Vec::with_capacity(items.len());
        self.0.contains_many(items, Processor, |found| answers.push(found));
        answers
    }

    /// Items that were added. O(layers).
    #[must_use]
    pub fn items(&self) -> u64 {
        self.0.items()
    }

    /// Items that the layers there are were sized for. O(layers).
    #[must_use]
    pub fn capacity_items(&self) -> u64 {
        self.0.capacity_items()
    }

    /// Memory of the filter in bytes. O(layers).
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.0.size_bytes()
    }

    /// Share of bits that are set, over all layers, between 0 and 1: about one half in a layer that holds
    /// what it was sized for. O(layers).
    #[must_use]
    pub fn fill(&self) -> f64 {
        let counts =
            self.0.layers().iter().map(|layer| (layer.counts().set_cells, layer.cells().size_bits()));
        let (set, all) = counts.fold((0u64, 0u64), |(set, all), (set_bits, size_bits)| {
            (set.saturating_add(set_bits), all.saturating_add(size_bits))
        });
        set as f64 / all.max(1) as f64
    }

    /// Its layers, the oldest first. O(layers).
    #[must_use]
    pub fn layers(&self) -> Vec<LayerFacts> {
        let facts = |layer: &Layer| LayerFacts {
            size_bits: layer.cells().size_bits(),
            set_bits: layer.counts().set_cells,
        };
        self.0.layers().iter().map(facts).collect()
    }

    /// A number that two filters share if they answer and are saved alike, whichever server each of them comes
    /// from, and else only by a chance of 2^-64. O(bytes).
    #[must_use]
    pub fn digest(&self) -> u64 {
        let mut digest = DefaultHasher::new();
        encoding::digest(&self.0, &mut |bytes| bytes.hash(&mut digest));
        digest.finish()
    }

    /// Checks every rule that filters keep, for tests of this crate and of others. O(bytes).
    ///
    /// # Errors
    /// What breaks a rule: a fault of this crate.
    #[doc(hidden)]
    pub fn internal_validate(&self) -> Result<(), &'static str> {
        self.0.internal_validate(Depth::Cells)
    }

    /// Whose bits and bytes the filter has.
    #[must_use]
    pub fn format(&self) -> Format {
        self.0.format()
    }

    /// A copy with its own memory. O(bytes).
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn try_clone(&self) -> Result<Self, OutOfMemory> {
        self.0.try_clone(UnknownMemory).map(Self)
    }

    /// The pieces that BF.SCANDUMP replies, each with the iterator that BF.LOADCHUNK is to be sent with: any
    /// server with the module, or [`Loader`], makes the same filter of them. O(bytes).
    ///
    /// ```
    /// use everbloom::{BloomFilter, Loader, Options};
    ///
    /// let mut filter = BloomFilter::new(Options::default())?;
    /// filter.add(b"alice")?;
    /// let pieces = filter.pieces().collect::<Result<Vec<_>, _>>()?;
    /// let (_, header) = &pieces[0];
    /// let mut loader = Loader::new(header)?;
    /// for (iterator, chunk) in &pieces[1..] {
    ///     loader.load(*iterator, chunk)?;
    /// }
    /// assert!(loader.finish().contains(b"alice"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn pieces(&mut self) -> Pieces<'_> {
        // Ties the pieces to one another: a number that no other dump has.
        self.0.mark_state(RandomState::new().hash_one(0));
        Pieces { filter: &self.0, next_iterator: Some(0) }
    }

    /// Writes the filter as a value of the data type of its format, field by field, as a snapshot holds it.
    /// O(bytes).
    pub fn save(&mut self, sink: &mut impl Sink) {
        encoding::save(&mut self.0, sink, UnknownMemory);
    }

    /// Reads a value of the data type of a format, of any encoding version that was ever released. O(bytes).
    ///
    /// # Errors
    /// [`DecodeError`].
    pub fn load(
        format: Format,
        encoding_version: i32,
        source: &mut impl Source,
    ) -> Result<Self, DecodeError> {
        encoding::load(format, encoding_version, source, &NO_LIMIT).map(Self)
    }

    /// Reads the argument of a BF.LOAD, as valkey-bloom writes it to an append-only file. O(bytes).
    ///
    /// # Errors
    /// [`DecodeError`].
    pub fn from_blob(blob: &[u8]) -> Result<Self, DecodeError> {
        encoding::from_blob(blob, &NO_LIMIT).map(Self)
    }
}

/// The pieces of a filter; see [`BloomFilter::pieces`].
#[derive(Debug)]
pub struct Pieces<'f> {
    filter: &'f Filter,
    /// Nothing after the end.
    next_iterator: Option<u64>,
}

impl Iterator for Pieces<'_> {
    type Item = Result<(u64, Vec<u8>), OutOfMemory>;

    fn next(&mut self) -> Option<Self::Item> {
        let piece = encoding::piece(self.filter, self.next_iterator?).transpose();
        self.next_iterator = None;
        Some(piece?.map(|piece| {
            self.next_iterator = Some(piece.next_iterator);
            (piece.next_iterator, piece.data.into_owned())
        }))
    }
}

/// Makes a filter of the pieces that BF.SCANDUMP replies, of filters of any format.
#[derive(Debug)]
pub struct Loader(Filter);

impl Loader {
    /// Begins with the header, the piece whose iterator is 1. O(layers).
    ///
    /// # Errors
    /// [`DecodeError`].
    pub fn new(header: &[u8]) -> Result<Self, DecodeError> {
        encoding::from_header(header, &NO_LIMIT).map(Self)
    }

    /// Takes a chunk with the iterator that was replied together with it, in any order. O(bytes).
    ///
    /// # Errors
    /// [`ChunkError`]; the filter is then as it was.
    pub fn load(&mut self, iterator: u64, chunk: &[u8]) -> Result<(), ChunkError> {
        encoding::load_chunk(&mut self.0, iterator, chunk, Trust::Marks)
    }

    /// The filter, which knows what the chunks so far told it.
    #[must_use]
    pub fn finish(self) -> BloomFilter {
        BloomFilter(self.0)
    }
}
