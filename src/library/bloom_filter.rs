//! A Bloom filter for other Rust programs: the filter of the server, without a server.
//!
//! A program creates a filter, or reads one from a server in every format that the module supports and writes it back.
//! A program with many lookups can keep a local copy of a filter, and query the server only about items that may be in
//! the filter.

use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};

use everbloom_filter::filter::dumps::{Dump, still_dump_id};
use everbloom_filter::filter::loading::FilterValue;
use everbloom_filter::generation::Steps;
use everbloom_filter::{
    AddError, Added, Filter, FilterSpec, Format, Layer, OutOfMemory, Policy, Table, UnknownMemory, Validation,
};
use everbloom_format::chunks::{ChunkError, DumpError, Trust};
use everbloom_format::filter as encoding;
use everbloom_format::payload::{DumpField, DumpFields, format_of};
use everbloom_format::{DecodeError, Sink, Source, value};

use everbloom_processor::Processor;

use crate::{CreateError, ItemLife, Options, WithinError};

/// The largest size of a filter in bytes: only the memory and the format limit it.
const NO_LIMIT: u64 = u64::MAX;

/// The statistics of one layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerStats {
    /// Bits of the array.
    pub size_bits: u64,
    /// Bits that are set.
    pub set_bits: u64,
}

/// A Bloom filter. A lookup returns that an item was certainly not added, or that it probably was.
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
pub struct BloomFilter(pub(crate) Filter);

impl BloomFilter {
    /// Returns an empty filter of everbloom's own format. O(1): memory is taken when items are added.
    ///
    /// # Errors
    /// [`CreateError`].
    pub fn new(options: Options) -> Result<Self, CreateError> {
        let policy = Policy::Everbloom(options.promise()?);
        let spec = FilterSpec { policy, hash: everbloom_filter::Hash::Murmur3 };
        Filter::reserve(spec, &NO_LIMIT).map(Self).map_err(CreateError::Reserve)
    }

    /// Adds an item. Returns whether it was new. O(layers * probes).
    ///
    /// # Errors
    /// [`AddError`] if a new item cannot be added; the filter is then unchanged.
    pub fn add(&mut self, item: &[u8]) -> Result<bool, AddError> {
        self.0.add(item, &NO_LIMIT, Processor).map(|added| added == Added::New)
    }

    /// Returns whether the item may be in the filter: always true for an item that was added and has not expired or
    /// been removed. O(layers * probes).
    #[must_use]
    pub fn contains(&self, item: &[u8]) -> bool {
        self.0.contains(item, Processor)
    }

    /// Adds many items, with the same result as one [`add`](Self::add) after another, in a fraction of the time if the
    /// filter is larger than the processor's caches. Returns one result per item. If a full filter of fixed size
    /// refuses an item, its error is the last result, and later items are not added. O(items * layers * probes).
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
        let mut results = Vec::with_capacity(items.len());
        self.0.add_many(items, &NO_LIMIT, Processor, |outcome| {
            results.push(outcome.map(|added| added == Added::New));
            outcome != Err(AddError::Full)
        });
        results
    }

    /// Returns whether each item may have been added. O(items * layers * probes).
    #[must_use]
    pub fn contains_many(&self, items: &[&[u8]]) -> Vec<bool> {
        let mut results = Vec::with_capacity(items.len());
        self.0.contains_many(items, self.0.now(), Processor, |found| results.push(found));
        results
    }

    /// Returns whether each item may have been added, at a time as in [`contains_at`](Self::contains_at).
    /// O(items * layers * probes).
    #[must_use]
    pub fn contains_many_at(&self, mut items: &[&[u8]], now_ms: u64) -> Vec<bool> {
        let mut results = Vec::with_capacity(items.len());
        let now = self.0.window_at(now_ms).map_or(0, |window| window.moment().now);
        self.0.contains_items(&mut items, now, Processor, &mut |found, items| {
            results.extend((0..items).map(|index| found >> index & 1 == 1));
        });
        results
    }

    /// Returns the number of added items. O(layers).
    #[must_use]
    pub fn items(&self) -> u64 {
        self.0.items()
    }

    /// Returns the capacity: the reserved number of items, or the default if nobody reserved the filter. If the filter
    /// has more items, it has a table, whose capacity is the number of items at which its current doubling ends. Then
    /// the capacity is that of the table and of the layers, if there are any. O(layers).
    #[must_use]
    pub fn capacity_items(&self) -> u64 {
        self.0.capacity_items()
    }

    /// Returns the memory of the filter in bytes. O(layers).
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.0.size_bytes()
    }

    /// Returns the share of set bits over all layers, between 0 and 1. It is about one half if the layers are full, and
    /// 0 without layers. O(layers).
    #[must_use]
    pub fn fill(&self) -> f64 {
        let layers = self.layers();
        let sum = |bits: fn(&LayerStats) -> u64| layers.iter().map(bits).fold(0, u64::saturating_add);
        sum(|layer| layer.set_bits) as f64 / sum(|layer| layer.size_bits).max(1) as f64
    }

    /// Returns the statistics of the layers, the oldest first. O(layers).
    #[must_use]
    pub fn layers(&self) -> Vec<LayerStats> {
        let stats = |layer: &Layer| LayerStats {
            size_bits: layer.bits().size_bits(),
            set_bits: layer.counts().set_bits,
        };
        self.0.layers().iter().map(stats).collect()
    }

    /// Returns the memory of the table in bytes; `None` if the filter has no table. O(1).
    #[must_use]
    pub fn table_bytes(&self) -> Option<u64> {
        self.0.table().map(Table::size_bytes)
    }

    /// Returns a digest of the contents. Two filters with the same replies and the same saved form have equal
    /// digests, on every server. Other filters have equal digests with a probability of 2^-64. O(bytes).
    #[must_use]
    pub fn digest(&self) -> u64 {
        let mut digest = DefaultHasher::new();
        encoding::digest(&self.0, UnknownMemory, &mut |bytes| bytes.hash(&mut digest));
        digest.finish()
    }

    /// Returns the window of a sliding-window filter, in milliseconds; `None` for other filters. O(1).
    #[must_use]
    pub fn window_ms(&self) -> Option<u64> {
        self.0.window().map(|window| window.span.ms())
    }

    /// Sets the time of a sliding-window filter for the following lookups and adds, in milliseconds of UNIX time. The
    /// initial time of a filter that was read is that of its newest item. A time before the generation of the newest
    /// item counts as the start of that generation. Does nothing to other filters. O(1).
    pub fn set_time(&mut self, now_ms: u64) {
        self.0.set_now(now_ms);
    }

    /// Returns whether the item may have been added, at a time in milliseconds of UNIX time instead of the filter's
    /// own time. This is for filters that several threads share. The time matters to sliding-window filters only.
    /// O(layers * probes).
    #[must_use]
    pub fn contains_at(&self, item: &[u8], now_ms: u64) -> bool {
        self.0.contains_at(item, now_ms, Processor)
    }

    /// Returns whether an item may have been added at most `within_ms` milliseconds before `now_ms`, a time in milliseconds
    /// of UNIX time. Always returns true for an item of which an add in that time was stored without a life of its own;
    /// also for one that was added at most a step of the window earlier. O(1).
    ///
    /// # Errors
    /// [`WithinError`].
    pub fn seen_within(&self, item: &[u8], within_ms: u64, now_ms: u64) -> Result<bool, WithinError> {
        let window = self.0.window_at(now_ms).ok_or(WithinError::NoWindow)?;
        if within_ms > window.span.ms() {
            return Err(WithinError::BeyondWindow);
        }
        Ok(self.0.contains_in(item, window.seen_within(within_ms), Processor))
    }

    /// Returns how long an item is found after `now_ms`, a time in milliseconds of UNIX time. O(layers * probes).
    #[must_use]
    pub fn remaining_life(&self, item: &[u8], now_ms: u64) -> ItemLife {
        let now = self.0.generation_at(|| now_ms);
        match self.0.item_end(item, now, Processor) {
            None => ItemLife::Absent,
            Some(u64::MAX) => ItemLife::Endless,
            Some(end_ms) => ItemLife::Left(end_ms.saturating_sub(now_ms)),
        }
    }

    /// Returns the steps of the window of a sliding-window filter; `None` for other filters. O(1).
    #[must_use]
    pub fn window_steps(&self) -> Option<Steps> {
        self.0.window().map(|window| window.span.steps())
    }

    /// Checks every rule of filters, for tests of this crate and of others. O(bytes).
    ///
    /// # Errors
    /// The rule that is broken, because of a bug in this crate.
    #[doc(hidden)]
    pub fn internal_validate(&self) -> Result<(), &'static str> {
        self.0.internal_validate(Validation::Contents)
    }

    /// Returns the data format of the filter.
    #[must_use]
    pub fn format(&self) -> Format {
        self.0.format()
    }

    /// Returns a copy with its own memory. O(bytes).
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn try_clone(&self) -> Result<Self, OutOfMemory> {
        self.0.try_clone(UnknownMemory).map(Self)
    }

    /// Returns the chunks that BF.SCANDUMP replies, each with its iterator for BF.LOADCHUNK. A server with the module,
    /// or [`Loader`], makes the same filter from them. O(bytes).
    ///
    /// ```
    /// use everbloom::{BloomFilter, Loader, Options};
    ///
    /// let mut filter = BloomFilter::new(Options::default())?;
    /// filter.add(b"alice")?;
    /// let chunks = filter.chunks().collect::<Result<Vec<_>, _>>()?;
    /// let (_, header) = &chunks[0];
    /// let mut loader = Loader::new(header)?;
    /// for (iterator, chunk) in &chunks[1..] {
    ///     loader.load(*iterator, chunk)?;
    /// }
    /// assert!(loader.finish()?.contains(b"alice"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn chunks(&self) -> Chunks<'_> {
        let dump = self.0.dump_as(still_dump_id(RandomState::new().hash_one(0)));
        Chunks { filter: &self.0, dump, next_iterator: Some(0) }
    }

    /// Writes the filter as a value of its data type, field by field, as in a snapshot. O(bytes).
    pub fn save(&self, sink: &mut impl Sink) {
        encoding::save(&self.0, sink, UnknownMemory);
    }

    /// Reads a value of the data type of a format, in any encoding version that was released. O(bytes).
    ///
    /// # Errors
    /// [`DecodeError`].
    pub fn load(
        format: Format,
        encoding_version: i32,
        source: &mut impl Source,
    ) -> Result<Self, DecodeError> {
        match value::load(format, encoding_version, source, &NO_LIMIT)? {
            FilterValue::Complete(filter) => Ok(Self(filter)),
            FilterValue::Loading(_) => Err(DecodeError::Loading),
        }
    }

    /// Reads the reply of DUMP for a filter of any format. `decompress` returns what bytes compressed with LZF expand to, with
    /// the number of bytes that this should be; `None` if they are not valid. The checksum is not checked. O(bytes).
    ///
    /// # Errors
    /// [`DecodeError`], also for a value of another type and for a value with more fields, which may be from a newer release.
    pub fn from_dump(
        payload: &[u8],
        decompress: impl Fn(&[u8], u64) -> Option<Vec<u8>> + Copy,
    ) -> Result<Self, DecodeError> {
        let (id, mut fields) = DumpFields::of_payload(payload, decompress).ok_or(DecodeError::Truncated)?;
        let (format, version) = format_of(id).ok_or(DecodeError::Invalid("data type"))?;
        let filter = Self::load(format, version, &mut fields)?;
        let is_at_end = fields.next_field() == Some(DumpField::End);
        if is_at_end { Ok(filter) } else { Err(DecodeError::Invalid("number of fields")) }
    }

    /// Reads the argument of a BF.LOAD, as valkey-bloom writes it to an append-only file. O(bytes).
    ///
    /// # Errors
    /// [`DecodeError`].
    pub fn from_blob(blob: &[u8]) -> Result<Self, DecodeError> {
        encoding::from_blob(blob, &NO_LIMIT).map(Self)
    }
}

/// An iterator over the chunks of a filter; see [`BloomFilter::chunks`].
#[derive(Debug)]
pub struct Chunks<'f> {
    filter: &'f Filter,
    dump: Dump,
    /// `None` after the end.
    next_iterator: Option<u64>,
}

impl Iterator for Chunks<'_> {
    type Item = Result<(u64, Vec<u8>), DumpError>;

    fn next(&mut self) -> Option<Self::Item> {
        let chunk = encoding::chunk(self.filter, Some(self.dump), self.next_iterator?).transpose();
        self.next_iterator = None;
        Some(chunk?.map(|chunk| {
            self.next_iterator = Some(chunk.next_iterator);
            (chunk.next_iterator, chunk.data.into_owned())
        }))
    }
}

/// Creates a filter, of any format, from the chunks of BF.SCANDUMP.
#[derive(Debug)]
pub struct Loader(pub(crate) FilterValue);

impl Loader {
    /// Returns a loader for a dump, whose first chunk is `header`. O(layers).
    ///
    /// # Errors
    /// [`DecodeError`].
    pub fn new(header: &[u8]) -> Result<Self, DecodeError> {
        value::from_header(header, &NO_LIMIT).map(Self)
    }

    /// Loads a chunk with its iterator. Chunks may be loaded in any order. O(bytes). The last chunk of a filter with a table:
    /// O(bytes of the filter).
    ///
    /// # Errors
    /// [`ChunkError`]; the filter is then unchanged.
    pub fn load(&mut self, iterator: u64, chunk: &[u8]) -> Result<(), ChunkError> {
        let trust = Trust::Client { now_ms: u64::MAX };
        value::load_chunk(&mut self.0, iterator, chunk, trust, &NO_LIMIT).map(|_| ())
    }

    /// Returns the filter with the items of the loaded chunks.
    ///
    /// # Errors
    /// [`DecodeError::Loading`] if a chunk of a filter with a table is missing. In filters of bits alone, a missing chunk is
    /// not noticed.
    pub fn finish(self) -> Result<BloomFilter, DecodeError> {
        match self.0 {
            FilterValue::Complete(filter) => Ok(BloomFilter(filter)),
            FilterValue::Loading(_) => Err(DecodeError::Loading),
        }
    }
}
