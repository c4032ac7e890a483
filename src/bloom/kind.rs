//! The kinds of filters by name.

use super::format::Format;

/// How a filter is built: one kind for each variant of [`Filter`](super::Filter).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Our own.
    Everbloom,
    /// RedisBloom's.
    RedisBloom,
    /// valkey-bloom's.
    ValkeyBloom,
    /// A client's, taken over into our own format.
    Imported,
    /// Layers of several kinds.
    Union,
    /// Our own, which items can be deleted from.
    Counting,
    /// Our own, whose hash is keyed.
    Keyed,
    /// Our own, which forgets.
    Window,
}

impl Kind {
    /// Every kind, each in the place of its number.
    pub const ALL: [Self; 8] = [
        Self::Everbloom,
        Self::RedisBloom,
        Self::ValkeyBloom,
        Self::Imported,
        Self::Union,
        Self::Counting,
        Self::Keyed,
        Self::Window,
    ];

    /// Whose bits and bytes such a filter has.
    #[must_use]
    pub const fn format(self) -> Format {
        match self {
            Self::RedisBloom => Format::RedisBloom,
            Self::ValkeyBloom => Format::ValkeyBloom,
            Self::Everbloom | Self::Imported | Self::Union | Self::Counting | Self::Keyed | Self::Window => {
                Format::Everbloom
            }
        }
    }
}
