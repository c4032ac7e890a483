//! HOST: the only code that knows the module API, and the only unsafe code.
//!
//! The server enters through [`onload`], then through one handler per command ([`dispatch`]) and the
//! callbacks of the data type ([`datatype`]), of the settings ([`config`]) and of INFO ([`info`]). None of
//! them lets a panic cross into the server. All state of the module beside the filters is in the statics of
//! [`config`], [`memory`], [`stats`], [`log`] and of the data type's handle.

#[macro_use]
mod api;
#[cfg_attr(test, allow(dead_code, reason = "unit tests have the allocator of the crate that they depend on"))]
mod allocator;
mod args;
mod call;
mod claim;
mod commands;
mod config;
mod datatype;
mod dispatch;
mod effects;
mod freeing;
mod huge_pages;
mod info;
mod key;
mod keyspace;
mod load_arguments;
mod load_limit;
mod log;
mod loss;
mod memory;
mod moment;
mod onload;
mod pagemap;
mod permission;
mod random;
mod rdb_io;
mod reply;
mod server;
mod source;
mod stats;
mod stored;
mod worker;
