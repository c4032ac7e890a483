//! The grammar of BF.IMPORT, and what its options say of each other.

use super::error::ImportError;
use super::options::{GUAVA, Import, Origin};
use crate::command::arguments::Arguments;
use crate::command::error::CommandError;
use crate::command::options::Options;
use crate::command::settings::Host;

impl<'a> Import<'a> {
    /// Reads `SOURCE key | GUAVA bytes | EMPTY`, then in any order `[SCHEME scheme] [BITS m] [HASHES k]
    /// [CAPACITY n] [SHIFT s] [ORDER msb|lsb] [ENCODING encoding] [ERROR rate] [EXPANSION x] [NONSCALING]
    /// [REPLACE] [EX s | PX ms | EXAT s | PXAT ms]`. The last of a repeated option counts.
    ///
    /// # Errors
    /// The first rule that is broken, from left to right, then what is missing.
    pub(super) fn parse(mut arguments: Arguments<'a>, host: &dyn Host) -> Result<Self, CommandError> {
        let key = arguments.key()?;
        let origin = arguments.required()?;
        let origin = if origin.eq_ignore_ascii_case(b"SOURCE") {
            Origin::Source(arguments.key()?)
        } else if origin.eq_ignore_ascii_case(GUAVA) {
            Origin::Guava(arguments.required()?)
        } else if origin.eq_ignore_ascii_case(b"EMPTY") {
            Origin::Empty
        } else {
            return Err(ImportError::NoOrigin.into());
        };
        if matches!(origin, Origin::Source(source) if source.bytes == key.bytes) {
            return Err(ImportError::SameKey.into());
        }
        let mut given = Options::default();
        given.read(&mut arguments, None, host)?;
        let Options { creation: filter, import: string, is_replacing, .. } = given;
        let import = Self { key, origin, string, filter, is_replacing };
        import.validate()?;
        Ok(import)
    }

    /// What the options say of each other.
    fn validate(&self) -> Result<(), CommandError> {
        if self.filter.is_fixed && self.filter.expansion.is_some_and(|expansion| expansion != 0) {
            return Err(CommandError::ReserveFixedExpansion);
        }
        let is_guava = matches!(self.origin, Origin::Guava(_));
        if self.string.has_scheme == is_guava {
            let error = if is_guava { ImportError::SelfDescribing } else { ImportError::Missing("SCHEME") };
            return Err(error.into());
        }
        let Some(scheme) = self.string.scheme else {
            // Guava's bytes, which an empty filter has none of.
            let tells = self.string.size_bits.is_some()
                || self.string.probes.is_some()
                || self.string.shift.is_some()
                || self.string.order.is_some();
            if tells || self.origin == Origin::Empty {
                return Err(ImportError::SelfDescribing.into());
            }
            return Ok(());
        };
        if self.has_settings() {
            return Ok(());
        }
        self.string.size_bits.ok_or(ImportError::Missing("BITS"))?;
        self.string.probes.or(scheme.fixed_probes()).ok_or(ImportError::Missing("HASHES"))?;
        Ok(())
    }
}
