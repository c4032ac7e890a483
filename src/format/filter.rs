//! What is done with the bytes of a filter of any kind. The one file of this room that tells kinds apart:
//! each arm calls the folder of its kind, or what several kinds share with that kind's header.

use super::envelope::Kind;
use super::pieces::{self, ChunkError, Piece, Trust};
use super::record::{DecodeError, Sink, Source};
use super::rewrite::{self, Rewritten};
use super::seal::Sealed;
use super::{client, counting, everbloom, keyed, redisbloom, snapshot, union, valkeybloom, window};
use crate::bloom::{ByteLimit, Filter, Format, Memory, OutOfMemory};

/// How a server knows the values of a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataType {
    /// Exactly nine characters.
    pub name: &'static str,
    /// The encoding version that is written; older ones are read.
    pub encoding_version: i32,
}

impl DataType {
    /// The data type of a format.
    #[must_use]
    pub const fn of(format: Format) -> Self {
        let (name, encoding_version) = match format {
            Format::Everbloom => (everbloom::TYPE_NAME, everbloom::ENCODING_VERSION),
            Format::RedisBloom => (redisbloom::rdb::TYPE_NAME, redisbloom::rdb::ENCODING_VERSION),
            Format::ValkeyBloom => (valkeybloom::TYPE_NAME, valkeybloom::ENCODING_VERSION),
        };
        Self { name, encoding_version }
    }
}

/// Writes a filter to a snapshot, as the newest release of the module whose format it has does. O(bytes), for
/// filters of our own O(bytes that may be set, as far as is known). The filter is changed only where nobody
/// sees it: in the room for a header in front of an array.
pub fn save(filter: &mut Filter, sink: &mut impl Sink, memory: impl Memory) {
    match filter {
        Filter::Everbloom(chain) => snapshot::save(&everbloom::header::encode(chain), chain, sink, memory),
        Filter::Client(chain) => snapshot::save(&client::header::encode(chain), &**chain, sink, memory),
        Filter::Union(chain) => snapshot::save(&union::header::encode(chain), &**chain, sink, memory),
        Filter::Counting(chain) => snapshot::save(&counting::header::encode(chain), &**chain, sink, memory),
        Filter::Keyed(chain) => snapshot::save(&keyed::header::encode(chain), &**chain, sink, memory),
        Filter::Window(chain) => snapshot::save(&window::header::encode(chain), &**chain, sink, memory),
        Filter::RedisBloom(chain) => redisbloom::rdb::save(chain, sink),
        Filter::ValkeyBloom(chain) => valkeybloom::save(chain, sink),
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
        Format::Everbloom if encoding_version == everbloom::ENCODING_VERSION => {
            let header = source.bytes()?;
            match Kind::of(&header) {
                Some(Kind::Client) => {
                    let chain = snapshot::load(client::header::decode(&header, limit)?, source)?;
                    Ok(Filter::Client(Box::new(chain)))
                }
                Some(Kind::Union) => {
                    let chain = snapshot::load(union::header::decode(&header, limit)?, source)?;
                    Ok(Filter::Union(Box::new(chain)))
                }
                Some(Kind::Counting) => {
                    let chain = snapshot::load(counting::header::decode(&header, limit)?, source)?;
                    Ok(Filter::Counting(Box::new(chain)))
                }
                Some(Kind::Keyed) => {
                    let chain = snapshot::load(keyed::header::decode(&header, limit)?, source)?;
                    Ok(Filter::Keyed(Box::new(chain)))
                }
                Some(Kind::Window) => {
                    let chain = snapshot::load(window::header::decode(&header, limit)?, source)?;
                    Ok(Filter::Window(Box::new(chain)))
                }
                // Those of the others are refused there, by name.
                Some(Kind::Everbloom | Kind::ValkeyBloom) | None => {
                    snapshot::load(everbloom::header::decode(&header, limit)?, source).map(Filter::Everbloom)
                }
            }
        }
        Format::Everbloom => {
            let got = encoding_version.unsigned_abs().into();
            Err(DecodeError::Unsupported { what: "encoding version", got })
        }
        Format::RedisBloom => redisbloom::rdb::load(source, encoding_version, limit).map(Filter::RedisBloom),
        Format::ValkeyBloom => valkeybloom::load(source, encoding_version, limit)
            .map(|chain| Filter::ValkeyBloom(Box::new(chain))),
    }
}

/// Shows `emit` the commands that make the filter again, in order: in words that the module whose format it
/// has understands. O(bytes that may be set, as far as is known), for filters of RedisBloom's format
/// O(bytes).
///
/// `fresh` is a number that nobody has been given before.
///
/// # Errors
/// [`OutOfMemory`] when a piece cannot be had; a part may have been shown then.
pub fn rewrite(
    filter: &Filter,
    memory: impl Memory,
    fresh: u64,
    emit: &mut dyn FnMut(Rewritten<'_>),
) -> Result<(), OutOfMemory> {
    match filter {
        Filter::Everbloom(chain) => rewrite::in_pieces(&header(filter), chain, memory, fresh, emit),
        Filter::Client(chain) => rewrite::in_pieces(&header(filter), &**chain, memory, fresh, emit),
        Filter::Union(chain) => rewrite::in_pieces(&header(filter), &**chain, memory, fresh, emit),
        Filter::Counting(chain) => rewrite::in_pieces(&header(filter), &**chain, memory, fresh, emit),
        Filter::Keyed(chain) => rewrite::in_pieces(&header(filter), &**chain, memory, fresh, emit),
        Filter::Window(chain) => rewrite::in_pieces(&header(filter), &**chain, memory, fresh, emit),
        Filter::RedisBloom(chain) => {
            redisbloom::pieces::rewrite(chain, emit);
            Ok(())
        }
        Filter::ValkeyBloom(chain) => valkeybloom::rewrite(chain, memory, fresh, emit),
    }
}

/// The piece that `iterator` asks for, or nothing past the end. O(bytes of the piece).
///
/// # Errors
/// [`OutOfMemory`] when the bytes cannot be had.
pub fn piece(filter: &Filter, iterator: u64) -> Result<Option<Piece<'_>>, OutOfMemory> {
    match filter {
        Filter::Everbloom(chain) => pieces::piece(chain, iterator, || header(filter)),
        Filter::Client(chain) => pieces::piece(&**chain, iterator, || header(filter)),
        Filter::Union(chain) => pieces::piece(&**chain, iterator, || header(filter)),
        Filter::Counting(chain) => pieces::piece(&**chain, iterator, || header(filter)),
        Filter::Keyed(chain) => pieces::piece(&**chain, iterator, || header(filter)),
        Filter::Window(chain) => pieces::piece(&**chain, iterator, || header(filter)),
        Filter::RedisBloom(chain) => Ok(redisbloom::pieces::piece(chain, iterator)),
        Filter::ValkeyBloom(chain) => pieces::piece(&**chain, iterator, || header(filter)),
    }
}

/// An empty filter of the shape that a header of any kind describes. RedisBloom's headers have nothing that
/// tells them from others, so whatever has no seal of ours is one. O(layers).
///
/// # Errors
/// [`DecodeError`] for a header that is of no kind, torn, altered, or larger than `limit` allows.
pub fn from_header(data: &[u8], limit: &dyn ByteLimit) -> Result<Filter, DecodeError> {
    let Ok(Sealed { bytes, origin }) = Sealed::open(data) else {
        return redisbloom::pieces::from_header(data, limit).map(Filter::RedisBloom);
    };
    match Kind::of(data) {
        Some(Kind::ValkeyBloom) => {
            let chain = valkeybloom::header::build(bytes, origin, limit)?;
            Ok(Filter::ValkeyBloom(Box::new(chain)))
        }
        Some(Kind::Client) => {
            let chain = client::header::decode(bytes, limit)?.build_empty(origin)?;
            Ok(Filter::Client(Box::new(chain)))
        }
        Some(Kind::Union) => {
            let chain = union::header::decode(bytes, limit)?.build_empty(origin)?;
            Ok(Filter::Union(Box::new(chain)))
        }
        Some(Kind::Counting) => {
            let chain = counting::header::decode(bytes, limit)?.build_empty(origin)?;
            Ok(Filter::Counting(Box::new(chain)))
        }
        Some(Kind::Keyed) => {
            let chain = keyed::header::decode(bytes, limit)?.build_empty(origin)?;
            Ok(Filter::Keyed(Box::new(chain)))
        }
        Some(Kind::Window) => {
            let chain = window::header::decode(bytes, limit)?.build_empty(origin)?;
            Ok(Filter::Window(Box::new(chain)))
        }
        Some(Kind::Everbloom) | None => {
            everbloom::header::decode(bytes, limit)?.build_empty(origin).map(Filter::Everbloom)
        }
    }
}

/// Sets the bits of a chunk. O(bytes).
///
/// # Errors
/// [`ChunkError`]; the filter is then as it was.
pub fn load_chunk(
    filter: &mut Filter,
    next_iterator: u64,
    data: &[u8],
    trust: Trust,
) -> Result<(), ChunkError> {
    match filter {
        Filter::Everbloom(chain) => pieces::load_chunk(chain, next_iterator, data, trust),
        Filter::Client(chain) => pieces::load_chunk(&mut **chain, next_iterator, data, trust),
        Filter::Union(chain) => pieces::load_chunk(&mut **chain, next_iterator, data, trust),
        Filter::Counting(chain) => pieces::load_chunk(&mut **chain, next_iterator, data, trust),
        Filter::Keyed(chain) => pieces::load_chunk(&mut **chain, next_iterator, data, trust),
        Filter::Window(chain) => pieces::load_chunk(&mut **chain, next_iterator, data, trust),
        Filter::RedisBloom(chain) => redisbloom::pieces::load_chunk(chain, next_iterator, data),
        Filter::ValkeyBloom(chain) => pieces::load_chunk(&mut **chain, next_iterator, data, trust),
    }
}

/// The filter in a blob of BF.LOAD, which only valkey-bloom's filters are written to. O(bytes).
///
/// # Errors
/// The first thing that is wrong with the blob, as in [`load`].
pub fn from_blob(blob: &[u8], limit: &dyn ByteLimit) -> Result<Filter, DecodeError> {
    valkeybloom::decode_blob(blob, limit).map(|chain| Filter::ValkeyBloom(Box::new(chain)))
}

/// The header of a filter, which together with its bits tells it from every other. O(layers).
#[must_use]
pub fn header(filter: &Filter) -> Vec<u8> {
    match filter {
        Filter::Everbloom(chain) => everbloom::header::encode(chain),
        Filter::Client(chain) => client::header::encode(chain),
        Filter::Union(chain) => union::header::encode(chain),
        Filter::Counting(chain) => counting::header::encode(chain),
        Filter::Keyed(chain) => keyed::header::encode(chain),
        Filter::Window(chain) => window::header::encode(chain),
        Filter::RedisBloom(chain) => redisbloom::header::encode(chain),
        Filter::ValkeyBloom(chain) => valkeybloom::header::encode(chain),
    }
}

/// Shows `add` strings of bytes that are equal for two filters if these answer and are saved alike, and else
/// differ. O(bytes).
pub fn digest(filter: &Filter, add: &mut dyn FnMut(&[u8])) {
    add(&header(filter));
    if filter.is_redisbloom_1_1() {
        // The same bytes with other answers: a replica that is configured otherwise shall show.
        add(b"1.1");
    }
    filter.storages().for_each(|bits| add(bits.bytes()));
}
