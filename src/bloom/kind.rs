//! The kinds of filters by name.

/// How a filter is built: one kind for each variant of [`Filter`](super::Filter).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Our own.
    Everbloom,
    /// RedisBloom's.
    RedisBloom,
    /// valkey-bloom's.
    ValkeyBloom,
    /// A client's, taken over into our own format.
    Imported,
}

impl Kind {
    /// Every kind, in the order of the variants.
    pub const ALL: [Self; 4] = [Self::Everbloom, Self::RedisBloom, Self::ValkeyBloom, Self::Imported];

    /// The name in replies.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Everbloom => "everbloom",
            Self::RedisBloom => "redisbloom",
            Self::ValkeyBloom => "valkey-bloom",
            Self::Imported => "imported",
        }
    }
}
