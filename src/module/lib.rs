//! The adapter to the server: the only code that calls the module API. The way of a command through the files:
//!
//! 1. `onload` has registered the handlers (`commands`), data types (`datatype`), settings (`config`) and INFO
//!    (`stats`).
//! 2. The server calls a handler of `dispatch`, which catches panics. `args` borrows the arguments.
//! 3. `dispatch` calls [`execute`](everbloom_command::execute()), with a `keyspace` and a `reply` of this server.
//! 4. The keyspace opens a `key`. The value of a key is a filter with state that only this server needs (`stored`).
//!    Limits come from `memory` and `cgroup`, clock and random numbers from `server`.
//! 5. When a filter has changed, `stored` updates the totals of `stats` and requests `huge_pages`.
//! 6. `effects` replicates the command, signals the key, and notifies events. `log` writes lines about the filter.
//!
//! Apart from the filters, the state of the module is in statics of `config`, `memory`, `stats`, `log`, `huge_pages`,
//! `followers`, `effects`, `headroom`, `datatype`, `allocator` and `onload`. `allocator` allocates all memory of the
//! module, if `headroom` has it.

#[macro_use]
mod api;
mod allocator;
mod args;
mod cgroup;
mod claims;
mod commands;
mod config;
mod datatype;
mod dispatch;
mod effects;
mod followers;
mod headroom;
mod huge_pages;
mod key;
mod keyspace;
mod log;
mod memory;
mod onload;
mod pace;
mod pagemap;
mod reply;
mod reserved;
mod server;
mod stats;
mod stored;
