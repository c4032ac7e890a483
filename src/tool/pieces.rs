//! The file of a filter: the pieces of BF.SCANDUMP one after another, as docs/formats.md says it.

use std::fs::{self, File};
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use super::failure::Failure;

/// What the file begins with: `evblfile` and the version of the layout, 1.
pub(crate) const MAGIC: &[u8; 12] = b"evblfile\x01\0\0\0";
/// Bytes of the largest piece: what servers take in one argument.
const PIECE_MAX_BYTES: u64 = 512 << 20;

/// A file that is being written: under another name until it is whole.
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

    /// Appends a piece with the iterator that BF.LOADCHUNK is to be sent with.
    pub(crate) fn piece(&mut self, iterator: u64, data: &[u8]) -> Result<(), Failure> {
        self.write(&iterator.to_le_bytes())?;
        self.write(&(data.len() as u64).to_le_bytes())?;
        self.write(data)
    }

    /// Bytes so far.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Ends the file and gives it its name; answers its bytes.
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

/// The pieces of a file, in order. Ends after the first trouble.
pub(crate) struct Pieces<R> {
    source: R,
    has_ended: bool,
}

impl Pieces<BufReader<File>> {
    /// Opens a file; answers its bytes too.
    pub(crate) fn open(path: &Path) -> Result<(Self, u64), Failure> {
        let of = |error| Failure::of(path.display(), error);
        let file = File::open(path).map_err(of)?;
        let size_bytes = file.metadata().map_err(of)?.len();
        let mut source = BufReader::with_capacity(1 << 20, file);
        let mut magic = Vec::new();
        source.by_ref().take(MAGIC.len() as u64).read_to_end(&mut magic)?;
        if magic != MAGIC {
            return Err(Failure::of(path.display(), "is no file of `everbloom build`"));
        }
        Ok((Self::behind_magic(source), size_bytes))
    }
}

impl<R: Read> Pieces<R> {
    /// Of what follows the magic.
    pub(crate) const fn behind_magic(source: R) -> Self {
        Self { source, has_ended: false }
    }

    fn read(&mut self) -> Result<Option<(u64, Vec<u8>)>, Failure> {
        let torn = |_| Failure::new("the file ends before the filter does");
        let mut numbers = [[0; 8]; 2];
        for number in &mut numbers {
            self.source.read_exact(number).map_err(torn)?;
        }
        let [iterator, length] = numbers.map(u64::from_le_bytes);
        if iterator == 0 {
            return Ok(None);
        }
        if length > PIECE_MAX_BYTES {
            return Err(Failure::new("a piece is longer than any server takes"));
        }
        // Grows with what is there, not with what the file says.
        let mut data = Vec::new();
        self.source.by_ref().take(length).read_to_end(&mut data)?;
        if data.len() as u64 != length {
            return Err(Failure::new("the file ends before the filter does"));
        }
        Ok(Some((iterator, data)))
    }
}

impl<R: Read> Iterator for Pieces<R> {
    type Item = Result<(u64, Vec<u8>), Failure>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_ended {
            return None;
        }
        let piece = self.read().transpose();
        self.has_ended = !matches!(piece, Some(Ok(_)));
        piece
    }
}
