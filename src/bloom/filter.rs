//! A filter of any kind, as commands see it.

use super::blocks::{BlockMover, BlockVisitor, Holder, move_storage};
use super::blueprint::Blueprint;
use super::chain::Chain;
use super::client::Client;
use super::counting::Counting;
use super::everbloom::Everbloom;
use super::family::Family;
use super::format::Format;
use super::growth::Growth;
use super::keyed::Keyed;
use super::kind::Kind;
use super::memory::{Memory, OutOfMemory};
use super::outcome::{AddError, Added, ByteLimit, ReserveError};
use super::prefetch::Prefetch;
use super::reading::{FilterReading, LayerReading};
use super::redisbloom::{Hashing, RedisBloom};
use super::storage::Storage;
use super::union::Union;
use super::validate::Depth;
use super::valkeybloom::ValkeyBloom;
use super::window::Window;

/// A filter of any kind.
#[derive(Debug)]
pub enum Filter {
    /// A filter of our own.
    Everbloom(Chain<Everbloom>),
    /// A filter of RedisBloom's kind.
    RedisBloom(Chain<RedisBloom>),
    /// A filter of valkey-bloom's kind; boxed, for it is larger than the others and rarer.
    ValkeyBloom(Box<Chain<ValkeyBloom>>),
    /// A client's filter that was taken over, in our own bytes; boxed for the same reasons.
    Client(Box<Chain<Client>>),
    /// Filters of several kinds in one of our own format.
    Union(Box<Chain<Union>>),
    /// A filter that items can be deleted from; boxed for the same reasons.
    Counting(Box<Chain<Counting>>),
    /// A filter of our own whose hash is keyed; boxed for the same reasons.
    Keyed(Box<Chain<Keyed>>),
    /// A filter that forgets; boxed for the same reasons.
    Window(Box<Chain<Window>>),
}

/// The same expression for the chain of a filter whose layers are arrays of bits, and others for one that counts and
/// one that forgets.
macro_rules! each_of_bits {
    ($filter:expr, $chain:ident => $body:expr, $counting:pat => $count:expr, $window:pat => $forget:expr) => {
        match $filter {
            Filter::Everbloom($chain) => $body,
            Filter::RedisBloom($chain) => $body,
            Filter::ValkeyBloom($chain) => $body,
            Filter::Client($chain) => $body,
            Filter::Union($chain) => $body,
            Filter::Keyed($chain) => $body,
            Filter::Counting($counting) => $count,
            Filter::Window($window) => $forget,
        }
    };
}

/// The same expression for the chain of whatever kind a filter has.
macro_rules! each_kind {
    ($filter:expr, $chain:ident => $body:expr) => {
        each_of_bits!($filter, $chain => $body, $chain => $body, $chain => $body)
    };
}

pub(super) use {each_kind, each_of_bits};

impl Filter {
    /// An empty filter. The parameters must be valid.
    ///
    /// # Errors
    /// When the first layer is larger than `limit` allows or than the memory there is.
    pub fn reserve(blueprint: Blueprint, limit: &dyn ByteLimit) -> Result<Self, ReserveError> {
        Ok(match blueprint {
            Blueprint::Everbloom(family) => Self::Everbloom(Chain::try_new(family, limit)?),
            Blueprint::Counting(family) => Self::Counting(Box::new(Chain::try_new(family, limit)?)),
            Blueprint::RedisBloom(family) => Self::RedisBloom(Chain::try_new(family, limit)?),
            Blueprint::ValkeyBloom(family) => Self::ValkeyBloom(Box::new(Chain::try_new(family, limit)?)),
            Blueprint::Keyed(family) => Self::Keyed(Box::new(Chain::try_new(family, limit)?)),
            Blueprint::Window(family) => Self::Window(Box::new(Chain::try_new(family, limit)?)),
        })
    }

    /// Whose bits and bytes it has.
    #[must_use]
    pub const fn format(&self) -> Format {
        self.kind().format()
    }

    /// How it is built.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Everbloom(_) => Kind::Everbloom,
            Self::RedisBloom(_) => Kind::RedisBloom,
            Self::ValkeyBloom(_) => Kind::ValkeyBloom,
            Self::Client(_) => Kind::Imported,
            Self::Union(_) => Kind::Union,
            Self::Counting(_) => Kind::Counting,
            Self::Keyed(_) => Kind::Keyed,
            Self::Window(_) => Kind::Window,
        }
    }

    /// Items added, over all layers; of one that forgets those that it remembers. O(layers).
    #[must_use]
    pub fn items(&self) -> u64 {
        each_of_bits!(self, chain => chain.items(), chain => chain.items(), chain => chain.items_told())
    }

    /// Returns the items over all layers as far as only commands change their number: 0 of a window filter, whose items expire
    /// without one. O(layers).
    #[must_use]
    pub fn counted_items(&self) -> u64 {
        each_of_bits!(self, chain => chain.items(), chain => chain.items(), _ => 0)
    }

    /// Returns the number of layers, and those of the [counted items](Self::counted_items) that adds can have changed since
    /// the filter had `layers` layers, more than it has meaning as many: adds count in the last layer, those to a counting
    /// filter in any. O(1) where no layer has come since, of a counting filter O(layers).
    #[must_use]
    #[inline(always)]
    pub fn counts_since(&self, layers: usize) -> (usize, u64) {
        each_of_bits!(
            self,
            chain => chain.counts_since(layers),
            chain => chain.counts_since(0),
            chain => (chain.layers().len(), 0)
        )
    }

    /// Returns the number of items that count towards the capacity: as [`items`](Self::items), but of a counting filter
    /// each item once. O(layers).
    #[must_use]
    pub fn distinct_items(&self) -> u64 {
        each_of_bits!(self, chain => chain.items(), chain => chain.distinct_items(), chain => chain.items_told())
    }

    /// Items the layers were sized for. O(layers).
    #[must_use]
    pub fn capacity_items(&self) -> u64 {
        each_kind!(self, chain => chain.capacity_items())
    }

    /// Whether the next new item is taken without another layer. O(1).
    #[must_use]
    #[inline(always)]
    pub fn has_room(&self) -> bool {
        if let Self::Window(chain) = self {
            return chain.has_room_in_column();
        }
        let has_room = each_kind!(self, chain => chain.layers().last().is_some_and(|layer| !layer.is_full()));
        has_room || self.growth() == Growth::Saturating
    }

    /// Number of layers.
    #[must_use]
    pub fn layer_count(&self) -> usize {
        each_kind!(self, chain => chain.layers().len())
    }

    /// Memory of the filter in bytes: its structs and storages. O(layers).
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        // The struct of a chain counts its own bytes, which for all but the boxed ones lie within this one.
        let counted_twice = match self {
            Self::Everbloom(chain) => size_of_val(chain),
            Self::RedisBloom(chain) => size_of_val(chain),
            _ => 0,
        };
        let struct_bytes = size_of::<Self>().saturating_sub(counted_twice);
        each_kind!(self, chain => chain.size_bytes()).saturating_add(struct_bytes as u64)
    }

    /// What happens when the last layer is full.
    #[must_use]
    pub fn growth(&self) -> Growth {
        each_kind!(self, chain => Family::growth(chain.family()))
    }

    /// Whether the item may be in the filter. O(layers * probes).
    #[must_use]
    pub fn contains(&self, item: &[u8], prefetch: impl Prefetch) -> bool {
        each_kind!(self, chain => chain.contains_prefetched(chain.digest(item), prefetch))
    }

    /// Adds an item; see [`Chain::add`]. O(layers * probes).
    ///
    /// # Errors
    /// [`AddError`] when a new item finds no room; the filter is then as it was.
    pub fn add(
        &mut self,
        item: &[u8],
        limit: &dyn ByteLimit,
        prefetch: impl Prefetch,
    ) -> Result<Added, AddError> {
        each_kind!(self, chain => chain.add_prefetched(chain.digest(item), limit, prefetch))
    }

    /// Says of a filter that was just loaded that RedisBloom 1.1 wrote it, if that can be; see
    /// [`RedisBloom::assume_release_1_1`].
    pub fn assume_redisbloom_1_1(&mut self) {
        if let Self::RedisBloom(chain) = self {
            chain.family_mut().assume_release_1_1();
        }
    }

    /// Whether its items are hashed as by RedisBloom 1.1, which its bytes do not tell.
    #[must_use]
    pub fn is_redisbloom_1_1(&self) -> bool {
        matches!(self, Self::RedisBloom(chain) if chain.family().hashing() == Hashing::WideCutSeeds)
    }

    /// Checks every rule of a filter; see [`Chain::internal_validate`].
    ///
    /// # Errors
    /// What breaks a rule.
    pub fn internal_validate(&self, depth: Depth) -> Result<(), &'static str> {
        each_kind!(self, chain => chain.internal_validate(depth))
    }

    /// Marks the state that the filter is in now; see [`Chain::mark_state`]. O(layers).
    pub fn mark_state(&mut self, fresh: u64) {
        each_kind!(self, chain => chain.mark_state(fresh));
    }

    /// Whether it is as [`try_emptied`](Self::try_emptied) makes it; see [`Chain::is_empty`]. O(layers).
    #[must_use]
    pub fn is_empty(&self) -> bool {
        each_kind!(self, chain => chain.is_empty())
    }

    /// An empty filter with the parameters of this one; see [`Chain::try_emptied`]. O(1).
    ///
    /// # Errors
    /// When it is larger than `limit` allows, as parameters that came with a header can ask for, or than the memory.
    pub fn try_emptied(&self, limit: &dyn ByteLimit) -> Result<Self, ReserveError> {
        Ok(match self {
            Self::Everbloom(chain) => Self::Everbloom(chain.try_made_anew(limit)?),
            Self::RedisBloom(chain) => Self::RedisBloom(chain.try_emptied()?),
            Self::ValkeyBloom(chain) => Self::ValkeyBloom(Box::new(chain.try_emptied()?)),
            Self::Client(chain) => Self::Client(Box::new(chain.try_emptied()?)),
            Self::Counting(chain) => Self::Counting(Box::new(chain.try_made_anew(limit)?)),
            // What it was made of goes with its items; what is left is what it promises.
            Self::Union(chain) => Self::Everbloom(Chain::try_new(chain.promise(), limit)?),
            Self::Keyed(chain) => Self::Keyed(Box::new(chain.try_made_anew(limit)?)),
            Self::Window(chain) => Self::Window(Box::new(chain.try_made_anew(limit)?)),
        })
    }

    /// A copy with its own storages.
    ///
    /// # Errors
    /// [`OutOfMemory`] when they cannot be had.
    pub fn try_clone(&self, memory: impl Memory) -> Result<Self, OutOfMemory> {
        Ok(match self {
            Self::Everbloom(chain) => Self::Everbloom(chain.try_clone(memory)?),
            Self::RedisBloom(chain) => Self::RedisBloom(chain.try_clone(memory)?),
            Self::ValkeyBloom(chain) => Self::ValkeyBloom(Box::new(chain.try_clone(memory)?)),
            Self::Client(chain) => Self::Client(Box::new(chain.try_clone(memory)?)),
            Self::Union(chain) => Self::Union(Box::new(chain.try_clone(memory)?)),
            Self::Counting(chain) => Self::Counting(Box::new(chain.try_clone(memory)?)),
            Self::Keyed(chain) => Self::Keyed(Box::new(chain.try_clone(memory)?)),
            Self::Window(chain) => Self::Window(Box::new(chain.try_clone(memory)?)),
        })
    }

    /// The storages of the layers, the oldest first.
    pub fn storages(&self) -> impl Iterator<Item = &dyn Storage> {
        (0..self.layer_count()).filter_map(move |index| {
            each_kind!(self, chain => chain.layers().get(index).map(|layer| layer.storage() as &dyn Storage))
        })
    }

    /// What can be read off the layers, the oldest first, and off all together. O(layers).
    #[must_use]
    pub fn reading(&self) -> (Vec<LayerReading>, FilterReading) {
        each_of_bits!(self, chain => chain.reading(), chain => chain.reading(), chain => chain.reading_told())
    }

    /// Items that the layers from `first` on were sized for. O(layers).
    #[must_use]
    pub fn capacity_items_from(&self, first: usize) -> u64 {
        each_kind!(self, chain => chain.capacity_items_from(first))
    }

    fn storage_mut(&mut self, layer: usize) -> Option<&mut dyn Storage> {
        each_kind!(self, chain => {
            chain.layers_mut().get_mut(layer).map(|layer| layer.storage_mut() as &mut dyn Storage)
        })
    }

    /// Shows the blocks of memory behind the struct: see [`Chain::visit_blocks`]. O(layers).
    pub fn visit_blocks(&self, visitor: &mut impl BlockVisitor) {
        each_kind!(self, chain => Holder::visit_holder(chain, visitor));
        each_kind!(self, chain => chain.visit_blocks(visitor));
    }

    /// Moves the blocks behind the struct, except for those of the storages: a boxed chain's own first.
    pub fn move_structs(&mut self, mover: &impl BlockMover) {
        each_kind!(self, chain => Holder::move_holder(chain, mover));
        each_kind!(self, chain => chain.move_structs(mover));
    }

    /// Moves the storage of one layer, 0 being the oldest.
    pub fn move_storage(&mut self, layer: usize, mover: &impl BlockMover) {
        if let Some(storage) = self.storage_mut(layer) {
            move_storage(storage, mover);
        }
    }
}
