//! The adapter to the server: the only code that calls the module API.
//!
//! The server calls [`onload`], then one handler per command ([`dispatch`]) and the callbacks of the data types
//! ([`datatype`]), the settings ([`config`]) and INFO ([`info`]). None of them lets a panic cross into the server.
//! Apart from the filters, the state of the module is in the statics of [`config`], [`memory`], [`stats`], [`log`],
//! [`huge_pages`] and [`datatype`].

#[macro_use]
mod api;
#[cfg_attr(test, allow(dead_code, reason = "unit tests have the allocator of the crate that they depend on"))]
mod allocator;
mod args;
mod commands;
mod config;
mod datatype;
mod dispatch;
mod effects;
mod huge_pages;
mod key;
mod keyspace;
mod log;
mod memory;
mod onload;
mod pagemap;
mod reply;
mod server;
mod stats;
mod stored;
