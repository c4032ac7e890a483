//! What a client's string says beside its bits, for the way back; [`format::client`](crate::format::client) reads and writes it.

use crate::bloom::limits::STRING_MAX_BYTES;

/// Where bit `i` of a filter lies in a string of bytes. The number of each variant is its id in the format:
/// add, never edit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum BitOrder {
    /// Mask `0x80 >> (i % 8)` of byte `i / 8`, as SETBIT counts.
    Msb = 1,
    /// Mask `1 << (i % 8)` of byte `i / 8`: byte arrays in the memory of Go and C# programs.
    Lsb = 2,
    /// Bit `i % 64` of the 64-bit word `i / 64`, words high byte first: the longs of Guava's `writeTo`.
    BigEndianWords = 3,
}

/// The form of a client's string that its bits alone do not show.
///
/// A string grows with SETBIT to the byte of the highest bit ever set; other clients write a whole array at
/// once, clear bytes at the end included. So the string that the client would have now is as long as it was
/// when it was imported, or as the highest set bit asks for, whichever is longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StringForm {
    /// Where each bit lies; its id is one byte.
    pub order: BitOrder,
    /// Bytes of the string when it was imported; 0 where there was none. May be more than the array has: the
    /// rest is clear.
    pub length_bytes: u64,
}

impl BitOrder {
    /// Every order, by id.
    pub const ALL: [Self; 3] = [Self::Msb, Self::Lsb, Self::BigEndianWords];

    /// Returns the id in the format, never 0.
    #[must_use]
    pub const fn id(self) -> u8 {
        self as u8
    }

    /// Returns the order with an id.
    #[must_use]
    pub fn from_id(id: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|order| order.id() == id)
    }

    /// Returns the bytes that come and go together.
    #[must_use]
    pub const fn unit_bytes(self) -> u64 {
        match self {
            Self::Msb | Self::Lsb => 1,
            Self::BigEndianWords => 8,
        }
    }
}

impl StringForm {
    /// Returns whether a string of a filter of `size_bits` bits can have this form.
    #[must_use]
    pub const fn is_valid(&self, size_bits: u64) -> bool {
        self.length_bytes <= size_bits.div_ceil(8).saturating_add(STRING_MAX_BYTES)
            && self.length_bytes.is_multiple_of(self.order.unit_bytes())
    }
}
