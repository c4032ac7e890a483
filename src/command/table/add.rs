//! The commands that make a filter, add items to it, delete and empty it: BF.RESERVE, BF.ADD, BF.MADD,
//! BF.INSERT, BF.DEL and BF.CLEAR.

use super::options::{
    AT, CAPACITY, COUNTING, ERROR, EXPANSION, EXPIRY, FORMAT, HASH_KEY, IFNOTEXISTS, KEYED, NOCREATE,
    NONSCALING, NOREFRESH, SATURATE, SEED, TIGHTENING, VALIDATESCALETO, WINDOW,
};
use super::parts::{CHANGES, ITEM, ITEMS, KEY, MANY, V0_2, argument, word};
use super::{ArgumentKind, CommandSpec};

pub(super) static RESERVE: CommandSpec = CommandSpec {
    name: "bf.reserve",
    // Every option once, and a few more for those to come: what is longer is a mistake.
    arguments: 3..=20,
    categories: "write fast",
    complexity: "O(1)",
    summary: "Creates an empty filter with an error rate, a capacity and a way to grow",
    syntax: &[
        KEY,
        argument("error_rate", ArgumentKind::Double),
        argument("capacity", ArgumentKind::Integer),
        EXPANSION,
        NONSCALING,
        SATURATE,
        KEYED,
        FORMAT,
        COUNTING,
        WINDOW,
        NOREFRESH,
        EXPIRY,
        IFNOTEXISTS,
    ],
    ..CHANGES
};

pub(super) static ADD: CommandSpec = CommandSpec {
    name: "bf.add",
    arguments: 2..=2,
    complexity: "O(k * n), where k is the number of probes and n the number of layers",
    summary: "Adds an item to a filter, which is created if it does not exist",
    syntax: &[KEY, ITEM],
    ..CHANGES
};

pub(super) static MADD: CommandSpec = CommandSpec {
    name: "bf.madd",
    arguments: 2..=MANY,
    complexity: "O(m * k * n), where m is the number of items, k of probes and n of layers",
    summary: "Adds items to a filter, which is created if it does not exist",
    syntax: &[KEY, ITEMS],
    ..CHANGES
};

pub(super) static INSERT: CommandSpec = CommandSpec {
    name: "bf.insert",
    arguments: 3..=MANY,
    complexity: "O(m * k * n), where m is the number of items, k of probes and n of layers",
    summary: "Adds items to a filter, which is created with the given parameters if it does not exist",
    syntax: &[
        KEY,
        CAPACITY,
        ERROR,
        EXPANSION,
        NOCREATE,
        NONSCALING,
        SATURATE,
        KEYED,
        HASH_KEY,
        FORMAT,
        COUNTING,
        WINDOW,
        NOREFRESH,
        AT,
        SEED,
        TIGHTENING,
        VALIDATESCALETO,
        EXPIRY,
        word("items", "ITEMS"),
        ITEMS,
    ],
    ..CHANGES
};

pub(super) static CLEAR: CommandSpec = CommandSpec {
    name: "bf.clear",
    arguments: 1..=1,
    // It gives memory back, so it is not refused for want of it.
    flags: "write fast",
    categories: "write fast",
    since: V0_2,
    complexity: "O(1)",
    summary: "Empties a filter, which keeps its parameters and its time to live",
    syntax: &[KEY],
    ..CHANGES
};

pub(super) static DEL: CommandSpec = CommandSpec {
    name: "bf.del",
    arguments: 2..=MANY,
    flags: "write",
    since: V0_2,
    complexity: "O(m * k * n), where m is the number of items, k of probes and n of layers",
    summary: "Deletes items from a filter that counts them",
    syntax: &[KEY, ITEMS],
    ..CHANGES
};
