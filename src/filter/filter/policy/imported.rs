//! The policy of imported filters: the layer of bits is the client's and keeps the client's scheme. What exceeds its
//! capacity goes to a table.
//!
//! The error rate of the client's bits follows from their scheme and their fill, and is not promised. That of the table
//! is promised.

use super::promise::Growth;
use crate::bits::estimate::clients_items;
use crate::bits::layout::SchemeLayout;
use crate::bits::{Layer, LayerSpec, Layout, Placement};
use crate::hash::Hash;
use crate::limits::{EXPANSION_MAX, STRING_MAX_BYTES};

/// The parameters of an imported filter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Imported {
    /// The form of the client's string, which an export needs.
    pub form: StringForm,
    /// The initial item count of the client's bits, estimated from their fill.
    pub estimated_items: u64,
    /// Promised error rate of the table; strictly between 0 and 1.
    pub error_rate: f64,
    /// What happens when there are as many items as the capacity of the client's bits.
    pub growth: Growth,
}

impl Imported {
    /// Checks every field, and that the client's layer is the only one.
    pub(super) fn validate(&self, layers: &[Layer]) -> Result<(), &'static str> {
        if !(self.error_rate > 0.0 && self.error_rate < 1.0) {
            return Err("error rate");
        }
        let growth = self.growth;
        if growth == Growth::Saturating || growth.is_unreserved() || growth.expansion() > EXPANSION_MAX {
            return Err("expansion");
        }
        let [only] = layers else { return Err("layers") };
        let Layout::Scheme(layout) = only.layout() else { return Err("layers") };
        if !self.form.is_valid(only.bits().size_bits()) {
            return Err("string length");
        }
        let probes = layout.parameters().probes;
        let most_estimated =
            clients_items(u64::MAX, only.bits().size_bits(), probes).min(only.counts().items);
        if self.estimated_items > most_estimated { Err("items") } else { Ok(()) }
    }
}

/// Returns the parameters of the client's layer of an imported filter.
#[must_use]
pub fn clients_layer(layout: SchemeLayout, capacity_items: u64) -> LayerSpec {
    let parameters = layout.parameters();
    let hash = Hash::Client(parameters.scheme, parameters.encoding);
    let placement = Placement::new(hash, Layout::Scheme(layout));
    LayerSpec { placement, size_bits: layout.array_bits(), capacity_items, has_head: false }
}

/// The position of bit `i` of a filter in a string of bytes. The number of each variant is its id in the format: add,
/// never edit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum BitOrder {
    /// Mask `0x80 >> (i % 8)` of byte `i / 8`, as in SETBIT.
    Msb = 1,
    /// Mask `1 << (i % 8)` of byte `i / 8`: byte arrays in the memory of Go and C# programs.
    Lsb = 2,
    /// Bit `i % 64` of the 64-bit word `i / 64`, words high byte first: the longs of Guava's `writeTo`.
    BigEndianWords = 3,
}

/// The properties of a client's string that do not follow from its bits.
///
/// SETBIT makes a string that ends with the byte of its highest set bit. Other clients write the whole array at once,
/// with clear bytes at the end. So an exported string is as long as the imported one, or longer if a bit after its
/// end is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StringForm {
    /// The order of the bits; its id is one byte.
    pub order: BitOrder,
    /// Bytes of the string when it was imported; 0 if there was none. It may be longer than the array: the rest is
    /// clear.
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

    /// Returns the bytes of the smallest unit of a string.
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
