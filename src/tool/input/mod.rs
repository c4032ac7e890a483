//! Reads items from a file or from standard input, as lines or a column of CSV, and packs them into batches.

mod formats;
mod times;

pub(crate) use times::Times;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::io::{self, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use flate2::read::MultiGzDecoder;

use super::failure::{Failure, check_interruption};
use super::output::{Printer, bytes, counted};
use super::packing::ItemBatch;
use formats::{GenerationBatches, read_csv, read_lines};

/// The number of batches that the reading thread prepares before they are needed.
const AHEAD_BATCHES: usize = 8;
/// Time between two checks for an interruption while waiting for input.
const PATIENCE: Duration = Duration::from_millis(100);

/// The most characters of a first line that a note shows.
const HEADER_SHOWN_CHARS: usize = 80;

/// The source of the items.
#[derive(Clone, Debug, clap::Args)]
#[group(skip)]
pub(crate) struct InputArguments {
    /// File with one item per line, or - for standard input. Compressed with gzip or zstd, or not
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The file is CSV: take this column, by its name in the first line or its number from 1
    #[arg(long, value_name = "COLUMN")]
    csv: Option<String>,
    /// Character between the columns of the CSV file; \t is a tab
    #[arg(long, value_name = "CHARACTER", default_value = ",", value_parser = delimiter, requires = "csv")]
    delimiter: u8,
    /// The CSV file does not begin with a line of column names
    #[arg(long, requires = "csv")]
    no_header: bool,
    /// Keep the carriage return (\r) at the end of lines of a file with CRLF line ends
    #[arg(long, conflicts_with = "csv")]
    keep_cr: bool,
}

/// Parses the character between columns.
fn delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        [character] => Ok(*character),
        b"\\t" => Ok(b'\t'),
        _ => Err("a delimiter is one ASCII character, or \\t for a tab".to_owned()),
    }
}

impl InputArguments {
    /// Returns whether the items can be read only once: those of standard input, and of what is no regular file, such
    /// as a pipe. Directories, and files without metadata, are errors of [`open`].
    pub(crate) fn is_read_once(&self) -> bool {
        let is_special = |metadata: Metadata| !(metadata.is_file() || metadata.is_dir());
        self.file == Path::new("-") || fs::metadata(&self.file).is_ok_and(is_special)
    }

    /// Returns the batches of the file, which another thread reads. With `times`, all items of a batch have the same
    /// generation, and expired items are skipped.
    pub(crate) fn batches(&self, times: Option<&Times>) -> Result<BatchReader, Failure> {
        let seen: Arc<SeenInput> = Arc::default();
        let (reading, total_bytes) = open(&self.file, Arc::clone(&seen))?;
        let (sender, receiver) = sync_channel(AHEAD_BATCHES);
        let (arguments, name) = (self.clone(), self.file.display().to_string());
        let (times, noted) = (times.cloned(), Arc::clone(&seen));
        let thread = thread::spawn(move || {
            let emit = |batch| sender.send(Ok(batch)).map_err(|_| Failure::interrupted());
            let outcome = match &arguments.csv {
                Some(column) => {
                    let batches = GenerationBatches {
                        open: BTreeMap::new(),
                        times: times.as_ref(),
                        expired: &noted.expired,
                        unnamed_header: &noted.unnamed_header,
                        emit,
                    };
                    read_csv(reading, column, arguments.delimiter, !arguments.no_header, batches)
                }
                None => read_lines(reading, (!arguments.keep_cr).then_some(&noted.has_crlf), emit),
            };
            if let Err(failure) = outcome {
                // Sending fails if the receiver was dropped, which ends the reading.
                let _ = sender.send(Err(failure.about(name)));
            }
        });
        Ok(BatchReader { receiver, thread: Cell::new(Some(thread)), seen, total_bytes })
    }

    /// Reads the file and returns the number of items that have not expired.
    pub(crate) fn count(&self, times: Option<&Times>, printer: &Printer) -> Result<u64, Failure> {
        let batches = self.batches(times)?;
        let progress = printer.progress("counting", batches.total_bytes);
        let mut items = 0;
        for batch in &batches {
            items += batch?.items;
            progress.set(batches.done_bytes(), format!("{items} items"));
        }
        progress.finish();
        let size = bytes(batches.done_bytes());
        printer.note(&format!("{}: {} in {size}", self.file.display(), counted(items, "item")));
        Ok(items)
    }
}

/// The progress of the reading thread, which other threads read.
#[derive(Debug, Default)]
pub(crate) struct SeenInput {
    /// Bytes of the file that were read, before decompression.
    done_bytes: AtomicU64,
    /// The number of items that were skipped because they have expired.
    expired: AtomicU64,
    /// Whether the `\r` of CRLF line ends was removed.
    has_crlf: AtomicBool,
    /// The first line of a CSV file, if it was taken as column names and the column was found by its number.
    unnamed_header: OnceLock<String>,
}

/// The batches of a file as they are read. After a signal, the next element is the error of the interruption.
pub(crate) struct BatchReader {
    receiver: Receiver<Result<ItemBatch, Failure>>,
    /// The reading thread; `None` after its end.
    thread: Cell<Option<JoinHandle<()>>>,
    seen: Arc<SeenInput>,
    /// Bytes of the file before decompression; `None` for standard input.
    pub(crate) total_bytes: Option<u64>,
}

impl BatchReader {
    /// Returns the bytes of the file that were read so far.
    pub(crate) fn done_bytes(&self) -> u64 {
        self.seen.done_bytes.load(Ordering::Relaxed)
    }

    /// Returns the number of items that were skipped so far because they have expired.
    pub(crate) fn expired(&self) -> u64 {
        self.seen.expired.load(Ordering::Relaxed)
    }

    /// Prints a note if CRLF line ends were found, and one if a first line without a needed name was skipped.
    pub(crate) fn note_removals(&self, printer: &Printer) {
        if let Some(line) = self.seen.unnamed_header.get() {
            let line: String = line.chars().take(HEADER_SHOWN_CHARS).collect();
            printer.note(&format!(
                "the first line, `{line}`, is taken as column names: --no-header if it is an item"
            ));
        }
        if self.seen.has_crlf.load(Ordering::Relaxed) {
            printer.note("the file has CRLF line ends: the \\r of each line is removed; --keep-cr keeps it");
        }
    }

    /// Returns the next batch; `None` after the last one. Calls `wait` again and again until it has come.
    pub(crate) fn wait_for(
        &self,
        mut wait: impl FnMut() -> Result<(), Failure>,
    ) -> Option<Result<ItemBatch, Failure>> {
        loop {
            if let Err(failure) = check_interruption().and_then(|()| wait()) {
                return Some(Err(failure));
            }
            match self.receiver.recv_timeout(PATIENCE) {
                Ok(batch) => return Some(batch),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    let ended = self.thread.take().map_or(Ok(()), JoinHandle::join);
                    return ended.err().map(|_| Err(Failure::of_panic()));
                }
            }
        }
    }
}

impl Iterator for &BatchReader {
    type Item = Result<ItemBatch, Failure>;

    fn next(&mut self) -> Option<Self::Item> {
        self.wait_for(|| Ok(()))
    }
}

/// Opens a file, or standard input if the path is `-`. Returns the decompressed bytes, and the length of the file
/// before decompression if it is a regular file.
pub(crate) fn open(
    path: &Path,
    seen: Arc<SeenInput>,
) -> Result<(Box<dyn Read + Send>, Option<u64>), Failure> {
    let (source, total_bytes): (Box<dyn Read + Send>, _) = if path == Path::new("-") {
        (Box::new(io::stdin()), None)
    } else {
        let of = |error| Failure::of(path.display(), error);
        let file = File::open(path).map_err(of)?;
        let metadata = file.metadata().map_err(of)?;
        if metadata.is_dir() {
            return Err(Failure::of(path.display(), "this is a directory: give a file"));
        }
        (Box::new(file), metadata.is_file().then_some(metadata.len()))
    };
    let mut counted = CountedInput { source, seen };
    let mut magic = Vec::new();
    counted.by_ref().take(4).read_to_end(&mut magic)?;
    let whole = Cursor::new(magic.clone()).chain(counted);
    let reading: Box<dyn Read + Send> = match magic.as_slice() {
        // The first bytes of files of gzip and of zstd.
        [0x1F, 0x8B, ..] => Box::new(MultiGzDecoder::new(BufReader::with_capacity(1 << 16, whole))),
        [0x28, 0xB5, 0x2F, 0xFD] => Box::new(zstd::stream::read::Decoder::new(whole)?),
        _ => Box::new(whole),
    };
    Ok((reading, total_bytes))
}

/// Counts the bytes that are read.
struct CountedInput {
    source: Box<dyn Read + Send>,
    seen: Arc<SeenInput>,
}

impl Read for CountedInput {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.source.read(buffer)?;
        self.seen.done_bytes.fetch_add(length as u64, Ordering::Relaxed);
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_the_reading_thread_is_a_failure() {
        let (sender, receiver) = sync_channel(AHEAD_BATCHES);
        let thread = thread::spawn(move || {
            sender.send(Ok(ItemBatch::of_lines(b"item\n".to_vec()))).unwrap();
            panic!("for the test");
        });
        let thread = Cell::new(Some(thread));
        let batches = BatchReader { receiver, thread, seen: Arc::default(), total_bytes: None };
        let read: Vec<_> = batches.into_iter().map(|batch| batch.map(|batch| batch.items)).collect();
        assert_eq!(read, [Ok(1), Err(Failure::of_panic())]);
    }

    #[test]
    fn something_can_be_done_while_a_batch_has_not_come() {
        let (sender, receiver) = sync_channel(AHEAD_BATCHES);
        let batches =
            BatchReader { receiver, thread: Cell::new(None), seen: Arc::default(), total_bytes: None };
        let mut calls = 0;
        let mut wait = || {
            calls += 1;
            if calls == 3 {
                sender.send(Ok(ItemBatch::of_lines(b"item\n".to_vec()))).unwrap();
            }
            Ok(())
        };
        assert_eq!(batches.wait_for(&mut wait).map(|batch| batch.map(|batch| batch.items)), Some(Ok(1)));
        let refused = batches.wait_for(|| Err(Failure::new("refused")));
        assert_eq!(refused.map(|batch| batch.map(|batch| batch.items)), Some(Err(Failure::new("refused"))));
        assert_eq!(calls, 3);
    }
}
