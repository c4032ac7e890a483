//! The data types: what the server does with a filter beside commands.
//!
//! A value of a type is always a [`Stored`](super::stored::Stored) in a box of its own that the server holds
//! as a bare pointer: made by [`Key`](super::key::Key), [`snapshot::load`] or
//! [`memory::copy`], ended by [`memory::free`]. The callbacks are the same for all types; which kinds of
//! filters there are is the business of [`format::filter`](crate::format::filter).

mod defrag;
mod digest;
mod memory;
mod registration;
mod rewrite;
mod snapshot;
mod value;

pub(super) use registration::{handle, is_ours, register};
