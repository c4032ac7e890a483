//! A filter that is being loaded: how it is saved.
//!
//! A snapshot of it has the string [`MARK`], the header, the dump id, the parts of the dump that have come, the bits of each
//! layer as in the snapshot of a filter, and the segments that have come.

use super::chunks::{Chunk, ChunkWriter, Rewritten};
use super::contents::{CHUNK_BYTES, append_segment, layer_chunks, read_words};
use super::filter::digest_layers;
use super::record::{self, Record, TableRecord};
use super::snapshot::{fill, save_layers};
use super::stream::{DecodeError, Sink, Source};
use everbloom_filter::bits::BitBytes;
use everbloom_filter::filter::loading::LoadingFilter;
use everbloom_filter::generation::Generation;
use everbloom_filter::table::{DumpedSegment, TableLoad};
use everbloom_filter::{ByteLimit, DumpId, Filter, GrowthBudget, Memory, OutOfMemory};

/// The first string of a snapshot of a filter that is being loaded. Every record is longer.
pub(super) const MARK: &[u8] = b"load";

/// Begins the load of a filter with this header, its record and the id of the dump.
pub(super) fn begin(
    filter: Filter,
    header: &[u8],
    table: TableRecord,
    id: DumpId,
) -> Result<LoadingFilter, DecodeError> {
    let table = load_of(&filter, table)?;
    LoadingFilter::from_parts(filter, header, id, table, std::iter::empty()).map_err(DecodeError::Invalid)
}

/// Returns the load of the table of a filter.
fn load_of(filter: &Filter, table: TableRecord) -> Result<TableLoad, DecodeError> {
    let TableRecord { counts, used_slots } = table;
    Ok(TableLoad::new(filter.policy().table().kind, counts, used_slots)?)
}

/// Writes a filter that is being loaded. O(bytes that may be set).
pub fn save(loading: &LoadingFilter, sink: &mut impl Sink, memory: impl Memory) {
    sink.bytes(MARK);
    sink.bytes(loading.header());
    sink.unsigned(loading.id());
    sink.unsigned(loading.ranges().len() as u64);
    for range in loading.ranges() {
        sink.unsigned(range.start);
        sink.unsigned(range.end);
    }
    save_layers(loading.filter(), sink, memory);
    sink.unsigned(loading.table().part_count() as u64);
    for DumpedSegment { number, depth, blocks_log, stamp, words } in loading.table().parts() {
        sink.unsigned(number as u64);
        sink.unsigned(depth.into());
        sink.unsigned(blocks_log.into());
        sink.unsigned(stamp);
        sink.bytes(bytemuck::cast_slice(words));
    }
}

/// Reads a filter that is being loaded, after [`MARK`]. O(bytes).
pub(super) fn load(source: &mut impl Source, limit: &dyn ByteLimit) -> Result<LoadingFilter, DecodeError> {
    let header = source.bytes()?;
    let Record { mut filter, table, .. } = record::decode(&header, limit)?;
    let (id, mut ranges) = (source.unsigned()?, Vec::new());
    for _ in 0..source.unsigned()? {
        ranges.try_reserve(1).map_err(|_| DecodeError::OutOfMemory)?;
        ranges.push(source.unsigned()?..source.unsigned()?);
    }
    filter.layers_mut().iter_mut().try_for_each(|layer| fill(layer, source))?;
    let mut table = load_of(&filter, table.ok_or(DecodeError::Invalid("table"))?)?;
    let room = GrowthBudget::new(limit);
    room.set_other_bytes(filter.size_bytes());
    for _ in 0..source.unsigned()? {
        let segment = DumpedSegment {
            number: narrow(source.unsigned()?)?,
            depth: narrow(source.unsigned()?)?,
            blocks_log: narrow(source.unsigned()?)?,
            stamp: source.unsigned()?,
            words: read_words(&source.bytes()?)?,
        };
        if table.add(vec![segment], Generation::MAX, &room)?.is_empty() {
            return Err(DecodeError::Invalid("segment"));
        }
    }
    let ranges = ranges.into_iter();
    LoadingFilter::from_parts(filter, &header, id, table, ranges).map_err(DecodeError::Invalid)
}

/// Returns a number of a smaller type.
fn narrow<N: TryFrom<u64>>(number: u64) -> Result<N, DecodeError> {
    N::try_from(number).map_err(|_| DecodeError::Invalid("segment"))
}

/// Calls `emit` with the chunks that recreate the load: with its header and its dump id, so that the chunks of a client that
/// are still missing fit. O(bytes that may be set).
///
/// # Errors
/// [`OutOfMemory`] if a chunk cannot be allocated; `emit` may have been called then.
pub(super) fn rewrite(
    loading: &LoadingFilter,
    memory: impl Memory,
    emit: &mut dyn FnMut(Rewritten<'_>),
) -> Result<(), OutOfMemory> {
    let (filter, mut writer) = (loading.filter(), ChunkWriter::new(loading.id(), true));
    let mut emit_chunk = |writer: &mut ChunkWriter, end: u64| {
        let Chunk { next_iterator: iterator, data } = writer.end(end)?;
        emit(Rewritten::Chunk { iterator, data: &data });
        Ok::<_, OutOfMemory>(())
    };
    writer.set_header(loading.header())?;
    emit_chunk(&mut writer, 0)?;
    let mut position = 0u64;
    for layer in filter.layers() {
        for (bits, is_clear) in layer_chunks(layer, CHUNK_BYTES, memory) {
            let piece = position..position.saturating_add(bits.len() as u64);
            position = piece.end;
            for range in loading.ranges() {
                let (start, end) = (range.start.max(piece.start), range.end.min(piece.end));
                if start >= end {
                    continue;
                }
                let bytes =
                    usize::try_from(start - piece.start).ok().zip(usize::try_from(end - piece.start).ok());
                let bits = bytes.map_or_else(BitBytes::default, |(from, to)| bits.range(from..to));
                writer.set(start, if is_clear { BitBytes::default() } else { bits })?;
                emit_chunk(&mut writer, end)?;
            }
        }
    }
    let mut parts = loading.table().parts().peekable();
    let mut ranges = loading.ranges().filter(|range| range.end > position).peekable();
    while let Some(range) = ranges.next() {
        loop {
            writer.set(range.start.max(position), BitBytes::default())?;
            // A segment begins before the end of its chunk. So all segments come with the last part of the dump.
            while ranges.peek().is_none()
                && writer.payload_mut().len() < CHUNK_BYTES
                && let Some(part) = parts.next()
            {
                append_segment(&part, writer.payload_mut())?;
            }
            emit_chunk(&mut writer, range.end)?;
            if ranges.peek().is_some() || parts.peek().is_none() {
                break;
            }
        }
    }
    Ok(())
}

/// Calls `add` with strings of bytes. Two loads have the same strings if and only if the same chunks complete them to the
/// same filter. O(bytes that may be set).
pub fn digest(loading: &LoadingFilter, memory: impl Memory, add: &mut dyn FnMut(&[u8])) {
    add(MARK);
    add(loading.header());
    add(&loading.id().to_le_bytes());
    loading.ranges().for_each(|range| add(bytemuck::cast_slice(&[range.start, range.end])));
    digest_layers(loading.filter(), memory, add);
    for DumpedSegment { number, depth, stamp, words, .. } in loading.table().parts() {
        add(bytemuck::cast_slice(&[number as u64, depth.into(), stamp]));
        add(bytemuck::cast_slice(words));
    }
}
