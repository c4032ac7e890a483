//! The policy of a filter: the error rate that it promises, which parts it gets, and when it refuses items. A policy is
//! a value with rules. It knows layers and tables, but no filter.

pub mod imported;
mod promise;
pub mod redisbloom;
pub mod valkeybloom;
pub mod window;

use super::kind::Kind;
use crate::bloom::bits::{Layer, LayerSpec, Layout};
use crate::bloom::generation::Moment;
use crate::bloom::hash::Hash;
use crate::bloom::limits::{CAPACITY_MAX_ITEMS, EXPANSION_MAX};
use crate::bloom::memory::{BlockMover, BlockVisitor};
use crate::bloom::outcome::ReserveError;
use crate::bloom::table::{EntryKind, TableSpec};
use valkeybloom::ProbeRounding;

pub use imported::{BitOrder, Imported, StringForm};
pub use promise::{BITS_SHARE, Growth, Promise};
pub use redisbloom::RedisBloom;
pub use valkeybloom::ValkeyBloom;
pub use window::Window;

/// The policy of a filter: its promise and its growth. Policies other than a promise are boxed, so that most filters
/// stay small.
#[derive(Clone, Debug, PartialEq)]
pub enum Policy {
    /// An error rate. A filter whose capacity was chosen has bits, and a table for what exceeds it; another one has a
    /// table.
    Everbloom(Promise),
    /// The same, with several layers of bits from a merge, all of the same hash.
    Merged(Box<Promise>),
    /// The same, with layers of bits from filters of several kinds.
    Union(Box<Promise>),
    /// An error rate over items that can be deleted: a table that counts.
    Counting(Box<Promise>),
    /// An error rate over the items of a sliding window: a table whose entries expire.
    Window(Box<Window>),
    /// RedisBloom's rules.
    RedisBloom(Box<RedisBloom>),
    /// valkey-bloom's rules.
    ValkeyBloom(Box<ValkeyBloom>),
    /// A client's bits, and a promise over the table that follows them.
    Imported(Box<Imported>),
}

/// What a filter gets to take new items.
#[derive(Clone, Debug, PartialEq)]
pub enum PartSpec {
    /// A layer of bits.
    Layer(LayerSpec),
    /// A table whose items have this hash.
    Table(TableSpec, Hash),
}

/// Largest error rate of the promise of a filter whose format has higher ones.
const ERROR_RATE_MAX: f64 = 0.999;

/// What a policy is.
impl Policy {
    /// Returns the kind of filters with this policy and this hash.
    #[must_use]
    pub(super) const fn kind(&self, hash: &Hash) -> Kind {
        match (self, hash) {
            (Self::Everbloom(_) | Self::Merged(_), Hash::Keyed(_)) => Kind::Keyed,
            (Self::Everbloom(_) | Self::Merged(_), _) => Kind::Everbloom,
            (Self::Counting(_), _) => Kind::Counting,
            (Self::Union(_), _) => Kind::Union,
            (Self::Window(_), _) => Kind::Window,
            (Self::RedisBloom(_), _) => Kind::RedisBloom,
            (Self::ValkeyBloom(_), _) => Kind::ValkeyBloom,
            (Self::Imported(_), _) => Kind::Imported,
        }
    }

    /// Returns the promise over the whole filter, if any.
    #[must_use]
    pub fn promise(&self) -> Option<&Promise> {
        match self {
            Self::Everbloom(promise) => Some(promise),
            Self::Merged(promise) | Self::Union(promise) | Self::Counting(promise) => Some(promise),
            Self::Window(window) => Some(&window.promise),
            Self::RedisBloom(_) | Self::ValkeyBloom(_) | Self::Imported(_) => None,
        }
    }

    /// Returns the promise of a filter of everbloom's own format with these parameters, and with these layers.
    #[must_use]
    pub fn promise_with(&self, layers: &[Layer]) -> Promise {
        self.promise().copied().unwrap_or_else(|| Promise {
            error_rate: self.asked().0.min(ERROR_RATE_MAX),
            capacity_items: layers.first().map_or(1, Layer::capacity_items).clamp(1, CAPACITY_MAX_ITEMS),
            growth: Growth::from_expansion(self.growth().expansion().min(EXPANSION_MAX)),
        })
    }

    /// Returns the error rate that a command requests to create the filter, and the growth.
    #[inline(always)]
    fn asked(&self) -> (f64, Growth) {
        match self {
            Self::Everbloom(promise) => (promise.error_rate, promise.growth),
            Self::Merged(promise) | Self::Union(promise) | Self::Counting(promise) => {
                (promise.error_rate, promise.growth)
            }
            Self::Window(window) => (window.promise.error_rate, window.promise.growth),
            Self::RedisBloom(policy) => (policy.asked_error_rate(), policy.growth()),
            Self::ValkeyBloom(policy) => (policy.error_rate, policy.growth),
            Self::Imported(policy) => (policy.error_rate, policy.growth),
        }
    }

    /// Returns what happens when the filter has as many items as its capacity.
    #[must_use]
    #[inline(always)]
    pub fn growth(&self) -> Growth {
        self.asked().1
    }

    /// Returns the parameters of a sliding window.
    #[must_use]
    #[inline(always)]
    pub fn window(&self) -> Option<&Window> {
        if let Self::Window(window) = self { Some(window) } else { None }
    }

    /// Returns the mutable parameters of a sliding window.
    #[inline(always)]
    pub(super) fn window_mut(&mut self) -> Option<&mut Window> {
        if let Self::Window(window) = self { Some(window) } else { None }
    }

    /// Returns the time of the filter.
    #[inline(always)]
    pub(super) fn moment(&self) -> Moment {
        self.window().map_or_else(Moment::default, Window::moment)
    }

    /// Returns the parameters of RedisBloom's format.
    #[must_use]
    pub fn redisbloom(&self) -> Option<&RedisBloom> {
        if let Self::RedisBloom(policy) = self { Some(policy) } else { None }
    }

    /// Returns the parameters of valkey-bloom's format.
    #[must_use]
    pub fn valkeybloom(&self) -> Option<&ValkeyBloom> {
        if let Self::ValkeyBloom(policy) = self { Some(policy) } else { None }
    }

    /// Returns the parameters of an imported filter.
    #[must_use]
    #[inline(always)]
    pub fn imported(&self) -> Option<&Imported> {
        if let Self::Imported(policy) = self { Some(policy) } else { None }
    }

    /// Returns whether some of the layers came from a merge.
    #[must_use]
    pub const fn has_merged_layers(&self) -> bool {
        matches!(self, Self::Merged(_) | Self::Union(_))
    }

    /// Returns whether the parts of the filter may have several hashes.
    #[inline(always)]
    pub(super) const fn has_several_hashes(&self) -> bool {
        matches!(self, Self::Union(_) | Self::Imported(_))
    }

    /// Returns whether an entry of a filter with another policy means the same in a filter with this one.
    pub(super) fn has_entries_of(&self, other: &Self) -> bool {
        let span = |policy: &Self| policy.window().map(|window| window.span);
        self.table().kind == other.table().kind && span(self) == span(other)
    }
}

/// Policies that follow from another one.
impl Policy {
    /// Returns the policy of the same filter without items.
    #[must_use]
    pub fn emptied(&self) -> Self {
        match (self.promise(), self) {
            (Some(promise), _) => self.with_promise(*promise),
            (None, Self::Imported(policy)) => {
                Self::Imported(Box::new(Imported { estimated_items: 0, ..**policy }))
            }
            (None, _) => self.clone(),
        }
    }

    /// Returns the policy of an empty filter of everbloom's own format that is like this one and has another promise.
    /// Without merged layers only the promise remains.
    pub(super) fn with_promise(&self, promise: Promise) -> Self {
        match self {
            Self::Counting(_) => Self::Counting(Box::new(promise)),
            Self::Window(window) => {
                Self::Window(Box::new(Window::new(promise, window.span, window.no_refresh)))
            }
            _ => Self::Everbloom(promise),
        }
    }

    /// Returns the policy of a filter with these layers after others were added to them, which may have other hashes
    /// or layouts unless they `are_alike`.
    pub(super) fn merged(&self, layers: &[Layer], are_alike: bool) -> Self {
        let promise = Box::new(self.promise_with(layers));
        match self {
            Self::Everbloom(_) | Self::Merged(_) if are_alike => Self::Merged(promise),
            _ => Self::Union(promise),
        }
    }

    /// Returns the error rate, the capacity and the policy of the filter that BF.RESERVE creates like this one, with
    /// layers and for `capacity_items`, or the most that the format permits. `None` if no BF.RESERVE creates such a
    /// filter.
    #[must_use]
    pub fn reservation(&self, capacity_items: u64) -> Option<(f64, u64, Self)> {
        match self {
            Self::Everbloom(_) | Self::Merged(_) => {
                let promise = Promise { capacity_items, ..*self.promise()? };
                let is_reserved = !promise.growth.is_unreserved();
                is_reserved.then_some((promise.error_rate, capacity_items, Self::Everbloom(promise)))
            }
            Self::RedisBloom(policy) => {
                let (error_rate, _) = policy.reserve_parameters()?;
                let capacity_items = capacity_items.min(redisbloom::COMMAND_CAPACITY_MAX_ITEMS);
                let policy = RedisBloom::new(
                    error_rate,
                    capacity_items,
                    redisbloom::RedisBloomOptions::SCALING,
                    redisbloom::RESERVED_GROWTH,
                );
                Some((error_rate, capacity_items, Self::RedisBloom(Box::new(policy))))
            }
            Self::ValkeyBloom(policy) => {
                let policy = ValkeyBloom { capacity_items, ..**policy };
                Some((policy.error_rate, capacity_items, Self::ValkeyBloom(Box::new(policy))))
            }
            Self::Union(_) | Self::Counting(_) | Self::Window(_) | Self::Imported(_) => None,
        }
    }
}

/// The parts of a filter.
impl Policy {
    /// Returns the first part of a filter.
    ///
    /// # Errors
    /// [`ReserveError`] if there can be no such filter.
    pub fn first_part(&self, hash: Hash) -> Result<PartSpec, ReserveError> {
        let table = self.table();
        if self.growth().is_unreserved() || table.kind != EntryKind::Plain {
            return Ok(PartSpec::Table(table, hash));
        }
        let layer = match self.promise() {
            Some(promise) => LayerSpec::sized(promise.capacity_items, promise.bits_error_rate(), hash),
            None => self.layers(hash).next().ok_or(ReserveError::TooLong)??,
        };
        Ok(PartSpec::Layer(layer))
    }

    /// Returns the part that a filter of these layers gets next, all of which are full. It is not fixed.
    ///
    /// # Errors
    /// [`ReserveError`] if it cannot grow.
    pub(super) fn next_part(&self, layers: &[Layer]) -> Result<PartSpec, ReserveError> {
        let hash = layers.first().map_or(Hash::Murmur3, |first| *first.hash());
        match self {
            Self::RedisBloom(policy) => policy.next_layer(layers).map(PartSpec::Layer),
            Self::ValkeyBloom(policy) => policy.next_layer(layers, hash).map(PartSpec::Layer),
            _ if self.has_several_hashes() => Ok(PartSpec::Table(self.table(), Hash::Murmur3)),
            _ => Ok(PartSpec::Table(self.table(), hash)),
        }
    }

    /// Returns the layers that a filter of another format gets while it grows, from the first one on, up to the first
    /// one that is impossible; none for everbloom's own format.
    pub fn layers(&self, hash: Hash) -> impl Iterator<Item = Result<LayerSpec, ReserveError>> {
        let mut before = None;
        (0usize..).map_while(move |index| {
            let layer = match self {
                Self::RedisBloom(policy) => policy.layer(index, before, hash),
                Self::ValkeyBloom(policy) => policy.layer(index, before, ProbeRounding::Nearest, hash),
                _ => return None,
            };
            before = layer.as_ref().ok().map(|layer| layer.capacity_items);
            Some(layer)
        })
    }

    /// Returns the table of a filter; of other formats, which have none, the one that a merge adds.
    #[must_use]
    pub fn table(&self) -> TableSpec {
        let (error_rate, growth) = self.asked();
        let (error_rate, kind, items) = match self {
            Self::Counting(_) => (error_rate, EntryKind::Counted, 0),
            Self::Window(window) => (error_rate, EntryKind::Timed, window.promise.capacity_items),
            // The client's bits have no share.
            Self::Imported(_) => (error_rate, EntryKind::Plain, 0),
            _ => (growth.table_error_rate(error_rate), EntryKind::Plain, 0),
        };
        TableSpec { error_rate, kind, items }
    }

    /// Returns the error rate that layer `index` was sized for; 0 is the oldest. It is unknown for merged and imported
    /// layers, which do not store it.
    #[must_use]
    pub fn sized_error_rate(&self, layers: &[Layer], index: usize) -> Option<f64> {
        match self {
            Self::Everbloom(promise) => Some(promise.bits_error_rate()),
            Self::RedisBloom(_) => match layers.get(index)?.layout() {
                Layout::Modulo(layout) => Some(layout.error_rate()),
                _ => None,
            },
            Self::ValkeyBloom(policy) => policy.layer_error_rate(index),
            _ => None,
        }
    }

    /// Returns the size in bytes that another module shows for a filter of its format with these layers. O(layers).
    #[must_use]
    pub fn reported_size_bytes(&self, layers: &[Layer]) -> Option<u64> {
        match self {
            Self::RedisBloom(_) => Some(redisbloom::reported_size_bytes(layers)),
            Self::ValkeyBloom(_) => {
                Some(valkeybloom::size_bytes(layers.iter().map(|layer| layer.bits().size_bytes())))
            }
            _ => None,
        }
    }

    /// Checks the parameters, and that a filter may have these layers, and a table with entries of this kind, whose
    /// items have this hash.
    ///
    /// # Errors
    /// The name of the part that breaks a rule.
    pub(super) fn validate(
        &self,
        layers: &[Layer],
        table: Option<(EntryKind, &Hash)>,
    ) -> Result<(), &'static str> {
        if let Some(promise) = self.promise() {
            promise.validate()?;
        }
        self.window().map_or(Ok(()), Window::validate)?;
        let (growth, hash) = (self.growth(), layers.first().map(Layer::hash));
        let (kind, of_table) = (self.table().kind, table.map(|(_, hash)| hash));
        if table.is_some_and(|(of_entries, hash)| of_entries != kind || !hash.is_own()) {
            return Err("table");
        }
        if kind != EntryKind::Plain {
            return match growth {
                Growth::Saturating => Err("growth"),
                _ if layers.is_empty() && table.is_some() => Ok(()),
                _ => Err("table"),
            };
        }
        if table.is_some() && growth.is_fixed_size() {
            return Err("table");
        }
        if layers.is_empty() && !(growth.is_unreserved() && table.is_some()) {
            return Err("layer count");
        }
        match self {
            Self::Everbloom(_) | Self::Merged(_) => {
                let is_own = |layer: &Layer| layer.shape().is_some() && Some(layer.hash()) == hash;
                if !layers.iter().all(is_own) {
                    return Err("layers");
                }
                if of_table.is_some_and(|of_table| hash.is_some_and(|hash| hash != of_table)) {
                    return Err("table");
                }
                // Only a saturating filter counts beyond the capacity of a layer.
                if growth == Growth::Saturating { Ok(()) } else { within_capacity(layers) }
            }
            // The part that takes new items must be able to hash all of them.
            Self::Union(_) => {
                let last = of_table.or(layers.last().map(Layer::hash));
                if last.is_some_and(Hash::takes_all_items) { Ok(()) } else { Err("last layer") }
            }
            Self::Imported(policy) => {
                policy.validate(layers)?;
                if of_table.is_some_and(|hash| *hash != Hash::Murmur3) { Err("table") } else { Ok(()) }
            }
            Self::RedisBloom(_) if table.is_some() => Err("layers"),
            Self::RedisBloom(_) => redisbloom::validate_layers(layers),
            Self::ValkeyBloom(policy) => {
                policy.validate()?;
                if table.is_some() {
                    return Err("layers");
                }
                policy.validate_layers(layers)?;
                within_capacity(layers)
            }
            Self::Counting(_) | Self::Window(_) => Ok(()),
        }
    }
}

/// Checks that no layer has more items than its capacity.
fn within_capacity(layers: &[Layer]) -> Result<(), &'static str> {
    let is_within = |layer: &Layer| layer.counts().items <= layer.capacity_items();
    if layers.iter().all(is_within) { Ok(()) } else { Err("items") }
}

/// The blocks of the allocator.
impl Policy {
    /// Visits the block of the policy, if it has one.
    pub(super) fn visit_block(&self, visitor: &mut impl BlockVisitor) {
        match self {
            Self::Everbloom(_) => {}
            Self::Merged(policy) | Self::Union(policy) | Self::Counting(policy) => {
                visitor.visit(std::slice::from_ref(&**policy));
            }
            Self::Window(policy) => visitor.visit(std::slice::from_ref(&**policy)),
            Self::RedisBloom(policy) => visitor.visit(std::slice::from_ref(&**policy)),
            Self::ValkeyBloom(policy) => visitor.visit(std::slice::from_ref(&**policy)),
            Self::Imported(policy) => visitor.visit(std::slice::from_ref(&**policy)),
        }
    }

    /// Moves the block of the policy, if it has one.
    pub(super) fn move_block(&mut self, mover: &impl BlockMover) {
        match self {
            Self::Everbloom(_) => {}
            Self::Merged(policy) | Self::Union(policy) | Self::Counting(policy) => mover.move_box(policy),
            Self::Window(policy) => mover.move_box(policy),
            Self::RedisBloom(policy) => mover.move_box(policy),
            Self::ValkeyBloom(policy) => mover.move_box(policy),
            Self::Imported(policy) => mover.move_box(policy),
        }
    }
}
