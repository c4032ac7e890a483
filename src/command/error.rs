//! Every error text. The texts are exactly those of RedisBloom 8, with or without `ERR`, unless a comment says
//! otherwise. Everbloom's own texts say what is wrong and what to do.

use std::borrow::Cow;

use thiserror::Error;

use super::number::{rounded_up, six_digits};
use super::words::Word;
use everbloom_filter::encoding::NotEncodable;
use everbloom_filter::filter::merge::MergeError;
use everbloom_filter::hash::scheme::{Scheme, SchemeError};
use everbloom_filter::limits::{
    CAPACITY_MIN_ITEMS, CUCKOO_CAPACITY_MAX_ITEMS, EXPANSION_MAX, WINDOW_MAX_MS, WINDOW_MIN_MS,
};
use everbloom_filter::table::COUNT_MAX;
use everbloom_filter::{AddError, ReserveError, ScaleError};
use everbloom_format::client::{ExportError, GuavaError, StringError};

/// Why a command was refused.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum CommandError {
    /// Too few or too many arguments. Holds the command's name in lower case.
    #[error("ERR wrong number of arguments for '{0}' command")]
    WrongArity(&'static str),
    /// The key holds another type.
    #[error("WRONGTYPE Operation against a key holding the wrong kind of value")]
    WrongType,
    /// The filter is being loaded by BF.LOADCHUNK.
    #[error(
        "ERR the filter is being loaded: wait for its other chunks, load a copy into another key and BF.MERGE it, or DEL this key"
    )]
    Loading,
    /// The server is saving the value of the key without a fork.
    #[error("ERR the key is being saved, try again")]
    InUse,
    /// No such key.
    #[error("ERR not found")]
    NotFound,
    /// BF.MERGE: a source does not exist. Holds its key.
    #[error("ERR not found: the source '{0}' does not exist")]
    SourceNotFound(String),
    /// BF.MERGE: the clock of the server that a source is from is ahead.
    #[error(
        "ERR the newest items of the source '{key}' are of {items_ms}, and it is {now_ms} here (milliseconds of UNIX time): check the clocks"
    )]
    SourceAhead {
        /// The key of the source.
        key: String,
        /// The time of its newest items.
        items_ms: u64,
        /// The time of the destination.
        now_ms: u64,
    },
    /// BF.MERGE: a key holds another type. Holds the key. The text before it is the server's.
    #[error("WRONGTYPE Operation against a key holding the wrong kind of value: '{0}'")]
    MergeWrongType(String),
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
    /// BF.RESERVE: capacity out of range (RedisBloom's range ends at 2^30, everbloom's at the byte limit).
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
    /// An unknown option. BF.INSERT has another text, and RedisBloom's BF.RESERVE ignores the word.
    #[error("ERR unknown argument '{0}'")]
    UnknownArgument(String),
    /// A number in place of an option. Holds the number and the option that it is probably for.
    #[error("ERR unknown argument '{0}': write {1} {0}, or omit the number")]
    BareNumber(String, &'static str),
    /// An unknown option that is like one of the command's. Holds the word and the option.
    #[error("ERR unknown argument '{0}': use {1}")]
    MisspeltOption(String, &'static str),
    /// An option describes another kind of filter than the existing one. Holds the option.
    #[error("ERR {0} differs from the existing filter: omit the option, or use another key")]
    OtherKind(&'static str),
    /// BF.INSERT: error rate is not a number or out of range.
    #[error("Bad error rate")]
    InsertErrorRate,
    /// BF.INSERT: capacity is not an integer or out of range.
    #[error("Bad capacity")]
    InsertCapacity,
    /// BF.INSERT: expansion is not an integer or out of range.
    #[error("Bad expansion")]
    InsertExpansion,
    /// BF.INSERT: an unknown option.
    #[error("Unknown argument received")]
    InsertUnknownArgument,
    /// FORMAT with an unknown name.
    #[error("ERR unknown format: use everbloom, redisbloom or valkey-bloom")]
    UnknownFormat,
    /// SEED does not have 32 bytes. The text is valkey-bloom's.
    #[error("ERR invalid seed")]
    BadSeed,
    /// SEED with two equal halves, from a client. The text is everbloom's.
    #[error("ERR invalid seed: its two halves of 16 bytes must differ")]
    WeakSeed,
    /// TIGHTENING is not a number. The text is valkey-bloom's.
    #[error("ERR bad tightening ratio")]
    BadTightening,
    /// TIGHTENING not strictly between 0 and 1. The text is valkey-bloom's.
    #[error("ERR (0 < tightening ratio range < 1)")]
    TighteningRange,
    /// The filter could not grow to the items of VALIDATESCALETO. The texts are valkey-bloom's.
    #[error("ERR {}", scale_text(*.0))]
    ScaleTo(ScaleError),
    /// SEED or TIGHTENING for another format than valkey-bloom's.
    #[error("ERR SEED and TIGHTENING need FORMAT valkey-bloom")]
    NeedsValkeyBloom,
    /// An option of everbloom's own format only. Holds the option.
    #[error("ERR {0} needs FORMAT everbloom")]
    NeedsEverbloom(&'static str),
    /// KEY does not have 16 bytes.
    #[error("ERR KEY must have 16 bytes")]
    BadKey,
    /// SATURATE for a scaling filter.
    #[error("ERR SATURATE needs a fixed filter: add NONSCALING or EXPANSION 0")]
    NeedsFixedSize,
    /// SATURATE for a counting filter.
    #[error("ERR SATURATE cannot be combined with COUNTING: counted items have no fixed memory")]
    CountingAndSaturate,
    /// WINDOW with an option that it excludes. Holds the option.
    #[error("ERR {0} cannot be combined with WINDOW")]
    WindowAnd(&'static str),
    /// An option of sliding-window filters only. Holds the option.
    #[error("ERR {0} needs a filter created with WINDOW")]
    NeedsWindow(&'static str),
    /// WINDOW is no integer or out of range.
    #[error(
        "ERR WINDOW must be a number of seconds in the range [{}, {}]",
        WINDOW_MIN_MS.div_ceil(1000),
        WINDOW_MAX_MS / 1000
    )]
    WindowSeconds,
    /// PWINDOW is no integer or out of range.
    #[error(
        "ERR PWINDOW must be a number of milliseconds in the range [{}, {}]",
        WINDOW_MIN_MS,
        WINDOW_MAX_MS
    )]
    WindowMilliseconds,
    /// STEPS has another value.
    #[error("ERR STEPS must be 14 or 120")]
    BadSteps,
    /// AT is not a time.
    #[error("ERR AT must be a UNIX time in milliseconds")]
    BadAt,
    /// AT is so old that the items have expired already.
    #[error(
        "ERR AT is older than the window of the filter: the items have expired, or AT is not in milliseconds"
    )]
    AtTooOld,
    /// AT is too far in the future. Holds the steps of the window.
    #[error("ERR AT is more than 1/{0} of the window ahead of the server's clock: check the clocks")]
    AtAhead(u64),
    /// The value of LIFE, WITHIN or one of their variants is no positive integer. Holds the word.
    #[error("ERR {0} must be a positive integer")]
    BadDuration(&'static str),
    /// The end of a life has passed. Holds the word.
    #[error("ERR the end of {0} is in the past: check the clocks, and the unit of {0}")]
    LifePast(&'static str),
    /// A life or a duration is longer than the window.
    #[error("ERR {word} is more than the window of the filter, {}: check the unit of {word}", shown_span(*.window_ms))]
    BeyondWindow {
        /// The word of the life or the duration.
        word: &'static str,
        /// The window.
        window_ms: u64,
    },
    /// BF.LOADCHUNK and BF.MERGE: items of a sliding window that would make all others expire.
    #[error("ERR the items are more than a window ahead of the server's clock: check the clocks")]
    ItemsAhead,
    /// The client may not read a source. The code NOPERM is the server's.
    #[error("NOPERM this user needs the permission to {permission} the key '{key}'")]
    SourceDenied {
        /// What the user may not do with the key: `read`, or `run BF.CARD on`.
        permission: &'static str,
        /// The key of the source.
        key: String,
    },
    /// A source is in another slot than the first key. The text is the server's.
    #[error("CROSSSLOT Keys in request don't hash to the same slot")]
    SourceSlot,
    /// A source is not on this node, and the slot of all keys is migrating. The text is the server's.
    #[error("TRYAGAIN Multiple keys request during rehashing of slot")]
    SourceMoving,
    /// A command or an option of counting filters only. Holds its name.
    #[error("ERR {0} needs a filter created with COUNTING")]
    NotCounting(String),
    /// VALIDATESCALETO for RedisBloom's format.
    #[error("ERR VALIDATESCALETO cannot be combined with FORMAT redisbloom")]
    CannotValidateScaleTo,
    /// BF.LOAD or BF.IMPORT: the key exists. The text is valkey-bloom's.
    #[error("BUSYKEY Target key name already exists.")]
    KeyExists,
    /// BF.LOAD: not a filter. The text is valkey-bloom's.
    #[error("ERR bloom object decoding failed")]
    BadBlob,
    /// BF.LOAD: an unknown version. The text is valkey-bloom's.
    #[error("ERR bloom object decoding failed. Unsupported version")]
    BadBlobVersion,
    /// Options that exclude each other. The text is the server's.
    #[error("ERR syntax error")]
    Syntax,
    /// A time to live that is not an integer. The text is the server's.
    #[error("ERR value is not an integer or out of range")]
    NotAnInteger,
    /// A time to live that is not positive or too far away. Holds the command's name in lower case. The text is the
    /// server's.
    #[error("ERR invalid expire time in '{0}' command")]
    ExpireTime(&'static str),
    /// A packed batch: an unknown packing.
    #[error("ERR unknown packing: use LINES, FIXED or PREFIXED")]
    BatchPacking,
    /// A packed batch: a bad length of the items in FIXED.
    #[error("ERR FIXED needs the length of an item, an integer of at least 1")]
    BatchItemBytes,
    /// A packed batch: arguments follow it.
    #[error("ERR syntax error: all items must be in one argument, the last one")]
    BatchArguments,
    /// A packed batch: the data ends within an item.
    #[error("ERR the data ends in the middle of an item: check the packing")]
    BatchTorn,
    /// BF.INFO: no such field.
    #[error("Invalid information value")]
    InfoField,
    /// BF.SCANDUMP: iterator is not an integer.
    #[error("Second argument must be numeric")]
    ScanDumpIterator,
    /// BF.SCANDUMP: the iterator is not one of the last dump.
    #[error("ERR the dump of this iterator has ended: delete the copy and start again with iterator 0")]
    DumpEnded,
    /// BF.FOLLOW: a bad position.
    #[error("ERR bad position: give the id and the offset of a reply of BF.FOLLOW, or none")]
    FollowPosition,
    /// BF.FOLLOW: a bad COUNT.
    #[error("ERR COUNT must be an integer of at least 1")]
    FollowCount,
    /// BF.FOLLOW: it is switched off.
    #[error("ERR BF.FOLLOW is switched off: bf.follow-total-bytes is 0")]
    FollowOff,
    /// BF.LOADCHUNK: iterator is not an integer.
    #[error("ERR Second argument must be numeric")]
    LoadChunkIterator,
    /// BF.LOADCHUNK: a header or chunk that is damaged, or belongs to another filter.
    #[error("ERR received bad data")]
    BadData,
    /// BF.LOADCHUNK: a chunk of another dump than the header that created the filter.
    #[error(
        "ERR received bad data - the chunk and the header are from different dumps: delete the key and start \
                 again with BF.SCANDUMP and iterator 0"
    )]
    OtherDump,
    /// BF.LOADCHUNK: another chunk for a filter with a table that is complete.
    #[error("ERR received bad data - the filter is complete: to load another dump, delete the key first")]
    LoadIsComplete,
    /// BF.LOADCHUNK: a part of the table was dumped twice, and both versions do not fit one segment.
    #[error(
        "ERR received bad data - this part of the filter was loaded before from an older state, and both do not fit: delete \
                 the key and start again with BF.SCANDUMP and iterator 0"
    )]
    ChunksDiffer,
    /// BF.LOADCHUNK: a chunk after the last layer.
    #[error("ERR invalid offset - no link found")]
    InvalidOffset,
    /// BF.LOADCHUNK: a chunk larger than the rest of its layer.
    #[error("ERR invalid chunk - Too big for current filter")]
    ChunkTooBig,
    /// A call of the server failed that never fails in normal operation.
    #[error("{}", INTERNAL_ERROR)]
    Internal,
    /// There is no memory for the command.
    #[error("ERR out of memory")]
    OutOfMemory,
    /// A replicated BF.ADD, BF.MADD, BF.INSERT or BF.BULKADD for a filter that this server does not have.
    #[error(
        "ERR not found: a replicated command adds to a filter that this server does not have; if another module \
                 sent it, set bf.format to the format of that module"
    )]
    LostFilter,
    /// A new filter could not be created.
    #[error("ERR {}", reserve_text(*.0))]
    Reserve(ReserveError),
    /// An item could not be added.
    #[error("ERR {}", add_text(*.0))]
    Add(AddError),
    /// BF.MERGE.
    #[error("ERR {}", merge_text(*.0))]
    Merge(MergeError),
    /// BF.MERGE into a new key: the sources expire in different ways.
    #[error("ERR the source '{other}' has another WINDOW, or other STEPS, than the source '{first}'")]
    OtherWindow {
        /// The key of the first source.
        first: String,
        /// The key of the first source that differs.
        other: String,
    },
    /// BF.IMPORT or BF.EXPORT. Only everbloom has these commands.
    #[error("ERR {0}")]
    Import(#[from] ImportError),
    /// A CF.* command.
    #[error("{0}")]
    Cuckoo(#[from] CuckooError),
}

/// Why a CF.* command is refused, where its text differs from that of the BF.* command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CuckooError {
    /// CF.DEL: no such key, or the key has no counting filter.
    #[error("Not found")]
    NotFound,
    /// CF.COMPACT: no such key, or the key has no counting filter.
    #[error("Cuckoo filter was not found")]
    NothingToCompact,
    /// The capacity is not an integer.
    #[error("Bad capacity")]
    BadCapacity,
    /// An option of counting filters, with `bf.format redisbloom`. CF.* has no FORMAT. Holds the option.
    #[error("ERR {0} needs bf.format everbloom")]
    NeedsEverbloom(&'static str),
    /// CF.RESERVE: the capacity is out of range.
    #[error("Capacity must be in the range [2 * BUCKETSIZE, {}]", CUCKOO_CAPACITY_MAX_ITEMS)]
    ReserveCapacityRange,
    /// CF.INSERT: the capacity is out of range.
    #[error("Capacity must be in the range [cf-bucket-size * 2, {}]", CUCKOO_CAPACITY_MAX_ITEMS)]
    InsertCapacityRange,
    /// CF.RESERVE: the value of an option is not an integer. Holds the option.
    #[error("Couldn't parse {0}")]
    BadValue(&'static str),
    /// CF.RESERVE: an option is the last argument. Holds the option.
    #[error("ERR Couldn't parse {0}")]
    NoValue(&'static str),
    /// CF.RESERVE: the value of an option is out of range.
    #[error("{option}: value must be in the range [{min}, {max}]")]
    Range {
        /// The option.
        option: &'static str,
        /// Its smallest value.
        min: u32,
        /// Its largest value.
        max: u32,
    },
    /// CF.ADD or CF.ADDNX: the item was refused.
    #[error("{}", cuckoo_add_text(*.0))]
    Add(AddError),
    /// An add to a cuckoo filter that has as many arrays as it may have.
    #[error("Maximum expansions reached")]
    MaximumExpansions,
    /// An add to a cuckoo filter of RedisBloom before 2.2, or a dump of one by chunks.
    #[error(
        "ERR the cuckoo filter is from RedisBloom before 2.2, which hashed items in another way: it can be read, and items can be deleted; add the items again to a new filter"
    )]
    OldRelease,
    /// CF.SCANDUMP: the copy would have arrays of other sizes, and miss items.
    #[error(
        "ERR a header of a dump cannot describe the cuckoo filter, which has other sizes or parameters than RedisBloom makes: copy it with DUMP and RESTORE, or with COPY"
    )]
    NoHeader,
    /// CF.SCANDUMP or CF.LOADCHUNK: the iterator is not a number that a dump can have.
    #[error("Invalid position")]
    Position,
    /// CF.LOADCHUNK: the header is damaged, or not one of a counting filter.
    #[error("Invalid header")]
    Header,
    /// CF.LOADCHUNK: the filter of a header cannot be created.
    #[error("Couldn't create filter!")]
    Create,
    /// CF.LOADCHUNK: the chunk is damaged, or belongs to another filter or position.
    #[error("Couldn't load chunk!")]
    Chunk,
}

/// Why BF.IMPORT or BF.EXPORT is refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ImportError {
    /// Neither SOURCE nor GUAVA nor EMPTY after the key.
    #[error("SOURCE key, GUAVA bytes or EMPTY must follow the key")]
    NoOrigin,
    /// The source is the destination.
    #[error("source and destination are the same key: choose another destination")]
    SameKey,
    /// The source key does not exist.
    #[error("there is no string at the source key: check its name, or use EMPTY to start without one")]
    NoSource,
    /// A bad value of an option. Holds the option and its valid values.
    #[error("bad value of {0}: use {1}")]
    BadValue(&'static str, String),
    /// An unknown scheme.
    #[error("unknown scheme '{0}': use guava, {list}", list = Scheme::listed())]
    UnknownScheme(String),
    /// A required option is missing. Holds the option.
    #[error("{0} is missing: add this option")]
    Missing(&'static str),
    /// An option that Guava's bytes already contain.
    #[error(
        "a Guava filter contains its scheme, bits, hashes and order: give its bytes with SOURCE or GUAVA, and \
                 omit these options"
    )]
    SelfDescribing,
    /// Redisson's settings, or one of their fields, cannot be read.
    #[error("cannot read the field {field} of Redisson's settings at '{key}': give BITS and HASHES")]
    NoSettings {
        /// The key of the settings.
        key: String,
        /// The field.
        field: &'static str,
    },
    /// The parameters are invalid for the scheme.
    #[error("{0}")]
    Scheme(SchemeError),
    /// The string does not fit the parameters.
    #[error("{0}")]
    String(StringError),
    /// The bytes are not a filter of Guava.
    #[error("{0}")]
    Guava(GuavaError),
    /// The filter is not an imported one.
    #[error("BF.EXPORT needs a filter created with BF.IMPORT")]
    NotImported,
    /// The filter has grown, but a client's string has no place for more.
    #[error("the filter has grown or was merged, and a client's string cannot hold all of its items")]
    Grown,
    /// The filter's string is too long, or there is no memory for it.
    #[error("{0}")]
    Export(ExportError),
}

/// Returns a client's bytes as an error quotes them: at most the first 128.
#[must_use]
pub fn quotable(word: &[u8]) -> String {
    const MAX_BYTES: usize = 128;
    String::from_utf8_lossy(word.get(..MAX_BYTES).unwrap_or(word)).into_owned()
}

/// Returns a time span with its unit: seconds if it is a whole number of them, milliseconds otherwise.
fn shown_span(ms: u64) -> String {
    if ms.is_multiple_of(1000) { format!("{} s", ms / 1000) } else { format!("{ms} ms") }
}

/// The error of a command that failed unexpectedly.
pub const INTERNAL_ERROR: &str = "ERR internal error: report it with the server's log";

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
        ReserveError::TooLarge { needed_bytes, limit } => {
            let raise =
                limit.source.setting().map_or_else(String::new, |setting| format!(" or raise {setting}"));
            Cow::Owned(format!(
                "filter would take {needed_bytes} bytes, more than {limit}: choose a smaller capacity{raise}"
            ))
        }
        // This is valkey-bloom's text, because only its filters can be reserved with such a small rate.
        ReserveError::ErrorRateVanishes => "false positive degrades to 0 on scale out".into(),
        ReserveError::TooLong => "could not create filter".into(),
        ReserveError::OutOfMemory => "Insufficient memory to create filter".into(),
    }
}

fn add_text(error: AddError) -> Cow<'static, str> {
    match error {
        AddError::Full => "non scaling filter is full".into(),
        AddError::CannotGrow(_) => "problem inserting into filter".into(),
        AddError::TooOften => {
            Cow::Owned(format!("item was added too often: at most {COUNT_MAX} times are counted"))
        }
        AddError::NotEncodable(encoding) => {
            Cow::Owned(format!("{}, as encoding {} requires", NotEncodable(encoding), encoding.word()))
        }
    }
}

/// Returns the text for an item that CF.ADD or CF.ADDNX refused. RedisBloom has the first two.
fn cuckoo_add_text(error: AddError) -> Cow<'static, str> {
    match error {
        AddError::Full => "Filter is full".into(),
        AddError::CannotGrow(_) => "ERR Insufficient memory".into(),
        error => format!("ERR {}", add_text(error)).into(),
    }
}

fn merge_text(error: MergeError) -> Cow<'static, str> {
    match error {
        MergeError::Reserve(_) => {
            "the merged filter would have too many layers or probes per item: merge fewer filters".into()
        }
        MergeError::Mismatch => {
            "a source does not fit the destination: merge into a filter of FORMAT everbloom that may grow and \
             is not KEYED. A COUNTING or WINDOW source needs a destination that was reserved with the same options"
                .into()
        }
        MergeError::TooFull => "the destination would exceed its capacity: \
             merge into a filter of FORMAT everbloom that may grow, or use FORCE"
            .into(),
        MergeError::TooOften => {
            Cow::Owned(format!("an item would be counted more than {COUNT_MAX} times: delete it first"))
        }
        MergeError::ErrorRate { rate, promised, needed } => {
            let (rate, promised) = (six_digits(rate), six_digits(promised));
            let advice = if needed < 1.0 {
                let needed = rounded_up(needed);
                format!("reserve a destination with an error rate of at least {needed}, or use FORCE")
            } else {
                "no destination can hold these sources within its error rate; FORCE merges anyway".to_owned()
            };
            Cow::Owned(format!(
                "the merged filter would have an error rate of {rate}, above the {promised} of the destination: {advice}"
            ))
        }
    }
}
