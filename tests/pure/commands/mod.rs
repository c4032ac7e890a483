//! The commands without a server: arguments, replies, and effects.

mod chunks;
mod clear;
mod counting;
mod dialogues;
mod import;
mod kinds;
mod limits;
mod merge;
mod panics;
mod replication;
mod settings;
mod statistics;
mod window;
