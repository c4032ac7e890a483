//! Every error text, once. Texts with and without `ERR` follow RedisBloom 8 to the letter unless the comment
//! says so.

use std::fmt;

use super::import::ImportError;
use super::table::Command;
use super::text::{rounded_up, six_digits};
use super::words::Word;
use crate::bloom::hash::scheme::NotEncodable;
use crate::bloom::limits::{CAPACITY_MIN_ITEMS, EXPANSION_MAX, WINDOW_MAX_MS, WINDOW_MIN_MS};
use crate::bloom::merge::MergeError;
use crate::bloom::{AddError, ReserveError, ScaleError};

/// Why a command was refused.
#[derive(Clone, Debug, PartialEq)]
pub enum CommandError {
    /// Too few or too many arguments; holds the command's name in lower case.
    WrongArity(&'static str),
    /// The key holds another type.
    WrongType,
    /// No such key.
    NotFound,
    /// BF.RESERVE on an existing filter.
    ItemExists,
    /// BF.RESERVE: error rate is not a number.
    ReserveErrorRate,
    /// BF.RESERVE: error rate not strictly between 0 and 1.
    ReserveErrorRateRange,
    /// BF.RESERVE: capacity is not an integer.
    ReserveCapacity,
    /// BF.RESERVE: capacity out of range (RedisBloom's range ends at 2^30; ours at the byte limit).
    ReserveCapacityRange {
        /// The largest capacity of the filter's format.
        max_items: u64,
    },
    /// BF.RESERVE: EXPANSION without a value.
    ReserveNoExpansion,
    /// BF.RESERVE: expansion is not an integer.
    ReserveExpansion,
    /// BF.RESERVE: expansion out of range.
    ReserveExpansionRange,
    /// BF.RESERVE: NONSCALING together with an expansion.
    ReserveFixedExpansion,
    /// A word that is no option; BF.INSERT has its own text (RedisBloom's BF.RESERVE ignores it).
    UnknownArgument(String),
    /// BF.INSERT: bad error rate, of either kind.
    InsertErrorRate,
    /// BF.INSERT: bad capacity, of either kind.
    InsertCapacity,
    /// BF.INSERT: bad expansion, of either kind.
    InsertExpansion,
    /// BF.INSERT: a word that is no option.
    InsertUnknownArgument,
    /// FORMAT with an unknown name.
    UnknownFormat,
    /// SEED of another length than 32 bytes. This and the next texts are valkey-bloom's.
    BadSeed,
    /// SEED of two equal halves from a client. This text is ours: valkey-bloom takes such a seed.
    WeakSeed,
    /// TIGHTENING is not a number.
    BadTightening,
    /// TIGHTENING not strictly between 0 and 1.
    TighteningRange,
    /// The filter could not grow as far as VALIDATESCALETO asks.
    ScaleTo(ScaleError),
    /// SEED or TIGHTENING for a filter that has neither.
    NeedsValkeyBloom,
    /// An option that only our own format has; holds its word.
    NeedsEverbloom(&'static str),
    /// KEY of another length than 16 bytes.
    BadKey,
    /// SATURATE for a filter that grows.
    NeedsFixedSize,
    /// WINDOW together with a word that it does not go with, which it holds.
    WindowAnd(&'static str),
    /// An option that only sliding windows have; holds its word.
    NeedsWindow(&'static str),
    /// WINDOW or PWINDOW out of range.
    WindowRange,
    /// AT is no moment.
    BadMoment,
    /// AT: items of that moment would be forgotten already.
    MomentPast,
    /// AT lies too far ahead.
    MomentAhead,
    /// The client may not read a source. This and the next two texts begin as the server's own.
    SourceDenied,
    /// A source is in another slot than the first key.
    SourceSlot,
    /// A source is not on this node while the slot of all keys is on its way to another one.
    SourceMoving,
    /// BF.DEL from a filter that does not count.
    NotCounting,
    /// VALIDATESCALETO for a filter whose growth is not validated.
    CannotValidateScaleTo,
    /// BF.LOAD on a key that exists.
    KeyExists,
    /// BF.LOAD: not a filter.
    BadBlob,
    /// BF.LOAD: a version that is not known.
    BadBlobVersion,
    /// Options that exclude each other; Redis's own text, as the next two.
    Syntax,
    /// A time to live that is no integer.
    NotAnInteger,
    /// A time to live that is not positive or too far away; holds the command's name in lower case.
    ExpireTime(&'static str),
    /// A packed batch: no such packing.
    BatchPacking,
    /// A packed batch: no length of items.
    BatchItemBytes,
    /// A packed batch that ends within an item.
    BatchTorn,
    /// BF.INFO: no such field.
    InfoField,
    /// BF.SCANDUMP: iterator is not an integer.
    ScanDumpIterator,
    /// BF.LOADCHUNK: iterator is not an integer.
    LoadChunkIterator,
    /// BF.LOADCHUNK: a header or chunk that is torn, altered or of another filter.
    BadData,
    /// BF.LOADCHUNK: a chunk of another dump than the header that made the filter.
    OtherDump,
    /// BF.LOADCHUNK: a chunk beyond the last layer.
    InvalidOffset,
    /// BF.LOADCHUNK: a chunk larger than the rest of its layer.
    ChunkTooBig,
    /// The server did not do what it always does.
    Internal,
    /// The memory for a reply cannot be had.
    OutOfMemory,
    /// BF.ADD, BF.MADD or BF.INSERT of a primary or a log that has a filter where this server has none.
    LostFilter,
    /// A new filter could not be made.
    Reserve(ReserveError),
    /// An item could not be added.
    Add(AddError),
    /// BF.MERGE.
    Merge(MergeError),
    /// BF.IMPORT or BF.EXPORT. These texts are ours: nobody else has the commands.
    Import(ImportError),
}

/// As much of what a client sent as an error quotes.
#[must_use]
pub fn quotable(word: &[u8]) -> String {
    const MAX_BYTES: usize = 128;
    String::from_utf8_lossy(word.get(..MAX_BYTES).unwrap_or(word)).into_owned()
}

impl CommandError {
    /// Whether a `command` of a primary or a log that is refused for this leaves the server without something
    /// that the other has: a filter, a layer or a part of its bits.
    #[must_use]
    pub fn is_loss(&self, command: Command) -> bool {
        match self {
            Self::Reserve(_)
            | Self::BadData
            | Self::OtherDump
            | Self::InvalidOffset
            | Self::ChunkTooBig
            | Self::BadBlob
            | Self::BadBlobVersion
            | Self::OutOfMemory
            | Self::Internal
            | Self::Import(_)
            | Self::Merge(_)
            | Self::Add(AddError::CannotGrow(ReserveError::OutOfMemory | ReserveError::TooLarge { .. })) => {
                true
            }
            Self::NotFound => matches!(command, Command::LoadChunk | Command::Merge),
            _ => false,
        }
    }
}

impl From<ImportError> for CommandError {
    fn from(error: ImportError) -> Self {
        Self::Import(error)
    }
}

/// Of a command that broke off.
pub const INTERNAL_ERROR: &str = "ERR internal error";
/// Of a key with another type; Redis's own text.
const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WrongArity(command) => write!(f, "ERR wrong number of arguments for '{command}' command"),
            Self::WrongType => f.write_str(WRONG_TYPE),
            Self::NotFound => f.write_str("ERR not found"),
            Self::ItemExists => f.write_str("ERR item exists"),
            Self::ReserveErrorRate => f.write_str("ERR bad error rate"),
            Self::ReserveErrorRateRange => {
                f.write_str("ERR error rate must be in the range (0.000000, 1.000000)")
            }
            Self::ReserveCapacity => f.write_str("ERR bad capacity"),
            Self::ReserveCapacityRange { max_items } => {
                write!(f, "ERR capacity must be in the range [{CAPACITY_MIN_ITEMS}, {max_items}]")
            }
            Self::ReserveNoExpansion => f.write_str("ERR no expansion"),
            Self::ReserveExpansion => f.write_str("ERR bad expansion"),
            Self::ReserveExpansionRange => {
                write!(f, "ERR expansion must be in the range [0, {EXPANSION_MAX}]")
            }
            Self::ReserveFixedExpansion => f.write_str("Nonscaling filters cannot expand"),
            Self::UnknownArgument(word) => write!(f, "ERR unknown argument '{word}'"),
            Self::InsertErrorRate => f.write_str("Bad error rate"),
            Self::InsertCapacity => f.write_str("Bad capacity"),
            Self::InsertExpansion => f.write_str("Bad expansion"),
            Self::InsertUnknownArgument => f.write_str("Unknown argument received"),
            Self::UnknownFormat => f.write_str("ERR unknown format: everbloom, redisbloom or valkey-bloom"),
            Self::BadSeed => f.write_str("ERR invalid seed"),
            Self::WeakSeed => f.write_str(
                "ERR invalid seed: its two halves of 16 bytes are equal, and the filter would break its error rate",
            ),
            Self::BadTightening => f.write_str("ERR bad tightening ratio"),
            Self::TighteningRange => f.write_str("ERR (0 < tightening ratio range < 1)"),
            Self::ScaleTo(ScaleError::Fixed) => {
                f.write_str("ERR cannot use NONSCALING and VALIDATESCALETO options together")
            }
            Self::ScaleTo(ScaleError::TooLarge) => {
                f.write_str("ERR provided VALIDATESCALETO causes bloom object to exceed memory limit")
            }
            Self::ScaleTo(ScaleError::ErrorRateVanishes) => {
                f.write_str("ERR provided VALIDATESCALETO causes false positive to degrade to 0")
            }
            Self::ScaleTo(ScaleError::TooLong) => {
                f.write_str("ERR bloom object reached max number of filters")
            }
            Self::NeedsValkeyBloom => {
                f.write_str("ERR SEED and TIGHTENING are for filters of FORMAT valkey-bloom only")
            }
            Self::NeedsEverbloom(word) => write!(f, "ERR {word} is for filters of FORMAT everbloom only"),
            Self::BadKey => f.write_str("ERR KEY takes 16 bytes"),
            Self::NeedsFixedSize => {
                f.write_str("ERR SATURATE is for filters of fixed size: add NONSCALING or EXPANSION 0")
            }
            Self::WindowAnd(word) => write!(f, "ERR {word} and WINDOW do not go together"),
            Self::NeedsWindow(word) => write!(f, "ERR {word} is for filters that are made with WINDOW only"),
            Self::WindowRange => {
                write!(f, "ERR window must be in the range [{WINDOW_MIN_MS}, {WINDOW_MAX_MS}] milliseconds")
            }
            Self::BadMoment => f.write_str("ERR AT takes milliseconds of UNIX time"),
            Self::MomentPast => f.write_str("ERR AT is older than the window of the filter"),
            Self::MomentAhead => {
                f.write_str("ERR AT is more than a fourteenth of the window ahead of the clock")
            }
            Self::SourceDenied => {
                f.write_str("NOPERM this user has no permissions to read a source with BF.CARD")
            }
            Self::SourceSlot => f.write_str("CROSSSLOT Keys in request don't hash to the same slot"),
            Self::SourceMoving => f.write_str("TRYAGAIN Multiple keys request during rehashing of slot"),
            Self::NotCounting => f.write_str(
                "ERR items can be deleted only from a filter that was made with COUNTING (BF.RESERVE, BF.INSERT)",
            ),
            Self::CannotValidateScaleTo => {
                f.write_str("ERR VALIDATESCALETO is not for filters of FORMAT redisbloom")
            }
            Self::KeyExists => f.write_str("BUSYKEY Target key name already exists."),
            Self::BadBlob => f.write_str("ERR bloom object decoding failed"),
            Self::BadBlobVersion => f.write_str("ERR bloom object decoding failed. Unsupported version"),
            Self::Syntax => f.write_str("ERR syntax error"),
            Self::NotAnInteger => f.write_str("ERR value is not an integer or out of range"),
            Self::ExpireTime(command) => write!(f, "ERR invalid expire time in '{command}' command"),
            Self::BatchPacking => f.write_str("ERR unknown packing: LINES, FIXED or PREFIXED"),
            Self::BatchItemBytes => f.write_str("ERR FIXED takes the length of an item, at least 1 byte"),
            Self::BatchTorn => f.write_str("ERR the data ends within an item"),
            Self::InfoField => f.write_str("Invalid information value"),
            Self::ScanDumpIterator => f.write_str("Second argument must be numeric"),
            Self::LoadChunkIterator => f.write_str("ERR Second argument must be numeric"),
            Self::BadData => f.write_str("ERR received bad data"),
            Self::OtherDump => f.write_str(
                "ERR received bad data - the chunk is of another dump than the filter's header: delete the key and \
                 begin again with BF.SCANDUMP and iterator 0",
            ),
            Self::InvalidOffset => f.write_str("ERR invalid offset - no link found"),
            Self::ChunkTooBig => f.write_str("ERR invalid chunk - Too big for current filter"),
            Self::Internal => f.write_str(INTERNAL_ERROR),
            Self::OutOfMemory => f.write_str("ERR out of memory"),
            Self::LostFilter => f.write_str(
                "ERR not found: a primary or append-only file adds to a filter that is not here, and everbloom's own \
                 spell out what they create; set bf.format to the module that it comes from",
            ),
            Self::Reserve(ReserveError::TooLarge { needed_bytes, limit_bytes }) => write!(
                f,
                "ERR filter would take {needed_bytes} bytes, more than bf.max-filter-bytes or the memory \
                 allows ({limit_bytes})"
            ),
            // valkey-bloom's text: only its filters can be reserved with a rate that small.
            Self::Reserve(ReserveError::ErrorRateVanishes) => {
                f.write_str("ERR false positive degrades to 0 on scale out")
            }
            Self::Reserve(ReserveError::TooLong) => f.write_str("ERR could not create filter"),
            Self::Reserve(ReserveError::OutOfMemory) => {
                f.write_str("ERR Insufficient memory to create filter")
            }
            Self::Add(AddError::Full) => f.write_str("ERR non scaling filter is full"),
            Self::Add(AddError::NotEncodable(encoding)) => {
                write!(f, "ERR {}, which encoding {} needs", NotEncodable(*encoding), encoding.word())
            }
            Self::Import(error) => write!(f, "ERR {error}"),
            Self::Merge(MergeError::Reserve(_)) => {
                f.write_str("ERR the merged filter would have too many layers, or too many probes per item")
            }
            Self::Merge(MergeError::Mismatch) => f.write_str(
                "ERR the destination's format cannot hold a source: no layer of the same shape and hash; \
                 merge into a key that holds a filter of FORMAT everbloom without KEYED, \
                 or of COUNTING or WINDOW into one that was reserved alike",
            ),
            Self::Merge(MergeError::TooFull) => f.write_str(
                "ERR a layer of the destination would hold more items than it was sized for; \
                 merge into a key that holds a filter of FORMAT everbloom, or FORCE",
            ),
            Self::Merge(MergeError::ErrorRate { rate, promised, needed }) => {
                let (rate, promised) = (six_digits(*rate), six_digits(*promised));
                write!(f, "ERR the merged filter would come to an error rate of {rate}, and {promised} is promised; ")?;
                if *needed < 1.0 {
                    let needed = rounded_up(*needed);
                    write!(f, "merge into an empty filter that promises at least {needed} (BF.RESERVE), or FORCE")
                } else {
                    f.write_str("no filter can promise what these need: FORCE")
                }
            }
            Self::Add(AddError::CannotGrow(_)) => f.write_str("ERR problem inserting into filter"),
        }
    }
}
