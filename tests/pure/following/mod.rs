//! Copies that follow a filter by BF.FOLLOW.

mod histories;
mod own_adds;
mod replies;
mod rings;

use std::hash::{DefaultHasher, Hash, Hasher};

use everbloom::{CommandReply, FilterCopy, FollowError, FollowProgress, Follower};
use everbloom_filter::{Filter, UnknownMemory};

use crate::support::server::Server;

/// Returns the reply of the last command as a client reads it.
fn reply_of(server: &Server) -> CommandReply {
    let mut values = server.reply.iter().map(|word| match word.split_at(1) {
        ("-", text) => CommandReply::Error(text.to_owned()),
        (":", number) => CommandReply::Integer(number.parse().unwrap()),
        ("_", _) => CommandReply::Nil,
        ("$", _) => CommandReply::Bytes(server.bulk.clone()),
        other => panic!("{other:?}"),
    });
    if server.reply[0].starts_with('*') {
        let values = server.reply[1..].iter().map(|word| match word.split_at(1) {
            (":", number) => CommandReply::Integer(number.parse().unwrap()),
            ("_", _) => CommandReply::Nil,
            ("$", _) => CommandReply::Bytes(server.bulk.clone()),
            other => panic!("{other:?}"),
        });
        return CommandReply::Array(values.collect());
    }
    values.next().unwrap()
}

/// Returns a number that differs if filters differ: [`everbloom::BloomFilter::digest`].
fn digest(filter: &Filter) -> u64 {
    let mut digest = DefaultHasher::new();
    everbloom_format::filter::digest(filter, UnknownMemory, &mut |bytes| bytes.hash(&mut digest));
    digest.finish()
}

/// A copy of the filter `key` of a simulated server.
struct Near {
    follower: Follower,
    copy: Option<FilterCopy>,
    loads: u64,
    lost: u64,
    record_bytes: u64,
}

impl Near {
    fn new(key: &str) -> Self {
        Self { follower: Follower::new(key), copy: None, loads: 0, lost: 0, record_bytes: 0 }
    }

    /// Sends one command. Returns whether the copy is up to date.
    fn step(&mut self, server: &mut Server) -> Result<bool, FollowError> {
        let command = self.follower.command();
        server.call(&crate::support::slices(&command));
        match self.follower.take(reply_of(server))? {
            FollowProgress::Part => {}
            FollowProgress::Loaded(copy) => {
                self.copy = Some(copy);
                self.loads += 1;
            }
            FollowProgress::Changes { records, .. } => {
                self.record_bytes += records.len() as u64;
                self.copy.as_mut().unwrap().apply(&records)?;
            }
            FollowProgress::Lost => self.lost += 1,
            FollowProgress::Missing => {
                self.copy = None;
                return Ok(true);
            }
            FollowProgress::Current => return Ok(true),
        }
        Ok(false)
    }

    /// Sends commands until the copy is up to date. Returns its digest.
    fn catch_up(&mut self, server: &mut Server) -> u64 {
        for _ in 0..10_000 {
            if self.step(server).unwrap() {
                return self.copy.as_ref().map_or(0, |copy| copy.filter().digest());
            }
        }
        panic!("the copy never catches up");
    }
}
