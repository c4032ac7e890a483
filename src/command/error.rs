//! Every error text, once. Texts with and without `ERR` follow RedisBloom 8 to the letter unless the comment
//! says so.

use std::borrow::Cow;

use thiserror::Error;

use super::import::ImportError;
use super::table::Command;
use super::text::{rounded_up, six_digits};
use super::words::Word;
use crate::bloom::hash::scheme::NotEncodable;
use crate::bloom::limits::{CAPACITY_MIN_ITEMS, EXPANSION_MAX, WINDOW_MAX_MS, WINDOW_MIN_MS};
use crate::bloom::merge::MergeError;
use crate::bloom::{AddError, ReserveError, ScaleError};

/// Why a command was refused.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum CommandError {
    /// Too few or too many arguments; holds the command's name in lower case.
    #[error("ERR wrong number of arguments for '{0}' command")]
    WrongArity(&'static str),
    /// The key holds another type.
    #[error("WRONGTYPE Operation against a key holding the wrong kind of value")]
    WrongType,
    /// No such key.
    #[error("ERR not found")]
    NotFound,
    /// BF.RESERVE on an existing filter.
    #[error("ERR item exists")]
    ItemExists,
    /// BF.RESERVE: error rate is not a number.
    #[error("ERR bad error rate")]
    ReserveErrorRate,
    /// BF.RESERVE: error rate not strictly between 0 and 1.
    #[error("ERR error rate must be in the range (0.000000, 1.000000)")]
    ReserveErrorRateRange,
    /// BF.RESERVE: capacity is not an integer.
    #[error("ERR bad capacity")]
    ReserveCapacity,
    /// BF.RESERVE: capacity out of range (RedisBloom's range ends at 2^30; ours at the byte limit).
    #[error("ERR capacity must be in the range [{}, {max_items}]", CAPACITY_MIN_ITEMS)]
    ReserveCapacityRange {
        /// The largest capacity of the filter's format.
        max_items: u64,
    },
    /// BF.RESERVE: EXPANSION without a value.
    #[error("ERR no expansion")]
    ReserveNoExpansion,
    /// BF.RESERVE: expansion is not an integer.
    #[error("ERR bad expansion")]
    ReserveExpansion,
    /// BF.RESERVE: expansion out of range.
    #[error("ERR expansion must be in the range [0, {}]", EXPANSION_MAX)]
    ReserveExpansionRange,
    /// BF.RESERVE: NONSCALING together with an expansion.
    #[error("Nonscaling filters cannot expand")]
    ReserveFixedExpansion,
    /// A word that is no option; BF.INSERT has its own text (RedisBloom's BF.RESERVE ignores it).
    #[error("ERR unknown argument '{0}'")]
    UnknownArgument(String),
    /// BF.INSERT: bad error rate, of either kind.
    #[error("Bad error rate")]
    InsertErrorRate,
    /// BF.INSERT: bad capacity, of either kind.
    #[error("Bad capacity")]
    InsertCapacity,
    /// BF.INSERT: bad expansion, of either kind.
    #[error("Bad expansion")]
    InsertExpansion,
    /// BF.INSERT: a word that is no option.
    #[error("Unknown argument received")]
    InsertUnknownArgument,
    /// FORMAT with an unknown name.
    #[error("ERR unknown format: everbloom, redisbloom or valkey-bloom")]
    UnknownFormat,
    /// SEED of another length than 32 bytes. This and the next texts are valkey-bloom's.
    #[error("ERR invalid seed")]
    BadSeed,
    /// SEED of two equal halves from a client. This text is ours: valkey-bloom takes such a seed.
    #[error(
        "ERR invalid seed: its two halves of 16 bytes are equal, and the filter would break its error rate"
    )]
    WeakSeed,
    /// TIGHTENING is not a number.
    #[error("ERR bad tightening ratio")]
    BadTightening,
    /// TIGHTENING not strictly between 0 and 1.
    #[error("ERR (0 < tightening ratio range < 1)")]
    TighteningRange,
    /// The filter could not grow as far as VALIDATESCALETO asks.
    #[error("ERR {}", scale_text(*.0))]
    ScaleTo(ScaleError),
    /// SEED or TIGHTENING for a filter that has neither.
    #[error("ERR SEED and TIGHTENING are for filters of FORMAT valkey-bloom only")]
    NeedsValkeyBloom,
    /// An option that only our own format has; holds its word.
    #[error("ERR {0} is for filters of FORMAT everbloom only")]
    NeedsEverbloom(&'static str),
    /// KEY of another length than 16 bytes.
    #[error("ERR KEY takes 16 bytes")]
    BadKey,
    /// SATURATE for a filter that grows.
    #[error("ERR SATURATE is for filters of fixed size: add NONSCALING or EXPANSION 0")]
    NeedsFixedSize,
    /// WINDOW together with a word that it does not go with, which it holds.
    #[error("ERR {0} and WINDOW do not go together")]
    WindowAnd(&'static str),
    /// An option that only sliding windows have; holds its word.
    #[error("ERR {0} is for filters that are made with WINDOW only")]
    NeedsWindow(&'static str),
    /// WINDOW or PWINDOW out of range.
    #[error("ERR window must be in the range [{}, {}] milliseconds", WINDOW_MIN_MS, WINDOW_MAX_MS)]
    WindowRange,
    /// AT is no moment.
    #[error("ERR AT takes milliseconds of UNIX time")]
    BadMoment,
    /// AT: items of that moment would be forgotten already.
    #[error("ERR AT is older than the window of the filter")]
    MomentPast,
    /// AT lies too far ahead.
    #[error("ERR AT is more than a fourteenth of the window ahead of the clock")]
    MomentAhead,
    /// The client may not read a source. This and the next two texts begin as the server's own.
    #[error("NOPERM this user has no permissions to read a source with BF.CARD")]
    SourceDenied,
    /// A source is in another slot than the first key.
    #[error("CROSSSLOT Keys in request don't hash to the same slot")]
    SourceSlot,
    /// A source is not on this node while the slot of all keys is on its way to another one.
    #[error("TRYAGAIN Multiple keys request during rehashing of slot")]
    SourceMoving,
    /// BF.DEL from a filter that does not count.
    #[error(
        "ERR items can be deleted only from a filter that was made with COUNTING (BF.RESERVE, BF.INSERT)"
    )]
    NotCounting,
    /// VALIDATESCALETO for a filter whose growth is not validated.
    #[error("ERR VALIDATESCALETO is not for filters of FORMAT redisbloom")]
    CannotValidateScaleTo,
    /// BF.LOAD on a key that exists.
    #[error("BUSYKEY Target key name already exists.")]
    KeyExists,
    /// BF.LOAD: not a filter.
    #[error("ERR bloom object decoding failed")]
    BadBlob,
    /// BF.LOAD: a version that is not known.
    #[error("ERR bloom object decoding failed. Unsupported version")]
    BadBlobVersion,
    /// Options that exclude each other; Redis's own text, as the next two.
    #[error("ERR syntax error")]
    Syntax,
    /// A time to live that is no integer.
    #[error("ERR value is not an integer or out of range")]
    NotAnInteger,
    /// A time to live that is not positive or too far away; holds the command's name in lower case.
    #[error("ERR invalid expire time in '{0}' command")]
    ExpireTime(&'static str),
    /// A packed batch: no such packing.
    #[error("ERR unknown packing: LINES, FIXED or PREFIXED")]
    BatchPacking,
    /// A packed batch: no length of items.
    #[error("ERR FIXED takes the length of an item, at least 1 byte")]
    BatchItemBytes,
    /// A packed batch that ends within an item.
    #[error("ERR the data ends within an item")]
    BatchTorn,
    /// BF.INFO: no such field.
    #[error("Invalid information value")]
    InfoField,
    /// BF.SCANDUMP: iterator is not an integer.
    #[error("Second argument must be numeric")]
    ScanDumpIterator,
    /// BF.LOADCHUNK: iterator is not an integer.
    #[error("ERR Second argument must be numeric")]
    LoadChunkIterator,
    /// BF.LOADCHUNK: a header or chunk that is torn, altered or of another filter.
    #[error("ERR received bad data")]
    BadData,
    /// BF.LOADCHUNK: a chunk of another dump than the header that made the filter.
    #[error(
        "ERR received bad data - the chunk is of another dump than the filter's header: delete the key and \
                 begin again with BF.SCANDUMP and iterator 0"
    )]
    OtherDump,
    /// BF.LOADCHUNK: a chunk beyond the last layer.
    #[error("ERR invalid offset - no link found")]
    InvalidOffset,
    /// BF.LOADCHUNK: a chunk larger than the rest of its layer.
    #[error("ERR invalid chunk - Too big for current filter")]
    ChunkTooBig,
    /// The server did not do what it always does.
    #[error("{}", INTERNAL_ERROR)]
    Internal,
    /// The memory for a reply cannot be had.
    #[error("ERR out of memory")]
    OutOfMemory,
    /// BF.ADD, BF.MADD or BF.INSERT of a primary or a log that has a filter where this server has none.
    #[error(
        "ERR not found: a primary or append-only file adds to a filter that is not here, and everbloom's own \
                 spell out what they create; set bf.format to the module that it comes from"
    )]
    LostFilter,
    /// A new filter could not be made.
    #[error("ERR {}", reserve_text(*.0))]
    Reserve(ReserveError),
    /// An item could not be added.
    #[error("ERR {}", add_text(*.0))]
    Add(AddError),
    /// BF.MERGE.
    #[error("ERR {}", merge_text(*.0))]
    Merge(MergeError),
    /// BF.IMPORT or BF.EXPORT. These texts are ours: nobody else has the commands.
    #[error("ERR {0}")]
    Import(#[from] ImportError),
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

/// Of a command that broke off.
pub const INTERNAL_ERROR: &str = "ERR internal error";

fn scale_text(error: ScaleError) -> &'static str {
    match error {
        ScaleError::Fixed => "cannot use NONSCALING and VALIDATESCALETO options together",
        ScaleError::TooLarge => "provided VALIDATESCALETO causes bloom object to exceed memory limit",
        ScaleError::ErrorRateVanishes => "provided VALIDATESCALETO causes false positive to degrade to 0",
        ScaleError::TooLong => "bloom object reached max number of filters",
    }
}

fn reserve_text(error: ReserveError) -> Cow<'static, str> {
    match error {
        ReserveError::TooLarge { needed_bytes, limit_bytes } => Cow::Owned(format!(
            "filter would take {needed_bytes} bytes, more than bf.max-filter-bytes or the memory allows ({limit_bytes})"
        )),
        // valkey-bloom's text: only its filters can be reserved with a rate that small.
        ReserveError::ErrorRateVanishes => "false positive degrades to 0 on scale out".into(),
        ReserveError::TooLong => "could not create filter".into(),
        ReserveError::OutOfMemory => "Insufficient memory to create filter".into(),
    }
}

fn add_text(error: AddError) -> Cow<'static, str> {
    match error {
        AddError::Full => "non scaling filter is full".into(),
        AddError::CannotGrow(_) => "problem inserting into filter".into(),
        AddError::NotEncodable(encoding) => {
            Cow::Owned(format!("{}, which encoding {} needs", NotEncodable(encoding), encoding.word()))
        }
    }
}

fn merge_text(error: MergeError) -> Cow<'static, str> {
    match error {
        MergeError::Reserve(_) => {
            "the merged filter would have too many layers, or too many probes per item".into()
        }
        MergeError::Mismatch => {
            "the destination's format cannot hold a source: no layer of the same shape and hash; \
             merge into a key that holds a filter of FORMAT everbloom without KEYED, \
             or of COUNTING or WINDOW into one that was reserved alike"
                .into()
        }
        MergeError::TooFull => "a layer of the destination would hold more items than it was sized for; \
             merge into a key that holds a filter of FORMAT everbloom, or FORCE"
            .into(),
        MergeError::ErrorRate { rate, promised, needed } => {
            let (rate, promised) = (six_digits(rate), six_digits(promised));
            let advice = if needed < 1.0 {
                let needed = rounded_up(needed);
                format!("merge into an empty filter that promises at least {needed} (BF.RESERVE), or FORCE")
            } else {
                "no filter can promise what these need: FORCE".to_owned()
            };
            Cow::Owned(format!(
                "the merged filter would come to an error rate of {rate}, and {promised} is promised; {advice}"
            ))
        }
    }
}
