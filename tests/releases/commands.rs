//! Append-only files, as they grew and as they were rewritten: every command is understood and makes the same
//! filter.

use everbloom::command::Settings;

use crate::server::Server;
use crate::support::recording::{Command, Recorded, recordings};
use crate::{assert_answers, assert_same, restored};

/// A server with other defaults than the one that wrote the file.
fn reader() -> Server {
    let mut server = Server::new();
    server.settings =
        Settings { error_rate: 0.2, expansion_factor: 0, max_filter_bytes: 1, ..Settings::DEFAULT };
    server.must_obey = true;
    server
}

/// Runs the commands that are ours; those of the server itself are few.
fn replay(recorded: &Recorded, commands: &[Command]) {
    let mut server = reader();
    for command in commands {
        let words: Vec<&[u8]> = command.iter().map(Vec::as_slice).collect();
        match words.as_slice() {
            [b"MULTI" | b"EXEC"] => {}
            [b"SET", key, value] => {
                server.strings.insert(key.to_vec(), value.to_vec());
            }
            words => {
                let reply = server.call(words);
                assert!(!reply.starts_with('-') && !reply.contains(" -"), "{}: {reply}", recorded.name);
            }
        }
    }
    let filter = &server.keys[recorded.name.as_bytes()];
    assert_same(filter, &restored(recorded), &recorded.name);
    assert_answers(filter, recorded);
}

#[test]
fn a_file_that_grew_makes_every_filter() {
    let mut replayed = 0;
    // The server itself carries RESTORE out.
    for recorded in recordings().filter(|recorded| recorded.grown[0][0] != b"RESTORE") {
        replay(&recorded, &recorded.grown);
        replayed += 1;
    }
    assert!(replayed >= 70, "{replayed}");
}

#[test]
fn a_file_that_was_rewritten_makes_every_filter() {
    recordings().for_each(|recorded| replay(&recorded, &recorded.rewritten));
}
