//! Filters of several kinds in the words of commands.

use super::facts::{Facts, LayerProfile, Profile};
use crate::bloom::union::{Union, UnionPlacement, View};
use crate::bloom::valkeybloom::Seed;
use crate::bloom::{Chain, Filter, Probes};
use crate::command::text::six_digits;
use crate::command::words::Word;

pub(super) fn facts(filter: &Filter, chain: &Chain<Union>) -> Facts {
    Facts {
        size_bytes: filter.size_bytes(),
        error_rate: Some(chain.family().0.error_rate),
        tightening_ratio: None,
        estimated_items: None,
        window_ms: None,
    }
}

/// What its layers were sized for is not written down. It is keyed if every layer is: items can be chosen
/// that a single layer takes for others.
pub(super) fn profile(chain: &Chain<Union>) -> Profile {
    let views = chain.views();
    let layers = views.iter().map(|view| LayerProfile { placement: owner(view), error_rate: None }).collect();
    let is_keyed = views.iter().all(|view| match view.placement {
        UnionPlacement::Own(_) | UnionPlacement::RedisBloom(..) | UnionPlacement::Client(_) => false,
        UnionPlacement::Keyed(..) => true,
        UnionPlacement::ValkeyBloom(_, seed) => seed != Seed::FIXED,
    });
    let error_rate = Some(chain.family().0.error_rate);
    Profile { error_rate, is_keyed, layers, ..Profile::default() }
}

/// Whose layer it is.
fn owner(view: &View<'_>) -> &'static str {
    match view.placement {
        UnionPlacement::Own(_) => "everbloom",
        UnionPlacement::Keyed(..) => "everbloom-keyed",
        UnionPlacement::RedisBloom(..) => "redisbloom",
        UnionPlacement::ValkeyBloom(..) => "valkey-bloom",
        UnionPlacement::Client(placement) => placement.parameters().scheme.word(),
    }
}

/// Each layer with whose it is and the error rate that it has now.
pub(super) fn debug_lines(chain: &Chain<Union>) -> Vec<String> {
    chain.views().iter().map(debug_line).collect()
}

fn debug_line(view: &View<'_>) -> String {
    let owner = owner(view);
    format!(
        "bytes:{} bits:{} hashes:{} scheme:{owner} capacity:{} size:{} set:{} ratio:{}",
        view.bits.size_bytes(),
        view.bits.len(),
        view.placement.probes(),
        view.capacity_items,
        view.items,
        view.bits.set_bits(),
        six_digits(view.holding().error_rate()),
    )
}
