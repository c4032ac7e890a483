//! A column of a CSV file.

use std::io::Read;

use csv::{ByteRecord, ReaderBuilder};

use crate::failure::Failure;
use crate::packing::Batch;

/// What is known of the file.
pub(crate) struct Shape<'a> {
    /// Its name, or its number from 1.
    pub(crate) column: &'a str,
    pub(crate) delimiter: u8,
    pub(crate) has_header: bool,
}

pub(crate) fn read(
    reading: impl Read,
    shape: &Shape<'_>,
    batch_bytes: usize,
    mut emit: impl FnMut(Batch) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut reader = ReaderBuilder::new()
        .delimiter(shape.delimiter)
        .has_headers(shape.has_header)
        .flexible(true)
        .from_reader(reading);
    let of_csv = |error: csv::Error| Failure::new(error.to_string());
    let named = if shape.has_header {
        let names = reader.byte_headers().map_err(of_csv)?;
        names.iter().position(|name| name == shape.column.as_bytes())
    } else {
        None
    };
    let numbered = || shape.column.parse::<usize>().ok()?.checked_sub(1);
    let index = named.or_else(numbered).ok_or_else(|| Failure::new(format!("no column {}", shape.column)))?;
    let mut record = ByteRecord::new();
    let mut batch = Batch::prefixed(batch_bytes);
    while reader.read_byte_record(&mut record).map_err(of_csv)? {
        let Some(item) = record.get(index) else {
            let line = record.position().map_or(0, csv::Position::line);
            return Err(Failure::new(format!("line {line} has no column {}", shape.column)));
        };
        if !batch.push(item) {
            return Err(Failure::new("a field is longer than 4 GiB"));
        }
        if batch.data.len() >= batch_bytes {
            emit(std::mem::replace(&mut batch, Batch::prefixed(batch_bytes)))?;
        }
    }
    if batch.items > 0 { emit(batch) } else { Ok(()) }
}
