//! The `BF.*` commands: arguments in, replies and effects out.
//!
//! [`execute()`] runs a command. It reads all arguments and opens keys through a [`Keyspace`], where a key is
//! "vacant", "a filter" or "another type". The command acts, publishes a new filter when it is complete, and replies.
//! It returns [`Effects`] for the host. The module `redis` and the tests call the same function.
#![forbid(unsafe_code)]

mod add;
mod adding;
mod advice;
pub mod arguments;
mod bulk;
mod chunks;
mod creation;
mod debug;
mod delete;
pub mod effects;
pub mod error;
mod execute;
mod exists;
mod facts;
mod import;
mod info;
pub mod keyspace;
mod memory;
mod merge;
pub mod number;
pub mod options;
mod outcomes;
mod refusals;
mod replicated;
pub mod reply;
mod reserve;
mod statistics;
pub mod table;
mod window;
pub mod words;

pub use advice::growth_line;
pub use effects::{Effects, Replication};
pub use error::CommandError;
pub use execute::{end_after_panic, execute, refuse};
pub use keyspace::{Host, KeyName, KeyValue, Keyspace, OpenKey, Settings};
pub use refusals::Refusals;
pub use replicated::ReplicatedCommand;
pub use reply::{Protocol, Reply};
pub use table::{COMMANDS, Command};
