//! BF.IMPORT and BF.EXPORT: taking over the bitmap that a client keeps in a string, and giving it back.

use std::borrow::Cow;

use super::Slot;
use super::arguments::Arguments;
use super::creation::{growth_words, text, word};
use super::effects::{Effects, Line, Replication};
use super::error::CommandError;
use super::number::{parse_double, parse_integer};
use super::reserve::is_ratio;
use super::settings::Host;
use crate::bloom::imported::check_size;
use crate::bloom::limits::{CAPACITY_MAX_ITEMS, EXPANSION_MAX};
use crate::bloom::scheme::{
    BitOrder, ClientPlacement, ItemEncoding, Scheme, SchemeError, SchemeParameters, StringForm,
    half_full_items,
};
use crate::bloom::{Bits, Chain, Filter, Growth, OutOfMemory};
use crate::format::client::{GuavaError, GuavaHeader, ImportError, RedissonConfig, config_key};

/// Why a client's filter is not taken over or given back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransferError {
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
    String(ImportError),
    /// The bytes are no filter of Guava's.
    Guava(GuavaError),
    /// The filter was never a client's.
    NotImported,
    /// The filter has grown: a client's string cannot hold all of it.
    Grown {
        /// Layers that it has.
        layers: usize,
    },
    /// The string does not fit the memory there is.
    OutOfMemory,
}

impl std::fmt::Display for TransferError {
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
            Self::OutOfMemory => f.write_str("out of memory"),
        }
    }
}

impl From<TransferError> for CommandError {
    fn from(error: TransferError) -> Self {
        Self::Transfer(error)
    }
}

/// What the host found at the source key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StringSlot<'s> {
    /// No such key.
    Vacant,
    /// A string.
    Bytes(&'s [u8]),
    /// A value of another type.
    WrongType,
}

/// What BF.IMPORT reads beside its own key.
pub trait Sources {
    /// What is at the source key of [`Import::source`].
    fn string(&self) -> StringSlot<'_>;
    /// A field of the hash at `key`, if there is one and the client may read it.
    fn field(&self, key: &[u8], field: &str) -> Option<Vec<u8>>;
}

/// Where a client's bits come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin<'a> {
    /// The string at this key.
    Source(&'a [u8]),
    /// What Guava's `writeTo` wrote, in the command itself.
    Guava(&'a [u8]),
    /// Nowhere: all bits are clear.
    Empty,
}

/// BF.IMPORT with its arguments understood.
#[derive(Debug)]
pub struct Import<'a> {
    key: &'a [u8],
    origin: Origin<'a>,
    /// The scheme; none where Guava's bytes tell it.
    scheme: Option<Scheme>,
    size_bits: Option<u64>,
    probes: Option<u32>,
    shift: Option<u8>,
    order: Option<BitOrder>,
    encoding: Option<ItemEncoding>,
    capacity_items: Option<u64>,
    error_rate: Option<f64>,
    expansion: Option<u32>,
    is_fixed: bool,
    is_replacing: bool,
}

/// Stands for a scheme where the string at the source key is what Guava's `writeTo` wrote.
const GUAVA: &[u8] = b"guava";

impl<'a> Import<'a> {
    /// Reads `SOURCE key | GUAVA bytes | EMPTY`, then in any order `[SCHEME scheme] [BITS m] [HASHES k] [CAPACITY n]
    /// [SHIFT s] [ORDER msb|lsb] [ENCODING encoding] [ERROR rate] [EXPANSION x] [NONSCALING] [REPLACE]`. The last of a
    /// repeated option counts.
    ///
    /// # Errors
    /// The first rule that is broken, from left to right, then what is missing.
    pub fn parse(key: &'a [u8], mut arguments: Arguments<'a>) -> Result<Self, CommandError> {
        let origin = arguments.required()?;
        let origin = if origin.eq_ignore_ascii_case(b"SOURCE") {
            Origin::Source(arguments.required()?)
        } else if origin.eq_ignore_ascii_case(GUAVA) {
            Origin::Guava(arguments.required()?)
        } else if origin.eq_ignore_ascii_case(b"EMPTY") {
            Origin::Empty
        } else {
            return Err(TransferError::NoOrigin.into());
        };
        if origin == Origin::Source(key) {
            return Err(TransferError::SameKey.into());
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
            is_fixed: false,
            is_replacing: false,
        };
        let mut has_scheme = false;
        while let Some(option) = arguments.optional() {
            if option.eq_ignore_ascii_case(b"SCHEME") {
                has_scheme = true;
                import.scheme = scheme_named(arguments.required()?)?;
            } else {
                import.option(option, &mut arguments)?;
            }
        }
        import.validate(has_scheme)?;
        Ok(import)
    }

    /// Reads one option other than SCHEME.
    fn option(&mut self, option: &[u8], arguments: &mut Arguments<'a>) -> Result<(), CommandError> {
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
            let order = BitOrder::from_name(arguments.required()?);
            self.order = Some(order.ok_or(TransferError::BadValue("ORDER"))?);
        } else if is("ENCODING") {
            let encoding = ItemEncoding::from_name(arguments.required()?);
            self.encoding = Some(encoding.ok_or(TransferError::BadValue("ENCODING"))?);
        } else if is("ERROR") {
            let rate = parse_double(arguments.required()?).filter(|rate| is_ratio(*rate));
            self.error_rate = Some(rate.ok_or(TransferError::BadValue("ERROR"))?);
        } else if is("EXPANSION") {
            self.expansion = Some(small_number(arguments, "EXPANSION", 0, EXPANSION_MAX)?);
        } else if is("NONSCALING") {
            self.is_fixed = true;
        } else if is("REPLACE") {
            self.is_replacing = true;
        } else {
            return Err(CommandError::ReserveUnknownArgument(String::from_utf8_lossy(option).into_owned()));
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
            let error =
                if is_guava { TransferError::SelfDescribing } else { TransferError::Missing("SCHEME") };
            return Err(error.into());
        }
        let Some(scheme) = self.scheme else {
            // Guava's bytes, which an empty filter has none of.
            let tells = self.size_bits.is_some()
                || self.probes.is_some()
                || self.shift.is_some()
                || self.order.is_some();
            if tells || self.origin == Origin::Empty {
                return Err(TransferError::SelfDescribing.into());
            }
            return Ok(());
        };
        if self.has_settings() {
            return Ok(());
        }
        self.size_bits.ok_or(TransferError::Missing("BITS"))?;
        self.probes.or(scheme.fixed_probes()).ok_or(TransferError::Missing("HASHES"))?;
        Ok(())
    }

    /// Whether Redisson's settings may tell what the options do not.
    fn has_settings(&self) -> bool {
        self.scheme == Some(Scheme::Redisson) && matches!(self.origin, Origin::Source(_))
    }

    /// The key of the string, if one is to be read.
    #[must_use]
    pub fn source(&self) -> Option<&'a [u8]> {
        match self.origin {
            Origin::Source(key) => Some(key),
            Origin::Guava(_) | Origin::Empty => None,
        }
    }

    /// Makes the filter, whole, or nothing. O(bytes of the string + bits / 8).
    ///
    /// # Errors
    /// What the import is refused for; the key is then as it was.
    pub fn run(
        mut self,
        slot: &Slot<&mut Filter>,
        sources: &impl Sources,
        host: &dyn Host,
    ) -> Result<Effects<'a>, CommandError> {
        match slot {
            Slot::WrongType => return Err(CommandError::WrongType),
            Slot::Filter(_) if !self.is_replacing => return Err(CommandError::KeyExists),
            Slot::Filter(_) | Slot::Vacant => {}
        }
        let bytes = match self.origin {
            Origin::Guava(blob) => blob,
            Origin::Empty => &[],
            Origin::Source(_) => match sources.string() {
                StringSlot::Bytes(bytes) => bytes,
                StringSlot::Vacant => return Err(TransferError::NoSource.into()),
                StringSlot::WrongType => return Err(CommandError::WrongType),
            },
        };
        self.complete(sources)?;
        let placement = ClientPlacement::new(self.parameters(bytes)?).map_err(TransferError::Scheme)?;
        check_size(&placement, host).map_err(CommandError::Reserve)?;
        let (form, bits) = self.read(bytes, &placement)?;
        let settings = host.settings();
        let probes = placement.parameters().probes;
        let capacity_items = self
            .capacity_items
            .unwrap_or_else(|| half_full_items(placement.array_bits(), probes).min(CAPACITY_MAX_ITEMS));
        let error_rate = self.error_rate.unwrap_or(settings.error_rate);
        let growth = if self.is_fixed {
            Growth::Fixed
        } else {
            Growth::from_expansion(self.expansion.unwrap_or(settings.expansion_factor))
        };
        let line = self.line(&placement, capacity_items, error_rate, growth);
        let chain = Chain::take_over(placement, form, bits, capacity_items, error_rate, growth)
            .ok_or(TransferError::OutOfMemory)?;
        Ok(Effects {
            publish: Some(Box::new(Filter::Imported(Box::new(chain)))),
            replication: Replication::Rewritten(vec![line]),
            created: true,
            items_added: 0,
        })
    }

    /// Takes from Redisson's settings what the options do not say.
    fn complete(&mut self, sources: &impl Sources) -> Result<(), CommandError> {
        let Origin::Source(source) = self.origin else { return Ok(()) };
        if !self.has_settings() || (self.size_bits.is_some() && self.probes.is_some()) {
            return Ok(());
        }
        let key = config_key(source);
        let config = RedissonConfig::read(|field| sources.field(&key, field)).map_err(|field| {
            TransferError::NoSettings { key: String::from_utf8_lossy(&key).into_owned(), field }
        })?;
        self.size_bits = self.size_bits.or(Some(config.size_bits));
        self.probes = self.probes.or(Some(config.probes));
        let capacity_items = config.capacity_items.map(|items| items.min(CAPACITY_MAX_ITEMS));
        self.capacity_items = self.capacity_items.or(capacity_items);
        Ok(())
    }

    /// What the options, or Guava's bytes, say of the scheme.
    fn parameters(&self, bytes: &[u8]) -> Result<SchemeParameters, TransferError> {
        let encoding = self.encoding.unwrap_or(ItemEncoding::Raw);
        let Some(scheme) = self.scheme else {
            return Ok(GuavaHeader::decode(bytes).map_err(TransferError::Guava)?.parameters(encoding));
        };
        let size_bits = self.size_bits.ok_or(TransferError::Missing("BITS"))?;
        let probes = self.probes.or(scheme.fixed_probes()).ok_or(TransferError::Missing("HASHES"))?;
        Ok(SchemeParameters { scheme, encoding, shift: self.shift.unwrap_or(0), probes, size_bits })
    }

    fn read(&self, bytes: &[u8], placement: &ClientPlacement) -> Result<(StringForm, Bits), TransferError> {
        if self.scheme.is_none() {
            let encoding = placement.parameters().encoding;
            let (_, form, bits) = GuavaHeader::read(bytes, encoding).map_err(TransferError::Guava)?;
            return Ok((form, bits));
        }
        let order = self.order.unwrap_or(BitOrder::Msb);
        StringForm::read(bytes, order, placement.array_bits()).map_err(TransferError::String)
    }

    /// The import with everything spelt out. The string is not: at this point of the stream a replica and an append-only
    /// file have the very same one.
    fn line(
        &self,
        placement: &ClientPlacement,
        capacity_items: u64,
        error_rate: f64,
        growth: Growth,
    ) -> Line<'a> {
        let SchemeParameters { scheme, encoding, shift, probes, size_bits } = placement.parameters();
        let mut arguments = vec![Cow::Borrowed(self.key)];
        match self.origin {
            Origin::Source(key) => arguments.extend([word("SOURCE"), Cow::Borrowed(key)]),
            Origin::Guava(blob) => arguments.extend([word("GUAVA"), Cow::Borrowed(blob)]),
            Origin::Empty => arguments.push(word("EMPTY")),
        }
        if self.scheme.is_some() {
            arguments.extend([word("SCHEME"), word(scheme.name())]);
            arguments.extend([word("BITS"), text(size_bits), word("HASHES"), text(probes)]);
            arguments.extend([word("SHIFT"), text(shift)]);
            arguments.extend([word("ORDER"), word(self.order.unwrap_or(BitOrder::Msb).name())]);
        } else if matches!(self.origin, Origin::Source(_)) {
            arguments.extend([word("SCHEME"), word("guava")]);
        }
        arguments.extend([word("ENCODING"), word(encoding.name())]);
        arguments.extend([word("CAPACITY"), text(capacity_items), word("ERROR"), text(error_rate)]);
        for word in growth_words(growth) {
            arguments.push(word);
        }
        arguments.extend(self.is_replacing.then(|| word("REPLACE")));
        Line { command: "BF.IMPORT", arguments }
    }
}

/// The scheme of a name; none for the bytes of Guava, which tell it.
fn scheme_named(name: &[u8]) -> Result<Option<Scheme>, CommandError> {
    if name.eq_ignore_ascii_case(GUAVA) {
        return Ok(None);
    }
    let unknown = || TransferError::UnknownScheme(String::from_utf8_lossy(name).into_owned());
    Ok(Some(Scheme::from_name(name).ok_or_else(unknown)?))
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
    Ok(value.ok_or(TransferError::BadValue(option))?)
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
    Ok(N::try_from(value).map_err(|_| TransferError::BadValue(option))?)
}

/// BF.EXPORT: the string that the client would have now, items added since the import included. O(bytes).
///
/// # Errors
/// [`TransferError`] when the filter is not a client's any more, or never was.
pub fn export(filter: &Filter) -> Result<Vec<u8>, CommandError> {
    let Filter::Imported(chain) = filter else { return Err(TransferError::NotImported.into()) };
    let (placement, layer) = chain.client_layer().ok_or(TransferError::NotImported)?;
    let layers = chain.layers().len();
    if layers > 1 {
        return Err(TransferError::Grown { layers }.into());
    }
    let form = chain.family().form;
    // Only Guava's own bytes have this order, and they come back in its frame.
    let guava = (form.order == BitOrder::BigEndianWords).then(|| GuavaHeader::of(&placement.parameters()));
    let bytes = match guava.flatten() {
        Some(header) => header.write(layer.bits()),
        None => form.write(layer.bits()),
    };
    Ok(bytes.map_err(|OutOfMemory| TransferError::OutOfMemory)?)
}
