//! The kinds of policies, and what all of them answer.

use super::counting::Counting;
use super::imported::Imported;
use super::promise::{Growth, Promise};
use super::redisbloom::{self, RedisBloom};
use super::valkeybloom::ValkeyBloom;
use super::window::Window;
use crate::bits::Layer;
use crate::generation::AddTime;
use crate::limits::{CAPACITY_MAX_ITEMS, EXPANSION_MAX};
use crate::memory::{BlockMover, BlockVisitor};

/// The policy of a filter: its promise and its rules. All but the most frequent one are boxed, so that most filters stay
/// small.
#[derive(Clone, Debug, PartialEq)]
pub enum Policy {
    /// A promise without further rules. A filter whose capacity was chosen has bits and, if it may grow, a table for the
    /// items beyond the capacity. A filter whose capacity nobody chose has only a table.
    Everbloom(Promise),
    /// A promise with further rules.
    Promised(Box<Promised>),
    /// RedisBloom's rules.
    RedisBloom(Box<RedisBloom>),
    /// valkey-bloom's rules.
    ValkeyBloom(Box<ValkeyBloom>),
    /// A client's bits, and a promise over the table that follows them.
    Imported(Box<Imported>),
}

impl Default for Policy {
    fn default() -> Self {
        Self::Everbloom(Promise::default())
    }
}

/// A promise over the whole filter, and further rules.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Promised {
    /// The promise.
    pub promise: Promise,
    /// The rules.
    pub rules: Rules,
}

/// The rules of a filter besides its promise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rules {
    /// Several layers of bits from a merge, all with the same hash.
    Merged,
    /// Layers of bits from filters of several kinds.
    Union,
    /// Items that can be deleted: a table that counts.
    Counting(Counting),
    /// The items of a sliding window: a table whose entries expire.
    Window(Window),
}

/// Largest error rate of a promise that is derived from a filter of another format, which may have a higher one.
const ERROR_RATE_MAX: f64 = 0.999;

/// The properties of a policy.
impl Policy {
    /// Returns a policy of a promise with further rules.
    #[must_use]
    pub fn promised(promise: Promise, rules: Rules) -> Self {
        Self::Promised(Box::new(Promised { promise, rules }))
    }

    /// Returns the promise over the whole filter, if any.
    #[must_use]
    pub fn promise(&self) -> Option<&Promise> {
        match self {
            Self::Everbloom(promise) => Some(promise),
            Self::Promised(promised) => Some(&promised.promise),
            Self::RedisBloom(_) | Self::ValkeyBloom(_) | Self::Imported(_) => None,
        }
    }

    /// Returns the rules besides the promise, if there are any.
    #[inline(always)]
    pub(in crate::filter) const fn rules(&self) -> Option<&Rules> {
        if let Self::Promised(promised) = self { Some(&promised.rules) } else { None }
    }

    /// Returns the promise over the whole filter. If there is none, returns the promise of a filter of everbloom's own
    /// format with the same parameters and these layers.
    #[must_use]
    pub fn promise_with(&self, layers: &[Layer]) -> Promise {
        self.promise().copied().unwrap_or_else(|| Promise {
            error_rate: self.requested().0.min(ERROR_RATE_MAX),
            capacity_items: layers.first().map_or(1, Layer::capacity_items).clamp(1, CAPACITY_MAX_ITEMS),
            growth: Growth::from_expansion(self.growth().expansion().min(EXPANSION_MAX)),
        })
    }

    /// Returns the error rate that a command requests to create the filter, and the growth.
    #[inline(always)]
    pub(in crate::filter) fn requested(&self) -> (f64, Growth) {
        match self {
            Self::Everbloom(promise) => (promise.error_rate, promise.growth),
            Self::Promised(promised) => (promised.promise.error_rate, promised.promise.growth),
            Self::RedisBloom(policy) => (policy.asked_error_rate(), policy.growth()),
            Self::ValkeyBloom(policy) => (policy.error_rate, policy.growth),
            Self::Imported(policy) => (policy.error_rate, policy.growth),
        }
    }

    /// Returns what happens when the filter has as many items as its capacity.
    #[must_use]
    #[inline(always)]
    pub fn growth(&self) -> Growth {
        self.requested().1
    }

    /// Returns the parameters of a sliding window.
    #[must_use]
    #[inline(always)]
    pub fn window(&self) -> Option<&Window> {
        if let Some(Rules::Window(window)) = self.rules() { Some(window) } else { None }
    }

    /// Returns the mutable parameters of a sliding window.
    #[inline(always)]
    pub(in crate::filter) fn window_mut(&mut self) -> Option<&mut Window> {
        match self {
            Self::Promised(promised) => match &mut promised.rules {
                Rules::Window(window) => Some(window),
                Rules::Merged | Rules::Union | Rules::Counting(_) => None,
            },
            _ => None,
        }
    }

    /// Returns what a counting filter keeps for CF.INFO.
    #[must_use]
    pub fn counting(&self) -> Option<&Counting> {
        if let Some(Rules::Counting(counting)) = self.rules() { Some(counting) } else { None }
    }

    /// Returns the mutable parameters of a counting filter.
    pub(in crate::filter) fn counting_mut(&mut self) -> Option<&mut Counting> {
        match self {
            Self::Promised(promised) => match &mut promised.rules {
                Rules::Counting(counting) => Some(counting),
                Rules::Merged | Rules::Union | Rules::Window(_) => None,
            },
            _ => None,
        }
    }

    /// Returns the time of the filter; generation 0 for all but sliding windows.
    #[inline(always)]
    pub(in crate::filter) fn moment(&self) -> AddTime {
        self.window().map_or_else(AddTime::default, Window::moment)
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

    /// Returns whether all layers are of everbloom's own format and have the same hash.
    pub(in crate::filter) const fn is_own(&self) -> bool {
        matches!(self, Self::Everbloom(_)) || matches!(self.rules(), Some(Rules::Merged))
    }

    /// Returns whether some of the layers came from a merge.
    #[must_use]
    pub const fn has_merged_layers(&self) -> bool {
        matches!(self.rules(), Some(Rules::Merged | Rules::Union))
    }

    /// Returns whether the parts of the filter may have several hashes.
    #[inline(always)]
    pub(in crate::filter) const fn has_several_hashes(&self) -> bool {
        matches!(self.rules(), Some(Rules::Union)) || matches!(self, Self::Imported(_))
    }

    /// Returns whether an entry means the same in filters with this policy and with `other`.
    pub(in crate::filter) fn has_entries_of(&self, other: &Self) -> bool {
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

    /// Returns the policy of an empty filter of everbloom's own format with `promise`, whose items can be deleted or
    /// expire as under this policy. Other policies are replaced by the promise alone: an empty filter has no merged
    /// layers.
    pub(in crate::filter) fn with_promise(&self, promise: Promise) -> Self {
        match self.rules() {
            Some(Rules::Counting(counting)) => Self::promised(promise, Rules::Counting(counting.emptied())),
            Some(Rules::Window(window)) => {
                Self::promised(promise, Rules::Window(Window::new(window.span, window.no_refresh)))
            }
            Some(Rules::Merged | Rules::Union) | None => Self::Everbloom(promise),
        }
    }

    /// Returns the policy of a filter with these layers after a merge has added others. Unless they `are_alike`, the
    /// added layers may have other hashes or layouts.
    pub(in crate::filter) fn merged(&self, layers: &[Layer], are_alike: bool) -> Self {
        let is_own = self.is_own();
        Self::promised(
            self.promise_with(layers),
            if is_own && are_alike { Rules::Merged } else { Rules::Union },
        )
    }

    /// Returns the error rate, the capacity and the policy with which BF.RESERVE creates a filter of layers that is
    /// like this one, but has a capacity of `capacity_items`, or of the most that the format permits. `None` if no
    /// BF.RESERVE creates such a filter.
    #[must_use]
    pub fn reservation(&self, capacity_items: u64) -> Option<(f64, u64, Self)> {
        match self {
            _ if self.is_own() => {
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
            Self::Everbloom(_) | Self::Promised(_) | Self::Imported(_) => None,
        }
    }
}

impl From<Imported> for Policy {
    fn from(policy: Imported) -> Self {
        Self::Imported(Box::new(policy))
    }
}

impl From<ValkeyBloom> for Policy {
    fn from(policy: ValkeyBloom) -> Self {
        Self::ValkeyBloom(Box::new(policy))
    }
}

impl From<RedisBloom> for Policy {
    fn from(policy: RedisBloom) -> Self {
        Self::RedisBloom(Box::new(policy))
    }
}

/// The blocks of the allocator.
impl Policy {
    /// Visits the block of the policy, if it has one.
    pub(in crate::filter) fn visit_block(&self, visitor: &mut impl BlockVisitor) {
        match self {
            Self::Everbloom(_) => {}
            Self::Promised(policy) => visitor.visit(std::slice::from_ref(&**policy)),
            Self::RedisBloom(policy) => visitor.visit(std::slice::from_ref(&**policy)),
            Self::ValkeyBloom(policy) => visitor.visit(std::slice::from_ref(&**policy)),
            Self::Imported(policy) => visitor.visit(std::slice::from_ref(&**policy)),
        }
    }

    /// Moves the block of the policy, if it has one.
    pub(in crate::filter) fn move_block(&mut self, mover: &impl BlockMover) {
        match self {
            Self::Everbloom(_) => {}
            Self::Promised(policy) => mover.move_box(policy),
            Self::RedisBloom(policy) => mover.move_box(policy),
            Self::ValkeyBloom(policy) => mover.move_box(policy),
            Self::Imported(policy) => mover.move_box(policy),
        }
    }
}
