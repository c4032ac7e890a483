//! Reads a filter from a server: in the chunks of BF.SCANDUMP, or from the reply of DUMP.

use std::iter;

use everbloom::{BloomFilter, DumpField, DumpFields, Loader};
use redis::{Value, from_redis_value};

use super::failure::Failure;
use super::server::{CallError, Connection};

/// A chunk with its iterator for BF.LOADCHUNK, or why it could not be read.
pub(crate) type ChunkResult = Result<(u64, Vec<u8>), Failure>;

/// Returns the chunks of a filter, which it reads from the server with BF.SCANDUMP.
pub(crate) fn dump(connection: &mut Connection, key: &[u8]) -> impl Iterator<Item = ChunkResult> {
    let mut iterator = 0u64;
    let mut next = move || {
        let reply = connection.call(&[b"BF.SCANDUMP", key, iterator.to_string().as_bytes()])?;
        let parsed: Result<(u64, Option<Vec<u8>>), _> = from_redis_value(reply);
        let (next, data) = parsed.map_err(|_| CallError::unexpected_reply("BF.SCANDUMP"))?;
        iterator = next;
        Ok(data.filter(|_| next != 0).map(|data| (next, data)))
    };
    iter::from_fn(move || next().transpose())
}

/// Returns the chunks of a filter in this process.
pub(crate) fn chunks(filter: &mut BloomFilter) -> impl Iterator<Item = ChunkResult> {
    filter.chunks().map(|chunk| chunk.map_err(Failure::new))
}

/// Returns an error if a client is loading the chunks of the filter of a key. Such a filter cannot be read: parts of it are
/// missing.
pub(crate) fn check_complete(connection: &mut Connection, key: &[u8]) -> Result<(), Failure> {
    match connection.call(&[b"BF.CARD", key]) {
        Ok(_) => Ok(()),
        // Servers without the command have no such filters.
        Err(error) if error.is_of_no_filter() || error.is_of_unknown_command() => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Returns the filter of a key. Reads its chunks or, if this fails, the reply of DUMP: some servers do not have
/// BF.SCANDUMP.
pub(crate) fn fetch(connection: &mut Connection, key: &[u8]) -> Result<BloomFilter, Failure> {
    let loaded = load(dump(connection, key));
    loaded.or_else(|failure| match connection.call(&[b"DUMP", key])? {
        Value::BulkString(payload) => of_dump(&payload).ok_or(failure),
        _ => Err(Failure::new("the filter no longer exists")),
    })
}

/// Returns the filter that the chunks describe. The first chunk is the header.
fn load(mut chunks: impl Iterator<Item = ChunkResult>) -> Result<BloomFilter, Failure> {
    let header = chunks.next().ok_or_else(|| Failure::new("the filter has no chunks"))?;
    let mut loader = Loader::new(&header?.1).map_err(Failure::new)?;
    for chunk in chunks {
        let (iterator, data) = chunk?;
        loader.load(iterator, &data).map_err(Failure::new)?;
    }
    loader.finish().map_err(Failure::new)
}

/// The most bytes that one byte of LZF can expand to. A reference of three bytes expands to at most 264.
const LZF_EXPANSION_MAX: u64 = 88;

/// Returns the filter in a reply of DUMP; `None` if it has no filter, or one that this release cannot read.
pub(crate) fn of_dump(payload: &[u8]) -> Option<BloomFilter> {
    BloomFilter::from_dump(payload, decompress).ok()
}

/// Returns the fields of the value of a key, from the reply of DUMP, whatever its strings are compressed with.
pub(crate) fn fields(connection: &mut Connection, key: &[u8]) -> Result<Vec<u8>, Failure> {
    let Value::BulkString(payload) = connection.call(&[b"DUMP", key])? else {
        return Err(Failure::new("the filter no longer exists"));
    };
    fields_of_dump(&payload).ok_or_else(|| CallError::unexpected_reply("DUMP").into())
}

fn fields_of_dump(payload: &[u8]) -> Option<Vec<u8>> {
    let (id, mut fields) = DumpFields::of_payload(payload, decompress)?;
    let mut bytes = id.to_le_bytes().to_vec();
    loop {
        match fields.next_field()? {
            DumpField::Unsigned(value) => bytes.extend(value.to_le_bytes()),
            DumpField::Float(value) => bytes.extend(value.to_le_bytes()),
            DumpField::Double(value) => bytes.extend(value.to_le_bytes()),
            DumpField::String(string) => {
                bytes.extend((string.len() as u64).to_le_bytes());
                bytes.extend(&*string);
            }
            DumpField::End => return Some(bytes),
        }
    }
}

/// Returns the decompressed bytes; `None` if the bytes are not valid or the length is wrong.
fn decompress(compressed: &[u8], length: u64) -> Option<Vec<u8>> {
    if length > (compressed.len() as u64).saturating_mul(LZF_EXPANSION_MAX) {
        return None;
    }
    let length = usize::try_from(length).ok()?;
    let mut output = Vec::new();
    output.try_reserve_exact(length).ok()?;
    output.resize(length, 0);
    (lzf_rust::decompress(compressed, &mut output).ok()? == length).then_some(output)
}

#[cfg(test)]
mod tests {
    use super::decompress;

    #[test]
    fn compressed_strings_are_read_and_invalid_ones_refused() {
        assert_eq!(decompress(&[0, b'a', 0xE0, 0, 0], 10).unwrap(), b"aaaaaaaaaa");
        assert_eq!(decompress(&[2, b'a', b'b', b'c', 0x20, 2], 6).unwrap(), b"abcabc");
        for (input, length) in
            [(&[0xE0, 0, 0][..], 9), (&[5, 1], 6), (&[0, 1], 2), (&[0, 1], u64::MAX), (&[0x20], 3)]
        {
            assert_eq!(decompress(input, length), None, "{input:?}");
        }
    }
}
