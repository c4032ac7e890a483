//! The filters of valkey-bloom: its hash, its positions, its sizes, its growth, bit for bit.
//!
//! Two generations of it exist. The first (0.1.0, 2024) keeps the error rate in single precision, always
//! hashes with [`FIXED_SEED`] and rounds the probes up; 1.0 (2025) keeps it in double precision, seeds every
//! filter at random unless told otherwise, and rounds the probes to the nearest number. All else is the same,
//! so one family serves both.

mod family;
mod placement;
mod scale;
mod seed;
pub mod sizing;

pub use family::{ERROR_RATE_DEFAULT, TIGHTENING_RATIO_DEFAULT, ValkeyBloom};
pub use placement::{PROBES_MAX, SipPair, SipProbing};
pub use scale::{max_scaled_capacity, size_bytes, validate_scale_to};
pub use seed::{FIXED_SEED, SEED_BYTES, Seed};
pub use sizing::layer_error_rate;
