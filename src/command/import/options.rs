//! The arguments of BF.IMPORT.

use crate::bloom::hash::scheme::{ItemEncoding, Scheme};
use crate::bloom::policy::BitOrder;
use crate::command::creation::CreationOptions;
use crate::command::error::{CommandError, quotable};
use crate::command::keyspace::Name;
use crate::command::options::Value;
use crate::command::words::Word;

use super::error::ImportError;

/// Stands for a scheme where the string at the source key is what Guava's `writeTo` wrote.
pub(super) const GUAVA: &[u8] = b"guava";

/// Where a client's bits come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin<'a> {
    /// The string at this key.
    Source(Name<'a>),
    /// What Guava's `writeTo` wrote, in the command itself.
    Guava(&'a [u8]),
    /// Nowhere: all bits are clear.
    Empty,
}

/// The options that describe a client's string.
#[derive(Debug, Default)]
pub struct ImportOptions {
    /// Whether SCHEME was given.
    pub(super) has_scheme: bool,
    /// SCHEME; none where Guava's bytes tell it.
    pub(super) scheme: Option<Scheme>,
    /// BITS.
    pub(in crate::command) size_bits: Option<u64>,
    /// HASHES.
    pub(in crate::command) probes: Option<u32>,
    /// SHIFT.
    pub(in crate::command) shift: Option<u8>,
    /// ORDER.
    pub(in crate::command) order: Option<BitOrder>,
    /// ENCODING.
    pub(in crate::command) encoding: Option<ItemEncoding>,
}

impl ImportOptions {
    /// Reads SCHEME.
    ///
    /// # Errors
    /// [`ImportError::UnknownScheme`].
    pub(in crate::command) fn read_scheme(&mut self, value: &mut Value<'_, '_>) -> Result<(), CommandError> {
        let name = value.bytes()?;
        self.has_scheme = true;
        self.scheme = if name.eq_ignore_ascii_case(GUAVA) {
            None
        } else {
            Some(Scheme::named(name).ok_or_else(|| ImportError::UnknownScheme(quotable(name)))?)
        };
        Ok(())
    }
}

/// BF.IMPORT with its arguments understood.
#[derive(Debug)]
pub(super) struct Import<'a> {
    pub(super) key: Name<'a>,
    pub(super) origin: Origin<'a>,
    /// The options about the string.
    pub(super) string: ImportOptions,
    /// Those about the filter.
    pub(super) filter: CreationOptions,
    /// REPLACE.
    pub(super) is_replacing: bool,
}

impl Import<'_> {
    /// Whether Redisson's settings may say what the options do not.
    pub(super) fn has_settings(&self) -> bool {
        self.string.scheme == Some(Scheme::Redisson) && matches!(self.origin, Origin::Source(_))
    }
}
