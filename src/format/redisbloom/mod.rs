//! RedisBloom's encodings of a filter: the snapshot of every release, and the pieces of BF.SCANDUMP.
//!
//! Read is what any release wrote, but every field is checked before it is used or allocated for; written is what the
//! newest release writes. docs/formats.md has the field tables.

pub mod dump;
pub mod header;
pub mod rdb;

use super::record::DecodeError;
use crate::bloom::limits::LAYERS_MAX;
use crate::bloom::redisbloom::Options;
use crate::bloom::redisbloom::probing::ITEMS_MAX;

/// The number of layers, if there can be so many.
fn checked_layers(layers: u64) -> Result<usize, DecodeError> {
    usize::try_from(layers)
        .ok()
        .filter(|layers| (1..=LAYERS_MAX).contains(layers))
        .ok_or(DecodeError::Invalid("layer count"))
}

/// The options, if all of their bits are known.
fn checked_options(bits: u64) -> Result<Options, DecodeError> {
    Options::from_bits(bits).ok_or(DecodeError::Unsupported { what: "options", got: bits })
}

/// Sums over the layers of one filter that is being read.
#[derive(Default)]
struct Totals {
    items: u64,
    size_bytes: u64,
}

impl Totals {
    /// Adds the items of one more layer.
    fn add_items(&mut self, items: u64) -> Result<(), DecodeError> {
        self.items = self
            .items
            .checked_add(items)
            .filter(|items| *items <= ITEMS_MAX)
            .ok_or(DecodeError::Invalid("items of the layers"))?;
        Ok(())
    }

    /// Adds the bytes of one more array, if the filter may have them.
    fn add_bytes(&mut self, size_bytes: u64, limit_bytes: u64) -> Result<(), DecodeError> {
        self.check_bytes(size_bytes, limit_bytes)?;
        self.size_bytes = self.size_bytes.saturating_add(size_bytes);
        Ok(())
    }

    /// Whether the filter may have one more array of so many bytes.
    fn check_bytes(&self, size_bytes: u64, limit_bytes: u64) -> Result<(), DecodeError> {
        let needed_bytes = self.size_bytes.saturating_add(size_bytes);
        if needed_bytes > limit_bytes {
            return Err(DecodeError::TooLarge { needed_bytes, limit_bytes });
        }
        Ok(())
    }

    /// Whether the layers have as many items as the filter says.
    fn check_items(&self, items: u64) -> Result<(), DecodeError> {
        if self.items == items { Ok(()) } else { Err(DecodeError::Invalid("items")) }
    }
}
