//! What a command may know of its server.

use crate::bloom::hash::siphash::SEED_BYTES;
use crate::bloom::limits::{
    CAPACITY_DEFAULT_ITEMS, ERROR_RATE_DEFAULT, EXPANSION_DEFAULT, FILTER_DEFAULT_MAX_BYTES,
};
use crate::bloom::{ByteLimit, Format};

/// The configuration, as the operator set it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// `bf.error-rate`: promised rate of filters created without one, strictly between 0 and 1.
    pub error_rate: f64,
    /// `bf.initial-size`: capacity in items of filters created without one.
    pub initial_size_items: u64,
    /// `bf.expansion-factor`: growth factor of filters created without one; 0 makes them fixed.
    pub expansion_factor: u32,
    /// `bf.max-filter-bytes`: largest filter that a client may create, grow or load.
    pub max_filter_bytes: u64,
    /// `bf.format`: format of filters created without one.
    pub format: Format,
    /// `bf.missing-filter`: whether BF.EXISTS and BF.MEXISTS of a key that does not exist are errors.
    pub missing_filter_is_error: bool,
    /// `bf.auto-create`: whether BF.ADD and BF.MADD make the filter that they add to.
    pub auto_create: bool,
    /// `bf.on-full`: whether filters of fixed size that are created without SATURATE go on accepting items
    /// when they are full.
    pub fixed_filters_saturate: bool,
    /// `bf.keyed`: whether the hash of filters of our own that are created is keyed.
    pub keyed: bool,
    /// `bf.assume-redisbloom-1-1`: whether loaded filters that RedisBloom 1.1 may have written are its.
    pub assume_redisbloom_1_1: bool,
}

impl Settings {
    /// What the module is loaded with when nothing is configured.
    pub const DEFAULT: Self = Self {
        error_rate: ERROR_RATE_DEFAULT,
        initial_size_items: CAPACITY_DEFAULT_ITEMS,
        expansion_factor: EXPANSION_DEFAULT,
        max_filter_bytes: FILTER_DEFAULT_MAX_BYTES,
        format: Format::Everbloom,
        missing_filter_is_error: false,
        auto_create: true,
        fixed_filters_saturate: false,
        keyed: false,
        assume_redisbloom_1_1: false,
    };
}

/// The server as a command sees it. As a [`ByteLimit`] it answers with the smaller of `bf.max-filter-bytes`
/// and the memory there is, and with no limit at all for commands that come from a primary or from an
/// append-only file.
pub trait Host: ByteLimit {
    /// The configuration.
    fn settings(&self) -> Settings;
    /// Whether the command comes from a primary, an append-only file or the node that gives a slot away,
    /// whose word stands against any configuration.
    fn must_obey(&self) -> bool;
    /// Whether the command comes from a primary or an append-only file of this very data set: where it fails
    /// for want of memory or of good bytes, this server does not have what the other has, and must not go on
    /// as if it had.
    fn must_succeed(&self) -> bool;
    /// Milliseconds of UNIX time.
    fn now_ms(&self) -> u64;
    /// Bytes that nobody can guess, for the seed of a filter of valkey-bloom's kind and the key of one of our
    /// own.
    fn random_seed(&self) -> [u8; SEED_BYTES];
    /// A number that nobody has been given before.
    fn random_number(&self) -> u64 {
        let seed = self.random_seed();
        seed.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
    }
}
