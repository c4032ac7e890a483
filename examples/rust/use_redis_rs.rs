//! redis-rs: `cmd` sends every command, without the feature `bloom`. With `?protocol=resp3` at the end of `url`, replies
//! are booleans, which convert to the same types.
//!
//! cargo new seen && cd seen && cargo add redis    and this file as src/main.rs
//! cargo run -- redis://127.0.0.1:6379

use std::env;

use redis::{Client, RedisResult, cmd};

fn main() -> RedisResult<()> {
    run(&env::args().nth(1).expect("the address of a server"))
}

pub(crate) fn run(url: &str) -> RedisResult<()> {
    let mut connection = Client::open(url)?.get_connection()?;
    let options = ("EX", 86_400, "IFNOTEXISTS");
    cmd("BF.RESERVE").arg("seen").arg(0.001).arg(1_000_000).arg(options).exec(&mut connection)?;
    // True: the item is new. False: it is present, or a false positive.
    let is_new: bool = cmd("BF.ADD").arg("seen").arg("alice").query(&mut connection)?;
    // False is certain.
    let is_there: bool = cmd("BF.EXISTS").arg("seen").arg("bob").query(&mut connection)?;
    assert!(is_new && !is_there);
    let items = ["alice", "bob", "carol"];
    let added: Vec<bool> = cmd("BF.MADD").arg("seen").arg(&items).query(&mut connection)?;
    assert_eq!(added, [false, true, true]);

    // An error of one item fails the whole batch, although the items before it were added. Look them up.
    cmd("BF.RESERVE").arg("tickets").arg(0.01).arg(2).arg("NONSCALING").exec(&mut connection)?;
    let replies: RedisResult<Vec<bool>> =
        cmd("BF.MADD").arg("tickets").arg(&[1, 2, 3]).query(&mut connection);
    assert!(replies.is_err_and(|error| error.to_string().contains("full")));
    let there: Vec<bool> = cmd("BF.MEXISTS").arg("tickets").arg(&[1, 2, 3]).query(&mut connection)?;
    assert_eq!(there, [true, true, false]);
    Ok(())
}
