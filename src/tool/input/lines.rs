//! An item per line: whole lines as they lie in the file, so that a line costs nothing here.

use std::io::Read;

use memchr::memrchr;

use crate::failure::Failure;
use crate::packing::Batch;

/// Bytes of the longest line: what servers take in one argument.
const LINE_MAX_BYTES: usize = 512 << 20;

pub(crate) fn read(
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
