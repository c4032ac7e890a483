//! The commands without a server: arguments, replies, and effects.

mod bulk;
mod chunks;
mod clear;
mod counting;
mod dialogues;
mod expiry;
mod grammar;
mod import;
mod keyed;
mod kinds;
mod merge;
mod panics;
mod promise;
mod replication;
mod replies;
mod saturation;
mod statistics;
mod united;
mod window;
