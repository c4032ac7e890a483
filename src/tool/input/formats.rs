//! The items of a file: its lines, a column of CSV, or a field of JSON lines.

use std::io::{BufRead, BufReader, Read};

use csv::{ByteRecord, ReaderBuilder};
use memchr::memrchr;
use serde_json::Value;

use crate::failure::Failure;
use crate::packing::Batch;

/// Bytes of the longest line: the longest argument that servers take.
const LINE_MAX_BYTES: usize = 512 << 20;

/// Collects items in batches and emits those that are large enough.
struct Batches<E> {
    batch: Batch,
    batch_bytes: usize,
    emit: E,
}

impl<E: FnMut(Batch) -> Result<(), Failure>> Batches<E> {
    fn new(batch_bytes: usize, emit: E) -> Self {
        Self { batch: Batch::prefixed(batch_bytes), batch_bytes, emit }
    }

    fn push(&mut self, item: &[u8]) -> Result<(), Failure> {
        if !self.batch.push(item) {
            return Err(Failure::new("a field is longer than 4 GiB"));
        }
        if self.batch.data.len() >= self.batch_bytes {
            (self.emit)(std::mem::replace(&mut self.batch, Batch::prefixed(self.batch_bytes)))?;
        }
        Ok(())
    }

    /// Emits the last batch.
    fn finish(mut self) -> Result<(), Failure> {
        if self.batch.items > 0 { (self.emit)(self.batch) } else { Ok(()) }
    }
}

/// Reads an item per line. A batch is a part of the file as it is, so that a line takes no time here.
pub(super) fn read_lines(
    mut reading: impl Read,
    batch_bytes: usize,
    mut emit: impl FnMut(Batch) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut rest = Vec::new();
    loop {
        let mut data = Vec::with_capacity(batch_bytes.max(rest.len() * 2));
        data.append(&mut rest);
        let wanted = data.capacity().saturating_sub(data.len());
        let read = reading.by_ref().take(wanted as u64).read_to_end(&mut data)?;
        if read < wanted {
            return if data.is_empty() { Ok(()) } else { emit(Batch::of_lines(data)) };
        }
        match memrchr(b'\n', &data) {
            Some(end) => {
                rest = data.split_off(end + 1);
                emit(Batch::of_lines(data))?;
            }
            None if data.len() > LINE_MAX_BYTES => {
                return Err(Failure::new("a line is longer than 512 MiB"));
            }
            None => rest = data,
        }
    }
}

/// Reads a column, by its name in the first line or its number from 1.
pub(super) fn read_csv(
    reading: impl Read,
    column: &str,
    delimiter: u8,
    has_header: bool,
    batch_bytes: usize,
    emit: impl FnMut(Batch) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut builder = ReaderBuilder::new();
    let mut reader = builder.delimiter(delimiter).has_headers(has_header).flexible(true).from_reader(reading);
    let named = if has_header {
        let names = reader.byte_headers().map_err(Failure::new)?;
        names.iter().position(|name| name == column.as_bytes())
    } else {
        None
    };
    let numbered = || column.parse::<usize>().ok()?.checked_sub(1);
    let index = named.or_else(numbered).ok_or_else(|| Failure::new(format!("no column {column}")))?;
    let mut record = ByteRecord::new();
    let mut batches = Batches::new(batch_bytes, emit);
    while reader.read_byte_record(&mut record).map_err(Failure::new)? {
        let Some(item) = record.get(index) else {
            let line = record.position().map_or(0, csv::Position::line);
            return Err(Failure::new(format!("line {line} has no column {column}")));
        };
        batches.push(item)?;
    }
    batches.finish()
}

/// Reads a field of JSON lines: a string, or an integer as it is written.
pub(super) fn read_json(
    reading: impl Read,
    field: &str,
    batch_bytes: usize,
    emit: impl FnMut(Batch) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut reader = BufReader::with_capacity(1 << 16, reading);
    let mut batches = Batches::new(batch_bytes, emit);
    let mut line = Vec::new();
    for number in 1u64.. {
        line.clear();
        if reader.by_ref().take(LINE_MAX_BYTES as u64).read_until(b'\n', &mut line)? == 0 {
            break;
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        let at = |error: &str| Failure::new(format!("line {number}: {error}"));
        let value: Value = serde_json::from_slice(&line).map_err(|error| at(&error.to_string()))?;
        let found = if field.starts_with('/') { value.pointer(field) } else { value.get(field) };
        match found {
            Some(Value::String(text)) => batches.push(text.as_bytes())?,
            // Parsing loses how other numbers are written.
            Some(Value::Number(number)) if !number.is_f64() => batches.push(number.to_string().as_bytes())?,
            Some(_) => return Err(at(&format!("{field} is neither a string nor a 64-bit integer"))),
            None => return Err(at(&format!("no field {field}"))),
        }
    }
    batches.finish()
}
