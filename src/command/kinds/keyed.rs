//! Keyed filters in the words of commands: as of others of our own, and the key only where a filter is made.

use std::borrow::Cow;

use super::everbloom;
use super::facts::{Profile, Reservation};
use crate::bloom::{Chain, Keyed};
use crate::command::creation::lines::{Creation, word};

pub(super) fn profile(chain: &Chain<Keyed>) -> Profile {
    Profile { is_keyed: true, ..everbloom::profile(chain.family().parameters, chain.layers()) }
}

pub(super) fn reservation(chain: &Chain<Keyed>, capacity_items: u64) -> Option<Reservation> {
    everbloom::reservation(chain.family().parameters, capacity_items, " KEYED")
}

/// With the key: a replica has to hash alike.
pub(super) fn creation(family: &Keyed) -> Creation {
    let mut creation = everbloom::creation(&family.parameters);
    creation.words.extend([word("KEY"), Cow::Owned(family.key.bytes().to_vec())]);
    creation
}
