//! The header of a filter that forgets. docs/formats.md has the byte table.

use serde::{Deserialize, Serialize};

use crate::bloom::window::{COLUMNS_LEN, History, Span, WindowProbing, WindowShape};
use crate::bloom::{ByteLimit, Chain, Layer, LayerCounts, Layout, Storage, Window};
use crate::format::envelope::Kind;
use crate::format::everbloom::header::{
    CHAIN_HEADER_BYTES, ChainHeader, HASH_MURMUR3_X64_128, LAYOUT_PAGED, LAYOUT_SCATTERED,
};
use crate::format::fields::{append, read};
use crate::format::plan::{FilterPlan, PlannedLayer};
use crate::format::record::DecodeError;

/// Flag of a filter in which an item counts from its first add.
const KEEPS_FIRST: u32 = 1;

/// Bytes of the part that every header of this kind has behind that which all headers have.
const TIME_BYTES: usize = 16;
/// Bytes of the first part of a layer.
const LAYER_BYTES: usize = 48;
/// Bytes of what a layer took.
const ITEMS_BYTES: usize = COLUMNS_LEN * 8;
/// Bytes of a layer.
pub const WINDOW_LAYER_BYTES: usize = LAYER_BYTES + ITEMS_BYTES;
/// Bytes of the part that every header has.
pub const WINDOW_HEADER_BYTES: usize = CHAIN_HEADER_BYTES + TIME_BYTES;

#[derive(Serialize, Deserialize)]
struct Time {
    window_ms: u64,
    flags: u32,
    reserved: u32,
}

#[derive(Serialize, Deserialize)]
struct LayerHeader {
    layout: u8,
    lines: u8,
    probes: u8,
    hash: u8,
    flags: u32,
    positions: u64,
    capacity_items: u64,
    set_bits: u64,
    newest: u64,
    address: u64,
}

/// Writes the header of a filter. O(layers).
#[must_use]
pub fn encode(chain: &Chain<Window>) -> Vec<u8> {
    let family = chain.family();
    let mut bytes = Vec::new();
    append(&mut bytes, &ChainHeader::of(Kind::Window, chain.layers().len(), &family.parameters));
    let flags = if family.keeps_first { KEEPS_FIRST } else { 0 };
    append(&mut bytes, &Time { window_ms: family.span.ms(), flags, reserved: 0 });
    for layer in chain.layers() {
        append(&mut bytes, &LayerHeader::of(layer));
        append(&mut bytes, &layer.storage().history().items);
    }
    bytes
}

/// Reads a header and checks every field. O(layers).
///
/// # Errors
/// The first field that is wrong, or [`DecodeError::TooLarge`] when the filter breaks the limit.
pub fn decode(bytes: &[u8], limit: &dyn ByteLimit) -> Result<FilterPlan<Window>, DecodeError> {
    let (chain_bytes, rest) = bytes.split_at_checked(CHAIN_HEADER_BYTES).ok_or(DecodeError::Truncated)?;
    let (time_bytes, rest) = rest.split_first_chunk::<TIME_BYTES>().ok_or(DecodeError::Truncated)?;
    let (layer_bytes, rest) = rest.as_chunks::<WINDOW_LAYER_BYTES>();
    let parameters = ChainHeader::open_chain(chain_bytes, Kind::Window, layer_bytes.len())?;
    if !rest.is_empty() {
        return Err(DecodeError::Invalid("header length"));
    }
    let time: Time = read(time_bytes)?;
    if time.flags & !KEEPS_FIRST != 0 || time.reserved != 0 {
        return Err(DecodeError::Unsupported {
            what: "reserved field",
            got: (time.flags | time.reserved).into(),
        });
    }
    let (mut layers, mut histories) = (Vec::new(), Vec::new());
    for bytes in layer_bytes {
        let (layer, history) = read_layer(bytes)?;
        layers.push(layer);
        histories.push(history);
    }
    let mut family = Window::new(parameters, Span::new(time.window_ms), time.flags == KEEPS_FIRST);
    family.set_newest(histories.iter().map(|history| history.newest).max().unwrap_or(0));
    let plan = FilterPlan::new(family, layers, limit)?;
    Ok(plan.prepared(Box::new(move |index, columns| {
        columns.set_history(histories.get(index).copied().unwrap_or_default());
    })))
}

impl LayerHeader {
    fn of(layer: &Layer<WindowProbing>) -> Self {
        let WindowShape { layout, probes, positions, capacity_items } = layer.shape();
        let (layout, lines) = match layout {
            Layout::Scattered => (LAYOUT_SCATTERED, 0),
            Layout::Paged { lines } => (LAYOUT_PAGED, lines),
        };
        let probes = u8::try_from(probes).unwrap_or(u8::MAX);
        let set_bits = layer.storage().set_bits();
        let newest = layer.storage().history().newest;
        let address = layer.dump_range(0).start;
        let hash = HASH_MURMUR3_X64_128;
        Self { layout, lines, probes, hash, flags: 0, positions, capacity_items, set_bits, newest, address }
    }

    fn shape(&self) -> Result<WindowShape, DecodeError> {
        let layout = match (self.layout, self.lines) {
            (LAYOUT_SCATTERED, 0) => Layout::Scattered,
            (LAYOUT_PAGED, lines) => Layout::Paged { lines },
            (LAYOUT_SCATTERED, _) => return Err(DecodeError::Invalid("lines")),
            (other, _) => return Err(DecodeError::Unsupported { what: "layout", got: other.into() }),
        };
        let Self { positions, capacity_items, .. } = *self;
        let shape = WindowShape { layout, probes: self.probes.into(), positions, capacity_items };
        shape.validate().map_err(DecodeError::Invalid)?;
        Ok(shape)
    }
}

fn read_layer(
    bytes: &[u8; WINDOW_LAYER_BYTES],
) -> Result<(PlannedLayer<WindowProbing>, History), DecodeError> {
    let (layer_bytes, item_bytes) = bytes.split_at(LAYER_BYTES);
    let (header, items): (LayerHeader, [u64; COLUMNS_LEN]) = (read(layer_bytes)?, read(item_bytes)?);
    if header.hash != HASH_MURMUR3_X64_128 {
        return Err(DecodeError::Unsupported { what: "hash", got: header.hash.into() });
    }
    if header.flags != 0 {
        return Err(DecodeError::Unsupported { what: "reserved field", got: header.flags.into() });
    }
    let shape = header.shape()?;
    let history = History { newest: header.newest, items };
    let counts = LayerCounts { items: history.all_items(), set_bits: header.set_bits };
    Ok(((shape.plan(header.address), counts), history))
}
