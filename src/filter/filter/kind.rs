//! The kinds of filters: one table with a row per kind.
//!
//! Commands, statistics and INFO name the kind of a filter. It follows from its policy and its hash.

use super::policy::{Policy, Rules, redisbloom};
use crate::hash::Hash;
use crate::limits::CAPACITY_MAX_ITEMS;

/// The data format of a filter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Everbloom's own format.
    #[default]
    Everbloom,
    /// RedisBloom's format.
    RedisBloom,
    /// valkey-bloom's format.
    ValkeyBloom,
}

impl Format {
    /// Every format.
    pub const ALL: [Self; 3] = [Self::Everbloom, Self::RedisBloom, Self::ValkeyBloom];

    /// Returns the row of filters that are reserved in this format without other options. [`KINDS`] begins with these
    /// rows.
    #[must_use]
    #[expect(clippy::indexing_slicing, reason = "there are more kinds than formats")]
    pub fn plain_kind(self) -> &'static KindRow {
        &KINDS[self as usize]
    }
}

/// A kind of filter, as statistics name and count it. The number of each is its index in [`KINDS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A filter of everbloom's own format.
    Everbloom,
    /// A filter of RedisBloom's format.
    RedisBloom,
    /// A filter of valkey-bloom's format.
    ValkeyBloom,
    /// A filter with a client's bits, imported into everbloom's own format.
    Imported,
    /// A filter with bits of several kinds, from a merge.
    Union,
    /// A filter whose items can be deleted.
    Counting,
    /// A filter of everbloom's own format with a keyed hash.
    Keyed,
    /// A sliding-window filter: its items expire.
    Window,
}

/// The names and limits of a kind.
#[derive(Clone, Copy, Debug)]
pub struct KindRow {
    /// The kind.
    pub kind: Kind,
    /// Its name in BF.STATS and BF.INFO.
    pub name: &'static str,
    /// Its name in INFO, where names have no hyphen.
    pub info_name: &'static str,
    /// Its data format.
    pub format: Format,
    /// The words of BF.RESERVE that select the kind, for advice; `None` if there are none, or if they need a value
    /// (WINDOW).
    pub words: Option<&'static str>,
    /// The largest capacity that a command accepts, in items.
    pub capacity_max_items: u64,
}

/// Number of kinds.
pub const KIND_COUNT: usize = 8;

/// The kinds, in the order of their numbers.
pub static KINDS: [KindRow; KIND_COUNT] = [
    row(Kind::Everbloom, "everbloom", "everbloom", Format::Everbloom, Some("")),
    KindRow {
        capacity_max_items: redisbloom::COMMAND_CAPACITY_MAX_ITEMS,
        ..row(Kind::RedisBloom, "redisbloom", "redisbloom", Format::RedisBloom, Some(" FORMAT redisbloom"))
    },
    row(Kind::ValkeyBloom, "valkey-bloom", "valkey_bloom", Format::ValkeyBloom, Some(" FORMAT valkey-bloom")),
    row(Kind::Imported, "imported", "imported", Format::Everbloom, None),
    row(Kind::Union, "union", "union", Format::Everbloom, None),
    row(Kind::Counting, "counting", "counting", Format::Everbloom, Some(" COUNTING")),
    row(Kind::Keyed, "keyed", "keyed", Format::Everbloom, Some(" KEYED")),
    row(Kind::Window, "window", "window", Format::Everbloom, None),
];

const fn row(
    kind: Kind,
    name: &'static str,
    info_name: &'static str,
    format: Format,
    words: Option<&'static str>,
) -> KindRow {
    KindRow { kind, name, info_name, format, words, capacity_max_items: CAPACITY_MAX_ITEMS }
}

impl Kind {
    /// Returns the row of the kind.
    #[must_use]
    #[expect(clippy::indexing_slicing, reason = "there is a row for every kind")]
    pub fn row(self) -> &'static KindRow {
        &KINDS[self as usize]
    }
}

impl Policy {
    /// Returns the kind of filters with this policy and this hash.
    #[must_use]
    pub(super) const fn kind(&self, hash: &Hash) -> Kind {
        match (self, self.rules(), hash) {
            (_, Some(Rules::Counting(_)), _) => Kind::Counting,
            (_, Some(Rules::Union), _) => Kind::Union,
            (_, Some(Rules::Window(_)), _) => Kind::Window,
            (Self::RedisBloom(_), ..) => Kind::RedisBloom,
            (Self::ValkeyBloom(_), ..) => Kind::ValkeyBloom,
            (Self::Imported(_), ..) => Kind::Imported,
            (Self::Everbloom(_) | Self::Promised(_), _, Hash::Keyed(_)) => Kind::Keyed,
            (Self::Everbloom(_) | Self::Promised(_), ..) => Kind::Everbloom,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_the_index_of_its_number() {
        for (place, row) in KINDS.iter().enumerate() {
            assert_eq!((row.kind as usize, row.info_name), (place, &*row.name.replace('-', "_")));
        }
        for format in Format::ALL {
            assert_eq!(format.plain_kind().format, format);
        }
    }
}
