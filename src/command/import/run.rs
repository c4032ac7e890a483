//! Carrying out BF.IMPORT: the filter that it makes, and the line that replicates it.

use std::borrow::Cow;

use super::error::ImportError;
use super::options::{Import, Origin};
use crate::bloom::estimate::half_full_items;
use crate::bloom::hash::scheme::{ItemEncoding, SchemeParameters};
use crate::bloom::layout::SchemeLayout;
use crate::bloom::limits::CAPACITY_MAX_ITEMS;
use crate::bloom::policy::imported::check_size;
use crate::bloom::policy::{BitOrder, Imported, StringForm};
use crate::bloom::{Cells, Filter, Growth, OutOfMemory};
use crate::command::arguments::Arguments;
use crate::command::change::{Change, publish};
use crate::command::creation::lines::{growth_words, number, word};
use crate::command::effects::{Effects, Line};
use crate::command::error::{CommandError, quotable};
use crate::command::keyspace::{Keyspace, OpenKey, Slot, StringSlot};
use crate::command::reply::Reply;
use crate::command::table::KeyAccess;
use crate::command::words::Word;
use crate::format::client::{GuavaHeader, RedissonConfig, config_key};

/// BF.IMPORT: the grammar is that of `Import::parse`. Makes the filter, whole, or nothing.
/// O(bytes of the string + bits / 8).
///
/// # Errors
/// What the import is refused for; the key is then as it was.
pub(in crate::command) fn run<'a>(
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
    /// Makes the filter and puts it under the key.
    fn run(self, keyspace: &impl Keyspace) -> Result<Effects<'a>, CommandError> {
        let mut open = keyspace.open(self.key, KeyAccess::ReadWrite);
        match open.slot() {
            Slot::WrongType => return Err(CommandError::WrongType),
            Slot::Filter(_) if !self.is_replacing => return Err(CommandError::KeyExists),
            Slot::Filter(_) | Slot::Vacant => {}
        }
        let key = self.key;
        let change = match self.origin {
            Origin::Guava(blob) => self.make(blob, keyspace),
            Origin::Empty => self.make(&[], keyspace),
            Origin::Source(source) => keyspace.with_string(source, |string| match string {
                StringSlot::Bytes(bytes) => self.make(bytes, keyspace),
                StringSlot::Vacant => Err(ImportError::NoSource.into()),
                StringSlot::WrongType => Err(CommandError::WrongType),
            }),
        }?;
        let ((), effects) = publish(&mut open, key, change)?;
        Ok(effects)
    }

    /// Makes the filter, whole, of the bytes that its origin has, and says how it is replicated.
    fn make(mut self, bytes: &[u8], keyspace: &impl Keyspace) -> Result<Change<'a, ()>, CommandError> {
        self.complete(keyspace)?;
        let layout = SchemeLayout::new(self.parameters(bytes)?).map_err(ImportError::Scheme)?;
        check_size(&layout, keyspace).map_err(CommandError::Reserve)?;
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
        let line = self.line(&layout, capacity_items, error_rate, growth);
        let policy = Imported { form, estimated_items: 0, error_rate, growth };
        let filter = Filter::import(layout, bits, capacity_items, policy).ok_or(ImportError::OutOfMemory)?;
        Ok(Change::made(Box::new(filter), vec![line]).expiring(self.filter.expires_at_ms))
    }

    /// Takes from Redisson's settings what the options do not say.
    fn complete(&mut self, keyspace: &impl Keyspace) -> Result<(), CommandError> {
        let Origin::Source(source) = self.origin else { return Ok(()) };
        if !self.has_settings() || (self.string.size_bits.is_some() && self.string.probes.is_some()) {
            return Ok(());
        }
        let key = config_key(source.bytes).map_err(|OutOfMemory| ImportError::OutOfMemory)?;
        let config = RedissonConfig::read(|field| keyspace.field(&key, field))
            .map_err(|field| ImportError::NoSettings { key: quotable(&key), field })?;
        self.string.size_bits = self.string.size_bits.or(Some(config.size_bits));
        self.string.probes = self.string.probes.or(Some(config.probes));
        let capacity_items = config.capacity_items.map(|items| items.min(CAPACITY_MAX_ITEMS));
        self.filter.capacity_items = self.filter.capacity_items.or(capacity_items);
        Ok(())
    }

    /// What the options, or Guava's bytes, say of the scheme.
    fn parameters(&self, bytes: &[u8]) -> Result<SchemeParameters, ImportError> {
        let encoding = self.string.encoding.unwrap_or(ItemEncoding::Raw);
        let Some(scheme) = self.string.scheme else {
            return Ok(GuavaHeader::decode(bytes).map_err(ImportError::Guava)?.parameters(encoding));
        };
        let size_bits = self.string.size_bits.ok_or(ImportError::Missing("BITS"))?;
        let probes = self.string.probes.or(scheme.fixed_probes()).ok_or(ImportError::Missing("HASHES"))?;
        Ok(SchemeParameters { scheme, encoding, shift: self.string.shift.unwrap_or(0), probes, size_bits })
    }

    fn read(&self, bytes: &[u8], layout: &SchemeLayout) -> Result<(StringForm, Cells), ImportError> {
        if self.string.scheme.is_none() {
            let encoding = layout.parameters().encoding;
            let (_, form, bits) = GuavaHeader::read(bytes, encoding).map_err(ImportError::Guava)?;
            return Ok((form, bits));
        }
        let order = self.string.order.unwrap_or(BitOrder::Msb);
        StringForm::read(bytes, order, layout.array_bits()).map_err(ImportError::String)
    }

    /// The import with everything spelt out. The string is not: at this point of the stream a replica and
    /// an append-only file have the very same one.
    fn line(&self, layout: &SchemeLayout, capacity_items: u64, error_rate: f64, growth: Growth) -> Line<'a> {
        let SchemeParameters { scheme, encoding, shift, probes, size_bits } = layout.parameters();
        let mut arguments = vec![Cow::Borrowed(self.key.bytes)];
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
        for word in growth_words(growth) {
            arguments.push(word);
        }
        arguments.extend(self.is_replacing.then(|| word("REPLACE")));
        Line { command: "BF.IMPORT", arguments }
    }
}
