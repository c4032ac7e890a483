//! Every limit and default of the filters, as DEFAULT, MIN and MAX with the unit in the name.

/// Error rate of a filter that is created without one (share of false positives among absent items).
pub const ERROR_RATE_DEFAULT: f64 = 0.01;

/// Smallest error rate that a layer is sized for. A position comes from 64 bits of hash, so more bits do not lower
/// the rate below about the number of items times 2^-64. With 2^-50 an item has at most 50 probes.
pub const LAYER_ERROR_RATE_MIN: f64 = 1.0 / (1u64 << 50) as f64;

/// Capacity of a filter that is created without one.
pub const CAPACITY_DEFAULT_ITEMS: u64 = 100;
/// Smallest capacity, in items.
pub const CAPACITY_MIN_ITEMS: u64 = 1;
/// Smallest `bf.cuckoo-initial-size`, as in RedisBloom.
pub const CUCKOO_CAPACITY_MIN_ITEMS: u64 = 4;
/// Largest capacity that CF.RESERVE and CF.INSERT accept, as in RedisBloom.
pub const CUCKOO_CAPACITY_MAX_ITEMS: u64 = 1 << 30;
/// Most slots of a bucket of a cuckoo filter, as in RedisBloom.
pub const CUCKOO_BUCKET_MAX_SLOTS: u8 = 255;
/// Most fingerprints that an add to a cuckoo filter may move, as in RedisBloom.
pub const CUCKOO_ITERATIONS_MAX: u16 = 65_535;
/// Largest array to which a cuckoo filter grows, in bytes: 4 GiB. RedisBloom keeps the position of a bucket in 32 bits, but
/// in its kick-out in 64, so it loses items of larger arrays.
pub const CUCKOO_ARRAY_MAX_BYTES: u64 = 1 << 32;
/// Largest `bf.cuckoo-max-expansions`, as in RedisBloom.
pub const CUCKOO_MAX_EXPANSIONS_MAX: u64 = 65_536;
/// Largest capacity of one layer, in items: 2^40, far above what the byte limits permit.
pub const CAPACITY_MAX_ITEMS: u64 = 1 << 40;

/// Largest capacity of a layer of valkey-bloom, in items: valkey-bloom stores it as a signed number of 64 bits.
pub const VALKEYBLOOM_CAPACITY_MAX_ITEMS: u64 = i64::MAX.unsigned_abs();

/// Shortest window, in milliseconds: its generations are still several milliseconds long.
pub const WINDOW_MIN_MS: u64 = 100;
/// Longest window, in milliseconds: 2^40, 34 years.
pub const WINDOW_MAX_MS: u64 = 1 << 40;

/// Expansion of a filter that is created without one.
pub const EXPANSION_DEFAULT: u32 = 2;
/// Largest expansion (the same as RedisBloom's).
pub const EXPANSION_MAX: u32 = 32_768;

/// Most layers of a filter. With an expansion of 1, a filter that was reserved far too small stops growing before
/// every command reads many thousands of bit arrays.
pub const LAYERS_MAX: usize = 4_096;

/// Most probes (bit positions) per item and layer.
pub const PROBES_MAX: u32 = 50;

/// Most probes of an item over all layers of a filter, which bounds the time per item. Commands of RedisBloom create
/// filters with at most 578 thousand (error rate 0.25, capacity 1, expansion 1).
pub const PROBES_TOTAL_MAX: u64 = 1 << 20;
// Everbloom's own filters reach the limit of layers first.
const _: () = assert!(LAYERS_MAX as u64 * PROBES_MAX as u64 <= PROBES_TOTAL_MAX);

/// Largest bit array of one layer, in bytes: 1 TiB.
pub const LAYER_MAX_BYTES: u64 = 1 << 40;

/// Longest string of a server by default (`proto-max-bulk-len`): 512 MiB, the longest that SETBIT makes.
///
/// An exported string is at most this long. An imported string may have at most this many clear bytes after the last
/// byte of its filter. So neither takes more memory than the client itself could have taken.
pub const STRING_MAX_BYTES: u64 = 512 << 20;

/// Default of `bf.max-filter-bytes`, the largest filter that a client may create, grow or load: 64 GiB.
pub const FILTER_DEFAULT_MAX_BYTES: u64 = 64 << 30;
/// Smallest value of `bf.max-filter-bytes`: 1 KiB, enough for the default filter.
pub const FILTER_MIN_MAX_BYTES: u64 = 1 << 10;
/// Largest value of `bf.max-filter-bytes`: 64 TiB.
pub const FILTER_MAX_MAX_BYTES: u64 = 1 << 46;

/// Default of `bf.follow-log-bytes`, the most bytes of the records of a filter that somebody follows: 1 MiB.
pub const FOLLOW_LOG_DEFAULT_BYTES: u64 = 1 << 20;
/// Smallest value of `bf.follow-log-bytes`: 1 KiB, the first records of a filter.
pub const FOLLOW_LOG_MIN_BYTES: u64 = 1 << 10;
/// Default of `bf.follow-total-bytes`, the most bytes of the records of all filters: 64 MiB.
pub const FOLLOW_TOTAL_DEFAULT_BYTES: u64 = 64 << 20;
/// Largest value of both: 64 GiB.
pub const FOLLOW_MAX_BYTES: u64 = 64 << 30;

/// Smallest bit array of a new layer, in bytes, that is paged. A smaller one mostly fits a cache, where lookups take longer
/// in pages, and rounding it up to whole pages would take too many bits per item (tests/measured/sizing.rs).
pub const PAGED_MIN_BYTES: u64 = 1 << 20;

/// Largest layer, in words, whose memory is not prefetched: 1 MiB, about the size of the inner caches of a processor,
/// where a prefetch takes as long as a read.
pub const CACHED_MAX_WORDS: usize = (1 << 20) / 8;
/// Largest layer, in words, whose first probes are not prefetched for the lookup of a single item in several layers:
/// 32 KiB, the size of the innermost cache.
pub const NEAR_MAX_WORDS: usize = (32 << 10) / 8;
