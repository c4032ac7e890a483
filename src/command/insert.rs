//! BF.INSERT.

use super::adding::add_items;
use super::arguments::Arguments;
use super::change::publish;
use super::creation::CreationOptions;
use super::effects::Effects;
use super::error::CommandError;
use super::keyspace::{Keyspace, OpenKey, Slot};
use super::options::Options;
use super::reply::Reply;
use super::settings::Host;
use super::table::KeyAccess;
use crate::bloom::Format;

/// BF.INSERT: `key [CAPACITY c] [ERROR e] [EXPANSION x] [NOCREATE] [NONSCALING] [SATURATE] [KEYED]
/// [KEY k] [FORMAT f] [COUNTING] [WINDOW s | PWINDOW ms] [NOREFRESH] [AT ms] [SEED s] [TIGHTENING t] [VALIDATESCALETO n] [EX s | PX ms | EXAT s | PXAT
/// ms] ITEMS item [item ...]`. O(items * layers * probes).
///
/// The last of a repeated option counts, and NONSCALING beats EXPANSION, as in RedisBloom. Without ITEMS, as
/// valkey-bloom sends it, only a filter is made; a client has to ask for valkey-bloom's format to do so,
/// because RedisBloom refuses it.
///
/// # Errors
/// The first rule that is broken, from left to right; then what the options say of each other; then that
/// there is no filter to add to and none can be made.
pub(super) fn run<'a>(
    mut arguments: Arguments<'a>,
    keyspace: &impl Keyspace,
    reply: &mut impl Reply,
) -> Result<Effects<'a>, CommandError> {
    let key = arguments.key()?;
    let Insert { items, options, no_create } = Insert::parse(arguments, keyspace)?;
    let mut open = keyspace.open(key, KeyAccess::ReadWrite);
    let change = match open.slot() {
        Slot::Vacant if no_create => return Err(CommandError::NotFound),
        slot => add_items(key.bytes, &items, &options, slot, keyspace, keyspace.prefetch())?,
    };
    let (answers, effects) = publish(&mut open, key, change)?;
    answers.write(reply);
    Ok(effects)
}

/// BF.INSERT with its arguments understood.
#[derive(Debug)]
struct Insert<'a> {
    /// The items; none to make an empty filter.
    items: &'a [&'a [u8]],
    /// What a filter that is not there yet shall be.
    options: CreationOptions,
    /// Whether a filter that is not there is an error.
    no_create: bool,
}

impl<'a> Insert<'a> {
    fn parse(mut arguments: Arguments<'a>, host: &dyn Host) -> Result<Self, CommandError> {
        let mut given = Options::default();
        let has_items = given.read(&mut arguments, Some("ITEMS"), host)?;
        let Options { creation: options, no_create, .. } = given;
        // The format may narrow the range.
        if options.capacity_items.is_some_and(|items| items > options.capacity_max_items(host)) {
            return Err(CommandError::InsertCapacity);
        }
        options.validate(host)?;
        let may_be_empty =
            options.resolved_format(&host.settings()) == Format::ValkeyBloom || host.must_obey();
        let items = if has_items || !may_be_empty { arguments.items()? } else { &[] };
        Ok(Self { items, options, no_create })
    }
}
