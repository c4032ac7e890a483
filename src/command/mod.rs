//! LANGUAGE: what each `BF.*` command means. Arguments in, replies and effects out; never a raw key.
//!
//! [`execute()`] is the one way of a command. It reads all arguments, opens keys through a [`Keyspace`],
//! which says no more of them than "vacant", "a filter" or "another type", acts, puts a filter that was
//! made, by now complete, in its place, replies, and answers with the [`Effects`] that the host is to carry
//! out. The module `redis` and the tests run the same function.
#![forbid(unsafe_code)]

mod add;
mod adding;
mod advice;
pub mod arguments;
mod bulk;
mod card;
mod change;
mod clear;
pub mod creation;
mod debug;
mod delete;
pub mod docs;
pub mod effects;
pub mod error;
mod execute;
mod exists;
mod expiry;
mod export;
mod facts;
pub mod import;
mod info;
mod insert;
pub mod keyspace;
mod load;
mod load_chunk;
mod merge;

pub mod number;
pub mod options;
mod outcomes;
pub mod reply;
mod reserve;
mod scan_dump;
pub mod settings;
mod statistics;
pub mod table;
mod text;
mod value;
mod window;
pub mod words;

pub use advice::growth_line;
pub use effects::{Effects, Line, Replication};
pub use error::CommandError;
pub use execute::{execute, refuse};
pub use keyspace::{Keyspace, Name, OpenKey, Slot, StringSlot};
pub use reply::{Protocol, Reply};
pub use settings::{Host, Settings};
pub use table::{COMMANDS, Command};
