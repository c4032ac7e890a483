//! From arguments to a valid request.

use super::arguments::Arguments;
use super::change::Change;
use super::dump::{Load, LoadChunk};
use super::error::CommandError;
use super::import::Import;
use super::number::parse_integer;
use super::query::Query;
use super::reserve::{Insert, Reserve};
use super::settings::Host;
use super::table::Command;

/// A command with all its arguments understood.
#[derive(Debug)]
pub enum Request<'a> {
    /// Reads a filter.
    Query(Query<'a>),
    /// May change a filter.
    Change(Change<'a>),
    /// Makes a filter of what another key holds.
    Import(Box<Import<'a>>),
}

impl<'a> Request<'a> {
    /// Reads the arguments of `command`; `argv` is what follows the command's name, the key first. O(arguments), and O(1)
    /// for items, which are borrowed.
    ///
    /// # Errors
    /// The first rule of the command's grammar that is broken.
    #[inline(always)]
    pub fn parse(command: Command, argv: &'a [&'a [u8]], host: &dyn Host) -> Result<Self, CommandError> {
        let mut arguments = Arguments::new(argv, command)?;
        let key = arguments.required()?;
        Ok(match command {
            Command::Reserve => {
                Self::Change(Change::Reserve(Box::new(Reserve::parse(key, arguments, host)?)))
            }
            Command::Add => Self::Change(Change::Add { key, item: arguments.required()? }),
            Command::MAdd => Self::Change(Change::AddMany { key, items: arguments.items()? }),
            Command::Insert => Self::Change(Change::Insert(Box::new(Insert::parse(key, arguments, host)?))),
            Command::LoadChunk => {
                let iterator = parse_integer(arguments.required()?).ok_or(CommandError::LoadChunkIterator)?;
                Self::Change(Change::LoadChunk(LoadChunk { iterator, data: arguments.required()? }))
            }
            Command::Load => Self::Change(Change::Load(Load { blob: arguments.required()? })),
            Command::Import => Self::Import(Box::new(Import::parse(key, arguments)?)),
            Command::Export => Self::Query(Query::Export),
            Command::Exists => Self::Query(Query::Exists { item: arguments.required()? }),
            Command::MExists => Self::Query(Query::ExistsMany { items: arguments.items()? }),
            Command::Card => Self::Query(Query::Card),
            Command::Info => Self::Query(Query::Info { field: arguments.optional() }),
            Command::Debug => Self::Query(Query::Debug),
            Command::ScanDump => Self::Query(Query::ScanDump { iterator: arguments.required()? }),
        })
    }
}
