//! What a layer holds, by its bits and by its count, and how often it errs, now and when it is full.

use super::placement::UnionPlacement;
use crate::bloom::bits::Bits;
use crate::bloom::client::estimated_items;
use crate::bloom::everbloom::LayerShape;
use crate::bloom::everbloom::sizing::{full_items, full_rate, full_rate_anywhere, items_of};
use crate::bloom::layer::Layer;
use crate::bloom::placement::Probes;

/// A layer of any kind, to be looked at.
#[derive(Clone, Copy, Debug)]
pub struct View<'f> {
    /// How it places probes.
    pub placement: UnionPlacement,
    /// Its bits.
    pub bits: &'f Bits,
    /// Items it takes before it is full.
    pub capacity_items: u64,
    /// Items counted.
    pub items: u64,
}

impl<'f> View<'f> {
    /// Of a layer whose placement is told like this.
    #[must_use]
    pub fn of<P: Probes<Storage = Bits>>(layer: &'f Layer<P>, placement: UnionPlacement) -> Self {
        let (bits, capacity_items) = (layer.bits(), layer.capacity_items());
        Self { placement, bits, capacity_items, items: layer.counts().items }
    }

    /// Returns what it holds now. O(1).
    #[must_use]
    pub fn holding(&self) -> Holding {
        let (size_bits, set_bits) = (self.bits.len(), self.bits.set_bits());
        let holding = Holding {
            placement: self.placement,
            size_bits,
            cells: self.placement.cells(self.bits),
            capacity_items: self.capacity_items,
            set_bits,
            items: self.items,
        };
        // The count is exact unless bits came without being counted, which the fill tells.
        let by_fill = holding.items_by_fill(set_bits);
        let is_counted = self.items.abs_diff(by_fill) as f64 <= holding.noise(by_fill);
        Holding { items: if is_counted { self.items } else { by_fill }, ..holding }
    }
}

/// Standard deviations of the estimate within which a count is taken for exact.
const DEVIATIONS: f64 = 4.0;

/// A layer without its bits: its shape, and how much is in it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Holding {
    /// How it places probes.
    pub placement: UnionPlacement,
    /// Bits of its array.
    pub size_bits: u64,
    /// Those of them that its probes can reach.
    pub cells: u64,
    /// Items it takes before it is full.
    pub capacity_items: u64,
    /// Bits that are set, or will be.
    pub set_bits: u64,
    /// Distinct items in it: counted where every one was, else estimated from the fill.
    pub items: u64,
}

impl Holding {
    fn own_shape(&self) -> Option<LayerShape> {
        match self.placement {
            UnionPlacement::Own(probing) | UnionPlacement::Keyed(probing, _) => {
                Some(probing.shape(self.size_bits, self.capacity_items))
            }
            _ => None,
        }
    }

    /// Distinct items that have set so many bits. O(1).
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rounded quantity, not negative; a cast from a double saturates"
    )]
    pub fn items_by_fill(&self, set_bits: u64) -> u64 {
        match self.own_shape() {
            Some(shape) => items_of(&shape, set_bits).round() as u64,
            None => estimated_items(set_bits, self.size_bits, self.placement.probes()),
        }
    }

    /// Returns the most set bits that stand for no more items than it has capacity for. O(log bits).
    #[must_use]
    pub fn most_set_bits(&self) -> u64 {
        let (mut fewest, mut most) = (0, self.size_bits);
        while fewest < most {
            let middle = fewest + (most - fewest).div_ceil(2);
            if self.items_by_fill(middle) <= self.capacity_items {
                fewest = middle;
            } else {
                most = middle - 1;
            }
        }
        fewest
    }

    /// How far the estimate of so many items may lie from the truth: m (e^c - c - 1) / k^2 is its variance,
    /// with c = k n / m (Whang, Vander-Zanden and Taylor, "A linear-time probabilistic counting algorithm",
    /// 1990).
    fn noise(&self, items: u64) -> f64 {
        let (bits, k) = (self.size_bits as f64, f64::from(self.placement.probes()));
        let load = (k * items as f64 / bits).min(30.0);
        let variance = bits * (libm::expm1(load) - load) / (k * k);
        1.0 + DEVIATIONS * libm::sqrt(variance.max(0.0))
    }

    /// Returns the share of absent items that it takes for present, by its fill. O(1).
    #[must_use]
    pub fn error_rate(&self) -> f64 {
        self.placement.error_rate_of(self.set_bits.min(self.cells), self.cells)
    }

    /// Returns the share of absent items that it takes for present once it has taken as many items as it has capacity for; no
    /// less than now. O(probes).
    #[must_use]
    pub fn full_error_rate(&self) -> f64 {
        let full = match self.own_shape() {
            Some(shape) => full_rate(&shape),
            None => full_rate_anywhere(self.capacity_items, self.cells, self.placement.probes()),
        };
        full.max(self.error_rate())
    }

    /// Returns whether it surely holds more items than it was sized for, by its fill. Of layers of our own; false of others.
    #[must_use]
    pub fn is_overfull(&self) -> bool {
        let by_fill = self.items_by_fill(self.set_bits);
        self.own_shape().is_some_and(|shape| by_fill as f64 > full_items(&shape) + self.noise(by_fill))
    }

    /// Returns whether there is room for the items of `other` too: by their counts, all of them taken for different ones, or
    /// by what the bits of both will be then.
    #[must_use]
    pub fn has_room_for(&self, other: &Self) -> bool {
        self.items.saturating_add(other.items) <= self.capacity_items
            || self.items_by_fill(self.set_bits_with(other)) <= self.capacity_items
    }

    /// Bits that are set once the bits of `other` are too, if the items of both are different ones. Items
    /// that are in both set fewer.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rounded quantity, not negative; a cast from a double saturates"
    )]
    pub fn set_bits_with(&self, other: &Self) -> u64 {
        let size_bits = self.size_bits.max(1) as f64;
        let clear = (1.0 - self.set_bits as f64 / size_bits) * (1.0 - other.set_bits as f64 / size_bits);
        ((1.0 - clear) * size_bits).ceil() as u64
    }

    /// Returns what it holds with `other` too when so many bits are set.
    #[must_use]
    pub fn with(&self, other: &Self, set_bits: u64) -> Self {
        Self { set_bits, items: self.items_with(other, set_bits), ..*self }
    }

    /// The items of both together when so many bits are set: what the fill tells, between what must be and
    /// what can be.
    #[must_use]
    pub fn items_with(&self, other: &Self, set_bits: u64) -> u64 {
        let least = self.items.max(other.items);
        let most = self.items.saturating_add(other.items);
        self.items_by_fill(set_bits).clamp(least, most.max(least))
    }
}

/// Returns the sum of the error rates of layers, that of the `open` one when it is full. O(layers).
pub(super) fn spent(layers: &[Holding], open: Option<usize>) -> f64 {
    let rate = |(number, layer): (usize, &Holding)| {
        if Some(number) == open { layer.full_error_rate() } else { layer.error_rate() }
    };
    layers.iter().enumerate().map(rate).sum()
}
