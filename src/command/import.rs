//! BF.IMPORT and BF.EXPORT: a filter from a client's bitmap in a string, and back.

use std::borrow::Cow;

use super::arguments::Arguments;
use super::effects::{Effects, KeyChange, publish};
use super::error::{CommandError, ImportError, quotable};
use super::keyspace::{Host, KeyName, KeyValue, Keyspace, ReadKey, Reply, Value, WriteKey};
use super::options::{CommandOptions, CreationOptions, GUAVA, ImportOptions};
use super::replicated::{ArgumentList, ReplicatedCommand, growth_words, number, word};
use super::spare::Spare;
use super::words::Word;
use everbloom_filter::bits::estimate::half_full_items;
use everbloom_filter::bits::layout::SchemeLayout;
use everbloom_filter::encoding::ItemEncoding;
use everbloom_filter::filter::policy::imported::clients_layer;
use everbloom_filter::filter::policy::{BitOrder, Imported, StringForm};
use everbloom_filter::hash::scheme::{Scheme, SchemeParameters};
use everbloom_filter::limits::CAPACITY_MAX_ITEMS;
use everbloom_filter::{BitArray, Filter, Footprint, Growth, OutOfMemory};
use everbloom_format::client::{GuavaHeader, RedissonConfig, bitmap, config_key};

/// The source of the client's bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin<'a> {
    /// The string at this key.
    Source(KeyName<'a>),
    /// An argument that Guava's `writeTo` wrote.
    Guava(&'a [u8]),
    /// No bits: all are clear.
    Empty,
}

/// The arguments of BF.IMPORT.
#[derive(Debug)]
struct Import<'a> {
    key: KeyName<'a>,
    origin: Origin<'a>,
    /// The options that describe the string.
    string: ImportOptions,
    /// The options of the new filter.
    filter: CreationOptions,
    /// REPLACE.
    is_replacing: bool,
}

impl<'a> Import<'a> {
    /// Reads `SOURCE key | GUAVA bytes | EMPTY`, then in any order `[SCHEME scheme] [BITS m] [HASHES k] [CAPACITY n]
    /// [SHIFT s] [ORDER msb|lsb] [ENCODING encoding] [ERROR rate] [EXPANSION x] [NONSCALING] [REPLACE] [EX s | PX ms
    /// | EXAT s | PXAT ms]`. A repeated option replaces the one before it.
    ///
    /// # Errors
    /// The first bad argument from left to right. If all are good: a missing option.
    fn parse(mut arguments: Arguments<'a>, host: &dyn Host) -> Result<Self, CommandError> {
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
        let mut given = CommandOptions::default();
        given.read(&mut arguments, None, host)?;
        let CommandOptions { creation: filter, import: string, is_replacing, .. } = given;
        let import = Self { key, origin, string, filter, is_replacing };
        import.validate()?;
        Ok(import)
    }

    /// Checks that the options can be combined and are complete.
    fn validate(&self) -> Result<(), CommandError> {
        if self.filter.is_fixed && self.filter.expansion.is_some_and(|expansion| expansion != 0) {
            return Err(CommandError::ReserveFixedExpansion);
        }
        let is_guava = matches!(self.origin, Origin::Guava(_));
        if self.string.has_scheme == is_guava {
            let error = if is_guava { ImportError::SelfDescribing } else { ImportError::Missing("SCHEME") };
            return Err(error.into());
        }
        if self.string.scheme.is_none() {
            // Guava's bytes contain the parameters. An empty filter has no bytes.
            let ImportOptions { size_bits, probes, shift, order, .. } = self.string;
            let repeats = size_bits.is_some() || probes.is_some() || shift.is_some() || order.is_some();
            return if repeats || self.origin == Origin::Empty {
                Err(ImportError::SelfDescribing.into())
            } else {
                Ok(())
            };
        }
        if !self.has_settings() {
            self.parameters(&[])?;
        }
        Ok(())
    }

    /// Returns whether missing options can be read from Redisson's settings.
    fn has_settings(&self) -> bool {
        self.string.scheme == Some(Scheme::Redisson) && matches!(self.origin, Origin::Source(_))
    }
}

/// BF.IMPORT: the grammar is at `Import::parse`. O(bytes of the string + bits / 8).
///
/// # Errors
/// The import is refused. The key is unchanged.
pub(super) fn import<'a>(
    arguments: Arguments<'a>,
    keyspace: &impl Keyspace,
    reply: &mut impl Reply,
) -> Result<Effects<'a>, CommandError> {
    let import = Import::parse(arguments, keyspace)?;
    let (key, origin) = (import.key, import.origin);
    if let Origin::Source(source) = origin {
        keyspace.may_read(source, key)?;
    }
    let effects = import.run(keyspace).map_err(|error| {
        let is_elsewhere = match (&error, origin) {
            (CommandError::Import(ImportError::NoSource), Origin::Source(source)) => {
                keyspace.may_be_migrating(source.bytes, key)
            }
            (CommandError::Import(ImportError::NoSettings { .. }), Origin::Source(source)) => {
                config_key(source.bytes).is_ok_and(|config| keyspace.may_be_migrating(&config, key))
            }
            _ => false,
        };
        if is_elsewhere { CommandError::SourceMoving } else { error }
    })?;
    reply.simple("OK");
    Ok(effects)
}

impl<'a> Import<'a> {
    /// Creates the filter and puts it under the key.
    fn run(self, keyspace: &impl Keyspace) -> Result<Effects<'a>, CommandError> {
        let mut open = keyspace.open_to_write(self.key);
        match open.slot() {
            KeyValue::WrongType => return Err(CommandError::WrongType),
            KeyValue::Present(_) | KeyValue::Loading if !self.is_replacing => {
                return Err(CommandError::KeyExists);
            }
            KeyValue::InUse => return Err(CommandError::InUse),
            KeyValue::Present(_) | KeyValue::Loading | KeyValue::Vacant => {}
        }
        let key = self.key;
        let change = match self.origin {
            Origin::Guava(blob) => self.create(blob, keyspace),
            Origin::Empty => self.create(&[], keyspace),
            Origin::Source(source) => keyspace.with_string(source, |string| match string {
                KeyValue::Present(bytes) => self.create(bytes, keyspace),
                KeyValue::Vacant => Err(ImportError::NoSource.into()),
                KeyValue::WrongType | KeyValue::Loading | KeyValue::InUse => Err(CommandError::WrongType),
            }),
        }?;
        publish(&mut open, key, change)
    }

    /// Returns the change that creates the filter with the bits in `bytes`, the content of the origin.
    fn create(mut self, bytes: &[u8], keyspace: &impl Keyspace) -> Result<KeyChange<'a>, CommandError> {
        self.complete(keyspace)?;
        let layout = SchemeLayout::new(self.parameters(bytes)?).map_err(ImportError::Scheme)?;
        let planned = Footprint::default().with_layer_spec(&clients_layer(layout, 1));
        planned.check(keyspace).map_err(CommandError::Reserve)?;
        let (form, bits) = self.read(bytes, &layout)?;
        let settings = keyspace.settings();
        let probes = layout.parameters().probes;
        let capacity_items = self
            .filter
            .capacity_items
            .unwrap_or_else(|| half_full_items(layout.array_bits(), probes).min(CAPACITY_MAX_ITEMS));
        let error_rate = self.filter.error_rate.unwrap_or(settings.error_rate);
        let growth = if self.filter.is_fixed {
            Growth::Fixed
        } else {
            Growth::from_expansion(self.filter.expansion.unwrap_or(settings.expansion_factor))
        };
        let command = self.replicated(&layout, capacity_items, error_rate, growth);
        let policy = Imported { form, estimated_items: 0, error_rate, growth };
        let filter = Filter::import(layout, bits, capacity_items, policy).ok_or(CommandError::OutOfMemory)?;
        Ok(KeyChange::created(Value::Filter(Box::new(filter)), vec![command], self.filter.expires_at_ms))
    }

    /// Reads missing options from Redisson's settings.
    fn complete(&mut self, keyspace: &impl Keyspace) -> Result<(), CommandError> {
        let Origin::Source(source) = self.origin else { return Ok(()) };
        if !self.has_settings() || (self.string.size_bits.is_some() && self.string.probes.is_some()) {
            return Ok(());
        }
        let key = config_key(source.bytes).map_err(|OutOfMemory| CommandError::OutOfMemory)?;
        let config = RedissonConfig::read(|field| keyspace.field(&key, field))
            .map_err(|field| ImportError::NoSettings { key: quotable(&key), field })?;
        self.string.size_bits = self.string.size_bits.or(Some(config.size_bits));
        self.string.probes = self.string.probes.or(Some(config.probes));
        let capacity_items = config.capacity_items.map(|items| items.min(CAPACITY_MAX_ITEMS));
        self.filter.capacity_items = self.filter.capacity_items.or(capacity_items);
        Ok(())
    }

    /// Returns the parameters of the scheme, from the options or Guava's bytes.
    fn parameters(&self, bytes: &[u8]) -> Result<SchemeParameters, ImportError> {
        let encoding = self.string.encoding.unwrap_or(ItemEncoding::Raw);
        let Some(scheme) = self.string.scheme else {
            return Ok(GuavaHeader::decode(bytes).map_err(ImportError::Guava)?.parameters(encoding));
        };
        let size_bits = self.string.size_bits.ok_or(ImportError::Missing("BITS"))?;
        let probes = self.string.probes.or(scheme.fixed_probes()).ok_or(ImportError::Missing("HASHES"))?;
        Ok(SchemeParameters { scheme, encoding, shift: self.string.shift.unwrap_or(0), probes, size_bits })
    }

    fn read(&self, bytes: &[u8], layout: &SchemeLayout) -> Result<(StringForm, BitArray), ImportError> {
        if self.string.scheme.is_none() {
            let encoding = layout.parameters().encoding;
            let (_, form, bits) = GuavaHeader::read(bytes, encoding).map_err(ImportError::Guava)?;
            return Ok((form, bits));
        }
        let order = self.string.order.unwrap_or(BitOrder::Msb);
        bitmap::read(bytes, order, layout.array_bits()).map_err(ImportError::String)
    }

    /// Returns the import with every option explicit. The string is not part of it: at this point of the replication
    /// stream a replica has the same string.
    fn replicated(
        &self,
        layout: &SchemeLayout,
        capacity_items: u64,
        error_rate: f64,
        growth: Growth,
    ) -> ReplicatedCommand<'a> {
        let SchemeParameters { scheme, encoding, shift, probes, size_bits } = layout.parameters();
        let mut arguments: ArgumentList<'a> = vec![Cow::Borrowed(self.key.bytes)];
        match self.origin {
            Origin::Source(key) => arguments.extend([word("SOURCE"), Cow::Borrowed(key.bytes)]),
            Origin::Guava(blob) => arguments.extend([word("GUAVA"), Cow::Borrowed(blob)]),
            Origin::Empty => arguments.push(word("EMPTY")),
        }
        if self.string.scheme.is_some() {
            arguments.extend([word("SCHEME"), word(scheme.word())]);
            arguments.extend([word("BITS"), number(size_bits), word("HASHES"), number(probes)]);
            arguments.extend([word("SHIFT"), number(shift)]);
            arguments.extend([word("ORDER"), word(self.string.order.unwrap_or(BitOrder::Msb).word())]);
        } else if matches!(self.origin, Origin::Source(_)) {
            arguments.extend([word("SCHEME"), word("guava")]);
        }
        arguments.extend([word("ENCODING"), word(encoding.word())]);
        arguments.extend([word("CAPACITY"), number(capacity_items), word("ERROR"), number(error_rate)]);
        arguments.extend(growth_words(growth));
        arguments.extend(self.is_replacing.then(|| word("REPLACE")));
        ReplicatedCommand { command: "BF.IMPORT", arguments }
    }
}

/// BF.EXPORT: `key`. Replies the string of an imported filter, with the items added since the import. O(bytes).
pub(super) fn export<'a>(
    mut arguments: Arguments<'a>,
    keyspace: &impl Keyspace,
    reply: &mut impl Reply,
) -> Result<Effects<'a>, CommandError> {
    let key = keyspace.open_to_read(arguments.key()?);
    let bytes = exported(key.slot().required()?)?;
    Spare::for_copy(bytes.len())?.free();
    reply.bulk(&bytes);
    Ok(Effects::default())
}

/// Returns the string of an imported filter.
fn exported(filter: &Filter) -> Result<Vec<u8>, CommandError> {
    let form = filter.policy().imported().ok_or(ImportError::NotImported)?.form;
    let (layout, layer) = filter.clients_layer().ok_or(ImportError::NotImported)?;
    if filter.part_count() > 1 {
        return Err(ImportError::Grown.into());
    }
    // Only Guava's own bytes have this order. They are exported with Guava's header.
    let guava = (form.order == BitOrder::BigEndianWords).then(|| GuavaHeader::of(&layout.parameters()));
    let bytes = match guava.flatten() {
        Some(header) => header.write(layer.bits()),
        None => bitmap::write(form, layer.bits()),
    };
    Ok(bytes.map_err(ImportError::Export)?)
}
