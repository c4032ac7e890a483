//! Every limit and default of the filters, as DEFAULT, MIN and MAX with the unit in the name.

/// Error rate of a filter that is created without one (share of false positives among absent items).
pub const ERROR_RATE_DEFAULT: f64 = 0.01;

/// Smallest error rate a layer is sized for. A position is drawn from 64 bits of hash, so below about the
/// number of items times 2^-64 more bits buy nothing; 2^-50 leaves 50 probes as the most an item ever costs.
pub const LAYER_ERROR_RATE_MIN: f64 = 1.0 / (1u64 << 50) as f64;

/// Items of a filter that is created without a capacity.
pub const CAPACITY_DEFAULT_ITEMS: u64 = 100;
/// Smallest capacity, in items.
pub const CAPACITY_MIN_ITEMS: u64 = 1;
/// Largest capacity of one layer, in items: 2^40, far above what the byte limits let through.
pub const CAPACITY_MAX_ITEMS: u64 = 1 << 40;

/// Most items that a layer which counts every add counts: far more than commands ever add, and few enough that those of
/// all layers have a sum.
pub const LAYER_OCCURRENCES_MAX: u64 = 1 << 50;

/// Shortest window, in milliseconds: its generations are still several of the milliseconds that servers count.
pub const WINDOW_MIN_MS: u64 = 100;
/// Longest window, in milliseconds: 2^40, 34 years.
pub const WINDOW_MAX_MS: u64 = 1 << 40;

/// Growth factor of a filter that is created without one.
pub const EXPANSION_DEFAULT: u32 = 2;
/// Largest growth factor (the same as RedisBloom's).
pub const EXPANSION_MAX: u32 = 32_768;

/// Most layers of one chain. At the smallest growth factor, 1, this ends a filter that was reserved far too
/// small before every command has thousands of bit arrays to look at.
pub const LAYERS_MAX: usize = 4_096;

/// Most probes (bit positions) per item and layer.
pub const PROBES_MAX: u32 = 50;

/// Most probes of an item over all layers of a filter: they bound the time that one item takes. The filter
/// with the most that commands of RedisBloom make (error rate 0.25, capacity 1, expansion 1) ends at 578
/// thousand.
pub const PROBES_TOTAL_MAX: u64 = 1 << 20;
// Filters of our own end at the number of their layers.
const _: () = assert!(LAYERS_MAX as u64 * PROBES_MAX as u64 <= PROBES_TOTAL_MAX);

/// Largest bit array of one layer, in bytes: 1 TiB.
pub const LAYER_MAX_BYTES: u64 = 1 << 40;

/// Longest string of a server by default (`proto-max-bulk-len`): 512 MiB, the longest that SETBIT makes.
///
/// No longer one is exported, and none is imported that has more clear bytes beyond the last byte of its
/// filter: so neither way takes more memory than the client could have taken itself.
pub const STRING_MAX_BYTES: u64 = 512 << 20;

/// Default of `bf.max-filter-bytes`, the largest filter that a client may create, grow or load: 64 GiB.
pub const FILTER_DEFAULT_MAX_BYTES: u64 = 64 << 30;
/// Smallest value of `bf.max-filter-bytes`: 1 KiB, enough for the default filter.
pub const FILTER_MIN_MAX_BYTES: u64 = 1 << 10;
/// Largest value of `bf.max-filter-bytes`.
pub const FILTER_MAX_MAX_BYTES: u64 = 1 << 46;

/// Bit array of one layer from which on items are confined to one page, in bytes. A smaller one mostly fits a
/// cache, and rounding it up to whole pages would break the promise of 10.3 bits per item at 1 %
/// (tests/sizing.rs).
pub const PAGED_MIN_BYTES: u64 = 2 << 20;

/// Storage of one layer up to which its memory is not asked for ahead of its use: about what lies in the
/// caches near the processor, where asking takes as long as looking. In words: 1 MiB.
pub const CACHED_MAX_WORDS: usize = (1 << 20) / 8;
