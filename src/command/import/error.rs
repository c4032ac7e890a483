//! What BF.IMPORT and BF.EXPORT are refused for, in words.

use crate::bloom::hash::scheme::SchemeError;
use crate::format::client::{ExportError, GuavaError, StringError};

/// Why a client's filter is not imported or exported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImportError {
    /// Neither SOURCE nor GUAVA nor EMPTY after the key.
    NoOrigin,
    /// The source is the destination.
    SameKey,
    /// There is nothing at the source key.
    NoSource,
    /// An option's value that is none; holds the option.
    BadValue(&'static str),
    /// A scheme that is not known.
    UnknownScheme(String),
    /// An option that must be there.
    Missing(&'static str),
    /// An option about bytes that tell it themselves.
    SelfDescribing,
    /// Redisson's settings are not there, or a field of them.
    NoSettings {
        /// The key they are looked for at.
        key: String,
        /// The field.
        field: &'static str,
    },
    /// No filter of the scheme has such parameters.
    Scheme(SchemeError),
    /// The string is no filter of so many bits.
    String(StringError),
    /// The bytes are no filter of Guava's.
    Guava(GuavaError),
    /// The filter was never a client's.
    NotImported,
    /// The filter has grown: a client's string cannot hold all of it.
    Grown {
        /// Layers that it has.
        layers: usize,
    },
    /// The filter's string is too long, or does not fit the memory there is.
    Export(ExportError),
    /// The filter does not fit the memory there is.
    OutOfMemory,
}

impl std::fmt::Display for ImportError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoOrigin => f.write_str("SOURCE key, GUAVA bytes or EMPTY must follow the key"),
            Self::SameKey => f.write_str("source and destination are the same key"),
            Self::NoSource => f.write_str("there is no string at the source key; EMPTY starts without one"),
            Self::BadValue(option) => write!(f, "bad value of {option}"),
            Self::UnknownScheme(name) => write!(f, "unknown scheme '{name}'"),
            Self::Missing(option) => write!(f, "{option} is missing, and nothing else tells it"),
            Self::SelfDescribing => f.write_str(
                "the bytes of a Guava filter tell scheme, bits, hashes and order themselves; \
                 only ENCODING, CAPACITY, ERROR, EXPANSION, NONSCALING and REPLACE go with them",
            ),
            Self::NoSettings { key, field } => {
                write!(
                    f,
                    "no field {field} of Redisson's settings can be read at '{key}': give BITS and HASHES"
                )
            }
            Self::Scheme(error) => error.fmt(f),
            Self::String(error) => error.fmt(f),
            Self::Guava(error) => error.fmt(f),
            Self::NotImported => f.write_str("the filter was not imported"),
            Self::Grown { layers } => {
                write!(f, "the filter has grown to {layers} layers, which no client's string can hold")
            }
            Self::Export(error) => error.fmt(f),
            Self::OutOfMemory => f.write_str("out of memory"),
        }
    }
}
