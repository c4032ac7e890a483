//! A filter from a server to here.

use std::io::Cursor;

use everbloom::{BloomFilter, Loader};
use redis::Value;

use super::failure::Failure;
use super::rdb::{MODULE_VALUE, Read, Reader, read_module};
use super::server::{Connection, integer};

/// Version of the snapshot format and checksum, behind the value of a dump.
pub(crate) const FOOTER_BYTES: usize = 10;

/// The pieces of a filter as BF.SCANDUMP replies them, with the iterators that BF.LOADCHUNK takes.
pub(crate) struct Pieces<'c, 'k> {
    connection: &'c mut Connection,
    key: &'k [u8],
    iterator: u64,
    has_ended: bool,
}

impl<'c, 'k> Pieces<'c, 'k> {
    pub(crate) const fn new(connection: &'c mut Connection, key: &'k [u8]) -> Self {
        Self { connection, key, iterator: 0, has_ended: false }
    }

    fn read(&mut self) -> Result<Option<(u64, Vec<u8>)>, Failure> {
        let iterator = self.iterator.to_string();
        let reply = self.connection.call(&[b"BF.SCANDUMP", self.key, iterator.as_bytes()])?;
        let torn = || Failure::new("a reply to BF.SCANDUMP was expected");
        let Value::Array(mut parts) = reply else { return Err(torn()) };
        let (Some(data), Some(next)) = (parts.pop(), parts.pop()) else { return Err(torn()) };
        self.iterator = integer(&next).ok_or_else(torn)?;
        match data {
            Value::BulkString(data) if self.iterator != 0 => Ok(Some((self.iterator, data))),
            _ => Ok(None),
        }
    }
}

impl Iterator for Pieces<'_, '_> {
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

/// The filter of a key, by its pieces, or by its dump where the server has no pieces.
pub(crate) fn fetch(connection: &mut Connection, key: &[u8]) -> Result<BloomFilter, Failure> {
    match of_pieces(Pieces::new(connection, key)) {
        Ok(filter) => Ok(filter),
        Err(failure) => match connection.call(&[b"DUMP", key])? {
            Value::BulkString(payload) => of_dump(&payload).ok_or(failure),
            _ => Err(Failure::new("is gone")),
        },
    }
}

/// The filter that pieces make, the header first.
pub(crate) fn of_pieces(
    mut pieces: impl Iterator<Item = Result<(u64, Vec<u8>), Failure>>,
) -> Result<BloomFilter, Failure> {
    let Some(header) = pieces.next() else { return Err(Failure::new("no pieces")) };
    let mut loader = Loader::new(&header?.1).map_err(|error| Failure::new(error.to_string()))?;
    for piece in pieces {
        let (iterator, data) = piece?;
        loader.load(iterator, &data).map_err(|error| Failure::new(error.to_string()))?;
    }
    Ok(loader.finish())
}

/// The filter in a dump, if it is one.
pub(crate) fn of_dump(payload: &[u8]) -> Option<BloomFilter> {
    let value = payload.get(..payload.len().checked_sub(FOOTER_BYTES)?)?;
    let mut reader = Reader::new(Cursor::new(value));
    if reader.byte().ok()? != MODULE_VALUE {
        return None;
    }
    match read_module(&mut reader).ok()? {
        (_, _, Read::Filter(filter)) => Some(*filter),
        _ => None,
    }
}
