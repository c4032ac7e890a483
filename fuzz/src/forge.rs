//! Seals, preambles and counts that hold, so that made-up bytes get past them. The layouts are those of
//! docs/formats.md, written out once more: what is forged here is what anybody can forge.

use everbloom::bloom::hash::murmur3::hash128;
use everbloom::bloom::{Filter, Layer};

/// Bytes of the magic, the version and the policy in front of every record.
pub(crate) const OPENING_BYTES: usize = 7;
/// Bytes of the part about the policy.
pub(crate) const POLICY_BYTES: usize = 48;
/// Bytes of the fixed part about a layer.
pub(crate) const LAYER_BYTES: usize = 40;

/// The policies, and a number that none has.
const POLICIES: [u8; 6] = [1, 2, 3, 4, 5, 9];

/// A record with magic, version and one of the policies in front, and the number of layers that its length says.
pub(crate) fn header(policy: u8, body: &[u8]) -> Vec<u8> {
    let policy = POLICIES[usize::from(policy) % POLICIES.len()];
    let mut header = [&b"evbl"[..], &2u16.to_le_bytes(), &[policy], body].concat();
    let layers = layers(&header);
    header.truncate(layers.last().map_or(POLICY_BYTES, |range| range.end));
    if header.len() >= 12 {
        header[10..12].copy_from_slice(&(layers.len() as u16).to_le_bytes());
    }
    header
}

/// Where each layer of a record lies in it, as long as they are whole.
pub(crate) fn layers(header: &[u8]) -> Vec<std::ops::Range<usize>> {
    let mut layers = Vec::new();
    let mut start = POLICY_BYTES;
    while let Some([hash, layout, cells, ..]) = header.get(start..start + LAYER_BYTES) {
        let key = match hash {
            2 => 16,
            6 | 7 => 32,
            _ => 0,
        };
        let layout = match layout {
            3 => 24,
            5 => 8,
            _ => 0,
        };
        let cells = match cells {
            2 => 8,
            3 => 16 + 16 * 8,
            _ => 0,
        };
        let end = start + LAYER_BYTES + key + layout + cells;
        if end > header.len() {
            break;
        }
        layers.push(start..end);
        start = end;
    }
    layers
}

/// Writes the numbers of set cells of a filter into a record of it.
pub(crate) fn count_set_cells(header: &mut [u8], filter: &Filter) {
    for (range, layer) in layers(header).into_iter().zip(filter.layers()) {
        header[range.start + 32..][..8].copy_from_slice(&layer.counts().set_cells.to_le_bytes());
    }
}

/// The header with its seal.
pub(crate) fn sealed_header(header: &[u8], mark: u64) -> Vec<u8> {
    sealed(header, [0; 4], mark)
}

/// A chunk of a layer with its seal.
pub(crate) fn sealed_chunk(chunk: &[u8], position: u64, layer: &Layer, mark: u64) -> Vec<u8> {
    let place = if layer.address().is_none() {
        [position, layer.cells().size_bits(), layer.capacity_items(), layer.layout().probes().into()]
    } else {
        [position, 0, 0, 0]
    };
    sealed(chunk, place, mark)
}

fn sealed(payload: &[u8], place: [u64; 4], mark: u64) -> Vec<u8> {
    let digest = hash128(payload);
    let words = [digest.h1, digest.h2].into_iter().chain(place).chain([mark]);
    let check = hash128(&words.flat_map(u64::to_le_bytes).collect::<Vec<_>>());
    [payload, &mark.to_le_bytes(), &check.h1.to_le_bytes(), &check.h2.to_le_bytes()].concat()
}

/// Every layer of a filter, with where it begins in a dump.
pub(crate) fn located(filter: &Filter) -> Vec<(&Layer, u64)> {
    let mut end = 0;
    let located = filter.layers().iter().map(|layer| {
        let range = layer.dump_range(end);
        end = range.end;
        (layer, range.start)
    });
    located.collect()
}

/// The first layer that ends behind a position of a dump, with where it begins.
pub(crate) fn layer_at(filter: &Filter, position: u64) -> Option<(&Layer, u64)> {
    let mut located = located(filter).into_iter();
    located.find(|(layer, start)| position < start.saturating_add(layer.cells().size_bytes()))
}
