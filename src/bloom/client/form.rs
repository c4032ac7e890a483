//! What a client's string tells beside its bits, for the way back. Reading and writing it is the business of
//! the format room.

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

/// The form of a client's string that its bits alone do not tell.
///
/// A string grows with SETBIT to the byte of the highest bit ever set; other clients write a whole array at
/// once, clear bytes at the end included. So the string that the client would have now is as long as it was
/// when it was taken over, or as the highest set bit asks for, whichever is longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StringForm {
    /// Where each bit lies; its id is one byte.
    pub order: BitOrder,
    /// Bytes of the string when it was taken over; 0 where there was none. May be more than the array has: the
    /// rest is clear.
    pub length_bytes: u64,
}
