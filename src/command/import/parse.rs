//! The grammar of BF.IMPORT, and what its options say of each other.

use super::error::ImportError;
use super::options::{Import, Origin};
use crate::bloom::hash::scheme::{ItemEncoding, Scheme};
use crate::bloom::limits::{CAPACITY_MAX_ITEMS, EXPANSION_MAX};
use crate::bloom::policy::BitOrder;
use crate::command::arguments::Arguments;
use crate::command::error::{CommandError, quotable};
use crate::command::expiry;
use crate::command::number::{is_ratio, parse_double, parse_integer};
use crate::command::settings::Host;
use crate::command::words::Word;

/// Stands for a scheme where the string at the source key is what Guava's `writeTo` wrote.
const GUAVA: &[u8] = b"guava";

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
        let mut import = Self {
            key,
            origin,
            scheme: None,
            size_bits: None,
            probes: None,
            shift: None,
            order: None,
            encoding: None,
            capacity_items: None,
            error_rate: None,
            expansion: None,
            expires_at_ms: None,
            is_fixed: false,
            is_replacing: false,
        };
        let mut has_scheme = false;
        while let Some(option) = arguments.optional() {
            if option.eq_ignore_ascii_case(b"SCHEME") {
                has_scheme = true;
                import.scheme = scheme_named(arguments.required()?)?;
            } else {
                import.option(option, &mut arguments, host)?;
            }
        }
        import.validate(has_scheme)?;
        Ok(import)
    }

    /// Reads one option other than SCHEME.
    fn option(
        &mut self,
        option: &[u8],
        arguments: &mut Arguments<'a>,
        host: &dyn Host,
    ) -> Result<(), CommandError> {
        let is = |name: &str| option.eq_ignore_ascii_case(name.as_bytes());
        if is("BITS") {
            self.size_bits = Some(number(arguments, "BITS", 1, u64::MAX)?);
        } else if is("HASHES") {
            self.probes = Some(small_number(arguments, "HASHES", 1, u32::MAX)?);
        } else if is("CAPACITY") {
            self.capacity_items = Some(number(arguments, "CAPACITY", 1, CAPACITY_MAX_ITEMS)?);
        } else if is("SHIFT") {
            self.shift = Some(small_number(arguments, "SHIFT", 0, u8::MAX)?);
        } else if is("ORDER") {
            let order = BitOrder::named(arguments.required()?);
            self.order = Some(order.ok_or(ImportError::BadValue("ORDER"))?);
        } else if is("ENCODING") {
            let encoding = ItemEncoding::named(arguments.required()?);
            self.encoding = Some(encoding.ok_or(ImportError::BadValue("ENCODING"))?);
        } else if is("ERROR") {
            let rate = parse_double(arguments.required()?).filter(|rate| is_ratio(*rate));
            self.error_rate = Some(rate.ok_or(ImportError::BadValue("ERROR"))?);
        } else if is("EXPANSION") {
            self.expansion = Some(small_number(arguments, "EXPANSION", 0, EXPANSION_MAX)?);
        } else if is("NONSCALING") {
            self.is_fixed = true;
        } else if is("REPLACE") {
            self.is_replacing = true;
        } else {
            let expires_at_ms = expiry::option(option, self.expires_at_ms, arguments, host)?;
            if expires_at_ms.is_none() {
                return Err(CommandError::ReserveUnknownArgument(quotable(option)));
            }
            self.expires_at_ms = expires_at_ms;
        }
        Ok(())
    }

    /// What the options say of each other.
    fn validate(&self, has_scheme: bool) -> Result<(), CommandError> {
        if self.is_fixed && self.expansion.is_some_and(|expansion| expansion != 0) {
            return Err(CommandError::ReserveFixedExpansion);
        }
        let is_guava = matches!(self.origin, Origin::Guava(_));
        if has_scheme == is_guava {
            let error = if is_guava { ImportError::SelfDescribing } else { ImportError::Missing("SCHEME") };
            return Err(error.into());
        }
        let Some(scheme) = self.scheme else {
            // Guava's bytes, which an empty filter has none of.
            let tells = self.size_bits.is_some()
                || self.probes.is_some()
                || self.shift.is_some()
                || self.order.is_some();
            if tells || self.origin == Origin::Empty {
                return Err(ImportError::SelfDescribing.into());
            }
            return Ok(());
        };
        if self.has_settings() {
            return Ok(());
        }
        self.size_bits.ok_or(ImportError::Missing("BITS"))?;
        self.probes.or(scheme.fixed_probes()).ok_or(ImportError::Missing("HASHES"))?;
        Ok(())
    }
}

/// The scheme of a name; none for the bytes of Guava, which tell it.
fn scheme_named(name: &[u8]) -> Result<Option<Scheme>, CommandError> {
    if name.eq_ignore_ascii_case(GUAVA) {
        return Ok(None);
    }
    let unknown = || ImportError::UnknownScheme(quotable(name));
    Ok(Some(Scheme::named(name).ok_or_else(unknown)?))
}

/// The value of an option that is a number from `min` to `max`.
fn number(
    arguments: &mut Arguments<'_>,
    option: &'static str,
    min: u64,
    max: u64,
) -> Result<u64, CommandError> {
    let value = parse_integer(arguments.required()?).and_then(|value| u64::try_from(value).ok());
    let value = value.filter(|value| (min..=max).contains(value));
    Ok(value.ok_or(ImportError::BadValue(option))?)
}

fn small_number<N: TryFrom<u64> + Into<u64>>(
    arguments: &mut Arguments<'_>,
    option: &'static str,
    min: u64,
    max: N,
) -> Result<N, CommandError>
where
    u64: From<N>,
{
    let value = number(arguments, option, min, max.into())?;
    Ok(N::try_from(value).map_err(|_| ImportError::BadValue(option))?)
}
