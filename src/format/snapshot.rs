//! A filter of everbloom's own format in a snapshot: a string with its record, then strings of at most [`STRING_BYTES`]
//! with the bits of each layer, then the segments of its table that have entries. Before the segments comes their number,
//! and before the string of a segment its number in the table, and its stamp if entries expire.
//!
//! A string of bits that are all clear is saved as an empty string. So an empty filter of any size is saved and loaded
//! without touching its memory.

use super::contents::{STRING_BYTES, layer_chunks, read_words};
use super::record::{self, Record, TableRecord};
use super::stream::{DecodeError, Sink, Source};
use everbloom_filter::bits::BitBytes;
use everbloom_filter::table::Table;
use everbloom_filter::work::count_slots;
use everbloom_filter::{ByteLimit, Filter, GrowthBudget, Layer, Memory};

/// Writes a filter. O(bytes that may be set).
pub(super) fn save(filter: &Filter, sink: &mut impl Sink, memory: impl Memory) {
    sink.bytes(&record::encode(filter));
    save_layers(filter, sink, memory);
    let Some(table) = filter.table() else { return };
    sink.unsigned(table.segments().count() as u64);
    for (number, words, stamp) in table.segments() {
        count_slots(|| words.len());
        sink.unsigned(number as u64);
        if table.kind().is_timed() {
            sink.unsigned(stamp);
        }
        sink.bytes(bytemuck::cast_slice(words));
    }
}

/// Writes the bits of all layers.
pub(super) fn save_layers(filter: &Filter, sink: &mut impl Sink, memory: impl Memory) {
    for layer in filter.layers() {
        for (bytes, is_clear) in layer_chunks(layer, STRING_BYTES, memory) {
            let bytes = if is_clear { BitBytes::default() } else { bytes };
            sink.bytes(&bytes.joined());
        }
    }
}

/// Reads a filter, whose record is `header`. O(bytes); takes the memory of the filter and of its largest string.
pub(super) fn load(
    header: &[u8],
    source: &mut impl Source,
    limit: &dyn ByteLimit,
) -> Result<Filter, DecodeError> {
    let Record { mut filter, set_bits, table } = record::decode(header, limit)?;
    for (layer, set_bits) in filter.layers_mut().iter_mut().zip(set_bits) {
        fill(layer, source)?;
        if layer.counts().set_bits != set_bits {
            return Err(DecodeError::Invalid("set bits"));
        }
    }
    let Some(TableRecord { counts, used_slots }) = table else { return Ok(filter) };
    let room = GrowthBudget::new(limit);
    room.set_other_bytes(filter.bytes_besides_table());
    let kind = filter.policy().table().kind;
    // The list of segments is allocated before they are read.
    if limit.is_from_client() && !counts.is_proportionate(kind, used_slots) {
        return Err(DecodeError::Invalid("segments"));
    }
    let mut saved = Table::try_of_counts(kind, counts, used_slots, &room)?;
    fill_table(&mut saved, source, &room)?;
    if saved.used_slots() != used_slots {
        return Err(DecodeError::Invalid("used slots"));
    }
    filter.table_mut().into_iter().for_each(|table| std::mem::swap(table, &mut saved));
    // The segments may be newer than the record says.
    if filter.is_ahead_of(u64::MAX) {
        return Err(DecodeError::Invalid("the time of the newest item"));
    }
    Ok(filter)
}

/// Reads the bits of one layer, which must be clear.
pub(super) fn fill(layer: &mut Layer, source: &mut impl Source) -> Result<(), DecodeError> {
    let (mut offset, size_bytes) = (0usize, layer.bits().contents().len());
    while offset < size_bytes {
        let length = size_bytes.saturating_sub(offset).min(STRING_BYTES);
        let bytes = source.bytes()?;
        if !bytes.is_empty() && bytes.len() != length {
            return Err(DecodeError::Invalid("chunk length"));
        }
        if !bytes.is_empty() && !layer.bits_mut().add_bytes(offset, &bytes) {
            return Err(DecodeError::Invalid("chunk"));
        }
        offset = offset.saturating_add(length);
    }
    Ok(())
}

/// Reads the segments of a table, which must be empty. `room` already counts the bytes of the filter without the table.
fn fill_table(
    table: &mut Table,
    source: &mut impl Source,
    room: &GrowthBudget<'_>,
) -> Result<(), DecodeError> {
    let mut next = 0u64;
    for _ in 0..source.unsigned()? {
        let number = source.unsigned()?;
        // The segments are in order, so their number is bounded.
        if number < next || number >= table.segment_count() as u64 {
            return Err(DecodeError::Invalid("segment number"));
        }
        next = number.saturating_add(1);
        let stamp = if table.kind().is_timed() { source.unsigned()? } else { 0 };
        let bytes = source.bytes()?;
        room.check(table.size_bytes().saturating_add(bytes.len() as u64))?;
        let number = usize::try_from(number).map_err(|_| DecodeError::Invalid("segment number"))?;
        table.set_segment(number, read_words(&bytes)?, stamp)?;
        room.check(table.size_bytes())?;
    }
    Ok(())
}
