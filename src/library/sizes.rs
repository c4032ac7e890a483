//! Computes the expected sizes of filters of each format.

use super::options::{CreateError, Options};
use everbloom_filter::filter::policy::redisbloom::RESERVED_GROWTH;
use everbloom_filter::filter::policy::valkeybloom::TIGHTENING_RATIO_DEFAULT;
use everbloom_filter::filter::policy::{RedisBloom, ValkeyBloom};
use everbloom_filter::generation::Steps;
use everbloom_filter::hash::siphash::Seed;
use everbloom_filter::limits::LAYERS_MAX;
use everbloom_filter::{
    EntryKind, Format, Hash, LayerSpec, PartSpec, Policy, Promise, ReserveError, TableSpec,
};

/// The expected size of a filter.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FilterSize {
    /// The layers of bits, the oldest first.
    pub layers: Vec<LayerSize>,
    /// Bytes of the table; 0 without a table. The actual size differs by a few percent, depending on the items.
    pub table_bytes: u64,
}

impl FilterSize {
    /// Returns the bits of all layers and of the table.
    #[must_use]
    pub fn size_bits(&self) -> u64 {
        let of_table = self.table_bytes.saturating_mul(8);
        self.layers.iter().fold(of_table, |sum, layer| sum.saturating_add(layer.size_bits))
    }
}

/// The size of one layer of a filter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LayerSize {
    /// The capacity of the layer.
    pub capacity_items: u64,
    /// Bits of its array.
    pub size_bits: u64,
    /// Bytes of the two blocks of memory that the array is in. Most arrays are in one, and the second has 0 bytes.
    pub blocks_bytes: [u64; 2],
    /// Probes per item.
    pub probes: u32,
    /// The largest number of lines of 64 bytes that the probes of an item touch.
    pub lines: u32,
}

/// Returns the size of a filter once it holds `items` different items. O(layers).
///
/// ```
/// use everbloom::{Format, Options, filter_size};
///
/// let options = Options { error_rate: 0.01, capacity_items: 1_000_000, ..Options::default() };
/// let reserved = filter_size(Format::Everbloom, options, 1_000_000)?;
/// assert_eq!((reserved.layers.len(), reserved.table_bytes), (1, 0));
/// let outgrown = filter_size(Format::Everbloom, options, 2_000_000)?;
/// assert_eq!(outgrown.layers, reserved.layers);
/// assert!(outgrown.table_bytes > 1_000_000);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`CreateError`], also if the filter would refuse some of the items.
pub fn filter_size(format: Format, reserved: Options, items: u64) -> Result<FilterSize, CreateError> {
    let promise = reserved.promise()?;
    let (policy, hash) = policy_of(format, promise);
    let size = match format {
        Format::Everbloom => own_size(&policy, hash, items),
        Format::RedisBloom | Format::ValkeyBloom => chain_size(&policy, hash, items),
    };
    size.map_err(CreateError::Reserve)
}

/// Returns the size of a counting filter that holds `items` different items, each of which was added once. O(1).
///
/// ```
/// use everbloom::{Options, counting_size};
///
/// let bits_per_item = counting_size(Options::default(), 1_000_000)?.size_bits() / 1_000_000;
/// assert!((14..=21).contains(&bits_per_item), "{bits_per_item}");
/// # Ok::<(), everbloom::CreateError>(())
/// ```
///
/// # Errors
/// [`CreateError`], also if the filter would refuse some of the items.
pub fn counting_size(reserved: Options, items: u64) -> Result<FilterSize, CreateError> {
    table_size(EntryKind::Counted, reserved, items)
}

/// Returns the size of a sliding-window filter with 14 steps to which `items` different items are added in every window,
/// at any pace. The length of the window makes no difference. O(1).
///
/// ```
/// use everbloom::{Options, Steps, window_size, window_size_with_steps};
///
/// let options = Options { capacity_items: 1_000_000, ..Options::default() };
/// let bits_per_item = window_size(options, 1_000_000)?.size_bits() / 1_000_000;
/// assert!((15..=22).contains(&bits_per_item), "{bits_per_item}");
/// let finer = window_size_with_steps(options, 1_000_000, Steps::Fine)?;
/// assert!(finer.size_bits() / 1_000_000 < bits_per_item + 6);
/// # Ok::<(), everbloom::CreateError>(())
/// ```
///
/// # Errors
/// [`CreateError`], also if the filter would refuse some of the items.
pub fn window_size(reserved: Options, items: u64) -> Result<FilterSize, CreateError> {
    window_size_with_steps(reserved, items, Steps::Fourteen)
}

/// Returns the [`window_size`] of a filter with these steps. O(1).
///
/// # Errors
/// As [`window_size`].
pub fn window_size_with_steps(
    reserved: Options,
    items: u64,
    steps: Steps,
) -> Result<FilterSize, CreateError> {
    table_size(EntryKind::Timed(steps), reserved, items)
}

fn table_size(kind: EntryKind, reserved: Options, items: u64) -> Result<FilterSize, CreateError> {
    let Promise { error_rate, capacity_items, growth } = reserved.promise()?;
    if growth.is_fixed_size() && items > capacity_items {
        return Err(CreateError::Reserve(ReserveError::TooLong));
    }
    let spec = TableSpec { error_rate, kind, items: capacity_items };
    Ok(FilterSize { table_bytes: spec.expected_bytes(items), ..FilterSize::default() })
}

/// Returns the size of a filter of everbloom's own format.
fn own_size(policy: &Policy, hash: Hash, items: u64) -> Result<FilterSize, ReserveError> {
    let (layers, table_items) = match policy.first_part(hash)? {
        PartSpec::Table(..) => (Vec::new(), items),
        PartSpec::Layer(layer) => (vec![size_of(&layer)], items.saturating_sub(layer.capacity_items)),
    };
    if policy.growth().is_fixed_size() && table_items > 0 {
        return Err(ReserveError::TooLong);
    }
    let has_table = layers.is_empty() || table_items > 0;
    let table_bytes = if has_table { policy.table().expected_bytes(table_items) } else { 0 };
    Ok(FilterSize { layers, table_bytes })
}

/// Returns the size of a filter of another format.
fn chain_size(policy: &Policy, hash: Hash, items: u64) -> Result<FilterSize, ReserveError> {
    let mut sizes: Vec<LayerSize> = Vec::new();
    let mut held_items = 0u64;
    let layers_max = if policy.growth().is_fixed_size() { 1 } else { LAYERS_MAX };
    for layer in policy.layers(hash).take(layers_max) {
        let layer = layer?;
        held_items = held_items.saturating_add(layer.capacity_items);
        sizes.push(size_of(&layer));
        if held_items >= items {
            return Ok(FilterSize { layers: sizes, table_bytes: 0 });
        }
    }
    Err(ReserveError::TooLong)
}

fn size_of(layer: &LayerSpec) -> LayerSize {
    let layout = layer.placement.layout();
    LayerSize {
        capacity_items: layer.capacity_items,
        size_bits: layer.size_bits,
        blocks_bytes: layer.blocks_bytes(),
        probes: layout.probes(),
        lines: layout.lines(),
    }
}

/// Returns the policy of a filter of this format with this promise, and a hash that filters of the format have.
fn policy_of(format: Format, promise: Promise) -> (Policy, Hash) {
    match format {
        Format::Everbloom => (Policy::Everbloom(promise), Hash::Murmur3),
        Format::RedisBloom => {
            let is_fixed = promise.growth.is_fixed_size();
            let growth = if is_fixed { RESERVED_GROWTH } else { promise.growth.expansion() };
            let policy = RedisBloom::of_promise(promise, growth);
            (policy.into(), Hash::RedisBloom(policy.hash()))
        }
        Format::ValkeyBloom => {
            let policy = ValkeyBloom::of_promise(promise, TIGHTENING_RATIO_DEFAULT);
            (policy.into(), Hash::ValkeyBloom(Seed::FIXED))
        }
    }
}
