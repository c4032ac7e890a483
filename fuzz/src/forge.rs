//! Seals, preambles and counts that hold, so that made-up bytes get past them. The layouts are those of
//! docs/formats.md, written out once more: what is forged here is what anybody can forge.

use everbloom::bloom::{Filter, hash128};
use everbloom::format::arrays::{Array, Arrays};

/// Bytes of the magic, the version and the kind in front of every header.
pub(crate) const OPENING_BYTES: usize = 8;

/// Kinds that have a header of ours, and a number that none has.
const KINDS: [u16; 8] = [1, 2, 3, 4, 5, 6, 7, 9];

/// A header with magic, version and one of the kinds in front, and the number of layers that its length tells.
pub(crate) fn header(kind: u8, body: &[u8]) -> Vec<u8> {
    let kind = KINDS[usize::from(kind) % KINDS.len()];
    let [magic, version, kind_bytes] = [&b"evbl"[..], &1u16.to_le_bytes(), &kind.to_le_bytes()];
    let mut header = [magic, version, kind_bytes, body].concat();
    let (first_layer, layer_bytes) = layers_of(kind);
    // The first layer of an imported filter has more bytes than the others.
    let layers = match kind {
        3 => header.len().saturating_sub(80) / 40 + 1,
        _ => header.len().saturating_sub(first_layer) / layer_bytes,
    };
    header.truncate(first_layer + layer_bytes * layers);
    if header.len() >= 12 {
        header[8..12].copy_from_slice(&(layers as u32).to_le_bytes());
    }
    header
}

/// Where the layers begin, and the bytes of each. The first layer of an imported filter lies before the others.
fn layers_of(kind: u16) -> (usize, usize) {
    match kind {
        2 => (72, 32),
        3 => (40, 40),
        4 => (32, 48),
        5 => (48, 40),
        6 => (32, 96),
        7 => (48, 176),
        _ => (32, 40),
    }
}

/// Writes the numbers of set bits of a filter into a header of it.
pub(crate) fn count_set_bits(header: &mut [u8], filter: &Filter) {
    let Some(kind) = header.get(6..OPENING_BYTES) else { return };
    let kind = u16::from_le_bytes([kind[0], kind[1]]);
    let (first_layer, layer_bytes) = layers_of(kind);
    let field = match kind {
        6 => 40,
        7 => 24,
        _ => 32,
    };
    for (index, storage) in filter.storages().enumerate() {
        let at = first_layer + index * layer_bytes + field;
        if let Some(bytes) = header.get_mut(at..at + 8) {
            bytes.copy_from_slice(&storage.set_bits().to_le_bytes());
        }
    }
}

/// The header with its seal; without a mark as release 0.1 wrote it.
pub(crate) fn sealed_header(header: &[u8], mark: Option<u64>) -> Vec<u8> {
    sealed(header, [0; 4], mark)
}

/// A chunk of `array` with its seal.
pub(crate) fn sealed_chunk(chunk: &[u8], position: u64, array: &Array<'_>, mark: Option<u64>) -> Vec<u8> {
    let Array { size_bits, capacity_items, probes, address, .. } = *array;
    let layer = if address.is_none() { [size_bits, capacity_items, probes.into()] } else { [0; 3] };
    sealed(chunk, [position, layer[0], layer[1], layer[2]], mark)
}

fn sealed(payload: &[u8], place: [u64; 4], mark: Option<u64>) -> Vec<u8> {
    let digest = hash128(payload);
    let words = [digest.h1, digest.h2].into_iter().chain(place).chain(mark);
    let check = hash128(&words.flat_map(u64::to_le_bytes).collect::<Vec<_>>());
    let mark_bytes = mark.map(u64::to_le_bytes);
    [
        payload,
        mark_bytes.as_ref().map_or(&[], |bytes| bytes),
        &check.h1.to_le_bytes(),
        &check.h2.to_le_bytes(),
    ]
    .concat()
}

/// The arrays of a filter of any kind.
pub(crate) fn arrays(filter: &Filter) -> &dyn ArrayOf {
    match filter {
        Filter::Everbloom(chain) => chain,
        Filter::RedisBloom(chain) => chain,
        Filter::ValkeyBloom(chain) => &**chain,
        Filter::Client(chain) => &**chain,
        Filter::Union(chain) => &**chain,
        Filter::Counting(chain) => &**chain,
        Filter::Keyed(chain) => &**chain,
        Filter::Window(chain) => &**chain,
    }
}

/// [`Arrays`], of which only this is needed.
pub(crate) trait ArrayOf {
    fn array(&self, index: usize) -> Option<Array<'_>>;
}

impl<A: Arrays> ArrayOf for A {
    fn array(&self, index: usize) -> Option<Array<'_>> {
        Arrays::array(self, index)
    }
}

/// Every array of a filter, with where it begins in a dump.
pub(crate) fn located(filter: &Filter) -> Vec<(Array<'_>, u64)> {
    let arrays = arrays(filter);
    let mut end = 0;
    let located = (0..).map_while(|index| arrays.array(index)).map(|array| {
        let start = array.address.unwrap_or(end);
        end = start.saturating_add(array.bytes.len() as u64);
        (array, start)
    });
    located.collect()
}

/// The first array that ends behind a position of a dump, with where it begins.
pub(crate) fn array_at(filter: &Filter, position: u64) -> Option<(Array<'_>, u64)> {
    let mut located = located(filter).into_iter();
    located.find(|(array, start)| position < start.saturating_add(array.bytes.len() as u64))
}
