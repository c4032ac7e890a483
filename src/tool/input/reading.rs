//! The bytes of a file, decompressed where they are compressed, with a count of how far it was read.

use std::fs::File;
use std::io::{self, BufReader, Cursor, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::read::MultiGzDecoder;

use crate::failure::Failure;

/// What a compressed file begins with.
const GZIP_MAGIC: &[u8] = &[0x1F, 0x8B];
const ZSTD_MAGIC: &[u8] = &[0x28, 0xB5, 0x2F, 0xFD];

/// A file that is being read.
pub(crate) struct Reading {
    bytes: Box<dyn Read + Send>,
    done: Done,
    /// Bytes of the file; unknown of what is no file.
    pub(crate) total_bytes: Option<u64>,
}

/// How far a file was read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Done(Arc<AtomicU64>);

impl Done {
    pub(crate) fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Reading {
    /// Opens a file, or standard input as `-`, and looks whether it is compressed.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let done = Done::default();
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
        let mut counted = Counted { raw, done: done.clone() };
        let mut magic = Vec::new();
        counted.by_ref().take(ZSTD_MAGIC.len() as u64).read_to_end(&mut magic)?;
        let (is_gzip, is_zstd) = (magic.starts_with(GZIP_MAGIC), magic == ZSTD_MAGIC);
        let whole = Cursor::new(magic).chain(counted);
        let bytes: Box<dyn Read + Send> = if is_gzip {
            Box::new(MultiGzDecoder::new(BufReader::with_capacity(1 << 16, whole)))
        } else if is_zstd {
            Box::new(zstd::stream::read::Decoder::new(whole)?)
        } else {
            Box::new(whole)
        };
        Ok(Self { bytes, done, total_bytes })
    }

    pub(crate) fn done(&self) -> Done {
        self.done.clone()
    }
}

impl Read for Reading {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.bytes.read(buffer)
    }
}

struct Counted {
    raw: Box<dyn Read + Send>,
    done: Done,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.raw.read(buffer)?;
        self.done.0.fetch_add(length as u64, Ordering::Relaxed);
        Ok(length)
    }
}
