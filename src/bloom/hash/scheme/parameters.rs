//! What must be known of a client's filter beside its bits.

use std::fmt;

use super::encoding::ItemEncoding;
use super::scheme::{PHP_UNIT_BITS, Scheme};

/// What must be known of a client's filter beside its bits. Fixed size; every field is one field of the
/// format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchemeParameters {
    /// From bytes to positions; its id is one byte.
    pub scheme: Scheme,
    /// From items to bytes; its id is one byte.
    pub encoding: ItemEncoding,
    /// Positions are divided by 2^shift: 0 to [`Scheme::max_shift`]. 6 takes over what a published port of
    /// Guava writes, whose `>>> 6` leaves only one bit in 64 in use.
    pub shift: u8,
    /// Probes per item: 1 to [`Scheme::max_probes`], or exactly [`Scheme::fixed_probes`].
    pub probes: u32,
    /// What the client reduces positions by: 1 to [`Scheme::max_size_bits`]; for the PHP scheme whole KiB.
    pub size_bits: u64,
}

/// Why no client's filter has these parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemeError {
    /// The bits are out of the scheme's range.
    SizeBits {
        /// Bits given.
        got: u64,
        /// Most bits of the scheme.
        max: u64,
    },
    /// The bits of the PHP scheme are not whole KiB.
    SizeUnit {
        /// Bits given.
        got: u64,
    },
    /// The probes are out of the scheme's range.
    Probes {
        /// Probes given.
        got: u32,
        /// Fewest probes of the scheme.
        min: u32,
        /// Most probes of the scheme.
        max: u32,
    },
    /// The shift is out of the scheme's range.
    Shift {
        /// Shift given.
        got: u8,
        /// Largest shift of the scheme.
        max: u8,
    },
}

impl std::error::Error for SchemeError {}

impl fmt::Display for SchemeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SizeBits { got, max } => write!(f, "the scheme takes 1 to {max} bits, got {got}"),
            Self::SizeUnit { got } => {
                write!(f, "the scheme takes a multiple of {PHP_UNIT_BITS} bits, got {got}")
            }
            Self::Probes { got, min, max } if min == max => {
                write!(f, "the scheme has {max} hashes, got {got}")
            }
            Self::Probes { got, min, max } => write!(f, "the scheme takes {min} to {max} hashes, got {got}"),
            Self::Shift { got, max: 0 } => write!(f, "the scheme takes no shift, got {got}"),
            Self::Shift { got, max } => write!(f, "the scheme takes a shift of 0 to {max}, got {got}"),
        }
    }
}
