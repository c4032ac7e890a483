//! Filters that were taken over from clients in the words of commands.

use super::everbloom::{debug_line, layer_profile};
use super::facts::{Facts, Import, LayerProfile, Profile};
use crate::bloom::client::{BitOrder, SchemeParameters, current_error_rate};
use crate::bloom::{Chain, Client, Filter};
use crate::command::text::six_digits;
use crate::command::words::{GUAVA_ORDER, Word};

pub(super) fn facts(filter: &Filter, chain: &Chain<Client>) -> Facts {
    Facts {
        size_bytes: filter.size_bytes(),
        // Nobody promised a rate of a client's filter: BF.DEBUG tells the one that it has.
        error_rate: None,
        tightening_ratio: None,
        estimated_items: Some(chain.family().estimated_items),
        window_ms: None,
    }
}

/// Nobody promised a rate of the client's layer, and so none of the whole filter.
pub(super) fn profile(chain: &Chain<Client>) -> Profile {
    let Client { scheme, encoding, form, error_rate, growth, .. } = *chain.family();
    let first = LayerProfile { placement: scheme.word(), error_rate: None };
    let own = chain
        .own_layers()
        .enumerate()
        .map(|(index, (shape, _))| layer_profile(shape.layout, growth.layer_error_rate(error_rate, index)));
    let import = Import { scheme: scheme.word(), encoding: encoding.word(), order: order_word(form.order) };
    let layers = std::iter::once(first).chain(own).collect();
    Profile { import: Some(import), layers, ..Profile::default() }
}

/// The client's layer with what its scheme is told and the rate that its fill makes; then layers of our own.
pub(super) fn debug_lines(chain: &Chain<Client>) -> Vec<String> {
    let Client { form, estimated_items, error_rate, growth, .. } = *chain.family();
    let client = chain.client_layer().map(|(placement, layer)| {
        let SchemeParameters { scheme, encoding, shift, probes, size_bits } = placement.parameters();
        let counts = layer.counts();
        format!(
            "bytes:{} bits:{size_bits} hashes:{probes} scheme:{} encoding:{} shift:{shift} order:{} capacity:{} size:{} \
             estimated:{estimated_items} set:{} ratio:{}",
            layer.bits().size_bytes(),
            scheme.word(),
            encoding.word(),
            order_word(form.order),
            layer.capacity_items(),
            counts.items,
            counts.set_bits,
            six_digits(current_error_rate(counts.set_bits, layer.bits().len(), probes)),
        )
    });
    let own = chain.own_layers().enumerate().map(|(index, (shape, layer))| {
        debug_line(shape, shape.size_bytes(), layer.counts(), growth.layer_error_rate(error_rate, index))
    });
    client.into_iter().chain(own).collect()
}

fn order_word(order: BitOrder) -> &'static str {
    match order {
        BitOrder::Msb | BitOrder::Lsb => order.word(),
        BitOrder::BigEndianWords => GUAVA_ORDER,
    }
}
