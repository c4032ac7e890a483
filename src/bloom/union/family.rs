//! The kind of filter that has layers of every kind, and how filters of each kind become a part of one.

use super::placement::{UnionDigest, UnionPlacement};
use crate::bloom::budget::spent;
use crate::bloom::client::{Client, ClientPlacement};
use crate::bloom::everbloom::{Everbloom, LayerShape};
use crate::bloom::family::{BitFamily, Family};
use crate::bloom::growth::Growth;
use crate::bloom::keyed::Keyed;
use crate::bloom::layer::Layer;
use crate::bloom::limits::{CAPACITY_MAX_ITEMS, EXPANSION_MAX};
use crate::bloom::outcome::{AddError, ReserveError};
use crate::bloom::placement::LayerPlan;
use crate::bloom::redisbloom::RedisBloom;
use crate::bloom::valkeybloom::ValkeyBloom;

/// What a union promises and how it grows: by layers of our own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Union(pub Everbloom);

impl Union {
    /// Returns the plan of a layer of our own.
    pub(super) fn own_plan(capacity_items: u64, error_rate: f64) -> LayerPlan<UnionPlacement> {
        let shape = LayerShape::sized(capacity_items, error_rate);
        let LayerPlan { placement, size_bits, capacity_items, has_head } = shape.into();
        LayerPlan { placement: UnionPlacement::Own(placement), size_bits, capacity_items, has_head }
    }
}

impl Family for Union {
    type Digest<'i> = UnionDigest<'i>;
    type Placement = UnionPlacement;

    fn digest<'i>(&self, item: &'i [u8]) -> UnionDigest<'i> {
        UnionDigest::of(item)
    }

    fn growth(&self) -> Growth {
        self.0.growth
    }

    fn are_layers_united(&self, _layers: &[Layer<UnionPlacement>]) -> bool {
        true
    }

    /// An item that a client's encoding cannot express would be lost in a layer that takes new items.
    fn validate_layers(&self, layers: &[Layer<UnionPlacement>]) -> Result<(), &'static str> {
        self.0.validate()?;
        if !layers.last().is_some_and(|last| last.placement().takes_all_items()) {
            return Err("last layer");
        }
        layers.iter().try_for_each(|layer| {
            layer.placement().check(layer.bits().len(), layer.capacity_items(), layer.counts().items)
        })
    }

    fn next_layer(&self, layers: &[Layer<UnionPlacement>]) -> Result<LayerPlan<UnionPlacement>, AddError> {
        let (Some(last), Growth::Scaling { expansion }) = (layers.last(), self.0.growth) else {
            return Err(AddError::Full);
        };
        let capacity_items = last
            .capacity_items()
            .checked_mul(expansion.into())
            .filter(|capacity_items| *capacity_items <= CAPACITY_MAX_ITEMS)
            .ok_or(AddError::CannotGrow(ReserveError::TooLong))?;
        let error_rate = self.0.budget(layers.len(), spent(layers)).next_layer_error_rate();
        Ok(Self::own_plan(capacity_items, error_rate))
    }
}

/// A kind of filter whose layers can be part of a union.
pub trait Unitable: BitFamily {
    /// How a layer with that placement places probes, told so that it needs no family.
    fn told(&self, placement: Self::Placement) -> UnionPlacement;

    /// What a union that is made of such a filter promises. The rate is the one asked for.
    fn promise(&self, first: &Layer<Self::Placement>) -> Everbloom;
}

impl Unitable for Everbloom {
    fn told(&self, placement: Self::Placement) -> UnionPlacement {
        UnionPlacement::Own(placement)
    }

    fn promise(&self, _first: &Layer<Self::Placement>) -> Everbloom {
        *self
    }
}

impl Unitable for Keyed {
    fn told(&self, placement: Self::Placement) -> UnionPlacement {
        UnionPlacement::Keyed(placement, self.key)
    }

    fn promise(&self, _first: &Layer<Self::Placement>) -> Everbloom {
        self.parameters
    }
}

impl Unitable for RedisBloom {
    fn told(&self, placement: Self::Placement) -> UnionPlacement {
        UnionPlacement::RedisBloom(placement, self.hashing())
    }

    fn promise(&self, first: &Layer<Self::Placement>) -> Everbloom {
        let growth = Family::growth(self);
        let share = if growth == Growth::Fixed { 1.0 } else { 0.5 };
        possible(first.placement().error_rate() / share, first.capacity_items(), growth)
    }
}

impl Unitable for ValkeyBloom {
    fn told(&self, placement: Self::Placement) -> UnionPlacement {
        UnionPlacement::ValkeyBloom(placement, self.seed)
    }

    fn promise(&self, first: &Layer<Self::Placement>) -> Everbloom {
        possible(self.error_rate, first.capacity_items(), self.growth)
    }
}

impl Unitable for Client {
    fn told(&self, placement: Self::Placement) -> UnionPlacement {
        match placement {
            ClientPlacement::Client(placement) => UnionPlacement::Client(placement),
            ClientPlacement::Own(placement) => UnionPlacement::Own(placement),
        }
    }

    fn promise(&self, first: &Layer<Self::Placement>) -> Everbloom {
        possible(self.error_rate, first.capacity_items(), self.growth)
    }
}

impl Unitable for Union {
    fn told(&self, placement: Self::Placement) -> UnionPlacement {
        placement
    }

    fn promise(&self, _first: &Layer<Self::Placement>) -> Everbloom {
        self.0
    }
}

/// Largest error rate that a union is made to promise.
const ERROR_RATE_MAX: f64 = 0.999;

/// Parameters of another kind, as far as they are possible for one of ours.
fn possible(error_rate: f64, capacity_items: u64, growth: Growth) -> Everbloom {
    let expansion = growth.expansion().min(EXPANSION_MAX);
    Everbloom {
        error_rate: error_rate.min(ERROR_RATE_MAX),
        capacity_items: capacity_items.clamp(1, CAPACITY_MAX_ITEMS),
        growth: Growth::from_expansion(expansion),
    }
}
