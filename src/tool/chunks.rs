//! Reads the chunks of a filter from BF.SCANDUMP or from a file of `everbloom build`, writes that file, and decodes
//! chunks into a filter.

use std::fs::{self, File};
use std::io::{BufReader, BufWriter, Cursor, Read, Write};
use std::iter;
use std::path::{Path, PathBuf};

use everbloom::{BloomFilter, Loader};
use redis::Value;

use super::failure::Failure;
use super::rdb::{self, MODULE_VALUE, Reader, read_module};
use super::server::{CallError, Connection, integer};

/// Bytes of the version of the snapshot format and the checksum, at the end of a dump.
pub(crate) const FOOTER_BYTES: usize = 10;
/// First bytes of the file: `evblfile` and the version of the layout, 1. docs/formats.md has the rest.
pub(crate) const MAGIC: &[u8; 12] = b"evblfile\x01\0\0\0";
/// Bytes of the largest chunk, which is the longest argument that servers accept.
const CHUNK_MAX_BYTES: u64 = 512 << 20;

/// A chunk with its iterator for BF.LOADCHUNK, or why it could not be read.
pub(crate) type Chunk = Result<(u64, Vec<u8>), Failure>;

/// Returns the chunks that BF.SCANDUMP replies.
pub(crate) fn dump(connection: &mut Connection, key: &[u8]) -> impl Iterator<Item = Chunk> {
    let mut iterator = 0;
    let mut next = move || {
        let reply = connection.call(&[b"BF.SCANDUMP", key, iterator.to_string().as_bytes()])?;
        let unexpected = || CallError::unexpected_reply("BF.SCANDUMP").into();
        let Value::Array(mut parts) = reply else { return Err(unexpected()) };
        let (Some(data), Some(next)) = (parts.pop(), parts.pop()) else { return Err(unexpected()) };
        iterator = integer(&next).ok_or_else(unexpected)?;
        match data {
            Value::BulkString(data) if iterator != 0 => Ok(Some((iterator, data))),
            _ => Ok(None),
        }
    };
    iter::from_fn(move || next().transpose())
}

/// Returns the chunks of a filter.
pub(crate) fn chunks(filter: &mut BloomFilter) -> impl Iterator<Item = Chunk> {
    filter.chunks().map(|chunk| chunk.map_err(Failure::new))
}

/// Returns the filter of a key. Reads its chunks, or its dump if the server does not have BF.SCANDUMP.
pub(crate) fn fetch(connection: &mut Connection, key: &[u8]) -> Result<BloomFilter, Failure> {
    let loaded = load(dump(connection, key));
    loaded.or_else(|failure| match connection.call(&[b"DUMP", key])? {
        Value::BulkString(payload) => of_dump(&payload).ok_or(failure),
        _ => Err(Failure::new("the filter no longer exists")),
    })
}

/// Returns the filter of chunks, the first of which is the header.
pub(crate) fn load(mut chunks: impl Iterator<Item = Chunk>) -> Result<BloomFilter, Failure> {
    let header = chunks.next().ok_or_else(|| Failure::new("the filter has no chunks"))?;
    let mut loader = Loader::new(&header?.1).map_err(Failure::new)?;
    for chunk in chunks {
        let (iterator, data) = chunk?;
        loader.load(iterator, &data).map_err(Failure::new)?;
    }
    Ok(loader.finish())
}

/// Returns the filter in a dump, if it holds one.
pub(crate) fn of_dump(payload: &[u8]) -> Option<BloomFilter> {
    let value = payload.get(..payload.len().checked_sub(FOOTER_BYTES)?)?;
    let mut reader = Reader::new(Cursor::new(value));
    if reader.byte().ok()? != MODULE_VALUE {
        return None;
    }
    match read_module(&mut reader).ok()? {
        (_, _, rdb::Read::Filter(filter)) => Some(*filter),
        _ => None,
    }
}

/// A file that is being written. It gets its final name when it is complete.
pub(crate) struct Writing {
    file: BufWriter<File>,
    path: PathBuf,
    unfinished: PathBuf,
    bytes: u64,
    is_finished: bool,
}

impl Writing {
    pub(crate) fn create(path: &Path) -> Result<Self, Failure> {
        let mut unfinished = path.as_os_str().to_owned();
        unfinished.push(".unfinished");
        let unfinished = PathBuf::from(unfinished);
        let file = File::create(&unfinished).map_err(|error| Failure::of(unfinished.display(), error))?;
        let mut writing = Self {
            file: BufWriter::with_capacity(1 << 20, file),
            path: path.to_owned(),
            unfinished,
            bytes: 0,
            is_finished: false,
        };
        writing.write(MAGIC)?;
        Ok(writing)
    }

    /// Appends a chunk with its iterator.
    pub(crate) fn chunk(&mut self, iterator: u64, data: &[u8]) -> Result<(), Failure> {
        self.write(&iterator.to_le_bytes())?;
        self.write(&(data.len() as u64).to_le_bytes())?;
        self.write(data)
    }

    /// Returns the bytes written so far.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Completes the file and renames it. Returns its size in bytes.
    pub(crate) fn finish(mut self) -> Result<u64, Failure> {
        self.write(&[0; 16])?;
        self.file.flush()?;
        self.file.get_ref().sync_all()?;
        fs::rename(&self.unfinished, &self.path).map_err(|error| Failure::of(self.path.display(), error))?;
        self.is_finished = true;
        Ok(self.bytes)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.bytes += bytes.len() as u64;
        self.file.write_all(bytes).map_err(|error| Failure::of(self.unfinished.display(), error))
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        if !self.is_finished {
            let _ = fs::remove_file(&self.unfinished);
        }
    }
}

/// Opens the file of a filter. Returns its chunks and its size in bytes.
pub(crate) fn open(path: &Path) -> Result<(impl Iterator<Item = Chunk>, u64), Failure> {
    let of = |error| Failure::of(path.display(), error);
    let file = File::open(path).map_err(of)?;
    let size_bytes = file.metadata().map_err(of)?.len();
    let mut source = BufReader::with_capacity(1 << 20, file);
    let mut magic = Vec::new();
    source.by_ref().take(MAGIC.len() as u64).read_to_end(&mut magic)?;
    if magic != MAGIC {
        return Err(Failure::of(path.display(), "the file was not written by `everbloom build`"));
    }
    Ok((after_magic(source), size_bytes))
}

/// Returns the chunks after the first bytes of a file.
pub(crate) fn after_magic(mut source: impl Read) -> impl Iterator<Item = Chunk> {
    iter::from_fn(move || read(&mut source).transpose())
}

fn read(source: &mut impl Read) -> Result<Option<(u64, Vec<u8>)>, Failure> {
    let ends_early = || Failure::new("the file is truncated: copy or build it again");
    let mut numbers = [[0; 8]; 2];
    for number in &mut numbers {
        source.read_exact(number).map_err(|_| ends_early())?;
    }
    let [iterator, length] = numbers.map(u64::from_le_bytes);
    if iterator == 0 {
        return Ok(None);
    }
    if length > CHUNK_MAX_BYTES {
        return Err(Failure::new(
            "the file is damaged, a chunk is longer than 512 MiB: copy or build it again",
        ));
    }
    // Allocates memory as bytes are read and not by the length in the file, which may be wrong.
    let mut data = Vec::new();
    source.take(length).read_to_end(&mut data)?;
    if data.len() as u64 == length { Ok(Some((iterator, data))) } else { Err(ends_early()) }
}
