//! The two placements of a taken-over filter: the client's in the first layer, one of our own behind it.

use super::hash::SchemeHash;
use super::placement::SchemePlacement;
use crate::bloom::bits::Bits;
use crate::bloom::everbloom::{ItemHash, Probing};
use crate::bloom::group::{ItemSet, subset};
use crate::bloom::placement::{Placement, Probes};
use crate::bloom::prefetch::{Part, Prefetch};

/// An item, once per command.
#[derive(Clone, Copy, Debug)]
pub struct ItemDigest {
    /// What the client's scheme makes of it; nothing if the encoding cannot express it: no client can have
    /// added it then.
    pub(super) client: Option<SchemeHash>,
    /// Its hash, for our own layers.
    pub(super) own: ItemHash,
}

/// How a layer of a taken-over filter places probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientPlacement {
    /// As the client does.
    Client(SchemePlacement),
    /// As a filter of our own does.
    Own(Probing),
}

impl Probes for ClientPlacement {
    type Storage = Bits;

    fn probes(&self) -> u32 {
        match self {
            Self::Client(placement) => placement.probes(),
            Self::Own(probing) => probing.probes(),
        }
    }

    fn touched_lines(&self) -> u32 {
        match self {
            Self::Client(placement) => placement.touched_lines(),
            Self::Own(probing) => probing.touched_lines(),
        }
    }

    fn estimated_items(&self, bits: &Bits) -> f64 {
        match self {
            Self::Client(placement) => placement.estimated_items(bits),
            Self::Own(probing) => probing.estimated_items(bits),
        }
    }

    fn error_rate_of(&self, set_cells: u64, cells: u64) -> f64 {
        match self {
            Self::Client(placement) => placement.error_rate_of(set_cells, cells),
            Self::Own(probing) => probing.error_rate_of(set_cells, cells),
        }
    }
}

impl Placement<ItemDigest> for ClientPlacement {
    fn contains(&self, bits: &Bits, ItemDigest { client, own }: ItemDigest) -> bool {
        client.is_some_and(|client| match self {
            Self::Client(placement) => placement.contains(bits, client),
            Self::Own(probing) => probing.contains(bits, own),
        })
    }

    #[inline(never)]
    fn contains_each(&self, bits: &Bits, digests: &[ItemDigest], wanted: ItemSet) -> ItemSet {
        subset(digests, wanted, |ItemDigest { client, own }| {
            client.is_some_and(|client| match self {
                Self::Client(placement) => placement.contains_each(bits, &[client], 1) == 1,
                Self::Own(probing) => probing.contains_each(bits, &[own], 1) == 1,
            })
        })
    }

    #[inline(never)]
    fn first_probes_set(&self, bits: &Bits, digests: &[ItemDigest], wanted: ItemSet) -> ItemSet {
        subset(digests, wanted, |ItemDigest { client, own }| {
            client.is_some_and(|client| match self {
                Self::Client(placement) => placement.first_probes_set(bits, &[client], 1) == 1,
                Self::Own(probing) => probing.first_probes_set(bits, &[own], 1) == 1,
            })
        })
    }

    fn insert(&self, bits: &mut Bits, ItemDigest { client, own }: ItemDigest) -> u32 {
        // What is not encodable was refused before, by `admit`.
        client.map_or(0, |client| match self {
            Self::Client(placement) => placement.insert(bits, client),
            Self::Own(probing) => probing.insert(bits, own),
        })
    }

    #[inline(never)]
    fn prefetch(&self, bits: &Bits, digest: ItemDigest, part: Part, prefetch: impl Prefetch) {
        match (self, digest.client) {
            // An item without positions needs no memory.
            (_, None) => {}
            (Self::Client(placement), Some(client)) => placement.prefetch(bits, client, part, prefetch),
            (Self::Own(probing), Some(_)) => probing.prefetch(bits, digest.own, part, prefetch),
        }
    }
}
