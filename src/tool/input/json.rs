//! A field of JSON lines: a string, or an integer as it is written.

use std::io::{BufRead, BufReader, Read};

use serde_json::Value;

use crate::failure::Failure;
use crate::packing::Batch;

/// Bytes of the longest line.
const LINE_MAX_BYTES: u64 = 512 << 20;

pub(crate) fn read(
    reading: impl Read,
    field: &str,
    batch_bytes: usize,
    mut emit: impl FnMut(Batch) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut reader = BufReader::with_capacity(1 << 16, reading);
    let mut batch = Batch::prefixed(batch_bytes);
    let mut line = Vec::new();
    for number in 1u64.. {
        line.clear();
        if reader.by_ref().take(LINE_MAX_BYTES).read_until(b'\n', &mut line)? == 0 {
            break;
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        let at = |trouble: &str| Failure::new(format!("line {number}: {trouble}"));
        let value: Value = serde_json::from_slice(&line).map_err(|error| at(&error.to_string()))?;
        let found = if field.starts_with('/') { value.pointer(field) } else { value.get(field) };
        let was_taken = match found {
            Some(Value::String(text)) => batch.push(text.as_bytes()),
            // Of others, how they are written is lost in reading.
            Some(Value::Number(number)) if !number.is_f64() => batch.push(number.to_string().as_bytes()),
            Some(_) => return Err(at(&format!("{field} is neither a string nor a 64-bit integer"))),
            None => return Err(at(&format!("no field {field}"))),
        };
        if !was_taken {
            return Err(at("the field is longer than 4 GiB"));
        }
        if batch.data.len() >= batch_bytes {
            emit(std::mem::replace(&mut batch, Batch::prefixed(batch_bytes)))?;
        }
    }
    if batch.items > 0 { emit(batch) } else { Ok(()) }
}
