//! What every header of ours begins with, and the one table of the kinds that have one. docs/formats.md has
//! the bytes.
//!
//! RedisBloom's headers are its own and begin otherwise.

use serde::{Deserialize, Serialize};

use super::record::DecodeError;
use crate::bloom::limits::LAYERS_MAX;

/// First bytes of every header.
const MAGIC: [u8; 4] = *b"evbl";
/// Version of the encoding.
const VERSION: u16 = 1;

/// The kinds of filters that have a header of ours. The number of each is part of the format: numbers are
/// added and never change their meaning, and readers refuse those that they do not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Kind {
    /// A chain of layers of our own.
    Everbloom = 1,
    /// valkey-bloom's, in the pieces of BF.SCANDUMP only.
    ValkeyBloom = 2,
    /// A client's that was taken over.
    Client = 3,
    /// One that items can be deleted from.
    Counting = 4,
    /// Filters of several kinds, united.
    Union = 6,
    /// A chain of layers of our own whose hash is keyed.
    Keyed = 5,
    /// One that forgets.
    Window = 7,
}

impl Kind {
    /// Every kind.
    const ALL: [Self; 7] = [
        Self::Everbloom,
        Self::ValkeyBloom,
        Self::Client,
        Self::Counting,
        Self::Keyed,
        Self::Union,
        Self::Window,
    ];

    /// The kind of filter that a header is of; nothing when it is none of ours or of a kind that is not
    /// known.
    #[must_use]
    pub fn of(header: &[u8]) -> Option<Self> {
        let [magic @ .., version_low, version_high, kind_low, kind_high] = header.first_chunk::<8>()?;
        if *magic != MAGIC || u16::from_le_bytes([*version_low, *version_high]) != VERSION {
            return None;
        }
        let number = u16::from_le_bytes([*kind_low, *kind_high]);
        Self::ALL.into_iter().find(|kind| *kind as u16 == number)
    }
}

/// The first fields of every header.
#[derive(Serialize, Deserialize)]
pub(super) struct Opening {
    magic: [u8; 4],
    version: u16,
    kind: u16,
    layer_count: u32,
}

impl Opening {
    /// Of a filter of that kind and of so many layers.
    pub(super) fn new(kind: Kind, layers: usize) -> Self {
        let layer_count = u32::try_from(layers).unwrap_or(u32::MAX);
        Self { magic: MAGIC, version: VERSION, kind: kind as u16, layer_count }
    }

    /// Number of layers that the filter is said to have.
    pub(super) const fn layer_count(&self) -> u32 {
        self.layer_count
    }

    /// Checks that it is of a filter of that kind, and of as many layers as the header describes.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub(super) fn check(&self, kind: Kind, layers: usize) -> Result<(), DecodeError> {
        if self.magic != MAGIC {
            return Err(DecodeError::Invalid("magic"));
        }
        if self.version != VERSION {
            return Err(DecodeError::Unsupported { what: "version", got: self.version.into() });
        }
        if self.kind != kind as u16 {
            return Err(DecodeError::Unsupported { what: "kind", got: self.kind.into() });
        }
        if usize::try_from(self.layer_count) != Ok(layers) || !(1..=LAYERS_MAX).contains(&layers) {
            return Err(DecodeError::Invalid("layer count"));
        }
        Ok(())
    }
}
