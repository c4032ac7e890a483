//! Keyed filters in the words of commands: as of others of our own, and the key only where a filter is made.

use std::borrow::Cow;

use super::everbloom;
use crate::bloom::Keyed;
use crate::command::creation::lines::{Creation, word};

/// With the key: a replica has to hash alike.
pub(super) fn creation(family: &Keyed) -> Creation {
    let mut creation = everbloom::creation(&family.parameters);
    creation.words.extend([word("KEY"), Cow::Owned(family.key.bytes().to_vec())]);
    creation
}
