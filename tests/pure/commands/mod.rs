//! The commands without a server: arguments, replies, and effects.

mod chunks;
mod clear;
mod forged;
mod full;
mod import;
mod kinds;
mod lives;
mod merge;
mod panics;
mod rare;
mod replication;
mod settings;
mod statistics;
mod window;

use crate::support::dialogues::arity::{arity_error, wrong_arity};
use crate::support::dialogues::{dialogues, replicated, simulated};
use crate::support::processors::TASKS;
use crate::support::server::Server;

#[test]
fn every_dialogue_has_its_replies_and_an_error_changes_nothing() {
    dialogues().iter().for_each(simulated::run);
}

#[test]
fn too_few_and_too_many_words_are_an_error() {
    let mut server = Server::new();
    for line in wrong_arity() {
        assert_eq!(server.run(&line), arity_error(&line), "{line}");
    }
    assert!(server.keys.is_empty() && server.replicated.is_empty());
}

#[test]
fn only_changes_are_replicated_and_notified() {
    let mut server = Server::new();
    for (sent, replicated) in replicated() {
        server.replicated.clear();
        server.events.clear();
        server.run(&sent);
        assert_eq!(server.replicated.join("|"), replicated, "{sent}");
        assert_eq!(server.events.is_empty(), replicated.is_empty(), "{sent}: {:?}", server.events);
    }
}

#[test]
fn commands_run_with_the_instructions_of_this_machine_and_without() {
    let mut server = Server::new();
    for item in 0..100 {
        assert_eq!(server.run(&format!("BF.ADD k {item}")), "#t");
    }
    let [fast, portable] = TASKS.get();
    assert!(fast >= 50 && portable >= 50, "{fast} tasks with the instructions, {portable} without");
}
