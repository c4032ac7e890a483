//! The header of a client's filter that was taken over, and making the filter again from it. docs/formats.md has the
//! byte table.

use serde::{Deserialize, Serialize};

use super::GuavaHeader;
use crate::bloom::client::{
    BitOrder, ItemEncoding, Scheme, SchemeParameters, SchemePlacement, StringForm, estimated_items,
};
use crate::bloom::client::{ClientPlacement, own_plan};
use crate::bloom::limits::{CAPACITY_MAX_ITEMS, EXPANSION_MAX, LAYERS_MAX};
use crate::bloom::{
    ByteLimit, Chain, Client, Extent, Growth, Layer, LayerCounts, LayerPlan, LayerShape, OutOfMemory,
};
use crate::format::everbloom::header::{KIND_CLIENT, LAYER_HEADER_BYTES, LayerHeader, MAGIC, VERSION};
use crate::format::fields::{append, read};
use crate::format::record::DecodeError;

/// A client's filter and what grew behind it.
pub type ClientChain = Chain<Client>;

/// Bytes of the part that every header has.
pub const CLIENT_HEADER_BYTES: usize = 80;

#[derive(Serialize, Deserialize)]
struct ClientHeader {
    magic: [u8; 4],
    version: u16,
    kind: u16,
    layer_count: u32,
    expansion: u32,
    error_rate: f64,
    scheme: u8,
    encoding: u8,
    order: u8,
    shift: u8,
    probes: u32,
    size_bits: u64,
    string_bytes: u64,
    estimated_items: u64,
    capacity_items: u64,
    items: u64,
    set_bits: u64,
}

/// Writes the header of a filter. O(layers).
#[must_use]
pub fn encode(chain: &ClientChain) -> Vec<u8> {
    let mut bytes = Vec::new();
    // The first layer is the client's: neither a command nor a decoder makes another.
    if let Some((placement, layer)) = chain.client_layer() {
        append(&mut bytes, &ClientHeader::of(chain, placement.parameters(), layer));
    }
    for (shape, layer) in chain.own_layers() {
        append(&mut bytes, &LayerHeader::of(shape, layer.counts()));
    }
    bytes
}

/// Makes the filter of a header, its layers one at a time with all bits clear, and hands each to `fill` with the counts
/// that the header gives. O(layers).
///
/// # Errors
/// The first field that is wrong, before anything is allocated; [`DecodeError::OutOfMemory`]; what `fill` says.
pub fn build(
    bytes: &[u8],
    limit: &dyn ByteLimit,
    mut fill: impl FnMut(&mut Layer<ClientPlacement>, LayerCounts) -> Result<(), DecodeError>,
) -> Result<ClientChain, DecodeError> {
    let (chain_bytes, layer_bytes) =
        bytes.split_at_checked(CLIENT_HEADER_BYTES).ok_or(DecodeError::Truncated)?;
    let header: ClientHeader = read(chain_bytes)?;
    let (layers, rest) = layer_bytes.as_chunks::<LAYER_HEADER_BYTES>();
    if header.magic != MAGIC || header.version != VERSION || header.kind != KIND_CLIENT {
        return Err(DecodeError::Invalid("magic"));
    }
    let own_layers = u64::from(header.layer_count).checked_sub(1);
    if own_layers != Some(layers.len() as u64) || layers.len() >= LAYERS_MAX {
        return Err(DecodeError::Invalid("layer count"));
    }
    if !rest.is_empty() {
        return Err(DecodeError::Invalid("header length"));
    }
    let (family, client) = header.validate()?;
    let own: Vec<(LayerShape, LayerCounts)> =
        layers.iter().map(|bytes| LayerHeader::decode(bytes)?.validate()).collect::<Result<_, _>>()?;
    let (plan, _) = &client;
    let extent = Extent::default().and_layer(plan.size_bits.div_ceil(8), header.probes);
    let extent =
        own.iter().fold(extent, |extent, (shape, _)| extent.and_layer(shape.size_bytes(), shape.probes));
    extent.check::<Client>(limit)?;
    let own = own.into_iter().map(|(shape, counts)| (own_plan(shape), counts));
    let mut layers = Vec::with_capacity(own.len().saturating_add(1));
    for (plan, counts) in std::iter::once(client).chain(own) {
        let mut layer = Layer::try_new(plan).map_err(|OutOfMemory| DecodeError::OutOfMemory)?;
        layer.set_items(counts.items);
        fill(&mut layer, counts)?;
        layers.push(layer);
    }
    Chain::from_layers(family, layers).ok_or(DecodeError::Invalid("filter"))
}

type ClientLayer = (LayerPlan<ClientPlacement>, LayerCounts);

impl ClientHeader {
    fn of(chain: &ClientChain, client: SchemeParameters, layer: &Layer<ClientPlacement>) -> Self {
        let Client { form, estimated_items, error_rate, growth, .. } = *chain.family();
        let SchemeParameters { scheme, encoding, shift, probes, size_bits } = client;
        let LayerCounts { items, set_bits } = layer.counts();
        Self {
            magic: MAGIC,
            version: VERSION,
            kind: KIND_CLIENT,
            layer_count: u32::try_from(chain.layers().len()).unwrap_or(u32::MAX),
            expansion: growth.expansion(),
            error_rate,
            scheme: scheme.id(),
            encoding: encoding.id(),
            order: form.order.id(),
            shift,
            probes,
            size_bits,
            string_bytes: form.length_bytes,
            estimated_items,
            capacity_items: layer.capacity_items(),
            items,
            set_bits,
        }
    }

    fn validate(&self) -> Result<(Client, ClientLayer), DecodeError> {
        let unsupported = |what, got: u8| DecodeError::Unsupported { what, got: got.into() };
        let scheme = Scheme::from_id(self.scheme).ok_or(unsupported("scheme", self.scheme))?;
        let encoding = ItemEncoding::from_id(self.encoding).ok_or(unsupported("encoding", self.encoding))?;
        let order = BitOrder::from_id(self.order).ok_or(unsupported("bit order", self.order))?;
        let Self { shift, probes, size_bits, capacity_items, items, set_bits, error_rate, .. } = *self;
        let parameters = SchemeParameters { scheme, encoding, shift, probes, size_bits };
        let placement = SchemePlacement::new(parameters).map_err(|_| DecodeError::Invalid("scheme"))?;
        let form = StringForm { order, length_bytes: self.string_bytes };
        if !form.is_valid(placement.array_bits()) {
            return Err(DecodeError::Invalid("string length"));
        }
        if order == BitOrder::BigEndianWords && GuavaHeader::of(&parameters).is_none() {
            return Err(DecodeError::Invalid("bit order"));
        }
        if !(error_rate > 0.0 && error_rate < 1.0) {
            return Err(DecodeError::Invalid("error rate"));
        }
        if self.expansion > EXPANSION_MAX {
            return Err(DecodeError::Invalid("expansion"));
        }
        if capacity_items == 0 || capacity_items > CAPACITY_MAX_ITEMS {
            return Err(DecodeError::Invalid("capacity"));
        }
        // More items than the capacity are possible: both may be what somebody believed. But no array is estimated higher
        // than a full one, and every item that was counted has set a bit that was clear. Only an array that was filled
        // after items were added may have counted more, up to its capacity.
        let array_bits = placement.array_bits();
        let most_estimated = estimated_items(array_bits, array_bits, probes);
        let most_items = most_estimated.saturating_add(array_bits).max(capacity_items);
        if self.estimated_items > most_estimated.min(items) || items > most_items {
            return Err(DecodeError::Invalid("items"));
        }
        if set_bits > array_bits {
            return Err(DecodeError::Invalid("set bits"));
        }
        let growth = Growth::from_expansion(self.expansion);
        let estimated_items = self.estimated_items;
        let family = Client { scheme, encoding, form, estimated_items, error_rate, growth };
        let plan = LayerPlan {
            size_bits: array_bits,
            placement: ClientPlacement::Client(placement),
            capacity_items,
            has_head: false,
        };
        Ok((family, (plan, LayerCounts { items, set_bits })))
    }
}
