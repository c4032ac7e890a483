//! Valid seals, preambles and counts for invented bytes, so that they are not refused because of these. The layouts
//! are written out here again from docs/formats.md: everything forged here can be forged by anybody who reads that
//! page.

use everbloom::bloom::hash::murmur3::hash128;
use everbloom::bloom::{Filter, Layer};

/// Bytes of the magic, the version and the policy at the start of every record.
pub(crate) const OPENING_BYTES: usize = 7;
/// Bytes of the part of a record that describes the policy.
pub(crate) const POLICY_BYTES: usize = 48;
/// Bytes of the fixed part that describes a layer.
pub(crate) const LAYER_BYTES: usize = 40;

/// The numbers of the policies, and one that no policy has.
const POLICIES: [u8; 6] = [1, 2, 3, 4, 5, 9];

/// Returns a record with magic, version, one of the policies and the number of layers that fits its length.
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

/// Returns the range of each whole layer in a record.
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

/// Writes the numbers of set cells of a filter into the filter's record.
pub(crate) fn count_set_cells(header: &mut [u8], filter: &Filter) {
    for (range, layer) in layers(header).into_iter().zip(filter.layers()) {
        header[range.start + 32..][..8].copy_from_slice(&layer.counts().set_cells.to_le_bytes());
    }
}

/// Returns the header with its seal.
pub(crate) fn sealed_header(header: &[u8], mark: u64) -> Vec<u8> {
    sealed(header, [0; 4], mark)
}

/// Returns a chunk of a layer with its seal.
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

/// Returns every layer of a filter, with its start in a dump.
pub(crate) fn located(filter: &Filter) -> Vec<(&Layer, u64)> {
    let mut end = 0;
    let located = filter.layers().iter().map(|layer| {
        let range = layer.dump_range(end);
        end = range.end;
        (layer, range.start)
    });
    located.collect()
}

/// Returns the first layer that ends after a position of a dump, with its start.
pub(crate) fn layer_at(filter: &Filter, position: u64) -> Option<(&Layer, u64)> {
    let mut located = located(filter).into_iter();
    located.find(|(layer, start)| position < start.saturating_add(layer.cells().size_bytes()))
}
