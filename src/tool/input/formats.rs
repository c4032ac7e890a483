//! The items of a file: its lines, or a column of CSV.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::Read;
use std::mem;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use csv::{ByteRecord, ReaderBuilder};
use memchr::memrchr;

use super::times::Times;
use crate::failure::Failure;
use crate::output::{counted, shown};
use crate::packing::{BATCH_BYTES, ItemBatch, remove_cr};

/// Bytes of the longest line, which is the longest argument that servers accept.
const LINE_MAX_BYTES: usize = 512 << 20;

/// The largest number of open batches. At most 15 generations can be live, and a clock may be one generation ahead. With
/// lives or finer steps there can be more generations, and batches are smaller.
const GENERATIONS_MAX: usize = 16;

/// Collects items in one batch for each generation, and emits a batch when it is large enough. Emits the batches of
/// older generations before it, so that items that are in the order of their times are added in this order.
pub(super) struct GenerationBatches<'t, E> {
    /// The batches by their generations, which are 0 for items without times.
    pub(super) open: BTreeMap<(u64, u64), ItemBatch>,
    pub(super) times: Option<&'t Times>,
    /// Counts the items that have expired.
    pub(super) expired: &'t AtomicU64,
    /// Gets the first line if it is taken as column names, and the column is found by its number.
    pub(super) unnamed_header: &'t OnceLock<String>,
    pub(super) emit: E,
}

impl<E: FnMut(ItemBatch) -> Result<(), Failure>> GenerationBatches<'_, E> {
    /// Adds the item of a line, with its time if the items have times.
    fn push(
        &mut self,
        line: u64,
        item: &[u8],
        (time, life): (Option<&[u8]>, Option<&[u8]>),
    ) -> Result<(), Failure> {
        let time = self.times.zip(time).map(|(times, time)| times.batch_time(time, life)).transpose();
        let time = time.map_err(|error| at(line, error))?;
        if time == Some(None) {
            self.expired.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        }
        let time = time.flatten();
        let generations = time.map_or((0, 0), |time| time.generations);
        let batch = self.open.entry(generations).or_insert_with(|| ItemBatch::prefixed(BATCH_BYTES, time));
        batch.time = batch.time.zip(time).map(|(of_batch, time)| of_batch.last_to_end(time));
        batch.push(item).map_err(|failure| failure.about(format!("line {line}")))?;
        if batch.data.len() >= BATCH_BYTES {
            let newer = self.open.split_off(&(generations.0, generations.1 + 1));
            mem::replace(&mut self.open, newer).into_values().try_for_each(&mut self.emit)?;
        }
        if self.open.len() > GENERATIONS_MAX
            && let Some((_, oldest)) = self.open.pop_first()
        {
            (self.emit)(oldest)?;
        }
        Ok(())
    }
}

/// Returns the failure of a line.
fn at(line: u64, error: impl Display) -> Failure {
    Failure::of(format!("line {line}"), error)
}

/// Reads one item per line. Without `has_crlf`, a batch is an unchanged part of the file. With it, the `\r` of CRLF
/// line ends is removed, and `has_crlf` is set if there was one.
pub(super) fn read_lines(
    mut reading: impl Read,
    has_crlf: Option<&AtomicBool>,
    mut emit: impl FnMut(ItemBatch) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut emit = |mut data| {
        if let Some(has_crlf) = has_crlf
            && remove_cr(&mut data)
        {
            has_crlf.store(true, Ordering::Relaxed);
        }
        emit(ItemBatch::of_lines(data))
    };
    let mut rest = Vec::new();
    loop {
        let mut data = Vec::with_capacity(BATCH_BYTES.max(rest.len() * 2));
        data.append(&mut rest);
        let wanted = data.capacity().saturating_sub(data.len());
        let read = reading.by_ref().take(wanted as u64).read_to_end(&mut data)?;
        if read < wanted {
            return if data.is_empty() { Ok(()) } else { emit(data) };
        }
        match memrchr(b'\n', &data) {
            Some(end) => {
                rest = data.split_off(end + 1);
                emit(data)?;
            }
            None if data.len() > LINE_MAX_BYTES => {
                return Err(Failure::new(
                    "a line is longer than 512 MiB, the longest item that servers accept",
                ));
            }
            None => rest = data,
        }
    }
}

/// Reads the items of a column. `column` is its name in the first line, or its number from 1.
pub(super) fn read_csv(
    reading: impl Read,
    column: &str,
    delimiter: u8,
    has_header: bool,
    mut batches: GenerationBatches<'_, impl FnMut(ItemBatch) -> Result<(), Failure>>,
) -> Result<(), Failure> {
    let mut builder = ReaderBuilder::new();
    let mut reader = builder.delimiter(delimiter).has_headers(has_header).flexible(true).from_reader(reading);
    let names =
        if has_header { reader.byte_headers().map_err(Failure::new)?.clone() } else { ByteRecord::new() };
    let index_of = |column: &str| {
        let named = names.iter().position(|name| name == column.as_bytes());
        let numbered = || column.parse::<usize>().ok()?.checked_sub(1);
        let index = named.or_else(|| numbered().filter(|index| !has_header || *index < names.len()));
        index.ok_or_else(|| no_column(column, &names))
    };
    let index = index_of(column)?;
    if has_header && !names.iter().any(|name| name == column.as_bytes()) {
        let first: Vec<&[u8]> = names.iter().collect();
        batches.unnamed_header.get_or_init(|| shown(&first.join(&delimiter)));
    }
    let time_column = batches.times.map(|times| times.column.as_str());
    let time_index = time_column.map(index_of).transpose()?;
    let life_column = batches.times.and_then(|times| times.life_column.as_deref());
    let life_index = life_column.map(index_of).transpose()?;
    let mut record = ByteRecord::new();
    while reader.read_byte_record(&mut record).map_err(Failure::new)? {
        let line = record.position().map_or(0, csv::Position::line);
        let get = |index, column| {
            let columns = counted(record.len() as u64, "column");
            record.get(index).ok_or_else(|| {
                at(line, format!("no column {column}: the line has {columns}; check --delimiter"))
            })
        };
        let time = time_index.zip(time_column).map(|(index, column)| get(index, column)).transpose()?;
        let life = life_index.zip(life_column).map(|(index, column)| get(index, column)).transpose()?;
        batches.push(line, get(index, column)?, (time, life))?;
    }
    // Emits the batches that are not large enough to be emitted before.
    batches.open.into_values().try_for_each(batches.emit)
}

/// Returns the failure about a column that a file does not have.
fn no_column(column: &str, names: &ByteRecord) -> Failure {
    if names.is_empty() {
        return Failure::new(format!(
            "no column {column}: the file has no column names, give a number from 1"
        ));
    }
    let names: Vec<String> = names.iter().map(shown).collect();
    Failure::new(format!("no column {column}: the columns are {}", names.join(", ")))
}

#[cfg(test)]
mod tests {
    use everbloom::Steps;

    use super::*;
    use crate::packing::BatchTime;

    #[test]
    fn a_batch_has_the_time_of_the_item_whose_life_ends_last() {
        // The times are in one generation, and so are the ends.
        let (window_ms, server_ms) = (7 * 86_400_000, 1_795_428_000_000);
        let times = Times::new(("at", Some("life")), (window_ms, Steps::Fourteen), server_ms);
        let rows = [(0, 40), (2, 30), (3, 50), (1, 20)];
        let text: String = rows
            .iter()
            .map(|(before, life)| format!("item-{before},{},{life}\n", server_ms - before * 1000))
            .collect();
        let (mut emitted, expired) = (Vec::new(), AtomicU64::new(0));
        let batches = GenerationBatches {
            open: BTreeMap::new(),
            times: Some(&times),
            expired: &expired,
            unnamed_header: &OnceLock::new(),
            emit: |batch| {
                emitted.push(batch);
                Ok(())
            },
        };
        read_csv(format!("item,at,life\n{text}").as_bytes(), "item", b',', true, batches).unwrap();
        let time = |batch: &ItemBatch| batch.time.map(|BatchTime { at_ms, life_ms, .. }| (at_ms, life_ms));
        let found: Vec<_> = emitted.iter().map(|batch| (batch.items, time(batch))).collect();
        assert_eq!(found, [(4, Some((server_ms - 3000, Some(50_000))))]);
        assert_eq!(expired.into_inner(), 0);
    }
}
