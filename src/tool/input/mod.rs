//! Items from a file or from standard input: lines, a column of CSV, or a field of JSON lines, packed into batches.

mod formats;
mod times;

pub(crate) use times::Times;

use std::fs::File;
use std::io::{self, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use flate2::read::MultiGzDecoder;

use super::failure::{Failure, check_interruption};
use super::output::{Output, Unit, bytes};
use super::packing::Batch;

/// Bytes of a batch, about: large enough that the round trip does not matter, small enough that other clients of the
/// server wait a few dozen milliseconds at most.
pub(crate) const BATCH_BYTES: usize = 512 << 10;
/// Batches that are read ahead.
const AHEAD_BATCHES: usize = 8;
/// How often a wait for input looks for an interruption.
const PATIENCE: Duration = Duration::from_millis(100);

/// First bytes of a compressed file.
const GZIP_MAGIC: &[u8] = &[0x1F, 0x8B];
const ZSTD_MAGIC: &[u8] = &[0x28, 0xB5, 0x2F, 0xFD];

/// The source of the items.
#[derive(Clone, Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Arguments {
    /// File with an item per line, `-` for standard input; gzip and zstd are recognised
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Take this column of a CSV file: its name in the first line, or its number from 1
    #[arg(long, value_name = "COLUMN", group = "columns")]
    csv: Option<String>,
    /// What separates the columns
    #[arg(long, value_name = "CHARACTER", default_value = ",", requires = "csv")]
    delimiter: char,
    /// The CSV file has no first line of names
    #[arg(long, requires = "csv")]
    no_header: bool,
    /// Take this field of each line, a JSON object: its name, or a JSON pointer (/user/id)
    #[arg(long, value_name = "FIELD", group = "columns")]
    jsonl: Option<String>,
}

impl Arguments {
    /// Returns whether the items come from standard input, which can be read once.
    pub(crate) fn is_stdin(&self) -> bool {
        self.file == Path::new("-")
    }

    /// Returns the batches, which a thread of its own reads. With times, each has items of one generation, and items
    /// that have expired are skipped.
    pub(crate) fn batches(&self, batch_bytes: usize, times: Option<&Times>) -> Result<Batches, Failure> {
        let (done_bytes, expired): (_, Arc<AtomicU64>) = (Arc::default(), Arc::default());
        let (reading, total_bytes) = open_counted(&self.file, Arc::clone(&done_bytes))?;
        let (sender, receiver) = sync_channel(AHEAD_BATCHES);
        let (arguments, name) = (self.clone(), self.file.display().to_string());
        let (times, skipped) = (times.cloned(), Arc::clone(&expired));
        thread::spawn(move || {
            let emit = |batch| sender.send(Ok(batch)).map_err(|_| Failure::interrupted());
            if let Err(failure) = arguments.read(reading, batch_bytes, (times.as_ref(), &skipped), emit) {
                // Sending fails if the receiver is gone.
                let _ = sender.send(Err(Failure::of(name, failure)));
            }
        });
        Ok(Batches { receiver, done_bytes, expired, total_bytes })
    }

    fn read(
        &self,
        reading: impl Read,
        batch_bytes: usize,
        (times, expired): (Option<&Times>, &AtomicU64),
        emit: impl FnMut(Batch) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let batches = |emit| formats::Batches::new(batch_bytes, times, expired, emit);
        match (&self.csv, &self.jsonl) {
            (Some(column), _) => {
                let delimiter = u8::try_from(self.delimiter)
                    .map_err(|_| Failure::usage("--delimiter must be one byte"))?;
                formats::read_csv(reading, column, delimiter, !self.no_header, batches(emit))
            }
            (None, Some(field)) => formats::read_json(reading, field, batches(emit)),
            (None, None) => formats::read_lines(reading, batch_bytes, emit),
        }
    }

    /// Reads the file and returns the number of items that have not expired.
    pub(crate) fn count(&self, times: Option<&Times>, output: &Output) -> Result<u64, Failure> {
        let batches = self.batches(BATCH_BYTES, times)?;
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

/// Batches as they are read. They end at an interruption with its error.
pub(crate) struct Batches {
    receiver: Receiver<Result<Batch, Failure>>,
    done_bytes: Arc<AtomicU64>,
    expired: Arc<AtomicU64>,
    /// Bytes of the file as it is, compressed or not; unknown for standard input.
    pub(crate) total_bytes: Option<u64>,
}

impl Batches {
    /// Returns the bytes of the file that were read so far.
    pub(crate) fn done_bytes(&self) -> u64 {
        self.done_bytes.load(Ordering::Relaxed)
    }

    /// Returns the number of items that were skipped so far because they have expired.
    pub(crate) fn expired(&self) -> u64 {
        self.expired.load(Ordering::Relaxed)
    }
}

impl Iterator for &Batches {
    type Item = Result<Batch, Failure>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Err(failure) = check_interruption() {
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

/// Opens a file, or standard input as `-`. Returns its bytes, decompressed.
pub(crate) fn open(path: &Path) -> Result<impl Read + use<>, Failure> {
    open_counted(path, Arc::default()).map(|(reading, _)| reading)
}

/// Opens a file, or standard input as `-`. Returns its bytes, decompressed, and its length if it is a file. Counts the
/// bytes read.
fn open_counted(
    path: &Path,
    done_bytes: Arc<AtomicU64>,
) -> Result<(Box<dyn Read + Send>, Option<u64>), Failure> {
    let (raw, total_bytes): (Box<dyn Read + Send>, _) = if path == Path::new("-") {
        (Box::new(io::stdin()), None)
    } else {
        let of = |error| Failure::of(path.display(), error);
        let file = File::open(path).map_err(of)?;
        let metadata = file.metadata().map_err(of)?;
        if metadata.is_dir() {
            return Err(Failure::of(path.display(), "is a directory"));
        }
        (Box::new(file), metadata.is_file().then_some(metadata.len()))
    };
    let mut counted = Counted { raw, done_bytes };
    let mut magic = Vec::new();
    counted.by_ref().take(ZSTD_MAGIC.len() as u64).read_to_end(&mut magic)?;
    let (is_gzip, is_zstd) = (magic.starts_with(GZIP_MAGIC), magic == ZSTD_MAGIC);
    let whole = Cursor::new(magic).chain(counted);
    let reading: Box<dyn Read + Send> = if is_gzip {
        Box::new(MultiGzDecoder::new(BufReader::with_capacity(1 << 16, whole)))
    } else if is_zstd {
        Box::new(zstd::stream::read::Decoder::new(whole)?)
    } else {
        Box::new(whole)
    };
    Ok((reading, total_bytes))
}

/// Counts the bytes that are read.
struct Counted {
    raw: Box<dyn Read + Send>,
    done_bytes: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.raw.read(buffer)?;
        self.done_bytes.fetch_add(length as u64, Ordering::Relaxed);
        Ok(length)
    }
}
