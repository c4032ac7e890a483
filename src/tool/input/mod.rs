//! Items from a file or from standard input: lines, a column of CSV, or a field of JSON lines, packed into batches.

mod csv;
mod json;
mod lines;
mod reading;

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use super::failure::Failure;
use super::interrupt;
use super::output::{Output, Unit, bytes};
use super::packing::Batch;
use reading::Reading;

/// Bytes of a batch, about: large enough that the round trip does not count, small enough that other clients of
/// the server wait a few dozen milliseconds at most.
pub(crate) const BATCH_BYTES: usize = 512 << 10;
/// Batches that are read ahead.
const AHEAD_BATCHES: usize = 8;
/// How often a wait for input looks for an interruption.
const PATIENCE: Duration = Duration::from_millis(100);

/// The bytes of a file, decompressed.
pub(crate) fn reading_of(path: &Path) -> Result<impl std::io::Read, Failure> {
    Reading::open(path)
}

/// Where items come from.
#[derive(Clone, Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Arguments {
    /// File with an item per line, `-` for standard input; gzip and zstd are recognised
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Take this column of a CSV file: its name in the first line, or its number from 1
    #[arg(long, value_name = "COLUMN", conflicts_with = "jsonl")]
    csv: Option<String>,
    /// What separates the columns
    #[arg(long, value_name = "CHARACTER", default_value = ",", requires = "csv")]
    delimiter: char,
    /// The CSV file has no first line of names
    #[arg(long, requires = "csv")]
    no_header: bool,
    /// Take this field of each line, a JSON object: its name, or a JSON pointer (/user/id)
    #[arg(long, value_name = "FIELD")]
    jsonl: Option<String>,
}

impl Arguments {
    /// Whether the items come from standard input, which can be read once.
    pub(crate) fn is_stdin(&self) -> bool {
        self.file == Path::new("-")
    }

    /// Begins to read, on a thread of its own.
    pub(crate) fn batches(&self, batch_bytes: usize) -> Result<Batches, Failure> {
        let reading = Reading::open(&self.file)?;
        let (done, total) = (reading.done(), reading.total_bytes);
        let (sender, receiver) = sync_channel(AHEAD_BATCHES);
        let (arguments, name) = (self.clone(), self.file.display().to_string());
        thread::spawn(move || {
            let emit = |batch| sender.send(Ok(batch)).map_err(|_| Failure::interrupted());
            if let Err(failure) = arguments.read(reading, batch_bytes, emit) {
                // Nobody waits for it any longer if that fails.
                let _ = sender.send(Err(Failure::of(name, failure)));
            }
        });
        Ok(Batches { receiver, done, total_bytes: total })
    }

    fn read(
        &self,
        reading: Reading,
        batch_bytes: usize,
        emit: impl FnMut(Batch) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        match (&self.csv, &self.jsonl) {
            (Some(column), _) => {
                let delimiter = u8::try_from(self.delimiter)
                    .map_err(|_| Failure::usage("--delimiter must be one byte"))?;
                csv::read(
                    reading,
                    &csv::Shape { column, delimiter, has_header: !self.no_header },
                    batch_bytes,
                    emit,
                )
            }
            (None, Some(field)) => json::read(reading, field, batch_bytes, emit),
            (None, None) => lines::read(reading, batch_bytes, emit),
        }
    }

    /// How many items there are, read through once.
    pub(crate) fn count(&self, output: &Output) -> Result<u64, Failure> {
        let batches = self.batches(BATCH_BYTES)?;
        let progress = output.progress("counting", batches.total_bytes, Unit::Bytes);
        let mut items = 0;
        for batch in &batches {
            items += batch?.items;
            progress.set(batches.done_bytes(), format!("{items} items"));
        }
        output.note(&format!("{items} items in {} of {}", bytes(batches.done_bytes()), self.file.display()));
        Ok(items)
    }
}

/// Batches as they are read; ends at an interruption with its error.
pub(crate) struct Batches {
    receiver: Receiver<Result<Batch, Failure>>,
    done: reading::Done,
    /// Bytes of the file, compressed if it is; unknown of standard input.
    pub(crate) total_bytes: Option<u64>,
}

impl Batches {
    /// Bytes of the file that were read so far.
    pub(crate) fn done_bytes(&self) -> u64 {
        self.done.bytes()
    }
}

impl Iterator for &Batches {
    type Item = Result<Batch, Failure>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Err(failure) = interrupt::check() {
                return Some(Err(failure));
            }
            match self.receiver.recv_timeout(PATIENCE) {
                Ok(batch) => return Some(batch),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
    }
}
