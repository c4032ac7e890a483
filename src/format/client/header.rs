//! The header of a client's filter that was taken over. docs/formats.md has the byte table.

use serde::{Deserialize, Serialize};

use super::guava::GuavaHeader;
use crate::bloom::client::{
    BitOrder, ClientPlacement, ItemEncoding, Scheme, SchemeParameters, SchemePlacement, StringForm, own_plan,
};
use crate::bloom::{ByteLimit, Chain, Client, Growth, Layer, LayerCounts, LayerPlan};
use crate::format::envelope::{Kind, Opening};
use crate::format::everbloom::header::{HASH_MURMUR3_X64_128, LAYER_HEADER_BYTES, LayerHeader};
use crate::format::fields::{append, read};
use crate::format::plan::{FilterPlan, PlannedLayer};
use crate::format::record::DecodeError;

/// A client's filter and what grew behind it.
pub type ClientChain = Chain<Client>;

/// Bytes of the part that every header has.
pub const CLIENT_HEADER_BYTES: usize = 80;

#[derive(Serialize, Deserialize)]
struct ClientHeader {
    opening: Opening,
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
    let growth = chain.family().growth;
    for (shape, layer) in chain.own_layers() {
        append(&mut bytes, &LayerHeader::of(shape, layer.counts(), HASH_MURMUR3_X64_128, growth));
    }
    bytes
}

/// Reads a header and checks every field. O(layers).
///
/// # Errors
/// The first field that is wrong, or [`DecodeError::TooLarge`] when the filter breaks the limit.
pub fn decode(bytes: &[u8], limit: &dyn ByteLimit) -> Result<FilterPlan<Client>, DecodeError> {
    let (chain_bytes, layer_bytes) =
        bytes.split_at_checked(CLIENT_HEADER_BYTES).ok_or(DecodeError::Truncated)?;
    let header: ClientHeader = read(chain_bytes)?;
    let (own_layers, rest) = layer_bytes.as_chunks::<LAYER_HEADER_BYTES>();
    header.opening.check(Kind::Client, own_layers.len().saturating_add(1))?;
    if !rest.is_empty() {
        return Err(DecodeError::Invalid("header length"));
    }
    let (family, client) = header.unpack()?;
    let own = own_layers.iter().map(|bytes| {
        let (shape, counts) = LayerHeader::decode(bytes)?.unpack(HASH_MURMUR3_X64_128, family.growth)?;
        Ok((own_plan(shape), counts))
    });
    let layers = std::iter::once(Ok(client)).chain(own).collect::<Result<_, DecodeError>>()?;
    FilterPlan::new(family, layers, limit)
}

impl ClientHeader {
    fn of(chain: &ClientChain, client: SchemeParameters, layer: &Layer<ClientPlacement>) -> Self {
        let Client { form, estimated_items, error_rate, growth, .. } = *chain.family();
        let SchemeParameters { scheme, encoding, shift, probes, size_bits } = client;
        let LayerCounts { items, set_bits } = layer.counts();
        Self {
            opening: Opening::new(Kind::Client, chain.layers().len()),
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

    fn unpack(&self) -> Result<(Client, PlannedLayer<ClientPlacement>), DecodeError> {
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
        let growth = Growth::from_expansion(self.expansion);
        let estimated_items = self.estimated_items;
        let family = Client { scheme, encoding, form, estimated_items, error_rate, growth };
        let plan = LayerPlan {
            size_bits: placement.array_bits(),
            placement: ClientPlacement::Client(placement),
            capacity_items,
            has_head: false,
        };
        Ok((family, (plan, LayerCounts { items, set_bits })))
    }
}
