//! What BF.IMPORT and BF.EXPORT are refused for, in words.

use thiserror::Error;

use crate::bloom::hash::scheme::SchemeError;
use crate::format::client::{ExportError, GuavaError, StringError};

/// Why a client's filter is not imported or exported.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ImportError {
    /// Neither SOURCE nor GUAVA nor EMPTY after the key.
    #[error("SOURCE key, GUAVA bytes or EMPTY must follow the key")]
    NoOrigin,
    /// The source is the destination.
    #[error("source and destination are the same key")]
    SameKey,
    /// There is nothing at the source key.
    #[error("there is no string at the source key; EMPTY starts without one")]
    NoSource,
    /// An option's value that is none; holds the option.
    #[error("bad value of {0}")]
    BadValue(&'static str),
    /// A scheme that is not known.
    #[error("unknown scheme '{0}'")]
    UnknownScheme(String),
    /// An option that must be there.
    #[error("{0} is missing, and nothing else tells it")]
    Missing(&'static str),
    /// An option about bytes that tell it themselves.
    #[error(
        "the bytes of a Guava filter tell scheme, bits, hashes and order themselves; \
                 only ENCODING, CAPACITY, ERROR, EXPANSION, NONSCALING and REPLACE go with them"
    )]
    SelfDescribing,
    /// Redisson's settings are not there, or a field of them.
    #[error("no field {field} of Redisson's settings can be read at '{key}': give BITS and HASHES")]
    NoSettings {
        /// The key they are looked for at.
        key: String,
        /// The field.
        field: &'static str,
    },
    /// No filter of the scheme has such parameters.
    #[error("{0}")]
    Scheme(SchemeError),
    /// The string is no filter of so many bits.
    #[error("{0}")]
    String(StringError),
    /// The bytes are no filter of Guava's.
    #[error("{0}")]
    Guava(GuavaError),
    /// The filter was never a client's.
    #[error("the filter was not imported")]
    NotImported,
    /// The filter has grown: a client's string cannot hold all of it.
    #[error("the filter has grown to {layers} layers, which no client's string can hold")]
    Grown {
        /// Layers that it has.
        layers: usize,
    },
    /// The filter's string is too long, or does not fit the memory there is.
    #[error("{0}")]
    Export(ExportError),
    /// The filter does not fit the memory there is.
    #[error("out of memory")]
    OutOfMemory,
}
