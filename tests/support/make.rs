//! Creates filters of every kind, each with one call.

use std::borrow::Cow;
use std::cell::Cell;

use everbloom_filter::bits::layout::{LayerParameters, SchemeLayout};
use everbloom_filter::filter::policy::redisbloom::RedisBloomOptions;
use everbloom_filter::filter::policy::{BitOrder, Imported, RedisBloom, StringForm, ValkeyBloom};
use everbloom_filter::generation::WindowLength;
use everbloom_filter::hash::scheme::SchemeParameters;
use everbloom_filter::hash::siphash::{HashKey, Seed};
use everbloom_filter::prefetch::NoPrefetch;
use everbloom_filter::table::{Addition, Table};
use everbloom_filter::{
    AddError, Added, ByteLimit, Filter, FilterSpec, Growth, GrowthBudget, Hash, Layer, Layout, Limit,
    OutOfMemory, Policy, Promise, Rules, Window,
};
use everbloom_format::chunks::Trust;
use everbloom_format::client::bitmap;

/// A limit that no filter exceeds.
pub const ANY: u64 = u64::MAX;
/// How a chunk of a client is verified. Its items may have any time.
pub const CLIENT: Trust = Trust::Client { now_ms: u64::MAX };
/// A limit that counts how often it is asked. A command that needs more memory asks once.
pub struct CountedLimit {
    bytes: u64,
    pub asked: Cell<usize>,
}

impl CountedLimit {
    pub const fn new(bytes: u64) -> Self {
        Self { bytes, asked: Cell::new(0) }
    }
}

impl ByteLimit for CountedLimit {
    fn limit(&self) -> Limit {
        self.asked.set(self.asked.get() + 1);
        self.bytes.into()
    }
}

/// The key of keyed filters.
pub const KEY: HashKey = HashKey::new(*b"0123456789abcdef");
/// A time in 2027, in milliseconds of UNIX time.
pub const START_MS: u64 = 1_800_000_000_000;

/// Returns the promise of a filter with this expansion factor. The factor 0 means a fixed filter.
pub fn promise(error_rate: f64, capacity_items: u64, expansion: u32) -> Promise {
    Promise { error_rate, capacity_items, growth: Growth::from_expansion(expansion) }
}

/// Returns the same promise as [`promise`], for an unreserved filter.
pub fn unreserved(error_rate: f64, capacity_items: u64, expansion: u32) -> Promise {
    let growth = Growth::from_expansion(expansion).unreserved();
    Promise { error_rate, capacity_items, growth }
}

/// Returns the promise of a saturating filter.
pub fn saturating(error_rate: f64, capacity_items: u64) -> Promise {
    Promise { error_rate, capacity_items, growth: Growth::Saturating }
}

/// Returns an empty filter whose hash has no key.
pub fn plain(promise: Promise) -> Filter {
    own(promise, Hash::Murmur3)
}

/// Returns an empty filter with a keyed hash.
pub fn keyed(promise: Promise) -> Filter {
    own(promise, Hash::Keyed(KEY))
}

/// Returns an empty counting filter.
pub fn counting(promise: Promise) -> Filter {
    reserve(Policy::promised(promise, Rules::Counting(Default::default())), Hash::Murmur3)
}

/// Returns an empty counting filter with a keyed hash.
pub fn keyed_counting(promise: Promise) -> Filter {
    reserve(Policy::promised(promise, Rules::Counting(Default::default())), Hash::Keyed(KEY))
}

/// Returns an empty filter of everbloom's own format that neither counts nor expires.
pub fn own(promise: Promise, hash: Hash) -> Filter {
    reserve(Policy::Everbloom(promise), hash)
}

/// Returns an empty filter with a window of this length.
pub fn window(promise: Promise, window_ms: u64) -> Filter {
    windowed(promise, Window::new(WindowLength::new(window_ms), false))
}

/// Returns an empty filter with this window.
pub fn windowed(promise: Promise, window: Window) -> Filter {
    reserve(Policy::promised(promise, Rules::Window(window)), Hash::Murmur3)
}

/// Returns an empty filter with a window of this length and a keyed hash.
pub fn keyed_window(promise: Promise, window_ms: u64) -> Filter {
    keyed_windowed(promise, Window::new(WindowLength::new(window_ms), false))
}

/// Returns an empty filter with this window and a keyed hash.
pub fn keyed_windowed(promise: Promise, window: Window) -> Filter {
    reserve(Policy::promised(promise, Rules::Window(window)), Hash::Keyed(KEY))
}

/// Returns an empty filter of RedisBloom's format.
pub fn redisbloom(error_rate: f64, capacity_items: u64, options: RedisBloomOptions, growth: u32) -> Filter {
    let policy = RedisBloom::new(error_rate, capacity_items, options, growth);
    reserve(Policy::RedisBloom(Box::new(policy)), Hash::RedisBloom(policy.hash()))
}

/// Returns an empty filter of valkey-bloom's format.
pub fn valkeybloom(policy: ValkeyBloom, seed: Seed) -> Filter {
    reserve(Policy::ValkeyBloom(Box::new(policy)), Hash::ValkeyBloom(seed))
}

/// Returns an empty filter of valkey-bloom's format, with the default tightening ratio and the fixed seed.
pub fn valkey(promise: Promise) -> Filter {
    let Promise { error_rate, capacity_items, growth } = promise;
    valkeybloom(ValkeyBloom { error_rate, tightening_ratio: 0.5, capacity_items, growth }, Seed::FIXED)
}

/// Returns an empty imported filter. Items beyond the capacity go to a table with an error rate of 1 %.
pub fn client(parameters: SchemeParameters, capacity_items: u64, growth: Growth) -> Filter {
    let layout = SchemeLayout::new(parameters).unwrap();
    let (form, bits) = bitmap::read(b"", BitOrder::Msb, layout.array_bits()).unwrap();
    Filter::import(layout, bits, capacity_items, imported(form, 0.01, growth)).unwrap()
}

/// Returns the policy of an imported filter with a string of this form.
pub fn imported(form: StringForm, error_rate: f64, growth: Growth) -> Imported {
    Imported { form, estimated_items: 0, error_rate, growth }
}

fn reserve(policy: Policy, hash: Hash) -> Filter {
    Filter::reserve(FilterSpec { policy, hash }, &ANY).unwrap()
}

/// Adds an item without a limit.
pub fn add(filter: &mut Filter, item: &[u8]) -> Result<Added, AddError> {
    add_within(filter, item, ANY)
}

/// Adds an item under a limit of the filter's bytes. [`Filter::add`] is inlined wherever it is called: in each test it would
/// take seconds to compile.
#[inline(never)]
pub fn add_within(filter: &mut Filter, item: &[u8], limit_bytes: u64) -> Result<Added, AddError> {
    filter.add(item, &limit_bytes, NoPrefetch)
}

/// Adds an entry to a table, as [`add_within`] adds an item to a filter.
#[inline(never)]
pub fn insert(table: &mut Table, addition: Addition, room: &GrowthBudget<'_>) -> Result<Added, AddError> {
    table.add(addition, room, NoPrefetch)
}

/// Returns whether the item may be in the filter.
pub fn contains(filter: &Filter, item: &[u8]) -> bool {
    filter.contains(item, NoPrefetch)
}

/// Sets the time of a filter with a window.
pub fn set_time(filter: &mut Filter, now_ms: u64) {
    filter.set_time(|| now_ms, || false);
}

/// Returns the bytes of the bits of each layer.
pub fn bits_of(filter: &Filter) -> Vec<Cow<'_, [u8]>> {
    filter.layers().iter().map(|layer| layer.bits().bytes()).collect()
}

/// Sets the item count of the last layer to its capacity, and adds one more item. Returns the error if the filter could
/// not grow.
pub fn grow(filter: &mut Filter, limit_bytes: u64) -> Result<(), everbloom::ReserveError> {
    let layers = filter.layer_count();
    let last = filter.layers_mut().last_mut().unwrap();
    last.set_items(last.capacity_items());
    // Searches for an item that no layer contains. Layers of foreign formats with a single item have many false positives,
    // so each call searches in a range of its own: no item of an earlier call is asked again.
    let items = ((layers as u64) << 16..).map(u64::to_le_bytes);
    let mut outcomes = items.map(|item| add_within(filter, &item, limit_bytes));
    let outcome = outcomes.find(|outcome| *outcome != Ok(Added::Present)).unwrap();
    match outcome {
        Ok(Added::New) => {
            assert_eq!(filter.layer_count(), layers + 1);
            Ok(())
        }
        Err(AddError::CannotGrow(error)) => {
            assert_eq!(filter.layer_count(), layers);
            Err(error)
        }
        other => panic!("{other:?}"),
    }
}

/// Deletes an item once. Returns whether it was there.
pub fn remove(filter: &mut Filter, item: &[u8]) -> Result<bool, OutOfMemory> {
    let mut removed = Ok(false);
    filter.remove_many(&[item], NoPrefetch, |result| {
        removed = result;
        true
    });
    removed
}

/// Returns the number of set bits in all layers.
pub fn set_bits(filter: &Filter) -> u64 {
    filter.layers().iter().map(|layer| layer.counts().set_bits).sum()
}

/// Returns the parameters that RedisBloom saves for a layer.
pub fn parameters(layer: &Layer) -> LayerParameters {
    let Layout::Modulo(modulo) = layer.layout() else { panic!("another layout") };
    LayerParameters::of(&modulo, layer.bits().size_bits(), layer.capacity_items())
}
