//! What is done with the bytes of a filter, by its format.

use super::pieces::{self, ChunkError, Piece, Trust};
use super::record::{self, Header};
use super::rewrite::{self, Rewritten};
use super::stream::{DecodeError, Sink, Source};
use super::{redisbloom, seal, snapshot, valkeybloom};
use crate::bloom::hash::murmur2::Murmur2;
use crate::bloom::{ByteLimit, Filter, Format, Hash, Layer, Memory, OutOfMemory, Policy};

/// How a server knows the values of a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataType {
    /// Exactly nine characters.
    pub name: &'static str,
    /// The encoding version that is written; older ones are read.
    pub encoding_version: i32,
}

/// The data type of our own format.
const EVERBLOOM: DataType = DataType { name: "everbloom", encoding_version: 1 };

impl DataType {
    /// Returns the data type of a format.
    #[must_use]
    pub const fn of(format: Format) -> Self {
        match format {
            Format::Everbloom => EVERBLOOM,
            Format::RedisBloom => redisbloom::DATA_TYPE,
            Format::ValkeyBloom => valkeybloom::DATA_TYPE,
        }
    }
}

/// Writes a filter to a snapshot, as the newest release of the module whose format it has does. O(bytes), for
/// filters of our own O(bytes that may be set, as far as is known). The filter is changed only where nobody
/// sees it: in the space for a head in front of a layer.
pub fn save(filter: &mut Filter, sink: &mut impl Sink, memory: impl Memory) {
    match filter.policy() {
        Policy::RedisBloom(policy) => redisbloom::rdb::save(policy, filter, sink),
        Policy::ValkeyBloom(policy) => {
            let policy = **policy;
            valkeybloom::save(&policy, filter.layers_mut(), sink);
        }
        Policy::Promise(_) | Policy::United(_) | Policy::Window(_) | Policy::Imported(_) => {
            snapshot::save(&record::encode(filter), filter, sink, memory);
        }
    }
}

/// Reads a value of a format's data type. O(bytes); takes the memory of the filter and of its largest string
/// beside it.
///
/// # Errors
/// The first thing that is wrong with the fields, [`DecodeError::TooLarge`] where the filter breaks the
/// limit, or [`DecodeError::OutOfMemory`].
pub fn load(
    format: Format,
    encoding_version: i32,
    source: &mut impl Source,
    limit: &dyn ByteLimit,
) -> Result<Filter, DecodeError> {
    match format {
        Format::Everbloom if encoding_version == EVERBLOOM.encoding_version => {
            let filter = snapshot::load(source, limit)?;
            // Filters of valkey-bloom have the record in dumps only.
            if filter.format() == Format::Everbloom {
                Ok(filter)
            } else {
                Err(DecodeError::Invalid("policy"))
            }
        }
        Format::Everbloom => {
            let got = encoding_version.unsigned_abs().into();
            Err(DecodeError::Unsupported { what: "encoding version", got })
        }
        Format::RedisBloom => redisbloom::rdb::load(source, encoding_version, limit),
        Format::ValkeyBloom => valkeybloom::load(source, encoding_version, limit),
    }
}

/// Shows `emit` the commands that make the filter again, in order: in words that the module whose format it
/// has understands. O(bytes that may be set, as far as is known), for filters of other formats O(bytes).
///
/// `fresh` is a number that no other rewriting has.
///
/// # Errors
/// [`OutOfMemory`] when a piece cannot be had; a part may have been shown then.
pub fn rewrite(
    filter: &Filter,
    memory: impl Memory,
    fresh: u64,
    emit: &mut dyn FnMut(Rewritten<'_>),
) -> Result<(), OutOfMemory> {
    match filter.policy() {
        Policy::RedisBloom(policy) => {
            redisbloom::pieces::rewrite(policy, filter, emit);
            return Ok(());
        }
        // Where there is no memory for a string of the whole filter, it is written in pieces.
        Policy::ValkeyBloom(policy) => {
            if let Ok(blob) = valkeybloom::encode_blob(policy, filter.layers()) {
                emit(Rewritten::Blob(&blob));
                return Ok(());
            }
        }
        Policy::Promise(_) | Policy::United(_) | Policy::Window(_) | Policy::Imported(_) => {}
    }
    rewrite::in_pieces(&record::encode(filter), filter, memory, fresh, emit)
}

/// Returns the piece that `iterator` asks for, or nothing past the end. O(bytes of the piece).
///
/// # Errors
/// [`OutOfMemory`] when the bytes cannot be had.
pub fn piece(filter: &Filter, iterator: u64) -> Result<Option<Piece<'_>>, OutOfMemory> {
    match filter.policy() {
        Policy::RedisBloom(policy) => Ok(redisbloom::pieces::piece(policy, filter, iterator)),
        _ => pieces::piece(filter, iterator, || record::encode(filter)),
    }
}

/// Returns an empty filter of the shape that the header of a dump describes. RedisBloom's headers have nothing that
/// tells them from others, so whatever has no seal of ours is one. O(layers).
///
/// # Errors
/// [`DecodeError`] for a header that is torn, altered, impossible, or larger than `limit` allows.
pub fn from_header(data: &[u8], limit: &dyn ByteLimit) -> Result<Filter, DecodeError> {
    let Ok((bytes, origin)) = seal::open_header(data) else {
        return redisbloom::header::decode(data, limit);
    };
    let (mut filter, _) = Header::decode(bytes, limit)?.build()?;
    filter.set_origin(origin);
    Ok(filter)
}

/// Sets the cells of a chunk. O(bytes).
///
/// # Errors
/// [`ChunkError`]; the filter is then as it was.
pub fn load_chunk(
    filter: &mut Filter,
    next_iterator: u64,
    data: &[u8],
    trust: Trust,
) -> Result<(), ChunkError> {
    match filter.format() {
        Format::RedisBloom => redisbloom::pieces::load_chunk(filter, next_iterator, data),
        Format::Everbloom | Format::ValkeyBloom => pieces::load_chunk(filter, next_iterator, data, trust),
    }
}

/// Returns the filter in a blob of BF.LOAD, which only valkey-bloom's filters are written to. O(bytes).
///
/// # Errors
/// The first thing that is wrong with the blob, as in [`load`].
pub fn from_blob(blob: &[u8], limit: &dyn ByteLimit) -> Result<Filter, DecodeError> {
    valkeybloom::decode_blob(blob, limit)
}

/// Returns the header of a filter, which together with its cells tells it from every other. O(layers).
#[must_use]
pub fn header(filter: &Filter) -> Vec<u8> {
    match filter.policy() {
        Policy::RedisBloom(policy) => redisbloom::header::encode(policy, filter),
        _ => record::encode(filter),
    }
}

/// Shows `add` strings of bytes that are equal for two filters if these reply and are saved alike, and else
/// differ. O(bytes).
pub fn digest(filter: &Filter, add: &mut dyn FnMut(&[u8])) {
    add(&header(filter));
    if let (Format::RedisBloom, Some(Hash::RedisBloom(Murmur2::WideCutSeeds))) =
        (filter.format(), filter.layers().first().map(Layer::hash))
    {
        // The same bytes with other replies: a replica that is configured otherwise shall show.
        add(b"1.1");
    }
    filter.layers().iter().for_each(|layer| add(layer.cells().bytes()));
}
