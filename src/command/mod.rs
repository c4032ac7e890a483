//! LANGUAGE: what each `BF.*` command means. Arguments in, replies and effects out; never a raw key.
//!
//! A command goes through three steps. [`Request::parse`] reads all arguments; a request that exists is valid. The
//! host then opens the key and says what is there, a [`Slot`]. Last, [`Query::run`] or [`Change::run`] acts, replies
//! and, for a change, answers with the [`Effects`] that the host is to carry out.
#![forbid(unsafe_code)]

pub mod add;
pub mod arguments;
pub mod change;
pub mod creation;
pub mod docs;
pub mod dump;
pub mod effects;
pub mod error;
pub mod export;
pub mod import;
pub mod info;
pub mod number;
pub mod query;
pub mod reply;
pub mod request;
pub mod reserve;
pub mod settings;
pub mod table;

pub use change::Change;
pub use effects::{Effects, Line, Replication};
pub use error::CommandError;
pub use import::Import;
pub use query::Query;
pub use reply::{Protocol, Reply};
pub use request::Request;
pub use settings::{Host, Settings};
pub use table::{COMMANDS, Command};

/// What the host found under a key: nothing, a filter (shared or exclusive, as asked), or another type of value.
#[derive(Debug)]
pub enum Slot<F> {
    /// No such key.
    Vacant,
    /// A filter.
    Filter(F),
    /// A value of another type.
    WrongType,
}
