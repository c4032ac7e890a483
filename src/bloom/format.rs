//! The formats that filters can have.

/// Whose bits and bytes a filter has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Our own.
    #[default]
    Everbloom,
    /// RedisBloom's.
    RedisBloom,
    /// valkey-bloom's.
    ValkeyBloom,
}

impl Format {
    /// Every format.
    pub const ALL: [Self; 3] = [Self::Everbloom, Self::RedisBloom, Self::ValkeyBloom];
}
